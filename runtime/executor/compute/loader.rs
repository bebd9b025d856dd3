//! The loader: performs the plan's loads in order, each as soon as its release permits.
//!
//! For a processor, and for a GPU that addresses the host's memory, a load is a read to where it is
//! used: see [`progress`](crate::executor::load::progress). With a GPU, that steps are done up to
//! the release means that they have been issued; the read waits until they are complete, too. For a
//! GPU with a memory of its own, a load is a read and a copy: see
//! [`copied`](crate::executor::load::copied).
//!
//! This is when it does so: on a thread of its own, which rests and answers, or for a compute side
//! that waits.

use crate::arena::{Lapsing, LoadList, Weights};
use crate::executor::change::enter::enter;
use crate::executor::current::Current;
use crate::executor::load::progress::{LoadProgress, Polled};
use crate::executor::load_error::LoadError;
use crate::executor::shared::Shared;
use crate::executor::switch::PlanError;
use crate::pack::PlanEntry;
use crate::proof::Proven;
use crate::storage::Storage;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;

/// The loader side of an instance.
#[derive(Debug)]
pub(crate) struct Loader<'m, 'a> {
    weights: Weights<'m, 'a>,
    progress: LoadProgress<'m, 'a>,
}

impl<'m, 'a> Loader<'m, 'a> {
    pub(in crate::executor) fn new(
        shared: &'m Shared<'a>,
        weights: Weights<'m, 'a>,
        current: &Current<'a>,
    ) -> Self {
        let progress = LoadProgress::new(shared, current.proven, current.entry.shape);
        Self { weights, progress }
    }

    /// Performs loads as their releases permit, those before `limit` where one is given, and calls
    /// `then` after each, or with the reason why there is none, until that breaks off or a load
    /// fails. No read is in flight when this returns.
    pub(in crate::executor) fn work<S: Storage>(
        &mut self,
        storage: &mut S,
        limit: Option<u32>,
        mut then: impl FnMut(Polled) -> ControlFlow<()>,
    ) -> Result<(), LoadError> {
        let Self { weights, progress } = self;
        if let Some(accelerator) = progress.shared.discrete() {
            while then(progress.stage(weights, storage, accelerator)?).is_continue() {}
            return Ok(());
        }
        let depth = progress.shared.depth;
        // Loads that were in flight when this last returned, or panicked, are repeated.
        progress.reads = progress.loads;
        weights.reading(storage, LoadList::Streamed, depth, |reads| {
            while then(progress.poll(reads, limit)?).is_continue() {}
            Ok(())
        })
    }

    /// Back to the first load, when the accelerator has come to an end. The compute side waits.
    pub(in crate::executor) fn restart(&mut self) {
        self.progress.restart();
    }

    /// Changes to another plan and answers whoever has asked for it, and waits without a plan.
    pub(in crate::executor) fn switch<S: Storage>(&mut self, storage: &mut S, entry: &PlanEntry) {
        switch(&mut self.progress, &mut self.weights, storage, entry);
    }

    /// Loads until it has to stop: the body of a loader thread.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub(crate) fn run<S: Storage>(&mut self, storage: &mut S) {
        let shared = self.progress.shared;
        let stopped = || shared.stop.load(Ordering::Acquire);
        let asked = || !shared.answers.reached(shared.requests.get());
        let called = || stopped() || asked();
        // Until the compute side asks for something.
        let rest = || {
            let next = shared.answers.get().wrapping_add(1);
            shared.requests.wait_until(next, 0, stopped);
        };
        while !stopped() {
            if asked() {
                // The request itself was written before the count of requests.
                let resting = shared.rest.load(Ordering::Relaxed);
                match shared.asked.get() {
                    Some(entry) => self.switch(storage, &entry),
                    None if resting => {}
                    None => self.restart(),
                }
                shared.answers.set(shared.requests.get());
                if resting {
                    rest();
                }
                continue;
            }
            let result = self.work(storage, None, |polled| {
                match polled {
                    Polled::Loaded | Polled::Read => {}
                    Polled::Idle => rest(),
                    Polled::Blocked(target) => {
                        shared.steps_done.wait_until(target, shared.spin_ns, called);
                    }
                }
                if called() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if let Err(error) = result {
                shared.failure.put(error);
                shared.loads_done.wake();
                shared.reads_done.wake();
                rest();
            }
        }
    }
}

/// Changes to another plan and answers whoever has asked for it, and waits without a plan. No read is
/// in flight.
pub(in crate::executor) fn switch<'a, S: Storage>(
    progress: &mut LoadProgress<'_, 'a>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    entry: &PlanEntry,
) {
    let old = core::mem::replace(&mut progress.proven, Lapsing::NONE);
    let shape = core::mem::replace(&mut progress.shape, entry.shape);
    let known = old.get().filter(|_| shape == entry.shape).map(Proven::network);
    progress.restart();
    let answer = match progress.broken {
        Some(error) => Err(PlanError::Device(error)),
        None => enter(progress.shared, known, weights, storage, entry, old),
    };
    progress.proven = answer.map_or(Lapsing::NONE, |(proven, _)| proven);
    progress.shared.answer.put(answer);
}
