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
mod fast;
pub(super) mod input;
mod layers;
mod machine;
mod outputs;
mod paced;
pub(super) mod process;
pub(super) mod report;
mod session;
mod shape;
pub mod tables;
mod times;
mod trace;
pub(super) mod turns;

pub(super) use times::digest_of;

use super::budgets::{Budgets as Written, POINTS};
use super::error::RunError;
use super::files::Files;
use super::forecast::costs;
use super::inference::Inference;
use super::model::dim;
use super::pack_file::{PackFile, Strategies, too_short};
use super::pictures::{self, Options as Pictures};
use super::pin::Pinned;
use super::report::{By, Measured, draw};
use super::{Error, Output, lacks, misused};
use cache::Cache;
use clap::error::ErrorKind;
use device::Device;
use eyelet::arena::MappedArena;
use eyelet::device::threads::available_cores;
use eyelet::executor::{self, OpenError, Options};
use eyelet::kernels::Isa;
use eyelet::pack::{Header, LayerNames, PAGE, PlanEntry, ShapeEntry};
use eyelet::storage::Storage;
use eyelet_planner::board::Board;
use eyelet_planner::cores::Cores;
use eyelet_planner::open::{self, open};
use eyelet_planner::profile::{self, Profile};
use eyelet_planner::source::{Io, Source};
use paced::Paced;
use session::Session;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trace::Recorder;

/// Runs a pack within a budget and prints time, memory, and a digest of the outputs.
///
/// Inputs and outputs are .npy files in the model's own layout and type, or pictures. Without --input and --image the
/// input is pseudo-random, about normally distributed, and the same in every run and on every machine.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The pack.
    #[arg(value_name = "FILE.pack")]
    pack: PathBuf,
    /// Runs the plan with the largest budget up to this [default: the largest in the pack]. Several sizes are --budgets.
    #[arg(long, value_name = "SIZE[,…]", allow_negative_numbers = true, value_parser = Written::parse, group = "sizes")]
    budget: Option<Written>,
    /// Computes the shape of a pack of several that has this dimension, as in --dim seq=64 [default: the first shape].
    #[arg(long = "dim", value_name = "NAME=N", value_parser = dim)]
    dims: Vec<(String, usize)>,
    /// An input, as in --input ids=ids.npy; once for each. Those without a name are in the model's order.
    #[arg(long = "input", value_name = "[NAME=]FILE.npy")]
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
    #[command(flatten)]
    inference: Inference,
    /// Prints the time of each layer. On a GPU by the GPU's own clock.
    #[arg(long)]
    layers: bool,
    /// Writes the timeline of the measured inferences and the predicted one, both into this file, for Perfetto
    /// (ui.perfetto.dev) or chrome://tracing. Its record takes memory of its own: some 40 bytes a step.
    #[arg(long, value_name = "FILE.json")]
    trace: Option<PathBuf>,
    /// Writes a page that shows the plan with what was measured of it and of each layer, next to what is predicted. It
    /// has no other budgets, as the page of `eyelet plan --report` has.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Costs to predict the timeline or the page with, as `eyelet profile` writes them [default: this machine's].
    #[arg(long, value_name = "FILE.toml")]
    profile: Option<PathBuf>,
    /// Computes a small convolution between inferences, and prints how fast: whether a processor was slower than at
    /// other times, because others used it or because it was hot. Takes some 5 ms between two, and 0.3 MiB.
    /// With --json the report has the rates just before and after each inference.
    #[arg(long, alias = "gauge")]
    speed: bool,
    /// Runs as many inferences as each line of standard input says, and prints the times of each such turn.
    #[arg(long, hide = true, conflicts_with_all = ["runs", "warmup", "layers", "trace", "report", "speed", "image", "dir", "list"])]
    turns: bool,
    #[command(flatten)]
    budgets: budgets::Budgets,
    #[command(flatten)]
    pictures: Pictures,
}

