//! Making a plan the one that is followed: skeleton and tables into the arena, proof, residents.
//! `open` enters the first plan, a change of budget or shape the next.

use super::preload::preload;
use super::residents::{Saved, room};
use crate::arena::{Lapsing, Weights};
use crate::device::Accelerator;
use crate::device::accelerator::Home;
use crate::executor::header::page_up;
use crate::executor::shared::Shared;
use crate::executor::switch::{PlanError, Switch};
use crate::pack::crc32c::crc32c;
use crate::pack::{Flaw, PAGE, PlanEntry, PlanView, SKELETON, ShapeEntry, Skeleton, flaw};
use crate::proof::{Bounds, Proven, ProvenSkeleton};
use crate::storage::{Storage, StorageError};
use crate::sys::now_ns;

/// Where a plan's tables end in the arena. They take a page at least. Those of a pack that is used
/// where it lies in memory are not in the arena.
pub(in crate::executor) fn tables_end(shared: &Shared<'_>, entry: &PlanEntry) -> Result<u64, Flaw> {
    if shared.pack().is_some() {
        return Ok(0);
    }
    let end = shared.shape(entry).front() + page_up(entry.bytes.max(1));
    let limit = entry.arena_bytes;
    if end > limit {
        return Err(flaw("plan: its tables do not fit its arena", end, limit));
    }
    Ok(end)
}

/// Reads a shape's skeleton, unless it is used where it lies in memory, and proves it. Nothing of
/// another plan may be in use.
pub(in crate::executor) fn network<'a, S: Storage>(
    shared: &Shared<'a>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    shape: &ShapeEntry,
) -> Result<ProvenSkeleton<'a>, PlanError> {
    let bytes = match shared.pack() {
        Some(pack) => in_pack(pack, shape.offset, shape.bytes)?,
        None => read_skeleton(weights, storage, shape)?,
    };
    verify("skeleton", bytes, shape.crc)?;
    let weights_bytes = shared.header.weights_bytes;
    Ok(ProvenSkeleton::new(Skeleton::view(bytes)?, shared.isa, weights_bytes)?)
}

/// A section of a pack that lies in memory.
fn in_pack(pack: &[u8], offset: u64, bytes: u32) -> Result<&[u8], Flaw> {
    let end = offset.saturating_add(bytes.into());
    let section = pack.get(offset as usize..end as usize);
    section.ok_or(flaw("pack: section beyond the file", end, pack.len() as u64))
}

/// Reads a skeleton into the arena.
///
/// Reads are whole pages, but the skeleton lies in the header's page: it is read to the page after
/// that and moved. There is room where a plan's tables will be.
fn read_skeleton<'a, S: Storage>(
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    shape: &ShapeEntry,
) -> Result<&'a [u8], PlanError> {
    let (bytes, whole) = (shape.bytes as usize, page_up(shape.bytes));
    let beyond = flaw("skeleton: beyond the arena", PAGE + whole, weights.len());
    let all = weights.between(SKELETON, PAGE + whole).ok_or(beyond)?;
    let page = (PAGE - SKELETON) as usize;
    let section = all.get_mut(page..).ok_or(beyond)?;
    storage.read(shape.offset, section).map_err(PlanError::Storage)?;
    all.copy_within(page..page + bytes, 0);
    Ok(weights.tables(SKELETON, bytes).ok_or(beyond)?)
}

/// Compares the checksum of a section.
fn verify(section: &'static str, bytes: &[u8], expected: u32) -> Result<(), PlanError> {
    match crc32c(0, bytes) {
        found if found == expected => Ok(()),
        found => Err(PlanError::Checksum { section, found, expected }),
    }
}

/// Reads the tables of a plan for `network`, which is in the arena, and proves them. Nothing of
/// another plan may be in use.
///
/// The proof is made every time, of the bytes that lie in the arena now: a checksum that was right
/// when the pack was opened says nothing of what a storage returns later, and the proof takes less
/// time than the read.
pub(in crate::executor) fn tables<'a, S: Storage>(
    shared: &Shared<'a>,
    network: &ProvenSkeleton<'a>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    entry: &PlanEntry,
) -> Result<Proven<'a>, PlanError> {
    let end = tables_end(shared, entry)?;
    let bytes = match shared.pack() {
        Some(pack) => in_pack(pack, entry.offset, entry.bytes)?,
        None => read_tables(shared, weights, storage, entry, end)?,
    };
    verify("plan", bytes, entry.crc)?;
    let bounds = Bounds {
        tables: end,
        arena: entry.arena_bytes,
        fast: entry.fast_bytes(),
        threads: shared.threads,
        step_work: shared.step_work,
        effort: Bounds::effort_for(shared.header.file_bytes, shared.header.plans),
        mapped: shared.pack().is_some(),
    };
    Ok(Proven::new(network, PlanView::view(bytes)?, bounds)?)
}

/// Reads the tables of a plan into the arena, where they end at `end`.
fn read_tables<'a, S: Storage>(
    shared: &Shared<'a>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    entry: &PlanEntry,
    end: u64,
) -> Result<&'a [u8], PlanError> {
    let start = shared.shape(entry).front();
    let beyond = flaw("plan: beyond the arena", end, weights.len());
    let section = weights.between(start, end).ok_or(beyond)?;
    storage.read(entry.offset, section).map_err(PlanError::Storage)?;
    Ok(weights.tables(start, entry.bytes as usize).ok_or(beyond)?)
}

