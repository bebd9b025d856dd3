//! `eyelet profile`: what computing and reading cost on this machine.

use super::boards::Boards;
use super::files::Files;
use super::output::Output;
use super::progress::Progress;
use super::{Error, lacks};
use eyelet::device::workers::MAX_THREADS;
use eyelet::kernels::Kernels;
use eyelet_planner::board::{self, Board};
use eyelet_planner::profile::{Patience, Profile, measure};
use eyelet_planner::replace::replace;
use eyelet_planner::size;
use eyelet_planner::source::Io;
use serde::Serialize;
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Measures this machine: throughput of the kernels, and of its storage by the size of reads.
///
/// `eyelet plan --profile` plans with what was measured instead of a board's estimates. Takes some
/// seconds; the machine should do nothing else meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, override_usage = "eyelet profile [OPTIONS] --output <FILE.toml>")]
pub struct Args {
    /// Measures the kernels of that board, which this processor must be able to run [default: its best]. `--board list`
    /// prints the boards that come with eyelet.
    #[arg(long, value_name = "BOARD")]
    board: Option<String>,
    /// Compute threads [default: as many as there are cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_THREADS as i64))]
    threads: Option<u32>,
    /// A folder on the storage that is to be measured [default: the folder of the profile].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How packs will be read: past the page cache, through it (with the pack there), or from a map.
    #[arg(long, value_enum, default_value_t = Io::Direct)]
    io: Io,
    /// Where to write the profile. There is no default: it is written nowhere else, nor printed.
    #[arg(short, long, value_name = "FILE.toml")]
    output: Option<PathBuf>,
}

const EXAMPLE: &str = "\
Example:
  eyelet profile -o here.toml
  eyelet plan resnet50.onnx --budget 16MiB --profile here.toml";

#[derive(Debug, Serialize)]
struct Report {
    file: PathBuf,
    profile: Profile,
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    if args.board.as_deref() == Some("list") {
        return output.report(&Boards::known()?);
    }
    let file = args.output.ok_or_else(|| lacks("profile", "--output <FILE.toml>"))?;
    Files::default().reads_board("--board", args.board.as_deref()).writes("-o", [&file]).check()?;
    let board = match &args.board {
        Some(name) => Board::load(name)?,
        None => board::host()?,
    };
    let isa = board.profile.isa;
    let kernels = Kernels::for_isa(isa)
        .ok_or_else(|| Error::NotHere { board: board.name().to_owned(), isa: isa.name() })?;
    let cores = board::host()?.profile.threads.min(MAX_THREADS as u32);
    let folder = args.dir.or_else(|| file.parent().map(Path::to_owned));
    let folder = folder.filter(|folder| folder != Path::new("")).unwrap_or_else(|| ".".into());
    let progress = Progress::elapsed(output, "measuring");
    let profile = measure(
        board.name(),
        kernels,
        args.threads.unwrap_or(cores),
        &folder,
        args.io,
        Patience::LONG,
    )?;
    drop(progress);
    replace(&file, |sink| sink.write_all(profile.to_toml().as_bytes()))
        .map_err(|source| Error::Write { path: file.clone(), source })?;
    output.report(&Report { file, profile })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Profile { name, isa, threads, compute, storage, .. } = &self.profile;
        let file = self.file.display();
        writeln!(f, "{file}: {name}, {} kernels, {threads} threads\n", isa.name())?;
        for (what, rate, unit) in [
            ("convolutions 1x1", compute.conv_1x1_gflops, "GFLOP/s"),
            ("larger convolutions", compute.conv_kxk_gflops, "GFLOP/s"),
            ("depthwise convolutions", compute.depthwise_gflops, "GFLOP/s"),
            ("products of activations", compute.matmul_gflops, "GFLOP/s"),
            ("fully connected", compute.fully_connected_gbs, "GB/s of weights"),
            ("Winograd's transforms", compute.transform_gbs, "GB/s"),
            ("widening weights", compute.widen_gbs, "GB/s"),
            ("transforming weights", compute.transform_weights_gbs, "GB/s"),
            ("elementwise", compute.elementwise_gbs, "GB/s"),
            ("exponentials", compute.function_gbs, "GB/s"),
            ("pooling", compute.pool_gbs, "GB/s"),
            ("copies", compute.copy_gbs, "GB/s"),
            ("memory", compute.memory_gbs, "GB/s"),
            ("the cores' shared cache", compute.shared_cache_gbs, "GB/s of weights"),
            ("of memory's time exposed", 100.0 * compute.exposed, "%"),
            (
                "and next to Winograd's",
                100.0 * compute.winograd_exposed.unwrap_or(compute.exposed),
                "%",
            ),
            ("checksums", storage.checksum_gbs, "GB/s"),
            ("a thread more adds", 100.0 * compute.scaling, "% of the first"),
        ] {
            writeln!(f, "{what:<24} {rate:>9.1} {unit}")?;
        }
        if let Some(delays) = &self.profile.delays {
            writeln!(
                f,
                "SwapNet's delays         {:.3} ns a byte, {:.1} µs a read (within {:.0} %); {:.4} ns an operation (within \
                 {:.0} %); {:.2} µs a swap-out",
                delays.alpha_ns_per_byte,
                delays.beta_ns / 1e3,
                100.0 * delays.in_residual,
                delays.gamma_ns_per_flop,
                100.0 * delays.ex_residual,
                delays.eta_ns / 1e3
            )?;
        }
        for read in &storage.reads {
            let what = format!("{} reads of {}", storage.io.name(), size::human(read.bytes));
            writeln!(f, "{what:<24} {:>9.1} MB/s", read.mbs)?;
        }
        for read in storage.llc.iter().flat_map(|near| &near.reads) {
            let what = format!("shared cache, {}", size::human(read.bytes));
            writeln!(f, "{what:<24} {:>9.1} MB/s", read.mbs)?;
        }
        if let Some(contention) = &storage.contention {
            writeln!(
                f,
                "computing during reads   {:.3} ns a byte longer, {:.3} in the cache that cores share",
                contention.dram_ns_per_byte, contention.llc_ns_per_byte
            )?;
        }
        for queued in &storage.queued_reads {
            let what = format!("{} at a time of {}", queued.depth, size::human(queued.bytes));
            writeln!(f, "{what:<24} {:>9.1} MB/s", queued.mbs)?;
        }
        Ok(())
    }
}
