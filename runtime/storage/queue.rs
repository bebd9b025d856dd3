//! Reads that go on while their caller does something else.
//!
//! A device that has several reads to do at once does small ones up to twice as fast: while one is under way to
//! memory, the next is being looked for. [`Storage::queue`] is how the loader finds out whether a storage can do that;
//! most cannot, and then [`Storage::read`] is all there is.
//!
//! Between [`submit`](ReadQueue::submit) and [`wait`](ReadQueue::wait) the bytes belong to the device, which no borrow can
//! say of memory that is divided by a plan. So both sides promise in words: the storage that it touches
//! nothing before or after, the caller that nobody else does in between. The only caller is
//! [`Reads`](crate::arena::Reads), which waits for all reads whatever happens.
#![allow(unsafe_code)]

use super::StorageError;

/// No storage has more reads under way, and nobody asks for more.
pub const MAX_DEPTH: usize = 8;

/// A storage's reads under way.
///
/// # Safety
/// The bytes of a read are written only between its `submit` and the return of the `wait` for it.
pub unsafe trait ReadQueue {
    /// So many reads may be under way at once: at least 1, at most [`MAX_DEPTH`].
    fn depth(&self) -> usize;

    /// Begins what [`Storage::read`](super::Storage::read) would do, and returns a number for it, which is free again when
    /// it has been waited for. No more than [`depth`](Self::depth) at once; an error where it cannot be begun.
    ///
    /// # Safety
    /// The bytes may be written, and nobody touches them before [`wait`](Self::wait) for this number has returned. The storage is
    /// neither dropped nor forgotten before that.
    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError>;

    /// Returns when this read is done, in whatever order, or has failed. After an error the bytes are unspecified.
    fn wait(&mut self, number: usize) -> Result<(), StorageError>;
}
