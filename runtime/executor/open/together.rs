//! Several networks in the middle of inferences at once, on the caller's thread.
//!
//! Each has its model, and a feed that does two things with one storage: the loads of a plan that streams, and
//! the chunks that come back into memory. Reads go on while steps of any network compute. They end with the
//! scope: as in [`overlapped`](super::overlapped), whatever the way out of it, all reads are waited for.
//!
//! A plan that streams begins no load of the next inference before that begins: the room is other networks'
//! in between.

use super::chunked::{ChunkError, ChunkedInstance};
use super::instance::Instance;
use crate::arena::{ArenaError, Chunks, Lane, LoadList};
use crate::device::Device;
use crate::executor::change::follow::follow;
use crate::executor::compute::budget::BudgetError;
use crate::executor::compute::loader::switch;
use crate::executor::compute::model::{Feed, InferError, Model, PortError, Progress, Sealed};
use crate::executor::load::progress::{LoadProgress, Polled};
use crate::executor::load_error::LoadError;
use crate::pack::{PlanEntry, Port};
use crate::storage::Storage;
use crate::sys::discard::has_room;
use heapless::Vec;

/// Inputs and outputs of a network.
pub trait Ports {
    /// The inputs, in the model's order.
    fn inputs(&self) -> &[Port];
    /// The outputs, in the model's order.
    fn outputs(&self) -> &[Port];
    /// A port's name in the model.
    fn name(&self, port: &Port) -> &str;
    /// As [`Model::input_mut`].
    fn input_mut(&mut self, index: usize) -> Result<&mut [f32], PortError>;
    /// As [`Model::input_words_mut`].
    fn input_words_mut(&mut self, index: usize) -> Result<&mut [i32], PortError>;
    /// As [`Model::output`].
    fn output(&mut self, index: usize) -> Result<&[f32], PortError>;
    /// As [`Model::output_words`].
    fn output_words(&mut self, index: usize) -> Result<&[i32], PortError>;
}

impl<F: Feed> Ports for Model<'_, '_, F> {
    fn inputs(&self) -> &[Port] {
        Model::inputs(self)
    }

    fn outputs(&self) -> &[Port] {
        Model::outputs(self)
    }

    fn name(&self, port: &Port) -> &str {
        self.skeleton().text(port.name)
    }

    fn input_mut(&mut self, index: usize) -> Result<&mut [f32], PortError> {
        Model::input_mut(self, index)
    }

    fn input_words_mut(&mut self, index: usize) -> Result<&mut [i32], PortError> {
        Model::input_words_mut(self, index)
    }

    fn output(&mut self, index: usize) -> Result<&[f32], PortError> {
        Model::output(self, index)
    }

    fn output_words(&mut self, index: usize) -> Result<&[i32], PortError> {
        Model::output_words(self, index)
    }
}

/// One of the networks of a scope.
pub(crate) trait Network {
    /// Inputs and outputs, to be had when there is a plan, all chunks are in memory, and no inference has begun.
    fn ports(&mut self) -> Option<&mut dyn Ports>;

    /// One step of the current inference, or the first of the next one. Not without all chunks.
    fn step(&mut self, device: &dyn Device) -> Result<Progress, InferError>;

    /// Gives up the current inference. No load of it is in flight afterwards.
    fn abandon(&mut self);

    /// Begins to bring a chunk into memory, in a slot, or without one where it has memory: its reads, too, where these go
    /// on by themselves. On an error the slot is not in use.
    fn begin_chunk(&mut self, chunk: u32, slot: Option<u32>) -> Result<(), ChunkError>;

    /// Whether its chunks are read while their caller does something else.
    fn goes_on(&mut self) -> bool;

    /// Goes on with the chunk that has begun, and says so when it is there; waits for that if `wait`s. `None`: it is
    /// not there yet.
    fn poll_chunk(&mut self, wait: bool) -> Option<Result<(), ChunkError>>;

    /// Takes a chunk out of memory, and returns its slot. On an error the chunk keeps the slot.
    fn leave(&mut self, chunk: u32) -> Result<Option<u32>, ChunkError>;

