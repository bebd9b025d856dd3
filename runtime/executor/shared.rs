//! The state that loader and compute side share: the network, the counters, and their messages.

use super::header::{Room, shapes, weights};
use super::load_error::LoadError;
use super::observer::{Event, Observer};
use super::options::Options;
use super::switch::{PlanError, Switch};
use crate::arena::Lapsing;
use crate::device::accelerator::{Accelerator, Home, drain};
use crate::device::{DeviceError, handoff::Handoff};
use crate::kernels::Kernels;
use crate::ops::cuda::Launch;
use crate::pack::{Header, Isa, Load, PlanEntry, ShapeEntry, crc32c::crc32c};
use crate::proof::Proven;
use crate::storage::MAX_DEPTH;
use crate::sys::futex::Counter;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The state that the loader and the compute side both see.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    /// Header, shapes and plans, at the front of the arena: what of the pack stays there. Or a whole
    /// pack that is used where it lies in memory.
    pub front: &'a [u8],
    pub header: &'a Header,
    /// Bytes of the arena.
    pub arena: u64,
    /// Bytes of fast memory.
    pub fast: u64,
    /// The instruction set whose layout the weights have.
    pub isa: Isa,
    pub engine: Engine<'a>,
    /// Most threads of a device.
    pub threads: u32,
    /// Whether loads are compared with their checksums.
    pub verify: bool,
    /// Most reads in flight at once.
    pub depth: u32,
    /// Most multiply-adds and elements of a step.
    pub step_work: u64,
    /// How long a loader's thread spins for the compute side, and for its storage, before it
    /// sleeps, in nanoseconds.
    pub spin_ns: u64,
    /// Reads into a staging ring; nobody counts others.
    pub reads_done: Counter,
    pub loads_done: Counter,
    /// The last count of loads that the compute side has had to wait for.
    pub awaited: AtomicU32,
    pub steps_done: Counter,
    /// The loader shall return.
    pub stop: AtomicBool,
    /// A request of the compute side: to begin no load before its next request.
    pub rest: AtomicBool,
    /// The error that the loader has stopped at.
    pub failure: Handoff<LoadError>,
    /// Counts what the compute side has asked the loader for, another plan or to start over, and
    /// the loader's answers.
    pub requests: Counter,
    pub answers: Counter,
    /// The plan asked for; none to start over.
    pub asked: Handoff<PlanEntry>,
    pub answer: Handoff<Answer<'a>>,
    /// Gets the events.
    pub observer: Option<&'a dyn Observer>,
}

/// The device that computes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Engine<'a> {
    /// The processor, by these kernels.
    Processor(&'static Kernels),
    /// A device that does it by itself, and what launches a step there. Programs that open nothing
    /// on an accelerator are linked without that.
    Accelerator(&'a dyn Accelerator, Launch),
}

/// The plan that was asked for, or why it cannot be followed.
pub(super) type Answer<'a> = Result<(Lapsing<Proven<'a>>, Switch), PlanError>;

impl<'a> Shared<'a> {
    pub fn new(
        front: &'a [u8],
        header: &'a Header,
        Room { arena, fast }: Room,
        (isa, engine): (Isa, Engine<'a>),
        options: Options,
    ) -> Self {
        Self {
            front,
            header,
            arena,
            fast,
            isa,
            engine,
            threads: options.threads.max(1),
            verify: options.verify,
            depth: options.depth,
            step_work: options.step_work,
            spin_ns: 0,
            reads_done: Counter::new(),
            loads_done: Counter::new(),
            awaited: AtomicU32::new(0),
            steps_done: Counter::new(),
            stop: AtomicBool::new(false),
            rest: AtomicBool::new(false),
            failure: Handoff::default(),
            requests: Counter::new(),
            answers: Counter::new(),
            asked: Handoff::default(),
            answer: Handoff::default(),
            observer: None,
        }
    }

    /// How long the loader spins for its storage: only where one of the last loads was waited for,
    /// of which several may have come together. One that is ahead has the time to be woken, and its
    /// spinning would take from the other's core where two share its execution units.
    pub fn read_spin_ns(&self) -> u64 {
        let ahead = self.loads_done.get().wrapping_sub(self.awaited.load(Ordering::Relaxed));
        if ahead as i32 <= MAX_DEPTH as i32 { self.spin_ns } else { 0 }
    }

    /// CRC-32C of more bytes of a load, if it is to be compared.
    pub fn crc32c(&self, crc: u32, bytes: &[u8]) -> u32 {
        if self.verify { crc32c(crc, bytes) } else { 0 }
    }

    /// Compares the checksum of all of a load's bytes with the pack's.
    pub fn check(&self, load: &Load, number: u32, found: u32) -> Result<(), LoadError> {
        if self.verify && found != load.crc {
            return Err(LoadError::Checksum { load: number, found, expected: load.crc });
        }
        Ok(())
    }

    /// Reports an event to the observer, if there is one.
    pub fn tell(&self, event: Event) {
        if let Some(observer) = self.observer {
            observer.event(event);
        }
    }

    /// The memory that plans may use.
    pub fn room(&self) -> Room {
        Room { arena: self.arena, fast: self.fast }
    }

    /// The pack, if it is used where it lies in memory.
    pub fn pack(&self) -> Option<&'a [u8]> {
        (self.header.mapped != 0).then_some(self.front)
    }

    /// The weights section of a pack that is used where it lies in memory.
    pub fn mapped_weights(&self) -> &'a [u8] {
        self.pack().map_or(&[], |pack| weights(pack, self.header))
    }

    /// The shape of a plan.
    pub fn shape(&self, entry: &PlanEntry) -> ShapeEntry {
        self.shape_at(entry.shape)
    }

    /// The shape of that number.
    pub fn shape_at(&self, index: u16) -> ShapeEntry {
        shapes(self.front, self.header.shapes).nth(index.into()).unwrap_or_default()
    }

    /// The device that computes by itself, if there is one.
    pub fn accelerator(&self) -> Option<&'a dyn Accelerator> {
        match self.engine {
            Engine::Processor(_) => None,
            Engine::Accelerator(accelerator, _) => Some(accelerator),
        }
    }

    /// The device that computes by itself, if it has a memory of its own: a discrete GPU.
    pub fn discrete(&self) -> Option<&'a dyn Accelerator> {
        self.accelerator().filter(|accelerator| matches!(accelerator.home(), Home::Own(..)))
    }

    /// Returns when an accelerator has nothing more to do.
    pub fn drain(&self) -> Result<(), DeviceError> {
        self.accelerator().map_or(Ok(()), drain)
    }

    /// Before two sides begin: all counters at zero, and nothing left to do for an accelerator by
    /// those before. Returns whether it has failed.
    pub fn start(&self) -> bool {
        self.rewind();
        self.drain().is_err()
    }

    /// All counters at zero, no error. Only while one side waits for the other, which calls this,
    /// or before there are two.
    pub fn rewind(&self) {
        self.reads_done.set(0);
        self.loads_done.set(0);
        self.awaited.store(0, Ordering::Relaxed);
        self.steps_done.set(0);
        self.failure.clear();
    }
}
