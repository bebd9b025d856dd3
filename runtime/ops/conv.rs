//! Convolution, also grouped, as implicit GEMM. Fully connected layers are 1x1 convolutions.
//!
//! Nothing is unrolled into a matrix: kernels read the activations where they lie, through pointer
//! lists ([`Indirection`]) that are made for a block of output pixels at a time. The loops, from
//! the outside: threads, blocks of pixels (whose inputs stay in the second-level cache), panels of
//! weights, [`Chains`](crate::kernels::table::Chains) of the reduction, strips of pixels (tiles).
//! If pixels have many channels, so that a block would be few pixels, chains come before panels.
//! Then the cache holds only one chain's reads of a block at a time. Chains are the same, and so is
//! each output, whatever slice, block, strip or thread it falls into. A step may compute some
//! chains of a panel only, and leave its sums in the output for the next one.

mod terms;

pub use terms::{chains, weights};

use super::reads::seen;
use super::work::{elements, product};
use super::{Call, LayerError, Operand, Operator, Panels, Problem, Reads};
use crate::device::{self, Share, Split};
use crate::kernels::Kernels;
use crate::kernels::table::{Addend, Chains, Indirection, Panel, Target, Window};
use crate::matrix::MatMut;
use crate::pack::{
    Activation, ActivationKind, ConvParams, INPUTS, Isa, Layer, NONE, OpKind, Tensor, params,
};
use core::ops::Range;

/// Input bytes that a block of pixels may read: what stays in a second-level cache next to a panel.
const BLOCK_BYTES: usize = 256 * 1024;

/// Distance in bytes at which lines fall into the same set of a first-level cache.
const SET_BYTES: usize = 4096;

/// Rows of a strip, at most, that read lines of one set at a time: such caches keep twelve (Zen 5,
/// Ice Lake and later), and one is the panel's. Those of processors with eight ways gain nothing by
/// it.
const SET_ROWS: usize = 11;

/// Bytes of pointers that a block of pixels may take.
const BLOCK_POINTERS: usize = 16 * 1024;

/// A block has at least this many tiles: each panel is fetched once a block.
const BLOCK_TILES: usize = 4;

/// Most chains that a reduction is cut into, for a GPU.
pub const MAX_CHAINS: u32 = 64;

/// Multiply-accumulates of a part that is worth the trouble of dealing it out: some ten
/// microseconds.
pub(super) const PART_MACS: u64 = 1 << 20;

/// Checks a convolution's record against its tensors. Returns the geometry.
pub(super) fn geometry(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
) -> Result<Window, LayerError> {
    let p: ConvParams = params(layer);
    let at_least = |what, found: u32| match found {
        0 => Err(LayerError::Field(what, 0, 1)),
        _ => Ok(()),
    };
    let equal = |what, found: u64, wanted: u64| match found == wanted {
        false => Err(LayerError::Field(what, found, wanted)),
        true => Ok(()),
    };
    let at_most = |what, found: Option<u64>, limit: u64| match found {
        Some(found) if found <= limit => Ok(()),
        found => Err(LayerError::Field(what, found.unwrap_or(u64::MAX), limit)),
    };
    let input = &inputs[0];
    if layer.inputs[0] == NONE || layer.inputs[0] == layer.output {
        let found = layer.inputs[0] as u64;
        return Err(LayerError::Field("input tensor of a convolution", found, NONE as u64));
    }
    for dim in 0..4 {
        at_least("input extent", input.dims[dim])?;
        at_least("output extent", output.dims[dim])?;
    }
    equal("output images", output.dims[0] as u64, input.dims[0] as u64)?;
    let rows =
        |dims: &[u32; 4]| (dims[0] as u64).checked_mul(dims[1] as u64)?.checked_mul(dims[2] as u64);
    at_most("input rows", rows(&input.dims), u32::MAX as u64)?;
    at_most("output rows", rows(&output.dims), u32::MAX as u64)?;
    for axis in 0..2 {
        at_least("kernel extent", p.kernel[axis])?;
        at_least("stride", p.stride[axis])?;
        at_least("dilation", p.dilation[axis])?;
        let reach = || {
            let first = (output.dims[1 + axis] as u64 - 1).checked_mul(p.stride[axis] as u64)?;
            let taps = (p.kernel[axis] as u64 - 1).checked_mul(p.dilation[axis] as u64)?;
            first.checked_add(taps)
        };
        at_most("extent of the padded input", reach(), u32::MAX as u64)?;
    }
    at_least("groups", p.groups)?;
    equal("input channels beyond whole groups", (input.dims[3] % p.groups) as u64, 0)?;
    equal("output channels beyond whole groups", (output.dims[3] % p.groups) as u64, 0)?;
    if layer.inputs[1] != NONE {
        for dim in 0..4 {
            equal("residual extent", inputs[1].dims[dim] as u64, output.dims[dim] as u64)?;
        }
    }
    if layer.activation.function().is_none() {
        return Err(LayerError::Activation(layer.activation.kind));
    }
    let window = window(layer, input, output);
    at_most("taps", (p.kernel[0] as u64).checked_mul(p.kernel[1] as u64), u32::MAX as u64)?;
    Ok(window)
}

