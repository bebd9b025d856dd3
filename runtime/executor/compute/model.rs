//! The compute side: the host's turn, the steps, and how steps wait for their loads.

use super::loader::Loader;
use crate::arena::Activations;
use crate::device::accelerator::{Accelerator, Stream};
use crate::device::float_mode::Ieee;
use crate::device::{Device, DeviceError};
use crate::executor::current::Current;
use crate::executor::load::progress::Polled;
use crate::executor::load_error::LoadError;
use crate::executor::observer::Event;
use crate::executor::shared::{Engine, Shared};
use crate::kernels::table::{CHAIN, Prefetch};
use crate::ops::{self, Call, Slice};
use crate::pack::{PlanEntry, Port, PortType, Skeleton};
use crate::proof::Proven;
use crate::storage::Storage;
use crate::sys::discard::discard;
use core::ops::ControlFlow;

/// Steps after the current one whose weights are fetched ahead: pooling and copies have no weights.
const STEPS_AHEAD: usize = 2;

/// Why a step or an inference ended early. The model stays usable: after [`Load`](Self::Load),
/// [`Index`](Self::Index) and [`Device`](Self::Device) the next inference starts over, after
/// [`Threads`](Self::Threads) the same step may be tried again.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum InferError {
    /// A load that the inference needs failed.
    Load(LoadError),
    /// The device has more threads than the pack was opened for.
    Threads {
        /// Threads of the device.
        device: usize,
        /// Threads that the pack was opened for:
        /// [`Options::threads`](crate::executor::Options::threads).
        opened: u32,
    },
    /// The last change of budget or shape failed, so there is no plan. Set it again.
    NoPlan,
    /// A step looks up an entry that its table does not have. On a GPU this is no error: the row is
    /// NaN.
    Index {
        /// Number of the step in its plan.
        step: u32,
        /// The index that was asked for: from -`entries` up to `entries` - 1 it would be one.
        index: i32,
        /// Entries of the table.
        entries: u32,
    },
    /// Chunks of the network are not in memory. Nothing has changed.
    Chunks {
        /// Chunks in memory.
        present: u32,
        /// Chunks that the network has.
        chunks: u32,
    },
    /// The GPU failed. The next inference starts over; a GPU that does not recover fails again.
    Device(DeviceError),
}

/// Why an input or output is not lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// There is no such input or output.
    Absent {
        /// The number that was asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// It is of another type: floats were asked for, and it has integers, or the other way round.
    Type {
        /// Its number.
        index: usize,
        /// The model's type.
        kind: PortType,
    },
    /// An inference is not at its end.
    Running,
}

impl core::fmt::Display for PortError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Absent { index, count } => write!(f, "number {index} is asked for, of {count}"),
            Self::Type { index, kind } => {
                let functions = match kind.is_integer() {
                    true => "input_words_mut and output_words",
                    false => "input_mut and output",
                };
                write!(f, "number {index} is of type {}: ask for it by {functions}", kind.name())
            }
            Self::Running => f.write_str("an inference is not at its end"),
        }
    }
}

impl core::error::Error for PortError {}

impl core::fmt::Display for InferError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Load(error) => error.fmt(f),
            Self::Threads { device, opened } => {
                write!(f, "the device has {device} threads, the pack was opened for {opened}")
            }
            Self::Index { step, index, entries } => write!(
                f,
                "step {step} looks up entry {index} of a table that has {entries}: write indices from -{entries} \
                 to below {entries} to the inputs"
            ),
            Self::Chunks { present, chunks } => write!(
                f,
                "{present} of the network's {chunks} chunks are in memory: a step needs all of them"
            ),
            Self::Device(error) => error.fmt(f),
            Self::NoPlan => f.write_str(
                "the last change of budget or shape failed, so there is no plan to follow: set it again",
            ),
        }
    }
}

impl core::error::Error for InferError {}

