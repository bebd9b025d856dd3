//! Which layers slide, and how many lines at a time.
//!
//! What a layer takes on its own is known: its live buffers, its smallest slice, its scratch. Layers that
//! take more than a target must be in groups. A group takes the whole buffers that live beside it, its
//! rings, its weights and the largest scratch of its steps. The cheapest way to stay below the target is
//! found layer by layer (dynamic programming over the layer at which the last group or single layer
//! ends), where the price of a group is what its steps are predicted to cost beyond whole layers.

use super::group::{Chain, Facts};
use super::lines::line_lives_of;
use super::schedule::Schedule;
use super::{Group, Lines, steps_of};
use crate::memory::{Lifetime, lifetimes};
use crate::network::Network;
use crate::plan::step_weights;
use crate::profile::Outside;
use crate::simulate::Costs;
use crate::slice::{least_scratch_bytes, whole};
use crate::tables::Tables;
use eyelet::pack::stored::StepRecord;
use eyelet::pack::{OpKind, PAGE, Step, ring_bytes};
use std::collections::HashMap;
use std::ops::Range;

/// Lines of the tallest layer that are tried, fewest first.
const LINES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// Shares of the memory beside the tables for which groups are sought.
const SHARES: [f64; 6] = [1.0, 0.8, 0.6, 0.4, 0.25, 0.15];

/// Shares of the least target for which groups are sought, too.
const ABOVE: [f64; 4] = [1.02, 1.05, 1.1, 1.2];

/// Slices of a layer that shall find room where weights are read anew.
const SLICES_ANEW: u64 = 2;

/// What a step takes of tables that reads a slice anew, with what it computes and its load, in records of steps.
const RECORDS_ANEW: u64 = 5;

/// Longest group that is tried.
const LONGEST: usize = 48;

/// Longest group that is tried where memory does not ask for one.
const FASTEST: usize = 6;

/// What a group takes and costs.
#[derive(Clone, Copy, Debug)]
struct Price {
    bytes: u64,
    /// Predicted time beyond that of whole layers.
    extra_ns: i64,
}

/// What groups are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// To stay below the target at the least cost.
    Memory,
    /// The same, with outputs over dead lines of inputs. Where many buffers live at once these do not always get the
    /// places for it.
    Sharing,
    /// The same, and to be faster than whole layers where lines stay in a cache.
    Speed,
}

/// A network of which groups are sought, for one target or several.
pub struct Search<'a> {
    facts: Facts<'a>,
    costs: &'a Costs,
    tables: Tables,
    threads: u32,
    lives: Vec<Lifetime>,
    /// What each layer takes on its own.
    alone: Vec<u64>,
    /// Whether a layer's activations go through memory, so that it could gain by sliding.
    spills: Vec<bool>,
    /// For each layer whose steps transform weights what that takes on its own, and how much longer it takes without.
    transforms: Vec<Option<Price>>,
    /// Of groups by their layers and lines, and whether they read weights anew.
    prices: HashMap<(usize, usize, u32, bool), Price>,
    /// Bytes less if outputs lie over dead lines of inputs.
    shares: HashMap<(usize, usize, u32), u64>,
    /// No more than these.
    most_shared: HashMap<(usize, usize), u64>,
    /// For each group, by its first layer and its length, what it takes beside rings.
    beside: Vec<Option<u64>>,
    /// How the lines were made that were asked for last.
    laid: Option<Laid>,
}

/// A group that makes so many lines at a time.
struct Laid {
    layers: Range<usize>,
    lines: u32,
    chain: Chain,
    schedule: Schedule,
}

impl<'a> Search<'a> {
    pub fn new(network: &'a Network, costs: &'a Costs, threads: u32) -> Self {
        let layers = network.layers.len();
        let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
        let alone = (0..layers).map(|layer| alone(network, &lives, threads, layer)).collect();
        let transforms =
            (0..layers).map(|layer| transforms(network, &lives, costs, threads, layer));
        let transforms = transforms.collect();
        let spills = (0..layers).map(|layer| costs.spills(&whole(network, layer))).collect();
        let facts = Facts::new(network);
        let (prices, shares, most_shared) = Default::default();
        let tables = Tables::of(network);
        let beside = vec![None; layers * LONGEST];
        Self {
            facts,
            costs,
            tables,
            threads,
            lives,
            alone,
            spills,
            transforms,
            prices,
            shares,
            most_shared,
            beside,
            laid: None,
        }
    }

