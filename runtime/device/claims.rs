//! Dealing out the parts of a task to whoever is awake.

use core::sync::atomic::{AtomicU64, Ordering};

/// The parts of the task that is under way, of which each is claimed once.
///
/// One word holds all there is to know, so that a claim is one compare-and-exchange: the number of the
/// round, the next part, the number of parts. The round's number makes the words of different rounds
/// differ, so that a claim made on a stale view fails.
#[derive(Debug, Default)]
pub(super) struct Claims(AtomicU64);

/// The word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round {
    number: u64,
    next: u64,
    parts: u64,
}

/// Bits of `next` and of `parts`; the number has the other forty.
const BITS: u32 = 12;

impl Round {
    fn unpack(word: u64) -> Self {
        let low = (1 << BITS) - 1;
        Self { number: word >> (2 * BITS), next: (word >> BITS) & low, parts: word & low }
    }

    fn pack(self) -> u64 {
        (self.number << (2 * BITS)) | (self.next << BITS) | self.parts
    }
}

impl Claims {
    /// The largest number of parts in a round.
    pub(super) const LIMIT: usize = (1 << BITS) - 1;

    /// Nothing to claim.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Opens a round of at most [`LIMIT`](Self::LIMIT) parts, and claims the first: a thread that still looks
    /// for parts of the round before could otherwise be faster. All parts of that one must have been
    /// claimed, and nobody else may open one at the same time. Whoever claims a part sees what was written
    /// before.
    pub(super) fn open(&self, parts: usize) -> Option<usize> {
        debug_assert!(parts <= Self::LIMIT);
        let number = Round::unpack(self.0.load(Ordering::Relaxed)).number.wrapping_add(1);
        let first = (parts > 0).then_some(0);
        let round = Round { number, next: u64::from(first.is_some()), parts: parts as u64 };
        self.0.store(round.pack(), Ordering::Release);
        first
    }

    /// Claims a part of the open round, if one is left.
    pub(super) fn claim(&self) -> Option<usize> {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            let round = Round::unpack(word);
            if round.next >= round.parts {
                return None;
            }
            let claimed = Round { next: round.next + 1, ..round }.pack();
            let orders = (Ordering::Acquire, Ordering::Acquire);
            match self.0.compare_exchange_weak(word, claimed, orders.0, orders.1) {
                Ok(_) => return Some(round.next as usize),
                Err(now) => word = now,
            }
        }
    }

    /// Takes back all parts that nobody has claimed: how many.
    pub(super) fn close(&self) -> u32 {
        core::iter::from_fn(|| self.claim()).fold(0, |parts, _| parts + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::AtomicU32;

    #[test]
    fn rounds_pack() {
        for round in [
            Round { number: 0, next: 0, parts: 0 },
            Round { number: (1 << 40) - 1, next: 4094, parts: 4095 },
            Round { number: 77, next: 4095, parts: 4095 },
        ] {
            assert_eq!(Round::unpack(round.pack()), round);
        }
    }

    #[test]
    fn parts_come_in_order_and_once() {
        let claims = Claims::new();
        assert_eq!(claims.claim(), None);
        for parts in [1, 3, 0, Claims::LIMIT] {
            assert_eq!(claims.open(parts), (parts > 0).then_some(0));
            for part in 1..parts {
                assert_eq!(claims.claim(), Some(part));
            }
            assert_eq!((claims.claim(), claims.close()), (None, 0));
        }
        assert_eq!(claims.open(9), Some(0));
        assert_eq!((claims.close(), claims.claim()), (8, None));
    }

    #[test]
    fn the_number_of_rounds_wraps() {
        let last = Round { number: (1 << 40) - 1, next: 5, parts: 5 };
        let claims = Claims(AtomicU64::new(last.pack()));
        assert_eq!((claims.open(2), claims.claim(), claims.claim()), (Some(0), Some(1), None));
    }

    #[test]
    fn threads_never_claim_the_same_part() {
        let claims = Claims::new();
        let counts = [const { AtomicU32::new(0) }; 1000];
        let first = claims.open(counts.len());
        first.map(|part| counts[part].fetch_add(1, Ordering::Relaxed));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(part) = claims.claim() {
                        counts[part].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(counts.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}
