//! Memory of this machine that stands for a board's fast memory.

use crate::cli::Error;
use eyelet::arena::{ArenaMemory, MappedArena};

/// So many bytes, or none.
pub(super) struct FastMemory(Option<MappedArena>);

impl FastMemory {
    pub(super) fn new(bytes: u64) -> Result<Self, Error> {
        Ok(Self((bytes > 0).then(|| MappedArena::new(bytes as usize)).transpose()?))
    }

    pub(super) fn memory(&mut self) -> Option<ArenaMemory<'_>> {
        self.0.as_mut().map(MappedArena::memory)
    }
}

/// The bytes of fast memory; none where there is none.
pub(super) fn bytes<'m>(memory: &'m mut Option<ArenaMemory<'_>>) -> &'m mut [u8] {
    memory.as_mut().map_or(&mut [], ArenaMemory::as_mut_slice)
}
