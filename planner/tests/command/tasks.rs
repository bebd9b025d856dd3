//! Task sets by command: drawn, judged, drawn as a page; packs and runs as costs; errors.

use crate::common::command::{eyelet_in, folder, packed};
use eyelet::arena::MappedArena;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::pack::PAGE;
use eyelet::pack::crc32c::crc32c;
use eyelet::set::{SetFile, SetHeader, SetTask};
use eyelet::storage::{BufferedFile, Part, Storage};
use serde_json::Value;
use std::ffi::CString;
use std::fs;
use std::mem::swap;
use std::path::Path;

/// Two cameras that fit, or do not, with a period.
fn cameras(folder: &Path, period: &str) {
    let task = |name: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period}\"\ncompute = \"20ms\"\nstep = \"2ms\"\n\
             bytes = \"60MB\"\nswappable = \"50MB\"\n"
        )
    };
    let head = "memory = \"80MB\"\nchunks = [\"1MB\"]\n[storage]\nread = \"1GB/s\"\n";
    fs::write(folder.join("set.toml"), head.to_owned() + &task("left") + &task("right")).unwrap();
}

#[test]
fn a_set_that_fits_is_schedulable() {
    let folder = folder();
    cameras(folder.path(), "200ms");
    let report =
        eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "1000", "--json"]).json();
    assert_eq!(report["schedulable"], true);
    assert_eq!(report["simulated"]["misses"], 0);
    assert_eq!(report["simulated"]["jobs"], 1000);
    let swapped = |task: usize| report["tasks"][task]["swapped_bytes"].as_u64().unwrap();
    assert!(swapped(0) + swapped(1) >= 40_000_000, "{report}");
    for task in report["tasks"].as_array().unwrap() {
        let ms = |key: &str| task[key].as_f64().unwrap();
        assert!(ms("worst_response_ms") <= ms("bound_ms"), "{report}");
        assert!(ms("bound_ms") <= ms("deadline_ms"), "{report}");
    }
    let text = eyelet_in(folder.path(), &["schedule", "set.toml", "--report", "set.html"]).text();
    assert!(text.starts_with("schedulable: every job ends before its deadline"), "{text}");
    let page = fs::read_to_string(folder.path().join("set.html")).unwrap();
    assert!(page.contains("Memory over time") && page.matches("<svg").count() == 2);
}

#[test]
fn a_set_that_does_not_fit_names_the_cheapest_change() {
    let folder = folder();
    cameras(folder.path(), "50ms");
    let done = eyelet_in(folder.path(), &["schedule", "set.toml"]);
    assert_eq!(done.code, Some(1));
    assert!(done.out.starts_with("not schedulable"), "{}", done.out);
    assert!(
        done.err.contains("set.toml: the set is not schedulable; cheapest change: "),
        "{}",
        done.err
    );
    let json = eyelet_in(folder.path(), &["schedule", "set.toml", "--json"]);
    let report: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(report["schedulable"], false);
    assert!(report["changes"].as_array().unwrap().len() > 1, "{report}");
}

/// The runtime runs 64 tasks, and so many are simulated. More are judged only where that is asked for.
#[test]
fn more_tasks_than_can_be_run_are_refused_with_their_number() {
    let folder = packed();
    let many = |task: &str| {
        let set = "memory = \"80MB\"\nchunks = [\"1MiB\"]\n[storage]\nread = \"1GB/s\"\n";
        let task = format!("[[task]]\nname = \"a\"\nperiod = \"10s\"\ninstances = 65\n{task}\n");
        fs::write(folder.path().join("set.toml"), set.to_owned() + &task).unwrap();
    };
    many("compute = \"1ms\"\nbytes = \"1MB\"");
    let schedule =
        |more: &[&str]| eyelet_in(folder.path(), &[&["schedule", "set.toml"], more].concat());
    let done = schedule(&[]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.starts_with("not schedulable: the test admits its 65 tasks"), "{}", done.out);
    assert!(done.err.contains("64 at most can be simulated and run"), "{}", done.err);
    let report: Value = serde_json::from_str(&schedule(&["--json"]).out).unwrap();
    assert_eq!((&report["schedulable"], &report["simulated"]), (&false.into(), &Value::Null));
    let text = schedule(&["--jobs", "0"]).text();
    assert!(text.starts_with("schedulable: ") && text.contains("\nnot simulated"), "{text}");
    many("pack = \"digits.pack\"");
    let too_many = ["set.toml: it has 65 tasks, and 64 can be run at most"];
    schedule(&["-o", "set.pack", "--jobs", "0"]).fails(&too_many);
    schedule(&["-o", "set.pack"]).fails(&too_many);
    eyelet_in(folder.path(), &["serve", "set.toml"]).fails(&too_many);
    assert_eq!(names(folder.path()), ["digits.onnx", "digits.pack", "set.toml"]);
}

