//! Improves a design by changing single layers of it, as long as the effort lasts.
//!
//! First designs are drawn of the kind that construction makes, with other numbers. Then each move
//! does one of these: it makes the slices of some layers smaller or larger, keeps panels of one
//! layer instead of another's, or changes the algorithm of some layers. Where to change something is drawn by where the predicted plan loses time: at layers
//! that wait for loads, and at loads that wait for memory while storage idles. A change is kept
//! unless it makes the plan slower; the best plan met is the result. Random numbers have a fixed
//! seed, and moves are counted, not timed. So a plan is the same wherever it is made.

use super::effort::Effort;
use crate::search::algorithms::on_load::Options;
use crate::search::construct::Best;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::{Built, Design, SlicingTarget};
use crate::search::place::sliced_network::Loading;
use crate::slice::Cutting;
use eyelet::pack::OpKind;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Instant;

/// The work of [`Effort::Default`], in units of [`cost`]; less than a second on a desktop.
const WORK: usize = 1_200_000;

/// [`Effort::Best`] does this many times as much.
const BEST: usize = 16;

/// The most moves by default: what more of them find is less than predictions are worth.
const MOVES: usize = 8_000;

/// Share of the effort for designs of the kind that construction tries.
const DRAWN: f64 = 0.1;

/// Segments of free memory that are looked at in one unit of [`cost`].
const SEGMENTS: usize = 500;

/// The work of making and predicting a plan, in units of about half a microsecond of a desktop.
fn cost(built: &Built) -> usize {
    100 + built.plan.places.len() + built.plan.steps.len() + built.plan.loads.len()
}

/// The search ends after this many moves in a row without a better plan.
const IN_VAIN: u32 = 1_500;

/// Share of moves that try another way to slide.
const ELSEWHERE: f64 = 0.08;

/// Share of moves that change algorithms, if layers have several.
const OTHERWISE: f64 = 0.15;

/// Searches for a better plan; returns the best and the number of designs tried. Each builder is a
/// way to slide. Plans that read count only if the best one `may_read`.
pub fn improve(
    builders: &[PlanBuilder<'_>],
    options: &Options,
    best: Best,
    may_read: bool,
    effort: Effort,
) -> (Best, u32) {
    let start = Instant::now();
    let (work, moves, seconds) = match effort {
        Effort::Fast => return (best, 0),
        Effort::Default => (WORK, MOVES, f64::INFINITY),
        Effort::Best => (WORK * BEST, MOVES * BEST, f64::INFINITY),
        Effort::Seconds(seconds) => (usize::MAX, usize::MAX, seconds),
    };
    let (rng, weights) = (ChaCha8Rng::seed_from_u64(1), Vec::new());
    let mut search = Search { builders, options, optional: options.layers(), rng, weights };
    let mut held_ns = best.built.line.steady_ns;
    let (mut at, mut held, mut best) = (best.at, best.design.clone(), best);
    search.look(&held, &best.built);
    let (mut done, mut tried, mut gained) = (0, 0, 0);
    while done < work && (tried as usize) < moves {
        if tried - gained > IN_VAIN && effort == Effort::Default {
            break;
        }
        let progress = match effort {
            Effort::Seconds(seconds) => start.elapsed().as_secs_f64() / seconds,
            _ => (done as f64 / work as f64).max(f64::from(tried) / moves as f64),
        };
        if start.elapsed().as_secs_f64() >= seconds
            || (tried % 64 == 0 && builders[at].is_optimal(&best.built))
        {
            break;
        }
        let mut here = at;
        if builders.len() > 1 && search.rng.random_bool(ELSEWHERE) {
            here = search.rng.random_range(0..builders.len());
        }
        let design = match progress < DRAWN {
            true => search.draw(here, &held.step_algorithms),
            // The same design is another plan there.
            false if here != at => held.clone(),
            false => search.change(at, &held),
        };
        tried += 1;
        done += 50;
        if here == at && design == held {
            continue;
        }
        let (built, segments) = builders[here].build_counting(&design);
        done += cost(built.as_ref().unwrap_or(&best.built)) + segments / SEGMENTS;
        let Some(built) = built.ok().filter(|built| may_read || !built.reads()) else { continue };
        let ns = built.line.steady_ns;
        if ns <= held_ns {
            (at, held, held_ns) = (here, design, ns);
            search.look(&held, &built);
            let before = &best.built.line;
            let read = best.built.plan.bytes_per_inference();
            let fewer = built.plan.bytes_per_inference() < read;
            if built.line.steady_ns < before.steady_ns
                || (built.line.steady_ns == before.steady_ns && fewer)
            {
                if built.line.steady_ns + before.steady_ns / 2000 < before.steady_ns {
                    gained = tried;
                }
                best = Best { at, design: held.clone(), built };
            }
        }
    }
    (best, tried)
}

/// A move keeps at most one part in this many of a large budget instead of something else.
const LARGE: f64 = 8.0;

struct Search<'a> {
    builders: &'a [PlanBuilder<'a>],
    options: &'a Options,
    /// Layers that can be computed by several algorithms.
    optional: Vec<usize>,
    rng: ChaCha8Rng,
    /// Running sums over the layers of how much time each loses.
    weights: Vec<f64>,
}

