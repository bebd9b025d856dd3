//! The runtime never calls the allocator: opening a pack, changing the budget, inferences inline, inferences with a loader
//! thread and workers, task sets. `tests/firmware` proves the same by linking without one. The memory of a task set is its
//! arena, by the kernel's count.
//!
//! A program of its own, without the test harness, whose threads would be counted.

mod common;

use common::Subject;
use common::counting::{Counting, calls};
use eyelet::arena::{MappedArena, SharedArena};
use eyelet::device::{Device, Inline, workers::Pool};
use eyelet::executor::{ChunkedInstance, Event, Feed, Instance, Model, Observer, Options};
use eyelet::set::{Activity, Finished, Host, Member, Policy, Ports, Task, TaskSet};
use eyelet::storage::{BufferedFile, DirectFile, Slice, Storage, StorageError};
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what an instance tells, and sees to it that steps and loads are in order.
#[derive(Debug, Default)]
struct Seen {
    loads: AtomicU64,
    steps: AtomicU64,
}

impl Observer for Seen {
    fn event(&self, event: Event) {
        // Three moments of each step, two of each load.
        let (count, parts, number, part) = match event {
            Event::LoadBegins(load) => (&self.loads, 2, load, 0),
            Event::LoadEnds(load) => (&self.loads, 2, load, 1),
            Event::StepWaits(step) => (&self.steps, 3, step, 0),
            Event::StepBegins(step) => (&self.steps, 3, step, 1),
            Event::StepEnds(step) => (&self.steps, 3, step, 2),
            event => panic!("an event that this test does not know: {event:?}"),
        };
        let before = count.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before % parts, part, "{event:?}");
        assert!(number == 0 || before >= parts, "{event:?}");
    }
}

/// Several inferences, the budget changing between them; the sum of the last output, which no run may leave at zero.
fn infer<F: Feed>(
    model: &mut Model<'_, '_, F>,
    input: &[f32],
    device: &dyn Device,
    budgets: [u64; 2],
) -> f32 {
    for run in 0..6 {
        model.set_budget(budgets[run / 2 % 2]).unwrap();
        model.input_mut(0).unwrap().copy_from_slice(input);
        model.infer(device).unwrap();
    }
    model.output(0).unwrap().iter().map(|x| x.abs()).sum()
}

/// Calls of the allocator in the same with a loader and workers, whose last output has this sum.
fn threaded<S: Storage + Send>(
    open: impl Fn() -> S,
    input: &[f32],
    budgets: [u64; 2],
    expected: f32,
) -> u64 {
    let mut sum = 0.0;
    let counted = calls(|| {
        let mut arena = MappedArena::new(budgets[1] as usize).unwrap();
        let mut memory = arena.memory();
        let mut storage = open();
        let options = Options { threads: 3, ..Options::default() };
        let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options).unwrap();
        let pool = Pool::new();
        pool.scope(3, None, |workers| {
            instance
                .with_loader(&mut storage, |model| sum = infer(model, input, workers, budgets))
                .unwrap();
        })
        .unwrap();
    });
    assert_eq!(sum, expected);
    counted
}

/// Writes inputs, and sums up outputs.
struct Sums<'i> {
    input: &'i [f32],
    sums: [f32; 2],
    jobs: [u64; 2],
}

impl Host for Sums<'_> {
    fn inputs(&mut self, _: usize, ports: &mut dyn Ports) {
        ports.input_mut(0).unwrap().copy_from_slice(self.input);
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        self.sums[job.task] = ports.output(0).unwrap().iter().map(|x| x.abs()).sum();
        self.jobs[job.task] += 1;
    }
}

const CHUNK: u64 = 16 << 10;
/// Jobs of each task of the set.
const JOBS: u64 = 40;

/// Two networks, of which one at a time is in memory. Calls `look` after each step.
fn set(
    path: &CStr,
    pack: &[u8],
    bytes: u64,
    chunks: u32,
    host: &mut Sums<'_>,
    look: &mut dyn FnMut(),
) -> u64 {
    let arena = SharedArena::new(bytes, CHUNK).unwrap();
    let open =
        || ChunkedInstance::open(&mut Slice(pack), &arena, Options::default(), chunks).unwrap();
    let mut networks = [open(), open()];
    let pool = arena.pool().unwrap();
    assert_eq!(pool.chunks(), chunks);
    let mut storages = [BufferedFile::open(path).unwrap(), BufferedFile::open(path).unwrap()];
    let [a, b] = &mut networks;
    let task = Task { chunk_ns: 1, step_ns: 10, ..Task::new(1000, 100) }.of(a);
    let [of_a, of_b] = &mut storages;
    let members =
        [Member { task, network: a, storage: of_a }, Member { task, network: b, storage: of_b }];
    let mut set = TaskSet::<_, 2>::new(Policy::Steps, members, pool).unwrap();
    set.run(&Inline, &|| 0, host, |running| {
        for job in 0..JOBS {
            for task in 0..2 {
                running.release(task, 1000 * job).unwrap();
            }
            while running.step() != Activity::Idle {
                look();
            }
        }
    });
    set.counts(0).chunks + set.counts(1).chunks
}

