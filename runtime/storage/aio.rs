//! Linux's native asynchronous I/O: reads of a file that the kernel performs while we go on.
//!
//! With direct I/O it is truly that: `io_submit` hands the request to the device's queue and
//! returns. It has been in the kernel since 2.6, so that the boards with the oldest ones (Jetsons:
//! 4.9) have it, which io_uring (5.1) is not; and it needs no memory but a page or two of the
//! kernel's making, with its answers.
//!
//! The kernel is given reads in pieces of up to [`PIECE`] bytes, [`PIECES`] of them at a time, in
//! the order in which they were begun: the next when one is done, whatever reads they belong to. So
//! the device is busy between large reads, too, none of them takes from those before it, and a
//! processor's cache still has what is verified (an eighth to a fifth more comes in the same time
//! than by reads of 3 MiB, one after the other).
//!
//! Whatever it refuses is read when it is waited for instead: a system without it (`ENOSYS`), one
//! whose requests are all taken (`EAGAIN`, `fs.aio-max-nr`), a file system that does not have it
//! (`EINVAL`). So is a read of which a piece was short or interrupted, so that all errors are those
//! of [`read_exact`].
#![allow(unsafe_code)]

use super::fd::Fd;
use super::queue::MAX_DEPTH;
use super::{StorageError, read_exact};
use crate::sys::{errno, spin::Spin};
use core::ffi::{c_long, c_ulong};
use core::ptr::{null_mut, slice_from_raw_parts_mut};

/// Bytes that the kernel is given as one request.
pub(super) const PIECE: usize = 512 << 10;

/// Requests that the kernel has at a time.
pub(super) const PIECES: usize = 8;

/// Reads of one file.
#[derive(Debug)]
pub(super) struct Requests {
    /// The kernel's name for them; 0 if it has none.
    context: c_ulong,
    slots: [Slot; MAX_DEPTH],
    /// Pieces that the kernel has.
    flying: usize,
    /// Reads begun so far.
    turn: u64,
}

/// A read, and where its bytes go.
#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    offset: u64,
    into: *mut [u8],
    /// When it was begun, in the order of all.
    turn: u64,
    /// Bytes that the kernel was given.
    given: usize,
    /// Bytes that the kernel has answered for.
    answered: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// The kernel is given it.
    Taken,
    /// The kernel is not, or no more of it: something was refused, short or wrong.
    Left,
}

impl Slot {
    /// Whether the kernel gets no more of it.
    fn is_given(&self) -> bool {
        self.state != State::Taken || self.given == self.into.len()
    }

    /// Whether it has none of it, nor will have.
    fn is_done(&self) -> bool {
        self.is_given() && self.answered == self.given
    }

    /// Whether all of it is there.
    fn is_there(&self) -> bool {
        self.state == State::Taken && self.answered == self.into.len()
    }
}

// SAFETY: the context is the process's, not a thread's; the addresses are only used while whoever
// submitted them has promised that they are free to be written, on whatever thread.
unsafe impl Send for Requests {}

// SAFETY: nothing can be done by a shared reference.
unsafe impl Sync for Requests {}

/// `struct iocb` of the kernel: a request.
#[repr(C)]
#[derive(Default)]
struct Iocb {
    data: u64,
    /// The kernel's own, and flags, in an order that depends on the byte order. Zero.
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// `struct io_event` of the kernel: an answer.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Answer {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

const _: () = {
    assert!(size_of::<Iocb>() == 64 && core::mem::offset_of!(Iocb, buffer) == 24);
    assert!(size_of::<Answer>() == 32);
};

/// `IOCB_CMD_PREAD`.
const PREAD: u16 = 0;

/// Bits of what a request is known by that say which read it belongs to; the others, its bytes.
const NUMBER_BITS: u32 = 8;
const _: () = assert!(MAX_DEPTH < 1 << NUMBER_BITS && PIECE < 1 << (32 - NUMBER_BITS));

impl Requests {
    /// Asks the kernel for room for requests, and does without where it has none.
    pub fn new() -> Self {
        let mut context: c_ulong = 0;
        // SAFETY: the call writes the context, which was 0 as it wants it, if it succeeds.
        let status =
            unsafe { libc::syscall(libc::SYS_io_setup, PIECES as c_ulong, &raw mut context) };
        if status != 0 {
            let errno = errno();
            log::info!(
                "no asynchronous reads (io_setup: system error {errno}): one read at a time"
            );
            return Self::refused();
        }
        Self { context, ..Self::refused() }
    }

    /// None that the kernel takes.
    pub fn refused() -> Self {
        let into = slice_from_raw_parts_mut(null_mut(), 0);
        let (state, offset, turn) = (State::Free, 0, 0);
        let none = Slot { state, offset, into, turn, given: 0, answered: 0 };
        Self { context: 0, slots: [none; MAX_DEPTH], flying: 0, turn: 0 }
    }

    /// Whether the kernel takes requests at all.
    pub fn taken(&self) -> bool {
        self.context != 0
    }

