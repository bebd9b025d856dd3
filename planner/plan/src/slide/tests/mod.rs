//! Invariants of layers that slide: plans with groups are proved.

mod networks;

use super::window::Operand;
use super::*;
use crate::memory::lifetimes;
use crate::slice::{Cutting, slice};
use crate::testing::plan;
use eyelet::ops::{self, Slice};
use eyelet::pack::{Method, NONE, OpKind, Tensor};
use eyelet_check::{Proof, Violation, check};

/// Runs of layers that can slide, longest first.
fn runs(network: &Network) -> Vec<Range<usize>> {
    let facts = Facts::new(network);
    let mut runs: Vec<Range<usize>> = Vec::new();
    for layer in (0..network.layers.len()).filter(|&layer| facts.slides(layer)) {
        let joins = |run: &Range<usize>| {
            run.end == layer && run.clone().all(|before| facts.goes_with(before, layer + 1))
        };
        match runs.last_mut() {
            Some(run) if joins(run) => run.end = layer + 1,
            _ => runs.push(layer..layer + 1),
        }
    }
    runs.sort_by_key(|run| std::cmp::Reverse(run.len()));
    runs
}

/// Asserts that the runtime lends steps of each layer no more lines than the planner counts.
/// Returns the number of operands.
pub(crate) fn lent_is_reckoned_with(network: &Network) -> usize {
    let mut compared = 0;
    let facts = Facts::new(network);
    for (index, layer) in network.layers.iter().enumerate() {
        let Some(operands) = &facts.operands[index] else { continue };
        let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(record), record(layer.output));
        let [_, height, width, _] = output.dims;
        let tile = operands[0].window.tile;
        let slots = (0..layer.inputs.len()).filter(|slot| layer.inputs[*slot] != NONE);
        for (slot, Operand { tensor, window, .. }) in slots.zip(operands) {
            assert_eq!((layer.inputs[slot], window.tile), (*tensor, tile));
            compared += 1;
            for first in (0..height).step_by(tile as usize) {
                for lines in [1, 2, 3, 7, height].map(|times| times.saturating_mul(tile)) {
                    let made = first..first.saturating_add(lines).min(height);
                    let slice = Slice {
                        first: 0,
                        count: layer.panels,
                        row: made.start * width,
                        rows: made.len() as u32 * width,
                        method: Method::by(network.on_load[index]),
                    };
                    let lent = &ops::rows_read(layer, &inputs, &output, &slice)[slot];
                    let of_line = u64::from(inputs[slot].dims[2]);
                    let known = window.lines(made);
                    let known = u64::from(known.start) * of_line..u64::from(known.end) * of_line;
                    let inside = known.start <= lent.start && lent.end <= known.end;
                    assert!(inside, "{slice:?} of {layer:?} is lent {lent:?} of {known:?}");
                }
            }
        }
    }
    compared
}

/// Cuts a network into groups as drawn, of whatever lengths, and expects lines of two buffers that
/// live in the same layer to be dead before others are made only where these may share bytes.
pub(crate) fn share(network: &Network, draws: &[(u8, u8)]) {
    let facts = Facts::new(network);
    let (mut groups, mut layer, mut draws) = (Vec::new(), 0, draws.iter().cycle());
    while let Some(&(length, lines)) = draws.next().filter(|_| layer < network.layers.len()) {
        let joins = |end: &usize| {
            *end <= network.layers.len()
                && facts.slides(end - 1)
                && (layer..*end).all(|before| facts.goes_with(before, *end))
        };
        let ends = (layer + 1..=layer + usize::from(length)).take_while(joins);
        let end = ends.last().unwrap_or(layer);
        if end > layer {
            let lines = u32::from(lines).max(1);
            groups.push(Group { layers: layer..end, lines, reloads_weights: false });
        }
        layer = end.max(layer + 1);
    }
    let sliding = Sliding::new(network, groups);
    let steps = slice(network, &sliding, &network.on_load, |_| Cutting::equal(1)).steps;
    in_order(&steps);
    let together = |one: &Step, other: &Step| sliding.cut_together(one, other);
    let lines = line_lives(network, &steps, &sliding.rings, together);
    let (shares, layers) = (Shares::new(network), network.layers.len());
    let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
    for (one, lines_of_one) in lines.iter().enumerate() {
        for (other, lines_of_other) in lines.iter().enumerate().take(one) {
            let (Some(a), Some(b)) = (lines_of_one, lines_of_other) else { continue };
            let both = lives[one].start <= lives[other].end && lives[other].start <= lives[one].end;
            let may = shares.may(one, other);
            assert!(!both || may || a.all_meet(b), "{one} and {other}: {:?}", sliding.groups());
        }
    }
}

