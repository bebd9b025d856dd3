//! What the steps of one layer take, in parts that a step's rows, panels and scratch multiply.

use super::blocks::{Blocks, Cut};
use super::class::Class;
use super::launch::Launches;
use super::winograd::{SPILL_CACHES, Transforms};
use super::work::Work;
use crate::profile::Compute;
use eyelet::kernels::Isa;
use eyelet::ops;
use eyelet::pack::{Encoding, Layer, OpKind, Region, Step};
use eyelet_model::network::Network;

/// How long computing and reading memory take at once: what of the shorter one is not hidden is the less the shorter it is beside
/// the longer one, which has the more time to fetch ahead.
pub(super) fn together_ns(compute: f64, memory: f64, exposed: f64) -> f64 {
    let longer = compute.max(memory);
    longer + exposed * shorter_ns(compute, memory)
}

/// The time that the shorter one of computing and reading adds to the longer one if nothing is fetched ahead.
pub fn shorter_ns(compute: f64, memory: f64) -> f64 {
    compute.min(memory).powi(2) / compute.max(memory).max(1.0)
}

/// What slices of one layer cost. A piece is one output row of one panel (of all there is where there
/// are no panels).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayerCost {
    /// What every step does anew for each of its rows, whatever its panels, with all threads.
    row_ns: f64,
    /// Computing a piece, with all threads,
    piece_ns: f64,
    /// of which so much is for its sums to be begun and written: once for each part of them.
    piece_start_ns: f64,
    /// Chains of a piece's sums.
    chains: f64,
    /// Making of a stored panel what the operator reads.
    panel_expand_ns: f64,
    /// Panels for which [`row_ns`](Self::row_ns) is spent once.
    group: u32,
    /// Reading the weights of a panel from memory,
    panel_memory_ns: f64,
    /// from the cache that all processors share,
    panel_near_ns: f64,
    /// and where they lie in a pack that the processor reads like memory.
    panel_mapped_ns: f64,
    /// Bytes of a panel that are read: of a table, what is looked up.
    panel_read: f64,
    /// Having a byte of scratch in a thread's cache, where others have been meanwhile: about half of them.
    scratch_ns: f64,
    /// Blocks of rows in a row: for each a panel has products of its own,
    row_blocks: f64,
    blocks: Blocks,
    block_ns: f64,
    /// and is read again: where no more panels than so many are made at once, from a thread's cache,
    near_panels: f64,
    near_block_ns: f64,
    /// else from where it was stored or made,
    again_memory_ns: f64,
    again_near_ns: f64,
    again_mapped_ns: f64,
    /// but for so many.
    first_blocks: f64,
    /// Reading and writing a row of products with a panel, once for each channel block but one,
    row_carry_ns: f64,
    /// and reading or writing a float of each of a tile's frequencies.
    far_ns: f64,
    /// Reading the inputs of a row from memory.
    pub(super) row_memory_ns: f64,
    /// Writing a piece to memory.
    pub(super) piece_memory_ns: f64,
    /// So many rows of inputs and output stay in the cache and cost neither.
    pub(super) cached_rows: f64,
    /// What transforms take longer for the inputs of a row, and for a piece, as far as they are not near.
    pub(super) row_spill_ns: f64,
    pub(super) piece_spill_ns: f64,
    /// As [`together_ns`] has it.
    exposed: f64,
    /// Computing takes no less.
    least_ns: f64,
    /// How often a step's overhead is spent.
    launches: f64,
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
    /// Those on slower cores counting as part of one.
    team: f64,
    /// How much faster all threads are than one.
    speedup: f64,
    rows: f64,
    pieces: f64,
}