impl Args {
    /// The files that its options name; those of the outputs are known when the pack is open.
    fn files(&self) -> Files {
        let inputs: Vec<PathBuf> =
            self.inputs.iter().map(|word| input::Named::of(word).path).collect();
        let files = Files::default()
            .reads("the pack", [&self.pack])
            .reads("--input", &inputs)
            .reads("--profile", &self.profile)
            .reads_board("--slow-to-board", self.inference.pace())
            .reads_board("--pin", self.inference.pin.pin.as_deref())
            .writes("--trace", &self.trace)
            .writes("--report", &self.report);
        let Pictures { image, labels, draw, csv, .. } = &self.pictures;
        files
            .reads("--image", image)
            .reads("--labels", labels)
            .writes("--draw", draw)
            .writes("--csv", csv)
    }

    /// Has several sizes after `--budget` be those of `--budgets`, with which some options make no sense.
    fn with_lists(mut self) -> Result<Self, Error> {
        let sizes = self.budget.as_ref().map_or(0, |budget| budget.list(POINTS).len());
        if sizes < 2 && (self.budget.is_none() || self.budgets.runs_each.is_none()) {
            return Ok(self);
        }
        let options = [
            ("--runs", self.runs != 1),
            ("--warmup", self.warmup != 0),
            ("--layers", self.layers),
            ("--output", self.output.is_some()),
            ("--trace", self.trace.is_some()),
            ("--report", self.report.is_some()),
            ("--speed", self.speed),
            ("--lock", self.inference.lock),
            ("--turns", self.turns),
        ];
        if let Some((option, _)) = options.into_iter().find(|(_, given)| *given) {
            let text = format!("the argument '--budget <SIZE,…>' cannot be used with '{option}'");
            return Err(misused("run", ErrorKind::ArgumentConflict, &text));
        }
        self.budgets.list.extend(self.budget.take());
        Ok(self)
    }

    /// The most that the plan may take, if that was said.
    fn most(&self) -> Option<u64> {
        self.budget.as_ref().and_then(|budget| budget.list(POINTS).first().copied())
    }

    /// Reads under way at once, at most.
    fn under_way(&self, storage: &mut impl Storage) -> u32 {
        let takes = storage.queue().map_or(1, |queue| queue.depth() as u32);
        takes.min(self.inference.depth.unwrap_or(u32::MAX))
    }

    /// Where steps are computed and loads, if there are any, are read: as a board says, or else where that is better decided
    /// than left to the system. And a note of what was refused.
    fn cores(
        &self,
        storage: &mut impl Storage,
        threads: u32,
        loads: bool,
    ) -> Result<(Cores, Option<String>), Error> {
        let Pinned { cores, note } = self.inference.pin.find(threads)?;
        let decides = self.inference.io == Io::Direct && self.inference.slow_to_board.is_none();
        let cores = cores.unwrap_or_else(|| match decides && loads {
            true => Cores::find(storage, threads as usize),
            false => Cores::default(),
        });
        Ok((cores, note))
    }

    /// How the pack is opened.
    fn options(&self, threads: u32, budget: u64, shape: u16) -> Options {
        let (depth, shape) = (self.inference.depth.unwrap_or(u32::MAX), shape.into());
        Options {
            verify: !self.inference.no_verify,
            threads,
            budget,
            shape,
            depth,
            ..Options::default()
        }
    }
}

