//! Sets whose system refuses to map, or to unmap: no two networks ever have one slot.

use super::*;
use crate::arena::refusals::{Call, REFUSED};
use crate::arena::{ArenaError, SharedArena};
use crate::device::Inline;
use crate::executor::testing::{STREAMING, THREADS, WHOLE, inputs, outputs, two_ways};
use crate::executor::{ChunkError, InferError, Options};
use crate::pack::PAGE;
use crate::storage::Slice;
use crate::tasks::set_reloads;
use core::cell::Cell;
use std::vec::Vec;

const CHUNK: u64 = 2 * PAGE;

/// Slots of the pool: each network has two chunks.
const SLOTS: u32 = 3;

/// Compares outputs, and keeps errors.
#[derive(Default)]
struct Program {
    right: [u32; 2],
    failed: Vec<(usize, JobError)>,
}

impl Host for Program {
    fn inputs(&mut self, _: usize, ports: &mut dyn Ports) {
        ports.input_mut(0).unwrap().copy_from_slice(&inputs(0));
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        assert_eq!(ports.output(0).unwrap(), outputs(0), "task {}", job.task);
        self.right[job.task] += 1;
    }

    fn failed(&mut self, task: usize, error: JobError) {
        self.failed.push((task, error));
    }
}

/// A set at work.
struct Scope<'s, 'r, 'a> {
    arena: &'s SharedArena,
    running: &'s mut Running<'r, 'a, 2>,
    now_ns: &'s Cell<u64>,
}

impl Scope<'_, '_, '_> {
    /// Releases a job of each of these tasks, and works until nothing is left to do.
    fn jobs(&mut self, tasks: &[usize]) {
        self.now_ns.set(self.now_ns.get() + 1000);
        for &task in tasks {
            self.running.release(task, self.now_ns.get()).unwrap();
            while self.running.step() != Activity::Idle {}
            self.check();
        }
    }

    /// The slots of a task's chunks.
    fn slots(&mut self, task: usize) -> Vec<Option<u32>> {
        self.running.networks.network(task).unwrap().inside().slots
    }

    /// Every slot is free, or one chunk's.
    fn check(&mut self) {
        let mut slots = self.running.state.pool.free_slots().to_vec();
        (0..2).for_each(|task| slots.extend(self.slots(task).into_iter().flatten()));
        slots.sort_unstable();
        let pages = (CHUNK / PAGE) as u32;
        assert!(slots.is_sorted_by(|a, b| a + pages <= *b), "two chunks share a slot: {slots:?}");
        assert_eq!(slots.len() as u32, self.running.state.pool.chunks(), "no slot is lost");
    }
}

/// Tasks with this budget.
fn tasks(budget: u64) -> Vec<Task> {
    let streams = budget == STREAMING;
    let chunks = if streams { 1 } else { 2 };
    let task = Task {
        chunks,
        room: if streams { 1 } else { 0 },
        chunk_ns: 5,
        step_ns: 2,
        streams,
        ..Task::new(1000, 8)
    };
    let mut tasks = std::vec![task; 2];
    set_reloads(&mut tasks, SLOTS);
    tasks
}

