//! eyelet runs neural networks that are larger than the memory they are given.
//!
//! Weights are threaded, slice by slice, from [`storage`] through one [`arena`] whose size is fixed
//! before the program starts. What is loaded when, to which address, and what is computed in between
//! was decided offline by the planner and lies in the [`pack`]; the [`executor`] only follows it: a
//! loader and a compute side, joined by one counter each.
//!
//! The crate is `no_std` and never allocates. Everything variable-sized is in the arena. Unsafe code
//! lives in `arena`, `storage`, `device`, `kernels::table` and `ffi` only.
#![no_std]
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]

#[cfg(test)]
extern crate std;

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub mod arena;
pub mod device;
pub mod executor;
pub mod ffi;
pub mod ops;
pub mod pack;
pub mod storage;

/// Hand-tuned kernels, and the table that says which serves which operator.
#[path = "../kernels/mod.rs"]
pub mod kernels;
