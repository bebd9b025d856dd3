//! Storage that takes its time: what is read from fast storage arrives as late as it would from the storage of
//! a profile.
//!
//! So a pack can be run on the host as a board would feed it, and a plan's prediction be tested by itself: disks
//! of servers and of laptops change their speed by themselves, this does not. What the storage beneath takes
//! longer for, it takes.

use eyelet::storage::{ReadQueue, Storage, StorageError};
use eyelet_planner::profile::Storage as Pace;
use std::time::{Duration, Instant};

/// The system wakes a sleeper late, by up to this: the rest is waited for awake.
const LATE: Duration = Duration::from_micros(120);

/// Storage behind a pace.
#[derive(Debug)]
pub struct Paced<S> {
    inner: S,
    /// None: as fast as it is.
    pace: Option<Pace>,
}

impl<S> Paced<S> {
    pub fn new(inner: S, pace: Option<Pace>) -> Self {
        Self { inner, pace }
    }
}

impl<S: Storage> Storage for Paced<S> {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let start = Instant::now();
        let bytes = into.len() as u64;
        self.inner.read(offset, into)?;
        if let Some(pace) = &self.pace {
            let due = start + Duration::from_nanos(pace.read_ns(bytes).round() as u64);
            let left = || due.saturating_duration_since(Instant::now());
            if let Some(long) = left().checked_sub(LATE) {
                std::thread::sleep(long);
            }
            while left() > Duration::ZERO {
                std::hint::spin_loop();
            }
        }
        Ok(())
    }

    fn alignment(&self) -> u64 {
        self.inner.alignment()
    }

    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        self.inner.mapped()
    }

    /// A pace is of one read after the other.
    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        self.inner.queue().filter(|_| self.pace.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::storage::Slice;

    #[test]
    fn reads_take_as_long_as_the_profile_says_and_give_what_is_there() {
        let bytes: Vec<u8> = (0..64 << 10).map(|i| (i % 251) as u8).collect();
        let pace = Pace::flat(0, 10.0, 1.0); // 100 ns a byte
        let mut paced = Paced::new(Slice(&bytes), Some(pace));
        let mut into = vec![0; 8192];
        let start = Instant::now();
        paced.read(4096, &mut into).unwrap();
        assert!(start.elapsed() >= Duration::from_nanos(819_200));
        assert_eq!(into, bytes[4096..12288]);
        assert_eq!(paced.len(), Ok(64 << 10));
    }
}
