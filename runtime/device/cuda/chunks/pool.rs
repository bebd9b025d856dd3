//! The physical chunks: made once, lent to ranges, released at the end.

use super::ChunkError;
use super::vmm::Vmm;
use crate::device::cuda::MemoryError;
use crate::device::cuda::error::given_up;
use crate::device::cuda::memory::explained;

/// A physical chunk's record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunk {
    /// The driver's handle.
    handle: u64,
    /// The place's part in the stack of free chunks: an index of a chunk. Says nothing about
    /// `handle`.
    free: u32,
}

/// All physical chunks.
pub(super) struct Pool<'a> {
    vmm: Vmm<'a>,
    chunk_bytes: u64,
    /// Made so far: all, except while it is opened.
    made: usize,
    free: usize,
    chunks: &'a mut [Chunk],
}

impl<'a> Pool<'a> {
    /// Makes a chunk for each record.
    pub fn new(
        vmm: Vmm<'a>,
        chunk_bytes: u64,
        chunks: &'a mut [Chunk],
    ) -> Result<Self, ChunkError> {
        let count = chunks.len();
        if count == 0
            || u32::try_from(count).is_err()
            || chunk_bytes.checked_mul(count as u64).is_none()
        {
            return Err(ChunkError::Bookkeeping { given: count, needed: 1 });
        }
        // Whatever has been made is released when this fails.
        let mut pool = Self { vmm, chunk_bytes, made: 0, free: 0, chunks };
        for index in 0..count {
            let handle = vmm.create(chunk_bytes).map_err(|error| {
                let made = index * chunk_bytes as usize;
                match explained(vmm.context(), count * chunk_bytes as usize, error) {
                    MemoryError::Exhausted { wanted, free, total } => {
                        // Those that were made will be free again.
                        MemoryError::Exhausted { wanted, free: free + made, total }
                    }
                    refused => refused,
                }
            })?;
            pool.chunks[index] = Chunk { handle, free: 0 };
            pool.made += 1;
            pool.give(index as u32);
        }
        Ok(pool)
    }

    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    pub fn total(&self) -> usize {
        self.made
    }

    pub fn free(&self) -> usize {
        self.free
    }

    /// The driver's handle of a chunk.
    pub fn handle(&self, chunk: u32) -> u64 {
        self.chunks[chunk as usize].handle
    }

    /// A free chunk, which is one no longer.
    pub fn take(&mut self) -> Option<u32> {
        self.free = self.free.checked_sub(1)?;
        Some(self.chunks[self.free].free)
    }

    /// Makes a chunk free that has been taken.
    pub fn give(&mut self, chunk: u32) {
        self.chunks[self.free].free = chunk;
        self.free += 1;
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        for chunk in &self.chunks[..self.made] {
            given_up(self.vmm.release(chunk.handle));
        }
    }
}
