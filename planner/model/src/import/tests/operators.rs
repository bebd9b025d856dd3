//! Operators that compute: attributes and shapes in each spelling the opsets have.

use super::*;
use crate::graph::Window;
use eyelet::pack::ReduceOp;

fn window(kernel: [usize; 2], stride: [usize; 2], pads: [usize; 4]) -> Window {
    let [top, left, bottom, right] = pads;
    Window { kernel, stride, dilation: [1, 1], pad_begin: [top, left], pad_end: [bottom, right] }
}

#[test]
fn conv_geometry() {
    let attributes = vec![
        ints("strides", &[2, 1]),
        ints("dilations", &[1, 2]),
        ints("pads", &[1, 0, 2, 3]),
        int("group", 2),
    ];
    let model = single(9, "Conv", &[1, 4, 7, 9], "x w b", attributes);
    let model = model.weights("w", &[6, 2, 3, 2]).weights("b", &[6]);
    let mut expected = window([3, 2], [2, 1], [1, 0, 2, 3]);
    expected.dilation = [1, 2];
    assert_eq!(only(&model), (Op::Conv { window: expected, groups: 2 }, vec![1, 6, 4, 10]));
}

#[test]
fn conv_resolves_auto_pad() {
    for (mode, pads, extents) in [
        ("SAME_UPPER", [1, 0, 1, 1], [4, 4]),
        ("SAME_LOWER", [1, 1, 1, 0], [4, 4]),
        ("VALID", [0, 0, 0, 0], [3, 3]),
        ("NOTSET", [0, 0, 0, 0], [3, 3]),
    ] {
        let attributes = vec![ints("strides", &[2, 2]), string("auto_pad", mode)];
        let model = single(13, "Conv", &[1, 1, 7, 8], "x w", attributes);
        let model = model.weights("w", &[1, 1, 3, 3]);
        let op = Op::Conv { window: window([3, 3], [2, 2], pads), groups: 1 };
        assert_eq!(only(&model), (op, vec![1, 1, extents[0], extents[1]]), "{mode}");
    }
}

#[test]
fn one_dimensional_windows_are_widened() {
    let attributes = vec![ints("strides", &[2]), ints("pads", &[1, 2])];
    let model = single(13, "Conv", &[1, 2, 6], "x w", attributes).weights("w", &[1, 2, 3]);
    let graph = model.import();
    let ops: Vec<&Op> = graph.nodes.iter().map(|node| &node.op).collect();
    let conv = Op::Conv { window: window([1, 3], [1, 2], [0, 1, 0, 2]), groups: 1 };
    assert_eq!(ops, [&Op::Reshape, &conv, &Op::Reshape]);
    assert_eq!(graph.values[graph.outputs[0]].shape, [1, 1, 4]);
    // Taps -1, -.75, -.5 on the first channel, -.25, 0, .25 on the second.
    let expected = [
        -0.75 * 1.0 - 0.5 * 2.0 + 0.25 * 8.0,
        -2.0 - 0.75 * 3.0 - 0.5 * 4.0 - 0.25 * 8.0 + 0.25 * 10.0,
        -4.0 - 0.75 * 5.0 - 0.5 * 6.0 - 0.25 * 10.0 + 0.25 * 12.0,
        -6.0 - 0.25 * 12.0,
    ];
    assert_eq!(model.run(), expected);

    let attributes = vec![ints("kernel_shape", &[2]), ints("strides", &[2])];
    assert_eq!(single(13, "MaxPool", &[1, 1, 4], "x", attributes).run(), [2.0, 4.0]);
}

#[test]
fn pooling_drops_a_last_window_in_the_padding() {
    for (opset, extent, ceil, expected) in
        [(10, 5, 0, 2), (12, 5, 1, 2), (13, 6, 1, 3), (13, 7, 1, 3), (21, 7, 0, 3)]
    {
        let attributes = vec![
            ints("kernel_shape", &[2, 2]),
            ints("strides", &[3, 3]),
            ints("pads", &[1, 1, 1, 1]),
            int("ceil_mode", ceil),
        ];
        let model = single(opset, "MaxPool", &[1, 1, extent, extent], "x", attributes.clone());
        let op = Op::MaxPool { window: window([2, 2], [3, 3], [1; 4]), ceil: ceil == 1 };
        assert_eq!(only(&model), (op, vec![1, 1, expected, expected]), "{extent} {ceil}");
        let model = single(opset, "AveragePool", &[1, 1, extent, extent], "x", attributes);
        assert_eq!(only(&model).1, [1, 1, expected, expected]);
    }
}

