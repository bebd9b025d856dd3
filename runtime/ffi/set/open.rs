//! A set in its caller's memory: how it gets there, and how it goes.

use super::super::choose::choose;
use super::super::computer::{Engine, cores};
use super::super::error::{Error, Status, argument};
use super::super::open::part;
use super::super::refused::Refused;
use super::super::source::Opened;
use super::super::{given, length};
use super::records::{SetOptions, TASKS, TaskOf};
use super::refused::{Room, SetRefused};
use crate::executor::{ChunkedInstance, Instance, OpenError};
use crate::pack::PAGE;
use crate::set::{Member, Policy, Pool, Task, TaskSet};
use crate::storage::{Part, Storage as _};
use crate::sys::discard::has_room;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::{arena::SharedArena, set::SetFile};
use core::ffi::c_void;
use core::mem::MaybeUninit;

/// A set: opaque to C.
#[derive(Debug)]
pub struct Set {
    pub(super) tasks: MaybeUninit<Tasks>,
    pub(super) engine: Engine,
    slots: Slots,
    /// The file of a set that was opened from one file.
    #[cfg(all(feature = "linux", target_os = "linux"))]
    pub(super) of_file: Option<OfFile>,
    /// Bytes of arena that are each network's.
    pub(super) rooms: Rooms,
    /// The scope that the set is in, null outside of any.
    pub(super) working: *mut Running,
    /// The set is at work: it is in the middle of a call.
    pub(super) busy: bool,
}

/// Memory that its networks share, and the table of the file.
#[cfg(all(feature = "linux", target_os = "linux"))]
#[derive(Debug)]
pub(super) struct OfFile {
    pub(super) arena: SharedArena,
    pub(super) table: SetFile<'static>,
}

/// Where a network's pack is: in a source of its own, or in a part of the set's file.
pub(super) type Packed = Part<Opened>;
pub(super) type Tasks = TaskSet<'static, 'static, Packed, TASKS>;
pub(super) type Rooms = heapless::Vec<u64, TASKS>;
pub(super) type Running = crate::set::Running<'static, 'static, TASKS>;

/// A network and where its pack is.
#[derive(Debug)]
pub(super) struct Slot {
    network: MaybeUninit<ChunkedInstance<'static>>,
    source: MaybeUninit<Packed>,
}

/// The slots of a set, and how many sources and networks have been written.
#[derive(Debug)]
pub(super) struct Slots {
    first: *mut Slot,
    sources: usize,
    networks: usize,
}

impl Slots {
    /// None of them written yet.
    pub(super) fn new(first: *mut Slot) -> Self {
        Self { first, sources: 0, networks: 0 }
    }

    /// Writes the next source.
    ///
    /// # Safety
    /// There is a slot for it.
    pub(super) unsafe fn add_source(&mut self, source: Packed) {
        // SAFETY: the caller's promise. The slots are this set's alone.
        unsafe { part(&raw mut (*self.first.add(self.sources)).source).write(source) };
        self.sources += 1;
    }

    /// The source that the next network is in.
    ///
    /// # Safety
    /// Fewer networks than sources have been written.
    pub(super) unsafe fn source(&mut self) -> &mut Packed {
        // SAFETY: the caller's promise.
        unsafe { &mut *part(&raw mut (*self.first.add(self.networks)).source) }
    }

    /// Writes the next network.
    ///
    /// # Safety
    /// There is a slot for it.
    pub(super) unsafe fn add_network(&mut self, network: ChunkedInstance<'static>) {
        // SAFETY: as of `add_source`.
        unsafe { part(&raw mut (*self.first.add(self.networks)).network).write(network) };
        self.networks += 1;
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: `count` entries have been written. The set, which refers to them, is dropped
        // before.
        unsafe {
            for k in 0..self.networks {
                part(&raw mut (*self.first.add(k)).network).drop_in_place();
            }
            for k in 0..self.sources {
                part(&raw mut (*self.first.add(k)).source).drop_in_place();
            }
        }
    }
}

