//! The joint search over slices, residents, load times, addresses and the algorithms of steps.
//!
//! First a plan is [constructed](crate::search::construct). Every design is placed and simulated, and
//! the prediction decides. Then single layers are changed where the predicted plan stalls, as long as
//! the effort lasts ([`improve`](crate::search::improve)). Loads that are copied to a device get the
//! staging ring that serves the plan best ([`staging`](crate::search::place::staging)). A plan that
//! reads nothing is placed again in as little memory as it needs
//! ([`compact`](crate::search::place::compact)).
//!
//! Two things hold by construction, for every network, budget and cost:
//!
//! - *No plan is predicted to be slower than one of a rival.* The constructed plan is
//!   compared with all plans of its rivals that could be faster. The fastest one is taken if the
//!   search finds nothing faster.
//! - *There is a plan if and only if the budget is at least the smallest one.* The smallest budget
//!   is no larger than those of other strategies. [`frugal`](crate::search::construct::frugal)
//!   designs decide it before anything else is tried. They do not depend on the budget, and include
//!   the designs by which other strategies decide.
//!
//! A plan whose budget has room for all weights, next to the activations of layers that do not
//! slide, reads nothing. That holds also where a smaller arena that the shared cache holds is
//! predicted to be faster: then the first guarantee is about plans that read nothing.

use super::draft::Draft;
use super::{Strategy, make};
use crate::request::Request;
use crate::search::construct::construct;
use crate::search::improve::PlanResult;
use crate::search::improve::effort::Effort;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::Built;
use crate::search::place::refusal::PlanError;
use crate::search::residents::refit;

/// Searches slices, residents, load times, addresses and algorithms together.
#[derive(Clone, Copy, Debug, Default)]
pub struct Joint<'s> {
    /// Strategies than which no plan is predicted to be slower, in the order in which they are
    /// compared.
    pub rivals: &'s [&'s dyn Strategy],
}

impl Strategy for Joint<'_> {
    fn name(&self) -> &'static str {
        refit::NAME
    }

    fn about(&self) -> &'static str {
        "slices, residents, load times, addresses and algorithms searched together"
    }

    fn plan(&self, request: &Request<'_>) -> Result<PlanResult, PlanError> {
        make(self, request, Effort::Default)
    }

    fn begin<'a>(&self, request: &Request<'a>) -> Result<Option<Draft<'a>>, PlanError> {
        let constructed = construct(request, &|builder, than_ns, may_read| {
            faster(self.rivals, builder, than_ns, may_read)
        });
        Ok(constructed.map(|found| Draft::Constructed(Box::new(found))))
    }

    fn transforms(&self) -> bool {
        true
    }

    fn uses_in_place(&self) -> bool {
        true
    }
}

/// The fastest plan of the rivals, if one is faster than a plan that takes so long. No layers of the
/// builder slide. Plans that read count only if they `may_read`.
fn faster(
    rivals: &[&dyn Strategy],
    builder: &PlanBuilder<'_>,
    than_ns: u64,
    may_read: bool,
) -> Option<Built> {
    let mut fastest: Option<Built> = None;
    for rival in rivals {
        let least_ns = fastest.as_ref().map_or(than_ns, |built| built.line.steady_ns);
        fastest = rival.faster(builder, least_ns, may_read).or(fastest);
    }
    fastest
}
