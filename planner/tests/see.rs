//! `eyelet sweep`: curves, in files that other programs read.

mod command;

use command::{eyelet_in, folder};
use eyelet::pack::STRATEGIES;
use serde_json::Value;

#[test]
fn a_sweep_has_every_strategy_at_every_budget() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let files = ["-o", "c.csv", "-o", "c.json", "-o", "c.svg"];
    let args =
        [&["sweep", "d.onnx", "--budgets", "64KiB..1MiB", "--points", "9", "--json"], &files[..]];
    let sweep = eyelet_in(folder.path(), &args.concat()).json();
    assert_eq!(sweep["strategies"].as_array().unwrap().len(), STRATEGIES.len());
    let budgets = sweep["budgets"].as_array().unwrap();
    assert_eq!(budgets.len(), 9);
    assert_eq!(
        (&budgets[0]["budget_bytes"], &budgets[8]["budget_bytes"]),
        (&(64 << 10).into(), &(1 << 20).into())
    );
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 9 * STRATEGIES.len());
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
    for name in STRATEGIES.iter().chain(&["lower bound", "no plan", "budget", "latency (ms)"]) {
        assert!(svg.contains(name), "{name}");
    }
    // What `plan` makes of the last budget is what the curve says.
    let plan = eyelet_in(folder.path(), &["plan", "d.onnx", "--budget", "1MiB", "--json"]).json();
    assert_eq!(plan["plans"][0]["predicted_ms"], points[8]["predicted_ms"]);
}

#[test]
fn a_sweep_says_what_is_wrong() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let sweep = |args: &[&str]| eyelet_in(folder.path(), &[&["sweep", "d.onnx"], args].concat());
    sweep(&["--budgets", "64KiB"]).misused(&["no range of sizes"]);
    sweep(&["--budgets", "2MiB..1MiB"]).misused(&["the smaller size comes first"]);
    sweep(&["--budgets", "1MiB..2MiB", "--strategies", "magic"]).misused(&["magic", STRATEGIES[0]]);
    sweep(&["--budgets", "1MiB..2MiB", "-o", "c.png"]).misused(&[".csv, .json or .svg"]);
    sweep(&["--budgets", "1MiB..2MiB", "--points", "2", "-o", "no/c.csv"])
        .fails(&["cannot write no/c.csv"]);
    let text =
        sweep(&["--budgets", "64KiB..1MiB", "--points", "3", "--strategies", "preload"]).text();
    assert!(text.contains("preload needs") && text.contains("lower bound"), "{text}");
}
