//! From a network to the plans of a pack: which algorithms layers are stored for, and a plan for
//! each budget.
//!
//! [`algorithms`](crate::search::algorithms) offers choices of algorithms, but knows nothing of
//! slices and addresses. So the choices with the least bounds are planned without a search, as long as their
//! bounds could still beat the best so far. The choice with the fastest plans, in sum over the
//! budgets, is then improved. A strategy whose steps can transform weights also plans the choices
//! that other strategies have. So it is no slower than they are.
//!
//! A budget that holds all weights reads none: choices whose weights have no room there are out, even
//! if plans that stream them are predicted to be faster.
//!
//! A plan for one budget of the pack serves every larger one, and is taken for it where nothing
//! faster was found. A large arena can be slower: weights then come from memory, and not from the
//! cache that all processors share. So a larger budget is also planned for the size of that cache,
//! unless it has room for all weights.

use super::orders::in_orders;
use super::pack_request::PackRequest;
use crate::bound::least_bound_ns;
use crate::request::Request;
use crate::search::algorithms::{AlgorithmSet, Choice, choices};
use crate::search::construct::frugal::refusal;
use crate::search::improve::PlanResult;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::refusal::PlanError;
use crate::search::residents::refit::Refit;
use crate::search::residents::shared::{PlanToLayOut, lay_out};
use crate::search::strategy::draft::Draft;
use crate::simulate::simulate;
use eyelet::pack::Layer;
use eyelet_model::layout::SharedWeights;
use eyelet_model::network::Network;
use eyelet_model::ops::winograd::tile;
use eyelet_model::plan::Plan;
use eyelet_model::size;
use std::fmt;
use std::sync::Arc;

/// Choices of algorithms of each kind that are planned: those with the least bounds. The direct one
/// is always planned.
const MOST_CHOICES: usize = 2;

/// The plans of a pack.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The network with the chosen algorithms and placed weights.
    pub network: Network,
    pub weights_bytes: u64,
    /// One for each budget.
    pub made: Vec<PlanResult>,
    /// Predicted nanoseconds of each plan.
    pub predicted_ns: Vec<u64>,
}

/// A network with one choice of algorithms.
struct Candidate {
    network: Network,
    weights_bytes: u64,
    /// On a board whose storage is read like memory, but slower: the same if steps use no weights
    /// there, so that all are copied.
    copied: Option<Box<Candidate>>,
    /// The size of the shared cache, if a budget is larger.
    cache_bytes: Option<u64>,
    /// No plans of this choice take less, in sum over the budgets.
    bound_ns: u64,
    is_direct: bool,
}

/// The plans of a candidate before they are laid out, with what each was made of, if known.
struct Finished<'a> {
    chosen: Chosen,
    refits: Vec<Option<Arc<Refit<'a>>>>,
}

/// Chooses the algorithms of a network's layers and plans it for all budgets, [in another order](in_orders) if the
/// smallest of them asks for it.
pub fn choose(network: &Network, request: &PackRequest<'_>) -> Result<Chosen, PlanError> {
    in_orders(request.strategy, network, |network| {
        choose_among(network, request, offered(network, request), &SharedWeights::default())
    })
}

/// Plans one of several shapes of a network for all budgets. Layers whose weights are those of an
/// earlier shape, which are in `shared`, use them. So that they are the same, all are stored for the
/// direct algorithm.
pub fn choose_shape(
    network: &Network,
    request: &PackRequest<'_>,
    shared: &SharedWeights,
) -> Result<Chosen, PlanError> {
    let set = match request.exact || !request.strategy.transforms() {
        true => AlgorithmSet::Exact,
        false => AlgorithmSet::Transformed,
    };
    in_orders(request.strategy, network, |network| {
        choose_among(network, request, by_sets(network, request, &[set]), shared)
    })
}

