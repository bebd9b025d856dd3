//! A part of a storage: one of several packs that lie in it.
#![allow(unsafe_code)]

use super::{ReadQueue, Storage, StorageError};
use core::mem::transmute;
use core::ptr::NonNull;

/// Bytes of another storage from some byte on, as a storage of their own.
#[derive(Debug)]
pub struct Part<S> {
    storage: S,
    range: Range,
    /// Lent with the storage's queue.
    shifted: Shifted,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    bytes: u64,
}

impl Range {
    /// Where a read starts in the whole storage.
    fn at(self, offset: u64, wanted: u64) -> Result<u64, StorageError> {
        match offset.checked_add(wanted) {
            // `new` has found that the end of the part is a number.
            Some(end) if end <= self.bytes => Ok(self.start + offset),
            _ => {
                let got = self.bytes.saturating_sub(offset);
                Err(StorageError::Short { offset, wanted, got })
            }
        }
    }

    /// The error as of a storage that has only the part.
    fn shifted_error(self, error: StorageError) -> StorageError {
        let shifted = |offset: u64| offset.saturating_sub(self.start);
        match error {
            StorageError::Io { errno, offset } => {
                StorageError::Io { errno, offset: shifted(offset) }
            }
            StorageError::Short { offset, wanted, got } => {
                StorageError::Short { offset: shifted(offset), wanted, got }
            }
            StorageError::Stalled { offset, limit_ms } => {
                StorageError::Stalled { offset: shifted(offset), limit_ms }
            }
            StorageError::Misaligned { offset, bytes, address, alignment } => {
                StorageError::Misaligned { offset: shifted(offset), bytes, address, alignment }
            }
            error => error,
        }
    }
}

impl<S: Storage> Part<S> {
    /// The `bytes` bytes from byte `start` on, which must be a multiple of the storage's alignment. It is not checked
    /// that the storage is as long: reads beyond its end fail.
    pub fn new(storage: S, start: u64, bytes: u64) -> Result<Self, StorageError> {
        let alignment = storage.alignment();
        if !start.is_multiple_of(alignment) {
            return Err(StorageError::Misaligned { offset: start, bytes, address: 0, alignment });
        }
        if start.checked_add(bytes).is_none() {
            return Err(StorageError::Short { offset: start, wanted: bytes, got: 0 });
        }
        let range = Range { start, bytes };
        Ok(Self { storage, range, shifted: Shifted { queue: None, range } })
    }
}

impl<S: Storage> Storage for Part<S> {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.range.bytes)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let at = self.range.at(offset, into.len() as u64)?;
        self.storage.read(at, into).map_err(|error| self.range.shifted_error(error))
    }

    fn alignment(&self) -> u64 {
        self.storage.alignment()
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        let queue: NonNull<dyn ReadQueue + '_> = NonNull::from(self.storage.queue()?);
        // SAFETY: only the lifetime is another one. The queue borrows the storage as long as it is
        // used, and can be had in no other way.
        let queue = unsafe {
            transmute::<NonNull<dyn ReadQueue + '_>, NonNull<dyn ReadQueue + 'static>>(queue)
        };
        self.shifted.queue = Some(queue);
        Some(&mut self.shifted)
    }

    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        let Range { start, bytes } = self.range;
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(start + bytes).ok()?);
        self.storage.mapped()?.get(start..end)
    }
}

/// The queue of the whole storage, for reads of the part.
#[derive(Debug)]
struct Shifted {
    queue: Option<NonNull<dyn ReadQueue>>,
    range: Range,
}

// SAFETY: the queue is the storage's that lies next to it, and is used only while both are borrowed
// by `queue`: they go to another thread together.
unsafe impl Send for Shifted {}

impl Shifted {
    /// The storage's queue.
    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        // SAFETY: `Part::queue` has just made it of the storage, has borrowed that as long as this is
        // used, and is the only one to lend this.
        self.queue.map(|mut queue| unsafe { queue.as_mut() as &mut dyn ReadQueue })
    }
}

