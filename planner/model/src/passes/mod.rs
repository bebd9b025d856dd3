//! From the graph to the network: fusion, layout, concatenation by strided write.
//!
//! ```text
//! Graph ─ patterns, constants ─ fuse (affine, dense) ─▶ Program ─ home ─▶ emit (view) ─▶ Draft ─
//! reuse (coalesce) ─▶ Network ─ tied ─▶ Network
//! ```
//!
//! `patterns` finds the operators that exporters write out as several nodes, `constants` lets nodes
//! compute the outputs that are constant. `fuse` (with `windows`, `dense`,
//! `arithmetic`, `norms`, `affine`) turns nodes into items, one for each layer-to-be, with
//! batch norms, activations, residuals, biases and paddings folded into them; `partition` makes slices
//! that divide a value a split. `emit` walks the items in order and places each value: a `view` says
//! where its elements lie, so that reshapes, transposes, slices and splits are free until a consumer needs
//! another layout (`emit_values` places them; `emit_windows`, `emit_products`, `emit_concat`, `emit_places`,
//! `emit_resample` and `emit_recurrent` have the larger operators). `home` decides beforehand
//! which values are written straight into the buffer of a concatenation, `gaps` whose rows begin at lines of the cache. `reuse` lets layers write in
//! place, drops what nobody uses, and (with `coalesce`) joins buffers between which a copy would move
//! nothing. `tied` lets lookups read the weights of products with the same table.

mod affine;
mod arithmetic;
mod coalesce;
mod constants;
mod dense;
mod emit;
mod emit_concat;
mod emit_places;
mod emit_products;
mod emit_recurrent;
mod emit_resample;
mod emit_values;
mod emit_windows;
mod fuse;
mod gaps;
mod group_norm;
mod home;
mod norms;
mod partition;
mod patterns;
mod program;
mod reuse;
#[cfg(test)]
mod tests;
mod tied;
mod unroll;
mod view;
mod windows;

pub use unroll::unrolled;

use crate::graph::Graph;
use crate::network::Network;
use crate::size;
use eyelet::kernels::Isa;
use eyelet::pack::OpKind;

/// Why a graph cannot be lowered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PassError {
    /// A combination that no layer expresses.
    #[error("node {node}: {what}; {hint}")]
    Unsupported {
        /// The node's name.
        node: String,
        /// What is asked for.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// Two sizes that should agree do not: the graph is not well formed.
    #[error("node {node}: {what} is {found}, expected {expected}; check the model's shapes")]
    Mismatch {
        /// The node's name.
        node: String,
        /// Which size.
        what: &'static str,
        /// Its value.
        found: usize,
        /// What it should be.
        expected: usize,
    },
    /// A number does not fit the pack's fields.
    #[error(
        "node {node}: {what} is {found}, but the pack format limits it to {limit}; use a smaller input"
    )]
    TooLarge {
        /// The node's name.
        node: String,
        /// Which number.
        what: &'static str,
        /// Its value.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

/// Says what became of a graph's nodes.
fn tell(graph: &Graph, network: &Network) {
    let layers = network.layers.len();
    log::info!(
        "{} nodes are computed by {layers} layers: the others are fused into them or move nothing",
        graph.nodes.len()
    );
    for (layer, name) in network.layers.iter().zip(&network.names) {
        let kind = OpKind::from_code(layer.kind)
            .map_or_else(|| format!("operator {}", layer.kind), |kind| format!("{kind:?}"));
        let bytes = u64::from(layer.panels) * u64::from(layer.panel_bytes);
        log::debug!("layer `{name}`: {kind}, {} of weights", size::human(bytes));
    }
}

/// Lowers a graph to a network whose weights will be packed for `isa`. Every layer is computed directly;
/// [`Algorithm`](crate::algorithm::Algorithm) changes that.
pub fn lower(graph: &Graph, isa: Isa) -> Result<Network, PassError> {
    let mut graph = patterns::recognise(graph);
    constants::flow(&mut graph);
    let mut program = fuse::fuse(&graph)?;
    partition::join_slices(&mut program);
    let homes = home::homes(&program);
    let drafts = emit::emit(&program, &homes, isa)?;
    let mut network = reuse::finish(drafts, program.name, isa);
    tied::share(&mut network);
    tell(&graph, &network);
    Ok(network)
}
