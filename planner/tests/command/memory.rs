//! The budget is the truth: what the kernel says of `eyelet run`'s memory, for networks far larger than
//! it; and what does not change with it: the outputs.
//!
//! The largest networks take minutes and gigabytes of disk:
//! `tools/test.sh largest`.

use crate::common::command::command;
use serde_json::Value;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// What the command may hold beside its arena: stacks, counters, and code, of which it has much that is not for this. What
/// a program takes that does nothing else is tested with that, in `tests/c.sh`. A build for tests touches more code than a
/// release, which `tools/memory.py` measures in all its uses.
const EXTRA: u64 = 5 * MIB;

/// Runs the command; its report.
fn eyelet(arguments: &[&str]) -> Value {
    let output = command().args(arguments).arg("--json").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "eyelet {}: {errors}", arguments.join(" "));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A network of the zoo, planned for several budgets into one pack.
struct Packed {
    name: &'static str,
    pack: PathBuf,
    _folder: tempfile::TempDir,
}

impl Packed {
    /// `budgets` in MiB.
    fn new(name: &'static str, budgets: &[u64]) -> Self {
        // Not the system's folder for temporary files: that may be memory, which is read through the
        // page cache or not at all.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let model = folder.path().join("net.onnx");
        let pack = folder.path().join("net.pack");
        eyelet(&["zoo", name, "-o", path(&model)]);
        let sizes: Vec<String> = budgets.iter().map(|mib| format!("{mib}MiB")).collect();
        let mut arguments = vec!["plan", path(&model), "--exact", "--threads", "2"];
        arguments.extend(["-o", path(&pack), "--budget"]);
        arguments.extend(sizes.iter().map(String::as_str));
        eyelet(&arguments);
        std::fs::remove_file(model).unwrap();
        Self { name, pack, _folder: folder }
    }

    fn run(&self, mib: u64, threads: u32, io: &str) -> Value {
        let (budget, threads) = (format!("{mib}MiB"), threads.to_string());
        let budget = ["run", path(&self.pack), "--runs", "2", "--budget", &budget];
        let report = eyelet(&[&budget[..], &["--threads", &threads, "--io", io]].concat());
        println!(
            "{} in {mib} MiB, {threads} threads, {io}: peak {:.1} MiB, {:.1} MiB read and {:.0} ms each, {}",
            self.name,
            mebibytes(&report, "peak_rss_bytes"),
            mebibytes(&report, "bytes_read_per_inference"),
            report["latency_ms"]["median"].as_f64().unwrap(),
            report["output_digest"].as_str().unwrap(),
        );
        report
    }

    /// Runs with direct reads, and asks the kernel what that took. The digest of the outputs, or `None`
    /// on a file system without direct reads.
    fn stays_within(&self, mib: u64) -> Option<String> {
        let file = CString::new(self.pack.as_os_str().as_bytes()).unwrap();
        if eyelet::storage::DirectFile::open(&file).is_err() {
            println!("no direct reads under {}: not measured", self.pack.display());
            return None;
        }
        let report = self.run(mib, 1, "direct");
        let peak = report["peak_rss_bytes"].as_u64().unwrap();
        assert_eq!(report["budget_bytes"], mib * MIB);
        assert!(report["arena_bytes"].as_u64().unwrap() <= mib * MIB);
        assert!(
            peak <= mib * MIB + EXTRA,
            "{} in {mib} MiB took {:.1} MiB",
            self.name,
            mebibytes(&report, "peak_rss_bytes")
        );
        // Streamed: the budget is less than the weights, so something is read in every inference.
        assert!(report["bytes_read_per_inference"].as_u64().unwrap() > 0);
        let cache = eyelet::storage::residency::PageCache::open(&file).unwrap();
        let cached = cache.count(u64::MAX).unwrap();
        assert_eq!(cached.pages, 0, "{} in {mib} MiB left {cached:?}", self.name);
        Some(report["output_digest"].as_str().unwrap().to_owned())
    }
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mebibytes(report: &Value, field: &str) -> f64 {
    report[field].as_u64().unwrap() as f64 / MIB as f64
}

#[test]
fn squeezenet_stays_within_6_mib() {
    Packed::new("squeezenet1_1", &[6]).stays_within(6);
}

#[test]
fn mobilenet_stays_within_8_mib() {
    Packed::new("mobilenet_v2", &[8]).stays_within(8);
}

#[test]
fn resnet152_stays_within_12_mib() {
    Packed::new("resnet152", &[12]).stays_within(12);
}

/// Every budget within its bound, and the same bits for every budget, thread count and way of reading.
fn the_same_within(name: &'static str, budgets: &[u64]) {
    let packed = Packed::new(name, budgets);
    let mut digests = Vec::new();
    for &mib in budgets {
        digests.extend(packed.stays_within(mib));
        for (threads, io) in
            [(2, "direct"), (1, "buffered"), (2, "buffered"), (1, "memory"), (2, "memory")]
        {
            let report = packed.run(mib, threads, io);
            digests.push(report["output_digest"].as_str().unwrap().to_owned());
        }
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "{digests:?}");
}

#[test]
#[ignore = "minutes"]
fn squeezenet_is_the_same_in_6_mib_and_more() {
    the_same_within("squeezenet1_1", &[6, 7]);
}

#[test]
#[ignore = "minutes"]
fn mobilenet_is_the_same_in_8_mib_and_more() {
    the_same_within("mobilenet_v2", &[8, 12]);
}

#[test]
#[ignore = "minutes, and half a gigabyte of disk"]
fn resnet152_is_the_same_in_12_24_and_48_mib() {
    the_same_within("resnet152", &[12, 24, 48]);
}

#[test]
#[ignore = "minutes, and over a gigabyte of disk"]
fn vgg19_is_the_same_in_32_and_64_mib() {
    the_same_within("vgg19", &[32, 64]);
}
