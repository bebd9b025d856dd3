//! What networks and storage cost on this machine, measured alone: the worst time seen, times a margin.

use super::super::error::SetsError;
use super::threads::with_threads;
use crate::cli::Error;
use crate::cli::first::First;
use crate::cli::pack_file::{PackFile, planner_types};
use crate::cli::run::digest_of;
use crate::cli::run::input::Input;
use crate::cli::run::report::{Digest, Spread};
use crate::cli::schedule::swappable;
use eyelet::arena::MappedArena;
use eyelet::device::Device;
use eyelet::executor::{Feed, Instance, Model, Options, Ports, Progress};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{PAGE, PlanEntry};
use eyelet::storage::{Part, Storage};
use eyelet_planner::cores::Cores;
use eyelet_planner::source::{Io, Source};
use eyelet_tasks::set::decided::{Pack, Planned};
use eyelet_tasks::set::{self, Cost, Swappable, Transfer};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// How to measure.
#[derive(Clone, Debug)]
pub struct How {
    pub io: Io,
    pub threads: u32,
    /// The cores of these, where a board names them. Loads are read by the thread that computes.
    pub cores: Option<Cores>,
    pub first: First,
    /// Inferences of each network, after one that is not counted.
    pub runs: u32,
    /// What the worst time is multiplied with.
    pub margin: f64,
}

/// A plan that was run alone.
#[derive(Clone, Debug)]
pub struct Solo {
    pub planned: Planned,
    pub cost: Cost,
    /// The longest time of each step, without the margin.
    pub steps_ns: Vec<u64>,
    pub latency_ms: Spread,
    /// Of the outputs, as `eyelet run` prints it.
    pub digest: Digest,
    /// CRC-32C of the outputs.
    pub crc: u32,
}

/// Everything measured so far.
#[derive(Debug)]
pub struct Measured {
    pub how: How,
    pub solos: Vec<Solo>,
}

impl Measured {
    pub fn new(how: How) -> Self {
        Self { how, solos: Vec::new() }
    }

    /// Runs all plans of a pack that take at most so many bytes, or that for one budget, each alone.
    ///
    /// If all take more, the smallest one's bytes are returned, without times.
    pub fn pack(
        &mut self,
        pack: &Pack,
        budget: Option<u64>,
        most: u64,
    ) -> Result<Vec<Cost>, Error> {
        let plans = layouts(pack)?;
        let wanted = |plan: &&Layout| budget.is_none_or(|budget| plan.budget == budget);
        let Some(smallest) = plans.iter().filter(wanted).map(|plan| plan.bytes).min() else {
            let plans = plans.iter().map(|plan| plan.budget).collect();
            let (path, budget) = (pack.name(), budget.unwrap_or(u64::MAX));
            return Err(SetsError::Budget { path, budget, plans }.into());
        };
        let mut found = Vec::new();
        for plan in plans.iter().filter(wanted).filter(|plan| plan.bytes <= most) {
            let planned = Planned { pack: pack.clone(), budget: plan.budget };
            if self.solo(&planned).is_none() {
                let solo = self.how.first.run(|| self.how.solo(planned.clone(), plan))??;
                self.solos.push(solo);
            }
            found.extend(self.solo(&planned).map(|solo| solo.cost.clone()));
        }
        match found.is_empty() {
            true => Ok(vec![unmeasured(smallest)]),
            false => Ok(found),
        }
    }

    /// The run of a plan.
    pub fn solo(&self, planned: &Planned) -> Option<&Solo> {
        self.solos.iter().find(|solo| solo.planned == *planned)
    }

    /// The plan of a pack that costs so much.
    pub fn costing(&self, pack: &Pack, cost: &Cost) -> Option<&Solo> {
        self.solos.iter().find(|solo| solo.planned.pack == *pack && solo.cost == *cost)
    }

    /// What reads of chunks of these sizes cost, by reading some of each pack.
    pub fn storage(&self, chunk_sizes: &[u64]) -> Result<set::Storage, Error> {
        let mut packs: Vec<&Pack> = self.solos.iter().map(|solo| &solo.planned.pack).collect();
        packs.sort();
        packs.dedup();
        let mut times = Vec::new();
        for &bytes in chunk_sizes {
            for pack in &packs {
                let read = self.how.first.run(|| self.how.read(pack, bytes))??;
                times.push((bytes, read));
            }
        }
        let chunk_bytes = chunk_sizes.first().copied().unwrap_or(PAGE);
        Ok(set::Storage { chunk_bytes, read: fitted(&times, self.how.margin), write: None })
    }
}

