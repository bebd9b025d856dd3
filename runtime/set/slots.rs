//! Slots: which chunk gets one, and which keeps the one that it has.
//!
//! The system may refuse to unmap a chunk. Then the chunk keeps its slot, and the pool does not have it. The scheduler
//! counts that slot as free all the same: it does not count the chunk as in memory. So its free slots are those of the
//! pool and those of *leftover* chunks. A leftover chunk is asked to leave again when its slot is needed. If it is the
//! chunk that comes next, it is read into the slot that it has.

use super::running::Running;
use crate::arena::ArenaError;
use crate::executor::ChunkError;
use crate::tasks::Chunk;

impl<const N: usize> Running<'_, '_, N> {
    /// Takes a chunk out of memory, if it is there, so that its slot is free.
    ///
    /// On an error it keeps its slot: it is a leftover if the scheduler does not count it as in memory.
    pub(super) fn put_out(&mut self, chunk: Chunk) -> Result<(), ChunkError> {
        let Some(network) = self.networks.network(chunk.task) else { return Ok(()) };
        let slot = network.leave(chunk.index)?;
        slot.into_iter().for_each(|slot| self.state.pool.give(slot));
        Ok(())
    }

    /// Begins to bring a chunk into memory: in a slot that is free, or in its own if it is a leftover.
    pub(super) fn begin(&mut self, chunk: Chunk) -> Result<(), ChunkError> {
        let Chunk { task, index } = chunk;
        let slot = match self.is_mapped(chunk) {
            true => None,
            false => Some(self.slot()?),
        };
        let nowhere = Err(ChunkError::Arena(ArenaError::NoSlot));
        let network = self.networks.network(task);
        let begun = network.map_or(nowhere, |network| network.begin_chunk(index, slot));
        if begun.is_err() {
            slot.into_iter().for_each(|slot| self.state.pool.give(slot));
        }
        begun
    }

    /// A slot that is free, or that a leftover chunk gives up.
    fn slot(&mut self) -> Result<u32, ChunkError> {
        const NONE: ChunkError = ChunkError::Arena(ArenaError::NoSlot);
        let mut slot = self.state.pool.take().ok_or(NONE);
        for task in 0..self.state.tasks.len() {
            let chunks = self.networks.network(task).map_or(0, |network| network.chunks().len());
            for index in 0..u32::try_from(chunks).unwrap_or(u32::MAX) {
                if slot.is_ok() {
                    return slot;
                }
                let chunk = Chunk { task, index };
                if self.is_leftover(chunk) {
                    slot = self.put_out(chunk).and_then(|()| self.state.pool.take().ok_or(NONE));
                }
            }
        }
        slot
    }

    /// Whether a chunk has memory that the scheduler does not count.
    fn is_leftover(&mut self, chunk: Chunk) -> bool {
        let comes = self.loading.is_some_and(|(coming, _)| coming == chunk);
        !comes && !self.state.scheduler.has(chunk) && self.is_mapped(chunk)
    }

    fn is_mapped(&mut self, Chunk { task, index }: Chunk) -> bool {
        let network = self.networks.network(task);
        network.is_some_and(|network| network.chunks().is_mapped(index as usize))
    }
}
