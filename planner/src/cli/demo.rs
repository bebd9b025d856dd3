//! `eyelet demo`: the main job, end to end, on this machine.
//!
//! A network is planned once into a small budget and once with room for all of its weights, and each
//! plan is run by a process of its own, so that what the kernel says of its memory is about the runtime
//! and nothing else. Then a network that was truly trained reads a digit.

use super::Error;
use super::output::Output;
use super::plan::pack;
use super::zoo::write;
use bytes::Bytes;
use eyelet::arena::MappedArena;
use eyelet::device;
use eyelet::executor::{Instance, Options};
use eyelet::storage::Slice;
use eyelet_planner::import::{import, import_bytes};
use eyelet_planner::leftovers::{self, Scratch};
use eyelet_planner::strategy::PackRequest;
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
}

const EXAMPLE: &str = "\
Example:
  eyelet demo";

/// Images that the network was not trained on, and what they show.
const MODEL: &[u8] = include_bytes!("../../../tests/data/digits/digits.onnx");
const IMAGES: &[u8] = include_bytes!("../../../tests/data/digits/images.npy");
const LABELS: &[u8] = include_bytes!("../../../tests/data/digits/labels.npy");

/// Room for the digits' network that is less than its weights.
const DIGITS_BUDGET: u64 = 96 << 10;

/// The image that is shown.
const DIGIT: usize = 11;

/// What the demo shows.
#[derive(Debug, Serialize)]
struct Report {
    network: String,
    weights_bytes: u64,
    /// Streamed, and with all weights resident.
    runs: [Row; 2],
    identical: bool,
    digit: Digit,
}

/// What `eyelet run` told.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    budget_bytes: u64,
    arena_bytes: u64,
    peak_rss_bytes: Option<u64>,
    page_cache_bytes: Option<u64>,
    bytes_read_per_inference: u64,
    latency_ms: Latency,
    stall_ms: f64,
    output_digest: String,
}

#[derive(Debug, Serialize, Deserialize)]
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
    let folder = folder(args.dir.as_deref())?;
    let network = zoo::model(&args.network)?;
    let extension = if network.config().is_some() { "cfg" } else { "onnx" };
    let model = folder.path().join(format!("{}.{extension}", args.network));
    output.line(format_args!("writing {} with random weights", args.network))?;
    write(&network, 1, &model, output)?;
    let (pack, weights_bytes, full) = plan(&args, &model, output)?;
    let streamed = run_pack(&pack, args.budget, args.runs, output)?;
    let resident = run_pack(&pack, full, args.runs, output)?;
    let identical = streamed.output_digest == resident.output_digest;
    let digit = digit(folder.path(), output)?;
    output.report(&Report {
        network: args.network,
        weights_bytes,
        runs: [streamed, resident],
        identical,
        digit,
    })?;
    match identical {
        true => Ok(()),
        false => Err(Error::Internal("the outputs of the two plans differ".to_owned())),
    }
}

/// A folder of this process, removed at the end, in a folder or where the system has its temporary files: on a disk, if
/// there is one. What earlier demos left there goes.
fn folder(parent: Option<&Path>) -> Result<Scratch, Error> {
    let make = |parent: &Path| {
        leftovers::sweep(parent);
        Scratch::folder(parent).map_err(|source| Error::Write { path: parent.to_owned(), source })
    };
    if let Some(parent) = parent {
        std::fs::create_dir_all(parent)
            .map_err(|source| Error::Write { path: parent.to_owned(), source })?;
        return make(parent);
    }
    let folder = make(&std::env::temp_dir())?;
    match on_disk(&folder) {
        true => Ok(folder),
        false => Ok(make(Path::new("/var/tmp")).ok().filter(on_disk).unwrap_or(folder)),
    }
}

/// Whether files in a folder can be read past the page cache.
fn on_disk(folder: &Scratch) -> bool {
    let path = folder.path().join("page");
    std::fs::write(&path, [0; eyelet::pack::PAGE as usize]).is_ok() && !on_memory(&path)
}

