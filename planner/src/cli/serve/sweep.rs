//! Latency by throughput: requests for several networks at rising rates (the serving figure of SwapAdvisor).

use super::Args;
use super::arrivals::Kind;
use super::execute::{Outcome, execute};
use super::inject::Faults;
use super::machine::{Disturbance, Memory};
use super::maps;
use super::measured::Measured;
use super::packs::Packs;
use super::prepare::{costs, decide, declared, packs_of};
use super::report::Response;
use super::wanted::Wanted;
use crate::cli::Error;
use crate::cli::output::Output;
use crate::cli::run::report::known;
use crate::cli::table::Table;
use eyelet_planner::size;
use eyelet_tasks::set::decided::{Decided, Pack};
use eyelet_tasks::set::file::Declared;
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Serialize)]
struct Report {
    memory_bytes: u64,
    seed: u64,
    points: Vec<Point>,
}

/// One rate of one number of networks.
#[derive(Debug, Serialize)]
struct Point {
    networks: u32,
    /// Bytes of all networks together.
    demand_bytes: u64,
    /// Jobs a second that arrive, and that end.
    rate: f64,
    throughput: f64,
    jobs: u64,
    failed: u64,
    /// From arrival to end.
    response_ms: Response,
    chunks_per_job: f64,
    outputs_as_alone: bool,
    memory: Memory,
    #[serde(flatten)]
    disturbance: Disturbance,
}

/// Serves every number of networks at every rate.
pub fn run(
    args: &Args,
    (file, text): (&Path, &str),
    mut measured: Measured,
    stop: &AtomicBool,
    output: Output,
) -> Result<(), Error> {
    let mut packs = Packs::new(args.calibration, output);
    let first = declared(file, text)?;
    let declared = costs((file, text), &first, &mut measured, &mut packs)?;
    let of_tasks = packs_of(file, &declared, &mut packs)?;
    let counts = match args.networks.as_slice() {
        [] => vec![declared.set.tasks.len() as u32],
        counts => counts.to_vec(),
    };
    let mut points = Vec::new();
    'all: for count in counts {
        for &rate in &args.rates {
            let (declared, of_tasks) = repeated(&declared, &of_tasks, count, rate);
            let (decided, _) = decide(file, &declared, &of_tasks, &measured)?;
            maps::check(file, &decided)?;
            points.push(point(args, &decided, &measured, rate, stop, output)?);
            if stop.load(Ordering::Relaxed) {
                break 'all;
            }
        }
    }
    output.report(&Report { memory_bytes: declared.set.memory_bytes, seed: args.seed, points })
}

/// So many networks, which take turns among the tasks of a set, and get requests at this rate together.
fn repeated(declared: &Declared, packs: &[Pack], count: u32, rate: f64) -> (Declared, Vec<Pack>) {
    let mut more = declared.clone();
    let turns = || (0..count as usize).map(|n| n % declared.set.tasks.len());
    let period_ns = (f64::from(count) / rate * 1e9) as u64;
    let task = |(n, k): (usize, usize)| {
        let mut task = declared.set.tasks[k].clone();
        task.name = format!("{} {}", task.name, n + 1);
        (task.period_ns, task.deadline_ns, task.jitter_ns) = (period_ns, period_ns, 0);
        task
    };
    more.set.tasks = turns().enumerate().map(task).collect();
    more.plans = turns().map(|k| declared.plans[k].clone()).collect();
    more.sources = turns().map(|k| declared.sources[k].clone()).collect();
    (more, turns().map(|k| packs[k].clone()).collect())
}

fn point(
    args: &Args,
    decided: &Decided,
    measured: &Measured,
    rate: f64,
    stop: &AtomicBool,
    output: Output,
) -> Result<Point, Error> {
    let tasks = &decided.set.tasks;
    let wanted = Wanted {
        decided,
        measured,
        how: measured.how.clone(),
        arrivals: Kind::Poisson,
        seed: args.seed,
        duration_ns: args.duration,
        jobs: None,
        samples: None,
        faults: vec![Faults::default(); tasks.len()],
        trace: false,
        stop,
        output,
    };
    let Outcome { tasks: outcomes, elapsed_ns, memory, disturbance, .. } = execute(&wanted)?;
    let chunks: u64 = outcomes.iter().map(|task| task.counts.chunks).sum();
    let failed = outcomes.iter().map(|task| task.failed + task.lost).sum();
    let outputs_as_alone = outcomes.iter().all(|task| task.different == 0);
    let mut all: Vec<u64> = outcomes.into_iter().flat_map(|task| task.responses_ns).collect();
    let jobs = all.len() as u64;
    let rounded = |value: f64| (value * 1e3).round() / 1e3;
    Ok(Point {
        networks: tasks.len() as u32,
        demand_bytes: tasks.iter().map(|task| task.cost.bytes).sum(),
        rate,
        throughput: rounded(jobs as f64 / (elapsed_ns.max(1) as f64 / 1e9)),
        jobs,
        failed,
        response_ms: Response::of(&mut all),
        chunks_per_job: rounded(chunks as f64 / jobs.max(1) as f64),
        outputs_as_alone,
        memory,
        disturbance,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "requests at random, in {}\n", size::human(self.memory_bytes))?;
        write!(f, "{}", self.table())?;
        for point in self.points.iter().filter(|point| point.failed > 0 || !point.outputs_as_alone)
        {
            let as_alone = if point.outputs_as_alone { "yes" } else { "no" };
            let Point { networks, rate, failed, .. } = point;
            writeln!(
                f,
                "{networks} networks at {rate:.2} a second: {failed} failed; outputs as alone: {as_alone}"
            )?;
        }
        Ok(())
    }
}

impl Report {
    /// A line for each point.
    fn table(&self) -> Table {
        let headers = [
            "networks",
            "rate/s",
            "ended/s",
            "jobs",
            "median (ms)",
            "p99 (ms)",
            "max (ms)",
            "chunks a job",
            "all networks",
            "memory taken",
            "steal",
        ];
        let mut table = Table::new(2, headers);
        for point in &self.points {
            let Response { median, p99, max, .. } = point.response_ms;
            table.row([
                point.networks.to_string(),
                format!("{:.2}", point.rate),
                format!("{:.2}", point.throughput),
                point.jobs.to_string(),
                format!("{median:.2}"),
                format!("{p99:.2}"),
                format!("{max:.2}"),
                format!("{:.2}", point.chunks_per_job),
                size::human(point.demand_bytes),
                known(point.memory.counted_bytes),
                format!("{:.1} %", point.disturbance.steal_percent),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_a_terminal() {
        let point = Point {
            networks: 16,
            demand_bytes: 987 << 20,
            rate: 1234.5,
            throughput: 1200.25,
            jobs: 100_000,
            failed: 0,
            response_ms: Response { min: 1.0, median: 1234.5, p99: 23456.75, max: 34567.25 },
            chunks_per_job: 123.5,
            outputs_as_alone: true,
            memory: Memory { counted_bytes: Some(512 << 20), ..Memory::default() },
            disturbance: Disturbance { steal_percent: 12.5, ..Disturbance::default() },
        };
        let report = Report { memory_bytes: 512 << 20, seed: 1, points: vec![point] };
        let mut text = String::new();
        report.table().fit(80, &mut text).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for cell in ["1234.50", "1200.25", "23456.75", "34567.25", "987 MiB", "512 MiB", "12.5 %"] {
            assert!(text.contains(cell), "{cell}: {text}");
        }
    }
}