/// Where a plan of a pack has its weights.
struct Layout {
    budget: u64,
    bytes: u64,
    /// What may leave memory.
    weights: Swappable,
    room: Swappable,
    streams: bool,
}

/// The plans of a pack. It is not mapped any more when this returns: pages that are mapped stay in the page cache, where
/// a file that is read past it must have none.
fn layouts(pack: &Pack) -> Result<Vec<Layout>, Error> {
    let pack = PackFile::of_task(pack)?;
    let of = |entry: &PlanEntry| {
        let (network, plan) = planner_types(&pack, &pack.prove(entry)?, entry)?;
        let ([weights, room], streams) = (swappable(&network, &plan), !plan.loads.is_empty());
        Ok(Layout { budget: entry.budget, bytes: plan.arena_bytes, weights, room, streams })
    };
    pack.entries.iter().map(of).collect()
}

/// The cost of a plan of so many bytes that was not run.
pub fn unmeasured(bytes: u64) -> Cost {
    let (compute_ns, step_ns) = (1, 1);
    let (weights, room) = Default::default();
    Cost { compute_ns, step_ns, bytes, weights, room, streams: false }
}

/// Chunks that are read of each pack, for each size: so many, or fewer that are large.
const READS: u64 = 48;
const LEAST_READS: u64 = 4;
const READ_BYTES: u64 = 128 << 20;

/// A rate and a time per chunk under which no chunk takes less than it did, times the margin.
fn fitted(times: &[(u64, Vec<u64>)], margin: f64) -> Transfer {
    let slowest = |times: &[u64]| times.iter().copied().max().unwrap_or(0) as f64 * margin;
    // The rate of the largest chunks; what small ones take longer is a time per chunk.
    let rate = |(bytes, times): &(u64, Vec<u64>)| *bytes as f64 / slowest(times).max(1.0) * 1e9;
    let most = times.iter().map(|(bytes, _)| *bytes).max().unwrap_or(0);
    let rates = times.iter().filter(|(bytes, _)| *bytes == most).map(rate);
    let bytes_per_second = rates.fold(f64::INFINITY, f64::min).clamp(1.0, 1e15) as u64;
    let alone = Transfer { per_chunk_ns: 0, bytes_per_second };
    let more = times
        .iter()
        .map(|(bytes, times)| (slowest(times) as u64).saturating_sub(alone.time_ns(*bytes)));
    Transfer { per_chunk_ns: more.max().unwrap_or(0) + (MAPPED_NS as f64 * margin) as u64, ..alone }
}

/// What mapping a chunk to its place, and another out of its, takes next to the read.
const MAPPED_NS: u64 = 30_000;

impl How {
    /// Opens a pack to be read.
    pub fn open(&self, pack: &Pack) -> Result<Part<Source>, Error> {
        let name = pack.name();
        let unreadable =
            |error: std::ffi::NulError| Error::Read { path: name.clone(), source: error.into() };
        let path = CString::new(pack.path.as_os_str().as_bytes()).map_err(unreadable)?;
        let place = pack.place.map(|place| (place.offset, place.bytes));
        Source::open_part(&path, self.io, place).map_err(|error| Error::pack(&name, error.into()))
    }

    /// How a plan is opened.
    pub fn options(&self, budget: u64) -> Options {
        Options { budget, threads: self.threads, ..Options::default() }
    }

    /// Runs a plan alone, as a set runs it: step by step, inputs before the first.
    fn solo(&self, planned: Planned, plan: &Layout) -> Result<Solo, Error> {
        let path = planned.pack.name();
        let mut storage = self.open(&planned.pack)?;
        let mut arena = MappedArena::new(plan.bytes as usize)?;
        let mut memory = arena.memory();
        let instance =
            Instance::open(&mut storage, memory.as_mut_slice(), self.options(plan.budget));
        let mut instance = instance.map_err(|source| Error::pack(&path, source))?;
        let times = with_threads(self.threads, self.cores.as_ref(), |device| {
            let mut model = instance.inline(&mut storage);
            Times::of(&mut model, device, &path, self.runs)
        })??;
        let worst = |ns: u64| (ns as f64 * self.margin) as u64 + 1;
        let compute_ns = worst(times.totals_ns.iter().copied().max().unwrap_or(0));
        let longest = times.steps_ns.iter().copied().max().unwrap_or(0);
        let mut totals = times.totals_ns;
        Ok(Solo {
            planned,
            cost: Cost {
                compute_ns,
                step_ns: worst(longest).min(compute_ns),
                bytes: plan.bytes,
                weights: plan.weights.clone(),
                room: plan.room.clone(),
                streams: plan.streams,
            },
            steps_ns: times.steps_ns,
            latency_ms: Spread::of(&mut totals),
            digest: times.digest,
            crc: times.crc,
        })
    }

