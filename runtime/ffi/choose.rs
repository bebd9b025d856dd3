//! Which plan of a pack a model is opened with, and with how many threads.

#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::device::{threads::available_cores, workers::MAX_THREADS};
use crate::executor::{OpenError, Room, entry_for, header};
use crate::pack::{Header, PAGE, PlanEntry};
use crate::storage::{Storage, TWO_PAGES, aligned_page};

/// How many threads a model of a shape would be opened with in an arena alone, and the pack's header.
pub(super) fn choose(
    storage: &mut impl Storage,
    shape: u32,
    arena: u64,
    threads: u32,
) -> Result<(u32, Header), OpenError> {
    choose_in(storage, shape, Room { arena, fast: 0 }, threads)
}

/// Chooses a plan for an arena and fast memory.
pub(super) fn choose_in(
    storage: &mut impl Storage,
    shape: u32,
    room: Room,
    threads: u32,
) -> Result<(u32, Header), OpenError> {
    let mut pages = [0; TWO_PAGES];
    let (page, header) = first_page(storage, &mut pages)?;
    let entry = entry_for(page, &header, shape, room, threads)?;
    Ok((threads_for(&entry, threads), header))
}

/// Bytes of arena of the plan of a shape that a model would be opened with.
pub(super) fn plan_bytes(
    storage: &mut impl Storage,
    shape: u32,
    arena: u64,
    threads: u32,
) -> Result<u64, OpenError> {
    let mut room = [0; TWO_PAGES];
    let (page, header) = first_page(storage, &mut room)?;
    let entry = entry_for(page, &header, shape, Room { arena, fast: 0 }, threads)?;
    Ok(entry.arena_bytes)
}

/// Bytes of arena and of fast memory for the plans that models would be opened with, of every shape that has one.
pub(super) fn needs(
    storage: &mut impl Storage,
    arena: u64,
    threads: u32,
) -> Result<Room, OpenError> {
    let mut pages = [0; TWO_PAGES];
    let (page, header) = first_page(storage, &mut pages)?;
    let of_shape = |shape| {
        let entry = entry_for(page, &header, shape, Room { arena, fast: u64::MAX }, threads)?;
        Ok(Room { arena: entry.arena_bytes, fast: entry.fast_bytes() })
    };
    let needs = (0..header.shapes).map(of_shape);
    // A shape without a plan that is small enough does not keep others from being opened.
    needs
        .reduce(|most, one| match (most, one) {
            (Ok(most), Ok(one)) => {
                Ok(Room { arena: most.arena.max(one.arena), fast: most.fast.max(one.fast) })
            }
            (Ok(room), Err(_)) | (Err(_), Ok(room)) => Ok(room),
            (Err(first), Err(_)) => Err(first),
        })
        .unwrap_or(Err(OpenError::Shape { asked: 0, shapes: 0 }))
}

/// Reads the first page of a pack, and checks its header.
fn first_page<'r>(
    storage: &mut impl Storage,
    room: &'r mut [u8; TWO_PAGES],
) -> Result<(&'r [u8], Header), OpenError> {
    let size = storage.len()?;
    if size < PAGE {
        return Err(OpenError::Size { found: size, expected: PAGE });
    }
    let page = aligned_page(room);
    storage.read(0, page)?;
    let header = header(page, size)?;
    Ok((page, header))
}

/// Threads for a plan: the number asked for, or else the plan's, up to the number of cores.
fn threads_for(entry: &PlanEntry, asked: u32) -> u32 {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    let cores = u32::try_from(available_cores().min(MAX_THREADS)).unwrap_or(1);
    #[cfg(not(all(feature = "linux", target_os = "linux")))]
    let cores = 1;
    match asked {
        0 => u32::from(entry.threads).min(cores).max(1),
        threads => threads,
    }
}