/// The caller's tasks.
///
/// # Safety
/// They are null, or `count`.
unsafe fn listed<'t>(tasks: *const TaskOf, count: u32) -> Result<&'t [TaskOf], &'static str> {
    match count as usize {
        0 => Err("the set has no tasks"),
        count if count > TASKS => Err("the set has more than EYELET_SET_TASKS tasks"),
        _ if tasks.is_null() => Err("the tasks are missing"),
        // SAFETY: not null, and `count` by the caller's promise.
        count => Ok(unsafe { core::slice::from_raw_parts(tasks, count) }),
    }
}

/// Bytes of the record and the slots, with what aligning them may cost.
pub(super) fn record(tasks: usize) -> u64 {
    let aligned = align_of::<Set>() + align_of::<Slot>();
    (size_of::<Set>() + tasks * size_of::<Slot>() + aligned) as u64
}

/// Bytes of memory that [`eyelet_set_open`] needs, or 0 and an error.
///
/// # Safety
/// As the header says: pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_bytes(
    tasks: *const TaskOf,
    count: u32,
    threads: u32,
    error: *mut Error,
) -> u64 {
    // SAFETY: the caller's promises.
    match unsafe { needed(tasks, count, threads) } {
        Ok(bytes) => bytes,
        Err(refused) => {
            // SAFETY: likewise.
            unsafe { refused.tell(error) };
            0
        }
    }
}

/// # Safety
/// As [`eyelet_set_bytes`].
unsafe fn needed(tasks: *const TaskOf, count: u32, threads: u32) -> Result<u64, SetRefused> {
    // SAFETY: the caller's promises.
    let tasks = unsafe { listed(tasks, count) }.map_err(SetRefused::Argument)?;
    // One at a time is open: there is room for no more.
    let each = |k: usize, of: &dyn Fn(&TaskOf, &mut Opened) -> Result<u64, OpenError>| {
        let task = &tasks[k];
        // SAFETY: the caller's promise.
        let opened = unsafe { Opened::open(&task.pack.for_header()) };
        let mut storage = opened.map_err(|why| SetRefused::Task(k, Refused::Source(why)))?;
        of(task, &mut storage).map_err(|why| SetRefused::Task(k, why.into()))
    };
    let mut least = u64::from(u32::MAX);
    for k in 0..tasks.len() {
        least = least.min(each(k, &|task, storage| {
            Ok(choose(storage, task.shape, task.budget(), threads)?.0.into())
        })?);
    }
    let mut whole = record(tasks.len());
    for k in 0..tasks.len() {
        let room = each(k, &|task, storage| task.room(storage, least as u32))?;
        whole = whole.saturating_add(room);
    }
    let pages = whole.checked_next_multiple_of(PAGE);
    pages.ok_or(SetRefused::Argument("the tasks have more room than memory can be"))
}

/// Opens a set in the caller's memory.
///
/// # Safety
/// As the header says: pointers are null or valid; what the sources point to and the memory are
/// the set's until [`eyelet_set_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_open(
    set: *mut *mut Set,
    tasks: *const TaskOf,
    count: u32,
    arena: *mut c_void,
    bytes: u64,
    options: *const SetOptions,
    error: *mut Error,
) -> i32 {
    // SAFETY: the caller's promises.
    unsafe {
        if set.is_null() {
            return argument("there is nowhere to put the set").tell(error);
        }
        set.write(core::ptr::null_mut());
        let opened = match listed(tasks, count) {
            Err(why) => Err(SetRefused::Argument(why)),
            Ok(_) if arena.is_null() => Err(SetRefused::Argument("the arena is missing")),
            Ok(listed) => {
                let options = given(options).unwrap_or(&SetOptions::DEFAULT);
                let opened = open(listed, arena.cast(), bytes, options);
                opened.map_err(|refused| match refused {
                    // The need of all tasks, wherever the arena ended.
                    SetRefused::Room(_) => match needed(tasks, count, options.threads) {
                        Ok(needed) => SetRefused::Room(Room { arena: bytes, needed }),
                        Err(refused) => refused,
                    },
                    refused => refused,
                })
            }
        };
        match opened {
            Ok(opened) => {
                set.write(opened);
                Status::Ok as i32
            }
            Err(refused) => refused.tell(error),
        }
    }
}

