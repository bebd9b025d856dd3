//! Several reads under way: the same bits, loads in order, and errors that leave nothing behind.

use crate::common::{Aligned, Subject, bits, digits, run_inline, sweeps, write_input, zoo_model};
use eyelet::device::{Inline, workers::Pool};
use eyelet::executor::{
    BudgetError, Event, Feed, InferError, Instance, LoadError, Model, Observer, OpenError, Options,
    PlanError,
};
use eyelet::storage::faulty::Fault;
use eyelet::storage::{DirectFile, Faulty, MAX_BEGUN, MAX_DEPTH, Slice, Storage, StorageError};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

/// A pack at its smallest budget, and one a little larger.
struct Case {
    subject: Subject,
    budgets: [u64; 2],
    pack: Vec<u8>,
}

impl Case {
    fn of(model: &Path, threads: u32) -> Self {
        let subject = Subject::new(model);
        let smallest = subject.smallest(threads);
        let budgets = [smallest, smallest + smallest / 4];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.pack");
        subject.pack(&path, &budgets, threads);
        Self { pack: std::fs::read(&path).unwrap(), subject, budgets }
    }

    /// Calls `body` with the storage, and with the instance of a budget.
    fn open<S: Storage, T>(
        &self,
        budget: u64,
        options: Options,
        mut storage: S,
        body: impl FnOnce(&mut S, &mut Instance<'_>) -> T,
    ) -> T {
        let mut arena = Aligned::new(self.budgets[1]);
        let options = Options { budget, ..options };
        let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
        assert!(!instance.plan().loads.is_empty());
        body(&mut storage, &mut instance)
    }
}

fn infer<F: Feed>(
    model: &mut Model<'_, '_, F>,
    device: &dyn eyelet::device::Device,
    inputs: &[Vec<f32>],
) -> Result<Vec<Vec<u32>>, InferError> {
    for (index, input) in inputs.iter().enumerate() {
        write_input(model, index, input);
    }
    model.infer(device)?;
    let outputs: Vec<_> =
        (0..model.outputs().len()).map(|index| model.output(index).unwrap().to_vec()).collect();
    Ok(bits(&outputs))
}

/// Inferences, a change of budget and back, with a loader beside and inline, reads overlapped or not.
fn runs<S: Storage + Send>(
    case: &Case,
    depth: u32,
    storage: impl Fn() -> S,
    expected: &[Vec<u32>],
    inputs: &[Vec<f32>],
) {
    let [small, large] = case.budgets;
    let options = Options { depth, threads: 2, ..Options::default() };
    let budgets = [small, small, large, small, small, large, large];
    case.open(small, options, storage(), |storage, instance| {
        Pool::new()
            .scope(2, None, |workers| {
                instance
                    .with_loader(storage, |model| {
                        for budget in budgets {
                            model.set_budget(budget).unwrap();
                            assert_eq!(infer(model, workers, inputs).unwrap(), expected);
                        }
                    })
                    .unwrap();
            })
            .unwrap();
        instance.overlapped(storage, |model| {
            for budget in [small, small, large, small] {
                model.set_budget(budget).unwrap();
                assert_eq!(infer(model, &Inline, inputs).unwrap(), expected);
            }
        });
        let mut model = instance.inline(storage);
        for budget in budgets {
            model.set_budget(budget).unwrap();
            assert_eq!(infer(&mut model, &Inline, inputs).unwrap(), expected);
        }
    });
}

fn same_with_reads_under_way(model: &Path) {
    let case = Case::of(model, 2);
    let inputs = case.subject.inputs(11);
    let expected = bits(&run_inline(&case.pack, case.budgets[1], &inputs, &Inline, 1));
    for depth in [2, 3, MAX_DEPTH] {
        let storage = || Faulty::new(Slice(&case.pack), &[]).queued(depth);
        runs(&case, u32::MAX, storage, &expected, &inputs);
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("network.pack");
    std::fs::write(&path, &case.pack).unwrap();
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    match DirectFile::open(&name) {
        Err(StorageError::NoDirectIo) => eprintln!("skipped: no direct I/O in the target folder"),
        file => {
            file.unwrap();
            for depth in [1, 2, 4] {
                runs(&case, depth, || DirectFile::open(&name).unwrap(), &expected, &inputs);
            }
        }
    }
}

#[test]
fn digits_is_the_same_with_reads_under_way() {
    same_with_reads_under_way(&digits());
}

#[test]
fn squeezenet_is_the_same_with_reads_under_way() {
    let folder = tempfile::tempdir().unwrap();
    same_with_reads_under_way(&zoo_model("squeezenet1_1", folder.path()));
}

/// Larger, and with residuals: in long sweeps.
#[test]
fn resnet18_is_the_same_with_reads_under_way() {
    if !sweeps() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    same_with_reads_under_way(&zoo_model("resnet18", folder.path()));
}

/// What it is told of loads.
#[derive(Debug, Default)]
struct Loads(Mutex<Vec<Event>>);

impl Observer for Loads {
    fn event(&self, event: Event) {
        if let Event::LoadBegins(_) | Event::LoadEnds(_) = event {
            self.0.lock().unwrap().push(event);
        }
    }
}

#[test]
fn loads_begin_and_end_in_order_several_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::of(&zoo_model("squeezenet1_1", folder.path()), 1);
    let inputs = case.subject.inputs(3);
    for (queued, depth, most) in [(4, u32::MAX, 4), (4, 2, 2), (4, 1, 1), (1, u32::MAX, 1)] {
        let seen = Loads::default();
        let options = Options { depth, budget: case.budgets[1], ..Options::default() };
        let mut storage = Faulty::new(Slice(&case.pack), &[]).queued(queued);
        let mut arena = Aligned::new(case.budgets[1]);
        let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
        let count = instance.plan().loads.len() as u32;
        instance.observe(Some(&seen));
        instance
            .with_loader(&mut storage, |model| {
                for _ in 0..4 {
                    infer(model, &Inline, &inputs).unwrap();
                }
            })
            .unwrap();
        assert_eq!(storage.under_way(), 0);
        let (mut begun, mut ended, mut together) = (0u32, 0u32, 0);
        for event in seen.0.into_inner().unwrap() {
            match event {
                Event::LoadBegins(load) => {
                    assert_eq!(load, begun % count);
                    begun += 1;
                }
                Event::LoadEnds(load) => {
                    assert_eq!(load, ended % count);
                    ended += 1;
                }
                _ => {}
            }
            assert!(ended <= begun);
            together = together.max(begun - ended);
        }
        assert!(ended >= 4 * count, "{ended} loads of {count} each");
        // Those that have arrived wait to be verified.
        assert!(together <= MAX_BEGUN as u32, "{together} begun");
        assert_eq!(together > 1, most > 1, "{together} begun, {most} at once");
        assert_eq!(storage.most_under_way(), if most > 1 { most } else { 0 });
    }
}

/// One attempt of the first inferences goes wrong, the next one is interrupted, and the one after that is short. Every
/// fourth attempt has its turn, or all: the faults change with each.
#[test]
fn an_error_among_reads_under_way_leaves_the_model_usable() {
    let folder = tempfile::tempdir().unwrap();
    let case = Case::of(&zoo_model("squeezenet1_1", folder.path()), 1);
    let inputs = case.subject.inputs(5);
    let budget = case.budgets[1];
    let expected = bits(&run_inline(&case.pack, budget, &inputs, &Inline, 1));
    let (opening, loads) = case.open(
        budget,
        Options::default(),
        Faulty::new(Slice(&case.pack), &[]),
        |storage, instance| (storage.attempts(), instance.plan().loads.len() as u64),
    );
    let faults = [Fault::Errno(5), Fault::FlipBit { byte: 9, bit: 3 }, Fault::Partial(0)];
    let step = if sweeps() { 1 } else { 4 };
    for failing in (opening..opening + 2 * loads).step_by(step) {
        let fault = faults[failing as usize % faults.len()];
        let script =
            [(failing, fault), (failing + 1, Fault::Errno(4)), (failing + 2, Fault::Partial(4096))];
        let check = |result: Result<Vec<Vec<u32>>, InferError>| match result {
            Ok(outputs) => {
                assert_eq!(outputs, expected);
                0
            }
            Err(InferError::Load(LoadError::Storage {
                error: StorageError::Io { errno: 5, .. } | StorageError::Short { .. },
                ..
            })) => 1,
            Err(InferError::Load(LoadError::Checksum { .. })) => 1,
            Err(error) => panic!("{error}"),
        };
        for inline in [false, true] {
            let storage = Faulty::new(Slice(&case.pack), &script).queued(3);
            let errors = case.open(budget, Options::default(), storage, |storage, instance| {
                let errors: u32 = if inline {
                    let mut model = instance.inline(storage);
                    (0..6).map(|_| check(infer(&mut model, &Inline, &inputs))).sum()
                } else {
                    let sum = instance.with_loader(storage, |model| {
                        (0..6).map(|_| check(infer(model, &Inline, &inputs))).sum()
                    });
                    sum.unwrap()
                };
                assert_eq!(storage.under_way(), 0);
                errors
            });
            assert_eq!(errors, 1, "attempt {failing}, {fault:?}, inline: {inline}");
        }
    }
}

/// Storage that fails again and again, also while budgets are changed.
#[test]
fn a_budget_can_be_changed_after_errors_under_way() {
    let case = Case::of(&digits(), 1);
    let inputs = case.subject.inputs(5);
    let [small, large] = case.budgets;
    let expected = bits(&run_inline(&case.pack, large, &inputs, &Inline, 1));
    let script: Vec<_> = (0..400).filter(|n| n % 29 > 20).map(|n| (n, Fault::Errno(5))).collect();
    let mut arena = Aligned::new(large);
    let mut healthy = Slice(&case.pack);
    let mut instance = Instance::open(&mut healthy, arena.bytes(), Options::default()).unwrap();
    let mut storage = Faulty::new(Slice(&case.pack), &script).queued(4);
    let (mut good, mut bad) = (0, 0);
    instance
        .with_loader(&mut storage, |model| {
            for run in 0..60 {
                let budget = [small, large, small][run % 3];
                let result =
                    model.set_budget(budget).is_ok().then(|| infer(model, &Inline, &inputs));
                match result {
                    Some(Ok(outputs)) => {
                        assert_eq!(outputs, expected);
                        good += 1;
                    }
                    Some(Err(_)) | None => bad += 1,
                }
            }
        })
        .unwrap();
    assert_eq!(storage.under_way(), 0);
    assert!(good > 0 && bad > 0, "{good} good, {bad} bad");
}

/// Each resident fails once, when the pack is opened and when the budget changes, with others under way.
#[test]
fn a_resident_that_fails_is_named_and_leaves_nothing_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let mut case = Case::of(&zoo_model("squeezenet1_1", folder.path()), 1);
    // Some weights stay, in several loads.
    let path = folder.path().join("two.pack");
    let [small, large] = [case.budgets[1], case.budgets[1] + (2 << 20)];
    case.subject.pack(&path, &[small, large], 1);
    case.pack = std::fs::read(&path).unwrap();
    let inputs = case.subject.inputs(5);
    let expected = bits(&run_inline(&case.pack, large, &inputs, &Inline, 1));
    let mut arena = Aligned::new(large);
    let mut healthy = Faulty::new(Slice(&case.pack), &[]);
    let instance = Instance::open(&mut healthy, arena.bytes(), Options::default()).unwrap();
    let (residents, last) = (instance.plan().resident.len() as u64, healthy.attempts());
    assert!(residents > 2, "{residents}");
    let (mut failures, mut kept) = ([0; 3], 0);
    // Reads under way are done last first, four at a time: which attempt is whose does not matter here.
    for (number, fault) in (last - residents..last).zip(
        [Fault::Errno(5), Fault::FlipBit { byte: 9, bit: 3 }, Fault::Partial(0)]
            .into_iter()
            .cycle(),
    ) {
        let failed = |error: LoadError| match (error, fault) {
            (LoadError::Checksum { load, .. }, Fault::FlipBit { .. })
            | (
                LoadError::Storage { load, error: StorageError::Io { errno: 5, .. } },
                Fault::Errno(_),
            )
            | (LoadError::Storage { load, error: StorageError::Short { .. } }, Fault::Partial(_)) =>
            {
                assert!(u64::from(load) < residents, "load {load} of {residents}");
            }
            (error, _) => panic!("{error}"),
        };
        let script = [(number, fault)];
        let mut storage = Faulty::new(Slice(&case.pack), &script).queued(4);
        match Instance::open(&mut storage, arena.bytes(), Options::default()) {
            Err(OpenError::Load(error)) => failed(error),
            other => panic!("{other:?}"),
        }
        assert_eq!(storage.under_way(), 0);
        // The same by a change of budget, whose first read is of tables, and then again without a fault.
        let options = Options { budget: small, ..Options::default() };
        let mut healthy = Faulty::new(Slice(&case.pack), &[]);
        let mut instance = Instance::open(&mut healthy, arena.bytes(), options).unwrap();
        let script = [(number - (last - residents) + 1, fault)];
        let mut storage = Faulty::new(Slice(&case.pack), &script).queued(4);
        let mut model = instance.inline(&mut storage);
        match model.set_budget(large) {
            Err(BudgetError::Plan(PlanError::Load(error))) => {
                failed(error);
                failures[((number - (last - residents)) % 3) as usize] += 1;
            }
            // Fewer are read: some were kept from the smaller plan. What the fault is for comes later.
            Ok(switch) => {
                assert!(switch.kept_bytes + switch.moved_bytes > 0);
                kept += 1;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        model.set_budget(large).unwrap();
        assert_eq!(infer(&mut model, &Inline, &inputs).unwrap(), expected);
        assert_eq!(storage.under_way(), 0);
    }
    assert!(failures.iter().all(|&count| count > 0), "{failures:?} failed, {kept} kept");
}
