//! What can be wrong with a load, and how that is found.

use super::shared::Shared;
use crate::device::DeviceError;
use crate::pack::{Load, crc32c::crc32c};
use crate::storage::StorageError;

/// Why a load failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The storage failed.
    Storage {
        /// Index of the load, residents first.
        load: u32,
        /// How.
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
        /// How.
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

/// CRC-32C of more bytes of a load, if it is to be compared.
pub(super) fn crc32c_if(shared: &Shared<'_>, crc: u32, bytes: &[u8]) -> u32 {
    if shared.verify { crc32c(crc, bytes) } else { 0 }
}

/// Compares the checksum of all of a load's bytes with the pack's.
pub(super) fn verify(
    shared: &Shared<'_>,
    load: &Load,
    number: u32,
    found: u32,
) -> Result<(), LoadError> {
    if shared.verify && found != load.crc {
        return Err(LoadError::Checksum { load: number, found, expected: load.crc });
    }
    Ok(())
}
