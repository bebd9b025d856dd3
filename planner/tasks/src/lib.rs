//! Task sets: several networks in one memory, each with a period and a deadline.
//!
//! A [`set`] is read from TOML. [`volumes`] chooses how much of each network is swapped, [`analysis`] proves
//! whether every deadline is kept, and [`simulate`] runs the set under the scheduler of `eyelet::tasks`, the same code
//! that runs on the device. [`generate`] draws random sets.

pub mod adversary;
pub mod advice;
pub mod analysis;
pub mod draw;
pub mod generate;
pub mod schedule;
pub mod set;
pub mod simulate;
pub mod swapnet;
pub mod volumes;
