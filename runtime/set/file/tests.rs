//! Tables as they are written, cut short, damaged, and with every field wrong.

use super::*;
use crate::storage::{Slice, StorageError};
use bytemuck::bytes_of;
use std::vec::Vec;

/// Two tasks with one pack of a page.
fn table() -> (SetHeader, [SetTask; 2], &'static str) {
    let page = PAGE as u32;
    let header = SetHeader {
        magic: SET_MAGIC,
        version: SET_VERSION,
        crc: 0,
        file_bytes: 2 * PAGE,
        memory_bytes: 10 * PAGE,
        chunk_bytes: PAGE,
        read_bytes_per_second: 1_000_000,
        read_ns: 10,
        write_bytes_per_second: 0,
        write_ns: 0,
        table_bytes: page,
        tasks: 2,
        names_bytes: 9,
        pool: 2,
        order: 0,
        reserved: 0,
    };
    let task = |name_offset, name_bytes, chunks| SetTask {
        pack_offset: PAGE,
        pack_bytes: PAGE,
        budget: 5 * PAGE,
        bytes: 5 * PAGE,
        period_ns: 1000,
        deadline_ns: 900,
        jitter_ns: 100,
        chunk_ns: 7,
        compute_ns: 50,
        step_ns: 20,
        reload_ns: 0,
        reserved_word: 0,
        chunks,
        name_offset,
        name_bytes,
        room: 0,
        level: 1,
        streams: 0,
        reserved: 0,
    };
    (header, [task(0, 6, 1), task(6, 3, 2)], "cameraear")
}

/// A file of these records, its checksum right.
fn file((mut header, tasks, names): (SetHeader, [SetTask; 2], &str)) -> Vec<u8> {
    let names = &names.as_bytes()[..9];
    let whole = |header: &SetHeader| {
        let mut bytes = bytes_of(header).to_vec();
        bytes.extend(tasks.iter().flat_map(bytes_of));
        bytes.extend(names);
        bytes.resize(2 * PAGE as usize, 0);
        bytes
    };
    header.crc = 0;
    header.crc = crc32c(0, &whole(&header)[..PAGE as usize]);
    whole(&header)
}

fn read(file: &[u8]) -> Result<Vec<(std::string::String, u64, Task)>, SetFileError> {
    let mut memory = [0u64; 2 * PAGE as usize / 8];
    let memory = bytemuck::cast_slice_mut(&mut memory);
    let (set, rest) = SetFile::read(&mut Slice(file), memory)?;
    assert_eq!(rest.len(), PAGE as usize);
    assert_eq!(
        (set.policy(), set.memory_bytes(), set.chunk_bytes()),
        (Policy::Steps, 10 * PAGE, PAGE)
    );
    Ok(set.tasks().map(|entry| (entry.name.into(), entry.pack_offset, entry.task)).collect())
}

fn names(name: &'static str) -> (SetHeader, [SetTask; 2], &'static str) {
    let (header, tasks, _) = table();
    (header, tasks, name)
}

#[test]
fn what_was_written_is_read() {
    let tasks = read(&file(names("cameraear"))).unwrap();
    let task = Task {
        deadline_ns: 900,
        jitter_ns: 100,
        level: 1,
        chunks: 1,
        chunk_ns: 7,
        step_ns: 20,
        ..Task::new(1000, 50)
    };
    assert_eq!(tasks[0], ("camera".into(), PAGE, task));
    assert_eq!(tasks[1], ("ear".into(), PAGE, Task { chunks: 2, ..task }));
}

#[test]
fn a_file_that_is_cut_or_changed_is_refused() {
    let whole = file(names("cameraear"));
    for bytes in 0..whole.len() {
        let cut = read(&whole[..bytes]).unwrap_err();
        let size = bytes as u64;
        let expected = if size < PAGE { PAGE } else { 2 * PAGE };
        assert_eq!(cut, SetFileError::Size { found: size, expected });
    }
    let table = size_of::<SetHeader>() + 2 * size_of::<SetTask>() + 9;
    for at in 0..table {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << bit;
            assert!(read(&damaged).is_err(), "byte {at}, bit {bit}");
        }
    }
    let mut other = whole;
    other[0] = b'X';
    assert_eq!(read(&other), Err(SetFileError::NotASet));
    assert!(!is_set(&other) && is_set(&SET_MAGIC));
}

