//! Tests of the command: what it prints, writes, refuses and takes.

mod alloc;
mod boards;
mod cli;
#[path = "../common/mod.rs"]
mod common;
mod darknet;
mod errors;
mod files;
mod firmware;
mod limits;
mod memory;
mod pictures;
mod report;
mod see;
mod shapes;
mod tasks;
