//! Which parts of a plan may leave memory: all that can, and nothing that has to stay.

use crate::common::prove::{prove_and, skeleton};
use crate::common::{Subject, board, digits};
use crate::harness::chain;
use eyelet::pack::PAGE;
use eyelet_planner::memory::buffer_sizes;
use eyelet_planner::plan::Plan;
use std::ops::Range;

fn of(start: u64, bytes: u64) -> Range<u64> {
    start..start + bytes
}

/// Where weights lie that stay.
fn residents(plan: &Plan) -> Vec<Range<u64>> {
    plan.resident.iter().map(|load| of(load.address, load.bytes.into())).collect()
}

/// Where activations and scratch lie.
fn working(subject: &Subject, plan: &Plan) -> Vec<Range<u64>> {
    let lines: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    let sizes = buffer_sizes(&subject.network, &lines);
    let buffers = plan.places.iter().zip(sizes).map(|(place, bytes)| of(place.address, bytes));
    let scratch = plan.steps.iter().map(|step| of(step.scratch, step.scratch_bytes));
    buffers.chain(scratch).filter(|range| !range.is_empty()).collect()
}

/// What a page of the arena is, by the plan's own words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It stays.
    Kept,
    /// It holds nothing between inferences.
    Room,
    /// It can be read again.
    Weights,
}

fn pages(subject: &Subject, plan: &Plan, page: u64) -> Vec<Kind> {
    let (residents, working) = (residents(plan), working(subject, plan));
    let kind = |number: u64| {
        let bytes = number * page..(number + 1) * page;
        let meets = |range: &Range<u64>| range.start < bytes.end && bytes.start < range.end;
        let resident = residents.iter().any(meets);
        match (plan.loads.is_empty(), working.iter().any(meets)) {
            _ if bytes.start < plan.tables => Kind::Kept,
            (true, false) => Kind::Weights,
            _ if resident => Kind::Kept,
            _ => Kind::Room,
        }
    };
    (0..plan.arena_bytes / page).map(kind).collect()
}

/// Returns bytes in chunks of weights, and in those of room.
fn check(subject: &Subject, plan: &Plan, chunk: u64, page: u64) -> [u64; 2] {
    let skeleton = skeleton(subject);
    let ask = |proven: &eyelet::proof::Proven<'_>| {
        assert_eq!(proven.streams(), !plan.loads.is_empty());
        let weights: Vec<u64> = proven.weight_chunks(chunk, page).collect();
        let room: Vec<u64> = proven.room_chunks(chunk, page).collect();
        assert_eq!(proven.chunks(chunk, page) as usize, weights.len() + room.len());
        [(Kind::Weights, weights), (Kind::Room, room)]
    };
    let found = prove_and(subject, &skeleton, plan, ask).unwrap();
    let pages = pages(subject, plan, page);
    let mut taken = vec![false; pages.len()];
    for (kind, starts) in &found {
        for start in starts {
            assert!(start % page == 0 && start + chunk <= plan.arena_bytes);
            for at in (start / page)..(start + chunk) / page {
                assert_eq!(pages[at as usize], *kind, "page {at}");
                assert!(!std::mem::replace(&mut taken[at as usize], true), "page {at} twice");
            }
        }
        assert!(starts.is_sorted());
        // As many as there are.
        let runs = pages.split(|page| page != kind).map(|run| run.len() as u64 * page / chunk);
        assert_eq!(starts.len() as u64, runs.sum::<u64>());
    }
    found.map(|(_, starts)| starts.len() as u64 * chunk)
}

#[test]
fn chunks_are_what_can_be_read_again() {
    let graphs = [chain(64, 6, 7), chain(32, 12, 5)];
    let mut subjects: Vec<_> = graphs.map(|graph| Subject::of_graph(graph, board::board())).into();
    subjects.push(Subject::new(&digits()));
    for subject in subjects {
        let smallest = subject.smallest(1);
        let all = subject.plan(1 << 30, 1).unwrap();
        let residents: u64 = all.resident.iter().map(|load| u64::from(load.bytes)).sum();
        for budget in (0..6).map(|n| smallest + n * (all.arena_bytes - smallest) / 5) {
            let plan = subject.plan(budget, 1).unwrap();
            for (chunk, page) in
                [(PAGE, PAGE), (4 * PAGE, PAGE), (16 * PAGE, PAGE), (16 * PAGE, 4 * PAGE)]
            {
                check(&subject, &plan, chunk, page);
            }
        }
        let [weights, room] = check(&subject, &all, PAGE, PAGE);
        assert!(weights > residents * 2 / 3, "{weights} of {residents} bytes leave memory");
        let rest = all.arena_bytes - all.tables - residents;
        assert!(room + 4 * PAGE > rest, "{room} of {rest} other bytes leave memory");
    }
}
