//! The executor with a device that computes nothing and does everything as late, and in as odd an order, as it may: at
//! each step the weights, and the inputs, must be where the step reads them, and what comes out must be this
//! inference's. All of it also when any one of the device's calls fails.

use crate::common::adversary::{Adversary, Control, KERNEL_NS};
use crate::common::{Subject, digits, gpu};
use eyelet::device::Inline;
use eyelet::executor::{
    BudgetError, Feed, InferError, Instance, LoadError, Model, OpenError, Options, StepTimes,
    header, shapes, tables_bytes,
};
use eyelet::pack::{Load, PAGE, Step};
use eyelet::storage::faulty::{Fault, Faulty};
use eyelet::storage::{Slice, Storage, StorageError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A pack of one network, and what a device must find.
struct Case {
    pack: Vec<u8>,
    subject: Arc<Subject>,
    budgets: Vec<u64>,
    staged: bool,
}

impl Case {
    fn new(staged: bool, places: usize) -> Self {
        let subject = Arc::new(gpu::subject(&digits()));
        let smallest = subject.smallest(1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("digits.pack");
        let plans: Vec<_> = [smallest, smallest + (smallest / 2), 1 << 20]
            .iter()
            .map(|budget| {
                let plan = subject.plan(*budget, 1).unwrap();
                if staged && !plan.loads.is_empty() {
                    gpu::staged(&subject.network, plan, places)
                } else {
                    plan
                }
            })
            .collect();
        let budgets = plans.iter().map(|plan| plan.arena_bytes).collect();
        subject.write(&path, &plans);
        Self { pack: std::fs::read(&path).unwrap(), subject, budgets, staged }
    }

    /// A device with memory for the whole pack.
    fn device(&self, seed: u64) -> Adversary {
        let header = header(&self.pack[..PAGE as usize], self.pack.len() as u64).unwrap();
        let tables = tables_bytes(&self.pack[..PAGE as usize], &header);
        Adversary::new(1 << 20, self.staged.then_some(tables), seed)
    }

    /// Has the device look at what it finds, for the plan that is followed from now on.
    fn watch(&self, device: &Control, plan: &Plan) {
        let (subject, plan) = (self.subject.clone(), plan.clone());
        let start = header(&self.pack[..PAGE as usize], self.pack.len() as u64).unwrap();
        let weights = self.pack[start.weights_offset as usize..].to_vec();
        let layer = move |step: &Step| subject.network.layers[step.layer as usize];
        let mut seed = 0.0;
        let tables = plan.tables;
        let look = move |count: u32, bytes: &mut [u8], first: u64| {
            let period = plan.steps.len() as u32 + 1;
            let at = |address: u64| (address - first) as usize;
            let float = |bytes: &[u8], address: u64| {
                f32::from_le_bytes(bytes[at(address)..at(address) + 4].try_into().unwrap())
            };
            let index = (count.wrapping_sub(1) % period) as usize;
            if index == 0 {
                seed = float(bytes, plan.ports[0].start);
                for address in plan.ports[0].clone().step_by(4) {
                    assert_eq!(float(bytes, address), seed, "the inputs of one inference");
                }
                return;
            }
            let step = &plan.steps[index - 1];
            let layer = layer(step);
            let panel = u64::from(layer.panel_bytes);
            let offset = (layer.weights + u64::from(step.first) * panel) as usize;
            let len = (u64::from(step.count) * panel) as usize;
            if len > 0 {
                let start = at(step.weights);
                assert!(
                    bytes[start..start + len] == weights[offset..offset + len],
                    "the weights of step {index}, mark {count}"
                );
            }
            for load in plan.last_used_by(index) {
                bytes[at(load.address)..at(load.address) + load.bytes as usize].fill(0xD7);
            }
            if index == plan.steps.len() {
                for (number, address) in plan.ports[1].clone().step_by(4).enumerate() {
                    let value = seed + number as f32;
                    bytes[at(address)..at(address) + 4].copy_from_slice(&value.to_le_bytes());
                }
            }
        };
        device.watch(tables, Box::new(look));
    }
}

/// A plan as the device sees it.
#[derive(Clone)]
struct Plan {
    tables: u64,
    steps: Vec<Step>,
    loads: Vec<Load>,
    /// The bytes of the input and of the output.
    ports: [std::ops::Range<u64>; 2],
    /// Of each load: the last step that reads it, counted from 1.
    last: Vec<usize>,
}

impl Plan {
    fn of(subject: &Subject, tables: u64, plan: &eyelet::pack::PlanView<'_>) -> Self {
        let network = &subject.network;
        let port = |tensor: u32| {
            let tensor = network.tensors[tensor as usize];
            let start =
                plan.places.at(tensor.buffer as usize).address + 4 * u64::from(tensor.offset);
            start..start + 4 * tensor.rows() * u64::from(tensor.cols())
        };
        let ports = [&network.inputs[0], &network.outputs[0]].map(|p| port(p.tensor));
        let mut last = vec![0; plan.loads.len()];
        for (index, step) in plan.steps.iter().enumerate() {
            let layer = &network.layers[step.layer as usize];
            let end = step.weights + u64::from(step.count) * u64::from(layer.panel_bytes);
            // Of the loads before it, the last one at each address is what it reads.
            let mut seen: Vec<std::ops::Range<u64>> = Vec::new();
            for (number, load) in plan.loads.iter().enumerate().take(step.ready as usize).rev() {
                let place = load.address..load.address + u64::from(load.bytes);
                let hidden = seen.iter().any(|s| s.start < place.end && place.start < s.end);
                if !hidden && place.start < end && step.weights < place.end {
                    last[number] = index + 1;
                }
                seen.push(place);
            }
        }
        Self {
            tables,
            steps: plan.steps.iter().collect(),
            loads: plan.loads.iter().collect(),
            ports,
            last,
        }
    }

    fn last_used_by(&self, step: usize) -> impl Iterator<Item = &Load> {
        self.loads.iter().zip(&self.last).filter(move |(_, last)| **last == step).map(|(l, _)| l)
    }
}

/// Where tables end in the arena: the end of header, skeleton and the plan's section.
fn tables(case: &Case, entry: &eyelet::pack::PlanEntry) -> u64 {
    let (page, size) = (&case.pack[..PAGE as usize], case.pack.len() as u64);
    let header = header(page, size).unwrap();
    let shape = shapes(page, header.shapes).next().unwrap();
    shape.front() + u64::from(entry.bytes).next_multiple_of(PAGE)
}

/// An inference: what comes out is what went in, and the number of the output.
fn infer<F: Feed>(model: &mut Model<'_, '_, F>, value: f32) -> Result<(), InferError> {
    model.input_mut(0).unwrap().fill(value);
    model.infer(&Inline)?;
    for (number, output) in model.output(0).unwrap().iter().enumerate() {
        assert_eq!(*output, value + number as f32, "output {number}");
    }
    Ok(())
}

fn cases() -> impl Iterator<Item = Case> {
    [(false, 0), (true, 1), (true, 2), (true, 5)]
        .into_iter()
        .map(|(staged, places)| Case::new(staged, places))
}

/// Runs `body` with a model of a budget's plan, inline or with a loader beside it.
macro_rules! with_model {
    ($case:expr, $device:ident, $budget:expr, $threaded:expr, $storage:ident, |$model:ident| $body:expr) => {{
        let mut accelerator = $device;
        let $device = accelerator.control();
        let options = Options { budget: $budget, ..Options::default() };
        let mut instance = Instance::open_on(&mut $storage, &mut accelerator, options).unwrap();
        let plan = Plan::of(&$case.subject, tables(&$case, instance.entry()), instance.plan());
        $case.watch(&$device, &plan);
        match $threaded {
            false => {
                let mut $model = instance.inline(&mut $storage);
                let $model = &mut $model;
                $body
            }
            true => instance.with_loader(&mut $storage, |$model| $body).unwrap(),
        }
    }};
}

#[test]
fn weights_inputs_and_outputs_are_where_they_must_be() {
    for case in cases() {
        for seed in 0..40 {
            for &budget in &case.budgets[..2] {
                let mut storage = Slice(&case.pack);
                let device = case.device(seed);
                with_model!(case, device, budget, seed % 2 == 1, storage, |model| {
                    assert!(!model.plan().loads.is_empty(), "the budget streams");
                    for number in 0..6 {
                        infer(model, number as f32 * 100.0).unwrap();
                    }
                    let copies = device.counts()[1];
                    assert_eq!(copies > 0, case.staged);
                });
            }
        }
    }
}

#[test]
fn any_call_may_fail_once() {
    for case in cases() {
        for seed in 0..12 {
            let (mut failed, mut call) = (0, 1);
            loop {
                let mut storage = Slice(&case.pack);
                let device = case.device(seed);
                let more =
                    with_model!(case, device, case.budgets[0], seed % 2 == 1, storage, |model| {
                        infer(model, 1.0).unwrap();
                        let before = device.calls();
                        device.fail(call, false);
                        let mut errors = 0;
                        for number in 2..6 {
                            match infer(model, number as f32 * 100.0) {
                                Ok(()) => {}
                                Err(InferError::Device(error))
                                | Err(InferError::Load(LoadError::Device { error, .. })) => {
                                    assert_eq!(error.code, 719);
                                    errors += 1;
                                }
                                Err(other) => panic!("{other}"),
                            }
                        }
                        // A drain that fails may be that of an error already told, or of one that nobody is told of.
                        assert!(errors <= 1, "{errors} errors for one");
                        failed += errors;
                        let reached = device.calls() - before >= call;
                        if reached {
                            // One that the loader has run into for the next inference is told there.
                            let told = infer(model, 7.0).is_err();
                            assert!(!told || errors == 0);
                            infer(model, 8.0).unwrap();
                        }
                        call < 60 && reached
                    });
                call += 1;
                if !more {
                    break;
                }
            }
            assert!(failed * 10 > call * 8, "{failed} of {call} calls");
        }
    }
}

/// A storage that takes its time, counts its reads, and says whether one goes on.
struct Slow<'a> {
    pack: Slice<'a>,
    reading: Arc<AtomicBool>,
    reads: Arc<AtomicUsize>,
}

impl Storage for Slow<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        self.pack.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self.reading.store(true, Ordering::SeqCst);
        self.reads.fetch_add(1, Ordering::SeqCst);
        (0..100).for_each(|_| std::thread::yield_now());
        let result = self.pack.read(offset, into);
        self.reading.store(false, Ordering::SeqCst);
        result
    }

    fn alignment(&self) -> u64 {
        1
    }
}

