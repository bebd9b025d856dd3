//! What the two sides share: the proved plan and the counters.

use super::{Event, LoadError, Observer, Options};
use crate::device::{futex::Counter, handoff::Handoff};
use crate::kernels::Kernels;
use crate::pack::Proven;
use core::sync::atomic::AtomicBool;

/// The state that the loader and the compute side both see.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub proven: Proven<'a>,
    pub kernels: &'static Kernels,
    /// Where the weights section starts in the pack.
    pub weights_offset: u64,
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
    /// Who is told what happens.
    pub observer: Option<&'a dyn Observer>,
}

impl<'a> Shared<'a> {
    pub fn new(
        proven: Proven<'a>,
        kernels: &'static Kernels,
        weights_offset: u64,
        options: Options,
    ) -> Self {
        Self {
            proven,
            kernels,
            weights_offset,
            threads: options.threads.max(1),
            verify: options.verify,
            loads_done: Counter::new(),
            steps_done: Counter::new(),
            epoch: Counter::new(),
            stop: AtomicBool::new(false),
            failure: Handoff::default(),
            observer: None,
        }
    }

    /// Tells the observer, if there is one.
    pub fn tell(&self, event: Event) {
        if let Some(observer) = self.observer {
            observer.event(event);
        }
    }

    /// Starts over at the first load and the first step. Only while neither side is at work: the
    /// loader has failed or has not started, the compute side calls this.
    pub fn restart(&self) {
        self.loads_done.set(0);
        self.steps_done.set(0);
        self.failure.clear();
        self.epoch.set(self.epoch.get().wrapping_add(1));
    }
}
