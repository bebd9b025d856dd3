//! Partitions (Section 6.2.2): into how many blocks a network is cut for a budget, and where.
//!
//! With two blocks in memory (`m = 2`) and a budget of `b` bytes a network of `s` bytes is cut into
//! `n = ⌈m·s/b⌉` blocks. Of all partitions into `n` blocks with `s_i + s_{i+1} < b·(1 − δ)`, the
//! one with the least [`Objective`] is taken.
//!
//! Where layers are so uneven that no partition into `n` blocks fits, the publication is silent.
//! Here `n` grows until one does. Every partition that fits still fits when a block of it is cut in
//! two. So the first `n` that works is the smallest.
//!
//! Few partitions are enumerated. Of many the best is found by dynamic
//! programming, which gives the same value.

use super::chain::{Carry, Chain, Objective};
use super::dynamic;

pub use super::chain::Partition;

/// Blocks in memory at once.
pub const IN_MEMORY: u64 = 2;

/// More partitions than this are not enumerated.
pub const MOST_ENUMERATED: u64 = 20_000;

/// Memory for the blocks of one network.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    pub bytes: u64,
    /// δ: the share of it that skeleton, activations and lookup tables take.
    pub reserved: f64,
}

impl Budget {
    /// Most bytes of two neighbours: the largest integer below `b·(1 − δ)`.
    pub fn most_bytes(&self) -> u64 {
        let limit = self.bytes as f64 * (1.0 - self.reserved);
        (limit.ceil() as u64).saturating_sub(1)
    }

    /// The smallest budget in which two neighbours of so many bytes fit.
    pub fn least_for(most_bytes: u64, reserved: f64) -> u64 {
        let mut bytes = ((most_bytes as f64 / (1.0 - reserved)) as u64).saturating_sub(1);
        while (Self { bytes, reserved }).most_bytes() < most_bytes {
            bytes += 1;
        }
        bytes
    }
}

/// Why a network was not cut into blocks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PartitionError {
    #[error("network `{network}` has no layers: there is nothing to cut into blocks")]
    NoLayers { network: String },
    #[error("the share of the budget that is reserved is {reserved}; it must be from 0 to below 1")]
    Reserved { reserved: f64 },
    #[error(
        "a budget of {budget} bytes is too small for `{network}`: {layers} take {bytes} bytes \
         together and must be in memory at once, next to {percent:.1} % that are reserved; give it \
         at least {smallest} bytes",
        percent = 100.0 * reserved
    )]
    TooSmall {
        network: String,
        layers: String,
        bytes: u64,
        budget: u64,
        reserved: f64,
        smallest: u64,
    },
}

/// `n = ⌈m·s/b⌉`, at least 1 and at most one block a layer.
pub fn count(chain: &Chain, budget: u64) -> usize {
    let needed = (u128::from(IN_MEMORY) * u128::from(chain.bytes())).div_ceil(budget.max(1).into());
    usize::try_from(needed).unwrap_or(usize::MAX).clamp(1, chain.len().max(1))
}

/// The smallest budget for which there is a partition, whatever its number of blocks.
pub fn smallest_budget(chain: &Chain, reserved: f64) -> u64 {
    Budget::least_for(chain.floor().2, reserved)
}

/// The best partition for a budget.
pub fn partition(
    chain: &Chain,
    budget: Budget,
    objective: Objective,
) -> Result<Partition, PartitionError> {
    check(chain, budget)?;
    let most = budget.most_bytes();
    // Every number of blocks from the fewest on has a partition that fits: each layer for itself at
    // last.
    let fewest = dynamic::fewest(chain, most).unwrap_or(chain.len());
    let blocks = count(chain, budget.bytes).max(fewest);
    let found = best(chain, blocks, most, objective);
    Ok(found.unwrap_or_else(|| unreachable!("{} fits in {blocks} blocks", chain.network)))
}

