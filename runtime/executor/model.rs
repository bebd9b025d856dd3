//! The compute side: the host's turn, the steps, and how steps wait for their loads.

use super::budget::Current;
use super::loader::{LoadError, Loader, Polled};
use super::observer::Event;
use super::shared::Shared;
use crate::arena::Activations;
use crate::device::Device;
use crate::ops::{self, Call};
use crate::pack::{PlanEntry, Port, layer_of};
use crate::storage::Storage;

/// Why a step or an inference ended early. The model stays usable: after [`Load`](Self::Load) the next
/// inference starts over, after [`Threads`](Self::Threads) the same step may be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InferError {
    /// A load that the inference needs failed.
    Load(LoadError),
    /// The device has more threads than the pack was opened for.
    Threads {
        /// The device's.
        device: usize,
        /// [`Options::threads`](super::Options::threads).
        opened: u32,
    },
    /// The last change of budget failed: set one that can be had.
    NoPlan,
}

impl core::fmt::Display for InferError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Threads { device, opened } => {
                write!(f, "the device has {device} threads, the pack was opened for {opened}")
            }
            Self::NoPlan => f.write_str(
                "the last change of budget failed, so there is no plan to follow: set the budget again",
            ),
        }
    }
}

impl core::error::Error for InferError {}

/// Where an inference stands after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More steps follow.
    Running,
    /// That was the last step: outputs may be read, inputs written.
    Finished,
}

/// Times of one inference by the device's clock, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// In kernels.
    pub compute_ns: u64,
    /// Waiting for loads (inline: loading).
    pub stall_ns: u64,
}

/// How the compute side gets its loads.
pub trait Feed {
    /// Returns when `loads_done` has reached `target`, or with the error that prevents it.
    #[doc(hidden)]
    fn wait(&mut self, target: u32) -> Result<(), LoadError>;

    /// The inference has failed and both counters are at zero again.
    #[doc(hidden)]
    fn restarted(&mut self);

    /// Has the loader change to another plan, and returns when it has answered. The counters are at zero.
    #[doc(hidden)]
    fn switch(&mut self, entry: &PlanEntry);
}

/// Loads between steps, on the caller's core.
#[derive(Debug)]
pub struct Inline<'m, 'a, S> {
    loader: Loader<'m, 'a>,
    storage: &'m mut S,
    done: u32,
}

impl<'m, 'a, S: Storage> Inline<'m, 'a, S> {
    pub(super) fn new(loader: Loader<'m, 'a>, storage: &'m mut S) -> Self {
        Self { loader, storage, done: 0 }
    }
}

impl<S: Storage> Feed for Inline<'_, '_, S> {
    fn wait(&mut self, target: u32) -> Result<(), LoadError> {
        while (self.done.wrapping_sub(target) as i32) < 0 {
            match self.loader.poll(self.storage)? {
                Polled::Loaded => self.done = self.done.wrapping_add(1),
                // `open` proved that a step never waits for a load that is not released.
                Polled::Blocked(_) | Polled::Idle => break,
            }
        }
        Ok(())
    }

    fn restarted(&mut self) {
        self.done = 0;
        self.loader.restart();
    }

    fn switch(&mut self, entry: &PlanEntry) {
        self.done = 0;
        self.loader.switch(self.storage, entry);
    }
}

/// The compute side of an instance: inferences, one after the other.
#[derive(Debug)]
pub struct Model<'m, 'a, F> {
    pub(super) shared: &'m Shared<'a>,
    pub(super) current: &'m mut Current<'a>,
    pub(super) activations: Activations<'m>,
    pub(super) feed: F,
    /// Steps of this inference that are done, the host's included; 0 during the host's turn.
    pub(super) position: usize,
    /// Values of the counters at the start of this inference.
    base_steps: u32,
    base_loads: u32,
    failed: bool,
    stats: Stats,
}

