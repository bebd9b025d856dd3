//! Arena memory, wherever it comes from: exclusive, aligned to a page, initialised.
#![allow(unsafe_code)]

use crate::pack::PAGE;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

/// Why there is no arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArenaError {
    /// The memory does not start on a page.
    Misaligned {
        /// Where it starts.
        address: usize,
        /// The alignment that the address must have.
        alignment: usize,
    },
    /// The system refuses the memory.
    Map {
        /// The system's error number.
        errno: i32,
        /// Bytes asked for.
        bytes: usize,
    },
    /// Chunks of this size cannot be mapped one by one.
    Chunk {
        /// Bytes of a chunk.
        chunk: u64,
        /// Bytes of the system's page.
        page: u64,
    },
    /// No slot of the pool is free, though one should be.
    NoSlot,
    /// The free memory of a shared arena is its pool already, or is lent to a network that is being
    /// opened.
    Shared,
    /// The system refuses to lock the memory.
    Lock {
        /// The system's error number.
        errno: i32,
        /// Bytes to lock.
        bytes: usize,
        /// Bytes that this process may lock, as far as the system says.
        limit: u64,
    },
    /// A part of the arena that does not lie inside it, or that ends before it starts.
    Outside {
        /// The part's first byte.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Bytes of the arena.
        arena: u64,
    },
}

impl core::fmt::Display for ArenaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Misaligned { address, alignment } => write!(
                f,
                "the arena starts at {address:#x}, which is no multiple of {alignment}: align it, or \
                 start it {} bytes later",
                alignment - address % alignment
            ),
            Self::Map { errno, bytes } => {
                write!(f, "no memory for an arena of {bytes} bytes: system error {errno}")
            }
            Self::Outside { start, end, arena } => write!(
                f,
                "bytes {start} to {end} are no part of the arena of {arena} bytes: name a part that \
                 starts before it ends, and ends by {arena}"
            ),
            Self::Chunk { chunk, page } => write!(
                f,
                "a chunk of {chunk} bytes is no whole number of the system's pages of {page}: round it up"
            ),
            Self::NoSlot => f.write_str(
                "no slot of the pool is free, though the scheduler counts one: this is a fault of the library, report it",
            ),
            Self::Shared => f.write_str(
                "what is free of the shared arena is its pool already, or another network is being opened in it: \
                 open all networks, one after the other, then make the pool",
            ),
            Self::Lock { errno, bytes, limit } => write!(
                f,
                "an arena of {bytes} bytes cannot be locked in memory: system error {errno}; the \
                 process may lock {limit} bytes (RLIMIT_MEMLOCK): raise that by ulimit -l, or do \
                 not lock"
            ),
        }
    }
}

impl core::error::Error for ArenaError {}

/// The memory of a network, a slice for each region.
#[derive(Debug)]
pub struct Regions<'a> {
    /// The arena: the regions working and kept, side by side. It must start on a page.
    pub arena: &'a mut [u8],
    /// Fast memory, such as tightly coupled memory: buffers and scratch that the plan has put there.
    /// It must start on 64 bytes. Empty where a board has none.
    pub fast: &'a mut [u8],
}

impl<'a> From<&'a mut [u8]> for Regions<'a> {
    fn from(arena: &'a mut [u8]) -> Self {
        Self { arena, fast: &mut [] }
    }
}

/// Exclusive use of an arena's bytes.
#[derive(Debug)]
pub struct ArenaMemory<'a> {
    start: NonNull<u8>,
    len: usize,
    /// Cleared when the memory is given back.
    taken: Option<&'a AtomicBool>,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: this is an exclusive slice of bytes (and a shared atomic), which may be sent and shared.
unsafe impl Send for ArenaMemory<'_> {}
// SAFETY: likewise.
unsafe impl Sync for ArenaMemory<'_> {}

impl<'a> ArenaMemory<'a> {
    /// Alignment of the start of every arena, in bytes: a page.
    pub const ALIGNMENT: usize = PAGE as usize;

    /// An arena in the caller's memory. Its contents stay.
    pub fn from_slice(bytes: &'a mut [u8]) -> Result<Self, ArenaError> {
        let address = bytes.as_ptr().addr();
        if !address.is_multiple_of(Self::ALIGNMENT) {
            return Err(ArenaError::Misaligned { address, alignment: Self::ALIGNMENT });
        }
        let len = bytes.len();
        Ok(Self { start: NonNull::from(bytes).cast(), len, taken: None, lifetime: PhantomData })
    }

    /// An arena in raw memory; `taken`, if given, is cleared when it is dropped.
    ///
    /// # Safety
    /// For `'a`, or until `taken` is cleared, the bytes must be readable, writable, initialised and
    /// touched through nothing else, and start on a page.
    pub(super) unsafe fn from_raw(
        start: NonNull<u8>,
        len: usize,
        taken: Option<&'a AtomicBool>,
    ) -> Self {
        debug_assert!(start.addr().get().is_multiple_of(Self::ALIGNMENT));
        Self { start, len, taken, lifetime: PhantomData }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the bytes are this value's own, initialised, and shared while it is borrowed.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// Its bytes, exclusively.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are this value's own, initialised, and exclusive while it is borrowed
        // so.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for ArenaMemory<'_> {
    fn drop(&mut self) {
        if let Some(taken) = self.taken {
            taken.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(4096))]
    struct Aligned([u8; 8192]);

    #[test]
    fn the_callers_memory_must_start_on_a_page() {
        let mut bytes = Aligned([7; 8192]);
        let start = bytes.0.as_ptr().addr();
        for offset in [1, 64, 2048, 4095] {
            let address = start + offset;
            let error = ArenaMemory::from_slice(&mut bytes.0[offset..]).unwrap_err();
            assert_eq!(error, ArenaError::Misaligned { address, alignment: 4096 });
        }
        let mut memory = ArenaMemory::from_slice(&mut bytes.0[4096..5000]).unwrap();
        assert_eq!((memory.len(), memory.is_empty()), (904, false));
        assert!(memory.as_slice().iter().all(|byte| *byte == 7));
        memory.as_mut_slice()[903] = 1;
        drop(memory);
        assert_eq!((bytes.0[4999], bytes.0[5000]), (1, 7));
    }
}
