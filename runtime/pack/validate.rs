//! Proves a pack sound before anything is run: once, in place, without allocation.
//!
//! A pack is untrusted. What is proved here is what the safety of the runtime rests on:
//!
//! - every index points at a record, every tensor lies inside its buffer, every operator's parameters
//!   fit its tensors ([`ops::validate`]);
//! - buffers, loads, weights and scratch lie inside the arena, behind the tables;
//! - a buffer that holds a ring of image lines holds views of one image's pixels and nothing else, and no step
//!   goes around its end ([`ops::validate_rings`]);
//! - within a step, what is written is disjoint from what is read (or is the very same tensor, where
//!   the operator works in place): whole buffers, or else the rows of them that the step reads and makes
//!   ([`ops::rows_read`]), which are what it is lent;
//! - **no race**: a load may be in flight from the moment its `release` permits it to the start of the
//!   first step whose `ready` waits for it. No step that can run in that time (nor the host, while it
//!   owns inputs and outputs) touches the load's bytes; and nothing ever touches a resident load's
//!   ([`races`]);
//! - no deadlock: a step never waits for a load that waits for that step;
//! - of a plan with a staging ring (whose loads then are copies from there) the same for what is read into the ring
//!   ([`stages`]);
//! - bounds on the proof itself: a pack whose tables make it long is refused, so that `open` takes at
//!   most seconds, whatever it is given.
//!
//! That the *numbers* are right (every byte loaded before it is read, no live tensor overwritten) is
//! the planner's checker's to prove: a pack that is wrong in that way computes nonsense, safely.

mod races;
mod stages;

use super::{
    Kept, Layer, Load, NONE, OpKind, PAGE, Place, PlanView, Port, Skeleton, Step, Tensor,
    ring_bytes,
};
use crate::kernels::Isa;
use crate::ops::{self, LayerError, Slice};
use core::ops::Range;

/// What is wrong with a pack: what, where, and the two numbers that disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What.
    pub what: &'static str,
    /// Index of the record, or [`NONE`].
    pub index: u32,
    /// Found.
    pub found: u64,
    /// The limit it disagrees with.
    pub limit: u64,
}

impl core::fmt::Display for Flaw {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.what)?;
        if self.index != NONE {
            write!(f, " (record {})", self.index)?;
        }
        write!(f, ": found {}, against {}", self.found, self.limit)
    }
}

pub(super) fn flaw(what: &'static str, found: u64, limit: u64) -> Flaw {
    Flaw { what, index: NONE, found, limit }
}

fn check(ok: bool, what: &'static str, index: usize, found: u64, limit: u64) -> Result<(), Flaw> {
    if ok { Ok(()) } else { Err(Flaw { what, index: index as u32, found, limit }) }
}

/// Most loads or steps in a plan: counters wrap, and distances between them must stay below 2³¹.
const MAX_TASKS: usize = 1 << 24;
/// Most inputs and outputs together: they are compared pair by pair.
const MAX_PORTS: usize = 1024;
/// Most comparisons of a load with a step, a load or a port, or of a ring with a tensor.
const MAX_COMPARISONS: u64 = 1 << 28;

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

    /// What spans both.
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
    /// Threads that the scratch must serve.
    pub threads: u32,
}

