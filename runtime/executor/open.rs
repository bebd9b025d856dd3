//! Opening a pack: tables into the arena, proof, residents.

use super::loader::{LoadError, Loader, perform};
use super::model::{Inline, Model};
use super::observer::Observer;
use super::shared::Shared;
use crate::arena::{LoadList, PlannedMemory};
use crate::kernels::{Isa, Kernels};
use crate::pack::crc32c::crc32c;
use crate::pack::{
    self, Bounds, Flaw, Header, MAX_PLANS, PAGE, PlanEntry, PlanView, Proven, Skeleton,
};
use crate::storage::{Storage, StorageError};

/// How a pack is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Compare every load with its checksum before it is used.
    pub verify: bool,
    /// Most compute threads that will be used; the plan's scratch must serve them.
    pub threads: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { verify: true, threads: 1 }
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

/// An opened pack: its tables and residents in the arena, ready for inferences.
#[derive(Debug)]
pub struct Instance<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) memory: PlannedMemory<'a>,
    entry: PlanEntry,
}

impl<'a> Instance<'a> {
    /// Opens the largest plan that fits `arena`, which must start on a page.
    ///
    /// Reads the tables into the front of the arena, validates them, and performs the resident loads.
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
        let entry = choose(page, header.plans, available, options.threads)?;

        let skeleton_start = PAGE;
        let plan_start = skeleton_start + page_up(header.skeleton_bytes)?;
        let tables = plan_start + page_up(entry.bytes)?;
        if tables > entry.arena_bytes {
            let limit = entry.arena_bytes;
            return Err(flaw("plan: its tables do not fit its arena", tables, limit).into());
        }
        for (section, start, offset, bytes, crc) in [
            (
                "skeleton",
                skeleton_start,
                header.skeleton_offset,
                header.skeleton_bytes,
                header.skeleton_crc,
            ),
            ("plan", plan_start, entry.offset, entry.bytes, entry.crc),
        ] {
            let start = start as usize;
            let whole = page_up(bytes)? as usize;
            storage.read(offset, &mut arena[start..start + whole])?;
            verify(section, &arena[start..start + bytes as usize], crc)?;
        }

        let (tables_bytes, mut memory) = PlannedMemory::split(arena, tables as usize);
        let part = |start: u64, bytes: u64| &tables_bytes[start as usize..(start + bytes) as usize];
        let skeleton = Skeleton::view(part(skeleton_start, header.skeleton_bytes))?;
        let plan = PlanView::view(part(plan_start, entry.bytes))?;
        let bounds = Bounds {
            tables,
            arena: entry.arena_bytes,
            weights: header.weights_bytes,
            threads: options.threads.max(1),
        };
        let proven = Proven::new(skeleton, plan, kernels.isa(), bounds)?;
        let shared = Shared::new(proven, kernels, header.weights_offset, options);
        let (mut weights, _) = memory.sides();
        for index in 0..plan.resident.len() {
            perform(&shared, &mut weights, storage, LoadList::Resident, index)
                .map_err(OpenError::Load)?;
        }
        Ok(Self { shared, memory, entry })
    }

    /// The network.
    pub fn skeleton(&self) -> &Skeleton<'a> {
        self.shared.proven.skeleton()
    }

    /// The plan's tables.
    pub fn plan(&self) -> &PlanView<'a> {
        self.shared.proven.plan()
    }

    /// The plan's entry in the pack's header.
    pub fn entry(&self) -> &PlanEntry {
        &self.entry
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
        let (weights, activations) = self.memory.sides();
        let loader = Loader::new(&self.shared, weights);
        Model::new(&self.shared, activations, Inline::new(loader, storage))
    }
}

fn flaw(what: &'static str, found: u64, limit: u64) -> Flaw {
    Flaw { what, index: pack::NONE, found, limit }
}

/// Rounds a section's bytes up to pages; a section beyond 4 GiB is malformed.
fn page_up(bytes: u64) -> Result<u64, Flaw> {
    if bytes > u64::from(u32::MAX) {
        return Err(flaw("pack: bytes of a section", bytes, u32::MAX.into()));
    }
    Ok(bytes.next_multiple_of(PAGE))
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

/// The largest plan that fits the arena.
fn choose(page: &[u8], plans: u32, arena: u64, threads: u32) -> Result<PlanEntry, OpenError> {
    let size = u64::from_le_bytes(
        page[core::mem::offset_of!(Header, file_bytes)..][..8].try_into().unwrap_or_default(),
    );
    let entries = || entries(page, plans);
    for entry in entries() {
        section("pack: plan beyond the file", entry.offset, entry.bytes, size)?;
    }
    let smallest = entries().map(|entry| entry.arena_bytes).min().unwrap_or(0);
    let fitting = || entries().filter(|entry| entry.arena_bytes <= arena);
    let Some(planned) = fitting().map(|entry| entry.threads).max() else {
        return Err(OpenError::Budget { arena, smallest });
    };
    fitting()
        .filter(|entry| threads <= entry.threads)
        .max_by_key(|entry| entry.budget)
        .ok_or(OpenError::Threads { asked: threads, planned })
}
