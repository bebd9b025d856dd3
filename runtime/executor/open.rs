//! Opening a pack: tables into the arena, proof, residents.

mod error;

pub use error::OpenError;

use super::budget::Current;
use super::enter::{enter, flaw, page_up, ring_bytes, tables, tables_end};
use super::loader::Loader;
use super::model::{Inline, Model};
use super::observer::Observer;
use super::shared::{Engine, Shared};
use crate::arena::{Lapsing, PlannedMemory, mirrors};
use crate::device::Accelerator;
use crate::device::accelerator::{Home, Lent};
use crate::kernels::{Isa, Kernels};
use crate::pack::crc32c::crc32c;
use crate::pack::{
    self, Flaw, Header, MAX_PLANS, PAGE, PlanEntry, PlanView, ProvenSkeleton, Skeleton,
};
use crate::storage::Storage;
use bytemuck::bytes_of;
use core::ops::Range;

/// How a pack is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Compare every load with its checksum before it is used.
    pub verify: bool,
    /// Most compute threads that will be used; the plan's scratch must serve them.
    pub threads: u32,
    /// Bytes of the arena that the plan may use, until the [budget is changed](Model::set_budget).
    pub budget: u64,
    /// Most reads under way at once, as far as the [storage](Storage::queue) can. With 1 a load is read when the one
    /// before it is there.
    pub depth: u32,
    /// Most multiply-adds and elements of one step, counted together: a pack with a step that does more is refused. It bounds how long
    /// a pack can keep [`Model::step`] from returning. Steps of usual networks stay below a hundredth of the [default](STEP_WORK).
    pub step_work: u64,
}

/// [`Options::step_work`] where nothing else is asked for: about two minutes of a small core, ten seconds of a large one.
pub const STEP_WORK: u64 = 1 << 40;

impl Default for Options {
    fn default() -> Self {
        Self { verify: true, threads: 1, budget: u64::MAX, depth: u32::MAX, step_work: STEP_WORK }
    }
}

/// An opened pack: its tables and residents in the arena, ready for inferences.
#[derive(Debug)]
pub struct Instance<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) memory: PlannedMemory<'a>,
    pub(super) current: Current<'a>,
}

impl<'a> Instance<'a> {
    /// Opens the largest plan that fits `arena`, which must start on a page, and [`Options::budget`].
    ///
    /// Reads the skeleton into the front of the arena, proves it and every plan that fits (so that a
    /// [change of budget](Model::set_budget) finds no flaw later), and performs the resident loads of the largest.
    /// Nothing but the arena is written to, and nothing is kept on an error.
    pub fn open<S: Storage>(
        storage: &mut S,
        arena: &'a mut [u8],
        options: Options,
    ) -> Result<Self, OpenError> {
        let available = arena.len() as u64;
        let (shared, memory, entry, _) = front(storage, arena, available, None, options)?;
        Self::enter(storage, shared, memory, entry)
    }

