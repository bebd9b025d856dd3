//! Two small networks in the middle of inferences at once: what these tests do, an interpreter (Miri) judges
//! reference by reference.

use super::*;
use crate::device::Inline;
use crate::executor::testing::{BUDGETS, Pages, THREADS, inputs, network, outputs};
use crate::executor::{BudgetError, Instance, Options};
use crate::pack::PAGE;
use crate::storage::faulty::Fault;
use crate::storage::{Faulty, Slice, Storage};
use core::cell::Cell;
use std::boxed::Box;
use std::vec::Vec;

type Arena = Box<Pages<{ 6 * PAGE as usize }>>;

fn task(period_ns: u64, streams: bool) -> Task {
    Task { step_ns: 10, streams, ..Task::new(period_ns, 100) }
}

/// Compares outputs, and writes down who steps.
#[derive(Default)]
struct Program {
    steps: Vec<usize>,
    ended: [u64; 2],
    failed: Vec<(usize, JobError)>,
}

impl Host for Program {
    fn inputs(&mut self, _: usize, ports: &mut dyn Ports) {
        assert_eq!((ports.inputs().len(), ports.outputs().len()), (1, 1));
        ports.input_mut(0).unwrap().copy_from_slice(&inputs(0));
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        assert_eq!(ports.output(0).unwrap(), outputs(0));
        self.ended[job.task] += 1;
    }

    fn failed(&mut self, task: usize, error: JobError) {
        self.failed.push((task, error));
    }

    fn event(&mut self, event: SetEvent, _: u64) {
        if let SetEvent::StepBegins { task } = event {
            self.steps.push(task);
        }
    }
}

/// Calls `body` with a set of two networks: one that is urgent, one that is not.
fn set<S: Storage>(
    storages: &mut [S; 2],
    budgets: [usize; 2],
    body: impl FnOnce(&mut TaskSet<'_, '_, S, 2>, &mut Program),
) {
    let pack = network();
    let mut arenas: [Arena; 2] =
        core::array::from_fn(|_| Box::new(Pages([0xa5; 6 * PAGE as usize])));
    let [a, b] = &mut arenas;
    let open = |arena, budget: usize| {
        let budget = BUDGETS[budget];
        let verify = !cfg!(miri);
        let options = Options { budget, threads: THREADS, verify, ..Options::default() };
        ChunkedInstance::whole(Instance::open(&mut Slice(&pack), arena, options).unwrap())
    };
    let (mut a, mut b) = (open(&mut a.0, budgets[0]), open(&mut b.0, budgets[1]));
    assert_eq!((a.chunks(), a.kept_bytes()), (0, BUDGETS[budgets[0]]));
    let [of_a, of_b] = storages;
    let members = [
        Member { task: task(1000, true), network: &mut a, storage: of_a },
        Member { task: task(100_000, true), network: &mut b, storage: of_b },
    ];
    let mut set = TaskSet::new(Policy::Steps, members, Pool::none()).unwrap();
    body(&mut set, &mut Program::default());
}

fn finish(running: &mut Running<'_, '_, 2>) {
    while running.step() != Activity::Idle {}
}

#[test]
fn one_network_preempts_the_other_between_any_two_steps() {
    let pack = network();
    // Fewer in an interpreter.
    let (depths, befores) = if cfg!(miri) { (3..4, 1..3) } else { (1..4, 0..5) };
    for depth in depths {
        for before in befores.clone() {
            let mut storages =
                [0, 1].map(|_| Faulty::new(Slice(&pack), &[]).queued(depth).prompt(2));
            set(&mut storages, [0, 2], |set, program| {
                let clock = Cell::new(0);
                let now_ns = || {
                    clock.set(clock.get() + 1);
                    clock.get()
                };
                set.run(&Inline, &now_ns, program, |running| {
                    running.release(1, 1).unwrap();
                    (0..before)
                        .for_each(|_| assert_eq!(running.step(), Activity::Step { task: 1 }));
                    running.release(0, 20).unwrap();
                    finish(running);
                    let next_ns = 1020;
                    assert_eq!(running.release(0, 30), Err(ReleaseError::Early { next_ns }));
                });
                assert_eq!((program.ended, program.failed.len()), ([1, 1], 0));
                let first = program.steps.iter().position(|task| *task == 0);
                assert_eq!(first, Some(before.min(4)));
                assert!(program.steps[before.min(4)..][..4].iter().all(|task| *task == 0));
            });
            assert_eq!(storages.map(|storage| storage.under_way()), [0, 0]);
        }
    }
}

