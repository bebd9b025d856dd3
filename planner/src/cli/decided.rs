//! Whether the packs of a set hold what was decided for it.

use super::Error;
use super::error::SetsError;
use super::pack_file::PackFile;
use eyelet::pack::PAGE;
use eyelet_tasks::set::decided::{Decided, Pack, Planned};
use std::collections::BTreeMap;

/// Refuses a set with a pack that is another one than it was decided for.
pub fn verify(decided: &Decided) -> Result<(), Error> {
    let mut packs: BTreeMap<&Pack, PackFile> = BTreeMap::new();
    for (k, planned) in decided.packs.iter().enumerate() {
        if !packs.contains_key(&planned.pack) {
            packs.insert(&planned.pack, PackFile::of_task(&planned.pack)?);
        }
        verify_task(decided, k, planned, &packs[&planned.pack])?;
    }
    Ok(())
}

/// Compares a task with its pack: the plan, its bytes, and what of it leaves memory.
fn verify_task(
    decided: &Decided,
    k: usize,
    planned: &Planned,
    pack: &PackFile,
) -> Result<(), Error> {
    let (cost, path, task) =
        (&decided.set.tasks[k].cost, planned.pack.name(), decided.set.tasks[k].name.clone());
    let Some(entry) = pack.entries.iter().find(|entry| entry.budget == planned.budget) else {
        let plans = pack.entries.iter().map(|entry| entry.budget).collect();
        return Err(SetsError::Budget { path, budget: planned.budget, plans }.into());
    };
    if entry.arena_bytes != cost.bytes {
        let (decided, found) = (cost.bytes, entry.arena_bytes);
        return Err(SetsError::OtherPack { path, task, decided, found }.into());
    }
    let proven = pack.prove(entry)?;
    if proven.streams() != cost.streams {
        let (decided, found) = (cost.streams, proven.streams());
        return Err(SetsError::OtherStreams { path, task, decided, found }.into());
    }
    let (bytes, chunks) = (decided.assignment.chunk_bytes, decided.assignment.chunks[k]);
    let wanted = [chunks, cost.room_of(chunks, bytes)];
    let all = proven.chunks(bytes, PAGE);
    let room = u32::try_from(proven.room_chunks(bytes, PAGE).count()).unwrap_or(u32::MAX);
    // Room leaves memory before weights do.
    match all >= chunks && room.min(chunks) == wanted[1] {
        true => Ok(()),
        false => {
            let (decided, found) = (wanted, [all, room]);
            Err(SetsError::OtherChunks { path, task, decided, found }.into())
        }
    }
}