/// With `ceil_mode` a window may be larger than the padded input; the positions are never none.
#[test]
fn a_last_window_may_be_the_only_one() {
    for (operator, ceil, stride) in
        [("MaxPool", 1, 2), ("AveragePool", 1, 2), ("MaxPool", 0, 2), ("MaxPool", 1, 1)]
    {
        let attributes = vec![
            ints("kernel_shape", &[2, 2]),
            ints("strides", &[stride, stride]),
            int("ceil_mode", ceil),
        ];
        let model = single(17, operator, &[1, 2, 1, 1], "x", attributes);
        match (ceil, stride) {
            (1, 2) => assert_eq!(model.run(), [1.0, 2.0]),
            _ => assert!(model.error().contains("reaches over 2 positions"), "{}", model.error()),
        }
    }
}

#[test]
fn average_pool_counts() {
    let attributes = |include| {
        vec![
            ints("kernel_shape", &[1, 3]),
            ints("strides", &[1, 2]),
            ints("pads", &[0, 1, 0, 1]),
            int("ceil_mode", 1),
            int("count_include_pad", include),
        ]
    };
    // Windows over [pad 1 2], [2 3 4], [4 pad (beyond)].
    let model = single(11, "AveragePool", &[1, 1, 1, 4], "x", attributes(0));
    assert_eq!(model.run(), [1.5, 3.0, 4.0]);
    let model = single(19, "AveragePool", &[1, 1, 1, 4], "x", attributes(1));
    assert_eq!(model.run(), [1.0, 3.0, 2.0]);
}

#[test]
fn global_average() {
    let model = single(9, "GlobalAveragePool", &[1, 2, 1, 2], "x", vec![]);
    assert_eq!(only(&model), (Op::GlobalAveragePool, vec![1, 2, 1, 1]));
    assert_eq!(model.run(), [1.5, 3.5]);
    let model = single(9, "GlobalAveragePool", &[1, 2, 2], "x", vec![]);
    assert_eq!(
        only(&model),
        (Op::Reduce { op: ReduceOp::Mean, axes: vec![2], keep: true }, vec![1, 2, 1])
    );
}

#[test]
fn functions() {
    let clip = |min, max| Op::Clip { min, max };
    for (opset, operator, inputs, attributes, expected) in [
        (9, "Relu", "x", vec![], clip(0.0, f32::INFINITY)),
        (9, "Clip", "x", vec![float("max", 6.0)], clip(f32::MIN, 6.0)),
        (10, "Clip", "x", vec![float("min", 0.0), float("max", 6.0)], clip(0.0, 6.0)),
        (11, "Clip", "x low high", vec![], clip(-2.0, 3.0)),
        (13, "Clip", "x - high", vec![], clip(f32::MIN, 3.0)),
        (21, "Clip", "x low", vec![], clip(-2.0, f32::MAX)),
        (9, "Clip", "x", vec![], clip(f32::MIN, f32::MAX)),
        (13, "Clip", "x", vec![], clip(f32::MIN, f32::MAX)),
        (13, "Clip", "x - -", vec![], clip(f32::MIN, f32::MAX)),
        // The lower bound above the upper one, which is then all there is.
        (13, "Clip", "x high low", vec![], clip(3.0, -2.0)),
        (9, "LeakyRelu", "x", vec![], Op::LeakyRelu { alpha: 0.01 }),
        (16, "LeakyRelu", "x", vec![float("alpha", 0.5)], Op::LeakyRelu { alpha: 0.5 }),
        (9, "Sigmoid", "x", vec![], Op::Sigmoid),
        (9, "HardSigmoid", "x", vec![], Op::HardSigmoid { alpha: 0.2, beta: 0.5 }),
        (14, "HardSwish", "x", vec![], Op::HardSwish),
        (9, "Tanh", "x", vec![], Op::Tanh),
        (9, "PRelu", "x slope", vec![], Op::PRelu),
        (13, "Add", "x slope", vec![], Op::Add),
        (13, "Sub", "slope x", vec![], Op::Sub),
        (13, "Mul", "x x", vec![], Op::Mul),
        (13, "Div", "x slope", vec![], Op::Div),
        (13, "Pow", "x two", vec![], Op::Mul),
        (13, "Sum", "x slope", vec![], Op::Add),
        (9, "Elu", "x", vec![], Op::Elu { alpha: 1.0, beta: 1.0 }),
        (9, "Elu", "x", vec![float("alpha", 0.5)], Op::Elu { alpha: 0.5, beta: 1.0 }),
        (
            9,
            "Selu",
            "x",
            vec![float("alpha", 2.0), float("gamma", 3.0)],
            Op::Elu { alpha: 6.0, beta: 3.0 },
        ),
        (12, "Celu", "x", vec![], Op::Elu { alpha: 1.0, beta: 1.0 }),
        (9, "ThresholdedRelu", "x", vec![], Op::ThresholdedRelu { alpha: 1.0 }),
        (9, "Softplus", "x", vec![], Op::Softplus),
        (9, "Softsign", "x", vec![], Op::Softsign),
        (18, "Mish", "x", vec![], Op::Mish),
        (9, "Shrink", "x", vec![float("bias", 1.5)], Op::Shrink { lambda: 0.5, bias: 1.5 }),
        (21, "Swish", "x", vec![float("alpha", 1.5)], Op::Swish { alpha: 1.5 }),
        (9, "Exp", "x", vec![], Op::Exp),
        (9, "Log", "x", vec![], Op::Log),
        (9, "Abs", "x", vec![], Op::Abs),
        (9, "Floor", "x", vec![], Op::Floor),
        (9, "Ceil", "x", vec![], Op::Ceil),
        (11, "Round", "x", vec![], Op::Round),
        (9, "Sign", "x", vec![], Op::Sign),
        (9, "Atanh", "x", vec![], Op::Atanh),
        (13, "Pow", "x slope", vec![], Op::Pow),
        (13, "Mod", "x slope", vec![int("fmod", 1)], Op::Mod),
        (13, "Max", "x slope", vec![], Op::Max),
        (13, "Min", "slope x", vec![], Op::Min),
        (13, "Max", "x high", vec![], clip(3.0, f32::INFINITY)),
        (13, "Min", "high x", vec![], clip(f32::NEG_INFINITY, 3.0)),
    ] {
        let model = single(opset, operator, &[2, 3], inputs, attributes)
            .initializer(float_tensor("low", &[], &[-2.0]))
            .initializer(float_tensor("high", &[1], &[3.0]))
            .initializer(float_tensor("two", &[], &[2.0]))
            .weights("slope", &[3]);
        assert_eq!(only(&model), (expected, vec![2, 3]), "{operator} {opset}");
    }
}