const EXAMPLE: &str = "\
Example:
  eyelet run resnet152.pack --budget 24MiB --runs 10 --warmup 1
  eyelet run resnet152.pack --budget 24MiB --runs 3 --warmup 1 --trace run.json
  eyelet run resnet152.pack --image cat.jpg --labels imagenet.txt
  eyelet run resnet152.pack --budgets 16MiB,48MiB,24MiB --runs-each 32
  eyelet run bert.pack --dim seq=64
  eyelet run resnet152-cuda.pack --device cuda --runs 10";

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let rss_before_bytes = process::status_bytes("VmRSS");
    let args = args.with_lists()?;
    let path = &args.pack;
    let wrong = |source| Error::pack(path, source);
    args.files().check()?;
    let predicts = args.trace.is_some() || args.report.is_some();
    if args.profile.is_some() && !predicts {
        return Err(lacks("run", "--trace <FILE.json> or --report <FILE.html>"));
    }
    let c_path = CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Error::Read { path: path.clone(), source: error.into() })?;
    let pace = args.inference.slow_to_board.as_deref().map(pace_of).transpose()?;
    let storage = Source::open(&c_path, args.inference.io).map_err(|error| wrong(error.into()))?;
    let mut cache = Cache::of(&storage, args.inference.io);
    cache.clear();
    let mut storage = Paced::new(storage, pace);
    let Chosen { entry, header, at, shape, strategies } =
        choose(path, &mut storage, args.most(), &args.dims)?;
    cache.expect(header.file_bytes);
    let device = args.device.unwrap_or(Device::of(header.isa));
    args.fit(device)?;
    if !args.budgets.list.is_empty() {
        let body = || budgets::run(&args, output, &mut storage, &cache, device);
        return args.inference.first.run(body)?;
    }
    // What comes after the inferences must not fail for what can be known before, nor for what becomes of the path meanwhile.
    let costs = match Isa::from_code(header.isa).filter(|_| predicts) {
        Some(isa) => Some(costs(path, isa, args.profile.as_deref())?),
        None => None,
    };
    let again = (args.layers || predicts).then(|| open(path)).transpose();
    let again = again.map_err(|source| Error::Read { path: path.clone(), source })?;

    let threads = args.threads(device, &entry);
    let recorder = args.trace.is_some().then(Recorder::new);
    let session = Session {
        args: &args,
        output,
        cache: &cache,
        entry,
        at,
        strategies,
        options: args.options(threads, u64::MAX, entry.shape),
        shape,
        gpu: device != Device::Cpu,
        open_ns: 0,
        rss_before_bytes,
    };
    let body = || session.run(device, &header, &mut storage, recorder.as_ref());
    let mut report = args.inference.first.run(body)??;
    report.peak_rss_bytes = process::status_bytes("VmHWM");
    report.page_cache_bytes = cache.held();
    report.machine = machine::part(&report, &args, header.isa);
    let Pictures { draw, csv, .. } = &args.pictures;
    report.files.extend(draw.iter().chain(csv).cloned());
    let mut traced = Ok(());
    if let Some(file) = &again {
        let (pack, recorded) = (PackFile::of(path, file), (recorder.as_ref(), threads));
        traced = args.pictured(&mut report, pack, &entry, recorded, costs, output)?;
    }
    // The inferences are done, whatever became of their timeline.
    output.report(&report)?;
    traced?;
    Ok(pictures::unread(&report.unread, report.pictures.len())?)
}

impl Args {
    /// Refuses options that a device does not have.
    fn fit(&self, device: Device) -> Result<(), Error> {
        let options = [
            ("--trace", self.trace.is_some()),
            ("--report", self.report.is_some()),
            ("--threads", self.inference.threads.is_some()),
            ("--pin", self.inference.pin.pin.is_some()),
            ("--lock", self.inference.lock),
        ];
        match options.into_iter().find(|(_, given)| *given && device != Device::Cpu) {
            Some((option, _)) => Err(RunError::NotOnGpu { option }.into()),
            None => Ok(()),
        }
    }

    /// Threads that compute: as many as are asked for, or as the plan is for.
    fn threads(&self, device: Device, entry: &PlanEntry) -> u32 {
        let planned = || u32::from(entry.threads).min(available_cores() as u32);
        match device {
            Device::Cpu => self.inference.threads.unwrap_or_else(planned).max(1),
            Device::Cuda(_) => 1,
        }
    }

    /// Names the layers of a report, and writes the page and the timeline that were asked for. Returns what became of the
    /// timeline.
    fn pictured(
        &self,
        report: &mut report::Report,
        pack: Result<PackFile, Error>,
        entry: &PlanEntry,
        (recorder, threads): (Option<&Recorder>, u32),
        costs: Option<Profile>,
        output: Output,
    ) -> Result<Result<(), Error>, Error> {
        if let Some(layers) = &mut report.layers {
            name_layers(layers, pack.as_ref().ok(), entry.shape.into());
        }
        if let (Some(to), Some(costs), Ok(pack)) = (&self.report, &costs, &pack) {
            let by = By { profile: costs, threads, exact: false };
            drawn(report, self.layers, pack, entry, (to, by), output)?;
        }
        let (Some(to), Some(recorder), Some(costs)) = (&self.trace, recorder, costs) else {
            return Ok(Ok(()));
        };
        let depth = report.depth.unwrap_or(1);
        let recorded = trace::Recorded { recorder, entry, threads, depth };
        let traced = pack.and_then(|pack| trace::write(to, &recorded, &pack, costs));
        if traced.is_ok() {
            report.files.push(to.clone());
        }
        Ok(traced)
    }
}

