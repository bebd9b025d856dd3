//! Storage that fails on cue, for tests: of the loader, and of whoever embeds this library and
//! wants to know what their firmware does when the card is pulled.
//!
//! [`Faulty`] wraps any other storage. A read is made in *attempts*, as with a real device: the
//! attempts of all reads are numbered from 0, and a script says which of them go wrong, and how.
//! The attempts go through the same [`read_exact`] as those of files.
//!
//! With [`queued`](Faulty::queued) several reads can be in flight, as of a device that takes its
//! time and changes the order: nothing is read before it is waited for, and then the last first.
//! With [`prompt`](Faulty::prompt) reads are also done after a number of questions whether they are,
//! as of a device that works while nobody waits.
#![allow(unsafe_code)]

use super::{MAX_DEPTH, ReadQueue, Storage, StorageError, read_exact};

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The attempt reads nothing and reports this error number (4, `EINTR`, is repeated by the
    /// reader).
    Errno(i32),
    /// The attempt reads only this many bytes; 0 looks like the end of the file.
    Partial(usize),
    /// The attempt succeeds, but a bit is wrong.
    FlipBit {
        /// Which byte, from the start of what the attempt reads.
        byte: usize,
        /// Which bit of it.
        bit: u8,
    },
}

/// A storage that follows a script.
#[derive(Debug)]
pub struct Faulty<'a, S> {
    inner: S,
    script: &'a [(u64, Fault)],
    end: u64,
    attempts: u64,
    depth: usize,
    under_way: [Option<Read>; MAX_DEPTH],
    submitted: u64,
    most: usize,
    questions: u32,
    waited: u64,
}

/// A read in flight.
#[derive(Clone, Copy, Debug)]
struct Read {
    /// Reads submitted before it.
    order: u64,
    offset: u64,
    into: *mut [u8],
    /// Questions so far whether it is done.
    asked: u32,
    result: Option<Result<(), StorageError>>,
}

// SAFETY: the address is only used while whoever submitted it has promised that it is free to be
// written, on whatever thread.
unsafe impl Send for Read {}

impl<'a, S: Storage> Faulty<'a, S> {
    /// Wraps `inner`: for each `(n, fault)` of the script, attempt `n` goes wrong.
    pub fn new(inner: S, script: &'a [(u64, Fault)]) -> Self {
        let (end, under_way) = (u64::MAX, [None; MAX_DEPTH]);
        let (attempts, depth, submitted, most) = (0, 1, 0, 0);
        let (questions, waited) = (u32::MAX, 0);
        Self { inner, script, end, attempts, depth, under_way, submitted, most, questions, waited }
    }

    /// Takes `depth` reads at once, at most [`MAX_DEPTH`].
    pub fn queued(mut self, depth: usize) -> Self {
        self.depth = depth.clamp(1, MAX_DEPTH);
        self
    }

    /// Has a read done when it has been asked for the `questions`th time whether it is.
    pub fn prompt(mut self, questions: u32) -> Self {
        self.questions = questions;
        self
    }

    /// Reads that were waited for before they were done.
    pub fn waited(&self) -> u64 {
        self.waited
    }

    /// The storage inside.
    #[cfg(test)]
    pub(super) fn inner_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// Reads that are in flight.
    pub fn under_way(&self) -> usize {
        self.under_way.iter().flatten().count()
    }

    /// The most that was in flight at once, since this was last asked: what has been read, waited
    /// for or not, is not.
    pub fn most_under_way(&mut self) -> usize {
        core::mem::take(&mut self.most)
    }

    /// Makes the file end at byte `end`. [`len`](Storage::len) still returns the old length, as it
    /// does when a file is cut while it is in use.
    pub fn truncated_at(mut self, end: u64) -> Self {
        self.end = end;
        self
    }

    /// Attempts made so far.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }
}

