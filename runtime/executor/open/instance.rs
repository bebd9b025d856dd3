//! Opening a pack: tables into the arena, proof, residents.

use crate::arena::{Lapsing, PlannedMemory, Regions, mirrors};
use crate::device::Accelerator;
use crate::device::accelerator::{Home, Lent};
use crate::executor::change::enter::{enter, network, ring_bytes, tables, tables_end};
use crate::executor::compute::loader::Loader;
use crate::executor::compute::model::{Inline, Model};
use crate::executor::current::Current;
use crate::executor::error::OpenError;
use crate::executor::header::{
    Room, entries, entry_for, fitting, header, section, shapes, weights,
};
use crate::executor::observer::Observer;
use crate::executor::options::Options;
use crate::executor::shared::{Engine, Shared};
use crate::kernels::Kernels;
use crate::ops::cuda::{self, Launch};
use crate::pack::crc32c::crc32c;
use crate::pack::{
    FAST_ALIGNMENT, Flaw, Header, Isa, MAPPED_ALIGNMENT, PAGE, PlanEntry, PlanView, SKELETON,
    Skeleton, flaw,
};
use crate::proof::ProvenSkeleton;
use crate::storage::Storage;
use bytemuck::bytes_of;

/// An opened pack: its tables and residents in the arena, ready for inferences.
#[derive(Debug)]
pub struct Instance<'a> {
    pub(in crate::executor) shared: Shared<'a>,
    pub(in crate::executor) memory: PlannedMemory<'a>,
    pub(in crate::executor) current: Current<'a>,
}

impl<'a> Instance<'a> {
    /// Opens the largest plan of [`Options::shape`] that fits `arena`, which must start on a page,
    /// and [`Options::budget`].
    ///
    /// It proves every plan that fits, of all shapes, so that a change of
    /// [budget](Model::set_budget) or [shape](Model::set_shape) finds no flaw later. Then it reads
    /// the skeleton of the shape and the plan's tables into the front of the arena, and performs the resident loads of the largest plan. It writes to nothing but the arena, and
    /// keeps nothing on an error.
    ///
    /// A pack for flash that is read like memory needs a storage that [lends](Storage::mapped) its
    /// bytes. Then only residents are copied. All else of the pack is used where it lies, and the
    /// checksum of its weights is compared here, once.
    pub fn open<S: Storage + 'a>(
        storage: &mut S,
        arena: &'a mut [u8],
        options: Options,
    ) -> Result<Self, OpenError> {
        Self::open_in(storage, arena.into(), options)
    }

    /// Opens a pack in an arena and fast memory, as [`open`](Self::open) does in an arena alone: the
    /// largest plan that fits both.
    pub fn open_in<S: Storage + 'a>(
        storage: &mut S,
        memory: Regions<'a>,
        options: Options,
    ) -> Result<Self, OpenError> {
        let address = memory.fast.as_ptr().addr();
        if !memory.fast.is_empty() && !address.is_multiple_of(FAST_ALIGNMENT) {
            return Err(OpenError::FastAddress { address });
        }
        let available = memory.arena.len() as u64;
        let front = front(storage, memory, available, None, options)?;
        Self::enter(storage, front)
    }

    /// Opens the largest plan that fits the arena of an accelerator, and [`Options::budget`], as
    /// [`open`](Self::open) does for the processor.
    ///
    /// On a GPU with a memory of its own it reserves as much of that, and as much pinned memory, as
    /// the plans that fit need.
    pub fn open_on<S: Storage + 'a>(
        storage: &mut S,
        accelerator: &'a mut (dyn Accelerator + 'a),
        options: Options,
    ) -> Result<Self, OpenError> {
        let discrete = matches!(accelerator.home(), Home::Own(..));
        if discrete {
            let Lent { arena, host, accelerator: this, .. } = accelerator.lend();
            let Needs { mirrors, ring, device } =
                front(storage, host.into(), arena, Some((this, cuda::run)), options)?.needs;
            accelerator.reserve(ring.saturating_add(mirrors), device)?;
        }
        let Lent { arena, host, pinned, accelerator } = accelerator.lend();
        let arena = if discrete { arena } else { host.len() as u64 };
        let mut front =
            front(storage, host.into(), arena, Some((accelerator, cuda::run)), options)?;
        if discrete {
            front.memory = front.memory.with_pinned(pinned, front.needs.mirrors as usize);
        }
        Self::enter(storage, front)
    }

    fn enter<S: Storage>(storage: &mut S, front: Front<'a>) -> Result<Self, OpenError> {
        let Front { shared, mut memory, network, entry, budget, .. } = front;
        let (mut weights, _) = memory.sides();
        let known = Some(network);
        let (proven, _) = enter(&shared, known, &mut weights, storage, &entry, Lapsing::NONE)?;
        Ok(Self { shared, memory, current: Current { entry, budget, proven } })
    }

    /// The network in its shape; an empty one after a change of [budget](Model::set_budget) or
    /// [shape](Model::set_shape) that failed.
    pub fn skeleton(&self) -> &Skeleton<'_> {
        self.current.skeleton()
    }

    /// The plan's tables; empty after a change that failed.
    #[doc(hidden)]
    pub fn plan(&self) -> &PlanView<'_> {
        self.current.plan()
    }

    /// The entry of the current plan in the pack's header.
    pub fn entry(&self) -> &PlanEntry {
        &self.current.entry
    }

    /// Reports every load and step to `observer` from now on. `None` ends that; it costs nothing.
    pub fn observe(&mut self, observer: Option<&'a dyn Observer>) {
        self.shared.observer = observer;
    }

    /// A model that loads between its steps, on the caller's thread.
    pub fn inline<'m, S: Storage>(
        &'m mut self,
        storage: &'m mut S,
    ) -> Model<'m, 'a, Inline<'m, 'a, S>> {
        let failed = self.shared.start();
        let Self { shared, memory, current } = self;
        let (weights, activations) = memory.sides();
        let loader = Loader::new(shared, weights, current);
        Model::new(shared, current, activations, Inline::new(loader, storage), failed)
    }
}

