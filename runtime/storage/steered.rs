//! Storage whose reads end when a test says so, and as it says: for tests that try every order of events.
//!
//! A read that a test has [ended](Desk::end) writes its bytes at that moment, as a device does that works on its own.
//! One that is waited for before that ends well.
#![allow(unsafe_code)]

use super::{ReadQueue, Slice, Storage, StorageError};
use core::cell::{Cell, RefCell};
use std::vec::Vec;

/// How a read ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Good,
    /// The device reports an error, and has written nonsense.
    Error,
    /// The device has written half of it.
    Short,
    /// The device says that all is well, but a bit is wrong.
    Damaged,
}

/// A read in flight.
#[derive(Clone, Copy, Debug)]
struct Read {
    number: usize,
    offset: u64,
    into: *mut [u8],
    result: Option<Result<(), StorageError>>,
}

/// The reads in flight, in the order in which they began: the test's side of the storage.
#[derive(Debug)]
pub(crate) struct Desk<'p> {
    pack: &'p [u8],
    reads: RefCell<Vec<Read>>,
    /// The next read that its caller waits for fails.
    pub fails: Cell<bool>,
}

impl<'p> Desk<'p> {
    pub fn new(pack: &'p [u8]) -> Self {
        Self { pack, reads: RefCell::default(), fails: Cell::new(false) }
    }

    /// For each read in flight where it begins in the pack, and whether it has ended.
    pub fn reads(&self) -> Vec<(u64, Option<bool>)> {
        let reads = self.reads.borrow();
        reads.iter().map(|read| (read.offset, read.result.map(|result| result.is_ok()))).collect()
    }

    /// Ends a read, by its place in the order, unless it has ended.
    pub fn end(&self, place: usize, how: End) {
        let mut reads = self.reads.borrow_mut();
        let Some(read) = reads.get_mut(place).filter(|read| read.result.is_none()) else { return };
        // SAFETY: the bytes are this read's, by the promise to `submit`, until it has been waited for.
        let into = unsafe { &mut *read.into };
        let (offset, wanted) = (read.offset, into.len());
        let mut result = Slice(self.pack).read(offset, into);
        match how {
            End::Good => {}
            End::Error => {
                into.fill(0x5a);
                result = Err(StorageError::Io { errno: 5, offset });
            }
            End::Short => {
                let got = wanted / 2;
                into[got..].fill(0x5a);
                result =
                    Err(StorageError::Short { offset, wanted: wanted as u64, got: got as u64 });
            }
            // The first float, if it was zero, is two.
            End::Damaged => into[3] ^= 0x40,
        }
        read.result = Some(result);
    }
}

/// The storage.
#[derive(Debug)]
pub(crate) struct Steered<'d, 'p> {
    pub desk: &'d Desk<'p>,
    /// Reads that may be in flight; with none there is no queue.
    pub depth: usize,
}

impl Storage for Steered<'_, '_> {
    fn len(&self) -> Result<u64, StorageError> {
        Slice(self.desk.pack).len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        match self.desk.fails.take() {
            true => Err(StorageError::Io { errno: 5, offset }),
            false => Slice(self.desk.pack).read(offset, into),
        }
    }

    fn alignment(&self) -> u64 {
        1
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        (self.depth > 0).then_some(self)
    }
}

// SAFETY: bytes of a read are written by `end` only, once, before or during `wait`, which takes the read off the list.
// Numbers are of no other read in flight.
unsafe impl ReadQueue for Steered<'_, '_> {
    fn depth(&self) -> usize {
        self.depth
    }

    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError> {
        let mut reads = self.desk.reads.borrow_mut();
        let free = (0..self.depth).find(|number| reads.iter().all(|read| read.number != *number));
        let number = free.ok_or(StorageError::Io { errno: 11, offset })?;
        reads.push(Read { number, offset, into, result: None });
        Ok(number)
    }

    fn arrived(&mut self, number: usize) -> bool {
        let reads = self.desk.reads.borrow();
        reads.iter().any(|read| read.number == number && read.result.is_some())
    }

    fn wait(&mut self, number: usize, _: u64) -> Result<(), StorageError> {
        let place = self.desk.reads.borrow().iter().position(|read| read.number == number);
        let Some(place) = place else { return Ok(()) };
        self.desk.end(place, End::Good);
        self.desk.reads.borrow_mut().remove(place).result.unwrap_or(Ok(()))
    }
}
