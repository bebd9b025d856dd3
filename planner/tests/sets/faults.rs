//! What goes wrong with one task is its own: the others end in time, and its next job tries again.

use crate::common::forge::{entries, header, shapes};
use crate::common::{Subject, board};
use crate::harness::{CHUNK, Case, Clock, Program, TICK_NS, arena, chain, task};
use eyelet::arena::SharedArena;
use eyelet::device::Inline;
use eyelet::executor::{
    BudgetError, ChunkError, ChunkedError, ChunkedInstance, OpenError, Options,
};
use eyelet::set::{
    Activity, ChangeError, JobError, Member, Policy, Pool, ReleaseError, Running, Task, TaskSet,
    TaskSetError,
};
use eyelet::storage::faulty::Fault;
use eyelet::storage::{DirectFile, Faulty, Slice, Storage, StorageError};
use eyelet::tasks::{SetError, set_reloads};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const PERIOD_NS: u64 = 400 * TICK_NS;

/// Two networks that push each other out, and one that stays: less urgent from task to task.
struct Three {
    cases: [Case; 3],
}

impl Three {
    fn new() -> Self {
        let chains = [(64, 4, 5), (48, 4, 6), (32, 4, 4)];
        let of = |(channels, side, layers)| Case::resident(chain(channels, side, layers));
        Self { cases: chains.map(of) }
    }

