//! What networks and storage cost on this machine: measured alone, and then in a rehearsal of the set.

use super::samples::{Rule, Samples};
use super::solo::{Example, Solo};
use super::threads::with_threads;
use super::watch::Times;
use crate::cli::Error;
use crate::cli::first::First;
use crate::cli::pack_file::{PackFile, planner_types};
use crate::cli::run::digest_of;
use crate::cli::run::input::Input;
use crate::cli::run::report::Spread;
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
use eyelet_tasks::set::{Cost, Swappable, Transfer};
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
    /// How samples count.
    pub rule: Rule,
    /// How those of networks alone do, before the set is rehearsed.
    pub rough: Rule,
}

/// Where a plan of a pack has its weights.
pub struct Layout {
    pub budget: u64,
    pub bytes: u64,
    /// What may leave memory.
    weights: Swappable,
    room: Swappable,
    streams: bool,
}

/// The plans of a pack. It is not mapped any more when this returns: pages that are mapped stay in the page cache, where
/// a file that is read past it must have none.
pub fn layouts(pack: &Pack) -> Result<Vec<Layout>, Error> {
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

/// A rate and a time per chunk under which no chunk of these sizes takes less than is counted for it.
pub fn fitted(times: &[(u64, u64)]) -> Transfer {
    // The rate of the largest chunks; what small ones take longer is a time per chunk.
    let most = times.iter().max_by_key(|(bytes, _)| *bytes).copied().unwrap_or((PAGE, 1));
    let rate = most.0 as f64 / most.1.max(1) as f64 * 1e9;
    let alone = Transfer { per_chunk_ns: 0, bytes_per_second: rate.clamp(1.0, 1e15) as u64 };
    let more = times.iter().map(|&(bytes, ns)| ns.saturating_sub(alone.time_ns(bytes)));
    Transfer { per_chunk_ns: more.max().unwrap_or(0), ..alone }
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
    pub fn solo(&self, planned: Planned, plan: &Layout) -> Result<Solo, Error> {
        let path = planned.pack.name();
        let mut storage = self.open(&planned.pack)?;
        let mut arena = MappedArena::new(plan.bytes as usize)?;
        let mut memory = arena.memory();
        let instance =
            Instance::open(&mut storage, memory.as_mut_slice(), self.options(plan.budget));
        let mut instance = instance.map_err(|source| Error::pack(&path, source))?;
        let times = with_threads(self.threads, self.cores.as_ref(), |device| {
            let mut model = instance.inline(&mut storage);
            Ran::of(&mut model, device, &path, self.runs)
        })??;
        let Ran { times, mut totals_ns, example } = times;
        let cost = Cost {
            weights: plan.weights.clone(),
            room: plan.room.clone(),
            streams: plan.streams,
            ..unmeasured(plan.bytes)
        };
        let latency_ms = Spread::of(&mut totals_ns);
        Ok(Solo::new((planned, cost), times, (latency_ms, example), self.rough))
    }

    /// Times of reading chunks all over a pack, each with its checksum.
    pub fn read(&self, pack: &Pack, chunk_bytes: u64) -> Result<Vec<u64>, Error> {
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
            let took = start.elapsed().as_nanos() as f64 * whole_chunk;
            times.push(took as u64 + MAPPED_NS);
        }
        Ok(times)
    }
}

/// A plan that ran alone, and what it computed.
struct Ran {
    times: Times,
    totals_ns: Vec<u64>,
    example: Example,
}

impl Ran {
    fn of(
        model: &mut Model<'_, '_, impl Feed>,
        device: &dyn Device,
        path: &Path,
        runs: u32,
    ) -> Result<Self, Error> {
        let (mut times, mut totals_ns) = (Times::default(), Vec::new());
        let mut example = Example { inputs: Input::seeded(model.skeleton()), ..Example::default() };
        for number in 0..=runs {
            let begin = Instant::now();
            let mut start = begin;
            write_inputs(&example.inputs, model)?;
            for step in 0.. {
                let failed = |source| Error::Infer { path: path.to_owned(), number, source };
                let progress = model.step(device).map_err(failed)?;
                // Outputs are compared before anything else computes.
                if progress == Progress::Finished {
                    example.crc = crc_of(model);
                }
                let end = Instant::now();
                if times.steps.len() <= step {
                    times.steps.push(Samples::default());
                }
                if number > 0 {
                    times.steps[step].add((end - start).as_nanos() as u64);
                }
                start = end;
                if progress == Progress::Finished {
                    break;
                }
            }
            if number > 0 {
                let ns = begin.elapsed().as_nanos() as u64;
                totals_ns.push(ns);
                times.jobs.add(ns);
            }
            example.digest = digest_of(model);
        }
        Ok(Self { times, totals_ns, example })
    }
}

/// Writes the inputs that every job of a network has.
pub fn write_inputs(inputs: &[Input], ports: &mut dyn Ports) -> Result<(), Error> {
    inputs.iter().enumerate().try_for_each(|(index, input)| input.write(ports, index))
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
    fn no_chunk_is_promised_less_than_is_counted() {
        let times = [(65536, 400_000), (1 << 20, 1_100_000), (4 << 20, 3_900_000)];
        let read = fitted(&times);
        for (bytes, ns) in times {
            assert!(read.time_ns(bytes) >= ns, "{bytes}: {read:?}");
        }
        assert!(read.per_chunk_ns < 400_000, "{read:?}");
    }
}
