//! How long it takes to change the budgets of all networks of a set, in the middle of their jobs: to half and back.
//!
//!     cargo run --release --manifest-path lab/Cargo.toml --bin budgets -- 50 A.pack B.pack
//!
//! Each pack has plans for two budgets, made with `--exact`. Prints an object: of both directions the times of the change, of
//! the reads in it, and of all else. Fails if an output is another one than that of the network alone.

use eyelet::arena::{MappedArena, SharedArena};
use eyelet::device::Inline;
use eyelet::executor::{self, ChunkedInstance, Instance, Options, Ports, Share};
use eyelet::pack::PAGE;
use eyelet::pack::crc32c::crc32c;
use eyelet::set::{Activity, Finished, Host, JobError, Member, Policy, SetEvent, Task, TaskSet};
use eyelet::storage::{Storage, StorageError};
use eyelet::tasks::set_reloads;
use eyelet_planner::source::{Io, Source};
use std::cell::Cell;
use std::error::Error;
use std::ffi::CString;
use std::time::Instant;

const CHUNK: u64 = 256 << 10;
/// Networks at most.
const MOST: usize = 16;
/// Steps between two changes.
const STEPS: usize = 97;
const SECOND_NS: u64 = 1_000_000_000;

type Failure = Box<dyn Error>;

/// A file that counts what reading takes. Reads come one after the other, so that none hides behind another.
struct Counted<'c> {
    file: Source,
    ns: &'c Cell<u64>,
    bytes: &'c Cell<u64>,
}

impl Storage for Counted<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        let start = Instant::now();
        let read = self.file.read(offset, into);
        self.ns.set(self.ns.get() + start.elapsed().as_nanos() as u64);
        self.bytes.set(self.bytes.get() + into.len() as u64);
        read
    }

    fn alignment(&self) -> u64 {
        self.file.alignment()
    }
}

/// A pack with two plans, and what its network computes.
struct Network {
    path: String,
    /// The larger budget, and the smaller one.
    budgets: [u64; 2],
    crc: u32,
}

impl Network {
    fn new(path: String) -> Result<Self, Failure> {
        let mut file = open(&path)?;
        let mut page = MappedArena::new(PAGE as usize)?;
        let mut page = page.memory();
        file.read(0, page.as_mut_slice())?;
        let header = executor::header(page.as_slice(), file.len()?)?;
        let entries = executor::entries(page.as_slice(), header.plans);
        let mut budgets: Vec<u64> = entries.map(|entry| entry.arena_bytes).collect();
        budgets.sort_unstable();
        let [half, whole] = budgets[..] else {
            return Err(
                format!("{path}: it has {} plans, and two are needed", budgets.len()).into()
            );
        };
        let mut arena = MappedArena::new(whole as usize)?;
        let mut memory = arena.memory();
        let options = Options { budget: whole, ..Options::default() };
        let mut instance = Instance::open(&mut file, memory.as_mut_slice(), options)?;
        let mut model = instance.inline(&mut file);
        write_inputs(&mut model);
        model.infer(&Inline)?;
        let crc = crc_of(&mut model);
        Ok(Self { path, budgets: [whole, half], crc })
    }

    fn shares(&self) -> [Share; 2] {
        self.budgets.map(|budget| Share { budget: budget + PAGE, chunks: u32::MAX })
    }

    fn open<'a>(
        &self,
        arena: &'a SharedArena,
        shares: &[Share],
    ) -> Result<ChunkedInstance<'a>, Failure> {
        Ok(ChunkedInstance::open_shares(&mut open(&self.path)?, arena, Options::default(), shares)?)
    }

    /// What it keeps with both shares, and its task with each.
    fn needs(&self) -> Result<(u64, [Task; 2]), Failure> {
        let bytes = 2 * self.budgets[0] + (4 << 20);
        let [whole, half] = self.shares();
        let of_share = |share: Share| -> Result<Task, Failure> {
            let arena = SharedArena::new(bytes, CHUNK)?;
            let network = self.open(&arena, &[share])?;
            let task = Task { step_ns: SECOND_NS, ..Task::new(60 * SECOND_NS, SECOND_NS) };
            Ok(Task { chunk_ns: SECOND_NS / 1000, ..task }.of(&network))
        };
        let tasks = [of_share(whole)?, of_share(half)?];
        let arena = SharedArena::new(bytes, CHUNK)?;
        Ok((self.open(&arena, &self.shares())?.kept_bytes(), tasks))
    }
}

fn open(path: &str) -> Result<Source, Failure> {
    Ok(Source::open(&CString::new(path)?, Io::Direct)?)
}

fn write_inputs(ports: &mut dyn Ports) {
    for index in 0..ports.inputs().len() {
        if let Ok(floats) = ports.input_mut(index) {
            floats.iter_mut().enumerate().for_each(|(at, x)| *x = (at % 251) as f32 / 251.0);
        }
    }
}

fn crc_of(ports: &mut dyn Ports) -> u32 {
    let count = ports.outputs().len();
    let mut floats = |index| ports.output(index).map_or(0, |x| crc32c(0, bytemuck::cast_slice(x)));
    (0..count).map(&mut floats).fold(0, |all, one| all.rotate_left(1) ^ one)
}

/// The program's side: inputs, and whether outputs are those of the networks alone.
struct Jobs<'n> {
    networks: &'n [Network],
    ended: Vec<u64>,
    restarts: u64,
    different: u64,
    failed: Option<JobError>,
}

