//! Any text as a problem of static allocation: an error, or a placement that is right.

use eyelet_alloc::csv::Table;
use eyelet_alloc::{Limit, Outcome, peak, solve, validate};

/// Returns whether the text is a problem.
pub fn run(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let Ok(table) = Table::parse(text) else { return false };
    let buffers = &table.buffers;
    let outcome = solve(buffers, peak(buffers).bytes, Limit::work(1000));
    let (Outcome::Fits(placement) | Outcome::Best { placement, .. }) = outcome;
    validate(buffers, &placement.offsets, placement.height).unwrap();
    assert_eq!(table.with_offsets(&placement.offsets).lines().count(), buffers.len() + 1);
    true
}
