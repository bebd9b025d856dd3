//! `eyelet demo`: the main job, end to end, on this machine.
//!
//! A network is planned once into a small budget and once with room for all of its weights, each as fast as it can be, and once
//! more into both with the same bits. Each plan is run by a process of its own, so that what the kernel says of its memory is
//! about the runtime and nothing else. Then a network that was truly trained reads a digit.

use super::Error;
use super::calibrate::Calibration;
use super::output::Output;
use super::plan::{pack, whole_budget};
use super::table::Table;
use super::target::DEFAULT_THREADS;
use super::workplace::{reads_directly, workplace};
use super::zoo::write;
use bytes::Bytes;
use eyelet::arena::MappedArena;
use eyelet::device;
use eyelet::executor::{Instance, Options};
use eyelet::storage::Slice;
use eyelet_planner::graph::Graph;
use eyelet_planner::import::{import, import_bytes};
use eyelet_planner::leftovers;
use eyelet_planner::published;
use eyelet_planner::search::PackRequest;
use eyelet_planner::{board, size, zoo};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Plans ResNet-152 into a small budget, runs it, and compares it with the whole network in memory; then
/// reads a handwritten digit.
///
/// Needs about 500 MB of disk for a minute or two, and memory for the whole network once.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The small budget.
    #[arg(long, value_name = "SIZE", default_value = "24MiB", allow_negative_numbers = true, value_parser = size::parse)]
    budget: u64,
    /// A network of the zoo.
    #[arg(long, value_name = "NAME", default_value = "resnet152")]
    network: String,
    /// Inferences of each kind.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Where to work: on a disk, not in memory. What is written there is removed at the end [default: the system's
    /// folder for temporary files, or /var/tmp if that one is in memory].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    calibration: Calibration,
}

const EXAMPLE: &str = "\
Example:
  eyelet demo";

/// Images that the network was not trained on, and what they show.
const MODEL: &[u8] = include_bytes!("../../digits/digits.onnx");
const IMAGES: &[u8] = include_bytes!("../../digits/images.npy");
const LABELS: &[u8] = include_bytes!("../../digits/labels.npy");

/// Room for the digits' network that is less than its weights.
const DIGITS_BUDGET: u64 = 96 << 10;

/// The image that is shown.
const DIGIT: usize = 11;

/// What the demo shows.
#[derive(Debug, Serialize)]
struct Report {
    network: String,
    /// Streamed, and with all weights resident, each by the algorithms that are the fastest for it.
    runs: [Row; 2],
    /// The same by direct algorithms, as with `plan --exact`.
    exact: [Row; 2],
    /// Whether the outputs of the exact pair are the same bits.
    identical: bool,
    digit: Digit,
}

/// What `eyelet run` told.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Row {
    budget_bytes: u64,
    arena_bytes: u64,
    peak_rss_bytes: Option<u64>,
    page_cache_bytes: Option<u64>,
    bytes_read_per_inference: u64,
    latency_ms: Latency,
    stall_ms: f64,
    predicted_ms: Option<f64>,
    output_digest: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Latency {
    min: f64,
    median: f64,
    max: f64,
}

/// A digit and what the network takes it for.
#[derive(Debug, Serialize)]
struct Digit {
    budget_bytes: u64,
    bytes_read_per_inference: u64,
    pixels: Vec<f32>,
    width: usize,
    label: usize,
    recognised: usize,
    probability: f64,
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let folder = workplace(args.dir.as_deref())?;
    let network = zoo::model(&args.network)?;
    let extension = if network.config().is_some() { "cfg" } else { "onnx" };
    let model = folder.path().join(format!("{}.{extension}", args.network));
    output.line(format_args!("writing {} with random weights", args.network))?;
    write(&network, 1, &model, output)?;
    let graph = import(&model).map_err(|error| Error::of_import(&model, error))?;
    let request = request(folder.path(), args.calibration, output)?;
    let shapes = [(String::new(), graph)];
    // More than enough is no waste: memory that is not touched is not resident.
    let full = whole_budget(&shapes[0].1).max(args.budget);
    let mut demo = Demo { args: &args, model: &model, shapes: &shapes, request, output };
    let [streamed, resident] = [demo.run(&[args.budget], false)?, demo.run(&[full], false)?]
        .map(|mut rows| rows.remove(0));
    let mut both = vec![args.budget, full];
    both.dedup();
    let mut exact = demo.run(&both, true)?;
    let exact = [exact.remove(0), exact.pop().unwrap_or_else(|| streamed.clone())];
    let identical = exact[0].output_digest == exact[1].output_digest;
    let digit = digit(folder.path(), args.calibration, output)?;
    output.report(&Report {
        network: args.network,
        runs: [streamed, resident],
        exact,
        identical,
        digit,
    })?;
    match identical {
        true => Ok(()),
        false => Err(Error::Internal("the outputs of the two exact plans differ".to_owned())),
    }
}