impl Host for Jobs<'_> {
    fn inputs(&mut self, _: usize, ports: &mut dyn Ports) {
        write_inputs(ports);
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        self.different += u64::from(crc_of(ports) != self.networks[job.task].crc);
        self.ended[job.task] += 1;
    }

    fn failed(&mut self, _: usize, error: JobError) {
        // Jobs that are unfinished at the end are no failures.
        if !matches!(error, JobError::Stopped) {
            self.failed.get_or_insert(error);
        }
    }

    fn event(&mut self, event: SetEvent, _: u64) {
        self.restarts += u64::from(matches!(event, SetEvent::StartsOver { .. }));
    }
}

/// Milliseconds of changes in one direction, of the reads in each, and bytes that were read.
#[derive(Default)]
struct Changes {
    all: Vec<f64>,
    reads: Vec<f64>,
    bytes: u64,
}

impl Changes {
    fn add(&mut self, ns: u64, read_ns: u64, bytes: u64) {
        self.all.push(ns as f64 / 1e6);
        self.reads.push(read_ns as f64 / 1e6);
        self.bytes = bytes;
    }

    fn object(&self) -> serde_json::Value {
        let others = self.all.iter().zip(&self.reads).map(|(all, reads)| all - reads);
        let of = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            let median = values.get(values.len() / 2);
            serde_json::json!({ "median": median, "max": values.last() })
        };
        serde_json::json!({
            "change_ms": of(self.all.clone()),
            "reads_ms": of(self.reads.clone()),
            "beside_ms": of(others.collect()),
            "read_bytes": self.bytes,
        })
    }
}

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let usage = "give a number of changes, and packs with two plans each";
    let changes: usize = arguments.next().ok_or(usage)?.parse()?;
    let networks: Vec<Network> = arguments.map(Network::new).collect::<Result<_, _>>()?;
    if networks.is_empty() || networks.len() > MOST {
        return Err(format!("{usage}, 1 to {MOST} of them").into());
    }
    let needs: Vec<(u64, [Task; 2])> =
        networks.iter().map(Network::needs).collect::<Result<_, _>>()?;
    // One job's chunks at a time.
    let choices = [0, 1].map(|at| needs.iter().map(|(_, tasks)| tasks[at]).collect::<Vec<_>>());
    let slots = choices.iter().flatten().map(|task| task.chunks).max().unwrap_or(0);
    let kept: u64 = needs.iter().map(|(kept, _)| kept).sum();
    let bytes = kept + PAGE + u64::from(slots) * CHUNK;
    let arena = SharedArena::new(bytes, CHUNK)?;
    let mut opened = Vec::new();
    for network in &networks {
        opened.push(network.open(&arena, &network.shares())?);
    }
    let pool = arena.pool()?;
    let choices = choices.map(|mut tasks| {
        set_reloads(&mut tasks, slots);
        tasks
    });
    let (ns, read) = (Cell::new(0), Cell::new(0));
    let counted = |network: &Network| -> Result<_, Failure> {
        Ok(Counted { file: open(&network.path)?, ns: &ns, bytes: &read })
    };
    let mut disks: Vec<Counted> = networks.iter().map(counted).collect::<Result<_, _>>()?;
    let members = opened.iter_mut().zip(&mut disks).zip(&choices[0]);
    let members =
        members.map(|((network, storage), task)| Member { task: *task, network, storage });
    let mut set =
        TaskSet::<_, MOST>::new(Policy::Steps, members, pool).map_err(|error| error.to_string())?;
    let mut jobs = Jobs {
        networks: &networks,
        ended: vec![0; networks.len()],
        restarts: 0,
        different: 0,
        failed: None,
    };
    let start = Instant::now();
    let clock = || start.elapsed().as_nanos() as u64;
    let mut found: [Changes; 2] = Default::default();
    let ran = set.run(&Inline, &clock, &mut jobs, |running| -> Result<(), Failure> {
        for change in 0..2 * changes {
            for _ in 0..STEPS {
                for task in 0..networks.len() {
                    let _ = running.release(task, clock());
                }
                if running.step() == Activity::Loading {
                    running.wait();
                }
            }
            let at = (change + 1) % 2;
            let budgets: Vec<u64> =
                networks.iter().map(|network| network.shares()[at].budget).collect();
            let before = (ns.get(), read.get(), Instant::now());
            running.change(&budgets, &choices[at]).map_err(|error| error.to_string())?;
            let took_ns = before.2.elapsed().as_nanos() as u64;
            found[1 - at].add(took_ns, ns.get() - before.0, read.get() - before.1);
        }
        Ok(())
    });
    ran?;
    if let Some(error) = jobs.failed {
        return Err(error.to_string().into());
    }
    if jobs.different > 0 {
        return Err(
            format!("{} outputs are not those of the networks alone", jobs.different).into()
        );
    }
    let [to_half, back] = found.each_ref().map(Changes::object);
    let demand: u64 = networks.iter().map(|network| network.budgets[0]).sum();
    println!(
        "{}",
        serde_json::json!({
            "changes": changes, "to_half": to_half, "back": back, "arena_bytes": arena.bytes(),
            "demand_bytes": demand, "jobs": jobs.ended, "restarts": jobs.restarts,
        })
    );
    Ok(())
}
