//! A device that computes by itself, next to the processor: a GPU.
//!
//! The executor stays the one that it is. Its two sides do not compute and do not read less in
//! order, but what they count is then what has been *issued*: the device does the work later, in
//! two queues that it drains side by side, [`Stream::Kernels`] for steps (and for the host's turn:
//! inputs and outputs) and [`Stream::Copies`] for loads that are copied to a memory of its own.
//! Marks say what has been *completed*: [`record`](Accelerator::record) puts one at the end of a
//! stream, named by the count that the executor has issued. The other stream or the host waits for
//! it.
//!
//! # Marks are few and used again
//!
//! A device has a fixed set of events for each stream, made before the first inference; mark
//! `count` is event `count` modulo their number, which is a power of two, so that this stays right
//! when counts wrap. A mark that was recorded again by the time somebody waits for it is a later
//! point of the same stream, so whoever waits, waits longer: never for too little. Nor does anybody
//! wait for ever: marks and waits are all issued in one order in time, and each wait, in a stream
//! or of the host, is for a mark that has been recorded before. Whatever was issued first can
//! therefore run to its end; so can the next; and so on. The executor sees to the other half: it
//! waits for a mark only when the count says that it was recorded, or when there is none to wait
//! for (a count before the first inference). An event that was never recorded counts as reached.
#![allow(unsafe_code)]

use super::DeviceError;
use crate::kernels::table::cuda::Function;

/// One launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub function: Function,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block: at most 48 KiB.
    pub shared_bytes: u32,
    /// The kernel's record.
    pub args: &'a [u8],
}

/// Where launches go: they are done one after the other.
pub trait Queue {
    /// Adds a launch. A grid without blocks is nothing to do.
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError>;
}

/// A queue of the device: its work is done in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Steps, and the copies of inputs and outputs.
    Kernels,
    /// Copies of loads.
    Copies,
}

/// Where the arena of a device lies, in its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the host's memory, which the device addresses too (zero-copy): loads are read to where
    /// they are used. The address of the arena's first byte.
    Shared(u64),
    /// In a memory of the device's own (staged): only tables are the host's, loads are read into
    /// pinned memory and copied. The address of the first byte after the tables, and bytes from
    /// there.
    Own(u64, u64),
}

/// Why there is no memory for an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryError {
    /// Which memory.
    pub what: &'static str,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes that are free, where the driver says so.
    pub free: Option<u64>,
    /// The driver's error.
    pub error: DeviceError,
}

impl core::fmt::Display for MemoryError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { what, bytes, free, error } = self;
        write!(f, "no {bytes} bytes of {what}")?;
        if let Some(free) = free {
            write!(f, ", where {free} are free")?;
        }
        write!(f, ": {error}; take a plan of a smaller budget, or end what uses it")
    }
}

impl core::error::Error for MemoryError {}

/// A device and its memories, lent for as long as one pack is open.
#[derive(Debug)]
pub struct Lent<'a> {
    /// Bytes of arena that plans may have.
    pub arena: u64,
    /// The arena, or, when the device has a memory of its own, what holds its tables. Starts on a
    /// page.
    pub host: &'a mut [u8],
    /// The memory of the last [`reserve`](Accelerator::reserve). It starts on a page.
    pub pinned: &'a mut [u8],
    /// The device.
    pub accelerator: &'a dyn Accelerator,
}

/// A device that computes by itself, with its memories. Any thread may call it.
///
/// A call that fails has issued nothing. If the device does not recover from an error, every later
/// call returns it.
///
/// # Safety
/// - What [`lend`](Self::lend) lends is memory of the implementation's own, valid and used by
///   nobody else while it is lent, and lies where [`home`](Self::home) says.
/// - `lend`, `reserve` and dropping the value wait until all that was issued has come to an end:
///   only then is memory handed out again or released.
/// - What is issued to a stream is done in order. [`drain`](Self::drain) and [`wait`](Self::wait)
///   return `Ok` only when all of it, or all before the mark, is done, and what comes after a
///   [`follow`](Self::follow) that returns `Ok` begins only when the mark is reached. A call that
///   fails has issued nothing.
/// - `arena`, `home` and `multiprocessors` say the same while it is lent.
pub unsafe trait Accelerator: Sync + core::fmt::Debug {
    /// Bytes of arena that plans may have.
    fn arena(&self) -> u64;

    /// Where the arena lies for the device.
    fn home(&self) -> Home;

    /// Multiprocessors.
    fn multiprocessors(&self) -> u32;

    /// Makes memory for a device that has its own, instead of what was reserved before: `pinned`
    /// bytes of host memory that the device copies from and to, and `device` bytes. Others need
    /// none.
    fn reserve(&mut self, pinned: u64, device: u64) -> Result<(), MemoryError>;

    /// The device and its memories.
    fn lend(&mut self) -> Lent<'_>;

    /// Issues a kernel.
    ///
    /// # Safety
    /// All that the kernel touches, by the addresses in its record, is arena that nothing else
    /// touches at that time, in a way that matters.
    unsafe fn launch(&self, launch: &Launch<'_>) -> Result<(), DeviceError>;

    /// Issues a copy from pinned memory to the device's own.
    ///
    /// # Safety
    /// `from` lies in pinned memory that was lent, `to..to + from.len()` in the device's.
    unsafe fn copy_in(&self, stream: Stream, from: &[u8], to: u64) -> Result<(), DeviceError>;

    /// Issues a copy from the device's memory to pinned memory.
    ///
    /// # Safety
    /// `to` lies in pinned memory that was lent, and nobody else touches it until the copy is done;
    /// `from..from + to.len()` lies in the device's.
    unsafe fn copy_out(&self, stream: Stream, from: u64, to: &mut [u8]) -> Result<(), DeviceError>;

    /// Puts mark `count` after all that the stream has so far.
    fn record(&self, stream: Stream, count: u32) -> Result<(), DeviceError>;

    /// Has what is issued to a stream from now on wait for mark `count` of the other.
    fn follow(&self, stream: Stream, other: Stream, count: u32) -> Result<(), DeviceError>;

    /// Returns when mark `count` of a stream is reached.
    fn wait(&self, stream: Stream, count: u32) -> Result<(), DeviceError>;

    /// Returns when all of a stream is done.
    fn drain(&self, stream: Stream) -> Result<(), DeviceError>;

    /// How many moments the device can keep at a time; none if nobody asked it to, or it has no
    /// clock.
    fn moments(&self) -> u32 {
        0
    }

    /// Has the device keep the time, by its own clock, at which it is done with all that the
    /// kernels' stream has so far: moment number `moment`, less than [`moments`](Self::moments).
    fn keep(&self, _moment: u32) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Nanoseconds from one moment that it kept to a later one, both past.
    fn ns_between(&self, _from: u32, _to: u32) -> Result<u64, DeviceError> {
        Ok(0)
    }
}

/// Returns when all of both streams is done, or has failed.
pub(crate) fn drain(accelerator: &dyn Accelerator) -> Result<(), DeviceError> {
    let copies = accelerator.drain(Stream::Copies);
    accelerator.drain(Stream::Kernels).and(copies)
}
