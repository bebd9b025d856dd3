//! Costs of this machine: measured when the first plan for it is made, and kept.
//!
//! A measurement holds for one processor, one storage device and one version of eyelet. It lies in the user's cache folder,
//! in a file whose name says for which. What was measured while the machine was busy is measured again when it is not.
//!
//! The environment variable EYELET_HOST_BOARD names a board in place of this machine, and then nothing is measured; neither is with
//! EYELET_CALIBRATE=no, or without a folder to keep it in.

use super::Output;
use super::progress::Progress;
use super::workplace::is_on_disk;
use eyelet::device::workers::MAX_THREADS;
use eyelet::kernels::Kernels;
use eyelet_planner::board::{Board, HOST_BOARD};
use eyelet_planner::profile::Profile;
use eyelet_planner::replace::{folder_of, replace};
use eyelet_planner::source::Io;
use eyelet_profile::measure::{MeasureError, Patience, measure};
use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The environment variable with which nothing is measured: `no`.
const CALIBRATE: &str = "EYELET_CALIBRATE";

/// Refuses a value of it that means nothing. An error is the text.
pub fn check() -> Result<(), String> {
    check_value(&env::var_os(CALIBRATE).unwrap_or_default().to_string_lossy())
}

fn check_value(value: &str) -> Result<(), String> {
    match value {
        "" | "no" | "yes" => Ok(()),
        other => Err(format!("{CALIBRATE} is `{other}`: it must be yes or no")),
    }
}

/// Load a core from which on a machine counts as busy.
const BUSY: f64 = 0.5;

/// Costs that were measured.
#[derive(Clone, Debug)]
pub struct Calibrated {
    pub profile: Profile,
    /// Where they are kept.
    pub file: PathBuf,
    /// How long it took, if it was now.
    pub seconds: Option<f64>,
    /// Whether the machine had other work.
    pub busy: bool,
}

/// Costs of this machine, for packs that lie where `place` is: kept ones, or measured now. `None` where nothing is to be measured;
/// an error where it cannot be.
pub fn calibrated(
    host: &Board,
    place: &Path,
    output: Output,
) -> Result<Option<Calibrated>, MeasureError> {
    let (Some(kernels), Some(store)) = (Kernels::for_isa(host.profile.isa), Store::of(host, place))
    else {
        return Ok(None);
    };
    let threads = host.profile.threads.min(MAX_THREADS as u32);
    let folder = folder(place);
    let measured = |name: &str| {
        let _progress = Progress::elapsed(output, "measuring this machine, once");
        let io = if is_on_disk(folder) { Io::Direct } else { Io::Buffered };
        measure(name, kernels, threads, folder, io, Patience::SHORT, &|_| ())
    };
    store.get(load_of_core(host.profile.threads), measured).map(Some)
}

/// Whether this machine is measured.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Calibration {
    /// Does not measure this machine, which happens before the first plan for it and takes some seconds: estimated costs are
    /// used instead.
    #[arg(long)]
    pub no_calibrate: bool,
}

impl Calibration {
    /// Costs of this machine for packs that lie where `place` is, unless estimated ones are wanted.
    pub fn costs_here(self, host: Board, place: &Path, output: Output) -> Profile {
        match self.no_calibrate {
            true => host.profile,
            false => costs_here(host, place, output),
        }
    }
}

/// Costs of this machine for packs in a folder, or of the board that stands for it where it is not or cannot be measured.
fn costs_here(host: Board, place: &Path, output: Output) -> Profile {
    match calibrated(&host, place, output) {
        Ok(Some(measured)) => measured.profile,
        Ok(None) | Err(_) => host.profile,
    }
}

/// The folder of a path, or the path if it is one.
fn folder(place: &Path) -> &Path {
    if place.is_dir() { place } else { folder_of(place) }
}

/// Costs of this machine that are kept, for packs that lie where `place` is. Nothing is measured.
pub fn kept(host: &Board, place: &Path) -> Option<Profile> {
    Store::of(host, place)?.read()
}

/// The file of a measurement.
#[derive(Clone, Debug)]
struct Store {
    file: PathBuf,
    /// What it is of, in words.
    of: String,
    board: String,
}

