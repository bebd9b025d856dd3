//! eyelet runs neural networks that are larger than the memory they are given.
//!
//! Weights are threaded, slice by slice, from [`storage`] through one [`arena`] whose size is fixed
//! before the program starts. The planner decides offline what is loaded when, to which address,
//! and what is computed in between. Its plan lies in the pack. The [`executor`] only follows it: a
//! loader and a compute side, joined by one counter each.
//!
//! The crate is `no_std` and never allocates. Everything variable-sized is in the arena. Unsafe
//! code lives in `arena`, `matrix`, `storage`, `device`, `sys`, `kernels` and `ffi` only.
//!
//! A program opens a pack with [`executor::Instance`], in an [`arena::Arena`], from a
//! [`storage::Storage`], and computes on a [`device::Device`].
//!
//! # Modules
//!
//! Each depends on modules further down in this list alone. What is documented here is the
//! interface. The other public modules serve the planner, the command and the C library, and may
//! change in any release.
//!
//! | | |
//! |---|---|
//! | `board` | the board that is built for, as constants: only with `EYELET_BOARD` |
//! | `ffi` | the C interface |
//! | [`set`] | runs several networks with deadlines in one memory |
//! | [`tasks`] | several networks with deadlines: which works next |
//! | [`executor`] | opens packs and runs plans |
//! | [`arena`] | the memory, and which bytes of it each side of the executor may touch |
//! | `proof` | what `open` proves about a pack |
//! | `ops` | operators: one file each |
//! | [`device`] | where kernels run |
//! | [`storage`] | where weights come from |
//! | `kernels` | hand-tuned kernels |
//! | `matrix` | views of tensors |
//! | `pack` | the file format |
//! | `sys` | the processor and the operating system |
#![no_std]
#![deny(unsafe_code)]
#![deny(unsafe_op_in_unsafe_fn)]
#![warn(missing_docs)]
// A result is used, or dropped by `sys::discard` with a reason.
#![deny(unused_must_use)]
#![cfg_attr(
    not(test),
    deny(
        clippy::let_underscore_must_use,
        clippy::let_underscore_untyped,
        clippy::unused_result_ok
    )
)]

#[cfg(test)]
extern crate std;

/// The README's example compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

/// Programs that must not compile.
#[cfg(doctest)]
pub mod scopes;

pub mod arena;
#[cfg(eyelet_board)]
pub mod board;
pub mod device;
pub mod executor;
#[doc(hidden)]
pub mod ffi;
#[doc(hidden)]
pub mod matrix;
#[doc(hidden)]
pub mod ops;
#[doc(hidden)]
pub mod pack;
#[doc(hidden)]
pub mod proof;
pub mod set;
pub mod storage;
mod sys;
pub mod tasks;

/// Hand-tuned kernels, and the table that says which serves which operator.
#[doc(hidden)]
#[path = "../kernels/mod.rs"]
pub mod kernels;