/// # Safety
/// As [`eyelet_set_open`]; `arena` is not null.
unsafe fn open(
    tasks: &[TaskOf],
    arena: *mut u8,
    bytes: u64,
    options: &SetOptions,
) -> Result<*mut Set, SetRefused> {
    let whole =
        length(bytes).ok_or(SetRefused::Argument("the arena is larger than memory can be"))?;
    let address = arena.addr();
    if !address.is_multiple_of(PAGE as usize) {
        return Err(SetRefused::Shared(OpenError::Arena { address }.into()));
    }
    // SAFETY: the caller's memory, from here on the set's.
    let (set, mut slots, at) = unsafe { placed(arena, whole, tasks.len())? };
    // SAFETY: the caller's promises, and those above.
    unsafe {
        let threads = sources(&mut slots, tasks, options.threads)?;
        let rooms = networks(&mut slots, tasks, (arena, at), threads, options)?;
        let task = |k: usize, network: &ChunkedInstance<'_>| tasks[k].timing.task().of(network);
        let scheduled = Scheduled { policy: Policy::Steps, task: &task, pool: Pool::none() };
        assemble(set, slots, rooms, threads, options, scheduled)?;
        #[cfg(all(feature = "linux", target_os = "linux"))]
        (&raw mut (*set).of_file).write(None);
    }
    Ok(set)
}

/// Places of a set and its slots at the end of `whole` bytes of memory, and where the record begins.
///
/// # Safety
/// The memory is there, and nobody else's until the set is closed.
pub(super) unsafe fn placed(
    memory: *mut u8,
    whole: usize,
    tasks: usize,
) -> Result<(*mut Set, Slots, usize), SetRefused> {
    let record = record(tasks) as usize;
    let Some(at) = whole.checked_sub(record) else {
        let (arena, needed) = (whole as u64, record as u64);
        return Err(SetRefused::Room(Room { arena, needed }));
    };
    let at = at & !(align_of::<Set>() - 1);
    let slots = (at + size_of::<Set>()).next_multiple_of(align_of::<Slot>());
    // SAFETY: the record and its slots are inside of the memory, as `record` counts them.
    let (set, first) = unsafe { (memory.add(at).cast::<Set>(), memory.add(slots).cast::<Slot>()) };
    Ok((set, Slots::new(first), at))
}

/// The input of the scheduler.
pub(super) struct Scheduled<'f> {
    pub(super) policy: Policy,
    /// A task, by its number and its network.
    pub(super) task: &'f dyn Fn(usize, &ChunkedInstance<'_>) -> Task,
    /// Memory of chunks that come and go.
    pub(super) pool: Pool<'static>,
}

/// Writes the record of a set whose networks are all open: its tasks, its threads, and all else but
/// `of_file`.
///
/// # Safety
/// Place and slots are of [`placed`], the slots of all tasks are written, and what the networks borrow
/// stays where it is until the set is closed.
pub(super) unsafe fn assemble(
    set: *mut Set,
    slots: Slots,
    rooms: Rooms,
    threads: u32,
    options: &SetOptions,
    scheduled: Scheduled<'_>,
) -> Result<(), SetRefused> {
    // SAFETY: the caller's promises.
    unsafe {
        let cores = cores(options.cores, options.threads).map_err(SetRefused::Shared)?;
        let members = (0..slots.networks).map(|k| {
            let slot = slots.first.add(k);
            let network: &'static mut ChunkedInstance<'static> =
                &mut *part(&raw mut (*slot).network);
            let task = (scheduled.task)(k, network);
            Member { task, network, storage: &mut *part(&raw mut (*slot).source) }
        });
        let tasks =
            Tasks::new(scheduled.policy, members, scheduled.pool).map_err(SetRefused::Set)?;
        let engine = &raw mut (*set).engine;
        Engine::start(engine, threads, cores.as_deref()).map_err(SetRefused::Shared)?;
        part(&raw mut (*set).tasks).write(tasks);
        (&raw mut (*set).slots).write(slots);
        (&raw mut (*set).rooms).write(rooms);
        (&raw mut (*set).working).write(core::ptr::null_mut());
        (&raw mut (*set).busy).write(false);
    }
    Ok(())
}

