//! Cores of two kinds: which compute, where the loader works, and what that costs.
//!
//! Rates of a profile are those of a big core. A little core is [`little_speed`](UnequalCores::little_speed) as fast, in
//! everything that it does by itself. Parts of a step are dealt out to whoever is free, so threads on both kinds finish
//! together: their speeds add up ([`Profile::team`]).
//!
//! The loader mostly waits. It works when it verifies what was read and, unless it reads past the page cache, copies it.
//!
//! | its core | what that costs |
//! |---|---|
//! | a big one of its own | nothing more: that is what the profile measured |
//! | a little one of its own | it verifies and copies more slowly |
//! | one that computes, too | as on a core of its own of that kind, and computing loses the time |
//!
//! On a shared core, computing loses the loader's time there: with threads worth `T` big cores, `1 / T` of the time that the
//! work takes a big core. It is charged as contention, by the bytes that are read while steps compute.

use super::{Contention, Profile, Storage};
use crate::source::Io;
use eyelet_board::Cores;
use serde::{Deserialize, Serialize};

/// Cores of two kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnequalCores {
    pub count: u32,
    /// The numbers of the big ones.
    pub big: Vec<u32>,
    /// How fast the others are, a big one being 1.
    pub little_speed: f64,
    /// The core of the loader, where one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loader: Option<u32>,
}

/// The cores of the compute threads, and of the loader.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// The cores that compute, a thread on each.
    pub compute_cores: Vec<u32>,
    /// The core of the loader.
    pub loader_core: u32,
    /// Whether the loader's core computes as well.
    pub shared: bool,
}

impl UnequalCores {
    /// The cores of a description, if it says how fast the little ones are.
    pub fn of(cores: &Cores) -> Option<Self> {
        let little_speed = cores.little_speed?;
        let Cores { count, big, loader, .. } = cores.clone();
        Some(Self { count, big, little_speed, loader })
    }

    /// As a description has them.
    pub fn described(&self) -> Cores {
        let Self { count, big, little_speed, loader } = self.clone();
        Cores { count, big, little_speed: Some(little_speed), loader, pipeline: None }
    }

    /// The cores of `threads` threads and of the loader. Threads without a core are left out. If all cores compute and
    /// none is named for the loader, it has the last one.
    pub fn placement(&self, threads: u32) -> Placement {
        let cores = self.described();
        let compute_cores = cores.computing(threads);
        let own = cores.loader_for(&compute_cores);
        let loader_core = own.or(compute_cores.last().copied()).unwrap_or_default();
        let shared = compute_cores.contains(&loader_core);
        Placement { compute_cores, loader_core, shared }
    }

    /// The number of big cores that are worth `threads` threads.
    pub fn team(&self, threads: u32) -> f64 {
        self.placement(threads).compute_cores.iter().map(|core| self.speed(*core)).sum()
    }

    fn speed(&self, core: u32) -> f64 {
        if self.big.contains(&core) { 1.0 } else { self.little_speed }
    }
}

impl Profile {
    /// The number of big cores that are worth `threads` threads: the threads themselves if all cores are
    /// equal.
    pub fn team(&self, threads: u32) -> f64 {
        self.cores.as_ref().map_or(threads.into(), |cores| cores.team(threads))
    }

    /// The storage as a loader uses it while `threads` threads compute, in an arena that the last-level cache holds
    /// (`in_llc`) or a larger one. It includes the time of the loader's core to verify and to copy.
    pub(super) fn storage_for(&self, in_llc: bool, threads: u32) -> Storage {
        let storage = self.storage.of_arena(in_llc);
        match &self.cores {
            Some(cores) => storage.handled(cores.speed(cores.placement(threads).loader_core)),
            None => storage,
        }
    }

    /// Time that computing loses for each byte to a loader on one of its cores. A loader on its own core
    /// costs nothing.
    pub(super) fn lost_to_loader(&self, threads: u32) -> Contention {
        let shared = self.cores.as_ref().filter(|cores| cores.placement(threads).shared);
        let lost = |in_llc: bool| match shared {
            Some(_) => self.storage.of_arena(in_llc).handling_ns_per_byte() / self.team(threads),
            None => 0.0,
        };
        Contention { llc_ns_per_byte: lost(true), dram_ns_per_byte: lost(false) }
    }
}

impl Storage {
    /// With the rates into an arena that the cache holds that all processors share (`in_llc`), or a larger one.
    fn of_arena(&self, in_llc: bool) -> Self {
        let mut storage = self.clone();
        if let Some(llc) = storage.llc.take().filter(|_| in_llc) {
            (storage.reads, storage.checksum_gbs) = (llc.reads, llc.checksum_gbs);
        }
        storage
    }

    /// Whether a processor copies what is read: from the page cache, or from a map.
    fn copies(&self) -> bool {
        matches!(self.io, Io::Buffered | Io::Memory)
    }

