//! Dealing out the parts of a task to whoever is awake.

use crate::pack::MAX_THREADS;
use core::sync::atomic::{AtomicU64, Ordering};

/// The parts of the task that is in progress, of which each is claimed once.
///
/// Each thread has a run of adjacent parts of its own, which it claims from the front. When they
/// are gone it takes others' from the back. So, as long as all threads are equally fast, the same
/// part of one task after the other is the same thread's, and finds in that core's cache what the
/// task before it wrote there.
#[derive(Debug)]
pub(super) struct Claims([Run; MAX_THREADS]);

/// The rest of a thread's run of parts, on a cache line of its own.
///
/// One word holds all of it, so that a claim is one compare-and-exchange: the number of the round,
/// the next part, the end of those that are left. The round's number makes the words of different
/// rounds differ, so that a claim made on a stale view fails.
#[derive(Debug)]
#[repr(align(64))]
struct Run(AtomicU64);

/// The word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    number: u64,
    next: u64,
    end: u64,
}

/// Bits of `next` and of `end`; the number has the other forty.
const BITS: u32 = 12;

impl Round {
    fn unpack(word: u64) -> Self {
        let low = (1 << BITS) - 1;
        Self { number: word >> (2 * BITS), next: (word >> BITS) & low, end: word & low }
    }

    fn pack(self) -> u64 {
        (self.number << (2 * BITS)) | (self.next << BITS) | self.end
    }
}

impl Run {
    /// Opens the run for a new round. Whoever claims a part of it sees what was written before.
    fn open(&self, next: usize, end: usize) {
        let number = Round::unpack(self.0.load(Ordering::Relaxed)).number.wrapping_add(1);
        let round = Round { number, next: next as u64, end: end as u64 };
        self.0.store(round.pack(), Ordering::Release);
    }

    /// Claims the first part that is left or, for somebody else than the run's thread, the last.
    fn claim(&self, own: bool) -> Option<usize> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let mut round = Round::unpack(word);
            if round.next >= round.end {
                return None;
            }
            let part = if own { round.next } else { round.end - 1 };
            match own {
                true => round.next += 1,
                false => round.end -= 1,
            }
            let orders = (Ordering::Acquire, Ordering::Acquire);
            match self.0.compare_exchange_weak(word, round.pack(), orders.0, orders.1) {
                Ok(_) => return Some(part as usize),
                Err(now) => word = now,
            }
        }
    }
}

impl Claims {
    /// The largest number of parts in a round.
    pub(super) const LIMIT: usize = (1 << BITS) - 1;

    /// Nothing to claim.
    pub(super) const fn new() -> Self {
        Self([const { Run(AtomicU64::new(0)) }; MAX_THREADS])
    }

    /// Opens a round of at most [`LIMIT`](Self::LIMIT) parts for `threads` threads, and claims the
    /// first for thread 0: a thread that still looks for parts of the round before could otherwise
    /// be faster. All parts of that one must have been claimed, and nobody else may open one at the
    /// same time. Whoever claims a part sees what was written before.
    pub(super) fn open(&self, parts: usize, threads: usize) -> Option<usize> {
        debug_assert!(parts <= Self::LIMIT);
        let start = |thread: usize| (parts * thread).div_ceil(threads.max(1));
        let first = (parts > 0).then_some(0);
        for (thread, run) in self.0.iter().enumerate().take(threads) {
            let next = if thread == 0 { usize::from(first.is_some()) } else { start(thread) };
            run.open(next, start(thread + 1));
        }
        first
    }

    /// Claims a part of the open round for one of `threads` threads, if one is left.
    pub(super) fn claim(&self, thread: usize, threads: usize) -> Option<usize> {
        let own = self.0.get(thread)?;
        let others = || {
            // Whoever comes next, so that not all go to the same.
            (thread + 1..threads).chain(0..thread).find_map(|other| self.0.get(other)?.claim(false))
        };
        own.claim(true).or_else(others)
    }

    /// Takes back all parts that nobody has claimed: how many.
    pub(super) fn close(&self, threads: usize) -> u32 {
        core::iter::from_fn(|| self.claim(0, threads)).fold(0, |parts, _| parts + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;
    use std::vec::Vec;

    #[test]
    fn rounds_pack() {
        for round in [
            Round { number: 0, next: 0, end: 0 },
            Round { number: (1 << 40) - 1, next: 4094, end: 4095 },
            Round { number: 77, next: 4095, end: 4095 },
        ] {
            assert_eq!(Round::unpack(round.pack()), round);
        }
    }

    #[test]
    fn one_thread_claims_its_own_parts_in_order_and_then_the_others_last() {
        let claims = Claims::new();
        assert_eq!(claims.claim(0, 3), None);
        let all = |claims: &Claims, thread| -> Vec<usize> {
            core::iter::from_fn(|| claims.claim(thread, 3)).collect()
        };
        assert_eq!(claims.open(9, 3), Some(0));
        assert_eq!(all(&claims, 0), [1, 2, 5, 4, 3, 8, 7, 6]);
        assert_eq!((claims.claim(1, 3), claims.close(3)), (None, 0));
        assert_eq!(claims.open(8, 3), Some(0));
        assert_eq!(all(&claims, 1), [3, 4, 5, 7, 6, 2, 1]);
        for parts in [1, 3, 0, Claims::LIMIT] {
            assert_eq!(claims.open(parts, 3), (parts > 0).then_some(0));
            let mut rest = all(&claims, 2);
            rest.sort_unstable();
            assert!(rest.into_iter().eq(1..parts.max(1)));
        }
        assert_eq!(claims.open(9, 3), Some(0));
        assert_eq!((claims.close(3), claims.claim(2, 3)), (8, None));
    }

    #[test]
    fn the_number_of_rounds_wraps() {
        let last = Round { number: (1 << 40) - 1, next: 5, end: 5 };
        let claims = Claims::new();
        claims.0[0].0.store(last.pack(), Ordering::Relaxed);
        assert_eq!(claims.open(2, 1), Some(0));
        assert_eq!((claims.claim(0, 1), claims.claim(0, 1)), (Some(1), None));
    }

    #[test]
    fn threads_never_claim_the_same_part() {
        const THREADS: usize = 4;
        let claims = Claims::new();
        let counts = [const { AtomicU32::new(0) }; 1000];
        let first = claims.open(counts.len(), THREADS);
        first.map(|part| counts[part].fetch_add(1, Ordering::Relaxed));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (claims, counts) = (&claims, &counts);
                scope.spawn(move || {
                    while let Some(part) = claims.claim(thread, THREADS) {
                        counts[part].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
