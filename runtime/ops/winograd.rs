//! 3x3 convolution of stride 1 by Winograd's algorithm, F(2,3) and F(4,3).
//!
//! An output of `tile` times `tile` pixels takes `(tile + 2)²` multiplications a channel instead of
//! `9 · tile²`. The loops, from the outside: threads, blocks of tiles, then (transform of the
//! block's inputs to frequencies) runs of panels of weights, frequencies, panels (one matrix
//! product each, over the block's tiles, with the implicit GEMM's kernels), then the run's outputs
//! are transformed back while they are in the cache. Weights are used once a block, so each product
//! fetches those of the next. The scratch is one block of transformed inputs and one run of
//! products, whatever the map's size. A step with less scratch than it wants has smaller blocks,
//! down to a few tiles, and comes back to its weights more often; if it transforms them itself, it
//! can go through the input channels in [channel blocks](ChannelBlocks) instead, with a band of
//! tiles at once.
//!
//! Groups share nothing, so all of this is done for some groups before the next ones. These are the
//! groups whose frequencies stay in the cache together. Their weights stay there for all blocks.
//! Threads divide groups where they would divide panels.
//!
//! In the last row and column of tiles, r of a tile's outputs may be left: these take `r + 2` of
//! its points, so that some frequencies are those of fewer tiles. A tile's computation depends on
//! its place in the map alone. `Block` orders the tiles so that those of a frequency lie together.
//!
//! Each frequency is summed over the input channels as a product of matrices is, and the transforms
//! have one written order: the result is the same for every slice, block, thread count and
//! instruction set. It differs from that of [`conv`](super::conv) within the error that
//! `docs/kernels.md` states.
//!
//! A step transforms the inputs for its own panels, those of their groups: a layer of one group
//! that is cut into many steps does that often. A step makes whole lines, from a line on that begins
//! tiles ([`slice_lines`]): tiles are the same however the lines are cut.

mod block;
pub(super) mod by_channels;
mod channel_blocks;
mod division;
mod inputs;
mod part;
mod weights;

pub use channel_blocks::ChannelBlocks;
pub use division::{FEW_TILES, block_tiles};
pub use part::run;
pub use weights::transform_weights;

use super::conv::{self, check_weights, geometry, is_conv};
use super::reads::seen;
use super::{LayerError, Operator, Panels, Problem, Reads, Want, check};
use crate::kernels::table::TILES;
use crate::pack::{
    ConvParams, Encoding, INPUTS, Isa, Layer, OpKind, Tensor, WinogradParams, params, params_words,
};
use division::Division;

/// The only convolution that is computed so, but for its padding and groups: 3x3 of stride 1.
pub(super) fn direct(pad: [u32; 2], groups: u32) -> ConvParams {
    let ones = [1; 2];
    ConvParams { kernel: [3; 2], stride: ones, dilation: ones, pad, groups, chains: 0 }
}

/// Convolution by Winograd's algorithm.
pub(super) const ROW: Operator = Operator {
    panels: Panels::Full,
    in_place: [false, true, false],
    scratch: scratch_of,
    reads: [Reads::Window, Reads::Rows, Reads::Whole],
    window: |layer, tensors, made| {
        let WinogradParams { pad, groups, .. } = params(layer);
        let p = direct(pad, groups);
        seen([p.kernel, p.stride, p.dilation, p.pad], tensors, made)
    },
    line_unit: Some(slice_lines),
    macs,
    terms: |layer, input| {
        let p: WinogradParams = params(layer);
        let side = u64::from(p.tile) + 2;
        let channels = u64::from(input.cols() / p.groups.max(1));
        side.saturating_mul(side).saturating_mul(channels)
    },
    ..Operator::new(OpKind::Winograd, 2, validate, run)
};

/// Products of a processor, and about sixteen operations for each frequency of an input and an
/// output.
fn macs(layer: &Layer, inputs: &[Tensor; INPUTS], output: &Tensor) -> u64 {
    let (from, to) = (inputs[0].cols() as u64, output.cols() as u64);
    let groups = u64::from(params::<WinogradParams>(layer).groups.max(1));
    let pairs = (from / groups).saturating_mul(to);
    let each = pairs.saturating_add(16u64.saturating_mul(from + to));
    frequencies(layer, output).saturating_mul(each)
}

