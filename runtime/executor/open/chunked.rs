//! An instance of which chunks come and go: one of several networks that take turns in one memory.
//!
//! A chunk is a part of the plan's arena that may lose its memory between two inferences
//! ([`chunks`](crate::proof::Proven::chunks)). Chunks of weights are read again when they come back, each piece to
//! its place, and compared with the checksum that the chunk had when the pack was opened and verified. Chunks of
//! room hold nothing between two inferences: nothing is read. Where few chunks leave memory, it is room.
//!
//! No step runs unless all chunks are there. So whatever a plan says, what it touches has memory.

use super::instance::Instance;
use crate::arena::{ArenaError, Chunks, Pool};
use crate::executor::compute::budget::BudgetError;
use crate::executor::error::OpenError;
use crate::pack::{PlanEntry, PlanView, Skeleton};
use crate::storage::StorageError;
#[cfg(all(feature = "linux", target_os = "linux"))]
use {
    crate::arena::{LAYOUTS, Layout, Loan, SharedArena},
    crate::executor::Options,
    crate::pack::Load,
    crate::storage::Storage,
    core::ops::Range,
};

/// An opened pack, chunks of which may leave memory between two inferences.
#[derive(Debug)]
pub struct ChunkedInstance<'a> {
    pub(in crate::executor) instance: Instance<'a>,
    pub(in crate::executor) chunks: Chunks<'a>,
    kept_bytes: u64,
}

/// A budget that a network may have, and how many chunks of its plan leave memory then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Bytes that the plan may have.
    pub budget: u64,
    /// Chunks that leave memory; `u32::MAX` for all.
    pub chunks: u32,
}

/// Why a pack is not opened in a shared arena.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChunkedError {
    /// The pack cannot be opened.
    Open(OpenError),
    /// The arena has no room, or cannot be mapped.
    Arena(ArenaError),
    /// The plan has fewer chunks than are asked for.
    Chunks {
        /// Chunks asked for.
        asked: u32,
        /// Chunks that the plan has.
        has: u32,
    },
    /// There is no share, or there are too many.
    Shares {
        /// How many there are.
        shares: usize,
        /// The most that there may be.
        most: usize,
    },
    /// One of the shares has no plan, or that cannot be read.
    Budget(BudgetError),
}

impl core::fmt::Display for ChunkedError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Open(error) => error.fmt(f),
            Self::Arena(error) => error.fmt(f),
            Self::Chunks { asked, has } => write!(
                f,
                "{asked} chunks of the plan shall leave memory, it has {has}: ask for at most as many, or for \
                 smaller chunks"
            ),
            Self::Shares { shares, most } => {
                write!(f, "{shares} shares: give at least one and at most {most}")
            }
            Self::Budget(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ChunkedError {}

impl From<OpenError> for ChunkedError {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl From<ArenaError> for ChunkedError {
    fn from(error: ArenaError) -> Self {
        Self::Arena(error)
    }
}

/// Why a chunk did not come into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChunkError {
    /// The storage failed.
    Storage(StorageError),
    /// The bytes read are not those that were verified when the pack was opened.
    Checksum {
        /// CRC-32C of what was read.
        found: u32,
        /// CRC-32C of what was verified.
        expected: u32,
    },
    /// The system did not map it.
    Arena(ArenaError),
}

impl core::fmt::Display for ChunkError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::Checksum { found, expected } => write!(
                f,
                "checksum of the weights read is {found:08x}, it was {expected:08x} when the pack was opened: the \
                 pack is damaged, or was written meanwhile"
            ),
            Self::Arena(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ChunkError {}

impl<'a> ChunkedInstance<'a> {
    /// A network without chunks, which stays in memory.
    pub fn whole(instance: Instance<'a>) -> Self {
        let kept_bytes = instance.entry().arena_bytes;
        Self { instance, chunks: Chunks::none(), kept_bytes }
    }

    /// How many of them are room: they hold nothing between two inferences.
    pub fn room(&self) -> u32 {
        u32::try_from(self.chunks.room()).unwrap_or(u32::MAX)
    }

    /// Takes all chunks out of memory.
    #[cfg(test)]
    pub(crate) fn take_out(&mut self, pool: &mut Pool<'_>) {
        for chunk in 0..self.chunks.len() {
            if let Some(slot) = self.chunks.leave(chunk).unwrap() {
                pool.give(slot);
            }
        }
    }

    /// How many chunks may leave memory.
    pub fn chunks(&self) -> u32 {
        u32::try_from(self.chunks.len()).unwrap_or(u32::MAX)
    }

    /// Whether its chunks are mapped to the memory that the pool's slots are of.
    pub(crate) fn draws_from(&self, pool: &Pool<'_>) -> bool {
        self.chunks.draws_from(pool)
    }

    /// Bytes that stay in memory.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Whether the plan reads weights while it computes: then all its chunks are room.
    pub fn streams(&self) -> bool {
        !self.plan().loads.is_empty()
    }

    /// Whether chunks are read from this storage while steps compute.
    pub(crate) fn reads_go_on(&self, storage: &mut impl crate::storage::Storage) -> bool {
        self.instance.shared.depth > 1 && storage.queue().is_some()
    }

    /// Whether a device computes by itself: its steps are not done when they have been issued.
    pub(crate) fn is_on_accelerator(&self) -> bool {
        self.instance.shared.accelerator().is_some()
    }

    /// The network.
    pub fn skeleton(&self) -> &Skeleton<'_> {
        self.instance.skeleton()
    }

    /// The plan's tables.
    #[doc(hidden)]
    pub fn plan(&self) -> &PlanView<'_> {
        self.instance.plan()
    }

    /// The entry of the plan in the pack's header.
    pub fn entry(&self) -> &PlanEntry {
        self.instance.entry()
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl<'a> ChunkedInstance<'a> {
    /// Opens the largest plan of [`Options::shape`] within [`Options::budget`]. Up to `chunks` of its chunks may
    /// leave memory; `u32::MAX` for all.
    ///
    /// Everything is read and verified once. Then no chunk is in memory. The arena needs as much free as the
    /// plan is long. On an error all of that is free again, and other networks can be opened.
    pub fn open<S: Storage + 'a>(
        storage: &mut S,
        arena: &'a SharedArena,
        options: Options,
        chunks: u32,
    ) -> Result<Self, ChunkedError> {
        Self::open_shares(storage, arena, options, &[Share { budget: options.budget, chunks }])
    }

    /// Opens a network that may have any of these budgets, instead of [`Options::budget`]. It begins with the first. [`Running::change`](crate::set::Running::change) gives it another one.
    ///
    /// The plans of all shares are read and verified. The network keeps as much memory as the share that keeps most. While
    /// it has another share, the pool has the rest.
    pub fn open_shares<S: Storage + 'a>(
        storage: &mut S,
        arena: &'a SharedArena,
        options: Options,
        shares: &[Share],
    ) -> Result<Self, ChunkedError> {
        let wrong = ChunkedError::Shares { shares: shares.len(), most: LAYOUTS };
        let Some(last) = shares.last().filter(|_| shares.len() <= LAYOUTS) else {
            return Err(wrong);
        };
        let most = shares.iter().map(|share| share.budget).max().unwrap_or(0);
        let mut loan = arena.lend(most, shares.iter().map(|share| share.chunks))?;
        // Nothing of it is used any more when the loan ends by an error: it is dropped before.
        let memory = loan.memory();
        let options = Options { budget: last.budget, ..options };
        let mut instance = Instance::open(storage, memory, options)?;
        // The first share's plan is entered last.
        for (at, share) in shares.iter().enumerate().rev() {
            if at + 1 < shares.len() {
                let entered = instance.inline(storage).set_budget(share.budget);
                entered.map_err(ChunkedError::Budget)?;
            }
            add_layout(
                &mut instance,
                &mut loan,
                arena.chunk_bytes(),
                share.chunks,
                shares.len() > 1,
            )?;
        }
        let plan = instance.entry().offset;
        let (chunks, kept_bytes) = loan.settle(plan)?;
        // Memory after the plans belongs to other networks.
        let end = chunks.end();
        instance.shared.arena = end;
        instance.current.budget = instance.current.budget.min(end);
        instance.memory.shorten(end as usize);
        Ok(Self { instance, chunks, kept_bytes })
    }
}

