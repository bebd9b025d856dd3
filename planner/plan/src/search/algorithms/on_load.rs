//! Which layers are computed by Winograd's algorithm with weights that their steps transform. These
//! layers are stored, read and held as for the direct algorithm. So the saved time costs only the
//! scratch of what is transformed at once. The choice belongs to a plan, not to the pack, and is
//! made layer by layer: scratch of one layer takes room from loads of others.

use crate::bound::{Bound, layer_demand, step_algorithms};
use crate::profile::Costs;
use crate::request::Request;
use crate::steps::{panel_scratch_bytes, whole};
use eyelet::pack::{PAGE, Step};
use eyelet_model::network::Network;

/// An algorithm with more bytes must take at most this share of the time: the bytes are certain,
/// and predictions cannot tell a smaller gain.
pub(in crate::search) const GAIN: f64 = 0.9;

/// Shares of the budget that a layer's activations, a panel and its scratch may take.
const SHARES: [f64; 4] = [1.0, 0.6, 0.35, 0.2];

/// The algorithms that steps of each layer can use: the layer's own, and those that are clearly
/// faster.
pub struct Options {
    layers: Vec<Vec<Faster>>,
    /// The layers' own algorithms.
    own: Vec<u32>,
    budget: u64,
}

struct Faster {
    algorithm: u32,
    ns: f64,
    /// Bytes of a panel, its scratch and the activations.
    need: f64,
}

impl Options {
    pub fn new(request: &Request<'_>, costs: &Costs) -> Self {
        let own = request.network.on_load.clone();
        let mut network = request.network.clone();
        let bound = Bound::new(&network, request.profile, request.threads);
        let mut layers = Vec::new();
        for layer in 0..own.len() {
            let mut found = Vec::new();
            if !request.exact {
                offer(&mut network, costs, request.threads, &bound, layer, &mut found);
            }
            found.retain(|faster: &Faster| faster.need <= request.budget as f64);
            layers.push(found);
        }
        Self { layers, own, budget: request.budget }
    }

    /// The algorithms that a layer has besides its own.
    pub fn of(&self, layer: usize) -> impl ExactSizeIterator<Item = u32> {
        self.layers[layer].iter().map(|faster| faster.algorithm)
    }

    /// A layer's own algorithm.
    pub fn own(&self, layer: usize) -> u32 {
        self.own[layer]
    }

    /// The layers that have several algorithms.
    pub fn layers(&self) -> Vec<usize> {
        (0..self.own.len()).filter(|layer| !self.layers[*layer].is_empty()).collect()
    }

    /// Choices for all layers. The first is their own algorithms; then, for each share of the
    /// budget, the fastest ones that need no more than that.
    pub fn choices(&self) -> Vec<Vec<u32>> {
        let mut choices = vec![self.own.clone()];
        for share in SHARES {
            let most = self.budget as f64 * share;
            let choose = |(layer, own): (usize, &u32)| {
                let fits = self.layers[layer].iter().filter(|faster| faster.need <= most);
                let best = fits.min_by(|a, b| a.ns.total_cmp(&b.ns));
                best.map_or(*own, |faster| faster.algorithm)
            };
            let choice = self.own.iter().enumerate().map(choose).collect();
            if !choices.contains(&choice) {
                choices.push(choice);
            }
        }
        choices
    }
}

/// Adds the algorithms that are clearly faster than a layer's own.
fn offer(
    network: &mut Network,
    costs: &Costs,
    threads: u32,
    bound: &Bound,
    layer: usize,
    found: &mut Vec<Faster>,
) {
    let own = network.on_load[layer];
    let (least, _) = layer_demand(network, costs, layer);
    for algorithm in step_algorithms(network, costs, layer).collect::<Vec<_>>() {
        network.on_load[layer] = algorithm;
        let (ns, _) = layer_demand(network, costs, layer);
        if ns < least * GAIN {
            let need = bound.alive(layer) + panel_need(network, layer, threads);
            found.push(Faster { algorithm, ns, need });
        }
    }
    network.on_load[layer] = own;
}

/// Chooses the fastest algorithm that fits the budget, for every layer.
pub(in crate::search) fn choose(
    network: &mut Network,
    costs: &Costs,
    threads: u32,
    budget: u64,
    bound: &Bound,
) {
    for layer in 0..network.layers.len() {
        network.on_load[layer] = 0;
        let mut found = Vec::new();
        offer(network, costs, threads, bound, layer, &mut found);
        let fits = found.iter().filter(|faster| faster.need <= budget as f64);
        let best = fits.min_by(|a, b| a.ns.total_cmp(&b.ns));
        network.on_load[layer] = best.map_or(0, |faster| faster.algorithm);
    }
}

/// Bytes that a step with one whole panel of a layer takes next to the activations.
pub(in crate::search) fn panel_need(network: &Network, index: usize, threads: u32) -> f64 {
    let layer = &network.layers[index];
    let step = Step { count: layer.panels.min(1), ..whole(network, index) };
    let scratch = panel_scratch_bytes(network, &step, threads);
    let weights = u64::from(layer.panel_bytes).next_multiple_of(PAGE);
    (scratch + weights) as f64
}