/// The needs of plans on a GPU with a memory of its own.
#[derive(Clone, Copy, Default)]
struct Needs {
    /// Bytes of pinned memory for the mirrors of the ports.
    mirrors: u64,
    /// Bytes of pinned memory for the staging ring.
    ring: u64,
    /// Bytes of the GPU's memory.
    device: u64,
}

/// An opened pack, before a plan is entered.
struct Front<'a> {
    shared: Shared<'a>,
    memory: PlannedMemory<'a>,
    /// The network in the shape of the plan that is entered next.
    network: ProvenSkeleton<'a>,
    entry: PlanEntry,
    budget: u64,
    needs: Needs,
}

/// Reads the header to the front of the host's memory, chooses a plan, and proves every skeleton
/// and plan that fits an arena of `arena` bytes and the fast memory.
fn front<'a, S: Storage + 'a>(
    storage: &mut S,
    Regions { arena: host, fast }: Regions<'a>,
    arena: u64,
    accelerator: Option<(&'a dyn Accelerator, Launch)>,
    options: Options,
) -> Result<Front<'a>, OpenError> {
    let address = host.as_ptr() as usize;
    if !address.is_multiple_of(PAGE as usize) {
        return Err(OpenError::Arena { address });
    }
    let pack = in_memory(storage);
    let size = pack.map_or_else(|| storage.len(), |pack| Ok(pack.len() as u64))?;
    if size < PAGE {
        // Too short even for a header: say what it is if it cannot be a pack at all.
        return Err(OpenError::Size { found: size, expected: PAGE });
    }
    let available = host.len() as u64;
    let page = match pack {
        Some(pack) => &pack[..PAGE as usize],
        None => {
            let Some(page) = host.get_mut(..PAGE as usize) else {
                return Err(OpenError::Budget { arena: available, smallest: PAGE });
            };
            storage.read(0, page)?;
            page
        }
    };
    let header = header(page, size)?;
    let engine = engine(&header, accelerator)?;
    sections(page, &header)?;
    lent::<S>(&header, pack)?;
    let (threads, budget) = (options.threads, options.budget.min(arena));
    let room = Room { arena, fast: fast.len() as u64 };
    let chosen = Room { arena: budget, ..room };
    let entry = entry_for(page, &header, options.shape, chosen, threads)?;
    let (front, mut memory) = match pack {
        Some(pack) => (pack, PlannedMemory::split(host, fast, 0).1),
        None => PlannedMemory::split(host, fast, SKELETON as usize),
    };
    if let Some(pack) = pack.filter(|_| options.verify) {
        let (found, expected) = (crc32c(0, weights(pack, &header)), header.weights_crc);
        if found != expected {
            return Err(OpenError::Checksum { section: "weights", found, expected });
        }
    }
    // The header where it stays.
    let kept = bytemuck::try_from_bytes(&front[..size_of::<Header>()]);
    let kept = kept.map_err(|_| OpenError::Arena { address })?;
    let shared = Shared::new(front, kept, room, engine, options);
    for entry in fitting(front, &header, room, threads) {
        // Not all of the arena need be the host's.
        let needed = tables_end(&shared, &entry)?;
        if needed > available {
            return Err(OpenError::Tables { found: available, needed });
        }
    }
    let (network, needs) = prove(&shared, &mut memory, storage, &entry)?;
    Ok(Front { shared, memory, network, entry, budget, needs })
}

