//! Chooses the layers that slide, and the lines that they make at a time.
//!
//! A layer on its own takes its live buffers, its smallest slice, and its scratch. Layers that take
//! more than a target must be in groups. A group takes the whole buffers that live during it, its
//! rings, its weights and the largest scratch of its steps. Dynamic programming over the layers
//! finds the cheapest groups that stay below the target. The price of a group is the predicted time
//! of its steps beyond that of whole layers.

use super::Group;
use super::aim::Aim;
use super::alone::{alone, live_bytes};
use super::price::Prices;
use crate::simulate::Costs;
use eyelet::pack::PAGE;
use eyelet_model::network::Network;
use eyelet_model::tables::Tables;

/// Shares of the memory next to the tables for which groups are searched.
const SHARES: [f64; 8] = [1.0, 0.98, 0.94, 0.8, 0.6, 0.4, 0.25, 0.15];

/// Multiples of the least target for which groups are searched.
const ABOVE: [f64; 5] = [1.0, 1.02, 1.05, 1.1, 1.2];

/// The aims of groups that take the least, in the order in which they are tried.
const LEAST: [Aim; 3] = [Aim::Single, Aim::Sharing, Aim::Memory];

/// Longest group that is tried.
pub(super) const LONGEST: usize = 48;

/// A network for which groups are searched, for one target or several.
pub struct Search<'a> {
    prices: Prices<'a>,
    tables: Tables,
    /// Bytes that each layer takes on its own.
    alone: Vec<u64>,
}

impl<'a> Search<'a> {
    pub fn new(network: &'a Network, costs: &'a Costs, threads: u32) -> Self {
        let layers = 0..network.layers.len();
        let prices = Prices::new(network, costs, threads);
        let live = &live_bytes(layers.len(), &prices.times);
        let alone = layers.map(|layer| alone(network, live, threads, layer)).collect();
        Self { prices, tables: Tables::of(network), alone }
    }

    /// Bytes that the network takes without groups. Tables and loads that run ahead are not
    /// counted.
    pub fn whole(&self) -> u64 {
        self.alone.iter().copied().max().unwrap_or(0)
    }

    /// Bytes of a budget that tables leave.
    fn room(&self, budget: u64) -> u64 {
        budget.saturating_sub(self.tables.least(self.alone.len()))
    }

    /// The cheapest division of all layers into groups and layers that do not slide, in which no
    /// layer takes more than `target` bytes; `None` if there is none. A group has a layer that takes
    /// more on its own.
    fn groups_for(&mut self, target: u64, aim: Aim) -> Option<Vec<Group>> {
        // The number of layers, among the first ones, that take more than the target.
        let mut large = vec![0];
        for alone in &self.alone {
            large.push(large[large.len() - 1] + usize::from(*alone > target));
        }
        // For each number of first layers: the least price, and the last part of the division that
        // has it.
        let mut best: Vec<Option<(i64, Option<Group>)>> = vec![Some((0, None))];
        for end in 1..=self.alone.len() {
            let fits = self.alone[end - 1] <= target;
            let before = best[end - 1].as_ref().filter(|_| fits);
            let mut least = before.map(|(price, _)| (*price, None));
            for start in (end.saturating_sub(LONGEST)..end).rev() {
                if !self.prices.may_go(&(start..end), target, aim) {
                    break;
                }
                let single = end - start == 1 && aim != Aim::Single;
                let serves = large[end] > large[start] && !single;
                let Some((before, _)) = best[start].as_ref().filter(|_| serves) else { continue };
                // A group that is not cheaper than the least is not computed.
                let below = least.as_ref().map_or(i64::MAX, |(least, _)| least - before);
                let found = self.prices.group(start..end, target, aim, below);
                let found = found.filter(|(_, extra_ns)| *extra_ns < below);
                if let Some((group, extra_ns)) = found {
                    least = Some((before + extra_ns, Some(group)));
                }
            }
            best.push(least);
        }
        let mut groups = Vec::new();
        let mut end = self.alone.len();
        while end > 0 {
            match &best[end].as_ref()?.1 {
                Some(group) => {
                    groups.push(group.clone());
                    end = group.layers.start;
                }
                None => end -= 1,
            }
        }
        groups.reverse();
        Some(groups)
    }

