//! What the page cache holds of the pack that is run, whatever becomes of its name meanwhile.

use crate::cli::Error;
use eyelet::storage::StorageError;
use eyelet::storage::residency::PageCache;
use eyelet_planner::source::{Io, Source};
use std::path::Path;

/// The page cache's share of a pack, if that can be asked about.
pub struct Cache {
    cache: Option<PageCache>,
    direct: bool,
    /// Of the pack.
    bytes: u64,
}

impl Cache {
    /// Of a pack that is read so.
    pub fn of(storage: &Source, io: Io) -> Self {
        Self { cache: storage.page_cache().ok(), direct: io == Io::Direct, bytes: u64::MAX }
    }

    /// What a copy or a download has left there of a pack that is read directly is none of this run's.
    pub fn clear(&self) {
        if let (true, Some(cache)) = (self.direct, &self.cache) {
            let _ = cache.forget();
        }
    }

    /// Says how long the pack is; what it lies in may be longer.
    pub fn expect(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Sees to it, after an inference, that direct reads leave nothing there: an error if they do. Where that cannot be found
    /// out, it is not.
    pub fn prove(&self, path: &Path) -> Result<(), Error> {
        let Some(cache) = self.cache.as_ref().filter(|_| self.direct) else { return Ok(()) };
        match cache.keep_out(self.bytes) {
            Err(error @ StorageError::StaysCached { .. }) => Err(Error::pack(path, error.into())),
            _ => Ok(()),
        }
    }

    /// Bytes there; `None` if that is unknown.
    pub fn held(&self) -> Option<u64> {
        Some(self.cache.as_ref()?.count(self.bytes).ok()?.bytes())
    }
}
