//! `--pin`: threads on the cores that a board names.

use super::tasks::networks;
use crate::common::command::{Done, SMALL, command, eyelet_in, packed};
use eyelet::device::threads::cores;
use eyelet_planner::board::HOST_BOARD;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// A board whose big core is 1: `cores` are its keys.
fn board(folder: &Path, cores: &str) {
    const PORTABLE: &str = include_str!("../../../boards/portable/board.toml");
    let text = PORTABLE.replacen("name = \"portable\"", "name = \"mine\"", 1).replacen(
        "[profile]\n",
        &format!("[cores]\n{cores}\n\n[profile]\n"),
        1,
    );
    fs::write(folder.join("mine.toml"), text).expect("a board");
}

const TWO: &str = "count = 2\nbig = [1]\nlittle_speed = 0.5";
/// No test runs on core 1023.
const FAR: &str = "count = 1024\nbig = [1023]\nlittle_speed = 0.5";

fn run(folder: &Path, args: &[&str]) -> Done {
    let run = ["run", "digits.pack", "--io", "buffered", "--budget", SMALL, "--threads", "1"];
    eyelet_in(folder, &[&run[..], args].concat())
}

/// Whether this process may run on both cores of the board. Where it may not, the board is refused.
fn has_both() -> bool {
    let may = cores::<1024>();
    [0, 1].iter().all(|core| may.contains(core))
}

/// A report names the cores, or says why not.
fn assert_pinned(report: &Value, compute: Value, loader: Value) {
    match has_both() {
        true => {
            assert_eq!((&report["compute_cores"], &report["loader_core"]), (&compute, &loader));
            assert_eq!(report["notes"], Value::Null);
        }
        false => {
            assert_eq!(report["compute_cores"], Value::Null);
            let note = report["notes"][0].as_str().expect("a note");
            assert!(note.contains("may not run on core"), "{note}");
        }
    }
}

#[test]
fn threads_run_where_the_board_says() {
    let folder = packed();
    let plain = run(folder.path(), &["--json"]).json();
    assert_eq!(plain["compute_cores"], Value::Null);
    let same_bits =
        |report: &Value| assert_eq!(report["output_digest"], plain["output_digest"], "{report}");
    board(folder.path(), TWO);
    let report = run(folder.path(), &["--pin", "mine.toml", "--json"]).json();
    assert_pinned(&report, json!([1]), json!(0));
    same_bits(&report);
    // Both compute, and the loader shares the last.
    let both = ["--pin", "mine.toml", "--threads", "2", "--json"];
    let both = eyelet_in(
        folder.path(),
        &[&["run", "digits.pack", "--io", "buffered", "--budget", SMALL], &both[..]].concat(),
    )
    .json();
    assert_pinned(&both, json!([1, 0]), json!(0));
    same_bits(&both);
    // A named core.
    board(folder.path(), &format!("{TWO}\nloader = 1"));
    let report = run(folder.path(), &["--pin", "./mine.toml", "--json"]).json();
    assert_pinned(&report, json!([1]), json!(1));
    same_bits(&report);
    if has_both() {
        let text = run(folder.path(), &["--pin", "mine.toml"]).text();
        assert!(text.contains("cores        core 1 computes, core 1 loads as well\n"), "{text}");
    }
    // Budgets that change in one process.
    let many = ["run", "digits.pack", "--io", "buffered", "--threads", "1", "--budgets", SMALL];
    let many = [&many[..], &["--pin", "mine.toml", "--json"]].concat();
    assert_pinned(&eyelet_in(folder.path(), &many).json(), json!([1]), json!(1));
}