/// A model that is planned and run in several ways.
struct Demo<'a> {
    args: &'a Args,
    model: &'a Path,
    shapes: &'a [(String, Graph)],
    request: PackRequest<'static>,
    output: Output,
}

impl Demo<'_> {
    /// Plans it into a pack for some budgets, and runs each plan. The pack is removed.
    fn run(&mut self, budgets: &[u64], exact: bool) -> Result<Vec<Row>, Error> {
        let Self { args, model, shapes, output, .. } = *self;
        let sizes: Vec<String> = budgets.iter().map(|budget| self.named(*budget)).collect();
        let how = if exact { "with the same bits" } else { "as fast as it can be" };
        output.line(format_args!("planning it into {}, {how}", sizes.join(" and ")))?;
        self.request = PackRequest { budgets: budgets.to_vec(), exact, ..self.request.clone() };
        let path = model.with_extension("pack");
        let packed = pack(&self.request, model, shapes, &path, output)?;
        output.line(format_args!("  planned in {:.0} ms; running it", packed.planning_ms))?;
        let rows = budgets.iter().map(|budget| run_pack(&path, *budget, args.runs, output));
        let rows = rows.collect::<Result<_, _>>()?;
        std::fs::remove_file(&path).map_err(|source| Error::Write { path, source })?;
        Ok(rows)
    }

    fn named(&self, budget: u64) -> String {
        match budget == self.args.budget {
            true => size::human(budget),
            false => "memory that holds all of it".to_owned(),
        }
    }
}

/// By the costs of this machine.
fn request(
    folder: &Path,
    calibration: Calibration,
    output: Output,
) -> Result<PackRequest<'static>, Error> {
    let profile = calibration.costs_here(board::host()?, folder, output);
    let threads = profile.threads.clamp(1, DEFAULT_THREADS);
    Ok(PackRequest::new(&published::JOINT, Vec::new(), profile, threads))
}

/// Runs a plan in a process of its own.
fn run_pack(pack: &Path, budget: u64, runs: u32, output: Output) -> Result<Row, Error> {
    let failed = |message: String| Error::Child { verb: "run", message };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg("run").arg(pack).args(["--json", "--warmup", "1"]);
    command.args(["--budget", &budget.to_string(), "--runs", &runs.to_string()]);
    if !reads_directly(pack) {
        output.line("  (this file system has no direct I/O: the page cache will hold the pack)")?;
        command.args(["--io", "buffered"]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let done = leftovers::output(command).map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        let text = String::from_utf8_lossy(&done.stderr);
        let text = text.trim().trim_start_matches("eyelet: error: ");
        return Err(failed(if text.is_empty() {
            done.status.to_string()
        } else {
            text.to_owned()
        }));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| failed(error.to_string()))
}

/// Reads a digit, in this process, with less memory than the network's weights.
fn digit(folder: &Path, calibration: Calibration, output: Output) -> Result<Digit, Error> {
    let name = Path::new("digits.onnx");
    let graph = import_bytes(Bytes::from_static(MODEL), None)
        .map_err(|error| Error::of_import(name, error))?;
    let path = folder.join("digits.pack");
    let request = request(folder, calibration, output)?;
    let request = PackRequest { budgets: vec![DIGITS_BUDGET], exact: true, ..request };
    let packed = pack(&request, name, &[(String::new(), graph)], &path, output)?;
    let bytes =
        std::fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;

    let internal = |error: &dyn fmt::Display| Error::Internal(format!("digits: {error}"));
    let (image, label) = sample(DIGIT).ok_or_else(|| internal(&"no such image"))?;
    let mut storage = Slice(&bytes);
    let mut arena = MappedArena::new(DIGITS_BUDGET as usize)?;
    let mut memory = arena.memory();
    let options = Options::default();
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options)
        .map_err(|source| Error::pack(&path, source))?;
    let mut model = instance.inline(&mut storage);
    match model.input_mut(0) {
        Ok(input) if input.len() == image.len() => input.copy_from_slice(&image),
        _ => return Err(internal(&"the input has another size")),
    }
    model.infer(&device::Inline).map_err(|source| Error::Infer {
        path: path.clone(),
        number: 1,
        source,
    })?;
    let logits = model.output(0).unwrap_or_default();
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f64> = logits.iter().map(|x| f64::from(x - largest).exp()).collect();
    Ok(Digit {
        budget_bytes: DIGITS_BUDGET,
        bytes_read_per_inference: packed.plans[0].bytes_read_per_inference,
        width: image.len().isqrt(),
        pixels: image,
        label,
        recognised: logits.iter().position(|x| *x == largest).unwrap_or(0),
        probability: 1.0 / exponentials.iter().sum::<f64>(),
    })
}

