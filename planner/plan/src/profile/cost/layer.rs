//! The cost of the steps of one layer, in parts that a step's rows, panels and scratch multiply.

use super::blocks::{Blocks, Cut};
use super::class::Class;
use super::launch::Launches;
use super::levels::Levels;
use super::winograd::{BlockCost, SPILL_CACHES, Transforms, WinogradCost};
use super::work::Work;
use crate::profile::Compute;
use eyelet::kernels::Isa;
use eyelet::ops;
use eyelet::pack::{Encoding, Layer, OpKind, Step};
use eyelet_model::network::Network;

/// Time of computing and reading memory at once. Part of the shorter one is not hidden. The unhidden part shrinks as the
/// ratio grows, since the longer one has more time to fetch ahead.
pub(super) fn together_ns(compute: f64, memory: f64, exposed: f64) -> f64 {
    let longer = compute.max(memory);
    longer + exposed * shorter_ns(compute, memory)
}

/// The time that the shorter one of computing and reading adds to the longer one if nothing is prefetched.
pub fn shorter_ns(compute: f64, memory: f64) -> f64 {
    compute.min(memory).powi(2) / compute.max(memory).max(1.0)
}

/// Cost of the slices of one layer. A piece is one output row of one panel, or of the whole layer if it has no panels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayerCost {
    arithmetic: Arithmetic,
    weights: Weights,
    pub(super) activations: Activations,
    /// `None` for layers of other classes.
    pub(super) winograd: Option<WinogradCost>,
    /// Share of the shorter of computing and reading that is not hidden, as in [`together_ns`].
    exposed: f64,
    /// Launches of a step. Each takes the step overhead.
    launches: f64,
}

/// Cost of computing pieces, with all threads.
#[derive(Clone, Copy, Debug, Default)]
struct Arithmetic {
    piece_ns: f64,
    /// Part of `piece_ns` that starts and writes the sums. A step that computes some of the chains takes all of it.
    piece_start_ns: f64,
    /// Chains into which the sums of a piece are divided.
    chains: f64,
    /// Lower bound for all pieces of a step.
    least_ns: f64,
}

impl Arithmetic {
    /// Share of the chains that a step computes.
    fn share(&self, step: &Step) -> f64 {
        if step.chains() == 0 { 1.0 } else { f64::from(step.chains()) / self.chains }
    }

    fn ns(&self, step: &Step, pieces: f64) -> f64 {
        let piece_ns = match step.chains() {
            0 => self.piece_ns,
            _ => {
                let sums_ns = (self.piece_ns - self.piece_start_ns).max(0.0);
                self.piece_start_ns + sums_ns * self.share(step)
            }
        };
        (pieces * piece_ns).max(self.least_ns)
    }
}

/// Cost of the weights of one panel.
#[derive(Clone, Copy, Debug, Default)]
struct Weights {
    /// Bytes of a stored panel that are read. A table is read only where it is looked up.
    read: f64,
    read_ns: Levels,
    /// Converts a stored panel to the layout that the operator reads.
    expand_ns: f64,
}

/// Cost of inputs and outputs that no cache holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Activations {
    /// Reads the inputs of a row from memory.
    pub(super) row_ns: f64,
    /// Writes a piece to memory.
    pub(super) piece_ns: f64,
    /// Steps of at most this many rows read and write in a cache.
    pub(super) cached_rows: f64,
}

/// Operators that read of their weights what is looked up.
const TABLES: [OpKind; 2] = [OpKind::Gather, OpKind::Lookup];

/// Bytes that are read from memory at once.
const CACHE_LINE: f64 = 64.0;

/// A layer as it is stored and as its steps compute it, and what computes it.
struct Setting<'a> {
    network: &'a Network,
    stored: &'a Layer,
    layer: &'a Layer,
    /// The algorithm that steps compute by; 0 for the stored one.
    algorithm: u32,
    work: &'a Work,
    compute: &'a Compute,
    threads: u32,
    /// The threads, of which those on slower cores count as part of one.
    team: f64,
    /// How much faster all threads are than one.
    speedup: f64,
    rows: f64,
    pieces: f64,
}

