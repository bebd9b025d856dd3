//! What networks and storage cost on this machine: measured alone, and then in a rehearsal of the set.

use super::super::error::SetsError;
use super::costs::{ChunkCost, Costs, PlanCost};
use super::rehearse::Rehearsed;
use super::samples::{Interruption, Rule, Samples, Timed};
use super::threads::with_threads;
use super::watch::Times;
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
use eyelet_tasks::set::decided::{Decided, Pack, Planned};
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
    /// How samples count.
    pub rule: Rule,
    /// How those of networks alone do, before the set is rehearsed.
    pub rough: Rule,
}

/// A plan that was run alone, and maybe in a rehearsal.
#[derive(Clone, Debug)]
pub struct Solo {
    pub planned: Planned,
    pub cost: Cost,
    pub job: Timed,
    /// Of the step that counts most.
    pub step: Timed,
    /// The set was rehearsed with it.
    pub rehearsed: bool,
    alone: Times,
    /// Counted times of job and step alone, before any rehearsal.
    rough_ns: [u64; 2],
    pub latency_ms: Spread,
    /// Of the outputs, as `eyelet run` prints it.
    pub digest: Digest,
    /// CRC-32C of the outputs.
    pub crc: u32,
}

impl Solo {
    /// The longest time of each step alone.
    pub fn step_ns(&self, step: usize) -> u64 {
        self.alone.steps.get(step).map_or(0, |step| step.worst_ns)
    }

    /// Counts these times.
    fn count(&mut self, times: &Times, all: Interruption, rule: Rule) {
        self.job = rule.timed(&times.jobs, all);
        let steps = times.steps.iter().map(|step| rule.timed(step, all));
        self.step = steps.reduce(Timed::longer).unwrap_or_default();
        (self.cost.compute_ns, self.cost.step_ns) = (self.job.counted_ns, self.step.counted_ns);
        self.cost.step_ns = self.cost.step_ns.min(self.cost.compute_ns);
    }
}

/// Chunks of one size that were read.
#[derive(Clone, Debug)]
struct Read {
    bytes: u64,
    timed: Timed,
    rehearsed: bool,
    alone: Samples,
    rough_ns: u64,
}

/// Everything measured so far.
#[derive(Debug)]
pub struct Measured {
    pub how: How,
    pub solos: Vec<Solo>,
    reads: Vec<Read>,
}

