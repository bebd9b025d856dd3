//! The header page of a pack, and which of its plans is chosen.

use super::error::OpenError;
use crate::pack::crc32c::crc32c;
use crate::pack::{self, Flaw, Header, Isa, MAX_PLANS, PAGE, PlanEntry, flaw};

/// Checks the header page of a pack in storage of `size` bytes, which may be longer, as
/// [`Instance::open`](super::Instance::open) does: for tools that look into packs without an arena.
///
/// # Panics
/// When `page` is shorter than a page.
pub fn header(page: &[u8], size: u64) -> Result<Header, OpenError> {
    let header: Header = bytemuck::pod_read_unaligned(&page[..size_of::<Header>()]);
    if header.magic != pack::MAGIC {
        return Err(OpenError::NotAPack);
    }
    if header.version != pack::VERSION {
        return Err(OpenError::Version { found: header.version, supported: pack::VERSION });
    }
    if header.file_bytes > size {
        return Err(OpenError::Size { found: size, expected: header.file_bytes });
    }
    // The checksum covers the page with its own field zero.
    let field = core::mem::offset_of!(Header, crc);
    let crc = crc32c(crc32c(0, &page[..field]), &[0; 4]);
    let found = crc32c(crc, &page[field + 4..PAGE as usize]);
    if found != header.crc {
        return Err(OpenError::Checksum { section: "header", found, expected: header.crc });
    }
    let plans = header.plans as usize;
    if plans == 0 || plans > MAX_PLANS {
        return Err(flaw("pack: number of plans", plans as u64, MAX_PLANS as u64).into());
    }
    let isa = Isa::from_code(header.isa).ok_or(OpenError::Isa { found: header.isa })?;
    if header.panel as usize != isa.panel() {
        let (found, limit) = (header.panel.into(), isa.panel() as u64);
        return Err(flaw("pack: channels in a panel", found, limit).into());
    }
    for (what, offset, bytes) in [
        ("pack: skeleton beyond the file", 0, header.skeleton().end),
        ("pack: names of layers beyond the file", header.names_offset, header.names_bytes),
        ("pack: weights beyond the file", header.weights_offset, header.weights_bytes),
    ] {
        section(what, offset, bytes, header.file_bytes)?;
    }
    Ok(header)
}

/// A section must start on a page and lie, rounded up to pages, inside the file.
pub(super) fn section(what: &'static str, offset: u64, bytes: u64, size: u64) -> Result<(), Flaw> {
    let end = bytes.checked_next_multiple_of(PAGE).and_then(|bytes| bytes.checked_add(offset));
    match end {
        Some(end) if end <= size && offset.is_multiple_of(PAGE) => Ok(()),
        end => Err(flaw(what, end.unwrap_or(u64::MAX), size)),
    }
}

/// The entries of the plans in a header page that [`header`] has checked.
///
/// # Panics
/// When `page` is shorter than a page, or `plans` is not what the header says.
pub fn entries(page: &[u8], plans: u32) -> impl Iterator<Item = PlanEntry> {
    let start = size_of::<Header>();
    let bytes = &page[start..start + plans as usize * size_of::<PlanEntry>()];
    bytes.chunks_exact(size_of::<PlanEntry>()).map(bytemuck::pod_read_unaligned::<PlanEntry>)
}

/// Why no plan is chosen.
pub(super) enum Unfit {
    /// Every plan needs more.
    Budget { smallest: u64 },
    /// The plans that need no more have scratch for `planned` threads at most.
    Threads { planned: u32 },
}

/// The plans that need at most `arena` bytes and serve `threads` threads.
pub(super) fn fitting(
    page: &[u8],
    header: &Header,
    arena: u64,
    threads: u32,
) -> impl Iterator<Item = PlanEntry> {
    entries(page, header.plans)
        .filter(move |entry| entry.arena_bytes <= arena && threads <= entry.threads)
}

/// Of the plans that fit, the one with the largest budget.
pub(super) fn choose(
    page: &[u8],
    header: &Header,
    arena: u64,
    threads: u32,
) -> Result<PlanEntry, Unfit> {
    let best = fitting(page, header, arena, threads).max_by_key(|entry| entry.budget);
    best.ok_or_else(|| {
        let entries = || entries(page, header.plans);
        let small = entries().filter(|entry| entry.arena_bytes <= arena);
        match small.map(|entry| entry.threads).max() {
            Some(planned) => Unfit::Threads { planned },
            None => {
                let smallest = entries().map(|entry| entry.arena_bytes).min().unwrap_or(0);
                Unfit::Budget { smallest }
            }
        }
    })
}

/// The entry of the plan that [`Instance::open`](super::Instance::open) chooses for `arena` bytes
/// and `threads` threads, in a header page that [`header`] has checked.
///
/// # Panics
/// When `page` is shorter than a page.
pub(crate) fn entry_for(
    page: &[u8],
    header: &Header,
    arena: u64,
    threads: u32,
) -> Result<PlanEntry, OpenError> {
    choose(page, header, arena, threads).map_err(|unfit| match unfit {
        Unfit::Budget { smallest } => OpenError::Budget { arena, smallest },
        Unfit::Threads { planned } => OpenError::Threads { asked: threads, planned },
    })
}

/// Bytes of the host's memory that hold the tables of any plan of a pack, whose header page
/// [`header`] has checked: what an accelerator with a memory of its own needs there.
///
/// # Panics
/// When `page` is shorter than a page.
pub fn tables_bytes(page: &[u8], header: &Header) -> Result<u64, OpenError> {
    let fixed = page_up(header.skeleton().end)?;
    let mut plans = entries(page, header.plans).map(|entry| page_up(entry.bytes));
    Ok(plans.try_fold(0, |most: u64, bytes| bytes.map(|bytes| most.max(bytes)))? + fixed)
}

/// Compares the checksum of a section.
pub(super) fn verify(section: &'static str, bytes: &[u8], expected: u32) -> Result<(), OpenError> {
    let found = crc32c(0, bytes);
    if found != expected {
        return Err(OpenError::Checksum { section, found, expected });
    }
    Ok(())
}

/// Rounds a section's bytes up to pages; a section beyond 4 GiB is malformed.
pub(super) fn page_up(bytes: u64) -> Result<u64, Flaw> {
    if bytes > u64::from(u32::MAX) {
        return Err(flaw("pack: bytes of a section", bytes, u32::MAX.into()));
    }
    Ok(bytes.next_multiple_of(PAGE))
}
