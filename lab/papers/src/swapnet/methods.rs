//! The methods that the publication compares: SwapNet, what it is without its parts, and its
//! baselines.
//!
//! - [`Method::Direct`] (DInf): the whole network is in memory. A read leaves a second copy in the
//!   page cache, and on a GPU the framework keeps a third one. The publication says so; its
//!   percentages confirm it.
//! - [`Method::Channels`] (DCha): layers are computed in groups of channels, each read when its
//!   turn comes. Groups of the budget's size are copied as above. Reads overlap with nothing.
//! - [`Method::Pruned`] (TPrg): a smaller network, run directly. Its answers are not those of the
//!   network.
//! - [`Method::Swap`] (SNet): blocks, with or without [`Parts`].

use super::timeline::{Run, alone};
use eyelet_tasks::swapnet::blocks::{self, Budget, Partition, PartitionError};
use eyelet_tasks::swapnet::chain::{Block, Carry, Chain, Objective, ranges};
use eyelet_tasks::swapnet::delays::{Delays, Layer, Times};

/// What computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    Cpu,
    Gpu,
}

impl Processor {
    /// Copies of the weights in memory where reads are buffered and copied.
    pub fn copies(self) -> u64 {
        match self {
            Self::Cpu => 2,
            Self::Gpu => 3,
        }
    }
}

/// What a device takes, beyond the four coefficients of each of its processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Device {
    pub name: &'static str,
    pub cpu: Delays,
    pub gpu: Delays,
    /// A copy through the page cache.
    pub cache_ns_per_byte: f64,
    /// A copy to memory that the GPU addresses.
    pub dispatch_ns_per_byte: f64,
    /// Creating a parameter of a dummy model, and copying its bytes there.
    pub instantiate_ns: f64,
    pub instantiate_ns_per_byte: f64,
}

impl Device {
    pub fn delays(&self, processor: Processor) -> Delays {
        match processor {
            Processor::Cpu => self.cpu,
            Processor::Gpu => self.gpu,
        }
    }
}

/// Which parts of SwapNet are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Blocks are read directly to memory that all processors address (Section 4).
    pub unified: bool,
    /// Blocks are assembled by reference (Section 5).
    pub skeleton: bool,
    /// Blocks are cut by Eq. 4, not into equal sizes (Section 6.2).
    pub scheduling: bool,
}

impl Parts {
    pub const ALL: Self = Self { unified: true, skeleton: true, scheduling: true };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Direct,
    Channels,
    /// To so many bytes.
    Pruned(u64),
    Swap(Parts),
}

/// A network on a device, with memory for its blocks.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    pub name: &'a str,
    pub layers: &'a [Layer],
    pub processor: Processor,
    pub device: &'a Device,
    pub budget: Budget,
}

/// What a method takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Most bytes of weights in memory, all copies counted.
    pub memory_bytes: u64,
    pub latency_ns: i64,
    /// Blocks and when each is where; none of methods without blocks.
    pub blocks: Vec<Block>,
    pub run: Run,
}

impl Subject<'_> {
    /// The network as a chain of layers, by the model of delays.
    pub fn chain(&self, parts: Parts) -> Chain {
        let layers = self.layers.iter().map(|layer| {
            let times = self.times(layer, parts);
            (layer.name.clone(), Block { bytes: layer.bytes, times })
        });
        Chain::new(self.name, layers)
    }

    fn times(&self, layer: &Layer, parts: Parts) -> Times {
        let (device, bytes, depth) = (self.device, layer.bytes as f64, layer.depth as f64);
        let times = device.delays(self.processor).of(layer);
        let mut more = 0.0;
        if !parts.unified {
            more += bytes * device.cache_ns_per_byte;
            if self.processor == Processor::Gpu {
                more += bytes * device.dispatch_ns_per_byte;
            }
        }
        if !parts.skeleton {
            more += depth * device.instantiate_ns + bytes * device.instantiate_ns_per_byte;
        }
        Times { in_ns: times.in_ns + more.round() as i64, ..times }
    }

    /// What a method takes for one inference.
    pub fn outcome(&self, method: Method) -> Result<Outcome, PartitionError> {
        let copies = self.processor.copies();
        let whole = self.chain(Parts::ALL).whole();
        let without_blocks = |memory_bytes: u64, latency_ns: i64| Outcome {
            memory_bytes,
            latency_ns,
            blocks: Vec::new(),
            run: Run::default(),
        };
        match method {
            Method::Direct => Ok(without_blocks(copies * whole.bytes, whole.times.ex_ns)),
            Method::Channels => {
                let buffered = self.chain(Parts { unified: false, ..Parts::ALL }).whole().times;
                let group = self.budget.most_bytes().min(whole.bytes);
                Ok(without_blocks(copies * group, buffered.in_ns + buffered.ex_ns))
            }
            Method::Pruned(bytes) => {
                let share = bytes as f64 / whole.bytes.max(1) as f64;
                let latency_ns = (whole.times.ex_ns as f64 * share).round() as i64;
                Ok(without_blocks(copies * bytes, latency_ns))
            }
            Method::Swap(parts) => self.swap(parts),
        }
    }

    fn swap(&self, parts: Parts) -> Result<Outcome, PartitionError> {
        let partition = self.partition(parts)?;
        let copies = if parts.unified { 1 } else { self.processor.copies() };
        Ok(outcome(&self.chain(parts), &partition, copies))
    }

    /// Where the network is cut: by what is known of all of SwapNet, whatever part is left out.
    pub fn partition(&self, parts: Parts) -> Result<Partition, PartitionError> {
        let chain = self.chain(Parts::ALL);
        let best = blocks::partition(&chain, self.budget, Objective::Residuals)?;
        Ok(match parts.scheduling {
            true => best,
            false => even(&chain, best.blocks()),
        })
    }
}

/// What a partition takes where there are so many copies of each block.
pub fn outcome(chain: &Chain, partition: &Partition, copies: u64) -> Outcome {
    let blocks = chain.blocks(&partition.cuts);
    let run = alone(&blocks);
    Outcome {
        memory_bytes: copies * partition.value.most_bytes,
        latency_ns: run.latency_ns(),
        blocks,
        run,
    }
}

/// Blocks of as equal sizes as layers permit, whatever the budget. There must be as many layers.
pub fn even(chain: &Chain, blocks: usize) -> Partition {
    let (all, layers) = (chain.bytes(), chain.len());
    let mut cuts: Vec<usize> = Vec::with_capacity(blocks);
    for block in 1..blocks {
        let target = u128::from(all) * block as u128 / blocks as u128;
        let from = cuts.last().map_or(1, |cut| cut + 1);
        let to = layers - (blocks - block);
        let off = |cut: &usize| u128::from(chain.block(0..*cut).bytes).abs_diff(target);
        cuts.push((from..=to).min_by_key(off).unwrap_or(from));
    }
    debug_assert!(ranges(&cuts, layers).all(|range| !range.is_empty()));
    let value = chain.value(&cuts, Carry::Wait);
    Partition { cuts, value }
}
