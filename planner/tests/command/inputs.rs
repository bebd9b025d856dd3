//! `eyelet run --input`: files by name and by order, of the model's types, and integers that choose from tables.

use crate::common::command::{Done, eyelet_in, folder};
use eyelet::pack::PortType;
use eyelet_planner::import::onnx::{
    DataType, Dimension, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use eyelet_planner::npy;
use prost::Message;
use std::path::Path;

fn node(operator: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: operator.into(),
        input: inputs.iter().map(|name| (*name).into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    }
}

fn port(name: &str, kind: DataType, dims: &[i64]) -> ValueInfoProto {
    let dim = |&extent: &i64| DimensionProto { value: Some(Dimension::Value(extent)) };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: kind as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// A table of so many rows: row `i` is `i · scale` twice.
fn table(name: &str, rows: i64, scale: f32) -> TensorProto {
    let float_data = (0..2 * rows).map(|at| (at / 2) as f32 * scale).collect();
    let (dims, data_type) = (vec![rows, 2], DataType::Float as i32);
    TensorProto { name: name.into(), dims, data_type, float_data, ..TensorProto::default() }
}

fn plan(folder: &Path, graph: GraphProto) {
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let (ir_version, graph) = (8, Some(graph));
    let model = ModelProto { ir_version, opset_import, graph, ..ModelProto::default() };
    std::fs::write(folder.join("m.onnx"), model.encode_to_vec()).unwrap();
    let args = ["plan", "m.onnx", "--board", "portable", "--budget", "1MiB", "-o", "m.pack"];
    eyelet_in(folder, &args).text();
}

fn run(folder: &Path, args: &[&str]) -> Done {
    eyelet_in(folder, &[&["run", "m.pack", "--io", "buffered"], args].concat())
}

/// Words of a hundred and types of two, one moved before it chooses.
fn words_and_types(folder: &Path) {
    let one = TensorProto {
        name: "one".into(),
        data_type: DataType::Int64 as i32,
        int64_data: vec![1],
        ..TensorProto::default()
    };
    let graph = GraphProto {
        node: vec![
            node("Gather", &["words", "ids"], "a"),
            node("Sub", &["types", "one"], "below"),
            node("Gather", &["kinds", "below"], "b"),
            node("Add", &["a", "b"], "y"),
        ],
        initializer: vec![table("words", 100, 1.0), table("kinds", 2, 1000.0), one],
        input: vec![port("ids", DataType::Int64, &[3]), port("types", DataType::Int64, &[3])],
        output: vec![port("y", DataType::Float, &[3, 2])],
        ..GraphProto::default()
    };
    plan(folder, graph);
}

#[test]
fn made_up_integers_choose_rows_that_tables_have() {
    let folder = folder();
    words_and_types(folder.path());
    run(folder.path(), &["--runs", "2"]).text();
}

#[test]
fn inputs_are_given_by_name_and_by_order() {
    let folder = folder();
    let path = folder.path();
    words_and_types(path);
    let words = |name: &str, data: &[i32]| {
        npy::write_words(path.join(name), &[3], PortType::Int64, data).unwrap();
    };
    words("i.npy", &[7, 0, 99]);
    words("t.npy", &[1, 2, 1]);
    words("far.npy", &[1, 3, 0]);
    let expected = [7.0, 7.0, 1000.0, 1000.0, 99.0, 99.0];
    for inputs in [
        ["i.npy", "t.npy"],
        ["types=t.npy", "ids=i.npy"],
        ["ids=i.npy", "t.npy"],
        ["types=t.npy", "i.npy"],
    ] {
        run(path, &["--input", inputs[0], "--input", inputs[1], "--output", "out"]).text();
        assert_eq!(npy::read(path.join("out/y.npy")).unwrap().1, expected, "{inputs:?}");
    }
    run(path, &["--input", "ids=i.npy"]).fails(&["the network has 2 inputs (ids, types), but 1"]);
    run(path, &["--input", "idz=i.npy", "--input", "t.npy"])
        .fails(&["--input idz: the network has no such input; its inputs are ids, types"]);
    run(path, &["--input", "ids=i.npy", "--input", "ids=t.npy"])
        .fails(&["--input ids is given twice"]);
    run(path, &["--input", "ids=none.npy", "--input", "t.npy"]).fails(&[
        "input `ids`",
        "none.npy",
        "No such file",
    ]);
    // An index that a table does not have is named with its input, also where it was computed.
    run(path, &["--input", "i.npy", "--input", "far.npy"])
        .fails(&["looks up entry 2 of a table that has 2", "the index follows from input `types`"]);
    run(path, &["--input", "ids=i.npy", "--input", "t.npy", "--output", "i.npy"]).fails(&["i.npy"]);
}

#[test]
fn files_have_the_types_of_the_model() {
    for (kind, port_type) in
        [(DataType::Float16, PortType::Half), (DataType::Double, PortType::Double)]
    {
        let folder = folder();
        let path = folder.path();
        let graph = GraphProto {
            node: vec![node("Relu", &["x"], "y")],
            input: vec![port("x", kind, &[3])],
            output: vec![port("y", kind, &[3])],
            ..GraphProto::default()
        };
        plan(path, graph);
        npy::write_floats(path.join("x.npy"), &[3], port_type, &[0.0, 0.5, 3.0]).unwrap();
        run(path, &["--input", "x.npy", "--output", "out"]).text();
        npy::write_floats(path.join("expected.npy"), &[3], port_type, &[0.0, 0.5, 3.0]).unwrap();
        let bytes = |name: &str| std::fs::read(path.join(name)).unwrap();
        assert_eq!(bytes("out/y.npy"), bytes("expected.npy"));
    }
}