impl<'a> Proven<'a> {
    /// Proves a plan for a skeleton.
    pub fn new(
        network: &ProvenSkeleton<'a>,
        plan: PlanView<'a>,
        bounds: Bounds,
    ) -> Result<Self, Flaw> {
        let arena = Range64 { start: bounds.tables, end: bounds.arena };
        let proven = Self { skeleton: network.skeleton, plan, isa: network.isa, arena };
        proven.places()?;
        proven.loads(network.weights)?;
        proven.steps(bounds.threads)?;
        proven.stages()?;
        proven.races()?;
        proven.stage_races()?;
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
    /// Proves a skeleton, beside so many bytes of weights in the layout of `isa`.
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

    fn tensors(&self) -> Result<(), Flaw> {
        for (i, tensor) in self.skeleton.tensors.iter().enumerate() {
            let buffers = self.skeleton.buffers;
            let buffer = u64::from(tensor.buffer);
            let inside = tensor.buffer < buffers.len() as u32;
            check(inside, "tensor: no such buffer", i, buffer, buffers.len() as u64)?;
            let pitch_ok = tensor.pitch >= tensor.cols() && tensor.cols() > 0;
            check(
                pitch_ok,
                "tensor: pitch below channels",
                i,
                tensor.pitch.into(),
                tensor.cols().into(),
            )?;
            let end = end_of(tensor).unwrap_or(u64::MAX);
            let floats = buffers.at(tensor.buffer as usize).bytes / 4;
            check(end <= floats, "tensor: reaches beyond its buffer", i, end, floats)?;
        }
        Ok(())
    }

    fn layers(&self, weights_bytes: u64) -> Result<(), Flaw> {
        let Skeleton { buffers, tensors, layers, .. } = self.skeleton;
        for (i, layer) in layers.iter().enumerate() {
            let kind = OpKind::from_code(layer.kind).ok_or(Flaw {
                what: "layer: unknown operator",
                index: i as u32,
                found: layer.kind.into(),
                limit: OpKind::Gather as u64,
            })?;
            for &input in &layer.inputs {
                let ok = input == NONE || (input as usize) < tensors.len();
                check(ok, "layer: no such input tensor", i, input.into(), tensors.len() as u64)?;
            }
            let ok = (layer.output as usize) < tensors.len();
            check(
                ok,
                "layer: no such output tensor",
                i,
                layer.output.into(),
                tensors.len() as u64,
            )?;
            let bytes = u64::from(layer.panels) * u64::from(layer.panel_bytes);
            let end = layer.weights.saturating_add(bytes);
            check(
                end <= weights_bytes,
                "layer: weights beyond the weights section",
                i,
                end,
                weights_bytes,
            )?;
            let (ok, what) = (layer.panel_bytes % 32 == 0, "layer: panels are misaligned");
            check(ok, what, i, layer.panel_bytes.into(), 32)?;
            let inputs = self.skeleton.layer_inputs(&layer);
            let output = tensors[layer.output as usize];
            for (slot, &id) in layer.inputs.iter().enumerate() {
                if id != NONE {
                    let ok = compatible(kind, slot, &inputs[slot], &output);
                    let what = "layer: its output overlaps its input";
                    check(ok, what, i, layer.output.into(), id.into())?;
                }
            }
            let first = inputs[0].buffer as usize;
            let floats = [first, output.buffer as usize].map(|at| buffers.at(at).bytes / 4);
            ops::validate(&layer, &inputs, &output, floats, self.isa)
                .map_err(|error| layer_flaw(error, i))?;
        }
        Ok(())
    }

    fn ports(&self) -> Result<(), Flaw> {
        let Skeleton { tensors, inputs, outputs, .. } = self.skeleton;
        let count = inputs.len().saturating_add(outputs.len());
        let what = "skeleton: too many inputs and outputs";
        check(count <= MAX_PORTS, what, 0, count as u64, MAX_PORTS as u64)?;
        for (i, port) in inputs.iter().chain(outputs).enumerate() {
            let ok = (port.tensor as usize) < tensors.len();
            check(ok, "port: no such tensor", i, port.tensor.into(), tensors.len() as u64)?;
            let tensor = &tensors[port.tensor as usize];
            let ok = tensor.pitch == tensor.cols();
            let what = "port: tensor is not contiguous";
            check(ok, what, i, tensor.pitch.into(), tensor.cols().into())?;
            check(port.rank <= 8, "port: rank", i, port.rank.into(), 8)?;
            let (_, unused) = port.shape.split_at(port.rank as usize);
            let other = unused.iter().find(|extent| **extent != 1);
            let what = "port: extent beyond the rank";
            check(other.is_none(), what, i, other.copied().unwrap_or(1).into(), 1)?;
            let elements = port.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d.into()));
            let held = tensor.rows() * u64::from(tensor.cols());
            let what = "port: shape disagrees with its tensor's elements";
            check(elements == Some(held), what, i, elements.unwrap_or(u64::MAX), held)?;
        }
        Ok(())
    }
}

impl<'a> Proven<'a> {
    /// Where the tables end: nothing of the plan lies before.
    pub(crate) fn start(&self) -> u64 {
        self.arena.start
    }

    /// Where the plan ends: nothing of it lies behind.
    pub(crate) fn end(&self) -> u64 {
        self.arena.end
    }

