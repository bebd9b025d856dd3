//! Task sets: several networks in one memory, each with a period and a deadline.
//!
//! A [`set`] is read from TOML. [`volumes`] chooses how much of each network is swapped, [`analysis`] proves
//! whether every deadline is kept, and [`simulate`] runs the set under the scheduler of `eyelet::tasks`, the same code
//! that runs on the device. [`generate`] draws random sets, [`papers`] holds the published experiments.

pub mod adversary;
pub mod advice;
pub mod analysis;
pub mod draw;
pub mod generate;
pub mod papers;
pub mod schedule;
pub mod set;
pub mod simulate;
pub mod swapnet;
pub mod sweep;
pub mod volumes;