impl Setting<'_> {
    /// Costs that every class of layers has.
    fn plain(&self) -> LayerCost {
        let &Self { network, stored, work, compute, team, speedup, pieces, .. } = self;
        let read = self.panel_read();
        let input = network.tensors.get(stored.inputs[0] as usize);
        let chains = input.and_then(|input| ops::chains(stored, input, network.isa));
        LayerCost {
            arithmetic: Arithmetic {
                piece_ns: work.ns(compute) / speedup / pieces,
                piece_start_ns: work.pieces * work.class.piece_ns(compute) / speedup / pieces,
                chains: chains.map_or(1.0, |chains| chains.count() as f64),
                least_ns: work.ns(compute) * work.least_share(self.layer),
            },
            weights: Weights {
                read,
                // Weights come from memory whatever their size.
                read_ns: Levels {
                    dram: read / compute.bandwidth_gbs(team),
                    llc: read / compute.llc_gbs(team),
                    mapped: 0.0,
                },
                expand_ns: self.expand_ns() / speedup,
            },
            activations: self.activations(work.read, work.written),
            winograd: None,
            exposed: work.class.exposed(compute),
            launches: 1.0,
        }
    }

    /// Bytes of a panel that the layer reads. For each row, a Gather reads one run of a panel's
    /// channels. A Lookup reads a part of each line of the one panel that has the row's entry.
    fn panel_read(&self) -> f64 {
        let &Self { network, stored, work, .. } = self;
        let panel_bytes = f64::from(stored.panel_bytes);
        let weight = stored.encoding().unwrap_or_default().weight_bytes();
        let line = (weight * stored.columns(network.isa)) as f64;
        let read = match OpKind::from_code(stored.kind) {
            Some(OpKind::Gather) => line * work.rows as f64,
            Some(OpKind::Lookup) => {
                let columns = f64::from(network.tensors[stored.output as usize].cols());
                line.min(CACHE_LINE) * columns * work.rows as f64 / work.panels as f64
            }
            _ => panel_bytes,
        };
        read.min(panel_bytes)
    }

    /// Time on one thread to make a stored panel usable.
    fn expand_ns(&self) -> f64 {
        let &Self { network, stored, layer, work, compute, .. } = self;
        let panel_bytes = f64::from(stored.panel_bytes);
        let gpu = network.isa == Isa::Cuda;
        let widened = match stored.encoding() {
            // Little of a table is widened.
            _ if gpu || TABLES.map(|kind| kind as u32).contains(&stored.kind) => 0.0,
            Some(Encoding::F16 | Encoding::Bf16) => 2.0 * panel_bytes / compute.widen_gbs,
            Some(Encoding::I8) => 4.0 * panel_bytes / compute.widen_gbs,
            _ => 0.0,
        };
        let started = match work.class {
            Class::Depthwise if !gpu => panel_bytes * compute.depthwise_wait_ns_per_byte,
            _ => 0.0,
        };
        let transformed = match self.algorithm {
            0 => 0.0,
            _ => f64::from(layer.panel_bytes) / compute.transform_weights_gbs,
        };
        widened + transformed + started
    }

    /// Cost of reading and writing this many bytes of inputs and output. They come from memory if a step's do not fit the cache.
    fn activations(&self, read: u64, written: u64) -> Activations {
        let &Self { work, compute, team, .. } = self;
        let bandwidth = compute.bandwidth_gbs(team);
        // The cache has kept the inputs since they were written, next to as many bytes of the layer that made them.
        let gbs = match 2 * (work.read + work.written) <= compute.shared_cache_bytes {
            true if compute.shared_cache_gbs > 0.0 => compute.llc_gbs(team),
            true => (compute.elementwise_gbs * self.speedup).max(bandwidth),
            false => bandwidth,
        };
        Activations {
            row_ns: read as f64 / gbs / self.rows,
            piece_ns: written as f64 / gbs / self.pieces,
            cached_rows: compute.cache_bytes as f64 * self.rows / (read + written).max(1) as f64,
        }
    }

    /// A GPU's Winograd convolution. Its products read and write all tiles of a layer in memory.
    fn transforms_on_gpu(&self, cost: &mut LayerCost) {
        let &Self { network, layer, compute, speedup, .. } = self;
        let transforms = Transforms::of(network, layer);
        let outputs = f64::from(network.tensors[layer.output as usize].cols());
        let row_ns = transforms.input_bytes / compute.transform_gbs / speedup / self.rows;
        cost.winograd = Some(WinogradCost::unblocked(row_ns));
        cost.arithmetic.piece_ns +=
            transforms.output_bytes / compute.transform_gbs / speedup / self.pieces;
        let written = 4 * (transforms.points * outputs) as u64;
        cost.activations = self.activations((transforms.input_bytes / 2.0) as u64, written);
    }

    /// A processor's Winograd convolution.
    fn transforms(&self, cost: &mut LayerCost) {
        let &Self { network, stored, layer, algorithm, work, compute, speedup, .. } = self;
        let transforms = Transforms::of(network, layer);
        let bytes_ns = |bytes: f64| bytes / compute.transform_gbs / speedup;
        let made = algorithm != 0 || stored.encoding != 0;
        // Slices by rows or panels each have their share of the activations that exceed the caches.
        let cached = (SPILL_CACHES * compute.cache_bytes) as f64;
        let spilled = (1.0 - cached / ((work.read + work.written) as f64).max(1.0)).max(0.0);
        let spill_ns = compute.transform_spill_ns_per_byte / speedup * spilled;
        cost.arithmetic.piece_ns += bytes_ns(transforms.output_bytes) / self.pieces;
        // With several groups a step transforms only the inputs of its own channels.
        let (row_ns, blocks) = match transforms.grouped {
            true => {
                cost.arithmetic.piece_ns += bytes_ns(transforms.input_bytes) / self.pieces;
                (0.0, None)
            }
            false => {
                let row_ns = bytes_ns(transforms.input_bytes) / self.rows;
                (row_ns, Some(self.blocks(&transforms, made)))
            }
        };
        cost.winograd = Some(WinogradCost {
            row_ns,
            group: if made { ops::panels_at_once(layer) as u32 } else { u32::MAX },
            row_spill_ns: spill_ns * work.read as f64 / self.rows,
            piece_spill_ns: spill_ns * work.written as f64 / self.pieces,
            blocks,
        });
    }

    /// Cost of the blocks of a Winograd convolution. `made`: its steps make the panels that the operator reads.
    fn blocks(&self, transforms: &Transforms, made: bool) -> BlockCost {
        let &Self {
            network, stored, layer, algorithm, work, compute, threads, team, speedup, ..
        } = self;
        let bytes_ns = |bytes: f64| bytes / compute.transform_gbs / speedup;
        let panel_bytes = f64::from(layer.panel_bytes);
        let all_bytes = work.panels as f64 * panel_bytes;
        let cache_bytes = compute.cache_bytes as f64;
        let llc_gbs = compute.llc_gbs(team);
        // Weights that were read for the last block are in the last-level cache if it holds all weights of a layer.
        let again_gbs = match 2.0 * all_bytes <= compute.llc_bytes() as f64 {
            true => llc_gbs,
            false => compute.bandwidth_gbs(team),
        };
        let again_ns = panel_bytes / again_gbs;
        BlockCost {
            blocks: Blocks::new(network, stored, layer, algorithm, threads),
            per_row: transforms.blocks / self.rows,
            products_ns: transforms.products * compute.product_ns / speedup,
            cached_panels: match made {
                true => cache_bytes / panel_bytes,
                false if all_bytes > cache_bytes => 0.0,
                false => f64::INFINITY,
            },
            cached_ns: panel_bytes * compute.product_ns_per_byte / speedup,
            again_ns: Levels { dram: again_ns, llc: panel_bytes / llc_gbs, mapped: again_ns },
            first: if made { 0.0 } else { 1.0 },
            carry_ns: bytes_ns(8.0 * transforms.points * network.isa.panel() as f64) / self.rows,
            uncached_ns: bytes_ns(4.0 * transforms.products),
            scratch_ns: 0.5 / llc_gbs,
        }
    }

    /// How a GPU's multiprocessors share a layer.
    fn launches(&self, cost: &mut LayerCost, multiprocessors: u32) {
        let &Self { network, layer, .. } = self;
        let made = Launches::of(network, layer, multiprocessors);
        let cols = network.tensors[layer.output as usize].cols();
        let columns = match layer.panels {
            0 => cols.div_ceil(network.isa.panel() as u32),
            panels => panels,
        };
        let all_ns = cost.arithmetic.piece_ns * self.speedup * self.pieces;
        cost.arithmetic.least_ns = all_ns * made.busy_panels / f64::from(columns.max(1));
        cost.launches = made.count;
    }
}

