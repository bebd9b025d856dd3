//! The state of a [construction](super::construct), and how it plans one way to slide: first with
//! several shares of memory for residents, then with finer slices for the best share.

use super::Best;
use crate::request::Request;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::{Built, Design, SlicingTarget};
use crate::search::place::precomputed::Precomputed;
use crate::search::place::sliced_network::Loading;
use crate::slice::Cutting;
use std::sync::Arc;

/// Shares of the memory next to the activations that residents get.
const SHARES: [f64; 9] = [0.0, 0.25, 0.5, 0.7, 0.8, 0.87, 0.92, 0.96, 0.99];

/// Slices that must fit in each layer, and the most bytes of each.
const TARGETS: [(f64, u64); 5] =
    [(2.0, 4 << 20), (3.0, 4 << 20), (4.0, 4 << 20), (8.0, 4 << 20), (2.0, 1 << 40)];

/// Once a plan is found, construction ends after plans with this many steps together.
const MOST_MADE: usize = 40_000;

/// A way to slide is tried with other shares if it takes at most one part in this many longer than
/// the best.
const PROMISING: u64 = 1000;

/// The state of construction.
pub(super) struct Construction<'a, 'b> {
    pub(super) precomputed: &'b Arc<Precomputed>,
    pub(super) builders: Vec<PlanBuilder<'a>>,
    pub(super) best: Option<Best>,
    /// Predicted nanoseconds of the fastest plan.
    pub(super) least_ns: u64,
    /// The share of memory that residents have in the best plan.
    pub(super) share: f64,
    /// Whether all weights have room next to the activations of layers that do not slide. Then no
    /// plan reads.
    pub(super) keeps_all: bool,
    /// Steps of all plans that were made.
    made: usize,
    /// Designs that were tried, by the index of their builder, with their predictions; `None` for
    /// those without a plan.
    known: Vec<(usize, Design, Option<u64>)>,
}

impl<'a, 'b> Construction<'a, 'b> {
    pub(super) fn new(precomputed: &'b Arc<Precomputed>) -> Self {
        let (builders, best, made, known) = Default::default();
        let (least_ns, share) = (u64::MAX, SHARES[0]);
        Self { precomputed, builders, best, least_ns, share, keeps_all: false, made, known }
    }

    /// Whether construction should end: the best plan is as fast as the bound, or the plans
    /// together have [`MOST_MADE`] steps and the [search](crate::search::improve) should go on.
    pub(super) fn is_done(&self) -> bool {
        self.best.is_some() && (self.made > MOST_MADE || self.is_optimal())
    }

    pub(super) fn is_optimal(&self) -> bool {
        self.best.as_ref().is_some_and(|best| self.builders[best.at].is_optimal(&best.built))
    }

    /// Makes a plan of a design, and keeps it if it is better. Returns whether it is, and its
    /// prediction.
    pub(super) fn consider(&mut self, at: usize, design: Design) -> Option<(bool, u64)> {
        if let Some(ns) = self.known(at, &design) {
            return ns.map(|ns| (false, ns));
        }
        let builder = &self.builders[at];
        let Ok(plan) = builder.place(&design, builder.request.budget) else {
            self.known.push((at, design, None));
            self.made += self.held_steps();
            return None;
        };
        self.made += plan.steps.len();
        // A plan that is clearly slower than the fastest is no better.
        match builder.predict_within(plan, self.least_ns.saturating_add(self.least_ns / 200)) {
            Ok(built) => {
                self.known.push((at, design.clone(), Some(built.line.steady_ns)));
                Some(self.keep(at, design, built))
            }
            Err(ns) => {
                self.known.push((at, design, Some(ns)));
                Some((false, ns))
            }
        }
    }

    fn known(&self, at: usize, design: &Design) -> Option<Option<u64>> {
        let known = self.known.iter().find(|(builder, known, _)| *builder == at && known == design);
        known.map(|(_, _, ns)| *ns)
    }

    /// Drops the last builders, from this one on.
    pub(super) fn forget(&mut self, from: usize) {
        self.builders.truncate(from);
        self.known.retain(|(builder, ..)| *builder < from);
    }

    /// Keeps the plan of a design with everything at its lowest place, if it is better.
    pub(super) fn consider_surely(&mut self, at: usize, design: Design) {
        if let Ok(built) = self.builders[at].build_surely(&design) {
            self.keep(at, design, built);
        }
    }

    /// Steps of the best plan.
    fn held_steps(&self) -> usize {
        self.best.as_ref().map_or(0, |best| best.built.plan.steps.len())
    }

