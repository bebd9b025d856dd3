//! The scratch of steps that expand weights: expanded panels in addition to what the operator
//! takes.

use super::way::{self, Way, panels_in};
use super::{Expansion, ROW_WEIGHTS};
use crate::ops::winograd::{self, ChannelBlocks};
use crate::ops::{Problem, Slice, Want, conv, operator_scratch_bytes};
use crate::pack::{INPUTS, Tensor};
use core::cell::OnceCell;

/// How a step's panels are expanded for all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    /// In `groups` groups.
    Panels { groups: usize },
    /// For some channels at a time.
    ChannelBlocks(ChannelBlocks),
}

/// Bytes of intermediates of a step whose weights are not stored as its operator reads them, the
/// operator's included, on any number of threads up to the problem's.
///
/// `open` asks this of every work of a pack. So each number of threads is looked at once, and costs
/// no more than to divide the step.
pub(in crate::ops) fn scratch_bytes(problem: &Problem<'_>, want: Want) -> u64 {
    let (mut most, mut shared) = (0, false);
    let operator = OnceCell::new();
    for threads in (1..=problem.threads.max(1)).rev() {
        let problem = problem.on(threads);
        // That there is none is so for every number of threads.
        let Some(expansion) = Expansion::new(&problem) else {
            return operator_scratch_bytes(&problem, want);
        };
        let is_shared = matches!(expansion.way, Way::Shared { .. });
        // Scratch that fewer threads share can be smaller.
        if !(is_shared && shared && want == Want::Least) {
            let operator = || *operator.get_or_init(|| expansion.own_operator(&problem));
            most = most.max(expansion.bytes(&problem, want, operator));
        }
        shared |= is_shared;
        let fewer_take_less = expansion.way == Way::Row || is_shared && want == Want::Least;
        if fewer_take_less && !way::depends_on_threads(&expansion.plain, &problem.slice) {
            break;
        }
    }
    most
}

impl Expansion {
    /// Bytes of intermediates on the problem's threads alone, the operator's included. `operator`
    /// is [`own_operator`](Self::own_operator), which is the same for all numbers of threads.
    pub(in crate::ops) fn bytes(
        &self,
        problem: &Problem<'_>,
        want: Want,
        operator: impl FnOnce() -> u64,
    ) -> u64 {
        match self.way {
            Way::Row => self.rows_bytes(problem),
            Way::Own { chunk, each } => {
                let shares = problem.threads().min((problem.slice.count as usize).div_ceil(each));
                let bytes = (self.panels_bytes(chunk) as u64).saturating_add(operator());
                bytes.saturating_mul(shares as u64)
            }
            Way::Shared { groups } => self.together_bytes(problem, groups, want),
        }
    }

    /// Bytes for rows of one, on the problem's threads.
    fn rows_bytes(&self, problem: &Problem<'_>) -> u64 {
        let shares = problem.threads().min(problem.slice.count as usize);
        self.row_bytes(problem.inputs, problem.output) * shares as u64
    }

    /// Bytes for panels, in `groups` groups or channel blocks, that the problem's threads share.
    fn together_bytes(&self, problem: &Problem<'_>, groups: usize, want: Want) -> u64 {
        let bytes = |most| self.shared_bytes(problem, most, want);
        match want {
            Want::All => match self.making(problem, groups, u64::MAX) {
                Making::Panels { groups } => bytes((problem.slice.count as usize).div_ceil(groups)),
                Making::ChannelBlocks(channel_blocks) => channel_blocks.bytes(),
            },
            Want::Least => {
                let channel_blocks = self.channel_blocks(problem);
                let channel_blocks = channel_blocks.map(|channel_blocks| channel_blocks.bytes());
                bytes(1).min(channel_blocks.unwrap_or(u64::MAX))
            }
        }
    }

    /// Bytes that groups of at most `most` panels take.
    fn shared_bytes(&self, problem: &Problem<'_>, most: usize, want: Want) -> u64 {
        let operator = |count: usize| self.operator_bytes(problem, count, want);
        let filters = self.filter_bytes() as u64 * problem.threads() as u64;
        let fewer = if most > 1 { operator(most - 1) } else { 0 };
        let others = operator(most).max(fewer).max(filters);
        (self.panels_bytes(most) as u64).saturating_add(others)
    }

    /// The smallest channel blocks of a step that transforms its weights, if it can be computed so.
    pub(in crate::ops) fn channel_blocks(&self, problem: &Problem<'_>) -> Option<ChannelBlocks> {
        if self.algorithm == 0 {
            return None;
        }
        let least = ChannelBlocks::least(&problem.with(&self.plain), self.filter_bytes() as u64)?;
        Some(least.of_rows(problem.slice.rows.into()))
    }

    /// How a step's panels are made with `scratch` bytes. If they suffice, in the fewest groups.
    /// Otherwise in groups whose panels take half of them, or in channel blocks, if these are less
    /// work.
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

    /// The operator's problem for `panels` expanded panels of a step.
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
        (self.panels_bytes(chunk) as u64).saturating_add(self.own_operator(problem))
    }

    /// Bytes that the operator needs on a thread that has a panel of its own.
    pub(in crate::ops) fn own_operator(&self, problem: &Problem<'_>) -> u64 {
        self.operator_bytes(&problem.on(1), 1, Want::All)
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
