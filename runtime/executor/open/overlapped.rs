//! Loads that go on while steps compute and between them, on the caller's thread.
//!
//! The storage's device reads, and nobody waits for it but a step that needs what it reads. Before
//! and after each step the loader has its turn: it takes what has arrived, and begins what steps
//! have released. So there is neither a thread nor an operating system, and reading hides behind
//! computing all the same.
//!
//! Bytes of a read in flight are the device's, and nobody may get at them. No value says so, for
//! values can be forgotten. A scope does: [`Instance::overlapped`] lends the model to a closure, and
//! waits for all reads when that is left, by a panic, too.

use super::instance::Instance;
use crate::arena::{LoadList, Reads};
use crate::executor::compute::loader::switch;
use crate::executor::compute::model::{Feed, Model, Sealed};
use crate::executor::load::progress::{LoadProgress, Polled};
use crate::executor::load_error::LoadError;
use crate::pack::PlanEntry;
use crate::storage::Storage;
use crate::sys::futex::Counter;

/// Loads go on while steps compute, as far as the storage has a
/// [queue](crate::storage::Storage::queue).
pub struct Overlapped<'r>(&'r mut (dyn Feed + 'r));

impl core::fmt::Debug for Overlapped<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Overlapped")
    }
}

impl Sealed for Overlapped<'_> {}

impl Feed for Overlapped<'_> {
    fn wait(&mut self, target: u32) -> Result<(), LoadError> {
        self.0.wait(target)
    }

    fn wait_reads(&mut self, target: u32) -> Result<(), LoadError> {
        self.0.wait_reads(target)
    }

    fn look(&mut self) {
        self.0.look();
    }

    fn rest(&mut self) {
        self.0.rest();
    }

    fn restart(&mut self) {
        self.0.restart();
    }

    fn switch(&mut self, entry: &PlanEntry) {
        self.0.switch(entry);
    }
}

/// The loader's side of a scope.
#[derive(Debug)]
struct Scope<'s, 'r, 'q, 'm, 'a, S: Storage> {
    progress: LoadProgress<'m, 'a>,
    reads: &'s mut Reads<'r, 'q, 'm, 'a, S>,
}

impl<S: Storage> Scope<'_, '_, '_, '_, '_, S> {
    /// Loads until the counter has come as far.
    fn reach(&mut self, counter: &Counter, target: u32) -> Result<(), LoadError> {
        let Self { progress, reads } = self;
        while !counter.reached(target) {
            let polled = match progress.shared.discrete() {
                Some(accelerator) => {
                    let (weights, storage) = reads.at_rest();
                    progress.stage(weights, storage, accelerator)?
                }
                None => progress.poll(reads, None)?,
            };
            // `open` proved that a step never waits for a load that is not released.
            if matches!(polled, Polled::Blocked(_) | Polled::Idle) {
                break;
            }
        }
        Ok(())
    }
}

impl<S: Storage> Sealed for Scope<'_, '_, '_, '_, '_, S> {}

impl<S: Storage> Feed for Scope<'_, '_, '_, '_, '_, S> {
    fn wait(&mut self, target: u32) -> Result<(), LoadError> {
        self.look();
        self.reach(&self.progress.shared.loads_done, target)
    }

    fn wait_reads(&mut self, target: u32) -> Result<(), LoadError> {
        self.reach(&self.progress.shared.reads_done, target)
    }

    fn look(&mut self) {
        self.progress.look(self.reads, None);
    }

    fn rest(&mut self) {
        self.reads.at_rest();
        self.progress.reads = self.progress.loads;
    }

    fn restart(&mut self) {
        self.reads.at_rest();
        self.progress.restart();
    }

    fn switch(&mut self, entry: &PlanEntry) {
        let (weights, storage) = self.reads.at_rest();
        switch(&mut self.progress, weights, storage, entry);
    }
}

impl<'a> Instance<'a> {
    /// Runs `body` with a model whose loads go on while its steps compute, on the caller's thread,
    /// and while `body` does something else. When `body` is left, no read is in flight.
    ///
    /// Reads go on in the background only as far as the storage has a
    /// [queue](crate::storage::Storage::queue) and
    /// [`Options::depth`](crate::executor::Options::depth) is more than 1. Otherwise this is [`inline`](Self::inline).
    pub fn overlapped<S: Storage, T>(
        &mut self,
        storage: &mut S,
        body: impl FnOnce(&mut Model<'_, 'a, Overlapped<'_>>) -> T,
    ) -> T {
        let failed = self.shared.start();
        let Self { shared, memory, current } = self;
        let shared = &*shared;
        let (mut weights, activations) = memory.sides();
        let progress = LoadProgress::new(shared, current.proven, current.entry.shape);
        weights.reading(storage, LoadList::Streamed, shared.depth, |reads| {
            let mut scope = Scope { progress, reads };
            let feed = Overlapped(&mut scope);
            body(&mut Model::new(shared, current, activations, feed, failed))
        })
    }
}
