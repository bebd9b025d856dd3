//! Why a pack cannot be opened: an error for each reason, with the numbers that disagree.

use super::load_error::LoadError;
use super::switch::PlanError;
use crate::arena::ArenaError;
use crate::device::DeviceError;
use crate::device::accelerator::MemoryError;
use crate::pack::{FAST_ALIGNMENT, Flaw, Isa, MAPPED_ALIGNMENT, PAGE};
use crate::storage::StorageError;

/// Why a pack cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// The storage failed.
    Storage(StorageError),
    /// The first bytes are not those of a pack.
    NotAPack,
    /// The pack has another version of the format.
    Version {
        /// The version of the pack.
        found: u32,
        /// The version that this library reads.
        supported: u32,
    },
    /// The file is shorter than the pack says. (It may be longer: a partition is.)
    Size {
        /// Bytes of the file.
        found: u64,
        /// Bytes that the header states.
        expected: u64,
    },
    /// A section's checksum disagrees.
    Checksum {
        /// The section's name.
        section: &'static str,
        /// CRC-32C of its bytes.
        found: u32,
        /// CRC-32C in the pack.
        expected: u32,
    },
    /// The weights are packed for an instruction set that this processor (or this build) lacks.
    Isa {
        /// Its code in the pack.
        found: u32,
    },
    /// The pack is for a GPU, and was opened for the processor.
    ForGpu,
    /// The pack is for a processor, and was opened for a GPU.
    ForProcessor {
        /// The code of its instruction set.
        isa: u32,
    },
    /// The memory of the host is too small for the tables of a plan whose arena is a GPU's.
    Tables {
        /// Bytes of that memory.
        found: u64,
        /// Bytes that it needs: [`tables_bytes`](super::tables_bytes).
        needed: u64,
    },
    /// No memory for a plan.
    Memory(MemoryError),
    /// The system did not map what a plan keeps.
    Map(ArenaError),
    /// The GPU failed.
    Device(DeviceError),
    /// The GPU has a memory of its own, and the plan is for one that addresses the host's.
    Unstaged,
    /// The pack has no shape of that number.
    Shape {
        /// The number asked for: [`Options::shape`](super::Options::shape).
        asked: u32,
        /// How many shapes the pack has.
        shapes: u32,
    },
    /// No plan of the shape fits the arena.
    Budget {
        /// Bytes of the arena.
        arena: u64,
        /// Bytes that the shape's smallest plan needs.
        smallest: u64,
    },
    /// The plans that fit the arena need more fast memory.
    Fast {
        /// Bytes of fast memory.
        fast: u64,
        /// The least that one of these plans needs.
        smallest: u64,
    },
    /// The plan was made for fewer threads.
    Threads {
        /// Threads asked for.
        asked: u32,
        /// Threads of the plan.
        planned: u32,
    },
    /// The arena does not start on a page.
    Arena {
        /// Its address.
        address: usize,
    },
    /// The fast memory does not start where scratch may.
    FastAddress {
        /// Its address.
        address: usize,
    },
    /// The pack is used where it lies, which the storage cannot lend.
    NotMapped {
        /// The type of the storage.
        storage: &'static str,
    },
    /// The pack is used where it lies, and kernels cannot read weights there.
    PackAddress {
        /// Where it starts in memory.
        address: usize,
    },
    /// A record is wrong.
    Flaw(Flaw),
    /// A resident load failed.
    Load(LoadError),
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::NotAPack => f.write_str(
                "not a pack: it does not begin with the pack's signature; make one with \
                 `eyelet plan`",
            ),
            Self::Version { found, supported } => write!(
                f,
                "the pack has format version {found}, this build reads version {supported}; plan \
                 the model again with this version of eyelet"
            ),
            Self::Size { found, expected } => write!(
                f,
                "the pack is {found} bytes long, its header says {expected}: it is truncated or \
                 damaged, write it again"
            ),
            Self::Checksum { section, found, expected } => write!(
                f,
                "the checksum of the pack's {section} is {found:08x}, the pack says {expected:08x}: it is \
                 damaged, write it again"
            ),
            Self::Isa { found } => match Isa::from_code(*found) {
                Some(isa) => write!(
                    f,
                    "the pack is for instruction set {}, which this processor or build does not \
                     have; plan the model for another board",
                    isa.name()
                ),
                None => write!(f, "the pack is for an unknown instruction set (code {found})"),
            },
            Self::ForGpu => f.write_str(
                "the pack is for a GPU: run it with --device cuda, or plan the model for the processor (--device cpu)",
            ),
            Self::ForProcessor { isa } => write!(
                f,
                "the pack is for a processor ({}): run it with --device cpu, or plan the model for the GPU \
                 (--device cuda)",
                Isa::from_code(*isa).map_or("unknown", Isa::name)
            ),
            Self::Tables { found, needed } => write!(
                f,
                "the host's memory for tables has {found} bytes, the pack's plans need {needed}: make it larger"
            ),
            Self::Memory(error) => error.fmt(f),
            Self::Map(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Unstaged => PlanError::Unstaged.fmt(f),
            Self::Shape { asked, shapes } => write!(
                f,
                "shape {asked} asked for, the pack has {shapes}, counted from 0: ask for one of them, or plan for more \
                 with --dim"
            ),
            Self::Budget { arena, smallest } => write!(
                f,
                "the arena has {arena} bytes, the pack's smallest plan needs {smallest}; give it \
                 more or plan for a smaller budget"
            ),
            Self::Fast { fast: 0, smallest } => write!(
                f,
                "the pack's plans need {smallest} bytes of fast memory, and there is none: give it to \
                 open_in, or plan for a board without the region fast"
            ),
            Self::Fast { fast, smallest } => write!(
                f,
                "there are {fast} bytes of fast memory, the pack's plans need {smallest}; give them \
                 more or plan for a board whose region fast has {fast}"
            ),
            Self::FastAddress { address } => write!(
                f,
                "fast memory starts at {address:#x}, which is not a multiple of {FAST_ALIGNMENT}; align it"
            ),
            Self::Threads { asked, planned } => write!(
                f,
                "{asked} threads asked for, the plan has scratch for {planned}; plan with \
                 --threads {asked} or run with fewer"
            ),
            Self::Arena { address } => write!(
                f,
                "the arena starts at {address:#x}, which is not a multiple of {PAGE}; align it"
            ),
            Self::NotMapped { storage } => write!(
                f,
                "the pack is for flash that is read like memory, and is used where it lies: {storage} cannot lend its \
                 bytes; give the pack as memory (storage::Slice, EYELET_MEMORY, --io memory), or plan the model for a \
                 board without [profile.mapped]"
            ),
            Self::PackAddress { address } => write!(
                f,
                "the pack starts at {address:#x}, and is used where it lies, which must be a multiple of \
                 {MAPPED_ALIGNMENT}; align it"
            ),
            Self::Flaw(flaw) => write!(f, "the pack is malformed: {flaw}"),
            Self::Load(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<StorageError> for OpenError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<MemoryError> for OpenError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl From<Flaw> for OpenError {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

impl From<PlanError> for OpenError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Storage(error) => Self::Storage(error),
            PlanError::Checksum { section, found, expected } => {
                Self::Checksum { section, found, expected }
            }
            PlanError::Flaw(flaw) => Self::Flaw(flaw),
            PlanError::Load(error) => Self::Load(error),
            PlanError::Arena(error) => Self::Map(error),
            PlanError::Device(error) => Self::Device(error),
            PlanError::Unstaged => Self::Unstaged,
        }
    }
}