    /// This storage with a loader of `speed`, relative to a big core.
    fn handled(mut self, speed: f64) -> Self {
        self.checksum_gbs *= speed;
        if self.copies() {
            self.reads.iter_mut().for_each(|read| read.mbs *= speed);
            self.queued_reads.iter_mut().for_each(|read| read.mbs *= speed);
        }
        self
    }

    /// Time of a loader on a big core for each byte of a large read.
    fn handling_ns_per_byte(&self) -> f64 {
        let largest = self.reads.last().filter(|_| self.copies());
        1.0 / self.checksum_gbs + largest.map_or(0.0, |read| 1e3 / read.mbs)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::profile;
    use super::*;

    /// Four little cores of half the speed, and two big ones, next to storage of a byte a nanosecond.
    fn unequal(loader: Option<u32>, io: Io) -> Profile {
        let cores = UnequalCores { count: 6, big: vec![4, 5], little_speed: 0.5, loader };
        let storage = Storage { io, ..Storage::flat(0, 1000.0, 2.0) };
        Profile { cores: Some(cores), storage, ..profile() }
    }

    #[test]
    fn threads_are_worth_their_cores() {
        let profile = unequal(None, Io::Direct);
        let teams = [1, 2, 3, 6, 9].map(|threads| profile.team(threads));
        assert_eq!(teams, [1.0, 2.0, 2.5, 4.0, 4.0]);
        let equal = Profile { cores: None, ..profile };
        assert_eq!([1, 9].map(|threads| equal.team(threads)), [1.0, 9.0]);
    }

    #[test]
    fn the_loader_has_a_core_of_its_own_as_long_as_one_is_left() {
        let placement = |loader, threads| {
            let placement = unequal(loader, Io::Direct).cores.unwrap().placement(threads);
            (placement.compute_cores.len(), placement.loader_core, placement.shared)
        };
        assert_eq!(placement(None, 2), (2, 0, false));
        assert_eq!(placement(None, 5), (5, 3, false));
        assert_eq!(placement(None, 6), (6, 3, true));
        assert_eq!(placement(Some(4), 1), (1, 4, false));
        assert_eq!(placement(Some(4), 2), (2, 4, true));
    }

    #[test]
    fn a_little_core_verifies_slowly_and_a_shared_one_takes_from_computing() {
        let load_ns = |profile: &Profile, threads| profile.service(false, threads).load_ns(1 << 20);
        let lost = |profile: &Profile, threads| profile.lost_to_loader(threads).dram_ns_per_byte;
        let (mib, equal) = (1u64 << 20, Profile { cores: None, ..unequal(None, Io::Direct) });
        assert_eq!((load_ns(&equal, 2), lost(&equal, 2)), (mib * 3 / 2, 0.0));
        // On a little core of its own; on a big one; on a big one that computes, too, one of two.
        let little = unequal(None, Io::Direct);
        assert_eq!((load_ns(&little, 2), lost(&little, 2)), (mib * 2, 0.0));
        let big = unequal(Some(4), Io::Direct);
        assert_eq!((load_ns(&big, 1), lost(&big, 1)), (mib * 3 / 2, 0.0));
        assert_eq!((load_ns(&big, 2), lost(&big, 2)), (mib * 3 / 2, 0.25));
        // On a little one that computes, too: all six are worth four.
        assert_eq!((load_ns(&little, 6), lost(&little, 6)), (mib * 2, 0.125));
    }

    #[test]
    fn who_reads_through_the_page_cache_copies_as_well() {
        for io in [Io::Buffered, Io::Memory] {
            let little = unequal(None, io);
            assert_eq!(little.service(false, 2).load_ns(1 << 20), 3 << 20);
            assert_eq!(unequal(Some(4), io).lost_to_loader(2).dram_ns_per_byte, 0.75);
        }
    }

    #[test]
    fn a_profile_keeps_its_cores() {
        for profile in [unequal(None, Io::Direct), unequal(Some(3), Io::Direct)] {
            assert_eq!(Profile::parse("p", &profile.to_toml()).unwrap(), profile);
        }
        let refused = |cores: UnequalCores, says: &str| {
            let profile = Profile { cores: Some(cores), ..profile() };
            let error = Profile::parse("p", &profile.to_toml()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        };
        let cores = unequal(None, Io::Direct).cores.unwrap();
        refused(
            UnequalCores { little_speed: 0.0, ..cores.clone() },
            "cores.little_speed: it is 0; it must be between 0.01 and 1",
        );
        refused(UnequalCores { big: vec![], ..cores.clone() }, "no core is named as big");
        refused(UnequalCores { loader: Some(6), ..cores.clone() }, "cores.loader: it is core 6");
        refused(UnequalCores { big: vec![6], ..cores.clone() }, "cores.big: it has core 6");
        refused(
            UnequalCores { count: 2, big: vec![1], ..cores },
            "threads: it is 4, and there are 2",
        );
    }
}
