//! Reads that are waited for whatever happens.
//!
//! No borrow can say of memory that is divided by a plan that a device is writing a part of it.
//! [`InFlight`] has the storage to itself as long as any read may be in flight, and gives it back
//! when none is. It is only lent, for the time of a call, so that it can neither be forgotten nor
//! outlived by what it has begun: whatever the way out of that call, an error, a request or a
//! panic, the last thing done is to wait for all reads. In between, [`at_rest`](InFlight::at_rest)
//! waits for them, too, and lends the storage for other things.
//!
//! Storage that reads one range at a time is served by the same calls; a read is then done when it
//! has begun.
#![allow(unsafe_code)]

use super::{MAX_BEGUN, MAX_DEPTH, ReadQueue, Storage, StorageError};
use crate::sys::discard::discard;
use core::marker::PhantomData;
use core::ptr::NonNull;
use heapless::Deque;

/// The reads that have begun and are not yet finished with, in order.
#[derive(Debug)]
pub(crate) struct InFlight<'q, S: Storage + ?Sized> {
    /// The storage, as long as nothing is made of it by `source`.
    storage: NonNull<S>,
    /// Made of `storage` at the first use after that has been lent.
    source: Option<Source<'q, S>>,
    /// The most reads in flight.
    depth: usize,
    lifetime: PhantomData<&'q mut S>,
    /// More than can be in flight: those that have arrived are looked at one by one, while others
    /// begin.
    begun: Deque<Read, MAX_BEGUN>,
}