    /// Its chunks.
    fn chunks(&self) -> &Chunks<'_>;

    /// Whether its plan reads weights while it computes.
    fn streams(&self) -> bool;

    /// Bytes that its plan may have, as asked for last.
    fn budget(&self) -> u64;

    /// Where in the pack the plan is that is followed; `None` without one.
    fn plan(&self) -> Option<u64>;

    /// Where in the pack the best plan for the network's shape within a budget is, if the network's memory holds it.
    fn plan_for(&self, budget: u64) -> Result<u64, BudgetError>;

    /// Changes the budget as [`Model::set_budget`] does. A network with chunks changes only to a plan that it was opened
    /// for, while all of its chunks are out.
    fn set_budget(&mut self, budget: u64) -> Result<(), BudgetError>;

    /// Its state, for tests.
    #[cfg(test)]
    fn inside(&self) -> Inside;
}

/// The state of a network, for tests.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inside {
    /// Steps of the current inference that are done.
    pub position: usize,
    /// The slot of each chunk that has memory.
    pub slots: std::vec::Vec<Option<u32>>,
    /// The chunk that is being read, how many residents have been looked at for it, and its checksum so far.
    pub coming: Option<(u32, usize, u32)>,
    /// Loads of the current inference that are there, that have begun, and that may begin.
    pub loads: [u32; 3],
}

/// How the compute side of one network gets its loads, and the network its chunks.
#[derive(Debug)]
struct Feeder<'r, 'm, 'a, S: Storage> {
    progress: LoadProgress<'m, 'a>,
    lane: &'r mut Lane<'m, 'a, 'm, S>,
    /// Loads before this count may begin: those of the current inference, and of none after it.
    limit: u32,
    chunks: &'m mut Chunks<'a>,
    coming: Option<Coming>,
}

/// A chunk that is being read.
#[derive(Clone, Copy, Debug)]
struct Coming {
    chunk: u32,
    /// The next resident of which a part may lie in it.
    next: usize,
    /// CRC-32C of what has come.
    crc: u32,
}

impl<S: Storage> Feeder<'_, '_, '_, S> {
    /// Loads of an inference.
    fn loads(&self) -> u32 {
        self.progress.proven.get().map_or(0, |proven| proven.plan().loads.len() as u32)
    }

    /// The next inference begins.
    fn begin(&mut self) {
        self.limit = self.progress.loads.loads.wrapping_add(self.loads());
    }

    /// Chunks that are in memory.
    fn present(&self) -> usize {
        self.chunks.mapped().saturating_sub(usize::from(self.coming.is_some()))
    }

    /// Begins reads of the current chunk until there is no room.
    fn submit(&mut self) {
        let Self { progress, lane, chunks, coming, .. } = self;
        let Some((coming, proven)) = coming.as_mut().zip(progress.proven.get()) else { return };
        let (chunk, weights) = (coming.chunk as usize, progress.shared.header.weights_offset);
        while coming.next < proven.plan().resident.len() {
            match lane.begin_part(proven, chunks, chunk, coming.next, weights) {
                Some(_) => coming.next += 1,
                None => break,
            }
        }
    }

    /// Goes on with the chunk that is being read.
    fn read(&mut self, wait: bool) -> Option<Result<(), ChunkError>> {
        loop {
            self.submit();
            let Self { progress, lane, coming, .. } = self;
            let (coming, shared) = (coming.as_mut()?, progress.shared);
            let mut reads = lane.reads(LoadList::Resident);
            if reads.is_empty() {
                break;
            }
            if !wait && !reads.has_arrived() {
                return None;
            }
            if let Some(Err(error)) = reads.oldest(if wait { shared.read_spin_ns() } else { 0 }) {
                reads.at_rest();
                return Some(Err(ChunkError::Storage(error)));
            }
            coming.crc = shared.crc32c(coming.crc, reads.bytes());
            reads.finish();
            if !wait && !reads.goes_on() {
                // The caller's thread has read it: one piece a call.
                return None;
            }
        }
        let Coming { chunk, crc: found, .. } = self.coming?;
        let expected = self.chunks.crc(chunk as usize);
        Some(if found == expected { Ok(()) } else { Err(ChunkError::Checksum { found, expected }) })
    }
}

