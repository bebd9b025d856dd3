//! The cost of steps: which class of kernel a layer belongs to, and how much work its slices are.

mod bands;

pub use bands::Outside;

use super::launch::Launches;
use super::{Compute, Drag, Profile, Service, Transfer};
use crate::network::Network;
use crate::plan::Plan;
use eyelet::kernels::Isa;
use eyelet::kernels::table::TILES;
use eyelet::ops::{self, Slice, winograd};
use eyelet::pack::{
    ActivationKind, ConvParams, CopyParams, Encoding, Layer, MatMulParams, NONE, OpKind,
    PoolParams, Step, WinogradParams, params,
};

/// A convolution of at most so many output rows reads its weights faster than it could use them.
const FEW_ROWS: u64 = 4;

/// The rate of convolutions in small groups, of those in one group: as measured with groups of 8 and 16 with
/// AVX-512 (0.65 and 0.79).
const GROUPED: f64 = 0.7;

/// Rows of depthwise convolutions with a stride, of those without: they share no columns with their neighbours. As measured
/// with AVX-512.
const STRIDED: f64 = 2.0;

/// Inputs and outputs of so many caches of a thread are as near to Winograd's transforms as those by which the
/// transforms' rate is measured.
pub(super) const SPILL_CACHES: u64 = 2;

/// The classes of kernels that a profile knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Conv1x1,
    ConvKxK,
    /// The products between the transforms are as fast as [`Class::Conv1x1`].
    Winograd,
    FullyConnected,
    Depthwise,
    /// Groups of a few channels, of which panels hold several.
    Grouped,
    MatMul,
    Pool,
    Elementwise,
    Function,
    Copy,
}

impl Class {
    /// The class of a layer. Layers of unknown operators count as copies.
    pub fn of(network: &Network, layer: &Layer) -> Self {
        let output = &network.tensors[layer.output as usize];
        let rows = output.rows().max(1);
        match OpKind::from_code(layer.kind) {
            Some(OpKind::Conv) => {
                let conv: ConvParams = params(layer);
                match conv.kernel {
                    [0 | 1, 0 | 1] if rows <= FEW_ROWS => Class::FullyConnected,
                    [0 | 1, 0 | 1] => Class::Conv1x1,
                    _ => Class::ConvKxK,
                }
            }
            Some(OpKind::Depthwise) => {
                let conv: ConvParams = params(layer);
                if conv.groups < output.cols() { Class::Grouped } else { Class::Depthwise }
            }
            Some(OpKind::Winograd) => Class::Winograd,
            Some(OpKind::MatMul) => Class::MatMul,
            Some(OpKind::Pool) => Class::Pool,
            Some(OpKind::Softmax | OpKind::Lrn) => Class::Function,
            Some(OpKind::LayerNorm | OpKind::Gather) => Class::Elementwise,
            Some(OpKind::Unary | OpKind::Binary | OpKind::Reduce) => {
                use ActivationKind::{Erf, Exp, Gelu, GeluTanh, Sigmoid, Silu, Sqrt, Tanh};
                match layer.activation.function() {
                    Some(Sigmoid | Tanh | Silu | Gelu | GeluTanh | Erf | Sqrt | Exp) => {
                        Class::Function
                    }
                    _ => Class::Elementwise,
                }
            }
            Some(OpKind::Copy) | None => Class::Copy,
        }
    }

    /// How much of the shorter one of computing and memory adds to the longer one ([`together_ns`]). Where kernels stream weights,
    /// with little computing for each, that takes its time; others' memory is fetched ahead.
    fn exposed(self, compute: &Compute) -> f64 {
        match self {
            Class::Winograd => compute.winograd_exposed.unwrap_or(compute.exposed),
            Class::Conv1x1 | Class::ConvKxK | Class::Depthwise => compute.exposed,
            Class::Grouped | Class::FullyConnected => compute.exposed,
            _ => 0.0,
        }
    }

    /// Work a nanosecond on one thread: floating-point operations, or bytes.
    fn rate(self, compute: &Compute) -> f64 {
        match self {
            Class::Conv1x1 | Class::Winograd => compute.conv_1x1_gflops,
            Class::ConvKxK => compute.conv_kxk_gflops,
            Class::FullyConnected => compute.fully_connected_gbs,
            Class::Depthwise => compute.depthwise_gflops,
            Class::Grouped => compute.conv_kxk_gflops * GROUPED,
            Class::MatMul => compute.matmul_gflops,
            Class::Pool => compute.pool_gbs,
            Class::Elementwise => compute.elementwise_gbs,
            Class::Function => compute.function_gbs,
            Class::Copy => compute.copy_gbs,
        }
    }

    /// What a piece takes on one thread beyond its work: sums are started and written, whatever their length.
    fn piece_ns(self, compute: &Compute) -> f64 {
        match self {
            Class::Conv1x1 | Class::Winograd => compute.conv_1x1_piece_ns,
            Class::ConvKxK => compute.conv_kxk_piece_ns,
            Class::Depthwise => compute.depthwise_piece_ns,
            _ => 0.0,
        }
    }
}

