//! `eyelet run`: inferences within a budget, measured.
//!
//! This verb is lean, since what it measures is itself: nothing of the planner runs, no file is read
//! into memory, inputs are read straight into the arena and outputs written straight from it. What the
//! process needs beyond its arena is code, stacks, and a few numbers for each inference. The code is that of the whole
//! command: what has read the command line and opened the pack is given back. `examples/c/run.c` is what a program needs that
//! does nothing else.

mod budgets;
mod cache;
mod device;
pub(super) mod input;
mod layers;
mod outputs;
pub(super) mod process;
mod report;
mod trace;

use super::files::Files;
use super::forecast::costs;
use super::output::milliseconds;
use super::pack_file::{PackFile, shape_of, strategy, too_short};
use super::progress::Progress;
use super::{Error, Output};
use cache::Cache;
use device::Device;
use eyelet::arena::{MappedArena, give_back_code};
use eyelet::device::threads::{available_cores, cores, pin_current};
use eyelet::device::workers::{MAX_THREADS, Pool};
use eyelet::device::{Accelerator, Inline};
use eyelet::executor::{self, Concurrent, Feed, Instance, Model, OpenError, Options};
use eyelet::kernels::{Isa, Kernels};
use eyelet::pack::{Header, PAGE, PlanEntry};
use eyelet::storage::{MAX_DEPTH, Storage};
use eyelet_planner::board::Board;
use eyelet_planner::cores::Cores;
use eyelet_planner::paced::Paced;
use eyelet_planner::profile::gauge;
use eyelet_planner::profile::{self, Profile};
use eyelet_planner::source::{Io, Source};
use eyelet_planner::{open::open, size};
use input::Input;
use layers::Layers;
use report::{Digest, Gauge, Gauged, Report, Spread, Tensor};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;
use trace::Recorder;

/// Runs a pack within a budget and tells time, memory, and a digest of the outputs.
///
/// Inputs and outputs are .npy files of 32-bit floats in the model's own layout. Without --input the
/// input is pseudo-random, about normally distributed, and the same in every run and on every machine.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The pack.
    #[arg(value_name = "FILE.pack")]
    pack: PathBuf,
    /// Runs the plan with the largest budget up to this [default: the largest in the pack].
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, value_parser = size::parse)]
    budget: Option<u64>,
    /// An input; once for each, in the model's order.
    #[arg(long = "input", value_name = "FILE.npy")]
    inputs: Vec<PathBuf>,
    /// Writes the outputs there, as NAME.npy.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Inferences that are measured.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// Inferences before those.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    warmup: u32,
    /// What computes: the processor, or GPU number N, the first being 0 [default: what the pack is for].
    #[arg(long, value_name = "cpu|cuda[:N]", value_parser = Device::parse)]
    device: Option<Device>,
    /// Compute threads [default: as planned, but no more than there are cores]. The loader has its own.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_THREADS as i64))]
    threads: Option<u32>,
    /// How weights are read: past the page cache, through it, or from a map of the whole pack.
    #[arg(long, value_enum, default_value_t = Io::Direct)]
    io: Io,
    /// Reads under way at once, at most: 1 is a load after the other [default: as many as the storage takes, 4 past the
    /// page cache; with --pace, and otherwise, 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_DEPTH as i64))]
    depth: Option<u32>,
    /// Has reads take as long as on a board, or by a profile: its name, or the path of a file. What this machine's
    /// storage takes longer for, it takes.
    #[arg(long, value_name = "BOARD|FILE.toml")]
    pace: Option<PathBuf>,
    /// Does not compare what is read with its checksums.
    #[arg(long)]
    no_verify: bool,
    /// Tells the time of each layer. On a GPU by the GPU's own clock.
    #[arg(long)]
    layers: bool,
    /// Writes the timeline of the measured inferences, and beside it the predicted one, for Perfetto
    /// (ui.perfetto.dev) or chrome://tracing. Its record takes memory of its own: some 40 bytes a step.
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Costs to predict that timeline with, as `eyelet profile` writes them [default: this machine's board's].
    #[arg(long, value_name = "FILE.toml", requires = "trace")]
    profile: Option<PathBuf>,
    /// Computes a small convolution between inferences, and tells how fast: whether a processor was slower than at
    /// other times, because others used it or because it was hot. Takes some 5 ms between two, and 0.3 MiB.
    /// With --json the rates just before and behind each inference are told.
    #[arg(long)]
    gauge: bool,
    #[command(flatten)]
    budgets: budgets::Budgets,
}

