//! The points of one strategy, and the bound of a budget.

use super::{Planned, Point};
use crate::cli::Error;
use crate::cli::output::milliseconds;
use crate::cli::plan::{Forms, lower};
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::graph::Graph;
use eyelet_planner::network::Network;
use eyelet_planner::search::algorithms::bound_of_all_ns;
use eyelet_planner::search::choose;
use eyelet_planner::search::{PackRequest, PlanError, PlanResult, Strategy};
use std::path::Path;
use std::time::Instant;

/// A strategy, and the networks that it plans.
pub struct Swept<'a> {
    request: PackRequest<'static>,
    network: &'a Network,
    forms: Forms<'a>,
    /// The network that reads recurrent weights at each time, if budgets need it.
    apart: Option<Network>,
}

impl<'a> Swept<'a> {
    /// A strategy that is given budgets from `smallest` on.
    pub fn new(
        strategy: &'static dyn Strategy,
        request: &PackRequest<'static>,
        model: &Path,
        (graph, network): (&'a Graph, &'a Network),
        smallest: u64,
    ) -> Result<Self, Error> {
        let exact = request.exact || strategy.computes_directly();
        let request = PackRequest { strategy, exact, ..request.clone() };
        let forms = Forms::new(&request, model, graph, smallest)?;
        let apart = forms.apart().map(|graph| lower(&request, model, graph)).transpose()?;
        Ok(Self { request, network, forms, apart })
    }

    /// The network for a budget, if it reads recurrent weights at each time.
    fn apart(&self, budget: u64) -> Option<&Network> {
        self.apart.as_ref().filter(|_| self.forms.is_apart(budget))
    }

    /// Plans for each of these budgets, which ascend.
    pub fn points(mut self, sizes: &[u64], mut add: impl FnMut(Point)) -> Result<(), Error> {
        // What is too little for a strategy needs no search to be found too little again.
        let mut smallest = 0;
        for &budget in sizes {
            self.request.budgets = vec![budget];
            let planned = match budget < smallest {
                true => None,
                false => self.point(budget, &mut smallest)?,
            };
            add(Point {
                strategy: self.request.strategy.name(),
                budget_bytes: budget,
                feasible: planned.is_some(),
                smallest_bytes: planned.is_none().then_some(smallest),
                planned,
            });
        }
        Ok(())
    }

    /// The plan for a budget. Where there is none, `smallest` becomes the budget of the smallest.
    fn point(&self, budget: u64, smallest: &mut u64) -> Result<Option<Planned>, Error> {
        let start = Instant::now();
        let chosen = match choose(self.apart(budget).unwrap_or(self.network), &self.request) {
            Ok(chosen) => chosen,
            Err(PlanError::Budget { smallest: found, .. }) => {
                *smallest = found;
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let plan_ms = milliseconds(start.elapsed().as_nanos() as u64);
        let planned = chosen.made.first().zip(chosen.predicted_ns.first());
        Ok(planned.map(|(PlanResult { plan, .. }, predicted_ns)| Planned {
            predicted_ms: milliseconds(*predicted_ns),
            bytes_read_per_inference: plan.bytes_per_inference(),
            resident_bytes: plan.resident_bytes(),
            arena_bytes: plan.arena_bytes,
            steps: plan.steps.len(),
            loads: plan.loads.len(),
            plan_ms,
        }))
    }
}

/// No plan for this budget is faster, of whatever form of the network a strategy is given.
pub fn bound_ns(request: &PackRequest<'_>, network: &Network, swept: &[Swept], budget: u64) -> u64 {
    let (profile, threads) = (&request.profile, request.threads);
    let bound_ns = |network: &Network| match request.exact {
        true => lower_bound_ns(network, budget, profile, threads),
        false => bound_of_all_ns(network, profile, threads, budget),
    };
    // Strategies that compute directly may leave other networks whole. Otherwise their forms are the same.
    let apart = [true, false].into_iter().filter_map(|exact| {
        let mut alike = swept.iter().filter(|one| one.request.exact == exact);
        alike.find_map(|one| one.apart(budget))
    });
    apart.map(bound_ns).fold(bound_ns(network), u64::min)
}