/// Where reads go: to the same all the time, as a storage need not have one queue only.
enum Source<'q, S: ?Sized> {
    /// One after the other.
    Storage(&'q mut S),
    /// So many at once.
    Queue(&'q mut dyn ReadQueue, usize),
}

/// A read that has begun.
#[derive(Debug)]
struct Read {
    bytes: *mut [u8],
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Under way, with this number.
    Flying(usize),
    Arrived(Result<(), StorageError>),
}

impl<'q, S: Storage + ?Sized> InFlight<'q, S> {
    /// Calls `body` with the means to have at most `depth` reads in flight. Returns when none is in
    /// flight any more.
    pub fn lend<T>(
        storage: &'q mut S,
        depth: usize,
        body: impl FnOnce(&mut InFlight<'_, S>) -> T,
    ) -> T {
        // SAFETY: it is only lent, for a lifetime of its own, so that nothing can be put in its place, and dropped here.
        body(&mut unsafe { Self::new(storage, depth) })
    }

    /// The means to have at most `depth` reads in flight. None is in flight any more when this has been dropped.
    ///
    /// # Safety
    /// The value is dropped, and not forgotten: whoever has it may lend it, and not give it away.
    pub unsafe fn new(storage: &'q mut S, depth: usize) -> Self {
        let (storage, lifetime) = (NonNull::from(storage), PhantomData);
        InFlight { storage, source: None, depth, lifetime, begun: Deque::new() }
    }

    /// Waits for all reads, forgets what came of them, and lends the storage.
    pub fn at_rest(&mut self) -> &mut S {
        self.forget();
        self.source = None;
        // SAFETY: the storage was borrowed for `'q` by `lend`. The queue that `source` made of it
        // is gone. It is not made again before the returned borrow of `self` ends.
        unsafe { self.storage.as_mut() }
    }

    /// Waits for all reads, and takes them off the list.
    fn forget(&mut self) {
        while !self.begun.is_empty() {
            self.finish();
        }
    }

    /// Where reads go. Not another place before [`at_rest`](Self::at_rest).
    fn source(&mut self) -> &mut Source<'q, S> {
        let Self { storage, source, depth, .. } = self;
        source.get_or_insert_with(|| {
            // SAFETY: the storage was borrowed for `'q` by `lend`, `at_rest` has ended what it
            // lent, and nothing else is made of it as long as `source` is there.
            let queue = if *depth > 1 { unsafe { storage.as_mut() }.queue() } else { None };
            match queue {
                Some(queue) => {
                    let most = queue.depth().clamp(1, MAX_DEPTH);
                    Source::Queue(queue, most.min(*depth))
                }
                // SAFETY: likewise. Nothing was made of it.
                None => Source::Storage(unsafe { storage.as_mut() }),
            }
        })
    }

    /// Whether no read has begun that has not been [finished](Self::finish).
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Whether the device has nothing to do, as far as is known, though it could have.
    pub fn is_idle(&self) -> bool {
        matches!(self.source, Some(Source::Queue(..))) && self.flying() == 0
    }

    /// Whether reads go on while their caller does something else.
    pub fn goes_on(&mut self) -> bool {
        matches!(self.source(), Source::Queue(..))
    }

    /// Whether the read that began first need not be waited for.
    pub fn has_arrived(&mut self) -> bool {
        let Self { source, begun, .. } = self;
        begun.front().is_some_and(|read| arrived(source, read))
    }

    /// Reads in flight.
    fn flying(&self) -> usize {
        self.begun.iter().filter(|read| matches!(read.state, State::Flying(_))).count()
    }

    /// Whether a read into these bytes may begin: not too much is in flight, and none that has
    /// begun has bytes in common with it.
    pub fn has_room(&mut self, bytes: *mut [u8]) -> bool {
        let depth = match self.source() {
            Source::Storage(_) => None,
            Source::Queue(_, depth) => Some(*depth),
        };
        let room = match depth {
            // Reads that have arrived are looked at first.
            None => self.begun.is_empty(),
            Some(depth) => self.flying() < depth && !self.begun.is_full(),
        };
        room && self.begun.iter().all(|read| apart(read.bytes, bytes))
    }

    /// Begins what [`Storage::read`] would do. Does nothing where there is no
    /// [room](Self::has_room).
    ///
    /// # Safety
    /// The bytes may be written, and nobody touches them before the read is
    /// [finished](Self::finish), or [`lend`](Self::lend) returns, but through
    /// [`bytes`](Self::bytes).
    pub unsafe fn begin(&mut self, offset: u64, bytes: *mut [u8]) {
        if !self.has_room(bytes) {
            return;
        }
        let state = match self.source() {
            // SAFETY: the bytes are this read's, by the caller's promise; there is no other.
            Source::Storage(storage) => {
                State::Arrived(storage.read(offset, unsafe { &mut *bytes }))
            }
            // SAFETY:
            // - By the caller's promise, the bytes are apart from those of other reads, and nobody
            //   else's before this read has been waited for.
            // - This value borrows the storage, and gives it back when `drop` has waited, since
            //   `lend` lends only this value.
            Source::Queue(queue, _) => match unsafe { queue.submit(offset, bytes) } {
                Ok(number) => State::Flying(number),
                Err(error) => State::Arrived(Err(error)),
            },
        };
        if let Err(mut read) = self.begun.push_back(Read { bytes, state }) {
            let waited = wait(&mut self.source, &mut read, 0);
            discard(waited, "that cannot be: there was room for the read");
        }
    }

    /// Waits for the read that began first, and returns its result; `None` if there is none. Those
    /// after it that have come with it are not in flight any more either. Spins for so long before
    /// it sleeps.
    pub fn oldest(&mut self, spin_ns: u64) -> Option<Result<(), StorageError>> {
        let Self { source, begun, .. } = self;
        let result = wait(source, begun.front_mut()?, spin_ns);
        for read in begun.iter_mut().skip(1) {
            if !arrived(source, read) {
                break;
            }
            let result = wait(source, read, 0);
            discard(result, "the result of a read is kept until it is the oldest");
        }
        Some(result)
    }

    /// The bytes of the read that began first; none as long as it has not arrived.
    pub fn bytes(&self) -> &[u8] {
        match self.begun.front() {
            // SAFETY: initialised memory that is not the device's any more, nor anybody else's
            // before this read is finished with; and as long as it is on the list no other read of
            // it begins.
            Some(Read { bytes, state: State::Arrived(Ok(())) }) => unsafe { &**bytes },
            _ => &[],
        }
    }

    /// Takes the read that began first off the list, when it has arrived.
    pub fn finish(&mut self) {
        if self.oldest(0).is_some() {
            self.begun.pop_front();
        }
    }
}

/// Whether a read need not be waited for.
fn arrived<S: ?Sized>(source: &mut Option<Source<'_, S>>, read: &Read) -> bool {
    match (read.state, source) {
        (State::Flying(number), Some(Source::Queue(queue, _))) => queue.arrived(number),
        _ => true,
    }
}

/// Waits for a read.
fn wait<S: ?Sized>(
    source: &mut Option<Source<'_, S>>,
    read: &mut Read,
    spin_ns: u64,
) -> Result<(), StorageError> {
    let result = match (read.state, source) {
        (State::Flying(number), Some(Source::Queue(queue, _))) => queue.wait(number, spin_ns),
        (State::Flying(_), _) => Ok(()),
        (State::Arrived(result), _) => result,
    };
    read.state = State::Arrived(result);
    result
}

impl<S: ?Sized> core::fmt::Debug for Source<'_, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Storage(_) => "Storage",
            Self::Queue(..) => "Queue",
        })
    }
}

