//! The program `alloc`, and the published hard problems.

use eyelet_alloc::csv::Table;
use eyelet_alloc::{Limit, Outcome, peak, solve, validate};
use std::path::Path;
use std::process::{Command, Output};

const EXAMPLE: &str = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n";

fn run(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alloc")).args(args).current_dir(folder).output().unwrap()
}

/// What is printed where all is well.
fn text(done: &Output) -> String {
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout.clone()).unwrap()
}

/// Ends with this exit code, and an error that has these parts.
#[track_caller]
fn fails(done: &Output, code: i32, parts: &[&str]) {
    let error = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{done:?}");
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

/// Runs it on a file of this content.
fn alloc(folder: &Path, content: &str, args: &[&str]) -> Output {
    std::fs::write(folder.join("in.csv"), content).unwrap();
    run(folder, &[&["in.csv"], args].concat())
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
    let folder = tempfile::tempdir().unwrap();
    let placed = text(&alloc(folder.path(), EXAMPLE, &["--capacity", "12"]));
    proves(EXAMPLE, &placed, 12);

    let shuffled = "size,id,upper,lower\n4,b1,3,0\n4,b2,9,3\n4,b3,9,0\n";
    let placed = text(&alloc(folder.path(), shuffled, &["--capacity", "1KiB"]));
    proves(shuffled, &placed, 8);
    let none = text(&alloc(folder.path(), "id,lower,upper,size\n", &["--capacity", "1"]));
    assert_eq!(none, "id,lower,upper,size,offset\n");
}

#[test]
fn it_writes_files() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--capacity", "12", "-o", "out.csv"];
    let line = text(&alloc(folder.path(), EXAMPLE, &args));
    assert!(line.contains("out.csv: 5 buffers in 12 of 12 bytes, 12 live at once"), "{line}");
    proves(EXAMPLE, &std::fs::read_to_string(folder.path().join("out.csv")).unwrap(), 12);
}

#[test]
fn what_does_not_fit_is_an_error_with_the_best_height() {
    let folder = tempfile::tempdir().unwrap();
    let unfit = alloc(folder.path(), EXAMPLE, &["--capacity", "11", "-o", "out.csv"]);
    let parts = [
        "in.csv: the buffers do not fit 11 bytes",
        "12 bytes are live at once at time 0",
        "the best height found is 12 bytes",
    ];
    fails(&unfit, 1, &parts);
    assert!(!folder.path().join("out.csv").exists());

    let hard = read("A");
    let parts = ["no allocation within 1 MiB (1048576 bytes) was found in 0 s", "the best height"];
    let hard = alloc(folder.path(), &hard, &["--capacity", "1MiB", "--time-limit", "0"]);
    fails(&hard, 1, &parts);
}

/// More buffers than can be looked at in pairs, all of them live at once.
#[test]
fn it_ends_when_its_time_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = String::from("id,lower,upper,size\n");
    for at in 0..60_000 {
        table += &format!("b{at},{},{},{}\n", at % 7, 10 + at % 5, 64 + at % 1000);
    }
    let done = alloc(folder.path(), &table, &["--capacity", "1MiB", "--time-limit", "0"]);
    fails(&done, 1, &["do not fit 1 MiB", "live at once"]);
}

#[test]
fn mistakes_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    for (content, part) in [
        ("", "in.csv: the file is empty"),
        ("id,lower,upper\n", "line 1: there is no column `size`"),
        ("id,lower,upper,size\na,4,2,1\n", "line 2: lower 4 is not below upper 2"),
        ("id,lower,upper,size\na,0,2,x\n", "line 2: size `x` is not a whole number"),
    ] {
        fails(&alloc(folder.path(), content, &["--capacity", "8"]), 1, &[part]);
    }
    std::fs::write(folder.path().join("in.csv"), [0xff, 0xfe, b'\n']).unwrap();
    let run = |args: &[&str]| run(folder.path(), args);
    fails(&run(&["in.csv", "--capacity", "8"]), 1, &["cannot read in.csv", "UTF-8"]);
    fails(&run(&["none.csv", "--capacity", "8"]), 1, &["cannot read none.csv"]);
    fails(&run(&["in.csv"]), 2, &["--capacity"]);
    fails(&run(&["in.csv", "--capacity", "0"]), 2, &["a size is at least 1 byte"]);
    let soon = ["in.csv", "--capacity", "8", "--time-limit", "soon"];
    fails(&run(&soon), 2, &["is not a time"]);
}

fn read(name: &str) -> String {
    let file = format!("{}/tests/data/{name}.1048576.csv", env!("CARGO_MANIFEST_DIR"));
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
