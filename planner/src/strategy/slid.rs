//! By what layers compute that slide: of the algorithms for which steps transform weights the one that takes the least time
//! in the scratch that a way to slide leaves.

use super::Request;
use super::basis::Basis;
use super::ground::Ground;
use super::on_load::{Options, Transformed};
use crate::network::Network;
use crate::slice::whole;
use crate::slide::Group;
use eyelet::pack::{PAGE, Step};

/// A way to slide, and the network whose layers do.
pub struct Way<'a> {
    pub network: &'a Network,
    pub groups: Vec<Group>,
    /// Whether steps may have so little scratch that they make their weights in portions.
    pub portions: bool,
}

impl<'a> Way<'a> {
    /// With steps that make whole panels.
    pub fn of(network: &'a Network, groups: Vec<Group>) -> Self {
        Self { network, groups, portions: false }
    }
}

/// Ways to slide, each with the network in which layers that slide transform what they have room for, as whole panels and in portions;
/// none of those that a network was sought for that is the same.
pub fn with_room<'a>(
    request: &Request<'a>,
    transformed: &'a Transformed,
    basis: &Basis,
    options: &Options,
    ways: Vec<Vec<Group>>,
) -> Vec<Way<'a>> {
    let by = |groups: &[Group], portions| {
        affordable(request, &transformed.fastest, basis, options, groups, portions)
    };
    let mut found = Vec::new();
    for groups in ways {
        let sliding = groups.iter().flat_map(|group| group.layers.clone());
        let differs = |one: &[u32], other: &[u32]| sliding.clone().any(|at| one[at] != other[at]);
        let [panels, portions] = [by(&groups, false), by(&groups, true)];
        let in_portions = differs(&portions, &panels);
        if differs(&panels, &request.network.on_load) {
            let network = transformed.by(panels);
            let groups = groups.clone();
            found.extend(network.map(|network| Way { network, groups, portions: false }));
        }
        if in_portions {
            let network = transformed.by(portions);
            found.extend(network.map(|network| Way { network, groups, portions: true }));
        }
    }
    found
}

/// The algorithms of all layers: of those in groups what they have room for, of others what the network has that is the fastest.
fn affordable(
    request: &Request<'_>,
    fastest: &Network,
    basis: &Basis,
    options: &Options,
    groups: &[Group],
    portions: bool,
) -> Vec<u32> {
    let ground = Ground::new(fastest, groups.to_vec());
    let bytes = request.budget.saturating_sub(ground.usual_tables(fastest));
    let steps = (0..fastest.layers.len()).map(|layer| whole(fastest, layer));
    let mut largest: Vec<Option<Step>> = vec![None; fastest.layers.len()];
    for step in ground.sliding.interleave(steps) {
        let held = &mut largest[step.layer as usize];
        if held.is_none_or(|held| held.rows < step.rows) {
            *held = Some(step);
        }
    }
    let weights = |layer: usize| {
        let layer = &fastest.layers[layer];
        [u64::from(layer.panels), 1].map(|panels| panels * u64::from(layer.panel_bytes))
    };
    let mut on_load = fastest.on_load.clone();
    for Group { layers, anew, .. } in groups {
        let kept = layers.clone().map(|layer| weights(layer)[0]).sum::<u64>() + PAGE;
        for layer in layers.clone() {
            let Some(step) = largest[layer] else { continue };
            let [run, other] = ground.runs(layer, bytes);
            let (count, room) = match anew {
                false => (step.count, run.saturating_sub(kept)),
                // A slice may be where the scratch is not.
                true => {
                    let slice = weights(layer)[1].next_multiple_of(PAGE) + PAGE;
                    (1, if slice <= other { run } else { run.saturating_sub(slice) })
                }
            };
            let ns = |algorithm: u32| {
                let step = Step { count: count.min(step.count), algorithm, ..step };
                let scratch = basis.scratch_of(request, &step);
                let scratch_bytes = if scratch.all <= room { 0 } else { room };
                let ns = basis.costs.step_ns(&Step { scratch_bytes, ..step });
                (scratch.least(portions) <= room || algorithm == options.own(layer)).then_some(ns)
            };
            let all = std::iter::once(options.own(layer)).chain(options.of(layer));
            let found = all.filter_map(|algorithm| Some((ns(algorithm)?, algorithm)));
            on_load[layer] = found.min().map_or(options.own(layer), |(_, algorithm)| algorithm);
        }
    }
    on_load
}