impl<S: Storage + ?Sized> Drop for InFlight<'_, S> {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Whether two ranges of memory have no byte in common.
fn apart(a: *mut [u8], b: *mut [u8]) -> bool {
    let ends = |range: *mut [u8]| {
        let start = range.cast::<u8>().addr();
        (start, start + range.len())
    };
    let ((a, a_end), (b, b_end)) = (ends(a), ends(b));
    a_end <= b || b_end <= a
}

#[cfg(test)]
mod tests {
    use super::super::{Faulty, Slice};
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const BYTES: [u8; 64] = {
        let mut bytes = [0; 64];
        let mut i = 0;
        while i < 64 {
            bytes[i] = i as u8 * 3 + 1;
            i += 1;
        }
        bytes
    };

    /// Begins to read 16 bytes.
    fn begin<S: Storage>(reads: &mut InFlight<'_, S>, offset: u64, into: *mut [u8]) {
        // SAFETY: tests look at the bytes when the reads are no longer lent.
        unsafe { reads.begin(offset, into) }
    }

    /// Places of 16 bytes.
    fn place(room: *mut u8, at: usize) -> *mut [u8] {
        core::ptr::slice_from_raw_parts_mut(room.wrapping_add(at), 16)
    }

    #[test]
    fn a_panic_waits_for_what_is_under_way() {
        for finished in 0..3 {
            let mut storage = Faulty::new(Slice(&BYTES), &[]).queued(3);
            let mut room = [0; 48];
            let base = room.as_mut_ptr();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                InFlight::lend(&mut storage, 8, |reads| {
                    (0..3).for_each(|at| begin(reads, 16 * at as u64, place(base, 16 * at)));
                    (0..finished).for_each(|_| reads.finish());
                    panic!("midway");
                })
            }));
            assert!(panicked.is_err());
            assert_eq!((storage.under_way(), storage.attempts()), (0, 3));
            assert_eq!(room, BYTES[..48]);
        }
    }

    /// Panics at its first read.
    struct Panics(bool);

    impl Storage for Panics {
        fn len(&self) -> Result<u64, StorageError> {
            Ok(64)
        }

        fn read(&mut self, _: u64, into: &mut [u8]) -> Result<(), StorageError> {
            assert!(self.0, "on purpose");
            into.fill(7);
            Ok(())
        }

        fn alignment(&self) -> u64 {
            1
        }
    }

    /// Only the next lender's reads are made.
    #[test]
    fn a_storage_that_panics_forgets_what_was_under_way() {
        let mut storage = Faulty::new(Panics(false), &[]).queued(3);
        let mut room = [0; 48];
        let base = room.as_mut_ptr();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            InFlight::lend(&mut storage, 8, |reads| {
                (0..3).for_each(|at| begin(reads, 0, place(base, 16 * at)));
            })
        }));
        assert!(panicked.is_err());
        assert_eq!((storage.under_way(), storage.attempts()), (0, 1));
        storage.inner_mut().0 = true;
        let mut other = [0; 16];
        let base = other.as_mut_ptr();
        InFlight::lend(&mut storage, 8, |reads| begin(reads, 0, place(base, 0)));
        assert_eq!((room, other), ([0; 48], [7; 16]));
    }

    #[test]
    fn what_has_come_keeps_no_other_from_beginning() {
        let mut storage = Faulty::new(Slice(&BYTES), &[]).queued(2);
        let mut room = [0; 64];
        let base = room.as_mut_ptr();
        InFlight::lend(&mut storage, 4, |reads| {
            (0..2).for_each(|at| begin(reads, 16 * at as u64, place(base, 16 * at)));
            assert!(!reads.has_room(place(base, 32)) && !reads.is_idle());
            // The first is waited for, and the second has come by then.
            assert_eq!(reads.oldest(0), Some(Ok(())));
            assert!(reads.is_idle() && reads.has_room(place(base, 32)));
            assert!(!reads.has_room(place(base, 16)), "still to be looked at");
            (2..4).for_each(|at| begin(reads, 16 * at as u64, place(base, 16 * at)));
            assert!(!reads.is_idle());
            for at in 0..4 {
                assert_eq!(
                    (reads.oldest(0), reads.bytes()),
                    (Some(Ok(())), &BYTES[16 * at..][..16])
                );
                reads.finish();
            }
            assert!(reads.is_empty());
        });
        assert_eq!((storage.under_way(), storage.attempts()), (0, 4));
    }

    #[test]
    fn no_more_begin_than_are_remembered() {
        let mut storage = Faulty::new(Slice(&BYTES), &[]).queued(MAX_DEPTH);
        let mut room = [0; 64];
        let base = room.as_mut_ptr();
        let byte = |at: usize| core::ptr::slice_from_raw_parts_mut(base.wrapping_add(at), 1);
        InFlight::lend(&mut storage, MAX_DEPTH, |reads| {
            for at in 0..2 * MAX_BEGUN {
                begin(reads, at as u64, byte(at));
                // When the most possible are in flight, all of them come, and none is released.
                if reads.flying() == MAX_DEPTH {
                    let _ = reads.oldest(0);
                }
            }
            assert!(!reads.has_room(byte(63)));
        });
        assert_eq!(storage.attempts(), MAX_BEGUN as u64);
        assert_eq!((&room[..MAX_BEGUN], room[MAX_BEGUN]), (&BYTES[..MAX_BEGUN], 0));
    }

    #[test]
    fn reads_of_bytes_in_common_wait_for_each_other() {
        for queued in [1, 4] {
            let mut storage = Faulty::new(Slice(&BYTES), &[]).queued(queued);
            let mut room = [0; 64];
            let base = room.as_mut_ptr();
            InFlight::lend(&mut storage, 4, |reads| {
                begin(reads, 0, place(base, 16));
                for (at, apart) in [(0, true), (1, false), (16, false), (31, false), (32, true)] {
                    assert_eq!(reads.has_room(place(base, at)), apart && queued > 1, "{at}");
                }
                // Nothing begins.
                begin(reads, 48, place(base, 31));
                assert_eq!(reads.oldest(0), Some(Ok(())));
                assert_eq!(reads.bytes(), &BYTES[..16]);
                // It is still being looked at.
                assert!(!reads.has_room(place(base, 31)) && !reads.is_empty());
                reads.finish();
                assert!(reads.is_empty() && reads.has_room(place(base, 31)));
                begin(reads, 32, place(base, 20));
            });
            assert_eq!((storage.under_way(), storage.attempts()), (0, 2));
            assert_eq!((&room[16..20], &room[20..36]), (&BYTES[..4], &BYTES[32..48]));
        }
    }
}
