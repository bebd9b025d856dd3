//! Loads to a GPU that has a memory of its own: a read into the staging ring, and then a copy that
//! the GPU makes.
//!
//! They are two stages with a position each: reads run ahead of copies as far as their
//! [`Stage`](crate::pack::Stage) permits. A copy is issued as soon as its read is done and its
//! release is issued, with the wait for it; a read blocks the loader, so it is what has the time.

use super::progress::{LoadProgress, Polled, is_reached};
use crate::arena::Weights;
use crate::device::accelerator::{Accelerator, Stream};
use crate::executor::load_error::LoadError;
use crate::executor::observer::Event;
use crate::executor::shared::Shared;
use crate::pack::Load;
use crate::proof::Proven;
use crate::storage::Storage;

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

/// Performs one resident load. Only while neither side is at work.
pub(in crate::executor) fn resident<S: Storage>(
    shared: &Shared<'_>,
    proven: &Proven<'_>,
    weights: &mut Weights<'_, '_>,
    storage: &mut S,
    index: usize,
) -> Result<(), LoadError> {
    let (load, number) = (proven.plan().resident.at(index), index as u32);
    let Some((accelerator, ring)) = shared.discrete().zip(weights.ring()) else { return Ok(()) };
    // Piece by piece, each as long as the ring.
    let (mut at, mut crc) = (0, 0);
    let bytes = u64::from(load.bytes);
    while at < bytes {
        let piece = (bytes - at).min(ring.len() as u64);
        let Some(target) = ring.part(0, piece).filter(|target| !target.is_empty()) else { break };
        fetch(shared, storage, &load, number, target, at)?;
        crc = shared.crc32c(crc, target);
        ring.copy(proven, accelerator, 0, piece, load.address + at)
            .and_then(|()| accelerator.drain(Stream::Copies))
            .map_err(|error| LoadError::Device { load: number, error })?;
        at += piece;
    }
    shared.check(&load, number, crc)
}

impl<'m, 'a> LoadProgress<'m, 'a> {
    /// With a staging ring: issues the next copy, or performs the next read.
    pub fn stage<S: Storage>(
        &mut self,
        weights: &mut Weights<'m, 'a>,
        storage: &mut S,
        accelerator: &dyn Accelerator,
    ) -> Result<Polled, LoadError> {
        let Some(proven) = self.proven.get().copied() else { return Ok(Polled::Idle) };
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
        let load = plan.loads.at(at.next);
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

    /// Performs the next read if its thresholds are issued, when they are complete. The next copy
    /// is released at `copy`.
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
            // Whatever comes first: the release of a copy that has been read, or what the read
            // waits for. The count may have passed either since it was looked at.
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
        let load = plan.loads.at(at.next);
        let part = weights.ring().and_then(|ring| ring.part(stage.address, load.bytes.into()));
        if let Some(bytes) = part {
            let load_number = plan.resident.len() as u32 + number;
            fetch(self.shared, storage, &load, load_number, bytes, 0)?;
            self.shared.check(&load, load_number, self.shared.crc32c(0, bytes))?;
        }
        self.shared.tell(Event::LoadEnds(number));
        self.reads.advance(plan);
        self.shared.reads_done.set(self.reads.count());
        Ok(Polled::Read)
    }
}

/// The one of two targets that a count reaches first, or has passed.
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
