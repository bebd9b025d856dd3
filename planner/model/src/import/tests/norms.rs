//! Reductions, normalisations and attention, by values from their definitions.

use super::*;
use eyelet::pack::ReduceOp;

#[track_caller]
fn close(model: &Model, expected: &[f64]) {
    let found = model.run();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs();
        assert!(error <= 1e-6 * expected.abs().max(1.0), "{found}, not {expected}");
    }
}

/// What `f` makes of the columns of [1 2 3; 4 5 6].
fn columns(f: impl Fn(f64, f64) -> f64) -> [f64; 3] {
    [f(1.0, 4.0), f(2.0, 5.0), f(3.0, 6.0)]
}

#[test]
fn reductions() {
    for (operator, expected) in [
        ("ReduceSum", columns(|a, b| a + b)),
        ("ReduceMax", columns(f64::max)),
        ("ReduceMin", columns(f64::min)),
        ("ReduceProd", columns(|a, b| a * b)),
        ("ReduceMean", columns(|a, b| (a + b) / 2.0)),
        ("ReduceL1", columns(|a, b| a + b)),
        ("ReduceL2", columns(f64::hypot)),
        ("ReduceSumSquare", columns(|a, b| a * a + b * b)),
        ("ReduceLogSum", columns(|a, b| (a + b).ln())),
        ("ReduceLogSumExp", columns(|a, b| (a.exp() + b.exp()).ln())),
    ] {
        for (opset, keep) in [(11, 0), (11, 1), (18, 0), (18, 1)] {
            let mut attributes = vec![int("keepdims", keep)];
            if opset == 11 {
                attributes.push(ints("axes", &[-2]));
            }
            let inputs = if opset == 11 { "x" } else { "x a" };
            let model = single(opset, operator, &[2, 3], inputs, attributes).list("a", &[0]);
            close(&model, &expected);
            let shape = &model.import().values[model.import().outputs[0]].shape.clone();
            assert_eq!(*shape, if keep == 1 { vec![1, 3] } else { vec![3] }, "{operator}");
        }
    }
    let none = vec![int("noop_with_empty_axes", 1)];
    close(&single(18, "ReduceSum", &[2], "x", none.clone()), &[1.0, 2.0]);
    close(&single(18, "ReduceSumSquare", &[2], "x", none.clone()), &[1.0, 4.0]);
    close(&single(18, "ReduceLogSum", &[2], "x", none), &[0.0, 2f64.ln()]);
    let all = single(18, "ReduceMax", &[2, 3], "x", vec![int("keepdims", 0)]);
    let op = Op::Reduce { op: ReduceOp::Max, axes: vec![0, 1], keep: false };
    assert_eq!(only(&all), (op, vec![]));
}

#[test]
fn norms_of_vectors() {
    let along = |p| vec![int("p", p), int("axis", 0)];
    let root = 10f64.sqrt();
    let model = single(9, "LpNormalization", &[2, 2], "x", along(2));
    close(&model, &[1.0 / root, 2.0 / 20f64.sqrt(), 3.0 / root, 4.0 / 20f64.sqrt()]);
    let model = single(9, "LpNormalization", &[2, 2], "x", along(1));
    close(&model, &[0.25, 1.0 / 3.0, 0.75, 2.0 / 3.0]);
    assert!(single(9, "LpNormalization", &[2], "x", along(3)).error().contains("expected 1 or 2"));
    for (p, expected) in
        [(1, [3.0, 7.0]), (2, [5f64.sqrt(), 5.0]), (3, [9f64.cbrt(), 91f64.cbrt()])]
    {
        let model = single(9, "GlobalLpPool", &[1, 2, 1, 2], "x", vec![int("p", p)]);
        close(&model, &expected);
    }
}

/// Of two numbers with this distance the second, with mean 0 and variance 1.
fn second(distance: f64, epsilon: f64) -> f64 {
    distance / 2.0 / (distance * distance / 4.0 + epsilon).sqrt()
}

#[test]
fn norms_of_channels() {
    let e = f64::from(1e-5f32);
    let n = second(1.0, e);
    // weights: -1, -.75, -.5, -.25
    let model = single(9, "InstanceNormalization", &[1, 2, 1, 2], "x s s", vec![]);
    close(&model.weights("s", &[2]), &[n - 1.0, -n - 1.0, 0.75 * n - 0.75, -0.75 * n - 0.75]);
    let grouped = |opset, count| {
        single(opset, "GroupNormalization", &[1, 4, 1], "x s s", vec![int("num_groups", 2)])
            .weights("s", &[count])
    };
    close(&grouped(18, 2), &[n - 1.0, -n - 1.0, 0.75 * n - 0.75, -0.75 * n - 0.75]);
    close(&grouped(21, 4), &[n - 1.0, -0.75 * n - 0.75, 0.5 * n - 0.5, -0.25 * n - 0.25]);
    assert!(grouped(21, 2).error().contains("`scale` has the shape [2], expected [4]"));
    let model = single(18, "GroupNormalization", &[1, 4, 1], "x s s", vec![int("num_groups", 3)]);
    assert!(model.weights("s", &[3]).error().contains("does not divide 4 channels"));
    let model = single(13, "MeanVarianceNormalization", &[1, 1, 1, 2], "x", vec![]);
    close(&model, &[-1.0, 1.0]);
    let model = single(15, "BatchNormalization", &[1, 2, 1], "x p p p v", vec![]);
    let model = model.input("p", &[2]).initializer(float_tensor("v", &[2], &[4.0, 0.25]));
    close(&model, &[1.0, 2.0]);
}

