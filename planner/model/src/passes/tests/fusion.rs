//! What is fused into what, and what is not.

use super::*;
use crate::network::Weights;
use eyelet::pack::{Activation, ActivationKind, NONE, PoolParams, params};

fn function(network: &Network, layer: usize) -> ActivationKind {
    network.layers[layer].activation.function().unwrap()
}

fn clip6() -> Op {
    Op::Clip { min: 0.0, max: 6.0 }
}

#[test]
fn conv_batch_norm_relu_is_one_layer() {
    let (mut net, x) = Net::input(&[1, 3, 7, 6]);
    let y = net.conv3(x, 10);
    let y = net.batch_norm(y);
    let y = net.relu(y);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::Copy, OpKind::Conv, OpKind::Copy]);
    assert_eq!(function(&network, 1), ActivationKind::Clamp);
    assert!(matches!(&network.weights[1], Weights::Dense(dense) if dense.scale.is_some()));
}

#[test]
fn batch_norm_of_a_value_with_other_readers_is_depthwise() {
    let (mut net, x) = Net::input(&[2, 3, 5, 4]);
    let y = net.conv1(x, 9);
    let n = net.batch_norm(y);
    let n = net.same(clip6(), &[n]);
    let y = net.concat(&[y, n], 1);
    let network = net.check(y);
    let expected = [OpKind::Copy, OpKind::Conv, OpKind::Depthwise, OpKind::Copy];
    assert_eq!(kinds(&network), expected);
    assert_eq!(function(&network, 2), ActivationKind::Clamp);
}

/// Panels hold several groups where these are small, as many channels in as out, and divide a panel.
#[test]
fn small_groups_share_panels() {
    for (channels, outputs, groups, kind) in [
        (20, 20, 5, OpKind::Depthwise),
        (16, 16, 8, OpKind::Depthwise),
        (12, 12, 4, OpKind::Conv),
        (16, 32, 4, OpKind::Conv),
        (32, 16, 4, OpKind::Conv),
        (4, 4, 1, OpKind::Conv),
        (16, 16, 2, OpKind::Conv),
    ] {
        let (mut net, x) = Net::input(&[1, channels, 7, 6]);
        let y = net.conv(x, outputs, window(3, 1, 1), groups);
        let y = net.batch_norm(y);
        let network = net.check(y);
        assert_eq!(network.isa, Isa::Portable);
        assert_eq!(kinds(&network), [OpKind::Copy, kind, OpKind::Copy]);
    }
    // Where sums are cut depends on no panel.
    for (taps, kind) in [(15, OpKind::Depthwise), (17, OpKind::Conv)] {
        let (mut net, x) = Net::input(&[1, 20, 7, 6]);
        let y = net.conv(x, 20, window(taps, 1, taps / 2), 5);
        let network = net.check(y);
        assert_eq!(kinds(&network), [OpKind::Copy, kind, OpKind::Copy]);
    }
}

#[test]
fn the_residual_joins_the_later_producer_in_place() {
    let (mut net, x) = Net::input(&[1, 8, 6, 6]);
    let a = net.conv1(x, 8);
    let b = net.conv3(a, 8);
    let b = net.batch_norm(b);
    let y = net.node(Op::Add, &[a, b], &[1, 8, 6, 6]);
    let y = net.relu(y);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::Copy, OpKind::Conv, OpKind::Conv, OpKind::Copy]);
    // a is read by b as data too, so the sum cannot be written over it
    assert_ne!(network.layers[2].inputs[1], NONE);
    assert_ne!(network.layers[2].inputs[1], network.layers[2].output);

    let (mut net, x) = Net::input(&[1, 8, 6, 6]);
    let a = net.conv1(x, 8);
    let b = net.conv3(a, 4);
    let b = net.conv3(b, 8);
    let y = net.node(Op::Add, &[a, b], &[1, 8, 6, 6]);
    let y = net.relu(y);
    let network = net.check(y);
    assert_eq!(network.layers[3].inputs[1], network.layers[3].output);
    assert_eq!(function(&network, 3), ActivationKind::Clamp);
}

