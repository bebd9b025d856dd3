//! What is said of how far a prediction may be from what is measured.

use crate::common::command::{SMALL, eyelet_in, packed};
use eyelet_planner::board::Board;
use eyelet_planner::profile::{Extremes, Profile, Steadiness};

/// A plan's report, and its text, by costs of a machine that was so steady.
fn planned(steadiness: Option<Steadiness>) -> (serde_json::Value, String) {
    let folder = packed();
    let board = Board::load("portable").unwrap().profile;
    let profile = Profile { steadiness, ..board };
    std::fs::write(folder.path().join("here.toml"), profile.to_toml()).unwrap();
    let plan = ["plan", "digits.onnx", "--budget", SMALL, "--profile", "here.toml"];
    let report = eyelet_in(folder.path(), &[&plan[..], &["--json"]].concat()).json();
    (report, eyelet_in(folder.path(), &plan).text())
}

#[test]
fn a_plan_has_a_range_by_how_steady_the_machine_was() {
    let (report, text) = planned(None);
    assert!(report["plans"][0].get("predicted_range_ms").is_none(), "{report}");
    assert!(!text.contains("likely"), "{text}");

    let steady = Extremes { fastest: 1.0, slowest: 1.0 };
    let of = |turns: Extremes, reads: Extremes| {
        let all = Steadiness { one_thread: turns, all_threads: turns, reads };
        let (report, text) = planned(Some(all));
        let plan = report["plans"][0].clone();
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let range = &plan["predicted_range_ms"];
        (number(&plan["predicted_ms"]), [number(&range[0]), number(&range[1])], text)
    };
    let (predicted, [least, most], text) = of(steady, steady);
    assert!((least / predicted - 0.9).abs() < 0.01 && (most / predicted - 1.1).abs() < 0.01);
    assert!(text.contains(&format!("{least:.2} to {most:.2} ms are likely")), "{text}");
    assert!(!text.contains("note: this machine"), "{text}");

    // Slower turns of computing, and of reading.
    let slow = Extremes { fastest: 0.8, slowest: 1.6 };
    let (_, [lower, higher], text) = of(slow, steady);
    assert!(lower < least && higher > most);
    assert!(text.contains("note: this machine was 2.00 times as slow at one moment"), "{text}");
    let reads = Extremes { fastest: 1.0, slowest: 50.0 };
    assert!(of(steady, reads).1[1] > most);
}