impl From<LoadError> for InferError {
    fn from(error: LoadError) -> Self {
        Self::Load(error)
    }
}

impl From<DeviceError> for InferError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

/// How far an inference is after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More steps follow.
    Running,
    /// The inference is complete: outputs may be read, inputs written.
    Finished,
}

/// Times of one inference by the device's clock, in nanoseconds. With a GPU these are times of the
/// processor, which issues steps before the GPU does them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Time in kernels. With a GPU: the time to issue steps, and to wait for the last one.
    pub compute_ns: u64,
    /// Time to wait for loads, or to load inline. With a GPU: for loads that have not been read, or
    /// whose copies have not been issued.
    pub stall_ns: u64,
}

mod sealed {
    /// Only this crate implements feeds: steps rely on the loads that a feed reports.
    pub trait Sealed {}
}
pub(in crate::executor) use sealed::Sealed;

/// How the compute side gets its loads: from [`Inline`], from
/// [`Overlapped`](crate::executor::Overlapped), or from `Concurrent` with a loader's thread.
pub trait Feed: Sealed {
    /// Returns when `loads_done` has reached `target`, or with the error that prevents it.
    #[doc(hidden)]
    fn wait(&mut self, target: u32) -> Result<(), LoadError>;

    /// Returns when `reads_done` has reached `target`, or with the error that prevents it. For
    /// plans with a staging ring.
    #[doc(hidden)]
    fn wait_reads(&mut self, target: u32) -> Result<(), LoadError>;

    /// A step is done: takes loads that are there, and begins others, without waiting for any.
    #[doc(hidden)]
    fn look(&mut self) {}

    /// The inference has failed: returns when no load is in flight any more, and none begins before
    /// a [restart](Self::restart) or a [change of plan](Self::switch).
    #[doc(hidden)]
    fn rest(&mut self);

    /// Has the loader start over, with all counters at zero.
    #[doc(hidden)]
    fn restart(&mut self);

    /// Has the loader change to another plan, and returns when it has answered. The counters are at
    /// zero.
    #[doc(hidden)]
    fn switch(&mut self, entry: &PlanEntry);
}

/// Loads are made between steps, on the caller's thread.
#[derive(Debug)]
pub struct Inline<'m, 'a, S> {
    loader: Loader<'m, 'a>,
    storage: &'m mut S,
    /// Loads, and reads into a staging ring.
    done: [u32; 2],
}

impl<'m, 'a, S: Storage> Inline<'m, 'a, S> {
    pub(in crate::executor) fn new(loader: Loader<'m, 'a>, storage: &'m mut S) -> Self {
        Self { loader, storage, done: [0; 2] }
    }

