//! A network as a chain of layers that is cut into blocks, and what a partition costs.
//!
//! The publication's Eq. 4 sums, over the blocks `i = 2 … n`, what swapping takes longer than
//! computing:
//!
//! ```text
//! Σ max(t_ov_i, 0)    with    t_ov_i = (t_out_{i-1} + t_in_{i+1}) − (t_ex_i + t_ov_{i-1})
//! ```
//!
//! While block `i` computes, block `i - 1` is swapped out and block `i + 1` is swapped in. What is
//! left of that when block `i` is done is a wait. It is a wait before block `i + 1`, in which `i +
//! 2` can already come in; so the next residual is that much less. A wait is never negative. So
//! `t_ov_{i-1}` counts as `max(t_ov_{i-1}, 0)` here ([`Carry::Wait`]). Taken literally, a block
//! that computes long would make the next one late ([`Carry::Literal`]).
//!
//! Before block 1 there is nothing: `t_ov_1 = t_in_2 − t_ex_1`. It is not in the sum.

use super::delays::Times;
use std::ops::Range;

/// What a block of layers takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub bytes: u64,
    pub times: Times,
}

/// Layers in the order in which they compute, with sums over any run of them.
#[derive(Clone, Debug)]
pub struct Chain {
    pub network: String,
    pub names: Vec<String>,
    /// Sums over the first layers: none, one, two, …
    sums: Vec<Block>,
}

/// How the residual of one block counts in the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carry {
    /// As the wait that it is: never below 0.
    Wait,
    /// As Eq. 4 has it, letter by letter.
    Literal,
}

/// What a partition costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Eq. 4.
    pub residual_ns: i64,
    /// What Eq. 4 leaves out: swapping in block 1, and the wait before block 2.
    pub head_ns: i64,
    /// Bytes of the largest two neighbours; of one block its own.
    pub most_bytes: u64,
}

/// A network cut into blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// First layers of all blocks but the first.
    pub cuts: Vec<usize>,
    pub value: Value,
}

impl Partition {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.cuts.len() + 1
    }
}

/// What a partition is chosen by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objective {
    /// Eq. 4, and of equals the one with the shortest head.
    #[default]
    Residuals,
    /// The latency of Eq. 2, which includes the head.
    Latency,
}

impl Objective {
    /// Less is better.
    pub fn key(self, value: &Value) -> [i64; 2] {
        match self {
            Self::Residuals => [value.residual_ns, value.head_ns],
            Self::Latency => [value.residual_ns + value.head_ns, 0],
        }
    }
}

impl Chain {
    pub fn new(network: &str, layers: impl IntoIterator<Item = (String, Block)>) -> Self {
        let (mut names, mut sums) = (Vec::new(), vec![Block::default()]);
        let mut sum = Block::default();
        for (name, layer) in layers {
            names.push(name);
            sum.bytes = sum.bytes.saturating_add(layer.bytes);
            let (all, times) = (&mut sum.times, layer.times);
            all.in_ns = all.in_ns.saturating_add(times.in_ns.max(0));
            all.ex_ns = all.ex_ns.saturating_add(times.ex_ns.max(0));
            all.out_ns = all.out_ns.saturating_add(times.out_ns.max(0));
            sums.push(sum);
        }
        Self { network: network.to_owned(), names, sums }
    }

    /// Number of layers.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All layers as one block.
    pub fn whole(&self) -> Block {
        self.block(0..self.len())
    }

    pub fn bytes(&self) -> u64 {
        self.whole().bytes
    }

    /// A run of layers as a block.
    pub fn block(&self, layers: Range<usize>) -> Block {
        let (from, to) = (&self.sums[layers.start], &self.sums[layers.end]);
        Block {
            bytes: to.bytes - from.bytes,
            times: Times {
                in_ns: to.times.in_ns - from.times.in_ns,
                ex_ns: to.times.ex_ns - from.times.ex_ns,
                out_ns: to.times.out_ns - from.times.out_ns,
            },
        }
    }

    /// The blocks that begin at layer 0 and at each of `cuts`.
    pub fn blocks(&self, cuts: &[usize]) -> Vec<Block> {
        ranges(cuts, self.len()).map(|layers| self.block(layers)).collect()
    }

