//! Block devices by VIRTIO 1.x, with registers in memory ("virtio-mmio"): one queue, no interrupts.
//!
//! [`Disk`] is a [`Storage`] with a [`ReadQueue`]: a read is a chain of three descriptors that the
//! device works through by itself. Whether it has is a word in memory that the device writes, so
//! that to ask costs nothing.
//!
//! A device that does not answer in time is reset. Then no read of its is in flight any more, which
//! is what lets a caller have its memory back; all of them have failed. It starts anew at the next
//! read.
//!
//! The crate `virtio-drivers` (0.13) runs without an allocator, too. But its reset does not wait
//! until the device has stopped, so that memory of a stalled read could never be given back.

use super::rings::{DEPTH, Rings};
use core::sync::atomic::{Ordering, fence};
use eyelet::storage::{MAX_DEPTH, ReadQueue, Storage, StorageError, check_aligned};

/// Bytes of a sector, in which offsets and lengths are counted.
const SECTOR: u64 = 512;

/// `EIO`: the device says that a read has failed.
const IO: i32 = 5;
/// `EAGAIN`: more reads than the queue takes.
const AGAIN: i32 = 11;
/// `ENODEV`: the device does not start any more.
const NO_DEVICE: i32 = 19;

// What is where among the registers (VIRTIO 1.2, 4.2.2).
const MAGIC: usize = 0x000;
const VERSION: usize = 0x004;
const DEVICE: usize = 0x008;
const OFFERED: usize = 0x010;
const OFFERED_SELECT: usize = 0x014;
const WANTED: usize = 0x020;
const WANTED_SELECT: usize = 0x024;
const QUEUE_SELECT: usize = 0x030;
const QUEUE_MOST: usize = 0x034;
const QUEUE_SIZE: usize = 0x038;
const QUEUE_READY: usize = 0x044;
const QUEUE_NOTIFY: usize = 0x050;
const STATUS: usize = 0x070;
const QUEUE_TABLE: usize = 0x080;
const QUEUE_OFFERED: usize = 0x090;
const QUEUE_USED: usize = 0x0a0;
const CAPACITY: usize = 0x100;

/// "virt".
const MAGIC_WORD: u32 = 0x7472_6976;
/// A block device.
const BLOCK: u32 = 2;
/// Bit 32 of the features: not an older kind.
const VERSION_1: u32 = 1;

// What the driver has come to.
const ACKNOWLEDGE: u32 = 1;
const DRIVER: u32 = 2;
const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;

/// A device's registers.
///
/// # Safety
/// Behind them is a device that keeps to the standard: it writes to no memory but what descriptors
/// in its queue say, and to none after a reset.
pub unsafe trait Registers {
    /// Reads the register at this offset.
    fn read(&mut self, offset: usize) -> u32;
    /// Writes it.
    fn write(&mut self, offset: usize, value: u32);
}

/// Registers in memory.
#[derive(Debug)]
pub struct Mapped(usize);

impl Mapped {
    /// Bytes of one device's registers.
    pub const BYTES: usize = 0x200;

    /// The registers from this address on.
    ///
    /// # Safety
    /// There is a virtio device there, in memory that is mapped as a device's. Nobody else uses it.
    /// It sees the same memory as this core, at the same addresses, without caches in between.
    pub unsafe fn new(address: usize) -> Self {
        Self(address)
    }

    /// Whether it is a disk that [`Disk`] can drive.
    pub fn is_disk(&mut self) -> bool {
        [MAGIC, VERSION, DEVICE].map(|at| self.read(at)) == [MAGIC_WORD, 2, BLOCK]
    }
}

// SAFETY: a virtio device is there, by the promise to `new`.
unsafe impl Registers for Mapped {
    fn read(&mut self, offset: usize) -> u32 {
        // SAFETY: a register of the device, by the promise to `new`.
        unsafe { ((self.0 + offset) as *const u32).read_volatile() }
    }

    fn write(&mut self, offset: usize, value: u32) {
        // SAFETY: likewise. What the driver wrote to memory before, the device sees.
        unsafe {
            fence(Ordering::SeqCst);
            ((self.0 + offset) as *mut u32).write_volatile(value);
        }
    }
}