    fn places(&self) -> Result<(), Flaw> {
        let (buffers, places) = (self.skeleton.buffers, self.plan.places);
        let same = buffers.len() == places.len();
        let (found, limit) = (places.len() as u64, buffers.len() as u64);
        check(same, "plan: one place per buffer", 0, found, limit)?;
        let rings = places.iter().filter(|place| place.lines > 0).count() as u64;
        let work = rings.saturating_mul(self.skeleton.tensors.len() as u64);
        check(work <= MAX_COMPARISONS, "plan: too many rings", 0, work, MAX_COMPARISONS)?;
        for (i, Place { address, lines }) in places.iter().enumerate() {
            let on_gpu = lines > 0 && self.isa == Isa::Cuda;
            check(!on_gpu, "plan: a ring on a GPU", i, lines.into(), 0)?;
            let bytes = if lines == 0 { buffers.at(i).bytes } else { self.ring(i, lines)? };
            self.inside(Range64::of(address, bytes), "plan: buffer outside the arena", i)?;
        }
        for (i, port) in self.skeleton.inputs.iter().chain(self.skeleton.outputs).enumerate() {
            let lines = self.lines(&self.skeleton.tensors[port.tensor as usize]);
            check(lines == 0, "plan: a port in a ring", i, lines.into(), 0)?;
        }
        // The host owns all ports at once: no two may share a byte.
        let ports = || self.skeleton.inputs.iter().chain(self.skeleton.outputs);
        for (i, a) in ports().enumerate() {
            for b in ports().skip(i + 1) {
                let (a, b) = (self.port_range(a), self.port_range(b));
                check(!a.overlaps(b), "plan: two ports overlap", i, a.start, b.start)?;
            }
        }
        Ok(())
    }

    /// The bytes of a buffer that holds a ring of so many lines: views of the pixels of one image.
    fn ring(&self, buffer: usize, lines: u32) -> Result<u64, Flaw> {
        let mut views =
            self.skeleton.tensors.iter().filter(|tensor| tensor.buffer as usize == buffer);
        let Some(first) = views.clone().next() else {
            return Err(Flaw {
                what: "plan: a ring that no tensor lies in",
                index: buffer as u32,
                found: lines.into(),
                limit: 0,
            });
        };
        let [_, height, width, _] = first.dims;
        views.try_for_each(|tensor| {
            let right = u64::from(tensor.offset) + u64::from(tensor.cols());
            for (found, limit, what) in [
                (tensor.dims[0], 1, "plan: images in a ring"),
                (tensor.dims[1], height, "plan: height of another tensor in a ring"),
                (tensor.dims[2], width, "plan: width of another tensor in a ring"),
                (tensor.pitch, first.pitch, "plan: pitch of another tensor in a ring"),
            ] {
                check(found == limit, what, buffer, found.into(), limit.into())?;
            }
            let what = "plan: channels of a ring beyond its pitch";
            check(right <= tensor.pitch.into(), what, buffer, right, tensor.pitch.into())
        })?;
        let what = "plan: more lines in a ring than in the image";
        check(lines <= height, what, buffer, lines.into(), height.into())?;
        Ok(ring_bytes(lines, width, first.pitch))
    }

    fn loads(&self, weights_bytes: u64) -> Result<(), Flaw> {
        let period = self.plan.period() as i64;
        let PlanView { resident, loads, .. } = self.plan;
        let count = resident.len().max(loads.len());
        check(count <= MAX_TASKS, "plan: too many loads", 0, count as u64, MAX_TASKS as u64)?;
        // Residents lie beside one another, so they cannot be larger than the arena (or `open` would
        // have more to read than it has room for).
        let held = resident.iter().map(|load| u64::from(load.bytes)).sum();
        let room = self.arena.end.saturating_sub(self.arena.start);
        check(held <= room, "plan: bytes of all resident loads", 0, held, room)?;
        for (i, load) in resident.iter().chain(loads.iter()).enumerate() {
            let (bytes, what) = (load.bytes.into(), "load: bytes are not a multiple of the page");
            check(bytes % PAGE == 0, what, i, bytes, PAGE)?;
            let end = load.offset.saturating_add(load.bytes.into());
            let ok = end <= weights_bytes && load.bytes > 0;
            check(ok, "load: beyond the weights section", i, end, weights_bytes)?;
            self.inside(image(&load), "load: outside the arena", i)?;
            let release = i64::from(load.release);
            let ok = i < resident.len() || (release > -period && release < period);
            check(
                ok,
                "load: release beyond one inference",
                i,
                release.unsigned_abs(),
                period as u64,
            )?;
        }
        Ok(())
    }

