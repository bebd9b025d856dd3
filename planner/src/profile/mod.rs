//! Profiles: what computing and reading cost on a board, in the few numbers that planning needs.
//!
//! A profile is TOML, either measured on the machine itself or estimated from data sheets (it says
//! which). Its model is deliberately small:
//!
//! - A step takes `max(compute, memory) + exposed · min(compute, memory)² / max(compute, memory) + overhead`. Compute is the step's
//!   work in its kernel's class, at that class's rate on one thread times the speed-up of the threads, and a little for
//!   each of its pieces. Memory is the weights that it reads plus its activations if they are larger than the cache, at a
//!   bandwidth that grows with the threads up to that of the memory. `exposed` is how much of the shorter one prefetching does
//!   not hide; of operators without weights it hides all ([`Costs`]).
//! - Where weights are, and what steps lose to the loads beside them, depends on the plan ([`context`]).
//! - On a GPU a step takes `max(compute / occupancy, memory) + launches · overhead` ([`launch`]): its profile's rates are those
//!   of all multiprocessors, on one thread, and its threads hide what is exposed.
//! - A load takes a latency, plus a time interpolated in a table of read sizes, plus its checksum. Where several may be under
//!   way, part of that time passes beside others ([`service`]). A copy to a GPU's own memory takes a latency, and its bytes at one rate.
//!
//! Units are in the names: 1 GFLOP/s is one floating-point operation a nanosecond (a fused multiply-add
//! counts as two), 1 GB/s is one byte a nanosecond, 1 MB/s is 10⁶ bytes a second.

mod context;
mod cost;
pub mod delays;
mod fit;
mod launch;
#[cfg(target_os = "linux")]
mod measure;
mod service;

pub use cost::{Class, Costs, Outside};
#[cfg(target_os = "linux")]
pub use measure::{MeasureError, measure};
pub use service::{Read, Service};

use crate::source::Io;
use delays::Delays;
use eyelet::kernels::Isa;
use eyelet::storage::MAX_DEPTH;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What computing and reading cost on a board.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The board's name.
    pub name: String,
    #[serde(with = "isa_name")]
    pub isa: Isa,
    /// Threads that the board can compute with.
    pub threads: u32,
    /// Multiprocessors of a GPU; 0 where there is none to compute with.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub multiprocessors: u32,
    /// Whether the numbers are estimates: derived from data sheets, not measured.
    pub estimated: bool,
    /// Where the numbers are from.
    pub source: String,
    pub compute: Compute,
    pub storage: Storage,
    /// Of a GPU with a memory of its own (staged): how what was read gets there. None where it computes in the memory
    /// that storage is read into (zero-copy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Transfer>,
    /// SwapNet's model of the same, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
}

/// Copies from the host's memory to a GPU's, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// Cost of a copy beyond its bytes: the call, and the events around it.
    pub latency_ns: u64,
    /// Throughput of large copies from pinned memory.
    pub gbs: f64,
}

impl Transfer {
    /// Predicted time of a copy of so many bytes.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        self.latency_ns + (bytes as f64 / self.gbs).round() as u64
    }
}