    /// Calls `body` with the set, its clock, and a program.
    fn run(
        &self,
        storages: &mut [&mut dyn Storage; 3],
        change: impl Fn(&mut [Task]),
        body: impl FnOnce(&mut TaskSet<'_, '_, &mut dyn Storage, 3>, &Clock, &mut Program<'_>),
    ) {
        let cases: [&Case; 3] = self.cases.each_ref();
        let [a, b, _] = cases.map(|case| case.needs());
        // Once one of them is in, the other has to leave.
        let slots = a.1.max(b.1);
        let bytes = a.0 + b.0 + 4096 + u64::from(slots) * CHUNK;
        let stays = SharedArena::new(cases[2].budget + 4096, CHUNK).unwrap();
        let arena = SharedArena::new(bytes, CHUNK).unwrap();
        let mut networks = [
            cases[0].open(&arena, u32::MAX),
            cases[1].open(&arena, u32::MAX),
            cases[2].open(&stays, 0),
        ];
        let pool = arena.pool().unwrap();
        let mut tasks: Vec<Task> = (networks.iter().zip(0..))
            .map(|(network, level)| task(network, PERIOD_NS << level, 0))
            .collect();
        change(&mut tasks);
        set_reloads(&mut tasks, pool.chunks());
        let members = (networks.iter_mut().zip(storages).zip(tasks))
            .map(|((network, storage), task)| Member { task, network, storage });
        let mut set = TaskSet::new(Policy::Steps, members, pool).unwrap();
        body(&mut set, &Clock::new(), &mut Program::new(&cases));
    }
}

/// Releases every task whenever its period permits, for so many periods of the first.
fn periods(running: &mut Running<'_, '_, 3>, clock: &Clock, count: u64) {
    let end = clock.now_ns() + count * PERIOD_NS;
    while clock.now_ns() < end {
        for task in (0..3).filter(|task| running.deadline_ns(*task).is_none()).collect::<Vec<_>>() {
            let _ = running.release(task, clock.now_ns());
        }
        running.step();
    }
    finish(running);
}

fn finish(running: &mut Running<'_, '_, 3>) {
    loop {
        match running.step() {
            Activity::Idle => return,
            Activity::Loading => running.wait(),
            _ => {}
        }
    }
}

#[test]
fn reads_that_fail_cost_their_own_jobs() {
    let three = Three::new();
    for queued in [1, 3] {
        let script: Vec<_> = (3..40u64)
            .step_by(3)
            .map(|n| match n % 2 {
                0 => (n, Fault::Errno(5)),
                _ => (n, Fault::FlipBit { byte: 100, bit: 2 }),
            })
            .collect();
        let [a, b, c] = three.cases.each_ref().map(|case| Slice(&case.pack));
        let mut a = Faulty::new(a, &[]).queued(queued).prompt(2);
        let mut b = Faulty::new(b, &script).queued(queued).prompt(2);
        let mut c = c;
        three.run(
            &mut [&mut a, &mut b, &mut c],
            |_| {},
            |set, clock, program| {
                set.run(&Inline, &|| clock.now_ns(), program, |running| {
                    periods(running, clock, 80)
                });
                let of = |wanted: usize| {
                    program.failures.iter().filter(move |(task, _)| *task == wanted)
                };
                assert_eq!((of(0).count(), of(2).count()), (0, 0), "{:?}", program.failures);
                let (mut errors, mut damage) = (0, 0);
                for (_, error) in of(1) {
                    match error {
                        JobError::Chunk { error: ChunkError::Storage(error), .. } => {
                            assert!(matches!(error, StorageError::Io { errno: 5, .. }), "{error}");
                            errors += 1;
                        }
                        JobError::Chunk {
                            chunk,
                            error: ChunkError::Checksum { found, expected },
                        } => {
                            assert!(
                                found != expected
                                    && *chunk < set.scheduler().task(1).unwrap().chunks
                            );
                            damage += 1;
                        }
                        error => panic!("{error}"),
                    }
                }
                assert!(errors > 2 && damage > 2, "{errors} {damage}");
                assert_eq!(set.counts(1).failed, errors + damage);
                assert_eq!(set.counts(0).misses, 0);
                assert!(program.ended.iter().all(|ended| *ended > 5), "{:?}", program.ended);
            },
        );
        assert_eq!([a.under_way(), b.under_way()], [0, 0]);
    }
}

/// The kernel's queue ends such reads early: it must not be asked for ever whether they have come.
#[test]
fn a_file_that_is_cut_short_costs_its_own_jobs() {
    let three = Three::new();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("cut.pack");
    let pack = &three.cases[1].pack;
    std::fs::write(&path, &pack[..pack.len() / 2 / 4096 * 4096]).unwrap();
    let mut b = match DirectFile::open(&CString::new(path.as_os_str().as_bytes()).unwrap()) {
        Err(StorageError::NoDirectIo) => {
            return eprintln!("skipped: no direct I/O in the target folder");
        }
        file => file.unwrap(),
    };
    let [mut a, mut c] = [0, 2].map(|at| Slice(&three.cases[at].pack));
    three.run(
        &mut [&mut a, &mut b, &mut c],
        |_| {},
        |set, clock, program| {
            set.run(&Inline, &|| clock.now_ns(), program, |running| {
                // Without a wait: answers are asked for.
                for _ in 0..2_000_000 {
                    for task in 0..3 {
                        let _ = running.release(task, clock.now_ns());
                    }
                    if running.step() == Activity::Loading {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    if running.counts(1).failed > 2 {
                        break;
                    }
                }
                finish(running);
            });
            assert!(set.counts(1).failed > 2, "{:?}", set.counts(1));
            for (task, error) in &program.failures {
                let JobError::Chunk { error: ChunkError::Storage(error), .. } = error else {
                    panic!("task {task}: {error}")
                };
                assert!(
                    *task == 1 && matches!(error, StorageError::Short { .. }),
                    "task {task}: {error}"
                );
            }
            assert!(program.ended[0] > 0 && program.ended[2] > 0, "{:?}", program.ended);
        },
    );
}

#[test]
fn a_storage_that_stalls_keeps_nobody_from_computing() {
    let three = Three::new();
    let [a, b, c] = three.cases.each_ref().map(|case| Slice(&case.pack));
    let mut a = Faulty::new(a, &[]).queued(3).prompt(1);
    let mut b = Faulty::new(b, &[]).queued(3).prompt(10_000);
    let mut c = c;
    // What stays computes while others load: at worst it ends before their chunk.
    let patient = |tasks: &mut [Task]| {
        tasks[1].chunk_ns = 100 * PERIOD_NS;
    };
    three.run(&mut [&mut a, &mut b, &mut c], patient, |set, clock, program| {
        set.run(&Inline, &|| clock.now_ns(), program, |running| {
            running.release(1, clock.now_ns()).unwrap();
            let mut ended = 0;
            while running.present(1) == 0 {
                let idle = running.deadline_ns(2).is_none();
                if idle && running.release(2, clock.now_ns()).is_ok() {
                    ended += 1;
                }
                running.step();
            }
            assert!(ended > 3 && running.counts(2).jobs + 1 >= ended, "{ended} jobs meanwhile");
            assert_eq!(running.counts(2).misses, 0);
        });
    });
    assert_eq!(b.under_way(), 0);
}

#[test]
fn a_job_that_overruns_is_counted_and_the_others_go_on() {
    let three = Three::new();
    let mut storages = three.cases.each_ref().map(|case| Slice(&case.pack));
    let [a, b, c] = storages.each_mut().map(|storage| storage as &mut dyn Storage);
    let short = |tasks: &mut [Task]| {
        (tasks[1].compute_ns, tasks[1].step_ns) = (2, 1);
    };
    three.run(&mut [a, b, c], short, |set, clock, program| {
        set.run(&Inline, &|| clock.now_ns(), program, |running| periods(running, clock, 30));
        let counts = [0, 1, 2].map(|task| set.counts(task));
        assert!(counts[1].jobs > 5 && counts[1].compute_overruns == counts[1].jobs);
        assert!(counts[1].step_overruns > counts[1].jobs);
        for of in [counts[0], counts[2]] {
            assert!(of.jobs > 5 && of.compute_overruns + of.step_overruns == 0, "{of:?}");
        }
        assert!(program.failures.is_empty());
    });
}

#[test]
fn a_burst_of_releases_is_refused_and_counted() {
    let three = Three::new();
    let mut storages = three.cases.each_ref().map(|case| Slice(&case.pack));
    let [a, b, c] = storages.each_mut().map(|storage| storage as &mut dyn Storage);
    three.run(
        &mut [a, b, c],
        |_| {},
        |set, clock, program| {
            set.run(&Inline, &|| clock.now_ns(), program, |running| {
                let now_ns = clock.now_ns();
                assert_eq!(running.release(3, now_ns), Err(ReleaseError::Unknown));
                running.release(0, now_ns).unwrap();
                for _ in 0..100 {
                    assert_eq!(running.release(0, clock.now_ns()), Err(ReleaseError::Unfinished));
                }
                running.release(1, clock.now_ns()).unwrap();
                finish(running);
                let next_ns = now_ns + PERIOD_NS;
                for _ in 0..100 {
                    assert_eq!(
                        running.release(0, now_ns + 5),
                        Err(ReleaseError::Early { next_ns })
                    );
                }
                assert_eq!((running.counts(0).jobs, running.counts(0).misses), (1, 100));
                assert_eq!((running.counts(1).jobs, running.counts(1).misses), (1, 0));
            });
        },
    );
}

#[test]
fn a_task_is_stopped_in_the_middle_and_starts_again() {
    let three = Three::new();
    let [a, b, c] = three.cases.each_ref().map(|case| Slice(&case.pack));
    let mut a = Faulty::new(a, &[]).queued(3).prompt(4);
    let (mut b, mut c) = (b, c);
    three.run(
        &mut [&mut a, &mut b, &mut c],
        |_| {},
        |set, clock, program| {
            for after in 0..40 {
                set.run(&Inline, &|| clock.now_ns(), program, |running| {
                    clock.pass(4 * PERIOD_NS);
                    running.release(0, clock.now_ns()).unwrap();
                    running.release(1, clock.now_ns()).unwrap();
                    for _ in 0..after {
                        running.step();
                    }
                    let jobs = running.counts(0);
                    running.stop(0);
                    assert_eq!(running.release(0, clock.now_ns()), Err(ReleaseError::Stopped));
                    finish(running);
                    assert_eq!(running.counts(0).jobs, jobs.jobs, "it is given up, not ended");
                    running.start(0);
                    clock.pass(4 * PERIOD_NS);
                    running.release(0, clock.now_ns()).unwrap();
                    finish(running);
                    assert_eq!(running.counts(0).jobs, jobs.jobs + 1);
                });
            }
            assert!(program.failures.iter().all(|failure| *failure == (0, JobError::Stopped)));
            assert!((5..40).contains(&program.failures.len()), "{}", program.failures.len());
            assert_eq!(set.counts(1).jobs, 40);
        },
    );
}

#[test]
fn a_panic_leaves_a_set_that_works_on() {
    let three = Three::new();
    let [a, b, c] = three.cases.each_ref().map(|case| Slice(&case.pack));
    let mut a = Faulty::new(a, &[]).queued(3);
    let (mut b, mut c) = (b, c);
    three.run(
        &mut [&mut a, &mut b, &mut c],
        |_| {},
        |set, clock, program| {
            for steps in 0..12 {
                let panicked = catch_unwind(AssertUnwindSafe(|| {
                    set.run(&Inline, &|| clock.now_ns(), program, |running| {
                        clock.pass(8 * PERIOD_NS);
                        (0..3).for_each(|task| running.release(task, clock.now_ns()).unwrap());
                        (0..steps).for_each(|_| {
                            running.step();
                        });
                        panic!("midway");
                    })
                }));
                assert!(panicked.is_err());
                set.run(&Inline, &|| clock.now_ns(), program, |running| {
                    clock.pass(8 * PERIOD_NS);
                    let before = [0, 1, 2].map(|task| running.counts(task).jobs);
                    (0..3).for_each(|task| running.release(task, clock.now_ns()).unwrap());
                    finish(running);
                    let after = [0, 1, 2].map(|task| running.counts(task).jobs);
                    assert_eq!(after, before.map(|jobs| jobs + 1));
                });
            }
        },
    );
    assert_eq!(a.under_way(), 0);
}

/// The pack with damage in its header, in the skeleton, in the plan's tables, and in weights.
fn damaged(pack: &[u8]) -> [Vec<u8>; 4] {
    let (skeleton, plan) = (shapes(pack)[0].1.offset, entries(pack)[0].1.offset);
    [20, skeleton + 77, plan + 9, header(pack).weights_offset + 5000].map(|at| {
        let mut damaged = pack.to_vec();
        damaged[at as usize] ^= 4;
        damaged
    })
}

#[test]
fn a_pack_that_cannot_be_opened_leaves_room_for_the_others() {
    let three = Three::new();
    let [a, b, _] = &three.cases;
    let packs = damaged(&b.pack);
    let arena = arena(&[a, b], a.needs().1 + b.needs().1);
    let first = a.open(&arena, u32::MAX);
    let free = arena.free_bytes();
    let options = Options { budget: b.budget, ..Options::default() };
    for pack in &packs {
        let error = ChunkedInstance::open(&mut Slice(pack), &arena, options, u32::MAX).unwrap_err();
        assert!(matches!(error, ChunkedError::Open(_)), "{error}");
        assert_eq!(arena.free_bytes(), free);
    }
    let few = ChunkedInstance::open(&mut Slice(&b.pack), &arena, options, 1000).unwrap_err();
    assert_eq!(few, ChunkedError::Chunks { asked: 1000, has: b.needs().1 });
    let small = Options { budget: 8192, ..options };
    let small = ChunkedInstance::open(&mut Slice(&b.pack), &arena, small, 0).unwrap_err();
    assert!(matches!(small, ChunkedError::Open(OpenError::Budget { .. })), "{small}");
    assert_eq!(arena.free_bytes(), free);
    let second = b.open(&arena, u32::MAX);
    assert_eq!((first.chunks(), second.chunks()), (a.needs().1, b.needs().1));
}

#[test]
fn tasks_that_do_not_fit_their_networks_make_no_set() {
    let three = Three::new();
    let [a, b, _] = &three.cases;
    let arena = arena(&[a, b], a.needs().1);
    let (mut first, mut second) = (a.open(&arena, u32::MAX), b.open(&arena, 3));
    let tasks = [task(&first, PERIOD_NS, 0), task(&second, PERIOD_NS, 0)];
    let mut set = |change: &dyn Fn(&mut [Task; 2]), pool| {
        let mut tasks = tasks;
        change(&mut tasks);
        let (mut of_a, mut of_b) = (Slice(&a.pack), Slice(&b.pack));
        let members = [
            Member { task: tasks[0], network: &mut first, storage: &mut of_a },
            Member { task: tasks[1], network: &mut second, storage: &mut of_b },
        ];
        TaskSet::<_, 2>::new(Policy::Steps, members, pool).map(|_| ())
    };
    let chunks = TaskSetError::Chunks { task: 1, asked: 4, has: 3 };
    assert_eq!(set(&|tasks| tasks[1].chunks = 4, Pool::none()), Err(chunks));
    let streams = |tasks: &mut [Task; 2]| tasks[0].streams = true;
    assert_eq!(set(&streams, Pool::none()), Err(TaskSetError::Streams { task: 0 }));
    let (needed, chunks) = (a.needs().1.into(), 0);
    let pool = SetError::Pool { task: 0, needed, chunks };
    assert_eq!(set(&|_| {}, Pool::none()), Err(TaskSetError::Set(pool)));
    let other = SharedArena::new(1 << 20, CHUNK).unwrap();
    assert_eq!(set(&|_| {}, other.pool().unwrap()), Err(TaskSetError::Pool { task: 0 }));
    assert_eq!(set(&|_| {}, arena.pool().unwrap()), Ok(()));
}

/// Nothing lies after a plan but other networks: a larger plan has no room.
#[test]
fn a_network_of_a_shared_arena_gets_no_larger_plan() {
    let subject = Subject::of_graph(chain(64, 4, 5), board::board());
    let small = subject.smallest(1);
    let all = subject.plan(1 << 30, 1).unwrap().arena_bytes;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.pack");
    subject.pack(&path, &[small, all], 1);
    let pack = std::fs::read(&path).unwrap();
    let arena = SharedArena::new(4 << 20, CHUNK).unwrap();
    let options = Options { budget: small, ..Options::default() };
    let mut first = ChunkedInstance::open(&mut Slice(&pack), &arena, options, 0).unwrap();
    let mut second = ChunkedInstance::open(&mut Slice(&pack), &arena, options, u32::MAX).unwrap();
    assert!(second.chunks() > 0 && first.entry().arena_bytes <= small);
    let tasks = [task(&first, PERIOD_NS, 0), task(&second, PERIOD_NS, 0)];
    let arena_bytes = first.entry().arena_bytes;
    let (mut of_first, mut of_second) = (Slice(&pack), Slice(&pack));
    let members = [
        Member { task: tasks[0], network: &mut first, storage: &mut of_first },
        Member { task: tasks[1], network: &mut second, storage: &mut of_second },
    ];
    let mut set = TaskSet::<_, 2>::new(Policy::Steps, members, arena.pool().unwrap()).unwrap();
    let mut nobody = Program::new(&[]);
    set.run(&Inline, &|| 0, &mut nobody, |running| {
        let error = BudgetError::Arena { asked: all, arena: arena_bytes };
        let none = ChangeError::Budget { task: 0, error };
        assert_eq!(running.change(&[all, small], &tasks), Err(none));
        assert_eq!(running.change(&[small; 2], &tasks), Ok(()), "they have that");
    });
}
