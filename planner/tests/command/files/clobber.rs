//! Outputs onto inputs, and onto other outputs.

use super::{changed, name_outputs};
use crate::common::command::{Done, eyelet_in, packed};
use crate::tasks::networks;
use eyelet_planner::board::Board;
use eyelet_planner::import::onnx::StringStringEntryProto;
use eyelet_planner::npy;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A folder with everything that verbs read.
fn inputs() -> tempfile::TempDir {
    let folder = packed();
    let at = |name: &str| folder.path().join(name);
    changed(&at("m.onnx"), |model| {
        let tensors = &mut model.graph.as_mut().unwrap().initializer;
        let tensor = tensors.iter_mut().find(|tensor| !tensor.raw_data.is_empty()).unwrap();
        fs::write(at("data.bin"), std::mem::take(&mut tensor.raw_data)).unwrap();
        tensor.data_location = 1;
        let (key, value) = ("location".to_owned(), "data.bin".to_owned());
        tensor.external_data = vec![StringStringEntryProto { key, value }];
    });
    let portable = Board::load("portable").unwrap().profile;
    fs::write(at("profile.toml"), portable.to_toml()).unwrap();
    let board = concat!(env!("CARGO_MANIFEST_DIR"), "/../boards/portable/board.toml");
    fs::copy(board, at("board.toml")).unwrap();
    npy::write(at("input.npy"), &[1, 1, 8, 8], &[0.5; 64]).unwrap();
    folder
}

/// All files of a folder and what is in them.
fn contents(folder: &Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect()
}

/// It is refused, and nothing has changed.
#[track_caller]
fn refused(folder: &Path, args: &[&str], parts: &[&str]) {
    let before = contents(folder);
    let done: Done = eyelet_in(folder, args);
    done.fails(&[&["would be replaced; give another path"], parts].concat());
    assert!(before == contents(folder), "files changed: {args:?}");
}

/// Calls a verb with each of its outputs onto each of its inputs, by its path, by links, and from another folder. `OUT` in
/// the arguments is where the path goes.
#[track_caller]
fn onto_all(folder: &Path, inputs: &[&str], args: &[&str], extension: &str) {
    let at = |name: &str| folder.join(name);
    for input in inputs {
        let names = ["soft", "chain", "hard"].map(|kind| format!("{kind}{extension}"));
        symlink(at(input), at(&names[0])).unwrap();
        symlink(&names[0], at(&names[1])).unwrap();
        fs::hard_link(at(input), at(&names[2])).unwrap();
        let mut paths = names.to_vec();
        // By its own path, where outputs can have such a name.
        if input.ends_with(extension) {
            paths.extend([input.to_string(), format!("./{input}"), format!("sub/../{input}")]);
        }
        for path in &paths {
            let args: Vec<&str> =
                args.iter().map(|arg| if *arg == "OUT" { path.as_str() } else { arg }).collect();
            refused(folder, &args, &[path, input]);
        }
        names.iter().for_each(|name| fs::remove_file(at(name)).unwrap());
    }
}

#[test]
fn plan() {
    let folder = inputs();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let of = ["m.onnx", "data.bin", "profile.toml"];
    let start = ["plan", "m.onnx", "--budget", "1MiB", "--profile", "profile.toml"];
    onto_all(folder.path(), &of, &[&start[..], &["-o", "OUT"]].concat(), "");
    let report = ["-o", "new.pack", "--report", "OUT"];
    onto_all(folder.path(), &of, &[&start[..], &report].concat(), "");
    let board = ["plan", "m.onnx", "--budget", "1MiB", "--board", "board.toml", "-o", "OUT"];
    onto_all(folder.path(), &["board.toml"], &board, "");
    let least = ["plan", "m.onnx", "--min-budget", "-o", "OUT"];
    onto_all(folder.path(), &["m.onnx"], &least, "");
    // A model that is called as its pack would be.
    fs::rename(folder.path().join("m.onnx"), folder.path().join("m.pack")).unwrap();
    refused(folder.path(), &["plan", "m.pack", "--budget", "1MiB"], &["-o m.pack", "the model"]);
}

#[test]
fn sweep() {
    let folder = inputs();
    let start = ["sweep", "m.onnx", "--budgets", "64KiB..1MiB", "--points", "2"];
    for extension in [".csv", ".json", ".svg"] {
        let args = [&start[..], &["--profile", "profile.toml", "-o", "OUT"]].concat();
        onto_all(folder.path(), &["m.onnx", "data.bin", "profile.toml"], &args, extension);
    }
}

#[test]
fn profile() {
    let folder = inputs();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let args = ["profile", "--board", "board.toml", "-o", "OUT"];
    onto_all(folder.path(), &["board.toml"], &args, "");
    refused(
        folder.path(),
        &["profile", "--board", ".", "-o", "board.toml"],
        &["--board (./board.toml)"],
    );
}

#[test]
fn run() {
    let folder = inputs();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("sub")).unwrap();
    let plan = ["plan", "m.onnx", "--budget", "1MiB", "--board", "portable", "-o", "p.pack"];
    eyelet_in(folder.path(), &plan).text();
    let start =
        ["run", "p.pack", "--io", "buffered", "--input", "input.npy", "--pace", "profile.toml"];
    let of = ["p.pack", "input.npy", "profile.toml"];
    onto_all(folder.path(), &of, &[&start[..], &["--trace", "OUT"]].concat(), "");
    let with = ["run", "p.pack", "--io", "buffered", "--profile", "profile.toml", "--trace", "OUT"];
    onto_all(folder.path(), &["profile.toml"], &with, "");

    // Outputs go into a folder, by names that the pack has.
    let done =
        eyelet_in(folder.path(), &[&start[..], &["--output", "out", "--json"]].concat()).json();
    let file = done["outputs"][0]["file"].as_str().unwrap().to_owned();
    for input in of {
        fs::remove_file(at(&file)).unwrap();
        fs::hard_link(at(input), at(&file)).unwrap();
        refused(folder.path(), &[&start[..], &["--output", "out"]].concat(), &["--output", input]);
    }
    fs::remove_file(at(&file)).unwrap();
    let both = [&start[..], &["--output", "out", "--trace", &file]].concat();
    refused(folder.path(), &both, &["--output", "--trace"]);
}

