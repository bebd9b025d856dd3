//! The pack: the file that is deployed. Skeleton, plans and weights, viewed in place.
//!
//! A pack is a sequence of sections, each starting on a [`PAGE`]: the header with the skeleton (the
//! network without its weights), one section per plan, the layers' names, the weights. All records are
//! little-endian plain data; `docs/pack-format.md` is their specification.

pub mod crc32c;
pub mod layers;
pub mod operators;
pub mod plans;
pub mod records;
pub mod stored;
mod validate;
mod view;

pub use layers::*;
pub use operators::*;
pub use plans::*;
pub use records::*;
pub use stored::{Layers, ReadWith, Records, Steps, Stored};
pub(crate) use validate::layer_of;
pub use validate::{Bounds, Flaw, Proven, ProvenSkeleton};
pub use view::{LayerNames, PlanView, Skeleton};

/// Alignment of sections and of loads: both ends of every read from storage, in the file and in the
/// arena, are multiples of this many bytes.
pub const PAGE: u64 = 4096;
