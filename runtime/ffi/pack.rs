//! What can be known of a pack before there is memory for it.

use super::choose::arena_bytes;
use super::error::{Error, Kind as _, argument};
use super::given;
use super::open::RECORD;
#[cfg(all(feature = "linux", target_os = "linux"))]
use super::source::Kind;
use super::source::{Opened, Source};
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::arena::MappedArena;
use crate::executor::OpenError;
use crate::pack::PAGE;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::storage::residency::PageCache;
#[cfg(all(feature = "linux", target_os = "linux"))]
use core::ffi::{CStr, c_void};

/// Counts changes of the interface after which a program must be compiled again.
const VERSION: u32 = 3;

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
    // SAFETY: the caller's promises, here and for all pointers.
    unsafe {
        let Some(source) = given(source) else {
            argument("the source is missing").tell(error);
            return 0;
        };
        let mut storage = match Opened::open(&source.for_header()) {
            Ok(storage) => storage,
            Err(why) => {
                why.tell(error);
                return 0;
            }
        };
        let budget = if budget == 0 { u64::MAX } else { budget };
        let needed = arena_bytes(&mut storage, budget, threads).and_then(|smallest| {
            let bytes = smallest.checked_add(RECORD);
            let whole = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
            whole.ok_or(OpenError::Budget { arena: budget, smallest })
        });
        match needed {
            Ok(bytes) => bytes,
            Err(why) => {
                why.failure().tell(error);
                0
            }
        }
    }
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
/// `arena` is null, or from [`eyelet_map`] for as many bytes, and nothing uses it any more.
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

/// Bytes of a source's file that are in the page cache, or -1 and an error. Of one that is read
/// directly, after an inference: those that others had left there and that were dropped, an error
/// if they stay or if reads bring them back.
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
