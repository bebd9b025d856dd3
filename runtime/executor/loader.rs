//! The loader: performs the plan's loads in order, each as soon as its release permits.

use super::observer::Event;
use super::shared::Shared;
use crate::arena::{LoadList, Weights};
use crate::pack::{Load, crc32c::crc32c};
use crate::storage::{Storage, StorageError};
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
        }
    }
}

impl core::error::Error for LoadError {}

/// Reads one load into its place and verifies it.
pub(super) fn perform<S: Storage>(
    shared: &Shared<'_>,
    weights: &mut Weights<'_>,
    storage: &mut S,
    list: LoadList,
    index: usize,
) -> Result<(), LoadError> {
    let plan = shared.proven.plan();
    let (load, number): (&Load, usize) = match list {
        LoadList::Resident => (&plan.resident[index], index),
        LoadList::Streamed => (&plan.loads[index], plan.resident.len() + index),
    };
    let number = number as u32;
    let target = weights.target(&shared.proven, list, index);
    storage
        .read(shared.weights_offset + load.offset, target)
        .map_err(|error| LoadError::Storage { load: number, error })?;
    if shared.verify {
        let found = crc32c(0, target);
        if found != load.crc {
            return Err(LoadError::Checksum { load: number, found, expected: load.crc });
        }
    }
    Ok(())
}

/// The loader side of an instance.
#[derive(Debug)]
pub struct Loader<'m, 'a> {
    shared: &'m Shared<'a>,
    weights: Weights<'m>,
    /// Next load of this inference.
    next: usize,
    /// Value of `steps_done` at which the inference of the next load starts.
    base: u32,
}

/// What the loader did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Polled {
    /// One load.
    Loaded,
    /// Nothing: the next load is not released before `steps_done` has reached this.
    Blocked(u32),
    /// Nothing: the plan streams nothing.
    Idle,
}

impl<'m, 'a> Loader<'m, 'a> {
    pub(super) fn new(shared: &'m Shared<'a>, weights: Weights<'m>) -> Self {
        Self { shared, weights, next: 0, base: 0 }
    }

    /// Performs the next load if its release permits it.
    pub(super) fn poll<S: Storage>(&mut self, storage: &mut S) -> Result<Polled, LoadError> {
        let plan = self.shared.proven.plan();
        let Some(load) = plan.loads.get(self.next) else {
            return Ok(Polled::Idle);
        };
        let target = self.base.wrapping_add_signed(load.release);
        if !self.shared.steps_done.reached(target) {
            return Ok(Polled::Blocked(target));
        }
        self.shared.tell(Event::LoadBegins(self.next as u32));
        perform(self.shared, &mut self.weights, storage, LoadList::Streamed, self.next)?;
        self.shared.tell(Event::LoadEnds(self.next as u32));
        self.next += 1;
        if self.next == plan.loads.len() {
            self.next = 0;
            self.base = self.base.wrapping_add(plan.period());
        }
        let done = self.shared.loads_done.get().wrapping_add(1);
        self.shared.loads_done.set(done);
        Ok(Polled::Loaded)
    }

    /// Back to the first load, after [`Shared::restart`].
    pub(super) fn restart(&mut self) {
        (self.next, self.base) = (0, 0);
    }

    /// Loads until told to stop: the body of a loader thread.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub(super) fn run<S: Storage>(&mut self, storage: &mut S) {
        let shared = self.shared;
        let stopped = || shared.stop.load(Ordering::Acquire);
        while !stopped() {
            match self.poll(storage) {
                Ok(Polled::Loaded) => {}
                Ok(Polled::Idle) => return,
                Ok(Polled::Blocked(target)) => {
                    shared.steps_done.wait_until(target, 0, stopped);
                }
                Err(error) => {
                    let epoch = shared.epoch.get();
                    shared.failure.put(error);
                    shared.loads_done.wake();
                    shared.epoch.wait_until(epoch.wrapping_add(1), 0, stopped);
                    self.restart();
                }
            }
        }
    }
}
