//! `eyelet check`: proves every plan of a pack, twice, and reads all of it.

use super::Error;
use super::decided::verify as verify_set;
use super::output::{Output, is_zero};
use super::pack_file::{PackFile, planner_types};
use super::progress::Progress;
use super::set_file;
use super::target::MemoryUse;
use eyelet::executor::{LoadError, OpenError};
use eyelet::pack::crc32c::crc32c;
use eyelet_planner::board::Device;
use eyelet_planner::check::{Proof, check};
use eyelet_planner::network::Network;
use eyelet_planner::size;
use serde::Serialize;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Proves the invariants of every plan in a pack and verifies every checksum.
///
/// Each plan is proved twice: by the runtime's own validation, on which its memory safety rests, and by
/// the planner's checker, which also proves that every byte is loaded before it is read and that nothing
/// live is overwritten, for every order in which loads and steps may happen.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Args {
    /// The pack, or a set in one file: then each of its packs, and whether it is the one that the set was decided for.
    #[arg(value_name = "FILE.pack")]
    pack: PathBuf,
}

const EXAMPLE: &str = "\
Example:
  eyelet check resnet152.pack";

#[derive(Debug, Serialize)]
struct Report {
    file: PathBuf,
    network: String,
    isa: &'static str,
    device: Device,
    layers: usize,
    /// Bytes of weights whose checksums were verified: those that some plan loads.
    verified_bytes: u64,
    plans: Vec<Plan>,
}

/// What was proved of a plan.
#[derive(Debug, Serialize)]
struct Plan {
    /// The shape that it computes, of a pack of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shape: Option<String>,
    strategy: String,
    budget_bytes: u64,
    arena_bytes: u64,
    /// Bytes of fast memory, of a plan for a board that has it.
    #[serde(skip_serializing_if = "is_zero")]
    fast_bytes: u64,
    #[serde(flatten)]
    memory_use: MemoryUse,
    threads: u32,
    steps: usize,
    loads: usize,
    resident_loads: usize,
    resident_bytes: u64,
    /// Bytes of weights that steps use where they lie in the pack, of one that lies in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_place_bytes: Option<u64>,
    bytes_read_per_inference: u64,
    peak_activation_bytes: u64,
    peak_scratch_bytes: u64,
    peak_live_bytes: u64,
    peak_layer: String,
}

pub fn run(args: Args, output: Output) -> Result<(), Error> {
    if set_file::is_set_file(&args.pack) {
        let decided = set_file::read(&args.pack)?;
        verify_set(&decided)?;
        let of = |pack| report(&pack, output);
        return output.report(&set_file::Report::new(&args.pack, &decided, of)?);
    }
    output.report(&report(&PackFile::open(&args.pack)?, output)?)
}

fn report(pack: &PackFile, output: Output) -> Result<Report, Error> {
    let path = pack.path();
    let skeleton = pack.skeleton(0)?;
    let mut report = Report {
        network: skeleton.name().to_owned(),
        isa: pack.isa.name(),
        device: Device::of(pack.isa),
        layers: skeleton.layers.len(),
        verified_bytes: 0,
        plans: Vec::new(),
        file: path.to_owned(),
    };
    // Plans come before weights: what is wrong with them is found without reading much.
    for entry in &pack.entries {
        let proven = pack.prove(entry)?;
        let (network, plan) = planner_types(pack, &proven, entry)?;
        let proof = check(&network, &plan, pack.header.weights_bytes).map_err(|violations| {
            Error::Check { path: path.to_owned(), budget: entry.budget, violations }
        })?;
        let peak_layer = match proof.peak_step.checked_sub(1) {
            Some(step) => network.names[plan.steps[step].layer as usize].clone(),
            None => "the host's turn".to_owned(),
        };
        let shape = pack.shape_name(entry)?;
        report.plans.push(Plan { shape, ..Plan::new(&network, &plan, entry, &proof, peak_layer) });
    }
    report.verified_bytes = verify(pack, output)?;
    Ok(report)
}

impl Plan {
    fn new(
        network: &Network,
        plan: &eyelet_planner::plan::Plan,
        entry: &eyelet::pack::PlanEntry,
        proof: &Proof,
        peak_layer: String,
    ) -> Self {
        Self {
            shape: None,
            strategy: plan.strategy.clone(),
            budget_bytes: entry.budget,
            arena_bytes: proof.arena_bytes,
            fast_bytes: plan.fast_bytes,
            memory_use: MemoryUse::of(network, plan),
            threads: entry.threads.into(),
            steps: plan.steps.len(),
            loads: plan.loads.len(),
            resident_loads: plan.resident.len(),
            resident_bytes: proof.resident_bytes,
            in_place_bytes: network.mapped.is_some().then(|| plan.in_place_bytes(network)),
            bytes_read_per_inference: proof.read_bytes,
            peak_activation_bytes: proof.peak_activation_bytes,
            peak_scratch_bytes: proof.peak_scratch_bytes,
            peak_live_bytes: proof.peak_live_bytes,
            peak_layer,
        }
    }
}

