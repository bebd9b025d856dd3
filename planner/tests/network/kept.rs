//! Slices of a Winograd convolution that keep what the first of them makes of the inputs: the same bits, in less time; what is not
//! left where it is looked for, or not left alone, is refused, by the checker and by the runtime.

use crate::common::command::eyelet_in;
use crate::common::forge::Three;
use crate::common::net::Net;
use crate::common::prove::{prove, skeleton};
use crate::common::{Subject, bits, run_inline};
use eyelet::device::Inline;
use eyelet::pack::{InputReuse, Method, PAGE, Step};
use eyelet_planner::algorithm::Algorithm;
use eyelet_planner::check::{Violation, check};
use eyelet_planner::graph::{Op, Window};
use eyelet_planner::plan::{Plan, step_weights};
use eyelet_planner::profile::Costs;
use eyelet_planner::steps::whole;

/// A budget for which everything is resident.
const AMPLE: u64 = 64 << 20;

/// 3x3 convolutions whose weights are many for their maps, all by F(4,3).
fn subject() -> Subject {
    let mut net = Net::default();
    net.0.name = "kept".into();
    let (mut x, mut from) = (net.value(&[1, 3, 14, 14], None), 3);
    net.0.inputs.push(x);
    for to in [160, 192, 160, 256, 16] {
        let weights = net.weights(&[to, from, 3, 3]);
        let (kernel, ones) = ([3; 2], [1; 2]);
        let window =
            Window { kernel, stride: ones, dilation: ones, pad_begin: ones, pad_end: ones };
        x = net.node(Op::Conv { window, groups: 1 }, &[x, weights], &[1, to, 14, 14]);
        from = to;
    }
    net.0.outputs.push(x);
    let winograd = |_| Algorithm::Winograd { tile: 4 };
    Subject::by(winograd, net.0, crate::common::board::board())
}

/// The bytes of a pack with these plans.
fn pack(subject: &Subject, plans: &[Plan]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    subject.write(&path, plans);
    std::fs::read(&path).unwrap()
}

fn found(plan: &Plan) -> usize {
    plan.steps.iter().filter(|step| step.reuse() == InputReuse::Reuse).count()
}

/// Plans in which steps find what others have left, from that with the least memory on.
fn plans(subject: &Subject) -> impl Iterator<Item = Plan> {
    let smallest = subject.smallest(1);
    let budgets = (0..64).map(move |more| smallest + (more << 16));
    let plans = budgets.map(|budget| subject.plan(budget, 1).unwrap());
    plans.filter(|plan| found(plan) > 2)
}

#[test]
fn slices_that_keep_their_inputs_compute_the_same() {
    let subject = subject();
    let inputs = subject.inputs(1);
    let ample = pack(&subject, &[subject.plan(AMPLE, 1).unwrap()]);
    let expected = bits(&run_inline(&ample, AMPLE, &inputs, &Inline, 1));
    let smallest = subject.smallest(3);
    let mut kept = [0; 2];
    for more in [0u64, 4, 8, 12, 20, 28, 40] {
        let budget = smallest + (more << 16);
        for (threads, kept) in [1, 3].into_iter().zip(&mut kept) {
            let Ok(plan) = subject.plan(budget, threads) else { continue };
            *kept += found(&plan);
            let packed = pack(&subject, &[plan]);
            assert!(bits(&run_inline(&packed, budget, &inputs, &Inline, 2)) == expected);
            if threads == 3 {
                assert!(bits(&run_inline(&packed, budget, &inputs, &Three, 2)) == expected);
            }
        }
    }
    // Which budgets are so is the planner's choice.
    for plan in plans(&subject).take(2) {
        kept[0] += found(&plan);
        let (packed, budget) = (pack(&subject, std::slice::from_ref(&plan)), plan.budget);
        assert!(bits(&run_inline(&packed, budget, &inputs, &Inline, 2)) == expected);
    }
    assert!(kept[0] > 0, "no plan for one thread keeps inputs");
}

