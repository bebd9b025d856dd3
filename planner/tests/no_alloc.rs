//! The runtime never calls the allocator: opening a pack, inferences inline, inferences with a loader
//! thread and workers. `tests/firmware` proves the same by linking without one.
//!
//! A program of its own, without the test harness, whose threads would be counted.

mod common;

use common::Subject;
use eyelet::arena::MappedArena;
use eyelet::device::{Device, Inline, workers::Pool};
use eyelet::executor::{Event, Feed, Instance, Model, Observer, Options};
use eyelet::storage::{BufferedFile, Slice};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands every call on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator, by any thread, while `body` ran.
fn calls(body: impl FnOnce()) -> u64 {
    let before = CALLS.load(Ordering::SeqCst);
    body();
    CALLS.load(Ordering::SeqCst) - before
}

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
        };
        let before = count.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before % parts, part, "{event:?}");
        assert!(number == 0 || before >= parts, "{event:?}");
    }
}

/// Several inferences; the sum of the last output, which no run may leave at zero.
fn infer<F: Feed>(model: &mut Model<'_, '_, F>, input: &[f32], device: &dyn Device) -> f32 {
    for _ in 0..4 {
        model.input_mut(0).unwrap().copy_from_slice(input);
        model.infer(device).unwrap();
    }
    model.output(0).unwrap().iter().map(|x| x.abs()).sum()
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::new(&common::digits());
    let budget = subject.smallest(3);
    let path = folder.path().join("digits.pack");
    subject.pack(&path, &[budget], 3);
    let pack = std::fs::read(&path).unwrap();
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    let input = subject.input(0, 7);
    let counted = calls(|| drop(std::hint::black_box(vec![1u8; 100])));
    assert_eq!(counted, 2, "the counter counts");

    let seen = Seen::default();
    let (mut loads, mut steps) = (0, 0);
    let mut sum = 0.0;
    let inline = calls(|| {
        let mut arena = MappedArena::new(budget as usize).unwrap();
        let mut memory = arena.memory();
        let mut storage = Slice(&pack);
        let mut instance =
            Instance::open(&mut storage, memory.as_mut_slice(), Options::default()).unwrap();
        assert!(!instance.plan().loads.is_empty(), "the smallest budget streams");
        (loads, steps) = (instance.plan().loads.len() as u64, instance.plan().steps.len() as u64);
        instance.observe(Some(&seen));
        sum = infer(&mut instance.inline(&mut storage), &input, &Inline);
    });
    assert!(sum > 0.0);
    assert_eq!(inline, 0, "calls of the allocator, inline");
    let seen = [&seen.loads, &seen.steps].map(|count| count.load(Ordering::Relaxed));
    assert_eq!(seen, [4 * 2 * loads, 4 * 3 * steps], "what an observer is told");

    let mut threaded_sum = 0.0;
    let threaded = calls(|| {
        let mut arena = MappedArena::new(budget as usize).unwrap();
        let mut memory = arena.memory();
        let mut storage = BufferedFile::open(&name).unwrap();
        let options = Options { threads: 3, ..Options::default() };
        let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options).unwrap();
        let pool = Pool::new();
        pool.scope(3, None, |workers| {
            instance
                .with_loader(&mut storage, |model| threaded_sum = infer(model, &input, workers))
                .unwrap();
        })
        .unwrap();
    });
    assert_eq!(threaded_sum, sum);
    assert_eq!(threaded, 0, "calls of the allocator, with a loader and workers");
    println!(
        "no_alloc: no call of the allocator in opening a pack and 4 inferences, inline and threaded"
    );
}
