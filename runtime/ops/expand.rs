//! Weights that are not stored as operators read them: panels of 16-bit weights, and panels of a direct 3x3
//! convolution that a step computes by Winograd's algorithm ([`Step::algorithm`](crate::pack::Step)).
//!
//! A step expands them into its scratch, panels of floats (or of frequencies), and the operator computes as if
//! they had been stored so. What is read from storage, and what lies in the arena between, is the small form.
//! The expanded one is read as soon as it is made, so it is made in pieces that stay in a cache. There are
//! three ways:
//!
//! - **rows of one** (a fully connected layer): a thread expands some k of a panel and continues a chain of
//!   fused multiply-adds from what it has so far. The piece stays in the first-level
//!   cache.
//! - **own**: where threads divide a convolution's panels, each expands those of its own, a few at a time.
//! - **shared**: all threads expand some panels, then all compute with them. A Winograd convolution
//!   transforms its inputs for every such group of panels, so the groups are larger, where there is scratch for it.
//!
//! Expanding is exact for 16-bit weights; transforms have one written order of operations. So results do not
//! depend on the way, nor on slices or threads.

use super::conv::{self, Sizes, addend, clamp, finish, part};
use super::{
    Call, LayerError, Operand, Slice, Want, check, operator_scratch_bytes, run_operator, winograd,
};
use crate::arena::{MatMut, MatRef};
use crate::device::{self, Device, Inline, Share, Split};
use crate::kernels::table::{Addend, Indirection, Panel, TILES};
use crate::kernels::{Isa, Kernels};
use crate::pack::{
    ConvParams, Encoding, GatherParams, Layer, OpKind, Tensor, WinogradParams, params, params_words,
};
use core::ops::Range;

/// Bytes of expanded panels that threads share.
const SHARED_BYTES: u64 = 1 << 20;

/// Panels at least for which a Winograd convolution transforms its inputs.
const WINOGRAD_PANELS: usize = 8;

/// Panels that threads share at least where these are of several groups of a Winograd convolution: each has other inputs,
/// so no more than keeps threads busy and [`OWN_BYTES`].
const GROUPED_PANELS: usize = 4;

/// Bytes of expanded panels of a thread's own: a part of its second-level cache.
const OWN_BYTES: u64 = 256 << 10;

/// Weights that are expanded at once for one row: half of a first-level cache.
const ROW_WEIGHTS: usize = 4096;

/// Input channels whose filters are widened before they are transformed.
const FILTERS: usize = 16;

/// Output channels of the widest panel.
const MOST_LANES: usize = 32;

/// Whether a step's weights are not stored as its operator reads them. Gather widens what it is asked for.
pub(super) fn expands(layer: &Layer, algorithm: u32) -> bool {
    let encoded = layer.encoding != Encoding::F32 as u32 && layer.kind != OpKind::Gather as u32;
    encoded || algorithm != 0
}

/// The record of a convolution whose steps are computed by F(algorithm, 3), with panels of frequencies; an
/// error if it cannot be.
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
    check(layer.kind == OpKind::Conv as u32, what, layer.kind.into(), OpKind::Conv as u64)?;
    let p: ConvParams = params(layer);
    let what = "taps of a convolution by Winograd's algorithm, which takes 3x3 of stride 1,";
    let taps = u64::from(p.kernel[0]) * u64::from(p.kernel[1]);
    check(p == winograd::direct(p.pad, p.groups), what, taps, 9)?;
    let points = u64::from(algorithm + 2) * u64::from(algorithm + 2);
    let channels = u64::from(input.cols() / p.groups.max(1));
    let bytes = Encoding::F32.panel_bytes(points * channels, isa.panel());
    let bytes = bytes.unwrap_or(u64::MAX);
    let panel_bytes = u32::try_from(bytes)
        .map_err(|_| LayerError::Field("bytes of a transformed panel", bytes, u32::MAX.into()))?;
    let params = params_words(&WinogradParams { tile: algorithm, pad: p.pad, groups: p.groups });
    Ok(Layer { kind: OpKind::Winograd as u32, panel_bytes, encoding: 0, params, ..*layer })
}

