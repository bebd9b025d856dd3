//! The computation of a step, apart from its memory.

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

    /// The most bytes that shares take on any number of threads up to the problem's. `of` says how
    /// many shares there are, which is no more than the threads, and what each takes, which is the
    /// same on all numbers of threads.
    pub(super) fn most_shared(self, of: impl Fn(&Self) -> (usize, u64)) -> u64 {
        let (mut most, each) = of(&self);
        // Fewer threads than this have fewer shares.
        let mut fewer = self.threads() - 1;
        while fewer > most {
            most = most.max(of(&self.on(fewer as u32)).0);
            fewer -= 1;
        }
        each.saturating_mul(most as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::Random;
    use std::cell::Cell;
    use std::vec::Vec;

    #[test]
    fn the_most_shares_are_found_without_asking_for_all_threads() {
        let (layer, tensor) = (Layer::default(), Tensor::default());
        let mut random = Random::new(5);
        for _ in 0..2000 {
            let threads = 1 + random.below(40) as u32;
            let shares: Vec<usize> =
                (1..=threads).map(|threads| 1 + random.below(threads as usize)).collect();
            let problem = Problem {
                layer: &layer,
                inputs: &[tensor; INPUTS],
                output: &tensor,
                slice: Slice::default(),
                threads,
                isa: Isa::Portable,
            };
            let asked = Cell::new(0);
            let found = problem.most_shared(|problem| {
                asked.set(asked.get() + 1);
                (shares[problem.threads() - 1], 3)
            });
            assert_eq!(found, 3 * *shares.iter().max().unwrap() as u64);
            // As many as threads are seldom left to look for.
            let without = threads as usize - shares[threads as usize - 1];
            assert!(asked.get() <= 1 + without, "{} of {threads} threads", asked.get());
        }
    }
}
