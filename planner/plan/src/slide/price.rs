//! The memory and time of groups.
//!
//! A group takes the whole buffers that live at the same time, its rings, and the largest scratch
//! of its steps. It also takes its weights, or two slices if it reads them again. If that is too
//! much, its outputs can lie over dead lines of its inputs.

use super::aim::{Aim, FASTEST};
use super::group::{Chain, Facts};
use super::least::{Least, outside};
use super::lines::line_lives_of;
use super::schedule::Schedule;
use super::times::Times;
use super::{Group, steps_of};
use crate::memory::{Lifetime, Lines, lifetimes};
use crate::profile::Outside;
use crate::simulate::Costs;
use crate::steps::{panel_scratch_bytes, whole};
use eyelet::pack::stored::StepRecord;
use eyelet::pack::{PAGE, Step, ring_bytes};
use eyelet_model::network::Network;
use eyelet_model::plan::step_weights;
use std::collections::HashMap;
use std::ops::Range;

/// Lines of the tallest layer that are tried, fewest first.
const LINES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// So many of these, the first, are more steps, and are tried only where no others find room.
const FEW_LINES: usize = 2;

/// Slices of a layer that shall find room where weights are read anew.
const SLICES_ANEW: u64 = 2;

/// Records of steps that have the size of the table entries of a step that reads a slice again: its
/// work and its load included.
const RECORDS_ANEW: u64 = 5;

/// The memory and time of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    pub(super) bytes: u64,
    /// Predicted time beyond that of whole layers.
    pub(super) extra_ns: i64,
}

/// Prices that have been asked for, of a network's groups.
pub(super) struct Prices<'a> {
    facts: Facts<'a>,
    costs: &'a Costs,
    threads: u32,
    pub(super) lives: Vec<Lifetime>,
    pub(super) times: Times,
    /// For each number of first layers: the bytes of their weights.
    weights: Vec<u64>,
    /// Prices of groups by their layers and lines, and whether they read weights again.
    prices: HashMap<(usize, usize, u32, bool), Price>,
    /// Bytes less if outputs lie over dead lines of inputs.
    shares: HashMap<(usize, usize, u32, bool), u64>,
    /// Upper bounds for `shares`, by the layers of a group.
    most_shared: HashMap<(usize, usize), u64>,
    /// For each buffer that can be a ring the least that it takes so.
    least_rings: Vec<u64>,
    least: Least,
    /// How the lines were made that were asked for last.
    laid: Option<Laid>,
}

/// A group that makes `lines` lines at a time.
struct Laid {
    layers: Range<usize>,
    lines: u32,
    chain: Chain,
    schedule: Schedule,
}

impl<'a> Prices<'a> {
    pub(super) fn new(network: &'a Network, costs: &'a Costs, threads: u32) -> Self {
        let layers = network.layers.len();
        let mut weights = vec![0];
        for (index, layer) in network.layers.iter().enumerate() {
            let bytes = u64::from(layer.panels) * u64::from(layer.panel_bytes);
            let bytes = network.bytes_in_arena(index, bytes);
            weights.push(weights[weights.len() - 1] + bytes);
        }
        let (prices, shares, most_shared, least) = Default::default();
        let lives = lifetimes(network, layers + 1, |layer| layer + 1..layer + 2);
        let facts = Facts::new(network);
        let mut least_rings = vec![0; network.buffers.len()];
        for tensor in &network.tensors {
            least_rings[tensor.buffer as usize] = facts.least_ring_bytes(tensor);
        }
        Self {
            facts,
            least_rings,
            costs,
            threads,
            times: Times::new(network, &lives),
            lives,
            weights,
            prices,
            shares,
            most_shared,
            least,
            laid: None,
        }
    }

    /// Whether layers, of which all but the first are known to, can go together; with others before
    /// them they do only if so.
    pub(super) fn may_go(&self, layers: &Range<usize>, target: u64, aim: Aim) -> bool {
        let first = layers.start;
        let fits = reads_anew(layers, aim).contains(&true) || self.weights(layers) <= target;
        fits && self.facts.slides(first) && self.facts.goes_with(first, layers.end)
    }

    /// These layers as a group that takes at most `target` bytes, and its price; nothing where that
    /// is sure not to be below `below_ns`. It reads its weights anew if there is no room for them
    /// to stay.
    pub(super) fn group(
        &mut self,
        layers: Range<usize>,
        target: u64,
        aim: Aim,
        below_ns: i64,
    ) -> Option<(Group, i64)> {
        reads_anew(&layers, aim).iter().find_map(|&reloads_weights| {
            let (lines, extra_ns) =
                self.lines(layers.clone(), target, aim, reloads_weights, below_ns)?;
            Some((Group { layers: layers.clone(), lines, reloads_weights }, extra_ns))
        })
    }