/// The plans of the fastest of these choices.
fn choose_among(
    network: &Network,
    request: &PackRequest<'_>,
    choices: Vec<Choice>,
    shared: &SharedWeights,
) -> Result<Chosen, PlanError> {
    let network = &Network { mapped: request.mapped(network), ..network.clone() };
    let mut candidates: Vec<Candidate> = choices
        .into_iter()
        .map(|choice| Candidate::new(network.clone(), &choice, request, shared))
        .collect();
    candidates.sort_by_key(|candidate| candidate.bound_ns);
    let holding = holding(&candidates, request);
    let mut found: Vec<(u64, &Candidate, Vec<Draft<'_>>)> = Vec::new();
    // The error of the direct algorithms, which are offered for every budget. Other choices that
    // may need less are not offered for what they need.
    let mut refused: Option<PlanError> = None;
    // The smallest budget takes a search, so it is looked for only if no choice fits.
    for refuse in [false, true] {
        if !found.is_empty() || refused.is_some() {
            break;
        }
        for candidate in &candidates {
            let least = found.iter().map(|(ns, ..)| *ns).min().unwrap_or(u64::MAX);
            if candidate.bound_ns >= least {
                log::debug!(
                    "{candidate}: the bound is {:.3} ms, no plan is faster",
                    ms(candidate.bound_ns)
                );
                continue;
            }
            match candidate.begin(request, &holding, refuse) {
                Ok(None) => log::debug!("{candidate}: no plan fits"),
                Ok(Some(drafts)) => {
                    let predicted_ns = drafts.iter().map(Draft::predicted_ns).sum();
                    log::debug!("{candidate}: {:.3} ms are predicted", ms(predicted_ns));
                    found.push((predicted_ns, candidate, drafts));
                }
                Err(error) => {
                    if refused.is_none() || candidate.is_direct {
                        refused = Some(error);
                    }
                }
            }
        }
    }
    match found.into_iter().min_by_key(|(ns, ..)| *ns) {
        Some((ns, candidate, drafts)) => {
            log::info!(
                "of {} choices of algorithms the fastest is {candidate}: {:.3} ms over the budgets before the search",
                candidates.len(),
                ms(ns)
            );
            let chosen = candidate.finish(request, drafts).laid_out(request);
            chosen.tell();
            Ok(chosen)
        }
        None => Err(refused.expect("there is a choice, and it was refused")),
    }
}

/// Whether each budget holds all weights as they are stored for the direct algorithms.
fn holding(candidates: &[Candidate], request: &PackRequest<'_>) -> Vec<bool> {
    let holds = |budget: &u64| {
        let mut direct = candidates.iter().filter(|candidate| candidate.is_direct);
        request.strategy.transforms() && direct.any(|direct| direct.holds_all(request, *budget))
    };
    request.budgets.iter().map(holds).collect()
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl Chosen {
    /// Says of each plan what was chosen, and what decides its time.
    fn tell(&self) {
        for (made, ns) in self.made.iter().zip(&self.predicted_ns) {
            let PlanResult { plan, tried, .. } = made;
            log::info!(
                "{} for {}: {} of weights stay, {} are read in {} loads each time, {} steps; {:.3} ms after {tried} designs",
                plan.strategy,
                size::human(plan.budget),
                size::human(plan.resident_bytes()),
                size::human(plan.bytes_per_inference()),
                plan.loads.len(),
                plan.steps.len(),
                ms(*ns)
            );
        }
    }
}

/// The choices to be planned.
fn offered(network: &Network, request: &PackRequest<'_>) -> Vec<Choice> {
    let sets: &[AlgorithmSet] = match (request.exact, request.strategy.transforms()) {
        (true, _) => &[AlgorithmSet::Exact],
        (false, true) => &[AlgorithmSet::All, AlgorithmSet::Stored],
        (false, false) => &[AlgorithmSet::Stored],
    };
    by_sets(network, request, sets)
}

/// The choices of these kinds to be planned.
fn by_sets(network: &Network, request: &PackRequest<'_>, sets: &[AlgorithmSet]) -> Vec<Choice> {
    let PackRequest { budgets, profile, threads, .. } = request;
    let mut offered: Vec<Choice> = Vec::new();
    for set in sets {
        let choices = choices(network, profile, *threads, budgets, *set);
        // If larger weights or more scratch do not fit a budget, the direct algorithms do.
        let some = choices.into_iter().enumerate();
        let some = some.filter(|(index, choice)| *index < MOST_CHOICES || choice.is_direct());
        for (_, choice) in some {
            if !offered.iter().any(|known| known.is_same(&choice)) {
                offered.push(choice);
            }
        }
    }
    offered
}

impl Finished<'_> {
    /// Replaces each plan that is slower than the plan for the next smaller budget by that plan,
    /// unless it reads nothing and the other does.
    fn take_smaller(&mut self) {
        let Self { chosen: Chosen { made, predicted_ns, .. }, refits } = self;
        for larger in 1..made.len() {
            let may_read = refits[larger].as_ref().is_none_or(|refit| refit.may_read());
            let may = may_read || made[larger - 1].plan.loads.is_empty();
            if may && predicted_ns[larger - 1] < predicted_ns[larger] {
                let budget = made[larger].plan.budget;
                made[larger].plan = Plan { budget, ..made[larger - 1].plan.clone() };
                predicted_ns[larger] = predicted_ns[larger - 1];
                refits[larger] = refits[larger - 1].clone();
            }
        }
    }

    /// Lays out residents that plans share at one address.
    fn laid_out(mut self, request: &PackRequest<'_>) -> Chosen {
        if !request.lays_out() {
            return self.chosen;
        }
        let Self { chosen: Chosen { network, made, predicted_ns, .. }, refits } = &mut self;
        let predict =
            |plan: &Plan| simulate(network, plan, &request.profile, request.threads).steady_ns;
        let guests = made.iter().zip(&*predicted_ns).zip(&*refits);
        let guests: Vec<PlanToLayOut<'_>> = guests
            .map(|((made, predicted_ns), refit)| PlanToLayOut {
                plan: &made.plan,
                predicted_ns: *predicted_ns,
                refit: refit.as_deref(),
            })
            .collect();
        let plans = lay_out(network, &guests, &predict);
        for ((plan, made), held_ns) in plans.into_iter().zip(made).zip(predicted_ns) {
            if let Some((plan, ns)) = plan {
                (made.plan, *held_ns) = (plan, ns);
            }
        }
        self.take_smaller();
        self.chosen
    }
}

/// Its algorithms.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let winograd = |layer: &&Layer| tile(layer).is_some();
        match self.network.layers.iter().filter(winograd).count() {
            0 => write!(f, "direct algorithms"),
            some => write!(f, "Winograd's algorithm for {some} layers"),
        }
    }
}

