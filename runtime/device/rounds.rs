//! Tasks in parts, shared among cores: what worker threads and cores without an operating system have
//! in common.
//!
//! # How a task is divided
//!
//! The caller writes down where the task is, opens a *round* of claims, counts `opened` up, and then
//! takes part itself. Whoever is awake claims parts, first its own and then others', until there are
//! none left. Everyone adds what they did to `finished`, and the caller returns when that has grown
//! by `parts`. A thread that wakes up late finds nothing to claim and was not waited for: with more
//! threads than cores, or a core taken by someone else, the others do its share.
//!
//! # Why the task may be borrowed
//!
//! A task is only called by a thread that has claimed a part of it and not yet counted it as
//! finished. The caller does not leave [`run`](Rounds::run), not even unwinding, before all parts
//! of the round are finished or have been taken back unclaimed. So every call ends before the
//! borrow does.
#![allow(unsafe_code)]

use super::claims::Claims;
use crate::sys::futex::Counter;
use core::cell::{Cell, UnsafeCell};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A task as the threads see it; see the module's text for why its borrow may be forgotten.
type Task = *const (dyn Fn(usize, usize) + Sync);

/// Words that different threads write lie on lines of their own.
#[derive(Debug)]
#[repr(align(64))]
struct Line<T>(T);

/// The state that threads share.
pub(super) struct Rounds {
    /// The parts of the task in progress.
    claims: Claims,
    /// Rounds opened so far: what idle threads wait for.
    opened: Line<Counter>,
    /// Parts finished so far, of all rounds: what the caller waits for.
    finished: Line<Counter>,
    /// Written by the caller when no round is open.
    task: Line<UnsafeCell<Option<Task>>>,
    /// Somebody is in `run`.
    busy: AtomicBool,
    /// How many threads take part, the caller's included.
    threads: AtomicUsize,
}

// SAFETY:
// - Everything but `task` is atomic.
// - The holder of `busy` writes `task` while no round is open. Threads that have claimed a part
//   read it while one is.
// - `claims` (release, acquire) orders the write before those reads. `finished` (release, acquire)
//   orders them before the next write.
// - The target of `task` is Sync.
unsafe impl Sync for Rounds {}
// SAFETY: the pointer in it is only used during `run`, which borrows this.
unsafe impl Send for Rounds {}

impl core::fmt::Debug for Rounds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rounds").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl Rounds {
    /// No task yet.
    pub const fn new(threads: usize) -> Self {
        Self {
            claims: Claims::new(),
            opened: Line(Counter::new()),
            finished: Line(Counter::new()),
            task: Line(UnsafeCell::new(None)),
            busy: AtomicBool::new(false),
            threads: AtomicUsize::new(threads),
        }
    }

    /// How many threads take part, the caller's included.
    pub fn threads(&self) -> usize {
        self.threads.load(Ordering::Relaxed)
    }

    /// Says how many do, while none but the caller does.
    #[cfg(all(feature = "linux", target_os = "linux"))]
    pub fn set_threads(&self, threads: usize) {
        self.threads.store(threads, Ordering::Relaxed);
    }

    /// Rounds opened so far.
    pub fn opened(&self) -> &Counter {
        &self.opened.0
    }

    /// Runs tasks as [`Device::run`](super::Device::run) promises. The caller is thread 0. It spins
    /// for `spin_ns` before it sleeps until the others are done. A call while another one runs, as
    /// from inside of a task, is done on its caller's thread alone.
    pub fn run(&self, parts: usize, spin_ns: u64, task: &(dyn Fn(usize, usize) + Sync)) {
        /// Gives it back, also when the task panics.
        struct Release<'a>(&'a AtomicBool);
        impl Drop for Release<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }

        let alone = parts <= 1 || self.threads() <= 1;
        if alone || self.busy.swap(true, Ordering::Acquire) {
            return (0..parts).for_each(|part| task(part, 0));
        }
        let _release = Release(&self.busy);
        let limit = Claims::LIMIT;
        for first in (0..parts).step_by(limit) {
            let count = (parts - first).min(limit);
            match first {
                0 => self.run_round(count, spin_ns, task),
                _ => self.run_round(count, spin_ns, &|part, thread| task(first + part, thread)),
            }
        }
    }

    /// Does parts of the round that is open, until none is left.
    ///
    /// # Safety
    /// `thread` is not 0, and nobody else takes part as this thread.
    pub unsafe fn take_part(&self, thread: usize) {
        let threads = self.threads();
        let mut done = 0;
        while let Some(part) = self.claims.claim(thread, threads) {
            // SAFETY: just claimed, and counted as finished below.
            unsafe { self.call(part, thread) };
            done += 1;
        }
        if done > 0 {
            self.finished.0.add(done);
        }
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
    fn run_round(&self, parts: usize, spin_ns: u64, task: &(dyn Fn(usize, usize) + Sync)) {
        /// Ends the round, also when the task panics on the caller's thread.
        struct Finish<'a> {
            rounds: &'a Rounds,
            target: u32,
            own: Cell<u32>,
            spin_ns: u64,
        }
        impl Drop for Finish<'_> {
            fn drop(&mut self) {
                let Self { rounds, target, own, spin_ns } = self;
                let finished = &rounds.finished.0;
                let left = rounds.claims.close(rounds.threads());
                // Nobody waits for this count but this thread itself.
                finished.add(own.get() + left);
                finished.wait_until(*target, *spin_ns, || false);
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
        let finish = Finish { rounds: self, target, own: Cell::new(0), spin_ns };
        let threads = self.threads();
        let mut claimed = self.claims.open(parts, threads);
        self.opened.0.add(1);
        while let Some(part) = claimed {
            finish.own.set(finish.own.get() + 1);
            // SAFETY: just claimed, and counted as finished when `finish` is dropped.
            unsafe { self.call(part, 0) };
            claimed = self.claims.claim(0, threads);
        }
    }
}
