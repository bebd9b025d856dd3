//! Weighted sums along axes: each axis of tensors of each rank, in each layout.

use super::*;
use crate::graph::Resampling;
use OpKind::{Conv, Copy, Resample};

/// Sums of chance along an axis.
fn sums(net: &mut Net, axis: usize, extent: usize, made: usize) -> Op {
    let mut sum = |at: usize| {
        let first = at * extent / made;
        let taps = (first..extent).take(1 + at % 3);
        taps.map(|place| (place, f64::from(net.uniform()))).collect::<Vec<_>>()
    };
    let sums: Vec<_> = (0..made).map(&mut sum).collect();
    Op::Resample(Resampling::new(axis, extent, &sums, 0.5))
}

/// The value with one axis of another extent.
fn resampled(net: &mut Net, x: ValueId, axis: usize, made: usize) -> ValueId {
    let mut shape = net.shape(x);
    let op = sums(net, axis, shape[axis], made);
    shape[axis] = made;
    net.node(op, &[x], &shape)
}

#[test]
fn every_axis_of_every_rank() {
    let shape = [2, 3, 4, 5, 2, 3];
    for rank in 1..=6 {
        for axis in 0..rank {
            for made in [1, 3, 11] {
                let (mut net, x) = Net::input(&shape[..rank]);
                let y = resampled(&mut net, x, axis, made);
                net.check(y);
            }
        }
    }
}

#[test]
fn images_stay_where_they_are() {
    let (mut net, x) = Net::input(&[1, 3, 9, 7]);
    let y = net.conv3(x, 6);
    let y = resampled(&mut net, y, 2, 18);
    let y = resampled(&mut net, y, 3, 14);
    let y = net.conv1(y, 4);
    let network = net.check(y);
    assert_eq!(kinds(&network), [Copy, Conv, Resample, Resample, Conv, Copy]);
    assert_eq!(output_of(&network, 2).dims, [1, 18, 7, 6]);
    assert_eq!(output_of(&network, 3).dims, [1, 18, 14, 6]);
}

#[test]
fn parts_of_a_concatenation() {
    let (mut net, x) = Net::input(&[1, 4, 6, 5]);
    let a = net.conv3(x, 6);
    let b = resampled(&mut net, a, 2, 6);
    let y = net.concat(&[a, b], 1);
    let y = resampled(&mut net, y, 1, 3);
    let y = net.relu(y);
    net.check(y);
}

#[test]
fn samples_of_images_and_volumes() {
    use crate::graph::{SampleMode, SamplePadding, Sampling};
    for (shape, made, mode) in [
        (vec![2, 5, 4, 6], vec![3, 7], SampleMode::Cubic),
        (vec![1, 3, 1, 5], vec![2, 2], SampleMode::Nearest),
        (vec![1, 4, 3, 4, 2], vec![2, 3, 5], SampleMode::Linear),
    ] {
        for padding in [SamplePadding::Zeros, SamplePadding::Border, SamplePadding::Reflection] {
            let (mut net, x) = Net::input(&shape);
            let grid = net.add_input(&[&shape[..1], &made, &[made.len()]].concat());
            let sampling = Sampling { mode, padding, align_corners: shape[0] == 2 };
            let y = net.node(Op::GridSample(sampling), &[x, grid], &[&shape[..2], &made].concat());
            net.check(y);
        }
    }
}

#[test]
fn samples_with_a_constant_image_or_constant_places() {
    use crate::graph::{SampleMode, SamplePadding, Sampling};
    let (mode, padding) = (SampleMode::Linear, SamplePadding::Zeros);
    let op = || Op::GridSample(Sampling { mode, padding, align_corners: true });
    for constant_image in [true, false] {
        let (shape, places) = ([1, 3, 4, 6], [1, 2, 5, 2]);
        let (mut net, x) = Net::input(if constant_image { &places } else { &shape });
        let fixed = net.constant(if constant_image { &shape } else { &places });
        let operands = if constant_image { [fixed, x] } else { [x, fixed] };
        let y = net.node(op(), &operands, &[1, 3, 2, 5]);
        net.check(y);
    }
}

/// What is too much to fold stays a node, whose operands are all constant.
#[test]
fn nodes_of_constants_alone() {
    let (mut net, x) = Net::input(&[1, 4, 6, 5]);
    let fixed = net.constant(&[1, 4, 6, 5]);
    let made = net.conv3(fixed, 4);
    let y = net.node(Op::Add, &[x, made], &[1, 4, 6, 5]);
    net.check(y);
}