/// The geometry as the kernels want it.
pub(super) fn window(layer: &Layer, input: &Tensor, output: &Tensor) -> Window {
    let p: ConvParams = params(layer);
    let pair = |pair: [u32; 2]| pair.map(|x| x as usize);
    Window {
        images: input.dims[0] as usize,
        input: pair([input.dims[1], input.dims[2]]),
        output: pair([output.dims[1], output.dims[2]]),
        kernel: pair(p.kernel),
        stride: pair(p.stride),
        dilation: pair(p.dilation),
        pad: pair(p.pad),
        cols: input.dims[3] as usize,
        channels: (input.dims[3] / p.groups) as usize,
        pitch: input.pitch as usize,
    }
}

/// The chains of a (valid) convolution's reduction.
pub(super) fn chains_of(layer: &Layer, input: &Tensor) -> Chains {
    let p: ConvParams = params(layer);
    Chains::new(p.kernel.map(|taps| taps as usize), (input.dims[3] / p.groups.max(1)) as usize)
}

/// Checks that a layer's weights are `panels` panels, with `k` weights of each of `width` channels.
pub(super) fn check_weights(
    layer: &Layer,
    panels: u64,
    k: Option<u64>,
    width: usize,
    isa: Isa,
) -> Result<(), LayerError> {
    let encoding = layer.encoding().unwrap_or_default();
    let bytes = k.and_then(|k| encoding.panel_bytes(k, width, isa.panel())).unwrap_or(u64::MAX);
    if layer.panel_bytes as u64 != bytes {
        return Err(LayerError::Field("bytes of a panel", layer.panel_bytes as u64, bytes));
    }
    if layer.panels as u64 != panels {
        return Err(LayerError::Field("panels", layer.panels as u64, panels));
    }
    Ok(())
}

/// Convolution.
pub(super) const ROW: Operator = Operator {
    panels: Panels::Narrow,
    in_place: [false, true, false],
    scratch: |problem, _| scratch_bytes(problem),
    reads: [Reads::Window, Reads::Rows, Reads::Whole],
    window: lines_seen,
    macs,
    terms,
    ..Operator::new(OpKind::Conv, 2, validate, run)
};

/// Whether a layer is computed here: others have the same parameters.
pub(super) fn is_conv(layer: &Layer) -> bool {
    layer.kind == ROW.kind as u32
}

/// The rows of the lines that the windows of some rows pass over.
pub(super) fn lines_seen(layer: &Layer, tensors: [&Tensor; 2], made: &Range<u64>) -> Range<u64> {
    let p: ConvParams = params(layer);
    seen([p.kernel, p.stride, p.dilation, p.pad], tensors, made)
}

/// Multiply-adds of a convolution.
pub(super) fn macs(layer: &Layer, inputs: &[Tensor; INPUTS], output: &Tensor) -> u64 {
    let conv: ConvParams = params(layer);
    let channels = (inputs[0].cols() / conv.groups.max(1)) as u64;
    elements(output).saturating_mul(product(conv.kernel)).saturating_mul(channels)
}

/// Weights of an output channel.
pub(super) fn terms(layer: &Layer, input: &Tensor) -> u64 {
    let p: ConvParams = params(layer);
    product(p.kernel).saturating_mul(u64::from(input.cols() / p.groups.max(1)))
}

