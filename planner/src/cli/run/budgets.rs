//! `eyelet run --budgets`: one process, whose budget changes between inferences.

use super::super::error::RunError;
use super::cache::Cache;
use super::device::{Device as Computes, Gpu, with_gpu};
use super::fast::{self, FastMemory};
use super::input::Input;
use super::report::{Spread, known, of_shape};
use super::times::digest_of;
use super::{Chosen, Output, choose, process, tables};
use crate::cli::Error;
use crate::cli::budgets::{Budgets as Written, POINTS};
use crate::cli::output::{milliseconds, plural};
use crate::cli::pack_file::Strategies;
use crate::cli::pin::listed;
use crate::cli::progress::Progress;
use crate::cli::table::Table;
use eyelet::arena::{MappedArena, Pages, Regions, give_back_code};
use eyelet::device::threads::available_cores;
use eyelet::device::workers::Pool;
use eyelet::device::{Accelerator, Device};
use eyelet::executor::{Feed, Instance, Model, Options, Switch};
use eyelet::storage::Storage;
use eyelet_planner::cores::Cores;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Options for changing budgets.
#[derive(Debug, clap::Args)]
pub struct Budgets {
    /// Runs with each of these budgets in turn, in one process: for each the largest plan whose arena fits into it,
    /// without opening the pack again. Tells what each change takes. A range stands for 4 budgets, as in `eyelet plan`.
    #[arg(
        long = "budgets",
        value_name = "SIZE,…",
        allow_negative_numbers = true,
        value_parser = Written::parse,
        group = "sizes",
        conflicts_with_all = ["runs", "warmup", "layers", "output", "trace", "report", "speed", "lock"],
    )]
    pub list: Vec<Written>,
    /// Inferences with each of the budgets [default: 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), requires = "sizes")]
    pub runs_each: Option<u32>,
}

impl Budgets {
    /// Inferences with each.
    fn runs_each(&self) -> u32 {
        self.runs_each.unwrap_or(8)
    }

    /// In the order in which they are written.
    pub fn sizes(&self) -> Vec<u64> {
        self.list.iter().flat_map(|budgets| budgets.list(POINTS)).collect()
    }
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
    /// The cores of the threads that computed, and the loader's, where a board names them.
    #[serde(skip_serializing_if = "Option::is_none")]
    compute_cores: Option<Vec<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loader_core: Option<usize>,
    /// What the owner of the pack should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
    peak_rss_bytes: Option<u64>,
}

