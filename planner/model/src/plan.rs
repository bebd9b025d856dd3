//! The plan: what is loaded when, to which address, and what is computed in between.
//!
//! One type joins the halves of eyelet. Every strategy produces it, the simulator predicts it, the
//! checker proves it, the writer stores it, the runtime executes it. Its records are the pack's own.
//!
//! Time is counted in steps. Step 0 of an inference is the host's turn (it reads the last outputs and
//! writes the next inputs); the plan's `steps[i]` is step `i + 1`. A plan is cyclic: inference follows
//! inference with the same loads and steps, and loads run ahead into the next one as far as their
//! `release` allows.

use crate::network::Network;
use eyelet::kernels::table::Chains;
use eyelet::ops::{self, Slice};
use eyelet::pack::{Load, Place, Region, Stage, Step};

/// A plan for one budget. Addresses are bytes from the start of the arena, or from [`FAST`] on in fast
/// memory.
///
/// [`FAST`]: eyelet::pack::FAST
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Name of the strategy that made it.
    pub strategy: String,
    /// What it was made for: bytes of arena.
    pub budget: u64,
    /// Bytes at the start of the arena that hold the header, the skeleton and this plan's tables;
    /// nothing else is placed there.
    pub tables: u64,
    /// The end of what it uses: a multiple of the page, at most `budget`.
    pub arena_bytes: u64,
    /// Bytes of fast memory that buffers and scratch lie in, next to the arena: a multiple of the page.
    pub fast_bytes: u64,
    /// Threads that the scratch of the steps is for.
    pub threads: u32,
    /// Where each buffer of the network lies.
    pub places: Vec<Place>,
    /// Loads that are done once.
    pub resident: Vec<Load>,
    /// Loads of every inference, in the order in which they are done. `crc` is filled in on writing.
    pub loads: Vec<Load>,
    /// Steps of every inference, in order, without the host's.
    pub steps: Vec<Step>,
    /// Where each of `loads` is staged, for a device with a memory of its own; empty for others.
    pub stages: Vec<Stage>,
    /// Bytes of the staging ring, beside the arena; 0 where there is none.
    pub staging_bytes: u64,
}

impl Plan {
    /// Number of steps of an inference, the host's included: the period of the steps' counter.
    pub fn period(&self) -> i64 {
        self.steps.len() as i64 + 1
    }

    /// Bytes read from storage in each inference.
    pub fn bytes_per_inference(&self) -> u64 {
        self.loads.iter().map(|load| u64::from(load.bytes)).sum()
    }

    /// Bytes of the arena that weights are ever in: those of streamed layers take turns in theirs.
    pub fn weight_buffer_bytes(&self) -> u64 {
        weight_buffer_bytes(self.resident.iter().chain(&self.loads).copied())
    }

    /// Bytes of weights that steps use where they lie in the pack.
    pub fn in_place_bytes(&self, network: &Network) -> u64 {
        let in_place = self.steps.iter().filter(|step| step.weights_in == Region::Mapped);
        bytes_of(in_place.map(|step| {
            let bytes = step_weights(network, step);
            (bytes.start, bytes.end)
        }))
    }

    /// Bytes of weights that stay in the arena.
    pub fn resident_bytes(&self) -> u64 {
        self.resident.iter().map(|load| u64::from(load.bytes)).sum()
    }
}

/// Bytes of the arena that these loads are put in, each byte counted once.
pub fn weight_buffer_bytes(loads: impl Iterator<Item = Load>) -> u64 {
    bytes_of(loads.map(|load| (load.address, load.address + u64::from(load.bytes))))
}

/// Bytes of these ranges, each byte counted once.
fn bytes_of(ranges: impl Iterator<Item = (u64, u64)>) -> u64 {
    let mut ranges: Vec<(u64, u64)> = ranges.collect();
    ranges.sort_unstable();
    let (mut bytes, mut counted) = (0, 0);
    for (start, end) in ranges {
        bytes += end.saturating_sub(start.max(counted));
        counted = counted.max(end);
    }
    bytes
}

/// Bytes of the weights that a step reads, from the start of the weights section: `[start, end)`.
/// Empty for a layer without weights.
pub fn step_weights(network: &Network, step: &Step) -> std::ops::Range<u64> {
    let layer = &network.layers[step.layer as usize];
    let start = layer.weights + u64::from(step.first) * u64::from(layer.panel_bytes);
    if step.chains() == 0 {
        return start..start + u64::from(step.count) * u64::from(layer.panel_bytes);
    }
    let input = network.tensors.get(layer.inputs[0] as usize).copied().unwrap_or_default();
    let of_panel = ops::weights(layer, &input, &Slice::from(step), network.isa);
    start + of_panel.start..start + of_panel.end
}

/// The chains of a layer's reduction, if its own algorithm's steps can compute some of them at a time.
pub fn chains(network: &Network, layer: usize) -> Option<Chains> {
    let record = &network.layers[layer];
    let input = network.tensors.get(record.inputs[0] as usize)?;
    ops::chains(record, input, network.isa)
}

/// How many there are; 1 where steps compute all of them.
pub fn chain_count(network: &Network, layer: usize) -> u32 {
    chains(network, layer).map_or(1, |chains| chains.count() as u32)
}
