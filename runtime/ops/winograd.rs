//! 3x3 convolution of stride 1 by Winograd's algorithm, F(2,3) and F(4,3).
//!
//! An output of `tile` times `tile` pixels takes `(tile + 2)²` multiplications a channel instead of
//! `9 · tile²`. The loops, from the outside: threads, blocks of tiles, then (transform of the block's
//! inputs to frequencies) runs of panels of weights, frequencies, panels (one matrix product each, over
//! the block's tiles, with the implicit GEMM's kernels), then the run's outputs are transformed back
//! while they are in the cache. Weights are used once a block, so each product fetches those of the next.
//! The scratch is one block of transformed inputs and one run of products, whatever the map's size. A step with less
//! scratch than it wants has smaller blocks, down to a few tiles, and comes back to its weights more often.
//!
//! Groups have nothing in common, so all that is done for some of them, before the next ones: as many as have frequencies
//! that stay in the cache together. Their weights stay there for all blocks. Threads divide groups where they
//! would divide panels.
//!
//! In the last row and column of tiles, r of a tile's outputs may be left: these take `r + 2` of its points, so that
//! some frequencies are those of fewer tiles. What a tile computes is a matter of its place in the map alone.
//! [`Block`] orders the tiles so that those of a frequency lie together.
//!
//! Each frequency is summed over the input channels as a product of matrices is, and the transforms have
//! one written order: the result is the same for every slice, block, thread count and instruction set.
//! It differs from that of [`conv`](super::conv) within the error that `docs/kernels.md` states.
//!
//! A step transforms the inputs for its own panels, those of their groups: a layer of one group that is cut into many
//! steps does that often. A step makes whole lines, from a line on that begins tiles ([`slice_lines`]): tiles are the same
//! however the lines are cut.

mod block;

use self::block::{Block, Frequency};
use super::conv::{Channels, Sizes, addend, check_weights, clamp, finish, geometry, part};
use super::{Call, LayerError, Operand, Slice, Want};
use crate::arena::{MatMut, MatRef};
use crate::device::{self, Device, Inline, Share, Split};
use crate::kernels::Isa;
use crate::kernels::table::{Finish, Indirection, Patch, Product, TILES};
use crate::pack::{
    ActivationKind, ConvParams, Layer, Tensor, WinogradParams, params, params_words,
};
use core::ops::Range;

/// Bytes that a block's transformed inputs and products of a panel may take, unless a few tiles take more.
const BLOCK_BYTES: usize = 2304 * 1024;

/// Rows (tiles times frequencies) of a block: enough for each panel of weights to be worth fetching.
const BLOCK_ROWS: usize = 28 * 36;

/// Panels that are multiplied with a frequency's inputs while these are in the first-level cache, unless all frequencies'
/// inputs stay near.
const GROUP: usize = 4;

/// Bytes of a block's transformed inputs that stay in the second-level cache beside products and weights: to come back to
/// them for each panel costs nothing, and one panel's products are the least scratch.
const NEAR_BYTES: u64 = 192 << 10;

/// Weights are fetched at least so many bytes before their use: products of small groups are shorter than memory takes.
const FAR_BYTES: usize = 16 << 10;

/// A block has at least as many tiles, where there are as many, however little scratch there is.
pub const FEW_TILES: usize = 4;

/// Multiplications of a product with a panel that are worth its call: with few channels and narrow panels a block has more
/// tiles for it, as long as their frequencies stay near.
const WORTH: usize = 28 * 16 * 32;

/// Floats between frequencies beyond what they hold, so that they do not meet in the cache's sets.
const GAP: usize = 16;

/// The only convolution that is computed so, but for its padding and groups: 3x3 of stride 1.
pub(super) fn direct(pad: [u32; 2], groups: u32) -> ConvParams {
    let ones = [1; 2];
    ConvParams { kernel: [3; 2], stride: ones, dilation: ones, pad, groups, chains: 0 }
}

/// Whether a layer's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
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
    let panels = u64::from(p.groups) * in_group.div_ceil(isa.panel() as u64);
    check_weights(layer, panels, points.checked_mul(channels), isa)
}

/// Lines of an image that a step can make are as many as these or a multiple, from a multiple of them on; the last
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

