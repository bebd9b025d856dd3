//! The scratch of steps that expand weights: expanded panels beside what the operator takes.

use super::way::{Way, panels_in};
use super::{Expansion, ROW_WEIGHTS};
use crate::ops::winograd::{self, Portions};
use crate::ops::{Slice, Want, conv, operator_scratch_bytes};
use crate::pack::Tensor;

/// How a step's panels are expanded for all threads together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    /// In so many groups.
    Panels { groups: usize },
    /// For some channels at a time.
    Portions(Portions),
}

impl Expansion {
    /// Bytes of intermediates on so many threads, the operator's included.
    pub(in crate::ops) fn scratch_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        threads: u32,
        want: Want,
    ) -> u64 {
        let panels = slice.count as usize;
        match self.way {
            Way::Row => self.row_bytes(inputs, output) * (threads as usize).min(panels) as u64,
            Way::Own { chunk, each } => {
                let shares = (threads as usize).min(panels.div_ceil(each));
                let bytes = self.own_bytes(inputs, output, slice, chunk);
                bytes.saturating_mul(shares as u64)
            }
            Way::Shared { groups } => {
                let bytes = |most| self.shared_bytes(inputs, output, slice, most, threads, want);
                let portions = || self.portions(inputs, output, slice, threads as usize);
                match want {
                    Want::All => {
                        match self.making(inputs, output, slice, threads, groups, u64::MAX) {
                            Making::Panels { groups } => bytes(panels.div_ceil(groups)),
                            Making::Portions(portions) => portions.bytes(),
                        }
                    }
                    Want::Least => {
                        let portions = portions().map(|portions| portions.bytes());
                        bytes(1).min(portions.unwrap_or(u64::MAX))
                    }
                }
            }
        }
    }

    /// What groups of at most so many panels take.
    fn shared_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        most: usize,
        threads: u32,
        want: Want,
    ) -> u64 {
        let operator =
            |count: usize| self.operator_bytes(inputs, output, slice, count, threads, want);
        let filters = self.filter_bytes() as u64 * u64::from(threads);
        let beside = operator(most).max(operator((most - 1).max(1))).max(filters);
        (self.panels_bytes(most) as u64).saturating_add(beside)
    }

    /// The smallest portions of a step that transforms its weights, if it can be computed so.
    pub(in crate::ops) fn portions(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        threads: usize,
    ) -> Option<Portions> {
        let filter_bytes = self.filter_bytes() as u64;
        let least =
            || Portions::least(&self.plain, &inputs[0], output, self.isa, threads, filter_bytes);
        let least = if self.algorithm == 0 { None } else { least() };
        least.map(|least| least.of_rows(slice.rows.into()))
    }

    /// How a step's panels are made with so much scratch: in groups, as few as there may be if there is scratch for that, if not, as many
    /// as have panels take half of it; or in portions, if these are less work.
    pub(super) fn making(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        threads: u32,
        fewest: usize,
        scratch: u64,
    ) -> Making {
        let count = slice.count as usize;
        let fits = |most: usize, want: Want| {
            self.shared_bytes(inputs, output, slice, most, threads, want) <= scratch
        };
        // Groups are even: of so many panels, or one less.
        let most = |groups: usize| count.div_ceil(groups);
        let mut groups = fewest;
        if !fits(most(fewest), Want::All) {
            let half = panels_in(scratch / 2, &self.plain).clamp(1, most(fewest));
            groups = count.div_ceil(half);
            while groups < count && !fits(most(groups), Want::Least) {
                groups += 1;
            }
        }
        let portions = self.portions(inputs, output, slice, threads as usize);
        let portions = portions.and_then(|least| least.within(count, scratch));
        let Some(portions) = portions else { return Making::Panels { groups } };
        if !fits(most(groups), Want::Least) {
            return Making::Portions(portions);
        }
        let left = scratch.saturating_sub(self.panels_bytes(most(groups)) as u64);
        let part = Slice { count: most(groups) as u32, algorithm: 0, ..*slice };
        let blocks =
            winograd::blocks(&self.plain, inputs, output, &part, threads as usize, self.isa, left);
        match portions.work_in_blocks(count, blocks, groups) <= portions.work(count) {
            true => Making::Panels { groups },
            false => Making::Portions(portions),
        }
    }

    /// Bytes of so many expanded panels, a multiple of 64.
    pub(super) fn panels_bytes(&self, panels: usize) -> usize {
        (self.plain.panel_bytes as usize * panels).next_multiple_of(64)
    }

    /// What the operator needs for so many of a slice's panels.
    fn operator_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        panels: usize,
        threads: u32,
        want: Want,
    ) -> u64 {
        let slice = Slice { count: panels as u32, algorithm: 0, ..*slice };
        operator_scratch_bytes(&self.plain, inputs, output, &slice, threads, self.isa, want)
    }

    pub(super) fn own_bytes(
        &self,
        inputs: &[Tensor; 2],
        output: &Tensor,
        slice: &Slice,
        chunk: usize,
    ) -> u64 {
        let operator = self.operator_bytes(inputs, output, slice, 1, 1, Want::All);
        (self.panels_bytes(chunk) as u64).saturating_add(operator)
    }

    /// Bytes of a piece of a panel, its bias included, a multiple of 64.
    pub(super) fn piece_bytes(&self) -> usize {
        (4 * (self.isa.panel() + ROW_WEIGHTS)).next_multiple_of(64)
    }

    pub(super) fn row_bytes(&self, inputs: &[Tensor; 2], output: &Tensor) -> u64 {
        let window = conv::window(&self.plain, &inputs[0], output);
        (self.piece_bytes() as u64).saturating_add(window.scratch_bytes(1))
    }
}
