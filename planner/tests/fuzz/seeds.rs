//! What the inputs of each target are made from: small, and right.

use crate::common::records::Records;
use crate::common::transformer::transformer_of;
use crate::common::{Subject, board, digits, pack_shapes, sliding};
use bytemuck::{Zeroable, bytes_of};
use bytes::Bytes;
use eyelet::kernels::Isa;
use eyelet::pack::PAGE;
use eyelet::set::{SetHeader, SetTask};
use eyelet_planner::import::onnx::{
    AttributeProto, AttributeType, DataType, Dimension, DimensionProto, FunctionProto, GraphProto,
    ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto,
    TypeProto, ValueInfoProto,
};
use prost::Message;

/// Sets of one task and of three, with room for packs.
pub fn sets() -> Vec<Vec<u8>> {
    let of = |count: u32| {
        let names = "camera".repeat(count as usize);
        let header = SetHeader {
            file_bytes: 3 * PAGE,
            memory_bytes: u64::from(2 * count + 1) * PAGE,
            chunk_bytes: PAGE,
            table_bytes: PAGE as u32,
            tasks: count,
            names_bytes: names.len() as u32,
            pool: 1,
            read_bytes_per_second: 1,
            ..SetHeader::zeroed()
        };
        let task = |k| SetTask {
            pack_offset: PAGE,
            pack_bytes: 2 * PAGE,
            bytes: 3 * PAGE,
            period_ns: 9,
            deadline_ns: 9,
            compute_ns: 2,
            step_ns: 1,
            chunk_ns: 1,
            chunks: 1,
            name_offset: 6 * k,
            name_bytes: 6,
            ..SetTask::zeroed()
        };
        let mut bytes = bytes_of(&header).to_vec();
        (0..count).for_each(|k| bytes.extend(bytes_of(&task(k))));
        bytes.extend(names.as_bytes());
        bytes.resize(3 * PAGE as usize, 0);
        bytes
    };
    vec![of(1), of(3)]
}

/// Networks of Darknet with a few layers, each with the length of its description and its weights.
pub fn darknet() -> Vec<Vec<u8>> {
    let start = "[net]\nchannels=4\nheight=6\nwidth=6\n";
    [
        "[convolutional]\nfilters=2\nsize=3\npad=1\nbatch_normalize=1\nactivation=leaky\n",
        "[convolutional]\nfilters=4\ngroups=2\nactivation=mish\n[shortcut]\nfrom=-1\n",
        "[maxpool]\nsize=3\nstride=1\n[upsample]\n[route]\nlayers=0\ngroups=2\ngroup_id=1\n",
        "[reorg]\nstride=2\n[avgpool]\n[connected]\noutput=3\nactivation=linear\n[softmax]\n",
        "[convolutional]\nfilters=6\nactivation=linear\n[yolo]\nclasses=1\nmask=0\n",
    ]
    .map(|sections| {
        let text = [start, sections].concat();
        let weights = eyelet_planner::darknet::weights_bytes(text.as_bytes()).unwrap();
        let mut weights = vec![0; weights as usize];
        weights[4] = 2;
        [&(text.len() as u16).to_le_bytes()[..], text.as_bytes(), &weights].concat()
    })
    .into()
}

/// Models with one operator or two, and the digits network.
pub fn import() -> Vec<Vec<u8>> {
    let mut seeds = vec![
        model(&[("Relu", &["x"], &[]), ("Sigmoid", &["y0"], &[])], &[1, 3, 4, 4]),
        model(
            &[("Conv", &["x", "w"], &[("pads", &[1, 1, 1, 1]), ("strides", &[2, 2])])],
            &[1, 3, 5, 5],
        ),
        model(&[("MaxPool", &["x"], &[("kernel_shape", &[2, 2])])], &[1, 3, 6, 4]),
        model(&[("Transpose", &["x"], &[("perm", &[0, 2, 3, 1])])], &[1, 3, 4, 2]),
        model(&[("Reshape", &["x", "s"], &[]), ("MatMul", &["y0", "m"], &[])], &[1, 3, 4, 1]),
        model(
            &[("Slice", &["x", "starts", "ends"], &[]), ("Add", &["y0", "y0"], &[])],
            &[1, 3, 4, 4],
        ),
        model(&[("Flatten", &["x"], &[]), ("Softmax", &["y0"], &[])], &[1, 3, 2, 2]),
    ];
    seeds.push(looped());
    seeds.push(std::fs::read(digits()).unwrap());
    seeds
}