impl LayerCost {
    /// A layer whose steps are computed by its own algorithm (0), or another; `None` if they cannot be.
    pub(super) fn new(
        network: &Network,
        stored: &Layer,
        algorithm: u32,
        compute: &Compute,
        multiprocessors: u32,
        (threads, team): (u32, f64),
    ) -> Option<Self> {
        let gpu = network.isa == Isa::Cuda;
        let layer = &match algorithm {
            0 => *stored,
            // A GPU's steps compute what is stored.
            _ if gpu => return None,
            _ => {
                let input = network.tensors.get(stored.inputs[0] as usize)?;
                ops::transformed(stored, input, algorithm, network.isa)?
            }
        };
        let work = &Work::of(network, layer);
        let (rows, pieces) = (work.rows as f64, (work.panels * work.rows) as f64);
        let speedup = compute.speedup(team);
        let setting = Setting {
            network,
            stored,
            layer,
            algorithm,
            work,
            compute,
            threads,
            team,
            speedup,
            rows,
            pieces,
        };
        let mut cost = setting.plain();
        match work.class {
            // It takes as long as reading its weights. On a GPU only the multiprocessors read that have tiles.
            Class::FullyConnected if !gpu => cost.arithmetic.piece_ns = 0.0,
            Class::Winograd if gpu => setting.transforms_on_gpu(&mut cost),
            Class::Winograd => setting.transforms(&mut cost),
            _ => {}
        }
        if gpu {
            setting.launches(&mut cost, multiprocessors);
        }
        Some(cost)
    }

