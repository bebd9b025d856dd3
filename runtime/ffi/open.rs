//! A model in its caller's memory: how it gets there, what it is made of, and how it goes.
//!
//! ```text
//! arena                                                        arena + bytes
//! │ header, skeleton, tables │ activations, weights, scratch │ record │
//! ```
//!
//! The record holds the instance and, borrowing from it, the model; a scope's closure would keep
//! them apart on the stack, but C has none. So borrows here are made of raw pointers and said to
//! last for ever. They hold because the record never moves. After `open` only `running` and
//! `engine` are touched, by one function at a time. `close` drops the borrower before the borrowed.

use super::choose::choose_in;
use super::computer::{Engine, cores};
use super::error::{Error, Status, argument};
use super::refused::Refused;
use super::source::{Opened, Source};
use super::{given, length};
use crate::arena::Regions;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::device::threads::{self, ThreadError};
use crate::executor::{self, Inline, Instance, OpenError, Room, STEP_WORK};
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::executor::{Concurrent, Loader};
use core::ffi::c_void;
use core::mem::MaybeUninit;

/// How a model is opened, by the caller. All zero is what most want.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Bytes of arena that the plan may use; 0 for all there are.
    pub budget: u64,
    /// Compute threads, the caller's included; 0 for the plan's number, up to the number of cores.
    pub threads: u32,
    /// Not zero: loads are made between steps, on the caller's thread.
    pub load_inline: u32,
    /// Not zero: checksums are not compared.
    pub no_verify: u32,
    /// Most reads in flight; 0 for the most that the source supports, 1 for one after the other.
    pub depth: u32,
    /// Null, or for each thread the core that it keeps to. The first is the caller's, who must see
    /// to it by itself, when the model is open: the loader's thread may run where the opening one
    /// may.
    pub cores: *const u32,
    /// Most multiply-adds and elements of one step, beyond which a pack is refused; 0 for
    /// [`STEP_WORK`](executor::STEP_WORK).
    pub step_work: u64,
    /// Which of the pack's shapes is computed.
    pub shape: u32,
    /// Fast memory for scratch and buffers, aligned to a cache line, of a board that has some; null if there are no bytes of it.
    pub fast: *mut c_void,
    /// Bytes of fast memory.
    pub fast_bytes: u64,
}

/// A model: opaque to C.
#[derive(Debug)]
pub struct Model {
    pub(super) running: MaybeUninit<Running>,
    pub(super) engine: Engine,
    /// The loader, if it has a thread of its own.
    #[cfg(all(feature = "linux", target_os = "linux"))]
    job: MaybeUninit<Job>,
    instance: MaybeUninit<Instance<'static>>,
    pub(super) memory: MaybeUninit<Memory>,
    source: MaybeUninit<Opened>,
}

/// The caller's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    /// Bytes of the arena before the record, which plans may use.
    pub arena: u64,
    /// Bytes of the whole arena.
    pub whole: u64,
}

/// Bytes of memory that a model takes in addition to its plan's arena, with what aligning it may
/// cost.
pub(super) const RECORD: u64 = (size_of::<Model>() + align_of::<Model>()) as u64;

const _: () = assert!(RECORD <= 4096, "a page is enough for the record");

/// A model by how it gets its loads. It never moves, and there is no heap for the larger kind.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)]
pub(super) enum Running {
    /// Between steps.
    Inline(executor::Model<'static, 'static, Inline<'static, 'static, Opened>>),
    /// From a loader on a thread of its own.
    #[cfg(all(feature = "linux", target_os = "linux"))]
    WithLoader(executor::Model<'static, 'static, Concurrent<'static, 'static>>, libc::pthread_t),
}

/// The arguments of the loader's thread.
#[cfg(all(feature = "linux", target_os = "linux"))]
#[derive(Debug)]
struct Job {
    loader: Loader<'static, 'static>,
    source: &'static mut Opened,
}

/// A pointer to a job is all that [`threads::spawn`] sees.
#[cfg(all(feature = "linux", target_os = "linux"))]
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Job>();
};

