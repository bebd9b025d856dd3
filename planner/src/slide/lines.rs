//! Outputs of a group over the dead lines of its inputs.
//!
//! A group reads the lines of an input for the last time one after the other, and writes those of an output likewise.
//! So both can share bytes, if the output lies so far below the input that each of its lines is written where lines
//! have been that nobody reads any more. How far follows from the times at which lines are touched first and last.
//! A layer's own output may lie so over its own input, too: what a step writes is never what it reads.

use super::group::Facts;
use super::window::operands;
use crate::memory::Lifetime;
use crate::network::Network;
use eyelet::pack::{NONE, Step};
use std::ops::Range;

/// Buffers with more lines are reckoned with as a whole: every line is compared with every line of others.
const MOST_LINES: usize = 4096;

/// When the lines of a buffer hold something; counted in steps, the host's being 0.
#[derive(Clone, Debug)]
pub struct Lines {
    /// Bytes of a line.
    bytes: i64,
    lives: Vec<Option<Lifetime>>,
}

/// The lines of whole buffers that layers touch which slide; `None` for all others. Steps that are cut `together` are one moment.
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

/// The same, of a network of which these facts are known.
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
            found[buffer].get_or_insert_with(|| Lines { bytes, lives: vec![None; height] });
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
            let all = 0..found.lives.len() as u32;
            for line in lines.unwrap_or(all) {
                let Some(life) = found.lives.get_mut(line as usize) else { break };
                life.get_or_insert(Lifetime { start: time, end: time }).end = time;
            }
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

impl Lines {
    /// The lines were all made before these steps.
    pub fn known_before(&mut self) {
        self.lives.iter_mut().flatten().for_each(|life| life.start = 0);
    }

    /// The lines are all needed after these steps.
    pub fn needed_after(&mut self) {
        self.lives.iter_mut().flatten().for_each(|life| life.end = usize::MAX);
    }

    /// The distances from the start of this buffer to that of another one between which lines would meet, both ends
    /// excluded. `None` if they share no moment.
    pub fn forbidden(&self, lines: &Self) -> Option<(i64, i64)> {
        let theirs: Vec<(i64, Lifetime)> = alive(&lines.lives).collect();
        // The latest end of the first so many lines, and the earliest start of the others.
        let mut ends: Vec<usize> = theirs.iter().map(|(_, life)| life.end).collect();
        (1..ends.len()).for_each(|at| ends[at] = ends[at].max(ends[at - 1]));
        let mut starts: Vec<usize> = theirs.iter().map(|(_, life)| life.start).collect();
        (1..starts.len()).rev().for_each(|at| starts[at - 1] = starts[at - 1].min(starts[at]));
        let mut found: Option<(i64, i64)> = None;
        for (x, a) in alive(&self.lives) {
            // Lines before the first of these have ended, and those from the last on begin later.
            let first = ends.partition_point(|end| *end < a.start);
            let last = starts.partition_point(|start| *start <= a.end);
            let meets = |(_, b): &&(i64, Lifetime)| a.start <= b.end && b.start <= a.end;
            let near = theirs.get(first..last).unwrap_or_default();
            let (Some((low, _)), Some((high, _))) =
                (near.iter().find(meets), near.iter().rev().find(meets))
            else {
                continue;
            };
            let least: i64 = x * self.bytes - (high + 1) * lines.bytes;
            let most: i64 = (x + 1) * self.bytes - low * lines.bytes;
            let held = found.get_or_insert((least, most));
            *held = (held.0.min(least), held.1.max(most));
        }
        found
    }

    /// Whether all lines of both hold something at once: none of them is dead before one of the other's is made.
    #[cfg(test)]
    pub(super) fn all_meet(&self, other: &Self) -> bool {
        let meets = |a: &Lifetime, b: &Lifetime| a.start <= b.end && b.start <= a.end;
        let theirs = || other.lives.iter().flatten();
        self.lives.iter().flatten().all(|one| theirs().all(|other| meets(one, other)))
    }
}
/// The lines that hold something, with their numbers.
fn alive(lives: &[Option<Lifetime>]) -> impl Iterator<Item = (i64, Lifetime)> + '_ {
    (0..).zip(lives).filter_map(|(line, life)| Some((line, (*life)?)))
}
