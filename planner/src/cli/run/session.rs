//! A run of a pack: opened on the processor or a GPU, its inferences measured.

use super::super::error::RunError;
use super::cache::Cache;
use super::device::{self, Device};
use super::fast::{self, FastMemory};
use super::input::Input;
use super::layers::Layers;
use super::report::{Digest, Probed, Report, Speed, Tensor};
use super::times::{Samples, add_outputs, digest_of};
use super::trace::Recorder;
use super::{Args, outputs, shape, tables, turns};
use crate::cli::output::milliseconds;
use crate::cli::pack_file::{Strategies, shape_of};
use crate::cli::pictures::{self, Seen, Unread, View};
use crate::cli::progress::Progress;
use crate::cli::{Error, Output};
use eyelet::arena::{MappedArena, Regions, give_back_code};
use eyelet::device::threads::{cores, pin_current};
use eyelet::device::workers::{MAX_THREADS, Pool};
use eyelet::device::{Accelerator, Inline};
use eyelet::executor::{Concurrent, Instance, Model, OpenError, Options};
use eyelet::kernels::{Isa, Kernels};
use eyelet::pack::{Flaw, Header, PlanEntry, Port, ShapeEntry, Skeleton};
use eyelet::proof::ProvenSkeleton;
use eyelet::storage::Storage;
use eyelet_profile::measure::speed_probe;
use std::time::Instant;

/// A run of a pack that is being opened, wherever that is.
pub(super) struct Session<'a> {
    pub(super) args: &'a Args,
    pub(super) output: Output,
    pub(super) cache: &'a Cache,
    pub(super) entry: PlanEntry,
    pub(super) strategies: Strategies,
    /// The name of its shape, of several.
    pub(super) shape: Option<String>,
    /// Where the pack describes the network in it.
    pub(super) at: ShapeEntry,
    pub(super) options: Options,
    /// Whether a GPU computes.
    pub(super) gpu: bool,
    pub(super) open_ns: u64,
    pub(super) rss_before_bytes: Option<u64>,
}

impl<'a> Session<'a> {
    /// Opens the pack where it is to run, and runs it there.
    pub(super) fn run(
        mut self,
        device: Device,
        header: &Header,
        storage: &mut (impl Storage + Send),
        recorder: Option<&Recorder>,
    ) -> Result<Report, Error> {
        let path = &self.args.pack;
        let wrong = |source| Error::pack(path, source);
        let options = self.options;
        let view = self.view(header, storage)?;
        let start = Instant::now();
        match device {
            Device::Cpu => {
                give_back_code();
                let mut arena =
                    MappedArena::with(self.entry.arena_bytes as usize, self.args.inference.map())?;
                let mut memory = arena.memory();
                let mut fast = FastMemory::new(self.entry.fast_bytes())?;
                let mut fast = fast.memory();
                let start = Instant::now();
                let regions =
                    Regions { arena: memory.as_mut_slice(), fast: fast::bytes(&mut fast) };
                let instance = Instance::open_in(storage, regions, options);
                self.open_ns = start.elapsed().as_nanos() as u64;
                self.infer(instance.map_err(wrong)?, storage, recorder, view)
            }
            Device::Cuda(number) => {
                let (entry, layers) = (self.entry, self.args.layers);
                let body = |gpu: &mut dyn Accelerator, storage: &mut _| {
                    let instance = Instance::open_on(storage, gpu, options);
                    self.open_ns = start.elapsed().as_nanos() as u64;
                    self.infer(instance.map_err(wrong)?, storage, None, view)
                };
                let (report, gpu) =
                    device::with_gpu(number, path, storage, header, &entry, layers, body)?;
                Ok(Report { gpu: Some(gpu), ..report })
            }
        }
    }