impl Search<'_> {
    /// Finds out where a plan loses time.
    fn look(&mut self, design: &Design, built: &Built) {
        let (plan, line) = (&built.plan, &built.line);
        let mut lost = vec![0.0; design.layers.len()];
        let mut before = 0;
        for (step, span) in plan.steps.iter().zip(&line.steps) {
            lost[step.layer as usize] += (span.start - before) as f64;
            before = span.end;
        }
        // Storage that idles is charged to the layer whose load could not start.
        let mut used_by = vec![0; plan.loads.len()];
        for step in plan.steps.iter().rev() {
            if let Some(last) = (step.ready as usize).checked_sub(1) {
                used_by[last] = step.layer as usize;
            }
        }
        // It is also charged to the layer whose step had its place until then: with less scratch or
        // smaller slices the load could have started.
        let period = plan.steps.len() as i64 + 1;
        for (index, pair) in line.loads.windows(2).enumerate() {
            // If several reads are in flight, the next has begun by then.
            let idle = (pair[1].start - pair[0].end).max(0) as f64;
            lost[used_by[index + 1]] += idle;
            let before = (i64::from(plan.loads[index + 1].release) - 1).rem_euclid(period);
            if let Some(step) = (before as usize).checked_sub(1).and_then(|at| plan.steps.get(at)) {
                lost[step.layer as usize] += idle;
            }
        }
        // Every layer has a chance.
        let network = self.builders[0].request.network;
        let weighted = network.layers.iter().filter(|layer| layer.panels > 0).count().max(1);
        let even = (lost.iter().sum::<f64>() * 0.5 / weighted as f64).max(1.0);
        let mut sum = 0.0;
        self.weights.clear();
        self.weights.extend(network.layers.iter().zip(lost).map(|(layer, lost)| {
            sum += if layer.panels > 0 { lost + even } else { 0.0 };
            sum
        }));
    }

    /// Draws a layer with weights, by the time that it loses.
    fn layer(&mut self) -> usize {
        let all = self.weights.last().copied().unwrap_or(0.0);
        let at = self.rng.random::<f64>() * all;
        self.weights.partition_point(|sum| *sum <= at).min(self.weights.len() - 1)
    }

    /// Draws a design as construction makes them, with other numbers.
    fn draw(&mut self, at: usize, on_load: &[u32]) -> Design {
        let builder = &self.builders[at];
        let room = builder.room(builder.request.budget) as f64;
        // Most often memory is nearly full of residents.
        let share = 1.0 - self.rng.random::<f64>().powi(3);
        let target = SlicingTarget {
            slices: self.rng.random_range(1.2..5.0),
            ahead: self.rng.random_range(0..4),
            most: 2f64.powf(self.rng.random_range(17.0..26.0)) as u64,
        };
        let mut design = builder.fitting((room * share) as u64, target, on_load, Loading::Cyclic);
        let more = self.rng.random_range(0.97..1.03);
        builder.pin(&mut design, (room * share * more) as u64);
        design
    }

    /// Draws a changed design.
    fn change(&mut self, at: usize, held: &Design) -> Design {
        let mut design = held.clone();
        if !self.optional.is_empty() && self.rng.random_bool(OTHERWISE) {
            self.compute(at, &mut design);
            return design;
        }
        match self.rng.random_range(1..20) {
            1..8 => self.cut(&mut design),
            8..14 => {
                // Other weights of the same size stay instead.
                let bytes = self.bytes();
                if let Some(freed) = self.release(&mut design, bytes) {
                    self.keep(&mut design, freed);
                }
            }
            14..16 => {
                let bytes = self.bytes();
                self.keep(&mut design, bytes);
            }
            16..18 => {
                let bytes = self.bytes();
                self.release(&mut design, bytes);
            }
            _ => {
                let bytes = self.bytes();
                self.release(&mut design, bytes);
                self.cut(&mut design);
            }
        }
        design
    }

    /// Draws a number of bytes: from a page to four mebibytes, or to a small part of a large
    /// budget.
    fn bytes(&mut self) -> u64 {
        let part = self.builders[0].request.budget as f64 / LARGE;
        2f64.powf(self.rng.random_range(12.0..part.log2().max(22.0))) as u64
    }

    /// Cuts some neighbouring layers finer or coarser.
    fn cut(&mut self, design: &mut Design) {
        let first = self.layer();
        let count = 1 << self.rng.random_range(0..4);
        let factor = [0.35, 0.5, 0.7, 1.4, 2.0, 3.0][self.rng.random_range(0..6)];
        for cutting in design.layers.iter_mut().skip(first).take(count) {
            scale(cutting, factor);
        }
    }

    /// Changes the algorithm of some neighbouring layers, or their slices if they have it already.
    fn compute(&mut self, at: usize, design: &mut Design) {
        let drawn = self.layer();
        let first = self.optional.partition_point(|layer| *layer < drawn);
        let first = first.min(self.optional.len() - 1);
        let count = 1 << self.rng.random_range(0..4);
        // The algorithm is drawn for the first layer; the others take it if they have it.
        let draw = self.rng.random_range(0..=self.options.of(self.optional[first]).len());
        let factor = [1.0, 1.0, 0.5, 0.7, 1.4, 2.0][self.rng.random_range(0..6)];
        // Scratch takes memory from loads that run ahead: it gets from all down to one part in
        // thirty.
        let (slices, share) =
            (self.rng.random_range(1.0..4.0), 2f64.powf(self.rng.random_range(-5.0..0.0)));
        for &layer in self.optional[first..].iter().take(count) {
            let own = self.options.own(layer);
            let algorithm =
                draw.checked_sub(1).and_then(|at| self.options.of(layer).nth(at)).unwrap_or(own);
            let cutting = &mut design.layers[layer];
            if algorithm == design.step_algorithms[layer] && factor != 1.0 {
                scale(cutting, factor);
            } else {
                // Slices and scratch that fit a share of the memory.
                let (fitting, _) = self.builders[at].fitting_one(layer, algorithm, slices, share);
                let Cutting { resident, resident_slice, .. } = *cutting;
                *cutting = Cutting { resident, resident_slice, ..fitting };
            }
            design.step_algorithms[layer] = algorithm;
        }
    }

    fn is_sliced(&self, layer: usize) -> bool {
        let kind = self.builders[0].request.network.layers[layer].kind;
        OpKind::from_code(kind).is_some_and(OpKind::has_panels)
    }

    /// Keeps panels of some layer, of about `bytes`; all panels of a layer that is not sliced.
    fn keep(&mut self, design: &mut Design, bytes: u64) {
        for _ in 0..8 {
            let index = self.layer();
            let layer = &self.builders[0].request.network.layers[index];
            let streamed = layer.panels.saturating_sub(design.layers[index].resident);
            let panels = (bytes / u64::from(layer.panel_bytes).max(1)).min(streamed.into()) as u32;
            if panels > 0 {
                let all = !self.is_sliced(index);
                design.layers[index].resident += if all { streamed } else { panels };
                return;
            }
        }
    }

    /// Keeps fewer panels of some layer, by about `bytes`; returns how many bytes that frees.
    fn release(&mut self, design: &mut Design, bytes: u64) -> Option<u64> {
        for _ in 0..16 {
            let index = self.rng.random_range(0..design.layers.len());
            let layer = &self.builders[0].request.network.layers[index];
            let kept = design.layers[index].resident.min(layer.panels);
            let panel = u64::from(layer.panel_bytes).max(1);
            let panels = bytes.div_ceil(panel).min(kept.into()) as u32;
            if panels > 0 {
                design.layers[index].resident =
                    if self.is_sliced(index) { kept - panels } else { 0 };
                return Some(u64::from(panels) * panel);
            }
        }
        None
    }
}

/// Multiplies the size of slices and loads.
fn scale(cutting: &mut Cutting, factor: f64) {
    if factor != 1.0 {
        let limit = (cutting.slice as f64 * factor).clamp(4096.0, (1u64 << 40) as f64) as u64;
        (cutting.slice, cutting.read) = (limit, limit);
    }
}
