//! Budgets of all networks are cut in half and given back, while jobs are in the middle of inferences.

use crate::common::{Subject, board};
use crate::harness::{CHUNK, Case, Clock, Program, TICK_NS, chain, task};
use eyelet::arena::SharedArena;
use eyelet::device::Inline;
use eyelet::executor::{ChunkedInstance, Options, Share};
use eyelet::pack::PAGE;
use eyelet::set::{Activity, ChangeError, Member, Policy, Task, TaskSet};
use eyelet::storage::{Faulty, Slice};
use eyelet::tasks::set_reloads;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::os::unix::fs::MetadataExt;

const NETWORKS: usize = 3;
const ALL: u32 = u32::MAX;

/// A network with a plan that holds all weights, and one in half of that.
fn case((channels, side, layers): (usize, usize, usize)) -> (Case, [Share; 2]) {
    let subject = Subject::of_graph(chain(channels, side, layers), board::board());
    let whole = subject.plan(1 << 30, 1).unwrap().arena_bytes;
    let budgets = [whole / 2, whole];
    // A share may have more bytes than the plan needs.
    let shares = [whole, whole / 2].map(|budget| Share { budget: budget + PAGE, chunks: ALL });
    (Case::of_budgets(subject, &budgets), shares)
}

fn open<'a>(case: &'a Case, arena: &'a SharedArena, shares: &[Share]) -> ChunkedInstance<'a> {
    let mut storage = Slice(&case.pack);
    ChunkedInstance::open_shares(&mut storage, arena, Options::default(), shares).unwrap()
}

/// What each network keeps with both shares, and its task with each.
fn needs(case: &Case, shares: &[Share; 2], level: u16) -> (u64, [Task; 2]) {
    let bytes = 2 * shares[0].budget + (1 << 20);
    let deadline_ns = (1 + 4 * u64::from(4 - level)) * 40 * TICK_NS;
    let tasks = [0, 1].map(|share| {
        let arena = SharedArena::new(bytes, CHUNK).unwrap();
        task(&open(case, &arena, &shares[share..][..1]), deadline_ns, level)
    });
    let arena = SharedArena::new(bytes, CHUNK).unwrap();
    (open(case, &arena, shares).kept_bytes(), tasks)
}

/// Bytes that the kernel has for files in memory of so many bytes, which this process has open.
fn taken(bytes: u64) -> Vec<u64> {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let memory = files.filter(|file| {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        target.to_string_lossy().starts_with("/memfd:eyelet")
    });
    let sizes = memory.flat_map(|file| std::fs::metadata(file.path()));
    sizes.filter(|file| file.len() == bytes).map(|file| file.blocks() * 512).collect()
}

#[test]
fn budgets_are_cut_in_half_and_given_back() {
    let cases = [(64, 6, 7), (96, 4, 5), (48, 5, 9)].map(case);
    let needs: Vec<(u64, [Task; 2])> =
        cases.iter().zip(0..).map(|((case, shares), level)| needs(case, shares, level)).collect();
    let choices: [Vec<Task>; 2] = [0, 1].map(|at| needs.iter().map(|(_, t)| t[at]).collect());
    assert!(choices[0].iter().all(|t| !t.streams) && choices[1].iter().all(|t| t.streams));
    // Room stays until its job ends: that of all lower levels, and all chunks of a job.
    let least = |tasks: &Vec<Task>| {
        let below = |level: u16| tasks.iter().filter(move |t| t.level < level).map(|t| t.room);
        tasks.iter().map(|t| t.chunks + below(t.level).sum::<u32>()).max().unwrap()
    };
    let slots = choices.iter().map(least).max().unwrap();
    let kept: u64 = needs.iter().map(|(kept, _)| kept).sum();
    let arena = SharedArena::new(kept + 4096 + u64::from(slots) * CHUNK, CHUNK).unwrap();
    let mut networks: Vec<_> =
        cases.iter().map(|(case, shares)| open(case, &arena, shares)).collect();
    let pool = arena.pool().unwrap();
    let choices = choices.map(|mut tasks| {
        set_reloads(&mut tasks, slots);
        tasks
    });
    let mut storages: [_; NETWORKS] =
        std::array::from_fn(|at| Faulty::new(Slice(&cases[at].0.pack), &[]).queued(3).prompt(2));
    let members = (networks.iter_mut().zip(&mut storages).zip(&choices[0]))
        .map(|((network, storage), task)| Member { task: *task, network, storage });
    let mut set = TaskSet::<_, NETWORKS>::new(Policy::Steps, members, pool).unwrap();
    let all: Vec<&Case> = cases.iter().map(|(case, _)| case).collect();
    let (mut program, clock) = (Program::new(&all), Clock::new());
    let (mut random, mut changes) = (ChaCha8Rng::seed_from_u64(7), 0);
    set.run(&Inline, &|| clock.now_ns(), &mut program, |running| {
        for turn in 0..20_000 {
            for task in 0..NETWORKS {
                if random.random_ratio(1, 6) {
                    let _ = running.release(task, clock.now_ns());
                }
            }
            match running.step() {
                Activity::Idle => clock.pass(random.random_range(0..100 * TICK_NS)),
                Activity::Loading if random.random_ratio(1, 3) => running.wait(),
                _ => {}
            }
            if !random.random_ratio(1, 40) {
                continue;
            }
            let tasks = &choices[(changes + 1) % 2];
            let budgets: Vec<u64> =
                cases.iter().map(|(_, shares)| shares[(changes + 1) % 2].budget).collect();
            let mut wrong = tasks.clone();
            wrong[2].chunks += 1;
            let error = running.change(&budgets, &wrong).unwrap_err();
            assert!(matches!(error, ChangeError::Volume { task: 2, .. }), "{error}");
            running.change(&budgets, tasks).unwrap();
            changes += 1;
            if turn % 50 == 0 {
                let taken = taken(arena.bytes());
                assert!(!taken.is_empty() && taken.iter().all(|taken| *taken <= arena.bytes()));
            }
        }
    });
    assert!(changes > 300 && program.restarts > 100, "{changes}, {}", program.restarts);
    assert!(program.failures.iter().all(|(_, error)| *error == eyelet::set::JobError::Stopped));
    assert!(program.ended.iter().all(|ended| *ended > 100), "{:?}", program.ended);
}