impl Args {
    /// The files that its options name; those of the outputs are known when the pack is open.
    fn files(&self) -> Files {
        let pace = self.pace.as_deref().and_then(Path::to_str);
        Files::default()
            .reads("the pack", [&self.pack])
            .reads("--input", &self.inputs)
            .reads("--profile", &self.profile)
            .reads_board("--pace", pace)
            .writes("--trace", &self.trace)
    }

    /// Reads under way at once, at most.
    fn under_way(&self, storage: &mut impl Storage) -> u32 {
        let takes = storage.queue().map_or(1, |queue| queue.depth() as u32);
        takes.min(self.depth.unwrap_or(u32::MAX))
    }

    /// Where loads are read and steps are computed, if that is better told than left to the system.
    fn cores(&self, storage: &mut impl Storage, threads: u32) -> Cores {
        match self.io == Io::Direct && self.pace.is_none() {
            true => Cores::find(storage, threads as usize),
            false => Cores::default(),
        }
    }

    /// How the pack is opened.
    fn options(&self, threads: u32, budget: u64) -> Options {
        let depth = self.depth.unwrap_or(u32::MAX);
        Options { verify: !self.no_verify, threads, budget, depth, ..Options::default() }
    }
}

const EXAMPLE: &str = "\
Example:
  eyelet run resnet152.pack --budget 24MiB --runs 10 --warmup 1
  eyelet run resnet152.pack --budget 24MiB --runs 3 --warmup 1 --trace run.json
  eyelet run resnet152.pack --budgets 16MiB,48MiB,24MiB --runs-each 32
  eyelet run resnet152-cuda.pack --device cuda --runs 10";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let rss_before_bytes = process::status_bytes("VmRSS");
    let path = &args.pack;
    let wrong = |source| Error::pack(path, source);
    args.files().check()?;
    let c_path = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Error::Read { path: path.clone(), source: error.into() })?;
    let pace = args.pace.as_deref().map(pace_of).transpose()?;
    let storage = Source::open(&c_path, args.io).map_err(|error| wrong(error.into()))?;
    let mut cache = Cache::of(&storage, args.io);
    cache.clear();
    let mut storage = Paced::new(storage, pace);
    let (entry, header) = choose(path, &mut storage, args.budget)?;
    cache.expect(header.file_bytes);
    let device = args.device.unwrap_or(Device::of(header.isa));
    if let Device::Cuda(_) = device {
        let options = [("--trace", args.trace.is_some()), ("--threads", args.threads.is_some())];
        if let Some((option, _)) = options.into_iter().find(|(_, given)| *given) {
            return Err(Error::NotOnGpu { option });
        }
    }
    if !args.budgets.list.is_empty() {
        return budgets::run(&args, output, &mut storage, &cache, device);
    }
    // What comes after the inferences must not fail for what can be known before, nor for what becomes of the path meanwhile.
    let costs = match (&args.trace, Isa::from_code(header.isa)) {
        (Some(_), Some(isa)) => Some(costs(path, isa, args.profile.as_deref())?),
        _ => None,
    };
    let again = (args.layers || args.trace.is_some()).then(|| open(path)).transpose();
    let again = again.map_err(|source| Error::Read { path: path.clone(), source })?;

    let threads = match device {
        Device::Cpu => args.threads.unwrap_or(entry.threads.min(available_cores() as u32)).max(1),
        Device::Cuda(_) => 1,
    };
    let recorder = args.trace.is_some().then(Recorder::new);
    let options = args.options(threads, u64::MAX);
    let gpu = device != Device::Cpu;
    let mut session = Session {
        args: &args,
        output,
        cache: &cache,
        entry,
        options,
        gpu,
        open_ns: 0,
        rss_before_bytes,
    };
    let mut report = match device {
        Device::Cpu => {
            give_back_code();
            let mut arena = MappedArena::new(entry.arena_bytes as usize)?;
            let mut memory = arena.memory();
            let start = Instant::now();
            let instance = Instance::open(&mut storage, memory.as_mut_slice(), options);
            session.open_ns = start.elapsed().as_nanos() as u64;
            session.infer(instance.map_err(wrong)?, &mut storage, recorder.as_ref())?
        }
        Device::Cuda(number) => {
            let start = Instant::now();
            let body = |gpu: &mut dyn Accelerator, storage: &mut _| {
                let instance = Instance::open_on(storage, gpu, options);
                session.open_ns = start.elapsed().as_nanos() as u64;
                session.infer(instance.map_err(wrong)?, storage, None)
            };
            let (report, gpu) =
                device::with_gpu(number, path, &mut storage, &header, &entry, args.layers, body)?;
            Report { gpu: Some(gpu), ..report }
        }
    };

    report.peak_rss_bytes = process::status_bytes("VmHWM");
    report.page_cache_bytes = cache.held();
    let mut traced = Ok(());
    if let Some(file) = &again {
        let pack = PackFile::of(path, file);
        if let Some(layers) = &mut report.layers {
            name_layers(layers, pack.as_ref().ok());
        }
        if let (Some(to), Some(recorder), Some(costs)) = (&args.trace, &recorder, costs) {
            let depth = report.depth.unwrap_or(1);
            let recorded = trace::Recorded { recorder, entry: &entry, threads, depth };
            traced = pack.and_then(|pack| trace::write(to, &recorded, &pack, costs));
        }
    }
    // The inferences are done, whatever became of their timeline.
    output.report(&report)?;
    traced
}