/// A loop of three rounds, whose body is a function of the model.
fn looped() -> Vec<u8> {
    let node = |operator: &str, domain: &str, input: &[&str], output: &[&str]| NodeProto {
        op_type: operator.into(),
        domain: domain.into(),
        input: input.iter().map(|name| (*name).into()).collect(),
        output: output.iter().map(|name| (*name).into()).collect(),
        ..NodeProto::default()
    };
    let ports = |names: &[&str]| names.iter().map(|name| port(name, None)).collect::<Vec<_>>();
    let body = GraphProto {
        node: vec![node("Identity", "", &["go"], &["on"]), node("Twice", "own", &["v"], &["w"])],
        input: ports(&["round", "go", "v"]),
        output: ports(&["on", "w"]),
        ..GraphProto::default()
    };
    let mut unrolled = node("Loop", "", &["three", "", "x"], &["y"]);
    unrolled.attribute.push(AttributeProto {
        name: "body".into(),
        r#type: AttributeType::Graph as i32,
        g: Some(Box::new(body)),
        ..AttributeProto::default()
    });
    let graph = GraphProto {
        node: vec![unrolled],
        name: "seed".into(),
        initializer: vec![tensor("three", DataType::Int64, &[], 3i64.to_le_bytes().to_vec())],
        input: vec![port("x", Some(&[2, 3]))],
        output: ports(&["y"]),
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: 17 };
    let twice = FunctionProto {
        name: "Twice".into(),
        domain: "own".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![node("Add", "", &["a", "a"], &["b"])],
        opset_import: vec![opset.clone()],
        ..FunctionProto::default()
    };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset],
        graph: Some(graph),
        functions: vec![twice],
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

/// Operator, inputs, attributes.
type Operation<'a> = (&'a str, &'a [&'a str], &'a [(&'a str, &'a [i64])]);

/// A chain of operations: the input is x, the result of operation i is yi, constants are those of [`constants`].
fn model(nodes: &[Operation<'_>], shape: &[i64]) -> Vec<u8> {
    let attribute = |(name, ints): &(&str, &[i64])| AttributeProto {
        name: (*name).into(),
        r#type: AttributeType::Ints as i32,
        ints: ints.to_vec(),
        ..AttributeProto::default()
    };
    let node = |(at, (operator, inputs, attributes)): (usize, &Operation<'_>)| NodeProto {
        input: inputs.iter().map(|name| (*name).into()).collect(),
        output: vec![format!("y{at}")],
        name: format!("n{at}"),
        op_type: (*operator).into(),
        attribute: attributes.iter().map(attribute).collect(),
        ..NodeProto::default()
    };
    let used = |tensor: &TensorProto| nodes.iter().any(|node| node.1.contains(&&*tensor.name));
    let output = format!("y{}", nodes.len() - 1);
    let graph = GraphProto {
        node: nodes.iter().enumerate().map(node).collect(),
        name: "seed".into(),
        initializer: constants().into_iter().filter(used).collect(),
        input: vec![port("x", Some(shape))],
        output: vec![port(&output, None)],
        ..GraphProto::default()
    };
    let opset = OperatorSetIdProto { domain: String::new(), version: 17 };
    let model = ModelProto {
        ir_version: 8,
        opset_import: vec![opset],
        graph: Some(graph),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

fn port(name: &str, shape: Option<&[i64]>) -> ValueInfoProto {
    let extent = |extent: &i64| DimensionProto { value: Some(Dimension::Value(*extent)) };
    let shape = shape.map(|shape| TensorShapeProto { dim: shape.iter().map(extent).collect() });
    let tensor_type = Some(TensorTypeProto { elem_type: DataType::Float as i32, shape });
    ValueInfoProto { name: name.into(), r#type: Some(TypeProto { tensor_type }) }
}

fn constants() -> Vec<TensorProto> {
    let floats = |name: &str, dims: &[i64]| {
        let count = dims.iter().product::<i64>() as usize;
        let bytes: Vec<u8> = (0..count).flat_map(|at| (at as f32 - 3.0).to_le_bytes()).collect();
        tensor(name, DataType::Float, dims, bytes)
    };
    let integers = |name: &str, values: &[i64]| {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        tensor(name, DataType::Int64, &[values.len() as i64], bytes)
    };
    vec![
        floats("w", &[2, 3, 3, 3]),
        floats("m", &[4, 2]),
        integers("s", &[1, 3, 4]),
        integers("starts", &[0, 1]),
        integers("ends", &[1, 3]),
    ]
}

fn tensor(name: &str, kind: DataType, dims: &[i64], bytes: Vec<u8>) -> TensorProto {
    TensorProto {
        name: name.into(),
        data_type: kind as i32,
        dims: dims.to_vec(),
        raw_data: Bytes::from(bytes),
        ..TensorProto::default()
    }
}

/// Packs, each with the byte that says how it is run.
pub fn open() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let subject = Subject::new(&digits());
    subject.pack(&path, &[subject.smallest(3), super::open::ARENA as u64], 3);
    let arena = super::open::ARENA as u64;
    let shapes = folder.path().join("shapes.pack");
    let graphs = [("seq=3", transformer_of(3)), ("seq=7", transformer_of(7))];
    pack_shapes(&shapes, &graphs, &board::board(), &[arena / 4, arena], 3);
    let packs = [
        Records::copy(arena).pack(),
        Records::pooling(arena, 9, true).pack(),
        sliding::LEAST.plan(Isa::Portable).pack(),
        std::fs::read(path).unwrap(),
        std::fs::read(shapes).unwrap(),
    ];
    (1..).zip(packs).map(|(manner, pack)| [&pack[..], &[manner]].concat()).collect()
}
