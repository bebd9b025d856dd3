//! 3x3 convolution of stride 1 by Winograd's algorithm on a GPU, F(2,3) and F(4,3): the transform
//! of some tiles to frequencies, the products, the transform back.
//!
//! The products are those of a convolution ([`conv`]): frequencies are lines of an image, under a
//! kernel of one column that is as high as there are frequencies, each by itself. Frequencies and
//! products of all tiles of a large map would take many times the map's memory, so a step makes
//! some tiles after the others.

use super::Call;
use super::conv::{self, ConvRecord};
use super::gemm::{
    ChainsRecord, FinishRecord, MAX_BLOCKS, PANEL, TermsRecord, WindowRecord, bytes,
};
use super::launch::launch;
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::Chains;
use crate::kernels::table::cuda::Function;
use crate::ops::{Slice, winograd};
use crate::pack::{INPUTS, Layer, Tensor, WinogradParams, params};
use bytemuck::{Pod, Zeroable};
use core::ops::Range;

/// Bytes that frequencies and products may take, unless a few tiles take more.
const MOST_BYTES: u64 = 16 << 20;

/// The fewest tiles that are made at once, unless there are fewer. More tiles are a multiple of
/// these.
const FEW_TILES: u32 = 64;

/// Threads of a block of the transforms.
const THREADS: u32 = 256;

/// `struct WinogradInput` of `kernels/cuda/winograd.cu`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct InputRecord {
    input: u64,
    out: u64,
    height: u32,
    width: u32,
    pitch: u32,
    channels: u32,
    output: [u32; 2],
    down: u32,
    across: u32,
    pad: [u32; 2],
    first: u32,
    tiles: u32,
}

/// `struct WinogradOutput` there.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct OutputRecord {
    finish: FinishRecord,
    sums: u64,
    weights: u64,
    panel_bytes: u32,
    first_panel: u32,
    panels: u32,
    columns: u32,
    height: u32,
    width: u32,
    down: u32,
    across: u32,
    first: u32,
    tiles: u32,
}

/// How a step is cut.
struct Division {
    points: u32,
    /// Tiles of the layer.
    all: u32,
    /// Tiles, and panels, that are made at once.
    tiles: u32,
    panels: u32,
    /// Bytes of their frequencies, and of their products.
    frequency_bytes: u64,
    product_bytes: u64,
}

impl Division {
    fn new(layer: &Layer, input: &Tensor, output: &Tensor, slice: &Slice) -> Self {
        let p: WinogradParams = params(layer);
        let points = (p.tile + 2) * (p.tile + 2);
        // A layer has no more tiles than output pixels, which 32 bits count.
        let all = winograd::tiles(layer, output) as u32;
        let panels = slice.count.min(MAX_BLOCKS);
        let columns = u64::from(panels) * u64::from(PANEL);
        let each = 4 * u64::from(points) * (u64::from(input.cols()) + columns);
        let fit = (MOST_BYTES / each) as u32 / FEW_TILES * FEW_TILES;
        let tiles = fit.max(FEW_TILES).min(all);
        let floats = |columns: u64| bytes([points.into(), tiles.into(), columns]);
        Self {
            points,
            all,
            tiles,
            panels,
            frequency_bytes: floats(input.cols().into()),
            product_bytes: floats(columns),
        }
    }
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    slice: &Slice,
) -> u64 {
    let division = Division::new(layer, &inputs[0], output, slice);
    division.frequency_bytes.saturating_add(division.product_bytes)
}

/// Launches one step.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let Call { layer, inputs: [input, ..], output, slice, .. } = *call;
    let division = Division::new(layer, &input, &output, &slice);
    for first in (0..division.all).step_by(division.tiles as usize) {
        let tiles = first..(first + division.tiles).min(division.all);
        to_frequencies(call, tiles.clone(), queue)?;
        for panel in (0..slice.count).step_by(division.panels as usize) {
            let panels = panel..(panel + division.panels).min(slice.count);
            multiply(call, &division, tiles.len() as u32, panels.clone(), queue)?;
            from_frequencies(call, &division, tiles.clone(), panels, queue)?;
        }
    }
    Ok(())
}