/// Published strategies are planned as they are published.
#[test]
fn other_strategies_transform_anew() {
    let subject = subject();
    for (strategy, budget) in [
        ("flexnn", 4 << 20),
        ("flexnn-dynamic", 4 << 20),
        ("on-demand", 8 << 20),
        ("preload", AMPLE),
    ] {
        let plan = subject.plan_by(strategy, budget, 1).unwrap();
        assert!(plan.steps.iter().all(|step| step.reuse() == InputReuse::None), "{strategy}");
    }
}

#[test]
fn slices_that_keep_are_predicted_to_take_what_one_does() {
    let subject = subject();
    let costs = Costs::new(&subject.network, &subject.board.profile, 1);
    let all = whole(&subject.network, 2);
    let panels = all.count;
    let slices = |kept: [InputReuse; 2]| -> u64 {
        let of = |at: u32| Step { count: 1, method: Method::Own(kept[usize::from(at > 0)]), ..all };
        (0..panels).map(|at| costs.step_ns(&of(at))).sum()
    };
    let once = costs.step_ns(&all);
    let (anew, kept) =
        (slices([InputReuse::None; 2]), slices([InputReuse::Store, InputReuse::Reuse]));
    assert!(kept < anew, "{kept} of {anew}");
    assert!(kept < once + once / 4, "{kept} for {once}");
    assert!(kept >= once, "{kept} for {once}");
}

#[test]
fn what_is_not_left_is_not_found() {
    let subject = subject();
    let skeleton = skeleton(&subject);
    let plan = plans(&subject).next().expect("no plan keeps inputs");
    assert_eq!(prove(&subject, &skeleton, &plan), Ok(()));
    let at = plan.steps.iter().position(|step| step.reuse() == InputReuse::Reuse).unwrap();
    let refused = |change: &dyn Fn(&mut Plan), reason: &str, flaw: &str| {
        let mut plan = plan.clone();
        change(&mut plan);
        let all = check(&subject.network, &plan, subject.weights_bytes).unwrap_err();
        let says = |one: &Violation| matches!(one, Violation::NotKept { step, reason: why } if *step == at + 1 && *why == reason);
        assert!(all.iter().any(says), "{reason}: {all:?}");
        let found = prove(&subject, &skeleton, &plan).unwrap_err();
        assert_eq!(found.what, flaw, "{reason}");
    };
    let none = "step: finds inputs that the step before does not keep";
    let other =
        "step: finds inputs of another layer, other rows or in other scratch than the step before";
    refused(&|plan| plan.steps[at - 1].method = Method::Own(InputReuse::None), "keeps none", none);
    let moved = |plan: &mut Plan| {
        // In bytes that are free in that step, if any plan has them: of another place alone.
        plan.arena_bytes += plan.steps[at].scratch_bytes.next_multiple_of(PAGE);
        plan.budget = plan.arena_bytes;
        let end = plan.arena_bytes - plan.steps[at].scratch_bytes.next_multiple_of(64);
        plan.steps[at].scratch = end / 64 * 64;
    };
    refused(&moved, "has its scratch elsewhere", other);
    let less = |plan: &mut Plan| plan.steps[at - 1].scratch_bytes -= 64;
    refused(&less, "has its scratch elsewhere", "step: too little scratch");
}

/// A load that is begun and done between the two steps meets neither of them, but what lies there.
#[test]
fn nothing_is_loaded_over_what_is_kept() {
    let subject = subject();
    let skeleton = skeleton(&subject);
    let tried: usize =
        plans(&subject).map(|plan| over_what_is_kept(&subject, &skeleton, &plan)).sum();
    assert!(tried > 0, "no step of any plan lends itself to it");
}

