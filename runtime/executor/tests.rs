//! A small network by all that the executor does: what these tests do, an interpreter (Miri) judges
//! reference by reference.

use super::testing::{BUDGETS, Pages, THREADS, inputs, network, outputs, pixels};
use super::{
    BudgetError, Feed, InferError, Instance, LoadError, Model, Options, ShapeError, Switch,
};
use crate::device::{Device, Inline};
use crate::kernels::testing::Threads;
use crate::pack::PAGE;
use crate::storage::faulty::Fault;
use crate::storage::{Faulty, Slice, StorageError};
use std::boxed::Box;
use std::vec::Vec;

/// Plans that follow one another: fewer in an interpreter.
const CHANGES: &[usize] = if cfg!(miri) { &[0, 2, 1] } else { &[0, 2, 1, 2, 0, 1, 0, 0, 1] };

type Arena = Box<Pages<{ 6 * PAGE as usize }>>;

fn arena() -> Arena {
    Box::new(Pages([0xa5; 6 * PAGE as usize]))
}

/// Checksums take an interpreter longer than all else.
fn options(depth: u32) -> Options {
    Options { threads: THREADS, depth, verify: !cfg!(miri), ..Options::default() }
}

/// One inference, with the right result.
fn infer(model: &mut Model<'_, '_, impl Feed>, device: &dyn Device) -> Result<(), InferError> {
    static WANTED: std::sync::LazyLock<[Vec<f32>; 2]> =
        std::sync::LazyLock::new(|| [0, 1].map(outputs));
    let shape = model.shape() as usize;
    model.input_mut(0).unwrap().copy_from_slice(&inputs(shape));
    model.infer(device)?;
    assert_eq!(model.output(0).unwrap(), WANTED[shape]);
    Ok(())
}

/// All budgets, up and down; the model is passed on, as programs do.
fn every_budget(mut model: Model<'_, '_, impl Feed>, device: &dyn Device) {
    budgets(&mut model, device);
}

fn budgets(model: &mut Model<'_, '_, impl Feed>, device: &dyn Device) {
    infer(model, device).unwrap();
    for budget in CHANGES.iter().map(|&index| BUDGETS[index]) {
        let switch = model.set_budget(budget).unwrap();
        assert!(switch.kept_bytes + switch.moved_bytes + switch.read_bytes <= 2 * PAGE);
        model.unused().fill(0xee);
        assert_eq!(model.plan().resident.len() as u64, (budget - BUDGETS[0]) / PAGE);
        infer(model, device).unwrap();
    }
    model.input_mut(0).unwrap().copy_from_slice(&inputs(0));
    model.step(device).unwrap();
    assert_eq!(model.set_budget(BUDGETS[2]), Err(BudgetError::Running));
    assert_eq!(model.set_shape(1), Err(ShapeError::Change(BudgetError::Running)));
    model.infer(device).unwrap();
    assert_eq!(outputs(0).len(), 8 * pixels(0));
    every_shape(model, device);
}

/// Shapes and budgets by turns: each shape has its own extents, and residents of both stay.
fn every_shape(model: &mut Model<'_, '_, impl Feed>, device: &dyn Device) {
    let all: &[(u32, usize)] = &[(1, 2), (0, 2), (1, 0), (1, 1), (0, 1), (0, 0)];
    for &(shape, budget) in if cfg!(miri) { &all[..2] } else { all } {
        model.set_budget(BUDGETS[budget]).unwrap();
        let before = model.shape();
        let switch = model.set_shape(shape).unwrap();
        let resident = BUDGETS[budget] - BUDGETS[0];
        match shape == before {
            true => assert_eq!(switch, Switch::default()),
            // Tables and skeletons of both shapes take as much: nothing has moved.
            false => assert_eq!((switch.kept_bytes, switch.read_bytes), (resident, 0)),
        }
        let extents = &model.inputs()[0].shape[1..3];
        assert_eq!(extents.iter().product::<u32>() as usize, pixels(shape as usize));
        assert_eq!(model.outputs().len(), 1);
        infer(model, device).unwrap();
        model.unused().fill(0xee);
        infer(model, device).unwrap();
    }
    assert_eq!(model.set_shape(2), Err(ShapeError::Absent { asked: 2, shapes: 2 }));
    infer(model, device).unwrap();
}

/// Opens a pack in an arena and passes the instance on.
fn opened<'a>(
    storage: &mut (impl crate::storage::Storage + 'a),
    arena: &'a mut Arena,
) -> Instance<'a> {
    let instance = Instance::open(storage, &mut arena.0, options(4)).unwrap();
    core::convert::identity(instance)
}

