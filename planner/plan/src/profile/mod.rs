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
//! - The place of weights, and the time that steps lose to loads, depend on the plan (`context`).
//! - On a GPU a step takes `max(compute / occupancy, memory) + launches · overhead` (`launch`): its profile's rates are those
//!   of all multiprocessors, on one thread, and its threads hide what is exposed.
//! - A load takes a latency, plus a time interpolated in a table of read sizes, plus its checksum. Where several may be under
//!   way, part of that time passes beside others (`service`). A copy to a GPU's own memory takes a latency, and its bytes at one rate.
//!
//! Units are in the names: 1 GFLOP/s is one floating-point operation a nanosecond (a fused multiply-add
//! counts as two), 1 GB/s is one byte a nanosecond, 1 MB/s is 10⁶ bytes a second.

mod compute;
mod context;
mod cost;
pub mod delays;
mod fit;
mod service;
mod steadiness;
mod storage;
mod unequal;
mod validate;

pub use compute::Compute;
pub use cost::{Class, Costs, Outside};
pub use service::{Read, Service};
pub use steadiness::{Extremes, Steadiness};
pub use storage::{Contention, LlcReads, QueuedRead, Reads, Storage};
pub use unequal::{Placement, UnequalCores};

/// Functions that fit the numbers of a profile to measurements.
#[doc(hidden)]
pub mod fitting {
    pub use super::cost::fitting::{Extra, extra, extra_ns, transforming};
    pub use super::cost::{Work, shorter_ns};
    pub use super::fit::terms;
}

pub(crate) use validate::Unfit;

use crate::source::Io;
use delays::Delays;
use eyelet::kernels::Isa;
use eyelet_board::Document;
use eyelet_model::open;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Costs of computing and reading on a board.
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
    /// The cores of a processor that has two kinds. On other processors all count as equal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<UnequalCores>,
    /// Whether the numbers are estimates: derived from data sheets, not measured.
    pub estimated: bool,
    /// Where the numbers are from.
    pub source: String,
    pub compute: Compute,
    pub storage: Storage,
    /// For a board whose storage the processor reads like memory: packs are used where they lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapped: Option<Mapped>,
    /// Fast memory next to the arena. It is the board's description that has it, and no file of costs.
    #[serde(skip)]
    pub fast: Option<Fast>,
    /// Copies to the memory of a GPU that has its own (staged). None if the GPU computes in the memory that storage
    /// is read into (zero-copy).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<Transfer>,
    /// SwapNet's model of the same, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
    /// How steady the machine was, where it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
}

/// Storage that the processor reads like memory, such as flash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapped {
    /// Throughput with which all threads together read weights there.
    pub gbs: f64,
}

/// Memory next to the arena that is faster, such as tightly coupled memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fast {
    /// Bytes for buffers and scratch.
    pub bytes: u64,
    /// Rate at which one core reads it.
    pub gbs: f64,
    /// Rate at which one core reads the arena, at most that of fast memory.
    pub arena_gbs: f64,
}

impl Profile {
    /// Bytes of fast memory for a processor's buffers and scratch.
    pub fn fast_bytes(&self) -> u64 {
        self.fast.map_or(0, |fast| fast.bytes)
    }

    /// Whether weights that are used where they lie come slower than those in memory.
    pub fn is_slower_mapped(&self, threads: u32) -> bool {
        self.mapped
            .is_some_and(|mapped| mapped.gbs < self.compute.bandwidth_gbs(self.team(threads)))
    }
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
    /// Predicted time of a copy of `bytes` bytes.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        self.latency_ns + (bytes as f64 / self.gbs).round() as u64
    }
}

/// Why a profile cannot be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    #[error("the profile {path} cannot be read: {error}")]
    Read { path: PathBuf, error: std::io::Error },
    /// A fault in it: file, line, key and reason.
    #[error(transparent)]
    File(#[from] eyelet_board::Error),
}

impl Profile {
    /// Reads and validates a profile. `file` is what errors call it.
    pub fn parse(file: &str, text: &str) -> Result<Self, ProfileError> {
        Document::check_profile(file, text)?;
        let fault = |key: &str, reason: String| Document::fault_in(file, text, key, reason);
        let profile: Profile =
            toml::from_str(text).map_err(|error| fault("", error.message().to_owned()))?;
        profile.validate().map_err(|unfit| fault(&unfit.field, unfit.reason()))?;
        Ok(profile)
    }

