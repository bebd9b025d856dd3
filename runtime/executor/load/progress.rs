//! How far the loader has come in the endless list of loads, and what it does next.
//!
//! Where storage has a [queue](crate::storage::queue), several reads are in flight at once. They
//! begin in order, each when its release permits it, and are verified and counted in order,
//! whatever the order in which they are done; verifying goes on during those that follow. The
//! loader waits for the first of them; when none is in flight, for the next release.
//!
//! So room that a step has freed is seen when that read has come. To wait for either (the kernel's
//! descriptor of answers and one that the step writes to, by `poll`) gained nothing that could be
//! measured, though up to a quarter of the reads began sooner.

use crate::arena::{Lapsing, Reads};
use crate::device::DeviceError;
use crate::device::accelerator::{Accelerator, Stream};
use crate::executor::load_error::LoadError;
use crate::executor::observer::Event;
use crate::executor::shared::Shared;
use crate::pack::PlanView;
use crate::proof::Proven;
use crate::storage::Storage;

/// How far the loader has come.
#[derive(Debug)]
pub(in crate::executor) struct LoadProgress<'m, 'a> {
    pub shared: &'m Shared<'a>,
    /// The plan that is followed, if there is one.
    pub proven: Lapsing<Proven<'a>>,
    /// The shape of that plan, or of the one that was asked for last.
    pub shape: u16,
    /// The next load; with a staging ring, the next copy.
    pub loads: Position,
    /// The next read. It is ahead of `loads` by the reads that are in flight or in the staging
    /// ring.
    pub reads: Position,
    /// The last step, and the last copy, that the accelerator was waited for: the same need not be
    /// waited for twice.
    pub waited: [Option<u32>; 2],
    /// The accelerator did not come to an end when the loader was to start over.
    pub broken: Option<DeviceError>,
}

/// A position in the endless list of loads.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::executor) struct Position {
    /// Next load of its inference.
    pub next: usize,
    /// Value of `steps_done` at which that inference starts.
    pub steps: u32,
    /// Loads of all inferences before that.
    pub loads: u32,
}

impl Position {
    /// Loads so far.
    pub fn count(&self) -> u32 {
        self.loads.wrapping_add(self.next as u32)
    }

    pub fn advance(&mut self, plan: &PlanView<'_>) {
        self.next += 1;
        if self.next == plan.loads.len() {
            self.next = 0;
            self.steps = self.steps.wrapping_add(plan.period());
            self.loads = self.loads.wrapping_add(plan.loads.len() as u32);
        }
    }
}

/// The result of polling the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::executor) enum Polled {
    /// One load. With a staging ring: its copy is issued.
    Loaded,
    /// One read into the staging ring.
    Read,
    /// Nothing: the next load is not released before `steps_done` has reached this.
    Blocked(u32),
    /// Nothing: the plan streams nothing, or there is none, or nothing before the limit.
    Idle,
}

impl<'m, 'a> LoadProgress<'m, 'a> {
    pub fn new(shared: &'m Shared<'a>, proven: Lapsing<Proven<'a>>, shape: u16) -> Self {
        let (loads, reads) = Default::default();
        Self { shared, proven, shape, loads, reads, waited: [None; 2], broken: None }
    }

    /// Begins all loads that may begin, and returns when the first of them is there. If there is
    /// none, returns what the next one waits for.
    pub fn poll<S: Storage>(
        &mut self,
        reads: &mut Reads<'_, '_, 'm, 'a, S>,
        limit: Option<u32>,
    ) -> Result<Polled, LoadError> {
        let Some(proven) = self.proven.get().copied() else { return Ok(Polled::Idle) };
        let (plan, at) = (proven.plan(), self.loads);
        if plan.loads.get(at.next).is_none() {
            return Ok(Polled::Idle);
        }
        if let Some(error) = self.broken {
            return Err(self.failed(plan, at, error));
        }
        let before = self.begin(&proven, reads, limit, usize::MAX)?;
        let number = (plan.resident.len() + at.next) as u32;
        match reads.oldest(self.shared.read_spin_ns()) {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(LoadError::Storage { load: number, error }),
            None => return Ok(before),
        }
        if reads.is_idle() {
            // The checksum is no reason for the device to rest. But whoever waits for this load
            // waits for one other to begin, and no more.
            self.begin(&proven, reads, limit, 1)?;
        }
        self.take(&proven, reads)?;
        Ok(Polled::Loaded)
    }

