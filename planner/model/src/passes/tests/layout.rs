//! Where values lie: what is copied, what is a view, what shares a buffer.

use super::*;
use OpKind::*;
use eyelet::pack::{CopyParams, PortType, ReduceOp, params};
use std::sync::Arc;

fn buffers(network: &Network) -> usize {
    network.buffers.len()
}

#[test]
fn images_of_one_pixel_or_channel_need_no_copy() {
    let (mut net, x) = Net::input(&[1, 12, 1, 1]);
    let y = net.conv1(x, 5);
    assert_eq!(kinds(&net.check(y)), [Conv]);
    let (mut net, x) = Net::input(&[1, 1, 6, 6]);
    let y = net.conv3(x, 1);
    assert_eq!(kinds(&net.check(y)), [Conv]);
}

#[test]
fn flattening_permutes_the_weights() {
    for batch in [1, 2] {
        let (mut net, x) = Net::input(&[batch, 3, 5, 4]);
        let y = net.conv1(x, 6);
        let y = net.reshape(y, &[batch, 120]);
        let y = net.gemm(y, 10);
        let y = net.relu(y);
        let y = net.gemm(y, 3);
        let y = net.same(Op::Softmax { axis: 1, flat: false }, &[y]);
        let network = net.check(y);
        assert_eq!(kinds(&network), [Copy, Conv, Conv, Conv, Softmax]);
    }
}

#[test]
fn channel_shuffle_is_one_copy() {
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let x = net.conv1(x, 12);
    let y = net.reshape(x, &[1, 3, 4, 4, 5]);
    let y = net.transpose(y, &[0, 2, 1, 3, 4]);
    let y = net.reshape(y, &[1, 12, 4, 5]);
    let y = net.conv(y, 12, window(3, 1, 1), 12);
    let network = net.check(y);
    assert_eq!(kinds(&network), [Copy, Conv, Copy, Depthwise, Copy]);
    let copy: CopyParams = params(&network.layers[2]);
    assert_eq!(copy.dims, [1, 1, 1, 20, 4, 3]);
}

/// A unit of a shuffle network: half of the channels go on untouched, the other half through `work`;
/// then both are interleaved.
fn shuffle_unit(
    net: &mut Net,
    x: ValueId,
    slices: bool,
    work: impl FnOnce(&mut Net, ValueId) -> ValueId,
) -> ValueId {
    let [n, c, h, w] = net.shape(x)[..] else { panic!("no image") };
    let half = [n, c / 2, h, w];
    let parts = if slices {
        // the second half first: their order is the exporter's
        let [b, a] = [c / 2, 0].map(|start| {
            let slice = Op::Slice { starts: vec![0, start, 0, 0], steps: vec![1; 4] };
            net.node(slice, &[x], &half)
        });
        vec![a, b]
    } else {
        net.nodes(Op::Split { axis: 1, sizes: vec![c / 2; 2] }, &[x], &[&half, &half])
    };
    let worked = work(net, parts[1]);
    let y = net.concat(&[parts[0], worked], 1);
    let y = net.reshape(y, &[n, 2, c / 2, h, w]);
    let y = net.transpose(y, &[0, 2, 1, 3, 4]);
    net.reshape(y, &[n, c, h, w])
}

#[test]
fn channels_that_go_on_untouched_stay_where_they_are() {
    for slices in [false, true] {
        let (mut net, x) = Net::input(&[1, 3, 4, 5]);
        let mut y = net.conv1(x, 12);
        for _ in 0..3 {
            y = shuffle_unit(&mut net, y, slices, |net, x| {
                let x = net.conv1(x, 6);
                let x = net.conv(x, 6, window(3, 1, 1), 6);
                net.conv1(x, 6)
            });
        }
        let y = net.conv1(y, 4);
        let network = net.check(y);
        let unit = [Conv, Depthwise, Conv, Copy];
        let expected: Vec<OpKind> =
            [Copy, Conv].into_iter().chain(unit.repeat(3)).chain([Conv, Copy]).collect();
        assert_eq!(kinds(&network), expected);
    }
}

