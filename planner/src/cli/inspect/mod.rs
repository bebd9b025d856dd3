//! `eyelet inspect`: what is in a pack.

mod shape;

use super::Error;
use super::output::Output;
use super::pack_file::PackFile;
use super::set_file;
use eyelet_planner::board::Device;
use eyelet_planner::size;
use serde::Serialize;
use shape::ShapeReport;
use std::fmt;
use std::path::PathBuf;

/// Shows what is in a pack: its network, in each of its shapes, its plans, and how each plan uses its arena. Predicts
/// how long its plans take on machines that were measured.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The pack, or a set in one file: then its tasks and each of its packs.
    #[arg(value_name = "FILE.pack")]
    pack: PathBuf,
    /// Predicts its plans by these costs, too, as `eyelet profile` writes them; may be given several times.
    #[arg(long, value_name = "FILE.toml")]
    profile: Vec<PathBuf>,
}

const EXAMPLE: &str = "\
Example:
  eyelet inspect resnet152.pack
  eyelet profile -o here.toml && eyelet inspect resnet152.pack --profile here.toml";

#[derive(Debug, Serialize)]
struct Report {
    file: PathBuf,
    file_bytes: u64,
    version: u32,
    isa: &'static str,
    device: Device,
    panel: u32,
    weights_bytes: u64,
    /// The network of a pack of one shape.
    #[serde(flatten)]
    one: Option<ShapeReport>,
    /// The network in each of several shapes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shapes: Vec<ShapeReport>,
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    if set_file::is_set_file(&args.pack) {
        let of = |pack| report(&args, &pack);
        let decided = set_file::read(&args.pack)?;
        return output.report(&set_file::Report::new(&args.pack, &decided, of)?);
    }
    output.report(&report(&args, &PackFile::open(&args.pack)?)?)
}

fn report(args: &Args, pack: &PackFile) -> Result<Report, Error> {
    let shapes = (0..pack.shapes.len()).map(|shape| ShapeReport::new(args, pack, shape));
    let mut shapes = shapes.collect::<Result<Vec<_>, _>>()?;
    let one = shapes.pop_if(|shape| shape.is_only());
    Ok(Report {
        file: pack.path().to_owned(),
        file_bytes: pack.header.file_bytes,
        version: pack.header.version,
        isa: pack.isa.name(),
        device: Device::of(pack.isa),
        panel: pack.header.panel.into(),
        weights_bytes: pack.header.weights_bytes,
        one,
        shapes,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let networks = || self.one.iter().chain(&self.shapes);
        let network = networks().next().map_or("", ShapeReport::network);
        writeln!(
            f,
            "{}: {} ({}, format version {})",
            self.file.display(),
            network,
            size::human(self.file_bytes),
            self.version
        )?;
        writeln!(
            f,
            "weights {} in panels of {} channels for {}",
            size::human(self.weights_bytes),
            self.panel,
            self.isa
        )?;
        for shape in networks() {
            shape.write(f, self.device)?;
        }
        Ok(())
    }
}
