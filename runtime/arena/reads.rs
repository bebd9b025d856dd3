//! Loads whose bytes a device writes while the loader goes on: [`InFlight`], of places in the
//! arena.
//!
//! [`Reads`] has the loader's allocator to itself as long as any read may be in flight, and is only
//! lent, as that is.
#![allow(unsafe_code)]

use super::{Chunks, LoadList, Weights};
use crate::proof::Proven;
use crate::storage::{InFlight, Storage, StorageError};
use crate::sys::discard::has_room;
use heapless::Vec;

/// The loads that have begun and are not yet used, in order.
#[derive(Debug)]
pub(crate) struct Reads<'r, 'q, 'm, 'a, S: Storage> {
    weights: &'r mut Weights<'m, 'a>,
    list: LoadList,
    in_flight: &'r mut InFlight<'q, S>,
}

impl<'m, 'a> Weights<'m, 'a> {
    /// Calls `body` with the means to have at most `depth` reads in flight, for loads of one list.
    /// Returns when none is in flight any more.
    pub(crate) fn reading<S: Storage, T>(
        &mut self,
        storage: &mut S,
        list: LoadList,
        depth: u32,
        body: impl FnOnce(&mut Reads<'_, '_, 'm, 'a, S>) -> T,
    ) -> T {
        InFlight::lend(storage, depth as usize, |in_flight| {
            body(&mut Reads { weights: self, list, in_flight })
        })
    }
}

impl<'m, 'a, S: Storage> Reads<'_, '_, 'm, 'a, S> {
    /// Waits for all loads that have begun, forgets them, and lends the allocator and the storage.
    pub fn at_rest(&mut self) -> (&mut Weights<'m, 'a>, &mut S) {
        (self.weights, self.in_flight.at_rest())
    }

    /// Whether no load has begun that has not been [finished](Self::finish).
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether the device has nothing to do, as far as is known, though it could have.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_idle()
    }

    /// Whether loads go on while the loader does something else.
    pub fn goes_on(&mut self) -> bool {
        self.in_flight.goes_on()
    }

    /// Whether the load that began first need not be waited for.
    pub fn has_arrived(&mut self) -> bool {
        self.in_flight.has_arrived()
    }

    /// Whether load `index` may begin: not too much is in flight, and none that has begun has bytes
    /// in common with it.
    pub fn has_room(&mut self, proven: &Proven<'_>, index: usize) -> bool {
        self.in_flight.has_room(self.weights.target(proven, self.list, index))
    }

    /// Begins load `index`, from byte `offset` of the storage on. Does nothing where there is no
    /// [room](Self::has_room).
    ///
    /// As [`Weights::target`] has it: only from the moment its release permits the load.
    pub fn begin(&mut self, proven: &Proven<'_>, index: usize, offset: u64) {
        let bytes = self.weights.target(proven, self.list, index);
        // SAFETY:
        // - `Proven` found the bytes inside the arena.
        // - It found them disjoint from all that steps and the host touch while the load may be in
        //   flight.
        // - The loader reaches the arena only through the allocator, which `reading` borrowed
        //   mutably. It is given back when nothing is in flight.
        unsafe { self.in_flight.begin(offset, bytes) }
    }

    /// Waits for the load that began first, and returns its result; `None` if there is none. Spins
    /// for `spin_ns` before it sleeps.
    pub fn oldest(&mut self, spin_ns: u64) -> Option<Result<(), StorageError>> {
        self.in_flight.oldest(spin_ns)
    }

    /// The bytes of the load that began first; none as long as it has not arrived.
    pub fn bytes(&self) -> &[u8] {
        self.in_flight.bytes()
    }

    /// Takes the load that began first off the list, when it has arrived.
    pub fn finish(&mut self) {
        self.in_flight.finish();
    }
}

/// The allocator of one of several networks, and its reads in flight. All of them are waited for before
/// [`lanes`](Self::lanes) returns.
#[derive(Debug)]
pub(crate) struct Lane<'m, 'a, 'q, S: Storage> {
    // Dropped first: it waits.
    in_flight: InFlight<'q, S>,
    weights: Weights<'m, 'a>,
}

impl<'m, 'a, 'q, S: Storage> Lane<'m, 'a, 'q, S> {
    /// Calls `body` with a lane for each network: its allocator, its storage, and how many reads it may have in flight.
    /// There are at most `N`. Returns when no read of any is in flight any more.
    pub fn lanes<T, const N: usize>(
        networks: impl Iterator<Item = (Weights<'m, 'a>, &'q mut S, u32)>,
        body: impl FnOnce(&mut [Self]) -> T,
    ) -> T {
        let mut lanes = Vec::<_, N>::new();
        for (weights, storage, depth) in networks {
            // SAFETY: it is dropped at the end of this function, by a panic too. It is only lent to `body`, which has no
            // other to put in its place.
            let in_flight = unsafe { InFlight::new(storage, depth as usize) };
            has_room(lanes.push(Self { in_flight, weights }));
        }
        body(&mut lanes)
    }

    /// The means to read loads of one list.
    pub fn reads(&mut self, list: LoadList) -> Reads<'_, 'q, 'm, 'a, S> {
        Reads { weights: &mut self.weights, list, in_flight: &mut self.in_flight }
    }

    /// Begins to read the part of resident `index` that lies in a chunk, which has memory, from byte `weights` of the storage on.
    /// `Some(false)` where no part of it does; `None`, if there is no room for a read yet.
    ///
    /// Only while no step of the network runs before the read has been finished.
    pub fn begin_part(
        &mut self,
        proven: &Proven<'_>,
        chunks: &Chunks<'_>,
        chunk: usize,
        index: usize,
        weights: u64,
    ) -> Option<bool> {
        let part = self.weights.part(proven, index, &chunks.bytes(chunk));
        let Some((first, bytes)) = part.filter(|_| chunks.is_mapped(chunk)) else {
            return Some(false);
        };
        if !self.in_flight.has_room(bytes) {
            return None;
        }
        let load = proven.plan().resident.at(index);
        let offset = weights.saturating_add(load.offset).saturating_add(first);
        // SAFETY:
        // - The bytes are inside of a load, which `Proven` found inside of the arena.
        // - They are inside of a chunk, which has memory until it leaves: not while a read is in
        //   flight.
        // - By the caller's promise, no step runs and no other side has the bytes before the read
        //   has been finished.
        unsafe { self.in_flight.begin(offset, bytes) };
        Some(true)
    }
}