/// Opens a model in the caller's memory.
///
/// # Safety
/// As the header says: pointers are null or valid, what the source points to and the memory are the
/// model's until [`eyelet_close`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_open(
    model: *mut *mut Model,
    source: *const Source,
    arena: *mut c_void,
    bytes: u64,
    options: *const Options,
    error: *mut Error,
) -> i32 {
    const DEFAULT: Options = Options {
        budget: 0,
        threads: 0,
        load_inline: 0,
        no_verify: 0,
        depth: 0,
        cores: core::ptr::null(),
        step_work: 0,
        shape: 0,
        fast: core::ptr::null_mut(),
        fast_bytes: 0,
    };
    // SAFETY: the caller's promises.
    unsafe {
        let missing = |what: &'static str| argument(what).tell(error);
        // The memory is the caller's, and need not be initialised.
        if model.is_null() {
            return missing("there is nowhere to put the model");
        }
        model.write(core::ptr::null_mut());
        let Some(source) = given(source) else { return missing("the source is missing") };
        if arena.is_null() {
            return missing("the arena is missing");
        }
        let options = given(options).unwrap_or(&DEFAULT);
        match open(source, arena.cast(), bytes, options) {
            Ok(opened) => {
                model.write(opened);
                Status::Ok as i32
            }
            Err(refused) => refused.tell(error),
        }
    }
}

/// # Safety
/// As [`eyelet_open`]; `arena` is not null.
unsafe fn open(
    source: &Source,
    arena: *mut u8,
    bytes: u64,
    options: &Options,
) -> Result<*mut Model, Refused> {
    let (size, align) = (size_of::<Model>(), align_of::<Model>());
    let bytes = length(bytes).ok_or(Refused::Argument("the arena is larger than memory can be"))?;
    let address = arena.addr();
    if !address.is_multiple_of(crate::pack::PAGE as usize) {
        return Err(OpenError::Arena { address }.into());
    }
    // Where the record starts: the arena is aligned to more than it.
    let at = bytes.saturating_sub(size) & !(align - 1);
    // SAFETY: the caller's promise.
    let mut storage = unsafe { Opened::open(source) }.map_err(Refused::Source)?;
    let budget = if options.budget == 0 { u64::MAX } else { options.budget }.min(at as u64);
    // SAFETY: the caller's promise.
    let fast = unsafe { fast(options) }?;
    let (shape, room) = (options.shape, Room { arena: budget, fast: fast.len() as u64 });
    let (threads, header) = choose_in(&mut storage, shape, room, options.threads)?;
    // SAFETY: likewise.
    let cores = unsafe { cores(options.cores, options.threads) }?;
    // SAFETY: `at` and the record after it are inside of the caller's memory, or there was no plan
    // for so little; it is ours until `eyelet_close`, and nothing else refers to it. Whatever bytes
    // it holds are bytes.
    let (model, arena) =
        unsafe { (arena.add(at).cast::<Model>(), core::slice::from_raw_parts_mut(arena, at)) };
    let regions = Regions { arena, fast };
    let verify = options.no_verify == 0;
    let depth = if options.depth == 0 { u32::MAX } else { options.depth };
    let step_work = if options.step_work == 0 { STEP_WORK } else { options.step_work };
    let opening = executor::Options { verify, threads, budget, shape, depth, step_work };
    let instance = Instance::open_in(&mut storage, regions, opening)?;
    let streams = !instance.plan().loads.is_empty() || header.plans > 1;
    // SAFETY: the record is aligned, and each part of it is written before it is referred to.
    unsafe {
        let (arena, whole) = (at as u64, bytes as u64);
        part(&raw mut (*model).memory).write(Memory { arena, whole });
        part(&raw mut (*model).source).write(storage);
        part(&raw mut (*model).instance).write(instance);
        let started = Engine::start(&raw mut (*model).engine, threads, cores.as_deref())
            .and_then(|()| start(model, streams && options.load_inline == 0));
        if let Err(refused) = started {
            part(&raw mut (*model).instance).drop_in_place();
            part(&raw mut (*model).source).drop_in_place();
            return Err(refused);
        }
    }
    Ok(model)
}

