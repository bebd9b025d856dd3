//! Cores without an operating system.
//!
//! A firmware starts its other cores by itself, and each calls [`Cores::work`]. That core then takes
//! part in whatever the first one computes on the device. In between it sleeps until the first core
//! signals an event (`wfe` and `sev` of 64-bit ARM), or spins on other processors.
//!
//! ```
//! use eyelet::device::{Cores, Device};
//!
//! static CORES: Cores = Cores::new(2);
//!
//! // What the second core does. On a board it does so for ever.
//! let second = std::thread::spawn(|| CORES.work(|| true));
//! // What the first core does: `CORES` is the device of `step` and `infer`.
//! let sum = std::sync::atomic::AtomicUsize::new(0);
//! CORES.run(100, &|part, _| {
//!     sum.fetch_add(part, std::sync::atomic::Ordering::Relaxed);
//! });
//! assert_eq!(sum.into_inner(), 4950);
//! # drop(second);
//! ```
#![allow(unsafe_code)]

use super::Device;
use super::float_mode::Ieee;
use super::rounds::Rounds;
use crate::pack::MAX_THREADS;
use core::sync::atomic::{AtomicU32, Ordering};

/// A device of several cores. The one that calls [`run`](Device::run) is among them, and others join
/// by [`work`](Self::work), whenever they can. Until they do, and without those that do not, the
/// others do their share.
#[derive(Debug)]
pub struct Cores {
    rounds: Rounds,
    /// A bit for each number that a core has.
    numbers: AtomicU32,
}

/// A core has not been taken: all cores of the device have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoresError {
    /// Cores of the device, the caller of `run` included.
    pub cores: usize,
}

impl core::fmt::Display for CoresError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "all of the device's {} cores are at work: make it of more", self.cores)
    }
}

impl core::error::Error for CoresError {}

impl Cores {
    /// A device of `cores` cores, the caller of `run` included: at least 1, at most 16.
    pub const fn new(cores: usize) -> Self {
        let cores = match cores {
            0 => 1,
            1..MAX_THREADS => cores,
            _ => MAX_THREADS,
        };
        Self { rounds: Rounds::new(cores), numbers: AtomicU32::new(1) }
    }

    /// The body of another core. It returns when `goes_on` is false. The core asks between two
    /// tasks, while it is awake; [`wake`](Self::wake) makes it ask.
    ///
    /// A panic in a task that leaves this function keeps [`run`](Device::run) waiting for ever.
    pub fn work(&self, goes_on: impl Fn() -> bool) -> Result<(), CoresError> {
        /// The number is free again.
        struct Number<'a>(&'a Cores, usize);
        impl Drop for Number<'_> {
            fn drop(&mut self) {
                self.0.numbers.fetch_and(!(1 << self.1), Ordering::Release);
            }
        }

        let number = self.number().ok_or(CoresError { cores: self.rounds.threads() })?;
        let number = Number(self, number);
        let _mode = Ieee::enter();
        let opened = self.rounds.opened();
        while goes_on() {
            let seen = opened.get();
            // SAFETY: the number is this core's alone as long as its bit is set, and not 0.
            unsafe { self.rounds.take_part(number.1) };
            opened.wait_until(seen.wrapping_add(1), 0, || !goes_on());
        }
        Ok(())
    }

    /// Has cores that sleep in [`work`](Self::work) ask whether they go on.
    pub fn wake(&self) {
        self.rounds.opened().wake();
    }

    /// The lowest number that no core has.
    fn number(&self) -> Option<usize> {
        let mut taken = self.numbers.load(Ordering::Relaxed);
        loop {
            let number = taken.trailing_ones();
            if number as usize >= self.rounds.threads() {
                return None;
            }
            let more = taken | 1 << number;
            let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
            match self.numbers.compare_exchange_weak(taken, more, acquire, relaxed) {
                Ok(_) => return Some(number as usize),
                Err(now) => taken = now,
            }
        }
    }
}

// SAFETY:
// - `Claims` deals out each part of a round once, and rounds have different parts.
// - Each core calls one part after the other under its own number. A caller that does all parts
//   alone has no round.
// - `Rounds::run` returns, or unwinds, only when all parts of each round are finished or were taken
//   back.
unsafe impl Device for Cores {
    fn threads(&self) -> usize {
        self.rounds.threads()
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        self.rounds.run(parts, 0, task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::vec::Vec;

    /// Cores that come late or not at all, and tasks of all sizes: each part is called once, and no
    /// two calls at a time have the same number.
    #[test]
    fn each_part_is_called_once() {
        const CORES: usize = 3;
        let (cores, over) = (Cores::new(CORES), AtomicBool::new(false));
        let inside: Vec<AtomicUsize> = (0..CORES).map(|_| AtomicUsize::new(0)).collect();
        let task = |counts: &[AtomicUsize], part: usize, thread: usize| {
            assert_eq!(inside[thread].fetch_add(1, Ordering::SeqCst), 0);
            counts[part].fetch_add(1, Ordering::Relaxed);
            inside[thread].fetch_sub(1, Ordering::SeqCst);
        };
        let all = || {
            for parts in [1, 2, 3, 12, 5000] {
                let counts: Vec<AtomicUsize> = (0..parts).map(|_| AtomicUsize::new(0)).collect();
                cores.run(parts, &|part, thread| task(&counts, part, thread));
                assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
            }
        };
        all();
        std::thread::scope(|scope| {
            for _ in 1..CORES {
                scope.spawn(|| cores.work(|| !over.load(Ordering::Relaxed)).unwrap());
                all();
            }
            // When both have come, there is no third.
            while cores.numbers.load(Ordering::Relaxed) != 7 {
                std::thread::yield_now();
            }
            assert_eq!(cores.work(|| true), Err(CoresError { cores: CORES }));
            (0..20).for_each(|_| all());
            over.store(true, Ordering::Relaxed);
            cores.wake();
        });
        // They have gone, and others may come.
        assert_eq!(cores.numbers.load(Ordering::Relaxed), 1);
        all();
        assert_eq!(cores.work(|| false), Ok(()));
    }

    #[test]
    fn numbers_of_cores_are_bounded() {
        let threads = |cores| Cores::new(cores).threads();
        assert_eq!([0, 1, 4, 16, 99].map(threads), [1, 1, 4, 16, 16]);
    }
}