// SAFETY: the storage's queue does what is promised; nothing but where reads start is another.
unsafe impl ReadQueue for Shifted {
    fn depth(&self) -> usize {
        // SAFETY: as in `Shifted::queue`.
        self.queue.map_or(1, |queue| unsafe { queue.as_ref().depth() })
    }

    fn window(&self) -> usize {
        // SAFETY: as in `Shifted::queue`.
        self.queue.map_or(usize::MAX, |queue| unsafe { queue.as_ref().window() })
    }

    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError> {
        let range = self.range;
        let at = range.at(offset, into.len() as u64)?;
        let Some(queue) = self.queue() else {
            return Err(StorageError::Short { offset, wanted: into.len() as u64, got: 0 });
        };
        // SAFETY: the caller's promise.
        unsafe { queue.submit(at, into) }.map_err(|error| range.shifted_error(error))
    }

    fn arrived(&mut self, number: usize) -> bool {
        self.queue().is_none_or(|queue| queue.arrived(number))
    }

    fn wait(&mut self, number: usize, spin_ns: u64) -> Result<(), StorageError> {
        let range = self.range;
        let Some(queue) = self.queue() else { return Ok(()) };
        queue.wait(number, spin_ns).map_err(|error| range.shifted_error(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::faulty::Fault;
    use crate::storage::{Faulty, InFlight, Slice};

    const WHOLE: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut at = 0;
        while at < bytes.len() {
            bytes[at] = at as u8;
            at += 1;
        }
        bytes
    };

    #[test]
    fn reads_start_in_the_part_and_end_in_it() {
        let mut part = Part::new(Slice(&WHOLE), 64, 128).unwrap();
        assert_eq!((part.len(), part.mapped()), (Ok(128), Some(&WHOLE[64..192])));
        let mut into = [0; 16];
        for offset in 0..=112 {
            part.read(offset, &mut into).unwrap();
            assert_eq!(into, WHOLE[64 + offset as usize..][..16]);
        }
        for (offset, got) in [(113, 15), (128, 0), (200, 0), (u64::MAX, 0)] {
            let short = StorageError::Short { offset, wanted: 16, got };
            assert_eq!(part.read(offset, &mut into), Err(short));
        }
    }

    #[test]
    fn a_part_that_cannot_be_is_refused() {
        let beyond = Part::new(Slice(&WHOLE), u64::MAX, 2).map(|_| ());
        assert_eq!(beyond, Err(StorageError::Short { offset: u64::MAX, wanted: 2, got: 0 }));
        // Reading finds the end of the storage. The error counts from the part's start.
        let mut part = Part::new(Slice(&WHOLE), 250, 10).unwrap();
        let short = StorageError::Short { offset: 0, wanted: 8, got: 6 };
        assert_eq!(part.read(0, &mut [0; 8]), Err(short));
        assert_eq!(part.mapped(), None);
    }

    #[test]
    fn reads_that_go_on_by_themselves_are_the_parts_too() {
        let whole = Faulty::new(Slice(&WHOLE), &[(2, Fault::Errno(5))]).queued(3).prompt(2);
        let mut part = Part::new(whole, 64, 128).unwrap();
        let mut into = [[0u8; 8]; 3];
        InFlight::lend(&mut part, 3, |reads| {
            assert!(reads.goes_on());
            for (k, bytes) in into.iter_mut().enumerate() {
                // SAFETY: nobody touches the bytes before the reads have ended.
                unsafe { reads.begin(8 * k as u64, bytes) };
            }
            // The device may take them in any order. Which read fails, its error says.
            let mut failed = 0;
            for k in 0..3 {
                match reads.oldest(0) {
                    Some(Ok(())) => {
                        let bytes = core::array::from_fn(|at| 64 + 8 * k + at as u8);
                        assert_eq!(reads.bytes(), bytes as [u8; 8]);
                    }
                    error => {
                        let io = StorageError::Io { errno: 5, offset: 8 * u64::from(k) };
                        assert_eq!(error, Some(Err(io)));
                        failed += 1;
                    }
                }
                reads.finish();
            }
            assert_eq!(failed, 1);
        });
        assert_eq!(part.storage.under_way(), 0);
    }
}