/// RT-Swap's test applies where deadlines are periods.
#[test]
fn the_published_test_refuses_or_does_not_apply() {
    let folder = folder();
    let judge = |period: &str, more: &str| {
        cameras(folder.path(), period);
        let file = folder.path().join("set.toml");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(file, text.replace("compute = ", &format!("{more}compute = "))).unwrap();
        let done = eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "1", "--json"]);
        let report: Value = serde_json::from_str(&done.out).unwrap();
        report["published_test"].clone()
    };
    assert_eq!(judge("400ms", ""), true);
    assert_eq!(judge("50ms", ""), false);
    assert_eq!(judge("400ms", "deadline = \"399ms\"\n"), Value::Null);
}

#[test]
fn a_time_that_is_too_long_says_so_with_its_key() {
    let folder = folder();
    cameras(folder.path(), "9999999999s");
    let parts = ["set.toml:7: period: `9999999999s` is too long: the longest time is 1000000 s"];
    eyelet_in(folder.path(), &["schedule", "set.toml"]).fails(&parts);
}

#[test]
fn errors_say_where() {
    let folder = folder();
    cameras(folder.path(), "0ms");
    let parts = ["set.toml:7: period: it is zero: give a positive value"];
    eyelet_in(folder.path(), &["schedule", "set.toml"]).fails(&parts);
    let json = eyelet_in(folder.path(), &["schedule", "set.toml", "--json"]);
    let error: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(
        (json.code, error["line"].as_u64(), error["key"].as_str()),
        (Some(1), Some(7), Some("period"))
    );
    eyelet_in(folder.path(), &["schedule", "none.toml"]).fails(&["cannot read none.toml"]);
}

#[test]
fn drawn_sets_are_repeatable_and_can_be_judged() {
    let folder = folder();
    for kind in ["uniform", "harder", "table3"] {
        let args = ["taskgen", "--kind", kind, "--seed", "3", "--load", "0.2", "--overflow", "0.1"];
        let text = eyelet_in(folder.path(), &args).text();
        assert_eq!(text, eyelet_in(folder.path(), &args).text());
        eyelet_in(folder.path(), &[&args[..], &["-o", "drawn.toml"]].concat()).text();
        assert_eq!(text, fs::read_to_string(folder.path().join("drawn.toml")).unwrap());
        let report =
            eyelet_in(folder.path(), &["schedule", "drawn.toml", "--jobs", "500", "--json"]).json();
        assert_eq!(report["schedulable"], true, "{kind}: {report}");
    }
    eyelet_in(folder.path(), &["taskgen", "--load", "1.5"]).misused(&["is not a part"]);
}

