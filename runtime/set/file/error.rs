//! Why a set's file is refused.

use crate::storage::StorageError;

/// Why a set's file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetFileError {
    /// The storage failed.
    Storage(StorageError),
    /// It does not begin as a set's file does.
    NotASet,
    /// Another version of the format.
    Version {
        /// The version of the file.
        found: u32,
        /// The version of this library.
        supported: u32,
    },
    /// It is shorter than it should be.
    Size {
        /// Bytes of the storage.
        found: u64,
        /// Bytes of the file.
        expected: u64,
    },
    /// There is not enough memory for the table.
    Memory {
        /// Bytes of the memory.
        has: u64,
        /// Bytes of the table.
        needed: u64,
    },
    /// The table's checksum is another one.
    Checksum {
        /// CRC-32C of what was read.
        found: u32,
        /// CRC-32C of what was written.
        expected: u32,
    },
    /// The table contradicts itself or its limits.
    Flaw {
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The largest value, or the only one, that it may have.
        limit: u64,
    },
    /// A task of the table contradicts itself or its limits.
    Task {
        /// Which task.
        task: usize,
        /// The field.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The largest value, or the only one, that it may have.
        limit: u64,
    },
}

impl SetFileError {
    pub(super) fn flaw(what: &'static str, found: u64, limit: u64) -> Self {
        Self::Flaw { what, found, limit }
    }
}

impl core::fmt::Display for SetFileError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Storage(error) => error.fmt(f),
            Self::NotASet => {
                f.write_str("the file is no set: make one with `eyelet schedule -o FILE.pack`")
            }
            Self::Version { found, supported } => write!(
                f,
                "the set's file is of version {found}, this library reads {supported}: schedule the set again"
            ),
            Self::Size { found, expected } => write!(
                f,
                "the set's file has {found} bytes of {expected}: it is truncated, copy it again"
            ),
            Self::Memory { has, needed } => write!(
                f,
                "the table of the set takes {needed} bytes of memory, {has} were given: give as many"
            ),
            Self::Checksum { found, expected } => write!(
                f,
                "the checksum of the set's table is {found:08x}, it was written as {expected:08x}: copy the file again"
            ),
            Self::Flaw { what, found, limit } => write!(
                f,
                "set: {what}: {found}, where {limit} is the limit: the file is damaged, schedule the set again"
            ),
            Self::Task { task, what, found, limit } => write!(
                f,
                "task {task} of the set: {what}: {found}, where {limit} is the limit: the file is damaged, schedule \
                 the set again"
            ),
        }
    }
}

impl core::error::Error for SetFileError {}

impl From<StorageError> for SetFileError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