impl Setting<'_> {
    /// What every class of layers has.
    fn plain(&self) -> LayerCost {
        let &Self { network, stored, work, compute, team, speedup, pieces, .. } = self;
        let panel_bytes = self.panel_read();
        let near_gbs = compute.near_gbs(team);
        let input = network.tensors.get(stored.inputs[0] as usize);
        let chains = input.and_then(|input| ops::chains(stored, input, network.isa));
        let mut cost = LayerCost {
            launches: 1.0,
            piece_ns: work.ns(compute) / speedup / pieces,
            piece_start_ns: work.pieces * work.class.piece_ns(compute) / speedup / pieces,
            chains: chains.map_or(1.0, |chains| chains.count() as f64),
            panel_expand_ns: self.expand_ns() / speedup,
            group: u32::MAX,
            // Weights come from memory whatever their size.
            panel_memory_ns: panel_bytes / compute.bandwidth_gbs(team),
            panel_near_ns: panel_bytes / near_gbs,
            panel_read: panel_bytes,
            scratch_ns: 0.5 / near_gbs,
            near_panels: f64::INFINITY,
            exposed: work.class.exposed(compute),
            ..LayerCost::default()
        };
        self.reads_and_writes(&mut cost, work.read, work.written);
        cost
    }

    /// Bytes of a panel that the layer reads. Of a table these are, of each row, one run of a panel's
    /// channels (Gather), or a part of each line of the one panel that has the row's entry (Lookup).
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

    /// What steps spend on a stored panel before they can use it, on one thread.
    fn expand_ns(&self) -> f64 {
        let &Self { network, stored, layer, work, compute, .. } = self;
        let panel_bytes = f64::from(stored.panel_bytes);
        let gpu = network.isa == Isa::Cuda;
        let widened = match stored.encoding() {
            // Of tables little is widened.
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

    /// Bytes of all inputs and outputs. They come from memory if a step's do not fit the cache.
    fn reads_and_writes(&self, cost: &mut LayerCost, read: u64, written: u64) {
        let &Self { work, compute, team, .. } = self;
        let bandwidth = compute.bandwidth_gbs(team);
        // What is read there has stayed since it was written, next to as much that its maker used.
        let gbs = match 2 * (work.read + work.written) <= compute.shared_cache_bytes {
            true if compute.shared_cache_gbs > 0.0 => compute.near_gbs(team),
            true => (compute.elementwise_gbs * self.speedup).max(bandwidth),
            false => bandwidth,
        };
        cost.row_memory_ns = read as f64 / gbs / self.rows;
        cost.piece_memory_ns = written as f64 / gbs / self.pieces;
        cost.cached_rows = compute.cache_bytes as f64 * self.rows / (read + written).max(1) as f64;
    }

    /// A GPU's Winograd convolution. The products read and write what is between the transforms,
    /// all tiles of a layer.
    fn transforms_on_gpu(&self, cost: &mut LayerCost) {
        let &Self { network, layer, compute, speedup, .. } = self;
        let transforms = Transforms::of(network, layer);
        let outputs = f64::from(network.tensors[layer.output as usize].cols());
        cost.row_ns = transforms.input_bytes / compute.transform_gbs / speedup / self.rows;
        cost.piece_ns += transforms.output_bytes / compute.transform_gbs / speedup / self.pieces;
        let written = 4 * (transforms.points * outputs) as u64;
        self.reads_and_writes(cost, (transforms.input_bytes / 2.0) as u64, written);
    }

    /// A processor's Winograd convolution.
    fn transforms(&self, cost: &mut LayerCost) {
        let &Self {
            network, stored, layer, algorithm, work, compute, threads, team, speedup, ..
        } = self;
        let transforms = Transforms::of(network, layer);
        let bytes_ns = |bytes: f64| bytes / compute.transform_gbs / speedup;
        let panel_bytes = f64::from(layer.panel_bytes);
        let cached = compute.cache_bytes as f64;
        cost.first_blocks = 1.0;
        if algorithm != 0 || stored.encoding != 0 {
            cost.group = ops::panels_at_once(layer) as u32;
            (cost.near_panels, cost.first_blocks) = (cached / panel_bytes, 0.0);
        } else if work.panels as f64 * panel_bytes > cached {
            cost.near_panels = 0.0;
        }
        cost.piece_ns += bytes_ns(transforms.output_bytes) / self.pieces;
        cost.row_carry_ns =
            bytes_ns(8.0 * transforms.points * network.isa.panel() as f64) / self.rows;
        cost.far_ns = bytes_ns(4.0 * transforms.products);
        // Of what the layer reads and writes, the part that is not near: slices by rows or panels
        // each have their share.
        let near = (SPILL_CACHES * compute.cache_bytes) as f64;
        let spilled = (1.0 - near / ((work.read + work.written) as f64).max(1.0)).max(0.0);
        let spill_ns = compute.transform_spill_ns_per_byte / speedup * spilled;
        cost.row_spill_ns = spill_ns * work.read as f64 / self.rows;
        cost.piece_spill_ns = spill_ns * work.written as f64 / self.pieces;
        // In smaller blocks groups' weights still come from a cache, and groups of panels have
        // inputs of their own.
        if transforms.grouped {
            cost.piece_ns += bytes_ns(transforms.input_bytes) / self.pieces;
            return;
        }
        cost.row_ns = bytes_ns(transforms.input_bytes) / self.rows;
        cost.blocks = Blocks::new(network, stored, layer, algorithm, threads);
        cost.row_blocks = transforms.blocks / self.rows;
        cost.block_ns = transforms.products * compute.product_ns / speedup;
        // What is stored, or made for all threads together, and does not fit their caches, is read
        // for each block from where it was, or was written. The first time is that of the step.
        cost.near_block_ns = panel_bytes * compute.product_ns_per_byte / speedup;
        // Weights that were read a block ago are in the cache that all share, if it holds a layer's
        // at all.
        let near_gbs = compute.near_gbs(team);
        let again_gbs = match 2.0 * work.panels as f64 * panel_bytes <= compute.llc_bytes() as f64 {
            true => near_gbs,
            false => compute.bandwidth_gbs(team),
        };
        (cost.again_memory_ns, cost.again_near_ns) =
            (panel_bytes / again_gbs, panel_bytes / near_gbs);
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
        let all_ns = cost.piece_ns * self.speedup * self.pieces;
        cost.least_ns = all_ns * made.busy_panels / f64::from(columns.max(1));
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
            // Reading its weights is all there is to it; for a GPU, by as many multiprocessors as have something to read.
            Class::FullyConnected if !gpu => cost.piece_ns = 0.0,
            Class::Winograd if gpu => setting.transforms_on_gpu(&mut cost),
            Class::Winograd => setting.transforms(&mut cost),
            _ => {}
        }
        cost.least_ns = work.ns(compute) * work.least_share(layer);
        if gpu {
            setting.launches(&mut cost, multiprocessors);
        }
        Some(cost)
    }

    /// The same where weights are used in a pack, of which so many bytes come in a nanosecond, if not
    /// from memory.
    pub(super) fn with_mapped(mut self, gbs: f64) -> Self {
        self.panel_mapped_ns = self.panel_memory_ns.max(self.panel_read / gbs);
        // What is stored is read again from where it was, unless a cache holds it.
        let again = self.first_blocks > 0.0 && self.again_memory_ns >= self.panel_memory_ns;
        self.again_mapped_ns = if again { self.panel_mapped_ns } else { self.again_memory_ns };
        self
    }

    /// `near`: weights that lie in the arena are in the cache that all share; otherwise in memory.
    pub(super) fn ns(&self, step: &Step, overhead_ns: u64, near: bool) -> u64 {
        let (cut, used) = self.blocks.within(step, self.group);
        (self.ns_by(step, cut, overhead_ns, near) + used * self.scratch_ns).round() as u64
    }

    /// The least of any step like this with no more than so many bytes of scratch.
    pub(super) fn least_ns(&self, step: &Step, scratch: f64, overhead_ns: u64, near: bool) -> f64 {
        if !self.wants_scratch() {
            return self.ns(step, overhead_ns, near) as f64;
        }
        // Scratch may be in the cache yet.
        let cuts = self.blocks.least_within(step, scratch, self.group);
        let ns = cuts.map(|cut| self.ns_by(step, cut, overhead_ns, near));
        // A step's time is rounded.
        ns.fold(f64::INFINITY, f64::min) - 0.5
    }

    /// Bytes of its scratch that a step uses.
    pub(super) fn scratch_used(&self, step: &Step) -> u64 {
        let channel_blocks = self.blocks.blocks_within(step, self.group);
        channel_blocks.map_or(step.scratch_bytes, |channel_blocks| {
            channel_blocks.bytes().next_multiple_of(64)
        })
    }

    /// The most scratch below its own with which it is computed in other channel blocks.
    pub(super) fn less_scratch(&self, step: &Step) -> Option<u64> {
        self.blocks.less(step).map(|channel_blocks| channel_blocks.bytes().next_multiple_of(64))
    }

    pub(super) fn wants_scratch(&self) -> bool {
        self.blocks.are_there()
    }

    fn ns_by(&self, step: &Step, cut: Cut, overhead_ns: u64, near: bool) -> f64 {
        let Cut { groups, made, times, channel_blocks, bands, far } = cut;
        let rows = f64::from(step.rows);
        let pieces = rows * f64::from(step.count.max(1));
        let fits_llc = channel_blocks > 0.0 || f64::from(made) <= self.near_panels;
        let blocks = match self.row_blocks > 0.0 {
            true => (rows * self.row_blocks * times).max(1.0),
            false => 0.0,
        };
        // Channel blocks are parts of a panel, which is read once for each band.
        let (products, reads) =
            if channel_blocks > 0.0 { (channel_blocks * bands, bands) } else { (blocks, blocks) };
        let again = if fits_llc { 0.0 } else { (blocks - self.first_blocks).max(0.0) };
        let near_ns = if fits_llc { reads * self.near_block_ns } else { 0.0 };
        let carried = (channel_blocks - 1.0).max(0.0) * rows * self.row_carry_ns;
        let (stored_ns, again_ns) = match (step.weights_in, near) {
            (Region::Mapped, _) => (self.panel_mapped_ns, self.again_mapped_ns),
            (Region::Arena, true) => (self.panel_near_ns, self.again_near_ns),
            (Region::Arena, false) => (self.panel_memory_ns, self.again_memory_ns),
        };
        let share = if step.chains() == 0 { 1.0 } else { f64::from(step.chains()) / self.chains };
        // What is made anew is what was read for the band before.
        let stored_ns = stored_ns * share + (bands - 1.0) * self.panel_near_ns;
        let mut memory = f64::from(step.count) * (stored_ns + again_ns * again);
        if rows > self.cached_rows {
            memory += rows * self.row_memory_ns + pieces * self.piece_memory_ns;
        }
        let spill = groups * rows * self.row_spill_ns + pieces * self.piece_spill_ns;
        let panel_ns = bands * self.panel_expand_ns + products * self.block_ns + near_ns + carried;
        let piece_ns = match step.chains() {
            0 => self.piece_ns,
            _ => self.piece_start_ns + (self.piece_ns - self.piece_start_ns).max(0.0) * share,
        };
        let pieces_ns = (pieces * piece_ns).max(self.least_ns);
        let compute = groups * rows * self.row_ns
            + pieces_ns
            + f64::from(step.count) * panel_ns
            + far * self.far_ns
            + spill;
        together_ns(compute, memory, self.exposed) + self.launches * overhead_ns as f64
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{conv, network, profile, step_ns, whole};
    use super::*;

    #[test]
    fn what_memory_hides_is_told() {
        let mut profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let whole = whole(&network);
        let compute = step_ns(&profile, &network, &whole, 1) as f64;
        let weights = 4.0 * 8.0 * 8.0 * 257.0 / profile.compute.bandwidth_gbs(1.0);
        profile.compute.exposed = 0.5;
        let found = step_ns(&profile, &network, &whole, 1) as f64;
        let told = compute + weights * weights / compute / 2.0;
        assert!((found - told).abs() <= 2.0, "{found}, {told} of {compute} and {weights}");
        // As long as each other: half of one; and more of neither takes less.
        assert_eq!(together_ns(10.0, 10.0, 0.5), 15.0);
        assert_eq!(together_ns(20.0, 10.0, 1.0), together_ns(10.0, 20.0, 1.0));
        for more in 1..100 {
            let ns = |memory: u32| together_ns(40.0, f64::from(memory), 1.0);
            assert!(ns(more) >= ns(more - 1), "{more}");
        }
    }

    /// Of a table what is looked up is read, and no more than all of it.
    #[test]
    fn tables_are_read_where_rows_are() {
        let mut profile = profile();
        (profile.compute.cache_bytes, profile.compute.memory_gbs) = (1 << 30, 1e-3);
        let read_bytes = |kind: OpKind, rows: u32| {
            let mut network = network(kind, [0; 24], [rows, 1], [rows, 64]);
            (network.layers[0].panels, network.layers[0].panel_bytes) = (100, 32_000);
            step_ns(&profile, &network, &whole(&network), 1) / 1000
        };
        // Of each row eight floats of each panel, or of each line of one panel.
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
