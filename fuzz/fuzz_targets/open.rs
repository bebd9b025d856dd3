//! Any bytes as a pack, best with small packs in `fuzz/corpus/open`.
//!
//! `tools/fuzz.sh 60 open`, or `cargo +nightly fuzz run open`.

#![no_main]

#[path = "../../planner/tests/common/forge.rs"]
mod forge;
mod common {
    pub(crate) use super::forge;
}
#[path = "../../planner/tests/fuzz/open.rs"]
mod open;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    open::run(data);
});