/// All the work of a layer.
pub(crate) struct Work {
    pub class: Class,
    /// Floating-point operations or bytes, as the class has it.
    pub amount: f64,
    /// Bytes of the inputs.
    read: u64,
    /// Bytes of the output.
    written: u64,
    /// At least 1.
    panels: u64,
    /// Rows of the output, at least 1.
    rows: u64,
    /// Pieces, each of which costs something beyond its operations: rows of panels, of Winograd's products as many as
    /// there are frequencies; 0 of classes whose rate says all.
    pub pieces: f64,
    /// Bytes of inputs and output.
    pub activations: u64,
}

impl Work {
    pub(crate) fn of(network: &Network, layer: &Layer) -> Self {
        let output = &network.tensors[layer.output as usize];
        let rows = output.rows().max(1);
        let panels = u64::from(layer.panels.max(1));
        let written = 4 * rows * u64::from(output.cols());
        let read: u64 = layer
            .inputs
            .iter()
            .filter(|input| **input != NONE)
            .map(|input| &network.tensors[*input as usize])
            .map(|tensor| 4 * tensor.rows() * u64::from(tensor.cols()))
            .sum();
        let class = Class::of(network, layer);
        let product = |factors: &[u32]| factors.iter().copied().map(f64::from).product::<f64>();
        let taps = |kernel: [u32; 2]| product(&kernel.map(|tap| tap.max(1)));
        let width = network.isa.panel() as f64;
        let amount = match class {
            Class::Conv1x1 | Class::ConvKxK | Class::Depthwise | Class::Grouped => {
                let conv: ConvParams = params(layer);
                let input = network.tensors.get(layer.inputs[0] as usize);
                let channels = input.map_or(1, |input| input.cols() / conv.groups.max(1));
                // Panels are computed whole.
                let outputs = width * (panels * rows) as f64;
                2.0 * taps(conv.kernel) * f64::from(channels) * outputs
            }
            Class::Winograd => {
                let Transforms { points, channels, .. } = Transforms::of(network, layer);
                2.0 * points * channels * width * panels as f64
            }
            Class::FullyConnected => panels as f64 * f64::from(layer.panel_bytes),
            Class::MatMul => {
                let p: MatMulParams = params(layer);
                2.0 * product(&[p.batch, p.m, p.k, p.n])
            }
            Class::Pool => {
                let pool: PoolParams = params(layer);
                written as f64 * (taps(pool.kernel) + 1.0)
            }
            Class::Copy => {
                let copy: CopyParams = params(layer);
                let filled = if copy.filled != 0 { written as f64 } else { 0.0 };
                8.0 * product(&copy.dims) + filled
            }
            Class::Elementwise | Class::Function => (read + written) as f64,
        };
        let pieces = match class {
            Class::Conv1x1 | Class::ConvKxK => (panels * rows) as f64,
            Class::Depthwise => {
                let conv: ConvParams = params(layer);
                let strided = conv.stride.iter().any(|stride| *stride > 1);
                (panels * rows) as f64 * if strided { STRIDED } else { 1.0 }
            }
            Class::Winograd => Transforms::of(network, layer).points * panels as f64,
            _ => 0.0,
        };
        let activations = read + written;
        Self { class, amount, read, written, panels, rows, pieces, activations }
    }

    /// Computing it on one thread, without what Winograd's transforms take.
    pub(crate) fn ns(&self, compute: &Compute) -> f64 {
        self.amount / self.class.rate(compute) + self.pieces * self.class.piece_ns(compute)
    }
}

/// What surrounds the products of a Winograd convolution.
struct Transforms {
    /// Frequencies, over all tiles.
    points: f64,
    /// Input channels of a group.
    channels: f64,
    /// Bytes that the input transforms read and write: with one group in every step again, whatever panels it has;
    input_bytes: f64,
    /// else for its groups' channels alone.
    grouped: bool,
    /// Bytes that the output transforms read and write.
    output_bytes: f64,
    /// How often weights are read: once for each block of tiles, or, with several groups, from a cache.
    blocks: f64,
    tiles: u64,
    /// Products of a panel in a block.
    products: f64,
}

impl Transforms {
    fn of(network: &Network, layer: &Layer) -> Self {
        let p: WinogradParams = params(layer);
        let input = &network.tensors[layer.inputs[0] as usize];
        let output = &network.tensors[layer.output as usize];
        let tiles = winograd::tiles(layer, output);
        let points = match network.isa {
            // A GPU computes what juts out.
            Isa::Cuda => tiles * u64::from(p.tile + 2).pow(2),
            _ => winograd::frequencies(layer, output),
        };
        let each = points as f64;
        let channels = input.cols() / p.groups.max(1);
        let block = winograd::block_tiles(p.tile as usize, channels as usize, network.isa) as u64;
        let grouped = p.groups > 1;
        Self {
            points: each,
            channels: f64::from(channels),
            grouped,
            input_bytes: 8.0 * each * f64::from(input.cols()),
            output_bytes: 4.0 * f64::from(output.cols()) * (each + output.rows() as f64),
            blocks: if grouped { 1.0 } else { tiles.div_ceil(block) as f64 },
            tiles,
            products: f64::from(p.tile + 2).powi(2),
        }
    }
}

/// What Winograd convolutions take beside the operations of their products, as [`Compute`] has it: bytes that are transformed,
/// those that are not near, products, and bytes of weights that these read.
pub(super) type Beside = [f64; 4];

