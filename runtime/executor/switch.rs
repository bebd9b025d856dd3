//! The result of a change to another plan, and the errors.

use super::load_error::LoadError;
use crate::arena::ArenaError;
use crate::device::DeviceError;
use crate::pack::Flaw;
use crate::storage::StorageError;

/// Why a plan cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A section could not be read.
    Storage(StorageError),
    /// The checksum of a section disagrees.
    Checksum {
        /// The section's name: plan, or skeleton.
        section: &'static str,
        /// CRC-32C of the bytes read.
        found: u32,
        /// CRC-32C in the pack's header.
        expected: u32,
    },
    /// A record is wrong.
    Flaw(Flaw),
    /// A resident load failed.
    Load(LoadError),
    /// The system did not map what the plan keeps.
    Arena(ArenaError),
    /// The GPU failed at work that it had to do before.
    Device(DeviceError),
    /// The GPU has a memory of its own, and the plan is for one that addresses the host's.
    Unstaged,
}

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Checksum { section, found, expected } => write!(
                f,
                "the checksum of the pack's {section} is {found:08x}, the pack says {expected:08x}: it is damaged, \
                 write it again"
            ),
            Self::Flaw(flaw) => write!(f, "the pack is malformed: {flaw}"),
            Self::Load(error) => error.fmt(f),
            Self::Arena(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Unstaged => f.write_str(
                "the plan reads weights to where they are used, but this GPU has a memory of its own, to which they \
                 are copied; plan for a board whose GPU has, with memory = \"staged\"",
            ),
        }
    }
}

impl core::error::Error for PlanError {}

impl From<Flaw> for PlanError {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

/// The cost of a change of plan. Times are by a monotone clock, 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    /// Bytes of tables, read from storage: the plan's, and the skeleton of another shape.
    pub table_bytes: u64,
    /// Bytes of residents that lay where the new plan has them.
    pub kept_bytes: u64,
    /// Bytes of residents that were elsewhere in the arena.
    pub moved_bytes: u64,
    /// Bytes of residents read from storage.
    pub read_bytes: u64,
    /// Nanoseconds in all.
    pub total_ns: u64,
    /// Nanoseconds to read tables and residents, and to compare the residents' checksums.
    pub read_ns: u64,
    /// Nanoseconds to move residents in the arena.
    pub move_ns: u64,
}
