//! `eyelet gpu-chunks`: what physical chunks of a GPU's memory would waste.

use super::Error;
use super::model::Reading;
use super::output::Output;
use super::pack_file::PackFile;
use eyelet::pack::MAGIC;
use eyelet_planner::chunks::{self, Cover, Objects};
use eyelet_planner::open::open;
use eyelet_planner::size;
use serde::Serialize;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Prints what networks take of a GPU's memory that is mapped in chunks: tensor by tensor, and as one range.
///
/// Of a model the objects are those that a framework allocates one by one: weights, and every operator's output.
/// Of a pack they are the network's buffers and its layers' weights; the arena of each of its plans, which is one range
/// anyway, comes next to them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// Models (ONNX) and packs.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

const EXAMPLE: &str = "\
Example:
  eyelet gpu-chunks resnet152.onnx resnet152.pack";

#[derive(Debug, Serialize)]
struct Report {
    granularity_bytes: u64,
    files: Vec<FileReport>,
}

#[derive(Debug, Serialize)]
struct FileReport {
    file: PathBuf,
    network: String,
    objects: Objects,
    /// The objects in one range.
    covers: Vec<Cover>,
    plans: Vec<PlanReport>,
}

#[derive(Debug, Serialize)]
struct PlanReport {
    strategy: String,
    budget_bytes: u64,
    arena_bytes: u64,
    covers: Vec<Cover>,
}

fn covers(range_bytes: u64) -> Vec<Cover> {
    chunks::sizes().map(|chunk| chunks::cover(range_bytes, chunk)).collect()
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    let files = args.files.iter().map(|path| match is_pack(path)? {
        true => of_pack(path),
        false => of_model(path, &args.reading),
    });
    let files = files.collect::<Result<_, Error>>()?;
    output.report(&Report { granularity_bytes: chunks::GRANULARITY, files })
}

/// Whether a file starts as packs do.
fn is_pack(path: &Path) -> Result<bool, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let mut start = Vec::new();
    let file = open(path).map_err(unreadable)?;
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(unreadable)?;
    Ok(start == MAGIC)
}

fn of_model(path: &Path, reading: &Reading) -> Result<FileReport, Error> {
    let graph = reading.import("`eyelet gpu-chunks`", path)?;
    let objects = Objects::new(&chunks::of_graph(&graph), chunks::GRANULARITY);
    let covers = covers(objects.range_bytes);
    let (file, network) = (path.to_owned(), graph.name);
    Ok(FileReport { file, network, objects, covers, plans: Vec::new() })
}

fn of_pack(path: &Path) -> Result<FileReport, Error> {
    let pack = PackFile::open(path)?;
    // Of several shapes the first.
    let skeleton = pack.skeleton(0)?;
    let objects = chunks::of_records(skeleton.buffers.iter(), skeleton.layers.iter());
    let objects = Objects::new(&objects, chunks::GRANULARITY);
    let plans = pack.entries.iter().map(|entry| {
        Ok(PlanReport {
            strategy: pack.strategy(entry)?,
            budget_bytes: entry.budget,
            arena_bytes: entry.arena_bytes,
            covers: covers(entry.arena_bytes),
        })
    });
    Ok(FileReport {
        file: path.to_owned(),
        network: skeleton.name().to_owned(),
        objects,
        covers: covers(objects.range_bytes),
        plans: plans.collect::<Result<_, Error>>()?,
    })
}

/// A row of what ranges waste, by the size of the chunks.
fn row(f: &mut fmt::Formatter<'_>, name: &str, bytes: u64, covers: &[Cover]) -> fmt::Result {
    write!(f, "{name:<24} {:>9}", size::human(bytes))?;
    covers.iter().try_for_each(|cover| write!(f, " {:>9}", size::human(cover.waste_bytes)))?;
    writeln!(f)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:>7} {:>7} {:>9} {:>22} {:>22}",
            "",
            format!("< {}", size::human(self.granularity_bytes)),
            "others",
            "bytes",
            "each in its own chunks",
            "all in one range"
        )?;
        for file in &self.files {
            let Objects { small, large, bytes, apart_bytes, .. } = file.objects;
            let more = |bytes_taken: u64| {
                let more = size::human(bytes_taken - bytes);
                format!("{} (+{more})", size::human(bytes_taken))
            };
            let range = file.covers.first().map_or(0, |cover| cover.chunks * cover.chunk_bytes);
            writeln!(
                f,
                "{:<24} {small:>7} {large:>7} {:>9} {:>22} {:>22}",
                name(&file.file),
                size::human(bytes),
                more(apart_bytes),
                more(range)
            )?;
        }
        writeln!(f, "\nwaste in one range, by the size of the chunks")?;
        write!(f, "{:<24} {:>9}", "", "range")?;
        chunks::sizes().try_for_each(|chunk| write!(f, " {:>9}", size::human(chunk)))?;
        writeln!(f)?;
        for file in &self.files {
            row(f, &name(&file.file), file.objects.range_bytes, &file.covers)?;
            for plan in &file.plans {
                let name = format!("  arena, {}", size::human(plan.budget_bytes));
                row(f, &name, plan.arena_bytes, &plan.covers)?;
            }
        }
        Ok(())
    }
}

/// A file's name without its folders.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
