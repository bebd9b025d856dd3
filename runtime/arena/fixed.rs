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
//! if the target has too little memory.
//!
//! An [`Arena`] is one page larger than `N`, for the flag that says whether it is taken. Where a
//! page counts, [`take_arena!`](crate::take_arena) has the flag elsewhere:
//!
//! ```
//! let mut memory = eyelet::take_arena!(1 << 20).expect("this is reached once");
//! assert_eq!(memory.as_mut_slice().len(), 1 << 20);
//! ```
#![allow(unsafe_code)]

use super::ArenaMemory;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

/// `N` bytes, aligned to a page, for one user at a time.
#[repr(C)]
pub struct Arena<const N: usize> {
    pages: ArenaBytes<N>,
    taken: AtomicBool,
}

impl<const N: usize> Arena<N> {
    /// An arena of zeros.
    pub const fn new() -> Self {
        Self { pages: ArenaBytes::new(), taken: AtomicBool::new(false) }
    }

    /// Takes the memory, or returns `None` if it is taken. Dropping the memory gives it back. It
    /// holds zeros at first, and afterwards what the last user left there.
    pub fn take(&self) -> Option<ArenaMemory<'_>> {
        // SAFETY: these pages have no other flag.
        unsafe { self.pages.take(&self.taken) }
    }
}

/// Takes an arena whose size is a constant, or returns `None` if this place has taken it already.
/// Each place where this is written has an arena of its own: a static `ARENA` of exactly that size.
/// Dropping the memory gives it back.
#[macro_export]
macro_rules! take_arena {
    ($bytes:expr) => {{
        static ARENA: $crate::arena::ArenaBytes<{ $bytes }> = $crate::arena::ArenaBytes::new();
        static TAKEN: ::core::sync::atomic::AtomicBool =
            ::core::sync::atomic::AtomicBool::new(false);
        // SAFETY: both are named here alone, so that these pages have no other flag.
        unsafe { ARENA.take(&TAKEN) }
    }};
}

/// Takes fast memory of a constant size for [`Regions::fast`](crate::arena::Regions), or returns
/// `None` if this place has taken it already. The memory is a static `FAST` in the section
/// `.bss.eyelet_fast`, which the linker script puts into the fast memory. A script that does not name
/// the section has it among other zeroed data.
#[macro_export]
macro_rules! take_fast {
    ($bytes:expr) => {{
        #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".bss.eyelet_fast"))]
        static FAST: $crate::arena::ArenaBytes<{ $bytes }> = $crate::arena::ArenaBytes::new();
        static TAKEN: ::core::sync::atomic::AtomicBool =
            ::core::sync::atomic::AtomicBool::new(false);
        // SAFETY: both are named here alone, so that these bytes have no other flag.
        unsafe { FAST.take(&TAKEN) }
    }};
}

/// The bytes of an arena, without the flag that says whether they are taken.
#[doc(hidden)]
#[repr(C, align(4096))]
pub struct ArenaBytes<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: the bytes are only reached through `take`, which gives them to one at a time; the flag's
// release and acquire order one user's accesses before the next one's.
unsafe impl<const N: usize> Sync for ArenaBytes<N> {}

impl<const N: usize> ArenaBytes<N> {
    /// Zeros.
    #[expect(clippy::new_without_default, reason = "there is one way to have them: `take_arena`")]
    pub const fn new() -> Self {
        const { assert!(N.is_multiple_of(4096), "an arena is a whole number of pages") };
        Self(UnsafeCell::new([0; N]))
    }

    /// Takes the memory, or returns `None` if it is taken.
    ///
    /// # Safety
    /// Every call for these pages is with this flag, which is used for nothing else.
    pub unsafe fn take<'a>(&'a self, taken: &'a AtomicBool) -> Option<ArenaMemory<'a>> {
        if taken.swap(true, Ordering::Acquire) {
            return None;
        }
        let start = NonNull::from(&self.0).cast();
        // SAFETY: the flag was clear and is set now, so this is the only handle until it is
        // dropped. The bytes lie at the start of a type that is aligned to a page, and are
        // initialised.
        Some(unsafe { ArenaMemory::from_raw(start, N, Some(taken)) })
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
    fn a_place_has_an_arena_of_its_own() {
        fn taken() -> Option<ArenaMemory<'static>> {
            crate::take_arena!(8192)
        }
        assert_eq!(size_of::<ArenaBytes<8192>>(), 8192);
        let mut memory = taken().unwrap();
        assert_eq!((memory.len(), memory.as_slice().as_ptr().addr() % 4096), (8192, 0));
        memory.as_mut_slice()[8191] = 3;
        assert!(taken().is_none() && crate::take_arena!(8192).is_some());
        drop(memory);
        assert_eq!(taken().unwrap().as_slice()[8191], 3);
    }

    #[test]
    fn fast_memory_is_taken_once() {
        fn taken() -> Option<ArenaMemory<'static>> {
            crate::take_fast!(4096)
        }
        let memory = taken().unwrap();
        assert_eq!((memory.len(), memory.as_slice()[4095]), (4096, 0));
        assert!(taken().is_none());
        assert!(crate::take_fast!(0).unwrap().is_empty());
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