    fn wait_for(&mut self, which: usize, target: u32) -> Result<(), LoadError> {
        let Self { loader, storage, done } = self;
        let reached = |done: &[u32; 2]| done[which].wrapping_sub(target) as i32 >= 0;
        if reached(done) {
            return Ok(());
        }
        loader.work(*storage, Some(target), |polled| {
            match polled {
                Polled::Loaded => done[0] = done[0].wrapping_add(1),
                Polled::Read => done[1] = done[1].wrapping_add(1),
                // `open` proved that a step never waits for a load that is not released.
                Polled::Blocked(_) | Polled::Idle => return ControlFlow::Break(()),
            }
            if reached(done) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }
}

impl<S: Storage> Sealed for Inline<'_, '_, S> {}

impl<S: Storage> Feed for Inline<'_, '_, S> {
    fn wait(&mut self, target: u32) -> Result<(), LoadError> {
        self.wait_for(0, target)
    }

    fn wait_reads(&mut self, target: u32) -> Result<(), LoadError> {
        self.wait_for(1, target)
    }

    fn rest(&mut self) {
        // Loads are in flight while a step waits for them, and only then.
    }

    fn restart(&mut self) {
        self.done = [0; 2];
        self.loader.restart();
    }

    fn switch(&mut self, entry: &PlanEntry) {
        self.done = [0; 2];
        self.loader.switch(self.storage, entry);
    }
}

/// The compute side of an instance: inferences, one after the other.
#[derive(Debug)]
pub struct Model<'m, 'a, F> {
    pub(in crate::executor) shared: &'m Shared<'a>,
    pub(in crate::executor) current: &'m mut Current<'a>,
    pub(in crate::executor) activations: Activations<'m>,
    pub(in crate::executor) feed: F,
    /// Steps of this inference that are done, the host's included; 0 during the host's turn.
    pub(in crate::executor) position: usize,
    /// Values of the counters at the start of this inference.
    base_steps: u32,
    base_loads: u32,
    /// The last copy that the steps so far wait for, on the GPU.
    followed: u32,
    failed: bool,
    stats: Stats,
    /// Where a GPU keeps the moments before and after the next step's kernels: this one, and the
    /// one after it.
    pub(in crate::executor) moment: Option<u32>,
}

impl<'m, 'a, F: Feed> Model<'m, 'a, F> {
    pub(in crate::executor) fn new(
        shared: &'m Shared<'a>,
        current: &'m mut Current<'a>,
        activations: Activations<'m>,
        feed: F,
        failed: bool,
    ) -> Self {
        Self {
            shared,
            current,
            activations,
            feed,
            position: 0,
            base_steps: 0,
            base_loads: 0,
            followed: 0,
            failed,
            stats: Stats::default(),
            moment: None,
        }
    }

    /// The inputs, in the model's order. None after a change of budget or shape that failed.
    pub fn inputs(&self) -> &[Port] {
        self.current.skeleton().inputs
    }

    /// The outputs, in the model's order. None after a change of budget or shape that failed.
    pub fn outputs(&self) -> &[Port] {
        self.current.skeleton().outputs
    }

    /// The network in its shape; an empty one after a change of budget or shape that failed.
    pub fn skeleton(&self) -> &Skeleton<'_> {
        self.current.skeleton()
    }

    /// Input `index`, of floats, to be written before [`infer`](Self::infer): row-major in the
    /// model's own shape. Inputs do not keep their values over an inference.
    pub fn input_mut(&mut self, index: usize) -> Result<&mut [f32], PortError> {
        self.port(index, false, false)
    }

    /// Input `index`, of integers or truth values (0 and 1): as [`input_mut`](Self::input_mut).
    pub fn input_words_mut(&mut self, index: usize) -> Result<&mut [i32], PortError> {
        self.port(index, false, true).map(bytemuck::cast_slice_mut)
    }

    /// Output `index` of the last inference, of floats: row-major in the model's own shape.
    pub fn output(&mut self, index: usize) -> Result<&[f32], PortError> {
        self.port(index, true, false).map(|floats| &*floats)
    }

    /// Output `index` of the last inference, of integers or truth values (0 and 1).
    pub fn output_words(&mut self, index: usize) -> Result<&[i32], PortError> {
        self.port(index, true, true).map(|floats| bytemuck::cast_slice(&*floats))
    }

    /// The words of an input or output.
    fn port(
        &mut self,
        index: usize,
        output: bool,
        integers: bool,
    ) -> Result<&mut [f32], PortError> {
        let &Skeleton { inputs, outputs, .. } = self.current.skeleton();
        let (ports, before) = if output { (outputs, inputs.len()) } else { (inputs, 0) };
        let port = ports.get(index).ok_or(PortError::Absent { index, count: ports.len() })?;
        let kind = port.kind();
        if kind.is_integer() != integers {
            return Err(PortError::Type { index, kind });
        }
        let proven = self.current.proven.get().filter(|_| self.position == 0);
        let proven = proven.ok_or(PortError::Running)?;
        Ok(self.activations.port(proven, before + index))
    }

    /// Times of the current inference, or of the last one.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Computes one inference, or the rest of the current one.
    pub fn infer(&mut self, device: &dyn Device) -> Result<(), InferError> {
        while self.step(device)? == Progress::Running {}
        Ok(())
    }

    /// Computes one step of the current inference, or starts an inference. Between two calls the
    /// caller may do whatever it has to (kick a watchdog, run another task).
    pub fn step(&mut self, device: &dyn Device) -> Result<Progress, InferError> {
        let shared = self.shared;
        let Some(proven) = self.current.proven.get().copied() else {
            return Err(InferError::NoPlan);
        };
        // At each step: the device may be another one each time.
        let (threads, opened) = (device.threads(), shared.threads);
        if threads > opened as usize {
            return Err(InferError::Threads { device: threads, opened });
        }
        self.advance(&proven, device).inspect_err(|_| self.abandon())
    }

    /// Ends an inference with an error. The host's turn begins in the middle of an inference, when
    /// loads may have been released that overwrite the ports: the loader rests first.
    pub(in crate::executor) fn abandon(&mut self) {
        self.feed.rest();
        self.failed = true;
        self.position = 0;
        if let Some(accelerator) = self.shared.accelerator() {
            // The ports are the host's again.
            let drained = accelerator.drain(Stream::Kernels);
            discard(drained, "an inference has failed already, and the next one drains first");
        }
    }

    /// One step; on an error the inference is over.
    fn advance(
        &mut self,
        proven: &Proven<'_>,
        device: &dyn Device,
    ) -> Result<Progress, InferError> {
        let (shared, plan) = (self.shared, proven.plan());
        if self.position == 0 {
            self.begin(proven)?;
        }
        let Some(step) = plan.steps.get(self.position - 1) else {
            // A network without layers: its outputs are its inputs.
            self.finish(proven)?;
            return Ok(Progress::Finished);
        };
        let number = self.position as u32 - 1;
        shared.tell(Event::StepWaits(number));
        let start = device.now_ns();
        let loads = self.base_loads.wrapping_add(step.ready);
        self.feed.wait(loads)?;
        if step.reads > 0 && shared.discrete().is_some() {
            self.feed.wait_reads(self.base_loads.wrapping_add(step.reads))?;
        }
        let loaded = device.now_ns();
        shared.tell(Event::StepBegins(number));
        self.compute(proven, loads, device)?;
        shared.tell(Event::StepEnds(number));
        self.position += 1;
        let last = self.position > plan.steps.len();
        self.count()?;
        if last {
            self.finish(proven)?;
        }
        // A board's clock is the board's: whatever it says, this does not panic.
        let done = device.now_ns();
        self.stats.stall_ns = self.stats.stall_ns.saturating_add(loaded.saturating_sub(start));
        self.stats.compute_ns = self.stats.compute_ns.saturating_add(done.saturating_sub(loaded));
        self.feed.look();
        Ok(if last { Progress::Finished } else { Progress::Running })
    }

    /// Computes the current step, or issues it after the copies of `loads` loads.
    fn compute(
        &mut self,
        proven: &Proven<'_>,
        loads: u32,
        device: &dyn Device,
    ) -> Result<(), InferError> {
        let (shared, index) = (self.shared, self.position - 1);
        let kernels = match shared.engine {
            Engine::Processor(kernels) => kernels,
            Engine::Accelerator(accelerator, launch) => {
                if shared.discrete().is_some() && loads != self.followed {
                    accelerator.follow(Stream::Kernels, Stream::Copies, loads)?;
                    self.followed = loads;
                }
                self.moment.map_or(Ok(()), |moment| accelerator.keep(moment))?;
                self.activations.launch(proven, index, accelerator, launch)?;
                self.moment.map_or(Ok(()), |moment| accelerator.keep(moment + 1))?;
                return Ok(());
            }
        };
        let (skeleton, step) = (proven.skeleton(), proven.plan().steps.at(index));
        let layer = skeleton.layer_of(&step);
        let prefetch = self.prefetch(proven, index).first((1 + CHAIN) * kernels.nr());
        let operands = self.activations.operands(proven, index, shared.mapped_weights());
        let rows = step.row as usize..step.row as usize + step.rows as usize;
        if let Some((index, entries)) = ops::outside(&layer, &operands.inputs, rows.clone()) {
            return Err(InferError::Index { step: self.position as u32 - 1, index, entries });
        }
        // Whatever the caller's thread is set to.
        let _mode = Ieee::enter();
        ops::run(Call {
            layer: &layer,
            inputs: skeleton.layer_inputs(&layer),
            output: skeleton.tensors[layer.output as usize],
            operands: operands.inputs,
            out: operands.out,
            weights: operands.weights,
            prefetch,
            first: step.first as usize,
            count: step.count as usize,
            method: step.method,
            rows,
            scratch: operands.scratch,
            device,
            kernels,
        });
        Ok(())
    }

    /// The weights of the first step after step `index` that has any, if they have been loaded. The
    /// first step of the next inference follows the last.
    fn prefetch(&self, proven: &Proven<'_>, index: usize) -> Prefetch {
        let (skeleton, plan) = (proven.skeleton(), proven.plan());
        for at in index + 1..=index + STEPS_AHEAD {
            let (at, before) = match at.checked_sub(plan.steps.len()) {
                None => (at, 0),
                Some(next) => (next, plan.loads.len() as u32),
            };
            let Some(step) = plan.steps.get(at) else { break };
            let weights = proven.weights(&skeleton.layer_of(&step), &Slice::from(&step));
            if weights.is_empty() {
                continue;
            }
            let loads = self.base_loads.wrapping_add(before).wrapping_add(step.ready);
            let here = self.shared.loads_done.reached(loads);
            let bytes = if here { weights.end - weights.start } else { 0 };
            return self.activations.prefetch(&step, bytes, self.shared.mapped_weights());
        }
        Prefetch::default()
    }

    /// Counts the steps so far, the host's turn included. Marks the ones that an accelerator has
    /// yet to do, if loads could wait for them.
    fn count(&mut self) -> Result<(), DeviceError> {
        let done = self.base_steps.wrapping_add(self.position as u32);
        if let Some(accelerator) = self.marking() {
            accelerator.record(Stream::Kernels, done)?;
        }
        self.shared.steps_done.set(done);
        Ok(())
    }

    /// The accelerator, if the plan streams anything.
    fn marking(&self) -> Option<&'a dyn Accelerator> {
        self.shared.accelerator().filter(|_| !self.current.plan().loads.is_empty())
    }