/// Weights of an output of a layer whose weights are panels.
fn reduction(layer: &Layer, input: &Tensor) -> u64 {
    let channels = u64::from(input.cols());
    match OpKind::from_code(layer.kind) {
        Some(OpKind::Conv | OpKind::Depthwise) => {
            let p: ConvParams = params(layer);
            let taps = u64::from(p.kernel[0]) * u64::from(p.kernel[1]);
            taps.saturating_mul(channels / u64::from(p.groups.max(1)))
        }
        Some(OpKind::Winograd) => {
            let p: WinogradParams = params(layer);
            let side = u64::from(p.tile) + 2;
            side.saturating_mul(side).saturating_mul(channels / u64::from(p.groups.max(1)))
        }
        Some(OpKind::Gather) => params::<GatherParams>(layer).entries.into(),
        _ => 0,
    }
}

/// Panels that threads expand together.
pub(super) fn panels_at_once(plain: &Layer) -> usize {
    let (bytes, least) = match plain.kind == OpKind::Winograd as u32 {
        true if params::<WinogradParams>(plain).groups > 1 => (OWN_BYTES, GROUPED_PANELS),
        true => (SHARED_BYTES, WINOGRAD_PANELS),
        false => (SHARED_BYTES, 1),
    };
    panels_in(bytes, plain).max(least)
}

/// Expanded panels that so many bytes hold.
fn panels_in(bytes: u64, plain: &Layer) -> usize {
    saturating(bytes / u64::from(plain.panel_bytes.max(1)))
}

/// How a step's panels are expanded: see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Row,
    /// So many panels at a time, of parts of so many.
    Own {
        chunk: usize,
        each: usize,
    },
    /// In so many groups, as even as possible; in more where scratch is short.
    Shared {
        groups: usize,
    },
}

impl Way {
    fn of(
        plain: &Layer,
        inputs: &[Tensor; 2],
        slice: &Slice,
        threads: usize,
        isa: Isa,
        k: u64,
    ) -> Self {
        let panels = slice.count as usize;
        let kind = OpKind::from_code(plain.kind);
        let p: ConvParams = params(plain);
        if kind == Some(OpKind::Conv) && p.groups == 1 {
            if slice.rows == 1 && p.kernel == [1; 2] {
                return Self::Row;
            }
            let sizes = Sizes {
                by_rows: slice.rows as usize,
                by_cols: panels,
                input: saturating(u64::from(slice.rows) * u64::from(inputs[0].cols())),
                weights: saturating(k.saturating_mul((panels * isa.panel()) as u64)),
            };
            if threads == 1 || sizes.divide_columns(threads) {
                let macs = u64::from(slice.rows).saturating_mul(sizes.weights as u64);
                let each = part(panels, macs, threads);
                return Self::Own { chunk: panels_in(OWN_BYTES, plain).clamp(1, each), each };
            }
        }
        Self::Shared { groups: panels.div_ceil(panels_at_once(plain)).max(1) }
    }
}

fn saturating(x: u64) -> usize {
    usize::try_from(x).unwrap_or(usize::MAX)
}

/// How one step's weights become what its operator reads.
pub(super) struct Expansion {
    /// The layer as if it were stored so.
    plain: Layer,
    /// As it is stored.
    encoding: Encoding,
    stored_bytes: usize,
    algorithm: u32,
    isa: Isa,
    way: Way,
}

impl Expansion {
    /// For a call that may need none.
    pub(super) fn of(call: &Call<'_>) -> Option<Self> {
        Self::new(
            call.layer,
            &call.inputs,
            &call.slice(),
            call.device.threads(),
            call.kernels.isa(),
        )
    }

