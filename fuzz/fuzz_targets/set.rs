//! Any bytes as the file of a set, best with a few small ones in `fuzz/corpus/set`.
//!
//! `tools/fuzz.sh 60 set`, or `cargo +nightly fuzz run set`.

#![no_main]

#[path = "../../planner/tests/fuzz/set.rs"]
mod set;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    set::run(data);
});
