//! Reads that go on while their caller does something else.
//!
//! A device that has several reads to do at once does small ones up to twice as fast: while one is
//! in flight to memory, the next is being looked for. [`Storage::queue`](super::Storage::queue) is
//! how the loader finds out whether a storage can do that; most cannot, and then
//! [`Storage::read`](super::Storage::read) is all there is.
//!
//! Between [`submit`](ReadQueue::submit) and [`wait`](ReadQueue::wait) the bytes belong to the
//! device, which no borrow can say of memory that is divided by a plan. So both sides promise in
//! words: the storage that it touches nothing before or after, the caller that nobody else does in
//! between. The one caller is `InFlight`, which waits for all reads whatever happens.
#![allow(unsafe_code)]

use super::StorageError;

/// The most reads that a storage has in flight.
pub const MAX_DEPTH: usize = 8;

/// The most reads that a loader has begun and not finished: [`MAX_DEPTH`] in flight, and as many
/// that have arrived.
pub const MAX_BEGUN: usize = 2 * MAX_DEPTH;

/// How long a loader spins for its storage, and loader and compute side for each other, before they
/// sleep, where every thread can have a core: what a read takes but for the largest. A core that
/// sleeps is woken in 10 to 20 µs on a virtual machine, half of what a small read takes; and who
/// wakes it loses about 10, a step that opens a gate as well: a hundredth of this.
pub const SPIN_NS: u64 = 1_000_000;

/// A storage's reads in flight.
///
/// # Safety
/// The bytes of a read are written only between a `submit` that succeeds and the end of the `wait`
/// for it, however that ends; after one that fails, never. No two reads in flight have one number.
/// `wait` does not unwind, unless nothing is in flight any more when it does.
pub unsafe trait ReadQueue {
    /// The most reads that may be in flight at once: at least 1, at most [`MAX_DEPTH`].
    fn depth(&self) -> usize;

    /// Bytes in flight that keep the device busy. Reads beyond these do not delay the reads before
    /// them, which are needed first: reads take turns in the order of submission.
    fn window(&self) -> usize {
        usize::MAX
    }

    /// Begins what [`Storage::read`](super::Storage::read) would do, and returns a number for it,
    /// which is free again when it has been waited for. No more than [`depth`](Self::depth) at
    /// once; an error where it cannot be begun.
    ///
    /// # Safety
    /// The bytes may be written, and nobody touches them before [`wait`](Self::wait) for this
    /// number has returned. The storage is neither dropped nor forgotten before that.
    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError>;

    /// Whether this read is known to be done, or to have failed, so that it need not be waited for. A caller that never waits
    /// asks until it says so.
    fn arrived(&mut self, number: usize) -> bool;

    /// Returns when this read is done, in whatever order, or has failed. After an error the bytes
    /// are unspecified. May look for its answer over and over for up to `spin_ns` nanoseconds
    /// before it sleeps.
    fn wait(&mut self, number: usize, spin_ns: u64) -> Result<(), StorageError>;
}