    /// For a slice on so many threads, which may need none.
    pub(super) fn new(
        layer: &Layer,
        inputs: &[Tensor; 2],
        slice: &Slice,
        threads: usize,
        isa: Isa,
    ) -> Option<Self> {
        if !expands(layer, slice.algorithm) || slice.count == 0 || slice.rows == 0 {
            return None;
        }
        let k = reduction(layer, &inputs[0]);
        let plain = match slice.algorithm {
            0 => {
                let bytes = Encoding::F32.panel_bytes(k, isa.panel())?;
                Layer { encoding: 0, panel_bytes: u32::try_from(bytes).ok()?, ..*layer }
            }
            algorithm => transformed(layer, &inputs[0], algorithm, isa).ok()?,
        };
        let way = Way::of(&plain, inputs, slice, threads.max(1), isa, k);
        let encoding = layer.encoding().unwrap_or_default();
        let stored_bytes = layer.panel_bytes as usize;
        Some(Self { plain, encoding, stored_bytes, algorithm: slice.algorithm, isa, way })
    }

    /// Bytes of intermediates on so many threads, the operator's included.
    pub(super) fn scratch_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        threads: u32,
        want: Want,
    ) -> u64 {
        let panels = slice.count as usize;
        match self.way {
            Way::Row => self.row_bytes(inputs, output) * (threads as usize).min(panels) as u64,
            Way::Own { chunk, each } => {
                let shares = (threads as usize).min(panels.div_ceil(each));
                let bytes = self.own_bytes(inputs, output, slice, chunk);
                bytes.saturating_mul(shares as u64)
            }
            Way::Shared { groups } => {
                let most = match want {
                    Want::All => panels.div_ceil(groups),
                    Want::Least => 1,
                };
                self.shared_bytes(inputs, output, slice, most, threads, want)
            }
        }
    }

    /// What groups of at most so many panels take.
    fn shared_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        most: usize,
        threads: u32,
        want: Want,
    ) -> u64 {
        let operator =
            |count: usize| self.operator_bytes(inputs, output, slice, count, threads, want);
        let filters = self.filter_bytes() as u64 * u64::from(threads);
        let beside = operator(most).max(operator((most - 1).max(1))).max(filters);
        (self.panels_bytes(most) as u64).saturating_add(beside)
    }

    /// The groups of a call: as few as there may be, or as many as have panels take half of its scratch.
    fn groups(&self, call: &Call<'_>, fewest: usize) -> usize {
        let (slice, threads) = (call.slice(), call.device.threads() as u32);
        let scratch = call.scratch.len() as u64;
        let fits = |most: usize, want: Want| {
            self.shared_bytes(&call.inputs, &call.output, &slice, most, threads, want) <= scratch
        };
        // Groups are even: of so many panels, or one less.
        let most = |groups: usize| call.count.div_ceil(groups);
        if fits(most(fewest), Want::All) {
            return fewest;
        }
        let half = panels_in(scratch / 2, &self.plain).clamp(1, most(fewest));
        let mut groups = call.count.div_ceil(half);
        while groups < call.count && !fits(most(groups), Want::Least) {
            groups += 1;
        }
        groups
    }

    /// Bytes of so many expanded panels, a multiple of 64.
    fn panels_bytes(&self, panels: usize) -> usize {
        (self.plain.panel_bytes as usize * panels).next_multiple_of(64)
    }

    /// What the operator needs for so many of a slice's panels.
    fn operator_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        panels: usize,
        threads: u32,
        want: Want,
    ) -> u64 {
        let slice = Slice { count: panels as u32, algorithm: 0, ..*slice };
        operator_scratch_bytes(&self.plain, inputs, output, &slice, threads, self.isa, want)
    }

    fn own_bytes(&self, inputs: &[Tensor; 2], output: &Tensor, slice: &Slice, chunk: usize) -> u64 {
        let operator = self.operator_bytes(inputs, output, slice, 1, 1, Want::All);
        (self.panels_bytes(chunk) as u64).saturating_add(operator)
    }

    /// Bytes of a piece of a panel, its bias included, a multiple of 64.
    fn piece_bytes(&self) -> usize {
        (4 * (self.isa.panel() + ROW_WEIGHTS)).next_multiple_of(64)
    }

    fn row_bytes(&self, inputs: &[Tensor; 2], output: &Tensor) -> u64 {
        let window = conv::window(&self.plain, &inputs[0], output);
        (self.piece_bytes() as u64).saturating_add(window.scratch_bytes(1))
    }

    /// Bytes of filters that one thread widens before it transforms them.
    fn filter_bytes(&self) -> usize {
        match (self.algorithm, self.encoding) {
            (0, _) | (_, Encoding::F32) => 0,
            _ => 4 * 9 * FILTERS * self.isa.panel(),
        }
    }

    /// Weights of a panel, as stored, before those of its channels: its biases, which are floats.
    fn biases(&self) -> usize {
        self.isa.panel() * 4 / self.encoding.weight_bytes()
    }

    /// Expands one panel, with room for [`filter_bytes`](Self::filter_bytes).
    fn panel(&self, kernels: &Kernels, stored: &[f32], out: &mut [f32], filters: &mut [u8]) {
        let nr = self.isa.panel();
        let (bias, body) = out.split_at_mut(nr);
        bias.copy_from_slice(&stored[..nr]);
        if self.algorithm == 0 {
            return kernels.widen(self.encoding, stored, self.biases(), body);
        }
        if let Some(out) = self.frequencies(body) {
            self.transform(kernels, stored, 0..out.cols(), out, filters);
        }
    }

    /// The frequencies of a transformed panel: each a row.
    fn frequencies<'a>(&self, body: &'a mut [f32]) -> Option<MatMut<'a>> {
        let side = self.algorithm as usize + 2;
        let count = body.len() / (side * side);
        MatMut::new(body, side * side, count, count)
    }

    /// Transforms the filters `these` of a panel, whole channels, with room for
    /// [`filter_bytes`](Self::filter_bytes).
    fn transform(
        &self,
        kernels: &Kernels,
        stored: &[f32],
        these: Range<usize>,
        mut out: MatMut<'_>,
        filters: &mut [u8],
    ) {
        let (nr, tile) = (self.isa.panel(), self.algorithm as usize);
        // Filters of a whole panel.
        let count = (self.plain.panel_bytes as usize / 4 - nr) / out.rows();
        if self.encoding == Encoding::F32 {
            let taps = MatRef::new(&stored[nr..], 9, count, count);
            let taps = taps.unwrap_or_else(|| unreachable!("`validate` has measured the panel"));
            return kernels.winograd_weights(tile, taps.part(0..9, these), out);
        }
        let filters: &mut [f32] = bytemuck::cast_slice_mut(filters);
        for at in (0..these.len()).step_by(FILTERS * nr) {
            let len = (FILTERS * nr).min(these.len() - at);
            for (tap, filters) in filters.chunks_exact_mut(len).take(9).enumerate() {
                let start = self.biases() + tap * count + these.start + at;
                kernels.widen(self.encoding, stored, start, filters);
            }
            let Some(taps) = MatRef::new(filters, 9, len, len) else { continue };
            let points = 0..out.rows();
            kernels.winograd_weights(tile, taps, out.part_mut(points, at..at + len));
        }
    }

    /// Computes a step.
    pub(super) fn run(&self, call: Call<'_>) {
        match self.way {
            Way::Row => self.run_rows_of_one(call),
            Way::Own { chunk, each } => self.run_own(call, chunk, each),
            Way::Shared { groups } => self.run_shared(call, groups),
        }
    }

    fn run_shared(&self, mut call: Call<'_>, groups: usize) {
        let groups = self.groups(&call, groups);
        let floats = self.plain.panel_bytes as usize / 4;
        let stored = self.stored_bytes / 4;
        let most = self.panels_bytes(call.count.div_ceil(groups));
        let (expanded, scratch) = call.scratch.split_at_mut(most);
        let expanded: &mut [f32] = bytemuck::cast_slice_mut(expanded);
        for panels in (0..groups).map(|index| device::cut(call.count, groups, 1, index)) {
            let expanded = &mut expanded[..panels.len() * floats];
            let weights = &call.weights[panels.start * stored..panels.end * stored];
            self.expand(call.kernels, call.device, weights, expanded, scratch);
            run_operator(Call {
                layer: &self.plain,
                operands: call.operands,
                out: call.out.reborrow(),
                weights: expanded,
                algorithm: 0,
                first: call.first + panels.start,
                count: panels.len(),
                rows: call.rows.clone(),
                scratch,
                ..call
            });
        }
    }

    /// Expands some panels on all threads: one after the other where there are more threads, which then share the
    /// channels of each.
    fn expand(
        &self,
        kernels: &Kernels,
        device: &dyn Device,
        weights: &[f32],
        expanded: &mut [f32],
        scratch: &mut [u8],
    ) {
        let (floats, stored) = (self.plain.panel_bytes as usize / 4, self.stored_bytes / 4);
        let (nr, each, panels) = (self.isa.panel(), self.filter_bytes(), expanded.len() / floats);
        if self.algorithm != 0 && panels < device.threads() {
            for (out, stored) in expanded.chunks_exact_mut(floats).zip(weights.chunks_exact(stored))
            {
                let (bias, body) = out.split_at_mut(nr);
                bias.copy_from_slice(&stored[..nr]);
                let Some(out) = self.frequencies(body) else { continue };
                let channels = (out.cols() / nr).div_ceil(device.threads());
                device::divide(device, out, Split::Cols(channels * nr), scratch, each, |share| {
                    self.transform(kernels, stored, share.cols, share.out, share.scratch);
                });
            }
            return;
        }
        let Some(out) = MatMut::new(expanded, panels, floats, floats) else { return };
        device::divide(device, out, Split::Rows(1), scratch, each, |mut share| {
            for (row, panel) in share.rows.clone().enumerate() {
                let stored = &weights[panel * stored..][..stored];
                self.panel(kernels, stored, share.out.row_mut(row), share.scratch);
            }
        });
    }

    /// Divides a convolution's panels among threads, each with scratch of its own. `task` is given the
    /// first of a part's panels and how many they are, as the step counts them, and a call with the part's
    /// columns as if these were the whole output.
    fn divide(&self, call: Call<'_>, each: usize, bytes: usize, task: impl Fn(Call<'_>) + Sync) {
        let Call { layer, inputs, output, operands, mut out, weights, kernels, device, .. } = call;
        let (nr, stored) = (self.isa.panel(), self.stored_bytes / 4);
        let cols = call.first * nr..((call.first + call.count) * nr).min(out.cols());
        let all = 0..out.rows();
        let part = out.part_mut(all.clone(), cols.clone());
        device::divide(device, part, Split::Cols(each * nr), call.scratch, bytes, |share| {
            let Share { cols: here, out, scratch, .. } = share;
            let panels = here.start / nr..here.end.div_ceil(nr);
            let residual = match operands[1] {
                Operand::Mat(mat) => {
                    let at = cols.start + here.start..cols.start + here.end;
                    Operand::Mat(mat.part(all.clone(), at))
                }
                other => other,
            };
            let [a, b, c, _] = output.dims;
            task(Call {
                layer,
                inputs,
                output: Tensor { dims: [a, b, c, here.len() as u32], ..output },
                operands: [operands[0], residual],
                out,
                weights: &weights[panels.start * stored..panels.end * stored],
                algorithm: 0,
                first: 0,
                count: panels.len(),
                rows: call.rows.clone(),
                scratch,
                device: &Inline,
                kernels,
            });
        });
    }

    fn run_own(&self, call: Call<'_>, chunk: usize, each: usize) {
        let floats = self.plain.panel_bytes as usize / 4;
        let stored = self.stored_bytes / 4;
        let slice = Slice { first: 0, count: 1, algorithm: 0, ..call.slice() };
        let bytes = self.own_bytes(&call.inputs, &call.output, &slice, chunk) as usize;
        self.divide(call, each, bytes, |mut part| {
            let (expanded, scratch) = part.scratch.split_at_mut(self.panels_bytes(chunk));
            let expanded: &mut [f32] = bytemuck::cast_slice_mut(expanded);
            for first in (0..part.count).step_by(chunk) {
                let count = chunk.min(part.count - first);
                let weights = part.weights[first * stored..].chunks_exact(stored);
                for (out, stored) in expanded.chunks_exact_mut(floats).zip(weights).take(count) {
                    self.panel(part.kernels, stored, out, &mut []);
                }
                run_operator(Call {
                    layer: &self.plain,
                    operands: part.operands,
                    out: part.out.reborrow(),
                    weights: &expanded[..count * floats],
                    first,
                    count,
                    rows: part.rows.clone(),
                    scratch,
                    ..part
                });
            }
        });
    }

    fn run_rows_of_one(&self, call: Call<'_>) {
        let (nr, stored) = (self.isa.panel(), self.stored_bytes / 4);
        let window = conv::window(&self.plain, &call.inputs[0], &call.output);
        let (piece, k) = (self.piece_bytes(), call.inputs[0].cols() as usize);
        let bytes = self.row_bytes(&call.inputs, &call.output) as usize;
        let each = part(call.count, (call.count * nr * k) as u64, call.device.threads());
        self.divide(call, each, bytes, |mut part| {
            let Operand::Mat(input) = part.operands[0] else {
                unreachable!("`validate` refuses a convolution without an input of its own");
            };
            let (kernels, row) = (part.kernels, part.rows.clone());
            let (piece, scratch) = part.scratch.split_at_mut(piece);
            let piece: &mut [f32] = bytemuck::cast_slice_mut(piece);
            let lists = Indirection::convolution(&window, input, row.clone(), 1, scratch);
            let (chains, unbounded) = (lists.chains(), [f32::NEG_INFINITY, f32::INFINITY]);
            let limits = clamp(&part.layer.activation);
            for (panel, stored) in part.weights.chunks_exact(stored).enumerate() {
                let cols = panel * nr..((panel + 1) * nr).min(part.out.cols());
                let mut out = part.out.part_mut(row.clone(), cols.clone());
                for chain in 0..chains.count() {
                    let terms = chains.terms(chain);
                    let mut sums = [0.0; MOST_LANES];
                    // As `Chains` has it.
                    let residual = if chain == 0 {
                        sums[..nr].copy_from_slice(&stored[..nr]);
                        addend(&part.operands[1], row.clone(), cols.clone())
                    } else {
                        Addend::Output
                    };
                    let limits = if chain + 1 == chains.count() { limits } else { unbounded };
                    for from in terms.clone().step_by(ROW_WEIGHTS / nr) {
                        let len = (ROW_WEIGHTS / nr).min(terms.end - from);
                        let piece = &mut piece[..(1 + len) * nr];
                        let (bias, body) = piece.split_at_mut(nr);
                        bias.copy_from_slice(&sums[..nr]);
                        kernels.widen(self.encoding, stored, self.biases() + from * nr, body);
                        let lists = lists.seg_len(len);
                        let piece = Panel::cached(piece);
                        if from + len < terms.end {
                            let Some(to) = MatMut::new(&mut sums[..nr], 1, nr, nr) else {
                                continue;
                            };
                            kernels.igemm(&lists, from, piece, Addend::None, unbounded, to);
                        } else {
                            kernels.igemm(&lists, from, piece, residual, limits, out.reborrow());
                        }
                    }
                }
                finish(kernels, &part.layer.activation, out);
            }
        });
    }
}

#[cfg(test)]
mod tests;