    /// Adds the cost of weights that are used in a mapped pack, which yields `gbs`, unless memory is slower.
    pub(super) fn with_mapped(mut self, gbs: f64) -> Self {
        let read_ns = &mut self.weights.read_ns;
        read_ns.mapped = read_ns.dram.max(self.weights.read / gbs);
        if let Some(blocks) = self.winograd.as_mut().and_then(|winograd| winograd.blocks.as_mut()) {
            blocks.add_mapped(read_ns);
        }
        self
    }

    /// Predicted time of a step. `in_llc`: weights that lie in the arena are in the last-level cache.
    pub(super) fn ns(&self, step: &Step, overhead_ns: u64, in_llc: bool) -> u64 {
        let (cut, scratch_ns) = match &self.winograd {
            Some(winograd) => winograd.cut(step),
            None => (Cut::whole(step.count, step.count.max(1)), 0.0),
        };
        (self.ns_by(step, cut, overhead_ns, in_llc) + scratch_ns).round() as u64
    }

    /// Lower bound over all steps of the same slice with at most `scratch` bytes of scratch.
    pub(super) fn least_ns(
        &self,
        step: &Step,
        scratch: f64,
        overhead_ns: u64,
        in_llc: bool,
    ) -> f64 {
        let Some(cuts) = self.winograd.as_ref().and_then(|all| all.least_cuts(step, scratch))
        else {
            return self.ns(step, overhead_ns, in_llc) as f64;
        };
        // Scratch may still be in the cache.
        let ns = cuts.map(|cut| self.ns_by(step, cut, overhead_ns, in_llc));
        // A step's time is rounded.
        ns.fold(f64::INFINITY, f64::min) - 0.5
    }

    /// Bytes of its scratch that a step uses.
    pub(super) fn scratch_used(&self, step: &Step) -> u64 {
        let channel_blocks = self.winograd.as_ref().and_then(|all| all.channel_blocks(step));
        channel_blocks.map_or(step.scratch_bytes, |blocks| blocks.bytes().next_multiple_of(64))
    }

    /// The most scratch, below the step's own, that makes it use other channel blocks.
    pub(super) fn less_scratch(&self, step: &Step) -> Option<u64> {
        let blocks = self.winograd.as_ref()?.blocks.as_ref()?;
        Some(blocks.blocks.less(step)?.bytes().next_multiple_of(64))
    }

    /// Whether a step takes longer with less scratch.
    pub(super) fn wants_scratch(&self) -> bool {
        self.winograd.is_some_and(|winograd| winograd.blocks.is_some())
    }

