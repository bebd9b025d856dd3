//! What `run` reports of itself, where the system does not say all.

use crate::common::command::{eyelet_in, packed};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Descriptors of a process for a file.
fn descriptors(child: &Child, file: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else { return 0 };
    entries.flatten().filter(|entry| entry.path().read_link().is_ok_and(|to| to == file)).count()
}

#[test]
fn a_pack_that_loses_its_name_while_it_runs_is_reported_all_the_same() {
    let folder = packed();
    let pack = folder.path().join("digits.pack").canonicalize().unwrap();
    for remove in [true, false] {
        eyelet_in(folder.path(), &["plan", "digits.onnx", "--budget", "1MiB"]).text();
        let runs =
            ["--runs", "20000", "--json", "--layers", "--output", "out", "--trace", "t.json"];
        let mut child = Command::new(env!("CARGO_BIN_EXE_eyelet"))
            .args(["run", "digits.pack", "--io", "buffered"])
            .args(runs)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The storage's own, that of the figures, and that of the names of layers.
        while descriptors(&child, &pack) < 3 && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        match remove {
            true => std::fs::remove_file(&pack).unwrap(),
            false => std::fs::rename(&pack, folder.path().join("elsewhere.pack")).unwrap(),
        }
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert!(report["page_cache_bytes"].as_u64().unwrap() > 0, "{report}");
        assert!(report["layers"][0]["name"].as_str().unwrap().parse::<u32>().is_err());
        assert!(folder.path().join("t.json").is_file() && folder.path().join("out").is_dir());
    }
}

/// The kernel says of files of others that all of their pages are in the page cache.
#[test]
fn of_anothers_pack_the_page_cache_is_unknown_or_right() {
    const NOBODY: u32 = 65534;
    let folder = packed();
    let pack = folder.path().join("digits.pack");
    let mine = std::fs::metadata(&pack).unwrap().uid();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |io: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_eyelet"));
        command.args(["run", "digits.pack", "--json", "--io", io]).current_dir(folder.path());
        command.uid(NOBODY).gid(NOBODY).output()
    };
    let (Ok(direct), true) = (run("direct"), mine != NOBODY) else {
        eprintln!(
            "skipped: another user can only be had by root, on files that are readable to all"
        );
        return;
    };
    if !direct.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&direct.stderr));
        return;
    }
    let report: serde_json::Value = serde_json::from_slice(&direct.stdout).unwrap();
    let cached = &report["page_cache_bytes"];
    assert!(cached.is_null() || *cached == 0, "{cached}");
    let own = eyelet_in(folder.path(), &["run", "digits.pack", "--json"]).json();
    assert_eq!(own["page_cache_bytes"], 0);
}
