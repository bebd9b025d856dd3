//! Any bytes as a network of Darknet, best with a few small ones in `fuzz/corpus/darknet`.
//!
//! `tools/fuzz.sh 60 darknet`, or `cargo +nightly fuzz run darknet`.

#![no_main]

#[path = "../../planner/tests/fuzz/darknet.rs"]
mod darknet;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    darknet::run(data);
});