/// A step that has failed may have released loads over the inputs, which are the host's again.
#[test]
fn after_an_error_the_loader_rests() {
    for case in cases() {
        let mut errors = 0;
        for (seed, call) in (0..3).flat_map(|seed| (1..40).map(move |call| (seed, call))) {
            let (reading, reads) = (Arc::new(AtomicBool::new(false)), Arc::default());
            let pack = Slice(&case.pack);
            let mut storage = Slow { pack, reading: reading.clone(), reads: Arc::clone(&reads) };
            let device = case.device(seed);
            with_model!(case, device, case.budgets[0], true, storage, |model| {
                infer(model, 1.0).unwrap();
                device.fail(call, false);
                if (2..5).any(|number| infer(model, number as f32 * 100.0).is_err()) {
                    errors += 1;
                    assert!(!reading.load(Ordering::SeqCst), "a load after the error of {call}");
                    let before = reads.load(Ordering::SeqCst);
                    model.input_mut(0).unwrap().fill(5.0);
                    (0..100).for_each(|_| std::thread::yield_now());
                    assert!(model.input_mut(0).unwrap().iter().all(|x| *x == 5.0));
                    assert_eq!(reads.load(Ordering::SeqCst), before);
                }
                // What the loader has run into for the next inference is told there.
                let _ = infer(model, 7.0);
                infer(model, 8.0).unwrap();
            });
        }
        assert!(errors > 60, "{errors}");
    }
}