impl<S: Storage> Sealed for Feeder<'_, '_, '_, S> {}

impl<S: Storage> Feed for Feeder<'_, '_, '_, S> {
    fn wait(&mut self, target: u32) -> Result<(), LoadError> {
        self.look();
        let Self { progress, lane, limit, .. } = self;
        while !progress.shared.loads_done.reached(target) {
            match progress.poll(&mut lane.reads(LoadList::Streamed), Some(*limit))? {
                Polled::Loaded | Polled::Read => {}
                // `open` proved that a step never waits for a load that is not released.
                Polled::Blocked(_) | Polled::Idle => break,
            }
        }
        Ok(())
    }

    fn wait_reads(&mut self, _: u32) -> Result<(), LoadError> {
        // Only a GPU with a memory of its own has these, and none is in a set.
        Ok(())
    }

    fn look(&mut self) {
        let Self { progress, lane, limit, .. } = self;
        progress.look(&mut lane.reads(LoadList::Streamed), Some(*limit));
    }

    fn rest(&mut self) {
        self.lane.reads(LoadList::Streamed).at_rest();
        self.progress.reads = self.progress.loads;
    }

    fn restart(&mut self) {
        self.rest();
        self.progress.restart();
        self.begin();
    }

    fn switch(&mut self, entry: &PlanEntry) {
        let mut reads = self.lane.reads(LoadList::Streamed);
        let (weights, storage) = reads.at_rest();
        match self.chunks.is_whole() {
            true => switch(&mut self.progress, weights, storage, entry),
            false => follow(&mut self.progress, weights, storage, self.chunks, entry),
        }
    }
}

impl<S: Storage> Network for Model<'_, '_, Feeder<'_, '_, '_, S>> {
    fn ports(&mut self) -> Option<&mut dyn Ports> {
        let whole = self.feed.present() == self.feed.chunks.len();
        let has_plan = self.current.proven.get().is_some();
        (has_plan && whole && self.position == 0).then_some(self)
    }

    fn step(&mut self, device: &dyn Device) -> Result<Progress, InferError> {
        let (present, chunks) = (self.feed.present() as u32, self.feed.chunks.len() as u32);
        if present != chunks {
            return Err(InferError::Chunks { present, chunks });
        }
        if self.position == 0 {
            self.feed.begin();
        }
        Model::step(self, device)
    }

    fn abandon(&mut self) {
        if self.position > 0 {
            Model::abandon(self);
        }
    }

    fn begin_chunk(&mut self, chunk: u32, slot: Option<u32>) -> Result<(), ChunkError> {
        if let Some(slot) = slot {
            let entered =
                self.feed.chunks.enter(chunk as usize, slot).map_err(ChunkError::Arena)?;
            if !entered {
                return Err(ChunkError::Arena(ArenaError::NoSlot));
            }
        }
        self.feed.coming = Some(Coming { chunk, next: 0, crc: 0 });
        if self.goes_on() {
            self.feed.submit();
        }
        Ok(())
    }

    fn goes_on(&mut self) -> bool {
        self.feed.lane.reads(LoadList::Resident).goes_on()
    }

    fn poll_chunk(&mut self, wait: bool) -> Option<Result<(), ChunkError>> {
        let result = self.feed.read(wait)?;
        self.feed.coming = None;
        Some(result)
    }

    fn leave(&mut self, chunk: u32) -> Result<Option<u32>, ChunkError> {
        if self.feed.coming.is_some_and(|coming| coming.chunk == chunk) {
            self.feed.lane.reads(LoadList::Resident).at_rest();
            self.feed.coming = None;
        }
        self.feed.chunks.leave(chunk as usize).map_err(ChunkError::Arena)
    }

    fn chunks(&self) -> &Chunks<'_> {
        self.feed.chunks
    }

    fn streams(&self) -> bool {
        !Model::plan(self).loads.is_empty()
    }

    fn budget(&self) -> u64 {
        self.current.budget
    }

    fn plan(&self) -> Option<u64> {
        self.current.proven.get().map(|_| self.current.entry.offset)
    }

    fn plan_for(&self, budget: u64) -> Result<u64, BudgetError> {
        let arena = self.shared.arena;
        // The plans of a network with chunks fit its range, whatever the budget.
        if budget > arena && self.feed.chunks.is_whole() {
            return Err(BudgetError::Arena { asked: budget, arena });
        }
        self.chosen(self.shape(), budget).map(|entry| entry.offset)
    }

    fn set_budget(&mut self, budget: u64) -> Result<(), BudgetError> {
        if self.feed.chunks.mapped() > 0 {
            // Their memory would be lost.
            return Err(BudgetError::Running);
        }
        match self.feed.chunks.is_whole() {
            true => Model::set_budget(self, budget).map(|_| ()),
            // `follow` refuses a plan that it was not opened for.
            false => self.change(self.shape(), budget).map(|_| ()),
        }
    }

    #[cfg(test)]
    fn inside(&self) -> Inside {
        let Feeder { progress, limit, chunks, coming, .. } = &self.feed;
        let first = progress.loads.loads;
        Inside {
            position: self.position,
            slots: (0..chunks.len()).map(|chunk| chunks.slot(chunk)).collect(),
            coming: coming.map(|Coming { chunk, next, crc }| (chunk, next, crc)),
            loads: [progress.loads.count(), progress.reads.count(), *limit]
                .map(|count| count.wrapping_sub(first)),
        }
    }
}

