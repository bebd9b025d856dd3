//! The algorithms of layers that slide: of those for which steps transform weights, the fastest in
//! the scratch that a way to slide leaves.

use super::Request;
use super::activations::ActivationLayout;
use super::on_load::{Options, Transformed};
use super::precomputed::Precomputed;
use crate::slide::Group;
use crate::steps::whole;
use eyelet::pack::{Method, PAGE, Step};
use eyelet_model::network::Network;

/// A way to slide, and the network that slides so.
pub struct SlidingChoice<'a> {
    pub network: &'a Network,
    pub groups: Vec<Group>,
}

/// Adds to each way to slide the network in which layers that slide transform what they have room
/// for. Ways for which that is the network of the request are left out.
pub fn with_room<'a>(
    request: &Request<'a>,
    transformed: &'a Transformed,
    precomputed: &Precomputed,
    options: &Options,
    ways: Vec<Vec<Group>>,
) -> Vec<SlidingChoice<'a>> {
    let with_room = |groups: Vec<Group>| {
        let on_load = affordable(request, &transformed.fastest, precomputed, options, &groups);
        let mut sliding = groups.iter().flat_map(|group| group.layers.clone());
        let own = &request.network.on_load;
        let network = match sliding.any(|layer| on_load[layer] != own[layer]) {
            true => transformed.by(on_load)?,
            false => return None,
        };
        Some(SlidingChoice { network, groups })
    };
    ways.into_iter().filter_map(with_room).collect()
}

/// The algorithms of all layers. Layers in groups use what they have room for; others use the
/// fastest that the network has.
fn affordable(
    request: &Request<'_>,
    fastest: &Network,
    precomputed: &Precomputed,
    options: &Options,
    groups: &[Group],
) -> Vec<u32> {
    let activations = ActivationLayout::new(fastest, groups.to_vec());
    let bytes = request.budget.saturating_sub(activations.usual_tables(fastest));
    let steps = (0..fastest.layers.len()).map(|layer| whole(fastest, layer));
    let mut largest: Vec<Option<Step>> = vec![None; fastest.layers.len()];
    for step in activations.sliding.interleave(steps) {
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
            let [run, other] = activations.runs(layer, bytes);
            let (count, room) = match anew {
                false => (step.count, run.saturating_sub(kept)),
                // A slice may take the place of the scratch.
                true => {
                    let slice = weights(layer)[1].next_multiple_of(PAGE) + PAGE;
                    (1, if slice <= other { run } else { run.saturating_sub(slice) })
                }
            };
            let ns = |algorithm: u32| {
                let step =
                    Step { count: count.min(step.count), method: Method::by(algorithm), ..step };
                let scratch = precomputed.scratch_of(request, &step);
                let scratch_bytes = if scratch.all <= room { 0 } else { room };
                let ns = precomputed.costs.step_ns(&Step { scratch_bytes, ..step });
                (scratch.least <= room || algorithm == options.own(layer)).then_some(ns)
            };
            let all = std::iter::once(options.own(layer)).chain(options.of(layer));
            let found = all.filter_map(|algorithm| Some((ns(algorithm)?, algorithm)));
            on_load[layer] = found.min().map_or(options.own(layer), |(_, algorithm)| algorithm);
        }
    }
    on_load
}
