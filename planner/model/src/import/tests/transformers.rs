//! What transformers are made of, and what exporters make of them.

use super::*;
use crate::graph::Value;
use eyelet::pack::PortType;

/// Integers as the input `ids`, reshaped, cast, and looked up in a table of 5 rows.
fn embedding(attributes: Vec<AttributeProto>) -> Model {
    let mut model = Model::new(13).weights("t", &[5, 3]).list("s", &[2, 1]);
    model.graph().input.push(port("ids", DataType::Int64, vec![dimension(1), dimension(2)]));
    model
        .node("Reshape", "ids s", "r", vec![])
        .node("Cast", "r", "c", vec![int("to", DataType::Int32 as i64)])
        .node("Gather", "t c", "y", attributes)
        .output("y")
}

#[test]
fn integers_of_an_input_are_indices() {
    let graph = embedding(vec![]).import();
    assert_eq!(graph.nodes.last().map(|node| &node.op), Some(&Op::Gather));
    assert_eq!(graph.values[graph.outputs[0]].shape, [2, 1, 3]);
    let rows = reference::run(&graph, &[vec![2.0, -1.0]]);
    assert_eq!(rows[0], [0.5, 0.75, 1.0, 2.0, 2.25, 2.5]);
    let rows = reference::run(&graph, &[vec![5.0, 0.0]]);
    assert!(rows[0][..3].iter().all(|value| value.is_nan()) && rows[0][3] == -1.0);
}

#[test]
fn integers_of_an_input_are_values() {
    let ids = || {
        let mut model = embedding(vec![]);
        model.graph().output.clear();
        model
    };
    let says = |model: Model, words: &str| {
        let error = model.error();
        assert!(error.contains(words), "{error}");
    };
    let columns = embedding(vec![int("axis", 1)]).run();
    assert_eq!(columns, [-0.75, -0.5, 0.0, 0.25, 0.75, 1.0, 1.5, 1.75, 2.25, 2.5]);
    says(ids().node("Softmax", "ids", "z", vec![]).output("z"), "floats");
    let wide = integer_tensor("wide", &[1], &[1 << 31]);
    let sum = ids().initializer(wide).node("Add", "ids wide", "z", vec![]);
    says(sum.output("z"), "2147483648");
    let run = |operator: &str, inputs: &str, outputs: &str, attributes| {
        ids().node(operator, inputs, outputs, attributes).output("z").run()
    };
    let to = |kind: DataType| vec![int("to", kind as i64)];
    assert_eq!(run("Identity", "ids", "z", vec![]), [1.0, 2.0]);
    assert_eq!(run("Add", "ids ids", "z", vec![]), [2.0, 4.0]);
    assert_eq!(run("Sub", "ids s", "z", vec![]), [-1.0, 1.0]);
    assert_eq!(run("Transpose", "ids", "z", vec![]), [1.0, 2.0]);
    assert_eq!(run("Split", "ids", "a z", vec![int("axis", 1)]), [2.0]);
    assert_eq!(run("Concat", "ids ids", "z", vec![int("axis", 0)]), [1.0, 2.0, 1.0, 2.0]);
    assert_eq!(run("Neg", "ids", "z", vec![]), [-1.0, -2.0]);
    assert_eq!(run("Equal", "ids s", "z", vec![]), [0.0, 0.0]);
    assert_eq!(run("Cast", "ids", "z", to(DataType::Bool)), [1.0, 1.0]);
    assert_eq!(run("ArgMax", "ids", "z", vec![int("axis", 1)]), [1.0]);
    // as floats they are like any others
    let model = ids().node("Cast", "ids", "f", to(DataType::Float));
    assert_eq!(model.node("Relu", "f", "z", vec![]).output("z").run(), [1.0, 2.0]);
}

