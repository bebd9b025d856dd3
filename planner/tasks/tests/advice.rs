//! Advice for refused sets: each change is admitted as it is printed, and a task that is late even alone is named.

use eyelet_tasks::generate::toml::to_toml;
use eyelet_tasks::generate::uniform::{Shape, draw};
use eyelet_tasks::generate::{harder, random};
use eyelet_tasks::schedule::{Schedule, schedule};
use eyelet_tasks::set::file::{Declared, Source, parse};
use eyelet_tasks::set::units::{bytes, time_ns};
use eyelet_tasks::set::{Cost, Swappable, TaskSet};
use eyelet_tasks::volumes::search::Freedom;
use std::path::Path;

const CHUNKS: [u64; 2] = [1_000_000, 4_000_000];

fn read(text: &str) -> Declared {
    parse(Path::new("set.toml"), text, &mut |_, _| Err("no task has a file".to_owned())).unwrap()
}

fn judged(set: &TaskSet, freedom: Freedom) -> Schedule {
    schedule(&read(&to_toml(set, &CHUNKS)), freedom)
}

/// A set from few tasks with little time to spare. Every other one has deadlines and jitter.
fn drawn(index: u64) -> TaskSet {
    let mut random = random(11, index);
    let shape = Shape {
        tasks: 2 + index as usize % 4,
        load: 0.2 + 0.15 * (index % 5) as f64,
        least_period_ms: 20.0,
        most_period_ms: 400.0,
        least_bytes: 1_000_000,
        most_bytes: 60_000_000,
        swappable: 0.9,
        overflow: 0.2 + 0.1 * (index % 3) as f64,
        step: 0.1,
        bytes_per_second: 500_000_000,
        writes: index.is_multiple_of(3),
    };
    let mut set = draw(&shape, &mut random);
    let largest = set.tasks.iter().map(|task| task.cost.bytes).max();
    set.memory_bytes = set.memory_bytes.max(largest.unwrap());
    for task in set.tasks.iter_mut().filter(|_| index % 2 == 1) {
        task.deadline_ns -= task.deadline_ns / 7;
        task.jitter_ns = task.deadline_ns / 50;
    }
    set
}

/// A percentage at the end of a text, as a factor.
fn part(text: &str) -> f64 {
    let number = text.rsplit_once(['+', ' ']).unwrap().1;
    1.0 + number.parse::<f64>().unwrap() / 100.0
}

/// The sets that someone makes who follows the words: by the values, and by the percentage.
fn followed(set: &TaskSet, words: &str) -> Vec<TaskSet> {
    let with = |change: &dyn Fn(&mut TaskSet)| {
        let mut set = set.clone();
        change(&mut set);
        set
    };
    let more = |ns: u64, factor: f64| (ns as f64 * factor).round() as u64;
    if let Some(name) = words.strip_suffix(" taken out") {
        return vec![with(&|set| set.tasks.retain(|task| task.name != name))];
    }
    if let Some(by) = words.strip_prefix("all periods and deadlines longer by ") {
        let factor = part(&format!("+{}", by.strip_suffix(" %").unwrap()));
        return vec![with(&|set| {
            for task in &mut set.tasks {
                task.period_ns = more(task.period_ns, factor);
                task.deadline_ns = more(task.deadline_ns, factor);
            }
        })];
    }
    let (words, by) = words.strip_suffix(" %)").unwrap().split_once(" (").unwrap();
    let factor = part(by);
    if let Some(size) = words.strip_suffix(" of memory") {
        let memory = |bytes| with(&move |set| set.memory_bytes = bytes);
        return vec![memory(bytes(size).unwrap()), memory(more(set.memory_bytes, factor))];
    }
    let (times, name) = words.strip_prefix("a period of ").unwrap().split_once(" for ").unwrap();
    let (period, deadline) = times.split_once(" and a deadline of ").unwrap_or((times, times));
    let named = |change: &dyn Fn(&mut eyelet_tasks::set::Task)| {
        with(&|set| set.tasks.iter_mut().filter(|task| task.name == name).for_each(change))
    };
    vec![
        named(&|task| {
            (task.period_ns, task.deadline_ns) =
                (time_ns(period).unwrap(), time_ns(deadline).unwrap());
        }),
        named(&|task| {
            (task.period_ns, task.deadline_ns) =
                (more(task.period_ns, factor), more(task.deadline_ns, factor));
        }),
    ]
}

/// Has every change of a refused set followed as printed: each must be admitted. Returns how many were tried.
fn try_changes(
    set: &TaskSet,
    found: &Schedule,
    admits: impl Fn(&TaskSet) -> bool,
    text: impl Fn(&TaskSet) -> String,
) -> usize {
    let mut tried = 0;
    for change in &found.changes {
        let words = change.sentence(&found.set);
        for other in followed(set, &words) {
            tried += 1;
            assert!(admits(&other), "{words}: {}", text(set));
        }
    }
    tried
}