impl Measured {
    pub fn new(how: How) -> Self {
        Self { how, solos: Vec::new(), reads: Vec::new() }
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
    pub fn storage(&mut self, chunk_sizes: &[u64]) -> Result<set::Storage, Error> {
        let mut packs: Vec<&Pack> = self.solos.iter().map(|solo| &solo.planned.pack).collect();
        packs.sort();
        packs.dedup();
        for &bytes in chunk_sizes {
            let read = |pack: &&Pack| self.how.first.run(|| self.how.read(pack, bytes))?;
            let times = packs.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
            let alone = Samples::of(times.into_iter().flatten());
            let timed = self.how.rough.timed(&alone, Interruption::default());
            let rough_ns = timed.counted_ns;
            self.reads.push(Read { bytes, timed, rehearsed: false, alone, rough_ns });
        }
        Ok(self.counted_storage(chunk_sizes.first().copied().unwrap_or(PAGE)))
    }

    /// Storage as it counts by now.
    pub fn counted_storage(&self, chunk_bytes: u64) -> set::Storage {
        let times: Vec<(u64, u64)> =
            self.reads.iter().map(|read| (read.bytes, read.timed.counted_ns)).collect();
        set::Storage { chunk_bytes, read: fitted(&times), write: None }
    }

    /// The costs of those plans of a pack that were run, the largest first.
    pub fn plans(&self, pack: &Pack) -> Vec<Cost> {
        let its = self.solos.iter().filter(|solo| solo.planned.pack == *pack);
        let mut costs: Vec<Cost> = its.map(|solo| solo.cost.clone()).collect();
        costs.sort_by_key(|cost| std::cmp::Reverse(cost.bytes));
        costs
    }

    /// Takes over what a rehearsal of a set has found. Plans and chunk sizes that it did not have count as longer by as much
    /// as those that it had.
    pub fn learn(&mut self, decided: &Decided, found: &Rehearsed) {
        let rule = self.how.rule;
        let all = Interruption::of(found.times.iter().flat_map(|times| &times.steps));
        for (planned, times) in decided.packs.iter().zip(&found.times) {
            let Some(solo) = self.solos.iter_mut().find(|solo| solo.planned == *planned) else {
                continue;
            };
            let before = (solo.job, solo.step, solo.rehearsed);
            let alone = solo.alone.clone();
            solo.count(if times.jobs.count > 0 { times } else { &alone }, all, rule);
            // Another instance may have had longer ones.
            if before.2 {
                (solo.job, solo.step) = (solo.job.longer(before.0), solo.step.longer(before.1));
                solo.cost.compute_ns = solo.job.counted_ns;
                solo.cost.step_ns = solo.step.counted_ns.min(solo.cost.compute_ns);
            }
            solo.rehearsed = true;
            let more = |counted: u64, rough: u64| (counted as f64 / rough.max(1) as f64).max(1.0);
            let [job, step] = solo.rough_ns;
            let (job, step) = (more(solo.job.counted_ns, job), more(solo.step.counted_ns, step));
            let of_pack = |solo: &&mut Solo| !solo.rehearsed && solo.planned.pack == planned.pack;
            for other in self.solos.iter_mut().filter(of_pack) {
                let [rough_job, rough_step] = other.rough_ns;
                let times = |ns: u64, more: f64| (ns as f64 * more) as u64 + 1;
                other.cost.compute_ns = other.cost.compute_ns.max(times(rough_job, job));
                let step_ns = other.cost.step_ns.max(times(rough_step, step));
                other.cost.step_ns = step_ns.min(other.cost.compute_ns);
            }
        }
        self.learn_chunks(decided.assignment.chunk_bytes, &found.chunks, all);
    }

    fn learn_chunks(&mut self, bytes: u64, chunks: &Samples, all: Interruption) {
        let rule = self.how.rule;
        let mut more: f64 = 1.0;
        for read in self.reads.iter_mut().filter(|read| read.bytes == bytes) {
            let found = rule.timed(if chunks.count > 0 { chunks } else { &read.alone }, all);
            read.timed = if read.rehearsed { read.timed.longer(found) } else { found };
            read.rehearsed = true;
            more = more.max(read.timed.counted_ns as f64 / read.rough_ns.max(1) as f64);
        }
        for read in self.reads.iter_mut().filter(|read| !read.rehearsed) {
            read.timed.counted_ns = (read.rough_ns as f64 * more) as u64 + 1;
        }
    }

    /// What was measured of a set's plans and chunks, for reports.
    pub fn costs(&self) -> Costs {
        let plan = |solo: &Solo| PlanCost {
            pack: solo.planned.pack.name(),
            budget_bytes: solo.planned.budget,
            rehearsed: solo.rehearsed,
            job: solo.job,
            step: solo.step,
            counted_job_ns: solo.cost.compute_ns,
            counted_step_ns: solo.cost.step_ns,
        };
        let &How { rule, rough, .. } = &self.how;
        let rehearsed = self.solos.iter().any(|solo| solo.rehearsed);
        let chunk = |read: &Read| ChunkCost {
            chunk_bytes: read.bytes,
            rehearsed: read.rehearsed,
            read: read.timed,
        };
        Costs {
            rule: if rehearsed { rule } else { rough }.to_string(),
            plans: self.solos.iter().map(plan).collect(),
            chunks: self.reads.iter().map(chunk).collect(),
        }
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

/// A rate and a time per chunk under which no chunk of these sizes takes less than is counted for it.
fn fitted(times: &[(u64, u64)]) -> Transfer {
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
            Ran::of(&mut model, device, &path, self.runs)
        })??;
        let Ran { times, mut totals_ns, digest, crc } = times;
        let mut solo = Solo {
            planned,
            cost: Cost {
                compute_ns: 0,
                step_ns: 0,
                bytes: plan.bytes,
                weights: plan.weights.clone(),
                room: plan.room.clone(),
                streams: plan.streams,
            },
            job: Timed::default(),
            step: Timed::default(),
            rehearsed: false,
            alone: times.clone(),
            rough_ns: [0; 2],
            latency_ms: Spread::of(&mut totals_ns),
            digest,
            crc,
        };
        solo.count(&times, Interruption::of(&times.steps), self.rough);
        solo.rough_ns = [solo.cost.compute_ns, solo.cost.step_ns];
        Ok(solo)
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
    digest: Digest,
    crc: u32,
}

impl Ran {
    fn of(
        model: &mut Model<'_, '_, impl Feed>,
        device: &dyn Device,
        path: &Path,
        runs: u32,
    ) -> Result<Self, Error> {
        let (mut times, mut totals_ns) = (Times::default(), Vec::new());
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
            digest = digest_of(model);
        }
        Ok(Self { times, totals_ns, digest, crc })
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
    fn no_chunk_is_promised_less_than_is_counted() {
        let times = [(65536, 400_000), (1 << 20, 1_100_000), (4 << 20, 3_900_000)];
        let read = fitted(&times);
        for (bytes, ns) in times {
            assert!(read.time_ns(bytes) >= ns, "{bytes}: {read:?}");
        }
        assert!(read.per_chunk_ns < 400_000, "{read:?}");
    }

