//! FlexNN without its static plan: memory is given out and taken back as an inference goes.
//!
//! Planning plays one inference with a best-fit allocator, as frameworks have. A step asks for its
//! output's buffer and its scratch when it starts, and gives them back after their last use. The
//! loader asks for the next weights as soon as it is idle. Nothing looks ahead, so holes come and
//! go. Memory that was never given out is used last, as in allocators that can ask for more. If
//! weights have no room, the loader waits until something has been given back. If a step has no
//! room, the inference cannot go on. A loader that runs ahead without end can cause that. So the
//! most loads ahead are searched for with which the inference ends. Without any, requests and
//! addresses do not depend on the memory: what these addresses take is enough.
//!
//! The addresses become the plan. Each load is released by the steps that were done when its memory
//! was given out. So the plan measures how dynamic memory lies, without the time of allocation.

use eyelet::pack::{self, Load, PAGE};
use eyelet_model::network::Network;
use eyelet_model::plan::{Plan, step_weights};
use eyelet_plan::memory::{Lifetime, lifetimes};
use eyelet_plan::search::parts::{Design, Misfit, PlanBuilder, UNLIMITED};
use eyelet_plan::slice::{Read, Slices};

/// Most loads ahead of the one in use that are tried.
const AHEAD: [usize; 7] = [usize::MAX, 16, 8, 4, 2, 1, 0];

/// Scratch and buffers start on a cache line.
const LINE: u64 = 64;

/// Plays the allocator for a design in `budget` bytes; without `preload`, a load waits for the step
/// that needs it to be next.
pub fn place(
    builder: &PlanBuilder<'_>,
    design: &Design,
    budget: u64,
    preload: bool,
) -> Result<Plan, Misfit> {
    let network = builder.request.network;
    let slices = design.slices(network, &builder.activations);
    let ahead = if preload { &AHEAD[..] } else { &[0] };
    let mut misfit = Misfit { layer: 0, activations: true };
    for &ahead in ahead {
        match Play::new(builder, &slices, budget)?.run(ahead) {
            Ok(plan) => return Ok(plan),
            Err(found) => misfit = found,
        }
    }
    Err(misfit)
}

/// The budget from which on an inference comes to its end with this design.
pub fn least_bytes(builder: &PlanBuilder<'_>, design: &Design) -> u64 {
    let slices = design.slices(builder.request.network, &builder.activations);
    let plan = Play::new(builder, &slices, UNLIMITED).and_then(|play| play.run(0));
    plan.map_or(UNLIMITED, |plan| plan.arena_bytes)
}

/// An allocator that takes the smallest hole that is large enough, and the last one only if there
/// is no other.
struct BestFit {
    /// Starts and ends, in order, never adjacent.
    holes: Vec<(u64, u64)>,
    /// The end of all memory.
    end: u64,
}

impl BestFit {
    fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let fits = |(start, end): (u64, u64)| {
            let at = start.next_multiple_of(align);
            (at + bytes <= end).then_some(at)
        };
        let (index, at) = (self.holes.iter().enumerate())
            .filter_map(|(index, hole)| Some((index, fits(*hole)?)))
            .min_by_key(|(index, _)| {
                let (start, end) = self.holes[*index];
                (end == self.end, end - start)
            })?;
        let (start, end) = self.holes.remove(index);
        for (start, end) in [(at + bytes, end), (start, at)] {
            if start < end {
                self.holes.insert(index, (start, end));
            }
        }
        Some(at)
    }

    fn give_back(&mut self, start: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let index = self.holes.partition_point(|hole| hole.0 < start);
        self.holes.insert(index, (start, start + bytes));
        self.holes.dedup_by(|next, hole| {
            let touch = hole.1 == next.0;
            if touch {
                hole.1 = next.1;
            }
            touch
        });
    }
}

/// One inference.
struct Play<'a> {
    builder: &'a PlanBuilder<'a>,
    network: &'a Network,
    slices: &'a Slices,
    lives: Vec<Lifetime>,
    memory: BestFit,
    plan: Plan,
    address_of: Vec<u64>,
    /// Reads that are done in every inference.
    streamed: Vec<usize>,
}