/// Image `index` of the samples, and its label.
fn sample(index: usize) -> Option<(Vec<f32>, usize)> {
    let (images, labels) = (floats(IMAGES)?, floats(LABELS)?);
    let pixels = images.len() / labels.len().max(1);
    let image = images.get(index * pixels..(index + 1) * pixels)?;
    Some((image.to_vec(), *labels.get(index)? as usize))
}

/// The elements of an embedded file of format version 1, which are little-endian floats.
fn floats(npy: &[u8]) -> Option<Vec<f32>> {
    let header = usize::from(u16::from_le_bytes([*npy.get(8)?, *npy.get(9)?]));
    let (data, _) = npy.get(10 + header..)?.as_chunks();
    Some(data.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), size::human);
        let name = self.network.as_str();
        let mut table = Table::new(1, [name, "streamed", "all weights resident"]).names();
        let mut row = |what: &str, rows: &[Row; 2], cell: &dyn Fn(&Row) -> String| {
            let [streamed, resident] = rows;
            table.row([what.to_owned(), cell(streamed), cell(resident)]);
        };
        let (best, exact) = (&self.runs, &self.exact);
        let ms = |ms: f64| format!("{ms:.1} ms");
        row("memory of the plan", best, &|row| size::human(row.arena_bytes));
        row("peak memory of the process", best, &|row| known(row.peak_rss_bytes));
        row("weights in the page cache", best, &|row| known(row.page_cache_bytes));
        row("read in each inference", best, &|row| size::human(row.bytes_read_per_inference));
        row("latency, median", best, &|row| ms(row.latency_ms.median));
        row("predicted", best, &|row| row.predicted_ms.map_or("-".to_owned(), ms));
        row("of that waiting for weights", best, &|row| ms(row.stall_ms));
        row("latency with --exact", exact, &|row| ms(row.latency_ms.median));
        row("outputs with --exact", exact, &|row| row.output_digest.clone());
        write!(f, "\n{table}")?;
        let verdict = if self.identical { "the same, bit for bit" } else { "DIFFERENT" };
        writeln!(f, "outputs with --exact: {verdict}\n")?;
        let digit = &self.digit;
        for line in digit.pixels.chunks(digit.width.max(1)) {
            let shades = " .:-=+*#%@".as_bytes();
            let shade = |x: &f32| shades[((x * 10.0) as usize).min(shades.len() - 1)] as char;
            let text: String = line.iter().flat_map(|x| [shade(x); 2]).collect();
            writeln!(f, "    {}", text.trim_end())?;
        }
        writeln!(
            f,
            "that is a {} ({:.1} % sure; it was meant to be a {}), read within {} with {} of weights \
             streamed",
            digit.recognised,
            100.0 * digit.probability,
            digit.label,
            size::human(digit.budget_bytes),
            size::human(digit.bytes_read_per_inference)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_images_of_digits() {
        let (image, label) = sample(DIGIT).unwrap();
        assert_eq!(image.len(), 64);
        assert!(label < 10 && image.iter().all(|x| (0.0..=1.0).contains(x)));
        assert!(sample(64).is_none());
    }
}
