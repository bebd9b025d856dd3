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
