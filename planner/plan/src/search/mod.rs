//! The search for plans: from a network and a budget to a [`Plan`](eyelet_model::plan::Plan).
//!
//! A [strategy](Strategy) makes a plan of a network. [`choose`] makes the plans of a pack: it takes
//! the [algorithms] with the best plans. A room uses only those before it in this order:
//!
//! ```text
//! algorithms, place, residents, construct, improve, strategy, request
//! ```

pub mod algorithms;
mod construct;
mod improve;
mod place;
mod request;
mod residents;
mod strategy;

pub use crate::request::Request;
pub use construct::frugal::refusal;
pub use improve::PlanResult;
pub use improve::effort::Effort;
pub use place::refusal::PlanError;
pub use request::chosen::{Chosen, choose, choose_shape};
pub use request::longest_step::choose_bounded;
pub use request::orders::in_orders;
pub use request::pack_request::PackRequest;
pub use strategy::draft::Draft;
pub use strategy::{Joint, Strategy, make, plan};

/// Parts of strategies, for those of other crates. They change with this crate.
#[doc(hidden)]
pub mod parts {
    pub use super::construct::frugal::{Fit, designs_in, least_of, rooms};
    pub use super::place::builder::PlanBuilder;
    pub use super::place::design::{Built, Design, SlicingTarget};
    pub use super::place::queue::queue;
    pub use super::place::refusal::{SLICE, refuse};
    pub use super::place::sliced_network::{Loading, Misfit, UNLIMITED};
    pub use super::place::staging::stage;
}

/// A plan in which these groups slide and all weights stay, for tests.
#[cfg(test)]
pub(crate) fn with_groups(
    request: &Request<'_>,
    groups: Vec<crate::slide::Group>,
) -> eyelet_model::plan::Plan {
    let builder = place::builder::PlanBuilder::with(
        request,
        place::precomputed::Precomputed::new(request).into(),
        groups,
    );
    let all = place::design::Design::uniform(
        crate::slice::Cutting::RESIDENT,
        &request.network.on_load,
        place::sliced_network::Loading::Cyclic,
    );
    builder.place(&all, request.budget).unwrap()
}
