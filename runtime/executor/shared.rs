//! What the two sides share: the network, the counters, and what they have to say to each other.

use super::enter::{PlanError, Switch};
use super::{Event, LoadError, Observer, Options};
use crate::device::{futex::Counter, handoff::Handoff};
use crate::kernels::Kernels;
use crate::pack::{Header, PAGE, PlanEntry, Proven, ProvenSkeleton};
use core::sync::atomic::AtomicBool;

/// The state that the loader and the compute side both see.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub network: ProvenSkeleton<'a>,
    /// Header page and skeleton, at the front of the arena.
    pub front: &'a [u8],
    pub header: Header,
    /// Bytes of the arena.
    pub arena: u64,
    pub kernels: &'static Kernels,
    /// Most threads of a device.
    pub threads: u32,
    /// Whether loads are compared with their checksums.
    pub verify: bool,
    pub loads_done: Counter,
    pub steps_done: Counter,
    /// Counts the recoveries from errors: a loader that has failed waits for the next one.
    pub epoch: Counter,
    /// The loader shall return.
    pub stop: AtomicBool,
    /// The error that the loader has stopped at.
    pub failure: Handoff<LoadError>,
    /// Counts the changes of plan that the compute side has asked for, and the loader's answers.
    pub requests: Counter,
    pub answers: Counter,
    /// The plan asked for.
    pub asked: Handoff<PlanEntry>,
    pub answer: Handoff<Answer<'a>>,
    /// Who is told what happens.
    pub observer: Option<&'a dyn Observer>,
}

/// The plan that was asked for, or why it cannot be followed.
pub(super) type Answer<'a> = Result<(Proven<'a>, Switch), PlanError>;

impl<'a> Shared<'a> {
    pub fn new(
        network: ProvenSkeleton<'a>,
        front: &'a [u8],
        header: Header,
        arena: u64,
        kernels: &'static Kernels,
        options: Options,
    ) -> Self {
        Self {
            network,
            front,
            header,
            arena,
            kernels,
            threads: options.threads.max(1),
            verify: options.verify,
            loads_done: Counter::new(),
            steps_done: Counter::new(),
            epoch: Counter::new(),
            stop: AtomicBool::new(false),
            failure: Handoff::default(),
            requests: Counter::new(),
            answers: Counter::new(),
            asked: Handoff::default(),
            answer: Handoff::default(),
            observer: None,
        }
    }

    /// Tells the observer, if there is one.
    pub fn tell(&self, event: Event) {
        if let Some(observer) = self.observer {
            observer.event(event);
        }
    }

    /// Where header and skeleton end in the arena, and a plan's tables start.
    pub fn fixed(&self) -> u64 {
        self.front.len() as u64
    }

    /// The header page.
    pub fn page(&self) -> &'a [u8] {
        &self.front[..PAGE as usize]
    }

    /// Starts over at the first load and the first step. Only while neither side is at work: the
    /// loader has failed or has not started, the compute side calls this.
    pub fn restart(&self) {
        self.rewind();
        self.epoch.set(self.epoch.get().wrapping_add(1));
    }

    /// Both counters at zero, no error. Only while neither side is at work: as for [`restart`](Self::restart), or
    /// the compute side waits and the loader calls this.
    pub fn rewind(&self) {
        self.loads_done.set(0);
        self.steps_done.set(0);
        self.failure.clear();
    }
}