impl Store {
    /// For a machine and the storage of a folder; `None` where nothing is to be measured.
    fn of(host: &Board, place: &Path) -> Option<Self> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        if set(HOST_BOARD).is_some() || set(CALIBRATE).is_some_and(|value| value == "no") {
            return None;
        }
        let home = || Some(PathBuf::from(set("HOME")?).join(".cache"));
        let cache = set("XDG_CACHE_HOME").map(PathBuf::from).or_else(home)?;
        let device = device(fs::metadata(folder(place)).ok()?.dev());
        let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Some(Self::new(&cache, host, &processor, &device))
    }

    fn new(cache: &Path, host: &Board, processor: &str, device: &str) -> Self {
        let named = |key: &str| {
            let line = processor.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let model = named("model name").or_else(|| named("CPU part")).unwrap_or_default();
        let (isa, threads) = (host.profile.isa.name(), host.profile.threads);
        let of = format!("{model}, {threads} threads, {isa} kernels, storage {device}");
        let version = env!("CARGO_PKG_VERSION");
        let name = format!("{version}-{isa}-{:016x}.toml", fnv(of.as_bytes()));
        let file = cache.join("eyelet").join("costs").join(name);
        Self { file, of, board: host.name().to_owned() }
    }

    fn read(&self) -> Option<Profile> {
        Profile::load(&self.file).ok()
    }

    /// What is kept, or what `measured` finds, which is then kept. The load is what each core had to do before.
    fn get(
        &self,
        load: f64,
        measured: impl FnOnce(&str) -> Result<Profile, MeasureError>,
    ) -> Result<Calibrated, MeasureError> {
        let calibrated =
            |profile, seconds, busy| Calibrated { profile, file: self.file.clone(), seconds, busy };
        let kept = self.read();
        if let Some(profile) = &kept {
            let busy = profile.source.contains(WHILE_BUSY);
            if !busy || load > BUSY {
                return Ok(calibrated(profile.clone(), None, busy));
            }
        }
        let start = Instant::now();
        let mut profile = measured(&self.board)?;
        let seconds = start.elapsed().as_secs_f64();
        let busy = load > BUSY;
        profile.source = format!("{}{}", profile.source, if busy { WHILE_BUSY } else { "" });
        self.keep(&profile);
        Ok(calibrated(profile, Some(seconds), busy))
    }

    /// Where it cannot be kept, the next plan measures again.
    fn keep(&self, profile: &Profile) {
        let text = format!("# {}\n{}", self.of, profile.to_toml());
        if fs::create_dir_all(folder_of(&self.file)).is_ok() {
            let _ = replace(&self.file, |sink| sink.write_all(text.as_bytes()));
        }
    }
}

/// What the source of costs says in the end that are not to be relied on.
const WHILE_BUSY: &str = "; while the machine had other work";

/// A storage device by its name, where it has one that outlives a restart.
fn device(number: u64) -> String {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok();
    let name = link.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| format!("{major}:{minor}"))
}

/// What the system had to do in the last minute, for each of so many cores.
fn load_of_core(cores: u32) -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = text.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
    load / f64::from(cores.max(1))
}

/// FNV-1a, 64 bits.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(cache: &Path, device: &str) -> Store {
        let host = Board::load("host-avx2").unwrap();
        Store::new(cache, &host, "processor\t: 0\nmodel name\t: Some CPU\n", device)
    }

    fn profile(name: &str) -> Result<Profile, MeasureError> {
        let mut profile = Board::load(name).unwrap().profile;
        (profile.estimated, profile.source) = (false, "measured".into());
        Ok(profile)
    }

    #[test]
    fn what_is_measured_is_kept_for_its_machine_and_storage() {
        let cache = tempfile::tempdir().unwrap();
        let here = store(cache.path(), "vda1");
        let first = here.get(0.0, profile).unwrap();
        assert!(first.seconds.is_some() && !first.busy && first.file.starts_with(cache.path()));
        let text = fs::read_to_string(&first.file).unwrap();
        assert!(text.starts_with("# Some CPU, 2 threads, avx2 kernels, storage vda1\n"), "{text}");
        let again = here.get(9.0, |_| panic!("it is kept")).unwrap();
        assert_eq!((again.profile, again.seconds), (first.profile.clone(), None));
        assert!(store(cache.path(), "sdb").read().is_none());
        // What cannot be read is measured again.
        fs::write(&first.file, "threads = 0").unwrap();
        assert!(here.get(0.0, profile).unwrap().seconds.is_some());
        assert_eq!(here.read(), Some(first.profile));
    }

    #[test]
    fn the_variable_is_yes_or_no() {
        assert!(["", "no", "yes"].iter().all(|value| check_value(value).is_ok()));
        let error = check_value("maybe").unwrap_err();
        assert_eq!(error, "EYELET_CALIBRATE is `maybe`: it must be yes or no");
    }

    #[test]
    fn a_busy_machine_is_measured_again_when_it_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let here = store(cache.path(), "vda1");
        assert!(here.get(3.0, profile).unwrap().busy);
        let still = here.get(3.0, |_| panic!("it is busy still")).unwrap();
        assert!(still.busy && still.seconds.is_none());
        let quiet = here.get(0.1, profile).unwrap();
        assert!(!quiet.busy && quiet.seconds.is_some());
        assert!(here.get(0.1, |_| panic!("it is kept")).is_ok());
    }

    #[test]
    fn nothing_is_kept_of_what_cannot_be_measured() {
        let cache = tempfile::tempdir().unwrap();
        let failed = |_: &str| {
            let error = std::io::Error::from(std::io::ErrorKind::StorageFull);
            Err(MeasureError::File { path: "here".into(), error })
        };
        assert!(store(cache.path(), "vda1").get(0.0, failed).is_err());
        assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 0);
    }
}