#[test]
fn a_job_that_fails_is_given_up_alone() {
    let pack = network();
    // A read of the first inference, and one of the second.
    let script = [(1, Fault::Errno(5)), (4, Fault::Errno(5))];
    let script: [&[(u64, Fault)]; 2] = [&script, &[]];
    let mut storages = script.map(|script| Faulty::new(Slice(&pack), script).queued(2));
    set(&mut storages, [0, 0], |set, program| {
        set.run(&Inline, &|| 0, program, |running| {
            for job in 0..4 {
                running.release(0, 1000 * job).unwrap();
                running.release(1, 100_000 * job).unwrap();
                finish(running);
            }
        });
        let failed = program.failed.iter().map(|(task, _)| *task);
        assert_eq!(failed.collect::<Vec<_>>(), [0, 0]);
        assert!(matches!(program.failed[0].1, JobError::Infer(_)));
        assert_eq!((program.ended, set.counts(0).failed), ([2, 4], 2));
    });
}

#[test]
fn a_scope_that_is_left_gives_up_its_jobs() {
    let pack = network();
    let mut storages = [0, 1].map(|_| Faulty::new(Slice(&pack), &[]).queued(3));
    set(&mut storages, [1, 0], |set, program| {
        for steps in 0..if cfg!(miri) { 2 } else { 4u64 } {
            set.run(&Inline, &|| 0, program, |running| {
                running.release(1, 200_000 * steps).unwrap();
                (0..steps).for_each(|_| {
                    running.step();
                });
            });
            assert_eq!(program.failed.last(), Some(&(1, JobError::Stopped)));
            set.run(&Inline, &|| 0, program, |running| {
                running.release(1, 200_000 * steps + 100_000).unwrap();
                finish(running);
            });
            assert_eq!(program.ended, [0, steps + 1]);
        }
    });
}

#[test]
fn all_budgets_change_together_or_none() {
    let pack = network();
    let mut storages = [0, 1].map(|_| Slice(&pack));
    set(&mut storages, [0, 2], |set, program| {
        set.run(&Inline, &|| 0, program, |running| {
            let tasks = [task(500, true), task(100_000, true)];
            let mut round = 0;
            let mut jobs = |running: &mut Running<'_, '_, 2>| {
                round += 1;
                running.release(0, 1000 * round).unwrap();
                running.release(1, 100_000 * round).unwrap();
                finish(running);
            };
            jobs(running);
            let [small, _, large] = BUDGETS;
            running.change(&[large, small], &tasks).unwrap();
            jobs(running);
            let none = BudgetError::Budget { asked: small - 1, smallest: small };
            let none = ChangeError::Budget { task: 1, error: none };
            assert_eq!(running.change(&[small, small - 1], &tasks), Err(none));
            let (asked, arena) = (large + 1, large);
            let more = ChangeError::Budget { task: 0, error: BudgetError::Arena { asked, arena } };
            assert_eq!(running.change(&[large + 1, small], &tasks), Err(more));
            let few = ChangeError::Budgets { budgets: 1, tasks: 2 };
            assert_eq!(running.change(&[small], &tasks), Err(few));
            // That it streams all the same is known when the plan is there.
            let wrong = [task(500, true), task(100_000, false)];
            assert_eq!(
                running.change(&[small, large], &wrong),
                Err(ChangeError::Streams { task: 1 })
            );
            jobs(running);
            let volume = ChangeError::Volume { task: 0, asked: 1, has: 0 };
            let wrong = [Task { chunks: 1, ..task(500, true) }, task(100_000, true)];
            assert_eq!(running.change(&[small, large], &wrong), Err(volume));
            // A job in the middle of an inference starts over with another plan, and goes on with the plan that it has.
            running.release(1, 900_000).unwrap();
            for _ in 0..2 {
                (0..2).for_each(|_| assert_eq!(running.step(), Activity::Step { task: 1 }));
                running.change(&[small, large], &tasks).unwrap();
            }
            finish(running);
        });
        let steps = program.steps.iter().filter(|task| **task == 1).count();
        assert_eq!((program.ended, program.failed.len(), steps), ([3, 4], 0, 3 * 4 + 2 + 4));
        assert_eq!(set.scheduler().task(0).unwrap().period_ns, 500);
    });
}

#[test]
fn budgets_go_back_if_a_plan_cannot_be_read() {
    let pack = network();
    // The second network's tables, when they change.
    let script: [&[(u64, Fault)]; 2] = [&[], &[(0, Fault::Errno(5))]];
    let mut storages = script.map(|script| Faulty::new(Slice(&pack), script));
    set(&mut storages, [0, 0], |set, program| {
        set.run(&Inline, &|| 0, program, |running| {
            let tasks = [task(500, true), task(100_000, true)];
            let failed = running.change(&[BUDGETS[2]; 2], &tasks).unwrap_err();
            assert!(matches!(failed, ChangeError::Budget { task: 1, error: BudgetError::Plan(_) }));
            running.release(0, 0).unwrap();
            running.release(1, 0).unwrap();
            finish(running);
        });
        assert_eq!((program.ended, program.failed.len()), ([1, 1], 0));
        assert_eq!(set.scheduler().task(0).unwrap().period_ns, 1000);
    });
}
