//! `eyelet run --budgets`: one process, whose budget changes between inferences.

use super::cache::Cache;
use super::device::{Device as Computes, Gpu, with_gpu};
use super::input::Input;
use super::report::{Spread, known, of_shape};
use super::session::digest_of;
use super::{Chosen, Output, choose, process};
use crate::cli::Error;
use crate::cli::output::milliseconds;
use crate::cli::pack_file::strategy;
use crate::cli::progress::Progress;
use eyelet::arena::{MappedArena, Pages, give_back_code};
use eyelet::device::threads::available_cores;
use eyelet::device::workers::Pool;
use eyelet::device::{Accelerator, Device};
use eyelet::executor::{Feed, Instance, Model, Options, Switch};
use eyelet::storage::Storage;
use eyelet_planner::cores::Cores;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

/// Options for changing budgets.
#[derive(Debug, clap::Args)]
pub struct Budgets {
    /// Runs with each of these budgets in turn, in one process: for each the largest plan whose arena fits into it,
    /// without opening the pack again. Tells what each change takes.
    #[arg(
        long = "budgets",
        value_name = "SIZE,…",
        allow_negative_numbers = true,
        value_parser = size::parse,
        value_delimiter = ',',
        conflicts_with_all = ["budget", "runs", "warmup", "layers", "output", "trace", "speed"],
    )]
    pub list: Vec<u64>,
    /// Inferences with each of the budgets.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "list")]
    pub runs_each: u32,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Report {
    network: String,
    /// The name of its shape, of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Gpu>,
    threads: u32,
    io: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    slow_to_board: Option<PathBuf>,
    /// Reads under way at once, at most; not known of a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    depth: Option<u32>,
    verify: bool,
    runs_each: u32,
    open_ms: f64,
    phases: Vec<Phase>,
    peak_rss_bytes: Option<u64>,
}

/// The inferences with one budget.
#[derive(Debug, Serialize)]
struct Phase {
    /// As asked for.
    budget_bytes: u64,
    plan_budget_bytes: u64,
    strategy: &'static str,
    arena_bytes: u64,
    /// Of the process, after the inferences.
    rss_bytes: Option<u64>,
    /// Given back to the system after the change. A GPU's memory stays what it is.
    given_back_bytes: u64,
    /// Taken from the system before the change.
    taken_bytes: u64,
    /// What the system took for these.
    memory_ms: f64,
    /// From the last input written to the outputs there.
    latency_ms: Spread,
    /// Of the first inference after the change.
    first_ms: f64,
    /// Nothing in the first phase, whose plan was opened.
    switch: Switched,
    output_digest: String,
}

/// A change of budget.
#[derive(Debug, Serialize)]
struct Switched {
    total_ms: f64,
    /// All that is not reading, moving residents included.
    execution_ms: f64,
    move_ms: f64,
    /// Reading tables and residents, with the residents' checksums.
    read_ms: f64,
    table_bytes: u64,
    resident_kept_bytes: u64,
    resident_moved_bytes: u64,
    resident_read_bytes: u64,
}

impl From<Switch> for Switched {
    fn from(switch: Switch) -> Self {
        Self {
            total_ms: milliseconds(switch.total_ns),
            execution_ms: milliseconds(switch.total_ns.saturating_sub(switch.read_ns)),
            move_ms: milliseconds(switch.move_ns),
            read_ms: milliseconds(switch.read_ns),
            table_bytes: switch.table_bytes,
            resident_kept_bytes: switch.kept_bytes,
            resident_moved_bytes: switch.moved_bytes,
            resident_read_bytes: switch.read_bytes,
        }
    }
}