/// A mask as exporters compute it of integers, and a choice by a comparison.
#[test]
fn masks_are_computed_of_integers() {
    let mut model = Model::new(13).input("x", &[2, 2]).list("one", &[1]);
    model.graph().input.push(port("mask", DataType::Int64, vec![dimension(1), dimension(2)]));
    let to = |kind: DataType| vec![int("to", kind as i64)];
    let model = model
        .initializer(float_tensor("low", &[], &[-1000.0]))
        .node("Sub", "one mask", "off", vec![])
        .node("Cast", "off", "f", to(DataType::Float))
        .node("Mul", "f low", "m", vec![])
        .node("Add", "x m", "a", vec![])
        .node("Cast", "mask", "b", to(DataType::Bool))
        .node("Where", "b x low", "w", vec![])
        .node("Less", "a low", "z", vec![])
        .output("a")
        .output("w")
        .output("z");
    let graph = model.import();
    assert_eq!(graph.values[graph.outputs[2]].kind, PortType::Bool);
    let made = reference::run(&graph, &[vec![1.0, -2.0, 3.0, 4.0], vec![1.0, 0.0]]);
    assert_eq!(made[0], [1.0, -1002.0, 3.0, -996.0]);
    assert_eq!(made[1], [1.0, -1000.0, 3.0, -1000.0]);
    assert_eq!(made[2], [0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn layer_normalization() {
    let model = single(17, "LayerNormalization", &[1, 2, 4], "x s b", vec![]);
    let whole = model.clone().weights("s", &[4]).weights("b", &[4]);
    let (op, shape) = only(&whole);
    assert_eq!((op, shape), (Op::LayerNorm { axis: 2, epsilon: 1e-5 }, vec![1, 2, 4]));
    let y = whole.run();
    let normal = -1.5 / (1.25f64 + 1e-5).sqrt();
    assert!((y[0] - (-normal - 1.0)).abs() < 1e-6, "{y:?}");
    // one scale for all of an axis
    let spread = model.clone().weights("s", &[1]).weights("b", &[1]).import();
    let shapes = |value: &Value| value.shape.clone();
    let inputs = &spread.nodes[0].inputs;
    assert_eq!(shapes(&spread.values[inputs[1].unwrap()]), [4]);
    let error = model.weights("s", &[3]).weights("b", &[4]).error();
    assert!(error.contains("`scale` has the shape [3]"), "{error}");
    let attributes = vec![int("axis", 1), float("epsilon", 0.5)];
    let model = single(17, "LayerNormalization", &[1, 2, 4], "x s", attributes);
    let op = Op::LayerNorm { axis: 1, epsilon: 0.5 };
    assert_eq!(only(&model.weights("s", &[2, 4])).0, op);
}

#[test]
fn functions_of_computed_tensors() {
    for (operator, inputs, attributes, expected) in [
        ("Erf", "x", vec![], Op::Erf),
        ("Sqrt", "x", vec![], Op::Sqrt),
        ("Gelu", "x", vec![], Op::Gelu { tanh: false }),
        ("Gelu", "x", vec![string("approximate", "tanh")], Op::Gelu { tanh: true }),
        ("Neg", "x", vec![], Op::Mul),
        ("Reciprocal", "x", vec![], Op::Div),
        ("Pow", "x half", vec![], Op::Sqrt),
    ] {
        let model = single(20, operator, &[2, 3], inputs, attributes);
        let model = model.initializer(float_tensor("half", &[], &[0.5]));
        assert_eq!(only(&model), (expected, vec![2, 3]), "{operator}");
    }
    let power = |exponent| {
        single(13, "Pow", &[3], "x p", vec![]).initializer(float_tensor("p", &[], &[exponent]))
    };
    assert_eq!(power(1.0).run(), [1.0, 2.0, 3.0]);
    assert_eq!(power(3.0).run(), [1.0, 8.0, 27.0]);
    assert_eq!(power(2.0).run(), [1.0, 4.0, 9.0]);
    assert_eq!(single(13, "Neg", &[2], "x", vec![]).run(), [-1.0, -2.0]);
    assert_eq!(single(13, "Reciprocal", &[2], "x", vec![]).run(), [1.0, 0.5]);
}

#[test]
fn a_constant_may_take_the_place_of_a_part() {
    let model = |inputs: &str| {
        single(13, "Where", &[2, 2], inputs, vec![])
            .initializer(integer_tensor("i", &[2], &[1, 0]))
            .node("Cast", "i", "c", vec![int("to", DataType::Bool as i64)])
            .initializer(float_tensor("v", &[], &[f32::NEG_INFINITY]))
            .initializer(float_tensor("n", &[], &[f32::NAN]))
    };
    assert_eq!(model("c x v").run(), [1.0, f64::NEG_INFINITY, 3.0, f64::NEG_INFINITY]);
    assert_eq!(model("c v x").run(), [f64::NEG_INFINITY, 2.0, f64::NEG_INFINITY, 4.0]);
    assert!(model("c x n").run()[1].is_nan());
    assert_eq!(model("c x x").run(), [1.0, 2.0, 3.0, 4.0]);
    assert!(model("x x v").error().contains("condition"));
}

#[test]
fn enlargement_to_the_nearest() {
    let factors = |opset, inputs: &str, attributes| {
        single(opset, "Resize", &[1, 1, 1, 2], inputs, attributes)
            .initializer(float_tensor("f", &[4], &[1.0, 1.0, 2.0, 2.0]))
            .initializer(float_tensor("half", &[4], &[1.0, 1.0, 1.5, 2.0]))
            .list("sizes", &[1, 1, 1, 6])
    };
    let floor = || {
        let place = string("coordinate_transformation_mode", "asymmetric");
        vec![string("mode", "nearest"), place, string("nearest_mode", "floor")]
    };
    let expected = [1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0];
    assert_eq!(factors(13, "x - f", floor()).run(), expected);
    assert_eq!(factors(13, "x - f", vec![]).run(), expected);
    assert_eq!(factors(10, "x f", vec![]).run(), expected);
    assert_eq!(factors(13, "x - - sizes", floor()).run(), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    // Of sizes one factor for all axes, where the policy keeps the ratio.
    for (policy, expected) in [("not_larger", 2), ("not_smaller", 3), ("stretch", 6)] {
        let mut attributes = floor();
        attributes.push(ints("axes", &[3, 2]));
        attributes.push(string("keep_aspect_ratio_policy", policy));
        let model = single(18, "Resize", &[1, 1, 1, 2], "x - - s", attributes);
        let graph = model.list("s", &[4, 3]).import();
        let [height, width] = graph.values[graph.outputs[0]].shape[2..] else { panic!("a rank") };
        assert_eq!(height * width, if expected == 6 { 12 } else { 2 * expected * expected });
    }
    assert_eq!(factors(13, "x - half", floor()).run(), [1.0, 1.0, 2.0, 2.0]);
    let model = single(13, "Expand", &[2, 1], "x s", vec![]).list("s", &[3, 1, 2]);
    assert_eq!(only(&model), (Op::Expand, vec![3, 2, 2]));
    assert_eq!(model.run()[..4], [1.0, 1.0, 2.0, 2.0]);
}
