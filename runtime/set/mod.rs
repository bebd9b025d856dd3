//! Runs a task set: several networks in one memory, each job by its deadline.
//!
//! A [`TaskSet`] has for each task a network ([`ChunkedInstance`]) and its storage. It does what the
//! [scheduler](crate::tasks::Scheduler) decides: steps of the job that is first, and chunks of networks in and
//! out of the [`Pool`] that they share. A chunk is read while steps of other networks compute. Between two
//! steps another network may go first, so that several are in the middle of inferences at once.
//!
//! [`TaskSet::run`] is a scope, in which [`Running`] has the networks: [`release`](Running::release) says that a
//! job has arrived, [`step`](Running::step) does the next thing, at most one step of a network. The caller
//! brings a clock and a [`Host`], which writes a job's inputs and takes its outputs.
//!
//! A job whose chunk cannot be read, or whose step fails, is given up and [reported](Host::failed). The others
//! go on, and the task's next job tries again.
//!
//! A [`SetFile`] is one file with the packs of a set and what the schedule decided for them.
//!
//! Nothing here allocates, or needs an operating system. Without one, networks have no chunks
//! ([`ChunkedInstance::whole`]), and share one processor and one static arena.

mod change;
mod counts;
mod error;
#[cfg(all(test, not(miri), feature = "linux", target_os = "linux"))]
mod every_order;
mod file;
mod host;
#[cfg(all(test, not(miri), feature = "linux", target_os = "linux"))]
mod refusals;
mod running;
mod slots;
mod state;
mod task_set;
#[cfg(test)]
mod tests;
mod watch;

pub use change::ChangeError;
pub use counts::Counts;
pub use error::{JobError, TaskSetError};
pub use file::{
    MAX_TASKS, SET_MAGIC, SET_VERSION, SetFile, SetFileError, SetHeader, SetTask, TaskEntry, is_set,
};
pub use host::{Host, SetEvent};
pub use running::Running;
pub use task_set::{Member, TaskSet};

pub use crate::arena::Pool;
pub use crate::executor::{ChunkedInstance, Ports, Share};
pub use crate::tasks::{Activity, Finished, Policy, ReleaseError, Task};
