//! Loads on a thread of their own: how the compute side and the loader wait for each other.

use super::instance::Instance;
use crate::device::threads::{self, ThreadError};
use crate::executor::compute::loader::Loader;
use crate::executor::compute::model::{Feed, Model, Sealed};
use crate::executor::load_error::LoadError;
use crate::executor::shared::Shared;
use crate::pack::PlanEntry;
use crate::storage::Storage;
use crate::storage::queue::SPIN_NS;
use crate::sys::discard::discard;
use crate::sys::futex::Counter;
use core::sync::atomic::Ordering;

/// How long the compute side spins for what is issued to a GPU.
const BRIEF_NS: u64 = 20_000;

/// How long the loader and the compute side spin for each other before they sleep: not at all where
/// the loader has no core of its own. With a GPU the counters count what has been issued: the
/// loader's time is in the GPU's events, which nobody spins for.
fn spin_ns(shared: &Shared<'_>) -> [u64; 2] {
    let room = threads::available_cores() > shared.threads as usize;
    match (room, shared.accelerator()) {
        (false, _) => [0, 0],
        (true, Some(_)) => [0, BRIEF_NS],
        (true, None) => [SPIN_NS, SPIN_NS],
    }
}

/// Loads come from a loader on another thread.
#[derive(Debug)]
pub struct Concurrent<'m, 'a> {
    shared: &'m Shared<'a>,
    /// How long it spins for the loader.
    spin_ns: u64,
}

impl Concurrent<'_, '_> {
    fn wait_for(&self, counter: &Counter, target: u32) -> Result<(), LoadError> {
        let failed = || self.shared.failure.get().is_some();
        if counter.wait_until(target, self.spin_ns, failed) {
            return Ok(());
        }
        self.shared.failure.get().map_or(Ok(()), Err)
    }

    /// Has the loader do what it is asked for, and returns when it has.
    fn ask(&self) {
        let shared = self.shared;
        let number = shared.requests.get().wrapping_add(1);
        shared.requests.set(number);
        // The loader waits for one of the two.
        shared.steps_done.wake();
        shared.answers.wait_until(number, self.spin_ns.min(BRIEF_NS), || false);
    }
}

impl Sealed for Concurrent<'_, '_> {}

impl Feed for Concurrent<'_, '_> {
    fn wait(&mut self, target: u32) -> Result<(), LoadError> {
        if !self.shared.loads_done.reached(target) {
            self.shared.awaited.store(target, Ordering::Relaxed);
        }
        self.wait_for(&self.shared.loads_done, target)
    }

    fn wait_reads(&mut self, target: u32) -> Result<(), LoadError> {
        self.wait_for(&self.shared.reads_done, target)
    }

    fn rest(&mut self) {
        self.shared.rest.store(true, Ordering::Relaxed);
        self.ask();
    }

    fn restart(&mut self) {
        self.shared.rest.store(false, Ordering::Relaxed);
        self.ask();
    }

    fn switch(&mut self, entry: &PlanEntry) {
        self.shared.rest.store(false, Ordering::Relaxed);
        self.shared.asked.put(*entry);
        self.ask();
        self.shared.asked.clear();
    }
}

/// Has the loader return.
fn stop(shared: &Shared<'_>) {
    shared.stop.store(true, Ordering::Release);
    shared.steps_done.wake();
    shared.requests.wake();
}

impl<'m, 'a> Model<'m, 'a, Concurrent<'m, 'a>> {
    /// Has this model's loader return. No inference may follow.
    pub(crate) fn stop_loader(&self) {
        stop(self.shared);
    }
}

impl<'a> Instance<'a> {
    /// A loader, and the model that waits for it until [`Loader::run`] is in progress on another
    /// thread.
    pub(crate) fn split<'m>(&'m mut self) -> (Loader<'m, 'a>, Model<'m, 'a, Concurrent<'m, 'a>>) {
        let failed = self.shared.start();
        self.shared.stop.store(false, Ordering::Release);
        self.shared.rest.store(false, Ordering::Relaxed);
        let Self { shared, memory, current } = self;
        let [loader_ns, spin_ns] = spin_ns(shared);
        shared.spin_ns = loader_ns;
        let shared = &*shared;
        let (weights, activations) = memory.sides();
        let loader = Loader::new(shared, weights, current);
        let model =
            Model::new(shared, current, activations, Concurrent { shared, spin_ns }, failed);
        (loader, model)
    }

    /// Runs `body` with a model whose loader works on a thread of its own, which ends when `body`
    /// does. The model's lifetime `'s` is this call's alone: no model of another scope can take its
    /// place.
    pub fn with_loader<S: Storage + Send, T>(
        &mut self,
        storage: &mut S,
        body: impl for<'s> FnOnce(&mut Model<'s, 'a, Concurrent<'s, 'a>>) -> T,
    ) -> Result<T, ThreadError> {
        self.with_loader_on(None, storage, body)
    }

    /// Runs `body` with a model whose loader works on a core of its own. The best core is the one
    /// that serves the storage's interrupts: each of them would hold up a thread that computes
    /// there. Where the system refuses the core, it places the loader itself.
    pub fn with_loader_on<S: Storage + Send, T>(
        &mut self,
        core: Option<usize>,
        storage: &mut S,
        body: impl for<'s> FnOnce(&mut Model<'s, 'a, Concurrent<'s, 'a>>) -> T,
    ) -> Result<T, ThreadError> {
        let (mut loader, mut model) = self.split();
        let shared = model.shared;
        threads::join(
            move || {
                let pinned = core.map_or(Ok(()), threads::pin_current);
                discard(pinned, "the system places a thread that it does not pin");
                loader.run(storage);
            },
            move || {
                // Also when `body` panics, the loader must stop, or the join waits for ever.
                struct Stop<'m, 'a>(&'m Shared<'a>);
                impl Drop for Stop<'_, '_> {
                    fn drop(&mut self) {
                        stop(self.0);
                    }
                }
                let _stop = Stop(shared);
                body(&mut model)
            },
        )
        .map(|((), result)| result)
    }
}
