//! Random task sets, seeded: the same seed gives the same set everywhere.
//!
//! [`harder`] draws sets with short and different periods, [`table3`] sets of published networks, [`uniform`] sets of a
//! given load (UUniFast).

pub mod harder;
pub mod table3;
pub mod toml;
pub mod uniform;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The generator for a seed and a stream of its own.
pub fn random(seed: u64, stream: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream);
    random
}

const MS: f64 = 1e6;
const MB: u64 = 1_000_000;
