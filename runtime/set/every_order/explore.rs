//! Goes through all orders of events, depth first.
//!
//! A set cannot be copied. So each order is played from the start, up to a state that is known. Then the last event that
//! has an alternative is exchanged for it.

use super::super::*;
use super::events::{Choice, Event, Left, apply, possible};
use super::key::{Key, key};
use super::program::Program;
use super::rules::check;
use super::{NETWORKS, Part, Setup};
use crate::arena::SharedArena;
use crate::arena::refusals::Refusals;
use crate::device::Inline;
use crate::executor::testing::{STREAMING, THREADS, WHOLE, two_ways};
use crate::executor::{Options, Share};
use crate::pack::PAGE;
use crate::storage::Slice;
use crate::storage::steered::{Desk, Steered};
use crate::tasks::{Chunk, Scheduler, set_reloads};
use std::collections::HashMap;
use std::vec::Vec;

/// The result of the search.
#[derive(Debug)]
#[allow(dead_code)]
pub(super) struct Found {
    pub states: usize,
    /// Events that led to another state.
    pub events: u64,
    /// Orders that were played.
    pub orders: u64,
    /// Events of the longest.
    pub longest: usize,
    /// Steps during which a chunk came for another job.
    pub during_loads: u64,
    pub ended: u64,
    pub given_up: u64,
}

/// A state of the order that is played, and what was tried from there.
struct Place {
    number: usize,
    events: Vec<Event>,
    next: usize,
    /// A job is pending, and no event that helps has led to another state yet.
    stuck: bool,
}

/// All orders so far.
struct Orders<'s> {
    setup: &'s Setup<'s>,
    desks: &'s [Desk<'s>],
    choices: &'s [Choice; 2],
    refusals: &'s Refusals,
    program: &'s Program,
    /// The states that are known, by number.
    known: HashMap<Key, usize>,
    places: Vec<Place>,
    events: u64,
    longest: usize,
}

fn task(part: &Part) -> Task {
    let Part { streams, chunks, room, level, period_ns, .. } = *part;
    Task {
        period_ns,
        deadline_ns: period_ns,
        jitter_ns: 0,
        level,
        chunks,
        room: if streams { chunks } else { room },
        chunk_ns: if streams { 0 } else { 5 },
        compute_ns: 8,
        step_ns: 2,
        streams,
        reload_ns: 0,
    }
}

fn share(part: &Part) -> Share {
    Share { budget: if part.streams { STREAMING } else { WHOLE }, chunks: part.chunks }
}

/// The networks with their own budgets, and with the others.
fn choices(setup: &Setup<'_>) -> [Choice; 2] {
    let streaming = |part: &Part| Part { streams: true, chunks: 1, ..*part };
    let others: Vec<Part> = setup.parts.iter().map(streaming).collect();
    [setup.parts, &others].map(|parts| {
        let mut tasks: Vec<Task> = parts.iter().map(task).collect();
        set_reloads(&mut tasks, setup.slots);
        Choice { budgets: parts.iter().map(|part| share(part).budget).collect(), tasks }
    })
}

/// Tries all orders of a set's events.
pub(super) fn explore(setup: &Setup<'_>) -> Found {
    let pack = two_ways();
    let desks: Vec<Desk<'_>> = setup.parts.iter().map(|_| Desk::new(&pack)).collect();
    let mut storages: Vec<_> =
        desks.iter().map(|desk| Steered { desk, depth: setup.depth }).collect();
    // For each network: its tables, activations, and records of chunks, and the chunks that do not leave memory. Then the
    // pool and its list.
    let kept = |part: &Part| match (part.streams, part.chunks) {
        (true, chunks) => STREAMING + PAGE - u64::from(chunks) * setup.chunk,
        (false, 0) => WHOLE,
        (false, chunks) => WHOLE + PAGE - u64::from(chunks) * setup.chunk,
    };
    let kept: u64 = setup.parts.iter().map(kept).sum();
    let arena =
        SharedArena::new(kept + PAGE + u64::from(setup.slots) * setup.chunk, setup.chunk).unwrap();
    let mut open = |part: &Part| {
        let options = Options { threads: THREADS, ..Options::default() };
        let shares = [share(part), Share { budget: STREAMING, chunks: 1 }];
        let shares = if setup.changes > 0 { &shares[..] } else { &shares[..1] };
        ChunkedInstance::open_shares(&mut Slice(&pack), &arena, options, shares).unwrap()
    };
    let mut networks: Vec<_> = setup.parts.iter().map(&mut open).collect();
    let pool = arena.pool().unwrap();
    assert_eq!(pool.own(), setup.slots);
    let choices = choices(setup);
    let Choice { budgets, tasks } = &choices[0];
    let members = (networks.iter_mut().zip(&mut storages).zip(tasks))
        .map(|((network, storage), task)| Member { task: *task, network, storage });
    let mut set = TaskSet::<_, NETWORKS>::new(setup.policy, members, pool).unwrap();
    let program = Program::new();
    let (known, places) = (HashMap::new(), Vec::new());
    let mut orders = Orders {
        setup,
        desks: &desks,
        choices: &choices,
        refusals: &arena.refusals,
        program: &program,
        known,
        places,
        events: 0,
        longest: 0,
    };
    let mut played = 0;
    loop {
        arena.refusals.clear();
        if setup.changes > 0 {
            set.run(&Inline, &|| 0, &mut &program, |running| running.change(budgets, tasks))
                .unwrap();
        }
        for member in &mut set.members {
            member.network.take_out(&mut set.state.pool);
        }
        set.state.scheduler = Scheduler::new(setup.policy, tasks, set.state.pool.chunks()).unwrap();
        set.state.tasks.iter_mut().for_each(|status| *status = Default::default());
        program.restart();
        desks.iter().for_each(|desk| desk.fails.set(false));
        orders.play(&mut set);
        played += 1;
        if !orders.turn() {
            let counts = [&program.during_loads, &program.ended, &program.given_up];
            let [during_loads, ended, given_up] = counts.map(core::cell::Cell::get);
            let (states, events, longest) = (orders.known.len(), orders.events, orders.longest);
            return Found {
                states,
                events,
                orders: played,
                longest,
                during_loads,
                ended,
                given_up,
            };
        }
    }
}

