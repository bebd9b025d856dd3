//! `eyelet alloc` as a user has it, and the published hard problems.

use crate::common::command::{Done, eyelet_in, folder};
use eyelet_alloc::csv::Table;
use eyelet_alloc::{Limit, Outcome, peak, solve, validate};
use std::path::Path;

const EXAMPLE: &str = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

/// Runs the command on a file of this content.
fn alloc(folder: &Path, content: &str, args: &[&str]) -> Done {
    std::fs::write(folder.join("in.csv"), content).unwrap();
    eyelet_in(folder, &[&["alloc", "in.csv"], args].concat())
}

/// The answer is the question with a column more that is right.
fn proves(question: &str, answer: &str, capacity: u64) {
    let mut offsets = Vec::new();
    for (number, (before, after)) in question.lines().zip(answer.lines()).enumerate() {
        let (same, offset) = after.rsplit_once(',').unwrap();
        assert_eq!(same, before);
        if number == 0 {
            assert_eq!(offset, "offset");
        } else {
            offsets.push(offset.parse().unwrap());
        }
    }
    validate(&Table::parse(question).unwrap().buffers, &offsets, capacity).unwrap();
}

#[test]
fn it_prints_the_same_rows_with_offsets() {
    let folder = folder();
    let text = alloc(folder.path(), EXAMPLE, &["--capacity", "12"]).text();
    proves(EXAMPLE, &text, 12);

    let shuffled = "size,id,upper,lower\n4,b1,3,0\n4,b2,9,3\n4,b3,9,0\n";
    proves(shuffled, &alloc(folder.path(), shuffled, &["--capacity", "1KiB"]).text(), 8);
    let none = alloc(folder.path(), "id,lower,upper,size\n", &["--capacity", "1"]).text();
    assert_eq!(none, "id,lower,upper,size,offset\n");
}

#[test]
fn it_writes_files_and_json() {
    let folder = folder();
    let args = ["--capacity", "12", "-o", "out.csv"];
    let text = alloc(folder.path(), EXAMPLE, &args).text();
    assert!(text.contains("out.csv: 5 buffers in 12 of 12 bytes"), "{text}");
    proves(EXAMPLE, &std::fs::read_to_string(folder.path().join("out.csv")).unwrap(), 12);

    let report = alloc(folder.path(), EXAMPLE, &["--capacity", "13", "--json"]).json();
    assert_eq!((&report["height_bytes"], &report["live_bytes"]), (&12.into(), &12.into()));
    assert_eq!(report["buffers"][2]["id"], "b3");
    assert!(report["buffers"][2]["offset"].is_u64());
}

#[test]
fn what_does_not_fit_is_an_error_with_the_best_height() {
    let folder = folder();
    alloc(folder.path(), EXAMPLE, &["--capacity", "11", "-o", "out.csv"]).fails(&[
        "in.csv: the buffers do not fit 11 bytes",
        "12 bytes are live at once at time 0",
        "the best height found is 12 bytes",
    ]);
    assert!(!folder.path().join("out.csv").exists());

    let hard = read("A");
    alloc(folder.path(), &hard, &["--capacity", "1MiB", "--time-limit", "0"]).fails(&[
        "no allocation within 1 MiB (1048576 bytes) was found in 0 s",
        "the best height found is",
    ]);
}

#[test]
fn mistakes_are_explained() {
    let folder = folder();
    let with = |content: &str| alloc(folder.path(), content, &["--capacity", "8"]);
    with("").fails(&["in.csv: the file is empty"]);
    with("id,lower,upper\n").fails(&["line 1: there is no column `size`"]);
    with("id,lower,upper,size\na,4,2,1\n").fails(&["line 2: lower 4 is not below upper 2"]);
    with("id,lower,upper,size\na,0,2,x\n").fails(&["line 2: size `x` is not a whole number"]);
    std::fs::write(folder.path().join("in.csv"), [0xff, 0xfe, b'\n']).unwrap();
    let run = |args: &[&str]| eyelet_in(folder.path(), &[&["alloc"], args].concat());
    run(&["in.csv", "--capacity", "8"]).fails(&["cannot read in.csv", "UTF-8"]);
    run(&["none.csv", "--capacity", "8"]).fails(&["cannot read none.csv"]);
    run(&["in.csv"]).misused(&["--capacity"]);
    run(&["in.csv", "--capacity", "0"]).misused(&["a size is at least 1 byte"]);
    run(&["in.csv", "--capacity", "8", "--time-limit", "soon"]).misused(&["is not a time"]);
}

#[test]
fn help_has_an_example() {
    let text = eyelet_in(folder().path(), &["alloc", "--help"]).text();
    assert!(text.contains("Example:\n  eyelet alloc") && text.contains("--time-limit"), "{text}");
}

fn read(name: &str) -> String {
    let file = format!("{}/tests/data/alloc/{name}.1048576.csv", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).unwrap()
}

/// All published problems, with a limit of work that any machine meets in the same state.
#[test]
fn published_hard_problems_are_solved() {
    for name in ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K"] {
        let buffers = Table::parse(&read(name)).unwrap().buffers;
        assert!(peak(&buffers).bytes <= 1 << 20, "{name}");
        match solve(&buffers, 1 << 20, Limit::work(4_000_000)) {
            Outcome::Fits(placement) => validate(&buffers, &placement.offsets, 1 << 20).unwrap(),
            Outcome::Best { placement, .. } => panic!("{name}: {}", placement.height),
        }
    }
}
