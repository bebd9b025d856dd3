//! The device that computes, in a record of the caller's memory.

use super::refused::Refused;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::device::workers::{MAX_THREADS, Pool, Workers};
use core::mem::MaybeUninit;

/// The device that computes.
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(super) type Computer = Workers<'static>;
/// The device that computes.
#[cfg(not(all(feature = "linux", target_os = "linux")))]
pub(super) type Computer = crate::device::Inline;

/// The part of a record that computes: threads, where there are any. It never moves.
#[derive(Debug)]
pub(super) struct Engine {
    device: MaybeUninit<Computer>,
    #[cfg(all(feature = "linux", target_os = "linux"))]
    pool: MaybeUninit<Pool>,
}

#[cfg(all(feature = "linux", target_os = "linux"))]
pub(super) type Cores = heapless::Vec<usize, MAX_THREADS>;
#[cfg(not(all(feature = "linux", target_os = "linux")))]
pub(super) type Cores = heapless::Vec<usize, 1>;

/// The cores that the caller names for `asked` threads, if any.
///
/// # Safety
/// `named` is null, or `asked` numbers.
pub(super) unsafe fn cores(named: *const u32, asked: u32) -> Result<Option<Cores>, Refused> {
    if named.is_null() {
        return Ok(None);
    }
    if asked == 0 {
        return Err(Refused::Argument("cores are named for no number of threads: say how many"));
    }
    // SAFETY: not null, and `asked` numbers by the caller's promise.
    let named = unsafe { core::slice::from_raw_parts(named, asked as usize) };
    // More than there can be are refused when they are started.
    Ok(Some(named.iter().map(|core| *core as usize).take(Cores::new().capacity()).collect()))
}

impl Engine {
    /// Puts what computes into a record.
    ///
    /// # Safety
    /// The record does not move, and its bytes are not used for anything else until
    /// [`end`](Self::end). `engine` is valid for writes.
    #[cfg(all(feature = "linux", target_os = "linux"))]
    pub unsafe fn start(
        engine: *mut Self,
        threads: u32,
        cores: Option<&[usize]>,
    ) -> Result<(), Refused> {
        // SAFETY: the pool is written before it is referred to, and `end` drops the device, whose
        // threads refer to it too, before the record is used for anything else.
        unsafe {
            let pool = (&raw mut (*engine).pool).cast::<Pool>();
            pool.write(Pool::new());
            let pool: &'static Pool = &*pool;
            let workers = pool.start(threads as usize, cores).map_err(Refused::Threads)?;
            (&raw mut (*engine).device).cast::<Computer>().write(workers);
        }
        Ok(())
    }

    /// Puts what computes into a record.
    ///
    /// # Safety
    /// `engine` is valid for writes.
    #[cfg(not(all(feature = "linux", target_os = "linux")))]
    pub unsafe fn start(
        engine: *mut Self,
        threads: u32,
        cores: Option<&[usize]>,
    ) -> Result<(), Refused> {
        if threads != 1 || cores.is_some() {
            return Err(Refused::Argument("this build has no threads: ask for one, or none"));
        }
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*engine).device).cast::<Computer>().write(crate::device::Inline) };
        Ok(())
    }

    /// The device that computes.
    ///
    /// # Safety
    /// It was [started](Self::start) and has not ended. It does not end before `'a` does.
    pub unsafe fn device<'a>(engine: *const Self) -> &'a Computer {
        // SAFETY: `start` has written it; it is only read until it ends.
        unsafe { &*(&raw const (*engine).device).cast::<Computer>() }
    }

    /// Ends its threads.
    ///
    /// # Safety
    /// It was [started](Self::start), and nothing refers to it any more.
    pub unsafe fn end(engine: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe { (&raw mut (*engine).device).cast::<Computer>().drop_in_place() };
    }
}
