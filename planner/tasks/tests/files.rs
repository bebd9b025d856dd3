//! What is wrong with a set's file is said with line, key and reason.

use eyelet_tasks::schedule::schedule;
use eyelet_tasks::set::file::{Declared, parse};
use eyelet_tasks::set::{Cost, SetError, Swappable};
use eyelet_tasks::volumes::search::Freedom;
use std::path::Path;

const SET: &str = "\
memory = \"100MB\"
chunks = [\"1MB\"]

[storage]
read = \"1GB/s\"

[[task]]
name = \"camera\"
period = \"100ms\"
deadline = \"80ms\"
jitter = \"5ms\"
compute = \"20ms\"
step = \"2ms\"
bytes = \"60MB\"
swappable = \"50MB\"
";

fn read(text: &str) -> Result<Declared, SetError> {
    parse(Path::new("set.toml"), text, &mut |_, _| Err("no such pack".to_owned()))
}

#[test]
fn a_set_is_read() {
    let set = read(SET).unwrap().set;
    let task = &set.tasks[0];
    assert_eq!((set.memory_bytes, set.storage.read.bytes_per_second), (100_000_000, 1_000_000_000));
    assert_eq!(
        (task.period_ns, task.deadline_ns, task.jitter_ns),
        (100_000_000, 80_000_000, 5_000_000)
    );
    let cost = Cost {
        compute_ns: 20_000_000,
        step_ns: 2_000_000,
        bytes: 60_000_000,
        weights: Swappable::of(50_000_000),
        room: Swappable::default(),
        streams: false,
    };
    assert_eq!(task.cost, cost);
}

#[test]
fn errors_name_line_key_and_reason() {
    let cases = [
        (
            "deadline = \"80ms\"",
            "deadline = \"110ms\"",
            "set.toml:10: deadline: the deadline of 110 ms exceeds the period",
        ),
        ("period = \"100ms\"", "period = \"0ms\"", "set.toml:9: period: it is zero"),
        ("period = \"100ms\"", "period = \"100d\"", "set.toml:9: period: `100d` is not a time"),
        (
            "period = \"100ms\"",
            "period = \"2000000s\"",
            "set.toml:9: period: `2000000s` is too long: the longest time is 1000000 s",
        ),
        (
            "period = \"100ms\"",
            "period = \"99999999999s\"",
            "set.toml:9: period: `99999999999s` is too long: the longest time is 1000000 s",
        ),
        (
            "jitter = \"5ms\"",
            "jitter = \"9999999s\"",
            "set.toml:11: jitter: `9999999s` is too long: the longest time is 1000000 s",
        ),
        (
            "read = \"1GB/s\"",
            "read = \"1GB/s\"\nper_read = \"9999999s\"",
            "set.toml:6: per_read: `9999999s` is too long: the longest time is 1000000 s",
        ),
        (
            "read = \"1GB/s\"",
            "read = \"99999999GB/s\"",
            "set.toml:5: read: `99999999GB/s` is too fast: the highest rate is 9000000 GB/s",
        ),
        (
            "memory = \"100MB\"",
            "memory = \"99999999GB\"",
            "set.toml:1: memory: `99999999GB` is too large: the largest size is 9000000 GB",
        ),
        (
            "jitter = \"5ms\"",
            "jitter = \"80ms\"",
            "set.toml:11: jitter: the jitter of 80 ms leaves no time",
        ),
        (
            "step = \"2ms\"",
            "step = \"21ms\"",
            "set.toml:13: step: the longest step of 21 ms exceeds",
        ),
        (
            "bytes = \"60MB\"",
            "bytes = \"160MB\"",
            "set.toml:14: bytes: the network alone needs 160 MB, the memory has 100 MB",
        ),
        (
            "swappable = \"50MB\"",
            "swappable = \"61MB\"",
            "set.toml:15: swappable: 61 MB are swappable of 60 MB",
        ),
        ("jitter = ", "jiter = ", "set.toml:11: jiter: unknown field `jiter`"),
        ("compute = \"20ms\"\n", "", "set.toml:8: name: give a table"),
        ("name = \"camera\"", "name = \"camera\"\ninstances = 0", "set.toml:9: instances: 0 tasks"),
        (
            "name = \"camera\"",
            "name = \"camera\"\ninstances = 10001",
            "set.toml:9: instances: 10001 tasks",
        ),
        (
            "name = \"camera\"",
            "name = \"camera\"\ninstances = 99999999999999999999",
            "set.toml:9: instances: 99999999999999999999 is out of range: give a whole number",
        ),
        (
            "name = \"camera\"",
            "name = \"camera\"\ninstances = -1",
            "set.toml:9: instances: -1 is out of range: give a whole number from 0 to",
        ),
        (
            "chunks = [\"1MB\"]",
            "chunks = []",
            "set.toml:2: chunks: the list has 0 sizes, and at least 1 is needed: give one such as 4MiB",
        ),
        (
            "chunks = [\"1MB\"]",
            "chunks = [\"2GB\", \"1GB\"]",
            "set.toml:2: chunks: a chunk of 1 GB is more than the memory, 100 MB",
        ),
        ("memory = \"100MB\"", "memory = 100", "set.toml:1: memory: invalid type"),
    ];
    for (from, to, expected) in cases {
        let text = SET.replace(from, to);
        assert_ne!(text, SET, "{from}");
        let error = read(&text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{to}: {error}");
    }
    let pack = SET.split("compute").next().unwrap().to_owned() + "pack = \"camera.pack\"\n";
    assert_eq!(
        read(&pack).unwrap_err().to_string(),
        "set.toml:12: pack: camera.pack: no such pack"
    );
    assert!(
        read("memory = \"1MB\"\n[storage]\nread = \"1MB/s\"\n")
            .unwrap_err()
            .to_string()
            .contains("0 tasks")
    );
}

#[test]
fn overloaded_sets_get_a_verdict_and_changes() {
    let two = SET.to_owned()
        + &SET.split("[[task]]").nth(1).map(|task| format!("[[task]]{task}")).unwrap();
    let two =
        two.replacen("camera", "other", 1).replace("compute = \"20ms\"", "compute = \"60ms\"");
    let found = schedule(&read(&two).unwrap(), Freedom::Subsets);
    assert!(!found.admitted());
    assert!(!found.changes.is_empty(), "longer periods help");
    assert!(
        found.changes.windows(2).all(|pair| pair[0].thousandths <= pair[1].thousandths),
        "the cheapest comes first"
    );
}

#[test]
fn ten_thousand_tasks_are_judged() {
    let many = SET
        .replace("\"1MB\"", "\"1kB\"")
        .replace("name = \"camera\"", "name = \"camera\"\ninstances = 10000")
        .replace("\"60MB\"", "\"12kB\"")
        .replace("\"50MB\"", "\"5kB\"")
        .replace("\"20ms\"", "\"2us\"")
        .replace("\"2ms\"", "\"1us\"");
    let found = schedule(&read(&many).unwrap(), Freedom::Subsets);
    assert_eq!(found.numbers.map(|numbers| numbers.utilization > 0.2), Some(true));
}
