//! Reads piece after piece, as a loader does, without a plan: for measurements.
#![allow(unsafe_code)]

use super::{InFlight, Storage, StorageError};
use core::ptr::slice_from_raw_parts_mut;

/// Reads pieces of `bytes` bytes into `memory`, into one place of it after the other, for as long
/// as `next` says where from, with up to `depth` in flight: what a loader makes of a storage,
/// without a plan. Where storage has no queue, or `depth` is 1, one after the other. It spins for
/// up to `spin_ns` nanoseconds for each answer before it sleeps.
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
    InFlight::lend(storage, depth, |reads| {
        for place in (0..places).cycle() {
            let into = slice_from_raw_parts_mut(base.wrapping_add(place * bytes), bytes);
            while !reads.has_room(into) {
                reads.oldest(spin_ns).unwrap_or(Ok(()))?;
                reads.finish();
            }
            let Some(offset) = next() else { break };
            // SAFETY: the place is inside `memory`, which is borrowed until this returns, and
            // nobody looks at it before.
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