/// That of a layer as a whole on one thread, with all the scratch that it can use, or with the least.
pub(super) fn beside(network: &Network, layer: &Layer, cache_bytes: u64, least: bool) -> Beside {
    let (work, transforms) = (Work::of(network, layer), Transforms::of(network, layer));
    let blocks = match least {
        true => transforms.tiles.div_ceil(winograd::FEW_TILES as u64) as f64,
        false => transforms.blocks,
    };
    let [panels, bytes] = [layer.panels, layer.panel_bytes].map(f64::from);
    let near = panels * bytes <= cache_bytes as f64;
    [
        transforms.input_bytes + transforms.output_bytes,
        work.activations.saturating_sub(SPILL_CACHES * cache_bytes) as f64,
        blocks * panels * transforms.products,
        if near { blocks * panels * bytes } else { 0.0 },
    ]
}

/// How long that takes.
pub(super) fn beside_ns(beside: Beside, compute: &Compute) -> f64 {
    let [transformed, spilled, products, read] = beside;
    transformed / compute.transform_gbs
        + spilled * compute.transform_spill_ns_per_byte
        + products * compute.product_ns
        + read * compute.product_ns_per_byte
}

/// Of a layer whose steps transform its weights: the bytes that they make of them, and what all else takes on one thread.
pub(super) fn transforming(network: &Network, compute: &Compute) -> Option<(f64, f64)> {
    let (stored, algorithm) = (network.layers.first()?, *network.on_load.first()?);
    let input = network.tensors.get(stored.inputs[0] as usize)?;
    let layer = ops::transformed(stored, input, algorithm, network.isa)?;
    let (work, transforms) = (Work::of(network, &layer), Transforms::of(network, &layer));
    let groups = match transforms.grouped {
        true => 1,
        false => layer.panels.div_ceil(ops::panels_at_once(&layer).max(1) as u32),
    };
    let again = f64::from(groups - 1) * transforms.input_bytes / compute.transform_gbs;
    let rest = beside_ns(beside(network, &layer, compute.cache_bytes, false), compute);
    let made = f64::from(layer.panels) * f64::from(layer.panel_bytes);
    Some((made, work.ns(compute) + rest + again))
}

/// Where a step finds what it reads: further away, if not near.
#[derive(Clone, Copy, PartialEq)]
struct Near {
    /// Weights in the cache that all share, which holds all that the plan uses; otherwise in memory.
    weights: bool,
    /// Activations in the nearest cache, whatever their bytes; otherwise as far as it has room for them.
    activations: bool,
}

impl Near {
    fn weights(near: bool) -> Self {
        Self { weights: near, activations: false }
    }
}

/// How long computing and reading memory take at once: what of the shorter one is not hidden is the less the shorter it is beside
/// the longer one, which has the more time to fetch ahead.
pub(super) fn together_ns(compute: f64, memory: f64, exposed: f64) -> f64 {
    let longer = compute.max(memory);
    longer + exposed * shorter_ns(compute, memory)
}

/// What [`together_ns`] would add if nothing were fetched ahead.
pub(super) fn shorter_ns(compute: f64, memory: f64) -> f64 {
    compute.min(memory).powi(2) / compute.max(memory).max(1.0)
}

/// How scratch decides on the blocks of a layer by Winograd's algorithm, and on the panels that are transformed at once.
#[derive(Clone, Copy, Debug, Default)]
struct Blocks {
    /// Tiles of a block, with all the scratch that a step can use; 0 of layers that have no blocks.
    most: f64,
    /// Bytes that a tile takes, and for each panel of a group,
    tile_bytes: f64,
    product_bytes: f64,
    /// and those that a step takes beside them,
    bytes: f64,
    /// and for each panel of which it makes what the operator reads.
    panel_bytes: f64,
}

/// Panels of a group of products, at most.
const PRODUCTS: u32 = 4;

impl Blocks {
    fn new(network: &Network, stored: &Layer, plain: &Layer, algorithm: u32, threads: u32) -> Self {
        let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (stored.inputs.map(tensor), tensor(stored.output));
        let tile = params::<WinogradParams>(plain).tile as usize;
        let tiles = winograd::tiles(plain, &output) as usize;
        let most = winograd::block_tiles(tile, inputs[0].cols() as usize, network.isa);
        let [most, fewest] =
            [most, winograd::FEW_TILES].map(|block| block.min(tiles).max(1) as f64);
        let bytes = |count: u32| {
            let rows = output.rows() as u32;
            let slice = Slice { first: 0, count, row: 0, rows, algorithm: 0 };
            [ops::scratch_bytes, ops::least_scratch_bytes]
                .map(|bytes| bytes(plain, &inputs, &output, &slice, threads, network.isa) as f64)
        };
        let group = PRODUCTS.min(plain.panels).max(1);
        let ([one, least], [several, _]) = (bytes(1), bytes(group));
        let each = (one - least) / (most - fewest).max(1.0);
        let product_bytes = (several - one) / most / f64::from(group - 1).max(1.0);
        let made = algorithm != 0 || stored.encoding != 0;
        Self {
            most,
            tile_bytes: each - product_bytes,
            product_bytes,
            bytes: one - most * each,
            panel_bytes: if made { f64::from(plain.panel_bytes) } else { 0.0 },
        }
    }

