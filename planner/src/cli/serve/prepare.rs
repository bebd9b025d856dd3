//! From a set's file to a set that can be run: its networks measured, everything decided.

use super::Set;
use super::execute::MOST_TASKS;
use super::inject::Faults;
use super::machine::available_bytes;
use super::maps;
use super::measure::unmeasured;
use super::measured::Measured;
use super::packs::Packs;
use super::rehearse::rehearse;
use crate::cli::Error;
use crate::cli::decided::verify;
use crate::cli::error::SetsError;
use crate::cli::output::Output;
use crate::cli::schedule::{Report, Simulation, for_device};
use eyelet_planner::size;
use eyelet_tasks::schedule::schedule;
use eyelet_tasks::set::TaskSet;
use eyelet_tasks::set::decided::{Decided, Pack, Planned};
use eyelet_tasks::set::file::{Declared, Source, parse};
use eyelet_tasks::set::units::human_ns;
use eyelet_tasks::volumes::search::Freedom;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A set that can be run.
pub struct Prepared {
    pub decided: Decided,
    pub faults: Vec<Faults>,
    /// What would help, if the test refuses the set.
    pub refused: Option<String>,
    /// Packs that were made for this run are there as long as this is.
    _packs: Packs,
}

/// Names of a set's tasks to what goes wrong with each.
type Injected<'a> = &'a dyn Fn(&[&str]) -> Result<Vec<Faults>, String>;

/// How a set is rehearsed.
pub struct Stage<'a> {
    /// For so long, at most. 0: it is not.
    pub most_ns: u64,
    /// Even if the test refuses it.
    pub anyway: bool,
    pub seed: u64,
    pub stop: &'a AtomicBool,
    pub output: Output,
}

impl Stage<'_> {
    /// Rehearses a set, and counts what was found.
    fn rehearse(&self, decided: &mut Decided, measured: &mut Measured) -> Result<(), Error> {
        let run = (self.seed, self.stop, self.output);
        let found = rehearse(decided, measured, self.most_ns, run)?;
        if self.stop.load(Ordering::Relaxed) {
            // Half a rehearsal says nothing, and the run ends before it begins.
            return Ok(());
        }
        measured.learn(decided, &found);
        count(decided, measured)
    }

    fn admits(&self, refused: bool) -> bool {
        self.most_ns > 0 && (self.anyway || !refused)
    }
}

/// Measures a set's networks and judges it: one in which everything is decided, or else what a file declares.
pub fn prepare(
    file: &Path,
    set: Set,
    injected: impl Fn(&[&str]) -> Result<Vec<Faults>, String>,
    measured: &mut Measured,
    packs: Packs,
    stage: &Stage<'_>,
) -> Result<Prepared, Error> {
    match set {
        Set::Decided(decided) => of_decided(file, decided, &injected, measured, packs, stage),
        Set::Declared(text) => of_declared(file, &text, &injected, measured, packs, stage),
    }
}

/// Has a set the costs that were measured.
fn count(decided: &mut Decided, measured: &Measured) -> Result<(), Error> {
    for (task, planned) in decided.set.tasks.iter_mut().zip(&decided.packs) {
        let unknown =
            || Error::Internal(format!("{} was not measured", planned.pack.name().display()));
        task.cost = measured.solo(planned).ok_or_else(unknown)?.cost.clone();
    }
    decided.set.storage = measured.storage_for(decided.assignment.chunk_bytes);
    Ok(())
}

/// Refuses a memory that this machine does not have. All of it is taken at once, so that a larger one would end other
/// programs.
pub fn has_memory(file: &Path, set: &TaskSet) -> Result<(), Error> {
    let asked = set.memory_bytes;
    match available_bytes() {
        Some(available) if asked > available => {
            let (asked, available) = (size::exact(asked), size::exact(available));
            let reason = format!(
                "memory: {asked} are asked for, and this machine has {available} available: give less, or end other programs"
            );
            Err(SetsError::Serve { path: file.to_owned(), reason }.into())
        }
        _ => Ok(()),
    }
}

