//! Sets drawn as in RT-Swap's evaluation (section VII-B), from its Table III: memory footprints and computing times.
//!
//! Rates of swapping are fitted to its Fig. 4, which gives 26.2 ms to swap out 300 MB in chunks of 64 MB, 35.3 ms with
//! 2 MB and 41.6 ms with 256 MB. A time per megabyte and a time per chunk reproduce all three; swapping in takes 28.3 ms
//! with the same time per chunk.

use super::{MB, MS, random};
use crate::set::{Cost, Storage, Swappable, Task, TaskSet, Transfer};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// A network at three resolutions: 256, 416, 608.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    pub name: &'static str,
    pub memory_gb: [f64; 3],
    pub swappable_gb: [f64; 3],
    pub compute_ms: [f64; 3],
}

/// The GPU's memory.
pub const GPU_GB: f64 = 24.0;

pub const NETWORKS: [Network; 4] = [
    Network {
        name: "ResNet",
        memory_gb: [1.4, 2.4, 3.8],
        swappable_gb: [0.7, 1.4, 2.7],
        compute_ms: [29.0, 36.0, 48.0],
    },
    Network {
        name: "YOLOv3",
        memory_gb: [2.3, 3.6, 6.2],
        swappable_gb: [1.1, 2.6, 5.2],
        compute_ms: [48.0, 51.0, 63.0],
    },
    Network {
        name: "DenseNet",
        memory_gb: [1.0, 1.6, 2.7],
        swappable_gb: [0.4, 0.9, 1.8],
        compute_ms: [31.0, 34.0, 42.0],
    },
    Network {
        name: "ResNext",
        memory_gb: [1.6, 3.2, 5.7],
        swappable_gb: [1.0, 2.2, 4.5],
        compute_ms: [41.0, 45.0, 63.0],
    },
];

/// Chunk sizes that the paper considers.
pub const CHUNKS: [u64; 8] =
    [64_000_000, 32_000_000, 128_000_000, 16_000_000, 256_000_000, 8_000_000, 4_000_000, 2_000_000];

/// Milliseconds per megabyte and per chunk.
pub const OUT_MS_PER_MB: f64 = 0.0810;
pub const IN_MS_PER_MB: f64 = (28.3 - 5.0 * MS_PER_CHUNK) / 320.0;
pub const MS_PER_CHUNK: f64 = 0.0735;

/// A set as drawn: which network at which resolution, how often.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    pub members: Vec<Member>,
}

/// A network, one of its three resolutions, a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    pub network: usize,
    pub resolution: usize,
    pub period_ms: f64,
}

impl Member {
    pub fn draw(random: &mut ChaCha8Rng) -> Self {
        Self {
            network: random.random_range(0..NETWORKS.len()),
            resolution: random.random_range(0..3),
            period_ms: random.random_range(3000.0..=5000.0),
        }
    }

    pub fn of(&self) -> &'static Network {
        &NETWORKS[self.network]
    }

    pub fn gigabytes(&self) -> f64 {
        self.of().memory_gb[self.resolution]
    }
}

impl Drawn {
    pub fn gigabytes(&self) -> f64 {
        self.members.iter().map(Member::gigabytes).sum()
    }

    /// The set on a GPU with this part of its memory. `clean`: weights are read-only, swapping out writes nothing.
    pub fn set(&self, memory: f64, clean: bool) -> TaskSet {
        let storage = Storage {
            chunk_bytes: CHUNKS[0],
            read: transfer(IN_MS_PER_MB, MS_PER_CHUNK),
            write: (!clean).then(|| transfer(OUT_MS_PER_MB, MS_PER_CHUNK)),
        };
        let task = |(k, member): (usize, &Member)| {
            let (network, at) = (member.of(), member.resolution);
            let compute_ns = (network.compute_ms[at] * MS) as u64;
            let cost = Cost {
                compute_ns,
                step_ns: compute_ns,
                bytes: gigabytes(network.memory_gb[at]),
                weights: Swappable::of(gigabytes(network.swappable_gb[at])),
                room: Swappable::default(),
                streams: false,
            };
            let period_ns = (member.period_ms * MS) as u64;
            let name = format!("{} {}", k + 1, network.name);
            Task { name, period_ns, deadline_ns: period_ns, jitter_ns: 0, cost }
        };
        TaskSet {
            memory_bytes: (GPU_GB * 1e9 * memory).round() as u64,
            page_bytes: 0,
            storage,
            tasks: self.members.iter().enumerate().map(task).collect(),
        }
    }
}

/// Fig. 7(a): from four tasks whose footprint is 23 to 24 GB, one task is added at a time, up to thirteen.
/// The sets for 4, 5, … tasks.
pub fn growing(seed: u64, index: u64) -> Vec<Drawn> {
    let mut random = random(seed, index);
    let mut drawn = loop {
        let members = (0..4).map(|_| Member::draw(&mut random)).collect();
        let drawn = Drawn { members };
        // Table III has one decimal: sums are exact to rounding.
        if (GPU_GB - 1.001..=GPU_GB + 0.001).contains(&drawn.gigabytes()) {
            break drawn;
        }
    };
    let mut sets = vec![drawn.clone()];
    while drawn.members.len() < 13 {
        drawn.members.push(Member::draw(&mut random));
        sets.push(drawn.clone());
    }
    sets
}

/// A transfer that takes these milliseconds per megabyte and per chunk.
pub fn transfer(ms_per_mb: f64, ms_per_chunk: f64) -> Transfer {
    Transfer {
        per_chunk_ns: (ms_per_chunk * MS) as u64,
        bytes_per_second: (MB as f64 * 1e3 / ms_per_mb) as u64,
    }
}

/// Gigabytes in bytes.
pub fn gigabytes(gb: f64) -> u64 {
    (gb * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_as_published_and_repeatable() {
        let sets = growing(1, 0);
        assert_eq!(sets, growing(1, 0));
        assert_ne!(sets, growing(1, 1));
        assert_eq!(sets.len(), 10);
        assert!((22.99..=24.01).contains(&sets[0].gigabytes()), "{}", sets[0].gigabytes());
        for (k, set) in sets.iter().enumerate() {
            assert_eq!(set.members.len(), 4 + k);
            assert!(set.members.iter().all(|m| (3000.0..=5000.0).contains(&m.period_ms)));
        }
    }
}