    fn ns_by(&self, step: &Step, cut: Cut, overhead_ns: u64, in_llc: bool) -> f64 {
        let rows = f64::from(step.rows);
        let panels = f64::from(step.count);
        let pieces = rows * panels.max(1.0);
        let Self { arithmetic, weights, activations, .. } = self;
        // Later bands read panels that were read for the band before.
        let mut panel_read_ns = weights.read_ns.of_weights(step, in_llc) * arithmetic.share(step)
            + (cut.bands - 1.0) * weights.read_ns.llc;
        let mut panel_ns = cut.bands * weights.expand_ns;
        let mut compute = arithmetic.ns(step, pieces);
        let (mut uncached_ns, mut spill_ns) = (0.0, 0.0);
        if let Some(winograd) = &self.winograd {
            compute += cut.groups * rows * winograd.row_ns;
            spill_ns = cut.groups * rows * winograd.row_spill_ns + pieces * winograd.piece_spill_ns;
            if let Some(blocks) = &winograd.blocks {
                let (again, ns) = blocks.panel(rows, &cut);
                panel_read_ns += blocks.again_ns.of_weights(step, in_llc) * again;
                panel_ns += ns;
                uncached_ns = cut.uncached * blocks.uncached_ns;
            }
        }
        let mut memory = panels * panel_read_ns;
        if rows > activations.cached_rows {
            memory += rows * activations.row_ns + pieces * activations.piece_ns;
        }
        compute += panels * panel_ns;
        compute += uncached_ns;
        compute += spill_ns;
        together_ns(compute, memory, self.exposed) + self.launches * overhead_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{conv, network, profile, step_ns, whole};
    use super::*;

    #[test]
    fn the_shorter_time_is_partly_hidden() {
        let mut profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let whole = whole(&network);
        let compute = step_ns(&profile, &network, &whole, 1) as f64;
        let weights = 4.0 * 8.0 * 8.0 * 257.0 / profile.compute.bandwidth_gbs(1.0);
        profile.compute.exposed = 0.5;
        let found = step_ns(&profile, &network, &whole, 1) as f64;
        let expected = compute + weights * weights / compute / 2.0;
        assert!((found - expected).abs() <= 2.0, "{found}, {expected} of {compute} and {weights}");
        // As long as each other: half of one; and more of neither takes less.
        assert_eq!(together_ns(10.0, 10.0, 0.5), 15.0);
        assert_eq!(together_ns(20.0, 10.0, 1.0), together_ns(10.0, 20.0, 1.0));
        for more in 1..100 {
            let ns = |memory: u32| together_ns(40.0, f64::from(memory), 1.0);
            assert!(ns(more) >= ns(more - 1), "{more}");
        }
    }

    /// A table is read where it is looked up, and at most once.
    #[test]
    fn tables_are_read_where_rows_are() {
        let mut profile = profile();
        (profile.compute.cache_bytes, profile.compute.memory_gbs) = (1 << 30, 1e-3);
        let read_bytes = |kind: OpKind, rows: u32| {
            let mut network = network(kind, [0; 24], [rows, 1], [rows, 64]);
            (network.layers[0].panels, network.layers[0].panel_bytes) = (100, 32_000);
            step_ns(&profile, &network, &whole(&network), 1) / 1000
        };
        // Each row reads eight floats of each panel, or a part of each line of one panel.
        assert_eq!(read_bytes(OpKind::Gather, 2), 2 * 32 * 100);
        assert_eq!(read_bytes(OpKind::Lookup, 2), 2 * 32 * 64);
        for kind in [OpKind::Gather, OpKind::Lookup] {
            assert_eq!(read_bytes(kind, 2_000_000), 32_000 * 100);
        }
    }

    #[test]
    fn memory_bounds_what_computes_little() {
        let mut profile = profile();
        profile.compute.cache_bytes = 1000;
        profile.compute.memory_gbs = 1e-3;
        let network = network(OpKind::Unary, [0; 24], [100, 1000], [100, 1000]);
        let whole = whole(&network);
        assert_eq!(step_ns(&profile, &network, &whole, 1), 800_000_000);
        // More threads do not help.
        assert_eq!(step_ns(&profile, &network, &whole, 4), 800_000_000);
        profile.compute.cache_bytes = 800_000;
        assert!(step_ns(&profile, &network, &whole, 1) < 10_000_000);
        // Nor is memory what a few rows wait for.
        profile.compute.cache_bytes = 8_000;
        let row = Step { rows: 1, ..whole };
        assert!(step_ns(&profile, &network, &row, 1) < 100_000);
        assert_eq!(step_ns(&profile, &network, &Step { rows: 2, ..whole }, 1), 16_000_000);
    }
}
