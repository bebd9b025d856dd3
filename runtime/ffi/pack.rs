//! Facts of a pack that are known before there is memory for it.

use super::choose::needs;
use super::error::Error;
#[cfg(all(feature = "linux", target_os = "linux"))]
use super::error::{Kind as _, argument};
use super::given;
use super::open::RECORD;
use super::refused::Refused;
#[cfg(all(feature = "linux", target_os = "linux"))]
use super::source::Kind;
use super::source::{Opened, Source};
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::arena::MappedArena;
use crate::executor::{OpenError, Room};
use crate::pack::PAGE;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::storage::residency::PageCache;
#[cfg(all(feature = "linux", target_os = "linux"))]
use core::ffi::{CStr, c_void};

/// Counts changes of the interface after which a program must be compiled again.
const VERSION: u32 = 4;

/// Bytes of memory that [`eyelet_open`](super::open::eyelet_open) needs, or 0 and an error.
///
/// # Safety
/// As the header says: pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_arena_bytes(
    source: *const Source,
    budget: u64,
    threads: u32,
    error: *mut Error,
) -> u64 {
    // SAFETY: the caller's promises.
    let needed = unsafe { needed(source, budget, threads) }.and_then(|Room { arena, .. }| {
        let bytes = arena.checked_add(RECORD);
        let whole = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        whole.ok_or(OpenError::Budget { arena: budget, smallest: arena }.into())
    });
    match needed {
        Ok(bytes) => bytes,
        Err(why) => {
            // SAFETY: likewise.
            unsafe { why.tell(error) };
            0
        }
    }
}

/// Bytes of fast memory that [`eyelet_open`](super::open::eyelet_open) needs, or -1 and an error.
///
/// # Safety
/// As the header says: pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_fast_bytes(
    source: *const Source,
    budget: u64,
    threads: u32,
    error: *mut Error,
) -> i64 {
    // SAFETY: the caller's promises.
    match unsafe { needed(source, budget, threads) } {
        Ok(Room { fast, .. }) => i64::try_from(fast).unwrap_or(i64::MAX),
        Err(why) => {
            // SAFETY: likewise.
            unsafe { why.tell(error) };
            -1
        }
    }
}

/// The memory of the plan that would be opened.
///
/// # Safety
/// The source is null or valid.
unsafe fn needed(source: *const Source, budget: u64, threads: u32) -> Result<Room, Refused> {
    // SAFETY: the caller's promise.
    let source = unsafe { given(source) }.ok_or(Refused::Argument("the source is missing"))?;
    // SAFETY: likewise.
    let mut storage = unsafe { Opened::open(&source.for_header()) }.map_err(Refused::Source)?;
    let budget = if budget == 0 { u64::MAX } else { budget };
    Ok(needs(&mut storage, budget, threads)?)
}

/// Maps memory for an arena, or returns null and an error.
///
/// # Safety
/// As the header says.
#[cfg(all(feature = "linux", target_os = "linux"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_map(bytes: u64, error: *mut Error) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe {
        match MappedArena::new(usize::try_from(bytes).unwrap_or(usize::MAX)) {
            Ok(arena) => arena.into_raw().0.as_ptr().cast(),
            Err(why) => {
                why.failure().tell(error);
                core::ptr::null_mut()
            }
        }
    }
}

/// Unmaps it.
///
/// # Safety
/// `arena` is null, or from [`eyelet_map`] for `bytes` bytes, and nothing uses it any more.
#[cfg(all(feature = "linux", target_os = "linux"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_unmap(arena: *mut c_void, bytes: u64) {
    if let Some(start) = core::ptr::NonNull::new(arena.cast())
        && let Ok(bytes) = usize::try_from(bytes)
    {
        // SAFETY: the caller's promise.
        drop(unsafe { MappedArena::from_raw(start, bytes) });
    }
}

/// Bytes of a source's file that are in the page cache, or -1 and an error. If the file is read
/// directly, after an inference: the bytes that others had left there and that were dropped. It is
/// an error if they stay, or if reads bring them back.
///
/// # Safety
/// As the header says: pointers are null or valid.
#[cfg(all(feature = "linux", target_os = "linux"))]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_page_cache(source: *const Source, error: *mut Error) -> i64 {
    // SAFETY: the caller's promises, here and for all pointers.
    unsafe {
        let direct = Kind::Direct as u32;
        let is_file = |kind| [direct, Kind::Buffered as u32, Kind::Mapped as u32].contains(&kind);
        let found = match given(source) {
            Some(source) if is_file(source.kind) && !source.path.is_null() => {
                let path = CStr::from_ptr(source.path);
                match source.kind == direct {
                    true => PageCache::open_direct(path).and_then(|cache| cache.keep_out(u64::MAX)),
                    false => PageCache::open(path).and_then(|cache| cache.count(u64::MAX)),
                }
            }
            _ => {
                argument("the source is no file with a path").tell(error);
                return -1;
            }
        };
        match found {
            Ok(found) => i64::try_from(found.bytes()).unwrap_or(i64::MAX),
            Err(why) => {
                why.failure().tell(error);
                -1
            }
        }
    }
}

/// The interface's version, which a program may compare with that of the header that it was
/// compiled with.
#[unsafe(no_mangle)]
pub extern "C" fn eyelet_version() -> u32 {
    VERSION
}
