//! Proves a pack sound before anything runs: once, in place, without allocation.
//!
//! A pack is untrusted. The safety of the runtime rests on what is proved here:
//!
//! - every index points at a record, every tensor lies inside its buffer, every operator's
//!   parameters fit its tensors ([`ops::validate`]);
//! - buffers, loads, weights and scratch lie inside the arena, after the tables; buffers and scratch
//!   may lie inside fast memory instead, weights that are used in the pack inside its weights
//!   section;
//! - a buffer that holds a ring of image lines holds views of one image's pixels and nothing else,
//!   and no step goes around its end ([`ops::validate_rings`]);
//! - within a step, what is written is disjoint from what is read (or is the very same tensor,
//!   where the operator works in place): whole buffers, or else the rows of them that the step
//!   reads and makes ([`ops::rows_read`]), which are what it is lent;
//! - **no race**: a load may be in flight from the moment its `release` permits it to the start of
//!   the first step whose `ready` waits for it. No step that can run in that time (nor the host,
//!   while it owns inputs and outputs) touches the load's bytes; and nothing ever touches a
//!   resident load's (`races`);
//! - no deadlock: a step never waits for a load that waits for that step;
//! - for a plan with a staging ring, whose loads are copies from there, the same for reads into the
//!   ring (`stages`);
//! - bounds on the proof itself, and on the work of each step: a pack that takes more than its size
//!   and the caller permit is refused, so that neither `open` nor a step takes as long as a pack
//!   likes.
//!
//! That the *numbers* are right (every byte loaded before it is read, no live tensor overwritten)
//! is the planner's checker's to prove: a pack that is wrong in that way computes nonsense, safely.

mod chunks;
mod network;
mod pages;
mod plan;
mod races;
mod stages;

use crate::ops::{self, LayerError, Slice};
use crate::pack::{
    ActivationKind, FAST, Flaw, INPUTS, Isa, Layer, Load, OpKind, Place, PlanView, Port, Region,
    Skeleton, Step, Tensor, ring_bytes,
};
use core::ops::Range;

fn check(ok: bool, what: &'static str, index: usize, found: u64, limit: u64) -> Result<(), Flaw> {
    if ok { Ok(()) } else { Err(Flaw { what, index: index as u32, found, limit }) }
}

/// The effort of the proof of one plan: looks at a set of pages, comparisons of two records. Each
/// takes some nanoseconds. Numbers of threads for which the scratch of a work is computed count,
/// too, and take up to a hundred.
///
/// It is counted. A plan that takes more than is due to the pack's size is refused, since nothing
/// else bounds the time that `open` takes.
#[derive(Debug)]
struct Effort {
    spent: u64,
    most: u64,
}

impl Effort {
    fn spend(&mut self, more: u64) -> Result<(), Flaw> {
        self.spent = self.spent.saturating_add(more);
        let what = "plan: takes too long to prove, in comparisons, beside the size of its pack";
        check(self.spent <= self.most, what, 0, self.spent, self.most)
    }
}

/// A skeleton that has been proved: all that holds whatever the plan.
#[derive(Clone, Copy, Debug)]
pub struct ProvenSkeleton<'a> {
    skeleton: Skeleton<'a>,
    isa: Isa,
    weights: u64,
}

/// A skeleton and a plan that have been proved to fit each other and the arena.
#[derive(Clone, Copy, Debug)]
pub struct Proven<'a> {
    skeleton: Skeleton<'a>,
    plan: PlanView<'a>,
    isa: Isa,
    /// Bytes of the weights section.
    weights: u64,
    arena: Range64,
}

/// A half-open range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range64 {
    start: u64,
    end: u64,
}

impl Range64 {
    const EMPTY: Self = Self { start: 0, end: 0 };

    fn of(start: u64, bytes: u64) -> Self {
        Self { start, end: start.saturating_add(bytes) }
    }

    fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// The range that spans both.
    fn hull(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    fn holds(self, inner: Self) -> bool {
        inner.start >= self.start && inner.end <= self.end
    }
}

/// Bounds within which a plan is proved.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of header, skeleton and plan at the start of the arena.
    pub tables: u64,
    /// Bytes of arena.
    pub arena: u64,
    /// Bytes of fast memory.
    pub fast: u64,
    /// Threads that the scratch must serve.
    pub threads: u32,
    /// Most multiply-adds and elements of a step.
    pub step_work: u64,
    /// Most comparisons that the proof may take.
    pub effort: u64,
    /// Whether the pack lies in memory, so that steps may use weights there.
    pub mapped: bool,
}

impl Bounds {
    /// Comparisons that the proof of one of `plans` plans may take, in a pack of `bytes` bytes. It
    /// is half a million for each MiB, which take less than 10 ms, and for each plan at least what
    /// plans of small networks take.
    pub fn effort_for(bytes: u64, plans: u32) -> u64 {
        const EACH: u64 = 1 << 17;
        (bytes / 2 / u64::from(plans.max(1))).max(EACH)
    }
}

impl<'a> Proven<'a> {
    /// Proves a plan for a skeleton.
    pub fn new(
        network: &ProvenSkeleton<'a>,
        plan: PlanView<'a>,
        bounds: Bounds,
    ) -> Result<Self, Flaw> {
        let arena = Range64 { start: bounds.tables, end: bounds.arena };
        let &ProvenSkeleton { skeleton, isa, weights } = network;
        let proven = Self { skeleton, plan, isa, weights, arena };
        // A GPU computes in its arena alone.
        let bounds = Bounds { fast: if isa == Isa::Cuda { 0 } else { bounds.fast }, ..bounds };
        let what = "plan: bytes of arena, which reach into the addresses of fast memory";
        check(arena.end <= FAST, what, 0, arena.end, FAST)?;
        let mut effort = Effort { spent: 0, most: bounds.effort };
        proven.places(&bounds, &mut effort)?;
        proven.loads(weights)?;
        proven.steps(&bounds, weights, &mut effort)?;
        proven.stages()?;
        proven.races(&mut effort)?;
        proven.stage_races(&mut effort)?;
        Ok(proven)
    }

    /// The network.
    pub fn skeleton(&self) -> &Skeleton<'a> {
        &self.skeleton
    }

    /// The plan.
    pub fn plan(&self) -> &PlanView<'a> {
        &self.plan
    }

    /// The instruction set whose layout the weights have.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

impl<'a> ProvenSkeleton<'a> {
    /// Proves a skeleton for `weights` bytes of weights in the layout of `isa`.
    pub fn new(skeleton: Skeleton<'a>, isa: Isa, weights: u64) -> Result<Self, Flaw> {
        let proven = Self { skeleton, isa, weights };
        proven.tensors()?;
        proven.layers(weights)?;
        proven.ports()?;
        Ok(proven)
    }

    /// The network.
    pub fn skeleton(&self) -> &Skeleton<'a> {
        &self.skeleton
    }

    /// The instruction set whose layout the weights have.
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