/// Frequencies of a layer over all tiles and images: multiplications for each pair of an input and an output channel.
pub fn frequencies(layer: &Layer, output: &Tensor) -> u64 {
    let tile = u64::from(params::<WinogradParams>(layer).tile.max(1));
    let [images, height, width] = [output.dims[0], output.dims[1], output.dims[2]].map(u64::from);
    along(tile, height).saturating_mul(along(tile, width)).saturating_mul(images)
}

/// Frequencies, down or across, of the tiles of so many outputs: each tile has two more than outputs.
fn along(tile: u64, outputs: u64) -> u64 {
    outputs + 2 * outputs.div_ceil(tile)
}

/// Tiles of a block for so many input channels of a group, with all the scratch that a step can use: each panel of weights
/// is read once for each block, from memory where there is one group.
pub fn block_tiles(tile: usize, channels: usize, isa: Isa) -> usize {
    let points = (tile + 2) * (tile + 2);
    let fit = BLOCK_BYTES / (4 * points).saturating_mul(channels.saturating_add(isa.panel()));
    let rows = isa.rows();
    let wanted = (BLOCK_ROWS / points / rows).max(1) * rows;
    let worth = (WORTH / channels.saturating_mul(isa.panel()).max(1)).next_multiple_of(rows);
    let near = NEAR_BYTES as usize / (4 * points).saturating_mul(channels).max(1) / rows * rows;
    wanted.max(worth.min(near)).min(fit).max(FEW_TILES)
}

/// The points of F(4,3) beside 0 and infinity, positive ones.
const POINTS: [f64; 2] = [0.75, 1.5];

/// Transforms a 3x3 filter (row by row) to the `(tile + 2)²` weights that are stored, in double
/// precision; the rest of the array is zero. They are rounded once, by the caller.
pub fn transform_weights(tile: usize, filter: &[f64; 9]) -> [f64; 36] {
    let [a, b] = POINTS;
    // A filter is evaluated at each point, over the product of the point's distances to the others.
    let at = |p: f64, norm: f64| [1.0 / norm, p / norm, p * p / norm];
    let (norm_a, norm_b) = (2.0 * a * a * (a * a - b * b), 2.0 * b * b * (b * b - a * a));
    let four = [
        at(0.0, a * a * b * b),
        at(a, norm_a),
        at(-a, norm_a),
        at(b, norm_b),
        at(-b, norm_b),
        [0.0, 0.0, 1.0],
    ];
    let two = [at(0.0, -1.0), at(1.0, 2.0), at(-1.0, 2.0), [0.0, 0.0, 1.0]];
    let rows: &[[f64; 3]] = if tile == 2 { &two } else { &four };
    let n = rows.len();
    let dot = |row: &[f64; 3], x: [f64; 3]| row[0] * x[0] + row[1] * x[1] + row[2] * x[2];
    let mut out = [0.0; 36];
    for (i, down) in rows.iter().enumerate() {
        let half = [0, 1, 2].map(|x| dot(down, [filter[x], filter[3 + x], filter[6 + x]]));
        for (j, along) in rows.iter().enumerate() {
            out[i * n + j] = dot(along, half);
        }
    }
    out
}

/// Bytes of intermediates that one step can use: enough for every number of threads up to this one.
pub fn scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
) -> u64 {
    scratch_of(layer, inputs, output, slice, threads, isa, Want::All)
}

/// The same, or what it cannot do without.
pub(super) fn scratch_of(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    slice: &Slice,
    threads: u32,
    isa: Isa,
    want: Want,
) -> u64 {
    let with = |threads| {
        let work = Work::new(layer, &inputs[0], output, slice, threads as usize, isa);
        match want {
            Want::All => work.bytes(),
            Want::Least => work.least().bytes(),
        }
    };
    (1..=threads.max(1)).map(with).max().unwrap_or(0)
}

/// What threads divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Divide {
    /// Rows of tiles.
    Lines,
    /// Panels; they share a block's transformed inputs.
    Panels,
    /// Groups, with the inputs of each.
    Groups,
}

