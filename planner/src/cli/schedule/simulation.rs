//! The simulation of an admitted set, which finds faults of the test.

use eyelet::tasks::SetError;
use eyelet_tasks::schedule::Schedule;
use eyelet_tasks::set::units::human_ns;
use eyelet_tasks::simulate::{Arrivals, MOST_TASKS, Miss, Mode, Options, Outcome, Times, simulate};

/// What a simulation of an admitted set found.
#[derive(Debug)]
pub enum Simulation {
    /// It was not asked for, or the set is refused.
    None,
    Ran(Outcome),
    /// The simulator does not hold the set's tasks.
    TooMany,
    /// The scheduler refuses what the test admits.
    Refused(SetError),
}

impl Simulation {
    /// Simulates an admitted set for so many jobs: all tasks at once, all times at their worst.
    pub fn of(schedule: &Schedule, jobs: u64) -> Self {
        match simulated(schedule, jobs, false) {
            _ if jobs == 0 => Self::None,
            None => Self::None,
            Some(_) if schedule.set.tasks.len() > MOST_TASKS => Self::TooMany,
            Some(Ok(outcome)) => Self::Ran(outcome),
            Some(Err(error)) => Self::Refused(error),
        }
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Ran(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Why an admitted set is not schedulable after all.
    pub fn wrong(&self, schedule: &Schedule) -> Option<String> {
        match self {
            Self::None => None,
            Self::Ran(outcome) => missed(schedule, outcome),
            Self::TooMany => Some(format!(
                "the test admits its {} tasks, and {MOST_TASKS} at most can be simulated and run: take some out, or let \
                 the test judge alone with --jobs 0",
                schedule.set.tasks.len()
            )),
            Self::Refused(error) => Some(format!(
                "the test admits the set, and its scheduler refuses it: {error}; this is a fault of the test: please \
                 report it with the set"
            )),
        }
    }
}

/// What an outcome with misses says of the test.
fn missed(schedule: &Schedule, outcome: &Outcome) -> Option<String> {
    let Miss { task, deadline_ns, at_ns } = outcome.first_miss?;
    Some(format!(
        "the test admits the set, and its simulation missed {} deadlines in {} jobs: {} was first, due at {} and not done \
         at {}; this is a fault of the test: please report it with the set",
        outcome.misses,
        outcome.jobs,
        schedule.set.tasks[task].name,
        human_ns(deadline_ns),
        human_ns(at_ns)
    ))
}

/// Simulates an admitted set: all tasks at once, all times at their worst.
pub fn simulated(schedule: &Schedule, jobs: u64, trace: bool) -> Option<Result<Outcome, SetError>> {
    let assignment = schedule.assignment.as_ref().filter(|_| schedule.admitted())?;
    let tasks = assignment.tasks(&schedule.set);
    let options = Options {
        policy: assignment.policy,
        arrivals: Arrivals::Periodic { offsets_ns: vec![0; tasks.len()] },
        mode: Mode::BetweenSteps,
        times: Times::Share(1.0),
        jobs,
        until_miss: false,
        trace,
        seed: 0,
    };
    Some(simulate(&tasks, assignment.pool(&schedule.set)?, &options))
}
