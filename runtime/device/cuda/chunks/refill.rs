//! Chunks that come from storage: read into pinned staging memory, copied from there.

use super::ChunkError;
use super::vmm::Pinned;
use crate::device::cuda::{Context, Event, Stream};
use crate::pack::PAGE;
use crate::storage::{Storage, StorageError};

/// Has the bytes of a network's read-only chunks.
pub trait Refill {
    /// Fills `into` with the bytes from `offset` of the network's range on. Both are multiples of
    /// [`PAGE`], and so is the address of `into`.
    fn refill(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError>;
}

impl<F: FnMut(u64, &mut [u8]) -> Result<(), StorageError>> Refill for F {
    fn refill(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self(offset, into)
    }
}

/// A range whose bytes lie in a storage as they lie in the range, from this offset on (a multiple
/// of the storage's alignment).
pub struct FromStorage<S> {
    /// The storage.
    pub storage: S,
    /// Where the range starts in it.
    pub offset: u64,
}

impl<S: Storage> Refill for FromStorage<S> {
    fn refill(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let (wanted, got) = (into.len() as u64, 0);
        let at = self.offset.checked_add(offset);
        let at = at.ok_or(StorageError::Short { offset: u64::MAX, wanted, got })?;
        self.storage.read(at, into)
    }
}

/// Two halves of pinned memory: one is copied while the other is filled.
pub(super) struct Staging<'a> {
    memory: Pinned<'a>,
    half: usize,
    /// Which half is next, and whether each has ever been used.
    next: usize,
    used: [bool; 2],
    copied: [Event<'a>; 2],
}

impl<'a> Staging<'a> {
    /// Halves of whole pages, of at most that many bytes together.
    pub fn new(context: &'a Context<'a>, bytes: usize) -> Result<Self, ChunkError> {
        let page = PAGE as usize;
        let half = bytes / 2 / page * page;
        if half == 0 {
            return Err(ChunkError::Staging { bytes, needed: 2 * page });
        }
        let memory = Pinned::new(context, 2 * half)?;
        let copied = [context.event()?, context.event()?];
        Ok(Self { memory, half, next: 0, used: [false; 2], copied })
    }

    /// Fills `bytes` at `address` of the GPU with those from `offset` of the range on. The last
    /// copies are in flight when it returns.
    pub fn fill(
        &mut self,
        refill: &mut dyn Refill,
        stream: &Stream<'_>,
        address: u64,
        offset: u64,
        bytes: u64,
    ) -> Result<(), ChunkError> {
        let mut done = 0;
        while done < bytes {
            let piece = (bytes - done).min(self.half as u64) as usize;
            let half = self.next;
            if self.used[half] {
                self.copied[half].synchronize()?;
            }
            let start = half * self.half;
            let memory = self.memory.part(start..start + piece);
            refill.refill(offset + done, memory)?;
            self.next = 1 - half;
            // SAFETY: the half is next touched when its event has passed, or after an error when
            // the stream is idle; the addresses are mapped chunks of a range that nobody uses yet.
            unsafe { stream.copy_to_device(address + done, memory.as_ptr(), piece) }?;
            self.copied[half].record(stream)?;
            self.used[half] = true;
            done += piece as u64;
        }
        Ok(())
    }
}
