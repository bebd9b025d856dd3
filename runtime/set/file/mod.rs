//! A set in one file: its packs, the sizes of its memory, and the table of its tasks.
//!
//! ```text
//! │ header │ tasks │ names │ to the page │ pack │ pack │ … │
//! ```
//!
//! `eyelet schedule -o FILE.pack` writes it. A device reads the table once, and opens each network in the file's
//! [`Part`](crate::storage::Part) that holds its pack. Like a pack, the file is untrusted: everything that the table says is
//! checked before it is used, and packs are proved when they are opened.
//!
//! Where what lies, byte by byte, is in `docs/pack-format.md`.

mod error;
mod records;
#[cfg(test)]
mod tests;

pub use error::SetFileError;
pub use records::{MAX_TASKS, SET_MAGIC, SET_VERSION, SetHeader, SetTask};

use crate::pack::PAGE;
use crate::pack::crc32c::crc32c;
use crate::storage::Storage;
use crate::tasks::{LONGEST_NS, Policy, Task};
use bytemuck::{pod_read_unaligned, try_cast_slice};

/// The table of a set's file, viewed in place.
#[derive(Clone, Copy, Debug)]
pub struct SetFile<'t> {
    header: SetHeader,
    policy: Policy,
    tasks: &'t [SetTask],
    names: &'t str,
}

/// A task of a set's file.
#[derive(Clone, Copy, Debug)]
pub struct TaskEntry<'t> {
    /// Its name.
    pub name: &'t str,
    /// Where its pack starts in the file: a multiple of the page.
    pub pack_offset: u64,
    /// Bytes of the pack.
    pub pack_bytes: u64,
    /// Budget of the plan that was scheduled.
    pub budget: u64,
    /// Bytes of memory with all of the plan in it.
    pub bytes: u64,
    /// The task as the scheduler has it.
    pub task: Task,
}

/// Whether a storage that begins with these bytes is a set's file.
pub fn is_set(start: &[u8]) -> bool {
    start.starts_with(&SET_MAGIC)
}

impl<'t> SetFile<'t> {
    /// Bytes of the table of a file that begins with this page and has `size` bytes.
    pub fn table_bytes(page: &[u8], size: u64) -> Result<usize, SetFileError> {
        let header = header(page, size)?;
        Ok(header.table_bytes as usize)
    }

    /// Reads the table to the front of `memory`, which starts on a page, and checks it. The rest of the memory is free.
    pub fn read<S: Storage>(
        storage: &mut S,
        memory: &'t mut [u8],
    ) -> Result<(Self, &'t mut [u8]), SetFileError> {
        let (size, has) = (storage.len()?, memory.len() as u64);
        let Some(page) = memory.get_mut(..PAGE as usize).filter(|_| size >= PAGE) else {
            return Err(match size < PAGE {
                true => SetFileError::Size { found: size, expected: PAGE },
                false => SetFileError::Memory { has, needed: PAGE },
            });
        };
        storage.read(0, page)?;
        let bytes = Self::table_bytes(page, size)?;
        if bytes as u64 > has {
            return Err(SetFileError::Memory { has, needed: bytes as u64 });
        }
        let (table, rest) = memory.split_at_mut(bytes);
        if let Some(more) = table.get_mut(PAGE as usize..).filter(|more| !more.is_empty()) {
            storage.read(PAGE, more)?;
        }
        Ok((Self::view(table, size)?, rest))
    }

    /// The table at the front of these bytes of a file that has `size` bytes, checked and viewed in place.
    pub fn view(bytes: &'t [u8], size: u64) -> Result<Self, SetFileError> {
        let header = header(bytes, size)?;
        let has = bytes.len() as u64;
        let needed = u64::from(header.table_bytes);
        let table = bytes.get(..header.table_bytes as usize);
        let table = table.ok_or(SetFileError::Memory { has, needed })?;
        let field = core::mem::offset_of!(SetHeader, crc);
        let found = crc32c(crc32c(crc32c(0, &table[..field]), &[0; 4]), &table[field + 4..]);
        if found != header.crc {
            return Err(SetFileError::Checksum { found, expected: header.crc });
        }
        let policy = match header.order {
            0 => Policy::Steps,
            1 => Policy::Classes,
            order => return Err(SetFileError::flaw("order of jobs", order.into(), 1)),
        };
        let start = size_of::<SetHeader>();
        let end = start + header.tasks as usize * size_of::<SetTask>();
        let tasks = table.get(start..end).and_then(|bytes| try_cast_slice(bytes).ok());
        let tasks: &[SetTask] = tasks.ok_or(SetFileError::Memory { has, needed })?;
        let names = table.get(end..end + header.names_bytes as usize).unwrap_or_default();
        let names = core::str::from_utf8(names).map_err(|error| {
            SetFileError::flaw("names in UTF-8", error.valid_up_to() as u64, names.len() as u64)
        })?;
        let file = Self { header, policy, tasks, names };
        file.check()?;
        Ok(file)
    }