#[test]
fn channels_that_are_read_while_or_after_others_take_their_place_are_copied() {
    let halves = |network: &Network| {
        let copies = kinds(network).into_iter().enumerate().filter(|(_, kind)| *kind == Copy);
        copies.filter(|(i, _)| output_of(network, *i).dims[3] == 6).count()
    };
    // one layer reads the half that it would write over
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let y = net.conv1(x, 12);
    let y = shuffle_unit(&mut net, y, false, |net, x| net.conv3(x, 6));
    assert_eq!(halves(&net.check(y)), 1);
    // the whole is read again afterwards
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let x = net.conv1(x, 12);
    let y = shuffle_unit(&mut net, x, false, |net, x| {
        let x = net.conv1(x, 6);
        net.conv3(x, 6)
    });
    let z = net.conv3(x, 12);
    let y = net.same(Op::Mul, &[y, z]);
    assert_eq!(halves(&net.check(y)), 1);
}

#[test]
fn split_and_slice_of_channels_are_views() {
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let x = net.conv1(x, 12);
    let parts =
        net.nodes(Op::Split { axis: 1, sizes: vec![5, 7] }, &[x], &[&[1, 5, 4, 5], &[1, 7, 4, 5]]);
    let a = net.conv3(parts[0], 3);
    let slice = Op::Slice { starts: vec![0, 2, 0, 0], steps: vec![1; 4] };
    let b = net.node(slice, &[parts[1]], &[1, 3, 4, 5]);
    let y = net.node(Op::Mul, &[a, b], &[1, 3, 4, 5]);
    let network = net.check(y);
    assert_eq!(kinds(&network), [Copy, Conv, Conv, Binary, Copy]);
    let (a, b) = (input_of(&network, 2, 0), input_of(&network, 3, 1));
    assert_eq!((a.offset, a.pitch, a.dims[3]), (0, 12, 5));
    assert_eq!((b.offset, b.pitch, b.dims[3]), (7, 12, 3));
}

#[test]
fn slices_of_pixels_are_copied() {
    let (mut net, x) = Net::input(&[1, 3, 6, 6]);
    let x = net.conv1(x, 4);
    let slice = Op::Slice { starts: vec![0, 0, 1, 0], steps: vec![1, 1, 2, 3] };
    let y = net.node(slice, &[x], &[1, 4, 3, 2]);
    let y = net.conv3(y, 2);
    assert_eq!(kinds(&net.check(y)), [Copy, Conv, Copy, Conv, Copy]);
}

#[test]
fn concatenation_is_a_strided_write() {
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let s = net.conv1(x, 4);
    let a = net.conv1(s, 3);
    let b = net.conv3(s, 5);
    let b = net.relu(b);
    let c = net.node(Op::MaxPool { window: window(3, 1, 1), ceil: false }, &[s], &[1, 4, 4, 5]);
    let inner = net.concat(&[b, c], 1);
    let y = net.concat(&[a, inner], 1);
    let y = net.conv1(y, 2);
    let network = net.check(y);
    assert_eq!(kinds(&network), [Copy, Conv, Conv, Conv, Pool, Conv, Copy]);
    let parts: Vec<_> = (2..5).map(|i| output_of(&network, i)).collect();
    assert_eq!(parts.iter().map(|t| t.offset).collect::<Vec<_>>(), [0, 3, 8]);
    assert!(parts.iter().all(|t| t.pitch == 12 && t.buffer == parts[0].buffer));
}

#[test]
fn a_dense_block_shares_one_buffer() {
    let (mut net, x) = Net::input(&[1, 3, 6, 6]);
    let mut features = vec![net.conv3(x, 8)];
    for _ in 0..4 {
        let y = if features.len() == 1 { features[0] } else { net.concat(&features, 1) };
        let y = net.batch_norm(y);
        let y = net.relu(y);
        let y = net.conv1(y, 6);
        let y = net.batch_norm(y);
        let y = net.relu(y);
        features.push(net.conv3(y, 4));
    }
    let y = net.concat(&features, 1);
    let y = net.batch_norm(y);
    let y = net.relu(y);
    let y = net.conv1(y, 5);
    let network = net.check(y);
    let copies = kinds(&network).into_iter().filter(|&kind| kind == Copy).count();
    assert_eq!(copies, 2, "only at the ports");
    let shared = output_of(&network, 1).buffer;
    let writers = network.layers.iter().filter(|layer| {
        let output = network.tensors[layer.output as usize];
        output.buffer == shared
    });
    // five features, and the last batch norm may not be in place (it is no operand of that kind)
    assert_eq!(writers.count(), 5);
    assert_eq!(network.buffers[shared as usize].bytes, (24 * 36 * 4u64).next_multiple_of(64));
}

