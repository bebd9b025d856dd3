//! A lower bound for the cost of a group, known before its lines are scheduled.
//!
//! A layer makes its lines in chunks, of which only the last may be larger, and by less than a
//! chunk. So it has at least as many steps as there are whole chunks in it, and each of these takes
//! at least what a chunk takes where nothing that can be a ring goes through memory.

use super::group::Facts;
use super::schedule::chunk;
use crate::profile::Outside;
use crate::simulate::Costs;
use crate::steps::whole;
use eyelet::pack::Step;
use std::collections::HashMap;
use std::ops::Range;

/// Lower bounds for the extra cost of layers, by the lines of a chunk and by the shares that go
/// through memory.
#[derive(Default)]
pub(super) struct Least {
    known: HashMap<(usize, u32), Vec<(Outside, i64)>>,
}

impl Least {
    /// Lower bound for the predicted time beyond that of whole layers. The group makes `lines`
    /// lines of its tallest layer at a time. At least the shares `outside` of its activations go
    /// through memory.
    pub(super) fn extra_ns(
        &mut self,
        facts: &Facts<'_>,
        costs: &Costs,
        layers: &Range<usize>,
        outside: &[Outside],
        lines: u32,
    ) -> i64 {
        let height = |layer: usize| facts.output(layer).dims[1].max(1);
        let tallest = layers.clone().map(height).max().unwrap_or(1);
        let of_layer = |(layer, outside): (usize, &Outside)| {
            let height = height(layer);
            let lines = chunk(lines, height, tallest, facts.tile(layer)).min(height);
            let known = self.known.entry((layer, lines)).or_default();
            if let Some((_, ns)) = known.iter().find(|(of, _)| of == outside) {
                return *ns;
            }
            let all = whole(facts.network, layer);
            let step = Step { rows: all.rows / height * lines, ..all };
            // Times of steps are whole numbers, and those of a price round otherwise.
            let each = costs.sliding_ns(&step, *outside).saturating_sub(1);
            let steps = u64::from(height / lines) * each;
            let ns = steps as i64 - costs.step_ns(&all) as i64;
            known.push((*outside, ns));
            ns
        };
        layers.clone().zip(outside).map(of_layer).sum()
    }
}

/// The shares of activations of a group's layers that go through memory. `ring` returns the bytes
/// of a ring.
pub(super) fn outside(
    facts: &Facts<'_>,
    costs: &Costs,
    layers: &Range<usize>,
    ring: impl Fn(usize) -> Option<u64>,
) -> Vec<Outside> {
    let of = |layer| Outside::of(facts.network, layer, costs.cache_bytes(), &ring);
    layers.clone().map(of).collect()
}