#[test]
fn gates_become_silu_and_hard_swish() {
    for (op, expected) in [
        (Op::Sigmoid, ActivationKind::Silu),
        (Op::HardSigmoid { alpha: 1.0 / 6.0, beta: 0.5 }, ActivationKind::HardSwish),
    ] {
        let (mut net, x) = Net::input(&[1, 3, 4, 5]);
        let y = net.conv1(x, 8);
        let gate = net.same(op, &[y]);
        let y = net.same(Op::Mul, &[y, gate]);
        let network = net.check(y);
        assert_eq!(kinds(&network), [OpKind::Copy, OpKind::Conv, OpKind::Copy]);
        assert_eq!(function(&network, 1), expected);
    }
    // another slope is another function
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let y = net.conv1(x, 8);
    let gate = net.same(Op::HardSigmoid { alpha: 0.2, beta: 0.5 }, &[y]);
    let y = net.same(Op::Mul, &[y, gate]);
    let network = net.check(y);
    assert_eq!(kinds(&network)[1..4], [OpKind::Conv, OpKind::Unary, OpKind::Binary]);
    // the product is written over one of its operands
    assert!(network.layers[3].inputs.contains(&network.layers[3].output));
}

#[test]
fn squeeze_and_excitation_broadcasts() {
    let (mut net, x) = Net::input(&[1, 8, 5, 5]);
    let x = net.conv1(x, 8);
    let s = net.node(Op::GlobalAveragePool, &[x], &[1, 8, 1, 1]);
    let s = net.conv1(s, 8);
    let s = net.same(Op::Sigmoid, &[s]);
    let y = net.same(Op::Mul, &[x, s]);
    let y = net.conv1(y, 4);
    let network = net.check(y);
    use OpKind::*;
    assert_eq!(kinds(&network), [Copy, Conv, Pool, Conv, Binary, Conv, Copy]);
    assert_eq!(network.layers[4].inputs[0], network.layers[4].output);
}

#[test]
fn constants_per_channel_fold_into_the_convolution() {
    for op in [Op::Add, Op::Sub, Op::Mul, Op::Div] {
        for shape in [&[1, 7, 1, 1][..], &[7, 1, 1], &[]] {
            for reversed in [false, true] {
                let (mut net, x) = Net::input(&[1, 3, 4, 5]);
                let y = net.conv1(x, 7);
                let c = net.positive(shape);
                let inputs = if reversed { [c, y] } else { [y, c] };
                let shape = net.shape(y);
                let y = net.node(op.clone(), &inputs, &shape);
                let network = net.check(y);
                let folded = !(reversed && op == Op::Div);
                assert_eq!(kinds(&network).len(), if folded { 3 } else { 4 });
            }
        }
    }
}

#[test]
fn normalised_inputs_and_constants_of_all_shapes() {
    for shape in [&[1, 3, 1, 1][..], &[3, 1, 1], &[5], &[4, 1], &[1, 1, 4, 5], &[1, 3, 4, 5], &[1]]
    {
        for op in [Op::Sub, Op::Mul, Op::PRelu] {
            let (mut net, x) = Net::input(&[2, 3, 4, 5]);
            let c = net.positive(shape);
            let y = net.same(op.clone(), &[x, c]);
            let image = net.conv1(y, 6);
            let c = net.constant(&[6, 4, 5]);
            let image = net.same(Op::Div, &[image, c]);
            let y = net.conv1(image, 2);
            net.check(y);
        }
    }
}

#[test]
fn padding_joins_convolutions_and_pools() {
    let pad = |value| Op::Pad { begin: vec![0, 0, 1, 0], end: vec![0, 0, 2, 1], value };
    let average = |include| Op::AveragePool {
        window: window(3, 1, 0),
        ceil: false,
        count_include_pad: include,
    };
    let max = || Op::MaxPool { window: window(3, 1, 0), ceil: false };
    let padded = [1, 4, 9, 8];
    for (op, value, joins) in [
        (None, 0.0, true),
        (None, 1.0, false),
        (Some(average(false)), 0.0, true),
        (Some(average(true)), 0.0, true),
        (Some(max()), f32::NEG_INFINITY, true),
        (Some(max()), 0.0, false),
    ] {
        let (mut net, x) = Net::input(&[1, 4, 6, 7]);
        let x = net.conv1(x, 4);
        let y = net.node(pad(value), &[x], &padded);
        let pool = op.is_some();
        let y = match op {
            None => net.conv(y, 5, window(3, 1, 0), 1),
            Some(op) => net.node(op, &[y], &[1, 4, 7, 6]),
        };
        let network = net.check(y);
        assert_eq!(network.layers.len(), if joins { 4 } else { 5 });
        if joins && pool {
            let p: PoolParams = params(&network.layers[2]);
            assert_eq!((p.pad, p.pad_end), ([1, 0], [2, 1]));
        }
    }
}