    /// What the network takes without groups, tables and loading ahead left out.
    pub fn whole(&self) -> u64 {
        self.alone.iter().copied().max().unwrap_or(0)
    }

    /// The groups by which no layer takes more than `target` bytes, at the least price; `None` if there
    /// are none.
    pub fn groups(&mut self, target: u64) -> Option<Vec<Group>> {
        self.groups_for(target, Aim::Sharing)
    }

    fn groups_for(&mut self, target: u64, aim: Aim) -> Option<Vec<Group>> {
        let layers = self.alone.len();
        let mut hot = vec![0usize];
        for bytes in &self.alone {
            hot.push(hot[hot.len() - 1] + usize::from(*bytes > target));
        }
        // The least price of the first so many layers, and the last part of it.
        let mut best: Vec<Option<(i64, Option<Group>)>> = vec![Some((0, None))];
        for end in 1..=layers {
            let mut least: Option<(i64, Option<Group>)> = None;
            if self.alone[end - 1] <= target {
                least = best[end - 1].as_ref().map(|(price, _)| (*price, None));
            }
            let mut weights = 0;
            let mut gains = aim == Aim::Speed;
            for start in (end.saturating_sub(LONGEST)..end).rev() {
                weights += weight_bytes(self.facts.network, start);
                let fits = weights <= target && self.facts.goes_with(start, end);
                if !self.facts.slides(start) || !fits {
                    break;
                }
                gains &= self.spills[start] && end - start <= FASTEST;
                let Some(before) = best[start].as_ref().map(|(price, _)| *price) else { continue };
                let needed = hot[end] > hot[start];
                if start + 1 == end || !(needed || gains) {
                    continue;
                }
                let found = self.lines(start..end, target, aim, false);
                let Some((lines, extra_ns)) = found else { continue };
                if !needed && extra_ns >= 0 {
                    continue;
                }
                let price = before + extra_ns;
                if least.as_ref().is_none_or(|(least, _)| price < *least) {
                    let group = Group { layers: start..end, lines, anew: false };
                    least = Some((price, Some(group)));
                }
            }
            best.push(least);
        }
        let mut groups = Vec::new();
        let mut end = layers;
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

    /// The ways to slide that deserve to be planned for a budget, the one that costs least first: no groups
    /// if that could fit, groups that just fit, and groups that leave more for weights.
    pub fn candidates(&mut self, budget: u64) -> Vec<Vec<Group>> {
        let layers = self.alone.len();
        let room = budget.saturating_sub(self.tables.least(layers));
        let mut found = Vec::new();
        for share in SHARES {
            let target = (room as f64 * share) as u64;
            let groups = self.groups_for(target, Aim::Memory).or_else(|| self.groups(target));
            let Some(groups) = groups else { break };
            if !found.contains(&groups) {
                found.push(groups);
            }
        }
        found
    }

    /// The groups that are predicted to be faster than whole layers, and take no more than a budget; empty if none are.
    pub fn faster(&mut self, budget: u64) -> Vec<Group> {
        let layers = self.alone.len();
        let room = budget.saturating_sub(self.tables.least(layers));
        self.groups_for(room, Aim::Speed).unwrap_or_default()
    }

    /// These groups, and others that read weights anew, by which layers have room for what their steps transform; `None` if
    /// nothing is gained so.
    pub fn roomier(&mut self, groups: &[Group], budget: u64) -> Option<Vec<Group>> {
        let layers = self.alone.len();
        let target = budget.saturating_sub(self.tables.least(layers));
        let mut held = vec![None; layers];
        groups.iter().for_each(|group| held[group.layers.clone()].fill(Some(group)));
        let loss = |layer: usize| match (&self.transforms[layer], held[layer]) {
            (Some(Price { bytes, extra_ns }), None) if *bytes > target => *extra_ns,
            _ => 0,
        };
        let losses: Vec<i64> = (0..layers).map(loss).collect();
        if losses.iter().all(|loss| *loss <= 0) {
            return None;
        }
        // The least price of the first so many layers, and the last part of it.
        let mut best: Vec<(i64, Option<Group>)> = vec![(0, None)];
        for end in 1..=layers {
            let mut least = (best[end - 1].0 + losses[end - 1], None);
            let first = end.saturating_sub(FASTEST);
            for start in (first..end).rev() {
                let free = held[start].is_none() && self.facts.slides(start);
                if !free || !self.facts.goes_with(start, end) {
                    break;
                }
                let lacks = losses[start..end].iter().any(|loss| *loss > 0);
                if start + 1 == end || !lacks || best[start].0 >= least.0 {
                    continue;
                }
                let found = self.lines(start..end, target, Aim::Sharing, true);
                let Some((lines, extra_ns)) = found else { continue };
                let price = best[start].0 + extra_ns;
                if price < least.0 {
                    let group = Group { layers: start..end, lines, anew: true };
                    least = (price, Some(group));
                }
            }
            best.push(least);
        }
        let mut found = groups.to_vec();
        let mut end = layers;
        while end > 0 {
            match &best[end].1 {
                Some(group) => {
                    found.push(group.clone());
                    end = group.layers.start;
                }
                None => end -= 1,
            }
        }
        found.sort_by_key(|group| group.layers.start);
        (found.len() > groups.len()).then_some(found)
    }

    /// The ways to slide of which one has the smallest feasible budget. The more lines at a time, the
    /// smaller the tables.
    pub fn smallest(&mut self) -> Vec<Vec<Group>> {
        let mut found = Vec::new();
        for aim in [Aim::Sharing, Aim::Memory] {
            let (least, groups) = self.least_for(aim);
            found.extend(Some(groups).filter(|groups| !found.contains(groups)));
            for share in ABOVE {
                let groups = self.groups_for((least as f64 * share) as u64, aim);
                found.extend(groups.filter(|groups| !found.contains(groups)));
            }
        }
        found
    }

    /// The smallest target for which there are groups, to the page, and they.
    pub fn least(&mut self) -> (u64, Vec<Group>) {
        self.least_for(Aim::Sharing)
    }

    fn least_for(&mut self, aim: Aim) -> (u64, Vec<Group>) {
        let mut high = self.whole().div_ceil(PAGE);
        let mut groups = Vec::new();
        let mut low = 0;
        while low + 1 < high {
            let middle = (low + high) / 2;
            match self.groups_for(middle * PAGE, aim) {
                Some(found) => (high, groups) = (middle, found),
                None => low = middle,
            }
        }
        (high * PAGE, groups)
    }

    /// The number of lines by which a group costs least and takes at most `target` bytes, and its price.
    fn lines(
        &mut self,
        layers: Range<usize>,
        target: u64,
        aim: Aim,
        anew: bool,
    ) -> Option<(u32, i64)> {
        let shares = aim != Aim::Memory;
        let beside = self.kept(&layers, anew);
        if beside > target && (!shares || beside > target + self.most_shared(&layers)) {
            return None;
        }
        let fits = LINES.into_iter().map_while(|lines| {
            let price = self.price(&layers, lines, anew);
            let fits = price.bytes <= target
                || (shares && price.bytes <= target + self.shared_by(&layers, lines));
            fits.then_some((lines, price.extra_ns))
        });
        fits.min_by_key(|(_, extra_ns)| *extra_ns)
    }

    /// Bytes of weights of a group, and of buffers beside it that are no rings; known or reckoned once.
    fn beside(&mut self, layers: &Range<usize>) -> u64 {
        let key = layers.start * LONGEST + layers.len() - 1;
        if let Some(bytes) = self.beside[key] {
            return bytes;
        }
        let network = self.facts.network;
        let weights = self.weights(layers);
        let here = |life: &Lifetime| life.start <= layers.end && life.end > layers.start;
        let live = (0..self.lives.len())
            .filter(|&buffer| here(&self.lives[buffer]) && !self.facts.is_inner(buffer, layers))
            .map(|buffer| network.buffers[buffer].bytes);
        let bytes = live.sum::<u64>() + weights;
        self.beside[key] = Some(bytes);
        bytes
    }

    /// The same, without the weights of a group that reads them anew.
    fn kept(&mut self, layers: &Range<usize>, anew: bool) -> u64 {
        self.beside(layers) - if anew { self.weights(layers) } else { 0 }
    }

    /// Bytes of weights of a group, in whole pages.
    fn weights(&self, layers: &Range<usize>) -> u64 {
        let bytes = |layer: usize| weight_bytes(self.facts.network, layer);
        layers.clone().map(bytes).sum::<u64>().next_multiple_of(PAGE)
    }

    /// How a group makes so many lines at a time. One is asked for its price, for what it shares, and for other numbers of lines.
    fn laid(&mut self, layers: &Range<usize>, lines: u32) -> Laid {
        let chain = match self.laid.take().filter(|laid| laid.layers == *layers) {
            Some(laid) if laid.lines == lines => return laid,
            Some(laid) => laid.chain,
            None => Chain::new(&self.facts, layers.clone()),
        };
        let schedule = Schedule::new(&chain, lines);
        Laid { layers: layers.clone(), lines, chain, schedule }
    }

    /// The whole buffers that outlive a group that writes them first, and those that it reads last.
    fn passing(&self, layers: &Range<usize>) -> [Vec<usize>; 2] {
        let inside = |time: usize| time > layers.start && time <= layers.end;
        let whole = |passes: &dyn Fn(&Lifetime) -> bool| {
            let found = (0..self.lives.len()).filter(|&buffer| passes(&self.lives[buffer]));
            found.filter(|&buffer| !self.facts.is_inner(buffer, layers)).collect()
        };
        [
            whole(&|life| inside(life.start) && life.end > layers.end),
            whole(&|life| inside(life.end) && life.start <= layers.start),
        ]
    }

    /// Outputs of a group share no more than these bytes with its inputs; known or reckoned once.
    fn most_shared(&mut self, layers: &Range<usize>) -> u64 {
        let key = (layers.start, layers.end);
        if let Some(bytes) = self.most_shared.get(&key) {
            return *bytes;
        }
        let [over, under] = self.passing(layers).map(|buffers| {
            let bytes = |&buffer: &usize| self.facts.network.buffers[buffer].bytes;
            buffers.iter().map(bytes).sum::<u64>()
        });
        self.most_shared.insert(key, over.min(under));
        over.min(under)
    }

    /// Bytes that outputs of a group share with dead lines of its inputs.
    fn shared(&self, chain: &Chain, schedule: &Schedule, layers: &Range<usize>) -> u64 {
        let network = self.facts.network;
        let [over, mut under] = self.passing(layers);
        let mut rings = vec![0; network.buffers.len()];
        for (inner, lines) in chain.inner.iter().zip(&schedule.rings) {
            rings[inner.buffer] = *lines;
        }
        if over.is_empty() || under.is_empty() {
            return 0;
        }
        let steps: Vec<Step> = steps_of(network, chain, schedule).collect();
        let mut lines = line_lives_of(&self.facts, &steps, &rings);
        under.iter().for_each(|&input| lines[input].iter_mut().for_each(Lines::known_before));
        over.iter().for_each(|&output| lines[output].iter_mut().for_each(Lines::needed_after));
        let mut saved = 0;
        for output in over {
            let size = |buffer: usize| network.buffers[buffer].bytes as i64;
            let shared = |&input: &usize| {
                let (below, above) = lines[input].as_ref().zip(lines[output].as_ref())?;
                let (least, _) =
                    below.forbidden(above).filter(|_| !below.is_operand_with(output))?;
                let extent = size(input).max(least + size(output)) - least.min(0);
                Some(size(input) + size(output) - extent)
            };
            let best = (0..under.len()).filter_map(|at| Some((shared(&under[at])?, at))).max();
            if let Some((bytes, at)) = best.filter(|(bytes, _)| *bytes > 0) {
                saved += bytes as u64;
                under.swap_remove(at);
            }
        }
        saved
    }

    /// The same, known or reckoned once.
    fn shared_by(&mut self, layers: &Range<usize>, lines: u32) -> u64 {
        let key = (layers.start, layers.end, lines);
        if let Some(bytes) = self.shares.get(&key) {
            return *bytes;
        }
        let laid = self.laid(layers, lines);
        let bytes = self.shared(&laid.chain, &laid.schedule, layers);
        self.laid = Some(laid);
        self.shares.insert(key, bytes);
        bytes
    }

    fn price(&mut self, layers: &Range<usize>, lines: u32, anew: bool) -> Price {
        let key = (layers.start, layers.end, lines, anew);
        if let Some(price) = self.prices.get(&key) {
            return *price;
        }
        let kept = self.kept(layers, anew);
        let laid = self.laid(layers, lines);
        let Laid { chain, schedule, .. } = &laid;
        let network = self.facts.network;
        let rings = chain.inner.iter().zip(&schedule.rings).map(|(inner, &lines)| match lines {
            0 => network.buffers[inner.buffer].bytes,
            lines => ring_bytes(lines, inner.width, inner.pitch),
        });
        let rings: Vec<u64> = rings.collect();
        let ring = |buffer| {
            let at = chain.inner.iter().position(|inner| inner.buffer == buffer)?;
            (schedule.rings[at] > 0).then(|| rings[at])
        };
        let cache = self.costs.cache_bytes();
        let outside: Vec<Outside> =
            layers.clone().map(|layer| Outside::of(network, layer, cache, ring)).collect();
        let (mut steps, mut extra_ns) = (0, 0);
        // The largest step of each layer stands for its scratch. Of a layer, steps with as many rows take as long.
        let mut largest: Vec<Option<Step>> = vec![None; layers.len()];
        let mut before = vec![(0, 0); layers.len()];
        for mut step in steps_of(network, chain, schedule) {
            // What is read anew comes by panels.
            let slices = if anew { step.count.max(1) } else { 1 };
            step.count = step.count.div_ceil(slices);
            steps += u64::from(slices);
            let at = step.layer as usize - layers.start;
            if before[at].0 != step.rows {
                let ns = u64::from(slices) * self.costs.sliding_ns(&step, outside[at]);
                before[at] = (step.rows, ns as i64);
            }
            extra_ns += before[at].1;
            if largest[at].is_none_or(|held| held.rows < step.rows) {
                largest[at] = Some(step);
            }
        }
        for layer in layers.clone() {
            extra_ns -= self.costs.step_ns(&whole(network, layer)) as i64;
        }
        let rings: u64 = rings.iter().sum();
        let takes = |step: &Step| {
            let slices = if anew { SLICES_ANEW * slice_bytes(network, step) } else { 0 };
            slices + least_scratch_bytes(network, step, self.threads)
        };
        let most = largest.iter().flatten().map(takes).max().unwrap_or(0);
        // Each makes as many lines as others before, nearly always.
        let records = steps * if anew { RECORDS_ANEW } else { 1 };
        let tables = records * size_of::<StepRecord>() as u64;
        let price = Price { bytes: kept + rings + most + tables, extra_ns };
        self.laid = Some(laid);
        self.prices.insert(key, price);
        price
    }
}

fn weight_bytes(network: &Network, layer: usize) -> u64 {
    let layer = &network.layers[layer];
    u64::from(layer.panels) * u64::from(layer.panel_bytes)
}

/// Pages of the weights of a step.
fn slice_bytes(network: &Network, step: &Step) -> u64 {
    let weights = step_weights(network, step);
    weights.end.next_multiple_of(PAGE) - weights.start / PAGE * PAGE
}

/// What a layer takes in the smallest slices whose steps transform weights, and how much longer it takes if they do not.
fn transforms(
    network: &Network,
    lives: &[Lifetime],
    costs: &Costs,
    threads: u32,
    layer: usize,
) -> Option<Price> {
    let all = whole(network, layer);
    if all.algorithm == 0 {
        return None;
    }
    let slice = Step { count: 1, ..all };
    let bytes = live_bytes(network, lives, layer)
        + slice_bytes(network, &slice)
        + least_scratch_bytes(network, &slice, threads);
    let ns = |algorithm: u32| costs.step_ns(&Step { algorithm, ..all }) as i64;
    Some(Price { bytes, extra_ns: ns(0) - ns(all.algorithm) })
}

/// Bytes of the buffers that live beside a layer.
fn live_bytes(network: &Network, lives: &[Lifetime], layer: usize) -> u64 {
    let alive = |life: &Lifetime| (life.start..=life.end).contains(&(layer + 1));
    let live = lives.iter().zip(&network.buffers).filter(|(life, _)| alive(life));
    live.map(|(_, buffer)| buffer.bytes).sum()
}

/// What a layer takes in the smallest slices: what is alive, and one panel with its scratch.
fn alone(network: &Network, lives: &[Lifetime], threads: u32, layer: usize) -> u64 {
    let all = whole(network, layer);
    let panels = OpKind::from_code(network.layers[layer].kind).is_some_and(OpKind::has_panels);
    let slices = if panels { all.count } else { 1 };
    let slice = |first: u32| match panels {
        true => Step { first, count: 1, ..all },
        false => all,
    };
    let weights = (0..slices).map(|first| slice_bytes(network, &slice(first)));
    // Where its steps have no room to transform weights, they need not.
    let own = Step { algorithm: 0, ..slice(0) };
    let scratch = [slice(0), own].map(|step| least_scratch_bytes(network, &step, threads));
    live_bytes(network, lives, layer) + weights.max().unwrap_or(0) + scratch[0].min(scratch[1])
}