impl<'a> Play<'a> {
    fn new(builder: &'a PlanBuilder<'_>, slices: &'a Slices, budget: u64) -> Result<Self, Misfit> {
        let network = builder.request.network;
        let period = slices.steps.len() + 1;
        let steps_of = |layer: usize| {
            let from = slices.steps.partition_point(|step| (step.layer as usize) < layer);
            let to = slices.steps.partition_point(|step| (step.layer as usize) <= layer);
            from + 1..to + 1
        };
        let lives = lifetimes(network, period, steps_of);
        let tables = builder.activations.tables_for(&builder.request, slices, |_| 0);
        let end = (budget / PAGE * PAGE).max(tables);
        let mut play = Self {
            builder,
            network,
            slices,
            lives,
            memory: BestFit { holes: vec![(tables, end)], end },
            plan: Plan {
                budget,
                tables,
                threads: builder.request.threads,
                places: vec![
                    pack::Place { address: tables, ..Default::default() };
                    network.buffers.len()
                ],
                steps: slices.steps.clone(),
                ..Plan::default()
            },
            address_of: vec![0; slices.reads.len()],
            streamed: (0..slices.reads.len())
                .filter(|read| !slices.reads[*read].resident)
                .collect(),
        };
        // Residents lie at the start, for good; what the host writes and reads is there before the
        // first step.
        for (index, read) in slices.reads.iter().enumerate().filter(|(_, read)| read.resident) {
            let layer = slices.steps[read.first].layer;
            let misfit = Misfit { layer, activations: false };
            play.address_of[index] = play.memory.take(read.bytes, PAGE).ok_or(misfit)?;
            let load = play.load(index, 0);
            play.plan.resident.push(load);
        }
        let outputs = (0..play.lives.len()).filter(|&b| play.lives[b].end >= period);
        let inputs = (0..play.lives.len()).filter(|&b| play.lives[b].start == 0);
        let mut ports: Vec<usize> = outputs.chain(inputs).collect();
        ports.sort_unstable();
        ports.dedup();
        for buffer in ports {
            play.buffer(buffer).ok_or(Misfit { layer: 0, activations: true })?;
        }
        Ok(play)
    }

    fn load(&self, read: usize, release: i32) -> Load {
        let address = self.address_of[read];
        let read = &self.slices.reads[read];
        let bytes = read.bytes as u32;
        Load { offset: read.offset, address, bytes, release, ..Load::default() }
    }

    fn buffer(&mut self, buffer: usize) -> Option<()> {
        let at = self.memory.take(self.network.buffers[buffer].bytes, LINE)?;
        self.plan.places[buffer].address = at;
        Some(())
    }