#[test]
fn activations_after_pools_stay() {
    let (mut net, x) = Net::input(&[1, 4, 6, 6]);
    let y = net.node(Op::MaxPool { window: window(2, 2, 0), ceil: false }, &[x], &[1, 4, 3, 3]);
    let y = net.same(Op::Tanh, &[y]);
    let y = net.same(Op::LeakyRelu { alpha: 0.1 }, &[y]);
    let network = net.check(y);
    use OpKind::*;
    assert_eq!(kinds(&network), [Copy, Pool, Unary, Unary, Copy]);
    assert_eq!(network.layers[2].inputs[0], network.layers[2].output);
}

/// Quantisation joins what comes before it, with a clamp between them, and is done once where values are only moved.
#[test]
fn quantisation_joins_and_is_done_once() {
    let fake = |scale: f32| Op::Quantise { scale, low: -128, high: 127, fake: true };
    let (mut net, x) = Net::input(&[1, 3, 8, 8]);
    let y = net.conv1(x, 8);
    let y = net.same(Op::Clip { min: 0.0, max: 0.6 }, &[y]);
    let y = net.same(fake(0.25), &[y]);
    let network = net.check(y);
    let joined = network.layers.iter().find(|layer| layer.kind == OpKind::Conv as u32).unwrap();
    assert_eq!(joined.activation, Activation::quantise(0.25, [0, 2], true));

    for (second, layers) in [(0.25, 0), (0.5, 1)] {
        let (mut net, x) = Net::input(&[1, 3, 8, 8]);
        let y = net.same(fake(0.25), &[x]);
        let y = net.node(Op::Transpose { perm: vec![0, 2, 3, 1] }, &[y], &[1, 8, 8, 3]);
        let y = net.same(fake(second), &[y]);
        let network = net.check(y);
        let functions = network.layers.iter().filter(|l| l.activation.kind != 0).count();
        assert_eq!(functions, 1 + layers);
    }
}

/// Functions that all operators have join what comes before them; the others stay.
#[test]
fn functions_of_one_tensor() {
    for op in [
        Op::Exp,
        Op::Elu { alpha: 0.7, beta: 1.1 },
        Op::Softplus,
        Op::Mish,
        Op::Swish { alpha: 1.7 },
        Op::Log,
        Op::Abs,
        Op::Floor,
        Op::Ceil,
        Op::Round,
        Op::Sign,
        Op::Softsign,
        Op::Shrink { lambda: 0.5, bias: 0.25 },
        Op::ThresholdedRelu { alpha: 0.25 },
    ] {
        let (mut net, x) = Net::input(&[1, 3, 4, 5]);
        let y = net.conv1(x, 8);
        let y = if op == Op::Log { net.same(Op::Exp, &[y]) } else { y };
        let y = net.same(op.clone(), &[y]);
        let network = net.check(y);
        let joined = function(&network, 1).fuses() && kinds(&network).len() == 3;
        let fuses = matches!(op, Op::Exp | Op::Elu { .. } | Op::Softplus | Op::Mish)
            || matches!(op, Op::Swish { .. });
        assert_eq!(joined, fuses, "{op:?}");
    }
    // Rounded numbers differ from the reference's near a step, and these functions have poles.
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let y = net.conv1(x, 8);
    let mut y = net.with(Op::Mul, y, 0.3);
    for op in [Op::Sin, Op::Cos, Op::Tan, Op::Atan, Op::Sinh, Op::Asinh, Op::Cosh, Op::Acosh] {
        y = net.same(op, &[y]);
    }
    net.output(y);
    let error = lower(&net.graph, Isa::Cuda).unwrap_err().to_string();
    assert!(error.contains("GPUs do not compute Sin; plan for a board without one"), "{error}");
    lower(&net.graph, Isa::Avx2).unwrap();
}

