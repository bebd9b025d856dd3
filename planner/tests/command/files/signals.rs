//! Signals at several moments: no fragment is left, and the exit status says which signal it was.

use crate::common::command::folder;
use eyelet_planner::leftovers;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

const EYELET: &str = env!("CARGO_BIN_EXE_eyelet");

fn spawn(folder: &Path, program: &str, args: &[&str]) -> Child {
    let (null, none) = (Stdio::null(), Stdio::null());
    let mut command = Command::new(program);
    command.args(args).env("EYELET_CALIBRATE", "no").current_dir(folder);
    command.stdin(Stdio::null()).stdout(null).stderr(none);
    command.spawn().unwrap()
}

/// Sends a signal when it is time, unless the command ends before. The status with which it ended.
fn signal_when(mut child: Child, signal: Signal, time: impl Fn(&Child) -> bool) -> ExitStatus {
    while child.try_wait().unwrap().is_none() {
        if time(&child) {
            let _ = kill_process(Pid::from_child(&child), signal);
            break;
        }
        std::thread::yield_now();
    }
    child.wait().unwrap()
}

/// Bytes of files that a process has open for writing in a folder, with a name or without.
fn written(child: &Child, folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else { return 0 };
    let inside = entries.flatten().map(|entry| entry.path());
    let inside = inside.filter(|path| path.read_link().is_ok_and(|to| to.starts_with(folder)));
    inside.filter_map(|path| path.metadata().ok()).map(|found| found.len()).sum()
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_file_that_is_being_written_is_not_left() {
    let folder = folder();
    let path = folder.path().canonicalize().unwrap();
    let zoo = ["zoo", "resnet18", "-o", "new.onnx"];
    for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::KILL] {
        for moment in [0, 1, 20 << 20] {
            let child = spawn(&path, EYELET, &zoo);
            let status = signal_when(child, signal, |child| written(child, &path) >= moment);
            // It may have been faster.
            if status.success() {
                assert_eq!(entries(&path), ["new.onnx"]);
                std::fs::remove_file(path.join("new.onnx")).unwrap();
                continue;
            }
            assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
            if signal == Signal::KILL {
                // Where files need names, whoever writes there next removes it.
                leftovers::sweep(&path);
            }
            assert_eq!(entries(&path), [""; 0], "{signal:?} after {moment} bytes");
        }
    }
}

#[test]
fn what_was_there_stays_when_a_signal_comes() {
    let folder = folder();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("old.onnx"), "old").unwrap();
    let child = spawn(&path, EYELET, &["zoo", "resnet18", "-o", "old.onnx"]);
    let status = signal_when(child, Signal::TERM, |child| written(child, &path) > 0);
    assert_eq!(entries(&path), ["old.onnx"]);
    let old = std::fs::read(path.join("old.onnx")).unwrap() == b"old";
    assert_eq!(old, status.signal() == Some(Signal::TERM.as_raw()));
}

#[test]
fn a_file_that_may_not_be_so_large_is_an_error() {
    let folder = folder();
    let script = "ulimit -f 64; exec \"$0\" zoo squeezenet1_1 -o new.onnx";
    let done =
        Command::new("sh").args(["-c", script, EYELET]).current_dir(&folder).output().unwrap();
    let text = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{text}");
    assert!(text.contains("cannot write") && text.contains("new.onnx"), "{text}");
    assert_eq!(entries(folder.path()), [""; 0]);
}

#[test]
fn a_signal_that_the_caller_ignores_ends_nothing() {
    let folder = folder();
    let path = folder.path().canonicalize().unwrap();
    let script = "trap '' HUP; exec \"$0\" zoo squeezenet1_1 -o new.onnx";
    let child = spawn(&path, "sh", &["-c", script, EYELET]);
    let status = signal_when(child, Signal::HUP, |child| written(child, &path) > 0);
    assert!(status.success(), "{status}");
    assert_eq!(entries(&path), ["new.onnx"]);
}

#[test]
fn the_demo_leaves_nothing_and_its_next_run_what_was_killed_neither() {
    let folder = folder();
    let path = folder.path().canonicalize().unwrap();
    let dir = path.join("work");
    let demo = ["demo", "--network", "squeezenet1_1", "--budget", "4MiB", "--runs", "1000"];
    let demo = [&demo[..], &["--dir", "work"]].concat();
    let inside = |name: &str| {
        let folders = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        folders.into_iter().any(|folder| folder.path().join(name).exists())
    };
    let running = |child: &Child| {
        let id = child.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        children.is_ok_and(|children| !children.trim().is_empty())
    };
    for (signal, moment) in
        [(Signal::INT, 0), (Signal::TERM, 1), (Signal::TERM, 2), (Signal::KILL, 2)]
    {
        let child = spawn(&path, EYELET, &demo);
        let status = signal_when(child, signal, |child| match moment {
            0 => inside(""),
            1 => inside("squeezenet1_1.onnx"),
            _ => running(child),
        });
        if status.success() {
            continue;
        }
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        // Nothing but its own folder, which was asked for.
        assert_eq!(entries(&path), ["work"]);
        if signal == Signal::KILL {
            assert_eq!(entries(&dir).len(), 1);
            // It wants no budget, and says so after it has made its folder.
            let none = ["demo", "--network", "none", "--dir", "work"];
            let run = || assert!(!spawn(&path, EYELET, &none).wait().unwrap().success());
            run();
            // A child that was about to become a command held its locks until then.
            for _ in 0..500 {
                if entries(&dir).is_empty() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
                run();
            }
        }
        assert_eq!(entries(&dir), [""; 0], "{signal:?} at {moment}");
    }
}
