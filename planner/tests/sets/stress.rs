//! Bits: whatever the interleaving, every network computes what it computes alone.

use crate::common::{Subject, digits, sweeps, zoo_model};
use crate::harness::{Case, Clock, Program, TICK_NS, arena_for, chain, task};
use eyelet::device::Inline;
use eyelet::set::{Activity, JobError, Member, Policy, Task, TaskSet};
use eyelet::storage::{DirectFile, Faulty, Slice, Storage, StorageError};
use eyelet::tasks::set_reloads;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

/// A network of a set: its level, and how many chunks leave memory at most.
type Part<'c> = (&'c Case, u16, u32);

const ALL: u32 = u32::MAX;

/// Random jobs of a set until it was preempted so often. Returns what left memory. The pool is as small as can be, and
/// `spare` chunks.
fn stress<S: Storage>(
    policy: Policy,
    parts: &[Part<'_>],
    storages: &mut [S],
    spare: u32,
    preemptions: u64,
    seed: u64,
) -> u64 {
    let needs: Vec<(u64, u32)> =
        parts.iter().map(|(case, _, chunks)| case.needs_of(*chunks)).collect();
    // What streams stays until its job ends, beside the largest.
    let streaming: u32 = (parts.iter().zip(&needs))
        .filter(|((case, ..), _)| case.streams)
        .map(|(_, (_, chunks))| chunks)
        .sum();
    let slots = needs.iter().map(|(_, chunks)| *chunks).max().unwrap() + streaming + spare;
    let arena = arena_for(needs.iter().map(|(kept, _)| kept).sum(), slots);
    let mut networks: Vec<_> =
        parts.iter().map(|(case, _, chunks)| case.open(&arena, *chunks)).collect();
    let pool = arena.pool().unwrap();
    assert_eq!(pool.chunks(), slots);
    let deadlines = |level: u16| (1 + 4 * u64::from(8 - level)) * 40 * TICK_NS;
    let mut tasks: Vec<Task> = (networks.iter().zip(parts))
        .map(|(network, (_, level, _))| task(network, deadlines(*level), *level))
        .collect();
    set_reloads(&mut tasks, pool.chunks());
    let members = (networks.iter_mut().zip(storages).zip(tasks))
        .map(|((network, storage), task)| Member { task, network, storage });
    let mut set = TaskSet::<_, 8>::new(policy, members, pool).unwrap();
    let cases: Vec<&Case> = parts.iter().map(|(case, ..)| *case).collect();
    let mut program = Program::new(&cases);
    let clock = Clock::new();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Scopes are left in the middle of jobs, too.
    while program.preemptions < preemptions {
        let steps = random.random_range(1..4000);
        set.run(&Inline, &|| clock.now_ns(), &mut program, |running| {
            for _ in 0..steps {
                for task in 0..parts.len() {
                    if random.random_ratio(1, 6) {
                        let _ = running.release(task, clock.now_ns());
                    }
                }
                match running.step() {
                    Activity::Idle => clock.pass(random.random_range(0..100 * TICK_NS)),
                    Activity::Loading if random.random_ratio(1, 3) => running.wait(),
                    _ => {}
                }
            }
        });
    }
    assert!(program.failures.iter().all(|(_, error)| *error == JobError::Stopped));
    for (task, ended) in program.ended.iter().enumerate() {
        assert!(*ended > 0, "task {task} of {:?}", program.ended);
        assert_eq!(set.counts(task).jobs, *ended);
    }
    program.left
}

/// Preemptions of all runs.
fn wanted() -> u64 {
    if sweeps() { 100_000 } else { 2000 }
}

fn three() -> [Case; 3] {
    [(64, 6, 7), (96, 4, 5), (48, 5, 9)]
        .map(|(channels, side, layers)| Case::resident(chain(channels, side, layers)))
}

/// A storage that takes so many reads at once, each until it has been asked for so often.
fn busy(case: &Case, depth: usize, questions: u32) -> Faulty<'_, Slice<'_>> {
    Faulty::new(Slice(&case.pack), &[]).queued(depth).prompt(questions)
}

#[test]
fn networks_that_swap_and_stream_keep_their_bits() {
    let [a, b, c] = three();
    let d = Case::streaming(chain(80, 4, 6));
    let parts = [(&a, 3, ALL), (&b, 1, ALL), (&c, 2, ALL), (&d, 0, ALL)];
    for (seed, questions, spare) in [(1, 1, 0), (2, 3, 2), (3, 20, 9)] {
        let mut storages = parts.map(|(case, ..)| busy(case, 3, questions));
        let left = stress(Policy::Steps, &parts, &mut storages, spare, wanted() / 3, seed);
        assert!(left > 100, "{left} chunks left memory");
    }
}

#[test]
fn storage_that_reads_while_it_is_waited_for_keeps_bits() {
    let [a, b, c] = three();
    let parts = [(&a, 2, ALL), (&b, 1, ALL), (&c, 1, 3)];
    let mut storages: Vec<_> = parts.iter().map(|(case, ..)| Slice(&case.pack)).collect();
    let left = stress(Policy::Steps, &parts, &mut storages, 1, wanted() / 10, 4);
    assert!(left > 100, "{left} chunks left memory");
}

/// One network at a time swaps, in an order by classes, and one that stays goes before it.
#[test]
fn classes_keep_bits() {
    let [a, b, c] = three();
    let parts = [(&a, 1, ALL), (&b, 1, ALL), (&c, 2, 0)];
    let mut storages = parts.map(|(case, ..)| busy(case, 2, 2));
    let left = stress(Policy::Classes, &parts, &mut storages, 0, wanted() / 10, 6);
    assert!(left > 100, "{left} chunks left memory");
}

/// Networks of the zoo, from files, with reads that the system does meanwhile.
#[test]
fn real_networks_keep_their_bits() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let squeezenet = Subject::new(&zoo_model("squeezenet1_1", folder.path()));
    let [a, b] = [squeezenet, Subject::new(&digits())].map(Case::all);
    let parts = [(&a, 1, ALL), (&b, 2, ALL)];
    let open = |(number, (case, ..)): (usize, &Part<'_>)| {
        let path = folder.path().join(format!("{number}.pack"));
        std::fs::write(&path, &case.pack).unwrap();
        DirectFile::open(&CString::new(path.as_os_str().as_bytes()).unwrap())
    };
    match parts.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>() {
        Err(StorageError::NoDirectIo) => eprintln!("skipped: no direct I/O in the target folder"),
        files => {
            let wanted = if sweeps() { 400 } else { 4 };
            let left = stress(Policy::Steps, &parts, &mut files.unwrap(), 0, wanted, 5);
            assert!(left > 100, "{left} chunks left memory");
        }
    }
}
