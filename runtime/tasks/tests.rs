//! The policy's rules, one by one, on a clock of the test's own.

use super::*;

fn task(period_ns: u64, level: u16, chunks: u32) -> Task {
    Task { level, chunks, chunk_ns: 5, step_ns: 10, ..Task::new(period_ns, 20) }
}

fn scheduler(policy: Policy, tasks: &[Task], pool: u32) -> Scheduler<4> {
    Scheduler::new(policy, tasks, pool).unwrap()
}

fn load(task: usize, index: u32) -> Action {
    Action::Load { chunk: Chunk { task, index }, evict: None }
}

fn load_for(task: usize, index: u32, victim: usize, evicted: u32) -> Action {
    let evict = Some(Chunk { task: victim, index: evicted });
    Action::Load { chunk: Chunk { task, index }, evict }
}

#[test]
fn a_job_loads_all_its_chunks_then_computes() {
    let mut s = scheduler(Policy::Steps, &[task(1000, 0, 2)], 2);
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    assert_eq!(s.next(0), Action::Wait, "the processor waits for the last chunk");
    s.chunk_done();
    assert_eq!(s.next(5), load(0, 1));
    s.chunk_done();
    assert_eq!(s.next(10), Action::Step { task: 0 });
    assert_eq!(s.step_done(20, false), None);
    assert_eq!(s.next(20), Action::Step { task: 0 });
    let finished = Finished { task: 0, response_ns: 30, missed: false };
    assert_eq!(s.step_done(30, true), Some(finished));
    // Its chunks are still there: the next job computes at once.
    s.release(0, 1000).unwrap();
    assert_eq!(s.next(1000), Action::Step { task: 0 });
}

#[test]
fn a_more_urgent_job_preempts_between_steps() {
    let mut s = scheduler(Policy::Steps, &[task(1000, 0, 0), task(100, 0, 0)], 0);
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), Action::Step { task: 0 });
    s.release(1, 3).unwrap();
    assert_eq!(s.next(3), Action::Wait, "a step is not interrupted");
    s.step_done(10, false);
    assert_eq!(s.next(10), Action::Step { task: 1 });
}

#[test]
fn jobs_of_one_level_do_not_share_the_pool() {
    let mut s = scheduler(Policy::Steps, &[task(1000, 0, 2), task(100, 0, 2)], 2);
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    s.release(1, 1).unwrap();
    s.chunk_done();
    assert_eq!(s.next(5), load(0, 1), "the begun job inherits the deadline and goes on");
    s.chunk_done();
    assert_eq!(s.next(10), Action::Step { task: 0 });
    s.step_done(20, true);
    assert_eq!(s.next(20), load_for(1, 0, 0, 0));
}

#[test]
fn a_higher_level_begins_over_a_lower_one() {
    let mut s = scheduler(Policy::Steps, &[task(1000, 0, 2), task(100, 1, 1)], 3);
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    s.release(1, 1).unwrap();
    s.chunk_done();
    assert_eq!(s.next(5), load(1, 0));
}