/// Whether a convolution's record can be run: everything that [`run`] relies on.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let window = geometry(layer, inputs, output)?;
    let p: ConvParams = params(layer);
    let most = if isa == Isa::Cuda { MAX_CHAINS } else { 1 };
    if p.chains > most {
        let (found, limit) = (p.chains.into(), most.into());
        return Err(LayerError::Field("chains of a reduction", found, limit));
    }
    let taps = p.kernel[0] as u64 * p.kernel[1] as u64;
    let in_group = (output.dims[3] / p.groups) as u64;
    let width = layer.columns(isa);
    let panels = p.groups as u64 * in_group.div_ceil(width as u64);
    check_weights(layer, panels, taps.checked_mul(window.channels as u64), width, isa)
}

/// Bytes of intermediates for one step: enough for every number of threads up to this one.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    problem.most_shared(|problem| {
        let division = Division::new(problem);
        (division.shares, division.scratch_each)
    })
}

/// How one step is divided.
struct Division {
    window: Window,
    channels: Channels,
    /// Output rows of a block, at most; a multiple of the tile's.
    block: usize,
    /// Output rows of a strip, at most.
    strip: usize,
    /// Whether all panels' first chains are computed before their second ones.
    apart: bool,
    split: Split,
    /// Threads that get a share.
    shares: usize,
    scratch_each: u64,
}

impl Division {
    fn new(problem: &Problem<'_>) -> Self {
        let &Problem { layer, inputs, output, slice, isa, .. } = problem;
        let p: ConvParams = params(layer);
        let window = window(layer, &inputs[0], output);
        let channels = Channels::new(output.dims[3], p.groups, layer.columns(isa));
        let (rows, mr) = (slice.rows as usize, isa.rows());
        // The floats that each pixel adds to a block's reads: with a stride below the kernel,
        // windows overlap.
        let steps = (0..2).map(|axis| window.stride[axis].min(window.kernel[axis]));
        let pixel = steps.fold(window.cols.saturating_mul(4), usize::saturating_mul);
        let chains = window.chains().count();
        let least = (BLOCK_TILES * mr).min(rows).saturating_mul(pixel);
        let apart = window.segments() == 1 && chains > 1 && least > BLOCK_BYTES;
        let pixel = if apart { pixel.div_ceil(chains) } else { pixel };
        let fit = (BLOCK_BYTES / pixel).min(BLOCK_POINTERS / 8 / window.segments());
        let block = (fit / mr).max(BLOCK_TILES).min(rows.div_ceil(mr)) * mr;
        // If the pitch of pixels is whole pages, all pixels of a strip lie in the same sets of the
        // cache.
        let pitch = window.pitch.saturating_mul(4).saturating_mul(window.stride[1]);
        let strip = if pitch.is_multiple_of(SET_BYTES) { mr.min(SET_ROWS) } else { mr };

        let threads = problem.threads();
        let cols = channels.cols(slice.first as usize, slice.count as usize).len();
        let by_cols = channels.align().map_or(1, |align| cols.div_ceil(align));
        let k = window.segments().saturating_mul(window.seg_len());
        let sizes = Sizes {
            by_rows: rows,
            by_cols,
            input: rows.saturating_mul(window.cols),
            weights: cols.saturating_mul(k),
        };
        let macs = (rows as u64).saturating_mul(sizes.weights as u64);
        let (split, units) = match channels.align() {
            Some(align) if sizes.divide_columns(threads) => {
                let each = part(by_cols, macs, threads);
                (Split::Cols(each * align), by_cols.div_ceil(each))
            }
            _ => {
                // A part has some whole tiles, unless there are too few for all threads.
                let tiles = (rows / (BLOCK_TILES * mr)).max(1) as u64;
                let each = part(rows, macs.min(tiles * PART_MACS), threads);
                (Split::Rows(each), rows.div_ceil(each))
            }
        };
        Self {
            window,
            channels,
            block,
            strip,
            apart,
            split,
            shares: threads.min(units).max(1),
            scratch_each: window.scratch_bytes(block),
        }
    }
}