    /// Checks what the header alone does not say.
    fn check(&self) -> Result<(), SetFileError> {
        let Self { header, tasks, names, .. } = self;
        let mut stay = u64::from(header.pool).saturating_mul(header.chunk_bytes);
        for (k, task) in tasks.iter().enumerate() {
            let flaw = |what, found, limit| Err(SetFileError::Task { task: k, what, found, limit });
            let end = task.pack_offset.saturating_add(task.pack_bytes);
            if end > header.file_bytes {
                return flaw("end of its pack in the file", end, header.file_bytes);
            }
            if !task.pack_offset.is_multiple_of(PAGE)
                || task.pack_offset < header.table_bytes.into()
            {
                return flaw("start of its pack", task.pack_offset, header.table_bytes.into());
            }
            let name_end = u64::from(task.name_offset) + u64::from(task.name_bytes);
            let name = task.name_offset as usize..name_end as usize;
            if names.get(name).is_none() {
                return flaw("end of its name", name_end, names.len() as u64);
            }
            if task.streams > 1 {
                return flaw("whether it streams", task.streams.into(), 1);
            }
            let reserved = task.reserved_word | u64::from(task.reserved);
            if reserved > 0 {
                return flaw("what is reserved", reserved, 0);
            }
            if task.room > task.chunks {
                return flaw("chunks that are room", task.room.into(), task.chunks.into());
            }
            if let Some((what, found, limit)) = wrong_time(task) {
                return flaw(what, found, limit);
            }
            let swapped = u64::from(task.chunks).saturating_mul(header.chunk_bytes);
            let Some(kept) = task.bytes.checked_sub(swapped) else {
                return flaw("bytes of its chunks", swapped, task.bytes);
            };
            stay = stay.saturating_add(kept);
        }
        match stay <= header.memory_bytes {
            true => Ok(()),
            false => Err(SetFileError::flaw("bytes in memory", stay, header.memory_bytes)),
        }
    }

    /// The file's header.
    pub fn header(&self) -> &SetHeader {
        &self.header
    }

    /// In which order jobs are served.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// Bytes of memory for all networks and the pool.
    pub fn memory_bytes(&self) -> u64 {
        self.header.memory_bytes
    }

    /// Bytes of a chunk.
    pub fn chunk_bytes(&self) -> u64 {
        self.header.chunk_bytes
    }

    /// The tasks, in the order of their numbers.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskEntry<'t>> + use<'t> {
        let names = self.names;
        self.tasks.iter().map(move |task| {
            // `check` has found it there.
            let name = names.get(task.name_offset as usize..).unwrap_or_default();
            TaskEntry {
                name: name.get(..task.name_bytes as usize).unwrap_or_default(),
                pack_offset: task.pack_offset,
                pack_bytes: task.pack_bytes,
                budget: task.budget,
                bytes: task.bytes,
                task: task.task(),
            }
        })
    }
}

/// A time of a task that no schedule has: what it is, its nanoseconds, and the limit.
fn wrong_time(task: &SetTask) -> Option<(&'static str, u64, u64)> {
    let SetTask { period_ns, deadline_ns, jitter_ns, chunk_ns, compute_ns, step_ns, .. } = *task;
    // A task without weights to read may have chunks that take no time.
    let weights = task.chunks > task.room;
    let times = [
        ("period", period_ns, true),
        ("deadline", deadline_ns, true),
        ("time of all steps", compute_ns, true),
        ("time of the longest step", step_ns, true),
        ("time of a chunk", chunk_ns, weights),
    ];
    for (what, ns, needed) in times {
        if ns > LONGEST_NS || (needed && ns == 0) {
            return Some((what, ns, LONGEST_NS));
        }
    }
    if step_ns > compute_ns {
        return Some(("time of the longest step", step_ns, compute_ns));
    }
    let end = deadline_ns.saturating_add(jitter_ns);
    (end > period_ns).then_some(("deadline with jitter", end, period_ns))
}

/// The header of a file that begins with these bytes and has `size` bytes.
fn header(start: &[u8], size: u64) -> Result<SetHeader, SetFileError> {
    let Some(bytes) = start.get(..size_of::<SetHeader>()) else {
        let (found, expected) = (start.len() as u64, PAGE);
        return Err(SetFileError::Size { found, expected });
    };
    let header: SetHeader = pod_read_unaligned(bytes);
    if header.magic != SET_MAGIC {
        return Err(SetFileError::NotASet);
    }
    if header.version != SET_VERSION {
        let (found, supported) = (header.version, SET_VERSION);
        return Err(SetFileError::Version { found, supported });
    }
    if header.file_bytes > size {
        return Err(SetFileError::Size { found: size, expected: header.file_bytes });
    }
    if header.tasks == 0 || header.tasks as usize > MAX_TASKS {
        return Err(SetFileError::flaw("number of tasks", header.tasks.into(), MAX_TASKS as u64));
    }
    let records = size_of::<SetHeader>() as u64
        + u64::from(header.tasks) * size_of::<SetTask>() as u64
        + u64::from(header.names_bytes);
    let pages = records.next_multiple_of(PAGE);
    if u64::from(header.table_bytes) != pages {
        return Err(SetFileError::flaw("bytes of the table", header.table_bytes.into(), pages));
    }
    if pages > header.file_bytes {
        return Err(SetFileError::flaw("bytes of the table", pages, header.file_bytes));
    }
    if header.read_bytes_per_second == 0 {
        return Err(SetFileError::flaw("bytes that are read in a second", 0, u64::MAX));
    }
    if header.reserved > 0 {
        return Err(SetFileError::flaw("what is reserved", header.reserved.into(), 0));
    }
    if header.chunk_bytes == 0 || !header.chunk_bytes.is_multiple_of(PAGE) {
        return Err(SetFileError::flaw("bytes of a chunk, in pages", header.chunk_bytes, PAGE));
    }
    Ok(header)
}
