//! The cost of reading: `[storage]` of a profile.

use crate::source::Io;
use serde::{Deserialize, Serialize};

/// Storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// How it is read: past the page cache if nothing is said.
    #[serde(default)]
    pub io: Io,
    /// Most reads that the loader has in flight.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub depth: u32,
    /// Bytes in flight that the device accepts. A read that would exceed these begins when nothing else is in flight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Answers to reads come when all that are in flight are done: so do some virtual disks. A read then takes as long as those that
    /// begin before it is done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub together: bool,
    /// Cost of a load beyond reading: counters, waking the loader.
    pub latency_ns: u64,
    /// Throughput of reads one after the other, by their size, in ascending order of size.
    pub reads: Vec<Reads>,
    /// Verifying what was read.
    pub checksum_gbs: f64,
    /// Reads by a processor, which copies what is read, into an arena that the cache holds that all share, where that was measured.
    #[serde(default, alias = "near", skip_serializing_if = "Option::is_none")]
    pub llc: Option<LlcReads>,
    /// Time that computing loses to bytes that are read meanwhile, if it was measured.
    #[serde(default, alias = "drag", skip_serializing_if = "Option::is_none")]
    pub contention: Option<Contention>,
    /// Throughput with several reads of one size in flight, also with [`depth`](Self::depth). Between these sizes time is
    /// interpolated. Smaller reads gain the same share as the smallest size, and larger ones come at the rate of the
    /// largest.
    #[serde(default, alias = "deeper", skip_serializing_if = "Vec::is_empty")]
    pub queued_reads: Vec<QueuedRead>,
}

/// Reads whose place is in the cache that all processors share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlcReads {
    /// As [`Storage::reads`].
    pub reads: Vec<Reads>,
    /// As [`Storage::checksum_gbs`].
    pub checksum_gbs: f64,
}

/// Time that computing loses for each byte that is read meanwhile. Reads write to the memory that computing reads,
/// checksums read it, and a virtual machine's devices take their share of its processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// In plans that the cache holds that all processors share.
    #[serde(alias = "near_ns_per_byte")]
    pub llc_ns_per_byte: f64,
    /// In larger ones.
    #[serde(alias = "far_ns_per_byte")]
    pub dram_ns_per_byte: f64,
}

impl Contention {
    /// With another loss.
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            llc_ns_per_byte: self.llc_ns_per_byte + other.llc_ns_per_byte,
            dram_ns_per_byte: self.dram_ns_per_byte + other.dram_ns_per_byte,
        }
    }

    /// In plans that the cache holds (`in_llc`), or in larger ones.
    pub(crate) fn ns_per_byte(&self, in_llc: bool) -> f64 {
        if in_llc { self.llc_ns_per_byte } else { self.dram_ns_per_byte }
    }
}

/// Throughput with several reads of one size in flight at any time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedRead {
    pub depth: u32,
    pub bytes: u64,
    pub mbs: f64,
}

/// Throughput of reads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    pub bytes: u64,
    pub mbs: f64,
}

impl Reads {
    /// Time of one read.
    pub fn ns(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.mbs
    }
}

impl Storage {
    /// Storage that reads at one rate whatever the size.
    pub fn flat(latency_ns: u64, mbs: f64, checksum_gbs: f64) -> Self {
        Self {
            io: Io::Direct,
            depth: 1,
            window: None,
            together: false,
            latency_ns,
            reads: vec![Reads { bytes: 1 << 20, mbs }],
            checksum_gbs,
            llc: None,
            contention: None,
            queued_reads: Vec::new(),
        }
    }

    /// This storage with all throughputs multiplied.
    pub fn faster(&self, factor: f64) -> Self {
        let faster = |reads: &[Reads]| -> Vec<Reads> {
            reads.iter().map(|read| Reads { mbs: read.mbs * factor, ..*read }).collect()
        };
        let queued_reads = self
            .queued_reads
            .iter()
            .map(|read| QueuedRead { mbs: read.mbs * factor, ..*read })
            .collect();
        let llc = self.llc.as_ref().map(|llc| LlcReads { reads: faster(&llc.reads), ..*llc });
        Self { reads: faster(&self.reads), llc, queued_reads, ..self.clone() }
    }

    /// Predicted time of a load of `bytes` bytes, with nothing else in flight.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        let checksum = bytes as f64 / self.checksum_gbs;
        self.latency_ns + (self.read_ns(bytes) + checksum).round() as u64
    }

    /// Time of a read: between the sizes in the table the time is interpolated, below and above them the
    /// throughput is that of the nearest.
    pub fn read_ns(&self, bytes: u64) -> f64 {
        let above = self.reads.partition_point(|read| read.bytes < bytes);
        let at = |read: &Reads| bytes as f64 * 1e3 / read.mbs;
        match (above.checked_sub(1).map(|below| &self.reads[below]), self.reads.get(above)) {
            (Some(low), Some(high)) => {
                let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
                low.ns() + share * (high.ns() - low.ns())
            }
            (Some(only), None) | (None, Some(only)) => at(only),
            (None, None) => 0.0,
        }
    }
}

fn one() -> u32 {
    1
}

fn is_false(flag: &bool) -> bool {
    !flag
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use proptest::prelude::*;

    #[test]
    fn reads_are_interpolated() {
        let reads =
            vec![Reads { bytes: 4096, mbs: 4.096 }, Reads { bytes: 1 << 20, mbs: 1048.576 }];
        // 1 ms each: reads of any size in between take as long.
        let storage = Storage { reads, checksum_gbs: f64::INFINITY, ..Storage::flat(7, 1.0, 1.0) };
        assert_eq!(storage.load_ns(4096), 1_000_007);
        assert_eq!(storage.load_ns(65536), 1_000_007);
        assert_eq!(storage.load_ns(1 << 20), 1_000_007);
        assert_eq!(storage.load_ns(4 << 20), 4_000_007);
        assert_eq!(storage.load_ns(1024), 250_007);
        assert_eq!(Storage::flat(0, 100.0, 1.0).load_ns(1000), 11_000);
    }

    proptest! {
        #[test]
        fn larger_loads_take_longer_and_faster_storage_less(
            bytes in 0u64..1 << 24,
            more in 0u64..1 << 20,
            factor in 1.0..10.0,
        ) {
            let storage = Board::load("jetson-nano").unwrap().profile.storage;
            prop_assert!(storage.load_ns(bytes) <= storage.load_ns(bytes + more));
            prop_assert!(storage.faster(factor).load_ns(bytes) <= storage.load_ns(bytes));
        }
    }
}
