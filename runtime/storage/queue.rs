//! Reads that go on while their caller does something else.
//!
//! A device that has several reads to do at once does small ones up to twice as fast: while one is under way to
//! memory, the next is being looked for. [`Storage::queue`] is how the loader finds out whether a storage can do that;
//! most cannot, and then [`Storage::read`] is all there is.
//!
//! Between [`submit`](ReadQueue::submit) and [`wait`](ReadQueue::wait) the bytes belong to the device, which no borrow can
//! say of memory that is divided by a plan. So both sides promise in words: the storage that it touches
//! nothing before or after, the caller that nobody else does in between. The one caller is
//! [`UnderWay`], which waits for all reads whatever happens.
#![allow(unsafe_code)]

use super::{Storage, StorageError, UnderWay};
use core::ptr::slice_from_raw_parts_mut;

/// No storage has more reads under way, and nobody asks for more.
pub const MAX_DEPTH: usize = 8;

/// No loader has begun more reads that it has not handed over: those under way, and as many that have come.
pub const MAX_BEGUN: usize = 2 * MAX_DEPTH;

/// How long a loader spins for its storage, and loader and compute side for each other, before they sleep, where every thread can
/// have a core: what a read takes but for the largest. A core that sleeps is woken in 10 to 20 µs on a virtual machine, half of what a
/// small read takes; and who wakes it loses about 10, a step that opens a gate as well: a hundredth of this.
pub const SPIN_NS: u64 = 1_000_000;

/// A storage's reads under way.
///
/// # Safety
/// The bytes of a read are written only between a `submit` that succeeds and the end of the `wait` for it, however that ends; after one
/// that fails, never. No two reads under way have one number. `wait` does not unwind, unless nothing is under way
/// any more when it does.
pub unsafe trait ReadQueue {
    /// So many reads may be under way at once: at least 1, at most [`MAX_DEPTH`].
    fn depth(&self) -> usize;

    /// Bytes that the device has to do at a time, which keep it busy. Of what is under way beyond these nothing takes from those before
    /// it, which are needed first: reads take turns in the order in which they were submitted.
    fn window(&self) -> usize {
        usize::MAX
    }

    /// Begins what [`Storage::read`](super::Storage::read) would do, and returns a number for it, which is free again when
    /// it has been waited for. No more than [`depth`](Self::depth) at once; an error where it cannot be begun.
    ///
    /// # Safety
    /// The bytes may be written, and nobody touches them before [`wait`](Self::wait) for this number has returned. The storage is
    /// neither dropped nor forgotten before that.
    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError>;

    /// Whether this read is known to be done, so that it need not be waited for.
    fn arrived(&mut self, number: usize) -> bool;

    /// Returns when this read is done, in whatever order, or has failed. After an error the bytes are unspecified. May look for its
    /// answer over and over for up to so many nanoseconds before it sleeps.
    fn wait(&mut self, number: usize, spin_ns: u64) -> Result<(), StorageError>;
}

/// Reads pieces of `bytes` bytes into `memory`, into one place of it after the other, for as long as `next` says where from, with up to
/// `depth` under way: what a loader makes of a storage, without a plan. Where storage has no
/// queue, or `depth` is 1, one after the other. Each is looked for up to so many nanoseconds before its answer is slept for.
///
/// Alignment is that of [`Storage::read`]. Nothing is read where `memory` has no room for a piece.
pub fn stream<S: Storage + ?Sized>(
    storage: &mut S,
    depth: usize,
    spin_ns: u64,
    bytes: usize,
    memory: &mut [u8],
    mut next: impl FnMut() -> Option<u64>,
) -> Result<(), StorageError> {
    let places = memory.len().checked_div(bytes).unwrap_or(0);
    if places == 0 {
        return Ok(());
    }
    let base = memory.as_mut_ptr();
    UnderWay::lend(storage, depth, |reads| {
        for place in (0..places).cycle() {
            let into = slice_from_raw_parts_mut(base.wrapping_add(place * bytes), bytes);
            while !reads.has_room(into) {
                reads.oldest(spin_ns).unwrap_or(Ok(()))?;
                reads.finish();
            }
            let Some(offset) = next() else { break };
            // SAFETY: the place is inside `memory`, which is borrowed until this returns, and nobody looks at it before.
            unsafe { reads.begin(offset, into) };
        }
        while let Some(result) = reads.oldest(spin_ns) {
            result?;
            reads.finish();
        }
        Ok(())
    })
}

#[cfg(all(test, feature = "linux", target_os = "linux"))]
mod tests {
    use super::super::DirectFile;
    use super::super::scratch_file::{Aligned, ScratchFile, contents};
    use super::*;

    #[test]
    fn pieces_come_from_where_they_are_asked_for() {
        let bytes = contents(24 * 4096);
        let scratch = ScratchFile::new(&bytes);
        let mut file = match DirectFile::open(scratch.path()) {
            Err(StorageError::NoDirectIo) => return,
            file => file.unwrap(),
        };
        for depth in 1..6 {
            // Three places for five pieces: the last two take the first two's.
            let mut into = Aligned([0; 3 * 8192]);
            let mut from = [0u64, 40_960, 8192, 81_920, 16_384].into_iter();
            stream(&mut file, depth, 1000, 8192, &mut into.0, || from.next()).unwrap();
            for (place, offset) in [81_920, 16_384, 8192].into_iter().enumerate() {
                assert_eq!(into.0[place * 8192..][..8192], bytes[offset..][..8192], "{depth}");
            }
            let mut from = [0u64, 20 * 4096, 24 * 4096, 0].into_iter();
            let next = || from.next();
            let short = stream(&mut file, depth, 0, 8192, &mut into.0, next).unwrap_err();
            assert!(matches!(short, StorageError::Short { got: 0, .. }), "{short}");
            assert_eq!(stream(&mut file, depth, 0, 4 << 20, &mut into.0, || Some(0)), Ok(()));
        }
    }
}