    /// The least that these layers take as a group, if that is less than `most` bytes.
    pub(super) fn least_below(&mut self, layers: Range<usize>, most: u64, aim: Aim) -> Option<u64> {
        let shares = if aim == Aim::Memory { 0 } else { self.most_shared(&layers) };
        let least = |reloads_weights: &bool| {
            let (kept, rings) = self.kept(&layers, *reloads_weights);
            if kept + rings >= most + shares {
                return None;
            }
            let bytes = self.price(&layers, LINES[0], *reloads_weights).bytes;
            if bytes >= most + shares {
                return None;
            }
            let shared =
                if shares == 0 { 0 } else { self.shared_by(&layers, LINES[0], *reloads_weights) };
            Some(bytes - shared)
        };
        let least = reads_anew(&layers, aim).iter().filter_map(least).min();
        least.filter(|bytes| *bytes < most)
    }

    /// The number of lines by which a group costs least and takes at most `target` bytes, and its
    /// price.
    fn lines(
        &mut self,
        layers: Range<usize>,
        target: u64,
        aim: Aim,
        reloads_weights: bool,
        below_ns: i64,
    ) -> Option<(u32, i64)> {
        let shares = aim != Aim::Memory;
        let (kept, rings) = self.kept(&layers, reloads_weights);
        let least = kept + rings;
        if least > target && (!shares || least > target + self.most_shared(&layers)) {
            return None;
        }
        let outside = self.least_outside(&layers);
        let mut least = |lines: &[u32]| {
            let (mut found, mut fits_so_far): (Option<(u32, i64)>, bool) = (None, false);
            for &lines in lines {
                let below_ns = found.map_or(below_ns, |(_, extra_ns)| extra_ns.min(below_ns));
                let Self { facts, costs, least, .. } = self;
                if least.extra_ns(facts, costs, &layers, &outside, lines) >= below_ns {
                    continue;
                }
                let price = self.price(&layers, lines, reloads_weights);
                let fits = price.bytes <= target
                    || (shares
                        && price.bytes <= target + self.shared_by(&layers, lines, reloads_weights));
                if !fits {
                    break;
                }
                fits_so_far = true;
                if found.is_none_or(|(_, held)| price.extra_ns < held) {
                    found = Some((lines, price.extra_ns));
                }
            }
            (found, fits_so_far)
        };
        let (found, fits) = least(&LINES[FEW_LINES..]);
        if fits { found } else { least(&LINES[..FEW_LINES]).0 }
    }

    /// Lower bounds for the shares of activations of a group's layers that go through memory.
    fn least_outside(&self, layers: &Range<usize>) -> Vec<Outside> {
        let ring = |buffer| self.facts.is_inner(buffer, layers).then(|| self.least_rings[buffer]);
        outside(&self.facts, self.costs, layers, ring)
    }

    /// Lower bound and cost of these layers as a group, by lines at a time.
    #[cfg(test)]
    pub(super) fn least_and_all(
        &mut self,
        layers: &Range<usize>,
        reloads_weights: bool,
    ) -> Vec<[i64; 2]> {
        let outside = self.least_outside(layers);
        let both = |lines| {
            let extra_ns = self.price(layers, lines, reloads_weights).extra_ns;
            [self.least.extra_ns(&self.facts, self.costs, layers, &outside, lines), extra_ns]
        };
        LINES.map(both).to_vec()
    }

    /// Bytes of a group's weights and of whole buffers that live at the same time, and the least
    /// bytes of its rings.
    fn group_bytes(&self, layers: &Range<usize>) -> (u64, u64) {
        let (mut whole, mut rings) = (self.weights(layers), 0);
        whole += self.times.bytes(layers);
        // Inner buffers begin to live inside.
        for &buffer in self.times.starts(layers) {
            if self.facts.is_inner(buffer, layers) {
                rings += self.least_rings[buffer];
                whole -= self.facts.network.buffers[buffer].bytes;
            }
        }
        (whole, rings)
    }

    /// Returns [`group_bytes`](Self::group_bytes), without weights if the group reads them again.
    fn kept(&self, layers: &Range<usize>, reloads_weights: bool) -> (u64, u64) {
        let (group_bytes, rings) = self.group_bytes(layers);
        (group_bytes - if reloads_weights { self.weights(layers) } else { 0 }, rings)
    }

    /// Bytes of weights of a group, in whole pages.
    fn weights(&self, layers: &Range<usize>) -> u64 {
        (self.weights[layers.end] - self.weights[layers.start]).next_multiple_of(PAGE)
    }