/// Rates of the kernels' classes on one thread (of a GPU: on all of it), and what threads share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compute {
    pub conv_1x1_gflops: f64,
    /// Convolutions with larger kernels.
    pub conv_kxk_gflops: f64,
    pub depthwise_gflops: f64,
    /// What a row of a panel takes beyond its operations, in each of these: it counts where sums are short.
    #[serde(default)]
    pub conv_1x1_piece_ns: f64,
    #[serde(default)]
    pub conv_kxk_piece_ns: f64,
    #[serde(default)]
    pub depthwise_piece_ns: f64,
    /// What depthwise convolutions wait for each byte of their weights, which are too few in a row to be fetched ahead.
    #[serde(default)]
    pub depthwise_wait_ns_per_byte: f64,
    /// Products of two activations.
    pub matmul_gflops: f64,
    /// Convolutions of few rows: bytes of weights, which is what one thread reads of memory.
    pub fully_connected_gbs: f64,
    /// Transforms of Winograd convolutions: bytes read and written.
    pub transform_gbs: f64,
    /// What they take longer for each byte of a layer's input and output beyond twice [`cache_bytes`](Self::cache_bytes):
    /// tiles are rows far apart, which are not fetched ahead.
    #[serde(default)]
    pub transform_spill_ns_per_byte: f64,
    /// What a product of a block of tiles with a panel, of which each frequency has one, takes beyond its operations,
    #[serde(default)]
    pub product_ns: f64,
    /// and for each byte of its weights, if those of all panels stay in a thread's own cache.
    #[serde(default)]
    pub product_ns_per_byte: f64,
    /// Widening weights of 16 bits: bytes of floats made. A GPU's kernels read weights as they are stored.
    pub widen_gbs: f64,
    /// Transforming a direct convolution's weights to those of Winograd's algorithm: bytes made. Not on a GPU.
    pub transform_weights_gbs: f64,
    /// Elementwise arithmetic and means: bytes read and written.
    pub elementwise_gbs: f64,
    /// Exponentials and powers (sigmoid, softmax, ...): bytes read and written.
    pub function_gbs: f64,
    /// Pooling: bytes of all taps and the output.
    pub pool_gbs: f64,
    /// Copies: bytes read and written.
    pub copy_gbs: f64,
    /// Bandwidth of memory, for all threads together.
    pub memory_gbs: f64,
    /// Activations that are smaller stay in a thread's own cache.
    pub cache_bytes: u64,
    /// Those that are smaller stay in a cache that all share, if there is one: they come at the rate of elementwise
    /// arithmetic, and not from memory.
    #[serde(default)]
    pub shared_cache_bytes: u64,
    /// Reading weights from there, on one thread. Where it was not measured, weights are taken to come from memory.
    #[serde(default)]
    pub shared_cache_gbs: f64,
    /// Share of the shorter one of computing and reading memory that adds to the longer one, in layers with weights where both
    /// take as long; the shorter it is beside the longer one, the less of it.
    pub exposed: f64,
    /// The same of Winograd convolutions, where it was measured: they read a panel's weights frequency by frequency, of each too
    /// little in a row for much of it to be fetched ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winograd_exposed: Option<f64>,
    /// What every thread after the first adds to the rate, 1 being as much as the first.
    pub scaling: f64,
    /// Cost of a step beyond its work: counters, waking threads, borders. Of a GPU: of each launch.
    pub step_overhead_ns: u64,
}

/// Storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// How it is read: past the page cache if nothing is said.
    #[serde(default)]
    pub io: Io,
    /// Reads that the loader has under way at a time.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub depth: u32,
    /// Bytes of them: a read that would exceed these begins only when nothing else is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Cost of a load beyond reading: counters, waking the loader.
    pub latency_ns: u64,
    /// Throughput of reads one after the other, by their size, in ascending order of size.
    pub reads: Vec<Reads>,
    /// Verifying what was read.
    pub checksum_gbs: f64,
    /// Reads by a processor, which copies what is read, into an arena that the cache holds that all share, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<Near>,
    /// What computing loses to the bytes that are read meanwhile, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drag: Option<Drag>,
    /// Throughput with several reads of one size under way, that for [`depth`](Self::depth) among them. Of sizes between these time is
    /// interpolated; of smaller ones as much is gained as of the smallest, and larger ones come at the rate of the largest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deeper: Vec<Deeper>,
}

/// Reads whose place is in the cache that all processors share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// As [`Storage::reads`].
    pub reads: Vec<Reads>,
    /// As [`Storage::checksum_gbs`].
    pub checksum_gbs: f64,
}

/// What computing loses for each byte that is read meanwhile: what is read is written to the memory that computing
/// reads, its checksum reads it, and a virtual machine's devices take their share of its processors.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drag {
    /// In plans that the cache holds that all processors share.
    pub near_ns_per_byte: f64,
    /// In larger ones.
    pub far_ns_per_byte: f64,
}

impl Drag {
    /// In plans that the cache holds (`near`), or in larger ones.
    pub(crate) fn ns_per_byte(&self, near: bool) -> f64 {
        if near { self.near_ns_per_byte } else { self.far_ns_per_byte }
    }
}

