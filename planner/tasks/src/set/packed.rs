//! A decided set as the table of one file that holds its packs, too: what `eyelet::set::SetFile` reads on a device.

use super::decided::{Decided, Pack, Place, Planned};
use super::{Assignment, Cost, Storage, Swappable, Task, TaskSet, Transfer};
use bytemuck::{Zeroable, bytes_of};
use eyelet::pack::PAGE;
use eyelet::pack::crc32c::crc32c;
use eyelet::set::{MAX_TASKS, SET_MAGIC, SET_VERSION, SetFile, SetHeader, SetTask, TaskEntry};
use eyelet::tasks::Policy;
use std::path::Path;

/// Bytes of a set's table, in whole pages: where packs begin. None if it has more tasks than a file can have.
pub fn table_bytes(decided: &Decided) -> Option<u64> {
    let tasks = &decided.set.tasks;
    let names: usize = tasks.iter().map(|task| task.name.len()).sum();
    let records = size_of::<SetHeader>() + tasks.len() * size_of::<SetTask>() + names;
    let pages = (records as u64).next_multiple_of(PAGE);
    (tasks.len() <= MAX_TASKS && u32::try_from(pages).is_ok()).then_some(pages)
}

/// The table of a set whose packs lie in these places of a file of so many bytes, one for each task.
pub fn table(decided: &Decided, places: &[Place], file_bytes: u64) -> Option<Vec<u8>> {
    let Decided { set, assignment, packs } = decided;
    let table_bytes = table_bytes(decided)?;
    let names: String = set.tasks.iter().map(|task| task.name.as_str()).collect();
    let write = set.storage.write.unwrap_or(Transfer { per_chunk_ns: 0, bytes_per_second: 0 });
    let header = SetHeader {
        magic: SET_MAGIC,
        version: SET_VERSION,
        file_bytes,
        memory_bytes: set.memory_bytes,
        chunk_bytes: assignment.chunk_bytes,
        read_bytes_per_second: set.storage.read.bytes_per_second,
        read_ns: set.storage.read.per_chunk_ns,
        write_bytes_per_second: write.bytes_per_second,
        write_ns: write.per_chunk_ns,
        table_bytes: table_bytes as u32,
        tasks: set.tasks.len() as u32,
        names_bytes: names.len() as u32,
        pool: decided.pool(),
        order: u32::from(assignment.policy == Policy::Classes),
        ..SetHeader::zeroed()
    };
    let mut bytes = bytes_of(&header).to_vec();
    let scheduled = assignment.tasks(set);
    let mut name_offset = 0;
    for (((task, found), planned), place) in set.tasks.iter().zip(&scheduled).zip(packs).zip(places)
    {
        let record = SetTask {
            pack_offset: place.offset,
            pack_bytes: place.bytes,
            budget: planned.budget,
            bytes: task.cost.bytes,
            period_ns: found.period_ns,
            deadline_ns: found.deadline_ns,
            jitter_ns: found.jitter_ns,
            chunk_ns: found.chunk_ns,
            compute_ns: found.compute_ns,
            step_ns: found.step_ns,
            reload_ns: found.reload_ns,
            reserved_word: 0,
            chunks: found.chunks,
            room: found.room,
            name_offset,
            name_bytes: task.name.len() as u32,
            level: found.level,
            streams: found.streams.into(),
            reserved: 0,
        };
        name_offset += record.name_bytes;
        bytes.extend(bytes_of(&record));
    }
    bytes.extend(names.as_bytes());
    bytes.resize(table_bytes as usize, 0);
    let crc = crc32c(0, &bytes);
    let field = core::mem::offset_of!(SetHeader, crc);
    bytes[field..field + 4].copy_from_slice(&crc.to_le_bytes());
    Some(bytes)
}

