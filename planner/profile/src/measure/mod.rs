//! Measures this machine: the kernels' rates on layers of common shapes, a file system's throughput by size of read, and
//! what computing loses to reading. Takes some seconds, by how patient one is.

mod bench;
mod caches;
mod contention;
mod done;
mod kernels;
mod layers;
pub mod speed_probe;
mod storage;
mod unequal;
mod widen;

use done::Done;
use eyelet::device::threads::{ThreadError, confine_current, cores as on_cores};
use eyelet::device::workers::Pool;
use eyelet::device::{Device, Inline};
use eyelet::kernels::Kernels;
use eyelet::storage::StorageError;
use eyelet_model::leftovers::Scratch;
use eyelet_plan::cores::Cores;
use eyelet_plan::profile::delays::Delays;
use eyelet_plan::profile::{Profile, ProfileError, Steadiness};
use eyelet_plan::source::Io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// How long to measure. A short disturbance of a machine affects a short measurement more.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For all layers on all devices.
    layers: Duration,
    /// The least number of turns of all layers, and the runs of a turn that count.
    turns: usize,
    runs: usize,
    /// Whether runs come before them that are not counted: they bring weights and threads to life.
    settles: bool,
    /// For reads of all sizes, and the least number of rounds of them.
    reads: Duration,
    rounds: usize,
    /// Pairs of turns of computing, without reads and with them.
    pairs: usize,
    /// Bytes of the file that is read.
    file_bytes: u64,
}

impl Patience {
    /// Some twenty seconds: for a profile that is given to others.
    pub const LONG: Self = Self {
        layers: Duration::from_secs(7),
        turns: 3,
        runs: 4,
        settles: true,
        reads: Duration::from_secs(8),
        rounds: 5,
        pairs: 22,
        file_bytes: 256 << 20,
    };

    /// Some seconds: before the first plan on a machine.
    pub const SHORT: Self = Self {
        layers: Duration::from_millis(2500),
        turns: 3,
        runs: 4,
        settles: true,
        reads: Duration::from_millis(1500),
        rounds: 3,
        pairs: 8,
        file_bytes: 128 << 20,
    };

    /// Everything once: to see that measuring works, on an emulator that is a hundred times as slow. The profile is valid,
    /// and its numbers mean little.
    pub const ONCE: Self = Self {
        layers: Duration::ZERO,
        turns: 1,
        runs: 1,
        settles: false,
        reads: Duration::ZERO,
        rounds: 1,
        pairs: 1,
        file_bytes: 32 << 20,
    };
}

/// The most cores of a machine that are looked at.
const MOST_CORES: usize = 1024;

/// Why this machine could not be measured.
#[derive(Debug, Error)]
pub enum MeasureError {
    #[error("{path} cannot be written to measure reading: {error}")]
    File { path: PathBuf, error: std::io::Error },
    #[error(
        "{path} cannot be read as packs are: {error}; name a folder on the storage that is to be \
         measured"
    )]
    Storage { path: PathBuf, error: StorageError },
    #[error("{threads} threads cannot be started: {error}")]
    Threads { threads: u32, error: ThreadError },
    #[error("the measured profile makes no sense: {0}")]
    Profile(#[from] ProfileError),
}

/// Measures `kernels` on up to `threads` threads, and the storage that `folder` is on, read by `io`. Calls `progress` with
/// the share that is done, 0 to 1.
pub fn measure(
    name: &str,
    kernels: &'static Kernels,
    threads: u32,
    folder: &Path,
    io: Io,
    patience: Patience,
    progress: &dyn Fn(f64),
) -> Result<Profile, MeasureError> {
    static POOL: Pool = Pool::new();
    // A folder that cannot be written to is found out before the layers take their time.
    Scratch::file(folder).map_err(|error| MeasureError::File { path: folder.to_owned(), error })?;
    let cores = unequal::find(Path::new(unequal::CORES));
    // With two kinds of cores, threads have the cores that they have in a run.
    let own = cores.as_ref().and_then(|cores| {
        let placement = cores.placement(threads);
        Cores::pinned(&placement.compute_cores, placement.loader_core).ok()
    });
    let own = own.filter(|own| own.of_workers().is_some_and(|own| own.len() == threads as usize));
    let team = cores.as_ref().filter(|_| own.is_some()).map(|cores| cores.team(threads));
    let pool = POOL
        .start(threads as usize, own.as_ref().and_then(Cores::of_workers))
        .map_err(|error| MeasureError::Threads { threads, error })?;
    let before = on_cores::<MOST_CORES>();
    own.inspect(Cores::compute);
    let team = team.unwrap_or(threads.into());
    let done = Done::new(progress);
    let devices: [&dyn Device; 2] = [&Inline, &pool];
    let of_layers = done.of(done::LAYERS);
    let measured = kernels::measure(kernels, devices, team, patience, &of_layers);
    let kernels::Kernel { rates: compute, convolutions, turns } = measured;
    let _ = confine_current(&before);
    drop(pool);
    let latency_ns = compute.step_overhead_ns;
    let computing = (threads, cores.as_ref());
    let (storage, reads) =
        storage::measure(folder, io, latency_ns, kernels, computing, patience, &done)?;
    let delays = Delays::fit(&storage.reads, &convolutions, compute.step_overhead_ns as f64);
    let [one_thread, all_threads] = turns;
    let isa = kernels.isa();
    let profile = Profile {
        name: name.to_owned(),
        isa,
        threads,
        multiprocessors: 0,
        cores,
        estimated: false,
        source: format!(
            "measured: {} kernels on 1 and {threads} threads; {} reads in {}",
            isa.name(),
            io.name(),
            folder.display()
        ),
        compute,
        storage,
        mapped: None,
        fast: None,
        transfer: None,
        delays: Some(delays),
        steadiness: Some(Steadiness { one_thread, all_threads, reads }),
    };
    // The measurements must make a profile that can be read again.
    Ok(Profile::parse("the measured profile", &profile.to_toml())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Takes seconds, so it is one test for all: the profile is valid, survives its file, and predicts.
    #[test]
    fn this_machine_has_a_profile() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let (kernels, patience) = (Kernels::best(), Patience::SHORT);
        let last = Cell::new(0.0);
        let progress = |share| assert!(last.replace(share) <= share);
        let folder_path = folder.path();
        let measured = measure("here", kernels, 2, folder_path, Io::Direct, patience, &progress);
        let profile = match measured {
            Ok(profile) => profile,
            // The folder's file system may have no direct I/O.
            Err(MeasureError::Storage { error: StorageError::NoDirectIo, .. }) => return,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(Profile::parse("p", &profile.to_toml()).unwrap(), profile);
        assert!(profile.load_ns(1 << 20) > profile.load_ns(1 << 16));
        assert!(!profile.estimated);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a file was left");
        println!("{}", profile.to_toml());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = Path::new("/no/such/folder");
        let (kernels, done) = (Kernels::best(), Done::new(&|_| ()));
        let patience = Patience::SHORT;
        let measured = storage::measure(folder, Io::Direct, 0, kernels, (1, None), patience, &done);
        let error = measured.unwrap_err().to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }
}
