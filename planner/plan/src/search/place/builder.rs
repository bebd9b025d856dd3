//! Makes designs for a request and a way to slide, and turns them into plans.

use super::activations::ActivationLayout;
use super::compact::compact;
use super::design::{Built, Design};
use super::fast_memory::FastRoom;
use super::precomputed::Precomputed;
use super::sliced_network::{Loading, Misfit, SlicedNetwork, UNLIMITED};
use super::staging;
use crate::request::Request;
use crate::simulate::{Costs, simulate_with, simulate_within};
use crate::slice::{Cutting, Slices};
use crate::slide::Group;
use eyelet::pack::{PAGE, Step};
use eyelet_model::plan::Plan;
use std::sync::Arc;

/// The data that all designs for a request and a way to slide share.
pub struct PlanBuilder<'a> {
    pub request: Request<'a>,
    pub precomputed: Arc<Precomputed>,
    /// The costs of steps if layers slide so.
    pub costs: Costs,
    pub activations: ActivationLayout,
    /// For each layer whose weights stay as long as its group: the bytes of all weights of the
    /// group.
    pub(in crate::search) group_weights: Vec<Option<u64>>,
    /// Whether steps may have parts of a panel, which published strategies do not.
    pub(in crate::search) extended: bool,
}

impl<'a> PlanBuilder<'a> {
    /// A builder for published strategies, in which no layer slides and which know no fast memory.
    pub fn new(request: &Request<'a>) -> Self {
        let precomputed = Arc::new(Precomputed::new(request));
        Self::in_memory(request, precomputed, Vec::new(), FastRoom::default()).published()
    }

    /// A builder in which no layer slides.
    pub fn alone(request: &Request<'a>) -> Self {
        Self::with(request, Arc::new(Precomputed::new(request)), Vec::new())
    }

    /// A builder in which these groups slide.
    pub fn with(request: &Request<'a>, precomputed: Arc<Precomputed>, groups: Vec<Group>) -> Self {
        let fast = FastRoom { bytes: request.profile.fast_bytes(), threads: request.threads };
        Self::in_memory(request, precomputed, groups, fast)
    }

    fn in_memory(
        request: &Request<'a>,
        precomputed: Arc<Precomputed>,
        groups: Vec<Group>,
        fast: FastRoom,
    ) -> Self {
        let activations = ActivationLayout::new(request.network, groups, fast);
        let costs = precomputed.costs.clone().sliding(request.network, &activations.sliding.rings);
        let layers = &request.network.layers;
        let bytes = |at: usize| {
            let bytes = u64::from(layers[at].panels) * u64::from(layers[at].panel_bytes);
            request.network.bytes_in_arena(at, bytes)
        };
        let groups: Vec<Option<usize>> =
            (0..layers.len()).map(|layer| activations.sliding.keeps(layer)).collect();
        let of_group = |group: &Option<usize>| {
            let members = (0..layers.len()).filter(|layer| groups[*layer] == *group);
            group.map(|_| members.map(bytes).sum())
        };
        let group_weights = groups.iter().map(of_group).collect();
        Self { request: *request, precomputed, costs, activations, group_weights, extended: true }
    }

    /// Slices are whole panels, and each step transforms its inputs.
    pub fn published(self) -> Self {
        Self { extended: false, ..self }
    }