/// The inferences with one budget.
#[derive(Debug, Serialize)]
struct Phase {
    /// As asked for.
    budget_bytes: u64,
    plan_budget_bytes: u64,
    strategy: String,
    arena_bytes: u64,
    /// Of the process, after the inferences.
    rss_bytes: Option<u64>,
    /// Given back to the system after the change. A GPU's memory stays what it is.
    given_back_bytes: u64,
    giving_back_ms: f64,
    /// Taken from the system before the change, by a thread of its own.
    taken_bytes: u64,
    taking_ms: f64,
    /// Inferences of the old plan that were begun meanwhile.
    inferences_meanwhile: u32,
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
    let budgets = args.budgets.sizes();
    let most = budgets.iter().copied().max();
    let Chosen { entry: largest, header, shape, strategies, .. } =
        choose(path, storage, most, &args.dims)?;
    let threads = match computes {
        Computes::Cpu => args
            .inference
            .threads
            .unwrap_or_else(|| u32::from(largest.threads).min(available_cores() as u32))
            .max(1),
        Computes::Cuda(_) => 1,
    };
    let budget = budgets.first().copied().unwrap_or(u64::MAX);
    let options = args.options(threads, budget, largest.shape);
    let mut report = match computes {
        Computes::Cpu => {
            give_back_code();
            let mut arena = MappedArena::with(largest.arena_bytes as usize, args.inference.map())?;
            let (mut memory, pages) = arena.memory_and_pages();
            let mut fast = FastMemory::new(largest.fast_bytes())?;
            let mut fast = fast.memory();
            let start = Instant::now();
            let regions = Regions { arena: memory.as_mut_slice(), fast: fast::bytes(&mut fast) };
            let instance = Instance::open_in(storage, regions, options);
            let instance = instance.map_err(wrong)?;
            let opened = (instance, start);
            phases(
                args,
                output,
                options,
                opened,
                (storage, cache),
                Room::Pages(&pages),
                &strategies,
            )?
        }
        Computes::Cuda(number) => {
            let body = |gpu: &mut dyn Accelerator, storage: &mut _| {
                let start = Instant::now();
                let room = Room::Bytes(gpu.arena());
                let instance = Instance::open_on(storage, gpu, options).map_err(wrong)?;
                let opened = (instance, start);
                phases(args, output, options, opened, (storage, cache), room, &strategies)
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
    strategies: &Strategies,
) -> Result<Report, Error> {
    let threads = options.threads;
    let budgets = args.budgets.sizes();
    let skeleton = *instance.skeleton();
    let inputs = Input::all(&args.inputs, &skeleton)?;
    let mut report = Report {
        network: skeleton.name().to_owned(),
        shape: None,
        gpu: None,
        threads,
        io: args.inference.io.name(),
        slow_to_board: args.inference.slow_to_board.clone(),
        depth: matches!(room, Room::Pages(_)).then(|| args.under_way(storage)),
        verify: options.verify,
        runs_each: args.budgets.runs_each(),
        open_ms: milliseconds(start.elapsed().as_nanos() as u64),
        phases: Vec::with_capacity(budgets.len()),
        compute_cores: None,
        loader_core: None,
        notes: Vec::new(),
        peak_rss_bytes: None,
    };
    let (apart, note) = match room {
        Room::Pages(_) => args.cores(storage, threads, true)?,
        Room::Bytes(_) => (Cores::default(), None),
    };
    report.compute_cores = apart.of_workers().map(<[usize]>::to_vec);
    report.loader_core = apart.reading.filter(|_| report.compute_cores.is_some());
    report.notes.extend(note);
    // Workers inherit where they may run; the loader counts the cores of the thread that starts it.
    apart.compute();
    // A GPU's steps are handed over by one thread: this.
    let pool = Pool::new();
    pool.scope(threads as usize, apart.of_workers(), |workers| {
        apart.free();
        instance.with_loader_on(apart.reading, storage, |model| {
            apart.compute();
            let progress = Progress::count(output, "running", budgets.len() as u64);
            for &budget in &budgets {
                report.phases.push(phase(model, workers, args, &inputs, room, budget, strategies)?);
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

/// What was taken from the system.
#[derive(Default)]
struct Taken {
    bytes: u64,
    time: Duration,
    inferences: u32,
}

/// Has a thread take what was given back of a part of the arena, while inferences of the old plan go on. A system that
/// cannot do that takes nothing: pages come when they are touched.
fn take(
    (model, device): (&mut Model<'_, '_, impl Feed>, &dyn Device),
    args: &super::Args,
    inputs: &[Input],
    pages: &Pages<'_>,
    part: Range<u64>,
) -> Result<Taken, Error> {
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let start = Instant::now();
            (pages.take(part).unwrap_or(0), start.elapsed())
        });
        let mut inferences = 0;
        while !taking.is_finished() {
            inferences += 1;
            infer(model, device, args, inputs, inferences)?;
        }
        let (bytes, time) = taking.join().unwrap_or_default();
        Ok(Taken { bytes, time, inferences })
    })
}

/// One inference, and how long it took.
fn infer(
    model: &mut Model<'_, '_, impl Feed>,
    device: &dyn Device,
    args: &super::Args,
    inputs: &[Input],
    number: u32,
) -> Result<u64, Error> {
    for (index, input) in inputs.iter().enumerate() {
        input.write(model, index)?;
    }
    let start = Instant::now();
    model
        .infer(device)
        .map_err(|source| tables::failed(model.skeleton(), &args.pack, number, source))?;
    Ok(start.elapsed().as_nanos() as u64)
}

/// Changes to a budget and runs its inferences.
fn phase(
    model: &mut Model<'_, '_, impl Feed>,
    device: &dyn Device,
    args: &super::Args,
    inputs: &[Input],
    room: Room<'_, '_>,
    budget: u64,
    strategies: &Strategies,
) -> Result<Phase, Error> {
    let runs = args.budgets.runs_each();
    let mut latency = Vec::with_capacity(runs as usize);
    // No plan is larger than the arena, but a budget may be.
    let most = budget.min(room.bytes());
    let changed = |source| RunError::Switch { path: args.pack.clone(), budget, source };
    let used = model.entry().arena_bytes;
    let taken = match room {
        Room::Pages(pages) if most > used => {
            take((model, device), args, inputs, pages, used..most)?
        }
        _ => Taken::default(),
    };
    let switch = model.set_budget(most).map_err(changed)?;
    let start = Instant::now();
    let given_back_bytes = match room {
        Room::Pages(pages) => pages.give_back(model.unused())?,
        Room::Bytes(_) => 0,
    };
    let giving_back = start.elapsed();
    let mut digest = None;
    give_back_code();
    for number in 1..=runs {
        latency.push(infer(model, device, args, inputs, number)?);
        let found = digest_of(model);
        let expected = *digest.get_or_insert(found);
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(RunError::Unstable { number, found, expected }.into());
        }
    }
    let entry = *model.entry();
    Ok(Phase {
        budget_bytes: budget,
        plan_budget_bytes: entry.budget,
        strategy: strategies.name(&entry),
        arena_bytes: entry.arena_bytes,
        rss_bytes: process::status_bytes("VmRSS"),
        given_back_bytes,
        giving_back_ms: milliseconds(giving_back.as_nanos() as u64),
        taken_bytes: taken.bytes,
        taking_ms: milliseconds(taken.time.as_nanos() as u64),
        inferences_meanwhile: taken.inferences,
        first_ms: milliseconds(latency.first().copied().unwrap_or(0)),
        latency_ms: Spread::of(&mut latency),
        switch: switch.into(),
        output_digest: digest.map(|digest| digest.to_string()).unwrap_or_default(),
    })
}

impl Report {
    /// A line for each budget.
    fn table(&self) -> Table {
        let mut table = Table::new(
            1,
            [
                "budget",
                "plan",
                "arena",
                "process",
                "median (ms)",
                "first (ms)",
                "executing (ms)",
                "reading (ms)",
                "taking pages (ms)",
                "giving back (ms)",
                "weights kept",
                "weights moved",
                "weights read",
                "digest",
            ],
        );
        for phase in &self.phases {
            let switch = &phase.switch;
            table.row([
                size::human(phase.budget_bytes),
                size::human(phase.plan_budget_bytes),
                size::human(phase.arena_bytes),
                phase.rss_bytes.map_or("?".to_owned(), size::human),
                format!("{:.2}", phase.latency_ms.median),
                format!("{:.2}", phase.first_ms),
                format!("{:.3}", switch.execution_ms),
                format!("{:.3}", switch.read_ms),
                format!("{:.3}", phase.taking_ms),
                format!("{:.3}", phase.giving_back_ms),
                size::human(switch.resident_kept_bytes),
                size::human(switch.resident_moved_bytes),
                size::human(switch.resident_read_bytes),
                phase.output_digest.clone(),
            ]);
        }
        table
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        if let Some(cores) = &self.compute_cores {
            writeln!(f, "{}", listed(cores, self.loader_core))?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        write!(f, "\n{}", self.table())?;
        writeln!(
            f,
            "\nA change executes (all but reads: tables, their proof, moves) and reads. Before\n\
             it a thread takes the pages of a larger budget from the system, while inferences\n\
             of the old plan go on. After it the pages that a smaller one leaves are given\n\
             back. kept, moved, read: resident weights."
        )
    }
}
