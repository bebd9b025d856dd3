//! What the kernel says of this process, and code it can give back.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

/// A line of `/proc/self/status` that is a size: `VmRSS` (resident now), `VmHWM` (the most it has been).
/// 0 where the kernel does not tell.
pub fn status_bytes(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    parse(&text, field)
}

fn parse(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Has the kernel take back the code and constants that are mapped, of the program and its libraries. What is
/// used again is mapped again from the page cache, a few pages at a time: after reading the command line, which runs
/// more code than an inference, that is much less.
pub fn return_code() {
    // SAFETY: the callback fits the call, which hands it a record that is valid during it.
    unsafe { libc::dl_iterate_phdr(Some(return_segments), std::ptr::null_mut()) };
}

/// Returns an object's segments that are not writable.
unsafe extern "C" fn return_segments(
    object: *mut libc::dl_phdr_info,
    _bytes: libc::size_t,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the caller's record, whose table has so many entries.
    let (base, segments) = unsafe {
        let object = &*object;
        match object.dlpi_phdr.is_null() {
            true => return 0,
            false => (
                object.dlpi_addr,
                std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()),
            ),
        }
    };
    // The kernel's own object is no file.
    let of_file = segments
        .iter()
        .any(|segment| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W != 0);
    for segment in segments.iter().filter(|_| of_file) {
        if segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0 {
            let first = base + segment.p_vaddr;
            let start = first & !(page_bytes() - 1);
            let bytes = first + segment.p_memsz - start;
            // SAFETY: a private map of a file that was never writable holds the file's bytes and nothing else, so that
            // they are the same when they are mapped again. If the kernel refuses, nothing has changed.
            unsafe { libc::madvise(start as *mut c_void, bytes as usize, libc::MADV_DONTNEED) };
        }
    }
    0
}

/// Bytes of a page of the system.
pub fn page_bytes() -> u64 {
    // SAFETY: only asks for a number.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_found_by_their_whole_name() {
        let text = "Name:\teyelet\nVmHWMx:\t 7 kB\nVmHWM:\t    3504 kB\nVmRSS:\t    3100 kB\n";
        assert_eq!(parse(text, "VmHWM"), 3504 * 1024);
        assert_eq!(parse(text, "VmRSS"), 3100 * 1024);
        assert_eq!(parse(text, "VmSwap"), 0);
        assert!(status_bytes("VmHWM") >= status_bytes("VmRSS") / 2);
    }
}