    /// For a step with so many panels, of which so many are made at once where scratch allows it: in how many groups
    /// they are made, and how many times as many blocks there are as there were with all scratch.
    fn within(&self, scratch_bytes: u64, count: u32, at_once: u32) -> (f64, f64) {
        let fewest = count.div_ceil(at_once.max(1)).max(1);
        // 0: all that it can use.
        if scratch_bytes == 0 || self.most == 0.0 {
            return (fewest.into(), 1.0);
        }
        let tile = |panels: u32| {
            (self.tile_bytes + f64::from(panels.min(PRODUCTS)) * self.product_bytes).max(1.0)
        };
        let beside = |panels: u32| self.bytes + f64::from(panels) * self.panel_bytes;
        let most = count.div_ceil(fewest);
        let scratch = scratch_bytes as f64;
        // But for what rounding makes of the same numbers.
        let panels = match scratch + 64.0 >= beside(most) + self.most * tile(most) {
            _ if self.panel_bytes == 0.0 => most,
            true => most,
            false => ((scratch / 2.0 / self.panel_bytes) as u32).clamp(1, most.max(1)),
        };
        let tiles = (scratch - beside(panels)) / tile(panels);
        (count.div_ceil(panels.max(1)).into(), self.most / tiles.clamp(1.0, self.most.max(1.0)))
    }
}

/// What slices of one layer cost. A piece is one output row of one panel (of all there is where there
/// are no panels).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LayerCost {
    /// What every step does anew for each of its rows, whatever its panels, with all threads.
    row_ns: f64,
    /// Computing a piece, with all threads.
    piece_ns: f64,
    /// Making of a stored panel what the operator reads.
    panel_expand_ns: f64,
    /// Panels for which [`row_ns`](Self::row_ns) is spent once.
    group: u32,
    /// Reading the weights of a panel from memory,
    panel_memory_ns: f64,
    /// and from a cache that holds all that the plan uses.
    panel_near_ns: f64,
    /// Blocks of rows in a row: for each a panel has products of its own,
    row_blocks: f64,
    blocks: Blocks,
    block_ns: f64,
    /// and is read again, of where it was stored or made,
    again_memory_ns: f64,
    again_near_ns: f64,
    /// but for so many.
    first_blocks: f64,
    /// Reading the inputs of a row from memory.
    row_memory_ns: f64,
    /// Writing a piece to memory.
    piece_memory_ns: f64,
    /// So many rows of inputs and output stay in the cache and cost neither.
    cached_rows: f64,
    /// What transforms take longer for the inputs of a row, and for a piece, as far as they are not near.
    row_spill_ns: f64,
    piece_spill_ns: f64,
    /// As [`together_ns`] has it.
    exposed: f64,
    /// Computing takes no less.
    least_ns: f64,
    /// How often a step's overhead is spent.
    launches: f64,
}