#[test]
fn norms_with_computed_parameters() {
    let e = f64::from(1e-5f32);
    let n = second(1.0, e);
    let model = |operator, inputs: &str| {
        single(21, operator, &[1, 2], inputs, vec![]).input("p", &[2]).weights("w", &[2])
    };
    close(&model("LayerNormalization", "x p"), &[-n, 2.0 * n]);
    close(&model("LayerNormalization", "x w p"), &[1.0 + n, 2.0 - 0.75 * n]);
    let root = (2.5 + e).sqrt();
    close(&model("RMSNormalization", "x p"), &[1.0 / root, 4.0 / root]);
    close(&model("RMSNormalization", "x w"), &[-1.0 / root, -1.5 / root]);
    let op = Op::RmsNorm { axis: 1, epsilon: 1e-5 };
    assert_eq!(model("RMSNormalization", "x w").import().nodes[0].op, op);
    let outputs = Model::new(17)
        .input("x", &[1, 2])
        .node("LayerNormalization", "x w", "y mean inverse", vec![])
        .weights("w", &[2]);
    close(&outputs.clone().output("mean"), &[1.5]);
    close(&outputs.output("inverse"), &[1.0 / (0.25 + e).sqrt()]);
}

#[test]
fn log_softmax() {
    let log = |x: f64, all: &[f64]| x - all.iter().map(|x| x.exp()).sum::<f64>().ln();
    let rows = [[1.0, 2.0], [3.0, 4.0]].map(|row| row.map(|x| log(x, &row))).concat();
    close(&single(13, "LogSoftmax", &[2, 2], "x", vec![]), &rows);
    let flat = [1.0, 2.0, 3.0, 4.0].map(|x| log(x, &[1.0, 2.0, 3.0, 4.0]));
    close(&single(11, "LogSoftmax", &[1, 2, 2], "x", vec![]), &flat);
}

/// A row that has an infinity or NaN is NaN, as is one of negative infinities; one negative infinity stays.
#[test]
fn log_softmax_of_rows_that_are_not_finite() {
    let graph = single(13, "LogSoftmax", &[5, 2], "x", vec![]).import();
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [[nan, 1.0], [inf, 1.0], [-inf, -inf], [inf, -inf], [-inf, 3.0]];
    let found = reference::run(&graph, &[rows.concat()]).swap_remove(0);
    assert!(found[..8].iter().all(|x| x.is_nan()), "{found:?}");
    assert_eq!(found[8..], [-inf, 0.0]);
    let graph = single(13, "ReduceLogSumExp", &[2, 2], "x", vec![ints("axes", &[1])]).import();
    let found = reference::run(&graph, &[vec![inf, 1.0, -inf, -inf]]).swap_remove(0);
    assert_eq!(found, [inf, -inf]);
}

