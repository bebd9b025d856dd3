//! Errors of chunks.

use crate::device::DeviceError;
use crate::device::cuda::{MemoryError, Version};
use crate::storage::StorageError;

/// Why memory could not be set up or swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkError {
    /// The driver lacks functions of virtual memory management.
    OldDriver {
        /// The version of CUDA that it is for.
        found: Version,
    },
    /// The GPU, or its driver on this system, does not map physical memory (integrated GPUs of
    /// older boards).
    NoVirtualMemory,
    /// A call has failed.
    Driver(DeviceError),
    /// There is too little memory.
    Memory(MemoryError),
    /// Chunks must be whole multiples of what the driver maps.
    Granularity {
        /// Bytes of a chunk that were asked for.
        chunk_bytes: u64,
        /// The unit that it must be a multiple of.
        granularity: u64,
    },
    /// Space for bookkeeping is too small.
    Bookkeeping {
        /// Records there are.
        given: usize,
        /// Records it takes.
        needed: usize,
    },
    /// The staging memory is too small to be halved into pages.
    Staging {
        /// Bytes that were asked for.
        bytes: usize,
        /// Bytes it takes.
        needed: usize,
    },
    /// There is no place for another network.
    Networks {
        /// How many.
        limit: usize,
    },
    /// A network's size is zero, too large, or not in whole pages.
    Bytes {
        /// The size.
        bytes: u64,
        /// The unit that it must be a multiple of.
        page: u64,
    },
    /// A writable range reaches past the end of the network.
    Writable {
        /// Where the range ends.
        end: u64,
        /// The network's size.
        bytes: u64,
    },
    /// No such network here.
    Unknown,
    /// More chunks than there are to be swapped.
    Asked {
        /// Chunks to swap.
        chunks: usize,
        /// Chunks that are out (to be swapped in) or in (to be swapped out).
        there: usize,
    },
    /// Too few free chunks: something must be swapped out first.
    Full {
        /// Chunks to swap in.
        chunks: usize,
        /// Chunks that no network has.
        free: usize,
    },
    /// Chunks of this network have no pinned copy, and nothing was given that refills them.
    NoRefill,
    /// Refilling a chunk has failed.
    Storage(StorageError),
    /// An earlier call failed in the middle of mapping or unmapping, so that nobody knows what is
    /// mapped.
    Broken,
}

impl From<DeviceError> for ChunkError {
    fn from(error: DeviceError) -> Self {
        Self::Driver(error)
    }
}

impl From<MemoryError> for ChunkError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<StorageError> for ChunkError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl core::fmt::Display for ChunkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::OldDriver { found } => write!(
                f,
                "the GPU's driver (CUDA {found}) lacks virtual memory management, under which networks are swapped: \
                 update the driver, or give each network memory of its own"
            ),
            Self::NoVirtualMemory => f.write_str(
                "this GPU has no virtual memory management, so networks cannot be swapped under it: give each \
                 network memory of its own",
            ),
            Self::Driver(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Granularity { chunk_bytes, granularity } => write!(
                f,
                "chunks of {chunk_bytes} bytes: the driver maps multiples of {granularity} bytes"
            ),
            Self::Bookkeeping { given, needed } => {
                write!(f, "{given} records to keep account of chunks in, {needed} needed")
            }
            Self::Staging { bytes, needed } => {
                write!(f, "{bytes} bytes of staging memory, at least {needed} needed")
            }
            Self::Networks { limit } => write!(f, "{limit} networks is as many as there can be"),
            Self::Bytes { bytes, page } => write!(
                f,
                "a network of {bytes} bytes: the size must be a positive multiple of {page} bytes"
            ),
            Self::Writable { end, bytes } => {
                write!(f, "a writable range ends at byte {end} of a network of {bytes} bytes")
            }
            Self::Unknown => f.write_str("no such network in this memory"),
            Self::Asked { chunks, there } => {
                write!(f, "{chunks} chunks to be swapped, there are {there}")
            }
            Self::Full { chunks, free } => write!(
                f,
                "{chunks} chunks to be swapped in, {free} are free: swap others out first"
            ),
            Self::NoRefill => f.write_str(
                "chunks without a pinned copy are to be swapped in: give the storage that has their bytes",
            ),
            Self::Storage(error) => write!(f, "refilling a chunk: {error}"),
            Self::Broken => f.write_str(
                "the driver failed while this network's memory was being mapped or unmapped: open the GPU anew",
            ),
        }
    }
}

impl core::error::Error for ChunkError {}