#[test]
fn a_value_in_two_concatenations_is_copied_once() {
    let (mut net, x) = Net::input(&[1, 3, 4, 4]);
    let (a, b, c) = (net.conv1(x, 3), net.conv1(x, 4), net.conv1(x, 5));
    let first = net.concat(&[a, b], 1);
    let second = net.concat(&[c, a], 1);
    let (y, z) = (net.conv1(first, 6), net.conv1(second, 6));
    let y = net.node(Op::Add, &[y, z], &[1, 6, 4, 4]);
    let network = net.check(y);
    let copies = kinds(&network).into_iter().filter(|&kind| kind == Copy).count();
    assert_eq!(copies, 3);
}

#[test]
fn odd_concatenations() {
    // the same value twice, a graph input, a graph output, and other axes
    let (mut net, x) = Net::input(&[2, 3, 4, 4]);
    let a = net.conv1(x, 3);
    let twice = net.concat(&[a, a, x], 1);
    let high = net.concat(&[a, x], 2);
    let wide = net.concat(&[a, a], 3);
    let batch = net.concat(&[a, x, a], 0);
    for value in [twice, high, wide, batch, a] {
        net.output(value);
        let y = net.relu(value);
        net.output(y);
    }
    net.check_all();
}

#[test]
fn concatenation_of_rows_is_contiguous() {
    let (mut net, x) = Net::input(&[1, 5, 8]);
    let w = net.constant(&[8, 6]);
    let a = net.node(Op::MatMul, &[x, w], &[1, 5, 6]);
    let w = net.constant(&[8, 6]);
    let b = net.node(Op::MatMul, &[x, w], &[1, 5, 6]);
    let y = net.concat(&[a, b], 1);
    assert_eq!(kinds(&net.clone().check(y)), [Conv, Conv]);
    let y = net.concat(&[a, b], 2);
    assert_eq!(kinds(&net.check(y)), [Conv, Conv]);
}

#[test]
fn elementwise_layers_write_in_place_only_over_the_dead() {
    let (mut net, x) = Net::input(&[1, 3, 4, 4]);
    let x = net.node(Op::MaxPool { window: window(1, 1, 0), ceil: false }, &[x], &[1, 3, 4, 4]);
    let a = net.same(Op::Tanh, &[x]);
    let b = net.same(Op::Sigmoid, &[a]);
    let y = net.node(Op::Add, &[b, x], &[1, 3, 4, 4]);
    let network = net.check(y);
    assert_eq!(kinds(&network), [Copy, Pool, Unary, Unary, Binary, Copy]);
    let [a, b, y] = [2, 3, 4].map(|i| output_of(&network, i).buffer);
    assert_ne!(a, input_of(&network, 2, 0).buffer, "x is read later");
    assert_eq!((a, a), (b, y));
}

#[test]
fn ports_are_kept_apart() {
    let (mut net, x) = Net::input(&[1, 10]);
    let y = net.same(Op::Tanh, &[x]);
    let z = net.same(Op::Sigmoid, &[y]);
    let flat = net.reshape(y, &[2, 5]);
    for value in [x, y, z, flat, y] {
        net.output(value);
    }
    let network = net.check_all();
    let mut seen: Vec<u32> = (network.inputs.iter().chain(&network.outputs))
        .map(|port| network.tensors[port.tensor as usize].buffer)
        .collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 6);
    assert_eq!(buffers(&network), 6);
}