    /// Reads a profile from a file.
    pub fn load(path: &Path) -> Result<Self, ProfileError> {
        let text = open::read_to_string(path, open::DESCRIPTION)
            .map_err(|error| ProfileError::Read { path: path.to_owned(), error })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The profile as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a profile is a table of numbers and strings")
    }

    /// Predicted time of a load of `bytes` bytes by itself, checksum included.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        self.storage.load_ns(bytes)
    }

    /// Times of loads into an arena that the last-level cache holds (`in_llc`), or a larger one, while `threads` threads
    /// compute. With a staging ring they are read one after the other.
    pub fn service(&self, in_llc: bool, threads: u32) -> Service {
        let several = self.transfer.is_none() && self.storage.io == Io::Direct;
        let depth = if several { self.storage.depth } else { 1 };
        Service::new(&Storage { depth, ..self.storage_for(in_llc, threads) })
    }

    /// Largest plan whose weights are in the last-level cache. If the processor copies reads, the source takes as much of
    /// the cache as the copies do.
    pub(crate) fn llc_bytes(&self) -> u64 {
        match self.storage.io {
            Io::Direct => self.compute.llc_bytes(),
            Io::Buffered | Io::Memory => self.compute.llc_bytes() / 2,
        }
    }

    /// Time that computing on `threads` threads loses for a byte that is read meanwhile, in plans that the last-level cache
    /// holds (`in_llc`), or in larger ones.
    pub(crate) fn contention_ns_per_byte(&self, in_llc: bool, threads: u32) -> f64 {
        self.contention(threads).ns_per_byte(in_llc)
    }

    /// The less of the two.
    pub(crate) fn least_drag_ns_per_byte(&self, threads: u32) -> f64 {
        [true, false]
            .map(|in_llc| self.contention_ns_per_byte(in_llc, threads))
            .into_iter()
            .fold(f64::INFINITY, f64::min)
    }

    /// Time that computing loses to reading. If it was not measured, it is the time that memory
    /// takes for the bytes. If the only core copies from storage that it reads like memory, it is
    /// the time of copying. A loader on a core that computes adds its own time.
    fn contention(&self, threads: u32) -> Contention {
        let copied = self.mapped.filter(|_| self.threads == 1);
        let gbs = copied.map_or(self.compute.memory_gbs, |mapped| mapped.gbs);
        let ns = 1.0 / gbs;
        let read = Contention { llc_ns_per_byte: ns, dram_ns_per_byte: ns };
        self.storage.contention.unwrap_or(read).plus(self.lost_to_loader(threads))
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
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

    pub(super) fn profile() -> Profile {
        crate::board::Board::load("jetson-nano").unwrap().profile
    }

    #[test]
    fn a_profile_survives_its_file() {
        let profile = profile();
        assert_eq!(Profile::parse("p", &profile.to_toml()).unwrap(), profile);
    }

    /// Before there could be several in flight.
    #[test]
    fn an_older_file_reads_one_at_a_time() {
        let mut profile = profile();
        profile.storage.depth = 1;
        let text = profile.to_toml();
        assert!(!text.contains("depth = 1\n"), "{text}");
        assert_eq!(Profile::parse("p", &text).unwrap().storage.depth, 1);
    }

    #[test]
    fn a_gpu_with_a_memory_of_its_own_is_copied_to() {
        let mut profile = profile();
        (profile.isa, profile.multiprocessors) = (Isa::Cuda, 132);
        assert_eq!(Profile::parse("p", &profile.to_toml()).unwrap(), profile);
        profile.transfer = Some(Transfer { latency_ns: 10_000, gbs: 16.0 });
        assert_eq!(Profile::parse("p", &profile.to_toml()).unwrap(), profile);
    }

    #[test]
    fn an_arena_in_the_cache_is_read_into_as_was_measured() {
        let mut profile = profile();
        let larger = profile.service(false, 1).load_ns(65_536);
        assert_eq!(profile.service(true, 1).load_ns(65_536), larger, "nothing was measured");
        let reads = vec![Reads { bytes: 65_536, mbs: 32_768.0 }];
        let llc = LlcReads { reads, checksum_gbs: 65.536 };
        profile.storage.llc = Some(llc);
        profile.storage.latency_ns = 7;
        assert_eq!(profile.service(true, 1).load_ns(65_536), 2000 + 1000 + 7);
        assert!(profile.service(false, 1).load_ns(65_536) > 10_000);
        assert_eq!(Profile::parse("p", &profile.to_toml()).unwrap(), profile);
        let faster = Profile { storage: profile.storage.faster(2.0), ..profile };
        assert_eq!(faster.service(true, 1).load_ns(65_536), 1000 + 1000 + 7);
    }
}
