//! Writes a set as TOML, exactly: what is read back is the same set.

use crate::set::{TaskSet, Transfer};
use std::fmt::Write;

/// The set as `taskset.toml`.
pub fn to_toml(set: &TaskSet, chunk_sizes: &[u64]) -> String {
    let mut text = String::new();
    let sizes: Vec<String> = chunk_sizes.iter().map(|bytes| format!("\"{bytes}B\"")).collect();
    let storage = |name: &str, transfer: &Transfer| {
        format!(
            "{name} = \"{}B/s\"\nper_{name} = \"{}ns\"\n",
            transfer.bytes_per_second, transfer.per_chunk_ns
        )
    };
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "memory = \"{}B\"\nchunks = [{}]\n\n[storage]\n",
        set.memory_bytes,
        sizes.join(", ")
    );
    text += &storage("read", &set.storage.read);
    if let Some(write) = &set.storage.write {
        text += &storage("write", write);
    }
    for task in &set.tasks {
        let name = ::toml::Value::String(task.name.clone());
        let _ = write!(
            text,
            "\n[[task]]\nname = {name}\nperiod = \"{}ns\"\ndeadline = \"{}ns\"\njitter = \"{}ns\"\n\
             compute = \"{}ns\"\nstep = \"{}ns\"\nbytes = \"{}B\"\nswappable = \"{}B\"\nroom = \"{}B\"\nstreams = {}\n",
            task.period_ns,
            task.deadline_ns,
            task.jitter_ns,
            task.cost.compute_ns,
            task.cost.step_ns,
            task.cost.bytes,
            task.cost.weights.bytes,
            task.cost.room.bytes,
            task.cost.streams,
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::file::parse;
    use std::path::Path;

    #[test]
    fn a_set_survives_writing_and_reading() {
        let chunks = crate::generate::harder::CHUNKS;
        for index in 0..20 {
            let set = crate::generate::harder::set(0.5, 0.25, 7, index);
            let text = to_toml(&set, &chunks);
            let read = parse(Path::new("set.toml"), &text, &mut |_, _| Err("no file".to_owned()));
            let read = read.unwrap_or_else(|error| panic!("{error}\n{text}"));
            let expected = TaskSet {
                storage: crate::set::Storage { chunk_bytes: chunks[0], ..set.storage },
                ..set
            };
            assert_eq!(read.set, expected);
            assert_eq!(read.chunk_sizes, chunks);
        }
    }
}