#[test]
fn attention_reads_heads_through_strides() {
    let (mut net, x) = Net::input(&[1, 7, 8]);
    let mut heads = Vec::new();
    for _ in 0..3 {
        let w = net.constant(&[8, 8]);
        let y = net.node(Op::MatMul, &[x, w], &[1, 7, 8]);
        let y = net.reshape(y, &[1, 7, 2, 4]);
        heads.push(net.transpose(y, &[0, 2, 1, 3]));
    }
    let key = net.transpose(heads[1], &[0, 1, 3, 2]);
    let scores = net.node(Op::MatMul, &[heads[0], key], &[1, 2, 7, 7]);
    let c = net.value(&[], Some(vec![2.0]));
    let scores = net.same(Op::Div, &[scores, c]);
    let mask = net.constant(&[1, 1, 7, 7]);
    let scores = net.same(Op::Add, &[scores, mask]);
    let scores = net.same(Op::Softmax { axis: 3, flat: false }, &[scores]);
    let y = net.node(Op::MatMul, &[scores, heads[2]], &[1, 2, 7, 4]);
    let y = net.transpose(y, &[0, 2, 1, 3]);
    let y = net.reshape(y, &[1, 7, 8]);
    let w = net.constant(&[8, 8]);
    let y = net.node(Op::MatMul, &[y, w], &[1, 7, 8]);
    let network = net.check(y);
    let expected = [Conv, Conv, Conv, MatMul, Binary, Softmax, MatMul, Copy, Conv];
    assert_eq!(kinds(&network), expected);
}

#[test]
fn enlarged_maps_are_copied_once() {
    let enlarged = |net: &mut Net, x: ValueId| {
        let [n, c, h, w] = net.shape(x)[..] else { panic!("an image") };
        let y = net.reshape(x, &[n, c, h, 1, w, 1]);
        let y = net.node(Op::Expand, &[y], &[n, c, h, 2, w, 3]);
        net.reshape(y, &[n, c, 2 * h, 3 * w])
    };
    let (mut net, x) = Net::input(&[2, 3, 4, 5]);
    let x = net.conv1(x, 8);
    let y = enlarged(&mut net, x);
    let y = net.conv3(y, 6);
    assert_eq!(kinds(&net.check(y)), [Copy, Conv, Copy, Conv, Copy]);
    // into a concatenation, first and last, and on its own
    let (mut net, x) = Net::input(&[1, 3, 4, 5]);
    let x = net.conv1(x, 8);
    let other = net.add_input(&[1, 8, 8, 15]);
    let other = net.conv1(other, 5);
    let y = enlarged(&mut net, x);
    let joined = net.concat(&[y, other, y], 1);
    let z = net.conv1(joined, 4);
    net.output(y);
    let network = net.check(z);
    assert_eq!(kinds(&network).iter().filter(|kind| **kind == Conv).count(), 3);
    // a vector along new axes, and arithmetic on it
    let (mut net, x) = Net::input(&[1, 6]);
    let y = net.node(Op::Expand, &[x], &[4, 3, 6]);
    let y = net.same(Op::Tanh, &[y]);
    let z = net.node(Op::Expand, &[x], &[3, 6]);
    let y = net.same(Op::Sub, &[y, z]);
    net.check(y);
}

#[test]
fn products_broadcast_and_transpose() {
    for (a, b, y) in [
        (&[2, 3, 4, 5][..], &[5, 6][..], &[2, 3, 4, 6][..]),
        (&[2, 3, 4, 5], &[3, 5, 6], &[2, 3, 4, 6]),
        (&[4, 5], &[2, 3, 5, 6], &[2, 3, 4, 6]),
        (&[2, 1, 4, 5], &[1, 3, 5, 6], &[2, 3, 4, 6]),
        (&[1, 5], &[5, 1], &[1, 1]),
    ] {
        let (mut net, x) = Net::input(a);
        let w = net.add_input(b);
        let z = net.node(Op::MatMul, &[x, w], y);
        net.check(z);
        // both transposed in memory
        let swap = |shape: &[usize]| {
            let mut shape = shape.to_vec();
            let last = shape.len() - 1;
            shape.swap(last, last - 1);
            shape
        };
        let (mut net, x) = Net::input(&swap(a));
        let w = net.add_input(&swap(b));
        let perm = |rank: usize| swap(&(0..rank).collect::<Vec<_>>());
        let (x, w) = (net.transpose(x, &perm(a.len())), net.transpose(w, &perm(b.len())));
        let z = net.node(Op::MatMul, &[x, w], y);
        net.check(z);
    }
}

