//! Linux's native asynchronous I/O: reads of a file that the kernel performs while we go on.
//!
//! With direct I/O it is truly that: `io_submit` hands the request to the device's queue and returns. It has been in the
//! kernel since 2.6, so that the boards with the oldest ones (Jetsons: 4.9) have it, which io_uring (5.1) is not; and
//! it needs no memory but a page or two of the kernel's making, with its answers.
//!
//! Whatever it refuses is read when it is waited for instead: a system without it (`ENOSYS`), one whose requests are all
//! taken (`EAGAIN`, `fs.aio-max-nr`), a file system that does not have it (`EINVAL`). A read that was short or
//! interrupted is finished then in the same way, so that all errors are those of [`read_exact`].
#![allow(unsafe_code)]

use super::fd::{Fd, errno};
use super::queue::MAX_DEPTH;
use super::{StorageError, read_exact};
use crate::device::futex::Spin;
use core::ffi::{c_long, c_ulong};
use core::ptr::{null_mut, slice_from_raw_parts_mut};

/// Requests of one file.
#[derive(Debug)]
pub(super) struct Requests {
    /// The kernel's name for them; 0 if it has none.
    context: c_ulong,
    slots: [Slot; MAX_DEPTH],
}

/// A request, and where its bytes go.
#[derive(Clone, Copy, Debug)]
struct Slot {
    state: State,
    offset: u64,
    into: *mut [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// The kernel has it.
    Flying,
    /// The kernel does not: what its attempt came to, if there was one.
    Landed(Option<Result<usize, i32>>),
}

// SAFETY: the context is the process's, not a thread's; the addresses are only used while whoever submitted them has promised
// that they are free to be written, on whatever thread.
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

impl Requests {
    /// Asks the kernel for room for requests, and does without where it has none.
    pub fn new() -> Self {
        let mut context: c_ulong = 0;
        // SAFETY: the call writes the context, which was 0 as it wants it, if it succeeds.
        let status =
            unsafe { libc::syscall(libc::SYS_io_setup, MAX_DEPTH as c_ulong, &raw mut context) };
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
        let none = Slot { state: State::Free, offset: 0, into };
        Self { context: 0, slots: [none; MAX_DEPTH] }
    }

    /// Whether the kernel takes requests at all.
    pub fn taken(&self) -> bool {
        self.context != 0
    }

    /// Begins a read, and returns its number. An error where all are under way.
    ///
    /// # Safety
    /// As of [`ReadQueue::submit`](super::ReadQueue::submit).
    pub unsafe fn submit(
        &mut self,
        fd: &Fd,
        offset: u64,
        into: *mut [u8],
    ) -> Result<usize, StorageError> {
        let free = self.slots.iter_mut().enumerate().find(|(_, slot)| slot.state == State::Free);
        let Some((number, slot)) = free else {
            return Err(StorageError::Io { errno: libc::EAGAIN, offset });
        };
        *slot = Slot { state: State::Landed(None), offset, into };
        let (Ok(fd), Ok(at)) = (u32::try_from(fd.raw()), i64::try_from(offset)) else {
            return Ok(number);
        };
        if self.context == 0 {
            return Ok(number);
        }
        let mut request = Iocb {
            data: number as u64,
            opcode: PREAD,
            fd,
            buffer: into.cast::<u8>().expose_provenance() as u64,
            bytes: into.len() as u64,
            offset: at,
            ..Iocb::default()
        };
        let mut list = [&raw mut request];
        // SAFETY: one valid request, of which the kernel keeps nothing but what it says; the bytes are the device's by
        // the caller's promise.
        let count = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, 1 as c_long, list.as_mut_ptr())
        };
        if count == 1 {
            slot.state = State::Flying;
        }
        Ok(number)
    }

    /// Whether the kernel has it.
    fn is_flying(&self, number: usize) -> bool {
        self.slots.get(number).is_some_and(|slot| slot.state == State::Flying)
    }

    /// Whether the kernel has done all of a read.
    pub fn arrived(&mut self, number: usize) -> bool {
        if self.is_flying(number) {
            self.collect(0);
        }
        let done = |slot: &Slot| slot.state == State::Landed(Some(Ok(slot.into.len())));
        self.slots.get(number).is_some_and(done)
    }

    /// Returns when a read is done: the kernel's attempt, and what that has left. Of a number that was not submitted:
    /// nothing to do. Asks for it over and over for so long, and then sleeps.
    pub fn wait(
        &mut self,
        fd: &Fd,
        number: usize,
        alignment: u64,
        spin_ns: u64,
    ) -> Result<(), StorageError> {
        let mut spin = Spin::new();
        while self.is_flying(number) {
            self.collect(if spin.goes_on(spin_ns) { 0 } else { 1 });
        }
        let Some(slot) = self.slots.get_mut(number) else { return Ok(()) };
        let State::Landed(mut attempt) = slot.state else { return Ok(()) };
        slot.state = State::Free;
        if attempt == Some(Ok(slot.into.len())) {
            return Ok(());
        }
        // SAFETY: the kernel is done with the bytes, which by the promise to `submit` nobody else touches yet.
        let into = unsafe { &mut *slot.into };
        read_exact(slot.offset, into, alignment, |at, into| match attempt.take() {
            Some(result) => result,
            None => fd.pread(at, into),
        })
    }

    /// Takes answers, of which it waits for so many.
    fn collect(&mut self, least: c_long) {
        let mut answers = [Answer::default(); MAX_DEPTH];
        // SAFETY: room for as many answers as are asked for; no timeout.
        let count = unsafe {
            let most = MAX_DEPTH as c_long;
            let (room, timeout) = (answers.as_mut_ptr(), null_mut::<libc::timespec>());
            libc::syscall(libc::SYS_io_getevents, self.context, least, most, room, timeout)
        };
        let Ok(count) = usize::try_from(count) else {
            if errno() != libc::EINTR {
                // That cannot be: but the bytes must not be given back while they may be written.
                self.close();
            }
            return;
        };
        for answer in answers.iter().take(count) {
            let slot = usize::try_from(answer.data).ok().and_then(|at| self.slots.get_mut(at));
            if let Some(slot) = slot {
                let errno = || i32::try_from(answer.result.wrapping_neg()).unwrap_or(libc::EIO);
                slot.state =
                    State::Landed(Some(usize::try_from(answer.result).map_err(|_| errno())));
            }
        }
    }

    /// Gives the kernel's part up, which waits for what is under way: whatever that was is attempted anew.
    fn close(&mut self) {
        if self.context != 0 {
            // SAFETY: a context that the kernel has made, used by nobody after this.
            unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        }
        self.context = 0;
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Flying) {
            slot.state = State::Landed(None);
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.close();
    }
}
