//! The fuzz targets of `fuzz/`, with inputs that are made here: so many, the same everywhere. `tools/fuzz.sh` has libFuzzer
//! look for more.

#[path = "../common/mod.rs"]
mod common;
mod darknet;
mod import;
mod mutate;
mod open;
mod seeds;
mod set;

use mutate::Mutator;
use std::path::{Path, PathBuf};

/// Where seeds are written, and inputs that fail: `tools/fuzz.sh` starts with them.
fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz").join(name)
}

/// Keeps the input for which a target panics.
struct Failing<'a>(&'a str, &'a [u8]);

impl Drop for Failing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let path = folder(self.0).join("failing");
            let written = std::fs::write(&path, self.1);
            eprintln!("{}: the input that fails ({written:?})", path.display());
        }
    }
}

/// Runs a target on its seeds, which it accepts, and on so many inputs that are made from them.
fn fuzz(name: &str, target: fn(&[u8]) -> bool, seeds: Vec<Vec<u8>>, inputs: usize) {
    // What a forged size asks for must not be had.
    let most = libc::rlimit { rlim_cur: 8 << 30, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: sets a limit of this process to a valid record.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &most) }, 0);
    std::fs::create_dir_all(folder(name)).unwrap();
    for (at, seed) in seeds.iter().enumerate() {
        std::fs::write(folder(name).join(format!("seed-{at}")), seed).unwrap();
        assert!(target(seed), "{name} refuses seed {at}");
    }
    let inputs = if common::sweeps() { 50 * inputs } else { inputs };
    let mut mutator = Mutator::new(seeds);
    let mut accepted = 0;
    for _ in 0..inputs {
        let input = mutator.input();
        let failing = Failing(name, &input);
        let accepts = target(&input);
        drop(failing);
        if accepts {
            accepted += 1;
            mutator.keep(input);
        }
    }
    eprintln!("{name}: {accepted} of {inputs} inputs accepted");
    // Both what is refused and what is accepted has been tried.
    assert!(accepted > inputs / 50 && accepted < inputs, "{name}: {accepted} of {inputs}");
}

#[test]
fn darknets() {
    fuzz("darknet", darknet::run, seeds::darknet(), 20_000);
}

#[test]
fn models() {
    fuzz("import", import::run, seeds::import(), 100_000);
}

#[test]
fn packs() {
    // Each is proved and run: fewer, where they are not sweeps.
    let inputs = if common::sweeps() { 20_000 } else { 5_000 };
    fuzz("open", open::run, seeds::open(), inputs);
}

#[test]
fn sets() {
    fuzz("set", set::run, seeds::sets(), 20_000);
}
