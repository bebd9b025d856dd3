//! `eyelet sweep` and `eyelet run --trace`: curves and timelines, in files that other programs read.

use crate::common::command::{self, LARGE, SMALL, eyelet_in, folder, packed};
use eyelet_planner::board::HOST_BOARD;
use eyelet_planner::published;
use serde_json::Value;
use std::collections::HashMap;

#[test]
fn a_sweep_has_every_strategy_at_every_budget() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let files = ["-o", "c.csv", "-o", "c.json", "-o", "c.svg"];
    let args =
        [&["sweep", "d.onnx", "--budgets", "8KiB..1MiB", "--points", "9", "--json"], &files[..]];
    let sweep = eyelet_in(folder.path(), &args.concat()).json();
    assert_eq!(sweep["strategies"].as_array().unwrap().len(), published::all().len());
    let budgets = sweep["budgets"].as_array().unwrap();
    assert_eq!(budgets.len(), 9);
    assert_eq!(
        (&budgets[0]["budget_bytes"], &budgets[8]["budget_bytes"]),
        (&(8 << 10).into(), &(1 << 20).into())
    );
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 9 * published::all().len());
    for (index, point) in points.iter().enumerate() {
        let budget = &budgets[index % 9];
        assert_eq!(point["budget_bytes"], budget["budget_bytes"]);
        assert_eq!(point["strategy"], sweep["strategies"][index / 9]);
        if point["feasible"] == true {
            let bound = budget["lower_bound_ms"].as_f64().unwrap();
            assert!(point["predicted_ms"].as_f64().unwrap() >= bound - 2e-3, "{point}");
            assert!(point["arena_bytes"].as_u64() <= point["budget_bytes"].as_u64());
        } else {
            assert!(point["smallest_bytes"].as_u64() > point["budget_bytes"].as_u64());
            assert!(point.get("predicted_ms").is_none());
        }
    }
    // Too little for anybody at the one end, enough for everybody at the other.
    assert!(points.iter().step_by(9).all(|point| point["feasible"] == false));
    assert!(
        points.iter().skip(8).step_by(9).all(|point| point["bytes_read_per_inference"].is_u64())
    );

    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let json: Value = serde_json::from_str(&read("c.json")).unwrap();
    assert_eq!(json["points"].as_array().unwrap().len(), points.len());
    let csv = read("c.csv");
    let columns = csv.lines().next().unwrap().split(',').count();
    assert_eq!(csv.lines().count(), points.len() + 1);
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let svg = read("c.svg");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    for name in published::names().chain(["bound by costs", "no plan", "budget", "latency (ms)"]) {
        assert!(svg.contains(name), "{name}");
    }
    // What `plan` makes of the last budget is what the curve says.
    let plan =
        ["plan", "d.onnx", "--budget", "1MiB", "--strategy", published::all()[0].name(), "--json"];
    let plan = eyelet_in(folder.path(), &plan).json();
    assert_eq!(plan["plans"][0]["predicted_ms"], points[8]["predicted_ms"]);
}

#[test]
fn a_sweep_searches_as_long_and_stores_weights_as_it_is_told() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let with = |more: &[&str]| {
        let sweep = ["sweep", "d.onnx", "--budgets", "128KiB..1MiB", "--points", "2"];
        let sweep = [&sweep[..], &["--strategies", "joint", "--json"], more].concat();
        eyelet_in(folder.path(), &sweep).json()
    };
    let (plain, half) = (with(&[]), with(&["--weights", "fp16", "--effort", "default"]));
    assert_eq!((&plain["weights"], &half["weights"]), (&"fp32".into(), &"fp16".into()));
    let bytes = |sweep: &Value| sweep["weights_bytes"].as_u64().unwrap();
    assert!(bytes(&half) < bytes(&plain) * 6 / 10);
    let budget = plain["points"][0]["budget_bytes"].to_string();
    let plan = ["plan", "d.onnx", "--budget", &budget, "--weights", "fp16", "--json"];
    let plan = eyelet_in(folder.path(), &plan).json();
    assert_eq!(plan["plans"][0]["predicted_ms"], half["points"][0]["predicted_ms"]);
}

