//! Tests of the command: what it prints, writes, refuses and takes.

mod bench;
mod boards;
mod cli;
#[path = "../common/mod.rs"]
mod common;
mod darknet;
mod errors;
mod files;
mod firmware;
mod inputs;
mod limits;
mod memory;
mod pages;
mod pictures;
mod pictures_hostile;
mod pin;
mod ranges;
mod recurrent;
mod report;
mod see;
mod serve;
mod shapes;
mod tasks;
mod words;
