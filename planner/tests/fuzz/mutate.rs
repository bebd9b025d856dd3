//! Inputs for a fuzz target without a fuzzer: seeds, changed at random. Which inputs come is the same on every machine.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Inputs that a target has accepted, from which the next ones are made.
pub struct Mutator {
    rng: ChaCha8Rng,
    pool: Vec<Vec<u8>>,
    seeds: usize,
}

/// Accepted inputs that are kept besides the seeds.
const KEPT: usize = 64;

/// The longest piece that is copied or removed.
const PIECE: usize = 64;

/// No input grows beyond this.
const LONGEST: usize = 1 << 20;

/// Numbers at the edges of what types hold.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

impl Mutator {
    pub fn new(seeds: Vec<Vec<u8>>) -> Self {
        assert!(seeds.iter().all(|seed| !seed.is_empty()));
        Self { rng: ChaCha8Rng::seed_from_u64(1), seeds: seeds.len(), pool: seeds }
    }

    /// An input from the pool with one to eight changes.
    pub fn input(&mut self) -> Vec<u8> {
        let mut bytes = self.pool[self.rng.random_range(0..self.pool.len())].clone();
        for _ in 0..1 << self.rng.random_range(0..4) {
            self.change(&mut bytes);
        }
        bytes
    }

    /// Later inputs may be made from this one.
    pub fn keep(&mut self, input: Vec<u8>) {
        if self.pool.len() < self.seeds + KEPT {
            self.pool.push(input);
        } else {
            let at = self.rng.random_range(self.seeds..self.pool.len());
            self.pool[at] = input;
        }
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return bytes.push(self.rng.random());
        }
        let at = self.rng.random_range(0..bytes.len());
        match self.rng.random_range(0..10) {
            0 | 1 => bytes[at] ^= 1 << self.rng.random_range(0..8),
            2 => bytes[at] = self.rng.random(),
            3 => bytes[at] = bytes[at].wrapping_add(self.rng.random_range(0..9)).wrapping_sub(4),
            4 | 5 => {
                let edge = EDGES[self.rng.random_range(0..EDGES.len())].to_le_bytes();
                let width = (1 << self.rng.random_range(0..4)).min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&edge[..width]);
            }
            6 => drop(bytes.drain(self.piece(bytes.len()))),
            7 => {
                let piece = bytes[self.piece(bytes.len())].to_vec();
                if bytes.len() + piece.len() <= LONGEST {
                    bytes.splice(at..at, piece);
                }
            }
            8 => {
                let other = &self.pool[self.rng.random_range(0..self.pool.len())];
                let piece = other[piece(&mut self.rng, other.len())].to_vec();
                let end = (at + piece.len()).min(bytes.len());
                bytes.splice(at..end, piece);
            }
            _ if self.rng.random_range(0..4) == 0 => bytes.truncate(at),
            _ => bytes[at] = 0,
        }
    }

    fn piece(&mut self, len: usize) -> std::ops::Range<usize> {
        piece(&mut self.rng, len)
    }
}

/// A short range of so many bytes.
fn piece(rng: &mut ChaCha8Rng, len: usize) -> std::ops::Range<usize> {
    if len == 0 {
        return 0..0;
    }
    let start = rng.random_range(0..len);
    start..(start + rng.random_range(1..=PIECE)).min(len)
}