/// So many bytes, by a line of the process's status.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    1024 * line.trim_matches([':', '\t', ' ', 'k', 'B']).parse::<u64>().unwrap()
}

/// A task set: no call of the allocator, and no more memory than its arena.
fn sets(path: &CStr, pack: &[u8], input: &[f32], expected: f32) {
    let (kept, chunks) = {
        let arena = SharedArena::new(4 << 20, CHUNK).unwrap();
        let opened = ChunkedInstance::open(&mut Slice(pack), &arena, Options::default(), u32::MAX);
        let opened = opened.unwrap();
        (opened.kept_bytes(), opened.chunks())
    };
    assert!(chunks > 2, "{chunks} chunks");
    // With the list of slots.
    let bytes = 2 * kept + u64::from(chunks) * CHUNK + 4096;
    let mut host = Sums { input, sums: [0.0; 2], jobs: [0; 2] };
    let mut swapped = 0;
    let counted = calls(|| swapped = set(path, pack, bytes, chunks, &mut host, &mut || ()));
    assert_eq!((host.jobs, host.sums), ([JOBS; 2], [expected; 2]));
    assert_eq!(swapped, 2 * JOBS * u64::from(chunks), "each job pushes the other network out");
    assert_eq!(counted, 0, "calls of the allocator, in a task set");
    let (before, mut shared, mut all) = (status("VmRSS"), 0, 0);
    set(path, pack, bytes, chunks, &mut host, &mut || {
        shared = shared.max(status("RssShmem"));
        all = all.max(status("VmRSS"));
    });
    assert!(shared > bytes / 2 && shared <= bytes, "{shared} bytes mapped, the arena has {bytes}");
    let most = before + bytes + (2 << 20);
    assert!(all <= most, "{all} bytes in all, {most} are the set's and what was there");
}

fn main() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let subject = Subject::new(&common::digits());
    let (budget, large) = (subject.smallest(3), 1 << 20);
    let path = folder.path().join("digits.pack");
    subject.pack(&path, &[budget, large], 3);
    let pack = std::fs::read(&path).unwrap();
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    let input = subject.input(0, 7);
    let counted = calls(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(counted, 2, "the counter counts");

    let seen = Seen::default();
    let (mut loads, mut steps) = (0, 0);
    let (mut sum, mut changed) = (0.0, 0.0);
    let inline = calls(|| {
        let mut arena = MappedArena::new(large as usize).unwrap();
        let mut memory = arena.memory();
        let mut storage = Slice(&pack);
        let options = Options { budget, ..Options::default() };
        let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options).unwrap();
        assert!(!instance.plan().loads.is_empty(), "the smallest budget streams");
        (loads, steps) = (instance.plan().loads.len() as u64, instance.plan().steps.len() as u64);
        instance.observe(Some(&seen));
        sum = infer(&mut instance.inline(&mut storage), &input, &Inline, [budget, budget]);
        instance.observe(None);
        changed = infer(&mut instance.inline(&mut storage), &input, &Inline, [budget, large]);
    });
    assert!(sum > 0.0);
    assert_eq!(changed, sum, "the budget changes nothing");
    assert_eq!(inline, 0, "calls of the allocator, inline");
    let seen = [&seen.loads, &seen.steps].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(seen, [6 * 2 * loads, 6 * 3 * steps], "what an observer is told");

    let open = || BufferedFile::open(&name).unwrap();
    let threaded = threaded(open, &input, [budget, large], sum);
    assert_eq!(threaded, 0, "calls of the allocator, with a loader and workers");
    if let Err(error) = DirectFile::open(&name) {
        assert_eq!(error, StorageError::NoDirectIo, "{error}");
        println!("no_alloc: reads under way skipped, {error}");
    } else {
        let open = || DirectFile::open(&name).unwrap();
        let under_way = self::threaded(open, &input, [budget, large], sum);
        assert_eq!(under_way, 0, "calls of the allocator, with reads under way");
    }
    sets(&name, &pack, &input, sum);
    println!(
        "no_alloc: no call of the allocator in opening a pack, 6 inferences and 2 changes of budget, inline and threaded"
    );
}
