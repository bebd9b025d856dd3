//! The costs of swapping with the approaches that RT-Swap compares.

use super::table2::OBJECTS;
use eyelet_tasks::generate::table3::{
    CHUNKS, Drawn, IN_MS_PER_MB, MS_PER_CHUNK, OUT_MS_PER_MB, gigabytes, transfer,
};
use eyelet_tasks::set::{Storage, Swappable, TaskSet};

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
        let mut set = drawn.set(memory, clean);
        let (out, into, per_chunk) = self.rates();
        set.storage = Storage {
            chunk_bytes: self.chunks()[0],
            read: transfer(into, per_chunk),
            write: (!clean).then(|| transfer(out, per_chunk)),
        };
        for (task, member) in set.tasks.iter_mut().zip(&drawn.members) {
            let (network, at) = (member.of(), member.resolution);
            let added_gb = self.added_gb(member.network);
            task.cost.bytes = gigabytes(network.memory_gb[at] + added_gb);
            task.cost.weights = Swappable::of(gigabytes(network.swappable_gb[at] + added_gb));
        }
        set
    }
}
