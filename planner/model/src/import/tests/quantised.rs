//! Quantised models: integers stay integers, and what flows is what integers would be.

use super::*;
use crate::graph::{Constant, Quantised};

/// A tensor of integers of a type.
fn integers(name: &str, kind: DataType, dims: &[i64], data: &[i64]) -> TensorProto {
    let int32_data = data.iter().map(|&value| value as i32).collect();
    let data_type = kind as i32;
    TensorProto {
        name: name.into(),
        dims: dims.into(),
        data_type,
        int32_data,
        ..Default::default()
    }
}

fn scales(name: &str, data: &[f32]) -> TensorProto {
    let dims = if data.len() == 1 { vec![] } else { vec![data.len() as i64] };
    float_tensor(name, &dims, data)
}

/// Integers of 8 bits from a small generator, as many as a shape has.
fn eight(kind: DataType, dims: &[i64], seed: i64) -> Vec<i64> {
    let count: i64 = dims.iter().product();
    let low = if kind == DataType::Int8 { -128 } else { 0 };
    (0..count).map(|at| low + (at * 37 + seed * 11 + at * at % 19) % 256).collect()
}

/// The only constant of 8 bits.
fn stored(graph: &Graph) -> Quantised {
    let mut found = graph.values.iter().filter_map(|value| match &value.constant {
        Some(Constant::Quantised(data)) => Some((**data).clone()),
        _ => None,
    });
    let one = found.next().expect("a constant of 8 bits");
    assert!(found.next().is_none());
    one
}

#[test]
fn constants_stay_integers_of_8_bits() {
    use DataType::{Int8, Uint8};
    let dims = [6, 4, 3, 3];
    for (kind, scale, zero) in [
        (Int8, vec![0.5], vec![3]),
        (Uint8, vec![0.25], vec![200]),
        (Int8, vec![0.5, 0.25, 1.0, 2.0, 0.1, 0.3], vec![0, 1, -1, 127, -128, 5]),
        (Uint8, vec![0.5, 0.25, 1.0, 2.0, 0.1, 0.3], vec![0, 1, 128, 127, 255, 5]),
    ] {
        let data = eight(kind, &dims, 1);
        let zero_dims = if zero.len() == 1 { vec![] } else { vec![zero.len() as i64] };
        let model = Model::new(13)
            .input("x", &[1, 4, 5, 5])
            .initializer(integers("q", kind, &dims, &data))
            .initializer(scales("s", &scale))
            .initializer(integers("z", kind, &zero_dims, &zero))
            .node("DequantizeLinear", "q s z", "w", vec![int("axis", 0)])
            .node("Conv", "x w", "y", vec![])
            .output("y");
        let found = stored(&model.import());
        for (at, &q) in data.iter().enumerate() {
            let channel = if scale.len() == 1 { 0 } else { at / 36 };
            let wanted = (q - zero[channel]) as f32 * scale[channel];
            assert_eq!(found.get(at).to_bits(), wanted.to_bits(), "{kind:?} {at}");
        }
    }
}