/// Two networks that do not fit together with all of their weights are planned for smaller budgets.
#[test]
fn models_are_planned_for_budgets_that_fit_together() {
    let folder = folder();
    eyelet_in(folder.path(), &["zoo", "squeezenet1_1"]).text();
    let head = "memory = \"8MiB\"\nboard = \"raspberry-pi-4\"\n[storage]\nread = \"44MB/s\"\n";
    let task = |name: &str, period: &str, more: &str| {
        format!(
            "[[task]]\nname = \"{name}\"\nperiod = \"{period}\"\nmodel = \"squeezenet1_1.onnx\"\n{more}"
        )
    };
    let judge = |period: &str, first: &str, second: &str| {
        let set = head.to_owned() + &task("a", period, first) + &task("b", "2s", second);
        fs::write(folder.path().join("set.toml"), set).unwrap();
        eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "100"])
    };
    judge("200ms", "", "").text();
    let again = ["schedule", "set.toml", "--jobs", "100", "--json"];
    let report = eyelet_in(folder.path(), &again).json();
    assert_eq!((&report["schedulable"], &report["simulated"]["misses"]), (&true.into(), &0.into()));
    // With one plan each, as large as the memory, they take turns in it, if there is time.
    let one = "budgets = [\"8MiB\"]\n";
    judge("1s", one, one).text();
    let short = judge("200ms", one, one);
    assert_eq!(short.code, Some(1), "{}", short.out);
    judge("1s", "budgets = [\"64KiB\"]\n", "")
        .fails(&["set.toml:8: model: squeezenet1_1.onnx: a budget of 64 KiB"]);
}

#[test]
fn costs_come_from_packs_and_runs() {
    let folder = packed();
    let run = ["run", "digits.pack", "--io", "buffered", "--runs", "3", "--json"];
    let measured = eyelet_in(folder.path(), &run).json();
    fs::write(folder.path().join("run.json"), measured.to_string()).unwrap();
    let set = "memory = \"16MiB\"\nchunks = [\"4KiB\"]\n[storage]\nread = \"1GB/s\"\n\
        [[task]]\nname = \"planned\"\nperiod = \"10s\"\npack = \"digits.pack\"\n\
        [[task]]\nname = \"measured\"\nperiod = \"10s\"\nmeasured = \"run.json\"\n";
    fs::write(folder.path().join("set.toml"), set).unwrap();
    let report =
        eyelet_in(folder.path(), &["schedule", "set.toml", "--jobs", "100", "--json"]).json();
    assert_eq!(report["schedulable"], true);
    let bytes = |task: usize| report["tasks"][task]["bytes"].as_u64();
    assert_eq!(bytes(0), measured["arena_bytes"].as_u64(), "{report}");
    assert_eq!(bytes(1), measured["arena_bytes"].as_u64());
    fs::write(folder.path().join("set.toml"), set.replace("digits.pack", "none.pack")).unwrap();
    eyelet_in(folder.path(), &["schedule", "set.toml"])
        .fails(&["set.toml:8: pack: none.pack: cannot read"]);
}

/// A set of two networks, one of a pack and one of a model, in so much memory.
pub fn networks(folder: &Path, memory: &str, period: &str) {
    let set = format!(
        "memory = \"{memory}\"\nchunks = [\"4KiB\"]\n[storage]\nread = \"100MB/s\"\n\
         [[task]]\nname = \"planned here\"\nperiod = \"{period}\"\nmodel = \"digits.onnx\"\nbudgets = [\"1MiB\"]\n\
         [[task]]\nname = \"given\"\nperiod = \"{period}\"\npack = \"digits.pack\"\ninstances = 2\n"
    );
    fs::write(folder.join("set.toml"), set).unwrap();
}

