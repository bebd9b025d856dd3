//! Opening a pack: tables into the arena, proof, residents.

use super::current::Current;
use super::enter::{enter, ring_bytes, tables, tables_end};
use super::error::OpenError;
use super::header::{entries, entry_for, fitting, header, page_up, section, verify};
use super::loader::Loader;
use super::model::{Inline, Model};
use super::observer::Observer;
use super::options::Options;
use super::shared::{Engine, Shared};
use crate::arena::{Lapsing, PlannedMemory, mirrors};
use crate::device::Accelerator;
use crate::device::accelerator::{Home, Lent};
use crate::kernels::Kernels;
use crate::pack::{Flaw, Header, Isa, PAGE, PlanEntry, PlanView, Skeleton, flaw};
use crate::proof::ProvenSkeleton;
use crate::storage::Storage;
use bytemuck::bytes_of;
use core::ops::Range;

/// An opened pack: its tables and residents in the arena, ready for inferences.
#[derive(Debug)]
pub struct Instance<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) memory: PlannedMemory<'a>,
    pub(super) current: Current<'a>,
}

impl<'a> Instance<'a> {
    /// Opens the largest plan that fits `arena`, which must start on a page, and
    /// [`Options::budget`].
    ///
    /// It reads the skeleton into the front of the arena. It proves the skeleton and every plan
    /// that fits, so that a [change of budget](Model::set_budget) finds no flaw later. Then it
    /// performs the resident loads of the largest plan. It writes to nothing but the arena, and
    /// keeps nothing on an error.
    pub fn open<S: Storage>(
        storage: &mut S,
        arena: &'a mut [u8],
        options: Options,
    ) -> Result<Self, OpenError> {
        let available = arena.len() as u64;
        let (shared, memory, entry, _) = front(storage, arena, available, None, options)?;
        Self::enter(storage, shared, memory, entry)
    }

    /// Opens the largest plan that fits the arena of an accelerator, and [`Options::budget`], as
    /// [`open`](Self::open) does for the processor.
    ///
    /// On a GPU with a memory of its own it reserves as much of that, and as much pinned memory, as
    /// the plans that fit need.
    pub fn open_on<S: Storage>(
        storage: &mut S,
        accelerator: &'a mut (dyn Accelerator + 'a),
        options: Options,
    ) -> Result<Self, OpenError> {
        let discrete = matches!(accelerator.home(), Home::Own(..));
        if discrete {
            let Lent { arena, host, accelerator: this, .. } = accelerator.lend();
            let (.., needs) = front(storage, host, arena, Some(this), options)?;
            accelerator.reserve(needs.pinned, needs.device)?;
        }
        let Lent { arena, host, pinned, accelerator } = accelerator.lend();
        let arena = if discrete { arena } else { host.len() as u64 };
        let (shared, memory, entry, _) = front(storage, host, arena, Some(accelerator), options)?;
        let memory = match discrete {
            true => memory.with_pinned(pinned, mirrors(shared.network.skeleton()) as usize),
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

/// Reads header and skeleton to the front of `host`, chooses a plan, and proves the skeleton and
/// every plan that fits an arena of `arena` bytes.
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
    let (isa, engine) = engine(&header, accelerator)?;
    sections(page, &header)?;
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
    // The header where it stays.
    let kept = bytemuck::try_from_bytes(&front[..size_of::<Header>()]);
    let kept = kept.map_err(|_| OpenError::Arena { address })?;
    let shared = Shared::new(network, front, kept, arena, engine, options);
    let needs = prove(&shared, &mut memory, storage, &entry)?;
    Ok((shared, memory, entry, needs))
}

/// What computes a pack, if it is there.
fn engine<'a>(
    header: &Header,
    accelerator: Option<&'a dyn Accelerator>,
) -> Result<(Isa, Engine<'a>), OpenError> {
    let unknown = OpenError::Isa { found: header.isa };
    let isa = Isa::from_code(header.isa).ok_or(unknown)?;
    let engine = match (isa, accelerator) {
        (Isa::Cuda, Some(accelerator)) => Engine::Accelerator(accelerator),
        (Isa::Cuda, None) => return Err(OpenError::ForGpu),
        (_, Some(_)) => return Err(OpenError::ForProcessor { isa: header.isa }),
        (isa, None) => Engine::Processor(Kernels::for_isa(isa).ok_or(unknown)?),
    };
    Ok((isa, engine))
}

/// Refuses plans whose sections lie beyond the file, or overlap: each would be proved anew.
fn sections(page: &[u8], header: &Header) -> Result<(), Flaw> {
    for (i, entry) in entries(page, header.plans).enumerate() {
        section("pack: plan beyond the file", entry.offset, entry.bytes, header.file_bytes)?;
        for other in entries(page, header.plans).take(i) {
            let apart = other.offset.saturating_add(other.bytes) <= entry.offset
                || entry.offset.saturating_add(entry.bytes) <= other.offset;
            if !apart {
                return Err(flaw("pack: two plans in one section", entry.offset, other.offset));
            }
        }
    }
    Ok(())
}

/// Proves every plan that fits the arena, except the one that is entered next, and returns what
/// they need of a GPU.
fn prove<'a, S: Storage>(
    shared: &Shared<'a>,
    memory: &mut PlannedMemory<'a>,
    storage: &mut S,
    next: &PlanEntry,
) -> Result<Needs, OpenError> {
    let (mut weights, _) = memory.sides();
    let mut needs = Needs::default();
    let discrete = shared.discrete().is_some();
    for entry in fitting(shared.page(), shared.header, shared.arena, shared.threads) {
        if !discrete && bytes_of(&entry) == bytes_of(next) {
            continue;
        }
        let proven = tables(shared, &mut weights, storage, &entry)?;
        if discrete {
            needs.pinned = needs.pinned.max(ring_bytes(proven.plan())?);
            needs.device = needs.device.max(proven.end() - proven.start());
        }
    }
    needs.pinned = needs.pinned.saturating_add(mirrors(shared.network.skeleton()));
    Ok(needs)
}