    /// Plays events in the order of time, computing before loading where both could start.
    fn run(mut self, ahead: usize) -> Result<Plan, Misfit> {
        let (slices, costs) = (self.slices, &self.builder.precomputed.costs);
        let period = slices.steps.len() + 1;
        let (mut now, mut step, mut loaded) = (0, 0, 0);
        let (mut step_end, mut load_end) = (None, None);
        // The streamed reads up to each step's own.
        let mut ready = 0;
        while step < slices.steps.len() {
            let own = slices.read_of[step].filter(|&read| !slices.reads[read].resident);
            if let Some(own) = own {
                ready = self.streamed.partition_point(|read| *read <= own);
            }
            if step_end.is_none() && loaded >= ready {
                let layer = slices.steps[step].layer;
                let PlanBuilder { precomputed, request, .. } = self.builder;
                let bytes = precomputed.scratch_of(request, &slices.steps[step]).all;
                for buffer in 0..self.lives.len() {
                    let arrives =
                        self.lives[buffer].start == step + 1 && self.lives[buffer].end < period;
                    if arrives && self.buffer(buffer).is_none() {
                        return Err(Misfit { layer, activations: own.is_none() && bytes == 0 });
                    }
                }
                let scratch = if bytes == 0 { Some(0) } else { self.memory.take(bytes, LINE) };
                let record = &mut self.plan.steps[step];
                record.scratch = scratch.ok_or(Misfit { layer, activations: false })?;
                (record.scratch_bytes, record.ready) = (bytes, ready as u32);
                step_end = Some(now + costs.step_ns(record));
            }
            // The loader: the next read, if it may run so far ahead and there is room.
            let next = self.streamed.get(loaded).filter(|_| load_end.is_none()).copied();
            let wanted = loaded < ready && step_end.is_none();
            if let Some(read) = next.filter(|_| wanted || loaded < ready.saturating_add(ahead)) {
                let bytes = slices.reads[read].bytes;
                if let Some(at) = self.memory.take(bytes, PAGE) {
                    self.address_of[read] = at;
                    let load = self.load(read, step as i32 + 1);
                    self.plan.loads.push(load);
                    load_end = Some(now + costs.load_ns(bytes));
                }
            }
            let Some(next) = [step_end, load_end].into_iter().flatten().min() else {
                // Neither can go on.
                return Err(Misfit { layer: slices.steps[step].layer, activations: false });
            };
            now = next;
            if load_end == Some(now) {
                (load_end, loaded) = (None, loaded + 1);
            }
            if step_end == Some(now) {
                step_end = None;
                self.retire(step);
                step += 1;
            }
        }
        Ok(self.finish())
    }

    /// Gives back what no later step uses.
    fn retire(&mut self, step: usize) {
        let record = self.plan.steps[step];
        self.memory.give_back(record.scratch, record.scratch_bytes);
        for (buffer, life) in self.lives.iter().enumerate() {
            if life.end == step + 1 && life.start != usize::MAX {
                let bytes = self.network.buffers[buffer].bytes;
                self.memory.give_back(self.plan.places[buffer].address, bytes);
            }
        }
        if let Some(read) = self.slices.read_of[step] {
            let Read { last, resident, bytes, .. } = self.slices.reads[read];
            if last == step && !resident {
                self.memory.give_back(self.address_of[read], bytes);
            }
        }
    }

    fn finish(mut self) -> Plan {
        let mut end = self.plan.tables;
        let buffers = self.plan.places.iter().zip(&self.network.buffers);
        buffers.for_each(|(place, buffer)| end = end.max(place.address + buffer.bytes));
        for (step, read) in self.plan.steps.iter_mut().zip(&self.slices.read_of) {
            end = end.max(step.scratch + step.scratch_bytes);
            if let Some(read) = *read {
                let start = step_weights(self.network, step).start;
                step.weights = self.address_of[read] + start - self.slices.reads[read].offset;
            }
        }
        let loads = self.plan.resident.iter().chain(&self.plan.loads);
        loads.for_each(|load| end = end.max(load.address + u64::from(load.bytes)));
        self.plan.arena_bytes = end.next_multiple_of(PAGE);
        self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_hole_that_fits_and_neighbours_are_one() {
        let mut memory = BestFit { holes: vec![(0, 1000)], end: 1000 };
        let takes: Vec<u64> = (0..10).map(|_| memory.take(100, 1).unwrap()).collect();
        assert_eq!(takes, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
        assert_eq!(memory.take(1, 1), None);
        memory.give_back(100, 100);
        memory.give_back(300, 100);
        memory.give_back(400, 100);
        assert_eq!(memory.holes, [(100, 200), (300, 500)]);
        assert_eq!(memory.take(150, 1), Some(300));
        assert_eq!(memory.take(60, 64), Some(128));
        memory.give_back(200, 100);
        assert_eq!(memory.holes, [(100, 128), (188, 300), (450, 500)]);
        // The end of memory is kept for what finds no other room.
        memory.give_back(900, 100);
        assert_eq!(memory.take(90, 1), Some(188));
        assert_eq!(memory.take(100, 1), Some(900));
    }
}