/// Names the layers, by their numbers where the pack cannot be read any more.
fn name_layers(layers: &mut [layers::LayerTimes], pack: Option<&PackFile>) {
    let names = pack.and_then(|pack| pack.names().ok());
    for (index, layer) in layers.iter_mut().enumerate() {
        layer.name = names.map_or_else(|| index.to_string(), |names| names.of(index).to_owned());
    }
}

/// A run of a pack that is being opened, wherever that is.
struct Session<'a> {
    args: &'a Args,
    output: Output,
    cache: &'a Cache,
    entry: PlanEntry,
    options: Options,
    /// Whether a GPU computes.
    gpu: bool,
    open_ns: u64,
    rss_before_bytes: Option<u64>,
}

impl Session<'_> {
    /// Runs the inferences, and tells all but what the process has used.
    fn infer<'i>(
        &self,
        mut instance: Instance<'i>,
        storage: &mut (impl Storage + Send),
        recorder: Option<&'i Recorder>,
    ) -> Result<Report, Error> {
        let Self { args, output, cache, entry, options, .. } = self;
        let threads = options.threads;
        if let Some(recorder) = recorder {
            recorder.expect(instance.plan(), args.runs as usize, args.warmup);
            instance.observe(Some(recorder));
        }
        let skeleton = *instance.skeleton();
        let name = |port: &eyelet::pack::Port| skeleton.text(port.name).to_owned();
        let mut report = Report {
            network: skeleton.name().to_owned(),
            strategy: strategy(entry),
            budget_bytes: entry.budget,
            arena_bytes: entry.arena_bytes,
            threads,
            io: args.io.name(),
            pace: args.pace.clone(),
            depth: (!self.gpu).then(|| args.under_way(storage)),
            verify: options.verify,
            runs: args.runs,
            warmup: args.warmup,
            open_ms: milliseconds(self.open_ns),
            bytes_read_per_inference: instance
                .plan()
                .loads
                .iter()
                .map(|l| u64::from(l.bytes))
                .sum(),
            resident_bytes: instance.plan().resident.iter().map(|l| u64::from(l.bytes)).sum(),
            predicted_ms: (entry.predicted_ns > 0).then(|| milliseconds(entry.predicted_ns)),
            predicted_threads: (entry.predicted_ns > 0 && threads != entry.threads)
                .then_some(entry.threads),
            rss_before_bytes: self.rss_before_bytes,
            outputs: skeleton
                .outputs
                .iter()
                .map(|port| Tensor { name: name(port), shape: shape_of(port), file: None })
                .collect(),
            ..Report::default()
        };
        let inputs = Input::all(&args.inputs, skeleton.inputs, name)?;
        if let Some(folder) = &args.output {
            outputs::decide(folder, &mut report.outputs)?;
            let files = report.outputs.iter().filter_map(|tensor| tensor.file.as_ref());
            args.files().writes("--output", files).check()?;
        }
        let steps = &instance.plan().steps;
        let mut layers = args.layers.then(|| Layers::new(&skeleton, steps, args.runs as usize));
        if self.gpu {
            // The processor only hands steps over.
            instance.with_loader(storage, |model| {
                measure(
                    model,
                    &Inline,
                    (args, *output, cache),
                    &inputs,
                    &mut report,
                    layers.as_mut(),
                )
            })??;
            report.layers = layers.map(Layers::finish);
            return Ok(report);
        }

        // With a thread for each core, each keeps to its own: otherwise the system sometimes wakes a worker on
        // the core of the thread that waits for it. A loader beside them needs the system to make room.
        let cores = cores::<MAX_THREADS>();
        let loads = !instance.plan().loads.is_empty();
        let alone = !loads && cores.len() == threads as usize;
        let cores = Some(&cores[..]).filter(|cores| alone && cores.len() > 1);
        let apart = if loads { args.cores(storage, threads) } else { Cores::default() };
        report.loader_core = apart.reading;
        // Workers inherit where they may run; the loader counts the cores of the thread that starts it.
        apart.compute();
        let pool = Pool::new();
        pool.scope(threads as usize, cores, |workers| {
            apart.free();
            instance.with_loader_on(apart.reading, storage, |model| {
                if let Some(core) = cores.and_then(<[usize]>::first) {
                    // Where that is forbidden, the system places it.
                    let _ = pin_current(*core);
                }
                apart.compute();
                measure(
                    model,
                    workers,
                    (args, *output, cache),
                    &inputs,
                    &mut report,
                    layers.as_mut(),
                )
            })
        })???;
        apart.free();
        report.layers = layers.map(Layers::finish);
        Ok(report)
    }
}