/// The networks of a scope, by their numbers.
pub(crate) trait Networks {
    fn network(&mut self, number: usize) -> Option<&mut dyn Network>;

    /// Whether all chunks of the first `count` networks are read while steps compute.
    fn read_alone(&mut self, count: usize) -> bool {
        (0..count).all(|number| {
            let network = self.network(number);
            network.is_none_or(|network| network.chunks().is_whole() || network.goes_on())
        })
    }
}

impl<const N: usize> Networks for Vec<&mut dyn Network, N> {
    fn network(&mut self, number: usize) -> Option<&mut dyn Network> {
        match self.get_mut(number) {
            Some(network) => Some(&mut **network),
            None => None,
        }
    }
}

/// Runs `body` with all of these networks; those beyond `N` are left out.
pub(crate) fn together<'m, 'a: 'm, S: Storage + 'm, T, const N: usize>(
    networks: impl Iterator<Item = (&'m mut ChunkedInstance<'a>, &'m mut S)>,
    body: impl FnOnce(&mut dyn Networks) -> T,
) -> T {
    let mut lanes = Vec::<_, N>::new();
    let mut parts = Vec::<_, N>::new();
    for (network, storage) in networks.take(N) {
        let ChunkedInstance { instance, chunks, .. } = network;
        let Instance { shared, memory, current } = instance;
        let failed = shared.start();
        let shared = &*shared;
        let (weights, activations) = memory.sides();
        let progress = LoadProgress::new(shared, current.proven, current.entry.shape);
        has_room(lanes.push((weights, storage, shared.depth)));
        has_room(parts.push((current, activations, progress, chunks, failed)));
    }
    Lane::lanes::<_, N>(lanes.into_iter(), |lanes| {
        let mut models = Vec::<_, N>::new();
        for ((current, activations, progress, chunks, failed), lane) in
            parts.into_iter().zip(lanes.iter_mut())
        {
            let shared = progress.shared;
            let feed = Feeder { progress, lane, limit: 0, chunks, coming: None };
            has_room(models.push(Model::new(shared, current, activations, feed, failed)));
        }
        let mut networks = Vec::<&mut dyn Network, N>::new();
        for model in &mut models {
            has_room(networks.push(model));
        }
        body(&mut networks)
    })
}