#[test]
fn an_error_that_stays_is_told_each_time_and_nothing_hangs() {
    for case in cases() {
        for seed in 0..30 {
            let mut storage = Slice(&case.pack);
            let device = case.device(seed);
            with_model!(case, device, case.budgets[1], seed % 2 == 1, storage, |model| {
                infer(model, 1.0).unwrap();
                device.fail(1 + 2 * seed, true);
                let results: Vec<_> = (2..8).map(|n| infer(model, n as f32 * 100.0)).collect();
                let first = results.iter().position(Result::is_err).expect("it has failed");
                assert!(results[first..].iter().all(Result::is_err), "{results:?}");
                assert!(matches!(results[5], Err(InferError::Device(_))), "{results:?}");
                let error = model.set_budget(case.budgets[0]).unwrap_err();
                let told = error.to_string();
                assert!(told.contains("the GPU's driver: cu") && told.contains("719"), "{told}");
            });
        }
    }
}

#[test]
fn storage_that_fails_is_told_and_heals() {
    for case in cases() {
        for seed in 0..24u64 {
            let reads = {
                let mut storage = Faulty::new(Slice(&case.pack), &[]);
                let mut device = case.device(seed);
                let options = Options { budget: case.budgets[0], ..Options::default() };
                Instance::open_on(&mut storage, &mut device, options).unwrap();
                storage.attempts()
            };
            let fault =
                if seed % 3 == 0 { Fault::FlipBit { byte: 5, bit: 1 } } else { Fault::Errno(5) };
            let script = [(reads + seed / 2, fault)];
            let mut storage = Faulty::new(Slice(&case.pack), &script);
            let device = case.device(seed);
            with_model!(case, device, case.budgets[0], seed % 2 == 1, storage, |model| {
                let results: Vec<_> = (1..8).map(|n| infer(model, n as f32 * 100.0)).collect();
                let wrong = results.iter().filter(|result| result.is_err());
                let wrong: Vec<_> = wrong.collect();
                assert_eq!(wrong.len(), 1, "{results:?}");
                assert!(matches!(
                    wrong[0],
                    Err(InferError::Load(LoadError::Storage { .. } | LoadError::Checksum { .. }))
                ));
            });
        }
    }
}