/// The set that the table of the file at a path says.
pub fn decided(path: &Path, file: &SetFile<'_>) -> Decided {
    let header = file.header();
    let chunk_bytes = file.chunk_bytes();
    let task = |entry: TaskEntry<'_>| Task {
        name: entry.name.to_owned(),
        period_ns: entry.task.period_ns,
        // The file's counts from the release.
        deadline_ns: entry.task.deadline_ns.saturating_add(entry.task.jitter_ns),
        jitter_ns: entry.task.jitter_ns,
        cost: Cost {
            compute_ns: entry.task.compute_ns,
            step_ns: entry.task.step_ns,
            bytes: entry.bytes,
            weights: Swappable::of(u64::from(entry.task.weights()).saturating_mul(chunk_bytes)),
            room: Swappable::of(u64::from(entry.task.room).saturating_mul(chunk_bytes)),
            streams: entry.task.streams,
        },
    };
    let transfer = |bytes_per_second, per_chunk_ns| Transfer { per_chunk_ns, bytes_per_second };
    let write = transfer(header.write_bytes_per_second, header.write_ns);
    let storage = Storage {
        chunk_bytes,
        read: transfer(header.read_bytes_per_second, header.read_ns),
        write: (write.bytes_per_second > 0).then_some(write),
    };
    let planned = |entry: TaskEntry<'_>| {
        let place = Place { offset: entry.pack_offset, bytes: entry.pack_bytes };
        let pack = Pack { path: path.to_owned(), place: Some(place) };
        Planned { pack, budget: entry.budget }
    };
    let memory_bytes = file.memory_bytes();
    Decided {
        set: TaskSet {
            memory_bytes,
            page_bytes: PAGE,
            storage,
            tasks: file.tasks().map(task).collect(),
        },
        assignment: Assignment {
            chunk_bytes,
            chunks: file.tasks().map(|entry| entry.task.chunks).collect(),
            levels: file.tasks().map(|entry| entry.task.level).collect(),
            policy: file.policy(),
        },
        packs: file.tasks().map(planned).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let places = [Place { offset: PAGE, bytes: 5000 }, Place { offset: 3 * PAGE, bytes: PAGE }];
        let task = |name: &str, jitter_ns| Task {
            name: name.to_owned(),
            period_ns: 100_000_000,
            deadline_ns: 80_000_000,
            jitter_ns,
            cost: Cost {
                compute_ns: 20_000_001,
                step_ns: 2_000_000,
                bytes: 10 * 65536 + 4096,
                weights: Swappable::of(4 * 65536),
                room: Swappable::default(),
                streams: false,
            },
        };
        let read = Transfer { per_chunk_ns: 80_000, bytes_per_second: 450_000_001 };
        let written = Decided {
            set: TaskSet {
                memory_bytes: 19 * 65536 + 3 * PAGE,
                page_bytes: PAGE,
                storage: Storage { chunk_bytes: 65536, read, write: None },
                tasks: vec![task("kamera vorn, größer", 3), task("b", 0)],
            },
            assignment: Assignment {
                chunk_bytes: 65536,
                chunks: vec![4, 4],
                levels: vec![0, 0],
                policy: Policy::Steps,
            },
            packs: places
                .map(|place| Planned {
                    pack: Pack { path: "set.pack".into(), place: Some(place) },
                    budget: 7,
                })
                .into(),
        };
        let bytes = table(&written, &places, 4 * PAGE).unwrap();
        assert_eq!(table_bytes(&written), Some(bytes.len() as u64));
        let mut aligned = vec![0u64; bytes.len() / 8];
        bytemuck::cast_slice_mut(&mut aligned).copy_from_slice(&bytes);
        let file = SetFile::view(bytemuck::cast_slice(&aligned), 4 * PAGE).unwrap();
        let found = decided(Path::new("set.pack"), &file);
        assert_eq!(found, written);
        let tasks: Vec<_> = file.tasks().map(|entry| entry.task).collect();
        assert_eq!(tasks, written.assignment.tasks(&written.set));
        let mut many = written;
        many.set.tasks = vec![task("x", 0); MAX_TASKS + 1];
        assert_eq!(table_bytes(&many), None);
    }
}
