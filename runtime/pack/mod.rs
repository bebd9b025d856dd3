//! The pack: the file that is deployed. Skeleton, plans and weights, viewed in place.
//!
//! A pack is a sequence of sections, each starting on a [`PAGE`]: the header page, the skeleton (the
//! network without its weights), one section per plan, the weights. All records are little-endian
//! plain data; `docs/pack-format.md` is their specification.

pub mod crc32c;
pub mod records;
mod validate;
mod view;

pub use records::*;
pub(crate) use validate::layer_of;
pub use validate::{Bounds, Flaw, Proven, ProvenSkeleton};
pub use view::{PlanView, Skeleton};

/// Alignment of sections and of loads: both ends of every read from storage, in the file and in the
/// arena, are multiples of this many bytes.
pub const PAGE: u64 = 4096;
