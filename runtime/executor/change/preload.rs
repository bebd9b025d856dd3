//! Residents: loads that are read once, when a plan is entered.
//!
//! They begin in the order of the plan, as long as the storage accepts more. They are verified in
//! that order while others are in flight.

use super::residents::Saved;
use crate::arena::{LoadList, Reads, Weights};
use crate::executor::load::copied;
use crate::executor::load_error::LoadError;
use crate::executor::shared::Shared;
use crate::executor::switch::Switch;
use crate::proof::Proven;
use crate::storage::Storage;
use crate::sys::discard::has_room;
use heapless::Vec;

/// So many that are missing are found before they are read: the records of those that are there lie
/// in the arena, and are looked at while nothing is in flight.
const BATCH: usize = 128;

/// Reads the residents that are not where they belong. Only while neither side is at work.
pub(in crate::executor) fn preload<S: Storage>(
    shared: &Shared<'_>,
    proven: &Proven<'_>,
    weights: &mut Weights<'_, '_>,
    storage: &mut S,
    saved: &Saved,
    switch: &mut Switch,
) -> Result<(), LoadError> {
    let residents = proven.plan().resident;
    // Where the records are saved, last: they are needed up to then.
    for last in [false, true] {
        let mut rest = residents.iter().enumerate();
        loop {
            let mut missing = Vec::<usize, BATCH>::new();
            for (index, load) in rest.by_ref() {
                if saved.meets(&load) != last
                    || saved.holds(weights.behind(proven), proven.start(), &load)
                {
                    continue;
                }
                switch.read_bytes += u64::from(load.bytes);
                // It stops when there is none left.
                has_room(missing.push(index));
                if missing.is_full() {
                    break;
                }
            }
            if missing.is_empty() {
                break;
            }
            read(shared, proven, weights, storage, &missing)?;
        }
    }
    Ok(())
}

/// Reads these residents.
fn read<S: Storage>(
    shared: &Shared<'_>,
    proven: &Proven<'_>,
    weights: &mut Weights<'_, '_>,
    storage: &mut S,
    residents: &[usize],
) -> Result<(), LoadError> {
    if shared.discrete().is_some() {
        let mut each = residents.iter();
        return each.try_for_each(|&at| copied::resident(shared, proven, weights, storage, at));
    }
    weights.reading(storage, LoadList::Resident, shared.depth, |reads| {
        let mut next = residents;
        for &index in residents {
            begin(shared, proven, reads, &mut next);
            let (load, number) = (proven.plan().resident.at(index), index as u32);
            let arrived = reads.oldest(0).unwrap_or(Ok(()));
            arrived.map_err(|error| LoadError::Storage { load: number, error })?;
            if reads.is_idle() {
                // The checksum is no reason for the device to rest.
                begin(shared, proven, reads, &mut next);
            }
            shared.check(&load, number, shared.crc32c(0, reads.bytes()))?;
            reads.finish();
        }
        Ok(())
    })
}

/// Begins these residents until there is no room, and leaves the others.
fn begin<S: Storage>(
    shared: &Shared<'_>,
    proven: &Proven<'_>,
    reads: &mut Reads<'_, '_, '_, '_, S>,
    residents: &mut &[usize],
) {
    while let Some((&index, rest)) = residents.split_first() {
        if !reads.has_room(proven, index) {
            break;
        }
        let offset = proven.plan().resident.at(index).offset;
        reads.begin(proven, index, shared.header.weights_offset + offset);
        *residents = rest;
    }
}
