//! The scratch of steps that expand weights: expanded panels in addition to what the operator
//! takes.

use super::way::{Way, panels_in};
use super::{Expansion, ROW_WEIGHTS};
use crate::ops::winograd::{self, ChannelBlocks};
use crate::ops::{Problem, Slice, Want, conv, operator_scratch_bytes};
use crate::pack::{INPUTS, Tensor};

/// How a step's panels are expanded for all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    /// In `groups` groups.
    Panels { groups: usize },
    /// For some channels at a time.
    ChannelBlocks(ChannelBlocks),
}

impl Expansion {
    /// Bytes of intermediates on the problem's threads, the operator's included.
    pub(in crate::ops) fn scratch_bytes(&self, problem: &Problem<'_>, want: Want) -> u64 {
        let &Problem { inputs, output, slice, .. } = problem;
        let (panels, threads) = (slice.count as usize, problem.threads());
        match self.way {
            Way::Row => self.row_bytes(inputs, output) * threads.min(panels) as u64,
            Way::Own { chunk, each } => {
                let shares = threads.min(panels.div_ceil(each));
                let bytes = self.own_bytes(problem, chunk);
                bytes.saturating_mul(shares as u64)
            }
            Way::Shared { groups } => {
                let bytes = |most| self.shared_bytes(problem, most, want);
                let channel_blocks = || self.channel_blocks(problem);
                match want {
                    Want::All => match self.making(problem, groups, u64::MAX) {
                        Making::Panels { groups } => bytes(panels.div_ceil(groups)),
                        Making::ChannelBlocks(channel_blocks) => channel_blocks.bytes(),
                    },
                    Want::Least => {
                        let channel_blocks =
                            channel_blocks().map(|channel_blocks| channel_blocks.bytes());
                        bytes(1).min(channel_blocks.unwrap_or(u64::MAX))
                    }
                }
            }
        }
    }

    /// Bytes that groups of at most `most` panels take.
    fn shared_bytes(&self, problem: &Problem<'_>, most: usize, want: Want) -> u64 {
        let operator = |count: usize| self.operator_bytes(problem, count, want);
        let filters = self.filter_bytes() as u64 * problem.threads() as u64;
        let beside = operator(most).max(operator((most - 1).max(1))).max(filters);
        (self.panels_bytes(most) as u64).saturating_add(beside)
    }

    /// The smallest channel blocks of a step that transforms its weights, if it can be computed so.
    pub(in crate::ops) fn channel_blocks(&self, problem: &Problem<'_>) -> Option<ChannelBlocks> {
        if self.algorithm == 0 {
            return None;
        }
        let least = ChannelBlocks::least(&problem.with(&self.plain), self.filter_bytes() as u64)?;
        Some(least.of_rows(problem.slice.rows.into()))
    }

    /// How a step's panels are made with so much scratch: in groups, as few as there may be if
    /// there is scratch for that, if not, as many as have panels take half of it; or in channel
    /// blocks, if these are less work.
    pub(super) fn making(&self, problem: &Problem<'_>, fewest: usize, scratch: u64) -> Making {
        let count = problem.slice.count as usize;
        let fits = |most: usize, want| self.shared_bytes(problem, most, want) <= scratch;
        // Groups are even: they differ by a panel at most.
        let most = |groups: usize| count.div_ceil(groups);
        let mut groups = fewest;
        if !fits(most(fewest), Want::All) {
            let half = panels_in(scratch / 2, &self.plain).clamp(1, most(fewest));
            groups = count.div_ceil(half);
            while groups < count && !fits(most(groups), Want::Least) {
                groups += 1;
            }
        }
        let channel_blocks = self.channel_blocks(problem);
        let channel_blocks = channel_blocks.and_then(|least| least.within(count, scratch));
        let Some(channel_blocks) = channel_blocks else { return Making::Panels { groups } };
        if !fits(most(groups), Want::Least) {
            return Making::ChannelBlocks(channel_blocks);
        }
        let left = scratch.saturating_sub(self.panels_bytes(most(groups)) as u64);
        let blocks = winograd::blocks(&self.expanded(problem, most(groups)), left);
        match channel_blocks.work_in_blocks(count, blocks, groups) <= channel_blocks.work(count) {
            true => Making::Panels { groups },
            false => Making::ChannelBlocks(channel_blocks),
        }
    }

    /// Bytes of `panels` expanded panels, a multiple of 64.
    pub(super) fn panels_bytes(&self, panels: usize) -> usize {
        (self.plain.panel_bytes as usize * panels).next_multiple_of(64)
    }

    /// What the operator computes of `panels` of a step's panels when they are expanded.
    fn expanded<'p>(&'p self, problem: &Problem<'p>, panels: usize) -> Problem<'p> {
        let slice = Slice { count: panels as u32, ..problem.slice.by_own() };
        problem.with(&self.plain).of(slice)
    }

    /// Bytes that the operator needs for `panels` of a step's panels.
    fn operator_bytes(&self, problem: &Problem<'_>, panels: usize, want: Want) -> u64 {
        operator_scratch_bytes(&self.expanded(problem, panels), want)
    }

    /// Bytes of a thread that expands `chunk` panels of its own at a time.
    pub(super) fn own_bytes(&self, problem: &Problem<'_>, chunk: usize) -> u64 {
        let operator = self.operator_bytes(&problem.on(1), 1, Want::All);
        (self.panels_bytes(chunk) as u64).saturating_add(operator)
    }

    /// Bytes of a piece of a panel, its bias included, a multiple of 64.
    pub(super) fn piece_bytes(&self) -> usize {
        (4 * (self.isa.panel() + ROW_WEIGHTS)).next_multiple_of(64)
    }

    pub(super) fn row_bytes(&self, inputs: &[Tensor; INPUTS], output: &Tensor) -> u64 {
        let window = conv::window(&self.plain, &inputs[0], output);
        (self.piece_bytes() as u64).saturating_add(window.scratch_bytes(1))
    }
}