    /// The pictures of the run, if it is of pictures. One is decoded here, before there is an arena: it takes memory of its
    /// own, which is given back.
    fn view(&self, header: &Header, storage: &mut impl Storage) -> Result<Option<View<'a>>, Error> {
        let pictures = &self.args.pictures;
        if pictures.image.is_none() && pictures.dir.is_none() {
            return Ok(None);
        }
        let path = &self.args.pack;
        let wrong = |source| Error::pack(path, source);
        let ShapeEntry { offset, bytes, crc } = self.at;
        let section = shape::Section { name: "skeleton", offset, bytes: bytes.into(), crc };
        let mut pages = shape::room(section.bytes)?;
        let mut pages = pages.memory();
        let bytes = section.read(path, storage, pages.as_mut_slice())?;
        let isa = Isa::from_code(header.isa).ok_or(wrong(OpenError::Isa { found: header.isa }))?;
        let skeleton = Skeleton::view(bytes).map_err(|flaw| wrong(flaw.into()))?;
        ProvenSkeleton::new(skeleton, isa, header.weights_bytes)
            .map_err(|flaw| wrong(flaw.into()))?;
        let arena = self.entry.arena_bytes;
        for (index, port) in skeleton.inputs.iter().enumerate() {
            // What is proved of the plan later.
            let found = shape_of(port).iter().product::<usize>() as u64;
            if found > arena {
                let what = "input: elements beyond the arena";
                let flaw = Flaw { what, index: index as u32, found, limit: arena };
                return Err(wrong(flaw.into()));
            }
        }
        let name = |port: &Port| skeleton.text(port.name).to_owned();
        let described = |ports: &[Port]| ports.iter().map(|port| describe(port, name)).collect();
        let (ins, outs): (Vec<_>, Vec<_>) =
            (described(skeleton.inputs), described(skeleton.outputs));
        Ok(View::new(pictures, &ins, &outs)?)
    }

    /// Runs the inferences, and reports all but what the process has used.
    fn infer<'i>(
        &self,
        mut instance: Instance<'i>,
        storage: &mut (impl Storage + Send),
        recorder: Option<&'i Recorder>,
        mut view: Option<View<'_>>,
    ) -> Result<Report, Error> {
        let Self { args, output, cache, .. } = self;
        // The proof is made: what follows takes other code, next to the same arena.
        give_back_code();
        if let Some(recorder) = recorder {
            recorder.expect(instance.plan(), args.runs as usize, args.warmup);
            instance.observe(Some(recorder));
        }
        let skeleton = *instance.skeleton();
        let mut report = self.report(&instance, storage);
        let inputs = match &mut view {
            Some(view) => view.input().map(Input::Picture).into_iter().collect(),
            None => Input::all(&args.inputs, &skeleton)?,
        };
        let ports = inputs.iter().zip(skeleton.inputs);
        report.notes = ports.filter_map(|(input, port)| input.note(port)).collect();
        let mut given = Given { inputs, view };
        if let Some(folder) = &args.output {
            outputs::decide(folder, &mut report.outputs)?;
            let files = report.outputs.iter().filter_map(|tensor| tensor.file.as_ref());
            args.files().writes("--output", files).check()?;
        }
        let steps = &instance.plan().steps;
        let timed = args.layers || args.report.is_some();
        let mut layers = timed.then(|| Layers::new(&skeleton, steps, args.runs as usize));
        let around = (*args, *output, *cache);
        if self.gpu {
            // The processor only hands steps over.
            instance.with_loader(storage, |model| {
                infer(model, &Inline, around, &mut given, &mut report, layers.as_mut())
            })??;
        } else {
            self.on_cores(instance, storage, &mut given, &mut report, layers.as_mut())?;
        }
        report.layers = layers.map(Layers::finish);
        Ok(report)
    }

    /// What is known before the first inference.
    fn report(&self, instance: &Instance<'_>, storage: &mut impl Storage) -> Report {
        let Self { args, entry, options, .. } = self;
        let threads = options.threads;
        let skeleton = *instance.skeleton();
        let name = |port: &eyelet::pack::Port| skeleton.text(port.name).to_owned();
        Report {
            network: skeleton.name().to_owned(),
            shape: self.shape.clone(),
            strategy: self.strategies.name(entry),
            budget_bytes: entry.budget,
            arena_bytes: entry.arena_bytes,
            threads,
            io: args.inference.io.name(),
            slow_to_board: args.inference.slow_to_board.clone(),
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
            predicted_threads: (entry.predicted_ns > 0 && threads != u32::from(entry.threads))
                .then_some(entry.threads.into()),
            rss_before_bytes: self.rss_before_bytes,
            outputs: skeleton
                .outputs
                .iter()
                .map(|port| Tensor { name: name(port), shape: shape_of(port), file: None })
                .collect(),
            ..Report::default()
        }
    }

    /// Runs the inferences on processor cores, next to a loader.
    fn on_cores(
        &self,
        mut instance: Instance<'_>,
        storage: &mut (impl Storage + Send),
        given: &mut Given<'_>,
        report: &mut Report,
        layers: Option<&mut Layers>,
    ) -> Result<(), Error> {
        let Self { args, output, cache, options, .. } = self;
        let (threads, around) = (options.threads, (*args, *output, *cache));
        // With a thread for each core, each keeps to its own: otherwise the system sometimes wakes a worker on
        // the core of the thread that waits for it. A loader beside them needs the system to make room.
        let cores = cores::<MAX_THREADS>();
        let loads = !instance.plan().loads.is_empty();
        let alone = !loads && cores.len() == threads as usize;
        let (apart, note) = args.cores(storage, threads, loads)?;
        let cores = Some(&cores[..]).filter(|cores| alone && cores.len() > 1);
        let cores = apart.of_workers().or(cores);
        report.loader_core = apart.reading.filter(|_| loads);
        report.compute_cores = apart.of_workers().map(<[usize]>::to_vec);
        report.notes.extend(note);
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
                infer(model, workers, around, given, report, layers)
            })
        })???;
        apart.free();
        Ok(())
    }
}

/// A port as pictures and boxes see it.
fn describe(port: &Port, name: impl Fn(&Port) -> String) -> pictures::Port {
    let floats = !port.kind().is_integer();
    pictures::Port { name: name(port), shape: shape_of(port), floats }
}

/// What the inferences are of: the same inputs, or the pictures of a folder.
struct Given<'a> {
    inputs: Vec<Input>,
    view: Option<View<'a>>,
}

