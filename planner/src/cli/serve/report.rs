//! What `serve` reports.

use super::costs::Costs;
use super::execute::{Outcome, TaskOutcome};
use super::machine::{Disturbance, Memory};
use super::solo::Solo;
use super::watch::{Exceeded, Overruns};
use crate::cli::bench::statistics::percentile;
use crate::cli::output::milliseconds;
use crate::cli::pin::listed;
use crate::cli::run::report::known;
use crate::cli::table::Table;
use eyelet_planner::size;
use eyelet_tasks::set::decided::{Decided, order};
use eyelet_tasks::set::units::human_ns;
use serde::Serialize;
use std::fmt;

/// How jobs arrive.
pub const PERIODIC: &str = "periodic";
pub const POISSON: &str = "poisson";

#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether the test admits the set with what was measured.
    pub admitted: bool,
    pub threads: u32,
    /// The cores of the threads that computed, where a board names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute_cores: Option<Vec<usize>>,
    pub io: &'static str,
    /// How jobs arrived: `periodic`, or `poisson`.
    pub arrivals: &'static str,
    pub seed: u64,
    pub elapsed_ms: f64,
    pub open_ms: f64,
    /// It was ended by a signal.
    pub stopped: bool,
    pub order: &'static str,
    pub chunk_bytes: u64,
    /// Chunks of memory that the networks share.
    pub pool: u32,
    /// What the test counts for a chunk.
    pub chunk_ms: f64,
    /// The longest that one took.
    pub worst_chunk_ms: f64,
    pub memory: Memory,
    #[serde(flatten)]
    pub disturbance: Disturbance,
    /// What the owner of the set should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    pub jobs: u64,
    pub missed: u64,
    /// Whether every job's outputs were those of its network alone.
    pub outputs_as_alone: bool,
    /// Whether nothing took longer than the test counts. Otherwise it promises nothing.
    pub costs_held: bool,
    pub exceeded: Exceeded,
    /// When the thread that computes did not look although it had nothing to compute: what arrived was seen late.
    pub pauses: Exceeded,
    /// Whether nothing exceeded what the test counts, and there were no pauses: then the test promises that no job is late.
    pub promise_applied: bool,
    pub costs: Costs,
    pub tasks: Vec<TaskReport>,
}

#[derive(Debug, Serialize)]
pub struct TaskReport {
    pub name: String,
    pub budget_bytes: u64,
    pub jobs: u64,
    /// From arrival to end.
    pub response_ms: Response,
    /// No response is longer, by the test, if that admits the set.
    pub bound_ms: Option<f64>,
    pub deadline_ms: f64,
    /// Jobs that ended late, were lost, or failed.
    pub missed: u64,
    pub late: u64,
    /// Their predecessor was unfinished when they arrived, or they themselves were at the end.
    pub lost: u64,
    pub failed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    pub swapped_chunks: u32,
    pub chunks_per_job: f64,
    /// Jobs, steps and chunks that took longer than the test counts.
    pub overruns: Overruns,
    /// Of the network alone: median, and what the test counts.
    pub alone_ms: f64,
    pub counted_ms: f64,
    /// Of the network's outputs, as `eyelet run` prints it.
    pub output_digest: String,
    /// Jobs with other outputs.
    pub different: u64,
}

/// Times of all jobs of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Response {
    pub min: f64,
    pub median: f64,
    pub p99: f64,
    pub max: f64,
}

impl Response {
    /// Of samples in nanoseconds, which are sorted.
    pub fn of(ns: &mut [u64]) -> Self {
        ns.sort_unstable();
        let at = |percent| milliseconds(percentile(ns, percent));
        Self { min: at(0), median: at(50), p99: at(99), max: at(100) }
    }
}

/// How a set was run, for its report.
pub struct Run<'a> {
    pub decided: &'a Decided,
    pub admitted: bool,
    pub threads: u32,
    pub compute_cores: Option<&'a [usize]>,
    pub notes: Vec<String>,
    pub io: &'static str,
    pub arrivals: &'static str,
    pub seed: u64,
    pub costs: Costs,
}

impl Report {
    pub fn new(run: &Run<'_>, solos: &[&Solo], outcome: Outcome) -> Self {
        let Run { decided, .. } = run;
        let chunk_bytes = decided.assignment.chunk_bytes;
        let Outcome { tasks, elapsed_ns, open_ns, memory, disturbance, .. } = outcome;
        let Outcome { worst_chunk_ns, stopped, pauses, .. } = outcome;
        let bounds = decided.assignment.bounds(&decided.set).filter(|_| run.arrivals == PERIODIC);
        let task = |(k, task)| {
            let bound_ns = bounds.as_ref().map(|bounds| bounds[k]);
            TaskReport::new((decided, k), solos[k], bound_ns, task)
        };
        let tasks: Vec<TaskReport> = tasks.into_iter().enumerate().map(task).collect();
        let exceeded = tasks.iter().map(|task| task.overruns.all());
        let exceeded = exceeded.reduce(Exceeded::and).unwrap_or_default();
        Self {
            admitted: run.admitted,
            threads: run.threads,
            compute_cores: run.compute_cores.map(<[usize]>::to_vec),
            notes: run.notes.clone(),
            io: run.io,
            arrivals: run.arrivals,
            seed: run.seed,
            elapsed_ms: milliseconds(elapsed_ns),
            open_ms: milliseconds(open_ns),
            stopped,
            order: order(decided.assignment.policy),
            chunk_bytes,
            pool: decided.pool(),
            chunk_ms: milliseconds(decided.set.storage.chunk_ns(chunk_bytes)),
            worst_chunk_ms: milliseconds(worst_chunk_ns),
            memory,
            disturbance,
            jobs: tasks.iter().map(|task| task.jobs).sum(),
            missed: tasks.iter().map(|task| task.missed).sum(),
            outputs_as_alone: tasks.iter().all(|task| task.different == 0),
            costs_held: exceeded.count == 0,
            exceeded,
            pauses,
            promise_applied: exceeded.count == 0 && pauses.count == 0,
            costs: run.costs.clone(),
            tasks,
        }
    }
}

