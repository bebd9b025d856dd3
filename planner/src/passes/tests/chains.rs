//! Reductions that are cut into chains for a GPU.

use super::*;
use crate::algorithm::{chains, set_chains};
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

/// Chains take scratch: where that does not fit the least budget there are fewer, and to have none is a choice.
#[test]
fn chains_fit_the_least_budget() {
    use crate::strategy::algorithms::{Means, choices};
    let network = network(Isa::Cuda);
    let profile = crate::board::Board::load("gpu-host").unwrap().profile;
    let most = |budget, means| {
        let choices = choices(&network, &profile, 1, &[budget], means);
        let chained = choices.iter().map(|choice| {
            let mut chosen = network.clone();
            choice.apply(&mut chosen);
            chains_of(&chosen).into_iter().max().unwrap_or(0)
        });
        (chained.clone().min(), chained.max())
    };
    let (least, large) = most(64 << 20, Means::All);
    assert!(least == Some(1) && large > Some(1), "{least:?}, {large:?}");
    assert!(most(600 << 10, Means::All).1 < large);
    assert_eq!(most(4096, Means::All), (Some(1), Some(1)));
    assert_eq!(most(64 << 20, Means::Exact), (Some(1), Some(1)));
}
