//! Ways to read a pack, one of which is chosen by an option: what `run` reads by and `profile` measures.

use eyelet::pack::{Header, PAGE};
use eyelet::storage::residency::PageCache;
use eyelet::storage::{
    BufferedFile, DirectFile, MappedFile, Part, Populate, ReadQueue, Slice, Storage, StorageError,
};
use serde::{Deserialize, Serialize};
use std::ffi::CStr;

/// How the pack is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Past the page cache, straight into the arena.
    #[default]
    Direct,
    /// Through the page cache.
    Buffered,
    /// From a map of the whole pack, which is brought into memory first: for comparison, and for packs
    /// that are used where they lie in memory.
    Memory,
}

impl Io {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Io::Direct => "direct",
            Io::Buffered => "buffered",
            Io::Memory => "memory",
        }
    }
}

/// A pack that is read in one of these ways. There is one of it.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub enum Source {
    Direct(DirectFile),
    Buffered(BufferedFile),
    Memory(MappedFile),
    /// A copy of it, which is used where it lies.
    Lent(MappedFile, Slice<'static>),
}

impl Source {
    /// Opens a pack.
    pub fn open(path: &CStr, io: Io) -> Result<Self, StorageError> {
        Self::of(path, io, None)
    }

    /// Opens a pack that is a part of a file, or a file: the first byte of it, and how many there are.
    pub fn open_part(
        path: &CStr,
        io: Io,
        part: Option<(u64, u64)>,
    ) -> Result<Part<Self>, StorageError> {
        let source = Self::of(path, io, part)?;
        // A copy contains nothing but the part.
        let (first, bytes) = match part.filter(|_| !matches!(source, Self::Lent(..))) {
            Some(part) => part,
            None => (0, source.len()?),
        };
        Part::new(source, first, bytes)
    }

    fn of(path: &CStr, io: Io, part: Option<(u64, u64)>) -> Result<Self, StorageError> {
        Ok(match io {
            Io::Direct => Self::Direct(DirectFile::open(path)?),
            Io::Buffered => Self::Buffered(BufferedFile::open(path)?),
            Io::Memory => Self::in_memory(MappedFile::open(path, Populate::AtOpen)?, part)?,
        })
    }
}

impl Source {
    /// A pack in memory. One that is used where it lies is copied: a file could change meanwhile. The
    /// copy stays until the process ends.
    fn in_memory(mut file: MappedFile, part: Option<(u64, u64)>) -> Result<Self, StorageError> {
        let (from, bytes) = match part {
            Some(part) => part,
            None => (0, file.len()?),
        };
        let bytes = bytes as usize;
        let mut start = vec![0; size_of::<Header>().min(bytes)];
        file.read(from, &mut start)?;
        let header = start.get(..size_of::<Header>()).map(bytemuck::pod_read_unaligned::<Header>);
        if header.is_none_or(|header| header.mapped == 0) {
            return Ok(Self::Memory(file));
        }
        let copy = vec![0u8; bytes + PAGE as usize].leak();
        let first = copy.as_ptr().align_offset(PAGE as usize);
        let copy = &mut copy[first..first + bytes];
        file.read(from, copy)?;
        Ok(Self::Lent(file, Slice(copy)))
    }

    /// The page cache's share of the pack.
    pub fn page_cache(&self) -> Result<PageCache, StorageError> {
        match self {
            Self::Direct(file) => file.page_cache(),
            Self::Buffered(file) => file.page_cache(),
            Self::Memory(file) | Self::Lent(file, _) => file.page_cache(),
        }
    }
}

impl Storage for Source {
    fn len(&self) -> Result<u64, StorageError> {
        match self {
            Self::Direct(file) => file.len(),
            Self::Buffered(file) => file.len(),
            Self::Memory(file) => file.len(),
            Self::Lent(_, slice) => slice.len(),
        }
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        match self {
            Self::Direct(file) => file.read(offset, into),
            Self::Buffered(file) => file.read(offset, into),
            Self::Memory(file) => file.read(offset, into),
            Self::Lent(_, slice) => slice.read(offset, into),
        }
    }

    fn alignment(&self) -> u64 {
        match self {
            Self::Direct(file) => file.alignment(),
            Self::Buffered(file) => file.alignment(),
            Self::Memory(file) => file.alignment(),
            Self::Lent(_, slice) => slice.alignment(),
        }
    }

    fn queue(&mut self) -> Option<&mut dyn ReadQueue> {
        match self {
            Self::Direct(file) => file.queue(),
            Self::Buffered(file) => file.queue(),
            Self::Memory(file) => file.queue(),
            Self::Lent(..) => None,
        }
    }

    fn mapped<'s>(&self) -> Option<&'s [u8]>
    where
        Self: 's,
    {
        match self {
            Self::Lent(_, slice) => slice.mapped(),
            Self::Direct(_) | Self::Buffered(_) | Self::Memory(_) => None,
        }
    }
}