/// Reads a plan's tables, and has its residents: those of `old`, the plan that was followed so far,
/// are used again. Reads the skeleton of its shape, unless that is in the arena and `known`.
///
/// Only while the compute side waits and has no plan. On an error nothing in the arena is of use.
pub(in crate::executor) fn enter<'a, S: Storage>(
    shared: &Shared<'a>,
    known: Option<ProvenSkeleton<'a>>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    entry: &PlanEntry,
    old: Lapsing<Proven<'a>>,
) -> Result<(Lapsing<Proven<'a>>, Switch), PlanError> {
    let start = now_ns();
    let shape = shared.shape(entry);
    let mut switch = Switch { table_bytes: page_up(entry.bytes), ..Switch::default() };
    let kept = if known.is_some() { shape.front() } else { SKELETON };
    let saved = match old.get() {
        Some(old) if shared.discrete().is_none() && shared.pack().is_none() => {
            save(shared, weights, old, entry, kept)?
        }
        // In a memory of the GPU's own nothing is moved: residents are read again. So are those of a
        // pack in memory, which is as fast.
        _ => Saved::default(),
    };
    let mut storage = Timed { storage, ns: 0 };
    let network = match known {
        Some(network) => network,
        None => {
            switch.table_bytes += page_up(shape.bytes);
            network(shared, weights, &mut storage, &shape)?
        }
    };
    let proven = tables(shared, &network, weights, &mut storage, entry)?;
    switch.read_ns = storage.ns;
    fits(shared, weights, &proven)?;
    let residents = proven.plan().resident;
    let moving = now_ns();
    let moved = saved.relocate(weights.behind(&proven), proven.start(), residents);
    (switch.kept_bytes, switch.moved_bytes) = (moved.kept_bytes, moved.moved_bytes);
    switch.move_ns = now_ns().wrapping_sub(moving);
    let loading = now_ns();
    preload(shared, &proven, weights, storage.storage, &saved, &mut switch)
        .map_err(PlanError::Load)?;
    switch.read_ns += now_ns().wrapping_sub(loading);
    switch.total_ns = now_ns().wrapping_sub(start);
    Ok((Lapsing::new(proven), switch))
}

/// Refuses a plan that needs a larger staging ring, or more memory of the GPU's own, than there is.
fn fits(
    shared: &Shared<'_>,
    weights: &mut Weights<'_, '_>,
    proven: &Proven<'_>,
) -> Result<(), PlanError> {
    let Some(Home::Own(_, device)) = shared.discrete().map(Accelerator::home) else {
        return Ok(());
    };
    let ring = weights.ring().map_or(0, |ring| ring.len() as u64);
    for (needed, room, what) in [
        (ring_bytes(proven.plan())?, ring, "plan: bytes of its staging ring"),
        (proven.end() - proven.start(), device, "plan: bytes of the GPU's memory"),
    ] {
        if needed > room {
            return Err(flaw(what, needed, room).into());
        }
    }
    Ok(())
}

/// The largest piece in which residents pass the staging ring. A plan whose loads need a smaller
/// ring has one of this size, or of its largest resident.
pub const RESIDENT_PIECE: u64 = 1 << 20;

/// Bytes of staging ring that a plan needs on a GPU with a memory of its own.
pub(in crate::executor) fn ring_bytes(plan: &PlanView<'_>) -> Result<u64, PlanError> {
    if !plan.loads.is_empty() && plan.staging_bytes == 0 {
        return Err(PlanError::Unstaged);
    }
    let largest = plan.resident.iter().map(|load| u64::from(load.bytes)).max();
    Ok(plan.staging_bytes.max(largest.unwrap_or(0).min(RESIDENT_PIECE)))
}

/// Saves the records of the old plan's residents from the new plan's tables, and its skeleton. The
/// first `kept` bytes of the arena stay what they are.
fn save<'a>(
    shared: &Shared<'a>,
    weights: &mut Weights<'_, 'a>,
    old: &Proven<'a>,
    entry: &PlanEntry,
    kept: u64,
) -> Result<Saved, PlanError> {
    let end = tables_end(shared, entry)?;
    let limit = old.end().max(entry.arena_bytes);
    let resident = old.plan().resident.stored();
    let (records, bytes) = (resident.as_ptr().addr(), size_of_val(resident));
    let Some(room) = room(old.plan(), end, limit).filter(|_| bytes > 0) else {
        return Ok(Saved::default());
    };
    // That was the last use of the old plan's tables as such.
    let all = weights.all(kept);
    let first = records.wrapping_sub(all.as_ptr().addr());
    Ok(Saved::new(all, kept, first..first.saturating_add(bytes), room, end))
}

/// A storage, and the time spent in it.
pub(in crate::executor) struct Timed<'s, S> {
    pub storage: &'s mut S,
    pub ns: u64,
}

impl<S: Storage> Storage for Timed<'_, S> {
    fn len(&self) -> Result<u64, StorageError> {
        self.storage.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let start = now_ns();
        let result = self.storage.read(offset, into);
        self.ns = self.ns.wrapping_add(now_ns().wrapping_sub(start));
        result
    }

    fn alignment(&self) -> u64 {
        self.storage.alignment()
    }
}