#[test]
fn budgets_change_between_inferences() {
    for case in cases() {
        for seed in 0..12 {
            let mut storage = Slice(&case.pack);
            let device = case.device(seed);
            let entries: Vec<_> = header_entries(&case.pack);
            with_model!(case, device, case.budgets[0], seed % 2 == 1, storage, |model| {
                infer(model, 1.0).unwrap();
                for number in 0..9 {
                    let which = (seed as usize + number * 2) % 2;
                    let budget = case.budgets[which];
                    model.set_budget(budget).unwrap();
                    let entry = entries[which];
                    case.watch(
                        &device,
                        &Plan::of(&case.subject, tables(&case, &entry), model.plan()),
                    );
                    for _ in 0..2 {
                        infer(model, number as f32 * 100.0).unwrap();
                    }
                }
                let error = model.set_budget(2 << 20).unwrap_err();
                assert_eq!(error, BudgetError::Arena { asked: 2 << 20, arena: 1 << 20 });
                let error = model.set_budget(4096).unwrap_err();
                assert!(matches!(error, BudgetError::Budget { .. }));
                infer(model, 3.0).unwrap();
            });
        }
    }
}

fn header_entries(pack: &[u8]) -> Vec<eyelet::pack::PlanEntry> {
    let header = header(&pack[..PAGE as usize], pack.len() as u64).unwrap();
    eyelet::executor::entries(&pack[..PAGE as usize], header.plans).collect()
}

#[test]
fn a_model_dropped_in_mid_inference_leaves_a_usable_instance() {
    for case in cases() {
        for seed in 0..20 {
            let mut storage = Slice(&case.pack);
            let mut device = case.device(seed);
            let control = device.control();
            let options = Options { budget: case.budgets[0], ..Options::default() };
            {
                let mut instance = Instance::open_on(&mut storage, &mut device, options).unwrap();
                let start = tables(&case, instance.entry());
                case.watch(&control, &Plan::of(&case.subject, start, instance.plan()));
                for steps in [1, 3, 4] {
                    let mut model = instance.inline(&mut storage);
                    model.input_mut(0).unwrap().fill(9.0);
                    (0..steps).for_each(|_| assert!(model.step(&Inline).is_ok()));
                    assert!(model.input_mut(0).is_err() && model.output(0).is_err());
                }
                let done = instance.with_loader(&mut storage, |model| infer(model, 5.0));
                done.unwrap().unwrap();
                let mut model = instance.inline(&mut storage);
                model.input_mut(0).unwrap().fill(9.0);
                model.step(&Inline).unwrap();
            }
            // The device is lent again with work of before in its streams.
            let mut instance = Instance::open_on(&mut storage, &mut device, options).unwrap();
            let start = tables(&case, instance.entry());
            case.watch(&control, &Plan::of(&case.subject, start, instance.plan()));
            infer(&mut instance.inline(&mut storage), 6.0).unwrap();
        }
    }
}