    /// Times of reading chunks all over a pack, each with its checksum.
    fn read(&self, pack: &Pack, chunk_bytes: u64) -> Result<Vec<u64>, Error> {
        let wrong =
            |source: eyelet::storage::StorageError| Error::pack(&pack.name(), source.into());
        let mut storage = self.open(pack)?;
        let whole = storage.len().map_err(wrong)? / PAGE * PAGE;
        let bytes = chunk_bytes.min(whole);
        let mut arena = MappedArena::new(bytes as usize)?;
        let mut memory = arena.memory();
        let mut times = Vec::new();
        let reads = (READ_BYTES / bytes.max(1)).clamp(LEAST_READS, READS);
        for n in 0..reads {
            let offset = (whole - bytes) / reads * n / PAGE * PAGE;
            let start = Instant::now();
            storage.read(offset, memory.as_mut_slice()).map_err(wrong)?;
            std::hint::black_box(crc32c(0, memory.as_slice()));
            // A pack that is shorter than a chunk says less.
            let whole_chunk = chunk_bytes as f64 / bytes.max(1) as f64;
            times.push((start.elapsed().as_nanos() as f64 * whole_chunk) as u64);
        }
        Ok(times)
    }
}

/// Times of a plan that runs alone, and what it computes.
struct Times {
    totals_ns: Vec<u64>,
    /// The longest time of each step.
    steps_ns: Vec<u64>,
    digest: Digest,
    crc: u32,
}

impl Times {
    fn of(
        model: &mut Model<'_, '_, impl Feed>,
        device: &dyn Device,
        path: &Path,
        runs: u32,
    ) -> Result<Self, Error> {
        let (mut totals_ns, mut steps_ns) = (Vec::new(), Vec::new());
        let (mut digest, mut crc) = (Digest::default(), 0);
        for number in 0..=runs {
            let begin = Instant::now();
            let mut start = begin;
            write_inputs(model)?;
            for step in 0.. {
                let failed = |source| Error::Infer { path: path.to_owned(), number, source };
                let progress = model.step(device).map_err(failed)?;
                // Outputs are compared before anything else computes.
                if progress == Progress::Finished {
                    crc = crc_of(model);
                }
                let end = Instant::now();
                let ns = (end - start).as_nanos() as u64;
                match steps_ns.get_mut(step) {
                    Some(most) if number > 0 => *most = ns.max(*most),
                    Some(_) => {}
                    None => steps_ns.push(if number > 0 { ns } else { 0 }),
                }
                start = end;
                if progress == Progress::Finished {
                    break;
                }
            }
            if number > 0 {
                totals_ns.push(begin.elapsed().as_nanos() as u64);
            }
            digest = digest_of(model);
        }
        Ok(Self { totals_ns, steps_ns, digest, crc })
    }
}

/// Writes the inputs that every job of a network has.
pub fn write_inputs(ports: &mut dyn Ports) -> Result<(), Error> {
    (0..ports.inputs().len()).try_for_each(|index| Input::Seeded(index as u64).write(ports, index))
}

/// CRC-32C of all outputs, in order.
pub fn crc_of(ports: &mut dyn Ports) -> u32 {
    let mut crc = 0;
    for index in 0..ports.outputs().len() {
        if let Ok(floats) = ports.output(index) {
            crc = crc32c(crc, bytemuck::cast_slice(floats));
        } else if let Ok(words) = ports.output_words(index) {
            crc = crc32c(crc, bytemuck::cast_slice(words));
        }
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_chunk_is_promised_less_than_it_took() {
        let times = [
            (65536, vec![100_000, 400_000, 90_000]),
            (1 << 20, vec![1_000_000, 1_100_000]),
            (1 << 20, vec![2_000_000, 1_000_000]),
        ];
        for margin in [1.0, 1.5] {
            let read = fitted(&times, margin);
            for (bytes, times) in &times {
                let most = times.iter().copied().max().unwrap() as f64 * margin;
                assert!(read.time_ns(*bytes) as f64 >= most, "{bytes}: {read:?}");
            }
            assert!(read.per_chunk_ns < 600_000, "{read:?}");
        }
    }
}
