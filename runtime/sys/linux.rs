//! Facts about the Linux system that the library runs on.

/// The calling thread's last system error number.
pub(crate) fn errno() -> i32 {
    // SAFETY: the location is the calling thread's own and always valid.
    unsafe { *libc::__errno_location() }
}

/// Bytes of a page of the system, a power of two.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: a question without pointers.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) });
    page.ok().filter(|page| page.is_power_of_two()).unwrap_or(4096)
}