/// Along any axis; in blocks, as 32 bits or in half precision they become floats.
#[test]
fn other_constants_become_what_they_stand_for() {
    use DataType::{Int8, Int32};
    let dims = [4, 6];
    let data = eight(Int8, &dims, 2);
    for (axis, block, count) in [(0, 0, 4), (1, 0, 6), (-1, 0, 6), (0, 2, 12), (1, 3, 8), (1, 4, 8)]
    {
        let scale: Vec<f32> = (0..count).map(|at| 0.1 + at as f32).collect();
        let shape: Vec<i64> = match (axis, block) {
            (_, 0) => vec![count],
            (0, _) => vec![2, 6],
            _ => vec![4, 2],
        };
        let mut attributes = vec![int("axis", axis)];
        attributes.extend((block != 0).then(|| int("block_size", block)));
        let model = Model::new(21)
            .input("x", &[1])
            .initializer(integers("q", Int8, &dims, &data))
            .initializer(float_tensor("s", &shape, &scale))
            .node("DequantizeLinear", "q s", "w", attributes)
            .node("Add", "x w", "y", vec![])
            .output("y");
        let wanted = data.iter().enumerate().map(|(at, &q)| {
            let [row, col] = [at / 6, at % 6];
            let place = match (axis, block) {
                (0, 0) => row,
                (_, 0) => col,
                (0, block) => row / block as usize * 6 + col,
                (_, block) => row * 2 + col / block as usize,
            };
            f64::from(q as f32 * scale[place]) + 1.0
        });
        let wanted: Vec<f64> = wanted.collect();
        assert_eq!(model.run(), wanted, "axis {axis}, blocks of {block}");
    }
    let bias = integers("q", Int32, &[3], &[1 << 25, -(1 << 30) - 1, 7]);
    let model = Model::new(13)
        .input("x", &[1])
        .initializer(bias)
        .initializer(scales("s", &[1e-3]))
        .node("DequantizeLinear", "q s", "w", vec![])
        .node("Mul", "x w", "y", vec![])
        .output("y");
    let wanted = [1 << 25, -(1 << 30) - 1, 7].map(|q| f64::from(q as f32 * 1e-3));
    assert_eq!(model.run(), wanted);
}

#[test]
fn quantisation_and_back_is_one_function() {
    let model = Model::new(13)
        .input("x", &[1, 2, 4, 4])
        .initializer(scales("s", &[0.5]))
        .initializer(integers("z", DataType::Uint8, &[], &[10]))
        .node("QuantizeLinear", "x s z", "q", vec![])
        .node("DequantizeLinear", "q s z", "y", vec![])
        .output("y");
    let op = Op::Quantise { scale: 0.5, low: -10, high: 245, fake: true };
    assert_eq!(only(&model), (op, vec![1, 2, 4, 4]));

    // Integers that are moved between are never made, and each reader gets the same floats.
    let model = Model::new(13)
        .input("x", &[1, 2, 4, 4])
        .initializer(scales("s", &[0.5]))
        .initializer(integers("z", DataType::Uint8, &[], &[10]))
        .node("QuantizeLinear", "x s z", "q", vec![])
        .node("MaxPool", "q", "p", vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])])
        .node("Transpose", "p", "t", vec![ints("perm", &[0, 2, 3, 1])])
        .node("DequantizeLinear", "t s z", "a", vec![])
        .node("DequantizeLinear", "t s z", "b", vec![])
        .node("Mul", "a b", "y", vec![])
        .output("y");
    let graph = model.import();
    let ops: Vec<String> = graph.nodes.iter().map(|node| format!("{:?}", node.op)).collect();
    assert_eq!(graph.nodes.len(), 4, "{ops:?}");
    let real = |x: f64| ((x / 0.5).round_ties_even() + 10.0).clamp(0.0, 255.0) * 0.5 - 5.0;
    let largest = |channel: usize, row: usize, col: usize| {
        real((channel * 16 + (2 * row + 1) * 4 + 2 * col + 2) as f64)
    };
    let wanted: Vec<f64> = (0..8).map(|at| largest(at % 2, at / 4, at / 2 % 2).powi(2)).collect();
    assert_eq!(model.run(), wanted);
}

/// Integers as outputs, of all types, and what reads them with other numbers.
#[test]
fn integers_flow_as_floats_that_are_equal() {
    use DataType::{Int8, Int16, Uint8, Uint16};
    for (kind, zero, low, high) in [
        (Uint8, 128, 0, 255),
        (Int8, -3, -128, 127),
        (Int16, 100, -32768, 32767),
        (Uint16, 30000, 0, 65535),
    ] {
        let model = Model::new(21)
            .input("x", &[2, 100])
            .initializer(scales("s", &[0.75]))
            .initializer(integers("z", kind, &[], &[zero]))
            .node("QuantizeLinear", "x s z", "q", vec![])
            .output("q");
        let whole = |x: i64| ((x as f64 / 0.75).round_ties_even() as i64 + zero).clamp(low, high);
        let wanted: Vec<f64> = (1..=200).map(|x| whole(x) as f64).collect();
        assert_eq!(model.run(), wanted, "{kind:?}");
        let model =
            model.initializer(scales("t", &[2.0])).node("DequantizeLinear", "q t z", "y", vec![]);
        let mut model = model.output("y");
        model.graph().output.remove(0);
        let wanted: Vec<f64> = wanted.iter().map(|q| (q - zero as f64) * 2.0).collect();
        assert_eq!(model.run(), wanted, "{kind:?}");
    }
}

