//! Random games of a few layers, against all choices that there are.

use super::ends::{Played, both_ends};
use super::mixture::least_of;
use super::offers::Offer;
use super::{AlgorithmSet, choices};
use crate::bound::Bound;
use eyelet::kernels::Isa;
use eyelet::pack::{ConvParams, Layer, OpKind, params};
use eyelet_model::algorithm::Algorithm;
use eyelet_model::passes::lower;
use eyelet_model::testing::Net;
use proptest::prelude::*;

/// Layers with three offers each: the time of the slowest, and shares of it; bytes and activations.
fn layers() -> impl Strategy<Value = Vec<(f64, f64, f64, f64)>> {
    let layer = (1e3..1e6f64, 0.3..0.9f64, 1e3..1e6f64, 0.0..1e5f64);
    proptest::collection::vec(layer, 1..7)
}

fn game(layers: &[(f64, f64, f64, f64)]) -> (Vec<Vec<Offer>>, Bound) {
    let offers = |&(ns, share, bytes, _): &(f64, f64, f64, f64)| {
        let algorithms = Algorithm::all().zip([(1.0, 1.0), (share, 1.78), (share * share, 4.0)]);
        let offer = |(algorithm, (time, size))| Offer {
            algorithm,
            runs: algorithm,
            ns: ns * time,
            bytes: bytes * size,
        };
        algorithms.map(offer).collect()
    };
    let alive = layers.iter().map(|layer| layer.3).collect();
    (layers.iter().map(offers).collect(), Bound::of(alive, 1.0))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_choice_is_below_the_bound_of_all(layers in layers(), share in 0.1..6.0f64) {
        let (offers, bound) = game(&layers);
        let all: f64 = layers.iter().map(|layer| layer.2).sum();
        let budget = (all * share) as u64 + 100_000;
        let least = least_of(&offers, &bound, budget);
        let mut best = f64::INFINITY;
        for number in 0..3usize.pow(offers.len() as u32) {
            let picks = (0..offers.len()).map(|layer| number / 3usize.pow(layer as u32) % 3);
            let played = Played::new(picks.collect(), &offers, &bound, &[budget]);
            best = best.min(played.bound_ns);
        }
        prop_assert!(least <= best * (1.0 + 1e-9), "{least} above {best}");
        // It may mix two offers of a layer, which are at most that far apart.
        prop_assert!(least >= best * 0.3 * (1.0 - 1e-9), "{least} far below {best}");
    }

    #[test]
    fn all_layers_directly_and_each_at_its_fastest(layers in layers(), share in 0.1..6.0f64) {
        let (offers, bound) = game(&layers);
        let all: f64 = layers.iter().map(|layer| layer.2).sum();
        let budgets = [(all * share) as u64 + 100_000, (all * share * 2.0) as u64 + 100_000];
        let found = both_ends(&offers, &bound, &budgets);
        let is = |all: &[Algorithm], one| all.iter().all(|found| *found == one);
        let has = |one| found.iter().any(|(all, _)| is(all, one));
        let both = has(Algorithm::Direct) && has(Algorithm::Winograd { tile: 4 });
        prop_assert!(both, "{found:?}");
        prop_assert!(found.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    }

    #[test]
    fn memory_in_plenty_makes_it_the_fastest(layers in layers()) {
        let (offers, bound) = game(&layers);
        let found = both_ends(&offers, &bound, &[1 << 40]);
        let largest = Algorithm::Winograd { tile: 4 };
        prop_assert!(found[0].0.iter().all(|found| *found == largest));
    }
}

/// Chains take scratch: where that does not fit the least budget there are fewer, and to have none is a choice.
#[test]
fn chains_fit_the_least_budget() {
    let (mut net, x) = Net::input(&[1, 32, 7, 7]);
    let y = net.conv1(x, 2048);
    let y = net.conv1(y, 64);
    let y = net.conv3(y, 64);
    net.output(y);
    let network = lower(&net.graph, Isa::Cuda).unwrap();
    let conv = |layer: &&Layer| layer.kind == OpKind::Conv as u32;
    let chains = |layer: &Layer| params::<ConvParams>(layer).chains;
    let profile = crate::board::Board::load("gpu-host").unwrap().profile;
    let most = |budget, set| {
        let choices = choices(&network, &profile, 1, &[budget], set);
        let chained = choices.iter().map(|choice| {
            let mut chosen = network.clone();
            choice.apply(&mut chosen);
            chosen.layers.iter().filter(conv).map(chains).max().unwrap_or(0)
        });
        (chained.clone().min(), chained.max())
    };
    let (least, large) = most(64 << 20, AlgorithmSet::All);
    assert!(least == Some(1) && large > Some(1), "{least:?}, {large:?}");
    assert!(most(600 << 10, AlgorithmSet::All).1 < large);
    assert_eq!(most(4096, AlgorithmSet::All), (Some(1), Some(1)));
    assert_eq!(most(64 << 20, AlgorithmSet::Exact), (Some(1), Some(1)));
}