#[test]
fn a_sweep_says_what_is_wrong() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let sweep = |args: &[&str]| eyelet_in(folder.path(), &[&["sweep", "d.onnx"], args].concat());
    sweep(&["--budgets", "64KiB,lots"]).misused(&["`lots` is not a size"]);
    sweep(&["--budgets", "2MiB..1MiB"]).misused(&["the smaller size comes first"]);
    sweep(&["--budgets", "1MiB..2MiB", "--strategies", "magic"])
        .misused(&["magic", published::all()[0].name()]);
    sweep(&["--budgets", "1MiB..2MiB", "-o", "c.png"]).misused(&[".csv, .json or .svg"]);
    sweep(&["--budgets", "1MiB..2MiB", "--points", "2", "-o", "no/c.csv"])
        .fails(&["cannot write no/c.csv"]);
    let text =
        sweep(&["--budgets", "64KiB..1MiB", "--points", "3", "--strategies", "preload"]).text();
    assert!(text.contains("preload needs") && text.contains("costs  preload"), "{text}");
}

/// The slices of a trace of two inferences.
fn trace(budget: &str) -> Vec<Value> {
    trace_of(budget, "buffered", &[])
}

/// The same, read in another way.
fn trace_of(budget: &str, io: &str, more: &[&str]) -> Vec<Value> {
    let folder = packed();
    let args = [
        "run",
        "digits.pack",
        "--io",
        io,
        "--budget",
        budget,
        "--threads",
        "1",
        "--trace",
        "t.json",
    ];
    let report = eyelet_in(
        folder.path(),
        &[&args[..], &["--runs", "2", "--warmup", "1", "--json"], more].concat(),
    )
    .json();
    assert_eq!(report["runs"], 2);
    assert_eq!(report["depth"], 1);
    let text = std::fs::read_to_string(folder.path().join("t.json")).unwrap();
    let trace: Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| {
        events.iter().filter(|event| event["ph"] == "M" && event["name"] == name).count()
    };
    assert_eq!(named("process_name"), 2);
    assert!(named("thread_name") >= 4);
    let slices = || events.iter().filter(|event| event["ph"] == "X");
    // Reads that overlap are on tracks of their own, and each track has one name.
    for slice in slices() {
        let name = |event: &&Value| {
            event["name"] == "thread_name"
                && event["pid"] == slice["pid"]
                && event["tid"] == slice["tid"]
        };
        assert_eq!(events.iter().filter(name).count(), 1, "{slice}");
    }
    slices().cloned().collect()
}

#[test]
fn one_read_at_a_time_is_predicted_as_such() {
    let with = |io: &str, more: &[&str]| {
        let overlaps = |slice: &Value| slice["tid"].as_u64().is_some_and(|tid| tid >= 4);
        trace_of(SMALL, io, more).iter().filter(|slice| overlaps(slice)).count()
    };
    assert_eq!(with("buffered", &[]), 0);
    assert_eq!(with("buffered", &["--pace", "jetson-nano"]), 0);
}

#[test]
fn a_trace_has_what_was_planned_measured_and_predicted() {
    let slices = trace(SMALL);
    let folder = packed();
    let plans = eyelet_in(folder.path(), &["inspect", "digits.pack", "--json"]).json();
    let (steps, loads) = (
        plans["plans"][0]["steps"].as_u64().unwrap(),
        plans["plans"][0]["loads"].as_u64().unwrap(),
    );
    let count = |pid: u64, cat: &str| {
        slices.iter().filter(|s| s["pid"] == pid && s["cat"] == cat).count() as u64
    };
    for pid in [1, 2] {
        assert_eq!(count(pid, "step"), 2 * steps);
        assert_eq!(count(pid, "inference"), 2);
    }
    assert_eq!(count(1, "host"), 1);
    assert_eq!(count(2, "load"), 2 * loads);
    // What was read ahead before and after the measured inferences may be there or not.
    assert!(
        (2 * loads).abs_diff(count(1, "load")) <= loads,
        "{} of {}",
        count(1, "load"),
        2 * loads
    );
    let first = |cat: &str| slices.iter().find(|slice| slice["cat"] == cat).unwrap();
    assert!(first("load")["args"]["bytes"].as_u64().unwrap() >= 4096);
    assert!(first("step")["args"]["rows"].as_u64().unwrap() >= 1);
    assert!(first("step")["name"].as_str().unwrap().starts_with("conv1"));

    // On a track slices nest or follow one another, to the nanosecond.
    let mut tracks: HashMap<(u64, u64), Vec<(f64, f64)>> = HashMap::new();
    for slice in &slices {
        let number = |key: &str| slice[key].as_f64().unwrap();
        assert!(number("ts") >= 0.0 && number("dur") >= 0.0, "{slice}");
        let open = tracks.entry((number("pid") as u64, number("tid") as u64)).or_default();
        let (start, end) = (number("ts"), number("ts") + number("dur"));
        open.retain(|(_, open_end)| *open_end > start + 2e-3);
        assert!(
            open.iter().all(|(_, open_end)| end <= open_end + 2e-3),
            "{slice} crosses {open:?}"
        );
        open.push((start, end));
    }
    assert!(tracks.len() >= 4);
}

