//! Loads whose bytes a device writes while the loader goes on.
//!
//! No borrow can say of a part of the arena that a device is writing it, so this says it: [`Reads`] has the loader's
//! allocator to itself as long as any read may be under way, and gives it back when none is. It is only lent, for the time
//! of a call, so that it can neither be forgotten nor outlived by what it has begun: whatever the way out of that call, an
//! error, a request or a panic, the last thing done is to wait for all reads.
//!
//! Storage that reads one range at a time is served by the same calls; a read is then done when it has begun.
#![allow(unsafe_code)]

use super::{LoadList, Weights};
use crate::pack::Proven;
use crate::storage::{MAX_DEPTH, ReadQueue, Storage, StorageError};
use heapless::Deque;

/// The streamed loads that have begun and are not yet used, in order.
#[derive(Debug)]
pub(crate) struct Reads<'r, 'm, 'a, S: Storage> {
    weights: &'r mut Weights<'m, 'a>,
    source: Source<'r, S>,
    /// One more than can be under way: that which has arrived, and is being looked at.
    begun: Deque<Read, { MAX_DEPTH + 1 }>,
}

/// Where reads go: to the same all the time, as a storage need not have one queue only.
enum Source<'r, S> {
    /// One after the other.
    Storage(&'r mut S),
    /// So many at once.
    Queue(&'r mut dyn ReadQueue, usize),
}

/// A load that has begun.
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

impl<'m, 'a> Weights<'m, 'a> {
    /// Calls `body` with what has at most so many reads under way, and returns when none is any more.
    pub(crate) fn reading<S: Storage, T>(
        &mut self,
        storage: &mut S,
        depth: u32,
        body: impl FnOnce(&mut Reads<'_, 'm, 'a, S>) -> T,
    ) -> T {
        let several = depth > 1 && storage.queue().is_some_and(|queue| queue.depth() > 1);
        let source = match several {
            true => match storage.queue() {
                Some(queue) => {
                    let most = queue.depth().min(MAX_DEPTH);
                    Source::Queue(queue, most.min(depth as usize))
                }
                None => Source::Storage(storage),
            },
            false => Source::Storage(storage),
        };
        body(&mut Reads { weights: self, source, begun: Deque::new() })
    }
}

impl<S: Storage> Reads<'_, '_, '_, S> {
    /// Whether no load has begun that has not been [finished](Self::finish).
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Whether the device has nothing to do, as far as is known, though it could have.
    pub fn is_idle(&self) -> bool {
        matches!(self.source, Source::Queue(..)) && self.flying() == 0
    }

    fn flying(&self) -> usize {
        self.begun.iter().filter(|read| matches!(read.state, State::Flying(_))).count()
    }

    /// Whether streamed load `index` may begin: not too many are under way, and none that has begun has bytes in common with
    /// it.
    pub fn has_room(&self, proven: &Proven<'_>, index: usize) -> bool {
        let room = match self.source {
            // What has arrived is looked at first.
            Source::Storage(_) => self.begun.is_empty(),
            Source::Queue(_, depth) => self.flying() < depth && !self.begun.is_full(),
        };
        let bytes = self.weights.place(proven, LoadList::Streamed, index);
        room && self.begun.iter().all(|read| apart(read.bytes, bytes))
    }

    /// Begins streamed load `index`, from byte `offset` of the storage on. Does nothing where there is no
    /// [room](Self::has_room).
    ///
    /// As [`Weights::target`]: only from the moment its release permits the load.
    pub fn begin(&mut self, proven: &Proven<'_>, index: usize, offset: u64) {
        if !self.has_room(proven, index) {
            return;
        }
        let bytes = self.weights.place(proven, LoadList::Streamed, index);
        let state = match &mut self.source {
            Source::Storage(storage) => {
                let target = self.weights.target(proven, LoadList::Streamed, index);
                State::Arrived(storage.read(offset, target))
            }
            // SAFETY: `Proven` found the bytes inside the arena and disjoint from all that steps and the host touch while
            // the load may be in flight; they are apart from those of other reads. The allocator, by which alone the
            // loader gets at the arena, is borrowed by this value, and so is the storage. Neither is given back before
            // `drop` has waited, since `reading` only lends this value.
            Source::Queue(queue, _) => match unsafe { queue.submit(offset, bytes) } {
                Ok(number) => State::Flying(number),
                Err(error) => State::Arrived(Err(error)),
            },
        };
        if let Err(mut read) = self.begun.push_back(Read { bytes, state }) {
            // That cannot be: there was room.
            let _ = self.source.wait(&mut read);
        }
    }

    /// Waits for the load that began first, and tells of its bytes; `None` if there is none.
    pub fn oldest(&mut self) -> Option<Result<(), StorageError>> {
        let read = self.begun.front_mut()?;
        Some(self.source.wait(read))
    }

    /// The bytes of the load that began first; none as long as it has not arrived.
    pub fn bytes(&self) -> &[u8] {
        match self.begun.front() {
            // SAFETY: initialised memory inside the arena, which is not the device's any more, nor a step's before the
            // loader says so; and as long as it is on the list no other read of it begins.
            Some(Read { bytes, state: State::Arrived(Ok(())) }) => unsafe { &**bytes },
            _ => &[],
        }
    }

    /// Takes the load that began first off the list, when it has arrived.
    pub fn finish(&mut self) {
        if self.oldest().is_some() {
            self.begun.pop_front();
        }
    }
}

impl<S: Storage> Source<'_, S> {
    /// Waits for a read.
    fn wait(&mut self, read: &mut Read) -> Result<(), StorageError> {
        let result = match (read.state, self) {
            (State::Flying(number), Self::Queue(queue, _)) => queue.wait(number),
            (State::Flying(_), Self::Storage(_)) => Ok(()),
            (State::Arrived(result), _) => result,
        };
        read.state = State::Arrived(result);
        result
    }
}

impl<S> core::fmt::Debug for Source<'_, S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Storage(_) => "Storage",
            Self::Queue(..) => "Queue",
        })
    }
}

impl<S: Storage> Drop for Reads<'_, '_, '_, S> {
    fn drop(&mut self) {
        while !self.begun.is_empty() {
            self.finish();
        }
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