#[test]
fn a_refused_core_is_a_note_and_no_error() {
    let folder = packed();
    board(folder.path(), FAR);
    let report = run(folder.path(), &["--pin", "mine.toml", "--json"]).json();
    assert_eq!(report["compute_cores"], Value::Null);
    let note = report["notes"][0].as_str().expect("a note");
    for part in ["mine.toml says", "core 1023", "taskset"] {
        assert!(note.contains(part), "{note}");
    }
    let text = run(folder.path(), &["--pin", "mine.toml"]).text();
    assert!(text.contains("note: threads are not pinned as mine.toml says"), "{text}");
    // More threads than cores.
    board(folder.path(), "count = 1");
    let run = ["run", "digits.pack", "--io", "buffered", "--threads", "2", "--pin", "mine.toml"];
    let text = eyelet_in(folder.path(), &run).text();
    assert!(text.contains("2 threads compute, and it has 1 cores"), "{text}");
}

#[test]
fn the_board_of_this_machine_pins_where_its_cores_are_of_two_kinds() {
    let folder = packed();
    let hosted = |cores: &str| -> Value {
        board(folder.path(), cores);
        let run = ["run", "digits.pack", "--io", "buffered", "--threads", "1", "--json"];
        let mut command = command();
        command.args(run).current_dir(folder.path()).env(HOST_BOARD, "./mine.toml");
        let done = command.output().expect("the command starts");
        serde_json::from_slice(&done.stdout).expect("one JSON value")
    };
    assert_pinned(&hosted(TWO), json!([1]), Value::Null);
    assert_eq!(hosted("count = 2\nbig = [1]")["compute_cores"], Value::Null, "of equal speed");
}

#[test]
fn what_names_no_cores_is_refused() {
    let folder = packed();
    run(folder.path(), &["--pin", "portable"]).fails(&["portable names no cores", "[cores]"]);
    run(folder.path(), &["--pin", "nothing"]).fails(&["`nothing`"]);
    board(folder.path(), "count = 2\nlittle_speed = 0.5");
    run(folder.path(), &["--pin", "mine.toml"])
        .fails(&["mine.toml:", "cores.little_speed: no core is named as big"]);
}

#[test]
fn sets_and_measurements_are_pinned_as_well() {
    let folder = packed();
    board(folder.path(), TWO);
    networks(folder.path(), "320KiB", "20ms");
    let serve = [
        "serve",
        "--io",
        "buffered",
        "--alone",
        "1",
        "--rehearsal",
        "0s",
        "--pin",
        "mine.toml",
        "--json",
    ];
    let serve = [&serve[..], &["set.toml", "--anyway", "--jobs", "3"]].concat();
    let report = eyelet_in(folder.path(), &serve).json();
    assert_pinned(&report, json!([1]), Value::Null);
    assert_eq!(report["outputs_as_alone"], true, "{report:#}");
    let bench = ["bench", "digits.pack", "--io", "buffered", "--warmup", "0ms", "--runs", "3"];
    let bench = [&bench[..], &["--threads", "1", "--budget", SMALL, "--pin", "mine.toml"]].concat();
    let report = eyelet_in(folder.path(), &[&bench[..], &["--json"]].concat()).json();
    assert_pinned(&report["programs"][0]["pack"], json!([1]), json!(0));
}

#[test]
fn plans_say_which_cores_they_are_for() {
    let folder = packed();
    let plan = |threads: &str| {
        let plan = ["plan", "digits.onnx", "--budget", SMALL, "--board", "rockpro64", "--json"];
        eyelet_in(folder.path(), &[&plan[..], &["--threads", threads]].concat()).json()
    };
    let cores = |compute: Value, loader: u32, shared: bool| -> Value {
        json!({ "compute_cores": compute, "loader_core": loader, "shared": shared })
    };
    assert_eq!(plan("2")["cores"], cores(json!([4, 5]), 0, false));
    assert_eq!(plan("6")["cores"], cores(json!([4, 5, 0, 1, 2, 3]), 3, true));
    let plan = ["plan", "digits.onnx", "--budget", SMALL, "--board", "rockpro64"];
    let text = eyelet_in(folder.path(), &[&plan[..], &["--threads", "2"]].concat()).text();
    assert!(text.contains("\ncores 4, 5 compute, core 0 loads\n"), "{text}");
    let plain = ["plan", "digits.onnx", "--budget", SMALL, "--board", "portable", "--json"];
    assert_eq!(eyelet_in(folder.path(), &plain).json()["cores"], Value::Null);
}