    /// Begins a read, and returns its number. An error where all are in flight.
    ///
    /// # Safety
    /// As of [`ReadQueue::submit`](super::ReadQueue::submit).
    pub unsafe fn submit(
        &mut self,
        fd: &Fd,
        offset: u64,
        into: *mut [u8],
    ) -> Result<usize, StorageError> {
        let free = self.slots.iter().position(|slot| slot.state == State::Free);
        let Some((number, slot)) = free.and_then(|at| Some((at, self.slots.get_mut(at)?))) else {
            return Err(StorageError::Io { errno: libc::EAGAIN, offset });
        };
        let turn = self.turn;
        *slot = Slot { state: State::Taken, offset, into, turn, given: 0, answered: 0 };
        self.turn += 1;
        self.give(fd);
        Ok(number)
    }

    /// Submits the next pieces, up to the bytes that the kernel should have in flight. Each piece
    /// is a call of its own, since the kernel would join pieces of one call. A piece that an idle
    /// kernel refuses is not submitted again.
    fn give(&mut self, fd: &Fd) {
        while self.flying < PIECES {
            let slots = self.slots.iter_mut().enumerate();
            let waiting = slots.filter(|(_, slot)| !slot.is_given());
            let Some((number, slot)) = waiting.min_by_key(|(_, slot)| slot.turn) else { break };
            let bytes = (slot.into.len() - slot.given).min(PIECE);
            let at = i64::try_from(slot.offset.saturating_add(slot.given as u64));
            let (Ok(fd), Ok(offset), true) = (u32::try_from(fd.raw()), at, self.context != 0)
            else {
                slot.state = State::Left;
                continue;
            };
            let mut request = Iocb {
                data: number as u64 | (bytes as u64) << NUMBER_BITS,
                opcode: PREAD,
                fd,
                buffer: slot.into.cast::<u8>().wrapping_add(slot.given).expose_provenance() as u64,
                bytes: bytes as u64,
                offset,
                ..Iocb::default()
            };
            let mut list = [&raw mut request];
            // SAFETY: one valid request, of which the kernel keeps nothing but what it says; the
            // bytes are the device's by the promise of who submitted them.
            let count = unsafe {
                libc::syscall(libc::SYS_io_submit, self.context, 1 as c_long, list.as_mut_ptr())
            };
            if count == 1 {
                slot.given += bytes;
                self.flying += 1;
            } else if self.flying == 0 {
                slot.state = State::Left;
            } else {
                break;
            }
        }
    }

    /// Whether the kernel has none of a read, nor will have.
    fn is_done(&self, number: usize) -> bool {
        self.slots.get(number).is_none_or(Slot::is_done)
    }

    /// Whether the kernel is done with a read. A read that it has refused or ended early counts, too, since it would
    /// never arrive. [`wait`](Self::wait) then reads the rest, or says why not.
    pub fn arrived(&mut self, fd: &Fd, number: usize) -> bool {
        if !self.is_done(number) {
            self.collect(0);
            self.give(fd);
        }
        self.is_done(number)
    }

    /// Returns when a read is done: by the kernel, or here. A number that was not submitted needs
    /// nothing. Polls for each answer for `spin_ns`, and then sleeps.
    pub fn wait(
        &mut self,
        fd: &Fd,
        number: usize,
        alignment: u64,
        spin_ns: u64,
    ) -> Result<(), StorageError> {
        let mut spin = Spin::new();
        while !self.is_done(number) {
            if self.collect(if spin.goes_on(spin_ns) { 0 } else { 1 }) > 0 {
                spin = Spin::new();
            }
            self.give(fd);
        }
        let Some(slot) = self.slots.get_mut(number) else { return Ok(()) };
        let there = slot.is_there() || slot.state == State::Free;
        slot.state = State::Free;
        if there {
            return Ok(());
        }
        // SAFETY: the kernel is done with the bytes, which by the promise to `submit` nobody else
        // touches yet.
        let into = unsafe { &mut *slot.into };
        read_exact(slot.offset, into, alignment, |at, into| fd.pread(at, into))
    }

    /// Takes answers, and returns their number. Waits for `least` of them if any are due.
    fn collect(&mut self, least: c_long) -> usize {
        if self.flying == 0 {
            return 0;
        }
        let mut answers = [Answer::default(); PIECES];
        // SAFETY: there is room for all answers that are asked for; there is no timeout.
        let count = unsafe {
            let most = PIECES as c_long;
            let (room, timeout) = (answers.as_mut_ptr(), null_mut::<libc::timespec>());
            libc::syscall(libc::SYS_io_getevents, self.context, least, most, room, timeout)
        };
        let Ok(count) = usize::try_from(count) else {
            if errno() != libc::EINTR {
                // That cannot be: but the bytes must not be given back while they may be written.
                self.close();
            }
            return 0;
        };
        for answer in answers.iter().take(count) {
            self.flying = self.flying.saturating_sub(1);
            let bytes = answer.data >> NUMBER_BITS;
            let number = answer.data as usize & ((1 << NUMBER_BITS) - 1);
            if let Some(slot) = self.slots.get_mut(number) {
                slot.answered += bytes as usize;
                if u64::try_from(answer.result) != Ok(bytes) {
                    slot.state = State::Left;
                }
            }
        }
        count
    }

    /// Gives the kernel's part up, which waits for what is in flight: whatever that was is
    /// attempted anew.
    fn close(&mut self) {
        if self.context != 0 {
            // SAFETY: a context that the kernel has made, used by nobody after this.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        }
        (self.context, self.flying) = (0, 0);
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_there()) {
            slot.answered = slot.given;
            if slot.state == State::Taken {
                slot.state = State::Left;
            }
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.close();
    }
}