    /// Opens the largest plan that fits the arena of an accelerator, and [`Options::budget`], as [`open`](Self::open)
    /// does for the processor.
    ///
    /// A GPU with a memory of its own is made to have as much of it, and as much pinned memory, as the plans need that fit.
    pub fn open_on<S: Storage>(
        storage: &mut S,
        accelerator: &'a mut (dyn Accelerator + 'a),
        options: Options,
    ) -> Result<Self, OpenError> {
        let staged = matches!(accelerator.home(), Home::Own(..));
        if staged {
            let Lent { arena, host, accelerator: this, .. } = accelerator.lend();
            let (.., needs) = front(storage, host, arena, Some(this), options)?;
            accelerator.reserve(needs.pinned, needs.device)?;
        }
        let Lent { arena, host, pinned, accelerator } = accelerator.lend();
        let arena = if staged { arena } else { host.len() as u64 };
        let (shared, memory, entry, _) = front(storage, host, arena, Some(accelerator), options)?;
        let memory = match staged {
            true => memory.staged(pinned, mirrors(shared.network.skeleton()) as usize),
            false => memory,
        };
        Self::enter(storage, shared, memory, entry)
    }

    fn enter<S: Storage>(
        storage: &mut S,
        shared: Shared<'a>,
        mut memory: PlannedMemory<'a>,
        entry: PlanEntry,
    ) -> Result<Self, OpenError> {
        let (mut weights, _) = memory.sides();
        let (proven, _) = enter(&shared, &mut weights, storage, &entry, Lapsing::NONE)?;
        Ok(Self { shared, memory, current: Current { entry, proven } })
    }

    /// The network.
    pub fn skeleton(&self) -> &Skeleton<'a> {
        self.shared.network.skeleton()
    }

    /// The plan's tables; empty after a [change of budget](Model::set_budget) that failed.
    pub fn plan(&self) -> &PlanView<'_> {
        self.current.plan()
    }

    /// The plan's entry in the pack's header.
    pub fn entry(&self) -> &PlanEntry {
        &self.current.entry
    }

    /// Has an observer told of every load and step from now on, or nobody. Nobody costs nothing.
    pub fn observe(&mut self, observer: Option<&'a dyn Observer>) {
        self.shared.observer = observer;
    }

    /// A model that loads between its steps, on the caller's core.
    pub fn inline<'m, S: Storage>(
        &'m mut self,
        storage: &'m mut S,
    ) -> Model<'m, 'a, Inline<'m, 'a, S>> {
        let failed = self.shared.start();
        let Self { shared, memory, current } = self;
        let (weights, activations) = memory.sides();
        let loader = Loader::new(shared, weights, current.proven);
        Model::new(shared, current, activations, Inline::new(loader, storage), failed)
    }
}

/// What plans need of a GPU with a memory of its own.
#[derive(Clone, Copy, Default)]
struct Needs {
    /// Bytes of pinned memory.
    pinned: u64,
    /// Bytes of the GPU's.
    device: u64,
}

/// An opened pack, before a plan is entered.
type Front<'a> = (Shared<'a>, PlannedMemory<'a>, PlanEntry, Needs);

