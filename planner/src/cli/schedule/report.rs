//! What `schedule` prints and draws.

use super::simulation::{Simulation, simulated};
use super::write::Written;
use crate::cli::output::milliseconds;
use crate::cli::table::Table;
use eyelet_tasks::analysis::Verdict;
use eyelet_tasks::draw;
use eyelet_tasks::schedule::{Schedule, needed_bytes, stay_bytes};
use eyelet_tasks::set::decided::order;
use eyelet_tasks::set::units::{human_bytes, human_ns};
use eyelet_tasks::simulate::Miss;
use serde::Serialize;
use std::fmt;
use std::path::Path;

#[derive(Debug, Serialize)]
pub struct Report {
    schedulable: bool,
    verdict: String,
    memory_bytes: u64,
    /// With the smallest pool of chunks that the test admits.
    needed_bytes: Option<u64>,
    chunk_bytes: Option<u64>,
    /// `steps`: preemption by levels. `classes`: tasks without chunks compute while others load.
    order: Option<&'static str>,
    utilization: Option<f64>,
    processor: Option<f64>,
    storage: Option<f64>,
    tightest: Option<Tightest>,
    /// Whether RT-Swap's test admits the set. `None` where it does not apply.
    published_test: Option<bool>,
    tasks: Vec<TaskReport>,
    simulated: Option<Simulated>,
    /// Tasks that would be late without any others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    late_alone: Vec<String>,
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written: Option<Written>,
}

/// The interval with the least slack.
#[derive(Debug, Serialize)]
struct Tightest {
    interval_ms: f64,
    demand_ms: f64,
    blocking_ms: f64,
}

#[derive(Debug, Serialize)]
struct TaskReport {
    name: String,
    period_ms: f64,
    deadline_ms: f64,
    compute_ms: f64,
    load_ms: Option<f64>,
    bytes: u64,
    swapped_bytes: Option<u64>,
    level: Option<u16>,
    /// No response is longer, by the test, if that admits the set.
    bound_ms: Option<f64>,
    /// Of the simulation.
    worst_response_ms: Option<f64>,
}

/// What [`TaskReport::row`] gives.
const HEAD: [&str; 10] = [
    "task",
    "period",
    "deadline",
    "computing",
    "loading",
    "bytes",
    "swapped",
    "level",
    "response",
    "bound",
];

impl TaskReport {
    fn row(&self) -> [String; 10] {
        let known = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
        let ms = |ms: f64| format!("{ms:.2} ms");
        [
            self.name.clone(),
            ms(self.period_ms),
            ms(self.deadline_ms),
            ms(self.compute_ms),
            known(self.load_ms.map(ms)),
            human_bytes(self.bytes),
            known(self.swapped_bytes.map(human_bytes)),
            known(self.level.map(|level| level.to_string())),
            known(self.worst_response_ms.map(ms)),
            known(self.bound_ms.map(ms)),
        ]
    }
}

#[derive(Debug, Serialize)]
struct Simulated {
    jobs: u64,
    misses: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_miss: Option<FirstMiss>,
    loads_per_job: f64,
}

#[derive(Debug, Serialize)]
struct FirstMiss {
    task: String,
    due_ms: f64,
    known_ms: f64,
}