    fn steps(&self, threads: u32) -> Result<(), Flaw> {
        let PlanView { steps, loads, .. } = self.plan;
        check(steps.len() <= MAX_TASKS, "plan: too many steps", 0, steps.len() as u64, 1 << 24)?;
        let (mut ready, mut before) = (0, Step::default());
        for (i, step) in steps.iter().enumerate() {
            let layers = self.skeleton.layers;
            let ok = (step.layer as usize) < layers.len();
            check(ok, "step: no such layer", i, step.layer.into(), layers.len() as u64)?;
            let layer = &layers.at(step.layer as usize);
            let output = &self.skeleton.tensors[layer.output as usize];
            let slice = Slice::from(&step);
            let inputs = self.skeleton.layer_inputs(layer);
            ops::validate_slice(layer, &inputs, output, &slice, self.isa)
                .map_err(|error| layer_flaw(error, i))?;
            let ok = (step.count > 0) == (layer.panels > 0);
            let what = "step: number of panels";
            check(ok, what, i, step.count.into(), layer.panels.into())?;
            check(
                step.ready >= ready,
                "step: ready decreases",
                i,
                step.ready.into(),
                ready.into(),
            )?;
            ready = step.ready;
            let inputs = self.skeleton.layer_inputs(layer);
            let rings = [layer.inputs[0], layer.inputs[1], layer.output].map(|id| {
                self.skeleton.tensors.get(id as usize).map_or(0, |tensor| self.lines(tensor))
            });
            ops::validate_rings(layer, &inputs, output, &slice, rings)
                .map_err(|error| layer_flaw(error, i))?;
            let needed =
                ops::least_scratch_bytes(layer, &inputs, output, &slice, threads, self.isa);
            let ok = step.scratch_bytes >= needed;
            check(ok, "step: too little scratch", i, step.scratch_bytes, needed)?;
            if step.kept == Kept::Found {
                finds(&before, &step, i)?;
            }
            before = step;
            let [a, b, out, weights, scratch] = self.touched(&step);
            for (range, what) in [
                (weights, "step: weights outside the arena"),
                (scratch, "step: scratch outside the arena"),
            ] {
                if range != Range64::EMPTY {
                    self.inside(range, what, i)?;
                }
            }
            // Inputs in the output's own buffer were compared tensor by tensor, with the layer.
            let same =
                |slot: usize| layer.inputs[slot] != NONE && inputs[slot].buffer == output.buffer;
            let apart =
                |slot| same(slot) || self.apart_by_rows(layer, &inputs, output, &slice, slot);
            for (written, read) in [
                (out, weights),
                (out, if out.overlaps(a) && apart(0) { Range64::EMPTY } else { a }),
                (out, if out.overlaps(b) && apart(1) { Range64::EMPTY } else { b }),
                (scratch, a),
                (scratch, b),
                (scratch, out),
                (scratch, weights),
            ] {
                let what = "step: writes what it reads";
                check(!written.overlaps(read), what, i, written.start, read.start)?;
            }
        }
        let all = loads.len() as u32;
        check(ready == all, "plan: steps wait for all loads", 0, ready.into(), all.into())
    }

    /// What a step touches: the buffers of its inputs and its output, its weights, its scratch.
    fn touched(&self, step: &Step) -> [Range64; 5] {
        // Asked for so often that not all of the layer is read.
        let layer = &self.skeleton.layers.stored()[step.layer as usize];
        let of = |id: u32| match self.skeleton.tensors.get(id as usize) {
            Some(tensor) => self.buffer_range(tensor),
            None => Range64::EMPTY,
        };
        let weights = match step.chains {
            0 => u64::from(step.count) * u64::from(layer.panel_bytes),
            _ => {
                let layer = self.skeleton.layers.at(step.layer as usize);
                let bytes = self.weights(&layer, &Slice::from(step));
                bytes.end - bytes.start
            }
        };
        let part = |start, bytes| match bytes {
            0 => Range64::EMPTY,
            bytes => Range64::of(start, bytes),
        };
        [
            of(layer.inputs[0]),
            of(layer.inputs[1]),
            of(layer.output),
            part(step.weights, weights),
            part(step.scratch, step.scratch_bytes),
        ]
    }

    /// The bytes of a step's weights, from its first panel on.
    pub(crate) fn weights(&self, layer: &Layer, slice: &Slice) -> Range<u64> {
        ops::weights(layer, &self.skeleton.layer_inputs(layer)[0], slice, self.isa)
    }

