//! The loader: performs the plan's loads in order, each as soon as its release permits.
//!
//! For a processor, and for a GPU that addresses the host's memory, a load is a read to where it is used. With a GPU, that steps
//! are done up to the release means that they have been issued; the read waits until they are complete, too.
//!
//! For a GPU with a memory of its own, a load is a read into the staging ring, and then a copy that the GPU makes. They are two stages
//! with a position each: reads run ahead of copies as far as their [`Stage`](crate::pack::Stage) permits. A
//! copy is issued as soon as its read is done and its release is issued, with the wait for it; a read blocks the
//! loader, so it is what has the time.

use super::enter::{PlanError, enter};
use super::observer::Event;
use super::shared::Shared;
use crate::arena::{LoadList, Reads, Weights};
use crate::device::DeviceError;
use crate::device::accelerator::{Accelerator, Stream};
use crate::pack::{Load, PlanEntry, PlanView, Proven, crc32c::crc32c};
use crate::storage::{Storage, StorageError};
use core::ops::ControlFlow;
use core::sync::atomic::Ordering;

/// Why a load failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadError {
    /// The storage failed.
    Storage {
        /// Index of the load, residents first.
        load: u32,
        /// How.
        error: StorageError,
    },
    /// The bytes read are not those that were written.
    Checksum {
        /// Index of the load, residents first.
        load: u32,
        /// CRC-32C of what was read.
        found: u32,
        /// CRC-32C in the pack.
        expected: u32,
    },
    /// The GPU failed before the load, or while it was copied there.
    Device {
        /// Index of the load, residents first.
        load: u32,
        /// How.
        error: DeviceError,
    },
}

impl core::fmt::Display for LoadError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Storage { load, error } => write!(f, "load {load}: {error}"),
            Self::Checksum { load, found, expected } => write!(
                f,
                "load {load}: checksum of the weights read is {found:08x}, the pack says \
                 {expected:08x}: the pack is damaged, write it again"
            ),
            Self::Device { load, error } => write!(f, "load {load}: {error}"),
        }
    }
}

impl core::error::Error for LoadError {}

/// Reads one load into `target` and verifies it.
fn read<S: Storage>(
    shared: &Shared<'_>,
    storage: &mut S,
    load: &Load,
    number: u32,
    target: &mut [u8],
) -> Result<(), LoadError> {
    fetch(shared, storage, load, number, target, 0)?;
    verify(shared, load, number, crc32c_if(shared, 0, target))
}

/// Reads a part of a load, from byte `at` of it on.
fn fetch<S: Storage>(
    shared: &Shared<'_>,
    storage: &mut S,
    load: &Load,
    number: u32,
    target: &mut [u8],
    at: u64,
) -> Result<(), LoadError> {
    storage
        .read(shared.header.weights_offset + load.offset + at, target)
        .map_err(|error| LoadError::Storage { load: number, error })
}

fn crc32c_if(shared: &Shared<'_>, crc: u32, bytes: &[u8]) -> u32 {
    if shared.verify { crc32c(crc, bytes) } else { 0 }
}

fn verify(shared: &Shared<'_>, load: &Load, number: u32, found: u32) -> Result<(), LoadError> {
    if shared.verify && found != load.crc {
        return Err(LoadError::Checksum { load: number, found, expected: load.crc });
    }
    Ok(())
}

/// Performs one resident load. Only while neither side is at work.
pub(super) fn resident<S: Storage>(
    shared: &Shared<'_>,
    proven: &Proven<'_>,
    weights: &mut Weights<'_, '_>,
    storage: &mut S,
    index: usize,
) -> Result<(), LoadError> {
    let (load, number) = (&proven.plan().resident[index], index as u32);
    let Some((accelerator, ring)) = shared.staged().zip(weights.ring()) else {
        let target = weights.target(proven, LoadList::Resident, index);
        return read(shared, storage, load, number, target);
    };
    // Piece by piece, each as long as the ring.
    let (mut at, mut crc) = (0, 0);
    let bytes = u64::from(load.bytes);
    while at < bytes {
        let piece = (bytes - at).min(ring.len() as u64);
        let Some(target) = ring.part(0, piece).filter(|target| !target.is_empty()) else { break };
        fetch(shared, storage, load, number, target, at)?;
        crc = crc32c_if(shared, crc, target);
        ring.copy(proven, accelerator, 0, piece, load.address + at)
            .and_then(|()| accelerator.drain(Stream::Copies))
            .map_err(|error| LoadError::Device { load: number, error })?;
        at += piece;
    }
    verify(shared, load, number, crc)
}