/// A shorter period than this is over before the clock has been looked at for every task.
const SHORTEST_NS: u64 = 1000;

/// What goes wrong with each task of a set, which has no more tasks than can be run.
fn faults(file: &Path, set: &TaskSet, injected: Injected<'_>) -> Result<Vec<Faults>, Error> {
    let tasks = set.tasks.len();
    if tasks > MOST_TASKS {
        return Err(SetsError::TooMany { path: file.to_owned(), tasks, most: MOST_TASKS }.into());
    }
    if let Some(task) = set.tasks.iter().find(|task| task.period_ns < SHORTEST_NS) {
        let (name, period) = (&task.name, human_ns(task.period_ns));
        let least = human_ns(SHORTEST_NS);
        let reason = format!(
            "task {name:?}: jobs arrive every {period}, and {least} is the shortest period that can be run: give a \
             longer one"
        );
        return Err(SetsError::Serve { path: file.to_owned(), reason }.into());
    }
    let names: Vec<&str> = set.tasks.iter().map(|task| task.name.as_str()).collect();
    injected(&names).map_err(|reason| SetsError::Serve { path: file.to_owned(), reason }.into())
}

fn of_decided(
    file: &Path,
    mut decided: Decided,
    injected: Injected<'_>,
    measured: &mut Measured,
    packs: Packs,
    stage: &Stage<'_>,
) -> Result<Prepared, Error> {
    has_memory(file, &decided.set)?;
    let faults = faults(file, &decided.set, injected)?;
    verify(&decided)?;
    maps::check(file, &decided)?;
    for planned in &decided.packs {
        measured.pack(&planned.pack, Some(planned.budget), u64::MAX)?;
    }
    measured.storage(&[decided.assignment.chunk_bytes])?;
    count(&mut decided, measured)?;
    let admitted = |decided: &Decided| decided.assignment.verdict(&decided.set).kept();
    if stage.admits(!admitted(&decided)) {
        stage.rehearse(&mut decided, measured)?;
    }
    let refused = if admitted(&decided) { None } else { Some(change(&decided)) };
    Ok(Prepared { decided, faults, refused, _packs: packs })
}

/// What would help a decided set that is slower here than it was thought to be.
fn change(decided: &Decided) -> String {
    let set = decided.set.clone();
    let declared = Declared {
        plans: set.tasks.iter().map(|task| vec![task.cost.clone()]).collect(),
        sources: vec![None; set.tasks.len()],
        chunk_sizes: vec![decided.assignment.chunk_bytes],
        board: None,
        set,
    };
    let schedule = schedule(&declared, Freedom::Levels);
    match schedule.admitted() {
        true => "as it runs on this machine, other volumes are needed: run the set that this was made from".to_owned(),
        false => Report::new(&schedule, &Simulation::None).cheapest(),
    }
}

/// A set as it is declared, before anything is measured: what is wrong with it is found first.
pub fn declared(file: &Path, text: &str) -> Result<Declared, Error> {
    let mut nothing = |_: &Source, _: Option<&str>| Ok(vec![unmeasured(1)]);
    let mut declared = parse(file, text, &mut nothing).map_err(Box::new)?;
    for_device(file, &mut declared)?;
    let runs = |source: &Option<Source>| match source {
        Some(Source::Pack(_) | Source::Model { .. }) => true,
        Some(Source::Measured(_)) | None => false,
    };
    match declared.sources.iter().position(|source| !runs(source)) {
        Some(task) => {
            let task = declared.set.tasks[task].name.clone();
            Err(SetsError::NothingToRun { path: file.to_owned(), task }.into())
        }
        None => Ok(declared),
    }
}