/// Compares the weights of every load of every plan with its checksum, each range once. Returns the bytes of all
/// ranges, those that plans cut differently once. Of a pack that is used where it lies, all weights have one.
fn verify(pack: &PackFile, output: Output) -> Result<u64, Error> {
    let weights = pack.weights()?;
    let mut plans = Vec::new();
    for entry in &pack.entries {
        plans.push(pack.plan(entry)?);
    }
    let loads =
        plans.iter().flat_map(|plan| plan.resident.iter().chain(plan.loads.iter()).enumerate());
    let mut seen = HashSet::new();
    let loads: Vec<_> =
        loads.filter(|(_, load)| seen.insert((load.offset, load.bytes, load.crc))).collect();
    let total = loads.iter().map(|(_, load)| u64::from(load.bytes)).sum();
    let progress = Progress::bytes(output, "verifying", total);
    let mut done = 0;
    for (index, load) in loads {
        // `prove` has found the range inside the section.
        let bytes = &weights[load.offset as usize..][..load.bytes as usize];
        let found = crc32c(0, bytes);
        if found != load.crc {
            let (load, expected) = (index as u32, load.crc);
            return Err(pack.wrong(OpenError::Load(LoadError::Checksum { load, found, expected })));
        }
        done += u64::from(load.bytes);
        progress.set(done);
    }
    if pack.header.mapped != 0 {
        let (section, expected) = ("weights", pack.header.weights_crc);
        return match crc32c(0, weights) {
            found if found == expected => Ok(weights.len() as u64),
            found => Err(pack.wrong(OpenError::Checksum { section, found, expected })),
        };
    }
    Ok(covered(seen.into_iter().map(|(offset, bytes, _)| offset..offset + u64::from(bytes))))
}

/// Bytes in any of some ranges.
fn covered(ranges: impl Iterator<Item = Range<u64>>) -> u64 {
    let mut ranges: Vec<_> = ranges.collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut bytes, mut end) = (0, 0);
    for range in ranges {
        bytes += range.end.saturating_sub(range.start.max(end));
        end = end.max(range.end);
    }
    bytes
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}, {} layers, for {}: sound",
            self.file.display(),
            self.network,
            self.layers,
            self.isa
        )?;
        writeln!(
            f,
            "header, skeleton and plans are whole; {} of weights verified",
            size::human(self.verified_bytes)
        )?;
        for plan in &self.plans {
            writeln!(
                f,
                "\nplan for {}{} ({}, up to {} threads): {} steps, {} loads, {} resident ones",
                size::human(plan.budget_bytes),
                plan.shape.as_ref().map_or(String::new(), |shape| format!(" of shape {shape}")),
                plan.strategy,
                plan.threads,
                plan.steps,
                plan.loads,
                plan.resident_loads
            )?;
            writeln!(
                f,
                "  in bounds        everything lies within {} of arena, after the tables",
                size::human(plan.arena_bytes)
            )?;
            if plan.fast_bytes > 0 {
                let bytes = size::human(plan.fast_bytes);
                writeln!(f, "  fast memory      {bytes} of it hold buffers and scratch")?;
            }
            if self.device == Device::Cuda {
                writeln!(f, "  arena            {}", plan.memory_use)?;
            }
            writeln!(
                f,
                "  disjoint         nothing live is overwritten, whatever the order of loads and steps"
            )?;
            writeln!(
                f,
                "  complete         every layer is made once, in order; every weight is there before \
                 it is read"
            )?;
            writeln!(f, "  live             no step and no load waits for ever")?;
            writeln!(
                f,
                "  at most          {} live at once (at {}), {} of activations, {} of scratch",
                size::human(plan.peak_live_bytes),
                plan.peak_layer,
                size::human(plan.peak_activation_bytes),
                size::human(plan.peak_scratch_bytes)
            )?;
            writeln!(
                f,
                "  weights          {} stay, {} are read in each inference",
                size::human(plan.resident_bytes),
                size::human(plan.bytes_read_per_inference)
            )?;
            if let Some(bytes) = plan.in_place_bytes {
                let bytes = size::human(bytes);
                writeln!(f, "                   {bytes} are used where they lie in the pack")?;
            }
        }
        Ok(())
    }
}