/// Two heads of one entry: scores 1 · 1 and 2 · 2, and so on.
#[test]
fn attention() {
    let e = |x: f64| x.exp();
    let model = |shape: &[i64], inputs: &str, attributes| {
        single(21, "Attention", shape, inputs, attributes)
            .initializer(float_tensor("k", &[1, 1, 2, 1], &[1.0, 2.0]))
            .initializer(float_tensor("v", &[1, 1, 2, 1], &[10.0, 20.0]))
            .initializer(float_tensor("flat", &[1, 2, 1], &[1.0, 2.0]))
            .initializer(float_tensor("m", &[1, 2], &[0.0, f32::NEG_INFINITY]))
            .initializer(float_tensor("rows", &[2, 2], &[0.0, 0.0, -f32::INFINITY, -f32::INFINITY]))
    };
    let mix = |a: f64, b: f64| (10.0 * e(a) + 20.0 * e(b)) / (e(a) + e(b));
    // Queries 1 and 2 of one head, of two heads that share keys.
    close(&model(&[1, 1, 2, 1], "x k v", vec![]), &[mix(1.0, 2.0), mix(2.0, 4.0)]);
    close(&model(&[1, 2, 1, 1], "x k v", vec![]), &[mix(1.0, 2.0), mix(2.0, 4.0)]);
    let scaled = vec![float("scale", 0.5), float("softcap", 2.0)];
    let cap = |x: f64| 2.0 * (x / 2.0).tanh();
    let expected = [mix(cap(0.5), cap(1.0)), mix(cap(1.0), cap(2.0))];
    close(&model(&[1, 1, 2, 1], "x k v", scaled), &expected);
    close(&model(&[1, 1, 2, 1], "x k v m", vec![]), &[10.0, 10.0]);
    // The second position sees nothing.
    close(&model(&[1, 1, 2, 1], "x k v rows", vec![]), &[mix(1.0, 2.0), 0.0]);
    close(&model(&[1, 1, 2, 1], "x k v", vec![int("is_causal", 1)]), &[10.0, mix(2.0, 4.0)]);
    let windowed = vec![int("left_window_size", 0), int("right_window_size", 0)];
    close(&model(&[1, 1, 2, 1], "x k v", windowed), &[10.0, 20.0]);
    let lengths = model(&[1, 1, 2, 1], "x k v - - - n", vec![]).list("n", &[1]);
    close(&lengths, &[10.0, 10.0]);
    // The past comes before: keys 1, 2, 1, 2.
    let past = model(&[1, 1, 1, 1], "x k v - k v", vec![int("is_causal", 1)]);
    let sum = 2.0 * e(1.0) + e(2.0);
    close(&past, &[(20.0 * e(1.0) + 20.0 * e(2.0)) / sum]);
    let heads = vec![int("q_num_heads", 2), int("kv_num_heads", 1)];
    close(
        &model(&[1, 1, 2], "x flat flat", heads),
        &[(e(1.0) + 2.0 * e(2.0)) / (e(1.0) + e(2.0)), (e(2.0) + 2.0 * e(4.0)) / (e(2.0) + e(4.0))],
    );
    let odd = model(&[1, 1, 2, 2], "x k v", vec![]).error();
    assert!(odd.contains("do not fit"), "{odd}");
}

#[test]
fn rotary_embeddings() {
    let model = |shape: &[i64], inputs: &str, attributes| {
        single(21, "RotaryEmbedding", shape, inputs, attributes)
            .initializer(float_tensor("c", &[1, 1, 2], &[0.5, 2.0]))
            .initializer(float_tensor("s", &[1, 1, 2], &[3.0, 4.0]))
            .initializer(float_tensor("table", &[3, 1], &[9.0, 9.0, 0.5]))
            .initializer(integer_tensor("ids", &[1, 1], &[2]))
    };
    // Halves (1, 2) and (3, 4); neighbours (1, 2) and (3, 4).
    let halves = [0.5 - 9.0, 4.0 - 16.0, 3.0 + 1.5, 8.0 + 8.0];
    close(&model(&[1, 1, 1, 4], "x c s", vec![]), &halves);
    let neighbours = [0.5 - 6.0, 3.0 + 1.0, 6.0 - 16.0, 12.0 + 8.0];
    close(&model(&[1, 1, 1, 4], "x c s", vec![int("interleaved", 1)]), &neighbours);
    let part = vec![int("rotary_embedding_dim", 2), int("num_heads", 1)];
    close(&model(&[1, 1, 4], "x table table ids", part), &[0.5 - 1.0, 0.5 + 1.0, 3.0, 4.0]);
    let odd = model(&[1, 1, 1, 4], "x table table ids", vec![]).error();
    assert!(odd.contains("`cos_cache` has the shape [1, 1, 1]"), "{odd}");
}

#[test]
fn hardmax() {
    let model = |opset, attributes| {
        Model::new(opset)
            .input("x", &[2, 2, 2])
            .initializer(float_tensor("w", &[2, 2, 2], &[0.0, 0.0, 5.0, 0.0, -3.0, 0.0, 0.0, -1.0]))
            .node("Mul", "x w", "z", vec![])
            .node("Hardmax", "z", "y", attributes)
            .output("y")
    };
    // Products 0 0 15 0, -15 0 0 -8.
    close(&model(13, vec![]), &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    close(&model(13, vec![int("axis", 1)]), &[0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    close(&model(11, vec![]), &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn rows_by_indices() {
    let model =
        |inputs: &str, axis, shape: &[i64]| {
            single(13, "Gather", shape, inputs, vec![int("axis", axis)])
                .initializer(integer_tensor("i", &[3], &[2, 0, -1]))
        };
    close(&model("x i", 0, &[3, 2]), &[5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    close(&model("x i", 1, &[2, 3]), &[3.0, 1.0, 3.0, 6.0, 4.0, 6.0]);
    assert_eq!(only(&model("x i", 1, &[2, 3])), (Op::Take { axis: 1 }, vec![2, 3]));
    let mut flowing = model("x n", 1, &[2, 3]);
    let dims = vec![dimension(2)];
    flowing.graph().input.push(port("n", DataType::Int64, dims));
    // Indices 1 and 2.
    close(&flowing, &[2.0, 3.0, 5.0, 6.0]);
    assert!(model("x i", 0, &[2, 2]).error().contains("outside axis 0 with its 2 entries"));
}
