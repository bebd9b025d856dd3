//! The records of a set's file: little-endian, 8 bytes aligned.

use crate::tasks::Task;
use bytemuck::{Pod, Zeroable};

/// The first bytes of a set's file.
pub const SET_MAGIC: [u8; 8] = *b"EYESET\r\n";

/// The version of the format that this library reads and writes.
pub const SET_VERSION: u32 = 1;

/// The most tasks of a set's file.
pub const MAX_TASKS: usize = 64;

/// The head of the file.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct SetHeader {
    /// [`SET_MAGIC`].
    pub magic: [u8; 8],
    /// [`SET_VERSION`].
    pub version: u32,
    /// CRC-32C of the table, as if this field were zero.
    pub crc: u32,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of memory for all networks and the pool.
    pub memory_bytes: u64,
    /// Bytes of a chunk: whole pages.
    pub chunk_bytes: u64,
    /// The rate of the storage that the schedule assumed, in bytes a second.
    pub read_bytes_per_second: u64,
    /// Nanoseconds of each read besides.
    pub read_ns: u64,
    /// Bytes a second that are written when a chunk leaves memory; 0 where nothing is.
    pub write_bytes_per_second: u64,
    /// Nanoseconds of each write besides.
    pub write_ns: u64,
    /// Bytes of header, tasks and names, in whole pages: where packs begin.
    pub table_bytes: u32,
    /// Number of [`SetTask`] records, which follow.
    pub tasks: u32,
    /// Bytes of the names, which follow.
    pub names_bytes: u32,
    /// Chunks that all networks share.
    pub pool: u32,
    /// Which job goes first: 0 by steps, 1 by classes.
    pub order: u32,
    /// Zero.
    pub reserved: u32,
}

/// A task.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct SetTask {
    /// Where its pack starts in the file: a page.
    pub pack_offset: u64,
    /// Bytes of the pack.
    pub pack_bytes: u64,
    /// Budget of the plan.
    pub budget: u64,
    /// Bytes of memory with all of the plan in it.
    pub bytes: u64,
    /// Least time between two arrivals, nanoseconds, as all times.
    pub period_ns: u64,
    /// From a job's release to its latest end.
    pub deadline_ns: u64,
    /// A job is released at most this long after it arrives.
    pub jitter_ns: u64,
    /// One chunk of weights' way into memory.
    pub chunk_ns: u64,
    /// All steps of a job.
    pub compute_ns: u64,
    /// The longest step.
    pub step_ns: u64,
    /// Reading again what a job pushes out of others.
    pub reload_ns: u64,
    /// Zero.
    pub reserved_word: u64,
    /// Chunks that leave memory between two jobs.
    pub chunks: u32,
    /// How many of them are room.
    pub room: u32,
    /// Where its name starts among the names.
    pub name_offset: u32,
    /// Bytes of the name.
    pub name_bytes: u32,
    /// Level of preemption.
    pub level: u16,
    /// 1 where steps read weights while they compute.
    pub streams: u16,
    /// Zero.
    pub reserved: u32,
}

const _: () = assert!(size_of::<SetHeader>() == 96 && size_of::<SetTask>() == 120);

impl SetTask {
    /// The task as the scheduler has it.
    pub(super) fn task(&self) -> Task {
        Task {
            deadline_ns: self.deadline_ns,
            jitter_ns: self.jitter_ns,
            level: self.level,
            chunks: self.chunks,
            room: self.room,
            chunk_ns: self.chunk_ns,
            step_ns: self.step_ns,
            streams: self.streams != 0,
            reload_ns: self.reload_ns,
            ..Task::new(self.period_ns, self.compute_ns)
        }
    }
}
