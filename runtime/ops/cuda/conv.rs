//! Convolution on a GPU, also grouped, as implicit GEMM; fully connected layers of few rows panel
//! by panel.
//!
//! A layer in several chains of its own ([`ConvParams::chains`]) is computed into scratch, chain by
//! chain, and then added up; other layers in the [chains](Chains) of a processor. They are the same
//! of both kernels, so either may compute any layer that it can.

use super::Call;
use super::gemm::{
    ChainsRecord, FinishRecord, MAX_BLOCKS, PANEL, TILES, TermsRecord, WindowRecord, bytes, fastest,
};
use super::launch::{launch, line};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::kernels::table::{CHAIN, Chains};
use crate::ops::Slice;
use crate::ops::conv::MAX_CHAINS;
use crate::pack::{ConvParams, INPUTS, Isa, Layer, Tensor, params};
use bytemuck::{Pod, Zeroable};

/// k that chains do not cut: [`ConvParams::chains`] says so.
const UNIT: u32 = 8;

/// Rows that are computed panel by panel, at most.
const FEW_ROWS: u32 = 8;

/// Warps of a block that computes panel by panel: each has one.
const GEMV_WARPS: u32 = 4;

/// `struct ConvRecord` of `kernels/cuda/conv.cu`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub(super) struct ConvRecord {
    pub window: WindowRecord,
    pub finish: FinishRecord,
    pub weights: u64,
    pub sums: u64,
    pub panel_bytes: u32,
    pub first: u32,
    pub panels: u32,
    pub panels_a_group: u32,
    pub width: u32,
    pub columns: u32,
    pub chains: ChainsRecord,
    pub terms: TermsRecord,
    pub biased: u32,
}

/// `struct GemvRecord` of `kernels/cuda/gemv.cu`, which says what the fields are.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct GemvRecord {
    finish: FinishRecord,
    input: u64,
    weights: u64,
    sums: u64,
    pitch: u32,
    rows: u32,
    panel_bytes: u32,
    first: u32,
    panels: u32,
    columns: u32,
    width: u32,
    chains: ChainsRecord,
    terms: TermsRecord,
    biased: u32,
    zero: u32,
}

/// Warps of a multiprocessor that keep memory busy, where each reads one panel.
const READING_WARPS: u64 = 16;

/// The cost of a launch, some microseconds, in multiply-adds of a multiprocessor.
const LAUNCH: u128 = 400_000;
/// The cost of adding one partial sum: eight bytes of a multiprocessor's share of the bandwidth.
const ADDING: u128 = 64;

/// k that a chain is worth, at least.
const LEAST_K: u32 = 64;

/// Into how many chains a GPU of `multiprocessors` multiprocessors had best cut a convolution of
/// these output pixels and channels (of all groups) and such a reduction; 1 where pixels and
/// channels keep it busy.
pub fn chains(rows: u32, columns: u32, k: u32, multiprocessors: u32) -> u32 {
    let time = |chains: u32| {
        let each = u128::from(k.div_ceil(chains)) + u128::from(4 * UNIT);
        let multiplying = if rows <= FEW_ROWS {
            let warps = u64::from(columns.div_ceil(PANEL)) * u64::from(chains);
            let most = warps.div_ceil(multiprocessors.max(1).into());
            // A panel takes as long as a rectangle of eight rows would: reading is what takes the
            // time.
            let outputs = u128::from(most) * u128::from(PANEL * FEW_ROWS);
            each * outputs * u128::from(READING_WARPS) / u128::from(most.clamp(1, READING_WARPS))
        } else {
            let tiles = TILES.iter().map(|t| t.time([rows, columns, chains], multiprocessors));
            each * tiles.min().unwrap_or(0)
        };
        let sums = u128::from(rows) * u128::from(columns) * u128::from(chains);
        let adding = sums * ADDING / u128::from(multiprocessors.max(1)) + LAUNCH;
        multiplying + if chains > 1 { adding } else { 0 }
    };
    let most = (k / LEAST_K).clamp(1, MAX_CHAINS);
    let best = (1..=most)
        .filter(|chains| enough(k, *chains))
        .min_by_key(|chains| time(*chains))
        .unwrap_or(1);
    // Chains are other bits: a gain that is none is not worth them.
    if time(best) * 10 < time(1) * 9 { best } else { 1 }
}

/// Whether none of `chains` chains of `k` terms is longer than a processor's, whose error is what
/// is stated; one is computed as a processor's are.
pub fn enough(k: u32, chains: u32) -> bool {
    chains <= 1 || k.div_ceil(UNIT).div_ceil(chains) as usize * UNIT as usize <= CHAIN
}