/// The fast memory that is given.
///
/// # Safety
/// It is null, or the model's until [`eyelet_close`].
unsafe fn fast(options: &Options) -> Result<&'static mut [u8], Refused> {
    match length(options.fast_bytes) {
        Some(0) => Ok(&mut []),
        Some(_) if options.fast.is_null() => {
            Err(Refused::Argument("there are bytes of fast memory, and its address is missing"))
        }
        // SAFETY: whatever bytes it holds are bytes, and nothing else refers to them by the caller's promise.
        Some(bytes) => {
            Ok(unsafe { core::slice::from_raw_parts_mut(options.fast.cast::<u8>(), bytes) })
        }
        None => Err(Refused::Argument("fast memory is larger than memory can be")),
    }
}

/// A part of the record.
pub(super) fn part<T>(of: *mut MaybeUninit<T>) -> *mut T {
    of.cast()
}

/// Puts the model into the record, its loader on a thread of its own if it shall be `with_loader`. Ends
/// what computes if it cannot.
///
/// # Safety
/// Only from [`open`], when all else is in the record.
unsafe fn start(model: *mut Model, with_loader: bool) -> Result<(), Refused> {
    // SAFETY: nothing but the model and its loader refers to the instance and the source from here
    // on, until `close` has dropped these two.
    let (instance, source): (&'static mut Instance<'static>, &'static mut Opened) =
        unsafe { (&mut *part(&raw mut (*model).instance), &mut *part(&raw mut (*model).source)) };
    // SAFETY: only an address inside of the record is taken.
    let running = part(unsafe { &raw mut (*model).running });
    #[cfg(all(feature = "linux", target_os = "linux"))]
    if with_loader {
        let (loader, waiting) = instance.split();
        // SAFETY: the thread has the job, which is Send, to itself until it has been waited for, in
        // `close`.
        unsafe {
            let job = part(&raw mut (*model).job);
            job.write(Job { loader, source });
            match threads::spawn(load, job.cast()) {
                Ok(thread) => running.write(Running::WithLoader(waiting, thread)),
                Err(errno) => {
                    // Nothing waits: the model ends here.
                    job.drop_in_place();
                    Engine::end(&raw mut (*model).engine);
                    return Err(Refused::Threads(ThreadError::Loader { errno }));
                }
            }
        }
        return Ok(());
    }
    let _: bool = with_loader;
    // SAFETY: the record is ours.
    unsafe { running.write(Running::Inline(instance.inline(source))) };
    Ok(())
}

/// The body of the loader's thread.
#[cfg(all(feature = "linux", target_os = "linux"))]
extern "C" fn load(job: *mut c_void) -> *mut c_void {
    // SAFETY: `start` passes a job that is this thread's until it ends.
    let Job { loader, source } = unsafe { &mut *job.cast::<Job>() };
    loader.run(*source);
    core::ptr::null_mut()
}

/// Ends a model's threads, and gives its memory back.
///
/// # Safety
/// `model` is null, or from [`eyelet_open`] and not yet closed, and no other function is using it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_close(model: *mut Model) {
    if model.is_null() {
        return;
    }
    // SAFETY: the caller's promise; what borrows is dropped before what is borrowed.
    unsafe {
        let running = part(&raw mut (*model).running);
        #[cfg(all(feature = "linux", target_os = "linux"))]
        if let Running::WithLoader(waiting, thread) = &*running {
            waiting.stop_loader();
            threads::wait(*thread);
            running.drop_in_place();
            part(&raw mut (*model).job).drop_in_place();
        } else {
            running.drop_in_place();
        }
        #[cfg(not(all(feature = "linux", target_os = "linux")))]
        running.drop_in_place();
        Engine::end(&raw mut (*model).engine);
        part(&raw mut (*model).instance).drop_in_place();
        part(&raw mut (*model).source).drop_in_place();
    }
}
