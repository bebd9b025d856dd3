//! Boards whose descriptions give a network memory: what is planned for them, and what is refused.

use crate::common::command::{LARGE, SMALL, eyelet_in, packed};
use std::path::Path;

/// A microcontroller whose networks have the bytes of [`SMALL`].
pub fn microcontroller() -> String {
    let portable = concat!(env!("CARGO_MANIFEST_DIR"), "/../boards/portable/board.toml");
    let text = std::fs::read_to_string(portable).expect("a board");
    let memories = r#"
[cores]
count = 1
pipeline = "in-order"

[clock]
hz = 25_000_000

[storage]
kind = "flash"

[[memory]]
name = "flash"
kind = "flash"
base = 0x0800_0000
bytes = "2MiB"
mapped = "1MiB"

[[memory]]
name = "sram"
kind = "ram"
base = 0x2000_0000
bytes = "256KiB"
working = "64KiB"
kept = "32KiB"
stack = "16KiB"

[profile]
"#;
    let named = text.replacen("name = \"portable\"", "name = \"mcu\"", 1);
    named.replacen("[profile]\n", memories, 1)
}

fn with_board(board: &str) -> tempfile::TempDir {
    let folder = packed();
    std::fs::write(folder.path().join("mcu.toml"), board).expect("a file");
    folder
}

fn plan(folder: &Path, more: &[&str]) -> crate::common::command::Done {
    let plan = ["plan", "digits.onnx", "--board", "./mcu.toml", "--effort", "fast", "-o", "m.pack"];
    eyelet_in(folder, &[&plan[..], more].concat())
}

#[test]
fn a_board_gives_the_budget() {
    let folder = with_board(&microcontroller());
    let report = plan(folder.path(), &["--json"]).json();
    assert_eq!(report["plans"][0]["budget_bytes"], 98304);
    assert_eq!(report["board"], "mcu");
    let report = plan(folder.path(), &["--budget", "90KiB", "--json"]).json();
    assert_eq!(report["plans"][0]["budget_bytes"], 92160);
    std::fs::remove_file(folder.path().join("m.pack")).expect("a pack");
    plan(folder.path(), &["--budget", SMALL, LARGE]).fails(&[
        "budget of 1 MiB (1048576 bytes)",
        "the board mcu gives a network, 96 KiB (98304 bytes)",
    ]);
    assert!(!folder.path().join("m.pack").exists());
    // The smallest budget is a fact; a pack for it is not made where the board is too small.
    let smaller =
        microcontroller().replace("\"64KiB\"", "\"4KiB\"").replace("\"32KiB\"", "\"4KiB\"");
    std::fs::write(folder.path().join("mcu.toml"), smaller).expect("a file");
    plan(folder.path(), &["--min-budget"]).fails(&["the board mcu gives a network, 8 KiB"]);
    assert!(!folder.path().join("m.pack").exists());
}

/// Steps are divided, in groups that slide, too: every one keeps the time, and outputs are the same bits.
#[test]
fn no_step_takes_longer_than_it_may() {
    let folder = packed();
    let eyelet = |args: &[&str]| eyelet_in(folder.path(), args);
    eyelet(&["zoo", "squeezenet1_1", "-o", "squeezenet.onnx"]).text();
    for (model, budget, share) in [
        ("digits.onnx", "96KiB", 0.6),
        ("squeezenet.onnx", "2MiB", 0.3),
        ("squeezenet.onnx", "8MiB", 0.3),
    ] {
        let plan = |more: &[&str]| {
            let plan = [
                "plan", model, "--budget", budget, "--effort", "fast", "--exact", "--json", "-o",
                "s.pack",
            ];
            eyelet(&[&plan[..], more].concat())
        };
        let digest = || {
            let run = ["run", "s.pack", "--io", "buffered", "--threads", "2", "--json"];
            eyelet(&run).json()["output_digest"].as_str().expect("a digest").to_owned()
        };
        let report = plan(&[]).json();
        let longest_ms = |report: &serde_json::Value| {
            report["plans"][0]["longest_step_ms"].as_f64().expect("a time")
        };
        let (before, steps) = (longest_ms(&report), report["plans"][0]["steps"].as_u64());
        let bits = digest();
        let limit = before * share;
        let report = plan(&["--longest-step", &format!("{}ns", (limit * 1e6) as u64)]).json();
        // Times are printed to the microsecond.
        assert!(longest_ms(&report) <= limit + 1e-3, "{model}: {} of {limit}", longest_ms(&report));
        assert!(report["plans"][0]["steps"].as_u64() > steps, "{model}");
        assert!(
            report["plans"][0]["arena_bytes"].as_u64()
                <= report["plans"][0]["budget_bytes"].as_u64()
        );
        assert_eq!(digest(), bits, "{model} in {budget}");
        eyelet(&["check", "s.pack"]).text();
    }
    std::fs::remove_file(folder.path().join("s.pack")).expect("a pack");
    let plan = ["plan", "digits.onnx", "--budget", "96KiB", "-o", "s.pack", "--longest-step"];
    eyelet(&[&plan[..], &["1ns"]].concat())
        .fails(&["no step may take longer than 1ns", "smallest step of layer `"]);
    eyelet(&[&plan[..], &["5"]].concat()).misused(&["`5` is not a time"]);
    assert!(!folder.path().join("s.pack").exists());
}

