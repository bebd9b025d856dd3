//! Plans: from a network, a budget and a board's costs to loads and steps with addresses.
//!
//! ```text
//! board, profile ─▶ costs ─┐
//! network ─▶ slices ───────┴─▶ strategy(budget) ─▶ plan ─ simulate ─▶ latency      bound ─▶ what no plan can beat
//! ```

pub mod board;
pub mod bound;
pub mod cores;
pub mod memory;
pub mod order;
pub mod profile;
pub mod range;
pub mod request;
pub mod search;
pub mod simulate;
pub mod slice;
pub mod slide;
#[cfg(target_os = "linux")]
pub mod source;
pub mod steps;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