impl TaskReport {
    fn new(
        (decided, k): (&Decided, usize),
        solo: &Solo,
        bound_ns: Option<u64>,
        outcome: TaskOutcome,
    ) -> Self {
        let task = &decided.set.tasks[k];
        let TaskOutcome { mut responses_ns, lost, late, failed, different, first_error, .. } =
            outcome;
        let (counts, overruns) = (outcome.counts, outcome.overruns);
        let jobs = responses_ns.len() as u64;
        let begun = (jobs + failed).max(1);
        Self {
            name: task.name.clone(),
            budget_bytes: decided.packs[k].budget,
            jobs,
            response_ms: Response::of(&mut responses_ns),
            bound_ms: bound_ns.map(milliseconds),
            deadline_ms: milliseconds(task.deadline_ns),
            missed: late + lost + failed,
            late,
            lost,
            failed,
            first_error,
            swapped_chunks: decided.assignment.chunks[k],
            chunks_per_job: (counts.chunks as f64 / begun as f64 * 100.0).round() / 100.0,
            overruns,
            alone_ms: solo.latency_ms.median,
            counted_ms: milliseconds(task.cost.compute_ns),
            output_digest: solo.example.digest.to_string(),
            different,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let test = match (self.admitted, self.arrivals) {
            (_, POISSON) => "it covers no random arrivals",
            (true, _) => "admitted",
            (false, _) => "not admitted",
        };
        let early = if self.stopped { ", ended by a signal" } else { "" };
        writeln!(
            f,
            "{} jobs in {}{early}, {} missed; the test: {test}",
            self.jobs,
            human_ns((self.elapsed_ms * 1e6) as u64),
            self.missed
        )?;
        if let Some(cores) = &self.compute_cores {
            writeln!(f, "cores        {}", listed(cores, None))?;
        }
        self.write_memory(f)?;
        let Disturbance { steal_percent, idle_percent, waited_ms } = self.disturbance;
        writeln!(
            f,
            "machine      {steal_percent:.1} % of its time stolen, {idle_percent:.1} % idle; other programs kept this one \
             waiting for {waited_ms:.1} ms"
        )?;
        self.write_costs(f)?;
        let as_alone = if self.outputs_as_alone { "yes" } else { "no" };
        writeln!(f, "outputs      as alone: {as_alone}\n")?;
        write!(f, "{}", self.table())?;
        for task in &self.tasks {
            self.write_faults(f, task)?;
        }
        Ok(())
    }
}

impl Report {
    /// A line for each task.
    fn table(&self) -> Table {
        let headers = [
            "task",
            "jobs",
            "min (ms)",
            "median (ms)",
            "p99 (ms)",
            "max (ms)",
            "bound (ms)",
            "deadline (ms)",
            "missed",
            "chunks a job",
            "overruns",
        ];
        let mut table = Table::new(1, headers).names();
        for task in &self.tasks {
            let Response { min, median, p99, max } = task.response_ms;
            // Without jobs there are no times.
            let known = |value: f64| match task.jobs {
                0 => "–".to_owned(),
                _ => format!("{value:.2}"),
            };
            let overruns = task.overruns.all().count;
            table.row([
                task.name.clone(),
                task.jobs.to_string(),
                known(min),
                known(median),
                known(p99),
                known(max),
                task.bound_ms.map_or("–".to_owned(), |ms| format!("{ms:.2}")),
                format!("{:.2}", task.deadline_ms),
                task.missed.to_string(),
                known(task.chunks_per_job),
                overruns.to_string(),
            ]);
        }
        table
    }

    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Memory { promised_bytes, before_bytes, peak_bytes, counted_bytes } = self.memory;
        writeln!(
            f,
            "memory       {} promised, {} taken; resident at most {}, {} of it before",
            size::human(promised_bytes),
            known(counted_bytes),
            known(peak_bytes),
            known(before_bytes)
        )?;
        writeln!(
            f,
            "pool         {} chunks of {}, each counted as {:.2} ms, {:.2} ms at worst; the order is by {}",
            self.pool,
            size::human(self.chunk_bytes),
            self.chunk_ms,
            self.worst_chunk_ms,
            self.order
        )
    }