#[test]
fn functions_of_several_nodes() {
    let close = |model: Model, expected: &dyn Fn(f64) -> f64| {
        for (found, x) in model.run().into_iter().zip(1..) {
            let truth = expected(f64::from(x));
            assert!((found - truth).abs() <= 1e-6 * truth.abs(), "{found}, not {truth}");
        }
    };
    let one = |operator, inputs, attributes| {
        single(13, operator, &[4], inputs, attributes)
            .initializer(float_tensor("minus", &[], &[-1.0]))
            .initializer(float_tensor("root", &[1], &[-0.5]))
            .initializer(float_tensor("four", &[], &[4.0]))
            .initializer(float_tensor("third", &[], &[1.0 / 3.0]))
            .initializer(float_tensor("two", &[], &[2.0]))
    };
    close(one("Celu", "x", vec![float("alpha", 2.0)]), &|x| x);
    close(one("Pow", "x minus", vec![]), &|x| 1.0 / x);
    close(one("Pow", "x root", vec![]), &|x| x.powf(-0.5));
    close(one("Pow", "x four", vec![]), &|x| x.powi(4));
    close(one("Pow", "x third", vec![]), &|x| x.powf(f64::from(1.0f32 / 3.0)));
    close(one("Pow", "two x", vec![]), &f64::exp2);
    close(one("Pow", "x x", vec![]), &|x| x.powf(x));
    close(one("Max", "x two four", vec![]), &|x| x.max(4.0));
    close(one("Min", "x two x", vec![]), &|x| x.min(2.0));
}

#[test]
fn batch_normalization() {
    let model = single(9, "BatchNormalization", &[1, 2, 1, 1], "x s b m v", vec![])
        .weights("s", &[2])
        .weights("b", &[2])
        .weights("m", &[2])
        .initializer(float_tensor("v", &[2], &[4.0, 0.25]));
    assert_eq!(only(&model), (Op::BatchNorm { epsilon: 1e-5 }, vec![1, 2, 1, 1]));
    let y = model.run();
    assert!((y[0] - (-1.0 - 2.0 / 2.0)).abs() < 1e-4, "{y:?}");
    assert!((y[1] - (-0.75 - 0.75 * 2.75 / 0.5)).abs() < 1e-3, "{y:?}");
}

/// Before opset 14 more outputs than one mean training.
#[test]
fn batch_normalization_in_training_is_refused() {
    let with = |opset, outputs: &str, attributes| {
        Model::new(opset)
            .input("x", &[2, 2, 1, 1])
            .node("BatchNormalization", "x w w w w", outputs, attributes)
            .weights("w", &[2])
            .output("y")
    };
    for (opset, outputs) in [(9, "y a b c d"), (13, "y - - c"), (9, "y a")] {
        let error = with(opset, outputs, vec![]).error();
        assert!(
            error.contains("it is in training mode; export the model for inference"),
            "{error}"
        );
    }
    with(9, "y - - - -", vec![]).import();
    with(14, "y", vec![]).import();
    assert!(with(15, "y a b", vec![int("training_mode", 1)]).error().contains("training mode"));
}

