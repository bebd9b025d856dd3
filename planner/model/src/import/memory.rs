//! What import may take for the constants that it makes: bytes that they hold, and elements of work.
//!
//! Data that stay in the model's file are not counted. Everything else asks here before it is made, and is counted
//! here once it is kept, so that a small file cannot make large constants.

use crate::size;

/// Most memory for constants that import makes, unless another limit is given.
pub const IMPORT_MEMORY: u64 = 512 << 20;

/// A constant that would take more memory than is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "needs {} of memory for a constant that import makes, and others hold {} of the {} that it may take; raise \
     that limit (--import-memory), or simplify the model with onnxsim",
    size::exact(*needs), size::exact(*held), size::exact(*limit)
)]
pub struct OverMemory {
    pub needs: u64,
    pub held: u64,
    pub limit: u64,
}

/// More elements to be touched than folding may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OverWork {
    pub work: usize,
    pub left: usize,
}

/// What import may still take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    limit: u64,
    held: u64,
    /// Elements that folding may still touch.
    work: usize,
}

impl Allowance {
    pub fn new(limit: u64, work: usize) -> Self {
        Self { limit, held: 0, work }
    }

    /// Asks for room for so many elements of so many bytes each, before they are made.
    pub fn ask(&self, elements: usize, bytes_each: usize) -> Result<(), OverMemory> {
        let needs = (elements as u64).saturating_mul(bytes_each as u64);
        let Self { limit, held, .. } = *self;
        match held.saturating_add(needs) <= limit {
            true => Ok(()),
            false => Err(OverMemory { needs, held, limit }),
        }
    }

    /// Counts bytes that are kept until the import ends.
    pub fn hold(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes as u64);
    }

    /// Takes work from what folding may do.
    pub fn work(&mut self, work: usize) -> Result<(), OverWork> {
        let left = self.work;
        self.work = left.checked_sub(work).ok_or(OverWork { work, left })?;
        Ok(())
    }

    /// Allows more work: data that the model itself holds may be worked on.
    pub fn more_work(&mut self, work: usize) {
        self.work = self.work.saturating_add(work);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_no_longer_there() {
        let mut allowance = Allowance::new(100, 10);
        allowance.ask(25, 4).unwrap();
        allowance.hold(60);
        allowance.ask(10, 4).unwrap();
        let error = allowance.ask(11, 4).unwrap_err();
        assert_eq!(error, OverMemory { needs: 44, held: 60, limit: 100 });
        assert!(allowance.ask(usize::MAX, 8).is_err());
        allowance.work(10).unwrap();
        assert_eq!(allowance.work(1), Err(OverWork { work: 1, left: 0 }));
    }
}
