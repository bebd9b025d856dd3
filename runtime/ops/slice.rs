//! The part of a layer that a step makes.

use crate::pack::{Method, Step};
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
    /// Which sums it computes, and how.
    pub method: Method,
}

impl Slice {
    /// The output rows.
    pub fn made(&self) -> Range<u64> {
        let row = u64::from(self.row);
        row..row + u64::from(self.rows)
    }

    /// Which of `all` chains of the reduction it computes.
    pub fn terms(&self, all: u32) -> Range<u32> {
        match self.method {
            Method::Chains { first, count } => first..first.saturating_add(count),
            Method::Own | Method::Winograd { .. } => 0..all,
        }
    }

    /// The tile of the algorithm that the step computes by, if that is not the layer's own; else 0.
    pub fn algorithm(&self) -> u32 {
        self.method.algorithm()
    }

    /// The slice by the layer's own algorithm.
    pub fn by_own(self) -> Self {
        Self { method: Method::default(), ..self }
    }
}

impl From<&Step> for Slice {
    fn from(step: &Step) -> Self {
        let Step { first, count, row, rows, method, .. } = *step;
        Self { first, count, row, rows, method }
    }
}