/// Panels that are launched at once.
fn panels_at_once(slice: &Slice) -> u32 {
    slice.count.min(MAX_BLOCKS)
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(
    layer: &Layer,
    _inputs: &[Tensor; INPUTS],
    _output: &Tensor,
    slice: &Slice,
) -> u64 {
    let p: ConvParams = params(layer);
    if p.chains <= 1 {
        return 0;
    }
    let columns = u64::from(panels_at_once(slice)) * u64::from(PANEL);
    bytes([p.chains.into(), slice.rows.into(), columns])
}

/// Launches one step.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let Call { layer, inputs: [input, ..], output, slice, .. } = *call;
    let p: ConvParams = params(layer);
    let [channels, columns] = [input.dims[3], output.dims[3]].map(|all| all / p.groups);
    let k = p.kernel[0] * p.kernel[1] * channels;
    let of_a_processor = Chains::new(p.kernel.map(|taps| taps as usize), channels as usize);
    let own = p.chains > 1;
    let width = layer.columns(Isa::Cuda) as u32;
    // Groups begin anywhere, and panels that hold fewer channels.
    let runs = match p.groups {
        _ if !width.is_multiple_of(4) => 1,
        1 => 4,
        _ => columns,
    };
    let mut record = ConvRecord {
        window: WindowRecord {
            input: call.operands[0],
            height: input.dims[1],
            width: input.dims[2],
            pitch: input.pitch,
            channels,
            out_height: output.dims[1],
            out_width: output.dims[2],
            kernel_width: p.kernel[1],
            stride: p.stride,
            dilation: p.dilation,
            pad: p.pad,
            rows: slice.rows,
        },
        finish: FinishRecord::new(call, runs, true),
        weights: call.weights,
        sums: if p.chains > 1 { call.scratch } else { 0 },
        panel_bytes: layer.panel_bytes,
        first: slice.first,
        panels: 0,
        panels_a_group: columns.div_ceil(width),
        width,
        columns,
        chains: ChainsRecord { k, chains: p.chains.max(1), unit: UNIT },
        terms: TermsRecord { from: 0, to: k },
        biased: 1,
    };
    let plain = p.kernel == [1; 2] && p.stride == [1; 2] && p.pad == [0; 2] && p.groups == 1;
    let few = slice.rows <= FEW_ROWS && plain && input.dims[..3] == output.dims[..3];
    let end = slice.first + slice.count;
    while record.first < end {
        record.panels = (end - record.first).min(panels_at_once(&slice));
        let chains = if own { None } else { Some(&of_a_processor) };
        each_chain(&record, chains, |record| match few {
            true => multiply_rows(call, record, queue),
            false => multiply(call, record, p.groups, queue),
        })?;
        if record.sums != 0 {
            add_up(&record, queue)?;
        }
        record.weights += u64::from(record.panels) * u64::from(record.panel_bytes);
        record.first += record.panels;
    }
    Ok(())
}

/// Launches what each of a processor's chains takes, one after the other, of those that a record
/// has; `None`: all of its terms at once.
pub(super) fn each_chain(
    record: &ConvRecord,
    chains: Option<&Chains>,
    mut launch: impl FnMut(&ConvRecord) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let Some(chains) = chains else { return launch(record) };
    (0..chains.count()).try_for_each(|index| {
        launch(&ConvRecord {
            finish: record.finish.of_chain(index, chains.count()),
            terms: TermsRecord::new(chains.terms(index)),
            biased: if index == 0 { record.biased } else { 0 },
            ..*record
        })
    })
}

/// Launches the products of a record.
pub(super) fn multiply(
    call: &Call<'_>,
    record: &ConvRecord,
    groups: u32,
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    let ConvRecord { window: WindowRecord { rows, .. }, chains, panels, .. } = *record;
    let fours = record.window.fours();
    let columns = panels * PANEL;
    let tile = fastest([rows, columns, chains.chains], call.multiprocessors, |tile| {
        // A rectangle's panels belong to one group.
        (fours || tile.ones.is_some()) && (groups == 1 || tile.columns == PANEL)
    });
    let functions = if fours { tile.fours } else { tile.ones.unwrap_or(tile.fours) };
    let [down, across] = tile.blocks(rows, columns);
    let function = functions[call.layer.encoding().unwrap_or_default() as usize];
    let grid = [down, across, chains.chains];
    launch(queue, function, [grid, [tile.threads, 1, 1]], record)
}

/// Launches the products of a convolution of few rows.
fn multiply_rows(
    call: &Call<'_>,
    record: &ConvRecord,
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    use Function::*;
    let functions = match record.window.rows {
        1 => [Gemv1F32, Gemv1F16, Gemv1Bf16],
        2..=4 => [Gemv4F32, Gemv4F16, Gemv4Bf16],
        _ => [Gemv8F32, Gemv8F16, Gemv8Bf16],
    };
    let gemv = GemvRecord {
        finish: record.finish,
        input: record.window.input,
        weights: record.weights,
        sums: record.sums,
        pitch: record.window.pitch,
        rows: record.window.rows,
        panel_bytes: record.panel_bytes,
        first: record.first,
        panels: record.panels,
        columns: record.columns,
        width: record.width,
        chains: record.chains,
        terms: record.terms,
        biased: record.biased,
        zero: 0,
    };
    let function = functions[call.layer.encoding().unwrap_or_default() as usize];
    let grid = [record.panels.div_ceil(GEMV_WARPS), record.chains.chains, 1];
    launch(queue, function, [grid, [32 * GEMV_WARPS, 1, 1]], &gemv)
}

/// Launches the sum of a record's chains.
fn add_up(record: &ConvRecord, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    const THREADS: u32 = 256;
    let all = u64::from(record.window.rows) * u64::from(record.panels * PANEL);
    let shape = line(all.div_ceil(THREADS.into()), [THREADS, 1, 1]);
    launch(queue, Function::ConvSum, shape, record)
}

#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
mod tests;