impl Report {
    pub fn new(schedule: &Schedule, simulation: &Simulation) -> Self {
        let set = &schedule.set;
        let outcome = simulation.outcome();
        let wrong = simulation.wrong(schedule);
        let assignment = schedule.assignment.as_ref();
        let tasks = assignment.map(|assignment| assignment.tasks(set));
        let bounds = assignment.and_then(|assignment| assignment.bounds(set));
        let task = |(k, task): (usize, &eyelet_tasks::set::Task)| TaskReport {
            name: task.name.clone(),
            period_ms: milliseconds(task.period_ns),
            deadline_ms: milliseconds(task.deadline_ns),
            compute_ms: milliseconds(task.cost.compute_ns),
            load_ms: tasks.as_ref().map(|tasks| milliseconds(tasks[k].load_ns())),
            bytes: task.cost.bytes,
            swapped_bytes: assignment.map(|assignment| assignment.swapped_bytes(k)),
            level: assignment.map(|assignment| assignment.levels[k]),
            bound_ms: bounds.as_ref().map(|bounds| milliseconds(bounds[k])),
            worst_response_ms: outcome.map(|o| milliseconds(o.worst_response_ns[k])),
        };
        let numbers = schedule.numbers;
        let first_miss = |miss: Miss| FirstMiss {
            task: set.tasks[miss.task].name.clone(),
            due_ms: milliseconds(miss.deadline_ns),
            known_ms: milliseconds(miss.at_ns),
        };
        Self {
            schedulable: schedule.admitted() && wrong.is_none(),
            verdict: wrong.unwrap_or_else(|| verdict(schedule.verdict)),
            memory_bytes: set.memory_bytes,
            needed_bytes: assignment
                .filter(|_| schedule.admitted())
                .and_then(|assignment| needed_bytes(set, assignment)),
            chunk_bytes: assignment.map(|assignment| assignment.chunk_bytes),
            order: assignment.map(|assignment| order(assignment.policy)),
            utilization: numbers.map(|numbers| numbers.utilization),
            processor: numbers.map(|numbers| numbers.processor),
            storage: numbers.map(|numbers| numbers.storage),
            tightest: numbers.and_then(|numbers| numbers.tightest).map(|point| Tightest {
                interval_ms: milliseconds(point.at_ns),
                demand_ms: milliseconds(point.demand_ns),
                blocking_ms: milliseconds(point.blocking_ns),
            }),
            published_test: schedule.published.as_ref().map(Option::is_some),
            tasks: set.tasks.iter().enumerate().map(task).collect(),
            simulated: outcome.map(|outcome| Simulated {
                jobs: outcome.jobs,
                misses: outcome.misses,
                first_miss: outcome.first_miss.map(first_miss),
                loads_per_job: outcome.loads as f64 / outcome.jobs.max(1) as f64,
            }),
            late_alone: schedule.alone.iter().map(|alone| alone.sentence(set)).collect(),
            changes: schedule.changes.iter().map(|change| change.sentence(set)).collect(),
            written: None,
        }
    }

    /// The tasks with a head, as text.
    fn table(&self) -> impl Iterator<Item = [String; 10]> {
        std::iter::once(HEAD.map(str::to_owned)).chain(self.tasks.iter().map(TaskReport::row))
    }

    pub fn schedulable(&self) -> bool {
        self.schedulable
    }

    /// Tasks that would be late even alone, and the cheapest change that makes the set schedulable.
    pub fn cheapest(&self) -> String {
        let change = match self.changes.first() {
            Some(change) => format!("cheapest change: {change}"),
            None => "no single change of memory, periods or networks helps".to_owned(),
        };
        self.late_alone.iter().cloned().chain([change]).collect::<Vec<_>>().join("; ")
    }
}

fn verdict(verdict: Option<Verdict>) -> String {
    match verdict {
        None => {
            "the parts of the networks that must stay, and the largest network, exceed the memory"
                .to_owned()
        }
        Some(Verdict::Kept) => "every job ends before its deadline".to_owned(),
        Some(Verdict::Overloaded { utilization }) => {
            format!("the tasks need {:.1} % of the time", utilization * 100.0)
        }
        Some(Verdict::Exceeded(point)) => format!(
            "within {} jobs may need {} and wait {} for others",
            human_ns(point.at_ns),
            human_ns(point.demand_ns),
            human_ns(point.blocking_ns)
        ),
        Some(Verdict::Unknown { utilization, points }) => format!(
            "at {:.4} % of the time the test gave up after {points} points: leave a little more time",
            utilization * 100.0
        ),
    }
}

/// Jobs that are drawn.
const DRAWN: u64 = 60;