/// Why there is no disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskError {
    /// There is no virtio block device of the current kind.
    Absent {
        /// The first word of the registers, which should be "virt".
        magic: u32,
        /// Version of the registers: 2 is known.
        version: u32,
        /// Kind of the device: 2 is a disk.
        device: u32,
    },
    /// The device does not take the only feature that is asked for.
    Features,
    /// Its queue is too short.
    Queue {
        /// Its entries.
        most: u32,
        /// Entries that are needed.
        needed: u32,
    },
}

impl core::fmt::Display for DiskError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent { magic, version, device } => write!(
                f,
                "no virtio disk: magic {magic:#x}, version {version}, device {device}; version 2 of \
                 device 2 is known"
            ),
            Self::Features => f.write_str("the virtio disk does not accept version 1"),
            Self::Queue { most, needed } => {
                write!(f, "the virtio disk's queue has {most} entries, {needed} are needed")
            }
        }
    }
}

impl core::error::Error for DiskError {}

/// A clock, and how long a read may take by it.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A monotone clock, in nanoseconds.
    pub now_ns: fn() -> u64,
    /// The most that a read may take.
    pub limit_ns: u64,
}

/// A read that has been given to the device.
#[derive(Clone, Copy, Debug)]
struct Read {
    offset: u64,
    begun_ns: u64,
    result: Option<Result<(), StorageError>>,
}

/// A block device.
#[derive(Debug)]
pub struct Disk<R: Registers> {
    registers: R,
    rings: &'static mut Rings,
    patience: Patience,
    bytes: u64,
    reads: [Option<Read>; DEPTH],
    /// The device works.
    started: bool,
    times: Times,
}

/// What the device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Reads that are done.
    pub reads: u64,
    /// Of these, those that were done before anybody waited for any.
    pub unattended: u64,
    /// Time in which at least one read was in flight, until that was seen to be done.
    pub busy_ns: u64,
    /// Since when one is.
    since_ns: u64,
}

impl<R: Registers> Disk<R> {
    /// Starts the device.
    pub fn new(
        registers: R,
        rings: &'static mut Rings,
        patience: Patience,
    ) -> Result<Self, DiskError> {
        let (reads, times) = ([None; DEPTH], Times::default());
        let mut disk = Self { registers, rings, patience, bytes: 0, reads, started: false, times };
        disk.start()?;
        Ok(disk)
    }

    /// What the device has done since this was last asked. Only while no read is in flight.
    pub fn times(&mut self) -> Times {
        core::mem::take(&mut self.times)
    }

    fn start(&mut self) -> Result<(), DiskError> {
        let registers = &mut self.registers;
        let [magic, version, device] = [MAGIC, VERSION, DEVICE].map(|at| registers.read(at));
        if (magic, version, device) != (MAGIC_WORD, 2, BLOCK) {
            return Err(DiskError::Absent { magic, version, device });
        }
        self.reset();
        let registers = &mut self.registers;
        registers.write(STATUS, ACKNOWLEDGE);
        registers.write(STATUS, ACKNOWLEDGE | DRIVER);
        registers.write(OFFERED_SELECT, 1);
        if registers.read(OFFERED) & VERSION_1 == 0 {
            return Err(DiskError::Features);
        }
        for (select, wanted) in [(0, 0), (1, VERSION_1)] {
            registers.write(WANTED_SELECT, select);
            registers.write(WANTED, wanted);
        }
        registers.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK);
        if registers.read(STATUS) & FEATURES_OK == 0 {
            return Err(DiskError::Features);
        }
        registers.write(QUEUE_SELECT, 0);
        let (most, needed) = (registers.read(QUEUE_MOST), Rings::SIZE as u32);
        if most < needed {
            return Err(DiskError::Queue { most, needed });
        }
        registers.write(QUEUE_SIZE, needed);
        let [table, offered, used] = self.rings.clear();
        for (at, address) in [(QUEUE_TABLE, table), (QUEUE_OFFERED, offered), (QUEUE_USED, used)] {
            registers.write(at, address as u32);
            registers.write(at + 4, (address >> 32) as u32);
        }
        registers.write(QUEUE_READY, 1);
        registers.write(STATUS, ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK);
        let [low, high] = [CAPACITY, CAPACITY + 4].map(|at| u64::from(registers.read(at)));
        self.bytes = (high << 32 | low).saturating_mul(SECTOR);
        self.started = true;
        Ok(())
    }

    /// Returns when the device does nothing any more and has forgotten everything.
    fn reset(&mut self) {
        self.started = false;
        self.registers.write(STATUS, 0);
        // A device that is not even reset may write to memory at any time. Nothing can be done with
        // it, nor with the memory, so that to wait is right: the board's watchdog ends it.
        while self.registers.read(STATUS) != 0 {
            core::hint::spin_loop();
        }
    }

    /// Notes what the device has done.
    fn look(&mut self, awaited: bool) {
        while let Some((number, status)) = self.rings.done() {
            let Some(Some(read)) = self.reads.get_mut(number) else { continue };
            let failed = StorageError::Io { errno: IO, offset: read.offset };
            read.result = Some(if status == 0 { Ok(()) } else { Err(failed) });
            self.times.reads += 1;
            self.times.unattended += u64::from(!awaited);
        }
        if self.flying() == 0 && self.times.since_ns != 0 {
            let since = core::mem::take(&mut self.times.since_ns);
            self.times.busy_ns += (self.patience.now_ns)().saturating_sub(since);
        }
    }

    /// Reads that the device has not done.
    fn flying(&self) -> usize {
        self.reads.iter().flatten().filter(|read| read.result.is_none()).count()
    }

    /// Has all reads failed that are not done, since the device does not answer.
    fn give_up(&mut self) {
        self.reset();
        let limit_ms = self.patience.limit_ns / 1_000_000;
        for read in self.reads.iter_mut().flatten() {
            let error = StorageError::Stalled { offset: read.offset, limit_ms };
            read.result.get_or_insert(Err(error));
        }
        self.times.since_ns = 0;
    }
}