/// Of a constant the integers are known when it is read.
#[test]
fn constants_are_quantised_while_they_are_read() {
    let model = Model::new(13)
        .input("x", &[1, 2, 3, 3])
        .weights("f", &[3, 2, 1, 1])
        .initializer(scales("s", &[0.25]))
        .initializer(integers("z", DataType::Int8, &[], &[1]))
        .node("QuantizeLinear", "f s z", "q", vec![])
        .node("DequantizeLinear", "q s z", "w", vec![])
        .node("Conv", "x w", "y", vec![])
        .output("y");
    let found = stored(&model.import());
    let bytes: Vec<i8> = found.data.iter().map(|byte| *byte as i8).collect();
    assert_eq!(bytes, [-3, -2, -1, 0, 1, 2]);
}

/// Convolution of integers as it is defined, requantised in double precision.
#[test]
fn convolution_of_integers_is_off_by_a_quantum_at_most() {
    use DataType::{Int8, Int32, Uint8};
    let (x_dims, w_dims) = ([1, 3, 6, 6], [5, 3, 3, 3]);
    let w = eight(Int8, &w_dims, 3);
    let scale_w = [0.01, 0.02, 0.005, 0.03, 0.011];
    let bias = [100, -2000, 0, 77, 12345];
    let model = Model::new(13)
        .input("f", &x_dims)
        .initializer(scales("xs", &[0.7]))
        .initializer(integers("xz", Uint8, &[], &[9]))
        .initializer(integers("w", Int8, &w_dims, &w))
        .initializer(scales("ws", &scale_w))
        .initializer(integers("wz", Int8, &[5], &[0, 0, 0, 0, 0]))
        .initializer(scales("ys", &[1.9]))
        .initializer(integers("yz", Uint8, &[], &[120]))
        .initializer(integers("b", Int32, &[5], &bias))
        .node("QuantizeLinear", "f xs xz", "x", vec![])
        .node("QLinearConv", "x xs xz w ws wz ys yz b", "y", vec![])
        .output("y");
    let x: Vec<i64> = (1..=108)
        .map(|at| ((at as f32 / 0.7).round_ties_even() as i64 + 9).clamp(0, 255))
        .collect();
    let mut wanted = vec![];
    for (o, row, col) in (0..80).map(|at| (at / 16, at / 4 % 4, at % 4)) {
        let mut sum = bias[o];
        for (c, i, j) in (0..27).map(|at| (at / 9, at / 3 % 3, at % 3)) {
            sum += (x[c * 36 + (row + i) * 6 + col + j] - 9) * w[o * 27 + c * 9 + i * 3 + j];
        }
        let real = sum as f64 * 0.7f32 as f64 * f64::from(scale_w[o]) / 1.9f32 as f64;
        wanted.push((real.round_ties_even() + 120.0).clamp(0.0, 255.0));
    }
    let found = model.run();
    let off = found.iter().zip(&wanted).filter(|(a, b)| a != b).count();
    let close = found.iter().zip(&wanted).all(|(a, b)| (a - b).abs() <= 1.0);
    assert!(close && off <= 2, "{off} of {}", found.len());
    assert!(wanted.iter().any(|q| *q != 0.0 && *q != 255.0));
}

