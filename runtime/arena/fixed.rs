//! An arena whose size is fixed when the program is compiled.
//!
//! ```
//! static ARENA: eyelet::arena::Arena<{ 1 << 20 }> = eyelet::arena::Arena::new();
//!
//! let mut memory = ARENA.take().expect("nobody else has taken it");
//! assert_eq!(memory.as_mut_slice().len(), 1 << 20);
//! ```
//!
//! A `static` arena lies in `.bss`. It takes no room in the image, and the linker reports an error
//! if the target has too little memory. It is one page larger than `N`, for the flag that says
//! whether it is taken. Where a page counts, use [`ArenaMemory::from_slice`] on memory of your own.
#![allow(unsafe_code)]

use super::ArenaMemory;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

/// `N` bytes, aligned to a page, for one user at a time.
#[repr(C, align(4096))]
pub struct Arena<const N: usize> {
    bytes: UnsafeCell<[u8; N]>,
    taken: AtomicBool,
}

// SAFETY: the bytes are only reached through `take`, which gives them to one at a time; the flag's
// release and acquire order one user's accesses before the next one's.
unsafe impl<const N: usize> Sync for Arena<N> {}

impl<const N: usize> Arena<N> {
    /// An arena of zeros.
    pub const fn new() -> Self {
        const { assert!(N.is_multiple_of(4096), "an arena is a whole number of pages") };
        Self { bytes: UnsafeCell::new([0; N]), taken: AtomicBool::new(false) }
    }

    /// Takes the memory, or returns `None` if it is taken. Dropping the memory gives it back. It
    /// holds zeros at first, and afterwards what the last user left there.
    pub fn take(&self) -> Option<ArenaMemory<'_>> {
        if self.taken.swap(true, Ordering::Acquire) {
            return None;
        }
        let start = NonNull::from(&self.bytes).cast();
        // SAFETY: the flag was clear and is set now, so this is the only handle until it is
        // dropped. The bytes lie at the start of a type that is aligned to a page, and are
        // initialised.
        Some(unsafe { ArenaMemory::from_raw(start, N, Some(&self.taken)) })
    }
}

impl<const N: usize> Default for Arena<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> core::fmt::Debug for Arena<N> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Arena").field("bytes", &N).field("taken", &self.taken).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static ARENA: Arena<{ 16 << 20 }> = Arena::new();

    #[test]
    fn one_at_a_time() {
        assert_eq!(size_of::<Arena<8192>>(), 8192 + 4096);
        let mut memory = ARENA.take().unwrap();
        assert_eq!(memory.len(), 16 << 20);
        assert_eq!(memory.as_slice().as_ptr().addr() % 4096, 0);
        assert!(memory.as_slice().iter().all(|byte| *byte == 0));
        assert!(ARENA.take().is_none());
        *memory.as_mut_slice().last_mut().unwrap() = 9;
        drop(memory);
        assert_eq!(ARENA.take().unwrap().as_slice().last(), Some(&9));
    }

    #[test]
    fn threads_take_turns() {
        static SHARED: Arena<4096> = Arena::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let mut memory = loop {
                            match SHARED.take() {
                                Some(memory) => break memory,
                                None => std::thread::yield_now(),
                            }
                        };
                        let (count, _) = memory.as_mut_slice().split_first_chunk_mut().unwrap();
                        *count = (u32::from_le_bytes(*count) + 1).to_le_bytes();
                    }
                });
            }
        });
        assert_eq!(SHARED.take().unwrap().as_slice()[..4], 2000u32.to_le_bytes());
    }
}
