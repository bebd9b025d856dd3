//! The pack: the file that is deployed. Skeleton, plans and weights, viewed in place.
//!
//! A pack is a sequence of sections, each starting on a [`PAGE`]: the header with the skeleton (the
//! network without its weights), one section per plan, the layers' names, the weights. All records
//! are little-endian plain data; `docs/pack-format.md` is their specification.
//!
//! A record is an *allegation*: what it says need not be true. [`proof`](crate::proof) checks what
//! the runtime relies on.

mod flaw;
pub mod integers;
mod isa;
pub mod layers;
mod needs;
pub mod operators;
pub mod places;
pub mod plans;
pub mod records;
pub mod stored;
mod view;

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41), the checksum of every section and every load.
pub use crate::sys::crc32c;
pub use flaw::Flaw;
pub(crate) use flaw::flaw;
pub use integers::*;
pub use isa::Isa;
pub use layers::*;
pub use needs::{Needs, PlanNeeds, needs};
pub use operators::*;
pub use places::*;
pub use plans::*;
pub use records::*;
pub use stored::{Layers, ReadWith, Records, Steps, Stored};
pub use view::{LayerNames, PlanView, Skeleton};

/// Alignment of sections and of loads: both ends of every read from storage, in the file and in the
/// arena, are multiples of this many bytes.
pub const PAGE: u64 = 4096;

/// The alignment of a pack that is used as it lies in memory ([`Header::mapped`]). Its records and
/// panels are then as aligned as they are in an arena.
pub const MAPPED_ALIGNMENT: usize = 64;

/// The alignment of fast memory, where scratch and buffers lie.
pub(crate) const FAST_ALIGNMENT: usize = 64;
