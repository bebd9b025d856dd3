//! `eyelet zoo`: networks to try things with.

use super::Error;
use super::files::Files;
use super::output::{Output, shape};
use super::progress::{Counted, Progress};
use eyelet_planner::darknet::weights_of;
use eyelet_planner::replace::Sink;
use eyelet_planner::{size, zoo};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Writes a reference network as an ONNX file, or a detector as Darknet's two, with seeded random weights.
///
/// Operators, shapes and parameters are those of the network of that name as it was published: many are torchvision's, others
/// are language models, detectors and recurrent networks. The weights keep the variance of activations. The same name
/// and seed give the same file everywhere.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Which network; --list prints which there are.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Where to write it [default: NAME.onnx]; of a network of Darknet the .cfg, its weights lie next to it.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Seed of the weights.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lists the networks and writes nothing.
    #[arg(long, conflicts_with_all = ["name", "output"])]
    list: bool,
}

const EXAMPLE: &str = "\
Example:
  eyelet zoo resnet152 -o resnet152.onnx";

/// A network of the zoo.
#[derive(Debug, Serialize)]
struct Network {
    name: String,
    parameters: usize,
    macs: u64,
    file_bytes: u64,
    input: Vec<usize>,
    outputs: Vec<Vec<usize>>,
}

impl Network {
    fn new(model: &zoo::Model) -> Self {
        Self {
            name: model.name().to_owned(),
            parameters: model.parameters(),
            macs: model.macs(),
            file_bytes: model.encoded_bytes(),
            input: model.input_shape().to_vec(),
            outputs: model.output_shapes().to_vec(),
        }
    }
}

#[derive(Debug, Serialize)]
struct List {
    networks: Vec<Network>,
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<15} {:>12} {:>10} {:>10}  {:<14} output",
            "network", "parameters", "GMAC", "file", "input"
        )?;
        for network in &self.networks {
            writeln!(
                f,
                "{:<15} {:>12} {:>10.2} {:>10}  {:<14} {}",
                network.name,
                network.parameters,
                network.macs as f64 / 1e9,
                size::human(network.file_bytes),
                shape(&network.input),
                network.outputs.iter().map(|one| shape(one)).collect::<Vec<_>>().join(" ")
            )?;
        }
        Ok(())
    }
}

/// What was written.
#[derive(Debug, Serialize)]
struct Written {
    #[serde(flatten)]
    network: Network,
    file: PathBuf,
    seed: u64,
    seconds: f64,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}, {:.1} million parameters, {} ({:.1} s)",
            self.file.display(),
            self.network.name,
            self.network.parameters as f64 / 1e6,
            size::human(self.network.file_bytes),
            self.seconds
        )
    }
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let Some(name) = args.name else {
        let networks = zoo::NAMES.iter().map(|name| Ok(Network::new(&zoo::model(name)?)));
        return output.report(&List { networks: networks.collect::<Result<_, zoo::Error>>()? });
    };
    let start = Instant::now();
    let model = zoo::model(&name)?;
    let extension = if model.config().is_some() { "cfg" } else { "onnx" };
    let path = args.output.unwrap_or_else(|| PathBuf::from(format!("{name}.{extension}")));
    let weights = model.config().map(|_| weights_of(&path));
    Files::default().writes("-o", [&path].into_iter().chain(&weights)).check()?;
    write(&model, args.seed, &path, output)?;
    let network = Network::new(&model);
    let seconds = (start.elapsed().as_secs_f64() * 1e3).round() / 1e3;
    output.report(&Written { network, file: path, seed: args.seed, seconds })
}

/// Writes a network, showing progress.
pub fn write(model: &zoo::Model, seed: u64, path: &Path, output: Output) -> Result<(), Error> {
    let progress = Progress::bytes(output, "writing the network", model.encoded_bytes());
    let counted = |model: &zoo::Model, sink: &mut Sink| {
        zoo::encode(model, seed, &mut Counted { to: sink, done: 0, progress: &progress })
    };
    Ok(zoo::write_through(model, path, counted)?)
}
