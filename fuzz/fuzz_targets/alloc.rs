//! Any text as a problem of static allocation.
//!
//! `tools/fuzz.sh 60 alloc`, or `cargo +nightly fuzz run alloc`.

#![no_main]

#[path = "../../planner/tests/fuzz/alloc.rs"]
mod alloc;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    alloc::run(data);
});