    fn solo(path: &str, budget: u64, compute_ns: u64) -> Solo {
        let times =
            Times { jobs: Samples::of([compute_ns]), steps: vec![Samples::of([compute_ns / 2])] };
        let mut solo = Solo {
            planned: Planned { pack: std::path::PathBuf::from(path).into(), budget },
            cost: unmeasured(budget),
            job: Timed::default(),
            step: Timed::default(),
            rehearsed: false,
            alone: times.clone(),
            rough_ns: [compute_ns + 1, compute_ns / 2 + 1],
            latency_ms: Spread::default(),
            digest: Digest::default(),
            crc: 0,
        };
        solo.count(&times, Interruption::default(), Rule::Margin(1.0));
        solo
    }

    /// A set of two instances of a pack's larger plan was rehearsed.
    #[test]
    fn what_a_rehearsal_finds_counts_for_other_plans_and_chunk_sizes_in_proportion() {
        let (rule, rough) = (Rule::Margin(2.0), Rule::Margin(1.0));
        let (io, first) = (Io::Buffered, First::default());
        let how = How { io, threads: 1, cores: None, first, runs: 1, rule, rough };
        let mut measured = Measured::new(how);
        measured.solos = vec![solo("a", 8, 1000), solo("a", 4, 3000), solo("b", 8, 1000)];
        let read = |bytes, ns| Read {
            bytes,
            timed: rough.timed(&Samples::of([ns]), Interruption::default()),
            rehearsed: false,
            alone: Samples::of([ns]),
            rough_ns: ns,
        };
        measured.reads = vec![read(4096, 1000), read(8192, 1500)];
        let found = |job: u64, step: u64| Times {
            jobs: Samples::of([job]),
            steps: vec![Samples::of([step])],
        };
        let planned = measured.solos[0].planned.clone();
        let mut decided = decided(planned.clone());
        decided.packs = vec![planned; 2];
        let rehearsed = Rehearsed {
            times: vec![found(1500, 600), found(1200, 900)],
            chunks: Samples::of([2000]),
        };
        measured.learn(&decided, &rehearsed);
        let costs: Vec<_> =
            measured.solos.iter().map(|solo| (solo.cost.compute_ns, solo.cost.step_ns)).collect();
        // The longest of both instances, twice.
        assert_eq!(costs[0], (3001, 1801));
        // Three times as long as alone, and more.
        assert!(
            (8900..9100).contains(&costs[1].0) && (5300..5500).contains(&costs[1].1),
            "{costs:?}"
        );
        assert_eq!(costs[2], (1001, 501));
        let storage = measured.counted_storage(4096);
        assert!(storage.chunk_ns(4096) >= 4001 && storage.chunk_ns(8192) >= 6000, "{storage:?}");
        assert_eq!(measured.plans(&decided.packs[0].pack).len(), 2);
        let costs = measured.costs();
        assert!(costs.plans[0].rehearsed && !costs.plans[1].rehearsed);
        assert_eq!(costs.plans[1].counted_job_ns, measured.solos[1].cost.compute_ns);
    }

    fn decided(planned: Planned) -> Decided {
        use eyelet_tasks::set::{Assignment, TaskSet};
        let storage = set::Storage { chunk_bytes: 4096, read: fitted(&[(4096, 1)]), write: None };
        Decided {
            set: TaskSet { memory_bytes: 8192, page_bytes: PAGE, storage, tasks: Vec::new() },
            assignment: Assignment {
                chunk_bytes: 4096,
                chunks: Vec::new(),
                levels: Vec::new(),
                policy: eyelet::tasks::Policy::Steps,
            },
            packs: vec![planned],
        }
    }
}
