//! The module `eyelet._native`: packs run from Python.
//!
//! A session is a thread that owns the arena, the pack's storage and the open model
//! ([`worker`]). Python's side sends it inputs and gets outputs ([`session`]), and holds no lock of
//! the interpreter while it waits. So nothing here borrows across calls, and nothing is unsafe.
//!
//! What is Python's to check, such as types and shapes of arrays, is in `eyelet/_session.py`.
#![forbid(unsafe_code)]

mod session;
mod worker;

/// Runs packs. The package `eyelet` is its interface.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::session::{Error, Session};
}
