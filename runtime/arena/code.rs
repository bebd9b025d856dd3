//! What a process can give back before its arena is resident: code that has done its part.
//!
//! A command line that is read, or a report that is written, takes more code than an inference, and
//! the kernel maps 64 KiB around all that is touched. None of it is needed again while the arena
//! is.
#![allow(unsafe_code)]

use crate::sys::page_bytes;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// Has the kernel unmap the code and constants of the program and its libraries, and take what the
/// allocator of the C library does not use. What code is used again is mapped again from the page
/// cache.
pub fn give_back_code() {
    #[cfg(target_env = "gnu")]
    // SAFETY: memory that is in use stays where it is.
    unsafe {
        libc::malloc_trim(0)
    };
    // SAFETY: the callback fits the call, which hands it a record that is valid during it.
    unsafe { libc::dl_iterate_phdr(Some(give_back_segments), null_mut()) };
}

/// Gives back an object's segments that are not writable.
unsafe extern "C" fn give_back_segments(
    object: *mut libc::dl_phdr_info,
    _bytes: libc::size_t,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's record, whose table has `dlpi_phnum` entries.
    let (base, segments) = unsafe {
        let object = &*object;
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        let count = object.dlpi_phnum.into();
        (object.dlpi_addr as usize, core::slice::from_raw_parts(object.dlpi_phdr, count))
    };
    let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    // The kernel's own object is no file.
    if !loaded().any(|segment| segment.p_flags & libc::PF_W != 0) {
        return 0;
    }
    for segment in loaded().filter(|segment| segment.p_flags & libc::PF_W == 0) {
        let first = base + segment.p_vaddr as usize;
        let start = first & !(page_bytes() - 1);
        let bytes = first + segment.p_memsz as usize - start;
        // SAFETY: a private map of a file that was never writable holds the file's bytes and
        // nothing else, so that they are the same when they are mapped again. If the kernel
        // refuses, nothing has changed.
        unsafe { libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED) };
    }
    0
}
