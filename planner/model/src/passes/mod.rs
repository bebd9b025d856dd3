//! From the graph to the network: fusion, layout, concatenation by strided write.
//!
//! ```text
//! Graph ─ patterns, constants ─ fuse, partition ─▶ Program ─ home, gaps, emit ─▶ Drafts ─ reuse, coalesce ─▶ Network
//! ```
//!
//! `patterns` finds the operators that exporters write out as several nodes, `constants` lets nodes
//! compute the outputs that are constant. `fuse` turns nodes into items, one for each layer-to-be, with
//! batch norms, activations, residuals, biases and paddings folded into them; `partition` makes slices
//! that divide a value a split. Then the items are emitted in order, and each value gets a place: a
//! view says where its elements lie, so that reshapes, transposes, slices and splits are free until a
//! consumer needs another layout. `home` decides beforehand which values are written straight into the
//! buffer of a concatenation, `gaps` whose rows begin at lines of the cache. `reuse` lets layers write
//! in place, drops what nobody uses, and (with `coalesce`) joins buffers between which a copy would move
//! nothing. At last lookups read the weights of products with the same table.
//!
//! How an operator is fused and emitted is in its file in [`ops`](crate::ops).

mod coalesce;
mod constants;
mod fuse;
mod gaps;
mod group_norm;
mod home;
mod partition;
mod patterns;
mod reuse;
#[cfg(test)]
mod tests;
mod unroll;

pub use crate::ops::PassError;
pub use unroll::unrolled;

use crate::graph::Graph;
use crate::layout::PAGED;
use crate::network::Network;
use crate::ops::{emitter, lookup};
use crate::size;
use eyelet::kernels::Isa;
use eyelet::pack::OpKind;

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
    let drafts = emitter::emit(&program, &homes, gaps::gaps(&program), isa)?;
    let mut network = reuse::finish(drafts, program.name, isa);
    // Of fewer bytes it has no place of its own.
    lookup::share(&mut network, PAGED);
    tell(&graph, &network);
    Ok(network)
}
