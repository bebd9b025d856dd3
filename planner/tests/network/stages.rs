//! Plans whose loads go through a staging ring: the runtime proves those of every strategy, and what it proves is safe
//! in any order that the thresholds allow.

use crate::common::command::{self, eyelet_in};
use crate::common::prove::{prove, skeleton};
use crate::common::{Subject, digits};
use eyelet::pack::{NONE, PAGE, Step};
use eyelet_planner::board::Board;
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::plan::Plan;
use eyelet_planner::published;
use eyelet_planner::search::PlanError;
use eyelet_planner::simulate::simulate;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;

/// Digits for a board's GPU.
fn subject(board: &str) -> Subject {
    let mut board = Board::load(board).unwrap();
    board.profile = board.gpu.clone().unwrap().profile;
    Subject::for_board(&digits(), board)
}

#[test]
fn the_runtime_proves_what_every_strategy_stages() {
    for (board, staged) in [("gpu-host", true), ("jetson-nano", false)] {
        let subject = subject(board);
        let mut skeletons = None;
        for strategy in published::names() {
            let Err(PlanError::Budget { smallest, .. }) = subject.plan_by(strategy, 0, 1) else {
                let found = published::named(strategy).unwrap();
                assert!(!found.serves(&subject.board.profile), "{strategy} on {board}");
                let error = subject.plan_by(strategy, 0, 1).unwrap_err().to_string();
                assert!(error.contains("plan with `demand-async`"), "{error}");
                continue;
            };
            for budget in [smallest, smallest + (64 << 10), 2 << 20] {
                // FlexNN's greedy placing can fail in more memory and succeed in less.
                let Ok(plan) = subject.plan_by(strategy, budget, 1) else {
                    assert!(strategy.starts_with("flexnn"), "{strategy} in {budget} on {board}");
                    continue;
                };
                assert_eq!(plan.staging_bytes > 0, staged, "{strategy} on {board}");
                assert_eq!(plan.stages.len(), if staged { plan.loads.len() } else { 0 });
                let skeleton = skeletons.get_or_insert_with(|| skeleton(&subject));
                let proof = prove(&subject, skeleton, &plan);
                assert!(proof.is_ok(), "{strategy} in {budget} bytes on {board}: {proof:?}");
            }
        }
    }
}

