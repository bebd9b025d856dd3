//! Tests of whole networks: planned, proved, packed and run.

#[path = "../common/mod.rs"]
mod common;
mod end_to_end;
mod ffi;
mod flight;
mod hostile;
mod mapped;
mod over;
mod plans;
mod rings;
mod shapes;
mod stages;