/// The loader side of an instance.
#[derive(Debug)]
pub struct Loader<'m, 'a> {
    weights: Weights<'m, 'a>,
    course: Course<'m, 'a>,
}

/// How far the loader has come.
#[derive(Debug)]
struct Course<'m, 'a> {
    shared: &'m Shared<'a>,
    /// The plan that is followed, if there is one.
    proven: Option<Proven<'a>>,
    /// What is loaded next; with a staging ring, what is copied next.
    loads: Position,
    /// What is read next: as far ahead of the former as reads are under way, or have been made into the staging ring.
    reads: Position,
    /// The last step, and the last copy, that the accelerator was waited for: the same need not be waited for twice.
    waited: [Option<u32>; 2],
    /// The accelerator did not come to an end when the loader was to start over.
    broken: Option<DeviceError>,
}

/// A position in the endless list of loads.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// Next load of its inference.
    next: usize,
    /// Value of `steps_done` at which that inference starts.
    steps: u32,
    /// Loads of all inferences before that.
    loads: u32,
}

impl Position {
    /// Loads so far.
    fn count(&self) -> u32 {
        self.loads.wrapping_add(self.next as u32)
    }

    fn advance(&mut self, plan: &PlanView<'_>) {
        self.next += 1;
        if self.next == plan.loads.len() {
            self.next = 0;
            self.steps = self.steps.wrapping_add(plan.period());
            self.loads = self.loads.wrapping_add(plan.loads.len() as u32);
        }
    }
}

/// What the loader did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    /// One load. With a staging ring: its copy is issued.
    Loaded,
    /// One read into the staging ring.
    Read,
    /// Nothing: the next load is not released before `steps_done` has reached this.
    Blocked(u32),
    /// Nothing: the plan streams nothing, or there is none, or nothing before the limit.
    Idle,
}

impl<'m, 'a> Loader<'m, 'a> {
    pub(super) fn new(
        shared: &'m Shared<'a>,
        weights: Weights<'m, 'a>,
        proven: Option<Proven<'a>>,
    ) -> Self {
        let (loads, reads) = Default::default();
        let course = Course { shared, proven, loads, reads, waited: [None; 2], broken: None };
        Self { weights, course }
    }

    /// Performs loads as their releases permit, those before `limit` where one is given, and tells `then` after each, or why
    /// there is none, until it says stop or a load fails. When this returns no read is under way any more.
    pub(super) fn work<S: Storage>(
        &mut self,
        storage: &mut S,
        limit: Option<u32>,
        mut then: impl FnMut(Polled) -> ControlFlow<()>,
    ) -> Result<(), LoadError> {
        let Self { weights, course } = self;
        if let Some(accelerator) = course.shared.staged() {
            while then(course.stage(weights, storage, accelerator)?).is_continue() {}
            return Ok(());
        }
        let depth = course.shared.depth;
        let result = weights.reading(storage, depth, |reads| {
            while then(course.poll(reads, limit)?).is_continue() {}
            Ok(())
        });
        // What was under way is loaded again, if at all.
        course.reads = course.loads;
        result
    }

    /// Back to the first load, when the accelerator has come to an end. The compute side waits.
    pub(super) fn restart(&mut self) {
        let Course { shared, proven, .. } = self.course;
        let broken = shared.drain().err();
        let (loads, reads, waited) = Default::default();
        self.course = Course { shared, proven, loads, reads, waited, broken };
        shared.rewind();
    }

