//! Arbitrary text as a problem of static allocation: an error, or a placement that is right.
//!
//! `cargo +nightly fuzz run alloc`.

#![no_main]

use eyelet_planner::alloc::csv::Table;
use eyelet_planner::alloc::{Limit, Outcome, peak, solve, validate};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(table) = Table::parse(text) else { return };
    let buffers = &table.buffers;
    let outcome = solve(buffers, peak(buffers).bytes, Limit::work(1000));
    let (Outcome::Fits(placement) | Outcome::Best { placement, .. }) = outcome;
    validate(buffers, &placement.offsets, placement.height).unwrap();
    assert_eq!(table.with_offsets(&placement.offsets).lines().count(), buffers.len() + 1);
});
