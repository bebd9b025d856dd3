//! The memory that driver and device share: descriptors, and two rings of their numbers.
//!
//! Each read has three descriptors of its own, one after the other: what is asked for, where the
//! bytes go, and where the device says how it went.

use core::cell::UnsafeCell;
use core::sync::atomic::{Ordering, fence};

/// Reads at once.
pub const DEPTH: usize = 8;

const EACH: usize = 3;

/// Another descriptor follows.
const NEXT: u16 = 1;
/// The device writes there.
const WRITE: u16 = 2;

/// The device need not interrupt.
const NO_INTERRUPT: u16 = 1;

/// What the device has not written to.
const UNTOUCHED: u8 = 0xff;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Descriptor {
    address: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

/// What is asked for: by its kind, 0 to read, and a sector.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    kind: u32,
    reserved: u32,
    sector: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    id: u32,
    bytes: u32,
}

#[repr(C)]
struct Offered {
    flags: u16,
    count: u16,
    ring: [u16; Rings::SIZE],
    event: u16,
}

#[repr(C, align(4))]
struct Done {
    flags: u16,
    count: u16,
    ring: [Used; Rings::SIZE],
    event: u16,
}

#[repr(C, align(64))]
struct Shared {
    table: [Descriptor; Rings::SIZE],
    offered: Offered,
    done: Done,
    requests: [Request; DEPTH],
    statuses: [u8; DEPTH],
}

/// The memory, and how far its driver has looked.
pub struct Rings {
    /// The device writes to it, whatever Rust knows.
    shared: UnsafeCell<Shared>,
    /// Answers that have been looked at.
    seen: u16,
}

impl core::fmt::Debug for Rings {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rings").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Default for Rings {
    fn default() -> Self {
        Self::new()
    }
}

impl Rings {
    /// Entries of each ring, a power of two.
    pub const SIZE: usize = (DEPTH * EACH).next_power_of_two();

    /// Empty rings.
    pub const fn new() -> Self {
        const DESCRIPTOR: Descriptor = Descriptor { address: 0, bytes: 0, flags: 0, next: 0 };
        const REQUEST: Request = Request { kind: 0, reserved: 0, sector: 0 };
        const USED: Used = Used { id: 0, bytes: 0 };
        let shared = Shared {
            table: [DESCRIPTOR; Self::SIZE],
            offered: Offered { flags: NO_INTERRUPT, count: 0, ring: [0; Self::SIZE], event: 0 },
            done: Done { flags: 0, count: 0, ring: [USED; Self::SIZE], event: 0 },
            requests: [REQUEST; DEPTH],
            statuses: [UNTOUCHED; DEPTH],
        };
        Self { shared: UnsafeCell::new(shared), seen: 0 }
    }

    /// Empties the rings, which no device uses, and returns where the descriptors, what is offered
    /// and what is done lie.
    pub(super) fn clear(&mut self) -> [u64; 3] {
        *self = Self::new();
        let shared = self.shared.get();
        // SAFETY: addresses of fields are taken, and nothing is read.
        unsafe {
            [
                (&raw mut (*shared).table) as u64,
                (&raw mut (*shared).offered) as u64,
                (&raw mut (*shared).done) as u64,
            ]
        }
    }

    /// Offers the device a read from this sector on. `number` is below [`DEPTH`], and no read of
    /// that number is the device's.
    pub(super) fn offer(&mut self, number: usize, sector: u64, into: *mut [u8]) {
        let shared = self.shared.get();
        let first = number * EACH;
        let link = |address: u64, bytes: usize, flags: u16, next: usize| Descriptor {
            address,
            bytes: bytes as u32,
            flags,
            next: next as u16,
        };
        // SAFETY: fields of this value, which the device does not use before the count says so, or
        // not any more. It may read the count at any time, hence volatile.
        unsafe {
            let request = &raw mut (*shared).requests[number];
            let status = &raw mut (*shared).statuses[number];
            request.write_volatile(Request { kind: 0, reserved: 0, sector });
            status.write_volatile(UNTOUCHED);
            let links = [
                link(request as u64, size_of::<Request>(), NEXT, first + 1),
                link(into.cast::<u8>() as u64, into.len(), NEXT | WRITE, first + 2),
                link(status as u64, 1, WRITE, 0),
            ];
            for (at, link) in links.into_iter().enumerate() {
                (&raw mut (*shared).table[first + at]).write_volatile(link);
            }
            let count = (&raw const (*shared).offered.count).read_volatile();
            let slot = usize::from(count) % Self::SIZE;
            (&raw mut (*shared).offered.ring[slot]).write_volatile(first as u16);
            fence(Ordering::SeqCst);
            (&raw mut (*shared).offered.count).write_volatile(count.wrapping_add(1));
        }
    }

    /// The next read that the device has done, and its status, which is 0 where it went well.
    pub(super) fn done(&mut self) -> Option<(usize, u8)> {
        let shared = self.shared.get();
        // SAFETY: fields of this value. The device writes the count last, and what it counts before
        // that, hence volatile, and in this order.
        unsafe {
            if (&raw const (*shared).done.count).read_volatile() == self.seen {
                return None;
            }
            fence(Ordering::SeqCst);
            let slot = usize::from(self.seen) % Self::SIZE;
            let used = (&raw const (*shared).done.ring[slot]).read_volatile();
            self.seen = self.seen.wrapping_add(1);
            // One of no read that was offered is nobody's.
            let number = (used.id as usize / EACH).min(DEPTH - 1);
            Some((number, (&raw const (*shared).statuses[number]).read_volatile()))
        }
    }
}
