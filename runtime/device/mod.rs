//! Where kernels run.
//!
//! A [`Device`] runs one task in several parts at once and returns when all are done. [`Inline`]
//! runs the parts one after the other on the caller's thread: all that bare metal needs. [`Cores`]
//! are cores without an operating system. On Linux, `workers` has threads that spin between layers
//! and sleep between inferences.
//!
//! A GPU is no such device: it computes by itself, and later than it is asked to. [`Accelerator`]
//! is what the executor needs of a GPU; `cuda` implements it for NVIDIA's.
#![allow(unsafe_code)]

#[doc(hidden)]
pub mod accelerator;
#[cfg(target_has_atomic = "64")]
mod claims;
#[cfg(target_has_atomic = "64")]
mod cores;
#[cfg(any(feature = "cuda", feature = "cuda-linked"))]
pub mod cuda;
mod error;
pub(crate) mod float_mode;
pub(crate) mod handoff;
#[cfg(target_has_atomic = "64")]
mod rounds;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod threads;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub mod workers;

pub use accelerator::{Accelerator, MemoryError};
#[cfg(target_has_atomic = "64")]
pub use cores::{Cores, CoresError};
pub use error::DeviceError;
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use threads::ThreadError;

use crate::matrix::MatMut;
use core::ops::Range;

/// Runs a task in parts.
///
/// To implement it takes `unsafe impl`, since operators divide an output by what [`run`](Self::run)
/// promises.
///
/// # Safety
/// However often it is called, from however many threads, and whatever the task does, a call of
/// `run`
///
/// - calls the task with no part twice;
/// - has no two calls of the task in progress at a time that have the same `thread`;
/// - returns, or unwinds, only when no call of the task is in progress any more, and none follows.
///
/// [`divide`] checks the numbers of parts and threads by itself. That all parts are called is a
/// matter of right results only, and so are the other methods.
///
/// ```compile_fail,E0200
/// use eyelet::device::Device;
///
/// struct Twice;
///
/// impl Device for Twice {
///     fn threads(&self) -> usize {
///         2
///     }
///
///     // Two exclusive references to one part of an output, at the same time.
///     fn run(&self, _parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
///         std::thread::scope(|scope| {
///             scope.spawn(|| task(0, 0));
///             task(0, 1);
///         });
///     }
/// }
/// ```
pub unsafe trait Device: Sync {
    /// The largest number of parts that run at the same time; at least 1.
    fn threads(&self) -> usize;

    /// Calls `task(part, thread)` for each part from 0 to `parts - 1` exactly once, at the same
    /// time as far as there are threads, and returns when all have returned. `thread` is below
    /// [`threads`](Self::threads), and no two calls with the same one overlap.
    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync));

    /// A monotone clock, nanoseconds; always 0 where there is none. A board may bring its own.
    fn now_ns(&self) -> u64 {
        crate::sys::now_ns()
    }
}

/// The caller's thread alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inline;

// SAFETY: one part after the other, each once.
unsafe impl Device for Inline {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        (0..parts).for_each(|part| task(part, 0));
    }
}

/// Parts that work is divided into for each thread, where it can be: a thread that has lost its
/// core to the loader for a while, or is slower than the others, leaves some of its parts to them.
#[doc(hidden)]
pub const PARTS: usize = 4;

/// How an output is divided among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum Split {
    /// Along rows (pixels), in multiples of this many.
    Rows(usize),
    /// Along columns (channels), in multiples of this many.
    Cols(usize),
}

/// A part of an output.
#[derive(Debug)]
#[doc(hidden)]
pub struct Share<'a> {
    /// Index of the part.
    pub index: usize,
    /// Its rows in the whole output.
    pub rows: Range<usize>,
    /// Its columns in the whole output.
    pub cols: Range<usize>,
    /// That rectangle.
    pub out: MatMut<'a>,
    /// Its thread's scratch, aligned to 64 bytes if the whole scratch is.
    pub scratch: &'a mut [u8],
}