/// The storage of a board, or of a profile's file.
fn pace_of(name: &Path) -> Result<profile::Storage, Error> {
    let profile = match name.to_str().filter(|_| name.extension().is_none()) {
        Some(board) => Board::load(board)?.profile,
        None => Profile::load(name)
            .map_err(|source| Error::Profile { path: name.to_owned(), source })?,
    };
    Ok(profile.storage)
}

/// The plan with the largest budget up to `budget`, and the pack's header.
fn choose(
    path: &Path,
    storage: &mut impl Storage,
    budget: Option<u64>,
) -> Result<(PlanEntry, Header), Error> {
    let wrong = |source| Error::pack(path, source);
    let size = storage.len().map_err(|error| wrong(error.into()))?;
    if size < PAGE {
        let start =
            std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        return Err(wrong(too_short(&start, size)));
    }
    let mut page = MappedArena::new(PAGE as usize)?;
    let mut page = page.memory();
    storage.read(0, page.as_mut_slice()).map_err(|error| wrong(error.into()))?;
    let header = executor::header(page.as_slice(), size).map_err(wrong)?;
    let entries = || executor::entries(page.as_slice(), header.plans);
    let most = budget.unwrap_or(u64::MAX);
    let entry = entries().filter(|entry| entry.budget <= most).max_by_key(|entry| entry.budget);
    let Some(entry) = entry else {
        let plans = entries().map(|entry| entry.budget).collect();
        return Err(Error::Budget { path: path.to_owned(), budget: most, plans });
    };
    match entry.arena_bytes {
        // The map is made before anything else of the plan is looked at.
        PAGE..=MOST_ARENA => Ok((entry, header)),
        found => Err(wrong(OpenError::Flaw(eyelet::pack::Flaw {
            what: "plan: bytes of arena",
            index: eyelet::pack::NONE,
            found,
            limit: MOST_ARENA,
        }))),
    }
}

