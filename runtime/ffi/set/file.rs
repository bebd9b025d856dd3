//! A set from one file: what `eyelet schedule -o` has decided, with all packs.
//!
//! ```text
//! memory                          memory + bytes      the system's
//! │ table of the file │ record: set, threads │ slots │      │ what stays │ chunks that all networks share │
//! ```
//!
//! Networks do not lie in the caller's memory, since chunks of theirs come and go: addresses that have
//! memory at times are the system's to give.

use super::super::choose::choose;
use super::super::error::{Error, Status, argument};
use super::super::refused::Refused;
use super::super::source::{Opened, Source};
use super::super::{given, length};
use super::open::{OfFile, Packed, Rooms, Scheduled, Set, Slots, assemble, placed, record};
use super::records::{SetOptions, TASKS};
use super::refused::{FileRefused, Room, SetRefused};
use crate::arena::SharedArena;
use crate::executor::{ChunkedInstance, OpenError};
use crate::pack::PAGE;
use crate::set::{SetFile, SetFileError};
use crate::storage::{Storage as _, TWO_PAGES, aligned_page};
use crate::sys::discard::has_room;
use core::ffi::c_void;

/// Bytes of memory that [`eyelet_set_open_file`] needs, or 0 and an error.
///
/// # Safety
/// As the header says: pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_file_bytes(file: *const Source, error: *mut Error) -> u64 {
    // SAFETY: the caller's promises.
    unsafe {
        let refused = match given(file).map(|file| needed(file)) {
            Some(Ok(bytes)) => return bytes,
            Some(Err(refused)) => refused,
            None => SetRefused::Argument(NO_FILE),
        };
        refused.tell(error);
        0
    }
}

const NO_FILE: &str = "the file is missing";

/// # Safety
/// As [`eyelet_set_file_bytes`].
unsafe fn needed(file: &Source) -> Result<u64, SetRefused> {
    // SAFETY: the caller's promise.
    let opened = unsafe { Opened::open(&file.for_header()) };
    let mut storage = opened.map_err(|why| SetRefused::Shared(Refused::Source(why)))?;
    let size = storage.len().map_err(SetFileError::from)?;
    let mut room = [0; TWO_PAGES];
    let page = aligned_page(&mut room);
    if size < PAGE {
        return Err(SetFileError::Size { found: size, expected: PAGE }.into());
    }
    storage.read(0, page).map_err(SetFileError::from)?;
    // As many tasks as there may be: what the table says has not been checked yet.
    let table = SetFile::table_bytes(page, size)? as u64;
    Ok((table + record(TASKS)).next_multiple_of(PAGE))
}

/// Opens a set from one file.
///
/// # Safety
/// As the header says: pointers are null or valid; what the file's source points to and the memory are
/// the set's until [`eyelet_set_close`](super::eyelet_set_close).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn eyelet_set_open_file(
    set: *mut *mut Set,
    file: *const Source,
    memory: *mut c_void,
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
        let Some(file) = given(file) else { return argument(NO_FILE).tell(error) };
        if memory.is_null() {
            return argument("the memory is missing").tell(error);
        }
        let options = given(options).unwrap_or(&SetOptions::DEFAULT);
        match open(file, memory.cast(), bytes, options) {
            Ok(opened) => {
                set.write(opened);
                Status::Ok as i32
            }
            Err(refused) => refused.tell(error),
        }
    }
}

/// The place of `of_file` in a set's record, which is emptied unless all has gone well.
struct Shared(*mut Option<OfFile>);

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it has been written, and what borrows it was dropped before.
        unsafe { self.0.drop_in_place() };
    }
}