/// Reads header and skeleton to the front of `host`, chooses a plan, and proves the skeleton and every plan that
/// fits an arena of so many bytes.
fn front<'a, S: Storage>(
    storage: &mut S,
    host: &'a mut [u8],
    arena: u64,
    accelerator: Option<&'a dyn Accelerator>,
    options: Options,
) -> Result<Front<'a>, OpenError> {
    let address = host.as_ptr() as usize;
    if !address.is_multiple_of(PAGE as usize) {
        return Err(OpenError::Arena { address });
    }
    let size = storage.len()?;
    if size < PAGE {
        // Too short even for a header: say what it is if it cannot be a pack at all.
        return Err(OpenError::Size { found: size, expected: PAGE });
    }
    let available = host.len() as u64;
    let Some(page) = host.get_mut(..PAGE as usize) else {
        return Err(OpenError::Budget { arena: available, smallest: PAGE });
    };
    storage.read(0, page)?;
    let header = header(page, size)?;
    let engine = match (Isa::from_code(header.isa), accelerator) {
        (Some(Isa::Cuda), Some(accelerator)) => Engine::Accelerator(accelerator),
        (Some(Isa::Cuda), None) => return Err(OpenError::ForGpu),
        (_, Some(_)) => return Err(OpenError::ForProcessor { isa: header.isa }),
        (isa, None) => Engine::Processor(
            isa.and_then(Kernels::for_isa).ok_or(OpenError::Isa { found: header.isa })?,
        ),
    };
    let isa = Isa::from_code(header.isa).ok_or(OpenError::Isa { found: header.isa })?;
    for (i, entry) in entries(page, header.plans).enumerate() {
        section("pack: plan beyond the file", entry.offset, entry.bytes, header.file_bytes)?;
        for other in entries(page, header.plans).take(i) {
            // Each would be proved anew.
            let apart = other.offset.saturating_add(other.bytes) <= entry.offset
                || entry.offset.saturating_add(entry.bytes) <= other.offset;
            if !apart {
                return Err(
                    flaw("pack: two plans in one section", entry.offset, other.offset).into()
                );
            }
        }
    }
    let (threads, budget) = (options.threads, options.budget.min(arena));
    let entry = entry_for(page, &header, budget, threads)?;

    let fixed = page_up(header.skeleton().end)?;
    tables_end(fixed, &entry)?;
    if arena > available {
        // Not all of the arena is the host's.
        for entry in fitting(page, &header, arena, threads) {
            let needed = tables_end(fixed, &entry)?;
            if needed > available {
                return Err(OpenError::Tables { found: available, needed });
            }
        }
    }
    if fixed > PAGE {
        storage.read(PAGE, &mut host[PAGE as usize..fixed as usize])?;
    }
    let (front, mut memory) = PlannedMemory::split(host, fixed as usize);
    let Range { start, end } = header.skeleton();
    let skeleton = &front[start as usize..end as usize];
    verify("skeleton", skeleton, header.skeleton_crc)?;
    let skeleton = Skeleton::view(skeleton)?;
    let network = ProvenSkeleton::new(skeleton, isa, header.weights_bytes)?;
    // The same, where it stays.
    let kept = bytemuck::try_from_bytes(&front[..size_of::<Header>()]);
    let kept = kept.map_err(|_| OpenError::Arena { address })?;
    let shared = Shared::new(network, front, kept, arena, engine, options);
    let (mut weights, _) = memory.sides();
    let mut needs = Needs::default();
    let staged = shared.staged().is_some();
    for other in fitting(shared.page(), &header, arena, threads) {
        if !staged && bytes_of(&other) == bytes_of(&entry) {
            // It is entered next.
            continue;
        }
        let proven = tables(&shared, &mut weights, storage, &other)?;
        if staged {
            needs.pinned = needs.pinned.max(ring_bytes(proven.plan())?);
            needs.device = needs.device.max(proven.end() - proven.start());
        }
    }
    needs.pinned = needs.pinned.saturating_add(mirrors(&skeleton));
    Ok((shared, memory, entry, needs))
}

/// The entry of the plan that [`Instance::open`] chooses for so many bytes of arena and threads, in a header page that
/// [`header`] has checked.
///
/// # Panics
/// When `page` is shorter than a page.
pub fn entry_for(
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

/// Bytes of the host's memory that hold the tables of any plan of a pack, whose header page [`header`] has checked: what an
/// accelerator with a memory of its own needs there.
///
/// # Panics
/// When `page` is shorter than a page.
pub fn tables_bytes(page: &[u8], header: &Header) -> Result<u64, OpenError> {
    let fixed = page_up(header.skeleton().end)?;
    let mut plans = entries(page, header.plans).map(|entry| page_up(entry.bytes));
    Ok(plans.try_fold(0, |most: u64, bytes| bytes.map(|bytes| most.max(bytes)))? + fixed)
}

fn verify(section: &'static str, bytes: &[u8], expected: u32) -> Result<(), OpenError> {
    let found = crc32c(0, bytes);
    if found != expected {
        return Err(OpenError::Checksum { section, found, expected });
    }
    Ok(())
}

/// Checks the header page of a pack in storage of `size` bytes, which may be longer, as [`Instance::open`] does: for tools that look
/// into packs without an arena.
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
fn section(what: &'static str, offset: u64, bytes: u64, size: u64) -> Result<(), Flaw> {
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
    /// None needs so little.
    Budget { smallest: u64 },
    /// Those that do have scratch for so many threads.
    Threads { planned: u32 },
}

/// The plans that need at most `arena` bytes and serve so many threads.
fn fitting(
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
