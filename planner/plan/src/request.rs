//! The input of planning.

use crate::profile::Profile;
use eyelet_model::network::Network;

/// A network and the memory, threads and board for which it is planned.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub network: &'a Network,
    /// Bytes of the weights section.
    pub weights_bytes: u64,
    /// Bytes of arena.
    pub budget: u64,
    /// Compute threads that the scratch must serve.
    pub threads: u32,
    pub profile: &'a Profile,
    /// Every layer is computed as it is stored.
    pub exact: bool,
    /// The budget holds all weights, perhaps by other algorithms. So no plan of `joint` reads.
    pub holds_all: bool,
}

impl Request<'_> {
    /// Whether loads are read into a staging ring, and copied from there to the device.
    pub fn is_staged(&self) -> bool {
        self.profile.transfer.is_some()
    }
}
