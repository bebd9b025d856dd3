//! The input for the plans of a pack.

use crate::profile::Profile;
use crate::request::Request;
use crate::search::improve::effort::Effort;
use crate::search::strategy::Strategy;
use eyelet::pack::{Encoding, PAGE};
use eyelet_model::network::Network;

/// All that is asked of a pack before its network is known.
#[derive(Clone, Debug)]
pub struct PackRequest<'s> {
    /// Bytes of arena, in ascending order, each once.
    pub budgets: Vec<u64>,
    pub profile: Profile,
    /// Compute threads that the scratch must serve.
    pub threads: u32,
    pub strategy: &'s dyn Strategy,
    pub effort: Effort,
    /// Every layer is computed as it is stored.
    pub exact: bool,
    /// How weights are stored.
    pub weights: Encoding,
    /// No step may take longer, by the costs of the profile.
    pub longest_ns: Option<u64>,
}

impl<'s> PackRequest<'s> {
    /// A request with defaults for all else.
    pub fn new(
        strategy: &'s dyn Strategy,
        budgets: Vec<u64>,
        profile: Profile,
        threads: u32,
    ) -> Self {
        Self {
            budgets,
            profile,
            threads,
            strategy,
            effort: Effort::default(),
            exact: false,
            weights: Encoding::F32,
            longest_ns: None,
        }
    }

    /// The input for one plan of a network.
    pub fn of<'a>(&'a self, network: &'a Network, weights_bytes: u64, budget: u64) -> Request<'a> {
        let Self { ref profile, threads, exact, .. } = *self;
        Request { network, weights_bytes, budget, threads, profile, exact, holds_all: false }
    }

    /// [`Network::mapped`] for the board and the strategy.
    pub fn mapped(&self, network: &Network) -> Option<Vec<bool>> {
        self.profile.mapped.map(|_| vec![self.strategy.uses_in_place(); network.layers.len()])
    }

    /// Bytes of arena that the shared cache holds, if a budget is larger.
    pub(in crate::search) fn cache_bytes(&self) -> Option<u64> {
        let bytes = self.profile.llc_bytes() / PAGE * PAGE;
        let is_larger = self.budgets.iter().any(|budget| *budget > bytes);
        (self.strategy.transforms() && bytes > 0 && is_larger).then_some(bytes)
    }

    /// Whether residents are laid out for changes of budget.
    pub(in crate::search) fn lays_out(&self) -> bool {
        // If loads are copied to a GPU's own memory, residents are read again, and so they are from
        // storage that is read like memory.
        let copies = self.profile.transfer.is_some() || self.profile.mapped.is_some();
        self.strategy.transforms() && self.budgets.len() > 1 && !copies
    }
}