/// Tiles of an output, down and across.
fn extent(output: &Tensor, tile: u32) -> [u32; 2] {
    [1, 2].map(|axis| output.dims[axis].div_ceil(tile))
}

/// Launches the transform of some tiles' inputs.
fn to_frequencies(
    call: &Call<'_>,
    tiles: Range<u32>,
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    let Call { inputs: [input, ..], output, .. } = *call;
    let p: WinogradParams = params(call.layer);
    let [down, across] = extent(&output, p.tile);
    let channels = input.cols();
    let transform = InputRecord {
        input: call.operands[0],
        out: call.scratch,
        height: input.dims[1],
        width: input.dims[2],
        pitch: input.pitch,
        channels,
        output: [output.dims[1], output.dims[2]],
        down,
        across,
        pad: p.pad,
        first: tiles.start,
        tiles: tiles.len() as u32,
    };
    let function = if p.tile == 2 { Function::WinogradInput2 } else { Function::WinogradInput4 };
    let threads = tiles.len() as u64 * u64::from(channels);
    launch(queue, function, shape(threads), &transform)
}

/// Launches the products of some tiles' frequencies with some of the step's panels.
fn multiply(
    call: &Call<'_>,
    division: &Division,
    tiles: u32,
    panels: Range<u32>,
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    let Call { layer, inputs: [input, ..], output, slice, .. } = *call;
    let channels = input.cols();
    let products = ConvRecord {
        window: WindowRecord {
            height: division.points,
            ..WindowRecord::matrix(call.scratch, tiles, channels, channels)
        },
        finish: FinishRecord::new(call, 4, true),
        weights: call.weights + u64::from(panels.start) * u64::from(layer.panel_bytes),
        sums: call.scratch + division.frequency_bytes,
        panel_bytes: layer.panel_bytes,
        first: slice.first + panels.start,
        panels: panels.len() as u32,
        panels_a_group: layer.panels,
        width: PANEL,
        columns: output.cols(),
        chains: ChainsRecord {
            k: division.points * channels,
            chains: division.points,
            unit: channels,
        },
        terms: TermsRecord { from: 0, to: channels },
        biased: 0,
    };
    let chains = Chains::of_run(channels as usize);
    conv::each_chain(&products, Some(&chains), |products| conv::multiply(call, products, 1, queue))
}

/// Launches the transform of these products back to outputs.
fn from_frequencies(
    call: &Call<'_>,
    division: &Division,
    tiles: Range<u32>,
    panels: Range<u32>,
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    let Call { layer, output, slice, .. } = *call;
    let tile = params::<WinogradParams>(layer).tile;
    let [down, across] = extent(&output, tile);
    let back = OutputRecord {
        finish: FinishRecord::new(call, 4, true),
        sums: call.scratch + division.frequency_bytes,
        weights: call.weights + u64::from(panels.start) * u64::from(layer.panel_bytes),
        panel_bytes: layer.panel_bytes,
        first_panel: slice.first + panels.start,
        panels: panels.len() as u32,
        columns: output.cols(),
        height: output.dims[1],
        width: output.dims[2],
        down,
        across,
        first: tiles.start,
        tiles: tiles.len() as u32,
    };
    let function = if tile == 2 { Function::WinogradOutput2 } else { Function::WinogradOutput4 };
    let threads = tiles.len() as u64 * panels.len() as u64 * u64::from(PANEL);
    launch(queue, function, shape(threads), &back)
}

/// Grid and block of a transform of `channels` channels of tiles.
fn shape(channels: u64) -> [[u32; 3]; 2] {
    [[channels.div_ceil(THREADS.into()) as u32, 1, 1], [THREADS, 1, 1]]
}

#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
mod tests;