/// Runs the inferences, and says what pictures show.
fn infer(
    model: &mut Model<'_, '_, Concurrent<'_, '_>>,
    device: &dyn eyelet::device::Device,
    around: (&Args, Output, &Cache),
    given: &mut Given<'_>,
    report: &mut Report,
    layers: Option<&mut Layers>,
) -> Result<(), Error> {
    match &mut given.view {
        None if around.0.turns => {
            let (args, _, cache) = around;
            turns::serve(model, device, (&args.pack, cache), &given.inputs, report)?;
        }
        Some(view) if given.inputs.is_empty() => each_picture(model, device, around, view, report)?,
        Some(view) => {
            measure(model, device, around, &given.inputs, report, layers)?;
            report.pictures = view.finish(model)?;
        }
        None => measure(model, device, around, &given.inputs, report, layers)?,
    }
    outputs::write(model, &report.outputs)
}

/// Runs each picture of a folder once.
fn each_picture(
    model: &mut Model<'_, '_, Concurrent<'_, '_>>,
    device: &dyn eyelet::device::Device,
    (args, output, cache): (&Args, Output, &Cache),
    view: &View<'_>,
    report: &mut Report,
) -> Result<(), Error> {
    let progress = Progress::count(output, "running", view.paths.len() as u64);
    let mut samples = Samples::with_capacity(view.paths.len());
    let mut digest = Digest::default();
    for (number, path) in (1u32..).zip(&view.paths) {
        let turn = Instant::now();
        progress.set(number.into());
        let (values, placement) = match view.read(path) {
            Ok(picture) => picture,
            Err(error) => {
                let (file, error) = (path.clone(), error.to_string());
                report.unread.push(Unread { file, error });
                continue;
            }
        };
        Input::Picture(values).write(model, 0)?;
        let start = Instant::now();
        model
            .infer(device)
            .map_err(|source| tables::failed(model.skeleton(), &args.pack, number, source))?;
        let ns = start.elapsed().as_nanos() as u64;
        if report.pictures.is_empty() {
            report.first_ms = milliseconds(ns);
            cache.prove(&args.pack)?;
        }
        add_outputs(model, &mut digest);
        let seen = view.see(model, path, placement);
        report.pictures.push(Seen { latency_ms: Some(milliseconds(ns)), ..seen });
        samples.push(ns, turn, model.stats());
    }
    drop(progress);
    if report.pictures.is_empty() {
        return Ok(pictures::unread(&report.unread, 0)?);
    }
    report.runs = report.pictures.len() as u32;
    samples.report(report);
    report.output_digest = digest.to_string();
    Ok(view.write(None, &report.pictures)?)
}

/// Runs and measures the inferences.
fn measure(
    model: &mut Model<'_, '_, Concurrent<'_, '_>>,
    device: &dyn eyelet::device::Device,
    (args, output, cache): (&Args, Output, &Cache),
    inputs: &[Input],
    report: &mut Report,
    mut layers: Option<&mut Layers>,
) -> Result<(), Error> {
    let runs = args.runs as usize;
    let mut samples = Samples::with_capacity(runs);
    let total = args.warmup + args.runs;
    let progress = Progress::count(output, "running", total.into());
    let mut digest = None;
    let kernels = Kernels::best();
    let convolution = args.speed.then(|| speed_probe::network(kernels.isa()));
    let mut probe =
        convolution.as_ref().and_then(|network| speed_probe::SpeedProbe::new(network, kernels, 1));
    let mut probed = Vec::with_capacity(if args.speed { runs } else { 0 });
    give_back_code();
    let mut before = probe.as_mut().map(speed_probe::SpeedProbe::gflops);
    for number in 1..=total {
        let turn = Instant::now();
        for (index, input) in inputs.iter().enumerate() {
            input.write(model, index)?;
        }
        let start = Instant::now();
        match layers.as_deref_mut() {
            Some(layers) => layers.infer(model, device, number > args.warmup),
            None => model.infer(device),
        }
        .map_err(|source| tables::failed(model.skeleton(), &args.pack, number, source))?;
        let ns = start.elapsed().as_nanos() as u64;
        let found = digest_of(model);
        let expected = *digest.get_or_insert(found);
        if found != expected {
            let (found, expected) = (found.to_string(), expected.to_string());
            return Err(RunError::Unstable { number, found, expected }.into());
        }
        if number == 1 {
            report.first_ms = milliseconds(ns);
            cache.prove(&args.pack)?;
        }
        if number > args.warmup {
            samples.push(ns, turn, model.stats());
        }
        let after = probe.as_mut().map(speed_probe::SpeedProbe::gflops);
        let counted = before.zip(after).filter(|_| number > args.warmup);
        if let Some((before_gflops, after_gflops)) = counted {
            let latency_ms = milliseconds(ns);
            probed.push(Probed { latency_ms, before_gflops, after_gflops });
        }
        before = after;
        progress.set(number.into());
    }
    drop(progress);
    give_back_code();
    samples.report(report);
    report.speed = probe.map(|_| Speed::of(probed));
    report.output_digest = digest.map(|digest| digest.to_string()).unwrap_or_default();
    Ok(())
}
