//! What others choose stays bounded: the memory and the time that models, tables and files take of the host.
//!
//! Nothing here is timed: what took minutes or gigabytes would run into the test's own patience, or into the kernel's limit.

use crate::common::command::{eyelet_in, folder, within};
use eyelet_planner::import::onnx::{
    AttributeProto, AttributeType, DataType, Dimension, DimensionProto, GraphProto, ModelProto,
    NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    ValueInfoProto,
};
use prost::Message;
use std::path::Path;
use std::process::{Command, Stdio};

const BOARD: [&str; 2] = ["--board", "raspberry-pi-4"];

fn port(name: &str, shape: &[i64]) -> ValueInfoProto {
    let dim = |extent: &i64| DimensionProto { value: Some(Dimension::Value(*extent)) };
    let shape = Some(TensorShapeProto { dim: shape.iter().map(dim).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: DataType::Float as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

fn node(op_type: &str, inputs: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op_type.into(),
        input: inputs.iter().map(|input| (*input).to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// Writes a model of these nodes, with the inputs `x` and `z` of a shape and these outputs.
fn write(
    path: &Path,
    shape: &[i64],
    node: Vec<NodeProto>,
    initializer: Vec<TensorProto>,
    outputs: &[&str],
) {
    let graph = GraphProto {
        node,
        name: "net".into(),
        initializer,
        input: ["x", "z"].map(|name| port(name, shape)).into(),
        output: outputs.iter().map(|name| port(name, shape)).collect(),
        ..GraphProto::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model = ModelProto { opset_import, graph: Some(graph), ..ModelProto::default() };
    std::fs::write(path, model.encode_to_vec()).unwrap();
}

fn name(at: usize, last: usize) -> String {
    if at == last { "y".into() } else { format!("v{at}") }
}

/// Graphs of about so many nodes, of kinds on which passes over all pairs show.
fn graphs(count: usize) -> Vec<(&'static str, Vec<NodeProto>)> {
    let function = |at: usize| ["Relu", "Sigmoid", "Tanh"][at % 3];
    let last = count - 1;
    let before = |at: usize| if at == 0 { "x".into() } else { format!("v{}", at - 1) };
    let chain = |at: usize| node(function(at), &[&before(at)], &name(at, last));
    let half = count / 2;
    let spread = |at: usize| node("Sigmoid", &["x"], &format!("s{at}"));
    let joined = |at: usize| {
        let sum = if at == 1 { "s0".into() } else { format!("v{}", at - 1) };
        node("Add", &[&sum, &format!("s{at}")], &name(at, half - 1))
    };
    let many: Vec<String> = (0..half).map(|at| format!("s{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut number = 1u64;
    let mut dense = vec![node("Sigmoid", &["x"], "v0")];
    for at in 1..count {
        number = (number * 1_103_515_245 + 12345) & 0x7fff_ffff;
        let other = format!("v{}", number as usize % at);
        dense.push(node("Add", &[&format!("v{}", at - 1), &other], &name(at, last)));
    }
    let third = count / 3;
    let diamond = |at: usize| {
        let [left, right] = [format!("l{at}"), format!("r{at}")];
        [
            node("Sigmoid", &[&before(at)], &left),
            node("Tanh", &[&before(at)], &right),
            node("Add", &[&left, &right], &name(at, third - 1)),
        ]
    };
    vec![
        ("chain", (0..count).map(chain).collect()),
        ("fan out, then in", (0..half).map(spread).chain((1..half).map(joined)).collect()),
        ("fan in", (0..half).map(spread).chain([node("Sum", &many, "y")]).collect()),
        ("dense", dense),
        ("diamonds", (0..third).flat_map(diamond).collect()),
    ]
}

fn plan_graphs(count: usize) {
    let folder = folder();
    for (kind, nodes) in graphs(count) {
        write(&folder.path().join("net.onnx"), &[1, 4, 4, 4], nodes, vec![], &["y"]);
        let least = [&["plan", "net.onnx", "--min-budget", "--json"][..], &BOARD].concat();
        let least = eyelet_in(folder.path(), &least).json();
        let bytes = least["min_budget_bytes"].as_u64().unwrap_or_default();
        assert!(bytes > 0, "{kind}: {least}");
        println!("{kind}: {bytes} bytes");
        let budget = (2 * bytes).to_string();
        let fast = ["plan", "net.onnx", "--budget", &budget, "--effort", "fast", "--json"];
        eyelet_in(folder.path(), &[&fast[..], &BOARD].concat()).json();
    }
}

#[test]
fn graphs_of_ten_thousand_nodes_are_planned() {
    plan_graphs(10_000);
}

/// `cargo test --release --test limits -- --ignored --nocapture`
#[test]
#[ignore = "takes a minute"]
fn graphs_of_a_hundred_thousand_nodes_are_planned() {
    plan_graphs(100_000);
}

/// Elements, lines or rows that nobody has memory for: an answer or an error, soon.
#[test]
fn extents_alone_take_no_time() {
    let folder = folder();
    let net = folder.path().join("net.onnx");
    let least = [&["plan", "net.onnx", "--min-budget"][..], &BOARD].concat();
    write(&net, &[1, 1, 1 << 20, 1 << 20], vec![node("Relu", &["x"], "y")], vec![], &["y"]);
    let parts = ["node x: the number of rows is 1099511627776", "limits it to 4294967294"];
    eyelet_in(folder.path(), &least).fails(&parts);
    write(&net, &[1 << 20, 1, 1], vec![node("MatMul", &["x", "z"], "y")], vec![], &["y"]);
    let report = eyelet_in(folder.path(), &[&least[..], &["--json"]].concat()).json();
    assert!(report["min_budget_bytes"].as_u64() > Some(12 << 20), "{report}");
}

fn range(to: i64) -> (Vec<NodeProto>, Vec<TensorProto>) {
    let scalar = |name: &str, value: i64| TensorProto {
        name: name.into(),
        data_type: DataType::Int64 as i32,
        int64_data: vec![value],
        ..TensorProto::default()
    };
    let nodes = vec![node("Range", &["a", "b", "c"], "r"), node("Reshape", &["x", "r"], "y")];
    (nodes, vec![scalar("a", 0), scalar("b", to), scalar("c", 1)])
}

#[test]
fn memory_for_constants_is_an_option() {
    let folder = folder();
    let (nodes, constants) = range((1 << 28) - 1);
    write(&folder.path().join("net.onnx"), &[1], nodes, constants, &["y"]);
    let plan = ["plan", "net.onnx", "--min-budget"];
    let parts = ["node `Range_0`", "needs 2.0 GiB", "of the 512 MiB", "--import-memory"];
    within(folder.path(), 64 << 20, &plan).fails(&parts);
    let (nodes, constants) = range(1 << 16);
    write(&folder.path().join("net.onnx"), &[1], nodes, constants, &["y"]);
    let tight = [&plan[..], &["--import-memory", "256KiB"]].concat();
    eyelet_in(folder.path(), &tight).fails(&["needs 512 KiB", "of the 256 KiB"]);
    eyelet_in(folder.path(), &plan).fails(&["`shape` lists 65536 numbers"]);
    // What a chain keeps adds up: 512 KiB, 1 MiB, 2 MiB.
    let (mut nodes, constants) = range(1 << 16);
    nodes.pop();
    for [from, to] in [["r", "s"], ["s", "t"], ["t", "u"]] {
        let r#type = AttributeType::Int as i32;
        let axis = AttributeProto { name: "axis".into(), r#type, ..AttributeProto::default() };
        nodes.push(NodeProto { attribute: vec![axis], ..node("Concat", &[from, from], to) });
    }
    nodes.push(node("Reshape", &["x", "u"], "y"));
    write(&folder.path().join("net.onnx"), &[1], nodes, constants, &["y"]);
    let tight = [&plan[..], &["--import-memory", "4MiB"]].concat();
    let parts = ["node `Concat_3`", "needs 4 MiB", "others hold 3.5 MiB", "of the 4 MiB"];
    eyelet_in(folder.path(), &tight).fails(&parts);
}

/// Plans and packs a network in so much memory beside the maps of its files.
fn planned_within(network: &str, bytes: u64) {
    let folder = folder();
    eyelet_in(folder.path(), &["zoo", network, "-o", "net.onnx"]).text();
    let plan = ["plan", "net.onnx", "--budget", "64MiB", "--effort", "fast", "--json"];
    let report = within(folder.path(), bytes, &[&plan[..], &BOARD].concat()).json();
    assert!(report["file_bytes"].as_u64() > Some(bytes), "less would do for all weights at once");
}

/// Its pack has 98 MiB.
#[test]
fn weights_stream_through_the_planner() {
    planned_within("resnet50", 64 << 20);
}

/// 548 MiB.
#[test]
#[ignore = "writes a gigabyte"]
fn many_weights_stream_through_the_planner() {
    planned_within("vgg19", 64 << 20);
}

#[test]
fn a_model_that_is_cut_short_while_it_is_planned_is_an_error() {
    let folder = folder();
    let model = folder.path().join("net.onnx");
    // Where the file is cut before its length is read, it is only an empty file.
    let found = (0..20).any(|_| {
        eyelet_in(folder.path(), &["zoo", "resnet50", "-o", "net.onnx"]).text();
        let error = cut_while_planned(folder.path(), &model);
        assert!(
            error.contains("net.onnx was truncated") || error.contains("it is empty"),
            "{error}"
        );
        error.contains("net.onnx was truncated")
    });
    assert!(found, "the file was never cut while it was mapped");
}

/// Empties a model as soon as the command that plans it has mapped it. Returns the error.
fn cut_while_planned(folder: &Path, model: &Path) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eyelet"));
    command.args(["plan", "net.onnx", "--budget", "24MiB", "--effort", "2"]).args(BOARD);
    let mut child =
        command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Once it is mapped; weights are read when the plan is there.
    let maps = format!("/proc/{}/maps", child.id());
    while child.try_wait().unwrap().is_none() {
        if std::fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("net.onnx")) {
            break;
        }
        std::thread::yield_now();
    }
    std::fs::File::options().write(true).open(model).unwrap().set_len(0).unwrap();
    let done = child.wait_with_output().unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{error}");
    error
}

#[test]
fn control_characters_of_names_are_shown() {
    let folder = folder();
    let relu = NodeProto { name: "\u{1b}]0;title\u{7}evil".into(), ..node("Relu", &["x"], "y") };
    write(&folder.path().join("net.onnx"), &[1, 8], vec![relu], vec![], &["y"]);
    let plan = [&["plan", "net.onnx", "--min-budget"][..], &BOARD].concat();
    let text = eyelet_in(folder.path(), &plan).text();
    assert!(text.contains("`\\u{1b}]0;title\\u{7}evil`"), "{text}");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    // JSON has escapes of its own.
    let least = eyelet_in(folder.path(), &[&plan[..], &["--json"]].concat()).json();
    assert_eq!(least["min_budget_layer"], "\u{1b}]0;title\u{7}evil");
    let broken = NodeProto { name: "\u{1b}[2J".into(), ..node("Nothing", &["x"], "y") };
    write(&folder.path().join("net.onnx"), &[1, 8], vec![broken], vec![], &["y"]);
    eyelet_in(folder.path(), &plan).fails(&["`\\u{1b}[2J`", "Nothing"]);
}

#[test]
fn numbers_of_boards_have_ranges() {
    let folder = folder();
    let board = Path::new(env!("CARGO_MANIFEST_DIR")).join("../boards/portable/board.toml");
    let board = std::fs::read_to_string(board).unwrap();
    write(
        &folder.path().join("net.onnx"),
        &[1, 8],
        vec![node("Relu", &["x"], "y")],
        vec![],
        &["y"],
    );
    for (key, value, range) in [
        ("step_overhead_ns", "9223372036854775807", "between 0 and 1e9"),
        ("pool_gbs", "inf", "between 0.0001 and 1e9"),
        ("pool_gbs", "nan", "between 0.0001 and 1e9"),
        ("pool_gbs", "0.0", "between 0.0001 and 1e9"),
        ("pool_gbs", "-1.0", "between 0.0001 and 1e9"),
        ("window", "0", "between 1 and 2^50"),
    ] {
        let line = |text: &str| match text.starts_with(&format!("{key} = ")) {
            true => format!("{key} = {value}\n"),
            false => format!("{text}\n"),
        };
        let changed: String = board.lines().map(line).collect();
        std::fs::write(folder.path().join("bad.toml"), changed).unwrap();
        let plan = ["plan", "net.onnx", "--min-budget", "--board", "./bad.toml"];
        eyelet_in(folder.path(), &plan).fails(&[key, range]);
    }
}

#[test]
fn sizes_are_said_to_be_what_they_are() {
    let folder = folder();
    for (size, text) in [
        ("0", "`0` is no memory at all"),
        ("100000000000000000000", "is too large"),
        ("-1", "`-1` is negative"),
        ("many", "`many` is not a size"),
    ] {
        eyelet_in(folder.path(), &["plan", "net.onnx", "--budget", size]).misused(&[text]);
    }
}

/// Limits of a pack are found when a model is planned. They are no fault of a pack, and nothing is written.
#[test]
fn what_a_pack_cannot_hold_is_said_at_planning() {
    let folder = folder();
    let plan = ["plan", "net.onnx", "--budget", "64GiB", "--effort", "fast"];
    let plan = [&plan[..], &["--board", "portable"], &["-o", "net.pack"]].concat();
    let refused = |wanted: &[&str]| {
        let done = eyelet_in(folder.path(), &plan);
        assert!(!done.err.contains("malformed"), "{}", done.err);
        done.fails(wanted);
        assert!(!folder.path().join("net.pack").exists());
    };
    // More ports than a pack has.
    let names: Vec<String> = (0..1023).map(|at| format!("y{at}")).collect();
    let nodes = names.iter().map(|name| node("Relu", &["x"], name)).collect();
    let outputs: Vec<&str> = names.iter().map(String::as_str).collect();
    write(&folder.path().join("net.onnx"), &[1, 2], nodes, vec![], &outputs);
    refused(&["2 inputs and 1023 outputs", "at most 1024", "--until"]);

    // A step that is more work than a runtime does at once, and the same in steps that are not.
    let side = 1 << 14;
    let nodes = vec![node("MatMul", &["x", "z"], "y")];
    write(&folder.path().join("net.onnx"), &[side, side], nodes, vec![], &["y"]);
    refused(&["one step does", "1099511627776", "--longest-step"]);
    eyelet_in(folder.path(), &[&plan[..], &["--longest-step", "5s"]].concat()).text();
    assert!(folder.path().join("net.pack").exists());
}