/// Each layer begins after the one before it, and ends after it.
fn in_order(steps: &[Step]) {
    let mut spans: Vec<Option<Range<usize>>> = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        let layer = step.layer as usize;
        spans.resize(spans.len().max(layer + 1), None);
        let span = spans[layer].get_or_insert(at..at);
        span.end = at;
    }
    let spans: Vec<Range<usize>> = spans.into_iter().flatten().collect();
    for (layer, pair) in spans.windows(2).enumerate() {
        let [one, next] = pair else { continue };
        assert!(one.start < next.start && one.end < next.end, "{layer}: {one:?} and {next:?}");
    }
}

/// Lets the layers of a network slide in groups as drawn, and expects a proof; and none with a ring
/// that is a line shorter. Returns the number of rings.
pub(crate) fn prove(network: &mut Network, draws: &[(u8, u8)]) -> usize {
    lent_is_reckoned_with(network);
    let mut groups = Vec::new();
    for (run, &(skip, lines)) in runs(network).into_iter().zip(draws) {
        // Only a part of some long runs.
        let start = run.start + usize::from(skip) % run.len().div_ceil(2);
        let (layers, lines) = (start..run.end, u32::from(lines).max(1));
        groups.push(Group { layers, lines, reloads_weights: skip >= 128 });
    }
    groups.sort_by_key(|group| group.layers.start);
    let (plan, weights_bytes) = plan(network, &groups);
    let proof: Result<Proof, Vec<Violation>> = check(network, &plan, weights_bytes);
    assert!(proof.is_ok(), "{groups:?}: {}\n{:#?}", proof.unwrap_err()[0], network.layers);
    // Where no one reads some lines, a ring without them would do, but for steps of a line each;
    // and where tensors lie side by side, each could have lines of its own.
    let facts = Facts::new(network);
    let skipping = facts.operands.iter().flatten().flatten().filter(|o| o.window.skips());
    let mut skipped: Vec<usize> =
        skipping.map(|o| network.tensors[o.tensor as usize].buffer as usize).collect();
    // A layer that makes fewer lines of another size may read less than its window, which is a
    // bound.
    for layer in network
        .layers
        .iter()
        .filter(|layer| OpKind::from_code(layer.kind) == Some(OpKind::Resample))
    {
        let [input, output] =
            [layer.inputs[0], layer.output].map(|id| network.tensors[id as usize]);
        if output.dims[1] < input.dims[1] {
            skipped.push(input.buffer as usize);
        }
    }
    for a in &network.tensors {
        let is_other_view =
            |b: &Tensor| b.buffer == a.buffer && (b.offset, b.dims) != (a.offset, a.dims);
        if network.tensors.iter().any(is_other_view) {
            skipped.push(a.buffer as usize);
        }
    }
    let mut rings = 0;
    for (buffer, place) in plan.places.iter().enumerate().filter(|(_, place)| place.lines > 0) {
        rings += 1;
        let least = facts.least_lines(buffer);
        assert!(place.lines >= least, "ring {buffer} of {} lines, {least} are seen", place.lines);
        if place.lines == 1 || skipped.contains(&buffer) {
            continue;
        }
        let mut short = plan.clone();
        short.places[buffer].lines -= 1;
        let Err(violations) = check(network, &short, weights_bytes) else {
            panic!("ring {buffer} of {} lines is too large: {groups:?}", place.lines);
        };
        let lines = |violation: &Violation| match violation {
            Violation::OutOfOrder { buffer: at, .. } => *at == buffer,
            Violation::RingStep { buffer: at, .. } => *at == buffer,
            _ => false,
        };
        assert!(violations.iter().any(lines), "{violations:#?}");
    }
    rings
}