impl LayerCost {
    /// A layer whose steps are computed by its own algorithm (0), or another; `None` if they cannot be.
    fn new(
        network: &Network,
        stored: &Layer,
        algorithm: u32,
        profile: &Profile,
        threads: u32,
    ) -> Option<Self> {
        let compute = &profile.compute;
        let gpu = network.isa == Isa::Cuda;
        let plain = match algorithm {
            0 => *stored,
            // A GPU's steps compute what is stored.
            _ if gpu => return None,
            _ => {
                let input = network.tensors.get(stored.inputs[0] as usize)?;
                ops::transformed(stored, input, algorithm, network.isa)?
            }
        };
        let layer = &plain;
        let work = Work::of(network, layer);
        let Work { class, mut read, mut written, panels, rows, .. } = work;
        let pieces = (panels * rows) as f64;
        // Weights come from memory whatever their size; activations if a step's do not fit the cache.
        let bandwidth = compute.bandwidth_gbs(threads);
        // What is read there has stayed since it was written, beside as much that its maker used.
        let activations = match 2 * (read + written) <= compute.shared_cache_bytes {
            true => (compute.elementwise_gbs * compute.speedup(threads)).max(bandwidth),
            false => bandwidth,
        };
        let panel_bytes = f64::from(stored.panel_bytes);
        let [mut rows_ns, mut piece_ns] = [0.0, work.ns(compute)];
        let mut spill_ns = 0.0;
        let mut group = u32::MAX;
        let (mut blocks, mut again_bytes, mut first, mut block_ns) = (0.0, 0.0, 0.0, 0.0);
        let mut sizes = Blocks::default();
        match class {
            // Reading its weights is all there is to it; for a GPU, by as many multiprocessors as have something to read.
            Class::FullyConnected if !gpu => piece_ns = 0.0,
            Class::Winograd if gpu => {
                let transforms = Transforms::of(network, layer);
                rows_ns = transforms.input_bytes / compute.transform_gbs;
                piece_ns += transforms.output_bytes / compute.transform_gbs;
                // The products read and write what is between the transforms, all tiles of a layer.
                read = (transforms.input_bytes / 2.0) as u64;
                written = 4
                    * (transforms.points * f64::from(network.tensors[layer.output as usize].cols()))
                        as u64;
            }
            Class::Winograd => {
                let transforms = Transforms::of(network, layer);
                piece_ns += transforms.output_bytes / compute.transform_gbs;
                let input_ns = transforms.input_bytes / compute.transform_gbs;
                // In smaller blocks groups' weights still come from a cache, and groups of panels have inputs of their own.
                if transforms.grouped {
                    piece_ns += input_ns;
                } else {
                    rows_ns = input_ns;
                    sizes = Blocks::new(network, stored, layer, algorithm, threads);
                }
                spill_ns = compute.transform_spill_ns_per_byte;
                blocks = transforms.blocks;
                let plain_bytes = f64::from(layer.panel_bytes);
                let at_once = match algorithm == 0 && stored.encoding == 0 {
                    true => panels,
                    false => {
                        group = ops::panels_at_once(layer) as u32;
                        panels.min(group.into())
                    }
                };
                block_ns = transforms.products * compute.product_ns;
                // What is stored, or made for all threads together, and does not fit their caches, is read for each block from
                // where it was, or was written. The first time is that of the step.
                if transforms.grouped {
                    (blocks, block_ns) = (0.0, 0.0);
                } else if at_once as f64 * plain_bytes > compute.cache_bytes as f64 {
                    again_bytes = plain_bytes;
                    first = if group == u32::MAX { 1.0 } else { 0.0 };
                } else {
                    block_ns += plain_bytes * compute.product_ns_per_byte;
                }
            }
            _ => {}
        }
        let widened = match stored.encoding() {
            _ if gpu => 0.0,
            Some(Encoding::F16 | Encoding::Bf16) if stored.kind != OpKind::Gather as u32 => {
                2.0 * f64::from(stored.panel_bytes) / compute.widen_gbs
            }
            _ => 0.0,
        };
        let started = match class {
            Class::Depthwise if !gpu => panel_bytes * compute.depthwise_wait_ns_per_byte,
            _ => 0.0,
        };
        let transformed = match algorithm {
            0 => 0.0,
            _ => f64::from(layer.panel_bytes) / compute.transform_weights_gbs,
        };
        let speedup = compute.speedup(threads);
        let (mut least_ns, mut launches) = (0.0, 1.0);
        if gpu {
            let made = Launches::of(network, layer, profile.multiprocessors);
            let columns = match layer.panels {
                0 => network.tensors[layer.output as usize]
                    .cols()
                    .div_ceil(network.isa.panel() as u32),
                panels => panels,
            };
            least_ns = piece_ns * made.busy_panels / f64::from(columns.max(1));
            launches = made.count;
        }
        // Of what the layer reads and writes, the part that is not near: slices by rows or panels each have their share.
        let moved = (work.read + work.written) as f64;
        let near = (SPILL_CACHES * compute.cache_bytes) as f64;
        let spilled = (1.0 - near / moved.max(1.0)).max(0.0);
        let spill_ns = spill_ns / speedup * spilled;
        // Weights that were read a block ago are in the cache that all share, if it holds a layer's at all.
        let again_gbs = match 2.0 * panels as f64 * again_bytes <= compute.near_bytes() as f64 {
            true => compute.near_gbs(threads),
            false => bandwidth,
        };
        Some(Self {
            least_ns,
            launches,
            row_ns: rows_ns / speedup / rows as f64,
            piece_ns: piece_ns / speedup / pieces,
            panel_expand_ns: (widened + transformed + started) / speedup,
            group,
            panel_memory_ns: panel_bytes / bandwidth,
            panel_near_ns: panel_bytes / compute.near_gbs(threads),
            row_blocks: blocks / rows as f64,
            blocks: sizes,
            block_ns: block_ns / speedup,
            again_memory_ns: again_bytes / again_gbs,
            again_near_ns: again_bytes / compute.near_gbs(threads),
            first_blocks: first,
            row_memory_ns: read as f64 / activations / rows as f64,
            piece_memory_ns: written as f64 / activations / pieces,
            cached_rows: compute.cache_bytes as f64 * rows as f64 / (read + written).max(1) as f64,
            row_spill_ns: spill_ns * work.read as f64 / rows as f64,
            piece_spill_ns: spill_ns * work.written as f64 / pieces,
            exposed: class.exposed(compute),
        })
    }

    fn ns(&self, step: &Step, overhead_ns: u64, near: Near) -> u64 {
        let rows = f64::from(step.rows);
        let pieces = rows * f64::from(step.count.max(1));
        let (groups, times) = self.blocks.within(step.scratch_bytes, step.count, self.group);
        let blocks = match self.row_blocks > 0.0 {
            true => (rows * self.row_blocks * times).max(1.0),
            false => 0.0,
        };
        let again = (blocks - self.first_blocks).max(0.0);
        let (panel_ns, again_ns) = match near.weights {
            true => (self.panel_near_ns, self.again_near_ns),
            false => (self.panel_memory_ns, self.again_memory_ns),
        };
        let mut memory = f64::from(step.count) * (panel_ns + again_ns * again);
        if rows > self.cached_rows && !near.activations {
            memory += rows * self.row_memory_ns + pieces * self.piece_memory_ns;
        }
        let spill = match near.activations {
            true => 0.0,
            false => rows * self.row_spill_ns + pieces * self.piece_spill_ns,
        };
        let expand = f64::from(step.count) * (self.panel_expand_ns + blocks * self.block_ns);
        let pieces_ns = (pieces * self.piece_ns).max(self.least_ns);
        let compute = groups * rows * self.row_ns + pieces_ns + expand + spill;
        let both = together_ns(compute, memory, self.exposed);
        (both + self.launches * overhead_ns as f64).round() as u64
    }
}