#[test]
fn packs_and_devices_that_do_not_suit_one_another() {
    let case = Case::new(false, 0);
    let mut storage = Slice(&case.pack);
    let mut arena = crate::common::Aligned::new(1 << 20);
    let error = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap_err();
    assert_eq!(error, OpenError::ForGpu);
    assert!(error.to_string().contains("--device cuda"));

    // A plan that reads into the arena, and a GPU with a memory of its own; all but the largest stream.
    let header = header(&case.pack[..PAGE as usize], case.pack.len() as u64).unwrap();
    let tables = tables_bytes(&case.pack[..PAGE as usize], &header);
    let mut device = Adversary::new(1 << 20, Some(tables), 1);
    let error = Instance::open_on(&mut storage, &mut device, Options::default()).unwrap_err();
    assert_eq!(error, OpenError::Unstaged);
    // Too little for the tables.
    let mut device = Adversary::new(1 << 20, Some(tables - PAGE), 1);
    let error = Instance::open_on(&mut storage, &mut device, Options::default()).unwrap_err();
    assert_eq!(error, OpenError::Tables { found: tables - PAGE, needed: tables });
    // The smallest plan does not fit.
    let mut device = Adversary::new(case.budgets[0] - PAGE, None, 1);
    let error = Instance::open_on(&mut storage, &mut device, Options::default()).unwrap_err();
    let (arena, smallest) = (case.budgets[0] - PAGE, case.budgets[0]);
    assert_eq!(error, OpenError::Budget { arena, smallest });

    let subject = Subject::new(&digits());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("digits.pack");
    subject.pack(&path, &[1 << 20], 1);
    let pack = std::fs::read(&path).unwrap();
    let mut device = Adversary::new(1 << 20, None, 1);
    let error = Instance::open_on(&mut Slice(&pack), &mut device, Options::default()).unwrap_err();
    assert_eq!(error, OpenError::ForProcessor { isa: subject.isa() as u32 });
    assert!(error.to_string().contains("--device cpu"), "{error}");
}

/// The time of each step is that of its own kernels, however few moments the device keeps at a time; what fails on the way fails the
/// inference, and the next one is right.
#[test]
fn steps_have_the_times_of_their_kernels() {
    for staged in [false, true] {
        let case = Case::new(staged, 3);
        let options = Options { budget: case.budgets[0], ..Options::default() };
        let mut device = case.device(11);
        let control = device.control();
        let mut storage = Slice(&case.pack);
        let mut instance = Instance::open_on(&mut storage, &mut device, options).unwrap();
        let steps = instance.plan().steps.len();
        assert!(steps > 2, "moments are used again");
        let mut model = instance.inline(&mut storage);
        // What each step launches, one after the other.
        let mut kernels = Vec::new();
        for _ in 0..steps {
            let before = control.counts()[0];
            model.step(&Inline).unwrap();
            kernels.push(KERNEL_NS * (control.counts()[0] - before));
        }
        let computed = |times: &[StepTimes]| times.iter().map(|t| t.compute_ns).collect::<Vec<_>>();
        let mut times = vec![StepTimes::default(); steps];
        let before = control.calls();
        model.infer_timed(&Inline, &mut times).unwrap();
        let calls = control.calls() - before;
        assert_eq!(computed(&times), kernels);
        assert!(times.iter().all(|times| times.wait_ns == 0), "nothing else takes time there");

        // The rest of one that is under way, and fewer steps than there are.
        times.fill(StepTimes::default());
        model.step(&Inline).unwrap();
        model.infer_timed(&Inline, &mut times[..steps - 1]).unwrap();
        assert_eq!(computed(&times[1..steps - 1]), kernels[1..steps - 1]);
        assert_eq!([times[0], times[steps - 1]], [StepTimes::default(); 2]);

        for call in 1..=calls {
            control.fail(call, false);
            let failed = model.infer_timed(&Inline, &mut times);
            assert!(failed.is_err(), "call {call} of {calls}");
            model.infer_timed(&Inline, &mut times).unwrap();
            assert_eq!(computed(&times), kernels, "after call {call}");
        }
    }
}
