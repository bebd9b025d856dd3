//! Tests of task sets on the device: several networks in one memory, driven by the scheduler.
#![cfg(target_os = "linux")]

mod budgets;
mod chunks;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod harness;
mod stress;
