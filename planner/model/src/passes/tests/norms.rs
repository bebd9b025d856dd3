//! Normalisations and reductions, and the nodes that exporters write them as.

use super::*;
use eyelet::pack::{ActivationKind, BinaryOp, BinaryParams, LayerNormParams, ReduceOp, params};

impl Net {
    fn group_norm(&mut self, x: ValueId, groups: usize) -> ValueId {
        let channels = [self.shape(x)[1]];
        let (scale, shift) = (self.constant(&channels), self.constant(&channels));
        self.same(Op::GroupNorm { groups, epsilon: 1e-3 }, &[x, scale, shift])
    }

    /// Group normalisation by reshaping, with scale and shift after it.
    fn reshaped_norm(&mut self, x: ValueId, groups: usize, more: usize) -> ValueId {
        let shape = self.shape(x);
        let length = shape[1..].iter().product::<usize>() / groups;
        let y = self.reshape(x, &[shape[0], groups, length]);
        let ones = self.value(&[groups], Some(vec![1.0; groups]));
        let zeros = self.value(&[groups], Some(vec![0.0; groups]));
        let y = self.same(Op::GroupNorm { groups, epsilon: 1e-3 }, &[y, ones, zeros]);
        let mut y = self.reshape(y, &shape);
        for op in [Op::Mul, Op::Add].into_iter().take(more) {
            let constant = self.constant(&[shape[1], 1, 1]);
            y = self.same(op, &[y, constant]);
        }
        y
    }

    /// `x / √(mean of squares + epsilon)` in five nodes or six.
    fn decomposed_rms(&mut self, x: ValueId, form: usize) -> ValueId {
        let mut shape = self.shape(x);
        let axes = vec![shape.len() - 1];
        *shape.last_mut().unwrap() = 1;
        let square = self.same(Op::Mul, &[x, x]);
        let mean = Op::Reduce { op: ReduceOp::Mean, axes, keep: true };
        let mean = self.node(mean, &[square], &shape);
        let sum = self.with(Op::Add, mean, 1e-3);
        let root = self.same(Op::Sqrt, &[sum]);
        if form == 0 {
            return self.same(Op::Div, &[x, root]);
        }
        let one = self.value(&[], Some(vec![1.0]));
        let inverse = self.node(Op::Div, &[one, root], &shape);
        let (a, b) = if form == 1 { (x, inverse) } else { (inverse, x) };
        let shape = self.shape(x);
        self.node(Op::Mul, &[a, b], &shape)
    }
}

fn operations(network: &Network) -> Vec<BinaryOp> {
    let binary = network.layers.iter().filter(|layer| layer.kind == OpKind::Binary as u32);
    binary.map(|layer| BinaryOp::from_code(params::<BinaryParams>(layer).op).unwrap()).collect()
}

#[test]
fn group_norms_of_all_shapes() {
    for (shape, groups) in [
        (&[1, 6, 5, 4][..], 6),
        (&[2, 6, 5, 4], 3),
        (&[1, 8, 3, 3], 1),
        (&[2, 6, 7], 2),
        (&[1, 4, 1, 1], 2),
        (&[3, 6], 2),
        (&[1, 4, 2, 3, 2], 2),
    ] {
        let (mut net, x) = Net::input(shape);
        let y = net.group_norm(x, groups);
        net.check(y);
        let (mut net, x) = Net::input(shape);
        let y = net.same(Op::GroupNorm { groups, epsilon: 1e-3 }, &[x]);
        let y = net.relu(y);
        net.check(y);
    }
    // Scale and shift that are computed.
    let (mut net, x) = Net::input(&[1, 6, 5, 4]);
    let (scale, shift) = (net.add_input(&[6]), net.add_input(&[6]));
    let y = net.same(Op::GroupNorm { groups: 2, epsilon: 1e-3 }, &[x, scale, shift]);
    net.check(y);
}

