//! A recurrent network in budgets that do not hold its weights: `plan`, `sweep` and `schedule` take the same form of it.

use crate::common::command::{eyelet_in, folder};
use crate::common::noise;
use bytes::Bytes;
use eyelet_planner::import::onnx::{
    AttributeProto, AttributeType, DataType, Dimension, DimensionProto, GraphProto, ModelProto,
    NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};
use prost::Message;
use std::path::Path;

const HIDDEN: i64 = 128;
const TIMES: i64 = 4;
/// Bytes of the recurrent weights.
const RECURRENT: u64 = 4 * 4 * (HIDDEN * HIDDEN) as u64;
/// Less than these, and more than a slice of them.
const LITTLE: &str = "160KiB";
/// A budget of so much, and what a set takes next to it.
const MEMORY: &str = "192KiB";
const MUCH: &str = "1MiB";

fn weights(name: &str, dims: &[i64]) -> TensorProto {
    let floats = noise(dims.iter().product::<i64>() as usize, name.len() as u64);
    TensorProto {
        name: name.into(),
        data_type: DataType::Float as i32,
        dims: dims.to_vec(),
        raw_data: Bytes::from(
            floats.iter().flat_map(|x| (x / 12.0).to_le_bytes()).collect::<Vec<_>>(),
        ),
        ..TensorProto::default()
    }
}

fn port(name: &str, dims: &[i64]) -> ValueInfoProto {
    let dim = |&extent: &i64| DimensionProto { value: Some(Dimension::Value(extent)) };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: DataType::Float as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// One LSTM layer.
fn lstm(path: &Path) {
    let node = NodeProto {
        op_type: "LSTM".into(),
        name: "lstm".into(),
        input: ["x", "w", "recurrent"].map(String::from).to_vec(),
        output: vec!["y".into()],
        attribute: vec![AttributeProto {
            name: "hidden_size".into(),
            r#type: AttributeType::Int as i32,
            i: HIDDEN,
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        name: "lstm".into(),
        node: vec![node],
        initializer: vec![
            weights("w", &[1, 4 * HIDDEN, 16]),
            weights("recurrent", &[1, 4 * HIDDEN, HIDDEN]),
        ],
        input: vec![port("x", &[TIMES, 1, 16])],
        output: vec![port("y", &[TIMES, 1, 1, HIDDEN])],
        ..GraphProto::default()
    };
    let model = ModelProto {
        opset_import: vec![OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() }],
        graph: Some(graph),
        ..ModelProto::default()
    };
    std::fs::write(path, model.encode_to_vec()).unwrap();
}

#[test]
fn a_sweep_is_of_what_plan_makes() {
    let folder = folder();
    lstm(&folder.path().join("net.onnx"));
    let plan = |budget: &str, strategy: &str| {
        let what = ["plan", "net.onnx", "--budget", budget, "--strategy", strategy];
        let how = ["-o", "net.pack", "--board", "portable", "--effort", "fast", "--json"];
        eyelet_in(folder.path(), &[&what[..], &how[..]].concat()).json()
    };
    let budgets = format!("{LITTLE},{MUCH}");
    let sweep = ["sweep", "net.onnx", "--budgets", &budgets, "--strategies", "joint,flexnn"];
    let sweep =
        eyelet_in(folder.path(), &[&sweep[..], &["--board", "portable", "--json"]].concat());
    let sweep = sweep.json();
    let points = sweep["points"].as_array().unwrap();
    let cases = ["joint", "flexnn"].into_iter().flat_map(|name| [(name, LITTLE), (name, MUCH)]);
    for (point, (strategy, budget)) in points.iter().zip(cases) {
        assert_eq!(point["feasible"], true, "{point}");
        let planned = &plan(budget, strategy)["plans"][0];
        for key in ["predicted_ms", "arena_bytes", "steps", "bytes_read_per_inference"] {
            assert_eq!(point[key], planned[key], "{key} of {strategy} in {budget}");
        }
        let bound = sweep["budgets"][usize::from(budget == MUCH)]["lower_bound_ms"].as_f64();
        assert!(bound.unwrap() <= point["predicted_ms"].as_f64().unwrap(), "{sweep}");
    }
    // Weights that are read again at each time are more than all of them, and their steps are more.
    assert!(points[0]["steps"].as_u64() > points[1]["steps"].as_u64(), "{sweep}");
}

/// Its budget is named by the set, or found.
#[test]
fn a_set_has_memory_for_less_than_the_weights() {
    let folder = folder();
    lstm(&folder.path().join("net.onnx"));
    for budgets in [format!("budgets = [\"{LITTLE}\"]\n"), String::new()] {
        let set = format!(
            "board = \"portable\"\nmemory = \"{MEMORY}\"\nchunks = [\"4KiB\"]\n[storage]\nread = \"1GB/s\"\n\
             [[task]]\nname = \"words\"\nperiod = \"2s\"\nmodel = \"net.onnx\"\n{budgets}"
        );
        std::fs::write(folder.path().join("set.toml"), set).unwrap();
        let args = ["schedule", "set.toml", "-o", "set.pack", "--jobs", "100", "--json"];
        let report = eyelet_in(folder.path(), &args).json();
        assert_eq!(report["schedulable"], true, "{report}");
        let pack = eyelet_in(folder.path(), &["inspect", "set.pack", "--json"]).json();
        let bytes = pack["packs"][0]["plans"][0]["arena_bytes"].as_u64();
        assert_eq!(bytes, report["tasks"][0]["bytes"].as_u64(), "{report}");
        assert!(bytes < Some(RECURRENT), "{pack}");
    }
}