    /// Ends the host's turn.
    fn begin(&mut self, proven: &Proven<'_>) -> Result<(), DeviceError> {
        if self.failed {
            self.shared.drain()?;
            self.feed.restart();
            self.rewind();
        }
        self.stats = Stats::default();
        if let Some(accelerator) = self.shared.accelerator() {
            self.activations.exchange(proven, accelerator, true)?;
        }
        self.position = 1;
        self.count()
    }

    /// Back to the first step of the first inference, with all counters at zero.
    pub(in crate::executor) fn rewind(&mut self) {
        (self.base_steps, self.base_loads, self.followed) = (0, 0, 0);
        self.failed = false;
        self.stats = Stats::default();
    }

    /// Begins the host's turn of the next inference: outputs are there.
    fn finish(&mut self, proven: &Proven<'_>) -> Result<(), DeviceError> {
        if let Some(accelerator) = self.shared.accelerator() {
            self.activations.exchange(proven, accelerator, false)?;
            accelerator.drain(Stream::Kernels)?;
        }
        let plan = proven.plan();
        let (period, loads) = (plan.period(), plan.loads.len() as u32);
        self.position = 0;
        self.base_steps = self.base_steps.wrapping_add(period);
        self.base_loads = self.base_loads.wrapping_add(loads);
        Ok(())
    }
}
