//! Measures this machine: the kernels' rates on layers of common shapes, a file system's throughput by size of read, and
//! what computing loses to reading. Takes some seconds.

mod bench;
mod caches;
mod contention;
mod kernels;
mod layers;
pub mod speed_probe;
mod storage;

use super::delays::Delays;
use super::{Profile, ProfileError};
use crate::source::Io;
use eyelet::device::Inline;
use eyelet::device::threads::ThreadError;
use eyelet::device::workers::Pool;
use eyelet::kernels::Kernels;
use eyelet::storage::StorageError;
use std::path::{Path, PathBuf};
use thiserror::Error;

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

/// Measures `kernels` on up to `threads` threads, and the storage that `folder` is on, read by `io`.
pub fn measure(
    name: &str,
    kernels: &'static Kernels,
    threads: u32,
    folder: &Path,
    io: Io,
) -> Result<Profile, MeasureError> {
    static POOL: Pool = Pool::new();
    let pool = POOL
        .start(threads as usize, None)
        .map_err(|error| MeasureError::Threads { threads, error })?;
    let (compute, layers) = kernels::measure(kernels, &Inline, &pool);
    drop(pool);
    let storage = storage::measure(folder, io, compute.step_overhead_ns, kernels, threads)?;
    let delays = Delays::fit(&storage.reads, &layers, compute.step_overhead_ns as f64);
    let isa = kernels.isa();
    let profile = Profile {
        name: name.to_owned(),
        isa,
        threads,
        multiprocessors: 0,
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
        transfer: None,
        delays: Some(delays),
    };
    // What was measured must be a profile that can be read again.
    Ok(Profile::parse("the measured profile", &profile.to_toml())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes seconds, so it is one test for all: the profile is valid, survives its file, and predicts.
    #[test]
    fn this_machine_has_a_profile() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let profile = match measure("here", Kernels::best(), 2, folder.path(), Io::Direct) {
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
        let error =
            storage::measure(Path::new("/no/such/folder"), Io::Direct, 0, Kernels::best(), 1)
                .unwrap_err()
                .to_string();
        assert!(error.contains("/no/such/folder"), "{error}");
    }
}
