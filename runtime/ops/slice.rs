//! The part of a layer that a step makes.

use crate::pack::{Kept, Step};
use core::ops::Range;

/// The part of a layer that a step makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// First panel.
    pub first: u32,
    /// Panels.
    pub count: u32,
    /// First output row.
    pub row: u32,
    /// Output rows.
    pub rows: u32,
    /// [`Step::algorithm`](crate::pack::Step::algorithm).
    pub algorithm: u32,
    /// [`Step::chain`](crate::pack::Step::chain).
    pub chain: u32,
    /// [`Step::chains`](crate::pack::Step::chains).
    pub chains: u32,
    /// [`Step::kept`](crate::pack::Step::kept).
    pub kept: Kept,
}

impl Slice {
    /// The output rows.
    pub fn made(&self) -> Range<u64> {
        let row = u64::from(self.row);
        row..row + u64::from(self.rows)
    }

    /// Which of `all` chains of the reduction it computes.
    pub fn terms(&self, all: u32) -> Range<u32> {
        match self.chains {
            0 => 0..all,
            chains => self.chain..self.chain.saturating_add(chains),
        }
    }
}

impl From<&Step> for Slice {
    fn from(step: &Step) -> Self {
        let Step { first, count, row, rows, algorithm, chain, chains, kept, .. } = *step;
        Self { first, count, row, rows, algorithm, chain, chains, kept }
    }
}