    /// How a group makes `lines` lines at a time. The last one is kept, since its price, its shares
    /// and other numbers of lines follow.
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
        let whole = |buffers: &[usize], passes: &dyn Fn(&Lifetime) -> bool| {
            let found = buffers.iter().copied().filter(|&buffer| passes(&self.lives[buffer]));
            let mut found: Vec<usize> =
                found.filter(|&buffer| !self.facts.is_inner(buffer, layers)).collect();
            found.sort_unstable();
            found
        };
        [
            whole(self.times.starts(layers), &|life| life.end > layers.end),
            whole(self.times.ends(layers), &|life| life.start <= layers.start),
        ]
    }

    /// Upper bound for the bytes that outputs of a group share with its inputs, computed once.
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
    fn shared(&self, laid: &Laid, reloads_weights: bool) -> u64 {
        let Laid { layers, lines, chain, schedule } = laid;
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
        let group = Group { layers: layers.clone(), lines: *lines, reloads_weights };
        let together = |one: &Step, other: &Step| one.layer == other.layer && group.cuts_together();
        let mut lines = line_lives_of(&self.facts, &steps, &rings, together);
        under.iter().for_each(|&input| lines[input].iter_mut().for_each(Lines::known_before));
        over.iter().for_each(|&output| lines[output].iter_mut().for_each(Lines::needed_after));
        let mut saved = 0;
        for output in over {
            let size = |buffer: usize| network.buffers[buffer].bytes as i64;
            let shared = |&input: &usize| {
                let (below, above) = lines[input].as_ref().zip(lines[output].as_ref())?;
                let (least, _) = below.forbidden(above)?;
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

    /// Returns [`shared`](Self::shared), computed once.
    fn shared_by(&mut self, layers: &Range<usize>, lines: u32, reloads_weights: bool) -> u64 {
        let key = (layers.start, layers.end, lines, reloads_weights);
        if let Some(bytes) = self.shares.get(&key) {
            return *bytes;
        }
        let laid = self.laid(layers, lines);
        let bytes = self.shared(&laid, reloads_weights);
        self.laid = Some(laid);
        self.shares.insert(key, bytes);
        bytes
    }

    fn price(&mut self, layers: &Range<usize>, lines: u32, reloads_weights: bool) -> Price {
        let key = (layers.start, layers.end, lines, reloads_weights);
        if let Some(price) = self.prices.get(&key) {
            return *price;
        }
        let (kept, _) = self.kept(layers, reloads_weights);
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
        let outside = outside(&self.facts, self.costs, layers, ring);
        let (mut steps, mut computing, mut reading) = (0, 0, 0);
        // The largest step of each layer stands for its scratch. Steps of a layer with the same
        // number of rows take the same time.
        let mut largest: Vec<Option<Step>> = vec![None; layers.len()];
        let mut before = vec![(0, 0); layers.len()];
        for mut step in steps_of(network, chain, schedule) {
            // Weights that are read again come by panels.
            let slices = if reloads_weights { step.count.max(1) } else { 1 };
            step.count = step.count.div_ceil(slices);
            steps += u64::from(slices);
            let at = step.layer as usize - layers.start;
            if before[at].0 != step.rows {
                let ns = u64::from(slices) * self.costs.sliding_ns(&step, outside[at]);
                before[at] = (step.rows, ns);
            }
            computing += before[at].1;
            if reloads_weights {
                reading += u64::from(slices) * self.costs.each_load_ns(slice_bytes(network, &step));
            }
            if largest[at].is_none_or(|held| held.rows < step.rows) {
                largest[at] = Some(step);
            }
        }
        let whole = layers.clone().map(|layer| self.costs.step_ns(&whole(network, layer)));
        let extra_ns = computing.max(reading) as i64 - whole.sum::<u64>() as i64;
        let rings: u64 = rings.iter().sum();
        let takes = |step: &Step| {
            let slices = if reloads_weights { SLICES_ANEW * slice_bytes(network, step) } else { 0 };
            slices + panel_scratch_bytes(network, step, self.threads)
        };
        let most = largest.iter().flatten().map(takes).max().unwrap_or(0);
        // Nearly every step makes the same number of lines as a step before.
        let records = steps * if reloads_weights { RECORDS_ANEW } else { 1 };
        let record = if network.mapped.is_some() { 0 } else { size_of::<StepRecord>() };
        let tables = records * record as u64;
        let price = Price { bytes: kept + rings + most + tables, extra_ns };
        self.laid = Some(laid);
        self.prices.insert(key, price);
        price
    }
}

/// Whether a group may keep its weights, or read them anew; what is better first.
fn reads_anew(layers: &Range<usize>, aim: Aim) -> &'static [bool] {
    match aim {
        Aim::Single if layers.len() <= FASTEST => &[false, true],
        _ => &[false],
    }
}

/// Pages of the arena for the weights of a step.
pub(super) fn slice_bytes(network: &Network, step: &Step) -> u64 {
    let weights = step_weights(network, step);
    let pages = weights.end.next_multiple_of(PAGE) - weights.start / PAGE * PAGE;
    network.bytes_in_arena(step.layer as usize, pages)
}