impl Candidate {
    fn new(
        mut network: Network,
        choice: &Choice,
        request: &PackRequest<'_>,
        shared: &SharedWeights,
    ) -> Self {
        let slower = request.profile.is_slower_mapped(request.threads);
        let copied = (slower && network.is_any_in_place()).then(|| {
            let mapped = Some(vec![false; network.layers.len()]);
            let network = Network { mapped, ..network.clone() };
            Box::new(Self::new(network, choice, request, shared))
        });
        choice.apply(&mut network);
        let weights_bytes = shared.place(&mut network);
        let cache_bytes = request.cache_bytes();
        let bound = |budget: &u64| least_bound_ns(&request.of(&network, weights_bytes, *budget));
        let bound_ns = request.budgets.iter().map(bound).sum();
        let is_direct = choice.is_direct();
        Self { weights_bytes, copied, cache_bytes, network, bound_ns, is_direct }
    }

    fn holds_all(&self, request: &PackRequest<'_>, budget: u64) -> bool {
        let network = &self.network;
        let bytes = |layer: &Layer| u64::from(layer.panels) * u64::from(layer.panel_bytes);
        let layers = network.layers.iter().enumerate();
        let needed = layers.map(|(at, layer)| network.bytes_in_arena(at, bytes(layer)));
        let one = request.of(network, self.weights_bytes, budget);
        needed.sum::<u64>() <= budget && PlanBuilder::alone(&one).keeps_all()
    }