/// Refuses what has no partition.
pub fn check(chain: &Chain, budget: Budget) -> Result<(), PartitionError> {
    let Budget { bytes: given, reserved } = budget;
    if chain.is_empty() {
        return Err(PartitionError::NoLayers { network: chain.network.clone() });
    }
    if !(0.0..1.0).contains(&reserved) {
        return Err(PartitionError::Reserved { reserved });
    }
    let (first, last, bytes) = chain.floor();
    if bytes > budget.most_bytes() || given == 0 {
        let name = |layer: usize| &chain.names[layer];
        let layers = match first == last {
            true => format!("all weights of its only layer `{}`", name(first)),
            false => format!("the neighbours `{}` and `{}`", name(first), name(last)),
        };
        return Err(PartitionError::TooSmall {
            network: chain.network.clone(),
            layers,
            bytes,
            budget: given,
            reserved,
            smallest: Budget::least_for(bytes, reserved).max(1),
        });
    }
    Ok(())
}

/// The best partition into so many blocks of which neighbours have at most so many bytes.
pub fn best(chain: &Chain, blocks: usize, most: u64, objective: Objective) -> Option<Partition> {
    match partitions(chain.len(), blocks) <= MOST_ENUMERATED {
        true => enumerate(chain, blocks, most, Carry::Wait, objective),
        false => dynamic::best(chain, blocks, most, objective),
    }
}

/// How many partitions into so many blocks there are.
pub fn partitions(layers: usize, blocks: usize) -> u64 {
    let (Some(places), Some(cuts)) = (layers.checked_sub(1), blocks.checked_sub(1)) else {
        return 0;
    };
    if cuts > places {
        return 0;
    }
    let step = |ways: u128, cut: usize| {
        // Whole after each division: it is a binomial coefficient.
        ways.checked_mul((places - cut) as u128).map(|ways| ways / (cut as u128 + 1))
    };
    let ways = (0..cuts.min(places - cuts)).try_fold(1, step);
    ways.and_then(|ways| u64::try_from(ways).ok()).unwrap_or(u64::MAX)
}

/// The best partition, by looking at all.
pub fn enumerate(
    chain: &Chain,
    blocks: usize,
    most: u64,
    carry: Carry,
    objective: Objective,
) -> Option<Partition> {
    let mut best: Option<Partition> = None;
    each(chain, blocks, most, &mut |cuts| {
        let value = chain.value(cuts, carry);
        let better = |held: &Partition| objective.key(&value) < objective.key(&held.value);
        if best.as_ref().is_none_or(better) {
            best = Some(Partition { cuts: cuts.to_vec(), value });
        }
    });
    best
}

/// Calls `visit` with the cuts of each partition of which neighbours have at most so many bytes.
pub fn each(chain: &Chain, blocks: usize, most: u64, visit: &mut dyn FnMut(&[usize])) {
    if blocks == 1 && !chain.is_empty() && chain.bytes() <= most {
        visit(&[]);
    }
    if blocks >= 2 && blocks <= chain.len() {
        extend(chain, blocks, most, &mut Vec::with_capacity(blocks), visit);
    }
}

/// Adds the next cut in all ways.
fn extend(
    chain: &Chain,
    blocks: usize,
    most: u64,
    cuts: &mut Vec<usize>,
    visit: &mut dyn FnMut(&[usize]),
) {
    let bytes = |from: usize, to: usize| chain.block(from..to).bytes;
    // Where the last whole block starts, and where the next one does.
    let start = cuts.last().copied().unwrap_or(0);
    let before = cuts.len().checked_sub(2).map(|at| cuts[at]);
    let before = if cuts.len() == 1 { Some(0) } else { before };
    let left = blocks - cuts.len();
    if left == 1 {
        let from = before.unwrap_or(start);
        if bytes(from, chain.len()) <= most {
            visit(cuts);
        }
        return;
    }
    for cut in start + 1..=chain.len() + 1 - left {
        if bytes(before.unwrap_or(start), cut) > most {
            break;
        }
        cuts.push(cut);
        extend(chain, blocks, most, cuts, visit);
        cuts.pop();
    }
}
