//! Every layer's panels and rows are made exactly once.
//!
//! A step makes some rows of some panels. One that computes some chains of its sums makes a single
//! panel: so panels and their chains lie on one line, and a step makes a rectangle of that line and
//! the rows. That no two rectangles meet is found by going down the rows once, with those that are
//! made at a row in the order of the line. It takes about as long as there are steps.

use super::extent::chain_count;
use super::{Found, Violation, meet, span};
use eyelet::ops::{self, Problem, Slice};
use eyelet::pack::Step;
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The part of a layer that a step makes.
struct Piece {
    step: usize,
    panels: Range<u64>,
    rows: Range<u64>,
    /// Chains of all panels, one panel after the other.
    chains: Range<u64>,
}

impl Piece {
    /// Sums of one chain over one row and panel that the step makes.
    fn area(&self) -> u128 {
        let length = |range: &Range<u64>| u128::from(range.end - range.start);
        length(&self.rows) * length(&self.chains)
    }
}

/// Every layer's panels and rows are made exactly once.
pub fn check(network: &Network, plan: &Plan, found: &mut Found) {
    let mut pieces: Vec<Vec<Piece>> = network.layers.iter().map(|_| Vec::new()).collect();
    for (index, step) in plan.steps.iter().enumerate() {
        if let Some(piece) = piece(network, index + 1, step, found) {
            pieces[step.layer as usize].push(piece);
        }
    }
    for (layer, mut pieces) in pieces.into_iter().enumerate() {
        let record = &network.layers[layer];
        let rows = network.tensors[record.output as usize].rows();
        let all = u64::from(chain_count(network, layer));
        let total = u128::from(rows) * u128::from(all) * u128::from(record.panels.max(1));
        let made = pieces.iter().map(Piece::area).sum::<u128>();
        if made < total {
            found.add(Violation::SliceMissing { layer, made, total });
        }
        pieces.sort_by_key(|piece| piece.rows.start);
        apart(layer, &pieces, all, found);
    }
}

/// What a step makes, if that is part of its layer.
fn piece(network: &Network, number: usize, step: &Step, found: &mut Found) -> Option<Piece> {
    let layer = step.layer as usize;
    let record = &network.layers[layer];
    let output = &network.tensors[record.output as usize];
    let (of_rows, of_panels) = (output.rows(), u64::from(record.panels));
    let panels = span(step.first.into(), step.count.into());
    let rows = span(step.row.into(), step.rows.into());
    let panels_fit = panels.end <= of_panels && (of_panels == 0 || !panels.is_empty());
    if !panels_fit || rows.end > of_rows || rows.is_empty() {
        found.add(Violation::SliceOutside {
            step: number,
            layer,
            panels,
            rows,
            of_panels,
            of_rows,
        });
        return None;
    }
    let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let inputs = &record.inputs.map(tensor);
    let slice = Slice::from(step);
    let (threads, isa) = (1, network.isa);
    let problem = Problem { layer: record, inputs, output, slice, threads, isa };
    if ops::validate_slice(&problem).is_err() {
        // It could be some chains of several panels.
        found.add(Violation::NotSliceable { step: number, layer });
        return None;
    }
    // A layer without weights is one panel here.
    let panels = if of_panels == 0 { 0..1 } else { panels };
    let all = chain_count(network, layer);
    let terms = slice.terms(all);
    let start = panels.start * u64::from(all) + u64::from(terms.start);
    let end = (panels.end - 1) * u64::from(all) + u64::from(terms.end);
    Some(Piece { step: number, panels, rows, chains: start..end })
}

/// The pieces of a layer, in the order of their first rows, have nothing in common, and those of a
/// panel with `all` chains add up in order.
fn apart(layer: usize, pieces: &[Piece], all: u64, found: &mut Found) {
    // What is made at a row, by its first chain; and where each ends.
    let mut here: BTreeMap<u64, usize> = BTreeMap::new();
    let mut ends: BTreeSet<(u64, usize)> = BTreeSet::new();
    for (index, piece) in pieces.iter().enumerate() {
        while let Some(&(end, over)) = ends.first().filter(|(end, _)| *end <= piece.rows.start) {
            ends.remove(&(end, over));
            here.remove(&pieces[over].chains.start);
        }
        // These do not meet each other, so only the nearest ones can meet another.
        let start = piece.chains.start;
        let before = here.range(..=start).next_back().map(|(_, at)| &pieces[*at]);
        let after = here.range(start + 1..).next().map(|(_, at)| &pieces[*at]);
        let meets =
            [before, after].into_iter().flatten().find(|at| meet(&at.chains, &piece.chains));
        if let Some(other) = meets {
            found.add(twice(layer, piece, other));
            continue;
        }
        for (low, high) in [(before, Some(piece)), (Some(piece), after)] {
            let (Some(low), Some(high)) = (low, high) else { continue };
            let same_panel = (low.chains.end - 1) / all == high.chains.start / all;
            if same_panel && low.step > high.step {
                // A sum goes on from what the output holds.
                let (first, second) = (high.step, low.step);
                found.add(Violation::ChainsOutOfOrder { layer, first, second });
            }
        }
        here.insert(start, index);
        ends.insert((piece.rows.end, index));
    }
}

fn twice(layer: usize, one: &Piece, other: &Piece) -> Violation {
    let common = |a: &Range<u64>, b: &Range<u64>| a.start.max(b.start)..a.end.min(b.end);
    Violation::SliceTwice {
        layer,
        first: one.step.min(other.step),
        second: one.step.max(other.step),
        panels: common(&one.panels, &other.panels),
        rows: common(&one.rows, &other.rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whether two pieces meet, or add up in the wrong order, by comparing all of them.
    fn wrong(pieces: &[Piece], all: u64) -> bool {
        let pair = |one: &Piece, other: &Piece| {
            let panel = one.chains.start / all;
            let out_of_order = panel == (other.chains.end - 1) / all
                && panel == (one.chains.end - 1) / all
                && (one.step < other.step) != (one.chains.start < other.chains.start);
            meet(&one.rows, &other.rows) && (meet(&one.chains, &other.chains) || out_of_order)
        };
        pieces.iter().enumerate().any(|(at, one)| pieces[at + 1..].iter().any(|x| pair(one, x)))
    }

    proptest! {
        #[test]
        fn what_is_found_going_down_is_what_comparing_all_finds(
            all in 1u64..4,
            boxes in prop::collection::vec((0u64..6, 1u64..4, 0u64..3, 1u64..3, 0u64..20, 1u64..6, any::<bool>()), 1..7),
        ) {
            type Drawn = (u64, u64, u64, u64, u64, u64, bool);
            let piece = |(step, drawn): (usize, &Drawn)| {
                let &(panel, panels, chain, chains, row, rows, whole) = drawn;
                let (first, last) = match whole {
                    true => (panel * all, (panel + panels) * all),
                    false => {
                        let first = panel * all + chain.min(all - 1);
                        (first, (first + chains).min((panel + 1) * all))
                    }
                };
                Piece { step, panels: 0..0, rows: row..row + rows, chains: first..last }
            };
            let mut pieces: Vec<Piece> = boxes.iter().enumerate().map(piece).collect();
            pieces.sort_by_key(|piece| piece.rows.start);
            let mut found = Found::default();
            apart(0, &pieces, all, &mut found);
            prop_assert_eq!(!found.0.is_empty(), wrong(&pieces, all));
        }
    }
}