    fn keep(&mut self, at: usize, design: Design, built: Built) -> (bool, u64) {
        let ns = built.line.steady_ns;
        if self.keeps_all {
            if built.reads() {
                return (false, ns);
            }
            if self.best.as_ref().is_some_and(|best| best.built.reads()) {
                (self.best, self.least_ns) = (None, u64::MAX);
            }
        }
        self.least_ns = self.least_ns.min(ns);
        let held = self.best.as_ref().map(|best| &best.built);
        let better = held.is_none_or(|held| built.is_better(held, self.least_ns));
        if better {
            self.best = Some(Best { at, design, built });
        }
        (better, ns)
    }

    /// Plans with several shares of memory for residents. Returns the best prediction, and whether
    /// some plan fits without everything at its lowest place.
    pub(super) fn sketch(&mut self, at: usize, on_load: &[u32]) -> (u64, bool) {
        if let Some(ns) = self.in_place(at, on_load) {
            return (ns, true);
        }
        let all = Design::uniform(Cutting::RESIDENT, on_load, Loading::Cyclic);
        if let Some((_, ns)) = self.consider(at, all) {
            return (ns, true);
        }
        let builder = &self.builders[at];
        let (mut first, mut failed) = (None, Vec::new());
        for design in builder.frugal(builder.request.budget, on_load, Loading::Cyclic) {
            if self.known(at, &design) == Some(None) {
                continue;
            }
            match builder.build_or_lowest(&design) {
                Ok(built) => {
                    first = Some((built, design));
                    break;
                }
                Err(_) => failed.push((at, design, None)),
            }
        }
        self.known.extend(failed);
        // If neither the coarsest nor the finest slices fit, there is no plan for this budget.
        let Some(((built, has_room), design)) = first else { return (u64::MAX, false) };
        let held_ns = self.best.is_some().then_some(self.least_ns);
        self.made += built.plan.steps.len();
        let (_, mut least) = self.keep(at, design, built);
        // If everything must be at its lowest place, nothing else fits.
        if !has_room {
            return (least, has_room);
        }
        let mut shares = SHARES.to_vec();
        if let Some(before) = held_ns {
            // A way that is slower with the best share so far (or with the largest smaller one that
            // fits) is nearly always slower with the others.
            let mut from_best = (0..=self.best_share()).rev();
            let found =
                from_best.find_map(|index| self.with_share(at, on_load, shares.remove(index)));
            least = found.map_or(least, |(_, ns)| ns.min(least));
            if !is_promising(least, before) {
                shares.clear();
            }
        }
        for share in shares {
            if self.is_done() {
                break;
            }
            if let Some((_, ns)) = self.with_share(at, on_load, share) {
                least = least.min(ns);
            }
        }
        (least, has_room)
    }

    /// Plans with all weights used in a pack that lies in memory, if it does. Returns the prediction
    /// where nothing is gained by weights that stay.
    fn in_place(&mut self, at: usize, on_load: &[u32]) -> Option<u64> {
        let Request { network, profile, threads, .. } = self.builders[at].request;
        if !network.is_any_in_place() {
            return None;
        }
        let all = Design::uniform(Cutting::LAYERS, on_load, Loading::Cyclic);
        let (_, ns) = self.consider(at, all)?;
        (!profile.is_slower_mapped(threads)).then_some(ns)
    }

    /// Plans with one share of memory for residents; returns the same as
    /// [`consider`](Self::consider).
    fn with_share(&mut self, at: usize, on_load: &[u32], share: f64) -> Option<(bool, u64)> {
        let design = self.design(at, on_load, share, TARGETS[0]);
        let (better, ns) = self.consider(at, design)?;
        self.share = if better { share } else { self.share };
        Some((better, ns))
    }

    fn design(&self, at: usize, on_load: &[u32], share: f64, (slices, most): (f64, u64)) -> Design {
        let builder = &self.builders[at];
        let residents = (builder.room(builder.request.budget) as f64 * share) as u64;
        let target = SlicingTarget { slices, ahead: 0, most };
        let mut design = builder.fitting(residents, target, on_load, Loading::Cyclic);
        builder.pin(&mut design, residents);
        design
    }

    /// Tries the other targets with the design of the best plan. Without them, constructed plans
    /// just above the smallest budget can take much longer.
    pub(super) fn refine(&mut self) {
        let Some(best) = &self.best else { return };
        let (at, on_load) = (best.at, best.design.step_algorithms.clone());
        for target in TARGETS.into_iter().skip(1) {
            if self.is_done() {
                return;
            }
            let design = self.design(at, &on_load, self.share, target);
            self.consider(at, design);
        }
    }

    /// The index of the best share so far.
    fn best_share(&self) -> usize {
        SHARES.iter().position(|share| *share == self.share).unwrap_or(0)
    }
}

/// Whether a way that takes `ns` could take less than `least_ns` with another share of memory.
fn is_promising(ns: u64, least_ns: u64) -> bool {
    ns < least_ns + least_ns / PROMISING
}
