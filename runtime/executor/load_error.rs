//! Why a load failed.

use crate::device::DeviceError;
use crate::storage::StorageError;

/// Why a load failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The storage failed.
    Storage {
        /// Index of the load, residents first.
        load: u32,
        /// The error of the storage or the GPU.
        error: StorageError,
    },
    /// The bytes read are not those that were written.
    Checksum {
        /// Index of the load, residents first.
        load: u32,
        /// CRC-32C of what was read.
        found: u32,
        /// CRC-32C in the pack.
        expected: u32,
    },
    /// The GPU failed before the load, or while it was copied there.
    Device {
        /// Index of the load, residents first.
        load: u32,
        /// The error of the storage or the GPU.
        error: DeviceError,
    },
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Storage { load, error } => write!(f, "load {load}: {error}"),
            Self::Checksum { load, found, expected } => write!(
                f,
                "load {load}: checksum of the weights read is {found:08x}, the pack says \
                 {expected:08x}: the pack is damaged, write it again"
            ),
            Self::Device { load, error } => write!(f, "load {load}: {error}"),
        }
    }
}

impl core::error::Error for LoadError {}