/// Whether a layer's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let p: WinogradParams = params(layer);
    if !TILES.contains(&(p.tile as usize)) {
        let largest = TILES[TILES.len() - 1] as u64;
        return Err(LayerError::Field("tile of a Winograd convolution", p.tile.into(), largest));
    }
    let direct = Layer { params: params_words(&direct(p.pad, p.groups)), ..*layer };
    let channels = geometry(&direct, inputs, output)?.channels as u64;
    if isa == Isa::Cuda && p.groups > 1 {
        let what = "groups of a Winograd convolution on a GPU";
        return Err(LayerError::Field(what, p.groups.into(), 1));
    }
    let points = u64::from(p.tile + 2) * u64::from(p.tile + 2);
    let in_group = u64::from(output.cols() / p.groups);
    let panels = u64::from(p.groups) * in_group.div_ceil(layer.columns(isa) as u64);
    check_weights(layer, panels, points.checked_mul(channels), isa.panel(), isa)
}

/// A step makes a multiple of this many lines of an image, from a multiple of them on. The last
/// ones of an image may be fewer.
pub fn slice_lines(layer: &Layer) -> u32 {
    params::<WinogradParams>(layer).tile.max(1)
}

/// Output tiles of a layer, over all images.
pub fn tiles(layer: &Layer, output: &Tensor) -> u64 {
    let tile = params::<WinogradParams>(layer).tile.max(1);
    let [images, height, width] = [output.dims[0], output.dims[1], output.dims[2]].map(u64::from);
    images * height.div_ceil(tile.into()) * width.div_ceil(tile.into())
}

/// Frequencies of a layer over all tiles and images: multiplications for each pair of an input and
/// an output channel.
pub fn frequencies(layer: &Layer, output: &Tensor) -> u64 {
    let tile = u64::from(params::<WinogradParams>(layer).tile.max(1));
    let [images, height, width] = [output.dims[0], output.dims[1], output.dims[2]].map(u64::from);
    along(tile, height).saturating_mul(along(tile, width)).saturating_mul(images)
}

/// Frequencies, down or across, of the tiles of `outputs` outputs: each tile has two more than
/// outputs.
fn along(tile: u64, outputs: u64) -> u64 {
    outputs + 2 * outputs.div_ceil(tile)
}

/// The record of a convolution whose steps are computed by F(algorithm, 3), with panels of
/// frequencies; an error if it cannot be.
pub(super) fn transformed(
    layer: &Layer,
    input: &Tensor,
    algorithm: u32,
    isa: Isa,
) -> Result<Layer, LayerError> {
    let largest = TILES[TILES.len() - 1] as u64;
    let known = TILES.contains(&(algorithm as usize));
    check(known, "algorithm of a step", algorithm.into(), largest)?;
    let what = "operator of a layer that a step computes by another algorithm";
    check(is_conv(layer), what, layer.kind.into(), conv::ROW.kind as u64)?;
    let p: ConvParams = params(layer);
    let what = "taps of a convolution by Winograd's algorithm, which takes 3x3 of stride 1,";
    let taps = u64::from(p.kernel[0]) * u64::from(p.kernel[1]);
    check(p == direct(p.pad, p.groups), what, taps, 9)?;
    let points = u64::from(algorithm + 2) * u64::from(algorithm + 2);
    let channels = u64::from(input.cols() / p.groups.max(1));
    let bytes = Encoding::F32.panel_bytes(points * channels, isa.panel(), isa.panel());
    let bytes = bytes.unwrap_or(u64::MAX);
    let panel_bytes = u32::try_from(bytes)
        .map_err(|_| LayerError::Field("bytes of a transformed panel", bytes, u32::MAX.into()))?;
    let params = params_words(&WinogradParams { tile: algorithm, pad: p.pad, groups: p.groups });
    Ok(Layer { kind: ROW.kind as u32, panel_bytes, encoding: 0, params, ..*layer })
}

/// The groups of a convolution by Winograd's algorithm; `None` for any other layer.
pub(super) fn groups(layer: &Layer) -> Option<u32> {
    let is_winograd = layer.kind == ROW.kind as u32;
    is_winograd.then(|| params::<WinogradParams>(layer).groups)
}

/// Bytes of intermediates that one step can use: enough for every number of threads up to the
/// problem's.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    scratch_of(problem, Want::All)
}

/// Blocks of tiles that a step has with `scratch` bytes of scratch, one after the other on a
/// thread.
pub(super) fn blocks(problem: &Problem<'_>, scratch: u64) -> usize {
    let division = Division::new(problem);
    let scratch = usize::try_from(scratch).unwrap_or(usize::MAX);
    division.tiles.div_ceil(division.within(scratch).block)
}

/// Bytes of intermediates that one step can use, or those that it cannot do without.
pub(super) fn scratch_of(problem: &Problem<'_>, want: Want) -> u64 {
    problem.most(|problem| {
        let division = Division::new(problem);
        match want {
            Want::All => division.bytes(),
            Want::Least => division.least().bytes(),
        }
    })
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