/// Names in a folder, in order.
pub fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_set_that_cannot_be_written_leaves_nothing() {
    let folder = packed();
    let schedule = |set: &str, more: &[&str]| {
        eyelet_in(folder.path(), &[&["schedule", set, "-o", "out.pack"], more].concat())
    };
    networks(folder.path(), "320KiB", "10us");
    let refused = schedule("set.toml", &["--jobs", "100"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.err.contains("the set is not schedulable"), "{}", refused.err);
    cameras(folder.path(), "200ms");
    let text = fs::read_to_string(folder.path().join("set.toml")).unwrap();
    schedule("set.toml", &[]).fails(&[
        "chunks of 1000000 bytes are no whole pages",
        "multiples of 4096 bytes, such as 1003520B",
    ]);
    fs::write(folder.path().join("set.toml"), text.replace("1MB", "1MiB")).unwrap();
    schedule("set.toml", &[]).fails(&["task \"left\" has neither a pack nor a model"]);
    let expected = ["digits.onnx", "digits.pack", "set.toml"];
    assert_eq!(names(folder.path()), expected);
    // The set itself would be replaced.
    networks(folder.path(), "320KiB", "1s");
    let onto = |to: &str| eyelet_in(folder.path(), &["schedule", "set.toml", "-o", to]);
    onto("set.toml").fails(&["-o set.toml: it is the task set"]);
    onto("digits.pack").fails(&["-o digits.pack", "a pack of the set"]);
    // A set is one file.
    fs::create_dir(folder.path().join("out")).unwrap();
    onto("out").fails(&["-o out: it is a directory", "another name, such as set.pack"]);
    for verb in ["schedule", "serve"] {
        eyelet_in(folder.path(), &[verb, "out"])
            .fails(&["out: it is a directory, so it is no task set", "set's .toml file"]);
    }
    assert_eq!(names(&folder.path().join("out")), [""; 0]);
}

#[test]
fn a_file_that_is_no_set_is_not_replaced() {
    let folder = packed();
    networks(folder.path(), "320KiB", "1s");
    let to = folder.path().join("mine.pack");
    let schedule =
        || eyelet_in(folder.path(), &["schedule", "set.toml", "-o", "mine.pack", "--jobs", "100"]);
    let read = |name: &str| fs::read(folder.path().join(name)).unwrap();
    for (bytes, what) in [
        (read("digits.pack"), "a network's pack"),
        (read("digits.onnx"), "a model"),
        (b"mine".to_vec(), "another file"),
        (Vec::new(), "an empty file"),
    ] {
        fs::write(&to, &bytes).unwrap();
        schedule().fails(&[&format!("-o mine.pack: it is {what}, and no set"), "another name"]);
        assert_eq!(fs::read(&to).unwrap(), bytes);
    }
    fs::remove_file(&to).unwrap();
    schedule().text();
    schedule().text();
}

/// What a device does with it, too: the table is read, and each network opened in its part of the file.
#[test]
fn one_file_holds_an_admitted_set() {
    let folder = packed();
    networks(folder.path(), "320KiB", "1s");
    let run = |args: &[&str]| eyelet_in(folder.path(), args);
    let schedule = ["schedule", "set.toml", "-o", "set.pack", "--jobs", "100"];
    let text = run(&schedule).text();
    assert!(text.contains("written: set.pack (2 packs"), "{text}");
    let report = run(&[&schedule[..], &["--json"]].concat()).json();
    let found = run(&["inspect", "set.pack", "--json"]).json();
    let tasks = found["tasks"].as_array().unwrap();
    assert_eq!((tasks.len(), found["packs"].as_array().map(Vec::len)), (3, Some(2)));
    let chunk = found["chunk_bytes"].as_u64().unwrap();
    for (task, reported) in tasks.iter().zip(report["tasks"].as_array().unwrap()) {
        let chunks = task["chunks"].as_u64().unwrap();
        assert_eq!(reported["swapped_bytes"].as_u64(), Some(chunks * chunk));
        for key in ["name", "bytes", "level"] {
            assert_eq!(task[key], reported[key], "{key}");
        }
    }
    // The three do not fit: some chunks leave memory.
    let chunks = tasks.iter().map(|task| task["chunks"].as_u64().unwrap());
    assert!(chunks.sum::<u64>() > 0 && found["pool_chunks"].as_u64() > Some(0), "{found}");
    assert_eq!(
        run(&["check", "set.pack", "--json"]).json()["packs"].as_array().map(Vec::len),
        Some(2)
    );
    assert!(run(&["check", "set.pack"]).text().contains("a set of 3 in"));
    for verb in ["run", "bench"] {
        run(&[verb, "set.pack"])
            .fails(&["set.pack: a set of several packs", "`eyelet serve` runs it"]);
    }
    let path = CString::new(folder.path().join("set.pack").to_str().unwrap()).unwrap();
    let mut table = MappedArena::new(1 << 20).unwrap();
    let mut table = table.memory();
    let mut file = BufferedFile::open(&path).unwrap();
    let (set, _) = SetFile::read(&mut file, table.as_mut_slice()).unwrap();
    // Plans of one model have the same outputs for every budget.
    let given = set.tasks().last().unwrap().budget;
    let pack = CString::new(folder.path().join("digits.pack").to_str().unwrap()).unwrap();
    let whole = BufferedFile::open(&pack).unwrap();
    let bytes = whole.len().unwrap();
    let alone = outputs(&mut Part::new(whole, 0, bytes).unwrap(), given);
    for entry in set.tasks() {
        let file = BufferedFile::open(&path).unwrap();
        let mut part = Part::new(file, entry.pack_offset, entry.pack_bytes).unwrap();
        assert_eq!(outputs(&mut part, entry.budget), alone, "{}", entry.name);
    }
    // A file whose packs are others is refused.
    let file = folder.path().join("set.pack");
    let sound = fs::read(&file).unwrap();
    let other: [(Change, &str); 6] = [
        (|tasks| tasks[0].budget += PAGE, "no plan for the set's budget"),
        (|tasks| tasks[0].bytes -= PAGE, "was decided for a plan of"),
        (|tasks| tasks[0].room -= 1, "chunks that leave memory"),
        (|tasks| tasks[0].room = tasks[0].chunks + 1, "chunks that are room"),
        (
            |tasks| (tasks[0].streams, tasks[0].room) = (1 - tasks[0].streams, tasks[0].chunks),
            "is one with streams = ",
        ),
        (
            |tasks| {
                let [first, .., last] = tasks else { panic!("three tasks") };
                swap(&mut first.pack_offset, &mut last.pack_offset);
                swap(&mut first.pack_bytes, &mut last.pack_bytes);
            },
            "decide again with `eyelet schedule -o`",
        ),
    ];
    for (change, reason) in other {
        fs::write(&file, with_tasks(&sound, change)).unwrap();
        for verb in ["check", "serve"] {
            run(&[verb, "set.pack"]).fails(&["set.pack", reason]);
        }
    }
    fs::write(&file, &sound).unwrap();
    // A damaged table is refused, by the numbers.
    let mut bytes = fs::read(folder.path().join("set.pack")).unwrap();
    bytes[200] ^= 1;
    fs::write(folder.path().join("set.pack"), &bytes).unwrap();
    run(&["check", "set.pack"]).fails(&["checksum of the set's table"]);
    bytes.truncate(bytes.len() - 1);
    fs::write(folder.path().join("set.pack"), &bytes).unwrap();
    run(&["inspect", "set.pack"]).fails(&["truncated"]);
    let left = names(folder.path());
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
}

pub type Change = fn(&mut [SetTask]);

/// A set's file with other records of its tasks, and their checksum.
pub fn with_tasks(sound: &[u8], change: Change) -> Vec<u8> {
    let (head, rest) = sound.split_at(size_of::<SetHeader>());
    let mut header: SetHeader = bytemuck::pod_read_unaligned(head);
    let (records, rest) = rest.split_at(header.tasks as usize * size_of::<SetTask>());
    let mut tasks: Vec<SetTask> = bytemuck::pod_collect_to_vec(records);
    change(&mut tasks);
    let bytes = |header: &SetHeader| {
        [bytemuck::bytes_of(header), bytemuck::cast_slice(&tasks), rest].concat()
    };
    header.crc = 0;
    header.crc = crc32c(0, &bytes(&header)[..header.table_bytes as usize]);
    bytes(&header)
}

/// Bits of a network's first output, whose pack lies there.
fn outputs(storage: &mut Part<BufferedFile>, budget: u64) -> Vec<u32> {
    let mut arena = MappedArena::new(1 << 20).unwrap();
    let mut arena = arena.memory();
    let options = Options { budget, ..Options::default() };
    let mut instance = Instance::open(storage, arena.as_mut_slice(), options).unwrap();
    let mut model = instance.inline(storage);
    model.input_mut(0).unwrap().fill(0.5);
    model.infer(&Inline).unwrap();
    model.output(0).unwrap().iter().map(|value| value.to_bits()).collect()
}
