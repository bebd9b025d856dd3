//! The plan: buffers, loads and steps lie in the arena, steps are slices of their layers, and none
//! writes what it reads.

use super::{Bounds, Effort, Proven, Range64, check, image, layer_flaw};
use crate::ops::{self, Problem, Slice};
use crate::pack::{Flaw, Isa, NONE, PAGE, Place, PlanView, Region, Step, ring_bytes};

/// Most loads or steps in a plan: counters wrap, and distances between them must stay below 2³¹.
const MAX_TASKS: usize = 1 << 24;

impl Proven<'_> {
    pub(super) fn places(&self, bounds: &Bounds, effort: &mut Effort) -> Result<(), Flaw> {
        let (buffers, places) = (self.skeleton.buffers, self.plan.places);
        let same = buffers.len() == places.len();
        let (found, limit) = (places.len() as u64, buffers.len() as u64);
        check(same, "plan: one place per buffer", 0, found, limit)?;
        for (i, Place { address, lines }) in places.iter().enumerate() {
            let on_gpu = lines > 0 && self.isa == Isa::Cuda;
            check(!on_gpu, "plan: a ring on a GPU", i, lines.into(), 0)?;
            let bytes = if lines == 0 {
                buffers.at(i).bytes
            } else {
                effort.spend(self.skeleton.tensors.len() as u64)?;
                self.ring(i, lines)?
            };
            let at = Range64::of(address, bytes);
            self.inside_either(at, bounds, "plan: buffer outside the arena", i)?;
        }
        for (i, port) in self.skeleton.inputs.iter().chain(self.skeleton.outputs).enumerate() {
            let lines = self.lines(&self.skeleton.tensors[port.tensor as usize]);
            check(lines == 0, "plan: a port in a ring", i, lines.into(), 0)?;
        }
        // The host owns all ports at once: no two may share a byte.
        let ports = || self.skeleton.inputs.iter().chain(self.skeleton.outputs);
        for (i, a) in ports().enumerate() {
            effort.spend(i as u64)?;
            for b in ports().skip(i + 1) {
                let (a, b) = (self.port_range(a), self.port_range(b));
                check(!a.overlaps(b), "plan: two ports overlap", i, a.start, b.start)?;
            }
        }
        Ok(())
    }

    /// The bytes of a buffer that holds a ring of `lines` lines. Its tensors must be views of the
    /// pixels of one image.
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

    pub(super) fn loads(&self, weights_bytes: u64) -> Result<(), Flaw> {
        let period = self.plan.period() as i64;
        let PlanView { resident, loads, .. } = self.plan;
        let count = resident.len().max(loads.len());
        check(count <= MAX_TASKS, "plan: too many loads", 0, count as u64, MAX_TASKS as u64)?;
        // Residents do not overlap, so they cannot be larger than the arena (or `open` would
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

    pub(super) fn steps(
        &self,
        bounds: &Bounds,
        weights_bytes: u64,
        effort: &mut Effort,
    ) -> Result<(), Flaw> {
        let PlanView { steps, loads, .. } = self.plan;
        let count = steps.len();
        check(count <= MAX_TASKS, "plan: too many steps", 0, count as u64, MAX_TASKS as u64)?;
        // Works before this one have been proved. They are listed as steps first do them: one that
        // is listed otherwise is proved with each step.
        let mut proved = 0;
        let mut ready = 0;
        for (i, step) in steps.iter().enumerate() {
            let layers = self.skeleton.layers;
            let ok = (step.layer as usize) < layers.len();
            check(ok, "step: no such layer", i, step.layer.into(), layers.len() as u64)?;
            let layer = layers.at(step.layer as usize);
            let inputs = self.skeleton.layer_inputs(&layer);
            let problem = Problem {
                layer: &layer,
                inputs: &inputs,
                output: &self.skeleton.tensors[layer.output as usize],
                slice: Slice::from(&step),
                threads: bounds.threads,
                isa: self.isa,
            };
            self.computable(i, &step, &problem, bounds)?;
            let work = steps.stored()[i].work;
            if work >= proved {
                Self::has_scratch(i, &step, &problem, effort)?;
                proved += u32::from(work == proved);
            }
            if step.weights_in == Region::Mapped {
                self.mapped(i, &step, &problem, bounds, weights_bytes)?;
            }
            let what = "step: ready decreases";
            check(step.ready >= ready, what, i, step.ready.into(), ready.into())?;
            ready = step.ready;
            self.writes_apart(i, &step, &problem, bounds)?;
        }
        let all = loads.len() as u32;
        check(ready == all, "plan: steps wait for all loads", 0, ready.into(), all.into())
    }

    /// A step is a slice of its layer, and not too much work.
    fn computable(
        &self,
        index: usize,
        step: &Step,
        problem: &Problem<'_>,
        bounds: &Bounds,
    ) -> Result<(), Flaw> {
        let &Problem { layer, inputs, output, slice, .. } = problem;
        ops::validate_slice(problem).map_err(|error| layer_flaw(error, index))?;
        let work = ops::step_work(layer, inputs, output, &slice);
        let what = "step: multiply-adds and elements, of which `step_work` permits so many at once";
        check(work <= bounds.step_work, what, index, work, bounds.step_work)?;
        let ok = (step.count > 0) == (layer.panels > 0);
        check(ok, "step: number of panels", index, step.count.into(), layer.panels.into())?;
        let [a, b, c] = layer.inputs;
        let rings = [a, b, c, layer.output].map(|id| {
            self.skeleton.tensors.get(id as usize).map_or(0, |tensor| self.lines(tensor))
        });
        ops::validate_rings(problem, rings).map_err(|error| layer_flaw(error, index))
    }

    /// A step has the scratch that its work needs, wherever in the layer its rows begin.
    fn has_scratch(
        index: usize,
        step: &Step,
        problem: &Problem<'_>,
        effort: &mut Effort,
    ) -> Result<(), Flaw> {
        effort.spend(problem.threads.into())?;
        let needed = ops::least_scratch_bytes(problem);
        let ok = step.scratch_bytes >= needed;
        check(ok, "step: too little scratch", index, step.scratch_bytes, needed)
    }

    /// A step's weights, which it uses where they lie in the pack, are there.
    fn mapped(
        &self,
        index: usize,
        step: &Step,
        problem: &Problem<'_>,
        bounds: &Bounds,
        weights_bytes: u64,
    ) -> Result<(), Flaw> {
        let what = "step: uses weights in a pack that does not lie in memory";
        check(bounds.mapped, what, index, step.weights, 0)?;
        let weights = self.weights(problem.layer, &problem.slice);
        let end = step.weights.saturating_add(weights.end - weights.start);
        let what = "step: weights beyond the weights section";
        check(end <= weights_bytes, what, index, end, weights_bytes)
    }

    /// A step's weights and scratch lie in their regions, and it writes nothing that it reads.
    fn writes_apart(
        &self,
        index: usize,
        step: &Step,
        problem: &Problem<'_>,
        bounds: &Bounds,
    ) -> Result<(), Flaw> {
        let &Problem { layer, inputs, output, slice, .. } = problem;
        let [inputs_at @ .., out, weights, scratch] = self.touched(step);
        if weights != Range64::EMPTY {
            self.inside(weights, "step: weights outside the arena", index)?;
        }
        if scratch != Range64::EMPTY {
            self.inside_either(scratch, bounds, "step: scratch outside the arena", index)?;
        }
        // Inputs in the output's own buffer were compared tensor by tensor, with the layer.
        let same = |slot: usize| layer.inputs[slot] != NONE && inputs[slot].buffer == output.buffer;
        let apart = |slot| same(slot) || self.apart_by_rows(layer, inputs, output, &slice, slot);
        let written_over = |written: Range64, read: Range64| {
            let what = "step: writes what it reads";
            check(!written.overlaps(read), what, index, written.start, read.start)
        };
        written_over(out, weights)?;
        for (slot, read) in inputs_at.into_iter().enumerate() {
            let apart = out.overlaps(read) && apart(slot);
            written_over(out, if apart { Range64::EMPTY } else { read })?;
        }
        for read in inputs_at.into_iter().chain([out, weights]) {
            written_over(scratch, read)?;
        }
        Ok(())
    }
}
