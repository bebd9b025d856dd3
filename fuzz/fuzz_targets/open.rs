//! Arbitrary bytes as a pack, with checksums put right: an error or inferences, never a byte outside the
//! arena.
//!
//! `cargo +nightly fuzz run open`, best with small packs in `fuzz/corpus/open`. The arena lies between two
//! pages that may not be touched, since a sanitizer knows nothing of an arena's borders.

#![no_main]

#[path = "../../planner/tests/common/forge.rs"]
mod forge;

use eyelet::pack::{Header, MAGIC, PAGE, VERSION};
use forge::{Guarded, Manner, header, run, seal};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

/// Enough for the digits network; small enough that no layer takes long.
const ARENA: usize = 256 << 10;

thread_local! {
    static MEMORY: RefCell<Guarded> = RefCell::new(Guarded::new(ARENA));
}

fuzz_target!(|data: &[u8]| {
    // The last byte says how it is run, the rest is the pack.
    let Some((manner, pack)) = data.split_last() else { return };
    if pack.len() < PAGE as usize {
        return;
    }
    let mut pack = pack.to_vec();
    let file_bytes = pack.len() as u64;
    let head = Header { magic: MAGIC, version: VERSION, file_bytes, ..header(&pack) };
    pack[..size_of::<Header>()].copy_from_slice(bytemuck::bytes_of(&head));
    seal(&mut pack);
    let bit = |index: u8| manner >> index & 1 == 1;
    let manner = Manner { verify: bit(0), three: bit(1), beside: bit(2) };
    MEMORY.with_borrow_mut(|arena| {
        let _ = run(&pack, arena, manner);
    });
});