/// The report as a page, with pictures of the first jobs.
pub fn page(file: &Path, schedule: &Schedule, report: &Report) -> String {
    let names: Vec<String> = schedule.set.tasks.iter().map(|task| task.name.clone()).collect();
    let mut pictures = Vec::new();
    let drawn = simulated(schedule, DRAWN, true).and_then(Result::ok);
    if let Some((outcome, assignment)) = drawn.zip(schedule.assignment.as_ref()) {
        let (events, until) = (&outcome.trace, outcome.end_ns);
        pictures.push((
            "What the tasks do: loads above, steps below",
            draw::gantt(&names, events, until),
        ));
        let (stay, memory) = (stay_bytes(&schedule.set, assignment), schedule.set.memory_bytes);
        let chart = draw::memory(&names, stay, assignment.chunk_bytes, memory, events, until);
        pictures.push(("Memory over time", chart));
    }
    let table: Vec<Vec<String>> = report.table().map(Vec::from).collect();
    let lines: Vec<String> =
        report.to_string().lines().take_while(|line| !line.is_empty()).map(str::to_owned).collect();
    draw::page(&format!("Task set {}", file.display()), &lines, &table, &pictures)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let answer = if self.schedulable { "schedulable" } else { "not schedulable" };
        writeln!(f, "{answer}: {}", self.verdict)?;
        if let (Some(utilization), Some(processor), Some(storage)) =
            (self.utilization, self.processor, self.storage)
        {
            let percent = |share: f64| share * 100.0;
            writeln!(
                f,
                "time: {:.1} % (computing {:.1} %, loading {:.1} %)",
                percent(utilization),
                percent(processor),
                percent(storage)
            )?;
        }
        if let Some(Tightest { interval_ms, demand_ms, blocking_ms }) = &self.tightest {
            writeln!(
                f,
                "tightest interval: {interval_ms:.2} ms, demand {demand_ms:.2} ms, blocking {blocking_ms:.2} ms"
            )?;
        }
        match self.needed_bytes {
            Some(needed) => {
                writeln!(
                    f,
                    "memory: {}, needed {}",
                    human_bytes(self.memory_bytes),
                    human_bytes(needed)
                )?;
            }
            None => writeln!(f, "memory: {}", human_bytes(self.memory_bytes))?,
        }
        match &self.simulated {
            Some(Simulated { jobs, misses, loads_per_job, .. }) => writeln!(
                f,
                "simulated: {jobs} jobs, {misses} misses, {loads_per_job:.1} chunks read a job"
            )?,
            None if self.schedulable => writeln!(f, "not simulated: the test judged alone")?,
            None => {}
        }
        for late in &self.late_alone {
            writeln!(f, "{late}")?;
        }
        for change in &self.changes {
            writeln!(f, "schedulable with {change}")?;
        }
        if let Some(Written { file, packs, bytes }) = &self.written {
            let packs = match packs {
                1 => "1 pack".to_owned(),
                packs => format!("{packs} packs"),
            };
            writeln!(f, "written: {} ({packs}, {})", file.display(), human_bytes(*bytes))?;
        }
        let mut rows = self.table();
        let mut table = Table::new(1, rows.next().unwrap_or_default()).names();
        rows.for_each(|row| table.row(row));
        write!(f, "\n{table}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::tasks::SetError;
    use eyelet_tasks::generate::harder;
    use eyelet_tasks::schedule::schedule;
    use eyelet_tasks::set::file::Declared;
    use eyelet_tasks::simulate::Outcome;
    use eyelet_tasks::volumes::search::Freedom;

    fn judged(load: f64) -> Schedule {
        let set = harder::set(load, 0.1, 3, 1);
        let declared = Declared {
            plans: set.tasks.iter().map(|task| vec![task.cost.clone()]).collect(),
            sources: vec![None; set.tasks.len()],
            chunk_sizes: harder::CHUNKS.to_vec(),
            board: None,
            set,
        };
        schedule(&declared, Freedom::Subsets)
    }

    #[test]
    fn a_set_that_misses_in_its_simulation_is_not_schedulable() {
        let schedule = judged(0.1);
        assert!(schedule.admitted());
        let simulation = Simulation::of(&schedule, 1000);
        let report = Report::new(&schedule, &simulation);
        assert!(report.schedulable() && simulation.wrong(&schedule).is_none());
        let Simulation::Ran(outcome) = simulation else { panic!("{simulation:?}") };
        let miss = Miss { task: 1, deadline_ns: 12_000_000, at_ns: 15_500_000 };
        let missed = Simulation::Ran(Outcome { misses: 3, first_miss: Some(miss), ..outcome });
        let report = Report::new(&schedule, &missed);
        assert!(!report.schedulable());
        let wrong = missed.wrong(&schedule).unwrap();
        let said = "missed 3 deadlines in 1000 jobs: task 2 was first, due at 12 ms and not done at 15.50 ms";
        assert!(
            wrong.contains(said) && wrong.contains("fault of the test: please report it"),
            "{wrong}"
        );
        assert!(report.to_string().starts_with(&format!("not schedulable: {wrong}")), "{report}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(
            (&json["schedulable"], &json["simulated"]["misses"]),
            (&false.into(), &3.into())
        );
        assert_eq!(json["simulated"]["first_miss"]["task"], "task 2");
        assert_eq!(json["verdict"], wrong.as_str());
    }

    #[test]
    fn what_the_scheduler_refuses_is_not_schedulable() {
        let schedule = judged(0.1);
        let refused = Simulation::Refused(SetError::Time { task: 0 });
        assert!(!Report::new(&schedule, &refused).schedulable());
        assert!(refused.wrong(&schedule).unwrap().contains("its scheduler refuses it"));
    }
}
