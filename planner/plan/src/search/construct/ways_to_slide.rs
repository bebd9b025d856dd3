//! Comparing ways to slide, each with some choices of algorithms, and a closer look at the best.

use super::frugal;
use super::sketches::Construction;
use crate::request::Request;
use crate::search::algorithms::on_load::Options;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::sliced_network::Loading;
use crate::slide::{Group, Search};

/// Ways to slide in a row that were no faster, after which no others are tried.
const WAYS_IN_VAIN: usize = 2;

/// Choices of algorithms with which ways to slide are tried.
const MOST_ALGORITHMS: usize = 2;

impl<'a, 'b> Construction<'a, 'b> {
    /// Compares ways to slide and algorithms, and looks closer at the best.
    pub(super) fn compare(&mut self, request: &Request<'a>, options: &Options) {
        // Nothing is planned below the smallest budget. Not to slide is tried first.
        let within = |builder: &PlanBuilder<'a>| {
            frugal::within(builder, Loading::Cyclic, |design| builder.surely_fits(design))
        };
        let plain = PlanBuilder::with(request, self.precomputed.clone(), Vec::new());
        let mut search = None;
        let mut sure = within(&plain).map(|design| (Vec::new(), design));
        if sure.is_none() {
            let of_costs = Search::new(request.network, &self.precomputed.costs, request.threads);
            let smallest = search.insert(of_costs).smallest(u64::MAX);
            let mut fits = smallest.map(|groups| {
                let builder = PlanBuilder::with(request, self.precomputed.clone(), groups.clone());
                Some((groups, within(&builder)?))
            });
            sure = fits.find_map(|fit| fit);
        }
        let Some((groups, design)) = sure else { return };
        let alone = groups.is_empty();
        self.keeps_all = request.holds_all || (alone && plain.keeps_all());
        // Layer after layer, with all algorithms.
        let mut choices = options.choices();
        let mut algorithms: Vec<(u64, Vec<u32>)> = Vec::new();
        push_new(&mut choices, plain.quickest(options));
        self.builders.push(plain);
        for on_load in choices {
            let ns = if alone { self.sketch(0, &on_load).0 } else { u64::MAX };
            algorithms.push((ns, on_load));
        }
        if alone && self.best.is_none() {
            // Neither the coarsest nor the finest slices fit.
            self.consider_surely(0, design.clone());
        }
        algorithms.sort_by_key(|(ns, _)| *ns);
        algorithms.truncate(if alone { 1 } else { MOST_ALGORITHMS });
        self.look_closer(request, options, search, &algorithms);
        if alone {
            return;
        }
        if self.best.is_none() {
            self.builders.push(PlanBuilder::with(request, self.precomputed.clone(), groups));
            self.consider_surely(self.builders.len() - 1, design);
        }
        // Not to slide has no plan.
        self.builders.remove(0);
        self.best.iter_mut().for_each(|best| best.at -= 1);
    }

    /// Compares ways to slide with the best algorithms so far, and refines the best plan.
    fn look_closer(
        &mut self,
        request: &Request<'a>,
        options: &Options,
        search: Option<Search<'_>>,
        algorithms: &[(u64, Vec<u32>)],
    ) {
        if self.is_optimal() {
            return;
        }
        let alone = self.best.is_some();
        let precomputed = self.precomputed.clone();
        let new = || Search::new(request.network, &precomputed.costs, request.threads);
        let mut search = search.unwrap_or_else(new);
        let before = self.builders.len();
        let mut ways = search.candidates(request.budget);
        ways.retain(|groups| !groups.is_empty());
        self.slide(request, ways, algorithms, options);
        if !alone && self.builders.len() == before {
            let smallest = search.smallest(request.budget).collect();
            self.slide(request, smallest, &[(0, request.network.on_load.clone())], options);
        }
        self.refine();
    }

    /// Sketches plans with some ways to slide.
    fn slide(
        &mut self,
        request: &Request<'a>,
        ways: Vec<Vec<Group>>,
        algorithms: &[(u64, Vec<u32>)],
        options: &Options,
    ) {
        let mut in_vain = 0;
        for groups in ways {
            let (at, before) = (self.builders.len(), self.least_ns);
            if self.builders.iter().any(|builder| builder.activations.sliding.groups() == groups) {
                continue;
            }
            let builder = PlanBuilder::with(request, self.precomputed.clone(), groups);
            if !builder.has_room() {
                continue;
            }
            let mut choices: Vec<Vec<u32>> = Vec::new();
            for (_, on_load) in algorithms {
                push_new(&mut choices, builder.chosen(options, on_load));
            }
            push_new(&mut choices, builder.quickest(options));
            self.builders.push(builder);
            let sketches: Vec<_> = choices.iter().map(|on_load| self.sketch(at, on_load)).collect();
            if sketches.iter().all(|(ns, _)| *ns == u64::MAX) {
                self.forget(at);
            }
            let has_room = sketches.iter().any(|(_, has_room)| *has_room);
            in_vain = if has_room && self.least_ns == before { in_vain + 1 } else { 0 };
            if in_vain == WAYS_IN_VAIN || self.is_done() {
                break;
            }
        }
    }
}

fn push_new<T: PartialEq>(all: &mut Vec<T>, one: T) {
    if !all.contains(&one) {
        all.push(one);
    }
}
