//! Changes how layers slide and where activations lie, step by step, for a plan that is there.
//!
//! Which layers slide is [chosen](crate::slide) by what groups take and cost by themselves; by what algorithm they compute
//! is one choice for all of them; activations lie where they need the least. In budgets near the smallest feasible one
//! each of these decides what is left for weights, and a plan tells more than a price. So single groups, the algorithms of
//! single layers in them, and beside which layers free memory is in one piece are changed in turn, as long as that makes the
//! plan faster.

use super::design::{Built, Design, Site};
use super::joint::Best;
use super::on_load::Options;
use super::place::{Ground, Lay};
use crate::network::Network;
use crate::slide::{Change, Group, Vary};
use std::cmp::Reverse;

/// No more plans than this are made.
const MOST: usize = 240;

/// Layers beside which free memory is tried in one piece.
const MOST_TORN: usize = 16;

/// Less gain than this the search may find as well from where it is.
const GAIN: f64 = 0.99;

/// What can be changed.
#[derive(Clone, Copy)]
enum Move {
    /// Free memory beside a layer is in one piece, which loads then shall leave room in, or need not be.
    Join(usize),
    /// Loads leave room beside them, or need not.
    Beside,
    Group(usize, Change),
    /// The algorithm of a layer that slides.
    Algorithm(usize, u32),
}

/// A way to slide and to lay activations.
#[derive(Clone)]
struct Way {
    groups: Vec<Group>,
    /// The algorithms of all layers, of which those that slide count.
    on_load: Vec<u32>,
    lay: Lay,
}

/// Adds the site with the fastest plan that it finds, if it is faster than the best.
pub fn polish<'a>(sites: &mut Vec<Site<'a>>, options: &Options, best: &mut Best) {
    let site = &sites[best.at];
    if site.is_optimal(&best.built) {
        return;
    }
    let (request, basis) = (site.request, site.basis.clone());
    let vary = Vary::new(request.network);
    let on_load = request.network.on_load.clone();
    let mut network: Network = request.network.clone();
    let groups = site.ground.sliding.groups().to_vec();
    let mut held = Way { groups, on_load, lay: Lay::default() };
    let torn = torn(site, &best.built);
    let mut moves = moves(&held, &torn, options);
    let mut found: Option<(Site<'a>, Design, Built)> = None;
    let (mut at, mut tried, mut in_vain) = (0, 0, 0);
    // Once around without a gain ends it.
    while !moves.is_empty() && tried < MOST && in_vain < moves.len() {
        let change = moves[at % moves.len()];
        (at, in_vain) = (at + 1, in_vain + 1);
        let Some(way) = changed(&held, change, &vary) else { continue };
        let (made_for, design, built) = match &found {
            Some((site, design, built)) => (site, design, built),
            None => (&sites[best.at], &best.design, &best.built),
        };
        network.on_load.clone_from(&way.on_load);
        let ground = Ground::new(&network, way.groups.clone(), &way.lay);
        let site = Site::on(&request, basis.clone(), ground);
        let mut design = design.clone();
        site.adapt(&mut design, made_for, built.plan.tables);
        tried += 1;
        let Some(built) = site.build(&design).ok().filter(|new| is_better(new, built)) else {
            continue;
        };
        (held, found, in_vain) = (way, Some((site, design, built)), 0);
        if matches!(change, Move::Group(..)) {
            moves = self::moves(&held, &torn, options);
        }
    }
    let Some((site, design, built)) = found else { return };
    if (built.line.steady_ns as f64) < best.built.line.steady_ns as f64 * GAIN {
        *best = Best { at: sites.len(), design, built };
        sites.push(site);
    }
}

fn is_better(built: &Built, held: &Built) -> bool {
    let value = |built: &Built| (built.line.steady_ns, built.plan.tables, built.plan.arena_bytes);
    value(built) < value(held)
}

/// The layers for whose loads a plan waits longest, of those beside which free memory is in pieces.
fn torn(site: &Site<'_>, built: &Built) -> Vec<usize> {
    let mut waits = vec![0i64; site.request.network.layers.len()];
    let mut before = 0;
    for (step, span) in built.plan.steps.iter().zip(&built.line.steps) {
        waits[step.layer as usize] += span.start - before;
        before = span.end;
    }
    let mut torn = site.ground.torn.clone();
    torn.retain(|&layer| waits[layer] > 0);
    torn.sort_by_key(|&layer| Reverse(waits[layer]));
    torn.truncate(MOST_TORN);
    torn
}

/// All that can be changed of a way.
fn moves(way: &Way, torn: &[usize], options: &Options) -> Vec<Move> {
    let joins = torn.iter().copied().map(Move::Join);
    let sliding = way.groups.iter().flat_map(|group| group.layers.clone());
    let algorithms = sliding.flat_map(|layer| {
        let all = std::iter::once(options.own(layer)).chain(options.of(layer));
        all.map(move |algorithm| Move::Algorithm(layer, algorithm))
    });
    let groups = (0..way.groups.len())
        .flat_map(|group| Change::ALL.into_iter().map(move |change| Move::Group(group, change)));
    std::iter::once(Move::Beside).chain(joins).chain(algorithms).chain(groups).collect()
}

fn changed(way: &Way, change: Move, vary: &Vary<'_>) -> Option<Way> {
    match change {
        Move::Join(layer) => {
            let mut way = way.clone();
            let joined = &mut way.lay.joined;
            match joined.iter().position(|joined| *joined == layer) {
                Some(at) => drop(joined.remove(at)),
                None => {
                    joined.push(layer);
                    way.lay.beside = true;
                }
            }
            Some(way)
        }
        Move::Beside => {
            let mut way = way.clone();
            way.lay.beside = !way.lay.beside;
            Some(way)
        }
        Move::Group(index, change) => {
            let groups = vary.changed(&way.groups, index, change)?;
            Some(Way { groups, ..way.clone() })
        }
        Move::Algorithm(layer, algorithm) if way.on_load[layer] != algorithm => {
            let mut way = way.clone();
            way.on_load[layer] = algorithm;
            Some(way)
        }
        _ => None,
    }
}