impl<'a> Proven<'a> {
    /// The network, for which other plans can be proved.
    pub(crate) fn network(&self) -> ProvenSkeleton<'a> {
        let &Self { skeleton, isa, weights, .. } = self;
        ProvenSkeleton { skeleton, isa, weights }
    }

    /// Where the tables end: nothing of the plan lies before.
    pub(crate) fn start(&self) -> u64 {
        self.arena.start
    }

    /// Where the plan ends: nothing of it lies after.
    pub(crate) fn end(&self) -> u64 {
        self.arena.end
    }

    /// The bytes that a step touches: the buffers of its inputs and its output, its weights, its
    /// scratch.
    fn touched(&self, step: &Step) -> [Range64; INPUTS + 3] {
        // Asked for so often that not all of the layer is read.
        let layer = &self.skeleton.layers.stored()[step.layer as usize];
        let of = |id: u32| match self.skeleton.tensors.get(id as usize) {
            Some(tensor) => self.buffer_range(tensor),
            None => Range64::EMPTY,
        };
        let weights = match step.chains() {
            0 => u64::from(step.count) * u64::from(layer.panel_bytes),
            _ => {
                let layer = self.skeleton.layers.at(step.layer as usize);
                let bytes = self.weights(&layer, &Slice::from(step));
                bytes.end - bytes.start
            }
        };
        // Nobody may write into the pack.
        let weights = if step.weights_in == Region::Arena { weights } else { 0 };
        let part = |start, bytes| match bytes {
            0 => Range64::EMPTY,
            bytes => Range64::of(start, bytes),
        };
        [
            of(layer.inputs[0]),
            of(layer.inputs[1]),
            of(layer.inputs[2]),
            of(layer.output),
            part(step.weights, weights),
            part(step.scratch, step.scratch_bytes),
        ]
    }

    /// The bytes of a step's weights, from its first panel on.
    pub(crate) fn weights(&self, layer: &Layer, slice: &Slice) -> Range<u64> {
        ops::weights(layer, &self.skeleton.layer_inputs(layer)[0], slice, self.isa)
    }

    /// Whether a step's output and an input lie in whole buffers, and the rows of them that it is
    /// [lent](Self::lent) apart. On a GPU it is lent all.
    fn apart_by_rows(
        &self,
        layer: &Layer,
        inputs: &[Tensor; INPUTS],
        output: &Tensor,
        slice: &Slice,
        slot: usize,
    ) -> bool {
        let input = &inputs[slot];
        let rings = [input, output].into_iter().any(|tensor| self.lines(tensor) > 0);
        if rings || self.isa == Isa::Cuda || ops::takes_buffers(layer) {
            return false;
        }
        let bytes = |tensor: &Tensor, rows: &Range<usize>| {
            if rows.is_empty() {
                return Range64::EMPTY;
            }
            let start = self.plan.places.at(tensor.buffer as usize).address;
            let float =
                |row: usize| u64::from(tensor.offset) + row as u64 * u64::from(tensor.pitch);
            Range64 {
                start: start + 4 * float(rows.start),
                end: start + 4 * (float(rows.end - 1) + u64::from(tensor.cols())),
            }
        };
        let lent = self.lent(layer, slice);
        !bytes(input, &lent[slot]).overlaps(bytes(output, &lent[INPUTS]))
    }

    /// The rows of its inputs and of its output that a step is lent on a processor, as their
    /// matrices count them: those that it touches, and all that memory holds of rings.
    /// Copies have whole buffers, each a row.
    pub(crate) fn lent(&self, layer: &Layer, slice: &Slice) -> [Range<usize>; INPUTS + 1] {
        if ops::takes_buffers(layer) {
            return core::array::from_fn(|_| 0..1);
        }
        let inputs = self.skeleton.layer_inputs(layer);
        let output = &self.skeleton.tensors[layer.output as usize];
        let [a, b, c] = ops::rows_read(layer, &inputs, output, slice);
        let [first, second, third] = layer.inputs;
        [(first, a), (second, b), (third, c), (layer.output, slice.made())].map(|(id, rows)| {
            match self.skeleton.tensors.get(id as usize) {
                Some(tensor) if self.lines(tensor) > 0 => 0..self.held_rows(id) as usize,
                Some(_) => rows.start as usize..rows.end as usize,
                None => 0..0,
            }
        })
    }

    /// Image lines of the ring that a tensor lies in; 0 where its buffer is whole.
    fn lines(&self, tensor: &Tensor) -> u32 {
        self.plan.places.at(tensor.buffer as usize).lines
    }

    /// Where the buffer of a tensor lies. A ring's bytes are the same for all of its tensors.
    fn buffer_range(&self, tensor: &Tensor) -> Range64 {
        let Place { address, lines } = self.plan.places.at(tensor.buffer as usize);
        let bytes = match lines {
            0 => self.skeleton.buffers.at(tensor.buffer as usize).bytes,
            lines => ring_bytes(lines, tensor.dims[2], tensor.pitch),
        };
        Range64::of(address, bytes)
    }

    fn port_range(&self, port: &Port) -> Range64 {
        self.buffer_range(&self.skeleton.tensors[port.tensor as usize])
    }

    fn inside(&self, range: Range64, what: &'static str, index: usize) -> Result<(), Flaw> {
        check(self.arena.holds(range), what, index, range.end, self.arena.end)
    }

    /// A buffer or scratch lies inside the arena, or inside fast memory.
    fn inside_either(
        &self,
        range: Range64,
        bounds: &Bounds,
        what: &'static str,
        index: usize,
    ) -> Result<(), Flaw> {
        if range.start < FAST {
            return self.inside(range, what, index);
        }
        let what = "plan: a buffer or scratch outside fast memory";
        let end = range.end - FAST;
        check(end <= bounds.fast, what, index, end, bounds.fast)
    }

    /// The rows of a tensor that memory holds, from the first one's address: all, or a ring's.
    pub(crate) fn held_rows(&self, id: u32) -> u64 {
        let tensor = &self.skeleton.tensors[id as usize];
        match self.lines(tensor) {
            0 => tensor.rows(),
            lines => u64::from(lines) * u64::from(tensor.dims[2]),
        }
    }

    /// The floats of a tensor's buffer that memory holds: all, or a ring's lines, not rounded up to
    /// what is aligned: operators find a row's place by this length.
    pub(crate) fn held_floats(&self, tensor: &Tensor) -> usize {
        let floats = match self.lines(tensor) {
            0 => self.skeleton.buffers.at(tensor.buffer as usize).bytes / 4,
            lines => u64::from(lines) * u64::from(tensor.dims[2]) * u64::from(tensor.pitch),
        };
        floats as usize
    }

    /// The arena bytes of a port's tensor: from its first element to one past its last.
    pub(crate) fn port_bytes(&self, id: u32) -> Range<u64> {
        let tensor = &self.skeleton.tensors[id as usize];
        let base = self.plan.places.at(tensor.buffer as usize).address;
        let end = end_of(tensor).unwrap_or(0);
        base + 4 * u64::from(tensor.offset)..base + 4 * end
    }
}

