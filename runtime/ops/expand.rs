//! Weights that are not stored as operators read them: panels of 16- or 8-bit weights, and those of a
//! direct 3x3 convolution that a step computes by Winograd's algorithm
//! ([`Step::algorithm`](crate::pack::Step)).
//!
//! A step expands them into its scratch, panels of floats (or of frequencies), and the operator
//! computes as if they had been stored so. Storage and arena hold the small form. The expanded one
//! is read as soon as it is made, so it is made in pieces that stay in a cache. There are three
//! ways:
//!
//! - **rows of one** (a fully connected layer): a thread expands some k of a panel and continues a
//!   chain of fused multiply-adds from what it has so far. The piece stays in the first-level
//!   cache.
//! - **own**: where threads divide a convolution's panels, each expands those of its own, a few at
//!   a time.
//! - **shared**: all threads expand some panels, then all compute with them. A Winograd convolution
//!   transforms its inputs for every such group of panels, so the groups are larger, where there is
//!   scratch for it. Where there is little, it makes weights of some input channels at a time
//!   instead ([`ChannelBlocks`](super::winograd::ChannelBlocks)).
//!
//! Expanding is exact for 16-bit weights; those of 8 bits are scaled with one rounding, and
//! transforms have one written order of operations. So results do not depend on the way, nor on
//! slices or threads.

mod panel;
mod run;
mod scratch;
mod way;

pub(super) use scratch::scratch_bytes;
pub(super) use way::panels_at_once;

use super::winograd::transformed;
use super::{Call, Problem, row};
use crate::pack::{Encoding, Isa, Layer};
use way::Way;

/// Weights that are expanded at once for one row: half of a first-level cache.
const ROW_WEIGHTS: usize = 4096;

/// Whether a step's weights are not stored as its operator reads them. Gather and Lookup widen what
/// they are asked for.
pub(super) fn expands(layer: &Layer, algorithm: u32) -> bool {
    let widens = row(layer).is_some_and(|operator| operator.widens);
    let encoded = layer.encoding != Encoding::F32 as u32 && !widens;
    encoded || algorithm != 0
}

/// How one step's weights become what its operator reads.
pub(super) struct Expansion {
    /// The layer as if it were stored so.
    plain: Layer,
    /// As it is stored.
    encoding: Encoding,
    stored_bytes: usize,
    /// Weights of an output.
    k: usize,
    algorithm: u32,
    isa: Isa,
    way: Way,
}

impl Expansion {
    /// For a step that may need none.
    pub(super) fn new(problem: &Problem<'_>) -> Option<Self> {
        let &Problem { layer, inputs, slice, isa, .. } = problem;
        if !expands(layer, slice.algorithm()) || slice.count == 0 || slice.rows == 0 {
            return None;
        }
        let k = row(layer).map_or(0, |operator| (operator.terms)(layer, &inputs[0]));
        let plain = match slice.algorithm() {
            0 => {
                let bytes = Encoding::F32.panel_bytes(k, layer.columns(isa), isa.panel())?;
                Layer { encoding: 0, panel_bytes: u32::try_from(bytes).ok()?, ..*layer }
            }
            algorithm => transformed(layer, &inputs[0], algorithm, isa).ok()?,
        };
        let way = Way::of(&problem.with(&plain), k);
        let encoding = layer.encoding().unwrap_or_default();
        let stored_bytes = layer.panel_bytes as usize;
        let (k, algorithm) = (usize::try_from(k).ok()?, slice.algorithm());
        Some(Self { plain, encoding, stored_bytes, k, algorithm, isa, way })
    }

    /// Computes a step.
    pub(super) fn run(&self, call: Call<'_>) {
        match self.way {
            Way::Row => self.run_rows_of_one(call),
            Way::Own { chunk, each } => self.run_own(call, chunk, each),
            Way::Shared { groups } => self.run_shared(call, groups),
        }
    }
}

#[cfg(test)]
mod tests;