#[test]
fn means_and_softmax_over_any_axes() {
    for layout in [false, true] {
        for axes in [&[0][..], &[1], &[2], &[3], &[2, 3], &[1, 2], &[1, 3], &[0, 1, 2, 3]] {
            for keep in [false, true] {
                let (mut net, x) = Net::input(&[2, 3, 4, 5]);
                let x = if layout { net.conv1(x, 3) } else { x };
                let shape = net.shape(x);
                let mut shape: Vec<_> = shape.into_iter().enumerate().collect();
                shape.retain(|(axis, _)| keep || !axes.contains(axis));
                let shape: Vec<usize> = (shape.into_iter())
                    .map(|(axis, extent)| if axes.contains(&axis) { 1 } else { extent })
                    .collect();
                let y = net.node(
                    Op::Reduce { op: ReduceOp::Mean, axes: axes.to_vec(), keep },
                    &[x],
                    &shape,
                );
                net.check(y);
            }
        }
        for axis in 0..4 {
            for flat in [false, true] {
                let (mut net, x) = Net::input(&[2, 3, 4, 5]);
                let x = if layout { net.conv1(x, 3) } else { x };
                let y = net.same(Op::Softmax { axis, flat }, &[x]);
                net.check(y);
            }
        }
    }
}

#[test]
fn normalisation_across_channels_and_one_dimensional_windows() {
    let (mut net, x) = Net::input(&[1, 7, 4, 4]);
    let y = net.same(Op::Lrn { size: 5, alpha: 0.1, beta: 0.75, bias: 1.0 }, &[x]);
    assert_eq!(kinds(&net.check(y)), [Copy, Lrn, Copy]);

    let (mut net, x) = Net::input(&[2, 3, 9]);
    let wide = net.reshape(x, &[2, 3, 1, 9]);
    let row = Window { kernel: [1, 3], pad_begin: [0, 1], pad_end: [0, 1], ..window(1, 1, 0) };
    let y = net.conv(wide, 4, row, 1);
    let y = net.reshape(y, &[2, 4, 9]);
    let y = net.batch_norm(y);
    net.check(y);
}

/// What tells channels apart alone, of as many axes as there may be.
#[test]
fn normalisation_of_volumes() {
    for shape in [vec![2, 5, 3, 4, 2], vec![1, 7, 2, 1, 3], vec![2, 3, 2, 2, 3, 2]] {
        let (mut net, x) = Net::input(&shape);
        let y = net.batch_norm(x);
        let network = net.check(y);
        assert!(kinds(&network).contains(&Depthwise), "{shape:?}");

        let (mut net, x) = Net::input(&shape);
        let y = net.same(Op::Lrn { size: 3, alpha: 0.1, beta: 0.75, bias: 1.0 }, &[x]);
        let y = net.relu(y);
        assert!(kinds(&net.check(y)).contains(&Lrn), "{shape:?}");
    }
}

#[test]
fn copies_of_more_dimensions_than_a_record_has_are_several() {
    let reversed: Vec<usize> = (0..8).rev().collect();
    for (shape, perm, copies) in [
        (vec![2; 8], reversed, 2),
        (vec![2, 3, 1, 2, 3, 2, 2, 2], vec![6, 4, 2, 0, 7, 5, 3, 1], 2),
        (vec![2; 12], vec![5, 11, 3, 9, 1, 7, 0, 6, 2, 8, 4, 10], 4),
    ] {
        let (mut net, x) = Net::input(&shape);
        let y = net.transpose(x, &perm);
        assert_eq!(kinds(&net.check(y)), vec![Copy; copies], "{perm:?}");
    }
}

/// Two transpositions are one copy, unless that has more dimensions than a record.
#[test]
fn transpositions_of_many_axes_follow_one_another() {
    let (mut net, x) = Net::input(&[1, 8, 8, 3]);
    let y = net.reshape(x, &[1, 4, 2, 4, 2, 3]);
    let y = net.transpose(y, &[0, 2, 4, 1, 3, 5]);
    let y = net.reshape(y, &[1, 2, 2, 2, 2, 2, 2, 3]);
    let y = net.transpose(y, &[0, 1, 2, 4, 6, 3, 5, 7]);
    let y = net.reshape(y, &[64, 3]);
    assert_eq!(kinds(&net.check(y)), [Copy, Copy]);
}