/// How one step is divided.
#[derive(Clone, Copy, Debug)]
struct Work {
    tile: usize,
    pad: [usize; 2],
    /// Input channels of a group.
    channels: usize,
    /// How output channels fall into panels.
    outputs: Channels,
    /// Groups whose inputs are transformed together, at most.
    together: usize,
    /// Output channels in a panel.
    nr: usize,
    /// Rows of the matrix kernel.
    mr: usize,
    /// Height and width.
    input: [usize; 2],
    output: [usize; 2],
    /// Tiles of a block, at most.
    block: usize,
    /// Panels whose products with a frequency are computed before the next frequency, at most.
    ahead: usize,
    /// Panels of a group that one thread multiplies with a block, at most.
    panels: usize,
    divide: Divide,
    /// Rows of tiles, panels, or groups, of a part.
    each: usize,
    /// Threads that get a share.
    shares: usize,
}

impl Work {
    fn new(
        layer: &Layer,
        input: &Tensor,
        output: &Tensor,
        slice: &Slice,
        threads: usize,
        isa: Isa,
    ) -> Self {
        let p: WinogradParams = params(layer);
        let pair = |pair: [u32; 2]| pair.map(|x| x as usize);
        let tile = p.tile as usize;
        let channels = (input.cols() / p.groups.max(1)) as usize;
        let outputs = Channels::new(output.cols(), p.groups, isa);
        let extent = pair([output.dims[1], output.dims[2]]);
        let panels = slice.count as usize;
        // At least so many groups have them: scratch is the same wherever a slice begins.
        let groups = panels.div_ceil(outputs.panels.max(1));
        // What the step makes of one image.
        let lines = (slice.rows as usize / extent[1]).min(extent[0]);
        let [down, across] = [lines, extent[1]].map(|extent| extent.div_ceil(tile));
        let points = (tile + 2) * (tile + 2);
        // Those who divide groups have nothing in common; in one group, panels have the inputs.
        let (by_cols, divide) = match p.groups {
            0 | 1 => (panels, Divide::Panels),
            _ => (groups, Divide::Groups),
        };
        let sizes = Sizes {
            by_rows: down,
            by_cols,
            input: lines.saturating_mul(extent[1]).saturating_mul(channels).saturating_mul(groups),
            weights: panels.saturating_mul(isa.panel()).saturating_mul(points * channels),
        };
        let frequencies = [lines, extent[1]].map(|outputs| along(tile as u64, outputs as u64));
        let pairs = panels.saturating_mul(isa.panel()).saturating_mul(channels) as u64;
        let macs = frequencies[0].saturating_mul(frequencies[1]).saturating_mul(pairs);
        let (divide, units) = match sizes.divide_columns(threads) {
            true => (divide, by_cols),
            false => (Divide::Lines, down),
        };
        let each = part(units, macs, threads.max(1));
        let shares = threads.min(units.div_ceil(each)).max(1);
        let mut work = Self {
            tile,
            pad: pair(p.pad),
            channels,
            outputs,
            together: 1,
            nr: isa.panel(),
            mr: isa.rows(),
            input: pair([input.dims[1], input.dims[2]]),
            output: extent,
            block: block_tiles(tile, channels, isa).min(across.saturating_mul(down)).max(1),
            ahead: 1,
            panels: if divide == Divide::Panels { each } else { panels }.min(outputs.panels),
            each,
            divide,
            shares,
        };
        // So many whatever the threads: with more of them a part then takes no more memory.
        work.together = ((NEAR_BYTES / work.frequency_bytes()) as usize).clamp(1, groups.max(1));
        if divide == Divide::Lines {
            // Tiles of the largest part.
            work.block = work.block.min(across.saturating_mul(each)).max(1);
        }
        work.in_blocks_of(work.block)
    }

    /// The same in blocks of so many tiles.
    fn in_blocks_of(mut self, tiles: usize) -> Self {
        self.block = tiles;
        self.ahead = match self.frequency_bytes() > NEAR_BYTES {
            true => GROUP.min(self.panels).max(1),
            false => 1,
        };
        self
    }

    /// In the smallest blocks.
    fn least(self) -> Self {
        self.in_blocks_of(self.block.min(FEW_TILES))
    }

    /// In the largest blocks for which so many bytes of scratch do; the smallest ones where none do.
    fn within(self, scratch: usize) -> Self {
        let fits = |work: &Self| work.bytes() <= scratch as u64;
        if fits(&self) {
            return self;
        }
        let smaller = (FEW_TILES..self.block).rev().map(|tiles| self.in_blocks_of(tiles));
        smaller.into_iter().find(fits).unwrap_or(self.least())
    }