/// Part `index` of `0..len` cut into `parts` ranges of whole multiples of `align`, as even as
/// possible.
#[doc(hidden)]
pub fn cut(len: usize, parts: usize, align: usize, index: usize) -> Range<usize> {
    let units = len.div_ceil(align);
    let at = |i: usize| (units * i / parts * align).min(len);
    at(index)..at(index + 1)
}

/// Divides `out` into parts of whole multiples of the split's extent, up to [`PARTS`] for each
/// thread, and runs `task` on every one that is not empty. Each thread has `scratch_each` bytes (a
/// multiple of 64) of `scratch`.
///
/// # Panics
/// When `scratch` is too small for one thread. If it is too small for all threads, there are fewer
/// parts.
#[doc(hidden)]
pub fn divide(
    device: &dyn Device,
    out: MatMut<'_>,
    split: Split,
    scratch: &mut [u8],
    scratch_each: usize,
    task: impl Fn(Share<'_>) + Sync,
) {
    let (len, align) = match split {
        Split::Rows(align) => (out.rows(), align.max(1)),
        Split::Cols(align) => (out.cols(), align.max(1)),
    };
    let threads = device.threads();
    let most = if threads == 1 { 1 } else { threads * PARTS };
    let mut parts = most.min(len.div_ceil(align));
    // With too little scratch for each thread, it belongs to the parts.
    let mut by_part = false;
    if let Some(shares) = scratch.len().checked_div(scratch_each) {
        assert!(shares > 0, "scratch of {} bytes, {scratch_each} needed", scratch.len());
        by_part = shares < threads;
        parts = if by_part { parts.min(shares) } else { parts };
    }
    struct Base(*mut u8);
    // SAFETY: only disjoint parts of it are touched at the same time, below.
    unsafe impl Sync for Base {}
    let base = Base(scratch.as_mut_ptr());
    let base = &base;
    let out = &out;
    device.run(parts, &|index, thread| {
        assert!(index < parts, "part {index} of {parts}");
        let range = cut(len, parts, align, index);
        if range.is_empty() {
            return;
        }
        let (rows, cols) = match split {
            Split::Rows(_) => (range, 0..out.cols()),
            Split::Cols(_) => (0..out.rows(), range),
        };
        let place = if by_part { index } else { thread };
        assert!(by_part || thread < threads, "thread {thread} of {threads}");
        // SAFETY:
        // - `cut` gives disjoint ranges for different indices below `parts`, and the device passes
        //   each index once, by its contract. So rectangles do not overlap.
        // - There are as many pieces of scratch as parts, or as threads (checked above and here),
        //   all inside of the scratch.
        // - No two parts run at the same time on one thread. So pieces of scratch in use do not
        //   overlap either.
        let (out, scratch) = unsafe {
            (
                out.cut_unchecked(rows.clone(), cols.clone()),
                core::slice::from_raw_parts_mut(base.0.add(place * scratch_each), scratch_each),
            )
        };
        task(Share { index, rows, cols, out, scratch });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_covers_and_aligns() {
        for len in 0..40 {
            for parts in 1..6 {
                for align in 1..9 {
                    let mut next = 0;
                    for index in 0..parts {
                        let range = cut(len, parts, align, index);
                        assert_eq!(range.start, next);
                        assert!(range.start.is_multiple_of(align) || range.start == len);
                        next = range.end;
                    }
                    assert_eq!(next, len);
                }
            }
        }
    }

    #[test]
    fn divide_reaches_every_element_once() {
        let mut data = [0.0f32; 7 * 10];
        let mut scratch = [0u8; 192];
        for split in [Split::Rows(2), Split::Cols(3)] {
            let out = MatMut::new(&mut data, 7, 9, 10).unwrap();
            divide(&Inline, out, split, &mut scratch, 64, |mut share| {
                for row in 0..share.out.rows() {
                    share.out.row_mut(row).iter_mut().for_each(|x| *x += 1.0);
                }
            });
        }
        for (i, x) in data.iter().enumerate() {
            assert_eq!(*x, if i % 10 == 9 { 0.0 } else { 2.0 });
        }
    }
}