    /// Whether a step's output and an input lie in whole buffers, and the rows of them that it is [lent](Self::lent) apart. On a GPU
    /// it is lent all.
    fn apart_by_rows(
        &self,
        layer: &Layer,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        slot: usize,
    ) -> bool {
        let input = &inputs[slot];
        let rings = [input, output].into_iter().any(|tensor| self.lines(tensor) > 0);
        if rings || self.isa == Isa::Cuda || layer.kind == OpKind::Copy as u32 {
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
        !bytes(input, &lent[slot]).overlaps(bytes(output, &lent[2]))
    }

    /// The rows of its inputs and of its output that a step is lent on a processor, as their matrices count them: those that
    /// it touches, and all that memory holds of rings. [`OpKind::Copy`] has whole buffers, each a row.
    pub(crate) fn lent(&self, layer: &Layer, slice: &Slice) -> [Range<usize>; 3] {
        if layer.kind == OpKind::Copy as u32 {
            return [0..1, 0..1, 0..1];
        }
        let inputs = self.skeleton.layer_inputs(layer);
        let output = &self.skeleton.tensors[layer.output as usize];
        let [a, b] = ops::rows_read(layer, &inputs, output, slice);
        [(layer.inputs[0], a), (layer.inputs[1], b), (layer.output, slice.made())].map(
            |(id, rows)| match self.skeleton.tensors.get(id as usize) {
                Some(tensor) if self.lines(tensor) > 0 => 0..self.held_rows(id) as usize,
                Some(_) => rows.start as usize..rows.end as usize,
                None => 0..0,
            },
        )
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

    /// The rows of a tensor that memory holds, from the first one's address: all, or a ring's.
    pub(crate) fn held_rows(&self, id: u32) -> u64 {
        let tensor = &self.skeleton.tensors[id as usize];
        match self.lines(tensor) {
            0 => tensor.rows(),
            lines => u64::from(lines) * u64::from(tensor.dims[2]),
        }
    }

    /// The floats of a tensor's buffer that memory holds: all, or a ring's lines, not rounded up to what is aligned: operators find a
    /// row's place by this length.
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

/// What the step before has left is what a step looks for, where it looks for it.
fn finds(before: &Step, step: &Step, index: usize) -> Result<(), Flaw> {
    let ok = before.kept != Kept::Not;
    check(ok, "step: finds inputs that the step before does not keep", index, 0, 1)?;
    let of = |step: &Step| {
        let Step { layer, row, rows, .. } = *step;
        [layer.into(), row.into(), rows.into(), step.scratch, step.scratch_bytes]
    };
    for (found, limit) in of(step).into_iter().zip(of(before)) {
        let what = "step: finds inputs of another layer, other rows or in other scratch than the step before";
        check(found == limit, what, index, found, limit)?;
    }
    Ok(())
}

impl From<&Step> for Slice {
    fn from(step: &Step) -> Self {
        let Step { first, count, row, rows, algorithm, chain, chains, kept, .. } = *step;
        Self { first, count, row, rows, algorithm, chain, chains, kept }
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

/// Whether a layer of this kind may have `output` where its input of this slot lies.
fn compatible(kind: OpKind, slot: usize, input: &Tensor, output: &Tensor) -> bool {
    if input.buffer != output.buffer {
        return true;
    }
    let in_place = match kind {
        OpKind::Unary | OpKind::Softmax | OpKind::LayerNorm => slot == 0,
        OpKind::Binary => true,
        OpKind::Conv | OpKind::Depthwise | OpKind::Winograd => slot == 1,
        _ => false,
    };
    (in_place && input == output)
        || (!matches!(kind, OpKind::Copy | OpKind::MatMul) && interleaved(input, output))
}

/// Two tensors of one buffer that share no float: apart, or different channels of the same rows.
fn interleaved(a: &Tensor, b: &Tensor) -> bool {
    let (a_end, b_end) = (end_of(a).unwrap_or(u64::MAX), end_of(b).unwrap_or(u64::MAX));
    if a_end <= b.offset.into() || b_end <= a.offset.into() {
        return true;
    }
    let column = |tensor: &Tensor| u64::from(tensor.offset % tensor.pitch.max(1));
    let (a_column, b_column) = (column(a), column(b));
    let (a_right, b_right) = (a_column + u64::from(a.cols()), b_column + u64::from(b.cols()));
    let wraps = |right: u64| right > a.pitch.into();
    a.pitch == b.pitch
        && !wraps(a_right)
        && !wraps(b_right)
        && (a_right <= b_column || b_right <= a_column)
}

fn layer_flaw(error: LayerError, index: usize) -> Flaw {
    let (what, found, limit) = match error {
        LayerError::Kind(code) => ("layer: unknown operator", code.into(), OpKind::Gather as u64),
        LayerError::Activation(code) => ("layer: unknown activation", code.into(), 11),
        LayerError::Field(what, found, limit) => (what, found, limit),
    };
    Flaw { what, index: index as u32, found, limit }
}

/// The layer a step belongs to.
pub(crate) fn layer_of(skeleton: &Skeleton<'_>, step: &Step) -> Layer {
    skeleton.layers.at(step.layer as usize)
}
