//! The runtime never calls the allocator: opening a pack, changing the budget, inferences inline, inferences with a loader
//! thread and workers. `tests/firmware` proves the same by linking without one.
//!
//! A program of its own, without the test harness, whose threads would be counted.

mod common;

use common::Subject;
use common::counting::{Counting, calls};
use eyelet::arena::MappedArena;
use eyelet::device::{Device, Inline, workers::Pool};
use eyelet::executor::{Event, Feed, Instance, Model, Observer, Options};
use eyelet::storage::{BufferedFile, DirectFile, Slice, Storage, StorageError};
use std::ffi::CString;
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
    println!(
        "no_alloc: no call of the allocator in opening a pack, 6 inferences and 2 changes of budget, inline and threaded"
    );
}