/// Windows of what a larger image has: rows that lie apart, and each pixel of a volume repeated along three axes.
#[test]
fn gaps_and_repetitions_of_many_axes() {
    let (mut net, x) = Net::input(&[2, 9, 10, 3]);
    let op = Op::Slice { starts: vec![0, 1, 1, 0], steps: vec![1; 4] };
    let y = net.node(op, &[x], &[2, 8, 8, 3]);
    let y = net.reshape(y, &[2, 2, 2, 2, 2, 2, 2, 3]);
    let y = net.transpose(y, &[0, 3, 6, 2, 5, 1, 4, 7]);
    assert_eq!(kinds(&net.check(y)), [Copy, Copy]);

    let (mut net, x) = Net::input(&[1, 2, 2, 3, 2]);
    let y = net.reshape(x, &[2, 2, 1, 3, 1, 2, 1]);
    let y = net.node(Op::Expand, &[y], &[2, 2, 2, 3, 2, 2, 3]);
    let y = net.reshape(y, &[1, 2, 4, 6, 6]);
    let y = net.transpose(y, &[0, 4, 2, 1, 3]);
    assert_eq!(kinds(&net.check(y)), [Copy, Copy]);
}

/// Elements that lie in gaps of seven sizes are no copy of six dimensions, nor two.
#[test]
fn too_many_gaps_are_refused() {
    let (mut net, x) = Net::input(&[3; 7]);
    let y = net.node(Op::Slice { starts: vec![0; 7], steps: vec![1; 7] }, &[x], &[2; 7]);
    let y = net.transpose(y, &[6, 5, 4, 3, 2, 1, 0]);
    net.output(y);
    let error = lower(&net.graph, Isa::Neon).unwrap_err().to_string();
    assert!(error.contains("a copy of 7 dimensions, but the pack format has 6"), "{error}");
}

/// Of more axes than a tensor's record has dimensions, and of extent 1 anywhere: also behind all others.
#[test]
fn arithmetic_of_many_axes() {
    for shape in [
        vec![1, 2, 3, 4, 1],
        vec![2, 3, 4, 5, 1],
        vec![2, 1, 3, 1, 4, 1],
        vec![2, 3, 1, 4, 1, 1],
        vec![1, 1, 1, 1, 1],
        vec![3, 1, 1, 1, 1, 1],
        vec![1, 2, 3, 4, 5],
        vec![2, 3, 2, 1, 3, 2],
    ] {
        let rank = shape.len();
        let (mut net, x) = Net::input(&shape);
        let y = net.relu(x);
        let z = net.same(Op::Add, &[x, y]);
        net.output(z);
        let constant = net.constant(&shape);
        let z = net.same(Op::Mul, &[z, constant]);
        net.output(z);
        // Broadcast along each axis, as a constant and not.
        for axis in 0..rank {
            let mut own = shape.clone();
            own[axis] = 1;
            let constant = net.constant(&own);
            let sum = net.same(Op::Add, &[x, constant]);
            let mean = net.node(
                Op::Reduce { op: ReduceOp::Mean, axes: vec![axis], keep: true },
                &[y],
                &own,
            );
            let difference = net.same(Op::Sub, &[sum, mean]);
            net.output(difference);
        }
        let back: Vec<usize> = (0..rank).rev().collect();
        let turned = net.transpose(x, &back);
        let constant = net.constant(&shape.iter().rev().copied().collect::<Vec<_>>());
        let z = net.same(Op::Add, &[turned, constant]);
        let again = net.transpose(z, &back);
        let z = net.same(Op::Sub, &[again, y]);
        net.check(z);
    }
}

#[test]
fn concatenations_of_many_axes() {
    for shape in [vec![1, 3, 4, 2, 1], vec![2, 1, 3, 2, 1, 1], vec![1, 1, 1, 1, 1]] {
        for axis in 0..shape.len() {
            let (mut net, x) = Net::input(&shape);
            let mut other = shape.clone();
            other[axis] = 1;
            let constant = net.constant(&other);
            let y = net.relu(x);
            let z = net.concat(&[x, constant, y], axis);
            net.output(z);
            let z = net.relu(z);
            net.check(z);
        }
    }
}