/// How many of `units` make a part, where all units take `macs` multiply-accumulates. Among the
/// numbers of parts that are worth dealing out it takes the largest that keeps all threads busy to
/// the end.
pub(super) fn part(units: usize, macs: u64, threads: usize) -> usize {
    if threads == 1 {
        return units.max(1);
    }
    let worth = usize::try_from(macs / PART_MACS).unwrap_or(usize::MAX);
    let most = worth.clamp(threads, threads * device::PARTS);
    // Lower bound for the busiest thread, which one part for each thread attains.
    let least = units.div_ceil(threads);
    // It then has one to `PARTS` even parts, the most possible.
    let each = (1..=device::PARTS).rev().map(|rounds| least / rounds).find(|each| {
        let parts = units.div_ceil((*each).max(1));
        parts <= most
            && units.div_ceil(parts.max(1)) == *each
            && each * parts.div_ceil(threads) == least
    });
    each.unwrap_or(least).max(1)
}

/// The sizes that decide how an output is divided.
pub(super) struct Sizes {
    /// Parts that it can be divided into by rows, and by columns (channels).
    pub by_rows: usize,
    pub by_cols: usize,
    /// Floats that are read of the input, and of the weights.
    pub input: usize,
    pub weights: usize,
}

impl Sizes {
    /// Whether threads divide columns rather than rows. Those who divide rows all read all weights;
    /// those who divide columns read all of the input, most of which lies in another core's cache,
    /// where rows would have been computed by the core that reads them.
    pub fn divide_columns(&self, threads: usize) -> bool {
        // Thousandths of the threads' time that is used: all wait for the busiest.
        let used = |units: usize| {
            units as u64 * 1000 / (units.div_ceil(threads).max(1) as u64 * threads as u64)
        };
        let (rows, cols) = (used(self.by_rows), used(self.by_cols));
        match self.weights >= self.input {
            true => cols >= 900 || cols >= rows,
            false => cols > rows + 100,
        }
    }
}

/// How output channels fall into panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    /// Output channels of a group.
    pub in_group: usize,
    /// Panels of a group; the last one may be filled in part.
    pub panels: usize,
    /// Output channels of a panel.
    pub width: usize,
    groups: usize,
}

impl Channels {
    /// For `channels` output channels in `groups` groups, where panels hold `width`.
    pub fn new(channels: u32, groups: u32, width: usize) -> Self {
        let in_group = (channels / groups.max(1)) as usize;
        let (panels, groups) = (in_group.div_ceil(width), groups as usize);
        Self { in_group, panels, width, groups }
    }

    /// The output columns of panel `index`.
    pub fn panel(&self, index: usize) -> Range<usize> {
        let start = index / self.panels * self.in_group + index % self.panels * self.width;
        let end = (start + self.width).min((index / self.panels + 1) * self.in_group);
        start..end
    }

    /// The output columns of `count` panels from `first` on.
    pub fn cols(&self, first: usize, count: usize) -> Range<usize> {
        self.panel(first).start..self.panel(first + count.max(1) - 1).end
    }

    /// The groups that some panels, one at least, belong to.
    pub fn groups(&self, panels: Range<usize>) -> Range<usize> {
        panels.start / self.panels..panels.end.div_ceil(self.panels)
    }

    /// The panels among `panels` that have these columns.
    pub fn within(&self, panels: Range<usize>, cols: Range<usize>) -> Range<usize> {
        let inside = |index: &usize| {
            let panel = self.panel(*index);
            panel.start >= cols.start && panel.end <= cols.end
        };
        let first = panels.clone().find(inside).unwrap_or(panels.end);
        first..first + (first..panels.end).take_while(inside).count()
    }

    /// Output channels whose multiples, counted from the first channel of any panel, all are
    /// borders of panels. `None` where the short last panels of groups stand in the way.
    fn align(&self) -> Option<usize> {
        match self.panels {
            1 => Some(self.in_group),
            _ if self.groups == 1 || self.in_group.is_multiple_of(self.width) => Some(self.width),
            _ => None,
        }
    }
}

/// The part of an activation that kernels do: a clamp.
pub(super) fn clamp(activation: &Activation) -> [f32; 2] {
    match activation.function() {
        Some(ActivationKind::Clamp) => {
            let Activation { alpha, beta, .. } = activation.for_kernels();
            [alpha, beta]
        }
        _ => [f32::NEG_INFINITY, f32::INFINITY],
    }
}

/// The part of an activation that is applied to finished rows: everything but a clamp.
pub(super) fn finish(kernels: &Kernels, activation: &Activation, out: MatMut<'_>) {
    if activation.function() != Some(ActivationKind::Clamp) {
        kernels.map(activation, out);
    }
}