    /// Makes a plan for each budget without a search. If a budget has none, returns nothing, or
    /// with `refuse` the error that names the smallest budget. Budgets that are `holding` all
    /// weights have no plans that read.
    fn begin<'a>(
        &'a self,
        request: &'a PackRequest<'_>,
        holding: &[bool],
        refuse: bool,
    ) -> Result<Option<Vec<Draft<'a>>>, PlanError> {
        let mut all = Vec::new();
        for (budget, &holds_all) in request.budgets.iter().zip(holding) {
            let one = request.of(&self.network, self.weights_bytes, *budget);
            let one = Request { holds_all, ..one };
            match request.strategy.begin(&one)? {
                Some(draft) => {
                    let draft = self.in_cache(request, *budget, draft)?;
                    all.push(self.or_copied(request, all.len(), holds_all, draft)?);
                }
                None if refuse => return Err(refusal(&one)),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// The draft for a budget, or a faster one in which all weights are copied.
    fn or_copied<'a>(
        &'a self,
        request: &'a PackRequest<'_>,
        number: usize,
        holds_all: bool,
        draft: Draft<'a>,
    ) -> Result<Draft<'a>, PlanError> {
        let Some(copied) = &self.copied else { return Ok(draft) };
        let one = request.of(&copied.network, copied.weights_bytes, request.budgets[number]);
        let one = Request { holds_all, ..one };
        let other = request.strategy.begin(&one)?;
        let is_faster = |other: &Draft<'a>| other.predicted_ns() < draft.predicted_ns();
        Ok(other.filter(is_faster).unwrap_or(draft))
    }

    /// The draft for a budget, or a clearly faster one for the size of the shared cache.
    fn in_cache<'a>(
        &'a self,
        request: &'a PackRequest<'_>,
        budget: u64,
        draft: Draft<'a>,
    ) -> Result<Draft<'a>, PlanError> {
        let cache_bytes = self.cache_bytes.filter(|bytes| *bytes < budget && draft.may_read());
        let Some(bytes) = cache_bytes else { return Ok(draft) };
        let one = request.of(&self.network, self.weights_bytes, bytes);
        let is_slower = |ns: u64| draft.predicted_ns() > clearly(ns);
        if !is_slower(least_bound_ns(&one)) {
            return Ok(draft);
        }
        let other = request.strategy.begin(&one)?;
        Ok(other.filter(|other| is_slower(other.predicted_ns())).unwrap_or(draft))
    }

    /// Improves the plans.
    fn finish<'a>(&self, request: &PackRequest<'_>, drafts: Vec<Draft<'a>>) -> Finished<'a> {
        let finish = |draft: Draft<'a>| {
            let (made, refit) = draft.finish(request.effort);
            (made, refit.map(Arc::new))
        };
        let (mut made, refits): (Vec<PlanResult>, Vec<_>) = drafts.into_iter().map(finish).unzip();
        made.iter_mut().zip(&request.budgets).for_each(|(made, budget)| made.plan.budget = *budget);
        let Self { network, weights_bytes, .. } = self;
        let predict = |made: &PlanResult| {
            simulate(network, &made.plan, &request.profile, request.threads).steady_ns
        };
        let predicted_ns: Vec<u64> = made.iter().map(predict).collect();
        let (network, weights_bytes) = (network.clone(), *weights_bytes);
        let chosen = Chosen { network, weights_bytes, made, predicted_ns };
        let mut finished = Finished { chosen, refits };
        if request.strategy.transforms() {
            finished.take_smaller();
        }
        finished
    }
}

/// A plan that takes longer than this is slower than one that takes `ns`, by more than predictions
/// can tell: they do not know what else goes through the cache.
fn clearly(ns: u64) -> u64 {
    ns + ns / 50
}
