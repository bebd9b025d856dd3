//! The graph as a whole: names, order, what is dropped, inputs and outputs.

use super::*;

#[test]
fn nodes_without_names_get_one() {
    let mut model = single(13, "Relu", &[2], "x", vec![]);
    assert_eq!(model.import().nodes[0].name, "Relu_0");
    model.graph().node[0].name = "first".into();
    let graph = model.import();
    assert_eq!(graph.nodes[0].name, "first");
    assert_eq!(graph.name, "test");
}

#[test]
fn order_is_derived_and_kept() {
    let model = Model::new(13)
        .input("x", &[2])
        .node("Tanh", "b", "y", vec![])
        .node("Sigmoid", "a", "b", vec![])
        .node("Relu", "x", "a", vec![])
        .output("y");
    let graph = model.import();
    let names: Vec<&str> = graph.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["Relu_2", "Sigmoid_1", "Tanh_0"]);
}

#[test]
fn what_no_output_needs_is_dropped() {
    let model = single(13, "Relu", &[2, 3], "x", vec![])
        .node("Frobnicate", "x", "unused", vec![])
        .weights("w", &[5])
        .initializer(TensorProto { data_type: 8, name: "s".into(), ..Default::default() })
        .node("Tanh", "x", "measured", vec![])
        .node("Shape", "measured", "shape", vec![])
        .node("Reshape", "y shape", "z", vec![])
        .output("z");
    let graph = model.import();
    assert_eq!(graph.nodes.len(), 2);
    assert_eq!(graph.values.len(), 3);
}

#[test]
fn initializers_may_be_listed_as_inputs() {
    let model = single(9, "Add", &[2], "x w", vec![]).input("w", &[2]).weights("w", &[2]);
    let graph = model.import();
    assert_eq!(graph.inputs.len(), 1);
    assert_eq!(graph.values[graph.inputs[0]].name, "x");
}

