//! Reductions that are cut into chains for a GPU.

use super::*;
use crate::ops::conv::{chains, set_chains};
use eyelet::ops::conv::MAX_CHAINS;
use eyelet::pack::{ConvParams, params};

/// An image of few pixels: a short reduction into many channels, then long ones into few.
fn network(isa: Isa) -> Network {
    let (mut net, x) = Net::input(&[1, 32, 7, 7]);
    let y = net.conv1(x, 2048);
    let y = net.conv1(y, 64);
    let y = net.conv3(y, 64);
    net.output(y);
    lower(&net.graph, isa).unwrap()
}

fn chains_of(network: &Network) -> Vec<u32> {
    let conv = |layer: &&eyelet::pack::Layer| layer.kind == OpKind::Conv as u32;
    network.layers.iter().filter(conv).map(|l| params::<ConvParams>(l).chains).collect()
}

fn cut(network: &mut Network, multiprocessors: u32) -> Vec<u32> {
    for layer in 0..network.layers.len() {
        set_chains(network, layer, chains(network, layer, multiprocessors));
    }
    chains_of(network)
}

#[test]
fn long_reductions_of_few_tiles_are_cut() {
    let mut gpu = network(Isa::Cuda);
    let found = cut(&mut gpu, 132);
    assert!(found[1] > 1 && found[2] > 1, "{found:?}");
    assert!(found.iter().all(|chains| (1..=MAX_CHAINS).contains(chains)));
    // Where results are to be those of a processor, none is.
    assert_eq!(cut(&mut gpu, 0), [1; 3]);
    // Processors know nothing of them.
    assert!(cut(&mut network(Isa::Avx512), 132).iter().all(|chains| *chains <= 1));
}