/// Runs the budgets, one after the other.
pub fn run(
    args: &super::Args,
    output: Output,
    storage: &mut (impl Storage + Send),
    cache: &Cache,
    computes: Computes,
) -> Result<(), Error> {
    let path = &args.pack;
    let wrong = |source| Error::pack(path, source);
    // The arena is that of the largest plan; each smaller one leaves its end unused.
    let most = args.budgets.list.iter().copied().max();
    let Chosen { entry: largest, header, shape } = choose(path, storage, most, &args.dims)?;
    let threads = match computes {
        Computes::Cpu => {
            args.threads.unwrap_or_else(|| largest.threads.min(available_cores() as u32)).max(1)
        }
        Computes::Cuda(_) => 1,
    };
    let budget = args.budgets.list.first().copied().unwrap_or(u64::MAX);
    let options = args.options(threads, budget, largest.shape);
    let mut report = match computes {
        Computes::Cpu => {
            give_back_code();
            let mut arena = MappedArena::new(largest.arena_bytes as usize)?;
            let (mut memory, pages) = arena.memory_and_pages();
            let start = Instant::now();
            let instance = Instance::open(storage, memory.as_mut_slice(), options);
            let instance = instance.map_err(wrong)?;
            phases(args, output, options, (instance, start), (storage, cache), Room::Pages(&pages))?
        }
        Computes::Cuda(number) => {
            let body = |gpu: &mut dyn Accelerator, storage: &mut _| {
                let start = Instant::now();
                let room = Room::Bytes(gpu.arena());
                let instance = Instance::open_on(storage, gpu, options).map_err(wrong)?;
                phases(args, output, options, (instance, start), (storage, cache), room)
            };
            let (report, gpu) = with_gpu(number, path, storage, &header, &largest, false, body)?;
            Report { gpu: Some(gpu), ..report }
        }
    };
    report.shape = shape;
    report.peak_rss_bytes = process::status_bytes("VmHWM");
    output.report(&report)
}

/// The memory that budgets are of.
#[derive(Clone, Copy)]
enum Room<'p, 'a> {
    /// The processor's: what a budget leaves of it is given back to the system.
    Pages(&'p Pages<'a>),
    /// So many bytes, which stay the GPU's.
    Bytes(u64),
}

impl Room<'_, '_> {
    fn bytes(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.bytes(),
            Self::Bytes(bytes) => *bytes,
        }
    }
}