#[test]
fn inline() {
    let pack = network();
    for (depth, device) in [(1, &Inline as &dyn Device), (3, &Threads(THREADS as usize))] {
        let mut storage = Faulty::new(Slice(&pack), &[]).queued(depth);
        let mut arena = arena();
        let mut instance = opened(&mut storage, &mut arena);
        every_budget(instance.inline(&mut storage), device);
        infer(&mut instance.inline(&mut storage), device).unwrap();
    }
}

#[test]
fn overlapped() {
    let pack = network();
    let all = [(3, 1), (1, 1), (3, u32::MAX), (2, 2)];
    for (depth, questions) in if cfg!(miri) { &all[..1] } else { &all[..] }.iter().copied() {
        let devices = [&Inline as &dyn Device, &Threads(THREADS as usize)];
        let mut storage = Faulty::new(Slice(&pack), &[]).queued(depth).prompt(questions);
        let mut arena = arena();
        let mut instance = opened(&mut storage, &mut arena);
        for device in devices {
            instance.overlapped(&mut storage, |model| budgets(model, device));
            assert_eq!(storage.under_way(), 0);
        }
        infer(&mut instance.inline(&mut storage), &Inline).unwrap();
    }
}

/// The last plan streams the weights of the last layer alone, and has a place for them that no other
/// weights have: they are read during the host's turn and the steps before.
#[test]
fn reads_go_on_while_steps_compute() {
    let pack = network();
    for (questions, waits) in [(u32::MAX, true), (2, false)] {
        let mut storage = Faulty::new(Slice(&pack), &[]).queued(2).prompt(questions);
        let mut arena = arena();
        let mut instance = opened(&mut storage, &mut arena);
        let before = storage.waited();
        instance
            .overlapped(&mut storage, |model| (0..3).for_each(|_| infer(model, &Inline).unwrap()));
        // At the end there is one for an inference that does not come.
        assert_eq!(storage.waited() - before, if waits { 4 } else { 1 });
        // Inline each is waited for.
        let before = storage.waited();
        let mut model = instance.inline(&mut storage);
        (0..3).for_each(|_| infer(&mut model, &Inline).unwrap());
        assert_eq!(storage.waited() - before, 3);
    }
}

