//! A clock, and giving way to other threads.

#[cfg(all(feature = "linux", target_os = "linux"))]
use core::mem::MaybeUninit;

/// A clock that never goes back, in nanoseconds. Without Linux it is always 0.
pub(crate) fn now_ns() -> u64 {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call fills the record. This clock exists on every Linux.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
    #[cfg(not(all(feature = "linux", target_os = "linux")))]
    0
}

/// How often this thread was stopped, or gave way, and another one ran on its core. Without Linux it
/// is always 0.
pub(super) fn times_stopped() -> u64 {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the call fills the record, which is integers, all of which may be zero.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        usage.ru_nivcsw as u64
    }
    #[cfg(not(all(feature = "linux", target_os = "linux")))]
    0
}

/// Lets another thread have the core, if one waits for it.
pub(super) fn give_way() {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    // SAFETY: nothing but a call.
    unsafe {
        libc::sched_yield()
    };
}