/// Calls `body` with a set of two networks, each of which has a plan of two chunks, and one that streams.
fn scope(body: impl FnOnce(&mut Scope<'_, '_, '_>)) -> Program {
    let pack = two_ways();
    let kept = 2 * (WHOLE + PAGE - 2 * CHUNK);
    let arena = SharedArena::new(kept + PAGE + u64::from(SLOTS) * CHUNK, CHUNK).unwrap();
    let shares = [(WHOLE, 2), (STREAMING, 1)].map(|(budget, chunks)| Share { budget, chunks });
    let open = || {
        let options = Options { threads: THREADS, ..Options::default() };
        ChunkedInstance::open_shares(&mut Slice(&pack), &arena, options, &shares).unwrap()
    };
    let mut networks = [open(), open()];
    let mut storages = [Slice(&pack), Slice(&pack)];
    let pool = arena.pool().unwrap();
    assert_eq!(pool.own(), SLOTS);
    let members = (networks.iter_mut().zip(&mut storages).zip(tasks(WHOLE)))
        .map(|((network, storage), task)| Member { task, network, storage });
    let mut set = TaskSet::<_, 2>::new(Policy::Steps, members, pool).unwrap();
    let (mut program, now_ns) = (Program::default(), Cell::new(0));
    set.run(&Inline, &|| now_ns.get(), &mut program, |running| {
        body(&mut Scope { arena: &arena, running, now_ns: &now_ns });
    });
    program
}

const MAPS: ArenaError = ArenaError::Map { errno: REFUSED, bytes: CHUNK as usize };

#[test]
fn a_chunk_that_cannot_leave_keeps_its_slot_when_budgets_change() {
    let budgets = [WHOLE, STREAMING].into_iter();
    // All slots are in use: the urgent task lacks the chunk that came last for the other.
    let chunks = [(0, 0), (0, 1), (1, 1)];
    for (to, (before, at)) in budgets.flat_map(|to| (0..3).zip(chunks).map(move |at| (to, at))) {
        let program = scope(|scope| {
            scope.jobs(&[1, 0]);
            scope.arena.refusals.refuse(Call::Unmap, before, 1);
            let (task, chunk) = at;
            let stays = scope.slots(task)[chunk as usize];
            let error = ChunkError::Arena(MAPS);
            let left = scope.running.change(&[to; 2], &tasks(to));
            assert_eq!(left, Err(ChangeError::Leave { task, chunk, error }));
            scope.check();
            assert_eq!(scope.slots(task)[chunk as usize], stays);
            let present = [0, 1].map(|task| scope.running.present(task));
            assert_eq!(present, [0; 2], "no chunk that a job may use");
            (0..3).for_each(|_| scope.jobs(&[0, 1]));
            scope.running.change(&[to; 2], &tasks(to)).unwrap();
            scope.check();
            scope.jobs(&[1, 0]);
        });
        assert_eq!((program.right, program.failed.len()), ([5, 5], 0));
    }
}

#[test]
fn budgets_do_not_change_as_long_as_a_chunk_stays() {
    let program = scope(|scope| {
        scope.jobs(&[0, 1]);
        scope.arena.refusals.refuse(Call::Unmap, 0, u32::MAX);
        for _ in 0..3 {
            let changed = scope.running.change(&[STREAMING; 2], &tasks(STREAMING));
            assert!(matches!(changed, Err(ChangeError::Leave { .. })), "{changed:?}");
            scope.check();
        }
        // The chunk is read again where it lies. Nobody else has room.
        scope.now_ns.set(1_000_000);
        scope.jobs(&[1, 0]);
        scope.arena.refusals.clear();
        scope.running.change(&[STREAMING; 2], &tasks(STREAMING)).unwrap();
        scope.jobs(&[0, 1]);
    });
    let error = JobError::Chunk { chunk: 0, error: ChunkError::Arena(MAPS) };
    assert_eq!((program.right, program.failed), ([2, 3], std::vec![(0, error)]));
}

#[test]
fn a_job_whose_slot_is_not_given_up_fails_alone() {
    let program = scope(|scope| {
        scope.jobs(&[0, 1]);
        for call in [Call::Unmap, Call::Map] {
            scope.arena.refusals.refuse(call, 0, 1);
            scope.jobs(&[0, 1]);
            scope.jobs(&[0, 1]);
        }
    });
    let failed = |chunk| (0, JobError::Chunk { chunk, error: ChunkError::Arena(MAPS) });
    assert_eq!(program.failed, [failed(0), failed(1)]);
    assert_eq!(program.right.iter().sum::<u32>(), 8);
}

#[test]
fn networks_that_cannot_be_mapped_go_back_or_are_lost() {
    // Two chunks leave before the first network's memory is mapped for its plan. The way back unmaps once more.
    for (call, before, count) in [(Call::Map, 0, 1), (Call::Unmap, 2, 1), (Call::Unmap, 2, 2)] {
        let program = scope(|scope| {
            scope.running.change(&[STREAMING; 2], &tasks(STREAMING)).unwrap();
            scope.jobs(&[0, 1]);
            scope.arena.refusals.refuse(call, before, count);
            let changed = scope.running.change(&[WHOLE; 2], &tasks(WHOLE));
            assert_eq!(scope.arena.refusals.next(), None, "{changed:?}");
            scope.check();
            scope.jobs(&[0, 1]);
            match count {
                1 => assert!(matches!(changed, Err(ChangeError::Budget { task: 0, .. }))),
                _ => assert!(matches!(changed, Err(ChangeError::Lost { task: 0, .. }))),
            }
            scope.running.change(&[WHOLE; 2], &tasks(WHOLE)).unwrap();
            scope.jobs(&[0, 1]);
        });
        let no_plan = (0, JobError::Infer(InferError::NoPlan));
        match count {
            1 => assert_eq!((program.right, program.failed), ([3, 3], Vec::new())),
            _ => assert_eq!((program.right, program.failed), ([2, 3], std::vec![no_plan])),
        }
    }
}