/// The inferences of all budgets, by an instance that is being opened since then.
fn phases(
    args: &super::Args,
    output: Output,
    options: Options,
    (mut instance, start): (Instance<'_>, Instant),
    (storage, cache): (&mut (impl Storage + Send), &Cache),
    room: Room<'_, '_>,
) -> Result<Report, Error> {
    let threads = options.threads;
    let skeleton = *instance.skeleton();
    let inputs =
        Input::all(&args.inputs, skeleton.inputs, |port| skeleton.text(port.name).to_owned())?;
    let mut report = Report {
        network: skeleton.name().to_owned(),
        shape: None,
        gpu: None,
        threads,
        io: args.io.name(),
        slow_to_board: args.slow_to_board.clone(),
        depth: matches!(room, Room::Pages(_)).then(|| args.under_way(storage)),
        verify: options.verify,
        runs_each: args.budgets.runs_each,
        open_ms: milliseconds(start.elapsed().as_nanos() as u64),
        phases: Vec::with_capacity(args.budgets.list.len()),
        peak_rss_bytes: None,
    };
    let apart = match room {
        Room::Pages(_) => args.cores(storage, threads),
        Room::Bytes(_) => Cores::default(),
    };
    // Workers inherit where they may run; the loader counts the cores of the thread that starts it.
    apart.compute();
    // A GPU's steps are handed over by one thread: this.
    let pool = Pool::new();
    pool.scope(threads as usize, None, |workers| {
        apart.free();
        instance.with_loader_on(apart.reading, storage, |model| {
            apart.compute();
            let progress = Progress::count(output, "running", args.budgets.list.len() as u64);
            for &budget in &args.budgets.list {
                report.phases.push(phase(model, workers, args, &inputs, room, budget)?);
                if report.phases.len() == 1 {
                    cache.prove(&args.pack)?;
                }
                progress.set(report.phases.len() as u64);
            }
            Ok::<(), Error>(())
        })
    })???;
    apart.free();
    Ok(report)
}

/// Changes to a budget and runs its inferences.
fn phase(
    model: &mut Model<'_, '_, impl Feed>,
    device: &dyn Device,
    args: &super::Args,
    inputs: &[Input],
    room: Room<'_, '_>,
    budget: u64,
) -> Result<Phase, Error> {
    let runs = args.budgets.runs_each;
    let mut latency = Vec::with_capacity(runs as usize);
    // No plan is larger than the arena, but a budget may be.
    let most = budget.min(room.bytes());
    let changed = |source| Error::Switch { path: args.pack.clone(), budget, source };
    // What was given back is taken again before the change, so that the system's time for that is seen apart.
    let start = Instant::now();
    let more = most.saturating_sub(model.entry().arena_bytes) as usize;
    let taken_bytes = match (room, model.unused().get_mut(..more)) {
        (Room::Pages(pages), Some(part)) if more > 0 => pages.take(part).unwrap_or(0),
        _ => 0,
    };
    let taking = start.elapsed();
    let switch = model.set_budget(most).map_err(changed)?;
    let start = Instant::now();
    let given_back_bytes = match room {
        Room::Pages(pages) => pages.give_back(model.unused())?,
        Room::Bytes(_) => 0,
    };
    let memory = taking + start.elapsed();
    let mut digest = None;
    give_back_code();
    for number in 1..=runs {
        for (index, input) in inputs.iter().enumerate() {
            input.write(model, index)?;
        }
        let start = Instant::now();
        let failed = |source| Error::Infer { path: args.pack.clone(), number, source };
        model.infer(device).map_err(failed)?;
        latency.push(start.elapsed().as_nanos() as u64);
        let found = digest_of(model);
        let expected = *digest.get_or_insert(found);
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(Error::Unstable { number, found, expected });
        }
    }
    let entry = *model.entry();
    Ok(Phase {
        budget_bytes: budget,
        plan_budget_bytes: entry.budget,
        strategy: strategy(&entry),
        arena_bytes: entry.arena_bytes,
        rss_bytes: process::status_bytes("VmRSS"),
        given_back_bytes,
        taken_bytes,
        memory_ms: milliseconds(memory.as_nanos() as u64),
        first_ms: milliseconds(latency.first().copied().unwrap_or(0)),
        latency_ms: Spread::of(&mut latency),
        switch: switch.into(),
        output_digest: digest.map(|digest| digest.to_string()).unwrap_or_default(),
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        writeln!(
            f,
            "{}{}: {} budgets, {} inference{} each, {} thread{}, {} I/O{}; {:.2} ms to open, {} of the process at most",
            self.network,
            of_shape(self.shape.as_ref()),
            self.phases.len(),
            self.runs_each,
            plural(self.runs_each),
            self.threads,
            plural(self.threads),
            self.io,
            if self.verify { "" } else { ", checksums not compared" },
            self.open_ms,
            known(self.peak_rss_bytes)
        )?;
        if let Some(gpu) = &self.gpu {
            writeln!(f, "{gpu}")?;
        }
        writeln!(
            f,
            "\n{:>10} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  digest",
            "budget",
            "plan",
            "arena",
            "process",
            "median ms",
            "first ms",
            "memory ms",
            "change ms",
            "executing",
            "reading",
            "kept",
            "moved",
            "read"
        )?;
        for phase in &self.phases {
            let switch = &phase.switch;
            writeln!(
                f,
                "{:>10} {:>10} {:>10} {:>10} {:>9.2} {:>9.2} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9} {:>9} {:>9}  {}",
                size::human(phase.budget_bytes),
                size::human(phase.plan_budget_bytes),
                size::human(phase.arena_bytes),
                phase.rss_bytes.map_or("?".to_owned(), size::human),
                phase.latency_ms.median,
                phase.first_ms,
                phase.memory_ms,
                switch.total_ms,
                switch.execution_ms,
                switch.read_ms,
                size::human(switch.resident_kept_bytes),
                size::human(switch.resident_moved_bytes),
                size::human(switch.resident_read_bytes),
                phase.output_digest
            )?;
        }
        writeln!(
            f,
            "\nmemory ms: taking memory from the system before the change, or giving it back after. change ms:\n\
             executing (all but reads: tables, their proof, moves) and reading. kept, moved, read: resident weights."
        )
    }
}