/// Draws a plan with what was measured of it. Layers are not listed unless that was asked for.
fn drawn(
    report: &mut report::Report,
    lists_layers: bool,
    pack: &PackFile,
    entry: &PlanEntry,
    (to, by): (&Path, By<'_>),
    output: Output,
) -> Result<(), Error> {
    let layers = report.layers.as_deref().unwrap_or_default();
    let measured = Measured {
        runs: report.runs,
        latency_ms: report.latency_ms.median,
        least_ms: report.latency_ms.min,
        most_ms: report.latency_ms.max,
        compute_ms: report.compute_ms,
        stall_ms: report.stall_ms,
        layer_compute_ms: layers.iter().map(|layer| layer.compute_ms.median).collect(),
        layer_stall_ms: layers.iter().map(|layer| layer.stall_ms.median).collect(),
    };
    draw(to, pack, std::slice::from_ref(entry), by, Some(measured), output)?;
    report.files.push(to.to_owned());
    if !lists_layers {
        report.layers = None;
    }
    Ok(())
}

/// Names the layers, by their numbers where the pack cannot be read any more.
fn name_layers(layers: &mut [layers::LayerTimes], pack: Option<&PackFile>, shape: usize) {
    let names = pack.and_then(|pack| pack.names().ok());
    for (index, layer) in layers.iter_mut().enumerate() {
        let named = |names: LayerNames<'_>| names.of(shape, index).to_owned();
        layer.name = names.map_or_else(|| index.to_string(), named);
    }
}

/// The storage of a board, or of a profile's file.
fn pace_of(name: &Path) -> Result<profile::Storage, Error> {
    let profile = match name.to_str().filter(|_| name.extension().is_none()) {
        Some(board) => Board::load(board)?.profile,
        None => Profile::load(name)?,
    };
    Ok(profile.storage)
}

/// What is run of a pack.
struct Chosen {
    entry: PlanEntry,
    header: Header,
    /// Where the pack describes the network in its shape.
    at: ShapeEntry,
    /// The name of its shape, of several.
    shape: Option<String>,
    strategies: Strategies,
}

/// The plan with the largest budget up to `budget`, of the shape that has these dimensions.
fn choose(
    path: &Path,
    storage: &mut impl Storage,
    budget: Option<u64>,
    dims: &[(String, usize)],
) -> Result<Chosen, Error> {
    let wrong = |source| Error::pack(path, source);
    let size = storage.len().map_err(|error| wrong(error.into()))?;
    if size < PAGE {
        let start = open::read(path, PAGE)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        return Err(wrong(too_short(&start, size)));
    }
    let mut page = MappedArena::new(PAGE as usize)?;
    let mut page = page.memory();
    storage.read(0, page.as_mut_slice()).map_err(|error| wrong(error.into()))?;
    let header = executor::header(page.as_slice(), size).map_err(wrong)?;
    let (number, shape) = shape::find(path, storage, &header, dims)?;
    let entries = || {
        let all = executor::entries(page.as_slice(), header.plans);
        all.filter(|entry| usize::from(entry.shape) == number)
    };
    let most = budget.unwrap_or(u64::MAX);
    let entry = entries().filter(|entry| entry.budget <= most).max_by_key(|entry| entry.budget);
    let at = executor::shapes(page.as_slice(), header.shapes).nth(number);
    let Some((entry, at)) = entry.zip(at) else {
        let plans = entries().map(|entry| entry.budget).collect();
        return Err(RunError::Budget { path: path.to_owned(), budget: most, plans }.into());
    };
    match entry.arena_bytes {
        // The map is made before anything else of the plan is looked at.
        PAGE..=MOST_ARENA => {
            // Damage to what no inference needs stops none.
            let strategies = shape::strategies(path, storage, &header).unwrap_or_default();
            Ok(Chosen { entry, header, at, shape, strategies })
        }
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
