//! Worker threads on Linux: they spin between layers and sleep between inferences.
//!
//! A [`Pool`] is the memory that the threads share: a constant to put on the stack or in a
//! `static`. [`Pool::scope`] lends [`Workers`], a [`Device`], to a closure; [`Pool::start`] gives
//! them out for a pool that lives for ever. How threads share a task is in `rounds.rs`.
#![allow(unsafe_code)]

pub use crate::pack::MAX_THREADS;

use super::Device;
use super::float_mode::Ieee;
use super::rounds::Rounds;
use super::threads::{self, ThreadError, available_cores};
use crate::sys::discard::has_room;
use crate::sys::futex::Counter;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How long a thread spins for the next task, and the caller for the end of one, before it sleeps:
/// longer than a layer's serial parts, much shorter than a pause between inferences.
pub const SPIN_NS: u64 = 50_000;

/// A thread without a core of its own.
const ANY_CORE: u32 = u32::MAX;

/// The memory that the threads of a pool share.
pub struct Pool {
    /// The tasks.
    rounds: Rounds,
    /// The pool has threads.
    running: AtomicBool,
    /// The threads shall end.
    stop: AtomicBool,
    /// How long to spin, in nanoseconds.
    spin_ns: AtomicU64,
    /// Threads that have begun, which gives each its index.
    begun: AtomicUsize,
    /// The core of each thread.
    cores: [AtomicU32; MAX_THREADS],
    /// Threads that are on their cores, or could not get there.
    pinned: Counter,
    /// Error number and core of one that could not; 0 if all could.
    refused: AtomicU64,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Pool {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pool").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without threads.
    pub const fn new() -> Self {
        Self {
            rounds: Rounds::new(1),
            running: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            spin_ns: AtomicU64::new(0),
            begun: AtomicUsize::new(0),
            cores: [const { AtomicU32::new(ANY_CORE) }; MAX_THREADS],
            pinned: Counter::new(),
            refused: AtomicU64::new(0),
        }
    }

    /// Runs `body` with a device of `threads` threads, the caller's included. The threads end
    /// before this returns. With `cores`, thread `i` runs on `cores[i]` only. The caller's thread
    /// is left where it is: it may pin itself to `cores[0]` with [`threads::pin_current`].
    pub fn scope<R>(
        &self,
        threads: usize,
        cores: Option<&[usize]>,
        body: impl FnOnce(&Workers<'_>) -> R,
    ) -> Result<R, ThreadError> {
        // SAFETY: `workers` is dropped here, whatever `body` does with the reference.
        let workers = unsafe { self.start_unscoped(threads, cores)? };
        Ok(body(&workers))
    }

    /// Starts a device of `threads` threads, as [`scope`](Self::scope) does, in a pool that lives
    /// for ever. The threads end when the device is dropped.
    pub fn start(
        &'static self,
        threads: usize,
        cores: Option<&[usize]>,
    ) -> Result<Workers<'static>, ThreadError> {
        // SAFETY: if the device is never dropped, its threads go on using a pool that is always
        // there.
        unsafe { self.start_unscoped(threads, cores) }
    }

    /// Starts the threads.
    ///
    /// # Safety
    /// The device must be dropped before the pool is.
    unsafe fn start_unscoped(
        &self,
        threads: usize,
        cores: Option<&[usize]>,
    ) -> Result<Workers<'_>, ThreadError> {
        if threads == 0 || threads > MAX_THREADS {
            return Err(ThreadError::Count { wanted: threads, limit: MAX_THREADS });
        }
        if let Some(cores) = cores
            && cores.len() != threads
        {
            return Err(ThreadError::Cores { wanted: threads, listed: cores.len() });
        }
        if self.running.swap(true, Ordering::Acquire) {
            return Err(ThreadError::Busy);
        }
        // A thread that spins on a core which another one needs only holds it up.
        let room = cores.map_or_else(available_cores, distinct);
        let spin_ns = if threads > room { 0 } else { SPIN_NS };
        self.spin_ns.store(spin_ns, Ordering::Relaxed);
        self.rounds.set_threads(threads);
        self.stop.store(false, Ordering::Relaxed);
        self.begun.store(0, Ordering::Relaxed);
        self.refused.store(0, Ordering::Relaxed);
        let pinned = self.pinned.get();
        for (i, slot) in self.cores.iter().enumerate() {
            let core = cores.and_then(|cores| cores.get(i)).map(|core| {
                // A number no machine has stays one.
                u32::try_from(*core).unwrap_or(ANY_CORE).min(ANY_CORE - 1)
            });
            slot.store(core.unwrap_or(ANY_CORE), Ordering::Relaxed);
        }
        // Dropped on every way out of here: if a thread cannot be had, the others end.
        let mut workers = Workers { pool: self, handles: heapless::Vec::new() };
        for started in 1..threads {
            let create = |errno| ThreadError::Create { errno, wanted: threads, started };
            let pool = (&raw const *self).cast_mut().cast();
            // SAFETY: the pool outlives the threads, by the caller's promise and since dropping
            // `workers` waits for them; it is Sync.
            let handle = unsafe { threads::spawn(work, pool) }.map_err(create)?;
            has_room(workers.handles.push(handle));
        }
        if cores.is_some() {
            self.pinned.wait_until(pinned.wrapping_add(threads as u32 - 1), 0, || false);
            let refused = self.refused.load(Ordering::Relaxed);
            if refused != 0 {
                let (errno, core) = ((refused >> 32) as i32, refused as u32 as usize);
                return Err(ThreadError::Pin { errno, core });
            }
        }
        Ok(workers)
    }
}

