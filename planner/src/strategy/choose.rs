//! From a network to the plans of a pack: by what algorithms layers are stored, and the plans for all budgets.
//!
//! Choices of algorithms are offered by [`algorithms`](super::algorithms), which knows nothing of slices and
//! addresses. So some of them are planned as far as no search is needed, those whose bounds are least, as far as
//! these could still beat what was found. The one that is predicted to be the fastest, in sum over the budgets, is
//! taken, and its plans are improved. A strategy that can have steps transform weights also plans what it would choose if it
//! could not, which is what other strategies choose from: so it is no slower than they are.
//!
//! A plan for one budget is a plan for every larger one, and is taken for it where nothing faster was found.

use super::algorithms::{Choice, Means, choices};
use super::{Begun, Effort, Made, PlanError, Request, begin, on_load, refusal, transforms};
use crate::bound::least_bound_ns;
use crate::layout::place_weights;
use crate::network::Network;
use crate::profile::Profile;
use crate::simulate::simulate;

/// So many choices of algorithms of each kind are planned, those with the least bounds, and the direct one.
const MOST_CHOICES: usize = 2;

/// What to plan for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// In ascending order, each once.
    pub budgets: &'a [u64],
    pub profile: &'a Profile,
    pub strategy: &'a str,
    pub threads: u32,
    pub exact: bool,
    pub effort: Effort,
    /// What queues grow by where a pipeline's least delay is looked for.
    pub delta: u64,
}

/// The plans of a pack.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The network, by the algorithms that were chosen, its weights placed.
    pub network: Network,
    pub weights_bytes: u64,
    /// One for each budget.
    pub made: Vec<Made>,
    /// What is predicted of them.
    pub predicted_ns: Vec<u64>,
}

/// A network by one choice of algorithms, and for each budget by what steps can compute it, too.
struct Candidate {
    network: Network,
    weights_bytes: u64,
    transformed: Vec<Option<Network>>,
    /// No plan of it is faster, in sum over the budgets.
    bound_ns: u64,
    is_direct: bool,
}

/// Chooses the algorithms of a network's layers and plans it for all budgets.
pub fn choose(network: &Network, wanted: &Wanted<'_>) -> Result<Chosen, PlanError> {
    let mut candidates: Vec<Candidate> = offered(network, wanted)
        .into_iter()
        .map(|choice| Candidate::new(network.clone(), &choice, wanted))
        .collect();
    candidates.sort_by_key(|candidate| candidate.bound_ns);
    let mut best: Option<(u64, &Candidate, Vec<Begun<'_>>)> = None;
    // The refusal of the direct algorithms, which are offered whatever the budget: others that may need less are not
    // offered for what they need.
    let mut refused: Option<PlanError> = None;
    // What a choice needs that does not fit takes a search, which is for when none fits.
    for begin in [Candidate::begin, Candidate::begin_or_refuse] {
        if best.is_some() || refused.is_some() {
            break;
        }
        for candidate in &candidates {
            let least = best.as_ref().map_or(u64::MAX, |(ns, ..)| *ns);
            if candidate.bound_ns >= least {
                continue;
            }
            match begin(candidate, wanted) {
                Ok(None) => {}
                Ok(Some(begun)) => {
                    let ns = begun.iter().map(Begun::predicted_ns).sum();
                    if best.is_none() || ns < least {
                        best = Some((ns, candidate, begun));
                    }
                }
                Err(error) => {
                    if refused.is_none() || candidate.is_direct {
                        refused = Some(error);
                    }
                }
            }
        }
    }
    let Some((_, candidate, begun)) = best else {
        return Err(refused.expect("there is a choice, and it was refused"));
    };
    let Candidate { network, weights_bytes, .. } = candidate;
    let mut made: Vec<Made> = begun.into_iter().map(|begun| begun.finish(wanted.effort)).collect();
    let predict =
        |made: &Made| simulate(network, &made.plan, wanted.profile, wanted.threads).steady_ns;
    let mut predicted_ns: Vec<u64> = made.iter().map(predict).collect();
    for larger in 1..made.len() {
        if transforms(wanted.strategy) && predicted_ns[larger - 1] < predicted_ns[larger] {
            let budget = made[larger].plan.budget;
            made[larger].plan = made[larger - 1].plan.clone();
            made[larger].plan.budget = budget;
            predicted_ns[larger] = predicted_ns[larger - 1];
        }
    }
    Ok(Chosen { network: network.clone(), weights_bytes: *weights_bytes, made, predicted_ns })
}

/// The choices to be planned.
fn offered(network: &Network, wanted: &Wanted<'_>) -> Vec<Choice> {
    let Wanted { budgets, profile, strategy, threads, exact, .. } = *wanted;
    let means: &[Means] = match (exact, transforms(strategy)) {
        (true, _) => &[Means::Exact],
        (false, true) => &[Means::All, Means::Stored],
        (false, false) => &[Means::Stored],
    };
    let mut offered: Vec<Choice> = Vec::new();
    for means in means {
        let choices = choices(network, profile, threads, budgets, *means);
        // Where larger weights or more scratch do not fit a budget, the direct algorithms stand.
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

impl Candidate {
    fn new(mut network: Network, choice: &Choice, wanted: &Wanted<'_>) -> Self {
        choice.apply(&mut network);
        let weights_bytes = place_weights(&mut network);
        let transformed = |budget: &u64| match transforms(wanted.strategy) {
            true => on_load::network(&wanted.request(&network, weights_bytes, *budget)),
            false => None,
        };
        let transformed = wanted.budgets.iter().map(transformed).collect();
        let bound =
            |budget: &u64| least_bound_ns(&wanted.request(&network, weights_bytes, *budget));
        let bound_ns = wanted.budgets.iter().map(bound).sum();
        Self { weights_bytes, transformed, network, bound_ns, is_direct: choice.is_direct() }
    }

    /// Plans for all budgets, as far as no search is needed; nothing if one of them has none.
    fn begin<'a>(&'a self, wanted: &Wanted<'a>) -> Result<Option<Vec<Begun<'a>>>, PlanError> {
        self.requests(wanted)
            .map(|(request, transformed)| {
                begin(wanted.strategy, &request, transformed, wanted.delta).transpose()
            })
            .collect::<Option<Result<_, _>>>()
            .transpose()
    }

    /// The same, or the refusal that names the smallest budget.
    fn begin_or_refuse<'a>(
        &'a self,
        wanted: &Wanted<'a>,
    ) -> Result<Option<Vec<Begun<'a>>>, PlanError> {
        let begin = |(request, transformed): (Request<'a>, _)| {
            let begun = begin(wanted.strategy, &request, transformed, wanted.delta)?;
            begun.ok_or_else(|| refusal(&request))
        };
        self.requests(wanted).map(begin).collect::<Result<_, _>>().map(Some)
    }

    fn requests<'a>(
        &'a self,
        wanted: &Wanted<'a>,
    ) -> impl Iterator<Item = (Request<'a>, Option<&'a Network>)> {
        wanted.budgets.iter().zip(&self.transformed).map(|(budget, transformed)| {
            let request = wanted.request(&self.network, self.weights_bytes, *budget);
            (request, transformed.as_ref())
        })
    }
}

impl<'a> Wanted<'a> {
    fn request(&self, network: &'a Network, weights_bytes: u64, budget: u64) -> Request<'a> {
        let Self { threads, profile, exact, .. } = *self;
        Request { network, weights_bytes, budget, threads, profile, exact }
    }
}
