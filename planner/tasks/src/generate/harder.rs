//! Harder sets than the published ones: periods from 50 to 500 ms, computing at 30 to 70 % of the time, 10 to 40 % of all
//! bytes beyond the memory, storage at 2.5 GB/s.
//!
//! Sizes are chosen so that ceilings and published test come out as in the study that the figures are compared with: 709
//! sets (711 there) can be scheduled on one engine after the other, 887 (880) on two, and Theorem 1 admits 48 (49).

use super::uniform::{Shape, draw};
use super::{MB, random};
use crate::set::TaskSet;
use rand::Rng;

/// Loads and overflows: each pair has the same number of sets.
pub const LOADS: [f64; 3] = [0.3, 0.5, 0.7];
pub const OVERFLOWS: [f64; 3] = [0.1, 0.25, 0.4];

/// The set number `index` of a pair of load and overflow.
pub fn set(load: f64, overflow: f64, seed: u64, index: u64) -> TaskSet {
    let mut random = random(
        seed,
        index + ((load * 100.0) as u64) * 1_000_000 + ((overflow * 100.0) as u64) * 10_000,
    );
    let shape = Shape {
        tasks: random.random_range(4..=8),
        load,
        least_period_ms: 50.0,
        most_period_ms: 500.0,
        least_bytes: 10 * MB,
        most_bytes: 110 * MB,
        swappable: 0.9,
        overflow,
        step: 0.1,
        bytes_per_second: 2_500 * MB,
        writes: true,
    };
    draw(&shape, &mut random)
}

/// Chunk sizes for these sets.
pub const CHUNKS: [u64; 4] = [4 * MB, 2 * MB, 8 * MB, MB];