#[test]
fn a_panic_between_steps_waits_for_reads() {
    let pack = network();
    let mut storage = Faulty::new(Slice(&pack), &[]).queued(2);
    let mut arena = arena();
    let mut instance = opened(&mut storage, &mut arena);
    let panicked = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
        instance.overlapped(&mut storage, |model| {
            infer(model, &Inline).unwrap();
            model.step(&Inline).unwrap();
            panic!("midway");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(storage.under_way(), 0);
    instance.overlapped(&mut storage, |model| infer(model, &Inline).unwrap());
}

#[test]
#[cfg(all(feature = "linux", target_os = "linux"))]
fn with_loader_thread() {
    let pack = network();
    for (depth, device) in [(1, &Inline as &dyn Device), (3, &Threads(THREADS as usize))] {
        let mut storage = Faulty::new(Slice(&pack), &[]).queued(depth);
        let mut arena = arena();
        let mut instance = opened(&mut storage, &mut arena);
        let all = |instance: &mut Instance<'_>, storage: &mut Faulty<'_, Slice<'_>>| {
            instance
                .with_loader(storage, |model| {
                    infer(model, device).unwrap();
                    for budget in CHANGES.iter().map(|&index| BUDGETS[index]) {
                        model.set_budget(budget).unwrap();
                        model.unused().fill(0xee);
                        infer(model, device).unwrap();
                    }
                    every_shape(model, device);
                })
                .unwrap();
        };
        all(&mut instance, &mut storage);
        all(&mut instance, &mut storage);
    }
}

/// Errors of storage and checksums at any read: the inference ends, the inputs are the host's, and
/// the next one is right.
fn recovers(model: &mut Model<'_, '_, impl Feed>) -> Vec<InferError> {
    let mut errors = Vec::new();
    for _ in 0..4 {
        while let Err(error) = infer(model, &Inline) {
            errors.push(error);
            // Nothing is written there any more.
            let input = model.input_mut(0).unwrap();
            input.fill(7.0);
            assert!(input.iter().all(|x| *x == 7.0));
        }
        while model.set_budget(BUDGETS[errors.len() % 2]).is_err() {}
    }
    errors
}

#[test]
fn errors_leave_the_ports_to_the_host() {
    let pack = network();
    let script = [
        (24, Fault::Errno(5)),
        (25, Fault::FlipBit { byte: 3, bit: 1 }),
        (28, Fault::Partial(0)),
        (31, Fault::FlipBit { byte: 40, bit: 7 }),
        (33, Fault::Errno(5)),
    ];
    for depth in if cfg!(miri) { 3..4 } else { 1..4 } {
        let mut arena = arena();
        let mut storage = Faulty::new(Slice(&pack), &script).queued(depth);
        opened(&mut storage, &mut arena);
        let small = Options { budget: BUDGETS[0], verify: true, ..options(4) };
        let mut instance = Instance::open(&mut storage, &mut arena.0, small).unwrap();
        let errors = recovers(&mut instance.inline(&mut storage));
        let io = |error: &InferError| {
            matches!(
                error,
                InferError::Load(LoadError::Storage { error: StorageError::Io { .. }, .. })
            )
        };
        assert!(errors.iter().any(io), "{errors:?}");
        for questions in [1, u32::MAX] {
            let mut storage = Faulty::new(Slice(&pack), &script).queued(depth).prompt(questions);
            opened(&mut storage, &mut arena);
            let small = Options { budget: BUDGETS[0], verify: true, ..options(4) };
            let mut instance = Instance::open(&mut storage, &mut arena.0, small).unwrap();
            let errors = instance.overlapped(&mut storage, |model| recovers(model));
            assert!(errors.iter().any(io), "{errors:?}");
            assert_eq!(storage.under_way(), 0);
        }
        #[cfg(all(feature = "linux", target_os = "linux"))]
        {
            let mut storage = Faulty::new(Slice(&pack), &script).queued(depth);
            opened(&mut storage, &mut arena);
            let options = Options { budget: BUDGETS[0], verify: true, ..options(4) };
            let mut instance = Instance::open(&mut storage, &mut arena.0, options).unwrap();
            let errors = instance.with_loader(&mut storage, |model| recovers(model)).unwrap();
            assert!(!errors.is_empty());
        }
    }
}

/// A change of shape that fails leaves no plan, no port and no tables; the next one is right.
#[test]
#[cfg_attr(miri, ignore)] // Minutes of checksums; what it does with memory, `inline` does, too.
fn a_change_of_shape_can_fail_and_be_repeated() {
    let pack = network();
    // One after opening: the skeleton's, then the plan's.
    let mut reads = Faulty::new(Slice(&pack), &[]);
    opened(&mut reads, &mut arena());
    let first = reads.attempts();
    for script in [
        [(first, Fault::Errno(5)), (first + 2, Fault::FlipBit { byte: 40, bit: 2 })],
        [(first, Fault::FlipBit { byte: 40, bit: 2 }), (first + 2, Fault::Errno(5))],
    ] {
        let mut storage = Faulty::new(Slice(&pack), &script);
        let mut arena = arena();
        let mut instance =
            Instance::open(&mut storage, &mut arena.0, Options { verify: true, ..options(1) })
                .unwrap();
        let mut model = instance.inline(&mut storage);
        for _ in 0..2 {
            assert!(matches!(model.set_shape(1), Err(ShapeError::Change(BudgetError::Plan(_)))));
            assert_eq!((model.inputs().len(), model.skeleton().tensors.len()), (0, 0));
            assert_eq!(model.infer(&Inline), Err(InferError::NoPlan));
            assert!(model.input_mut(0).is_err() && model.unused().is_empty());
        }
        // The same budget is set again, of the shape that was asked for last.
        model.set_budget(BUDGETS[2]).unwrap();
        assert_eq!(model.shape(), 1);
        infer(&mut model, &Inline).unwrap();
        model.set_shape(0).unwrap();
        infer(&mut model, &Inline).unwrap();
    }
}

#[test]
fn a_shape_can_be_opened_that_is_not_the_first() {
    let pack = network();
    let mut arena = arena();
    let mut storage = Slice(&pack);
    let second = Options { shape: 1, ..options(1) };
    let mut instance = Instance::open(&mut storage, &mut arena.0, second).unwrap();
    infer(&mut instance.inline(&mut storage), &Inline).unwrap();
    let none = Options { shape: 2, ..options(1) };
    let error = Instance::open(&mut storage, &mut arena.0, none).unwrap_err();
    assert_eq!(error, super::OpenError::Shape { asked: 2, shapes: 2 });
}