/// What is normalised need not be reshaped before, but made by any node, also one that reads a scalar first.
#[test]
fn group_norms_of_a_function_of_a_scalar() {
    let (mut net, x) = Net::input(&[3, 2, 5]);
    let one = net.value(&[], Some(vec![1.0]));
    let y = net.node(Op::Sub, &[one, x], &[3, 2, 5]);
    let y = net.group_norm(y, 2);
    let y = net.reshape(y, &[6, 5]);
    net.check(y);
}

/// An image between convolutions is read as it lies.
#[test]
fn group_norms_copy_no_image() {
    for form in 0..5 {
        let (mut net, x) = Net::input(&[1, 3, 6, 5]);
        let x = net.conv3(x, 8);
        let y = match form {
            0 => net.group_norm(x, 4),
            1 => net.group_norm(x, 8),
            form => net.reshaped_norm(x, 4, form - 2),
        };
        let y = net.relu(y);
        let y = net.conv1(y, 2);
        let network = net.check(y);
        let image = |layer: &eyelet::pack::Layer| {
            let tensor = network.tensors[layer.output as usize];
            layer.kind == OpKind::Copy as u32 && tensor.rows() * u64::from(tensor.cols()) >= 8 * 30
        };
        assert!(!network.layers.iter().any(image), "{form}");
        let scaled = [1, 1, 0, 0, 1][form];
        let added = operations(&network).into_iter().filter(|op| *op == BinaryOp::Add).count();
        assert_eq!(added, 1 + scaled, "{form}: {:?}", operations(&network));
    }
}

/// What reads a part of the chain keeps it.
#[test]
fn a_group_norm_that_others_read_stays_right() {
    let (mut net, x) = Net::input(&[1, 8, 6, 5]);
    let y = net.reshaped_norm(x, 4, 0);
    let constant = net.constant(&[8, 1, 1]);
    let z = net.same(Op::Mul, &[y, constant]);
    net.output(y);
    let w = net.same(Op::Add, &[z, y]);
    net.output(w);
    net.check(z);
    // Numbers that are not one a channel.
    let (mut net, x) = Net::input(&[1, 8, 6, 8]);
    let y = net.reshaped_norm(x, 4, 0);
    let constant = net.constant(&[8]);
    let y = net.same(Op::Mul, &[y, constant]);
    net.check(y);
}

#[test]
fn rms_norm_in_every_form_is_one_layer() {
    for form in 0..4 {
        let (mut net, x) = Net::input(&[2, 5, 12]);
        let y = match form {
            3 => net.same(Op::RmsNorm { axis: 2, epsilon: 1e-3 }, &[x]),
            form => net.decomposed_rms(x, form),
        };
        let scale = net.constant(&[12]);
        let y = net.same(Op::Mul, &[y, scale]);
        let network = net.check(y);
        assert_eq!(kinds(&network), [OpKind::LayerNorm], "{form}");
        assert_eq!(params::<LayerNormParams>(&network.layers[0]).about_zero, 1);
    }
    let (mut net, x) = Net::input(&[3, 4, 5]);
    let scale = net.constant(&[4, 5]);
    let y = net.same(Op::RmsNorm { axis: 1, epsilon: 1e-3 }, &[x, scale]);
    assert_eq!(kinds(&net.check(y)), [OpKind::LayerNorm]);
}

#[test]
fn a_layer_norm_times_the_reciprocal_root_is_one_layer() {
    let (mut net, x) = Net::input(&[2, 5, 12]);
    let mean = |net: &mut Net, x| {
        let op = Op::Reduce { op: ReduceOp::Mean, axes: vec![2], keep: true };
        net.node(op, &[x], &[2, 5, 1])
    };
    let average = mean(&mut net, x);
    let difference = net.same(Op::Sub, &[x, average]);
    let y = net.decomposed_rms(difference, 1);
    let network = net.check(y);
    assert_eq!(kinds(&network), [OpKind::LayerNorm]);
    assert_eq!(params::<LayerNormParams>(&network.layers[0]).about_zero, 0);
}