/// Throughput with so many reads of one size under way at any time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deeper {
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
    fn ns(&self) -> f64 {
        self.bytes as f64 * 1e3 / self.mbs
    }
}

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    #[error("the profile {path} cannot be read: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    #[error("the profile is not as it should be: {0}")]
    Toml(#[from] toml::de::Error),
    #[error("{field} is {value} in the profile; it must be {expected}")]
    Value { field: String, value: f64, expected: &'static str },
}

impl Profile {
    /// Reads and validates a profile.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let profile: Profile = toml::from_str(text)?;
        profile.validate()?;
        Ok(profile)
    }

    /// Reads a profile from a file.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ProfileError::Read { path: path.to_owned(), error })?;
        Self::parse(&text)
    }

    /// The profile as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is a table of numbers and strings")
    }

    /// Refuses numbers with which time would not be a positive, finite number that grows with work.
    pub fn validate(&self) -> Result<(), ProfileError> {
        let value = |field: String, value: f64, good: bool, expected| {
            if good { Ok(()) } else { Err(ProfileError::Value { field, value, expected }) }
        };
        let compute = &self.compute;
        let rates = [
            ("compute.conv_1x1_gflops", compute.conv_1x1_gflops),
            ("compute.conv_kxk_gflops", compute.conv_kxk_gflops),
            ("compute.depthwise_gflops", compute.depthwise_gflops),
            ("compute.matmul_gflops", compute.matmul_gflops),
            ("compute.fully_connected_gbs", compute.fully_connected_gbs),
            ("compute.transform_gbs", compute.transform_gbs),
            ("compute.widen_gbs", compute.widen_gbs),
            ("compute.transform_weights_gbs", compute.transform_weights_gbs),
            ("compute.elementwise_gbs", compute.elementwise_gbs),
            ("compute.function_gbs", compute.function_gbs),
            ("compute.pool_gbs", compute.pool_gbs),
            ("compute.copy_gbs", compute.copy_gbs),
            ("compute.memory_gbs", compute.memory_gbs),
            ("storage.checksum_gbs", self.storage.checksum_gbs),
        ];
        for (field, rate) in rates {
            // A rate may be infinite (no checksum), time may not.
            value(field.to_owned(), rate, rate >= 1e-6, "positive")?;
        }
        let drag =
            self.storage.drag.unwrap_or(Drag { near_ns_per_byte: 0.0, far_ns_per_byte: 0.0 });
        let costs = [
            ("compute.conv_1x1_piece_ns", compute.conv_1x1_piece_ns),
            ("compute.conv_kxk_piece_ns", compute.conv_kxk_piece_ns),
            ("compute.depthwise_piece_ns", compute.depthwise_piece_ns),
            ("compute.depthwise_wait_ns_per_byte", compute.depthwise_wait_ns_per_byte),
            ("compute.transform_spill_ns_per_byte", compute.transform_spill_ns_per_byte),
            ("compute.product_ns", compute.product_ns),
            ("compute.product_ns_per_byte", compute.product_ns_per_byte),
            ("compute.shared_cache_gbs", compute.shared_cache_gbs),
            ("storage.drag.near_ns_per_byte", drag.near_ns_per_byte),
            ("storage.drag.far_ns_per_byte", drag.far_ns_per_byte),
        ];
        for (field, cost) in costs {
            let good = cost >= 0.0 && cost.is_finite();
            value(field.to_owned(), cost, good, "finite, and not less than 0")?;
        }
        for (field, share) in [
            ("compute.scaling", compute.scaling),
            ("compute.exposed", compute.exposed),
            ("compute.winograd_exposed", compute.winograd_exposed.unwrap_or(compute.exposed)),
        ] {
            value(field.to_owned(), share, (0.0..=1.0).contains(&share), "between 0 and 1")?;
        }
        value("threads".to_owned(), self.threads.into(), self.threads > 0, "positive")?;
        let (gpu, multiprocessors) = (self.isa == Isa::Cuda, self.multiprocessors);
        let expected =
            if gpu { "positive with isa = \"cuda\"" } else { "0 without isa = \"cuda\"" };
        let named = gpu == (multiprocessors > 0);
        value("multiprocessors".to_owned(), multiprocessors.into(), named, expected)?;
        if let Some(transfer) = &self.transfer {
            let gbs = transfer.gbs;
            value("transfer.gbs".to_owned(), gbs, gbs >= 1e-6, "positive")?;
            value("transfer.gbs".to_owned(), gbs, gpu, "left out without isa = \"cuda\"")?;
        }
        let near = self.storage.near.as_ref();
        if let Some(Near { checksum_gbs, .. }) = near {
            let field = "storage.near.checksum_gbs".to_owned();
            value(field, *checksum_gbs, *checksum_gbs >= 1e-6, "positive")?;
        }
        let near = near.map(|near| ("near.reads", &near.reads));
        for (name, reads) in [("reads", &self.storage.reads)].into_iter().chain(near) {
            let count = reads.len();
            let field = format!("the length of storage.{name}");
            value(field, count as f64, count > 0, "positive")?;
            for (index, read) in reads.iter().enumerate() {
                let field = |of| format!("storage.{name}[{index}].{of}");
                value(field("bytes"), read.bytes as f64, read.bytes > 0, "positive")?;
                value(field("mbs"), read.mbs, read.mbs >= 1e-6, "positive")?;
                if let Some(before) = index.checked_sub(1).map(|before| reads[before]) {
                    let larger = read.bytes > before.bytes;
                    value(field("bytes"), read.bytes as f64, larger, "larger than the one before")?;
                    let slower = read.ns() >= before.ns();
                    let expected = "such that a larger read takes no less time than the one before";
                    value(field("mbs"), read.mbs, slower, expected)?;
                }
            }
        }
        let depth = self.storage.depth;
        let possible = (1..=MAX_DEPTH as u32).contains(&depth);
        value("storage.depth".to_owned(), depth.into(), possible, "1 to 8")?;
        let window = self.storage.window.unwrap_or(u64::MAX);
        value("storage.window".to_owned(), window as f64, window > 0, "positive")?;
        for (index, deeper) in self.storage.deeper.iter().enumerate() {
            let field = |of| format!("storage.deeper[{index}].{of}");
            value(field("depth"), deeper.depth.into(), deeper.depth > 0, "positive")?;
            value(field("bytes"), deeper.bytes as f64, deeper.bytes > 0, "positive")?;
            value(field("mbs"), deeper.mbs, deeper.mbs >= 1e-6, "positive")?;
        }
        Ok(())
    }

    /// Predicted time of a load of so many bytes by itself, checksum included.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        self.storage.load_ns(bytes)
    }

    /// What loads take into an arena that the cache holds that all processors share (`near`), or a larger one. With a staging ring
    /// they are read one after the other.
    pub fn service(&self, near: bool) -> Service {
        let several = self.transfer.is_none() && self.storage.io == Io::Direct;
        let depth = if several { self.storage.depth } else { 1 };
        let mut storage = Storage { depth, ..self.storage.clone() };
        if let Some(Near { reads, checksum_gbs }) = storage.near.take().filter(|_| near) {
            (storage.reads, storage.checksum_gbs) = (reads, checksum_gbs);
        }
        Service::new(&storage)
    }

    /// Plans of up to so many bytes find their weights in the cache that all share. What a processor copies there to an arena
    /// passes through it, too, and takes as much of it as the copies do.
    pub(crate) fn near_bytes(&self) -> u64 {
        match self.storage.io {
            Io::Direct => self.compute.near_bytes(),
            Io::Buffered | Io::Memory => self.compute.near_bytes() / 2,
        }
    }

    /// What computing loses for a byte that is read meanwhile, in plans that the cache holds that all share (`near`), or in larger
    /// ones.
    pub(crate) fn drag_ns_per_byte(&self, near: bool) -> f64 {
        self.drag().ns_per_byte(near)
    }

    /// The less of the two.
    pub(crate) fn least_drag_ns_per_byte(&self) -> f64 {
        self.drag_ns_per_byte(true).min(self.drag_ns_per_byte(false))
    }

    /// What computing loses to reading: as long as memory takes for the bytes, where nothing was measured.
    fn drag(&self) -> Drag {
        let ns = 1.0 / self.compute.memory_gbs;
        self.storage.drag.unwrap_or(Drag { near_ns_per_byte: ns, far_ns_per_byte: ns })
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

impl Compute {
    /// Rate of so many threads, that of one being 1.
    pub fn speedup(&self, threads: u32) -> f64 {
        1.0 + f64::from(threads.saturating_sub(1)) * self.scaling
    }

    /// Plans of up to so many bytes find their weights in the cache that all share, if reading them there was measured.
    pub(super) fn near_bytes(&self) -> u64 {
        if self.shared_cache_gbs > 0.0 { self.shared_cache_bytes } else { 0 }
    }

    /// What so many threads together read there, and no less than of memory.
    pub(super) fn near_gbs(&self, threads: u32) -> f64 {
        (self.shared_cache_gbs * self.speedup(threads)).max(self.bandwidth_gbs(threads))
    }

    /// What so many threads together read of memory.
    pub fn bandwidth_gbs(&self, threads: u32) -> f64 {
        (self.fully_connected_gbs * f64::from(threads)).min(self.memory_gbs)
    }
}

impl Storage {
    /// Storage that reads at one rate whatever the size.
    pub fn flat(latency_ns: u64, mbs: f64, checksum_gbs: f64) -> Self {
        Self {
            io: Io::Direct,
            depth: 1,
            window: None,
            latency_ns,
            reads: vec![Reads { bytes: 1 << 20, mbs }],
            checksum_gbs,
            near: None,
            drag: None,
            deeper: Vec::new(),
        }
    }

    /// The same storage, with all its throughputs multiplied.
    pub fn faster(&self, factor: f64) -> Self {
        let faster = |reads: &[Reads]| -> Vec<Reads> {
            reads.iter().map(|read| Reads { mbs: read.mbs * factor, ..*read }).collect()
        };
        let deeper =
            self.deeper.iter().map(|read| Deeper { mbs: read.mbs * factor, ..*read }).collect();
        let near = self.near.as_ref().map(|near| Near { reads: faster(&near.reads), ..*near });
        Self { reads: faster(&self.reads), near, deeper, ..self.clone() }
    }

    /// Predicted time of a load of so many bytes, with nothing else under way.
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

/// The instruction set of a name, if there is one.
pub fn isa_of_name(name: &str) -> Option<Isa> {
    Isa::ALL.into_iter().find(|isa| isa.name() == name)
}

/// Instruction sets are written by their names.
mod isa_name {
    use super::{Isa, isa_of_name};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(isa: &Isa, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(isa.name())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Isa, D::Error> {
        let name = String::deserialize(deserializer)?;
        isa_of_name(&name).ok_or_else(|| {
            let known = Isa::ALL.map(Isa::name).join(", ");
            D::Error::custom(format!("no instruction set `{name}`; there are: {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn profile() -> Profile {
        crate::board::Board::load("jetson-nano").unwrap().profile
    }

    #[test]
    fn a_profile_survives_its_file() {
        let profile = profile();
        assert_eq!(Profile::parse(&profile.to_toml()).unwrap(), profile);
    }

    /// Before there could be several under way.
    #[test]
    fn an_older_file_reads_one_at_a_time() {
        let mut profile = profile();
        profile.storage.depth = 1;
        let text = profile.to_toml();
        assert!(!text.contains("depth = 1\n"), "{text}");
        assert_eq!(Profile::parse(&text).unwrap().storage.depth, 1);
    }

    #[test]
    fn a_gpu_with_a_memory_of_its_own_is_copied_to() {
        let mut profile = profile();
        (profile.isa, profile.multiprocessors) = (Isa::Cuda, 132);
        assert_eq!(Profile::parse(&profile.to_toml()).unwrap(), profile);
        profile.transfer = Some(Transfer { latency_ns: 10_000, gbs: 16.0 });
        assert_eq!(Profile::parse(&profile.to_toml()).unwrap(), profile);
    }

    #[test]
    fn bad_numbers_are_named() {
        let refused = |change: &dyn Fn(&mut Profile), text: &str| {
            let mut profile = profile();
            change(&mut profile);
            let error = Profile::parse(&profile.to_toml()).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        };
        refused(&|p| p.compute.matmul_gflops = 0.0, "matmul_gflops is 0");
        refused(&|p| p.compute.pool_gbs = f64::NAN, "pool_gbs is NaN");
        refused(&|p| p.compute.conv_1x1_piece_ns = -1.0, "conv_1x1_piece_ns is -1");
        refused(&|p| p.compute.transform_spill_ns_per_byte = f64::INFINITY, "per_byte is inf");
        let drag = Drag { near_ns_per_byte: 0.0, far_ns_per_byte: f64::NAN };
        refused(&|p| p.storage.drag = Some(drag), "storage.drag.far_ns_per_byte is NaN");
        refused(&|p| p.compute.scaling = 1.5, "scaling is 1.5");
        refused(&|p| p.threads = 0, "threads is 0");
        refused(&|p| p.multiprocessors = 8, "multiprocessors is 8");
        refused(&|p| p.isa = Isa::Cuda, "multiprocessors is 0");
        let copies = |gbs| Some(Transfer { latency_ns: 10_000, gbs });
        refused(&|p| p.transfer = copies(0.0), "transfer.gbs is 0");
        refused(&|p| p.transfer = copies(12.0), "transfer.gbs is 12");
        refused(&|p| p.storage.depth = 0, "storage.depth is 0");
        refused(&|p| p.storage.depth = 9, "storage.depth is 9");
        refused(&|p| p.storage.window = Some(0), "storage.window is 0");
        let deeper = |mbs| vec![Deeper { depth: 4, bytes: 65_536, mbs }];
        refused(&|p| p.storage.deeper = deeper(f64::NAN), "storage.deeper[0].mbs is NaN");
        refused(&|p| p.storage.reads.clear(), "storage.reads is 0");
        let near = |mbs, checksum_gbs| {
            let reads = vec![Reads { bytes: 65_536, mbs }];
            Some(Near { reads, checksum_gbs })
        };
        refused(&|p| p.storage.near = near(-1.0, 1.0), "storage.near.reads[0].mbs is -1");
        refused(&|p| p.storage.near = near(1.0, 0.0), "storage.near.checksum_gbs is 0");
        refused(&|p| p.compute.winograd_exposed = Some(1.5), "winograd_exposed is 1.5");
        refused(&|p| p.storage.reads[1].bytes = 1, "storage.reads[1].bytes is 1");
        refused(&|p| p.storage.reads[1].mbs *= 1e6, "takes no less time");
        let text = profile().to_toml().replace("neon", "vax");
        assert!(Profile::parse(&text).unwrap_err().to_string().contains("`vax`; there are: port"));
        let text = profile().to_toml().replace("scaling", "scalding");
        assert!(Profile::parse(&text).unwrap_err().to_string().contains("scalding"));
    }

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

    #[test]
    fn an_arena_in_the_cache_is_read_into_as_was_measured() {
        let mut profile = profile();
        let larger = profile.service(false).load_ns(65_536);
        assert_eq!(profile.service(true).load_ns(65_536), larger, "nothing was measured");
        let reads = vec![Reads { bytes: 65_536, mbs: 32_768.0 }];
        profile.storage.near = Some(Near { reads, checksum_gbs: 65.536 });
        profile.storage.latency_ns = 7;
        assert_eq!(profile.service(true).load_ns(65_536), 2000 + 1000 + 7);
        assert!(profile.service(false).load_ns(65_536) > 10_000);
        assert_eq!(Profile::parse(&profile.to_toml()).unwrap(), profile);
        let faster = Profile { storage: profile.storage.faster(2.0), ..profile };
        assert_eq!(faster.service(true).load_ns(65_536), 1000 + 1000 + 7);
    }

    proptest! {
        #[test]
        fn larger_loads_take_longer_and_faster_storage_less(
            bytes in 0u64..1 << 24,
            more in 0u64..1 << 20,
            factor in 1.0..10.0,
        ) {
            let storage = profile().storage;
            prop_assert!(storage.load_ns(bytes) <= storage.load_ns(bytes + more));
            prop_assert!(storage.faster(factor).load_ns(bytes) <= storage.load_ns(bytes));
        }
    }
}