#[test]
fn the_zoo_reads_nothing() {
    let folder = inputs();
    // What is there may be replaced, as by every verb.
    let zoo = ["zoo", "squeezenet1_1", "-o", "input.npy"];
    eyelet_in(folder.path(), &zoo).text();
}

#[test]
fn two_outputs_are_two_files() {
    let folder = inputs();
    symlink("x.csv", folder.path().join("later.csv")).unwrap();
    let plan = ["plan", "m.onnx", "--budget", "1MiB", "-o", "x.csv", "--report"];
    for other in ["x.csv", "./x.csv", "later.csv"] {
        refused(folder.path(), &[&plan[..], &[other]].concat(), &["--report", "-o", "x.csv"]);
    }
    let sweep = ["sweep", "m.onnx", "--budgets", "64KiB..1MiB", "-o", "x.csv", "-o", "later.csv"];
    refused(folder.path(), &sweep, &["later.csv", "x.csv"]);
}

#[test]
fn what_cannot_be_written_is_refused_before_the_work() {
    let folder = inputs();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let plan = |to: &str| {
        // An impossible budget would be found later.
        eyelet_in(folder.path(), &["plan", "m.onnx", "--budget", "1KiB", "-o", to])
    };
    plan("sub").fails(&["cannot write sub", "directory"]);
    plan("no/such.pack").fails(&["cannot write no/such.pack", "No such file"]);
    plan("m.onnx/x.pack").fails(&["cannot write m.onnx/x.pack", "Not a directory"]);
}

#[test]
fn outputs_whose_names_clash_have_a_file_each() {
    let folder = packed();
    let long = "long".repeat(80);
    let names = ["a/b", "a_b", "A_B", &long, &format!("{long}er"), "plain"];
    changed(&folder.path().join("m.onnx"), |model| name_outputs(model, &names));
    let plan = ["plan", "m.onnx", "--budget", "1MiB"];
    eyelet_in(folder.path(), &plan).text();
    let run = ["run", "m.pack", "--io", "buffered", "--output", "out"];
    let report = eyelet_in(folder.path(), &[&run[..], &["--json"]].concat()).json();
    let text = eyelet_in(folder.path(), &run).text();
    let outputs = report["outputs"].as_array().unwrap();
    assert_eq!(outputs.len(), names.len());
    for (output, name) in outputs.iter().zip(names) {
        let file = output["file"].as_str().unwrap();
        assert_eq!(output["name"], name);
        assert!(text.contains(file), "{text}");
        let values = npy::open(folder.path().join(file)).unwrap();
        assert_eq!(values.elements(), 10);
    }
    assert_eq!(fs::read_dir(folder.path().join("out")).unwrap().count(), names.len());
    assert_eq!(outputs[1]["file"], "out/a_b.npy");
    assert_eq!(outputs[5]["file"], "out/plain.npy");
}

/// Sets name files, too.
#[test]
fn what_a_task_set_names() {
    let folder = inputs();
    let at = |name: &str| folder.path().join(name);
    let set = "memory = \"2MiB\"\nchunks = [\"4KiB\"]\nboard = \"board.toml\"\n[storage]\nread = \"1GB/s\"\n\
        [[task]]\nname = \"model\"\nperiod = \"10s\"\nmodel = \"m.onnx\"\nbudgets = [\"1MiB\"]\n\
        [[task]]\nname = \"pack\"\nperiod = \"10s\"\npack = \"digits.pack\"\n";
    fs::write(at("set.toml"), set).unwrap();
    for input in ["set.toml", "m.onnx", "data.bin", "digits.pack", "board.toml"] {
        refused(folder.path(), &["schedule", "set.toml", "--report", input], &[input]);
        refused(folder.path(), &["serve", "set.toml", "--trace", input], &[input]);
    }
    for (input, what) in [
        ("digits.pack", "a pack of the set"),
        ("m.onnx", "the model"),
        ("data.bin", "data of the model"),
        ("board.toml", "the board of the set"),
    ] {
        refused(folder.path(), &["schedule", "set.toml", "-o", input], &["-o ", input, what]);
    }
    let both = ["schedule", "set.toml", "-o", "new", "--report", "new"];
    refused(folder.path(), &both, &["-o new", "it is --report (new)"]);
}

/// A set in one file is the packs that it is served from.
#[test]
fn the_timeline_does_not_replace_the_set() {
    let folder = packed();
    fs::create_dir(folder.path().join("sub")).unwrap();
    networks(folder.path(), "320KiB", "1s");
    let schedule = ["schedule", "set.toml", "-o", "set.pack", "--jobs", "10"];
    eyelet_in(folder.path(), &schedule).text();
    let serve = ["serve", "set.pack", "--anyway", "--jobs", "1", "--trace", "OUT"];
    onto_all(folder.path(), &["set.pack"], &serve, "");
    refused(
        folder.path(),
        &["serve", "set.pack", "--trace", "set.pack"],
        &["--trace", "the task set"],
    );
}