impl<'m, 'a, F: Feed> Model<'m, 'a, F> {
    pub(super) fn new(
        shared: &'m Shared<'a>,
        current: &'m mut Current<'a>,
        activations: Activations<'m>,
        feed: F,
    ) -> Self {
        Self {
            shared,
            current,
            activations,
            feed,
            position: 0,
            base_steps: 0,
            base_loads: 0,
            failed: false,
            stats: Stats::default(),
        }
    }

    /// The inputs, in the model's order.
    pub fn inputs(&self) -> &'a [Port] {
        self.shared.network.skeleton().inputs
    }

    /// The outputs, in the model's order.
    pub fn outputs(&self) -> &'a [Port] {
        self.shared.network.skeleton().outputs
    }

    /// Input `index`, to be written before [`infer`](Self::infer): row-major in the model's own shape.
    /// `None` when there is no such input, or an inference is under way. Inputs do not keep their
    /// values over an inference.
    pub fn input_mut(&mut self, index: usize) -> Option<&mut [f32]> {
        let port = self.inputs().get(index)?;
        self.port(port)
    }

    /// Output `index` of the last inference: row-major in the model's own shape. `None` when there is no
    /// such output, or an inference is under way.
    pub fn output(&mut self, index: usize) -> Option<&[f32]> {
        let port = self.outputs().get(index)?;
        self.port(port).map(|floats| &*floats)
    }

    fn port(&mut self, port: &Port) -> Option<&mut [f32]> {
        let proven = self.current.proven.as_ref().filter(|_| self.position == 0)?;
        Some(self.activations.port(proven, port.tensor))
    }

    /// Times of the inference under way, or of the last one.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// One inference, or the rest of the one under way.
    pub fn infer(&mut self, device: &dyn Device) -> Result<(), InferError> {
        while self.step(device)? == Progress::Running {}
        Ok(())
    }

    /// One step of an inference: starts one if none is under way. Between two calls the caller may do
    /// whatever it has to (kick a watchdog, run another task).
    pub fn step(&mut self, device: &dyn Device) -> Result<Progress, InferError> {
        let shared = self.shared;
        let Some(proven) = self.current.proven else { return Err(InferError::NoPlan) };
        let plan = proven.plan();
        // At each step: the device may be another one each time.
        let (threads, opened) = (device.threads(), shared.threads);
        if threads > opened as usize {
            return Err(InferError::Threads { device: threads, opened });
        }
        if self.position == 0 {
            self.begin();
        }
        let Some(step) = plan.steps.get(self.position - 1) else {
            // A network without layers: its outputs are its inputs.
            self.finish();
            return Ok(Progress::Finished);
        };
        let number = self.position as u32 - 1;
        shared.tell(Event::StepWaits(number));
        let start = device.now_ns();
        if let Err(error) = self.feed.wait(self.base_loads.wrapping_add(step.ready)) {
            self.failed = true;
            self.position = 0;
            return Err(InferError::Load(error));
        }
        let loaded = device.now_ns();
        shared.tell(Event::StepBegins(number));
        let skeleton = proven.skeleton();
        let layer = layer_of(skeleton, step);
        let operands = self.activations.operands(&proven, self.position - 1);
        ops::run(Call {
            layer,
            inputs: skeleton.layer_inputs(layer),
            output: skeleton.tensors[layer.output as usize],
            operands: operands.inputs,
            out: operands.out,
            weights: operands.weights,
            algorithm: step.algorithm,
            first: step.first as usize,
            count: step.count as usize,
            rows: step.row as usize..step.row as usize + step.rows as usize,
            scratch: operands.scratch,
            device,
            kernels: shared.kernels,
        });
        // A board's clock is the board's: whatever it says, this does not panic.
        let done = device.now_ns();
        shared.tell(Event::StepEnds(number));
        self.stats.stall_ns = self.stats.stall_ns.saturating_add(loaded.saturating_sub(start));
        self.stats.compute_ns = self.stats.compute_ns.saturating_add(done.saturating_sub(loaded));
        self.position += 1;
        shared.steps_done.set(self.base_steps.wrapping_add(self.position as u32));
        if self.position > plan.steps.len() {
            self.finish();
            return Ok(Progress::Finished);
        }
        Ok(Progress::Running)
    }

    /// Ends the host's turn.
    fn begin(&mut self) {
        if self.failed {
            self.shared.restart();
            self.feed.restarted();
            self.rewind();
        }
        self.stats = Stats::default();
        self.position = 1;
        self.shared.steps_done.set(self.base_steps.wrapping_add(1));
    }

    /// Back to the first step of the first inference, with both counters at zero.
    pub(super) fn rewind(&mut self) {
        (self.base_steps, self.base_loads, self.failed) = (0, 0, false);
        self.stats = Stats::default();
    }

    /// Begins the host's turn of the next inference.
    fn finish(&mut self) {
        let plan = self.current.plan();
        let (period, loads) = (plan.period(), plan.loads.len() as u32);
        self.position = 0;
        self.base_steps = self.base_steps.wrapping_add(period);
        self.base_loads = self.base_loads.wrapping_add(loads);
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
pub use concurrent::{Concurrent, ThreadedError};

#[cfg(all(feature = "linux", target_os = "linux"))]
mod concurrent {
    //! Loads on a thread of their own.

    use super::*;
    use crate::device::threads::{self, ThreadError};
    use crate::executor::Instance;
    use core::sync::atomic::Ordering;

    /// How long the compute side spins for a load before it sleeps.
    const SPIN_NS: u64 = 20_000;

    /// Waits for a loader that runs beside it.
    #[derive(Debug)]
    pub struct Concurrent<'m, 'a> {
        shared: &'m Shared<'a>,
    }

    impl Feed for Concurrent<'_, '_> {
        fn wait(&mut self, target: u32) -> Result<(), LoadError> {
            let failed = || self.shared.failure.get().is_some();
            if self.shared.loads_done.wait_until(target, SPIN_NS, failed) {
                return Ok(());
            }
            self.shared.failure.get().map_or(Ok(()), Err)
        }

        fn restarted(&mut self) {}

        fn switch(&mut self, entry: &PlanEntry) {
            let shared = self.shared;
            let number = shared.requests.get().wrapping_add(1);
            shared.asked.put(*entry);
            shared.requests.set(number);
            // The loader waits for one of the three.
            shared.steps_done.wake();
            shared.epoch.wake();
            shared.answers.wait_until(number, SPIN_NS, || false);
        }
    }

    /// The loader's thread could not be started.
    pub type ThreadedError = ThreadError;

    impl<'a> Instance<'a> {
        /// Runs `body` with a model whose loader works beside it, on a thread of its own that ends
        /// when `body` does.
        pub fn with_loader<'m, S: Storage + Send, T>(
            &'m mut self,
            storage: &'m mut S,
            body: impl FnOnce(&mut Model<'m, 'a, Concurrent<'m, 'a>>) -> T,
        ) -> Result<T, ThreadedError> {
            self.shared.restart();
            self.shared.stop.store(false, Ordering::Release);
            let Self { shared, memory, current } = self;
            let shared = &*shared;
            let (weights, activations) = memory.sides();
            let mut loader = Loader::new(shared, weights, current.proven);
            let mut model = Model::new(shared, current, activations, Concurrent { shared });
            threads::join(
                move || loader.run(storage),
                move || {
                    // Also when `body` panics, the loader must be told, or the join waits for ever.
                    struct Stop<'m, 'a>(&'m Shared<'a>);
                    impl Drop for Stop<'_, '_> {
                        fn drop(&mut self) {
                            self.0.stop.store(true, Ordering::Release);
                            self.0.steps_done.wake();
                            self.0.epoch.wake();
                            self.0.requests.wake();
                        }
                    }
                    let _stop = Stop(shared);
                    body(&mut model)
                },
            )
            .map(|((), result)| result)
        }
    }
}