#[test]
fn a_fault_in_a_board_has_file_line_and_key() {
    let text = microcontroller().replace("\"64KiB\"", "\"64KB\"");
    let line = text.lines().position(|line| line.contains("64KB")).expect("the line") + 1;
    let folder = with_board(&text);
    plan(folder.path(), &[])
        .fails(&[&format!("./mcu.toml:{line}: memory[1].working: `64KB` is not a size")]);
    let done = plan(folder.path(), &["--json"]);
    let fault: serde_json::Value = serde_json::from_str(&done.out).expect("one JSON object");
    assert_eq!((&fault["file"], &fault["line"]), (&"./mcu.toml".into(), &line.into()));
    assert_eq!(fault["key"], "memory[1].working");
}

#[test]
fn known_boards_are_listed() {
    let folder = packed();
    let list = ["plan", "--board", "list"];
    let text = eyelet_in(folder.path(), &list).text();
    assert!(
        text.lines().any(|line| line.starts_with("raspberry-pi-4 ") && line.contains("Cortex-A72")),
        "{text}"
    );
    let report = eyelet_in(folder.path(), &[&list[..], &["--json"]].concat()).json();
    let names: Vec<_> = report["boards"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|board| board["name"].as_str())
        .collect();
    assert_eq!(names, eyelet_planner::board::Board::names().collect::<Vec<_>>());
}

/// `docs/boards.md` has a row for every key of the schema, or names it in the row of its table.
#[test]
fn the_docs_name_every_key() {
    use eyelet_planner::board::described::schema::{BOARD, Key, Kind, Need, PROFILE};
    const PAGE: &str = include_str!("../../../docs/boards.md");
    fn row(path: &str) -> Option<&'static str> {
        PAGE.lines().find(|line| line.starts_with(&format!("| `{path}` |")))
    }
    fn check(keys: &[Key], path: &str) {
        for key in keys.iter().filter(|key| key.need != Need::Former) {
            let name = format!("{path}{}", key.name);
            let inner = match &key.kind {
                Kind::Table(keys) | Kind::Part(keys) | Kind::Tables(keys) => *keys,
                _ => &[],
            };
            // Those of `llc` are like those of the storage itself.
            let path = path.replace("llc.reads.", "reads.");
            let table = row(path.trim_end_matches('.'));
            let in_table = table.is_some_and(|row| row.contains(&format!("`{}`", key.name)));
            let said = row(&name).is_some() || in_table || !inner.is_empty();
            assert!(said, "docs/boards.md does not say what `{name}` is");
            // Costs have a table of their own.
            if !["profile", "gpu.profile", "gpu.staged"].contains(&name.as_str()) {
                check(inner, &format!("{name}."));
            }
        }
    }
    check(BOARD, "");
    let of_costs = PROFILE.iter().position(|key| key.name == "estimated").expect("a key");
    check(&PROFILE[of_costs..], "");
}