    /// Begins all loads that may begin, those before `limit` if there is one, and takes those that are
    /// there. It does not wait, and leaves failed loads to [`poll`](Self::poll).
    pub fn look<S: Storage>(&mut self, reads: &mut Reads<'_, '_, 'm, 'a, S>, limit: Option<u32>) {
        let Some(proven) = self.proven.get().copied() else { return };
        if self.shared.accelerator().is_some() || !reads.goes_on() {
            // A load would be waited for here, or the accelerator.
            return;
        }
        loop {
            let began = self.begin(&proven, reads, limit, usize::MAX).is_ok();
            let there = began && reads.has_arrived() && reads.oldest(0) == Some(Ok(()));
            if !there || self.take(&proven, reads).is_err() {
                return;
            }
        }
    }

    /// Compares the checksum of the load that began first, which is there, and counts it.
    fn take<S: Storage>(
        &mut self,
        proven: &Proven<'_>,
        reads: &mut Reads<'_, '_, 'm, 'a, S>,
    ) -> Result<(), LoadError> {
        let (plan, at) = (proven.plan(), self.loads.next);
        let (load, number) = (plan.loads.at(at), (plan.resident.len() + at) as u32);
        self.shared.check(&load, number, self.shared.crc32c(0, reads.bytes()))?;
        reads.finish();
        self.shared.tell(Event::LoadEnds(at as u32));
        self.loads.advance(plan);
        self.shared.loads_done.set(self.loads.count());
        Ok(())
    }

    /// Back to the first load, when the accelerator has come to an end. The compute side waits, and
    /// no read is in flight.
    pub fn restart(&mut self) {
        let Self { shared, proven, shape, .. } = *self;
        let broken = shared.drain().err();
        *self = Self { broken, ..Self::new(shared, proven, shape) };
        shared.rewind();
    }

    /// Begins reads as long as there is room and their releases permit it, `most` at most. Returns
    /// what the next one waits for.
    fn begin<S: Storage>(
        &mut self,
        proven: &Proven<'_>,
        reads: &mut Reads<'_, '_, 'm, 'a, S>,
        limit: Option<u32>,
        most: usize,
    ) -> Result<Polled, LoadError> {
        let plan = proven.plan();
        for _ in 0..most {
            let at = self.reads;
            // None at all, where the plan streams nothing.
            let Some(load) = plan.loads.get(at.next) else { break };
            if !reads.has_room(proven, at.next) {
                break;
            }
            if limit.is_some_and(|limit| is_reached(at.count(), limit)) {
                break;
            }
            let target = at.steps.wrapping_add_signed(load.release);
            if !self.shared.steps_done.reached(target) {
                return Ok(Polled::Blocked(target));
            }
            if let Some(accelerator) = self.shared.accelerator() {
                // Waiting for kernels here would delay reads that are in flight.
                if !reads.is_empty() && !self.is_complete(Stream::Kernels, target) {
                    break;
                }
                self.complete(accelerator, Stream::Kernels, target)
                    .map_err(|error| self.failed(plan, at, error))?;
            }
            self.shared.tell(Event::LoadBegins(at.next as u32));
            reads.begin(proven, at.next, self.shared.header.weights_offset + load.offset);
            self.reads.advance(plan);
        }
        Ok(Polled::Idle)
    }

    /// Returns when the accelerator has completed what the executor counts as issued up to `count`.
    pub fn complete(
        &mut self,
        accelerator: &dyn Accelerator,
        stream: Stream,
        count: u32,
    ) -> Result<(), DeviceError> {
        if !self.is_complete(stream, count) {
            accelerator.wait(stream, count)?;
            self.waited[stream as usize] = Some(count);
        }
        Ok(())
    }

    /// Whether it has been waited for so far.
    fn is_complete(&self, stream: Stream, count: u32) -> bool {
        self.waited[stream as usize].is_some_and(|waited| is_reached(waited, count))
    }

    pub fn failed(&self, plan: &PlanView<'_>, at: Position, error: DeviceError) -> LoadError {
        LoadError::Device { load: (plan.resident.len() + at.next) as u32, error }
    }
}

/// Whether a count has come as far as `target`.
pub(in crate::executor) fn is_reached(count: u32, target: u32) -> bool {
    count.wrapping_sub(target) as i32 >= 0
}