/// Constant outputs are written in every inference, whatever the input holds.
#[test]
fn outputs_that_are_constant() {
    for shape in [&[][..], &[3], &[2, 3], &[1, 1, 4, 2]] {
        let (mut net, x) = Net::input(&[2, 3]);
        let c = net.constant(shape);
        let y = net.relu(x);
        net.output(y);
        net.output(c);
        net.output(x);
        net.clone().check_all();
        let mut data: Vec<f32> = vec![-0.0; shape.iter().product()];
        data[0] = f32::NAN;
        let nan = net.value(shape, Some(data.clone()));
        net.output(nan);
        let network = lower(&net.graph, Isa::Portable).expect("a network");
        let outputs = interpret::run(&network, &[vec![f64::NAN, 1.0, 2.0, 3.0, 4.0, 5.0]]);
        assert!(outputs[3][0].is_nan());
        assert!(outputs[3][1..].iter().all(|value| value.to_bits() == (-0.0f64).to_bits()));
        assert!(outputs[1].iter().all(|value| value.abs() <= 1.0));
    }
}

/// Networks without an input make constants, also those of words and those whose elements are all the same.
#[test]
fn networks_of_constants_alone() {
    for shape in [&[][..], &[3], &[1, 1, 4, 2]] {
        let mut net = Net::default();
        let c = net.constant(shape);
        let same = net.value(shape, Some(vec![-0.0; shape.iter().product()]));
        net.output(c);
        net.output(same);
        net.check_all();
    }
    let mut net = Net::default();
    let words = net.value(&[2], None);
    net.graph.values[words].constant = Some(Constant::Words(Arc::new(vec![i32::MAX, -3])));
    net.graph.values[words].kind = PortType::Int64;
    net.output(words);
    let network = lower(&net.graph, Isa::Portable).expect("a network");
    assert_eq!(interpret::run(&network, &[]), [[f64::from(i32::MAX), -3.0]]);
    assert_eq!(network.outputs[0].kind, PortType::Int64);
}

/// Arithmetic with a constant, of a tensor without dimensions.
#[test]
fn scalars_that_flow() {
    let (mut net, x) = Net::input(&[3]);
    let mean = net.node(Op::Reduce { op: ReduceOp::Mean, axes: vec![0], keep: false }, &[x], &[]);
    let c = net.constant(&[]);
    let y = net.node(Op::Mul, &[mean, c], &[]);
    net.check(y);
}

#[test]
fn rows_by_indices_into_what_is_computed() {
    for (shape, axis) in [(&[1, 6, 3, 4][..], 1), (&[2, 3, 5], 2), (&[4, 3], 0), (&[2, 3, 4, 5], 2)]
    {
        let (mut net, x) = Net::input(shape);
        let x = net.relu(x);
        let mut taken = shape.to_vec();
        taken.splice(axis..=axis, [2, 2]);
        let last = shape[axis] as f32 - 1.0;
        let indices = net.value(&[2, 2], Some(vec![last, 0.0, 1.0, last]));
        let y = net.node(Op::Take { axis }, &[x, indices], &taken);
        let y = net.relu(y);
        net.output(y);
        let inputs = [(0..shape.iter().product::<usize>()).map(|i| i as f64).collect::<Vec<f64>>()];
        let network = lower(&net.graph, Isa::Portable).unwrap();
        assert!(kinds(&network).contains(&OpKind::Take));
        let found = interpret::run(&network, &inputs);
        assert_eq!(found, crate::reference::run(&net.graph, &inputs));
        let error = lower(&net.graph, Isa::Cuda).unwrap_err().to_string();
        assert!(error.contains("GPUs do not compute rows by indices"), "{error}");
    }
    // Indices that flow.
    for (axis, shape) in [(0, [5, 3, 2]), (1, [3, 5, 2]), (2, [3, 2, 5])] {
        let (mut own, mut out) = (shape, shape);
        (own[axis], out[axis]) = (4, 5);
        let (mut net, x) = Net::input(&own);
        let indices = net.add_input(&[5]);
        let y = net.node(Op::Take { axis }, &[x, indices], &out);
        net.output(y);
        let data = (0..24).map(f64::from).collect::<Vec<f64>>();
        let inputs = [data, vec![3.0, 0.0, 2.0, 2.0, 1.0]];
        let network = lower(&net.graph, Isa::Avx512).unwrap();
        assert_eq!(interpret::run(&network, &inputs), crate::reference::run(&net.graph, &inputs));
    }
}