    /// The first and the last of the neighbours that take the most bytes when each layer is a
    /// block, and how many that is: no partition takes less. A chain of one layer has only that.
    pub fn floor(&self) -> (usize, usize, u64) {
        let pair = |first: usize| {
            let last = (first + 1).min(self.len() - 1);
            (first, last, self.block(first..last + 1).bytes)
        };
        let pairs = (0..self.len().saturating_sub(1).max(1)).filter(|_| !self.is_empty()).map(pair);
        pairs.max_by_key(|(_, _, bytes)| *bytes).unwrap_or_default()
    }

    pub fn value(&self, cuts: &[usize], carry: Carry) -> Value {
        value(&self.blocks(cuts), carry)
    }

    /// The latency of Eq. 2: the head, all computing, and all residuals.
    pub fn latency_ns(&self, value: &Value) -> i64 {
        value.head_ns + self.whole().times.ex_ns + value.residual_ns
    }
}

/// The layers of each block.
pub fn ranges(cuts: &[usize], layers: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain(std::iter::once(layers));
    starts.zip(ends).map(|(start, end)| start..end)
}

/// What blocks in this order cost.
pub fn value(blocks: &[Block], carry: Carry) -> Value {
    let most_bytes = match blocks {
        [only] => only.bytes,
        _ => blocks.windows(2).map(|pair| pair[0].bytes + pair[1].bytes).max().unwrap_or(0),
    };
    let times = |block: usize| blocks.get(block).map_or(Times::default(), |block| block.times);
    let mut before = times(1).in_ns - times(0).ex_ns;
    let wait = |ns: i64| ns.max(0);
    let head_ns = times(0).in_ns + if blocks.len() > 1 { wait(before) } else { 0 };
    let mut residual_ns = 0;
    for block in 1..blocks.len() {
        let carried = if carry == Carry::Wait { wait(before) } else { before };
        let swapped = times(block - 1).out_ns + times(block + 1).in_ns;
        before = swapped - (times(block).ex_ns + carried);
        residual_ns += wait(before);
    }
    Value { residual_ns, head_ns, most_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u64, in_ns: i64, ex_ns: i64, out_ns: i64) -> Block {
        Block { bytes, times: Times { in_ns, ex_ns, out_ns } }
    }

    /// Worked out by hand.
    #[test]
    fn residuals_are_those_of_the_equation() {
        let blocks = [block(4, 40, 10, 1), block(3, 30, 20, 2), block(5, 50, 5, 3)];
        // t_ov_1 = 30 − 10 = 20; t_ov_2 = 1 + 50 − (20 + 20) = 11; t_ov_3 = 2 + 0 − (5 + 11) < 0.
        for carry in [Carry::Wait, Carry::Literal] {
            let value = value(&blocks, carry);
            assert_eq!(value, Value { residual_ns: 11, head_ns: 60, most_bytes: 8 });
        }
    }

    #[test]
    fn slack_delays_nothing_unless_taken_literally() {
        // Block 1 computes for long: t_ov_1 = 10 − 100 = −90. Block 3 comes in while block 2
        // computes.
        let blocks = [block(1, 10, 100, 0), block(1, 10, 20, 0), block(1, 20, 20, 0)];
        assert_eq!(value(&blocks, Carry::Wait).residual_ns, 0);
        // t_ov_2 = 20 − (20 − 90) = 90, t_ov_3 = 0 − (20 + 90).
        assert_eq!(value(&blocks, Carry::Literal).residual_ns, 90);
    }

    #[test]
    fn one_block_waits_for_nothing() {
        let value = value(&[block(7, 10, 3, 1)], Carry::Wait);
        assert_eq!(value, Value { residual_ns: 0, head_ns: 10, most_bytes: 7 });
    }

    #[test]
    fn sums_are_those_of_the_layers() {
        let layers = [1u64, 20, 300].map(|bytes| (bytes.to_string(), block(bytes, 2, 3, 5)));
        let chain = Chain::new("three", layers);
        assert_eq!((chain.len(), chain.bytes()), (3, 321));
        assert_eq!(chain.block(1..3), block(320, 4, 6, 10));
        assert_eq!(chain.blocks(&[1, 2]).len(), 3);
        assert_eq!(chain.floor(), (1, 2, 320));
        assert_eq!(Chain::new("none", []).floor(), (0, 0, 0));
    }
}