/// Number of different cores in a list.
fn distinct(cores: &[usize]) -> usize {
    cores.iter().enumerate().filter(|(i, core)| !cores[..*i].contains(core)).count()
}

/// The body of a thread.
extern "C" fn work(pool: *mut c_void) -> *mut c_void {
    // SAFETY: `start_unscoped` passes a pool that outlives the thread. A panic in a task does not
    // unwind past here: it aborts, and so can neither hang the caller nor end a borrow early.
    let pool = unsafe { &*pool.cast::<Pool>() };
    let _mode = Ieee::enter();
    let index = pool.begun.fetch_add(1, Ordering::Relaxed) + 1;
    let core = pool.cores.get(index).map_or(ANY_CORE, |core| core.load(Ordering::Relaxed));
    if core != ANY_CORE {
        if let Err(errno) = threads::pin_current(core as usize) {
            pool.refused.store((errno as u64) << 32 | core as u64, Ordering::Relaxed);
        }
        pool.pinned.add(1);
    }
    let spin_ns = pool.spin_ns.load(Ordering::Relaxed);
    let rounds = &pool.rounds;
    let mut seen = rounds.opened().get();
    loop {
        // SAFETY: each thread of the pool has a number of its own, and the caller is 0.
        unsafe { rounds.take_part(index) };
        let stop = || pool.stop.load(Ordering::Relaxed);
        if !rounds.opened().wait_until(seen.wrapping_add(1), spin_ns, stop) {
            return core::ptr::null_mut();
        }
        seen = rounds.opened().get();
    }
}

/// A device of several threads, of which the caller's is one.
///
/// A task that runs on it may use it: such a call, like one made while another thread's is under
/// way, is done on its caller's thread alone.
pub struct Workers<'a> {
    pool: &'a Pool,
    handles: heapless::Vec<libc::pthread_t, MAX_THREADS>,
}

// SAFETY: a thread handle may be used from any thread, and the pool is Sync.
unsafe impl Send for Workers<'_> {}
// SAFETY: likewise; `run` keeps concurrent callers apart.
unsafe impl Sync for Workers<'_> {}

impl core::fmt::Debug for Workers<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

// SAFETY:
// - `Claims` deals out each part of a round once, and rounds have different parts.
// - Each thread calls one part after the other under its own number. A caller that does all parts
//   alone has no round.
// - `Rounds::run` returns, or unwinds, only when all parts of each round are finished or were taken
//   back.
unsafe impl Device for Workers<'_> {
    fn threads(&self) -> usize {
        self.handles.len() + 1
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        self.pool.rounds.run(parts, self.pool.spin_ns.load(Ordering::Relaxed), task);
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.pool.stop.store(true, Ordering::Relaxed);
        self.pool.rounds.opened().wake();
        for handle in &self.handles {
            // SAFETY: from `spawn`, and waited for once: the device is being dropped.
            unsafe { threads::wait(*handle) };
        }
        self.pool.running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