/// The rectangle of the residual that belongs to a rectangle of the output.
pub(super) fn addend<'a>(
    residual: &Operand<'a>,
    rows: Range<usize>,
    cols: Range<usize>,
) -> Addend<'a> {
    match residual {
        Operand::Absent => Addend::None,
        Operand::Output => Addend::Output,
        Operand::Mat(mat) => Addend::Mat(mat.part(mat.slots(rows), cols)),
    }
}

/// The panel and the pass after these: panels first, then passes, then those of another block of
/// pixels, if one follows.
fn following(
    number: usize,
    numbers: &Range<usize>,
    pass: usize,
    passes: &Range<usize>,
    another: bool,
) -> Option<(usize, usize)> {
    match () {
        _ if number + 1 < numbers.end => Some((number + 1, pass)),
        _ if pass + 1 < passes.end => Some((numbers.start, pass + 1)),
        _ if another => Some((numbers.start, passes.start)),
        _ => None,
    }
}

/// Computes one step.
pub fn run(call: Call<'_>) {
    if call.rows.is_empty() || call.count == 0 {
        return;
    }
    let (division, slice) = (Division::new(&call.problem()), call.slice());
    let Call { layer, inputs, operands, mut out, weights, kernels, device, .. } = call;
    let Operand::Mat(input) = operands[0] else {
        unreachable!("`validate` refuses a convolution without an input of its own");
    };
    let (window, channels, weights) = (division.window, division.channels, weights.floats());
    let clamp = clamp(&layer.activation);
    let columns = channels.cols(call.first, call.count);
    // The floats of a panel that the step has, and their chains.
    let held = self::weights(layer, &inputs[0], &slice, kernels.isa());
    let missing = held.start as usize / 4;
    let panel_floats = match slice.method.chains() {
        0 => layer.panel_bytes as usize / 4,
        _ => held.end as usize / 4 - missing,
    };
    let all = window.chains().count();
    let terms = slice.terms(all as u32);
    let terms = terms.start as usize..terms.end as usize;
    assert!(weights.len() >= call.count * panel_floats, "weights of {} floats", weights.len());

    let task = |share: Share<'_>| {
        let Share { rows, cols, mut out, scratch, .. } = share;
        let (first_row, first_col) = (call.rows.start + rows.start, columns.start + cols.start);
        let panels = call.first..call.first + call.count;
        let panels = channels.within(panels, first_col..first_col + out.cols());
        // As the step counts them.
        let numbers = panels.start - call.first..panels.end - call.first;
        let blocks = rows.len().div_ceil(division.block);
        for block in (0..blocks).map(|index| device::cut(rows.len(), blocks, kernels.mr(), index)) {
            let pixels = first_row + block.start..first_row + block.end;
            let (these, strip) = (pixels.clone(), division.strip);
            let lists = Indirection::convolution(&window, input, these, strip, &mut *scratch);
            let another = block.end < rows.len();
            let apart = division.apart || slice.method.chains() > 0;
            let passes = if apart { terms.clone() } else { 0..1 };
            for (pass, number) in
                passes.clone().flat_map(|pass| numbers.clone().map(move |n| (pass, n)))
            {
                let index = call.first + number;
                let cols = channels.panel(index);
                let offset = index / channels.panels * window.channels;
                let at = |number: usize| number * panel_floats;
                let next = following(number, &numbers, pass, &passes, another);
                let next = next.map(|(number, pass)| (at(number), pass));
                let panel = Panel::of(weights, at(number), panel_floats, next);
                let panel = panel.width(channels.width).without(missing).then(call.prefetch);
                let here = cols.start - first_col..cols.end - first_col;
                let residual = addend(&operands[1], pixels.clone(), cols.clone());
                let mut tile = out.part_mut(block.clone(), here);
                let target = Target { addend: residual, clamp, out: tile.reborrow() };
                if apart {
                    kernels.igemm_chain(&lists, pass, offset, panel, target);
                } else {
                    kernels.igemm(&lists, offset, panel, target);
                }
                if pass + 1 == if apart { all } else { 1 } {
                    finish(kernels, &layer.activation, tile);
                }
            }
        }
    };
    let part = out.part_mut(out.slots(call.rows.clone()), columns.clone());
    let each = division.scratch_each as usize;
    device::divide(device, part, division.split, call.scratch, each, task);
}

#[cfg(test)]
pub(super) mod testing;
#[cfg(test)]
mod tests;