/// No plan has a larger arena.
const MOST_ARENA: u64 = 1 << 44;

/// Runs and measures the inferences, and writes the outputs of the last one.
fn measure(
    model: &mut Model<'_, '_, Concurrent<'_, '_>>,
    device: &dyn eyelet::device::Device,
    (args, output, cache): (&Args, Output, &Cache),
    inputs: &[Input],
    report: &mut Report,
    mut layers: Option<&mut Layers>,
) -> Result<(), Error> {
    let runs = args.runs as usize;
    let (mut latency, mut period) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    let (mut compute, mut stall) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    let total = args.warmup + args.runs;
    let progress = Progress::count(output, "running", total.into());
    let mut digest = None;
    let kernels = Kernels::best();
    let convolution = args.gauge.then(|| gauge::network(kernels.isa()));
    let mut gauge = convolution.as_ref().and_then(|network| gauge::Gauge::new(network, kernels));
    let mut gauged = Vec::with_capacity(if args.gauge { runs } else { 0 });
    give_back_code();
    let mut before = gauge.as_mut().map(gauge::Gauge::gflops);
    for number in 1..=total {
        let turn = Instant::now();
        for (index, input) in inputs.iter().enumerate() {
            // Between two inferences, and with as many inputs as the model has, there is one.
            if let Some(floats) = model.input_mut(index) {
                input.fill(floats)?;
            }
        }
        let start = Instant::now();
        let failed = |source| Error::Infer { path: args.pack.clone(), number, source };
        match layers.as_deref_mut() {
            Some(layers) => layers.infer(model, device, number > args.warmup),
            None => model.infer(device),
        }
        .map_err(failed)?;
        let ns = start.elapsed().as_nanos() as u64;
        let found = digest_of(model);
        let expected = *digest.get_or_insert(found);
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(Error::Unstable { number, found, expected });
        }
        if number == 1 {
            report.first_ms = milliseconds(ns);
            cache.prove(&args.pack)?;
        }
        if number > args.warmup {
            latency.push(ns);
            period.push(turn.elapsed().as_nanos() as u64);
            compute.push(model.stats().compute_ns);
            stall.push(model.stats().stall_ns);
        }
        let behind = gauge.as_mut().map(gauge::Gauge::gflops);
        let counted = before.zip(behind).filter(|_| number > args.warmup);
        if let Some((before_gflops, behind_gflops)) = counted {
            let latency_ms = milliseconds(ns);
            gauged.push(Gauged { latency_ms, before_gflops, behind_gflops });
        }
        before = behind;
        progress.set(number.into());
    }
    drop(progress);
    report.latency_ms = Spread::of(&mut latency);
    report.period_ms = Spread::of(&mut period).median;
    report.compute_ms = Spread::of(&mut compute).median;
    report.stall_ms = Spread::of(&mut stall).median;
    report.gauge = gauge.map(|_| Gauge::of(gauged));
    report.output_digest = digest.map(|digest| digest.to_string()).unwrap_or_default();
    outputs::write(model, &report.outputs)
}

fn digest_of(model: &mut Model<'_, '_, impl Feed>) -> Digest {
    let mut digest = Digest::default();
    for index in 0..model.outputs().len() {
        if let Some(floats) = model.output(index) {
            digest.add(floats);
        }
    }
    digest
}
