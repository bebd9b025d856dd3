//! An allocator that counts its calls, for programs that prove that there are none.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted: to be a program's `#[global_allocator]`.
pub struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Calls of the allocator, by any thread, while `body` ran.
pub fn calls(body: impl FnOnce()) -> u64 {
    let before = CALLS.load(Ordering::SeqCst);
    body();
    CALLS.load(Ordering::SeqCst) - before
}
