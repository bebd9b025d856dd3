//! Changes where activations and loads lie, step by step, for a plan that is there.
//!
//! Activations lie where they need the least by themselves, and a load where memory has been free the longest. In budgets
//! near the smallest feasible one both can tear the memory beside a layer with many weights, so that one load fits where two
//! could. So beside which layers free memory is in one piece, and whether loads leave room beside them, is changed in
//! turn, as long as that makes the plan faster.
//!
//! Groups of layers that slide are left as they are: other numbers of lines, ends and algorithms in them were tried by the
//! same means, and what was predicted to gain 2 to 9 % in mobilenet_v2's smallest budget was measured to lose 4 to 11.

use super::design::{Built, Design};
use super::ground::{Ground, Lay};
use super::joint::Best;
use super::site::Site;
use std::cmp::Reverse;

/// No more plans than this are made.
const MOST: usize = 240;

/// Layers beside which free memory is tried in one piece.
const MOST_TORN: usize = 16;

/// Less gain than this the search may find as well from where it is.
const GAIN: f64 = 0.99;

/// So often what finds no room is given less scratch.
const FITS: usize = 4;

/// What can be changed.
#[derive(Clone, Copy)]
enum Move {
    /// Free memory beside a layer is in one piece, which loads then shall leave room in, or need not be.
    Join(usize),
    /// Loads leave room beside them, or need not.
    Beside,
}

/// Adds the site with the fastest plan that it finds, if it is faster than the best.
pub fn polish(sites: &mut Vec<Site<'_>>, best: &mut Best) {
    let site = &sites[best.at];
    if site.is_optimal(&best.built) {
        return;
    }
    let (request, basis) = (site.request, site.basis.clone());
    let groups = site.ground.sliding.groups().to_vec();
    let mut held = Lay::default();
    let joins = torn(site, &best.built).into_iter().map(Move::Join);
    let moves: Vec<Move> = std::iter::once(Move::Beside).chain(joins).collect();
    let mut found: Option<(Site<'_>, Design, Built)> = None;
    let (mut at, mut tried, mut in_vain) = (0, 0, 0);
    // Once around without a gain ends it.
    while tried < MOST && in_vain < moves.len() {
        let change = moves[at % moves.len()];
        (at, in_vain) = (at + 1, in_vain + 1);
        let lay = changed(&held, change);
        let (made_for, design, built) = match &found {
            Some((site, design, built)) => (site, design, built),
            None => (&sites[best.at], &best.design, &best.built),
        };
        let ground = Ground::new(request.network, groups.clone(), &lay);
        let site = Site::on(&request, basis.clone(), ground).in_portions(made_for.portions);
        let mut design = design.clone();
        site.adapt(&mut design, made_for, built.plan.tables);
        tried += 1;
        let new = fitted(&site, &mut design, built).filter(|new| is_better(new, built));
        let Some(new) = new else { continue };
        (held, found, in_vain) = (lay, Some((site, design, new)), 0);
    }
    let Some((site, design, built)) = found else { return };
    if (built.line.steady_ns as f64) < best.built.line.steady_ns as f64 * GAIN {
        *best = Best { at: sites.len(), design, built };
        sites.push(site);
    }
}

/// A plan of a design that had one elsewhere. What finds no room gets less scratch.
fn fitted(site: &Site<'_>, design: &mut Design, made: &Built) -> Option<Built> {
    for _ in 0..FITS {
        let layer = match site.build(design) {
            Ok(built) => return Some(built),
            Err(misfit) if misfit.activations => return None,
            Err(misfit) => misfit.layer,
        };
        // At first what is kept is not.
        if std::mem::take(&mut design.layers[layer as usize].keep) {
            continue;
        }
        let of_layer = made.plan.steps.iter().filter(|step| step.layer == layer);
        let most = of_layer.map(|step| step.scratch_bytes).max()?;
        let scratch = &mut design.layers[layer as usize].scratch;
        *scratch = (*scratch).min(most) / 4 * 3;
        if *scratch == 0 {
            return None;
        }
    }
    None
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

fn changed(lay: &Lay, change: Move) -> Lay {
    let mut lay = lay.clone();
    match change {
        Move::Beside => lay.beside = !lay.beside,
        Move::Join(layer) => match lay.joined.iter().position(|joined| *joined == layer) {
            Some(at) => drop(lay.joined.remove(at)),
            None => {
                lay.joined.push(layer);
                lay.beside = true;
            }
        },
    }
    lay
}
