//! Which plan of a pack a model is opened with, and with how many threads.

use super::source::Opened;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::device::{threads::available_cores, workers::MAX_THREADS};
use crate::executor::{OpenError, entry_for, header};
use crate::pack::{Header, PAGE, PlanEntry};
use crate::storage::{Storage, TWO_PAGES, aligned_page};

/// The plan that a model would be opened with, and with how many threads.
pub(super) fn choose(
    storage: &mut Opened,
    arena: u64,
    threads: u32,
) -> Result<(PlanEntry, u32, Header), OpenError> {
    let size = storage.len()?;
    if size < PAGE {
        return Err(OpenError::Size { found: size, expected: PAGE });
    }
    let mut room = [0; TWO_PAGES];
    let page = aligned_page(&mut room);
    storage.read(0, page)?;
    let header = header(page, size)?;
    let entry = entry_for(page, &header, arena, threads)?;
    Ok((entry, threads_for(&entry, threads), header))
}

/// Threads for a plan: as many as asked for, or as many as it is for and there are cores.
fn threads_for(entry: &PlanEntry, asked: u32) -> u32 {
    #[cfg(all(feature = "linux", target_os = "linux"))]
    let cores = u32::try_from(available_cores().min(MAX_THREADS)).unwrap_or(1);
    #[cfg(not(all(feature = "linux", target_os = "linux")))]
    let cores = 1;
    match asked {
        0 => entry.threads.min(cores).max(1),
        threads => threads,
    }
}