fn image(load: &Load) -> Range64 {
    Range64::of(load.address, load.bytes.into())
}

/// One past the last element of a tensor, in floats from the start of its buffer.
fn end_of(tensor: &Tensor) -> Option<u64> {
    let rows = tensor.dims[..3].iter().try_fold(1u64, |n, &d| n.checked_mul(d.into()))?;
    rows.checked_sub(1)?
        .checked_mul(tensor.pitch.into())?
        .checked_add(u64::from(tensor.offset) + u64::from(tensor.cols()))
}

fn layer_flaw(error: LayerError, index: usize) -> Flaw {
    let (what, found, limit) = match error {
        LayerError::Kind(code) => {
            let last = OpKind::ALL[OpKind::ALL.len() - 1];
            ("layer: unknown operator", code.into(), last as u64)
        }
        LayerError::Activation(code) => {
            ("layer: unknown activation", code.into(), ActivationKind::FakeQuantise as u64)
        }
        LayerError::Field(what, found, limit) => (what, found, limit),
    };
    Flaw { what, index: index as u32, found, limit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Activation;

    #[test]
    fn refusals_name_the_last_code_that_there_is() {
        let last = layer_flaw(LayerError::Activation(99), 3).limit as u32;
        let known = |kind| Activation { kind, ..Activation::NONE }.function().is_some();
        assert!(known(last) && !known(last + 1));
        let last = layer_flaw(LayerError::Kind(99), 3).limit as u32;
        let known = |kind| OpKind::from_code(kind).is_some();
        assert!(known(last) && !known(last + 1));
    }
}
