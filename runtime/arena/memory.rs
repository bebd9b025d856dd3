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
        /// What the address must be a multiple of.
        alignment: usize,
    },
    /// The system refuses the memory.
    Map {
        /// The system's error number.
        errno: i32,
        /// Bytes asked for.
        bytes: usize,
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
        }
    }
}

impl core::error::Error for ArenaError {}

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