    /// Cuts the network as a design has it.
    pub fn cut(&self, design: &Design) -> SlicedNetwork<'_> {
        self.sliced(design.slices(self.request.network, &self.activations))
    }

    /// The network in these slices.
    pub fn sliced(&self, slices: Slices) -> SlicedNetwork<'_> {
        let scratch_of = |step: &Step| {
            let scratch = self.precomputed.scratch_of(&self.request, step);
            let scratch_bytes = scratch.least.max(step.scratch_bytes / 64 * 64).min(scratch.all);
            match scratch_bytes == scratch.all {
                true => scratch.all,
                false => self.costs.scratch_used(&Step { scratch_bytes, ..*step }),
            }
        };
        SlicedNetwork::new(&self.request, &self.activations, slices, scratch_of)
    }

    /// Whether a layer slides, and is not cut.
    pub fn slides(&self, layer: usize) -> bool {
        self.group_weights[layer].is_some()
    }

    /// The smallest budget in which everything fits at its lowest place.
    pub fn least_bytes(&self, design: &Design) -> u64 {
        self.cut(design).least_bytes(&self.request)
    }

    /// Whether everything fits the budget of the request at its lowest place.
    pub fn surely_fits(&self, design: &Design) -> bool {
        self.cut(design).place_lowest(&self.request, self.request.budget, design.loading).is_ok()
    }

    /// Makes the plan of a design for a budget.
    pub fn place(&self, design: &Design, budget: u64) -> Result<Plan, Misfit> {
        let cut = self.cut(design);
        let plan = cut
            .place(&self.request, budget, design.loading)
            .or_else(|misfit| self.compacted(&cut, budget).ok_or(misfit))?;
        Ok(self.staged(plan, design))
    }

    /// The plan of a network of which all weights stay, if scratch has room among the activations.
    fn compacted(&self, cut: &SlicedNetwork<'_>, budget: u64) -> Option<Plan> {
        let least = cut.bytes_without_scratch().filter(|_| self.extended)?;
        if least > budget {
            return None;
        }
        let mut plan = cut.place_lowest(&self.request, UNLIMITED, Loading::Cyclic).ok()?;
        compact(self.request.network, &mut plan);
        (plan.arena_bytes <= budget).then_some(Plan { budget, ..plan })
    }

    /// Makes the plan with everything at its lowest place, which succeeds from
    /// [`least_bytes`](Self::least_bytes) on.
    pub fn place_lowest(&self, design: &Design, budget: u64) -> Result<Plan, Misfit> {
        let plan = self.cut(design).place_lowest(&self.request, budget, design.loading)?;
        Ok(self.staged(plan, design))
    }

    fn staged(&self, mut plan: Plan, design: &Design) -> Plan {
        if self.request.is_staged() {
            staging::stage(&mut plan, design.loading);
        }
        plan
    }

    /// Makes and predicts the plan of a design for the budget of the request, and counts the segments of memory that were looked at for places.
    pub fn build_counting(&self, design: &Design) -> (Result<Built, Misfit>, usize) {
        let cut = self.cut(design);
        let placed = cut.place(&self.request, self.request.budget, design.loading);
        let built = placed.map(|plan| self.predict(self.staged(plan, design)));
        (built, cut.candidates())
    }

    /// Makes and predicts the plan with everything at its lowest place.
    pub fn build_surely(&self, design: &Design) -> Result<Built, Misfit> {
        Ok(self.predict(self.place_lowest(design, self.request.budget)?))
    }

    /// Makes and predicts a plan, with everything at its lowest place if nothing else fits. Returns
    /// whether something else did.
    pub fn build_or_lowest(&self, design: &Design) -> Result<(Built, bool), Misfit> {
        let (cut, request) = (self.cut(design), &self.request);
        let placed = cut.place(request, request.budget, design.loading).map(|plan| (plan, true));
        let (plan, has_room) = match placed {
            Ok(placed) => placed,
            Err(_) => (cut.place_lowest(request, request.budget, design.loading)?, false),
        };
        Ok((self.predict(self.staged(plan, design)), has_room))
    }

    pub fn predict(&self, plan: Plan) -> Built {
        Built { line: simulate_with(&plan, &self.costs), plan }
    }

    /// Predicts a plan unless it takes more than `most_ns`; the error is then a lower bound of its
    /// time.
    pub fn predict_within(&self, plan: Plan, most_ns: u64) -> Result<Built, u64> {
        Ok(Built { line: simulate_within(&plan, &self.costs, most_ns)?, plan })
    }

    /// Whether a plan is as fast as the lower bound, within what can be measured.
    pub fn is_optimal(&self, built: &Built) -> bool {
        built.line.steady_ns <= self.precomputed.bound_ns + self.precomputed.bound_ns / 1000
    }

    /// Bytes of the tables that every plan has.
    pub fn least_tables(&self) -> u64 {
        self.activations.tables.least(0)
    }

    /// Whether all weights fit the budget of the request next to everything else.
    pub fn keeps_all(&self) -> bool {
        let own = &self.request.network.on_load;
        let all = Design::uniform(Cutting::RESIDENT, own, Loading::Cyclic);
        self.place(&all, self.request.budget).is_ok()
    }

    /// Whether tables and activations fit the budget of the request.
    pub fn has_room(&self) -> bool {
        self.least_tables() + self.activations.peak <= self.request.budget
    }

    /// Bytes of a budget that tables and activations leave at their peak.
    pub fn room(&self, budget: u64) -> u64 {
        (budget / PAGE * PAGE).saturating_sub(self.least_tables() + self.activations.peak)
    }
}
