//! `eyelet plan --dim seq=16,32,64`: packs of several shapes, from a model whose input has dimensions with names.

use crate::common::command::{eyelet_in, folder};
use crate::common::noise;
use bytes::Bytes;
use eyelet_planner::import::onnx::{
    DataType, Dimension, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use prost::Message;
use std::path::Path;

const WIDTH: i64 = 128;
const ENTRIES: i64 = 100;
const POSITIONS: i64 = 64;

fn weights(name: &str, dims: &[i64]) -> TensorProto {
    let count = dims.iter().product::<i64>() as usize;
    let scale = 1.0 / (dims[0] as f32).sqrt();
    let floats = noise(count, name.len() as u64 + dims[0] as u64);
    let data = floats.iter().flat_map(|x| (x * scale).to_le_bytes()).collect::<Vec<u8>>();
    tensor(name, DataType::Float, dims, data)
}

fn integers(name: &str, values: &[i64]) -> TensorProto {
    let data = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    tensor(name, DataType::Int64, &[values.len() as i64], data)
}

fn tensor(name: &str, kind: DataType, dims: &[i64], data: Vec<u8>) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: kind as i32,
        dims: dims.to_vec(),
        raw_data: Bytes::from(data),
        ..TensorProto::default()
    }
}

fn port(name: &str, kind: DataType, dims: &[&str]) -> ValueInfoProto {
    let dim = |name: &&str| DimensionProto { value: Some(Dimension::Param((*name).into())) };
    let shape = Some(TensorShapeProto { dim: dims.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: kind as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

/// A transformer of one block, for any number of tokens: positions are cut to it.
fn transformer(path: &Path) {
    let node = |op: &str, inputs: &[&str], output: &str| NodeProto {
        op_type: op.into(),
        name: output.into(),
        input: inputs.iter().map(|name| (*name).into()).collect(),
        output: vec![output.into()],
        ..NodeProto::default()
    };
    let mut turned = node("Transpose", &["k"], "kt");
    turned.attribute.push(eyelet_planner::import::onnx::AttributeProto {
        name: "perm".into(),
        r#type: eyelet_planner::import::onnx::AttributeType::Ints as i32,
        ints: vec![0, 2, 1],
        ..Default::default()
    });
    let nodes = vec![
        node("Gather", &["table", "ids"], "words"),
        node("Shape", &["ids"], "extents"),
        node("Gather", &["extents", "second"], "tokens"),
        node("Slice", &["positions", "zero", "tokens", "zero"], "places"),
        node("Add", &["words", "places"], "x"),
        node("MatMul", &["x", "wq"], "q"),
        node("MatMul", &["x", "wk"], "k"),
        turned,
        node("MatMul", &["q", "kt"], "scores"),
        node("Softmax", &["scores"], "shares"),
        node("MatMul", &["x", "wv"], "v"),
        node("MatMul", &["shares", "v"], "mixed"),
        node("MatMul", &["mixed", "wo"], "o"),
        node("Add", &["x", "o"], "y"),
        node("MatMul", &["y", "up"], "wide"),
        node("Relu", &["wide"], "active"),
        node("MatMul", &["active", "down"], "narrow"),
        node("Add", &["y", "narrow"], "out"),
    ];
    let graph = GraphProto {
        node: nodes,
        name: "block".into(),
        initializer: vec![
            weights("table", &[ENTRIES, WIDTH]),
            weights("positions", &[POSITIONS, WIDTH]),
            weights("wq", &[WIDTH, WIDTH]),
            weights("wk", &[WIDTH, WIDTH]),
            weights("wv", &[WIDTH, WIDTH]),
            weights("wo", &[WIDTH, WIDTH]),
            weights("up", &[WIDTH, 4 * WIDTH]),
            weights("down", &[4 * WIDTH, WIDTH]),
            integers("zero", &[0]),
            integers("second", &[1]),
        ],
        input: vec![port("ids", DataType::Int64, &["batch", "seq"])],
        output: vec![port("out", DataType::Float, &["batch", "seq", "width"])],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: 17 };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    std::fs::write(path, model.encode_to_vec()).unwrap();
}

const PLAN: [&str; 8] =
    ["plan", "net.onnx", "--dim", "batch=1", "--budget", "384KiB", "2MiB", "--effort=fast"];

#[test]
fn a_pack_of_three_lengths_has_the_bits_of_three_packs() {
    let folder = folder();
    let command = |args: &[&str]| eyelet_in(folder.path(), args);
    transformer(&folder.path().join("net.onnx"));
    let plan = [&PLAN[..], &["--dim", "seq=16,32,64", "-o", "all.pack", "--json"]].concat();
    let planned = command(&plan).json();
    let names: Vec<_> = planned["shapes"].as_array().unwrap().iter().map(|s| &s["name"]).collect();
    assert_eq!(names, ["seq=16", "seq=32", "seq=64"]);
    assert_eq!(planned["plans"].as_array().unwrap().len(), 6);
    assert_eq!(planned["plans"][5]["shape"], "seq=64");
    let bytes = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();

    let run = |pack: &str, more: &[&str]| {
        command(&[&["run", pack, "--io", "buffered", "--json"], more].concat()).json()
    };
    let mut largest = 0;
    for tokens in ["16", "32", "64"] {
        let (dim, pack) = (format!("seq={tokens}"), format!("{tokens}.pack"));
        command(&[&PLAN[..], &["--dim", &dim, "-o", &pack]].concat()).text();
        largest = largest.max(bytes(&pack));
        for budget in ["384KiB", "2MiB"] {
            let alone = run(&pack, &["--budget", budget]);
            let found = run("all.pack", &["--budget", budget, "--dim", &dim]);
            assert_eq!(found["output_digest"], alone["output_digest"], "{dim}, {budget}");
            assert_eq!((&found["shape"], alone.get("shape")), (&dim.as_str().into(), None));
            assert_eq!(found["outputs"][0]["shape"][1].to_string(), tokens);
        }
    }
    assert!(bytes("all.pack") * 10 < largest * 11, "{} of {largest}", bytes("all.pack"));

    // Without a dimension the first; with changes of budget, too.
    let first = run("all.pack", &[]);
    assert_eq!(first["shape"], "seq=16");
    let budgets = run("all.pack", &["--budgets", "2MiB,384KiB", "--dim", "seq=64"]);
    assert_eq!(budgets["shape"], "seq=64");
    assert!(run("all.pack", &["--layers", "--dim", "seq=64"])["layers"].is_array());

    let inspected = command(&["inspect", "all.pack", "--json"]).json();
    let shapes = inspected["shapes"].as_array().unwrap();
    assert!(shapes.len() == 3 && inspected.get("network").is_none());
    assert_eq!(
        (&shapes[2]["shape"], &shapes[2]["inputs"][0]["shape"][1]),
        (&"seq=64".into(), &64.into())
    );
    assert!(shapes.iter().all(|shape| shape["plans"].as_array().unwrap().len() == 2));
    assert!(shapes[1]["layers"].as_array().unwrap().iter().all(|layer| layer["name"] != ""));
    let text = command(&["inspect", "all.pack"]).text();
    assert!(text.contains("\nshape seq=32\n"), "{text}");
    let checked = command(&["check", "all.pack"]).text();
    assert!(checked.contains("of shape seq=64"), "{checked}");
}

#[test]
fn shapes_that_cannot_be_are_said() {
    let folder = folder();
    transformer(&folder.path().join("net.onnx"));
    let refused = |args: &[&str], what: &str| {
        let done = eyelet_in(folder.path(), args);
        assert!(done.code != Some(0) && done.err.contains(what), "{args:?}: {done:?}");
    };
    let plan = |more: &[&'static str]| [&PLAN[..], more, &["-o", "n.pack"]].concat();
    refused(&plan(&["--dim", "seq=16,32", "--report", "r.html"]), "--report is of one shape");
    refused(&plan(&["--dim", "seq=16,32,16"]), "seq=16 twice");
    refused(&plan(&["--dim", "seq=16,32", "--dim", "x=1,2,3"]), "--dim x gives 3");
    refused(&plan(&["--dim", "seq=1,2,3,4,5,6,7,8,9"]), "at most 8 shapes");
    refused(
        &plan(&["--dim", "seq=1,2,3", "--budget", "3MiB,4MiB", "5MiB", "6MiB"]),
        "18 were asked for",
    );
    refused(
        &plan(&["--dim", "seq=1,2,3", "--budget", "3MiB", "4MiB", "5MiB", "6MiB"]),
        "at most 16 plans",
    );
    refused(&plan(&["--dim", "seq=16,x"]), "no extent");
    let small = ["plan", "net.onnx", "--dim", "batch=1", "--dim", "seq=8,64", "--budget", "40KiB"];
    refused(&small, "shape seq=8: ");
    let sweep = ["sweep", "net.onnx", "--dim", "batch=1", "--dim", "seq=8,9", "--budgets"];
    refused(
        &[&sweep[..], &["1MiB..2MiB", "-o", "c.csv"]].concat(),
        "`eyelet sweep` is of one shape",
    );
    assert!(!folder.path().join("n.pack").exists());

    // The smallest budget is that of the shape that needs most.
    let least = |seq: &str| {
        let args = ["plan", "net.onnx", "--dim", "batch=1", "--dim", seq, "--min-budget", "--json"];
        let said = eyelet_in(folder.path(), &args).json();
        said["min_budget_bytes"].as_u64().unwrap()
    };
    let [short, long] = ["seq=8", "seq=64"].map(least);
    assert!(short < long);
    assert_eq!(least("seq=64,8"), long);

    eyelet_in(folder.path(), &plan(&["--dim", "seq=16,32"])).text();
    let run = ["run", "n.pack", "--io", "buffered", "--dim"];
    refused(&[&run[..], &["seq=99"]].concat(), "no shape has seq=99; it has seq=16 and seq=32");
    refused(&[&run[..], &["seq=16,32"]].concat(), "several extents");
}
