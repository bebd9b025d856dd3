//! Operators that are made of others, on tensors that flow.

use super::*;

/// What the operator makes of an input that counts up from 1, with initializers, and the shape.
#[track_caller]
fn made(model: &Model) -> (Vec<f64>, Vec<usize>) {
    let graph = model.import();
    (model.run(), graph.values[graph.outputs[0]].shape.clone())
}

#[test]
fn what_constant_indices_choose() {
    let gather = |indices: TensorProto, operator: &str, attributes| {
        let model = single(16, operator, &[2, 3], "x i", attributes).initializer(indices);
        made(&model)
    };
    let mut holds = integer_tensor("i", &[3], &[1, 0, 1]);
    holds.data_type = DataType::Bool as i32;
    (holds.int64_data, holds.int32_data) = (vec![], vec![1, 0, 1]);
    let (values, shape) = gather(holds, "Compress", vec![int("axis", 1)]);
    assert_eq!((values, shape), (vec![1.0, 3.0, 4.0, 6.0], vec![2, 2]));
    let wrong = single(16, "GatherND", &[2, 3], "x i", vec![]);
    let error = wrong.initializer(integer_tensor("i", &[1, 1], &[2])).error();
    assert!(error.contains("the index 2 is outside an axis of 2 entries"), "{error}");
}

#[test]
fn constant_indices_choose_integers_that_flow() {
    let of_words = |operator: &str, inputs: &str, attributes, indices| {
        let cast = |kind| vec![int("to", kind as i64)];
        let model = Model::new(18).input("x", &[2, 3]).initializer(indices);
        let model = model.node("Cast", "x", "w", cast(DataType::Int32));
        let model = model.node("Add", "w w", "u", vec![]).node(operator, inputs, "z", attributes);
        made(&model.node("Cast", "z", "y", cast(DataType::Float)).output("y"))
    };
    let indices = || integer_tensor("i", &[2, 2], &[1, 2, 0, 0]);
    assert_eq!(of_words("GatherND", "w i", vec![], indices()), (vec![6.0, 1.0], vec![2]));
    let axis = || vec![int("axis", 1)];
    let (values, shape) = of_words("GatherElements", "w i", axis(), indices());
    assert_eq!((values, shape), (vec![2.0, 3.0, 4.0, 4.0], vec![2, 2]));
    let places = integer_tensor("i", &[2, 3], &[2, 1, 0, 0, 1, 2]);
    let (values, _) = of_words("ScatterElements", "w i u", axis(), places);
    assert_eq!(values, [6.0, 4.0, 2.0, 8.0, 10.0, 12.0]);
}

