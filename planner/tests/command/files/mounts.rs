//! File systems and devices that direct reads are not what they seem on. Mounts are made where that is permitted, in a
//! namespace of their own, which goes away with the command.

use super::changed;
use crate::common::command::{digits, eyelet_in, folder, packed};
use bytes::Bytes;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a shell's script in a mount namespace of its own; `$EYELET` is the command. `None`, and says so, if `prepare` fails
/// there, which mounts.
fn in_mounts(folder: &Path, prepare: &str, script: &str) -> Option<Output> {
    // The shell says that all is there before it begins. Each step must do for the next.
    let prepare = prepare.replace("; ", " && ");
    let script = format!("set -e; ( {prepare} ) >prepared.txt 2>&1 || exit 77; {script}");
    let done = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .env("EYELET", env!("CARGO_BIN_EXE_eyelet"))
        .current_dir(folder)
        .output();
    match done {
        Ok(done) if done.status.code() != Some(77) && !is_refused(&done) => Some(done),
        done => {
            let why = std::fs::read_to_string(folder.join("prepared.txt")).unwrap_or_default();
            eprintln!("skipped: mounting is not permitted here: {why} {done:?}");
            None
        }
    }
}

/// Whether there is no namespace.
fn is_refused(done: &Output) -> bool {
    String::from_utf8_lossy(&done.stderr).starts_with("unshare:")
}

/// The report, or the error's text.
fn outcome(done: &Output) -> Result<serde_json::Value, String> {
    match done.status.success() {
        true => Ok(serde_json::from_slice(&done.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

#[test]
fn an_overlay_over_memory_has_no_direct_reads() {
    let folder = packed();
    for layer in ["low", "up"] {
        let prepare = format!(
            "mkdir -p memory mnt; mount -t tmpfs none memory; cd memory; mkdir low up work; \
             cp ../digits.pack {layer}/; \
             mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work ../mnt"
        );
        let run = "\"$EYELET\" run mnt/digits.pack --json";
        let Some(done) = in_mounts(folder.path(), &prepare, run) else { return };
        let error = outcome(&done).unwrap_err();
        assert!(error.contains("without direct I/O"), "{layer}: {error}");
        let buffered = format!("{run} --io buffered");
        let done = in_mounts(folder.path(), &prepare, &buffered).unwrap();
        let report = outcome(&done).unwrap();
        // It is all there, and says so.
        assert!(report["page_cache_bytes"].as_u64().unwrap() > 0, "{report}");
    }
}

#[test]
fn an_overlay_over_a_disk_has_direct_reads() {
    let folder = packed();
    if eyelet_in(folder.path(), &["run", "digits.pack"]).code != Some(0) {
        return;
    }
    let prepare = "mkdir -p low up work mnt; cp digits.pack low/; \
                   mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work mnt";
    let run = "\"$EYELET\" run mnt/digits.pack --json";
    let Some(done) = in_mounts(folder.path(), prepare, run) else { return };
    assert_eq!(outcome(&done).unwrap()["page_cache_bytes"], 0);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_found_before_the_work() {
    let folder = packed();
    let prepare = "mkdir ro; mount -t tmpfs -o ro none ro";
    // No plan has that budget.
    let plan = "\"$EYELET\" plan digits.onnx --budget 1KiB -o ro/new.pack";
    let Some(done) = in_mounts(folder.path(), prepare, plan) else { return };
    let error = outcome(&done).unwrap_err();
    assert!(error.contains("cannot write ro/new.pack: Read-only file system"), "{error}");
}

#[test]
fn files_that_are_compressed_are_not_read_directly() {
    let folder = folder();
    // Zeros are compressed; the digits' weights hardly.
    changed(&folder.path().join("zeros.onnx"), |model| {
        for tensor in &mut model.graph.as_mut().unwrap().initializer {
            if tensor.raw_data.len() > 1024 {
                tensor.raw_data = Bytes::from(vec![0; tensor.raw_data.len()]);
            }
        }
    });
    std::fs::copy(digits(), folder.path().join("digits.onnx")).unwrap();
    for name in ["zeros", "digits"] {
        let model = format!("{name}.onnx");
        eyelet_in(folder.path(), &["plan", &model, "--budget", "96KiB"]).text();
    }
    let prepare = |options: &str| {
        format!(
            "rm -f disk; truncate -s 128M disk; mkfs.btrfs -q disk; mkdir -p mnt; \
             mount -o loop,{options} disk mnt; cp zeros.pack digits.pack mnt; sync"
        )
    };
    let run = |options: &str, name: &str| {
        let script = format!("\"$EYELET\" run mnt/{name}.pack --json --runs 2");
        in_mounts(folder.path(), &prepare(options), &script).map(|done| outcome(&done))
    };
    let Some(compressed) = run("compress-force=zstd", "zeros") else { return };
    let error = compressed.unwrap_err();
    assert!(error.contains("direct") && error.contains("--io buffered"), "{error}");
    // Whatever was compressed: either it is refused, or nothing is in the cache.
    if let Ok(report) = run("compress-force=zstd", "digits").unwrap() {
        assert_eq!(report["page_cache_bytes"], 0);
    }
    for name in ["zeros", "digits"] {
        let report = run("compress=no", name).unwrap().unwrap();
        assert_eq!(report["page_cache_bytes"], 0, "{name}");
    }
}

/// A block device that goes away with its value.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_pack_on_a_raw_partition_is_read_directly() {
    let folder = packed();
    let pack = folder.path().join("digits.pack");
    let disk = folder.path().join("disk");
    std::fs::copy(&pack, &disk).unwrap();
    std::fs::File::options().append(true).open(&disk).unwrap().set_len(8 << 20).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&disk).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        eprintln!("skipped: loop devices are not permitted here");
        return;
    };
    let device = Loop(String::from_utf8(made.stdout).unwrap().trim().to_owned());
    let digest = |pack: &str, io: &str| {
        let report = eyelet_in(folder.path(), &["run", pack, "--io", io, "--json"]).json();
        if io == "direct" {
            assert_eq!(report["page_cache_bytes"], 0);
        }
        report["output_digest"].clone()
    };
    for io in ["direct", "buffered", "memory"] {
        assert_eq!(digest(&device.0, io), digest("digits.pack", "buffered"), "{io}");
    }
    for verb in ["check", "inspect", "chunks"] {
        eyelet_in(folder.path(), &[verb, &device.0]).text();
    }
    // An output would destroy it.
    let trace = ["run", &device.0, "--io", "buffered", "--trace", &device.0];
    eyelet_in(folder.path(), &trace).fails(&["would be replaced"]);
}

/// Nothing can be moved to a mounted folder from next to it.
#[test]
fn a_set_is_written_into_a_folder_that_is_mounted() {
    let folder = packed();
    crate::tasks::networks(folder.path(), "320KiB", "1s");
    let prepare = "mkdir -p mnt; mount -t tmpfs none mnt";
    let script = "\"$EYELET\" schedule set.toml -o mnt/set.pack --jobs 10 --json; ls -A mnt >&2";
    let Some(done) = in_mounts(folder.path(), prepare, script) else { return };
    assert!(done.status.success(), "{done:?}");
    assert_eq!(String::from_utf8_lossy(&done.stderr), "set.pack\n");
}