/// Adds the layout of the plan that has been entered. `all`: with the checksum of what it keeps of residents.
#[cfg(all(feature = "linux", target_os = "linux"))]
fn add_layout(
    instance: &mut Instance<'_>,
    loan: &mut Loan<'_>,
    chunk: u64,
    chunks: u32,
    all: bool,
) -> Result<(), ChunkedError> {
    let plan = instance.entry().offset;
    let Some(proven) = instance.current.proven.get().copied() else {
        return Err(ChunkedError::Budget(BudgetError::Running));
    };
    let page = crate::sys::page_bytes() as u64;
    let (weights, room) = (proven.weight_chunks(chunk, page), proven.room_chunks(chunk, page));
    let [of_weights, of_room] = [weights.clone().count(), room.clone().count()];
    let has = u32::try_from(of_weights + of_room).unwrap_or(u32::MAX);
    let asked = if chunks == u32::MAX { has } else { chunks };
    let known = loan.layout_of(plan).map(|known| known.count as u32);
    if has < asked || known.is_some_and(|known| known != asked) {
        return Err(ChunkedError::Chunks { asked, has: known.unwrap_or(has) });
    }
    if known.is_some() {
        // Two budgets of one plan.
        return Ok(());
    }
    let (mut memory, _) = instance.memory.sides();
    let shared = &instance.shared;
    let mut arena = |crc: u32, bytes: Range<u64>| {
        let at = |byte: u64| byte.saturating_sub(proven.start()) as usize;
        let behind = memory.behind(&proven);
        shared.crc32c(crc, behind.get(at(bytes.start)..at(bytes.end)).unwrap_or_default())
    };
    let of = |load: &Load| load.address..load.address + u64::from(load.bytes);
    let crc = |start: u64| {
        let mut crc = 0;
        for load in proven.plan().resident.iter() {
            let from = load.address.max(start);
            let to = of(&load).end.min(start + chunk);
            if from < to {
                crc = arena(crc, from..to);
            }
        }
        crc
    };
    let layout = Layout { plan, end: proven.end(), streams: proven.streams(), ..Layout::default() };
    // Room costs nothing: it leaves memory first.
    let of_room = of_room.min(asked as usize);
    let added = loan.add(layout, weights.take(asked as usize - of_room), room.take(of_room), crc);
    debug_assert!(added, "there are no more shares than layouts");
    if all {
        let mut crc = 0;
        for load in proven.plan().resident.iter() {
            for part in loan.kept_parts(of(&load)) {
                crc = arena(crc, part);
            }
        }
        loan.set_crc(crc);
    }
    Ok(())
}