#[test]
fn reductions_of_all_axes() {
    for op in ReduceOp::ALL {
        for axes in [&[0][..], &[1], &[2], &[3], &[2, 3], &[1, 3], &[0, 2], &[0, 1, 2, 3], &[]] {
            for keep in [true, false] {
                let (mut net, x) = Net::input(&[2, 3, 4, 5]);
                let x = net.conv1(x, 3);
                let mut shape = vec![2, 3, 4, 5];
                axes.iter().for_each(|&axis| shape[axis] = 1);
                if !keep {
                    let kept = (0..4).filter(|axis| !axes.contains(axis));
                    shape = kept.map(|axis| shape[axis]).collect();
                }
                let reduce = Op::Reduce { op, axes: axes.to_vec(), keep };
                let y = net.node(reduce, &[x], &shape);
                let y = net.same(Op::Exp, &[y]);
                net.output(y);
                if !op.on_gpu() && !op.squares() && !axes.is_empty() {
                    let error = lower(&net.graph, Isa::Cuda).unwrap_err().to_string();
                    assert!(error.contains("GPUs do not compute the reduction"), "{error}");
                    lower(&net.graph, Isa::Portable).unwrap();
                } else {
                    net.check_within(1.0);
                }
            }
        }
    }
}

#[test]
fn functions_that_exporters_write_out() {
    let sole = |net: Net, y: ValueId, expected: ActivationKind| {
        let network = net.check(y);
        assert_eq!(kinds(&network), [OpKind::Copy, OpKind::Conv, OpKind::Copy]);
        assert_eq!(network.layers[1].activation.function(), Some(expected));
    };
    let start = || {
        let (mut net, x) = Net::input(&[1, 3, 4, 5]);
        let x = net.conv1(x, 8);
        (net, x)
    };
    let softplus = |net: &mut Net, x: ValueId| {
        let power = net.same(Op::Exp, &[x]);
        let sum = net.with(Op::Add, power, 1.0);
        net.same(Op::Log, &[sum])
    };
    let (mut net, x) = start();
    let y = softplus(&mut net, x);
    sole(net, y, ActivationKind::Softplus);
    for written in [true, false] {
        let (mut net, x) = start();
        let y = if written { softplus(&mut net, x) } else { net.same(Op::Softplus, &[x]) };
        let gate = net.same(Op::Tanh, &[y]);
        let y = net.same(Op::Mul, &[gate, x]);
        sole(net, y, ActivationKind::Mish);
    }
    let (mut net, x) = start();
    let inner = net.with(Op::Mul, x, 1.702);
    let gate = net.same(Op::Sigmoid, &[inner]);
    let y = net.same(Op::Mul, &[x, gate]);
    sole(net, y, ActivationKind::Swish);
    for form in 0..3 {
        let (mut net, x) = start();
        let sum = net.with(Op::Add, x, 3.0);
        let clip = net.same(Op::Clip { min: 0.0, max: 6.0 }, &[sum]);
        let y = match form {
            0 => net.with(Op::Div, clip, 6.0),
            1 => {
                let gate = net.with(Op::Div, clip, 6.0);
                net.same(Op::Mul, &[x, gate])
            }
            _ => {
                let product = net.same(Op::Mul, &[clip, x]);
                net.with(Op::Mul, product, 1.0 / 6.0)
            }
        };
        let hard = if form == 0 { ActivationKind::HardSigmoid } else { ActivationKind::HardSwish };
        sole(net, y, hard);
    }
    // Almost: another bound, another number.
    for (bound, number) in [(5.0, 6.0), (6.0, 5.0)] {
        let (mut net, x) = start();
        let sum = net.with(Op::Add, x, 3.0);
        let clip = net.same(Op::Clip { min: 0.0, max: bound }, &[sum]);
        let gate = net.with(Op::Div, clip, number);
        let y = net.same(Op::Mul, &[x, gate]);
        let network = net.check(y);
        let functions = network.layers.iter().map(|layer| layer.activation.function());
        assert!(!functions.into_iter().any(|f| f == Some(ActivationKind::HardSwish)));
    }
}
