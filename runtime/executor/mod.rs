//! Runs a plan: a loader and a compute side, joined by one counter each.
//!
//! [`Instance::open`] reads header, skeleton and one plan from storage into the front of the arena,
//! proves them, and loads the residents. [`Model::set_budget`] changes to another plan of the pack,
//! [`Model::set_shape`] to another shape of the network.
//! An inference is a sequence of steps. The loader runs ahead of them as far as the plan permits,
//! into the next inference, too. It has several reads in flight where the storage takes them.
//!
//! Two counters synchronise both sides (FlexNN's dependency-based synchronisation, exact in
//! addresses). The loader counts `loads_done` up, and steps wait for it. The compute side counts
//! `steps_done` up, and loads wait for it. Both only grow (modulo 2³²), over all inferences. The
//! thresholds in the pack count from the start of an inference. The host's turn between two
//! inferences, in which it reads outputs and writes inputs, is step 0.
//!
//! The loader runs wherever it is convenient, with the same code: on a thread of its own
//! ([`Instance::with_loader`]), or inline, between the steps, which needs neither threads nor an
//! operating system. Inline, reads go on while steps compute in a scope
//! ([`Instance::overlapped`]); without one ([`Instance::inline`]) a step waits for all it begins.
//!
//! A GPU ([`Instance::open_on`]) gets its steps ahead of time. Order and counters are the same, but
//! the counters then count what has been issued; [`Accelerator`](crate::device::Accelerator) says
//! how completion is known. A GPU with a memory of its own has a third counter, of reads into a
//! staging ring. Its loads are copies from there.
//!
//! An error of the loader ends the inference that needed the load. A GPU error ends the inference
//! it occurred in. The next inference starts over with all counters at zero, so that storage which
//! has healed is used again; residents stay. The loader comes to rest before the error is returned:
//! inputs and outputs are then the host's, whatever loads the failed step had released. An error
//! during a change of budget or shape leaves a model without a plan, until one is set again.
//!
//! Each folder uses those before it, and the files that lie here:
//!
//! | folder | holds |
//! |---|---|
//! | `load` | how far the loader has come, and what it does next |
//! | `change` | how a plan becomes the one that is followed |
//! | `compute` | the compute side, the loader, and the host's turn |
//! | `open` | instances, and the ways in which the loader works next to the steps |

mod change;
mod compute;
mod current;
mod error;
mod header;
mod load;
mod load_error;
mod observer;
mod open;
mod options;
mod shared;
mod switch;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use compute::budget::{BudgetError, ShapeError};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(crate) use compute::loader::Loader;
pub use compute::model::{Feed, InferError, Inline, Model, PortError, Progress, Stats};
pub use compute::times::StepTimes;
pub use error::OpenError;
pub use load_error::LoadError;
pub use observer::{Event, Observer};
pub use open::chunked::{ChunkError, ChunkedError, ChunkedInstance, Share};
#[cfg(all(feature = "linux", target_os = "linux"))]
pub use open::concurrent::Concurrent;
pub use open::instance::Instance;
pub use open::overlapped::Overlapped;
pub use open::together::Ports;
pub(crate) use open::together::{Network, Networks, together};
pub use options::{Options, STEP_WORK};
pub use switch::{PlanError, Switch};

#[doc(hidden)]
pub use change::enter::RESIDENT_PIECE;
pub(crate) use header::{Room, entry_for};
#[doc(hidden)]
pub use header::{entries, header, shapes, tables_bytes};

pub use crate::pack::{Flaw, Name, PlanEntry, Port, Skeleton};