/// A declared set with measured costs, and the packs of its sources. `first` is the set without costs.
pub fn costs(
    (file, text): (&Path, &str),
    first: &Declared,
    measured: &mut Measured,
    packs: &mut Packs,
) -> Result<Declared, Error> {
    has_memory(file, &first.set)?;
    let most = first.set.memory_bytes;
    let mut failed = None;
    let mut cost = |source: &Source, _: Option<&str>| {
        let found = packs.of(file, source).and_then(|pack| measured.pack(&pack.into(), None, most));
        found.map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            text
        })
    };
    let parsed = parse(file, text, &mut cost);
    let mut declared = match (parsed, failed) {
        (Ok(declared), _) => declared,
        // An inference that failed is no fault of the set's file.
        (Err(_), Some(error @ (Error::Infer { .. } | Error::Write { .. }))) => return Err(error),
        (Err(wrong), _) => return Err(Box::new(wrong).into()),
    };
    for_device(file, &mut declared)?;
    declared.set.storage = measured.storage(&declared.chunk_sizes)?;
    Ok(declared)
}

fn of_declared(
    file: &Path,
    text: &str,
    injected: Injected<'_>,
    measured: &mut Measured,
    mut packs: Packs,
    stage: &Stage<'_>,
) -> Result<Prepared, Error> {
    let first = declared(file, text)?;
    let faults = faults(file, &first.set, injected)?;
    let mut declared = costs((file, text), &first, measured, &mut packs)?;
    let of_tasks = packs_of(file, &declared, &mut packs)?;
    let (mut decided, mut refused) = decide(file, &declared, &of_tasks, measured)?;
    for round in 1..=ROUNDS {
        maps::check(file, &decided)?;
        if !stage.admits(refused.is_some()) {
            break;
        }
        stage.rehearse(&mut decided, measured)?;
        if decided.assignment.verdict(&decided.set).kept() {
            refused = None;
            break;
        }
        // Other plans or volumes may do.
        for ((task, plans), pack) in
            declared.set.tasks.iter_mut().zip(&mut declared.plans).zip(&of_tasks)
        {
            *plans = measured.plans(pack);
            task.cost = plans.first().cloned().unwrap_or_else(|| task.cost.clone());
        }
        declared.set.storage = measured.counted_storage(declared.set.storage.chunk_bytes);
        match decide(file, &declared, &of_tasks, measured)? {
            (next, None) if round < ROUNDS => (decided, refused) = (next, None),
            (_, None) => {
                refused = Some(format!(
                    "{ROUNDS} choices of plans and volumes took longer in their rehearsals than the test admits"
                ));
            }
            (_, change) => {
                refused = change;
                break;
            }
        }
    }
    Ok(Prepared { decided, faults, refused, _packs: packs })
}

/// Choices of plans and volumes that are rehearsed.
const ROUNDS: u32 = 3;

/// The pack of each task.
pub fn packs_of(file: &Path, declared: &Declared, packs: &mut Packs) -> Result<Vec<Pack>, Error> {
    declared.sources.iter().flatten().map(|source| Ok(packs.of(file, source)?.into())).collect()
}

/// Decides everything for a set, and says what would help if the test refuses it.
pub fn decide(
    file: &Path,
    declared: &Declared,
    packs: &[Pack],
    measured: &Measured,
) -> Result<(Decided, Option<String>), Error> {
    let schedule = schedule(declared, Freedom::Levels);
    let change = || Report::new(&schedule, &Simulation::None).cheapest();
    let Some(assignment) = schedule.assignment.clone() else {
        return Err(SetsError::NotSchedulable { path: file.to_owned(), change: change() }.into());
    };
    let planned = |(task, pack): (&eyelet_tasks::set::Task, &Pack)| {
        let solo = measured.costing(pack, &task.cost);
        let unknown = || Error::Internal(format!("no plan of {} costs so much", task.name));
        Ok::<Planned, Error>(solo.ok_or_else(unknown)?.planned.clone())
    };
    let packs = schedule.set.tasks.iter().zip(packs).map(planned).collect::<Result<_, _>>()?;
    let refused = (!schedule.admitted()).then(change);
    Ok((Decided { set: schedule.set.clone(), assignment, packs }, refused))
}