    fn points(&self) -> usize {
        (self.tile + 2) * (self.tile + 2)
    }

    /// Input channels that are transformed together.
    fn width(&self) -> usize {
        self.channels.saturating_mul(self.together)
    }

    /// Floats of zeros, for pixels beside the image.
    fn zeros(&self) -> usize {
        self.width().next_multiple_of(16)
    }

    /// Floats from one frequency to the next, where each has so many floats a tile.
    fn stride(&self, floats: usize) -> usize {
        (self.block.saturating_mul(floats)).next_multiple_of(16) + GAP
    }

    /// Bytes of zeros and of a block's transformed inputs.
    fn frequency_bytes(&self) -> u64 {
        let floats = self.points() as u64 * self.stride(self.width()) as u64;
        4 * (self.zeros() as u64 + floats)
    }

    /// Floats of a block's products with one panel.
    fn product_floats(&self) -> usize {
        self.points().saturating_mul(self.stride(self.nr))
    }

    /// Bytes of a block's products with a group of panels, and of the kernel's pointers.
    fn product_bytes(&self) -> u64 {
        4 * self.ahead as u64 * self.product_floats() as u64 + Indirection::rows_bytes(self.block)
    }

    /// Bytes of a thread's own scratch.
    fn each(&self) -> u64 {
        match self.divide {
            Divide::Panels => self.product_bytes(),
            _ => self.product_bytes() + self.frequency_bytes(),
        }
    }

    fn bytes(&self) -> u64 {
        let shared = if self.divide == Divide::Panels { self.frequency_bytes() } else { 0 };
        shared.saturating_add(self.each().saturating_mul(self.shares as u64))
    }
}

/// The part of a step that one thread, or all threads together, work on.
struct Part<'a> {
    call: &'a Call<'a>,
    work: &'a Work,
    device: &'a dyn Device,
    /// The input image.
    image: MatRef<'a>,
    /// The first line of outputs in the image.
    line: usize,
    /// Output pixels before the part's first one, in the whole output.
    rows_before: usize,
    /// The part's panels, as the layer counts them.
    panels: Range<usize>,
}

/// Computes one step.
pub fn run(mut call: Call<'_>) {
    if call.rows.is_empty() || call.count == 0 {
        return;
    }
    let Operand::Mat(input) = call.operands[0] else {
        unreachable!("`validate` refuses a convolution without an input of its own");
    };
    let (device, kernels) = (call.device, call.kernels);
    let threads = device.threads();
    let slice = call.slice();
    let work = Work::new(call.layer, &call.inputs[0], &call.output, &slice, threads, kernels.isa());
    let scratch = core::mem::take(&mut call.scratch);
    let work = work.within(scratch.len());
    let panels = call.first..call.first + call.count;
    let cols = work.outputs.cols(call.first, call.count);
    let mut out = core::mem::replace(&mut call.out, empty());
    let mut out = out.part_mut(out.slots(call.rows.clone()), cols.clone());
    let [in_area, area] = [work.input, work.output].map(|[height, width]| height * width);
    let mut row = call.rows.start;
    while row < call.rows.end {
        // What the step makes of this image.
        let image = row / area;
        let rows = row..call.rows.end.min((image + 1) * area);
        let pixels = match call.inputs[0].dims[0] {
            // All that there is in memory, which may be a ring of lines.
            1 => 0..input.rows(),
            _ => image * in_area..(image + 1) * in_area,
        };
        let first = (row - image * area) / work.output[1];
        let part = |device, before: usize, panels: Range<usize>| Part {
            call: &call,
            work: &work,
            device,
            image: input.part(pixels.clone(), 0..input.cols()),
            line: first + before,
            rows_before: rows.start + before * work.output[1],
            panels,
        };
        let here = rows.start - call.rows.start..rows.end - call.rows.start;
        let out = out.part_mut(here, 0..cols.len());
        let split = match work.divide {
            Divide::Panels => None,
            Divide::Lines => Some(Split::Rows(work.each * work.tile * work.output[1])),
            Divide::Groups => Some(Split::Cols(work.each * work.outputs.in_group)),
        };
        match split {
            None => part(device, 0, panels.clone()).run(out, scratch),
            Some(split) => {
                let each = work.each() as usize;
                device::divide(device, out, split, scratch, each, |share: Share<'_>| {
                    let here = cols.start + share.cols.start..cols.start + share.cols.end;
                    let panels = work.outputs.within(panels.clone(), here);
                    let before = share.rows.start / work.output[1];
                    part(&Inline, before, panels).run(share.out, share.scratch);
                });
            }
        }
        row = rows.end;
    }
}

