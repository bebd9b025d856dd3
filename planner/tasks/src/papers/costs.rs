//! What swapping costs on RT-Swap's machine, fitted to its Fig. 4, and the approaches that it compares.
//!
//! Fig. 4 gives 26.2 ms to swap out 300 MB in chunks of 64 MB, 35.3 ms with 2 MB and 41.6 ms with 256 MB. A time per megabyte
//! and a time per chunk reproduce all three; swapping in takes 28.3 ms with the same time per chunk.

use super::drawn::Drawn;
use super::table2::OBJECTS;
use super::table3::GPU_GB;
use crate::set::{Cost, Storage, Swappable, Task, TaskSet, Transfer};

const MB: f64 = 1e6;

/// Chunk sizes that the paper considers.
pub const CHUNKS: [u64; 8] =
    [64_000_000, 32_000_000, 128_000_000, 16_000_000, 256_000_000, 8_000_000, 4_000_000, 2_000_000];

/// Milliseconds per megabyte and per chunk.
pub const OUT_MS_PER_MB: f64 = 0.0810;
pub const IN_MS_PER_MB: f64 = (28.3 - 5.0 * MS_PER_CHUNK) / 320.0;
pub const MS_PER_CHUNK: f64 = 0.0735;
/// Pageable memory: 192.6 and 93.9 ms for 320 MB.
pub const PAGEABLE_OUT_MS_PER_MB: f64 = 192.6 / 320.0;
pub const PAGEABLE_IN_MS_PER_MB: f64 = 93.9 / 320.0;
/// Unified memory, in and out together: Fig. 8's 2172 ms for a network of 5.7 GB that computes for 63 ms.
pub const UNIFIED_MS_PER_MB: f64 = (2172.0 - 63.0) / 5700.0;

/// An approach of Fig. 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    Base,
    MoVmm,
    Min,
    Pageable,
    RtSwap,
}

impl Approach {
    pub const ALL: [Self; 5] = [Self::RtSwap, Self::Min, Self::MoVmm, Self::Pageable, Self::Base];

    pub fn name(self) -> &'static str {
        match self {
            Self::Base => "Base",
            Self::MoVmm => "MO-VMM",
            Self::Min => "MIN",
            Self::Pageable => "Pageable",
            Self::RtSwap => "RT-Swap",
        }
    }

    pub fn chunks(self) -> &'static [u64] {
        match self {
            Self::Min | Self::MoVmm => &CHUNKS[7..],
            Self::Base | Self::Pageable | Self::RtSwap => &CHUNKS,
        }
    }

    /// Rates per megabyte, out and in, and the time per chunk.
    fn rates(self) -> (f64, f64, f64) {
        match self {
            Self::RtSwap | Self::Min => (OUT_MS_PER_MB, IN_MS_PER_MB, MS_PER_CHUNK),
            Self::Pageable => (PAGEABLE_OUT_MS_PER_MB, PAGEABLE_IN_MS_PER_MB, 0.0),
            Self::Base => (UNIFIED_MS_PER_MB / 2.0, UNIFIED_MS_PER_MB / 2.0, 0.0),
            Self::MoVmm => {
                let objects: f64 = OBJECTS.iter().map(|o| f64::from(o.small + o.large)).sum();
                let megabytes: f64 = OBJECTS.iter().map(|o| o.object_level_gb * 1000.0).sum();
                let per_mb = MS_PER_CHUNK * objects / megabytes;
                (OUT_MS_PER_MB + per_mb, IN_MS_PER_MB + per_mb, 0.0)
            }
        }
    }

    /// Gigabytes that the approach adds to a network.
    fn added_gb(self, network: usize) -> f64 {
        match self {
            Self::MoVmm => OBJECTS[network].object_level_gb - OBJECTS[network].total_gb,
            _ => 0.0,
        }
    }

    /// The drawn set on a GPU with this part of its memory. `clean`: weights are read-only, swapping out writes nothing.
    pub fn set(self, drawn: &Drawn, memory: f64, clean: bool) -> TaskSet {
        let (out, into, per_chunk) = self.rates();
        let transfer = |ms_per_mb: f64| Transfer {
            per_chunk_ns: (per_chunk * 1e6) as u64,
            bytes_per_second: (MB * 1e3 / ms_per_mb) as u64,
        };
        let storage = Storage {
            chunk_bytes: self.chunks()[0],
            read: transfer(into),
            write: (!clean).then(|| transfer(out)),
        };
        let task = |(k, member): (usize, &super::drawn::Member)| {
            let (network, at) = (member.of(), member.resolution);
            let gigabytes = |gb: f64| ((gb + self.added_gb(member.network)) * 1e9).round() as u64;
            let compute_ns = (network.compute_ms[at] * 1e6) as u64;
            let cost = Cost {
                compute_ns,
                step_ns: compute_ns,
                bytes: gigabytes(network.memory_gb[at]),
                weights: Swappable::of(gigabytes(network.swappable_gb[at])),
                room: Swappable::default(),
                streams: false,
            };
            let period_ns = (member.period_ms * 1e6) as u64;
            let name = format!("{} {}", k + 1, network.name);
            Task { name, period_ns, deadline_ns: period_ns, jitter_ns: 0, urgency: 1.0, cost }
        };
        TaskSet {
            memory_bytes: (GPU_GB * 1e9 * memory).round() as u64,
            page_bytes: 0,
            storage,
            tasks: drawn.members.iter().enumerate().map(task).collect(),
        }
    }
}
