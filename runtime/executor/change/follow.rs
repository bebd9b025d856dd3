//! Following another plan in a range of addresses whose chunks have no memory.
//!
//! The bytes that the new plan keeps are mapped first. Then its tables are read and proved, as ever. So are residents
//! outside of chunks: they were verified when the pack was opened, and are compared with their checksum. Chunks come when
//! the next job needs them.

use super::enter::{Timed, network, tables};
use crate::arena::{Chunks, Lapsing, Weights};
use crate::executor::load::progress::LoadProgress;
use crate::executor::shared::Shared;
use crate::executor::switch::{PlanError, Switch};
use crate::pack::{PlanEntry, flaw};
use crate::proof::{Proven, ProvenSkeleton};
use crate::storage::Storage;
use crate::sys::now_ns;

/// Changes to another plan and answers whoever has asked for it. All chunks are out, and no read is in flight.
pub(in crate::executor) fn follow<'a, S: Storage>(
    progress: &mut LoadProgress<'_, 'a>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    chunks: &mut Chunks<'a>,
    entry: &PlanEntry,
) {
    let old = core::mem::replace(&mut progress.proven, Lapsing::NONE);
    let shape = core::mem::replace(&mut progress.shape, entry.shape);
    let known = old.get().filter(|_| shape == entry.shape).map(Proven::network);
    progress.restart();
    let answer = enter(progress.shared, known, weights, storage, chunks, entry);
    progress.proven = answer.map_or(Lapsing::NONE, |(proven, _)| proven);
    progress.shared.answer.put(answer);
}

fn enter<'a, S: Storage>(
    shared: &Shared<'a>,
    known: Option<ProvenSkeleton<'a>>,
    weights: &mut Weights<'_, 'a>,
    storage: &mut S,
    chunks: &mut Chunks<'a>,
    entry: &PlanEntry,
) -> Result<(Lapsing<Proven<'a>>, Switch), PlanError> {
    let (start, mut storage) = (now_ns(), Timed { storage, ns: 0 });
    let unknown =
        flaw("plan: the network was not opened for it; its place in the pack", entry.offset, 0);
    chunks.follow(entry.offset).ok_or(unknown)?.map_err(PlanError::Arena)?;
    let network = match known {
        Some(network) => network,
        None => network(shared, weights, &mut storage, &shared.shape(entry))?,
    };
    let proven = tables(shared, &network, weights, &mut storage, entry)?;
    let mut switch = Switch { table_bytes: entry.bytes.into(), ..Switch::default() };
    let (mut found, from) = (0, shared.header.weights_offset);
    for (index, load) in proven.plan().resident.iter().enumerate() {
        weights.each_kept(&proven, chunks, index, |first, bytes| {
            let offset = from.saturating_add(load.offset).saturating_add(first);
            storage.read(offset, bytes).map_err(PlanError::Storage)?;
            found = shared.crc32c(found, bytes);
            switch.read_bytes += bytes.len() as u64;
            Ok::<_, PlanError>(())
        })?;
    }
    let expected = chunks.layout().map_or(0, |layout| layout.crc);
    if found != expected {
        return Err(PlanError::Checksum { section: "residents", found, expected });
    }
    (switch.read_ns, switch.total_ns) = (storage.ns, now_ns().wrapping_sub(start));
    Ok((Lapsing::new(proven), switch))
}