/// The costs of a network on a board, ready to be asked often.
#[derive(Clone, Debug)]
pub struct Costs {
    layers: Vec<LayerCost>,
    /// The same for steps that transform the weights, for each of [`TILES`].
    transformed: [Vec<Option<LayerCost>>; TILES.len()],
    overhead_ns: u64,
    /// What loads take: into a larger arena, and into one that the cache holds that all share.
    services: [Service; 2],
    transfer: Option<Transfer>,
    drag: Drag,
    cache_bytes: u64,
    shared_cache_bytes: u64,
    /// Whether the cache that all share holds whatever a plan may use.
    near: bool,
}

impl Costs {
    /// Costs of all layers with so many compute threads.
    pub fn new(network: &Network, profile: &Profile, threads: u32) -> Self {
        let all = |algorithm: u32| {
            let layers = network.layers.iter();
            layers.map(move |l| LayerCost::new(network, l, algorithm, profile, threads))
        };
        let layers = all(0).map(Option::unwrap_or_default).collect();
        let transformed = TILES.map(|tile| all(tile as u32).collect());
        let overhead_ns = profile.compute.step_overhead_ns;
        Self {
            layers,
            transformed,
            overhead_ns,
            services: [false, true].map(|near| profile.service(near)),
            transfer: profile.transfer,
            drag: profile.drag(),
            cache_bytes: profile.compute.cache_bytes,
            shared_cache_bytes: profile.near_bytes(),
            near: false,
        }
    }

    /// The same for plans in so many bytes of arena: with weights in the cache that all share, if it holds them.
    pub fn within(mut self, budget: u64) -> Self {
        self.near = self.is_near(budget);
        self
    }

    /// Whether the cache that all share holds so much.
    pub fn is_near(&self, bytes: u64) -> bool {
        bytes <= self.shared_cache_bytes
    }

