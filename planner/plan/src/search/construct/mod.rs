//! A good plan in milliseconds, and the smallest budget that has one.
//!
//! Plans can differ in how layers slide ([`slide`](crate::slide)), which layers have their steps
//! transform weights ([`on_load`](crate::search::algorithms::on_load)), how much stays, and how
//! finely layers are cut ([`layer_cuts`]). [Ways to slide](ways_to_slide) and algorithms are
//! compared by one kind of design ([`sketches`]): two slices fit next to the activations of each
//! layer, and weights stay that would come late from storage. For the best of them other sizes of
//! slices are tried.

pub mod frugal;
mod layer_cuts;
mod sketches;
mod ways_to_slide;

use super::algorithms::on_load::Options;
use super::place::builder::PlanBuilder;
use super::place::design::{Built, Design};
use super::place::precomputed::Precomputed;
use crate::request::Request;
use sketches::Construction;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The best plan, with its design and its way to slide.
pub struct Best {
    pub at: usize,
    pub design: Design,
    pub built: Built,
}

/// A constructed plan, ready to be [improved](super::improve).
pub struct Constructed<'a> {
    pub(in crate::search) precomputed: Arc<Precomputed>,
    pub(in crate::search) options: Options,
    /// Ways to slide for which there are plans.
    pub(in crate::search) builders: Vec<PlanBuilder<'a>>,
    pub(in crate::search) best: Best,
    /// The plan of another strategy, if it is faster than the best.
    pub(in crate::search) faster: Option<Built>,
    /// Whether no plan may read, since all weights have room.
    pub(in crate::search) keeps_all: bool,
    pub(in crate::search) constructive: Duration,
}

impl<'a> Constructed<'a> {
    /// Predicted nanoseconds of the plan as it is.
    pub fn predicted_ns(&self) -> u64 {
        let held = self.faster.as_ref().unwrap_or(&self.best.built);
        held.line.steady_ns
    }
}

/// Constructs a plan, if there is one. `faster` finds a plan of another strategy: for a builder, in
/// less than these nanoseconds, and with reads only if the plan may read.
pub fn construct<'a>(
    request: &Request<'a>,
    faster: &dyn Fn(&PlanBuilder<'a>, u64, bool) -> Option<Built>,
) -> Option<Constructed<'a>> {
    let start = Instant::now();
    let precomputed = Arc::new(Precomputed::new(request));
    let options = Options::new(request, &precomputed.costs);
    let mut construction = Construction::new(&precomputed);
    construction.compare(request, &options);
    let Construction { builders, best, keeps_all, .. } = construction;
    let best = best?;
    let plain = PlanBuilder::with(request, precomputed.clone(), Vec::new()).published();
    // Other strategies copy weights.
    let copies = !request.network.is_any_in_place();
    let faster = match copies && plain.has_room() && !plain.is_optimal(&best.built) {
        true => faster(&plain, best.built.line.steady_ns, !keeps_all),
        false => None,
    };
    Some(Constructed {
        precomputed,
        options,
        builders,
        best,
        faster,
        keeps_all,
        constructive: start.elapsed(),
    })
}