#[test]
fn a_trace_without_loads_has_no_stalls() {
    let slices = trace(LARGE);
    assert!(slices.iter().all(|slice| slice["cat"] != "load" && slice["cat"] != "stall"));
    assert!(slices.iter().any(|slice| slice["cat"] == "step"));
}

/// The file has the measured timeline and the predicted one: no other file is written, and so none is replaced.
#[test]
fn a_trace_is_one_file() {
    let folder = packed();
    let at = |name: &str| folder.path().join(name);
    let before = std::fs::read_dir(folder.path()).unwrap().count();
    let names = ["--trace", "run.json", "--report", "run.predicted.json"];
    let run = ["run", "digits.pack", "--io", "buffered", "--json"];
    let report = eyelet_in(folder.path(), &[&run[..], &names].concat()).json();
    assert_eq!(report["files"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), before + 2);
    let page = std::fs::read_to_string(at("run.predicted.json")).unwrap();
    assert!(page.contains("</html>"), "{page}");
    let trace = std::fs::read_to_string(at("run.json")).unwrap();
    assert!(trace.contains("predicted with the costs of"), "{trace}");
    let same = [&run[..4], &["--trace", "run.json", "--report", "./run.json"]].concat();
    eyelet_in(folder.path(), &same).fails(&["would be replaced"]);
}

#[test]
fn a_trace_says_what_is_wrong() {
    let folder = packed();
    let run = |args: &[&str]| {
        eyelet_in(folder.path(), &[&["run", "digits.pack", "--io", "buffered"], args].concat())
    };
    run(&["--profile", "p.toml"]).misused(&["--trace"]);
    run(&["--trace", "no/t.json"]).fails(&["cannot write no/t.json"]);
    run(&["--trace", "t.json", "--profile", "p.toml"]).fails(&["p.toml"]);
}

/// Plans of one pack that compute some layers by different algorithms give different bits, which
/// `plan` says; otherwise the same.
#[test]
fn plan_says_whether_outputs_differ_between_budgets() {
    let folder = folder();
    let eyelet = |args: &[&str]| eyelet_in(folder.path(), args);
    eyelet(&["zoo", "squeezenet1_1", "-o", "s.onnx"]).text();
    // With little memory there is no room to transform weights.
    let budgets = ["1.1MiB", "5MiB"];
    let plan = ["plan", "s.onnx", "--budget", budgets[0], "--budget", budgets[1]];
    for (more, differ) in
        [(&["--effort", "fast"][..], true), (&["--exact", "--effort", "fast"], false)]
    {
        let plan = [&plan[..], more].concat();
        let text = eyelet(&plan).text();
        let said = "outputs differ by up to 1e-4 of the largest magnitude; with --exact";
        assert_eq!(text.contains(said), differ, "{text}");
        let report = eyelet(&[&plan[..], &["--json"]].concat()).json();
        assert_eq!(report["same_bits"], !differ);
        let transformed = |plan: usize| report["plans"][plan]["transformed_layers"].as_u64();
        let counts = [transformed(0).unwrap(), transformed(1).unwrap()];
        assert_eq!(counts[0] != counts[1], differ, "{counts:?}");
        let range = match differ {
            true => format!(
                "{} to {} transformed",
                counts.iter().min().unwrap(),
                counts.iter().max().unwrap()
            ),
            false => "0 transformed".to_owned(),
        };
        assert!(
            text.contains(&format!("stored for Winograd's algorithm, {range} on load")),
            "{text}"
        );
        let digest = |budget: &str| {
            let run = ["run", "s.pack", "--budget", budget, "--io", "buffered", "--json"];
            eyelet(&run).json()["output_digest"].as_str().unwrap().to_owned()
        };
        assert_eq!(digest(budgets[0]) != digest(budgets[1]), differ);
    }
}

/// The board that stands for this machine can be named.
#[test]
fn the_host_can_be_another_board() {
    let folder = packed();
    let plan = |board: &str| {
        let mut command = command::command();
        command.args(["plan", "digits.onnx", "--budget", LARGE, "--json"]);
        command.env(HOST_BOARD, board).current_dir(folder.path()).output().unwrap()
    };
    for (board, isa) in [("portable", "portable"), ("host-avx512", "avx512")] {
        let report: Value = serde_json::from_slice(&plan(board).stdout).unwrap();
        assert_eq!((&report["board"], &report["isa"]), (&board.into(), &isa.into()));
    }
    let error = String::from_utf8(plan("host-vax").stderr).unwrap();
    assert!(error.contains(HOST_BOARD) && error.contains("`host-vax`"), "{error}");
}