impl<S: Storage> Storage for Faulty<'_, S> {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let Self { inner, script, end, attempts, .. } = self;
        let alignment = inner.alignment();
        // An error of the storage inside comes out as it went in.
        let mut failed = None;
        let result = read_exact(offset, into, alignment, |at, into| {
            let number = *attempts;
            *attempts += 1;
            let fault = script.iter().find(|(n, _)| *n == number).map(|(_, fault)| *fault);
            let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
            let mut bytes = into.len().min(left);
            match fault {
                Some(Fault::Errno(errno)) => return Err(errno),
                Some(Fault::Partial(limit)) => bytes = bytes.min(limit),
                _ => {}
            }
            let into = &mut into[..bytes];
            if let Err(error) = inner.read(at, into) {
                failed = Some(error);
                return Ok(0);
            }
            if let Some(Fault::FlipBit { byte, bit }) = fault
                && let Some(byte) = into.get_mut(byte)
            {
                *byte ^= 1 << (bit % 8);
            }
            Ok(bytes)
        });
        failed.map_or(result, Err)
    }

    fn alignment(&self) -> u64 {
        self.inner.alignment()
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        if self.depth > 1 { Some(self) } else { None }
    }
}

// SAFETY: bytes are written by `wait`, which first does all reads that are in flight, and by
// `arrived`. When the storage inside panics, they have forgotten what they were doing.
unsafe impl<S: Storage> ReadQueue for Faulty<'_, S> {
    fn depth(&self) -> usize {
        self.depth
    }

    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError> {
        let free = self.under_way.iter().take(self.depth).position(Option::is_none);
        let number = free.ok_or(StorageError::Io { errno: 11, offset })?;
        let (order, asked) = (self.submitted, 0);
        self.under_way[number] = Some(Read { order, offset, into, asked, result: None });
        self.submitted += 1;
        let unread = self.under_way.iter().flatten().filter(|read| read.result.is_none());
        self.most = self.most.max(unread.count());
        Ok(number)
    }

    fn arrived(&mut self, number: usize) -> bool {
        // Put back when it is done, so that a panic leaves none.
        let Some(mut read) = self.under_way.get_mut(number).and_then(Option::take) else {
            return false;
        };
        read.asked = read.asked.saturating_add(1);
        if read.result.is_none() && read.asked >= self.questions {
            // SAFETY: the bytes are this read's, by the promise to `submit`, until it has been
            // waited for.
            read.result = Some(self.read(read.offset, unsafe { &mut *read.into }));
        }
        self.under_way[number] = Some(read);
        read.result.is_some()
    }

    fn wait(&mut self, number: usize, _: u64) -> Result<(), StorageError> {
        if matches!(self.under_way.get(number), Some(Some(Read { result: None, .. }))) {
            self.waited += 1;
        }
        // Put back when they are done, so that a panic leaves none.
        let mut all = core::mem::take(&mut self.under_way);
        while let Some((number, read)) = all
            .iter()
            .enumerate()
            .filter_map(|(number, read)| Some((number, (*read)?)))
            .filter(|(_, read)| read.result.is_none())
            .max_by_key(|(_, read)| read.order)
        {
            // SAFETY: the bytes are this read's, by the promise to `submit`, until it has been
            // waited for.
            let result = self.read(read.offset, unsafe { &mut *read.into });
            all[number] = Some(Read { result: Some(result), ..read });
        }
        self.under_way = all;
        let read = self.under_way.get_mut(number).and_then(Option::take);
        read.and_then(|read| read.result).unwrap_or(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Slice;
    use super::*;

    const BYTES: [u8; 64] = {
        let mut bytes = [0; 64];
        let mut i = 0;
        while i < 64 {
            bytes[i] = i as u8 * 3 + 1;
            i += 1;
        }
        bytes
    };

    #[test]
    fn interruptions_and_short_reads_are_continued() {
        let script = [
            (0, Fault::Errno(4)),
            (1, Fault::Errno(4)),
            (2, Fault::Partial(5)),
            (3, Fault::Errno(4)),
            (4, Fault::Partial(1)),
        ];
        let mut storage = Faulty::new(Slice(&BYTES), &script);
        let mut into = [0; 40];
        storage.read(8, &mut into).unwrap();
        assert_eq!(into, BYTES[8..48]);
        assert_eq!(storage.attempts(), 6);
    }

    #[test]
    fn errors_name_where() {
        let script = [(1, Fault::Errno(5)), (2, Fault::Partial(12)), (3, Fault::Errno(5))];
        let mut storage = Faulty::new(Slice(&BYTES), &script);
        let mut into = [0; 16];
        assert_eq!(storage.read(0, &mut into), Ok(()));
        assert_eq!(storage.read(16, &mut into), Err(StorageError::Io { errno: 5, offset: 16 }));
        assert_eq!(storage.read(16, &mut into), Err(StorageError::Io { errno: 5, offset: 28 }));
        assert_eq!(storage.read(16, &mut into), Ok(()));
    }

    #[test]
    fn truncation_is_found() {
        let mut storage = Faulty::new(Slice(&BYTES), &[]).truncated_at(20);
        let mut into = [0; 16];
        assert_eq!(storage.read(4, &mut into), Ok(()));
        let short = StorageError::Short { offset: 16, wanted: 16, got: 4 };
        assert_eq!(storage.read(16, &mut into), Err(short));
        assert_eq!(storage.len(), Ok(64));
        // A real end inside is reported as such.
        let mut storage = Faulty::new(Slice(&BYTES), &[]);
        let short = StorageError::Short { offset: 60, wanted: 16, got: 4 };
        assert_eq!(storage.read(60, &mut into), Err(short));
    }

    #[test]
    fn a_flipped_bit_arrives() {
        let script = [(0, Fault::FlipBit { byte: 3, bit: 6 })];
        let mut storage = Faulty::new(Slice(&BYTES), &script);
        let mut into = [0; 16];
        storage.read(0, &mut into).unwrap();
        assert_eq!(into[3], BYTES[3] ^ 64);
        into[3] ^= 64;
        assert_eq!(into, BYTES[..16]);
    }

    /// A storage with blocks of 8 bytes.
    struct Blocks;
    impl Storage for Blocks {
        fn len(&self) -> Result<u64, StorageError> {
            Ok(64)
        }
        fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
            Slice(&BYTES).read(offset, into)
        }
        fn alignment(&self) -> u64 {
            8
        }
    }

    #[test]
    fn part_of_a_block_is_the_end_of_the_file() {
        let mut storage = Faulty::new(Blocks, &[(0, Fault::Partial(8)), (2, Fault::Partial(12))]);
        let mut into = [0; 16];
        assert_eq!(storage.read(0, &mut into), Ok(()));
        let short = StorageError::Short { offset: 0, wanted: 16, got: 12 };
        assert_eq!(storage.read(0, &mut into), Err(short));
        assert_eq!(storage.attempts(), 3);
    }

    #[test]
    fn reads_under_way_are_done_last_first_each_with_its_own_fault() {
        // Attempts: of the third read, two; the second's, which fails; the first's.
        let script =
            [(0, Fault::Partial(3)), (2, Fault::Errno(5)), (3, Fault::FlipBit { byte: 1, bit: 0 })];
        let mut storage = Faulty::new(Slice(&BYTES), &script).queued(3);
        let mut into = [[0u8; 8]; 4];
        let [a, b, c, d] = &mut into;
        let queue = storage.queue().unwrap();
        assert_eq!(queue.depth(), 3);
        // SAFETY: nobody looks at the bytes before they have been waited for.
        let numbers = unsafe { [queue.submit(0, a), queue.submit(8, b), queue.submit(16, c)] };
        // SAFETY: likewise.
        let full = unsafe { queue.submit(24, d) };
        assert_eq!(full, Err(StorageError::Io { errno: 11, offset: 24 }));
        let [a, b, c] = numbers.map(Result::unwrap);
        assert_eq!(storage.under_way(), 3);
        assert_eq!(storage.wait(a, 0), Ok(()));
        assert_eq!(storage.attempts(), 4);
        assert_eq!(storage.wait(c, 0), Ok(()));
        assert_eq!(storage.wait(b, 0), Err(StorageError::Io { errno: 5, offset: 8 }));
        assert_eq!((storage.under_way(), storage.attempts()), (0, 4));
        assert_eq!(into[2], BYTES[16..24]);
        into[0][1] ^= 1;
        assert_eq!(into[0], BYTES[..8]);
        assert!(Faulty::new(Slice(&BYTES), &[]).queue().is_none());
    }
}