#[test]
fn softmax_is_flat_before_opset_13() {
    for (opset, attributes, axis, flat) in [
        (9, vec![], 1, true),
        (12, vec![int("axis", -1)], 2, false),
        (12, vec![int("axis", 2)], 2, false),
        (13, vec![], 2, false),
        (13, vec![int("axis", 1)], 1, false),
    ] {
        let model = single(opset, "Softmax", &[2, 3, 4], "x", attributes);
        assert_eq!(only(&model).0, Op::Softmax { axis, flat }, "{opset}");
    }
    let sum: f64 = single(9, "Softmax", &[1, 3, 4], "x", vec![]).run().iter().sum();
    assert!((sum - 1.0).abs() < 1e-12);
    let sum: f64 = single(13, "Softmax", &[1, 3, 4], "x", vec![]).run().iter().sum();
    assert!((sum - 3.0).abs() < 1e-12);
}

#[test]
fn reduce_mean_takes_axes_from_attribute_or_input() {
    let mean = |axes: &[usize], keep| Op::Reduce { op: ReduceOp::Mean, axes: axes.into(), keep };
    let attributes = vec![ints("axes", &[-1, 1]), int("keepdims", 0)];
    let model = single(13, "ReduceMean", &[2, 3, 4], "x", attributes);
    assert_eq!(only(&model), (mean(&[1, 2], false), vec![2]));
    let model = single(18, "ReduceMean", &[2, 3, 4], "x a", vec![]).list("a", &[-1]);
    assert_eq!(only(&model), (mean(&[2], true), vec![2, 3, 1]));
    let model = single(18, "ReduceMean", &[2, 3], "x", vec![]);
    assert_eq!(only(&model), (mean(&[0, 1], true), vec![1, 1]));
    assert_eq!(model.run(), [3.5]);
    let model = single(18, "ReduceMean", &[2, 3], "x", vec![int("noop_with_empty_axes", 1)]);
    assert_eq!(model.run().len(), 6);
}

#[test]
fn lrn() {
    let model = single(13, "LRN", &[1, 3, 1, 1], "x", vec![int("size", 3), float("beta", 1.0)]);
    let op = Op::Lrn { size: 3, alpha: 1e-4, beta: 1.0, bias: 1.0 };
    assert_eq!(only(&model), (op, vec![1, 3, 1, 1]));
    let expected = 2.0 / (1.0 + f64::from(1e-4f32) / 3.0 * 14.0);
    assert_eq!(model.run()[1], expected);
}

#[test]
fn matrix_products() {
    let attributes = vec![int("transB", 1), float("alpha", 2.0), float("beta", 4.0)];
    let model =
        single(11, "Gemm", &[1, 2], "x w c", attributes).weights("w", &[2, 2]).weights("c", &[2]);
    // w = [-1 -.75; -.5 -.25], c = [-1 -.75]
    assert_eq!(model.run(), [-5.0 - 4.0, -2.0 - 3.0]);
    for (a, b, expected) in [
        (vec![3, 4], vec![4, 5], vec![3, 5]),
        (vec![2, 1, 3, 4], vec![6, 4, 5], vec![2, 6, 3, 5]),
        (vec![4], vec![4, 5], vec![5]),
        (vec![2, 4], vec![4], vec![2]),
        (vec![4], vec![3, 4, 2], vec![3, 2]),
        (vec![4], vec![4], vec![]),
    ] {
        let model = single(13, "MatMul", &a, "x z", vec![]).input("z", &b);
        let graph = model.import();
        assert_eq!(graph.values[graph.outputs[0]].shape, expected, "{a:?} {b:?}");
    }
    assert_eq!(single(13, "MatMul", &[2], "x x", vec![]).run(), [5.0]);
}

#[test]
fn dropout_and_casts_vanish() {
    let model = single(9, "Relu", &[2], "x", vec![]);
    let model = model.node("Dropout", "y", "d mask", vec![float("ratio", 0.5)]);
    let model = model.node("Cast", "d", "h", vec![int("to", DataType::Float16 as i64)]);
    let mut model = model.node("Identity", "h", "z", vec![]).output("z");
    model.graph().output.remove(0);
    assert_eq!(only(&model).1, [2]);
    assert_eq!(model.import().values[1].name, "z");
}