#[test]
fn arithmetic_that_processors_alone_compute() {
    for op in [Op::Max, Op::Min, Op::Pow, Op::Mod] {
        for constant in [false, true] {
            let (mut net, x) = Net::input(&[1, 3, 4, 5]);
            let x = net.same(Op::Exp, &[x]);
            let other = if constant { net.positive(&[5]) } else { net.same(Op::Exp, &[x]) };
            let y = net.same(op.clone(), &[x, other]);
            net.output(y);
            let wide = matches!(op, Op::Pow | Op::Mod);
            assert_eq!(lower(&net.graph, Isa::Cuda).is_err(), wide, "{op:?}");
            let network = lower(&net.graph, Isa::Portable).unwrap();
            let inputs = [(0..60).map(|i| f64::from(i) * 0.03 - 0.8).collect::<Vec<f64>>()];
            let [found, expected] = [
                interpret::run(&network, &inputs).swap_remove(0),
                crate::reference::run(&net.graph, &inputs).swap_remove(0),
            ];
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-9, "{op:?}");
            }
        }
    }
}

#[test]
fn gemm_in_all_forms() {
    for bits in 0..16 {
        let [ta, tb, bias, both] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
        let (mut net, x) = Net::input(if ta { &[7, 3] } else { &[3, 7] });
        let shape = if tb { [5, 7] } else { [7, 5] };
        let w = if both { net.add_input(&shape) } else { net.constant(&shape) };
        let mut inputs = vec![x, w];
        if bias {
            inputs.push(net.constant(&[5]));
        }
        let op = Op::Gemm { alpha: 0.5, beta: 2.0, trans_a: ta, trans_b: tb };
        let y = net.node(op, &inputs, &[3, 5]);
        let network = net.check(y);
        if !both && !ta {
            assert_eq!(kinds(&network), [OpKind::Conv]);
        }
        // a constant left operand
        let (mut net, x) = Net::input(if tb { &[5, 7] } else { &[7, 5] });
        let w = net.constant(if ta { &[7, 3] } else { &[3, 7] });
        let c = net.constant(&[3, 5]);
        let op = Op::Gemm { alpha: 0.5, beta: 2.0, trans_a: ta, trans_b: tb };
        let y = net.node(op, &[w, x, c], &[3, 5]);
        net.check(y);
    }
}

#[test]
fn a_linear_layer_of_a_transformer_is_one_layer() {
    let (mut net, x) = Net::input(&[1, 9, 12]);
    let (w, b) = (net.constant(&[12, 20]), net.constant(&[20]));
    let y = net.node(Op::MatMul, &[x, w], &[1, 9, 20]);
    let y = net.node(Op::Add, &[b, y], &[1, 9, 20]);
    let z = net.constant(&[20, 12]);
    let y = net.node(Op::MatMul, &[y, z], &[1, 9, 12]);
    let y = net.same(Op::Add, &[x, y]);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::Conv, OpKind::Conv]);
    assert_ne!(network.layers[1].inputs[1], NONE);
    assert_eq!(output_of(&network, 0).dims, [1, 1, 9, 20]);
}

#[test]
fn a_class_token_and_position_embedding_cost_one_copy_and_one_sum() {
    let (mut net, x) = Net::input(&[1, 6, 8]);
    let token = net.constant(&[1, 1, 8]);
    let y = net.concat(&[token, x], 1);
    let position = net.constant(&[1, 7, 8]);
    let y = net.same(Op::Add, &[y, position]);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::Copy, OpKind::Binary]);

    let (mut net, x) = Net::input(&[1, 3, 4, 4]);
    let parts = [net.constant(&[1, 1, 4, 4]), x, net.constant(&[1, 2, 4, 4]), net.conv1(x, 2)];
    let y = net.concat(&[parts[0], parts[1], parts[2], parts[3]], 1);
    net.check(y);
}

#[test]
fn unread_layers_disappear_and_errors_name_the_node() {
    let (mut net, x) = Net::input(&[1, 4, 4, 4]);
    net.conv1(x, 8);
    let y = net.conv1(x, 3);
    assert_eq!(net.clone().check(y).layers.len(), 3);

    let (mut net, x) = Net::input(&[1, 4, 4, 4]);
    let w = net.add_input(&[2, 4, 1, 1]);
    let y = net.node(Op::Conv { window: window(1, 1, 0), groups: 1 }, &[x, w], &[1, 2, 4, 4]);
    net.output(y);
    let error = lower(&net.graph, Isa::Portable).unwrap_err().to_string();
    assert_eq!(error, "node n0: its weights are not constant; export them as initializers");
}