/// Plans the model for both budgets: the pack, the bytes of its weights, and the budget that holds them
/// all.
fn plan(args: &Args, model: &Path, output: Output) -> Result<(PathBuf, u64, u64), Error> {
    let failed = |error| Error::of_import(model, error);
    let graph = import(model).map_err(failed)?;
    let constants = graph.values.iter().filter_map(|value| value.constant.as_ref());
    // Weights padded to panels and pages, activations, tables: more than enough is no waste, as memory
    // that is not touched is not resident.
    let full = constants.map(|data| 4 * data.len() as u64).sum::<u64>() * 5 / 4 + (64 << 20);
    let small = size::human(args.budget);
    output.line(format_args!("planning it into {small}, and into memory that holds all of it"))?;
    let mut budgets = vec![args.budget, full.max(args.budget)];
    budgets.dedup();
    let packed = pack(
        &request(budgets)?,
        model,
        &[(String::new(), graph)],
        &model.with_extension("pack"),
        output,
    )?;
    output.line(format_args!("  planned in {:.0} ms", packed.planning_ms))?;
    Ok((model.with_extension("pack"), packed.weights_bytes, full.max(args.budget)))
}

fn request(budgets: Vec<u64>) -> Result<PackRequest, Error> {
    let profile = board::host()?.profile;
    let threads = profile.threads.clamp(1, super::target::DEFAULT_THREADS);
    Ok(PackRequest { exact: true, ..PackRequest::new(budgets, profile, threads) })
}

/// A size that may not be known.
fn known(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".to_owned(), size::human)
}

/// Runs a plan in a process of its own.
fn run_pack(pack: &Path, budget: u64, runs: u32, output: Output) -> Result<Row, Error> {
    output.line(format_args!("running it within {}", size::human(budget)))?;
    let failed = |message: String| Error::Child { verb: "run", message };
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.arg("run").arg(pack).args(["--json", "--warmup", "1"]);
    command.args(["--budget", &budget.to_string(), "--runs", &runs.to_string()]);
    if on_memory(pack) {
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

/// Whether the pack cannot be read past the page cache.
fn on_memory(pack: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(pack.as_os_str().as_bytes()).unwrap_or_default();
    eyelet::storage::DirectFile::open(&path).is_err()
}

/// Reads a digit, in this process, with less memory than the network's weights.
fn digit(folder: &Path, output: Output) -> Result<Digit, Error> {
    let name = Path::new("digits.onnx");
    let graph = import_bytes(Bytes::from_static(MODEL), None)
        .map_err(|error| Error::of_import(name, error))?;
    let path = folder.join("digits.pack");
    let packed =
        pack(&request(vec![DIGITS_BUDGET])?, name, &[(String::new(), graph)], &path, output)?;
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
        let label = format!("{}, {} of weights", self.network, size::human(self.weights_bytes));
        let width = label.chars().count().max(30);
        writeln!(f, "\n{label:<width$}{:>22} {:>22}", "streamed", "all weights resident")?;
        let mut row = |what: &str, cell: &dyn Fn(&Row) -> String| {
            let [streamed, resident] = &self.runs;
            writeln!(f, "{what:<width$}{:>22} {:>22}", cell(streamed), cell(resident))
        };
        row("budget", &|row| size::human(row.budget_bytes))?;
        row("peak memory of the process", &|row| known(row.peak_rss_bytes))?;
        row("weights in the page cache", &|row| known(row.page_cache_bytes))?;
        row("read in each inference", &|row| size::human(row.bytes_read_per_inference))?;
        row("latency, median", &|row| format!("{:.1} ms", row.latency_ms.median))?;
        row("of that waiting for weights", &|row| format!("{:.1} ms", row.stall_ms))?;
        row("digest of the outputs", &|row| row.output_digest.clone())?;
        let verdict = if self.identical { "identical, bit for bit" } else { "DIFFERENT" };
        writeln!(f, "outputs: {verdict}\n")?;
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
