//! Whether direct reads of a file go through the page cache all the same.
//!
//! That is tried out: pages are read, and the cache is asked whether they are there. Others may
//! read the file at the same time and leave pages there, too. So a file is refused only for what
//! happens in every one of several trials, between which there are longer and longer pauses.
#![allow(unsafe_code)]

use super::StorageError;
use super::fd::Fd;
use super::residency::{Cached, PageCache, forget, is_cached, leaves_page};
use crate::pack::PAGE;
use crate::sys::discard::discard;
use crate::sys::page_bytes;

/// How often a page is tried before the file is refused for it.
const TRIALS: u32 = 7;

/// A file, pages of which may be in the page cache.
pub(super) trait CachedFile {
    fn len(&self) -> Result<u64, StorageError>;
    /// Whether the page at `offset` is in the cache; an error if that cannot be known.
    fn is_cached(&self, offset: u64) -> Result<bool, StorageError>;
    /// Reads the page directly. Returns whether it is in the cache then.
    fn leaves_page(&self, offset: u64) -> Result<bool, StorageError>;
    /// Asks the cache to forget the file. Pages that are mapped, or dirty, stay.
    fn forget(&self);
    /// Writes back all that is dirty. (An overlay does not pass on that a file below it is to be
    /// written.)
    fn write_back(&self);
    /// Waits before the next of the trials.
    fn pause(&self, trial: u32);
}

/// Whether direct reads leave pages in the cache, by pages at the file's start, middle and end.
/// Where the file is `suspected` of it, a page that the cache does not forget is proof, too; of
/// others somebody may have a map.
pub(super) fn goes_through_cache(
    file: &impl CachedFile,
    suspected: bool,
) -> Result<bool, StorageError> {
    let len = file.len()?;
    for offset in [0, len / 2, len.saturating_sub(PAGE)].map(|offset| offset / PAGE * PAGE) {
        // Reads cannot be judged by what cannot be known.
        let Ok(cached) = file.is_cached(offset) else { return Ok(false) };
        if cached {
            file.forget();
            if file.is_cached(offset)? {
                if suspected && stays_each_time(file, offset)? {
                    return Ok(true);
                }
                continue;
            }
        }
        if leaves_page_each_time(file, offset)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a direct read leaves a copy of a page in the cache in each trial.
fn leaves_page_each_time(file: &impl CachedFile, offset: u64) -> Result<bool, StorageError> {
    for trial in 0..TRIALS {
        if !file.leaves_page(offset)? {
            return Ok(false);
        }
        file.pause(trial);
        file.forget();
        if file.is_cached(offset)? {
            // Somebody keeps it there. That says nothing about direct reads.
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the cache keeps a page that it is asked to forget in each trial, even if all that is
/// dirty is written.
fn stays_each_time(file: &impl CachedFile, offset: u64) -> Result<bool, StorageError> {
    file.write_back();
    for trial in 0..TRIALS {
        file.forget();
        if !file.is_cached(offset)? {
            return Ok(false);
        }
        file.pause(trial);
    }
    Ok(true)
}

impl PageCache {
    /// Drops what others have left in the cache of the first `bytes` of a file that is read
    /// directly, and returns what was there. Call it after some of the file has been read. It is an
    /// error if pages stay, or if direct reads bring them back.
    pub fn keep_out(&self, bytes: u64) -> Result<Cached, StorageError> {
        let found = self.count(bytes)?;
        if found.pages == 0 {
            return Ok(found);
        }
        self.forget()?;
        let left = self.count(bytes)?;
        let page = found.first * page_bytes() as u64;
        match left.pages {
            0 if !leaves_page_each_time(&self.fd, page)? => Ok(found),
            // Whatever it was brings back as much.
            0 => Err(StorageError::StaysCached { pages: found.pages, of_pages: found.of_pages }),
            pages => Err(StorageError::StaysCached { pages, of_pages: left.of_pages }),
        }
    }
}

impl CachedFile for Fd {
    fn len(&self) -> Result<u64, StorageError> {
        Fd::len(self)
    }

    fn is_cached(&self, offset: u64) -> Result<bool, StorageError> {
        is_cached(self, offset)
    }

    fn leaves_page(&self, offset: u64) -> Result<bool, StorageError> {
        leaves_page(self, offset)
    }

    fn forget(&self) {
        discard(forget(self), "whoever has the cache forget a file asks what stays");
    }

    fn write_back(&self) {
        // SAFETY: a call without arguments.
        unsafe { libc::sync() };
    }

    /// From 1 ms on, twice as long each time: what somebody else's read brings into the cache ahead
    /// of it comes to an end.
    fn pause(&self, trial: u32) {
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 << trial.min(9) };
        // SAFETY: it reads its first argument, and the second may be null.
        unsafe { libc::nanosleep(&raw const pause, core::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    /// A file of one page.
    #[derive(Default)]
    struct File {
        /// Whether its direct reads go through the cache.
        through_cache: bool,
        /// Whether the cache forgets the page; not if somebody has a map of it.
        kept: bool,
        /// The numbers of the calls, from zero on, before which somebody reads it by the cache.
        read_by_others: std::vec::Vec<u32>,
        cached: Cell<bool>,
        calls: Cell<u32>,
    }

    impl File {
        /// The action of others before a call.
        fn called(&self) {
            if self.read_by_others.contains(&self.calls.get()) {
                self.cached.set(true);
            }
            self.calls.set(self.calls.get() + 1);
        }
    }

    impl CachedFile for File {
        fn len(&self) -> Result<u64, StorageError> {
            Ok(PAGE)
        }

        fn is_cached(&self, _: u64) -> Result<bool, StorageError> {
            self.called();
            Ok(self.cached.get())
        }

        fn leaves_page(&self, _: u64) -> Result<bool, StorageError> {
            if self.through_cache {
                self.cached.set(true);
            }
            self.called();
            Ok(self.cached.get())
        }

        fn forget(&self) {
            if !self.kept {
                self.cached.set(false);
            }
        }

        fn write_back(&self) {}

        fn pause(&self, _: u32) {}
    }

    fn goes(file: &File, suspected: bool) -> bool {
        goes_through_cache(file, suspected).unwrap()
    }

    #[test]
    fn reads_that_leave_pages_are_found() {
        for (through_cache, cached) in [(false, false), (false, true), (true, false), (true, true)]
        {
            for suspected in [false, true] {
                let cached = Cell::new(cached);
                let file = File { through_cache, cached, ..File::default() };
                assert_eq!(goes(&file, suspected), through_cache);
            }
        }
    }

    /// Every way in which others read the file before some of the first calls. They leave at least
    /// one trial alone.
    #[test]
    fn others_may_read_the_file_by_the_cache() {
        for (suspected, calls) in [(false, 2 * TRIALS - 2), (true, TRIALS + 1)] {
            for reads in 0u32..1 << calls {
                let read_by_others = (0..calls).filter(|call| reads >> call & 1 == 1).collect();
                let file = File { read_by_others, ..File::default() };
                assert!(!goes(&file, suspected), "before the calls {:?}", file.read_by_others);
            }
        }
    }

    #[test]
    fn a_page_that_stays_is_proof_only_of_what_is_suspected() {
        for suspected in [false, true] {
            let file = File { kept: true, cached: Cell::new(true), ..File::default() };
            assert_eq!(goes(&file, suspected), suspected);
        }
    }
}