#[test]
fn a_table_that_says_what_cannot_be_is_refused() {
    let flaw = |change: fn(&mut SetHeader, &mut [SetTask; 2])| {
        let (mut header, mut tasks, _) = table();
        change(&mut header, &mut tasks);
        read(&file((header, tasks, "cameraear"))).unwrap_err()
    };
    let set = |what, found, limit| SetFileError::Flaw { what, found, limit };
    let of = |task, what, found, limit| SetFileError::Task { task, what, found, limit };
    assert_eq!(flaw(|h, _| h.order = 2), set("order of jobs", 2, 1));
    assert_eq!(flaw(|h, _| h.tasks = 0), set("number of tasks", 0, 64));
    assert_eq!(flaw(|h, _| h.tasks = 65), set("number of tasks", 65, 64));
    assert_eq!(flaw(|h, _| h.chunk_bytes = 100), set("bytes of a chunk, in pages", 100, PAGE));
    assert_eq!(flaw(|h, _| h.pool = 9), set("bytes in memory", 16 * PAGE, 10 * PAGE));
    let version = SetFileError::Version { found: 9, supported: SET_VERSION };
    assert_eq!(flaw(|h, _| h.version = 9), version);
    let table = flaw(|h, _| h.table_bytes = 2 * PAGE as u32);
    assert_eq!(table, set("bytes of the table", 2 * PAGE, PAGE));
    let longer = flaw(|h, _| h.names_bytes = 9000);
    assert_eq!(longer, set("bytes of the table", PAGE, 3 * PAGE));
    let beyond = flaw(|_, t| t[1].pack_bytes = u64::MAX);
    assert_eq!(beyond, of(1, "end of its pack in the file", u64::MAX, 2 * PAGE));
    assert_eq!(flaw(|_, t| t[0].pack_offset = 0), of(0, "start of its pack", 0, PAGE));
    assert_eq!(flaw(|_, t| t[1].name_bytes = 4), of(1, "end of its name", 10, 9));
    assert_eq!(flaw(|_, t| t[1].streams = 2), of(1, "whether it streams", 2, 1));
    assert_eq!(flaw(|_, t| t[1].reserved = 3), of(1, "what is reserved", 3, 0));
    assert_eq!(flaw(|_, t| t[1].reserved_word = 3), of(1, "what is reserved", 3, 0));
    assert_eq!(flaw(|_, t| t[1].room = 3), of(1, "chunks that are room", 3, 2));
    assert_eq!(flaw(|h, _| h.reserved = 3), set("what is reserved", 3, 0));
    let rate = flaw(|h, _| h.read_bytes_per_second = 0);
    assert_eq!(rate, set("bytes that are read in a second", 0, u64::MAX));
    let chunks = flaw(|_, t| t[0].chunks = 6);
    assert_eq!(chunks, of(0, "bytes of its chunks", 6 * PAGE, 5 * PAGE));
}

#[test]
fn times_that_no_schedule_has_are_refused() {
    let flaw = |change: fn(&mut SetTask)| {
        let (header, mut tasks, _) = table();
        change(&mut tasks[1]);
        read(&file((header, tasks, "cameraear"))).unwrap_err()
    };
    let of = |what, found, limit| SetFileError::Task { task: 1, what, found, limit };
    assert_eq!(flaw(|t| t.period_ns = 0), of("period", 0, LONGEST_NS));
    let long = flaw(|t| t.deadline_ns = u64::MAX);
    assert_eq!(long, of("deadline", u64::MAX, LONGEST_NS));
    assert_eq!(flaw(|t| t.compute_ns = 0), of("time of all steps", 0, LONGEST_NS));
    assert_eq!(flaw(|t| t.chunk_ns = 0), of("time of a chunk", 0, LONGEST_NS));
    assert_eq!(flaw(|t| t.step_ns = 51), of("time of the longest step", 51, 50));
    assert_eq!(flaw(|t| t.deadline_ns = 901), of("deadline with jitter", 1001, 1000));
}

#[test]
fn a_table_needs_memory_and_a_storage_that_reads() {
    let whole = file(names("cameraear"));
    let small = SetFile::read(&mut Slice(&whole), &mut [0; 100]).map(|_| ());
    assert_eq!(small, Err(SetFileError::Memory { has: 100, needed: PAGE }));
    // Names end in the middle of a letter.
    let letter = read(&file(names("cameraeeè"))).unwrap_err();
    assert_eq!(letter, SetFileError::Flaw { what: "names in UTF-8", found: 8, limit: 9 });
    let script = [(0, crate::storage::faulty::Fault::Errno(5))];
    let mut broken = crate::storage::Faulty::new(Slice(&whole), &script);
    let mut memory = [0u64; PAGE as usize / 8];
    let failed = SetFile::read(&mut broken, bytemuck::cast_slice_mut(&mut memory)).map(|_| ());
    let error = StorageError::Io { errno: 5, offset: 0 };
    assert_eq!(failed, Err(SetFileError::Storage(error)));
}