#[test]
fn changes_are_admitted_as_they_are_printed() {
    let sets = (0..60).map(drawn).chain((0..4).map(|index| harder::set(0.5, 0.25, 5, index)));
    let (mut refused, mut changes) = (0, 0);
    for (set, freedom) in sets.zip([Freedom::Subsets, Freedom::Levels].into_iter().cycle()) {
        let found = judged(&set, freedom);
        if found.admitted() {
            continue;
        }
        refused += 1;
        let admits = |set: &TaskSet| judged(set, freedom).admitted();
        changes += try_changes(&set, &found, admits, |set| to_toml(set, &CHUNKS));
    }
    assert!(refused > 5 && changes > 30, "{refused} refused, {changes} changes");
}

/// A set whose tasks have packs, as a text.
fn with_packs(set: &TaskSet) -> String {
    let mut text = format!(
        "memory = \"{}B\"\nchunks = [\"256KiB\"]\n[storage]\nread = \"300MB/s\"\n",
        set.memory_bytes
    );
    for task in &set.tasks {
        text += &format!(
            "[[task]]\nname = \"{}\"\nperiod = \"{}ns\"\ndeadline = \"{}ns\"\njitter = \"{}ns\"\npack = \"{}\"\n",
            task.name, task.period_ns, task.deadline_ns, task.jitter_ns, task.name
        );
    }
    text
}

/// Each network has three plans, of which the smaller ones stream. More memory lets larger plans be chosen.
#[test]
fn changes_of_sets_with_several_plans_are_admitted_as_they_are_printed() {
    let (mut refused, mut changes) = (0, 0);
    for index in 0..30 {
        let mut set = drawn(index);
        let all: u64 = set.tasks.iter().map(|task| task.cost.bytes).sum();
        set.memory_bytes = all / 5;
        let costs = set.clone();
        let judged = |set: &TaskSet| {
            let mut plans = |source: &Source, _: Option<&str>| {
                let Source::Pack(path) = source else { panic!("{source:?}") };
                let name = path.to_str().unwrap();
                let cost = &costs.tasks.iter().find(|task| task.name == name).unwrap().cost;
                let smaller = |part: u64| Cost {
                    bytes: cost.bytes / part,
                    compute_ns: cost.compute_ns + cost.compute_ns * part / 8,
                    weights: Swappable::default(),
                    room: Swappable::of(cost.bytes / part / 2),
                    streams: true,
                    ..cost.clone()
                };
                Ok(vec![smaller(8), cost.clone(), smaller(3)])
            };
            let declared = parse(Path::new("set.toml"), &with_packs(set), &mut plans).unwrap();
            schedule(&declared, Freedom::Levels)
        };
        let found = judged(&set);
        if found.admitted() {
            continue;
        }
        refused += 1;
        changes += try_changes(&set, &found, |set| judged(set).admitted(), with_packs);
    }
    assert!(refused > 3 && changes > 10, "{refused} refused, {changes} changes");
}

/// Three tasks with so much computing each, of which any two fit.
fn three(compute_ms: u64) -> TaskSet {
    let mut set = drawn(0);
    let mut task = set.tasks[0].clone();
    (task.period_ns, task.deadline_ns, task.jitter_ns) = (100_000_000, 100_000_000, 0);
    (task.cost.compute_ns, task.cost.step_ns) = (compute_ms * 1_000_000, 1_000_000);
    (task.cost.bytes, task.cost.weights) = (10_000_000, Swappable::default());
    set.memory_bytes = 20_000_000;
    set.tasks = ["a", "b", "c"]
        .map(|name| {
            let mut task = task.clone();
            task.name = name.to_owned();
            task
        })
        .into();
    set
}

#[test]
fn a_network_is_taken_out_only_where_that_helps() {
    // Too large by one network, and too long by another: neither more memory nor more time alone helps.
    let found = judged(&three(45), Freedom::Subsets);
    let words: Vec<String> =
        found.changes.iter().map(|change| change.sentence(&found.set)).collect();
    assert_eq!(words, ["a taken out", "b taken out", "c taken out"]);
    let found = judged(&three(60), Freedom::Subsets);
    assert!(!found.admitted() && found.changes.is_empty(), "{:?}", found.changes);
    assert!(found.alone.is_empty());
}

#[test]
fn a_task_that_is_late_alone_is_named_with_both_times() {
    let mut set = three(10);
    set.memory_bytes = 40_000_000;
    set.tasks[1].cost.compute_ns = 120_000_001;
    let found = judged(&set, Freedom::Subsets);
    let words: Vec<String> = found.alone.iter().map(|alone| alone.sentence(&found.set)).collect();
    assert_eq!(words, ["b is late even alone: a job takes 120.1 ms, and its period is 100 ms"]);
    set.tasks[1].deadline_ns = 90_000_000;
    set.tasks[2].cost.compute_ns = 120_000_000;
    (set.tasks[2].jitter_ns, set.tasks[2].deadline_ns) = (5_000_000, 95_000_000);
    let found = judged(&set, Freedom::Levels);
    let words: Vec<String> = found.alone.iter().map(|alone| alone.sentence(&found.set)).collect();
    assert!(words[0].contains("and its deadline is 90 ms"), "{words:?}");
    assert!(words[1].contains("takes 120 ms, and its jitter of 5 ms leaves it 90 ms"), "{words:?}");
}