impl<R: Registers> Storage for Disk<R> {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.bytes)
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        // SAFETY: the bytes are borrowed until the read is done, which is before this returns.
        let number = unsafe { self.submit(offset, into) }?;
        self.wait(number, 0)
    }

    fn alignment(&self) -> u64 {
        SECTOR
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        Some(self)
    }
}

// SAFETY:
// - The device writes only to descriptors of reads that were submitted and not yet waited for.
// - `wait` returns when the device is done with the read, or has been reset.
// - A read's number is that of its descriptors.
// - Nothing here unwinds.
unsafe impl<R: Registers> ReadQueue for Disk<R> {
    fn depth(&self) -> usize {
        DEPTH
    }

    unsafe fn submit(&mut self, offset: u64, into: *mut [u8]) -> Result<usize, StorageError> {
        let bytes = into.len() as u64;
        // SAFETY: nothing is read: the check looks at address and length.
        check_aligned(offset, unsafe { &*into }, SECTOR)?;
        if !self.started && self.flying() == 0 {
            self.start().map_err(|_| StorageError::Io { errno: NO_DEVICE, offset })?;
        }
        if offset.checked_add(bytes).is_none_or(|end| end > self.bytes) {
            let got = self.bytes.saturating_sub(offset);
            return Err(StorageError::Short { offset, wanted: bytes, got });
        }
        let free = self.reads.iter().position(Option::is_none);
        let number = free.ok_or(StorageError::Io { errno: AGAIN, offset })?;
        let now = (self.patience.now_ns)();
        if self.flying() == 0 {
            self.times.since_ns = now.max(1);
        }
        self.reads[number] = Some(Read { offset, begun_ns: now, result: None });
        self.rings.offer(number, offset / SECTOR, into);
        self.registers.write(QUEUE_NOTIFY, 0);
        Ok(number)
    }

    fn arrived(&mut self, number: usize) -> bool {
        self.look(false);
        matches!(self.reads.get(number), Some(Some(Read { result: Some(_), .. })))
    }

    fn wait(&mut self, number: usize, _: u64) -> Result<(), StorageError> {
        self.look(false);
        loop {
            let Some(Some(read)) = self.reads.get(number).copied() else { return Ok(()) };
            if let Some(result) = read.result {
                self.reads[number] = None;
                return result;
            }
            let waited = (self.patience.now_ns)().saturating_sub(read.begun_ns);
            if waited >= self.patience.limit_ns {
                self.give_up();
                continue;
            }
            core::hint::spin_loop();
            self.look(true);
        }
    }
}

const _: () = assert!(DEPTH <= MAX_DEPTH);

#[cfg(test)]
mod tests;
