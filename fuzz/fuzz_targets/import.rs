//! Any bytes as a model, best with a few small models in `fuzz/corpus/import`.
//!
//! `tools/fuzz.sh 60 import`, or `cargo +nightly fuzz run import`.

#![no_main]

#[path = "../../planner/tests/fuzz/import.rs"]
mod import;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    import::run(data);
});