    /// The algorithms by which steps can compute a layer instead of its own.
    pub fn on_load(&self, layer: usize) -> impl Iterator<Item = u32> + '_ {
        let tiles = TILES.into_iter().zip(&self.transformed);
        tiles.filter(move |(_, costs)| costs[layer].is_some()).map(|(tile, _)| tile as u32)
    }

    /// The class of kernels that a layer's cost is reckoned by.
    pub fn class(network: &Network, layer: usize) -> Class {
        Class::of(network, &network.layers[layer])
    }

    /// Predicted time of a step.
    pub fn step_ns(&self, step: &Step) -> u64 {
        self.step_ns_from(step, self.near)
    }

    /// The same with weights in the cache that all share, or not.
    pub fn step_ns_from(&self, step: &Step, near: bool) -> u64 {
        self.cost(step).ns(step, self.overhead_ns, Near::weights(near))
    }

    /// No less than this take the steps that make of the same panels the same rows, into however many steps these
    /// are divided: as long as one step would if all activations were in a thread's cache. Weights are where those of a whole
    /// step are, and transforms read tiles as far apart.
    pub fn least_ns(&self, step: &Step) -> u64 {
        let near = Near { weights: self.near, activations: true };
        self.cost(step).ns(step, self.overhead_ns, near)
    }

    fn cost(&self, step: &Step) -> &LayerCost {
        let layer = step.layer as usize;
        let tile = TILES.iter().position(|tile| *tile == step.algorithm as usize);
        let transformed = tile.and_then(|tile| self.transformed[tile][layer].as_ref());
        transformed.unwrap_or(&self.layers[layer])
    }

    /// Predicted time of a load of so many bytes by itself, checksum included.
    pub fn load_ns(&self, bytes: u64) -> u64 {
        self.service(self.near).load_ns(bytes)
    }

    /// What a load of so many bytes adds to many that come without a pause.
    pub fn each_load_ns(&self, bytes: u64) -> u64 {
        self.service(self.near).each_ns(bytes)
    }

    /// What loads take into an arena that the cache holds that all share, or a larger one.
    pub fn service(&self, near: bool) -> &Service {
        &self.services[usize::from(near)]
    }

    /// What loads of a plan take.
    pub fn service_of(&self, plan: &Plan) -> &Service {
        self.service(self.is_near(plan.arena_bytes))
    }

    /// Predicted time of a copy of so many bytes to the GPU's memory; 0 where there is none to copy to.
    pub fn copy_ns(&self, bytes: u64) -> u64 {
        self.transfer.map_or(0, |transfer| transfer.copy_ns(bytes))
    }

    /// What computing is slowed down by, for each byte that is read meanwhile.
    pub(super) fn drag_ns_per_byte(&self, near: bool) -> f64 {
        self.drag.ns_per_byte(near)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::Board;
    use eyelet::kernels::Isa;
    use eyelet::pack::{Activation, Buffer, Tensor, params_words};

    /// One layer from one tensor to another, `[rows, cols]` each.
    pub(super) fn network(kind: OpKind, words: [u32; 24], from: [u32; 2], to: [u32; 2]) -> Network {
        let tensor = |buffer, [rows, cols]: [u32; 2]| Tensor {
            buffer,
            dims: [1, 1, rows, cols],
            pitch: cols,
            ..Tensor::default()
        };
        let weighted = matches!(kind, OpKind::Conv | OpKind::Depthwise);
        Network {
            name: "one".into(),
            isa: Isa::Neon,
            buffers: vec![Buffer { bytes: 1 << 30 }; 2],
            tensors: vec![tensor(0, from), tensor(1, to)],
            layers: vec![Layer {
                kind: kind as u32,
                inputs: [0, NONE],
                output: 1,
                activation: Activation::NONE,
                panels: if weighted { to[1].div_ceil(8) } else { 0 },
                panel_bytes: if weighted { 32 * (from[1] + 1) } else { 0 },
                encoding: 0,
                weights: 0,
                params: words,
            }],
            names: vec!["layer".into()],
            weights: vec![],
            on_load: vec![0],
            inputs: vec![],
            outputs: vec![],
        }
    }

    pub(super) fn whole(network: &Network) -> Step {
        let layer = &network.layers[0];
        let rows = network.tensors[1].rows() as u32;
        Step { count: layer.panels, rows, ..Step::default() }
    }

    pub(super) fn profile() -> Profile {
        let mut profile = Board::load("jetson-nano").unwrap().profile;
        profile.compute.step_overhead_ns = 0;
        profile.compute.scaling = 1.0;
        profile.compute.exposed = 0.0;
        profile
    }

    pub(super) fn conv(kernel: [u32; 2]) -> [u32; 24] {
        let ones = [1; 2];
        params_words(&ConvParams {
            kernel,
            stride: ones,
            dilation: ones,
            pad: [0; 2],
            groups: 1,
            chains: 0,
        })
    }

    /// Of a step on so many threads.
    fn step_ns(profile: &Profile, network: &Network, step: &Step, threads: u32) -> u64 {
        Costs::new(network, profile, threads).step_ns(step)
    }

    fn grouped(groups: u32) -> [u32; 24] {
        let ones = [1; 2];
        let params = ConvParams {
            kernel: [3; 2],
            stride: ones,
            dilation: ones,
            pad: [1; 2],
            groups,
            chains: 0,
        };
        params_words(&params)
    }

    #[test]
    fn classes_and_their_work() {
        let profile = profile();
        let compute = &profile.compute;
        let cases = [
            // 196 x 256 x 64 multiply-adds.
            (
                network(OpKind::Conv, conv([1, 1]), [196, 256], [196, 64]),
                Class::Conv1x1,
                196.0 * 256.0 * 64.0 * 2.0 / compute.conv_1x1_gflops,
            ),
            (
                network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]),
                Class::ConvKxK,
                9.0 * 196.0 * 256.0 * 64.0 * 2.0 / compute.conv_kxk_gflops,
            ),
            // Each output reads the four channels of its group.
            (
                network(OpKind::Depthwise, grouped(16), [196, 64], [196, 64]),
                Class::Grouped,
                9.0 * 196.0 * 4.0 * 64.0 * 2.0 / (GROUPED * compute.conv_kxk_gflops),
            ),
            (
                network(OpKind::Depthwise, grouped(64), [196, 64], [196, 64]),
                Class::Depthwise,
                9.0 * 196.0 * 64.0 * 2.0 / compute.depthwise_gflops,
            ),
            (
                network(OpKind::Conv, conv([1, 1]), [1, 4096], [1, 1000]),
                Class::FullyConnected,
                4.0 * 4097.0 * 1000.0 / compute.fully_connected_gbs,
            ),
            (
                network(OpKind::Softmax, [0; 24], [1, 1000], [1, 1000]),
                Class::Function,
                8000.0 / compute.function_gbs,
            ),
            (
                network(OpKind::Unary, [0; 24], [10, 1000], [10, 1000]),
                Class::Elementwise,
                80000.0 / compute.elementwise_gbs,
            ),
        ];
        for (network, class, ns) in cases {
            assert_eq!(Class::of(&network, &network.layers[0]), class);
            let found = step_ns(&profile, &network, &whole(&network), 1) as f64;
            assert!((found - ns).abs() <= 1.0, "{class:?}: {found} instead of {ns}");
        }
    }

    #[test]
    fn slices_add_up_and_threads_divide() {
        let profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let whole = whole(&network);
        let all = step_ns(&profile, &network, &whole, 1);
        let costs = Costs::new(&network, &profile, 1);
        assert_eq!(costs.step_ns(&whole), all);
        let half = |step: Step| 2 * step_ns(&profile, &network, &step, 1);
        assert!(half(Step { count: 4, ..whole }).abs_diff(all) <= 2);
        assert!(half(Step { rows: 98, ..whole }).abs_diff(all) <= 2);
        assert!((4 * step_ns(&profile, &network, &whole, 4)).abs_diff(all) <= 4);
    }

    /// Blocks that are smaller come back to weights more often, and panels made one at a time have inputs transformed for
    /// each.
    #[test]
    fn less_scratch_takes_no_less_time() {
        let mut profile = profile();
        profile.compute.cache_bytes = 64 << 10;
        let mut network = network(OpKind::Conv, conv([3, 3]), [784, 256], [784, 256]);
        for tensor in &mut network.tensors {
            tensor.dims = [1, 28, 28, 256];
        }
        network.layers[0].params = params_words(&ConvParams {
            pad: [1; 2],
            ..params::<ConvParams>(&Layer { params: conv([3, 3]), ..network.layers[0] })
        });
        network.layers[0].panel_bytes = 32 * (9 * 256 + 1);
        let costs = Costs::new(&network, &profile, 1);
        for algorithm in [2, 4] {
            let step = Step { algorithm, ..whole(&network) };
            let [least, all] = [crate::slice::least_scratch_bytes, crate::slice::scratch_bytes]
                .map(|bytes| bytes(&network, &step, 1));
            assert!(2 * least < all, "{least} of {all}");
            let ns = |scratch_bytes: u64| costs.step_ns(&Step { scratch_bytes, ..step });
            let most = ns(0);
            assert!(ns(all).abs_diff(most) <= most / 50, "{} for {most}", ns(all));
            for eighth in 0..8 {
                let less = ns(least + (all - least) / 8 * eighth);
                assert!(less >= most, "{less} below {most}");
            }
            assert!(ns(least) > most + most / 20, "{} for {most}", ns(least));
        }
    }

    #[test]
    fn copies_cost_only_where_there_is_somewhere_to_copy_to() {
        let mut profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        assert_eq!(Costs::new(&network, &profile, 1).copy_ns(1 << 20), 0);
        profile.transfer = Some(Transfer { latency_ns: 10_000, gbs: 16.0 });
        assert_eq!(Costs::new(&network, &profile, 1).copy_ns(1 << 20), 10_000 + 65_536);
    }

    #[test]
    fn what_memory_hides_is_told() {
        let mut profile = profile();
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let whole = whole(&network);
        let compute = step_ns(&profile, &network, &whole, 1) as f64;
        let weights = 4.0 * 8.0 * 8.0 * 257.0 / profile.compute.bandwidth_gbs(1);
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

    /// A GPU of so many multiprocessors, with memory and launches that cost nothing.
    fn gpu(multiprocessors: u32) -> Profile {
        let mut profile = Board::load("gpu-host").unwrap().gpu.unwrap().profile;
        profile.multiprocessors = multiprocessors;
        profile.compute.memory_gbs = f64::INFINITY;
        profile.compute.fully_connected_gbs = f64::INFINITY;
        profile.compute.step_overhead_ns = 0;
        profile
    }

    /// The same layer in panels of a GPU.
    fn on_gpu(mut network: Network) -> Network {
        let cols = network.tensors[1].cols();
        let from = network.tensors[0].cols();
        network.isa = Isa::Cuda;
        let layer = &mut network.layers[0];
        (layer.panels, layer.panel_bytes) = (cols.div_ceil(32), 128 * (from + 1));
        network
    }

    #[test]
    fn few_tiles_take_as_long_as_many() {
        // 200 rows are four tiles of each of the 8 panels.
        let network = on_gpu(network(OpKind::Conv, conv([3, 3]), [200, 256], [200, 256]));
        let whole = whole(&network);
        let ns = |multiprocessors: u32, step: &Step| {
            step_ns(&gpu(multiprocessors), &network, step, 1) as f64
        };
        let busy = 9.0 * 200.0 * 256.0 * 256.0 * 2.0 / gpu(1).compute.conv_kxk_gflops;
        assert!((ns(1, &whole) - busy).abs() <= 1.0);
        assert!((ns(16, &whole) - busy).abs() <= 1.0, "32 tiles are enough for 16");
        assert!((ns(64, &whole) - 4.0 * busy).abs() <= 1.0, "and a quarter of those for 64");
        // Below full occupancy a part takes as long as the whole; above, in proportion.
        assert_eq!(ns(64, &Step { count: 3, ..whole }), ns(64, &whole));
        assert!((2.0 * ns(8, &Step { count: 4, ..whole }) - busy).abs() <= 2.0);
        // Chains are tiles, too.
        let mut chained = network.clone();
        let mut p: ConvParams = params(&network.layers[0]);
        p.chains = 4;
        chained.layers[0].params = params_words(&p);
        let found = step_ns(&gpu(64), &chained, &whole, 1) as f64;
        assert!((found - busy).abs() <= 1.0, "{found} instead of {busy}");
    }

    #[test]
    fn a_gpu_hides_the_shorter_one_and_reads_weights_as_they_are() {
        let mut profile = gpu(1);
        profile.compute.memory_gbs = 10.0;
        let mut network = on_gpu(network(OpKind::Conv, conv([1, 1]), [1, 4096], [1, 1024]));
        let whole = whole(&network);
        let bytes = 32.0 * 128.0 * 4097.0;
        let found = step_ns(&profile, &network, &whole, 1) as f64;
        assert!((found - bytes / 10.0).abs() <= 1.0, "{found}");
        profile.compute.step_overhead_ns = 5000;
        let launched = step_ns(&profile, &network, &whole, 1) as f64;
        assert!(launched >= found + 5000.0, "{launched}");
        // Half the bytes take half the time, however slowly anyone would widen them.
        profile.compute.step_overhead_ns = 0;
        profile.compute.widen_gbs = 1e-3;
        network.layers[0].encoding = Encoding::F16 as u32;
        network.layers[0].panel_bytes /= 2;
        let half = step_ns(&profile, &network, &whole, 1) as f64;
        assert!((half - bytes / 20.0).abs() <= 1.0, "{half}");
        assert_eq!(Costs::new(&network, &profile, 1).on_load(0).count(), 0);
    }
}