/// Sums of integers that floats hold exactly.
#[test]
fn products_of_integers_are_exact() {
    use DataType::{Int8, Uint8};
    let b = eight(Int8, &[4, 3], 5);
    let model = Model::new(13)
        .input("f", &[2, 4])
        .initializer(scales("s", &[1.0]))
        .initializer(integers("z", Uint8, &[], &[3]))
        .initializer(integers("b", Int8, &[4, 3], &b))
        .initializer(integers("bz", Int8, &[], &[-5]))
        .node("QuantizeLinear", "f s z", "q", vec![])
        .node("MatMulInteger", "q b z bz", "y", vec![])
        .output("y");
    let product = |at: usize| {
        let terms = (0..4).map(|k| (at / 3 * 4 + k + 1) as i64 * (b[k * 3 + at % 3] + 5));
        terms.sum::<i64>() as f64
    };
    assert_eq!(model.run(), (0..6).map(product).collect::<Vec<f64>>());
}

/// Scale and zero of the tensor itself, in a product as onnxruntime's quantiser writes it.
#[test]
fn quantisation_by_a_tensors_own_extremes() {
    let b = eight(DataType::Int8, &[4, 3], 7);
    let model = Model::new(13)
        .input("x", &[2, 4])
        .initializer(scales("half", &[3.5]))
        .initializer(integers("b", DataType::Int8, &[4, 3], &b))
        .initializer(integers("bz", DataType::Int8, &[], &[2]))
        .initializer(scales("bs", &[0.125]))
        .node("Sub", "x half", "m", vec![])
        .node("DynamicQuantizeLinear", "m", "q s z", vec![])
        .node("MatMulInteger", "q b z bz", "p", vec![])
        .node("Cast", "p", "f", vec![int("to", 1)])
        .node("Mul", "s bs", "t", vec![])
        .node("Mul", "f t", "y", vec![])
        .output("y");
    // From -2.5 to 4.5.
    let scale = 7f32 / 255.0;
    let zero = (2.5 / scale).round_ties_even();
    let q = |at: usize| ((at as f32 - 2.5) / scale).round_ties_even() + zero;
    let product = |at: usize| {
        let terms =
            (0..4).map(|k| f64::from(q(at / 3 * 4 + k) - zero) * (b[k * 3 + at % 3] - 2) as f64);
        terms.sum::<f64>() * f64::from(scale) * 0.125
    };
    for (at, found) in model.run().into_iter().enumerate() {
        assert!((found - product(at)).abs() < 1e-5, "{at}: {found}, {}", product(at));
    }
}

/// Also nothing but zeros, which have the scale one.
#[test]
fn scales_of_a_tensors_own_extremes() {
    for (data, scale) in
        [([0.0; 3], 1.0), ([-0.5, 0.0, 2.05], 2.55 / 255.0), ([1.0, 5.1, 2.0], 0.02)]
    {
        let graph = Model::new(13)
            .input("x", &[3])
            .node("DynamicQuantizeLinear", "x", "q s z", vec![])
            .output("s")
            .import();
        let found = reference::run(&graph, &[data.to_vec()]).swap_remove(0)[0];
        assert!((found - scale).abs() < 1e-6 * scale, "{found}, not {scale}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    for (dims, attributes, said) in [
        (&[3][..], vec![], "3 scales and 3 zeros of a tensor of shape [4, 6] do not fit"),
        (&[6], vec![int("axis", 2)], "axis 2 is outside"),
        (&[2, 6], vec![int("axis", 0)], "12 scales"),
        (&[2, 6], vec![int("axis", 0), int("block_size", 5)], "12 scales"),
        (&[0], vec![], "0 scales"),
    ] {
        let data = eight(DataType::Int8, &[4, 6], 1);
        let model = Model::new(21)
            .input("x", &[1])
            .initializer(integers("q", DataType::Int8, &[4, 6], &data))
            .weights("s", dims)
            .node("DequantizeLinear", "q s", "w", attributes)
            .node("Add", "x w", "y", vec![])
            .output("y");
        let error = model.error();
        assert!(error.contains(said), "{error}");
    }
}