#[test]
fn outputs_may_be_inputs_constants_and_aliases() {
    let model = Model::new(13)
        .input("x", &[2])
        .weights("w", &[1])
        .node("Relu", "x", "r", vec![])
        .node("Identity", "r", "a", vec![])
        .node("Identity", "r", "b", vec![])
        .node("Identity", "x", "c", vec![])
        .node("Identity", "w", "d", vec![])
        .output("a")
        .output("b")
        .output("c")
        .output("d")
        .output("w")
        .output("x");
    let graph = model.import();
    let names: Vec<&str> = graph.outputs.iter().map(|&id| graph.values[id].name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d", "w", "x"]);
    assert_eq!(graph.outputs[5], graph.inputs[0]);
    assert_eq!(graph.nodes.len(), 3);
    let results = reference::run(&graph, &[vec![-3.0, 4.0]]);
    let expected: [&[f64]; 6] =
        [&[0.0, 4.0], &[0.0, 4.0], &[-3.0, 4.0], &[-1.0], &[-1.0], &[-3.0, 4.0]];
    assert_eq!(results, expected);
}

/// Of as many bits as words have.
#[test]
fn outputs_may_be_constant_integers() {
    let model =
        single(13, "Relu", &[2, 3], "x", vec![]).node("Shape", "x", "s", vec![]).output("s");
    let graph = model.import();
    let results = reference::run(&graph, &[vec![1.0; 6]]);
    assert_eq!(results[1], [2.0, 3.0]);
    let large = single(13, "Relu", &[1], "x", vec![])
        .list("n", &[i64::from(i32::MAX), 1 << 31])
        .output("n");
    let error = large.error();
    assert!(error.contains("output `n`: an integer of its constants is 2147483648"), "{error}");
}

/// The last of several initializers with one name counts, as for onnxruntime.
#[test]
fn duplicates() {
    let model = single(13, "Add", &[1], "x w", vec![])
        .initializer(float_tensor("w", &[1], &[1.0]))
        .initializer(float_tensor("w", &[1], &[2.0]));
    assert_eq!(model.run(), [3.0]);
    assert_eq!(model.clone().input("w", &[1]).run(), [3.0]);
    let error = single(13, "Relu", &[1], "x", vec![]).input("x", &[1]).error();
    assert!(error.contains("an input and another input both produce `x`"), "{error}");
}

#[test]
fn double_precision_is_said_or_refused() {
    let double = |value: f64| TensorProto {
        name: "w".into(),
        dims: vec![1],
        data_type: DataType::Double as i32,
        double_data: vec![value],
        ..Default::default()
    };
    let with = |value| {
        let mut model = single(13, "Mul", &[1], "x w", vec![]).initializer(double(value));
        model.graph().input[0] = port("x", DataType::Double, vec![dimension(1)]);
        model
    };
    let graph = with(0.1).import();
    let [note] = &graph.notes[..] else { panic!("{:?}", graph.notes) };
    assert!(note.contains("computes in double precision (input `x` and 1 more)"), "{note}");
    let error = with(1e300).error();
    assert!(error.contains("`w` has 1e300 in double precision, which single"), "{error}");
    let constant = single(13, "Relu", &[1], "x", vec![]).initializer(double(-1e300)).output("w");
    assert!(constant.error().contains("output `w`: `w` has -1e300"), "{}", constant.error());
    // Constants are folded in double precision: nothing is lost before the end.
    let model =
        Model::new(13).input("x", &[1]).initializer(double(1e300)).node("Div", "w w", "q", vec![]);
    let model = model.node("Cast", "q", "f", vec![int("to", 1)]).node("Add", "x f", "y", vec![]);
    let graph = model.output("y").import();
    assert!(graph.notes.is_empty(), "{:?}", graph.notes);
    assert_eq!(reference::run(&graph, &[vec![1.0]]), [[2.0]]);
}

#[test]
fn half_precision_inputs_are_floats() {
    let mut model = single(13, "Relu", &[2], "x", vec![]);
    model.graph().input[0] = port("x", DataType::Float16, vec![dimension(2)]);
    assert_eq!(only(&model).1, [2]);
}

#[test]
fn unused_inputs_stay() {
    let graph = single(13, "Relu", &[2], "x", vec![]).input("unused", &[3]).import();
    assert_eq!(graph.inputs.len(), 2);
    reference::run(&graph, &[vec![1.0; 2], vec![1.0; 3]]);
}

fn sparse(values: TensorProto, indices: TensorProto, dims: &[i64]) -> SparseTensorProto {
    SparseTensorProto { values: Some(values), indices: Some(indices), dims: dims.into() }
}

#[test]
fn sparse_tensors_become_dense() {
    let with = |indices: TensorProto, dims: &[i64]| {
        let mut model = single(13, "Add", &[2, 3], "x w", vec![]);
        let values = float_tensor("w", &[2], &[10.0, 20.0]);
        model.graph().sparse_initializer.push(sparse(values, indices, dims));
        model
    };
    let expected = [1.0, 12.0, 3.0, 4.0, 5.0, 26.0];
    assert_eq!(with(integer_tensor("", &[2], &[1, 5]), &[2, 3]).run(), expected);
    assert_eq!(with(integer_tensor("", &[2, 2], &[0, 1, 1, 2]), &[2, 3]).run(), expected);
    for (indices, dims, says) in [
        (integer_tensor("", &[2], &[1, 1]), vec![2, 3], "two of its values are for element 1"),
        (
            integer_tensor("", &[2], &[1, 6]),
            vec![2, 3],
            "its index [6] is outside the shape [2, 3]",
        ),
        (integer_tensor("", &[2, 2], &[0, 1, 2, 0]), vec![2, 3], "its index [2, 0] is outside"),
        (integer_tensor("", &[1], &[1]), vec![2, 3], "it has 2 values, but 1 indices"),
        (integer_tensor("", &[2], &[1, 2]), vec![1 << 20, 1 << 20], "needs 4 TiB"),
    ] {
        let error = with(indices, &dims).error();
        assert!(error.starts_with("tensor `w`: ") && error.contains(says), "{error}");
    }
    let value = sparse(float_tensor("", &[1], &[7.0]), integer_tensor("", &[1], &[2]), &[3]);
    let sparse_tensor = Some(value);
    let value = AttributeProto { name: "sparse_value".into(), sparse_tensor, ..Default::default() };
    let model = Model::new(13).input("x", &[3]).node("Constant", "", "c", vec![value]);
    assert_eq!(model.node("Add", "x c", "y", vec![]).output("y").run(), [1.0, 2.0, 10.0]);
}