    /// Whether what was counted held, and how it was counted.
    fn write_costs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |of: fn(&Overruns) -> Exceeded| -> u64 {
            self.tasks.iter().map(|task| of(&task.overruns).count).sum()
        };
        let Exceeded { worst_ms, worst_factor, .. } = self.exceeded;
        match self.costs_held {
            true => writeln!(f, "costs        held: nothing took longer than the test counts")?,
            false => writeln!(
                f,
                "costs        the promise did not apply: {} jobs, {} steps and {} chunks took longer than the test counts, \
                 the worst by {} ({worst_factor:.2} times as long)",
                sum(|overruns| overruns.jobs),
                sum(|overruns| overruns.steps),
                sum(|overruns| overruns.chunks),
                human_ns((worst_ms * 1e6) as u64)
            )?,
        }
        if self.pauses.count > 0 {
            let Exceeded { count, worst_ms, .. } = self.pauses;
            writeln!(
                f,
                "pauses       the promise did not apply: {count} times the thread was kept from running while it had nothing \
                 to compute, by up to {}, and the test counts none",
                human_ns((worst_ms * 1e6) as u64)
            )?;
        }
        let jobs = match self.costs.samples().unwrap_or_default() {
            (fewest, most) if fewest == most => most.to_string(),
            (fewest, most) => format!("{fewest} to {most}"),
        };
        let (rule, chunks) = (&self.costs.rule, self.costs.chunk_samples());
        writeln!(f, "counted      {rule}; {jobs} jobs of each network, {chunks} chunks")
    }

    /// What went wrong with a task's jobs, if anything did.
    fn write_faults(&self, f: &mut fmt::Formatter<'_>, task: &TaskReport) -> fmt::Result {
        let TaskReport { name, late, lost, failed, different, first_error, .. } = task;
        if late + lost + failed + different > 0 {
            writeln!(
                f,
                "{name}: {late} late, {lost} lost because the last job was unfinished, {failed} failed, {different} with \
                 other outputs"
            )?;
        }
        match first_error {
            Some(error) => writeln!(f, "{name}: the first error: {error}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_samples() {
        let mut ns: Vec<u64> = (1..=200).rev().map(|n| n * 1_000_000).collect();
        let response = Response::of(&mut ns);
        assert_eq!(response, Response { min: 1.0, median: 100.0, p99: 198.0, max: 200.0 });
        let mut one = [5_000_000];
        assert_eq!(Response::of(&mut one), Response { min: 5.0, median: 5.0, p99: 5.0, max: 5.0 });
        assert_eq!(Response::of(&mut []), Response::default());
    }

    const ONE: Exceeded = Exceeded { count: 1, worst_ms: 1.25, worst_factor: 2.5 };

    fn task(name: &str, jobs: u64) -> TaskReport {
        let mut ns = vec![1_234_567_000; jobs as usize];
        TaskReport {
            name: name.to_owned(),
            budget_bytes: 1 << 20,
            jobs,
            response_ms: Response::of(&mut ns),
            bound_ms: Some(9_000.0),
            deadline_ms: 10_000.0,
            missed: 0,
            late: 0,
            lost: 0,
            failed: 0,
            first_error: None,
            swapped_chunks: 4,
            chunks_per_job: 12.5,
            overruns: Overruns { jobs: ONE, steps: ONE, chunks: ONE },
            alone_ms: 1.0,
            counted_ms: 1.0,
            output_digest: String::new(),
            different: 0,
        }
    }

    #[test]
    fn the_table_fits_and_shows_no_times_without_jobs() {
        let report = Report {
            admitted: true,
            threads: 1,
            compute_cores: None,
            notes: Vec::new(),
            io: "direct",
            arrivals: PERIODIC,
            seed: 1,
            elapsed_ms: 1.0,
            open_ms: 1.0,
            stopped: false,
            order: "steps",
            chunk_bytes: 4096,
            pool: 4,
            chunk_ms: 1.0,
            worst_chunk_ms: 1.0,
            memory: Memory::default(),
            disturbance: Disturbance::default(),
            jobs: 100_000,
            missed: 0,
            outputs_as_alone: true,
            costs_held: false,
            exceeded: ONE,
            pauses: Exceeded::default(),
            promise_applied: false,
            costs: Costs::default(),
            tasks: vec![task("a camera at the front", 1000), task("idle", 0)],
        };
        let said = "costs        the promise did not apply: 2 jobs, 2 steps and 2 chunks took longer than the test \
                    counts, the worst by 1.25 ms (2.50 times as long)\n";
        assert!(report.to_string().contains(said), "{report}");
        let fitted = |columns: usize| {
            let mut text = String::new();
            report.table().fit(columns, &mut text).unwrap();
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            text
        };
        let text = fitted(80);
        assert_eq!(text.matches("1234.57").count(), 4, "{text}");
        let idle: String = fitted(200).lines().filter(|line| line.starts_with("idle")).collect();
        let cells: Vec<&str> = idle.split_whitespace().collect();
        assert_eq!(cells, ["idle", "0", "–", "–", "–", "–", "9000.00", "10000.00", "0", "–", "3"]);
    }
}