/// How often it was tried with a plan.
fn over_what_is_kept(subject: &Subject, skeleton: &[u32], plan: &Plan) -> usize {
    // A step that finds, and whose own weights come with a load that ends with bytes of no step.
    let mut tried = 0;
    for (at, step) in
        plan.steps.iter().enumerate().filter(|(_, step)| step.reuse() == InputReuse::Reuse)
    {
        let weights = step_weights(&subject.network, step);
        let before = plan.steps[at - 1].ready;
        let own = (before..step.ready).find(|load| {
            let load = &plan.loads[*load as usize];
            load.offset <= weights.start && weights.end <= load.offset + u64::from(load.bytes)
        });
        let Some(load) = own else { continue };
        // Everything else is far away: the arena is as large again, and only this load comes to its end, when all steps before are done.
        let mut apart = plan.clone();
        let end = plan.arena_bytes;
        let bytes = u64::from(plan.loads[load as usize].bytes);
        let room = (bytes + step.scratch_bytes).next_multiple_of(PAGE) + PAGE;
        apart.arena_bytes = end + room;
        apart.budget = apart.arena_bytes;
        let record = &mut apart.loads[load as usize];
        // So that all behind the weights are scratch of the run, in one way, and none, in the other.
        record.address = end;
        record.release = at as i32 + 1;
        apart.steps[at].weights = end + (weights.start - record.offset);
        let used = (weights.end - record.offset).next_multiple_of(64);
        if used + 64 > bytes || plan.loads[load as usize].offset + used < weights.end {
            continue;
        }
        let file = record.offset..record.offset + bytes;
        let others = plan.steps.iter().enumerate().any(|(other, of)| {
            let weights = step_weights(&subject.network, of);
            let inside = file.start <= weights.start && weights.end <= file.end;
            other != at && !weights.is_empty() && inside
        });
        if others {
            continue;
        }
        assert!(check(&subject.network, &apart, subject.weights_bytes).is_ok());
        assert_eq!(prove(subject, skeleton, &apart), Ok(()));
        tried += 1;
        let first =
            (0..at).rev().find(|first| plan.steps[*first].reuse() == InputReuse::Store).unwrap();
        let last = (at..plan.steps.len())
            .take_while(|last| plan.steps[*last].reuse() == InputReuse::Reuse);
        for of in first..=last.last().unwrap() {
            apart.steps[of].scratch = end + used;
        }
        let all = check(&subject.network, &apart, subject.weights_bytes).unwrap_err();
        let overlaps = |one: &Violation| matches!(one, Violation::Overlap { .. });
        assert!(all.iter().all(overlaps), "{all:?}");
        let flaw = prove(subject, skeleton, &apart).unwrap_err();
        assert_eq!(flaw.what, "load: may be in flight where a step finds what it keeps");
        // Without what is kept nothing is wrong with it.
        apart.steps.iter_mut().for_each(|step| step.method = Method::Own(InputReuse::None));
        let proof = check(&subject.network, &apart, subject.weights_bytes);
        assert!(proof.is_ok(), "{:?}", proof.err());
        assert_eq!(prove(subject, skeleton, &apart), Ok(()));
    }
    tried
}

/// One sees which layers do so, in the pack and on the timeline.
#[test]
fn it_is_told() {
    let subject = subject();
    let plan = plans(&subject).next().expect("no plan keeps inputs");
    let keeps =
        plan.steps.iter().find(|step| step.reuse() == InputReuse::Store).unwrap().layer as usize;
    let steps = plan.steps.iter().filter(|step| step.layer as usize == keeps).count();
    let folder = tempfile::tempdir().unwrap();
    subject.write(&folder.path().join("kept.pack"), &[plan]);
    let inspected = eyelet_in(folder.path(), &["inspect", "kept.pack", "--json"]).json();
    let layer = &inspected["layers"][keeps];
    assert_eq!((&layer["kept"][0], &layer["slices"][0]), (&true.into(), &steps.into()));
    assert_eq!(inspected["layers"][0]["kept"][0], false);
    let text = eyelet_in(folder.path(), &["inspect", "kept.pack"]).text();
    assert!(text.lines().any(|line| line.ends_with(&format!(" {steps} K"))), "{text}");
    let run = ["run", "kept.pack", "--io", "buffered", "--trace", "trace.json"];
    eyelet_in(folder.path(), &run).text();
    let trace = std::fs::read_to_string(folder.path().join("trace.json")).unwrap();
    assert!(trace.contains("Winograd F(4,3), inputs kept"));
}
