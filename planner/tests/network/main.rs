//! Tests of whole networks: planned, proved, packed and run.

#[path = "../common/mod.rs"]
mod common;
mod elements;
mod end_to_end;
mod fast;
mod ffi;
mod flight;
mod hostile;
mod mapped;
mod orders;
mod over;
mod plans;
mod rings;
mod shapes;
mod stages;
mod tied;
mod unequal;
mod unrolled;
mod weightless;
