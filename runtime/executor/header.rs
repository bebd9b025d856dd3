//! The header page of a pack, and which of its plans is chosen.

use super::error::OpenError;
use crate::pack::crc32c::crc32c;
use crate::pack::{
    self, Flaw, Header, Isa, MAX_PLANS, MAX_SHAPES, MAX_THREADS, PAGE, PLANS, PlanEntry, SHAPES,
    ShapeEntry, flaw,
};

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
    for (what, found, limit) in [
        ("pack: number of plans", header.plans, MAX_PLANS),
        ("pack: number of shapes", header.shapes, MAX_SHAPES),
    ] {
        if found == 0 || found as usize > limit {
            return Err(flaw(what, found.into(), limit as u64).into());
        }
    }
    let isa = Isa::from_code(header.isa).ok_or(OpenError::Isa { found: header.isa })?;
    if header.panel as usize != isa.panel() {
        let (found, limit) = (header.panel.into(), isa.panel() as u64);
        return Err(flaw("pack: channels in a panel", found, limit).into());
    }
    let is_for_gpu = isa == Isa::Cuda;
    if header.mapped > 1 || (is_for_gpu && header.mapped != 0) {
        let limit = if is_for_gpu { 0 } else { 1 };
        return Err(flaw("pack: how it is used", header.mapped.into(), limit).into());
    }
    for (what, offset, bytes) in [
        ("pack: names of layers beyond the file", header.names_offset, header.names_bytes),
        ("pack: weights beyond the file", header.weights_offset, header.weights_bytes),
    ] {
        section(what, offset, bytes, header.file_bytes)?;
    }
    for shape in shapes(page, header.shapes) {
        let (offset, bytes) = (shape.offset, shape.bytes.into());
        section("pack: skeleton beyond the file", offset, bytes, header.file_bytes)?;
    }
    for (index, entry) in entries(page, header.plans).enumerate() {
        if u32::from(entry.shape) >= header.shapes {
            let (found, limit) = (entry.shape.into(), (header.shapes - 1).into());
            let what = "pack: the shape of a plan";
            return Err(Flaw { what, index: index as u32, found, limit }.into());
        }
    }
    for (index, entry) in entries(page, header.plans).enumerate() {
        if entry.threads == 0 || usize::from(entry.threads) > MAX_THREADS {
            let (found, limit) = (entry.threads.into(), MAX_THREADS as u64);
            let what = "pack: threads of a plan";
            return Err(Flaw { what, index: index as u32, found, limit }.into());
        }
    }
    for index in 0..header.shapes {
        if !entries(page, header.plans).any(|entry| u32::from(entry.shape) == index) {
            let what = "pack: plans of a shape";
            return Err(Flaw { what, index, found: 0, limit: 1 }.into());
        }
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
    table(page, PLANS, plans)
}

/// The entries of the shapes in a header page that [`header`] has checked.
///
/// # Panics
/// When `page` is shorter than a page, or `shapes` is not what the header says.
pub fn shapes(page: &[u8], shapes: u32) -> impl Iterator<Item = ShapeEntry> {
    table(page, SHAPES, shapes)
}

/// `count` records from byte `start` of a page on.
fn table<T: bytemuck::AnyBitPattern>(
    page: &[u8],
    start: usize,
    count: u32,
) -> impl Iterator<Item = T> {
    let bytes = &page[start..start + count as usize * size_of::<T>()];
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned::<T>)
}

/// Memory that plans may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of arena.
    pub arena: u64,
    /// Bytes of fast memory.
    pub fast: u64,
}

impl Room {
    /// Whether a plan needs no more.
    fn holds(self, entry: &PlanEntry) -> bool {
        entry.arena_bytes <= self.arena && entry.fast_bytes() <= self.fast
    }
}

/// Why no plan is chosen.
pub(super) enum Unfit {
    /// Every plan needs more.
    Budget { smallest: u64 },
    /// The plans that need no more arena need more fast memory.
    Fast { smallest: u64 },
    /// The plans that need no more have scratch for `planned` threads at most.
    Threads { planned: u32 },
}

/// The plans that need no more room and serve `threads` threads.
pub(super) fn fitting(
    page: &[u8],
    header: &Header,
    room: Room,
    threads: u32,
) -> impl Iterator<Item = PlanEntry> {
    entries(page, header.plans)
        .filter(move |entry| room.holds(entry) && threads <= entry.threads.into())
}

/// Chooses the plan with the largest budget among the plans of a shape that fit.
pub(super) fn choose(
    page: &[u8],
    header: &Header,
    shape: u32,
    room: Room,
    threads: u32,
) -> Result<PlanEntry, Unfit> {
    let of_shape = |entry: &PlanEntry| u32::from(entry.shape) == shape;
    let fitting = fitting(page, header, room, threads).filter(of_shape);
    fitting.max_by_key(|entry| entry.budget).ok_or_else(|| {
        let entries = || entries(page, header.plans).filter(of_shape);
        let small = || entries().filter(|entry| entry.arena_bytes <= room.arena);
        let planned = small().filter(|entry| room.holds(entry)).map(|entry| entry.threads).max();
        match (planned, small().map(|entry| entry.fast_bytes()).min()) {
            (Some(planned), _) => Unfit::Threads { planned: planned.into() },
            (None, Some(smallest)) => Unfit::Fast { smallest },
            (None, None) => {
                let smallest = entries().map(|entry| entry.arena_bytes).min().unwrap_or(0);
                Unfit::Budget { smallest }
            }
        }
    })
}

/// The entry of the plan that [`Instance::open`](super::Instance::open) chooses for a shape, for
/// so much room and `threads` threads, in a header page that [`header`] has checked.
///
/// # Panics
/// When `page` is shorter than a page.
pub(crate) fn entry_for(
    page: &[u8],
    header: &Header,
    shape: u32,
    room: Room,
    threads: u32,
) -> Result<PlanEntry, OpenError> {
    if shape >= header.shapes {
        return Err(OpenError::Shape { asked: shape, shapes: header.shapes });
    }
    choose(page, header, shape, room, threads).map_err(|unfit| match unfit {
        Unfit::Budget { smallest } => OpenError::Budget { arena: room.arena, smallest },
        Unfit::Fast { smallest } => OpenError::Fast { fast: room.fast, smallest },
        Unfit::Threads { planned } => OpenError::Threads { asked: threads, planned },
    })
}

/// Where header and skeleton end in the arena, and a plan's tables start, in a header page that
/// [`header`] has checked.
pub(super) fn front(page: &[u8], header: &Header, entry: &PlanEntry) -> u64 {
    shapes(page, header.shapes).nth(entry.shape.into()).unwrap_or_default().front()
}

/// Bytes of the host's memory that hold the tables of any plan of a pack, whose header page
/// [`header`] has checked: what an accelerator with a memory of its own needs there.
///
/// # Panics
/// When `page` is shorter than a page.
pub fn tables_bytes(page: &[u8], header: &Header) -> u64 {
    let plans = entries(page, header.plans);
    plans.map(|entry| front(page, header, &entry) + page_up(entry.bytes)).max().unwrap_or(0)
}

/// The weights section of a pack in memory, whose header has been checked.
pub(super) fn weights<'a>(pack: &'a [u8], header: &Header) -> &'a [u8] {
    let start = header.weights_offset as usize;
    &pack[start..start + header.weights_bytes as usize]
}

/// Rounds a section's bytes up to pages.
pub(super) fn page_up(bytes: u32) -> u64 {
    u64::from(bytes).next_multiple_of(PAGE)
}
