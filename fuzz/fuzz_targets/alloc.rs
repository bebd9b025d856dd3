//! Any text as a problem of static allocation.
//!
//! `tools/fuzz.sh 60 alloc`, or `cargo +nightly fuzz run alloc`.

#![no_main]

#[path = "../../lab/alloc/tests/arbitrary.rs"]
mod arbitrary;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    arbitrary::run(data);
});