/// Opens the packs, and returns how many threads compute.
///
/// # Safety
/// Only from [`open`].
unsafe fn sources(slots: &mut Slots, tasks: &[TaskOf], threads: u32) -> Result<u32, SetRefused> {
    let mut least = u32::MAX;
    for (k, task) in tasks.iter().enumerate() {
        // SAFETY: the caller's promise.
        let opened = unsafe { Opened::open(&task.pack) };
        let mut storage = opened.map_err(|why| SetRefused::Task(k, Refused::Source(why)))?;
        let refused = |why: OpenError| SetRefused::Task(k, why.into());
        let chosen = choose(&mut storage, task.shape, task.budget(), threads);
        least = least.min(chosen.map_err(refused)?.0);
        let bytes = storage.len().map_err(|why| refused(why.into()))?;
        let whole = Packed::new(storage, 0, bytes).map_err(|why| refused(why.into()))?;
        // SAFETY: there is a slot for each task.
        unsafe { slots.add_source(whole) };
    }
    Ok(least)
}

/// Opens the networks, one after the other in the arena's first `whole` bytes. Returns the bytes of
/// each.
///
/// # Safety
/// Only from [`open`], after [`sources`].
unsafe fn networks(
    slots: &mut Slots,
    tasks: &[TaskOf],
    (arena, whole): (*mut u8, usize),
    threads: u32,
    options: &SetOptions,
) -> Result<Rooms, SetRefused> {
    let (mut end, mut rooms) = (0u64, Rooms::new());
    for (k, task) in tasks.iter().enumerate() {
        let refused = |why: OpenError| SetRefused::Task(k, why.into());
        // SAFETY: the slot's source has been written.
        let storage = unsafe { slots.source() };
        let room = task.room(storage, threads).map_err(refused)?;
        let start = end as usize;
        end = end.saturating_add(room);
        if end > whole as u64 {
            let needed = end.saturating_add(record(tasks.len()));
            return Err(SetRefused::Room(Room { arena: whole as u64, needed }));
        }
        // SAFETY: inside of the caller's memory, before the record, and no other network's.
        // Whatever bytes it holds are bytes.
        let memory =
            unsafe { core::slice::from_raw_parts_mut(arena.add(start), end as usize - start) };
        let opening = options.opening(threads, task.budget(), task.shape);
        let instance = Instance::open(storage, memory, opening).map_err(refused)?;
        let network = ChunkedInstance::whole(instance);
        // SAFETY: there is a slot for each task.
        unsafe { slots.add_network(network) };
        has_room(rooms.push(room));
    }
    Ok(rooms)
}

/// Ends a set's threads, and gives its memory back. Does nothing from within a scope.
///
/// # Safety
/// `set` is null, or from [`eyelet_set_open`] and not yet closed, and no other thread is using it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_close(set: *mut Set) {
    // SAFETY: the caller's promise; what borrows is dropped before what is borrowed.
    unsafe {
        if set.is_null() || (*set).busy || !(*set).working.is_null() {
            return;
        }
        part(&raw mut (*set).tasks).drop_in_place();
        Engine::end(&raw mut (*set).engine);
        (&raw mut (*set).slots).drop_in_place();
        #[cfg(all(feature = "linux", target_os = "linux"))]
        (&raw mut (*set).of_file).drop_in_place();
    }
}
