//! Single steps of a layer: whole ones, parts of panels, and their scratch.

use eyelet::ops::{self, Problem, Slice};
use eyelet::pack::{Layer, Method, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::chains;

/// The division of a layer's panels into parts, by chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    chains: u32,
    /// Chains of a part, at most.
    pub each: u32,
    /// Parts of a panel.
    pub count: u32,
    /// Bytes of a part, at most.
    pub bytes: u64,
}

impl Parts {
    /// For a layer whose steps compute by its own algorithm; `None` where slices are whole panels.
    pub fn of(network: &Network, layer: usize, most: u64) -> Option<Self> {
        let panel = u64::from(network.layers[layer].panel_bytes);
        if most >= panel {
            return None;
        }
        let all = chains(network, layer)?;
        let (nr, width) = (network.isa.panel(), network.layers[layer].columns(network.isa));
        // Biases, and of panels that hold fewer channels what lies around their parts.
        let around = if width < nr { 4 * (nr - width) as u64 + 2 * 32 } else { 0 };
        let fixed = 4 * nr as u64 + around;
        let longest = 4 * (all.longest() * width) as u64;
        let chains = all.count() as u32;
        let fit = (most.saturating_sub(fixed) / longest.max(1)).clamp(1, chains.into()) as u32;
        let count = chains.div_ceil(fit);
        let each = chains.div_ceil(count);
        let bytes = (fixed + u64::from(each) * longest).min(panel);
        (count > 1).then_some(Self { chains, each, count, bytes })
    }

    /// The first chain of each, and how many it has.
    pub fn ranges(self) -> impl Iterator<Item = (u32, u32)> {
        even(self.chains, self.each.into())
    }
}

/// The least bytes of weights that a step of a layer must have: of a panel, or of a part of it.
pub fn least_slice_bytes(network: &Network, layer: usize) -> u64 {
    let panel = u64::from(network.layers[layer].panel_bytes);
    Parts::of(network, layer, 0).map_or(panel, |parts| parts.bytes)
}

/// A layer in one step.
pub fn whole(network: &Network, layer: usize) -> Step {
    let record = &network.layers[layer];
    Step {
        layer: layer as u32,
        rows: network.tensors[record.output as usize].rows() as u32,
        count: record.panels,
        method: Method::by(network.on_load[layer]),
        weights_in: network.region(layer),
        ..Step::default()
    }
}

/// Scratch that a step can use with `threads` threads, in whole cache lines.
pub fn scratch_bytes(network: &Network, step: &Step, threads: u32) -> u64 {
    scratch_by(ops::scratch_bytes, network, step, threads)
}

/// The scratch of these that it cannot do without.
pub fn least_scratch_bytes(network: &Network, step: &Step, threads: u32) -> u64 {
    scratch_by(ops::least_scratch_bytes, network, step, threads)
}

/// The least scratch of a step. A step that transforms its weights makes whole panels with it, or
/// [channel blocks](eyelet::ops::channel_blocks) if these need less. It could use less, but would
/// be slower.
pub fn panel_scratch_bytes(network: &Network, step: &Step, threads: u32) -> u64 {
    let least = least_scratch_bytes(network, step, threads);
    let stored = &network.layers[step.layer as usize];
    let plain = || {
        let input = network.tensors.get(stored.inputs[0] as usize)?;
        ops::transformed(stored, input, step.algorithm(), network.isa)
    };
    let Some(plain) = (step.algorithm() != 0).then(plain).flatten() else { return least };
    let operator = |step: &Problem<'_>| {
        let slice =
            Slice { count: step.slice.count.min(1), method: Method::default(), ..step.slice };
        let layer = &Layer { inputs: step.layer.inputs, ..plain };
        ops::least_scratch_bytes(&Problem { layer, slice, ..*step })
    };
    let panel = u64::from(plain.panel_bytes).next_multiple_of(64);
    let panel = panel + scratch_by(operator, network, step, threads);
    least.max(panel.min(scratch_bytes(network, step, threads)))
}

fn scratch_by(
    bytes: impl Fn(&Problem<'_>) -> u64,
    network: &Network,
    step: &Step,
    threads: u32,
) -> u64 {
    let layer = &network.layers[step.layer as usize];
    let record = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
    let (inputs, output) = (&layer.inputs.map(record), &record(layer.output));
    let (slice, isa) = (Slice::from(step), network.isa);
    bytes(&Problem { layer, inputs, output, slice, threads, isa }).next_multiple_of(64)
}

/// Even slices of `panels` panels, each of at most `most`: the first panel of each, and their
/// number.
pub fn even(panels: u32, most: u64) -> impl Iterator<Item = (u32, u32)> {
    let slices = panels.div_ceil(most.clamp(1, panels.max(1).into()) as u32);
    let at = move |i: u32| (u64::from(panels) * u64::from(i) / u64::from(slices)) as u32;
    (0..slices).map(move |i| (at(i), at(i + 1) - at(i)))
}