impl Orders<'_> {
    /// Plays the events so far, then new ones up to a state that is known.
    fn play(&mut self, set: &mut TaskSet<'_, '_, Steered<'_, '_>, NETWORKS>) {
        let program = self.program;
        let (mut at, mut left) = (0, Left::all(self.setup));
        let mut host = program;
        let clock = || program.clock.get();
        while set.run(&Inline, &clock, &mut host, |running| self.scope(running, &mut at, &mut left))
        {
            let reads = self.desks.iter().map(|desk| desk.reads().len());
            assert_eq!(reads.sum::<usize>(), 0, "a scope is left, and reads are in flight");
            assert!(program.open.iter().all(|open| !open.get()), "a scope is left by all jobs");
            program.coming.set(None);
        }
    }

    /// Plays on in a scope. Returns whether it is to be left and another entered.
    fn scope(
        &mut self,
        running: &mut Running<'_, '_, NETWORKS>,
        at: &mut usize,
        left: &mut Left,
    ) -> bool {
        loop {
            if *at == self.places.len() && !self.enter(running, left) {
                return false;
            }
            let place = &self.places[*at];
            let event = place.events[place.next];
            *at += 1;
            if event == Event::Leave {
                left.leaves -= 1;
                return true;
            }
            let before = running.loading;
            self.apply(event, running, left);
            self.check(running, left, before);
        }
    }

    fn apply(&self, event: Event, running: &mut Running<'_, '_, NETWORKS>, left: &mut Left) {
        let around = (self.desks, self.choices, self.refusals);
        apply(event, running, self.program, around, left);
    }

    fn check(
        &self,
        running: &mut Running<'_, '_, NETWORKS>,
        left: &Left,
        before: Option<(Chunk, u64)>,
    ) {
        let refused = self.setup.refusals - left.refusals;
        check(running, self.program, self.desks, before, refused);
    }

    /// Adds the state that has been reached. Returns false when it is known.
    fn enter(&mut self, running: &mut Running<'_, '_, NETWORKS>, left: &mut Left) -> bool {
        loop {
            let key = key(self.setup, running, self.program, (self.desks, self.refusals), left);
            let last = self.places.last_mut();
            if let Some(&number) = self.known.get(&key) {
                let Some(last) = last else { return false };
                if number == last.number {
                    // Nothing has happened: the next event can be tried from here.
                    last.next += 1;
                    let Some(&event) = last.events.get(last.next) else { return false };
                    let before = running.loading;
                    self.apply(event, running, left);
                    self.check(running, left, before);
                    continue;
                }
                last.moved();
                self.events += 1;
                let again = self.places.iter().any(|place| place.number == number);
                assert!(!again, "the set goes round in a circle");
                return false;
            }
            if let Some(last) = last {
                last.moved();
                self.events += 1;
            }
            let number = self.known.len();
            self.known.insert(key, number);
            let (setup, now_ns) = (self.setup, self.program.clock.get());
            let events = possible(setup, running, (self.desks, self.refusals), left, now_ns);
            let stuck = running.state.scheduler.job_states().iter().any(|job| job.pending);
            self.places.push(Place { number, events, next: 0, stuck });
            self.longest = self.longest.max(self.places.len());
            return true;
        }
    }

    /// Turns to the next event that has not been tried. Returns false if there is none.
    fn turn(&mut self) -> bool {
        while let Some(place) = self.places.last_mut() {
            place.next += 1;
            if place.next < place.events.len() {
                return true;
            }
            assert!(!place.stuck, "jobs wait for nothing");
            self.places.pop();
        }
        false
    }
}

impl Place {
    fn moved(&mut self) {
        self.stuck &= !self.events[self.next].helps();
    }
}
