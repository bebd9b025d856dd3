//! Opening a pack: tables into the arena, proof, residents.

use super::budget::Current;
use super::enter::{PlanError, enter, flaw, page_up, tables, tables_end};
use super::loader::{LoadError, Loader};
use super::model::{Inline, Model};
use super::observer::Observer;
use super::shared::Shared;
use crate::arena::PlannedMemory;
use crate::kernels::{Isa, Kernels};
use crate::pack::crc32c::crc32c;
use crate::pack::{
    self, Flaw, Header, MAX_PLANS, PAGE, PlanEntry, PlanView, ProvenSkeleton, Skeleton,
};
use crate::storage::{Storage, StorageError};
use bytemuck::bytes_of;

/// How a pack is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Compare every load with its checksum before it is used.
    pub verify: bool,
    /// Most compute threads that will be used; the plan's scratch must serve them.
    pub threads: u32,
    /// Bytes of the arena that the plan may use, until the [budget is changed](Model::set_budget).
    pub budget: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { verify: true, threads: 1, budget: u64::MAX }
    }
}

/// Why a pack cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The storage failed.
    Storage(StorageError),
    /// The first bytes are not those of a pack.
    NotAPack,
    /// The format's version.
    Version {
        /// Of the pack.
        found: u32,
        /// Of this library.
        supported: u32,
    },
    /// The file is shorter or longer than the pack says.
    Size {
        /// Bytes of the file.
        found: u64,
        /// Bytes by the header.
        expected: u64,
    },
    /// A section's checksum disagrees.
    Checksum {
        /// Which.
        section: &'static str,
        /// Of its bytes.
        found: u32,
        /// In the pack.
        expected: u32,
    },
    /// The weights are packed for an instruction set that this processor (or this build) lacks.
    Isa {
        /// Its code in the pack.
        found: u32,
    },
    /// No plan of the pack fits the arena.
    Budget {
        /// Bytes of the arena.
        arena: u64,
        /// Bytes that the pack's smallest plan needs.
        smallest: u64,
    },
    /// The plan was made for fewer threads.
    Threads {
        /// Asked for.
        asked: u32,
        /// The plan's.
        planned: u32,
    },
    /// The arena does not start on a page.
    Arena {
        /// Its address.
        address: usize,
    },
    /// A record is wrong.
    Flaw(Flaw),
    /// A resident load failed.
    Load(LoadError),
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(f),
            Self::NotAPack => f.write_str(
                "not a pack: it does not begin with the pack's signature; make one with \
                 `eyelet plan`",
            ),
            Self::Version { found, supported } => write!(
                f,
                "the pack has format version {found}, this build reads version {supported}; plan \
                 the model again with this version of eyelet"
            ),
            Self::Size { found, expected } => write!(
                f,
                "the pack is {found} bytes long, its header says {expected}: it is truncated or \
                 damaged, write it again"
            ),
            Self::Checksum { section, found, expected } => write!(
                f,
                "checksum of the pack's {section} is {found:08x}, it says {expected:08x}: it is \
                 damaged, write it again"
            ),
            Self::Isa { found } => match Isa::from_code(*found) {
                Some(isa) => write!(
                    f,
                    "the pack is for instruction set {}, which this processor or build does not \
                     have; plan the model for another board",
                    isa.name()
                ),
                None => write!(f, "the pack is for an unknown instruction set (code {found})"),
            },
            Self::Budget { arena, smallest } => write!(
                f,
                "the arena has {arena} bytes, the pack's smallest plan needs {smallest}; give it \
                 more or plan for a smaller budget"
            ),
            Self::Threads { asked, planned } => write!(
                f,
                "{asked} threads asked for, the plan has scratch for {planned}; plan with \
                 --threads {asked} or run with fewer"
            ),
            Self::Arena { address } => write!(
                f,
                "the arena starts at {address:#x}, which is not a multiple of {PAGE}; align it"
            ),
            Self::Flaw(flaw) => write!(f, "the pack is malformed: {flaw}"),
            Self::Load(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<StorageError> for OpenError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<Flaw> for OpenError {
    fn from(flaw: Flaw) -> Self {
        Self::Flaw(flaw)
    }
}

impl From<PlanError> for OpenError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Storage(error) => Self::Storage(error),
            PlanError::Checksum { found, expected } => {
                Self::Checksum { section: "plan", found, expected }
            }
            PlanError::Flaw(flaw) => Self::Flaw(flaw),
            PlanError::Load(error) => Self::Load(error),
        }
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
        let address = arena.as_ptr() as usize;
        if !address.is_multiple_of(PAGE as usize) {
            return Err(OpenError::Arena { address });
        }
        let size = storage.len()?;
        if size < PAGE {
            // Too short even for a header: say what it is if it cannot be a pack at all.
            return Err(OpenError::Size { found: size, expected: PAGE });
        }
        let available = arena.len() as u64;
        let Some(page) = arena.get_mut(..PAGE as usize) else {
            return Err(OpenError::Budget { arena: available, smallest: PAGE });
        };
        storage.read(0, page)?;
        let header = header(page, size)?;
        let kernels = Isa::from_code(header.isa)
            .and_then(Kernels::for_isa)
            .ok_or(OpenError::Isa { found: header.isa })?;
        for entry in entries(page, header.plans) {
            section("pack: plan beyond the file", entry.offset, entry.bytes, size)?;
        }
        let (threads, budget) = (options.threads, options.budget.min(available));
        let entry = choose(page, &header, budget, threads).map_err(|unfit| match unfit {
            Unfit::Budget { smallest } => OpenError::Budget { arena: budget, smallest },
            Unfit::Threads { planned } => OpenError::Threads { asked: threads, planned },
        })?;

        let fixed = PAGE + page_up(header.skeleton_bytes)?;
        tables_end(fixed, &entry)?;
        storage.read(header.skeleton_offset, &mut arena[PAGE as usize..fixed as usize])?;
        let (front, mut memory) = PlannedMemory::split(arena, fixed as usize);
        let skeleton = &front[PAGE as usize..(PAGE + header.skeleton_bytes) as usize];
        verify("skeleton", skeleton, header.skeleton_crc)?;
        let skeleton = Skeleton::view(skeleton)?;
        let network = ProvenSkeleton::new(skeleton, kernels.isa(), header.weights_bytes)?;
        let shared = Shared::new(network, front, header, available, kernels, options);
        let (mut weights, _) = memory.sides();
        let others = fitting(shared.page(), &header, available, threads);
        for other in others.filter(|other| bytes_of(other) != bytes_of(&entry)) {
            tables(&shared, &mut weights, storage, &other)?;
        }
        let (proven, _) = enter(&shared, &mut weights, storage, &entry, None)?;
        Ok(Self { shared, memory, current: Current { entry, proven: Some(proven) } })
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
        self.shared.restart();
        let Self { shared, memory, current } = self;
        let (weights, activations) = memory.sides();
        let loader = Loader::new(shared, weights, current.proven);
        Model::new(shared, current, activations, Inline::new(loader, storage))
    }
}

fn verify(section: &'static str, bytes: &[u8], expected: u32) -> Result<(), OpenError> {
    let found = crc32c(0, bytes);
    if found != expected {
        return Err(OpenError::Checksum { section, found, expected });
    }
    Ok(())
}

/// Checks the header page of a pack of `size` bytes, as [`Instance::open`] does: for tools that look
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
    if header.file_bytes != size {
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
        ("pack: skeleton beyond the file", header.skeleton_offset, header.skeleton_bytes),
        ("pack: weights beyond the file", header.weights_offset, header.weights_bytes),
    ] {
        section(what, offset, bytes, size)?;
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