/// # Safety
/// As [`eyelet_set_open_file`]; `memory` is not null.
unsafe fn open(
    file: &Source,
    memory: *mut u8,
    bytes: u64,
    options: &SetOptions,
) -> Result<*mut Set, SetRefused> {
    // SAFETY: the caller's promises.
    let (table, whole) = unsafe { table(file, memory, bytes)? };
    // SAFETY: the caller's memory after the table, from here on the set's.
    let (set, slots, _) = unsafe { placed(memory, whole, table.tasks().len())? };
    let arena = SharedArena::new(table.memory_bytes(), table.chunk_bytes())?;
    // SAFETY: the record is ours.
    let of_file = unsafe {
        let of_file = &raw mut (*set).of_file;
        of_file.write(Some(OfFile { arena, table }));
        of_file
    };
    // Dropped after the networks, which borrow the arena.
    let shared = Shared(of_file);
    // SAFETY: just written. It does not move until it is dropped.
    let Some(OfFile { arena, .. }) = (unsafe { &*of_file }) else { return Ok(set) };
    // And these, which hold the networks, before it.
    let mut slots = slots;
    // SAFETY: the caller's promises, and those above.
    unsafe {
        let threads = sources(&mut slots, file, &table, options.threads)?;
        let rooms = networks(&mut slots, &table, arena, threads, options)?;
        let pool = arena.pool()?;
        let (found, wanted) = (pool.chunks(), table.header().pool);
        if found < wanted {
            return Err(SetRefused::File(FileRefused::Pool(found, wanted)));
        }
        let fallback = crate::tasks::Task::new(1, 1);
        let task = |k: usize, _: &ChunkedInstance<'_>| {
            table.tasks().nth(k).map_or(fallback, |task| task.task)
        };
        let scheduled = Scheduled { policy: table.policy(), task: &task, pool };
        assemble(set, slots, rooms, threads, options, scheduled)?;
    }
    core::mem::forget(shared);
    Ok(set)
}

/// Reads the file's table to the front of the memory. Returns it, and how many bytes the memory has in
/// all.
///
/// # Safety
/// As [`open`].
unsafe fn table(
    file: &Source,
    memory: *mut u8,
    bytes: u64,
) -> Result<(SetFile<'static>, usize), SetRefused> {
    let whole =
        length(bytes).ok_or(SetRefused::Argument("there is more memory than there can be"))?;
    let address = memory.addr();
    if !address.is_multiple_of(PAGE as usize) {
        return Err(SetRefused::Shared(OpenError::Arena { address }.into()));
    }
    // SAFETY: the caller's promise.
    let needed = unsafe { needed(file)? };
    if bytes < needed {
        return Err(SetRefused::Room(Room { arena: bytes, needed }));
    }
    // SAFETY: likewise.
    let opened = unsafe { Opened::open(&file.for_header()) };
    let mut storage = opened.map_err(|why| SetRefused::Shared(Refused::Source(why)))?;
    // SAFETY: `front` bytes are before the record's place. They are the set's until it is closed, and
    // whatever they hold are bytes.
    let front = needed.saturating_sub(record(TASKS)) as usize / PAGE as usize * PAGE as usize;
    let front: &'static mut [u8] = unsafe { core::slice::from_raw_parts_mut(memory, front) };
    let (table, _) = SetFile::read(&mut storage, front)?;
    match table.tasks().len() {
        tasks if tasks > TASKS => Err(SetRefused::File(FileRefused::Tasks(tasks))),
        _ => Ok((table, whole)),
    }
}

/// Opens the file once for each task, and returns how many threads compute.
///
/// # Safety
/// There is a slot for each task of the table, and the source is as [`eyelet_set_open_file`] wants it.
unsafe fn sources(
    slots: &mut Slots,
    file: &Source,
    table: &SetFile<'_>,
    threads: u32,
) -> Result<u32, SetRefused> {
    let mut least = u32::MAX;
    for (k, task) in table.tasks().enumerate() {
        let refused = |why: OpenError| SetRefused::Task(k, why.into());
        // SAFETY: the caller's promise.
        let opened = unsafe { Opened::open(file) };
        let storage = opened.map_err(|why| SetRefused::Task(k, Refused::Source(why)))?;
        let pack = Packed::new(storage, task.pack_offset, task.pack_bytes);
        let mut pack = pack.map_err(|why| refused(why.into()))?;
        least = least.min(choose(&mut pack, 0, task.budget, threads).map_err(refused)?.0);
        // SAFETY: the caller's promise.
        unsafe { slots.add_source(pack) };
    }
    Ok(least)
}

/// Opens the networks in the arena. Returns the budget of each.
///
/// # Safety
/// After [`sources`].
unsafe fn networks(
    slots: &mut Slots,
    table: &SetFile<'_>,
    arena: &'static SharedArena,
    threads: u32,
    options: &SetOptions,
) -> Result<Rooms, SetRefused> {
    let mut rooms = Rooms::new();
    for (k, task) in table.tasks().enumerate() {
        // SAFETY: the source of this task has been written.
        let storage = unsafe { slots.source() };
        let opening = options.opening(threads, task.budget, 0);
        let network = ChunkedInstance::open(storage, arena, opening, task.task.chunks);
        let network = network.map_err(|why| SetRefused::File(FileRefused::Network(k, why)))?;
        // SAFETY: there is a slot for each task.
        unsafe { slots.add_network(network) };
        has_room(rooms.push(task.budget));
    }
    Ok(rooms)
}