#[test]
fn repetitions_triangles_and_running_sums() {
    let tile = single(13, "Tile", &[2, 2], "x r", vec![]).list("r", &[2, 3]);
    let row = |a: f64, b: f64| [a, b, a, b, a, b];
    let twice = [row(1.0, 2.0), row(3.0, 4.0), row(1.0, 2.0), row(3.0, 4.0)].concat();
    assert_eq!(made(&tile), (twice, vec![4, 6]));
    let lower = single(14, "Trilu", &[2, 2, 3], "x", vec![int("upper", 0)]);
    let values = [1.0, 0.0, 0.0, 4.0, 5.0, 0.0, 7.0, 0.0, 0.0, 10.0, 11.0, 0.0];
    assert_eq!(made(&lower).0, values);
    let sum = |axis: i64, attributes| {
        let model = single(14, "CumSum", &[2, 3], "x a", attributes);
        made(&model.initializer(integer_tensor("a", &[], &[axis]))).0
    };
    assert_eq!(sum(1, vec![]), [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    assert_eq!(sum(0, vec![]), [1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    assert_eq!(sum(-1, vec![int("reverse", 1)]), [6.0, 5.0, 3.0, 15.0, 11.0, 6.0]);
    assert_eq!(sum(1, vec![int("exclusive", 1)]), [0.0, 1.0, 3.0, 0.0, 4.0, 9.0]);
    let both = vec![int("exclusive", 1), int("reverse", 1)];
    assert_eq!(sum(1, both), [5.0, 3.0, 0.0, 11.0, 6.0, 0.0]);
}

#[test]
fn einsum_is_products_of_matrices() {
    let einsum = |equation: &str, shape: &[i64], other: &[i64]| {
        let model = single(13, "Einsum", shape, "x w", vec![string("equation", equation)]);
        made(&model.weights("w", other))
    };
    // Weights are -1, -0.75, -0.5, …
    let (values, shape) = einsum("ij,jk->ki", &[2, 2], &[2, 1]);
    assert_eq!((values, shape), (vec![-2.5, -6.0], vec![1, 2]));
    let (values, shape) = einsum("bi,bi->b", &[2, 2], &[2, 2]);
    assert_eq!((values, shape), (vec![-2.5, -2.5], vec![2]));
    let (values, shape) = einsum("i,j->ji", &[2], &[2]);
    assert_eq!((values, shape), (vec![-1.0, -2.0, -0.75, -1.5], vec![2, 2]));
    let (values, shape) = einsum("...i,ij->...j", &[1, 2, 2], &[2, 1]);
    assert_eq!((values, shape), (vec![-2.5, -5.0 + 2.0 - 3.0], vec![1, 2, 1]));
    let error = single(13, "Einsum", &[2], "x", vec![string("equation", "i->ij")]).error();
    assert!(error.contains("an axis twice, or one that no term has"), "{error}");
    let error = single(13, "Einsum", &[2], "x", vec![string("equation", "ij->i")]).error();
    assert!(error.contains("`ij` does not fit [2]"), "{error}");
}

#[test]
fn running_products_double_their_reach() {
    let product = |axis: i64, attributes| {
        let model = single(26, "CumProd", &[2, 3], "x a", attributes);
        made(&model.initializer(integer_tensor("a", &[], &[axis]))).0
    };
    assert_eq!(product(1, vec![]), [1.0, 2.0, 6.0, 4.0, 20.0, 120.0]);
    assert_eq!(product(0, vec![int("exclusive", 1)]), [1.0, 1.0, 1.0, 1.0, 2.0, 3.0]);
    let both = vec![int("exclusive", 1), int("reverse", 1)];
    assert_eq!(product(-1, both), [6.0, 3.0, 1.0, 30.0, 6.0, 1.0]);
}

#[test]
fn constants_of_several_matrices() {
    // Weights are -1, -0.75, -0.5, …
    let model = single(13, "MatMul", &[2, 1, 2], "x w", vec![]).weights("w", &[2, 2, 1]);
    assert_eq!(made(&model), (vec![-2.5, -2.5], vec![2, 1, 1]));
    // What flows has one matrix, and the constant is on the left.
    let model = single(13, "MatMul", &[2, 1], "w x", vec![]).weights("w", &[2, 1, 1, 2]);
    assert_eq!(made(&model), (vec![-2.5, -1.0], vec![2, 1, 1, 1]));
    let model = single(13, "MatMul", &[2, 1, 1, 2], "x w", vec![]).weights("w", &[1, 2, 2, 1]);
    assert_eq!(made(&model), (vec![-2.5, -1.0, -6.0, -2.5], vec![2, 2, 1, 1]));
    let model = single(13, "MatMul", &[1, 1], "x w", vec![]).weights("w", &[257, 1, 1]);
    assert!(model.error().contains("its constant has 257 matrices, at most 256"));
}

#[track_caller]
fn close(found: &[f64], expected: &[f64]) {
    let differ = |(a, b): (&f64, &f64)| (a - b).abs() > 1e-5;
    let all = found.len() == expected.len() && !found.iter().zip(expected).any(differ);
    assert!(all, "{found:?} is not {expected:?}");
}

#[test]
fn fourier_transforms_are_products() {
    let model = single(20, "DFT", &[1, 4, 1], "x", vec![]);
    let (values, shape) = made(&model);
    close(&values, &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0]);
    assert_eq!(shape, [1, 4, 2]);
    let model = single(17, "DFT", &[1, 4, 1], "x", vec![int("onesided", 1)]);
    close(&made(&model).0, &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0]);
    // There and back again, along the first axis, filled up with zeros.
    let model = Model::new(20)
        .input("x", &[2, 1, 2])
        .initializer(integer_tensor("n", &[], &[3]))
        .initializer(integer_tensor("a", &[], &[0]))
        .node("DFT", "x n a", "f", vec![])
        .node("DFT", "f - a", "y", vec![int("inverse", 1)])
        .output("y");
    close(&model.run(), &[1.0, 2.0, 3.0, 4.0, 0.0, 0.0]);
}

#[test]
fn grids_are_products() {
    let model = single(20, "AffineGrid", &[1, 2, 3], "x s", vec![int("align_corners", 1)]);
    let (values, shape) = made(&model.list("s", &[1, 1, 2, 2]));
    // (x, y) in turn is (-1, -1), (1, -1), (-1, 1), (1, 1), by the matrix 1 2 3, 4 5 6.
    assert_eq!(values, [0.0, -3.0, 2.0, 5.0, 4.0, 7.0, 6.0, 15.0]);
    assert_eq!(shape, [1, 2, 2, 2]);
}