/// The bytes of a pack that is used where it lies in memory; none if it is read. Its header has yet
/// to be checked.
fn in_memory<'a, S: Storage + 'a>(storage: &S) -> Option<&'a [u8]> {
    let is_mapped = |pack: &&[u8]| {
        let header = pack.get(..size_of::<Header>());
        header.is_some_and(|header| bytemuck::pod_read_unaligned::<Header>(header).mapped != 0)
    };
    storage.mapped().filter(is_mapped)
}

/// Refuses a pack that is used where it lies in memory unless the storage lends it, aligned.
fn lent<S>(header: &Header, pack: Option<&[u8]>) -> Result<(), OpenError> {
    match pack.map(|pack| pack.as_ptr().addr()) {
        None if header.mapped != 0 => {
            Err(OpenError::NotMapped { storage: core::any::type_name::<S>() })
        }
        Some(address) if !address.is_multiple_of(MAPPED_ALIGNMENT) => {
            Err(OpenError::PackAddress { address })
        }
        _ => Ok(()),
    }
}

/// The engine that computes a pack, if there is one.
fn engine<'a>(
    header: &Header,
    accelerator: Option<(&'a dyn Accelerator, Launch)>,
) -> Result<(Isa, Engine<'a>), OpenError> {
    let unknown = OpenError::Isa { found: header.isa };
    let isa = Isa::from_code(header.isa).ok_or(unknown)?;
    let engine = match (isa, accelerator) {
        (Isa::Cuda, Some((accelerator, launch))) => Engine::Accelerator(accelerator, launch),
        (Isa::Cuda, None) => return Err(OpenError::ForGpu),
        (_, Some(_)) => return Err(OpenError::ForProcessor { isa: header.isa }),
        (isa, None) => Engine::Processor(Kernels::for_isa(isa).ok_or(unknown)?),
    };
    Ok((isa, engine))
}

/// Refuses skeletons and plans that overlap, and plans beyond the file: each would be proved anew.
fn sections(page: &[u8], header: &Header) -> Result<(), Flaw> {
    let skeletons = || shapes(page, header.shapes).map(|shape| (shape.offset, shape.bytes));
    let plans = || entries(page, header.plans).map(|entry| (entry.offset, entry.bytes));
    for (offset, bytes) in plans() {
        section("pack: plan beyond the file", offset, bytes.into(), header.file_bytes)?;
    }
    let all = || skeletons().chain(plans());
    for (i, (offset, bytes)) in all().enumerate() {
        for (other, other_bytes) in all().take(i) {
            let apart = other.saturating_add(other_bytes.into()) <= offset
                || offset.saturating_add(bytes.into()) <= other;
            if !apart {
                let what = "pack: two skeletons or plans in one section";
                return Err(flaw(what, offset, other));
            }
        }
    }
    Ok(())
}

/// Proves every plan that fits the arena, except the one that is entered next, and the skeletons of
/// their shapes. Returns the skeleton of the plan that is entered next, which stays in the arena,
/// and what the plans need of a GPU.
fn prove<'a, S: Storage>(
    shared: &Shared<'a>,
    memory: &mut PlannedMemory<'a>,
    storage: &mut S,
    next: &PlanEntry,
) -> Result<(ProvenSkeleton<'a>, Needs), OpenError> {
    let (mut weights, _) = memory.sides();
    let mut needs = Needs::default();
    let discrete = shared.discrete().is_some();
    let fitting = || fitting(shared.front, shared.header, shared.room(), shared.threads);
    let mut of_shape = |shape: u16| -> Result<ProvenSkeleton<'a>, OpenError> {
        let network = network(shared, &mut weights, storage, &shared.shape_at(shape))?;
        needs.mirrors = needs.mirrors.max(mirrors(network.skeleton()));
        for entry in fitting().filter(|entry| entry.shape == shape) {
            if !discrete && bytes_of(&entry) == bytes_of(next) {
                continue;
            }
            let proven = tables(shared, &network, &mut weights, storage, &entry)?;
            if discrete {
                needs.ring = needs.ring.max(ring_bytes(proven.plan())?);
                needs.device = needs.device.max(proven.end() - proven.start());
            }
        }
        Ok(network)
    };
    let others = 0..shared.header.shapes as u16;
    for shape in others.filter(|shape| *shape != next.shape) {
        if fitting().any(|entry| entry.shape == shape) {
            of_shape(shape)?;
        }
    }
    let network = of_shape(next.shape)?;
    Ok((network, needs))
}
