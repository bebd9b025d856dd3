//! Against a simulation that looks at the counters one event at a time.

use super::*;
use crate::profile::Read;
use eyelet::pack::{Stage, Step};
use std::collections::VecDeque;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_the_counters_would_have_it(drawn in drawn()) {
        let (network, plan, profile) = drawn.plan();
        let costs = Costs::new(&network, &profile, 1);
        let count = MAX_INFERENCES;
        let ends = tick(&plan, &Durations::new(&plan, &costs), count as i64);
        let line = simulate_with(&plan, &costs);
        prop_assert_eq!(line.first_ns as i64, ends[0]);
        prop_assert_eq!(line.steady_ns as i64, (ends[count - 1] - ends[count - 3]) / 2);
    }
}

/// Plays events in the order of time; returns the ends of the inferences.
fn tick(plan: &Plan, durations: &Durations, inferences: i64) -> Vec<i64> {
    let (period, loads) = (plan.period(), plan.loads.len() as i64);
    let (mut steps_done, mut copies_done, mut reads_done, mut time) = (0, 0, 0, 0);
    let (mut step_end, mut copy_end) = (None, None);
    // When reads in flight have passed their latency.
    let mut under_way: VecDeque<i64> = VecDeque::new();
    // Reads that storage has done and not answered, since others are in flight.
    let mut unanswered = 0;
    let (mut transfer_end, mut check_end) = (None, None);
    let mut waiting: VecDeque<i64> = VecDeque::new();
    // The number of reads that wait for their check and that the loader has not seen.
    let mut unseen = 0;
    // Reads that have begun, and when the last came.
    let (mut begun, mut come) = (0, 0);
    // Whether the loader has just seen something.
    let mut awake = true;
    let mut ends = Vec::new();
    while (ends.len() as i64) < inferences {
        // Without stages, what is read is in the arena.
        let staged = !plan.stages.is_empty();
        let arrived = if staged { copies_done } else { reads_done };
        // Whatever may start does.
        if step_end.is_none() {
            let (inference, number) = (steps_done / period, steps_done % period);
            if number == 0 {
                steps_done += 1;
                continue;
            }
            let step = &plan.steps[number as usize - 1];
            if arrived >= inference * loads + i64::from(step.ready)
                && reads_done >= inference * loads + i64::from(step.reads)
            {
                step_end = Some(time + durations.steps[number as usize - 1]);
            }
        }
        let reached = |inference: i64, steps: i32, copies: i32| {
            steps_done >= inference * period + i64::from(steps)
                && copies_done >= inference * loads + i64::from(copies)
        };
        let read = |number: i64| durations.reads[(number % loads) as usize];
        // An arrival is seen with all others, and checked; if nothing is in flight then, another begins
        // before.
        for sees in [false, true] {
            let idle = under_way.is_empty() && waiting.is_empty();
            let looks =
                if sees { durations.depth > 1 && !waiting.is_empty() } else { awake || idle };
            if loads == 0 || check_end.is_some() || !looks {
                continue;
            }
            unseen = if sees { 0 } else { unseen };
            if sees && !under_way.is_empty() {
                continue;
            }
            while under_way.len() + unanswered + waiting.len() < MAX_BEGUN {
                let (inference, number) = (begun / loads, (begun % loads) as usize);
                if under_way.len() + unanswered + unseen >= durations.places(number) {
                    break;
                }
                let (steps, copies) = match plan.stages.get(number) {
                    Some(stage) => (stage.steps, stage.copies),
                    None => (plan.loads[number].release, -i32::MAX),
                };
                if !reached(inference, steps, copies) {
                    break;
                }
                under_way.push_back(time + read(begun).latency);
                begun += 1;
                if sees {
                    break;
                }
            }
        }
        awake = false;
        if let (Some(seek_end), None) = (under_way.front(), transfer_end) {
            let first = begun - under_way.len() as i64;
            let alone = first > 0 && durations.places((first % loads) as usize) == 1;
            // Alone it began now, and storage had rested since the last came.
            let latency = read(first).latency.min(time - come);
            let seek_end = if alone { time + latency } else { time.max(*seek_end) };
            transfer_end = Some(seek_end + read(first).transfer);
        }
        if let (Some(first), None) = (waiting.front(), check_end) {
            check_end = Some(time + read(*first).check);
        }
        if staged && copy_end.is_none() && copies_done < reads_done {
            let (inference, number) = (copies_done / loads, (copies_done % loads) as usize);
            if reached(inference, plan.loads[number].release, -i32::MAX) {
                copy_end = Some(time + durations.copies[number]);
            }
        }
        let next = [step_end, copy_end, transfer_end, check_end].into_iter().flatten().min();
        time = next.expect("no deadlock");
        if step_end == Some(time) {
            (step_end, steps_done) = (None, steps_done + 1);
            if steps_done % period == 0 {
                ends.push(time);
            }
        }
        if copy_end == Some(time) {
            (copy_end, copies_done) = (None, copies_done + 1);
        }
        if check_end == Some(time) {
            (check_end, reads_done, awake) = (None, reads_done + 1, true);
            waiting.pop_front();
            unseen = if durations.depth > 1 { unseen } else { 0 };
        }
        if transfer_end == Some(time) {
            transfer_end = None;
            under_way.pop_front();
            unanswered += 1;
            if !durations.together || under_way.is_empty() {
                let first = begun - (under_way.len() + unanswered) as i64;
                waiting.extend(first..first + unanswered as i64);
                (come, unseen, unanswered) = (time, unseen + unanswered, 0);
            }
        }
    }
    ends
}

#[test]
fn of_inferences_that_alternate_the_mean_counts() {
    let load = |release| Load { release, ..Load::default() };
    let stage = |copies| Stage { copies, steps: -10, ..Stage::default() };
    let ready = [1, 2, 2, 0, 0, 0, 0, 0, 0, 0];
    let reads = [0, 1, 1, 1, 0, 0, 2, 0, 0, 0];
    let step = |(ready, reads)| Step { ready, reads, ..Step::default() };
    let plan = Plan {
        loads: vec![load(-9), load(-7)],
        stages: vec![stage(-1), stage(0)],
        steps: ready.into_iter().zip(reads).map(step).collect(),
        staging_bytes: 1,
        ..Plan::default()
    };
    let durations = Durations {
        reads: [7096, 13192].map(Read::of).to_vec(),
        depth: 1,
        places: Vec::new(),
        together: false,
        copies: vec![3548, 6596],
        steps: vec![2613, 1806, 2234, 2234, 2234, 3403, 2201, 1411, 1411, 1411],
    };
    let ends = tick(&plan, &durations, 12);
    let each: Vec<i64> = ends.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(each[7..], [24271, 20958, 24271, 20958]);
    assert_eq!(play(&plan, &durations).steady_ns, (24271 + 20958) / 2);
}
