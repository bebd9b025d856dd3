//! What a step computes, apart from the memory that it computes in.

use super::Slice;
use crate::pack::{INPUTS, Isa, Layer, Tensor};

/// A part of a layer, and what computes it: all that a step's scratch and its division among
/// threads depend on.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Its input tensors' records; those of absent inputs are zero.
    pub inputs: &'a [Tensor; INPUTS],
    /// Its output tensor's record.
    pub output: &'a Tensor,
    /// The part that the step makes.
    pub slice: Slice,
    /// Threads that compute it, at most.
    pub threads: u32,
    /// The instruction set whose layout the weights have.
    pub isa: Isa,
}

impl<'a> Problem<'a> {
    /// The problem on another number of threads.
    pub fn on(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    /// The problem for another part of the layer.
    pub fn of(self, slice: Slice) -> Self {
        Self { slice, ..self }
    }

    /// The problem for another record of the layer.
    pub(super) fn with<'b>(self, layer: &'b Layer) -> Problem<'b>
    where
        'a: 'b,
    {
        Problem { layer, ..self }
    }

    /// Threads as a number of things; at least 1.
    pub(super) fn threads(&self) -> usize {
        self.threads.max(1) as usize
    }

    /// The most bytes that any number of threads takes, up to the problem's.
    pub(super) fn most(self, bytes: impl Fn(&Self) -> u64) -> u64 {
        (1..=self.threads.max(1)).map(|threads| bytes(&self.on(threads))).max().unwrap_or(0)
    }
}
