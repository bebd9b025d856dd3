//! Task sets by command: drawn, judged, drawn as a page; packs and runs as costs; errors.

use crate::common::command::{eyelet_in, folder, packed};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Two cameras that fit, or do not, with a period.
fn cameras(folder: &Path, period: &str) {
    let task = |name: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period}\"\ncompute = \"20ms\"\nstep = \"2ms\"\n\
             bytes = \"60MB\"\nswappable = \"50MB\"\n"
        )
    };
    let head = "memory = \"80MB\"\nchunks = [\"1MB\"]\n[storage]\nread = \"1GB/s\"\n";
    fs::write(folder.join("set.toml"), head.to_owned() + &task("left") + &task("right")).unwrap();
}

#[test]
fn a_set_that_fits_is_schedulable() {
    let folder = folder();
    cameras(folder.path(), "200ms");
    let report =
        eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "1000", "--json"]).json();
    assert_eq!(report["schedulable"], true);
    assert_eq!(report["simulated"]["misses"], 0);
    assert_eq!(report["simulated"]["jobs"], 1000);
    let swapped = |task: usize| report["tasks"][task]["swapped_bytes"].as_u64().unwrap();
    assert!(swapped(0) + swapped(1) >= 40_000_000, "{report}");
    let text = eyelet_in(folder.path(), &["schedule", "set.toml", "--report", "set.html"]).text();
    assert!(text.starts_with("schedulable: every job ends before its deadline"), "{text}");
    let page = fs::read_to_string(folder.path().join("set.html")).unwrap();
    assert!(page.contains("Memory over time") && page.matches("<svg").count() == 2);
}

#[test]
fn a_set_that_does_not_fit_names_the_cheapest_change() {
    let folder = folder();
    cameras(folder.path(), "50ms");
    let done = eyelet_in(folder.path(), &["schedule", "set.toml"]);
    assert_eq!(done.code, Some(1));
    assert!(done.out.starts_with("not schedulable"), "{}", done.out);
    assert!(
        done.err.contains("set.toml: the set is not schedulable; cheapest change: "),
        "{}",
        done.err
    );
    let json = eyelet_in(folder.path(), &["schedule", "set.toml", "--json"]);
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["schedulable"], false);
    assert!(report["changes"].as_array().unwrap().len() > 1, "{report}");
}

#[test]
fn errors_say_where() {
    let folder = folder();
    cameras(folder.path(), "0ms");
    let parts = ["set.toml:7: period: it is zero: give a positive value"];
    eyelet_in(folder.path(), &["schedule", "set.toml"]).fails(&parts);
    let json = eyelet_in(folder.path(), &["schedule", "set.toml", "--json"]);
    let error: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (json.code, error["line"].as_u64(), error["key"].as_str()),
        (Some(1), Some(7), Some("period"))
    );
    eyelet_in(folder.path(), &["schedule", "none.toml"]).fails(&["cannot read none.toml"]);
}

#[test]
fn drawn_sets_are_repeatable_and_can_be_judged() {
    let folder = folder();
    for kind in ["uniform", "harder", "table3"] {
        let args = ["taskgen", "--kind", kind, "--seed", "3", "--load", "0.2", "--overflow", "0.1"];
        let text = eyelet_in(folder.path(), &args).text();
        assert_eq!(text, eyelet_in(folder.path(), &args).text());
        eyelet_in(folder.path(), &[&args[..], &["-o", "drawn.toml"]].concat()).text();
        assert_eq!(text, fs::read_to_string(folder.path().join("drawn.toml")).unwrap());
        let report =
            eyelet_in(folder.path(), &["schedule", "drawn.toml", "--jobs", "500", "--json"]).json();
        assert_eq!(report["schedulable"], true, "{kind}: {report}");
    }
    eyelet_in(folder.path(), &["taskgen", "--load", "1.5"]).misused(&["is not a part"]);
}

/// Two networks that do not fit together with all of their weights are planned for smaller budgets.
#[test]
fn models_are_planned_for_budgets_that_fit_together() {
    let folder = folder();
    eyelet_in(folder.path(), &["zoo", "squeezenet1_1"]).text();
    let head = "memory = \"8MiB\"\nboard = \"raspberry-pi-4\"\n[storage]\nread = \"44MB/s\"\n";
    let task = |name: &str, period: &str, more: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period}\"\nmodel = \"squeezenet1_1.onnx\"\n{more}"
        )
    };
    let judge = |first: &str, second: &str| {
        let set = head.to_owned() + &task("a", "1s", first) + &task("b", "2s", second);
        fs::write(folder.path().join("set.toml"), set).unwrap();
        eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "100"])
    };
    judge("", "").text();
    let again = ["schedule", "set.toml", "--jobs", "100", "--json"];
    let report = eyelet_in(folder.path(), &again).json();
    assert_eq!((&report["schedulable"], &report["simulated"]["misses"]), (&true.into(), &0.into()));
    // With one plan each, as large as the memory: nothing is left for the other.
    let one = "budgets = [\"8MiB\"]\n";
    let alone = judge(one, one);
    assert_eq!(alone.code, Some(1), "{}", alone.out);
    judge("budgets = [\"64KiB\"]\n", "")
        .fails(&["set.toml:8: model: squeezenet1_1.onnx: a budget of 64 KiB"]);
}

#[test]
fn costs_come_from_packs_and_runs() {
    let folder = packed();
    let run = ["run", "digits.pack", "--io", "buffered", "--runs", "3", "--json"];
    let measured = eyelet_in(folder.path(), &run).json();
    fs::write(folder.path().join("run.json"), measured.to_string()).unwrap();
    let set = "memory = \"16MiB\"\nchunks = [\"4KiB\"]\n[storage]\nread = \"1GB/s\"\n\
        [[task]]\nname = \"planned\"\nperiod = \"10s\"\npack = \"digits.pack\"\n\
        [[task]]\nname = \"measured\"\nperiod = \"10s\"\nmeasured = \"run.json\"\n";
    fs::write(folder.path().join("set.toml"), set).unwrap();
    let report =
        eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "100", "--json"]).json();
    assert_eq!(report["schedulable"], true);
    let bytes = |task: usize| report["tasks"][task]["bytes"].as_u64();
    assert_eq!(bytes(0), measured["arena_bytes"].as_u64(), "{report}");
    assert_eq!(bytes(1), measured["arena_bytes"].as_u64());
    fs::write(folder.path().join("set.toml"), set.replace("digits.pack", "none.pack")).unwrap();
    eyelet_in(folder.path(), &["schedule", "set.toml"])
        .fails(&["set.toml:8: pack: none.pack: cannot read"]);
}
