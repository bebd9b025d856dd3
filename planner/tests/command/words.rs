//! What people type: budgets, models in any place, lists, and what they are told.

use crate::common::command::{Done, LARGE, SMALL, digits, eyelet_in, folder, packed};
use bytes::Bytes;
use eyelet_planner::import::onnx::{DataType, ModelProto};
use prost::Message;
use serde_json::Value;
use std::path::Path;

fn plan(folder: &Path, args: &[&str]) -> Done {
    eyelet_in(folder, &[&["plan"], args].concat())
}

fn budgets(report: &Value) -> Vec<u64> {
    let plans = report["plans"].as_array().unwrap();
    plans.iter().map(|plan| plan["budget_bytes"].as_u64().unwrap()).collect()
}

#[test]
fn budgets_mean_the_same_however_they_are_written() {
    let folder = packed();
    let given = |args: &[&str]| budgets(&plan(folder.path(), &[args, &["--json"]].concat()).json());
    let two = [96 << 10, 1 << 20];
    assert_eq!(given(&["digits.onnx", "--budget", "96KiB,1MiB"]), two);
    assert_eq!(given(&["digits.onnx", "--budget", "1mb", "96 kB"]), two);
    assert_eq!(given(&["digits.onnx", "--budgets", "1M", "--budget", "96k"]), two);
    assert_eq!(given(&["--budget", "96KiB", "1MiB", "digits.onnx"]), two);
    assert_eq!(given(&["--budget=96KiB..1MiB", "digits.onnx"]).len(), 4);

    let run = |args: &[&str]| {
        let report = ["run", "digits.pack", "--io", "buffered", "--runs-each", "1", "--json"];
        eyelet_in(folder.path(), &[&report, args].concat()).json()["phases"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(run(&["--budgets", "96KiB,1MiB,96KiB"]), 3);
    assert_eq!(run(&["--budgets", "96KiB..1MiB"]), 4);

    let sweep = |budgets: &str| {
        let args =
            ["sweep", "digits.onnx", "--budgets", budgets, "--strategies", "joint", "--json"];
        eyelet_in(folder.path(), &args).json()["budgets"].as_array().unwrap().len()
    };
    assert_eq!(sweep("96KiB,1MiB"), 2);
    assert_eq!(sweep("96KiB..1MiB"), 16);

    plan(folder.path(), &["digits.onnx", "--budget", "1MiB", "other.onnx"])
        .misused(&["`other.onnx` is not a size"]);
    plan(folder.path(), &["--budget", "1MiB"]).misused(&["<MODEL>"]);
    plan(folder.path(), &["digits.onnx", "--budget", "4MiB..1MiB"]).misused(&["comes first"]);
}

#[test]
fn errors_are_objects_with_json() {
    let folder = packed();
    for (args, code) in [
        (&["run", "none.pack", "--json"][..], 1),
        (&["plan", "digits.onnx", "--budget", "1KiB", "--json"], 1),
        (&["run", "--json"], 2),
        (&["plan", "digits.onnx", "--json", "--budget", "many"], 2),
        (&["nothing", "--json"], 2),
    ] {
        let done = eyelet_in(folder.path(), args);
        assert_eq!(done.code, Some(code), "{done:?}");
        let object: Value = serde_json::from_str(&done.out).unwrap();
        let text = object["error"].as_str().unwrap();
        assert!(!text.is_empty() && done.err.contains(text), "{done:?}");
    }
    // No verb's former name.
    let done = eyelet_in(folder.path(), &["--json"]);
    let object: Value = serde_json::from_str(&done.out).unwrap();
    let text = object["error"].as_str().unwrap();
    assert!(text.contains("gpu-chunks") && !text.contains(" chunks"), "{text}");
    assert!(text.contains("zoo, profile, plan"), "{text}");
    let done = eyelet_in(folder.path(), &["run", "--help", "--json"]);
    assert!(done.code == Some(0) && done.out.contains("Example:"), "{done:?}");
}

#[test]
fn reports_say_what_one_needs_to_know() {
    let folder = packed();
    let text = plan(folder.path(), &["digits.onnx", "--min-budget", "--threads", "1"]).text();
    assert!(text.contains("(joint, 1 thread)"), "{text}");
    let there = ["digits.onnx", "--budget", LARGE, "--board", "jetson-nano", "-o", "there.pack"];
    let text = plan(folder.path(), &there).text();
    assert!(text.contains("`eyelet profile -o FILE` on that board"), "{text}");
    let report = ["digits.onnx", "--budget", LARGE, "--report", "r.html", "-o", "r.pack"];
    let text = plan(folder.path(), &report).text();
    assert!(
        text.contains("measures those of this machine") && text.contains("wrote r.html"),
        "{text}"
    );
    let trace = ["run", "digits.pack", "--io", "buffered", "--trace", "t.json"];
    let text = eyelet_in(folder.path(), &trace).text();
    assert!(text.contains("wrote t.json"), "{text}");

    let text = plan(folder.path(), &["--strategy", "list"]).text();
    assert!(text.contains("\nflexnn-dynamic-no-preload  FlexNN without either\n"), "{text}");
    let list = plan(folder.path(), &["--strategy", "list", "--json"]).json();
    assert_eq!(list["strategies"].as_array().unwrap().len(), 15);
    // Every verb that has the option lists the same.
    let said = |args: &[&str]| eyelet_in(folder.path(), args).text();
    assert_eq!(said(&["sweep", "--strategies", "list"]), text);
    let boards = said(&["plan", "--board", "list"]);
    assert_eq!(said(&["sweep", "--board", "list"]), boards);
    assert_eq!(said(&["profile", "--board", "list"]), boards);
    for (verb, lacks) in [("sweep", "<MODEL>"), ("profile", "--output <FILE.toml>")] {
        eyelet_in(folder.path(), &[verb]).misused(&["required arguments were not provided", lacks]);
    }
    eyelet_in(folder.path(), &["sweep", "digits.onnx"]).misused(&["--budgets <SIZE..SIZE|SIZE,…>"]);
}

#[test]
fn bytes_where_floats_are_expected_are_noted() {
    let folder = packed();
    let header = b"{'descr': '|u1', 'fortran_order': False, 'shape': (1, 1, 8, 8), }";
    let length = (header.len() as u16).to_le_bytes();
    let file = [b"\x93NUMPY\x01\x00", &length[..], header, &[200; 64]].concat();
    std::fs::write(folder.path().join("x.npy"), file).unwrap();
    let args = ["run", "digits.pack", "--io", "buffered", "--input", "x.npy"];
    let text = eyelet_in(folder.path(), &args).text();
    assert!(text.contains("note: input `input` takes floats, and x.npy has bytes (u1)"), "{text}");
}

#[test]
fn tables_fit_eighty_columns() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    for (args, columns) in [
        (&["plan", "d.onnx", "--budget", SMALL, LARGE, "--report", "r.html"][..], 80),
        (&["sweep", "d.onnx", "--budgets", "96KiB..1MiB", "--points", "4"], 80),
        (&["sweep", "d.onnx", "--budgets", "96KiB..1MiB", "--points", "4"], 120),
        (&["run", "d.pack", "--budgets", SMALL, "--runs-each", "1", "--io", "buffered"], 80),
    ] {
        let done = crate::common::command::command()
            .args(args)
            .current_dir(folder.path())
            .env("COLUMNS", columns.to_string())
            .output()
            .unwrap();
        let text = String::from_utf8(done.stdout).unwrap();
        assert!(done.status.success(), "{text}");
        // Its lines begin with a budget or with headers.
        let table = text.lines().skip_while(|line| !line.is_empty()).skip(1);
        let table: Vec<&str> = table.take_while(|line| !line.starts_with(['-', '('])).collect();
        assert!(table.len() > 2, "{text}");
        for line in table.iter().filter(|line| line.contains("iB ") || line.contains("budget")) {
            assert!(line.chars().count() <= columns, "{columns}: {line}");
        }
    }
}

#[test]
fn a_file_next_to_the_model_has_options() {
    let folder = packed();
    let options = "[plan]\nbudget = ['96KiB', '1MiB']\n[run]\nruns = 2\nio = 'buffered'\n";
    std::fs::write(folder.path().join("eyelet.toml"), options).unwrap();
    let report = plan(folder.path(), &["digits.onnx", "--json"]).json();
    assert_eq!(budgets(&report), [96 << 10, 1 << 20]);
    let report = plan(folder.path(), &["digits.onnx", "--budget", "2MiB", "--json"]).json();
    assert_eq!(budgets(&report), [2 << 20]);
    let run = eyelet_in(folder.path(), &["run", "digits.pack", "--json"]).json();
    assert_eq!((&run["runs"], &run["io"]), (&2.into(), &"buffered".into()));
    // Neither is there a model.
    plan(folder.path(), &["--strategy", "list"]).text();
    std::fs::write(folder.path().join("eyelet.toml"), "[plan]\nbudgit = 1\n").unwrap();
    plan(folder.path(), &["digits.onnx"])
        .misused(&["eyelet.toml: plan.budgit", "no option --budgit"]);
    std::fs::write(folder.path().join("eyelet.toml"), "[plan]\nhelp = true\n").unwrap();
    plan(folder.path(), &["digits.onnx"]).misused(&["eyelet.toml: plan.help", "command line"]);
    let other = ["check", "digits.pack"];
    eyelet_in(folder.path(), &other).text();
}

#[test]
fn what_is_done_is_said_to_those_who_ask() {
    let folder = packed();
    let said = |more: &[&str]| {
        let done =
            plan(folder.path(), &[&["digits.onnx", "--budget", LARGE, "--json"], more].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        let _: Value = serde_json::from_str(&done.out).unwrap();
        done.err
    };
    assert_eq!(said(&[]), "");
    let text = said(&["-v"]);
    assert!(text.contains("nodes are computed by 5 layers"), "{text}");
    assert!(text.contains("joint for 1 MiB: ") && !text.contains("layer `conv1`"), "{text}");
    let text = said(&["-vv"]);
    assert!(text.contains("layer `conv1`: Conv, ") && text.contains("are predicted"), "{text}");
    for (name, value) in [("EYELET_LOG", "loud"), ("EYELET_CALIBRATE", "maybe")] {
        let done = crate::common::command::command()
            .args(["plan", "digits.onnx", "--budget", LARGE])
            .current_dir(folder.path())
            .env(name, value)
            .output()
            .unwrap();
        assert_eq!(done.status.code(), Some(2));
        let text = String::from_utf8(done.stderr).unwrap();
        assert!(text.contains(&format!("{name} is `{value}`: it must be")), "{text}");
    }
}

#[test]
fn what_an_exporter_leaves_is_understood() {
    let folder = folder();
    let mut model = ModelProto::decode(Bytes::from(std::fs::read(digits()).unwrap())).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.name = "main_graph".into();
    // All floats in 16 bits: zeros.
    let half = DataType::Float16 as i32;
    for tensor in graph.initializer.iter_mut().filter(|t| t.data_type == DataType::Float as i32) {
        let elements = tensor.dims.iter().product::<i64>() as usize;
        (tensor.data_type, tensor.raw_data) = (half, vec![0; 2 * elements].into());
        tensor.float_data.clear();
    }
    for port in graph.input.iter_mut().chain(&mut graph.output) {
        let kind = port.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut());
        kind.unwrap().elem_type = half;
    }
    std::fs::write(folder.path().join("net.onnx"), model.encode_to_vec()).unwrap();
    let plan = |more: &[&str]| {
        plan(folder.path(), &[&["net.onnx", "--budget", LARGE, "--json"], more].concat()).json()
    };
    let whole = plan(&[]);
    assert_eq!(whole["network"], "net");
    let note = "the model's weights are fp16: with --weights fp16 they lose nothing";
    assert!(whole["notes"][0].as_str().unwrap().contains(note), "{whole}");
    let half = plan(&["--weights", "fp16"]);
    assert_eq!((&half["notes"], &half["rounding_error"]), (&serde_json::json!([]), &0.0.into()));
}
