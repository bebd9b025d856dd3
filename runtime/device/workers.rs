//! Worker threads on Linux: they spin between layers and sleep between inferences.
//!
//! A [`Pool`] is the memory that the threads share: a constant to put on the stack or in a
//! `static`. [`Pool::scope`] lends [`Workers`], a [`Device`], to a closure; [`Pool::start`] gives
//! them out for a pool that lives for ever.
//!
//! # How a task is divided
//!
//! The caller writes down where the task is, opens a *round* of claims, counts `rounds` up, and
//! then takes part itself. Whoever is awake claims parts, first its own and then others', until
//! there are none left. Everyone adds what they did to `finished`, and the caller returns when that
//! has grown by `parts`. A thread that wakes up late finds nothing to claim and was not waited for:
//! with more threads than cores, or a core taken by someone else, the others do its share.
//!
//! # Why the task may be borrowed
//!
//! A task is only called by a thread that has claimed a part of it and not yet counted it as
//! finished. The caller does not leave [`run`](Device::run), not even unwinding, before all parts
//! of the round are finished or have been taken back unclaimed. So every call ends before the
//! borrow does.
#![allow(unsafe_code)]

use super::Device;
use super::claims::Claims;
pub use super::claims::MAX_THREADS;
use super::float_mode::Ieee;
use super::threads::{self, ThreadError, available_cores};
use crate::sys::futex::Counter;
use core::cell::{Cell, UnsafeCell};
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// How long a thread spins for the next task, and the caller for the end of one, before it sleeps:
/// longer than a layer's serial parts, much shorter than a pause between inferences.
pub const SPIN_NS: u64 = 50_000;

/// A thread without a core of its own.
const ANY_CORE: u32 = u32::MAX;

/// A task as the threads see it; see the module's text for why its borrow may be forgotten.
type Task = *const (dyn Fn(usize, usize) + Sync);

/// Words that different threads write lie on lines of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// The memory that the threads of a pool share.
pub struct Pool {
    /// The parts of the task under way.
    claims: Claims,
    /// Rounds opened so far: what idle threads wait for.
    rounds: Line<Counter>,
    /// Parts finished so far, of all rounds: what the caller waits for.
    finished: Line<Counter>,
    /// Written by the caller when no round is open.
    task: Line<UnsafeCell<Option<Task>>>,
    /// Somebody is in `run`.
    busy: AtomicBool,
    /// The pool has threads.
    running: AtomicBool,
    /// How many, the caller's included.
    threads: AtomicUsize,
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

// SAFETY: everything but `task` is atomic. `task` is written by whoever holds `busy`, while no
// round is open, and read by threads that have claimed a part, while one is: `claims` (release,
// acquire) orders the write before those reads, `finished` (release, acquire) orders them before
// the next write. What it points to is Sync.
unsafe impl Sync for Pool {}
// SAFETY: the pointer in it is only used during `run`, which borrows the pool.
unsafe impl Send for Pool {}

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
            claims: Claims::new(),
            rounds: Line(Counter::new()),
            finished: Line(Counter::new()),
            task: Line(UnsafeCell::new(None)),
            busy: AtomicBool::new(false),
            running: AtomicBool::new(false),
            threads: AtomicUsize::new(1),
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
        self.threads.store(threads, Ordering::Relaxed);
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
            // There is room, by the check above.
            let _ = workers.handles.push(handle);
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

    /// Calls a claimed part of the task.
    ///
    /// # Safety
    /// The calling thread has claimed `part` and not yet counted it as finished.
    unsafe fn call(&self, part: usize, thread: usize) {
        // SAFETY: as long as a claimed part is unfinished, the caller is in `run_round`: the task
        // is there, not written, and what it points to is alive.
        unsafe {
            if let Some(task) = *self.task.0.get() {
                (*task)(part, thread);
            }
        }
    }

    /// One round of at most [`Claims::LIMIT`] parts. The caller holds `busy`.
    fn run_round(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        /// Ends the round, also when the task panics on the caller's thread.
        struct Finish<'a> {
            pool: &'a Pool,
            target: u32,
            own: Cell<u32>,
        }
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                let Self { pool, target, own } = self;
                let finished = &pool.finished.0;
                let left = pool.claims.close(pool.threads.load(Ordering::Relaxed));
                // Nobody waits for this count but this thread itself.
                finished.add(own.get() + left);
                finished.wait_until(*target, pool.spin_ns.load(Ordering::Relaxed), || false);
            }
        }

        let task: *const (dyn Fn(usize, usize) + Sync + '_) = task;
        // SAFETY: only the lifetime changes. The pointer is followed in `call` alone, before
        // `finish`, below, lets this function end.
        let task = unsafe {
            core::mem::transmute::<*const (dyn Fn(usize, usize) + Sync + '_), Task>(task)
        };
        // SAFETY: no round is open, so nobody reads it, and `busy` is held, so nobody else writes
        // it.
        unsafe { *self.task.0.get() = Some(task) };

        let target = self.finished.0.get().wrapping_add(parts as u32);
        let finish = Finish { pool: self, target, own: Cell::new(0) };
        let threads = self.threads.load(Ordering::Relaxed);
        let mut claimed = self.claims.open(parts, threads);
        self.rounds.0.add(1);
        while let Some(part) = claimed {
            finish.own.set(finish.own.get() + 1);
            // SAFETY: just claimed, and counted as finished when `finish` is dropped.
            unsafe { self.call(part, 0) };
            claimed = self.claims.claim(0, threads);
        }
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
    let threads = pool.threads.load(Ordering::Relaxed);
    let mut seen = pool.rounds.0.get();
    loop {
        let mut done = 0;
        while let Some(part) = pool.claims.claim(index, threads) {
            // SAFETY: just claimed, and counted as finished below.
            unsafe { pool.call(part, index) };
            done += 1;
        }
        if done > 0 {
            pool.finished.0.add(done);
        }
        let stop = || pool.stop.load(Ordering::Relaxed);
        if !pool.rounds.0.wait_until(seen.wrapping_add(1), spin_ns, stop) {
            return core::ptr::null_mut();
        }
        seen = pool.rounds.0.get();
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

// SAFETY: `Claims` deals out each part of a round once, and rounds have different parts. Each
// thread calls one part after the other under its own number; a caller that does all parts alone
// has no round. `run_round` returns, and unwinds, when all parts of its round are finished or were
// taken back.
unsafe impl Device for Workers<'_> {
    fn threads(&self) -> usize {
        self.handles.len() + 1
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        /// Gives the pool back, also when the task panics.
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }

        let alone = parts <= 1 || self.handles.is_empty();
        if alone || self.pool.busy.swap(true, Ordering::Acquire) {
            return (0..parts).for_each(|part| task(part, 0));
        }
        let _release = Release(&self.pool.busy);
        let limit = Claims::LIMIT;
        for first in (0..parts).step_by(limit) {
            let count = (parts - first).min(limit);
            match first {
                0 => self.pool.run_round(count, task),
                _ => self.pool.run_round(count, &|part, thread| task(first + part, thread)),
            }
        }
    }
}

impl Drop for Workers<'_> {
    fn drop(&mut self) {
        self.pool.stop.store(true, Ordering::Relaxed);
        self.pool.rounds.0.wake();
        for handle in &self.handles {
            // SAFETY: from `spawn`, and waited for once: the device is being dropped.
            unsafe { threads::wait(*handle) };
        }
        self.pool.running.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