#[test]
fn another_job_fills_the_idle_engine_only_if_it_ends_in_time() {
    // A chunk of the first job takes 5 ns, steps of the others at most 4 and 6 ns.
    let short = Task { step_ns: 4, ..task(1000, 0, 0) };
    let mut s = scheduler(Policy::Steps, &[task(100, 0, 2), short], 2);
    s.release(0, 0).unwrap();
    s.release(1, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    assert_eq!(s.next(0), Action::Step { task: 1 });
    s.step_done(2, false);
    assert_eq!(s.next(2), Action::Wait, "3 ns are left: no step of 4 ns begins");
    s.chunk_done();
    assert_eq!(s.next(5), load(0, 1));
    let long = Task { step_ns: 6, ..task(1000, 0, 0) };
    let mut s = scheduler(Policy::Steps, &[task(100, 0, 2), long], 2);
    s.release(0, 0).unwrap();
    s.release(1, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    assert_eq!(s.next(0), Action::Wait);
}

#[test]
fn a_job_that_vouched_for_a_chunk_computes_on() {
    // Task 2 computes and lets task 0 load; task 1 comes and needs the loader.
    let tasks = [task(1000, 0, 2), task(50, 1, 1), task(200, 0, 0)];
    let mut s = scheduler(Policy::Steps, &tasks, 3);
    s.release(0, 0).unwrap();
    s.release(2, 0).unwrap();
    assert_eq!(s.next(0), Action::Step { task: 2 });
    assert_eq!(s.next(0), load(0, 0));
    s.release(1, 1).unwrap();
    s.step_done(2, false);
    assert_eq!(s.next(2), Action::Step { task: 2 });
    s.chunk_done();
    assert_eq!(s.next(5), load(1, 0));
    s.step_done(10, false);
    assert_eq!(
        s.next(10),
        Action::Wait,
        "the promise is kept; its next step would outlast the chunk"
    );
}

#[test]
fn a_higher_level_pushes_out_chunks_of_a_begun_job() {
    let mut tasks = [task(1000, 0, 3), task(100, 1, 2)];
    set_reloads(&mut tasks, 3);
    assert_eq!(tasks.map(|t| t.reload_ns), [0, 10]);
    let mut s = scheduler(Policy::Steps, &tasks, 3);
    s.release(0, 0).unwrap();
    for (index, now) in [(0, 0), (1, 5), (2, 10)] {
        assert_eq!(s.next(now), load(0, index));
        s.chunk_done();
    }
    assert_eq!(s.next(15), Action::Step { task: 0 });
    s.release(1, 16).unwrap();
    assert_eq!(s.next(16), Action::Wait, "a step that computes keeps its chunks");
    s.step_done(25, false);
    assert_eq!(s.next(25), load_for(1, 0, 0, 0));
    s.chunk_done();
    assert_eq!(s.next(30), load_for(1, 1, 0, 1));
    s.chunk_done();
    assert_eq!(s.next(35), Action::Step { task: 1 });
    s.step_done(45, true);
    // The chunks of the idle task leave again.
    assert_eq!(s.next(45), load_for(0, 0, 1, 0));
}

#[test]
fn the_next_job_loads_while_the_first_computes() {
    let mut s = scheduler(Policy::Steps, &[task(100, 0, 0), task(1000, 0, 2)], 2);
    s.release(0, 0).unwrap();
    s.release(1, 0).unwrap();
    assert_eq!(s.next(0), Action::Step { task: 0 });
    assert_eq!(s.next(0), load(1, 0));
}

#[test]
fn the_victim_is_the_idle_task_with_the_latest_release() {
    let tasks = [task(1000, 0, 1), task(3000, 0, 1), task(2000, 0, 1)];
    let mut s = scheduler(Policy::Steps, &tasks, 2);
    let mut now = 0;
    for turn in [0, 1] {
        s.release(turn, now).unwrap();
        assert_eq!(s.next(now), load(turn, 0));
        s.chunk_done();
        assert_eq!(s.next(now + 5), Action::Step { task: turn });
        s.step_done(now + 15, true);
        now += 100;
    }
    s.release(2, now).unwrap();
    assert_eq!(s.next(now), load_for(2, 0, 1, 0));
}

#[test]
fn a_region_is_not_preempted_between_loading_and_computing() {
    let mut s = scheduler(Policy::Regions, &[task(1000, 0, 1), task(100, 0, 0)], 1);
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    s.release(1, 1).unwrap();
    assert_eq!(s.next(1), Action::Wait, "the more urgent job waits for the region");
    s.chunk_done();
    assert_eq!(s.next(5), Action::Step { task: 0 });
}

#[test]
fn only_the_first_waiting_job_loads_ahead() {
    // Task 2 lacks a chunk, but task 1 is ahead of it and needs none.
    let tasks = [task(100, 0, 0), task(200, 0, 0), task(300, 0, 1)];
    let mut s = scheduler(Policy::Regions, &tasks, 1);
    for task in 0..3 {
        s.release(task, 0).unwrap();
    }
    assert_eq!(s.next(0), Action::Step { task: 0 });
    assert_eq!(s.next(0), Action::Wait);
    s.step_done(20, true);
    assert_eq!(s.next(20), Action::Step { task: 1 });
    assert_eq!(s.next(20), load(2, 0));
}

#[test]
fn a_streaming_step_needs_both_engines() {
    let streaming = Task { streams: true, chunks: 0, ..task(100, 0, 0) };
    let mut s = scheduler(Policy::Steps, &[streaming, task(1000, 0, 2)], 2);
    s.release(1, 0).unwrap();
    assert_eq!(s.next(0), load(1, 0));
    s.release(0, 1).unwrap();
    assert_eq!(s.next(1), Action::Wait, "it waits for the chunk in flight");
    s.chunk_done();
    assert_eq!(s.next(5), Action::Step { task: 0 });
    assert_eq!(s.next(5), Action::Wait, "nothing is read meanwhile");
    s.step_done(15, true);
    assert_eq!(s.next(15), load(1, 1));
}

/// Task 2 computes and lets task 0 load; task 1 comes, which streams and needs both engines.
#[test]
fn a_job_that_vouched_computes_on_while_a_streaming_one_waits() {
    let streaming = Task { streams: true, ..task(50, 1, 0) };
    let tasks = [task(1000, 0, 2), streaming, task(200, 0, 0)];
    let mut s = scheduler(Policy::Steps, &tasks, 3);
    s.release(0, 0).unwrap();
    s.release(2, 0).unwrap();
    assert_eq!(s.next(0), Action::Step { task: 2 });
    assert_eq!(s.next(0), load(0, 0));
    s.release(1, 1).unwrap();
    s.step_done(2, false);
    assert_eq!(s.next(2), Action::Step { task: 2 }, "somebody computes");
    s.chunk_done();
    assert_eq!(s.next(5), Action::Wait, "the loader is the streaming job's, when it can begin");
    s.step_done(10, false);
    assert_eq!(s.next(10), Action::Step { task: 1 });
}

/// Room is there at once: otherwise a step could begin before each chunk of it.
#[test]
fn a_lead_gets_its_room_before_a_step_begins() {
    let lead = Task { room: 2, ..task(400, 1, 3) };
    let mut s = scheduler(Policy::Classes, &[task(100, 2, 0), lead], 3);
    s.release(0, 0).unwrap();
    s.release(1, 0).unwrap();
    for index in [1, 2] {
        assert_eq!(s.next(0), load(1, index));
        s.chunk_done();
    }
    assert_eq!(s.next(0), Action::Step { task: 0 });
    assert_eq!(s.next(0), load(1, 0));
}

/// Else it could not load before the other has computed, and more urgent jobs would wait for both.
#[test]
fn a_region_begins_ahead_only_if_both_fit_the_pool() {
    for (pool, ahead) in [(2, Action::Wait), (3, load(1, 0))] {
        let mut s = scheduler(Policy::Regions, &[task(100, 0, 2), task(1000, 0, 1)], pool);
        s.release(0, 0).unwrap();
        for index in 0..2 {
            assert_eq!(s.next(0), load(0, index));
            s.chunk_done();
        }
        s.release(1, 0).unwrap();
        assert_eq!(s.next(0), Action::Step { task: 0 });
        assert_eq!(s.next(0), ahead);
    }
}

#[test]
fn jobs_that_the_period_does_not_allow_are_refused() {
    let jittery = Task { deadline_ns: 80, jitter_ns: 20, ..task(100, 0, 0) };
    let mut s = scheduler(Policy::Steps, &[jittery], 0);
    s.release(0, 30).unwrap();
    assert_eq!(s.release(0, 40), Err(ReleaseError::Unfinished));
    assert_eq!(s.next(30), Action::Step { task: 0 });
    assert!(!s.step_done(40, true).unwrap().missed);
    // The job at 30 arrived at 10 or later: the next arrives at 110 or later.
    assert_eq!(s.release(0, 100), Err(ReleaseError::Early { next_ns: 110 }));
    assert_eq!(s.release(0, 110), Ok(()));
    assert_eq!(s.release(7, 0), Err(ReleaseError::Unknown));
}

#[test]
fn classes_compute_while_the_lead_loads() {
    let tasks = [task(100, 2, 0), task(400, 1, 2), task(300, 1, 2), task(500, 0, 0)];
    let mut s = scheduler(Policy::Classes, &tasks, 3);
    s.release(1, 0).unwrap();
    s.release(3, 0).unwrap();
    // The last class computes while the lead loads; the lead's next chunk does not wait for it.
    assert_eq!(s.next(0), Action::Step { task: 3 });
    assert_eq!(s.next(0), load(1, 0));
    s.chunk_done();
    assert_eq!(s.next(5), load(1, 1));
    s.release(2, 6).unwrap();
    s.chunk_done();
    s.step_done(10, false);
    // The lead goes on although a more urgent job of the chain waits; that one loads meanwhile where there is room.
    assert_eq!(s.next(10), Action::Step { task: 1 });
    assert_eq!(s.next(10), load(2, 0));
    s.chunk_done();
    s.release(0, 12).unwrap();
    assert_eq!(s.next(15), Action::Wait, "no room but the lead's");
    s.step_done(20, false);
    assert_eq!(s.next(20), Action::Step { task: 0 }, "the first class goes before the lead");
    s.step_done(30, false);
    assert_eq!(s.next(30), Action::Step { task: 0 });
    s.step_done(40, true).unwrap();
    assert_eq!(s.next(40), Action::Step { task: 1 });
    s.step_done(50, true).unwrap();
    // The next lead takes the idle job's room.
    assert_eq!(s.next(50), Action::Step { task: 3 });
    assert_eq!(s.next(50), load_for(2, 1, 1, 0));
}

/// Room comes first, and leaves first while the task is idle. While its job is begun only weights leave.
#[test]
fn room_stays_while_a_job_is_begun() {
    let below = Task { room: 1, ..task(1000, 0, 3) };
    let above = Task { room: 1, reload_ns: 10, ..task(100, 1, 2) };
    let mut s = scheduler(Policy::Steps, &[below, above], 3);
    s.release(0, 0).unwrap();
    for index in [2, 0, 1] {
        assert_eq!(s.next(0), load(0, index));
        s.chunk_done();
    }
    assert_eq!(s.next(0), Action::Step { task: 0 });
    s.release(1, 5).unwrap();
    s.step_done(10, false);
    // Its chunks of weights leave, one after the other.
    assert_eq!(s.next(10), load_for(1, 1, 0, 0));
    s.chunk_done();
    assert_eq!(s.next(15), load_for(1, 0, 0, 1));
    s.chunk_done();
    assert_eq!((s.present(0), s.present(1)), (1, 2));
    assert_eq!(s.next(20), Action::Step { task: 1 });
    s.step_done(30, true).unwrap();
    // The room of the idle task leaves first.
    assert_eq!(s.next(30), load_for(0, 0, 1, 1));
    s.chunk_done();
    assert_eq!(s.next(35), load_for(0, 1, 1, 0));
    s.chunk_done();
    assert_eq!(s.next(40), Action::Step { task: 0 });
    let more = Task { room: 3, ..task(100, 0, 2) };
    let all = Task { streams: true, room: 1, ..task(100, 0, 2) };
    for (task, room) in [(more, 3), (all, 1)] {
        let refused = Scheduler::<1>::new(Policy::Steps, &[task], 9).map(drop);
        assert_eq!(refused, Err(SetError::Room { task: 0, room, chunks: 2 }));
    }
    let small = Scheduler::<2>::new(Policy::Steps, &[below, above], 2).map(drop);
    assert_eq!(small, Err(SetError::Pool { task: 0, needed: 3, chunks: 2 }));
}

/// A step may begin during the load of a chunk that takes as long, but not while room is made: that
/// is there at once.
#[test]
fn no_step_begins_while_room_is_made() {
    let waits = Task { step_ns: 5, ..task(1000, 0, 0) };
    for (room, next) in [(0, Action::Step { task: 0 }), (1, Action::Wait)] {
        let mut s = scheduler(Policy::Steps, &[waits, Task { room, ..task(100, 0, 1) }], 1);
        s.release(0, 0).unwrap();
        s.release(1, 0).unwrap();
        assert_eq!(s.next(0), load(1, 0));
        assert_eq!(s.next(0), next);
    }
}

#[test]
fn an_order_by_classes_refuses_what_fits_no_class() {
    let new = |tasks: &[Task]| Scheduler::<4>::new(Policy::Classes, tasks, 9).map(|_| ());
    assert_eq!(new(&[task(100, 2, 0), task(400, 1, 2), task(500, 0, 0)]), Ok(()));
    assert_eq!(new(&[task(100, 2, 1), task(400, 1, 2)]), Err(SetError::Class { task: 1 }));
    assert_eq!(new(&[task(400, 1, 2), task(100, 1, 0)]), Err(SetError::Class { task: 1 }));
    let streaming = Task { streams: true, room: 2, chunk_ns: 0, ..task(400, 1, 2) };
    assert_eq!(new(&[streaming]), Err(SetError::Class { task: 0 }));
}

#[test]
fn sets_that_the_proof_does_not_cover_are_refused() {
    let new = |tasks: &[Task], pool| Scheduler::<2>::new(Policy::Steps, tasks, pool).map(drop);
    let t = task(100, 0, 1);
    assert_eq!(new(&[t, t, t], 9), Err(SetError::Tasks { tasks: 3, most: 2 }));
    assert_eq!(new(&[Task { deadline_ns: 101, ..t }], 9), Err(SetError::Deadline { task: 0 }));
    assert_eq!(new(&[Task { period_ns: 0, ..t }], 9), Err(SetError::Time { task: 0 }));
    assert_eq!(new(&[Task { compute_ns: u64::MAX, ..t }], 9), Err(SetError::Time { task: 0 }));
    let urgent = Task { level: 0, ..t };
    let lax = Task { period_ns: 200, deadline_ns: 200, level: 1, ..t };
    assert_eq!(new(&[urgent, lax], 9), Err(SetError::Level { task: 0 }));
    assert_eq!(new(&[t, t], 1), Ok(()), "one level shares one chunk");
    let higher = Task { level: 1, deadline_ns: 50, ..t };
    assert_eq!(new(&[t, higher], 1), Err(SetError::Reload { task: 1, needed_ns: 5 }));
    let streaming = Task { streams: true, room: 1, chunk_ns: 0, ..t };
    assert_eq!(new(&[streaming, higher], 1), Err(SetError::Pool { task: 1, needed: 2, chunks: 1 }));
    assert_eq!(
        new(&[Task { chunks: 2, ..t }], 1),
        Err(SetError::Pool { task: 0, needed: 2, chunks: 1 })
    );
}

#[test]
fn a_job_that_is_given_up_leaves_the_others_the_engines_and_its_chunks() {
    let tasks = [task(1000, 0, 2), Task { chunk_ns: 5, ..task(500, 0, 1) }];
    let mut s = scheduler(Policy::Steps, &tasks, 3);
    assert!(!s.abandon(0) && !s.abandon(9), "there is none");
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    s.release(1, 1).unwrap();
    assert!(s.abandon(0));
    // Its load in flight ends first: the loader is not interrupted.
    assert_eq!(s.next(2), Action::Wait);
    s.chunk_done();
    assert_eq!(s.next(5), load(1, 0));
    s.chunk_done();
    assert_eq!(s.next(10), Action::Step { task: 1 });
    assert!(s.abandon(1), "in the middle of a step");
    assert_eq!(s.step_done(15, true), None);
    // The next jobs find what is there.
    assert_eq!((s.present(0), s.present(1)), (1, 1));
    s.release(1, 501).unwrap();
    assert_eq!(s.next(501), Action::Step { task: 1 });
    s.step_done(511, true);
    s.release(0, 1000).unwrap();
    assert_eq!(s.next(1000), load(0, 1));
}

#[test]
fn a_streaming_job_that_is_given_up_frees_both_engines() {
    let streams = Task { streams: true, room: 1, chunk_ns: 0, ..task(1000, 0, 1) };
    let mut s = scheduler(Policy::Steps, &[streams, task(1000, 0, 1)], 2);
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    s.chunk_done();
    assert_eq!(s.next(0), Action::Step { task: 0 });
    s.release(1, 1).unwrap();
    assert_eq!(s.next(1), Action::Wait);
    assert!(s.abandon(0));
    assert_eq!(s.next(1), load(1, 0));
}

#[test]
fn a_chunk_that_is_lost_frees_its_room_and_comes_next_again() {
    let mut s = scheduler(Policy::Steps, &[task(1000, 0, 2), task(1000, 0, 2)], 2);
    s.chunk_lost();
    s.release(0, 0).unwrap();
    assert_eq!(s.next(0), load(0, 0));
    s.chunk_done();
    assert_eq!(s.next(5), load(0, 1));
    s.chunk_lost();
    assert_eq!(s.next(6), load(0, 1), "the room is free: nobody is pushed out");
    s.chunk_lost();
    s.abandon(0);
    s.release(1, 7).unwrap();
    assert_eq!(s.next(7), load(1, 0));
    s.chunk_done();
    assert_eq!(s.next(12), load_for(1, 1, 0, 0), "one chunk of the pool was the other's, no more");
}