    /// Changes to another plan and answers whoever has asked for it, and waits without a plan.
    pub(super) fn switch<S: Storage>(&mut self, storage: &mut S, entry: &PlanEntry) {
        let old = self.course.proven.take();
        self.restart();
        let shared = self.course.shared;
        let answer = match self.course.broken {
            Some(error) => Err(PlanError::Device(error)),
            None => enter(shared, &mut self.weights, storage, entry, old),
        };
        self.course.proven = answer.ok().map(|(proven, _)| proven);
        shared.answer.put(answer);
    }

    /// Loads until told to stop: the body of a loader thread.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub(crate) fn run<S: Storage>(&mut self, storage: &mut S) {
        let shared = self.course.shared;
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
                match shared.asked.get() {
                    Some(entry) => self.switch(storage, &entry),
                    None => self.restart(),
                }
                shared.answers.set(shared.requests.get());
                continue;
            }
            let result = self.work(storage, None, |polled| {
                match polled {
                    Polled::Loaded | Polled::Read => {}
                    Polled::Idle => rest(),
                    Polled::Blocked(target) => {
                        shared.steps_done.wait_until(target, shared.loader_spin_ns(), called);
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

impl<'m, 'a> Course<'m, 'a> {
    /// Has as many loads begin as may, and returns when the first of them is there; or with what the next waits for, if
    /// there is none.
    fn poll<S: Storage>(
        &mut self,
        reads: &mut Reads<'_, 'm, 'a, S>,
        limit: Option<u32>,
    ) -> Result<Polled, LoadError> {
        let Some(proven) = self.proven else { return Ok(Polled::Idle) };
        let (plan, at) = (proven.plan(), self.loads);
        let Some(load) = plan.loads.get(at.next) else { return Ok(Polled::Idle) };
        if let Some(error) = self.broken {
            return Err(self.failed(plan, at, error));
        }
        let before = self.begin(&proven, reads, limit)?;
        let number = (plan.resident.len() + at.next) as u32;
        match reads.oldest() {
            Some(Ok(())) => {}
            Some(Err(error)) => return Err(LoadError::Storage { load: number, error }),
            None => return Ok(before),
        }
        if reads.is_idle() {
            // The checksum is no reason for the device to rest.
            self.begin(&proven, reads, limit)?;
        }
        verify(self.shared, load, number, crc32c_if(self.shared, 0, reads.bytes()))?;
        reads.finish();
        self.shared.tell(Event::LoadEnds(at.next as u32));
        self.loads.advance(plan);
        self.shared.loads_done.set(self.loads.count());
        Ok(Polled::Loaded)
    }

    /// Begins reads as long as there is room and their releases permit it; returns what the next one waits for.
    fn begin<S: Storage>(
        &mut self,
        proven: &Proven<'_>,
        reads: &mut Reads<'_, 'm, 'a, S>,
        limit: Option<u32>,
    ) -> Result<Polled, LoadError> {
        let plan = proven.plan();
        while reads.has_room(proven, self.reads.next) {
            let at = self.reads;
            if limit.is_some_and(|limit| is_reached(at.count(), limit)) {
                break;
            }
            let Some(load) = plan.loads.get(at.next) else { break };
            let target = at.steps.wrapping_add_signed(load.release);
            if !self.shared.steps_done.reached(target) {
                return Ok(Polled::Blocked(target));
            }
            if let Some(accelerator) = self.shared.accelerator() {
                // What has begun is not kept from whoever needs it by a wait.
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

    /// With a staging ring: issues the next copy, or performs the next read.
    fn stage<S: Storage>(
        &mut self,
        weights: &mut Weights<'m, 'a>,
        storage: &mut S,
        accelerator: &dyn Accelerator,
    ) -> Result<Polled, LoadError> {
        let Some(proven) = self.proven else { return Ok(Polled::Idle) };
        let plan = proven.plan();
        if plan.loads.is_empty() {
            return Ok(Polled::Idle);
        }
        if let Some(error) = self.broken {
            return Err(self.failed(plan, self.loads, error));
        }
        match self.copy(&proven, weights, accelerator)? {
            Polled::Blocked(target) => self.read(&proven, weights, accelerator, storage, target),
            polled => Ok(polled),
        }
    }

    /// Issues the next copy if its bytes have been read and its release is issued.
    fn copy(
        &mut self,
        proven: &Proven<'_>,
        weights: &mut Weights<'m, 'a>,
        accelerator: &dyn Accelerator,
    ) -> Result<Polled, LoadError> {
        let (plan, at) = (proven.plan(), self.loads);
        let load = &plan.loads[at.next];
        let target = at.steps.wrapping_add_signed(load.release);
        let read = self.reads.count() != at.count();
        if !read || !self.shared.steps_done.reached(target) {
            return Ok(Polled::Blocked(target));
        }
        let start = plan.stages.get(at.next).map_or(0, |stage| stage.address);
        let mut issue = || {
            accelerator.follow(Stream::Copies, Stream::Kernels, target)?;
            if let Some(ring) = weights.ring() {
                ring.copy(proven, accelerator, start, load.bytes.into(), load.address)?;
            }
            accelerator.record(Stream::Copies, at.count().wrapping_add(1))
        };
        issue().map_err(|error| self.failed(plan, at, error))?;
        self.loads.advance(plan);
        self.shared.loads_done.set(self.loads.count());
        Ok(Polled::Loaded)
    }

    /// Performs the next read if its thresholds are issued, when they are complete. The next copy is released at
    /// `copy`.
    fn read<S: Storage>(
        &mut self,
        proven: &Proven<'_>,
        weights: &mut Weights<'m, 'a>,
        accelerator: &dyn Accelerator,
        storage: &mut S,
        copy: u32,
    ) -> Result<Polled, LoadError> {
        let (plan, at) = (proven.plan(), self.reads);
        let Some(stage) = plan.stages.get(at.next) else { return Ok(Polled::Blocked(copy)) };
        let copies = at.loads.wrapping_add_signed(stage.copies);
        let steps = at.steps.wrapping_add_signed(stage.steps);
        let copied = is_reached(self.loads.count(), copies);
        if !copied || !self.shared.steps_done.reached(steps) {
            // Whatever comes first: the release of a copy that has been read, or what the read waits for. The count may
            // have passed either since it was looked at.
            let now = self.shared.steps_done.get();
            let pending = self.loads.count() != at.count();
            return Ok(Polled::Blocked(match (pending, copied) {
                (true, true) => first_of(now, copy, steps),
                (true, false) => copy,
                (false, _) => steps,
            }));
        }
        let number = at.next as u32;
        self.shared.tell(Event::LoadBegins(number));
        self.complete(accelerator, Stream::Kernels, steps)
            .and_then(|()| self.complete(accelerator, Stream::Copies, copies))
            .map_err(|error| self.failed(plan, at, error))?;
        let load = &plan.loads[at.next];
        let part = weights.ring().and_then(|ring| ring.part(stage.address, load.bytes.into()));
        if let Some(bytes) = part {
            read(self.shared, storage, load, plan.resident.len() as u32 + number, bytes)?;
        }
        self.shared.tell(Event::LoadEnds(number));
        self.reads.advance(plan);
        self.shared.reads_done.set(self.reads.count());
        Ok(Polled::Read)
    }

    /// Returns when the accelerator has completed what the executor counts as issued up to `count`.
    fn complete(
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

    fn failed(&self, plan: &PlanView<'_>, at: Position, error: DeviceError) -> LoadError {
        LoadError::Device { load: (plan.resident.len() + at.next) as u32, error }
    }
}

/// Whether a count has come as far as `target`.
fn is_reached(count: u32, target: u32) -> bool {
    count.wrapping_sub(target) as i32 >= 0
}

/// That of two targets which a count reaches, or has passed, first.
fn first_of(count: u32, a: u32, b: u32) -> u32 {
    let ahead = |target: u32| target.wrapping_sub(count) as i32;
    if ahead(a) <= ahead(b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_targets_is_one_that_was_passed() {
        for count in [0, 7, u32::MAX - 3, u32::MAX, 1 << 31] {
            let [passed, here, next, later] = [-2, 0, 3, 9].map(|by| count.wrapping_add_signed(by));
            for (first, second) in [(next, later), (here, next), (passed, later), (passed, here)] {
                assert_eq!(first_of(count, first, second), first);
                assert_eq!(first_of(count, second, first), first);
            }
        }
    }
}
