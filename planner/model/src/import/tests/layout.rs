//! Operators that move elements.

use super::*;

#[test]
fn reshape_family() {
    for (opset, operator, shape, inputs, attributes, expected) in [
        (9, "Reshape", vec![2, 3, 4], "x l", vec![], vec![2, 12]),
        (14, "Reshape", vec![2, 3, 4], "x l", vec![int("allowzero", 0)], vec![2, 12]),
        (9, "Flatten", vec![2, 3, 4], "x", vec![], vec![2, 12]),
        (9, "Flatten", vec![2, 3, 4], "x", vec![int("axis", 0)], vec![1, 24]),
        (13, "Flatten", vec![2, 3, 4], "x", vec![int("axis", -1)], vec![6, 4]),
        (9, "Flatten", vec![2, 3, 4], "x", vec![int("axis", 3)], vec![24, 1]),
        (11, "Squeeze", vec![1, 3, 1], "x", vec![ints("axes", &[-1])], vec![1, 3]),
        (13, "Squeeze", vec![1, 3, 1], "x zero", vec![], vec![3, 1]),
        (13, "Squeeze", vec![1, 3, 1], "x", vec![], vec![3]),
        (11, "Unsqueeze", vec![3], "x", vec![ints("axes", &[0, -1])], vec![1, 3, 1]),
        (13, "Unsqueeze", vec![3], "x zero", vec![], vec![1, 3]),
    ] {
        let model = single(opset, operator, &shape, inputs, attributes);
        let model = model.list("l", &[0, -1]).list("zero", &[0]);
        assert_eq!(only(&model), (Op::Reshape, expected), "{operator} {opset}");
    }
    // Nothing to do: no node.
    let model = single(13, "Reshape", &[2, 12], "x l", vec![]).list("l", &[0, -1]);
    let graph = model.import();
    assert_eq!(graph.values[graph.outputs[0]].shape, [2, 12]);
}

#[test]
fn transpose() {
    let model = single(13, "Transpose", &[2, 3, 4], "x", vec![]);
    assert_eq!(only(&model), (Op::Transpose { perm: vec![2, 1, 0] }, vec![4, 3, 2]));
    let model = single(13, "Transpose", &[2, 3], "x", vec![ints("perm", &[1, 0])]);
    assert_eq!(model.run(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
}

#[test]
fn concat() {
    let model = single(13, "Concat", &[2, 1], "x w x", vec![int("axis", -1)]).weights("w", &[2, 2]);
    assert_eq!(only(&model), (Op::Concat { axis: 1 }, vec![2, 4]));
    assert_eq!(model.run(), [1.0, -1.0, -0.75, 1.0, 2.0, -0.5, -0.25, 2.0]);
}

#[test]
fn split_in_every_spelling() {
    for (opset, outputs, inputs, attributes, expected) in [
        (11, "y y1", "x", vec![int("axis", 1), ints("split", &[3, 4])], vec![3, 4]),
        (13, "y y1", "x l", vec![int("axis", 1)], vec![2, 5]),
        (13, "y y1 y2 y3 y4 y5 y6", "x", vec![int("axis", -1)], vec![1; 7]),
        (18, "y y1 y2", "x", vec![int("axis", 1), int("num_outputs", 3)], vec![3, 3, 1]),
    ] {
        let model = Model::new(opset).input("x", &[1, 7]).list("l", &[2, 5]);
        let mut model = model.node("Split", inputs, outputs, attributes);
        for output in outputs.split(' ') {
            model = model.output(output);
        }
        let graph = model.import();
        assert_eq!(graph.nodes[0].op, Op::Split { axis: 1, sizes: expected.clone() });
        let data: Vec<f64> = (0..7).map(f64::from).collect();
        let parts = reference::run(&graph, std::slice::from_ref(&data));
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), expected);
        assert_eq!(parts.concat(), data);
    }
}

#[test]
fn slice_in_every_spelling() {
    let attributes = vec![ints("starts", &[-3]), ints("ends", &[1 << 40]), ints("axes", &[1])];
    let model = single(9, "Slice", &[2, 5], "x", attributes);
    let op = Op::Slice { starts: vec![0, 2], steps: vec![1, 1] };
    assert_eq!(only(&model), (op, vec![2, 3]));
    let model = single(13, "Slice", &[2, 5], "x s e a t", vec![])
        .list("s", &[0])
        .list("e", &[-1])
        .list("a", &[-1])
        .list("t", &[3]);
    assert_eq!(model.run(), [1.0, 4.0, 6.0, 9.0]);
    // Everything: no node.
    let model = single(10, "Slice", &[2, 5], "x s e", vec![]);
    let model = model.list("s", &[0]).list("e", &[i64::MAX]);
    assert_eq!(model.import().values.len(), 2);
}

#[test]
fn gather_of_a_computed_tensor_is_a_slice() {
    let one = |index: TensorProto| {
        single(13, "Gather", &[2, 4], "x i", vec![int("axis", 1)]).initializer(index)
    };
    assert_eq!(one(integer_tensor("i", &[], &[-1])).run(), [4.0, 8.0]);
    assert_eq!(one(integer_tensor("i", &[], &[-1])).import().nodes.len(), 2);
    assert_eq!(one(integer_tensor("i", &[2], &[1, 3])).run(), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(one(integer_tensor("i", &[2], &[1, 0])).run(), [2.0, 1.0, 6.0, 5.0]);
    let error = one(integer_tensor("i", &[1], &[4])).error();
    assert!(error.contains("an index is outside axis 1 with its 4 entries"), "{error}");
}

#[test]
fn pad_in_every_spelling() {
    let expected = Op::Pad { begin: vec![0, 1], end: vec![0, 2], value: 5.0 };
    let attributes = vec![ints("pads", &[0, 1, 0, 2]), float("value", 5.0)];
    let model = single(9, "Pad", &[1, 2], "x", attributes);
    assert_eq!(only(&model), (expected.clone(), vec![1, 5]));
    let model = single(11, "Pad", &[1, 2], "x p v", vec![string("mode", "constant")]);
    let model = model.list("p", &[0, 1, 0, 2]).initializer(float_tensor("v", &[], &[5.0]));
    assert_eq!(only(&model), (expected.clone(), vec![1, 5]));
    let model = single(18, "Pad", &[1, 2], "x p v a", vec![]).list("p", &[1, 2]).list("a", &[-1]);
    let model = model.initializer(float_tensor("v", &[1], &[5.0]));
    assert_eq!(only(&model), (expected, vec![1, 5]));
    assert_eq!(model.run(), [5.0, 1.0, 2.0, 5.0, 5.0]);
}
