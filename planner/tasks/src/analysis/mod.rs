//! Schedulability tests: do all jobs of a set keep their deadlines?
//!
//! [`mod@demand_bound`] proves it for the scheduler of [`eyelet::tasks`]. [`theorem1`] is RT-Swap's published test.
//! [`utilization`] is exact where it can be. [`levels`] chooses preemption levels. [`slack`] bounds
//! responses.

mod blocking;
pub mod classes;
pub mod demand_bound;
pub mod levels;
pub mod slack;
pub mod theorem1;
pub mod utilization;

pub use classes::classes;
pub use demand_bound::{Point, Verdict, demand_bound};
pub use theorem1::regions;
