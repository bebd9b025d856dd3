//! Outputs of a group over the dead lines of its inputs.
//!
//! A group reads the lines of an input for the last time one after the other, and writes those of
//! an output likewise. So both can share bytes, if the output lies so far below the input that each
//! of its lines is written where lines have been that nobody reads any more. How far follows from
//! the times at which lines are touched first and last. A layer's own output may lie so over its
//! own input, too: what a step writes is never what it reads.

use super::group::Facts;
use super::window::operands;
use crate::memory::Lines;
use eyelet::pack::{NONE, Step};
use eyelet_model::network::Network;
use std::ops::Range;

/// Buffers with more lines count as a whole: every line is compared with every line of others.
const MOST_LINES: usize = 4096;

/// The lines of whole buffers that layers touch which slide; `None` for all others. Steps that are
/// cut `together` are one moment.
pub fn line_lives(
    network: &Network,
    steps: &[Step],
    rings: &[u32],
    together: impl Fn(&Step, &Step) -> bool,
) -> Vec<Option<Lines>> {
    let rows = |layer: usize| network.tensors[network.layers[layer].output as usize].rows();
    if steps.iter().all(|step| u64::from(step.rows) >= rows(step.layer as usize)) {
        return vec![None; network.buffers.len()];
    }
    line_lives_of(&Facts::new(network), steps, rings, together)
}

/// Returns [`line_lives`] for a network whose facts are known.
pub fn line_lives_of(
    facts: &Facts<'_>,
    steps: &[Step],
    rings: &[u32],
    together: impl Fn(&Step, &Step) -> bool,
) -> Vec<Option<Lines>> {
    let network = facts.network;
    let mut found = vec![None; network.buffers.len()];
    let rows = |layer: usize| network.tensors[network.layers[layer].output as usize].rows();
    let slides = |step: &Step| u64::from(step.rows) < rows(step.layer as usize);
    let mut sliding = vec![false; network.layers.len()];
    steps.iter().filter(|step| slides(step)).for_each(|step| sliding[step.layer as usize] = true);
    for (index, _) in sliding.iter().enumerate().filter(|(_, slides)| **slides) {
        let images = facts.images(index);
        let few = images.filter(|image| rings[image.0] == 0 && image.1 <= MOST_LINES);
        for (buffer, height, bytes) in few {
            found[buffer].get_or_insert_with(|| Lines::new(height, bytes));
        }
    }
    let windows: Vec<_> =
        (0..sliding.len()).map(|layer| sliding[layer].then(|| operands(network, layer))).collect();
    let moments = (1..).zip(steps.chunk_by(together));
    for (time, step) in moments.flat_map(|(time, run)| run.iter().map(move |step| (time, step))) {
        let layer = step.layer as usize;
        let record = &network.layers[layer];
        let width = network.tensors[record.output as usize].dims[2].max(1);
        let made = step.row / width..(step.row + step.rows).div_ceil(width);
        let mut touch = |id: u32, lines: Option<Range<u32>>| {
            let Some(found) = &mut found[network.tensors[id as usize].buffer as usize] else {
                return;
            };
            let all = 0..found.count();
            lines.unwrap_or(all).for_each(|line| found.touch(line, time));
        };
        let windows = windows[layer].as_ref().and_then(Option::as_ref);
        touch(record.output, windows.map(|_| made.clone()));
        for id in record.inputs.into_iter().filter(|id| *id != NONE) {
            let operand = windows.and_then(|all| all.iter().find(|operand| operand.tensor == id));
            touch(id, operand.map(|operand| operand.window.lines(made.clone())));
        }
    }
    found
}