/// The simulator's three channels guide the search: nothing that others stage is predicted to be faster, and nothing at all
/// to be faster than the bound.
#[test]
fn joint_is_not_slower_where_loads_are_copied() {
    let subject = subject("gpu-host");
    let (network, profile) = (&subject.network, &subject.board.profile);
    let ns = |plan: &Plan| simulate(network, plan, profile, 1).steady_ns as f64;
    let smallest = subject.smallest(1);
    let mut compared = 0;
    for more in [0, 32 << 10, 128 << 10, 512 << 10] {
        let joint = subject.plan(smallest + more, 1).unwrap();
        let largest = joint.loads.iter().map(|load| u64::from(load.bytes)).max().unwrap_or(PAGE);
        let resident = joint.resident.iter().map(|load| u64::from(load.bytes)).max().unwrap_or(0);
        assert!(joint.staging_bytes <= (8 * largest).max(resident) || joint.loads.is_empty());
        for strategy in published::names() {
            let Ok(other) = subject.plan_by(strategy, smallest + more, 1) else { continue };
            let bound = lower_bound_ns(network, smallest + more, profile, 1) as f64;
            assert!(ns(&joint) <= 1.005 * ns(&other), "{strategy} with {more} bytes more");
            assert!(ns(&other) >= bound, "{strategy} with {more} bytes more");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

/// What pipelines take for weights is what the publication says.
#[test]
fn buffers_are_so_many_largest_layers() {
    let staged = subject("gpu-host");
    let plan = |strategy| staged.plan_by(strategy, 1 << 20, 1).unwrap();
    let largest = |plan: &Plan| plan.loads.iter().map(|load| u64::from(load.bytes)).max().unwrap();
    for (strategy, times) in [("demand-seq", 1), ("demand-sync", 2), ("demand-async", 1)] {
        let plan = plan(strategy);
        assert_eq!(plan.staging_bytes, times * largest(&plan), "{strategy}");
        // Of two buffers, not both ever hold the largest layer.
        let (weights, most) = (plan.weight_buffer_bytes(), times * largest(&plan));
        assert!(weights == most || times > 1 && weights < most, "{strategy}: {weights}");
    }
    let [one, two] = ["demand-seq", "demand-sync"].map(plan);
    assert_eq!(two.arena_bytes - one.arena_bytes, largest(&one));
    let grown = plan("demand-async-md");
    assert_eq!(grown.staging_bytes % PAGE, 0);
    assert!(grown.staging_bytes >= largest(&grown));
    let shared = subject("jetson-nano");
    for strategy in ["demand-seq", "demand-async", "demand-2s"] {
        let plan = shared.plan_by(strategy, 1 << 20, 1).unwrap();
        assert_eq!(plan.weight_buffer_bytes(), largest(&plan), "{strategy}");
    }
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// What a step may touch: its buffers, weights and scratch; of the host (0), those of all ports.
fn touched(subject: &Subject, plan: &Plan, number: i64) -> Vec<Range<u64>> {
    let network = &subject.network;
    let buffer = |tensor: u32| {
        let buffer = network.tensors[tensor as usize].buffer as usize;
        let start = plan.places[buffer].address;
        start..start + network.buffers[buffer].bytes
    };
    if number == 0 {
        return network.inputs.iter().chain(&network.outputs).map(|p| buffer(p.tensor)).collect();
    }
    let step: &Step = &plan.steps[number as usize - 1];
    let layer = &network.layers[step.layer as usize];
    let tensors = layer.inputs.into_iter().chain([layer.output]);
    let mut touched: Vec<_> = tensors.filter(|id| *id != NONE).map(buffer).collect();
    let weights = u64::from(step.count) * u64::from(layer.panel_bytes);
    touched.push(step.weights..step.weights + weights);
    touched.push(step.scratch..step.scratch + step.scratch_bytes);
    touched
}

/// Plays three inferences in a random order; fails where two things that go on at once share a byte that one of them
/// writes, or nothing can go on.
fn play(subject: &Subject, plan: &Plan, rng: &mut ChaCha8Rng, eager: usize) -> Result<(), String> {
    let (period, loads) = (plan.period(), plan.loads.len() as i64);
    let (mut steps, mut copies, mut reads) = (0i64, 0i64, 0i64);
    let mut going = [false; 3];
    while steps < 3 * period {
        let number = steps % period;
        let read = (reads % loads) as usize;
        let copy = (copies % loads) as usize;
        let (stage, of) = (&plan.stages[read], reads / loads);
        let may_read = reads < 4 * loads
            && copies >= of * loads + i64::from(stage.copies)
            && steps >= of * period + i64::from(stage.steps);
        let release = i64::from(plan.loads[copy].release);
        let may_copy = copies < reads && steps >= copies / loads * period + release;
        let may_step = number == 0 || {
            let (step, base) = (&plan.steps[number as usize - 1], steps / period * loads);
            copies >= base + i64::from(step.ready) && reads >= base + i64::from(step.reads)
        };
        let may = [may_read, may_copy, may_step];
        let able: Vec<usize> = (0..3).filter(|&task| going[task] || may[task]).collect();
        if able.is_empty() {
            return Err(format!("deadlock at step {number}"));
        }
        // One of the three is the more likely, if it can go on.
        let task = match able.contains(&eager) && rng.random_ratio(4, 5) {
            true => eager,
            false => able[rng.random_range(0..able.len())],
        };
        if going[task] {
            going[task] = false;
            *[&mut reads, &mut copies, &mut steps][task] += 1;
            continue;
        }
        going[task] = true;
        let ring = |load: usize| {
            let start = plan.stages[load].address;
            start..start + u64::from(plan.loads[load].bytes)
        };
        if going[0] && going[1] && meet(&ring(read), &ring(copy)) {
            return Err(format!("read {read} meets copy {copy}"));
        }
        let to = plan.loads[copy].address;
        let to = to..to + u64::from(plan.loads[copy].bytes);
        if going[1] && going[2] && touched(subject, plan, number).iter().any(|t| meet(t, &to)) {
            return Err(format!("copy {copy} meets step {number}"));
        }
    }
    Ok(())
}

#[test]
fn what_the_runtime_proves_is_safe_in_any_order() {
    let subject = subject("gpu-host");
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut proved, mut refused) = (0, 0);
    for strategy in ["demand-seq", "demand-sync", "demand-async", "joint", "flexnn", "on-demand"] {
        let Err(PlanError::Budget { smallest, .. }) = subject.plan_by(strategy, 0, 1) else {
            panic!("{strategy} in no memory");
        };
        let plan = subject.plan_by(strategy, smallest, 1).unwrap();
        assert!(plan.loads.len() > 2, "{strategy}");
        let skeleton = skeleton(&subject);
        for _ in 0..400 {
            let mut changed = plan.clone();
            for _ in 0..rng.random_range(0..3) {
                let load = rng.random_range(0..changed.loads.len());
                let step = rng.random_range(0..changed.steps.len());
                let by = rng.random_range(-3..4);
                let stage = &mut changed.stages[load];
                match rng.random_range(0..6) {
                    0 => stage.copies += by,
                    1 => stage.steps += by,
                    2 => changed.loads[load].release += by,
                    3 => {
                        changed.steps[step].reads = rng.random_range(0..=changed.loads.len()) as u32
                    }
                    4 => stage.address = rng.random_range(0..changed.staging_bytes / PAGE) * PAGE,
                    _ => {
                        changed.steps[step].ready =
                            changed.steps[step].ready.saturating_add_signed(by)
                    }
                }
            }
            if prove(&subject, &skeleton, &changed).is_err() {
                refused += 1;
                continue;
            }
            proved += 1;
            for eager in 0..3 {
                let run = play(&subject, &changed, &mut rng, eager);
                assert!(run.is_ok(), "{strategy}: {run:?}\n{:#?}", changed.stages);
            }
        }
    }
    assert!(proved > 600 && refused > 600, "{proved} proved, {refused} refused");
}

#[test]
fn each_broken_rule_is_named() {
    let staged = subject("gpu-host");
    let plan = staged.plan_by("demand-async", 1 << 20, 1).unwrap();
    let skeleton = skeleton(&staged);
    prove(&staged, &skeleton, &plan).unwrap();
    let (period, loads) = (plan.period() as i32, plan.loads.len() as i32);
    let expect = |text: &str, change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        let flaw = prove(&staged, &skeleton, &plan).expect_err(text).to_string();
        assert!(flaw.contains(text), "{flaw}, not: {text}");
    };
    expect("bytes of stages", &|plan| _ = plan.stages.pop());
    expect("bytes left over", &|plan| plan.staging_bytes = 0);
    expect("waits for reads", &|plan| plan.steps[0].reads = loads as u32 + 1);
    expect("staging ring: not a multiple", &|plan| plan.staging_bytes += 64);
    expect("bytes of the staging ring", &|plan| plan.staging_bytes = 1 << 60);
    expect("stage: address: not", &|plan| plan.stages[1].address += 64);
    expect("outside the staging ring", &|plan| plan.stages[1].address = plan.staging_bytes);
    expect("outside the staging ring", &|plan| plan.stages[1].address = u64::from(u32::MAX) * PAGE);
    expect("waits for copies beyond", &|plan| plan.stages[1].copies = 2);
    expect("waits for copies beyond", &|plan| plan.stages[1].copies = -loads);
    expect("waits for steps beyond", &|plan| plan.stages[1].steps = period);
    expect("waits for steps beyond", &|plan| plan.stages[1].steps = -period);
    expect("a copy may be going on", &|plan| {
        plan.stages[2].address = plan.stages[0].address;
        plan.stages[2].copies = 0;
    });
    expect("read only after a step", &|plan| plan.stages[0].steps = period - 1);
    expect("waits for a copy that comes after", &|plan| {
        let last = plan.loads.len() - 1;
        let user = plan.steps.iter().position(|step| step.ready > 1).unwrap();
        plan.loads[1].release = user as i32 + 1;
        plan.steps[0].reads = loads as u32;
        plan.stages.iter_mut().for_each(|stage| stage.steps = stage.steps.min(1));
        plan.stages[last].copies = last as i32;
    });
    // As many loads as would take long to compare.
    expect("takes too long to prove", &|plan| {
        let (load, many) = (*plan.loads.last().unwrap(), 1 << 15);
        let last = plan.steps.len() - 1;
        plan.loads.resize(many, load);
        plan.loads[loads as usize..].iter_mut().for_each(|load| load.release = last as i32 + 1);
        plan.steps[last].ready = many as u32;
        let widest = |j: usize| eyelet::pack::Stage {
            address: 0,
            copies: j as i32 + 1 - many as i32,
            steps: 1,
        };
        plan.stages = (0..many).map(widest).collect();
    });
    // A processor has no ring.
    let host = Subject::new(&digits());
    let mut plan = host.plan_by("on-demand", 1 << 20, 1).unwrap();
    let skeleton = self::skeleton(&host);
    plan.staging_bytes = PAGE << 8;
    plan.stages = vec![eyelet::pack::Stage::default(); plan.loads.len()];
    let flaw = prove(&host, &skeleton, &plan).unwrap_err().to_string();
    assert!(flaw.contains("a staging ring for a processor"), "{flaw}");
}

#[test]
fn the_command_says_what_pipelines_take_and_what_cannot_be() {
    let folder = command::folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    let plan = |more: &[&str]| {
        eyelet_in(folder.path(), &[&["plan", "d.onnx", "--board", "gpu-host"], more].concat())
    };
    let md = ["--budget", "1MiB", "--strategy", "demand-async-md", "--delta", "4KiB", "--json"];
    let planned = plan(&md).json();
    let inspected = eyelet_in(folder.path(), &["inspect", "d.pack", "--json"]).json();
    for key in ["staging_bytes", "weight_buffer_bytes"] {
        let value = &planned["plans"][0][key];
        assert!(value.as_u64() > Some(0), "{key}");
        assert_eq!(value, &inspected["plans"][0][key], "{key}");
    }
    assert!(planned["plans"][0]["designs_tried"].as_u64() > Some(1));
    let two = ["--budget", "1MiB", "--strategy", "demand-2s"];
    plan(&two).fails(&["demand-2s has two stages", "gpu-host", "plan with `demand-async`"]);
    let little = ["--budget", "4KiB", "--strategy", "demand-sync"];
    plan(&little).fails(&["the smallest feasible one is", "room for the largest layer's weights"]);
    let delta = ["--budget", "1MiB", "--delta", "1MiB"];
    plan(&delta).fails(&["--delta is for the strategy demand-async-md, and this is joint"]);
    // What a board cannot do is not in its curves.
    let sweep = ["sweep", "d.onnx", "--board", "gpu-host", "--budgets", "64KiB..1MiB"];
    let sweep = eyelet_in(folder.path(), &[&sweep[..], &["--points", "2", "--json"]].concat());
    let sweep = sweep.json();
    let names = sweep["strategies"].as_array().unwrap();
    assert!(names.contains(&"demand-async".into()) && !names.contains(&"demand-2s".into()));
}
