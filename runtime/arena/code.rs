//! Removes code from resident memory that the process does not use, or no longer uses.
//!
//! Reading a command line or writing a report takes more code than an inference. No inference needs that code again. The
//! kernel also maps up to 64 KiB around each page of a file that is touched. For a large program that is four times as
//! much as it uses.
#![allow(unsafe_code)]

use crate::sys::page_bytes;
use core::ffi::{c_int, c_void};

/// Bytes that the kernel may map around what is touched of a program that has [parted its code](part_code).
const PART_BYTES: usize = 16 << 10;

/// Has the kernel map at most 16 KiB of the program and its libraries around what is touched of them, instead of 64. For
/// programs with far more code than they use. Called once, before most of it has run. Takes a millisecond for 15 MiB.
///
/// The kernel maps pages around a page only within its map. So every other part of 16 KiB gets an advice that its
/// neighbours do not have, which makes each a map of its own.
pub fn part_code() {
    for_segments(|start, bytes| {
        let part = PART_BYTES.max(page_bytes());
        // From the second on: the first of an object has its name, which a core dump is to hold.
        for at in (part..bytes).step_by(2 * part) {
            let address = (start + at) as *mut c_void;
            // SAFETY: a part of a map that stays as it is, but for whether core dumps have it: they have no code. If the
            // kernel refuses, nothing has changed.
            unsafe { libc::madvise(address, part.min(bytes - at), libc::MADV_DONTDUMP) };
        }
    });
}

/// Has the kernel unmap the code and constants of the program and its libraries, and take what the
/// allocator of the C library does not use. The kernel maps code again from the page cache when it
/// is used.
pub fn give_back_code() {
    #[cfg(target_env = "gnu")]
    // SAFETY: memory that is in use stays where it is.
    unsafe {
        libc::malloc_trim(0)
    };
    for_segments(|start, bytes| {
        // SAFETY: a private map of a file that was never writable holds the file's bytes and
        // nothing else, so that they are the same when they are mapped again. If the kernel
        // refuses, nothing has changed.
        unsafe { libc::madvise(start as *mut c_void, bytes, libc::MADV_DONTNEED) };
    });
}

/// Calls a function with the address and the bytes of each segment that is not writable, from a page on.
fn for_segments(mut each: fn(usize, usize)) {
    // SAFETY: the callback fits the call, which hands it a record that is valid during it, and the function.
    unsafe { libc::dl_iterate_phdr(Some(segments), (&raw mut each).cast()) };
}

/// Calls a function with an object's segments that are not writable.
unsafe extern "C" fn segments(
    object: *mut libc::dl_phdr_info,
    _bytes: libc::size_t,
    each: *mut c_void,
) -> c_int {
    // SAFETY: the caller's record, whose table has `dlpi_phnum` entries, and its function.
    let (base, segments, each) = unsafe {
        let object = &*object;
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        let count = object.dlpi_phnum.into();
        let segments = core::slice::from_raw_parts(object.dlpi_phdr, count);
        (object.dlpi_addr as usize, segments, *each.cast::<fn(usize, usize)>())
    };
    let loaded = || segments.iter().filter(|segment| segment.p_type == libc::PT_LOAD);
    // The kernel's own object is no file.
    if !loaded().any(|segment| segment.p_flags & libc::PF_W != 0) {
        return 0;
    }
    for segment in loaded().filter(|segment| segment.p_flags & libc::PF_W == 0) {
        let first = base + segment.p_vaddr as usize;
        let start = first & !(page_bytes() - 1);
        each(start, first + segment.p_memsz as usize - start);
    }
    0
}
