//! The range of numbers that layers computed by Winograd's algorithm are held to.

use super::*;
use crate::algorithm::Algorithm;
use crate::network::Weights;
use std::sync::Arc;

/// A 3x3 convolution of 32 channels, whose filters' magnitudes add up to about 144 times the factor, one weight of
/// which is replaced; and which layer it is.
fn network(factor: f32, odd: Option<f32>) -> (Network, usize) {
    let (mut net, x) = Net::input(&[1, 32, 12, 12]);
    let y = net.conv3(x, 32);
    net.output(y);
    let weights = net.graph.nodes[0].inputs[1].unwrap();
    let constant = net.graph.values[weights].constant.as_mut().unwrap();
    let scaled = |i| odd.filter(|_| i == 1000).unwrap_or(constant.get(i) * factor);
    *constant = Constant::Owned(Arc::new((0..constant.len()).map(scaled).collect()));
    let network = lower(&net.graph, Isa::Avx512).unwrap();
    let layer = kinds(&network).iter().position(|kind| *kind == OpKind::Conv).unwrap();
    (network, layer)
}

#[test]
fn layers_with_weights_beyond_the_range_are_direct() {
    for (factor, odd, served) in [
        (1.0, None, true),
        (500.0, None, true),
        (1000.0, None, false),
        (1e36, None, false),
        (1.0, Some(1e38), false),
        (1.0, Some(-1e38), false),
        (1.0, Some(f32::INFINITY), false),
        (1.0, Some(f32::NAN), false),
        (0.0, Some(f32::NAN), false),
        (1e-30, None, true),
    ] {
        let (network, layer) = network(factor, odd);
        for tile in [2, 4] {
            let winograd = Algorithm::Winograd { tile };
            assert_eq!(winograd.serves(&network, layer), served, "{factor} {odd:?}");
        }
        assert!(Algorithm::Direct.serves(&network, layer));
    }
}

/// Of a channel's weights with their scale, whichever order they have; infinite or NaN if one of them is.
#[test]
fn the_largest_sum_is_that_of_a_channel() {
    let (network, layer) = network(2.0, Some(-4000.0));
    let Weights::Dense(dense) = &network.weights[layer] else { panic!("no convolution") };
    let mut all = dense.clone();
    all.sum = Default::default();
    let weight = |o: usize, k: usize| f64::from(dense.data.get(o * dense.row + k)).abs();
    let sums = (0..32).map(|o| (0..dense.k).map(|k| weight(o, k)).sum::<f64>());
    let largest = sums.fold(0.0, f64::max);
    assert!((dense.largest_sum() - largest).abs() < 1e-9 * largest && largest > 4000.0);
    all.scale = Some((0..32).map(|o| if o == 7 { -1e3 } else { 1.0 }).collect());
    let seventh = (0..dense.k).map(|k| weight(7, k)).sum::<f64>() * 1e3;
    assert!((all.largest_sum() - seventh).abs() < 1e-9 * seventh);
}