    /// The ways to slide that are planned for a budget, the cheapest first: no groups if that could
    /// fit, groups that just fit, and groups that leave more memory for weights.
    pub fn candidates(&mut self, budget: u64) -> Vec<Vec<Group>> {
        let room = self.room(budget);
        let mut found = Vec::new();
        for share in SHARES {
            let target = (room as f64 * share) as u64;
            let mut aims = [Aim::Memory, Aim::Sharing, Aim::Single].into_iter();
            let Some(groups) = aims.find_map(|aim| self.groups_for(target, aim)) else { break };
            if !found.contains(&groups) {
                found.push(groups);
            }
        }
        found
    }

    /// Ways to slide, one of which has the smallest feasible budget, computed one by one. Ways that
    /// need more than `budget` by estimate are left out. More lines at a time make smaller tables.
    pub fn smallest(&mut self, budget: u64) -> impl Iterator<Item = Vec<Group>> {
        let room = self.room(budget);
        let (mut least, mut found) = (None, Vec::new());
        let targets = LEAST.into_iter().flat_map(|aim| ABOVE.map(|share| (aim, share)));
        targets.filter_map(move |(aim, share)| {
            let known = least.filter(|(of, _)| *of == aim);
            let known = known.unwrap_or_else(|| (aim, self.least_target(aim, room)));
            least = Some(known);
            let target = (known.1? as f64 * share) as u64;
            let groups = (target <= room).then(|| self.groups_for(target, aim))??;
            (!found.contains(&groups)).then(|| {
                found.push(groups.clone());
                groups
            })
        })
    }

    /// Lower bound and cost of these layers as a group, by lines at a time.
    #[cfg(test)]
    pub fn least_and_all(
        &mut self,
        layers: &std::ops::Range<usize>,
        reloads_weights: bool,
    ) -> Vec<[i64; 2]> {
        self.prices.least_and_all(layers, reloads_weights)
    }

    /// Groups for a target, single layers left out.
    #[cfg(test)]
    pub fn groups(&mut self, target: u64) -> Option<Vec<Group>> {
        self.groups_for(target, Aim::Sharing)
    }

    /// The smallest target for which there are groups, single layers among them, to the page, and
    /// they.
    #[cfg(test)]
    pub fn least(&mut self) -> (u64, Vec<Group>) {
        let least = self.least_target(Aim::Single, u64::MAX).unwrap_or(u64::MAX);
        (least, self.groups_for(least, Aim::Single).unwrap_or_default())
    }

    /// The smallest target for which there are groups, to the page, if that is at most `limit`. It
    /// belongs to the division of the layers whose largest part is smallest (a path of least
    /// bottleneck).
    fn least_target(&mut self, aim: Aim, limit: u64) -> Option<u64> {
        // For each number of first layers: the bytes of the largest part.
        let mut least = vec![0];
        for end in 1..=self.alone.len() {
            let alone = least[end - 1].max(self.alone[end - 1]);
            let mut most = alone.min(limit.saturating_add(1));
            for start in (end.saturating_sub(LONGEST)..end).rev() {
                if !self.prices.may_go(&(start..end), most, aim) {
                    break;
                }
                if least[start] >= most || (end - start == 1 && aim != Aim::Single) {
                    continue;
                }
                if let Some(bytes) = self.prices.least_below(start..end, most, aim) {
                    most = bytes.max(least[start]);
                }
            }
            least.push(most);
        }
        let least = least[self.alone.len()].next_multiple_of(PAGE);
        (least <= limit).then_some(least)
    }
}
