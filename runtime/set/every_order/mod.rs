//! Every order of events of small sets: the scheduler, the queue of reads, and the slots that networks lend each other.
//!
//! The code that is tried is all real: sets, networks, a shared arena, reads in flight. The storage alone is a test's: it
//! ends reads when it is asked to, and well or badly. The state of a set is known, so what was tried once is not tried
//! again. Sets are small enough that no state is left out.

mod events;
mod explore;
mod key;
mod program;
mod rules;

use super::*;
use crate::pack::PAGE;
use explore::explore;

/// A set whose orders are tried.
struct Setup<'s> {
    policy: Policy,
    parts: &'s [Part],
    /// Bytes of a chunk. In two pages a network that does not stream has no room, since its activations
    /// take one.
    chunk: u64,
    /// Slots of the pool.
    slots: u32,
    /// Reads that may be in flight for a network. With none the caller's thread reads.
    depth: usize,
    /// Steps may also take so much longer.
    longer_ns: u64,
    /// Calls that the system refuses, at most.
    refusals: u32,
    /// Reads that fail, tasks that are stopped, and scopes that are left, at most.
    faults: u32,
    stops: u32,
    leaves: u32,
    /// Changes of all budgets. Then each network has two: its own, and that of a plan that streams.
    changes: u32,
}

/// A network of it, and how many jobs are released.
#[derive(Clone, Copy)]
struct Part {
    streams: bool,
    chunks: u32,
    /// How many of them are room.
    room: u32,
    level: u16,
    period_ns: u64,
    jobs: u32,
}

const NETWORKS: usize = 3;

const SWAPS: Part = Part { streams: false, chunks: 2, room: 0, level: 0, period_ns: 200, jobs: 1 };
const STAYS: Part = Part { chunks: 0, ..SWAPS };
const STREAMS: Part = Part { streams: true, chunks: 1, ..SWAPS };

const CALM: Setup<'static> = Setup {
    policy: Policy::Steps,
    parts: &[],
    chunk: 2 * PAGE,
    slots: 2,
    depth: 2,
    longer_ns: 0,
    refusals: 0,
    faults: 0,
    stops: 0,
    leaves: 0,
    changes: 0,
};

fn urgent(part: Part) -> Part {
    Part { level: 1, period_ns: 40, ..part }
}

/// One more of something, where long sweeps are asked for.
fn wide() -> u32 {
    u32::from(std::env::var_os("EYELET_TEST_ALL").is_some())
}

/// Tries all orders. Fewer than `least` states mean that the set has become smaller.
fn try_all(setup: &Setup<'_>, least: usize) {
    let found = explore(setup);
    assert!(found.states >= least && found.ended > 0, "{found:?}");
    // Chunks come while others compute, unless every job needs all slots.
    let in_turns = setup.parts.iter().all(|part| part.chunks == setup.slots);
    match setup.depth {
        0 => assert_eq!(found.during_loads, 0, "one engine: {found:?}"),
        _ => assert!(found.during_loads > 0 || in_turns, "{found:?}"),
    }
}

#[test]
fn two_networks_push_each_other_out() {
    let parts = [Part { jobs: 1 + wide(), ..SWAPS }, Part { jobs: 2 + wide(), ..urgent(SWAPS) }];
    try_all(&Setup { parts: &parts, slots: 3, longer_ns: 5, ..CALM }, 24_000);
}

/// Chunks of a page: all activations, and one more of the weights. Nobody needs more than two slots, so that two networks of
/// one level use the same ones in turns.
#[test]
fn networks_of_one_level_share_their_room() {
    let part = Part { chunks: 2, room: 1, ..SWAPS };
    let parts = [part, Part { period_ns: 100, jobs: 2 + wide(), ..part }];
    try_all(&Setup { parts: &parts, chunk: PAGE, slots: 2, faults: 1, ..CALM }, 1_400);
}

/// An urgent job finds its slots next to the room of the job that it displaces, of which only weights leave.
#[test]
fn a_begun_job_keeps_its_room() {
    let below = Part { chunks: 3, room: 1, ..SWAPS };
    let above = urgent(Part { chunks: 2, room: 1, jobs: 2 + wide(), ..SWAPS });
    try_all(&Setup { parts: &[below, above], chunk: PAGE, slots: 3, faults: 1, ..CALM }, 500);
}

#[test]
fn reads_fail_at_any_moment() {
    let parts = [SWAPS, Part { jobs: 2, ..urgent(SWAPS) }];
    try_all(&Setup { parts: &parts, slots: 3, faults: 2 + wide(), ..CALM }, 11_000);
}

#[test]
fn tasks_are_stopped_and_scopes_left_at_any_moment() {
    let parts = [SWAPS, Part { jobs: 1 + wide(), ..urgent(SWAPS) }];
    try_all(&Setup { parts: &parts, slots: 3, faults: wide(), stops: 1, leaves: 1, ..CALM }, 5_000);
}

#[test]
fn without_queues_nothing_computes_while_a_chunk_comes() {
    let stays = Part { level: 2, period_ns: 30, ..STAYS };
    let parts = [SWAPS, Part { jobs: 1 + wide(), ..urgent(SWAPS) }, stays];
    try_all(&Setup { parts: &parts, slots: 3, depth: 0, faults: 1, ..CALM }, 400);
}

#[test]
fn one_network_streams_and_one_stays() {
    let stays = Part { level: 2, period_ns: 30, jobs: 1 + wide(), ..STAYS };
    let parts = [STREAMS, urgent(SWAPS), stays];
    try_all(&Setup { parts: &parts, slots: 3, faults: 1, ..CALM }, 11_000);
}

#[test]
fn three_networks_swap_on_two_levels() {
    let lax = Part { period_ns: 400, chunks: 1, ..SWAPS };
    let parts = [lax, Part { chunks: 1 + wide(), ..SWAPS }, urgent(SWAPS)];
    try_all(&Setup { parts: &parts, slots: 3, leaves: 1, ..CALM }, 20_000);
}

#[test]
fn classes_take_turns() {
    let more = Part { period_ns: 100, chunks: 1 + wide(), ..SWAPS };
    let parts = [SWAPS, more, Part { jobs: 1 + wide(), ..urgent(STAYS) }];
    try_all(&Setup { policy: Policy::Classes, parts: &parts, slots: 2, faults: 1, ..CALM }, 12_000);
}

#[test]
fn budgets_change_at_any_moment() {
    let part = Part { chunks: 1, ..SWAPS };
    let parts = [part, Part { jobs: 1 + wide(), ..urgent(part) }];
    try_all(&Setup { parts: &parts, slots: 1, faults: wide(), changes: 2, ..CALM }, 5_000);
}

/// The system refuses to unmap a chunk that is pushed out or whose read has failed, or to map the next one.
#[test]
fn the_system_refuses_at_any_moment() {
    let parts = [SWAPS, Part { jobs: 1 + wide(), ..urgent(SWAPS) }];
    let setup =
        Setup { parts: &parts, slots: 3, refusals: 1 + wide(), faults: 1, leaves: 1, ..CALM };
    try_all(&setup, 10_000);
}

#[test]
fn the_system_refuses_while_budgets_change() {
    let part = Part { chunks: 1, ..SWAPS };
    let parts = [part, urgent(part)];
    try_all(
        &Setup { parts: &parts, slots: 1, refusals: 1 + wide(), changes: 1 + wide(), ..CALM },
        20_000,
    );
}