/// No output.
fn empty() -> MatMut<'static> {
    MatMut::new(&mut [], 0, 0, 0).unwrap_or_else(|| unreachable!("nothing fits into nothing"))
}

impl Part<'_> {
    /// Computes the part: `out` has its lines of pixels and its panels' channels. Weights of some groups stay in the cache
    /// for all blocks.
    fn run(&self, mut out: MatMut<'_>, scratch: &mut [u8]) {
        let Work { tile, output, block, outputs, together, .. } = *self.work;
        // The part ends where tiles do, or the map does.
        let extent = [out.rows() / output[1], output[1]];
        let [down, across] = extent.map(|extent| extent.div_ceil(tile));
        let tiles = down * across;
        let blocks = tiles.div_ceil(block);
        let (shared, own) = scratch.split_at_mut(self.work.frequency_bytes() as usize);
        let shared: &mut [f32] = bytemuck::cast_slice_mut(shared);
        let (zeros, frequencies) = shared.split_at_mut(self.work.zeros());
        zeros.fill(0.0);
        let all = outputs.groups(self.panels.clone());
        let before = outputs.panel(self.panels.start).start;
        for first in all.clone().step_by(together) {
            let groups = first..(first + together).min(all.end);
            let panels = self.panels.start.max(groups.start * outputs.panels)
                ..self.panels.end.min(groups.end * outputs.panels);
            let cols = outputs.cols(panels.start, panels.len());
            let all = 0..out.rows();
            let mut out = out.part_mut(all, cols.start - before..cols.end - before);
            for index in 0..blocks {
                let block = Block::new(tile, extent, device::cut(tiles, blocks, 1, index));
                self.transform(&block, groups.clone(), zeros, frequencies);
                self.multiply(&block, panels.clone(), frequencies, out.reborrow(), own);
            }
        }
    }

    /// Transforms the inputs of a block, those of some groups.
    fn transform(
        &self,
        block: &Block,
        groups: Range<usize>,
        zeros: &[f32],
        frequencies: &mut [f32],
    ) {
        let Work { tile, pad, input, .. } = *self.work;
        let (points, stride) = (self.work.points(), self.work.stride(self.work.width()));
        let channels = groups.start * self.work.channels..groups.end * self.work.channels;
        let image = self.image.part(0..self.image.rows(), channels.clone());
        let channels = channels.len();
        let all = MatMut::new(frequencies, points, block.count() * channels, stride);
        let all = all.unwrap_or_else(|| unreachable!("a block is no larger than its scratch"));
        device::divide(self.device, all, Split::Cols(channels), &mut [], 0, |share| {
            let Share { cols, mut out, .. } = share;
            for (slot, at) in (cols.start / channels..).zip((0..cols.len()).step_by(channels)) {
                let [line, col] = block.place(slot);
                let patch = Patch {
                    image,
                    height: input[0],
                    width: input[1],
                    top: (self.line + line) as i64 - pad[0] as i64,
                    left: col as i64 - pad[1] as i64,
                    outputs: block.outputs([line, col]),
                    zeros,
                };
                let to = out.part_mut(0..points, at..at + channels);
                self.call.kernels.winograd_input(tile, &patch, to);
            }
        });
    }

    /// Multiplies the frequencies of a block, those of some groups, with panels of these and transforms the products
    /// back.
    fn multiply(
        &self,
        block: &Block,
        panels: Range<usize>,
        frequencies: &[f32],
        out: MatMut<'_>,
        scratch: &mut [u8],
    ) {
        let Work { tile, channels, outputs, nr, mr, .. } = *self.work;
        let Call { layer, weights, kernels, operands, .. } = self.call;
        let (points, stride) = (self.work.points(), self.work.stride(self.work.width()));
        let product_stride = self.work.stride(nr);
        let product_floats = self.work.product_floats();
        let panel_floats = (1 + points * channels) * nr;
        let clamp = clamp(&layer.activation);
        let each = self.work.product_bytes() as usize;
        let groups = outputs.groups(panels.clone());
        let width = groups.len() * channels;
        let (all, before) = (panels.clone(), outputs.panel(panels.start).start);
        // Other than in one group these are all columns.
        let split = Split::Cols(self.work.each * nr);
        device::divide(self.device, out, split, scratch, each, |share| {
            let Share { cols, mut out, scratch, .. } = share;
            let cols = before + cols.start..before + cols.end;
            let panels = outputs.within(all.clone(), cols.clone());
            let (list, products) =
                scratch.split_at_mut(Indirection::rows_bytes(self.work.block) as usize);
            let products: &mut [f32] = bytemuck::cast_slice_mut(products);
            // Each row reaches from a tile's first frequency to its last.
            let reach = (points - 1) * stride + width;
            let rows = (0..block.count()).map(|tile| &frequencies[tile * width..]);
            let lists = Indirection::rows(rows, reach, mr, list).seg_len(channels);
            let present = block.frequencies();
            // Products between the one that fetches weights and the one that uses them.
            let far = match self.work.ahead {
                1 => (FAR_BYTES / (4 * channels * nr)).clamp(1, present.len()),
                _ => 1,
            };
            // A thread's panels of one group, or those of all groups.
            let last = match self.work.divide {
                Divide::Panels => panels.end,
                _ => self.panels.end,
            };
            // Where the weights of a panel for one frequency lie.
            let at = |panel: usize, point: usize| {
                (panel - self.call.first) * panel_floats + nr + point * channels * nr
            };
            for run in panels.clone().step_by(self.work.ahead) {
                let run = run..(run + self.work.ahead).min(panels.end);
                let mut gemms = kernels.gemms(&lists, weights, products);
                for (index, frequency) in present.iter().enumerate() {
                    let Frequency { point, first, tiles } = *frequency;
                    // After the run's last panel.
                    let following = match present.get(index + far) {
                        Some(following) => Some(at(run.start, following.point)),
                        None => (run.end < last)
                            .then(|| at(run.end, present[index + far - present.len()].point)),
                    };
                    for panel in run.clone() {
                        let another = panel + 1 < run.end;
                        let group = panel / outputs.panels - groups.start;
                        gemms.multiply(Product {
                            rows: first..first + tiles,
                            offset: point * stride + group * channels,
                            panel: at(panel, point),
                            next: if another { Some(at(panel + 1, point)) } else { following },
                            out: (panel - run.start) * product_floats
                                + point * product_stride
                                + first * nr,
                        });
                    }
                }
                for (panel, products) in run.zip(products.chunks_exact(product_floats)) {
                    let at = outputs.panel(panel);
                    let bias = &weights[(panel - self.call.first) * panel_floats..][..nr];
                    let rows = 0..out.rows();
                    let mut panel_out =
                        out.part_mut(rows, at.start - cols.start..at.end - cols.start);
                    let residual = addend(
                        &operands[1],
                        self.rows_before..self.rows_before + panel_out.rows(),
                        at,
                    );
                    let finish = Finish {
                        products,
                        stride: product_stride,
                        bias,
                        addend: residual,
                        clamp,
                        width: self.work.output[1],
                    };
                    let places = (0..block.count()).map(|slot| block.place(slot));
                    kernels.winograd_outputs(tile, &finish, places, panel_out.reborrow());
                    self.finish(block, panel_out);
                }
            }
        });
    }

    /// Applies what is more than a clamp to a block's outputs.
    fn finish(&self, block: &Block, mut out: MatMut<'_>) {
        let function = self.call.layer.activation.function();
        if matches!(function, Some(ActivationKind::None | ActivationKind::Clamp)) {
            return;
        }
        let width = self.work.output[1];
        let cols = 0..out.cols();
        for slot in 0..block.count() {
            let [line, col] = block.place(slot);
            let [lines, pixels] = block.outputs([line, col]);
            for line in line..line + lines {
                let pixels = line * width + col..line * width + col + pixels;
                finish(
                    self.call.kernels,
                    &self.call.layer.activation,
                    out.part_mut(pixels, cols.clone()),
                );
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
