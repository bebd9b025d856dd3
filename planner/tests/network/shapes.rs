//! Packs of several shapes: the bits of packs of one shape, weights once, changes between inferences, and forgeries.

use crate::common::board::board;
use crate::common::forge::{Guarded, PLAIN, entries, header, run, seal, shapes};
use crate::common::transformer::{ENTRIES, transformer_of};
use crate::common::{Subject, bits, pack_shapes, run_inline};
use eyelet::device::{Device, Inline};
use eyelet::executor::{Feed, Instance, Model, OpenError, Options, ShapeError};
use eyelet::pack::{Header, PAGE, PLANS, PlanEntry, SHAPES, ShapeEntry};
use eyelet::storage::Slice;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::mem::{offset_of, size_of};

/// Tokens of each shape.
const TOKENS: [usize; 3] = [6, 3, 11];
const BUDGETS: [u64; 2] = [40 << 10, 1 << 17];
const THREADS: u32 = 3;

fn tokens(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at * 7 % ENTRIES) as f32).collect()
}

/// The pack of all shapes.
fn pack() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let names = TOKENS.map(|tokens| format!("seq={tokens}"));
    let graphs: Vec<_> =
        names.iter().zip(TOKENS).map(|(name, count)| (&**name, transformer_of(count))).collect();
    pack_shapes(&path, &graphs, &board(), &BUDGETS, THREADS);
    std::fs::read(path).unwrap()
}

/// What a pack of one shape computes, and how many bytes it has.
fn alone(count: usize) -> (Vec<Vec<u32>>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let subject = Subject::of_graph(transformer_of(count), board());
    subject.pack(&path, &BUDGETS, THREADS);
    let pack = std::fs::read(path).unwrap();
    (bits(&run_inline(&pack, BUDGETS[1], &[tokens(count)], &Inline, 2)), pack.len())
}

fn infer(model: &mut Model<'_, '_, impl Feed>, device: &dyn Device) -> Vec<Vec<u32>> {
    let count = model.inputs()[0].shape[1] as usize;
    let words = model.input_words_mut(0).unwrap();
    words.iter_mut().zip(tokens(count)).for_each(|(word, token)| *word = token as i32);
    model.infer(device).unwrap();
    bits(&[model.output(0).unwrap().to_vec()])
}

#[test]
fn each_shape_has_the_bits_of_a_pack_of_its_own() {
    let pack = pack();
    let wanted = TOKENS.map(alone);
    // Each network has weights of some 50 KiB, of which its positions and its mask are its own.
    let largest = wanted.iter().map(|(_, bytes)| *bytes).max().unwrap();
    let weights = header(&pack).weights_bytes;
    assert!(weights < 3 * largest as u64 / 2, "{weights} bytes of weights, {largest} of a pack");
    let mut arena = Guarded::new(BUDGETS[1] as usize);
    for with_loader in [false, true] {
        let mut storage = Slice(&pack);
        let options = Options { shape: 2, ..Options::default() };
        let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
        let all = |model: &mut dyn FnMut(u32, u64) -> Vec<Vec<u32>>| {
            for (shape, budget) in [(2, 1), (0, 1), (1, 0), (0, 0), (2, 0), (1, 1), (2, 1)] {
                let found = model(shape, BUDGETS[budget]);
                assert!(found == wanted[shape as usize].0, "shape {shape}, budget {budget}");
            }
        };
        if with_loader {
            let done = instance.with_loader(&mut storage, |model| {
                all(&mut |shape, bytes| at(model, shape, bytes));
            });
            done.unwrap();
        } else {
            let mut model = instance.inline(&mut storage);
            all(&mut |shape, bytes| at(&mut model, shape, bytes));
        }
    }
}

/// An inference of a shape within a budget; what a change leaves unused is overwritten.
fn at(model: &mut Model<'_, '_, impl Feed>, shape: u32, bytes: u64) -> Vec<Vec<u32>> {
    model.set_budget(bytes).unwrap();
    model.set_shape(shape).unwrap();
    assert_eq!((model.shape(), model.shapes()), (shape, TOKENS.len() as u32));
    assert_eq!(model.inputs()[0].shape[1] as usize, TOKENS[shape as usize]);
    assert!(model.entry().arena_bytes <= bytes);
    model.unused().fill(0xee);
    infer(model, &Inline)
}

#[test]
fn every_resident_is_kept_or_read() {
    let pack = pack();
    let mut arena = Guarded::new(BUDGETS[1] as usize);
    let mut storage = Slice(&pack);
    let mut instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
    let mut model = instance.inline(&mut storage);
    for shape in [1, 2, 0, 2] {
        let switch = model.set_shape(shape).unwrap();
        let there = switch.kept_bytes + switch.moved_bytes + switch.read_bytes;
        let residents = model.plan().resident.iter();
        let wanted: u64 = residents.map(|load| u64::from(load.bytes)).sum();
        assert!(wanted > 0 && there >= wanted, "{switch:?}");
    }
}

#[test]
fn a_shape_without_a_plan_is_refused_and_changes_nothing() {
    let mut pack = pack();
    // The plans of the last shape are said to need more than there is.
    let needed = BUDGETS[1] + PAGE;
    for (at, entry) in entries(&pack) {
        if entry.shape == 2 {
            let field = at + offset_of!(PlanEntry, arena_bytes);
            pack[field..field + 8].copy_from_slice(&needed.to_le_bytes());
        }
    }
    seal(&mut pack);
    let mut arena = Guarded::new(BUDGETS[1] as usize);
    let mut storage = Slice(&pack);
    let options = Options { shape: 2, ..Options::default() };
    let error = Instance::open(&mut storage, arena.bytes(), options).unwrap_err();
    assert_eq!(error, OpenError::Budget { arena: BUDGETS[1], smallest: needed });
    let options = Options { shape: 1, ..options };
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    let before = infer(&mut model, &Inline);
    let error = model.set_shape(2).unwrap_err();
    assert!(error.to_string().contains(&needed.to_string()), "{error}");
    let error = model.set_shape(7).unwrap_err();
    assert_eq!(error, ShapeError::Absent { asked: 7, shapes: 3 });
    assert!(error.to_string().contains("shape 7") && error.to_string().contains("has 3"));
    assert_eq!(infer(&mut model, &Inline), before);
}

/// The refusal of a pack after a change of its tables.
fn refused(change: impl Fn(&mut Vec<u8>)) -> OpenError {
    let mut pack = pack();
    change(&mut pack);
    seal(&mut pack);
    run(&pack, &mut Guarded::new(BUDGETS[1] as usize), PLAIN).unwrap_err()
}

#[test]
fn shapes_that_cannot_be_are_refused() {
    let set = |field: usize, value: u32| {
        move |pack: &mut Vec<u8>| pack[field..field + 4].copy_from_slice(&value.to_le_bytes())
    };
    let what = |error: OpenError| match error {
        OpenError::Flaw(flaw) => flaw.what,
        error => panic!("{error}"),
    };
    let count = offset_of!(Header, shapes);
    for count_of in [0, 9, u32::MAX] {
        assert_eq!(what(refused(set(count, count_of))), "pack: number of shapes");
    }
    assert_eq!(what(refused(set(count, 2))), "pack: the shape of a plan");
    assert_eq!(what(refused(set(count, 4))), "pack: plans of a shape");
    let shape = |index: usize| SHAPES + index * size_of::<ShapeEntry>();
    let offset = shape(1) + offset_of!(ShapeEntry, offset);
    assert_eq!(what(refused(set(offset, 64))), "pack: skeleton beyond the file");
    assert_eq!(what(refused(set(offset + 4, 1))), "pack: skeleton beyond the file");
    let first = shapes(&pack())[0].1.offset as u32;
    assert_eq!(what(refused(set(offset, first))), "pack: two skeletons or plans in one section");
    let bytes = shape(2) + offset_of!(ShapeEntry, bytes);
    assert_eq!(what(refused(set(bytes, 1 << 20))), "pack: skeleton beyond the file");
    assert_eq!(what(refused(set(bytes, 0))), "skeleton: header bytes");
    // The plan of another shape is for another network: its buffers are too large or too small.
    let last = PLANS + 5 * size_of::<PlanEntry>() + offset_of!(PlanEntry, strategy);
    assert!(matches!(refused(set(last, 0)), OpenError::Flaw(_)));
}

#[test]
fn forged_tables_of_shapes_are_refused_or_harmless() {
    let whole = pack();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut arena = Guarded::new(BUDGETS[1] as usize);
    let mut words: Vec<usize> = (0..PLANS + 6 * size_of::<PlanEntry>()).step_by(4).collect();
    for (_, shape) in shapes(&whole) {
        words.extend((shape.offset as usize..).step_by(4).take(shape.bytes as usize / 4));
    }
    let mut opened = 0;
    let cases = 1000;
    for case in 0..cases {
        let mut pack = whole.clone();
        for _ in 0..rng.random_range(1..3) {
            let at = words[rng.random_range(0..words.len())];
            let old = u32::from_le_bytes(pack[at..at + 4].try_into().unwrap());
            let value = match rng.random_range(0..4) {
                0 => [0, 1, 2, 3, u32::MAX, 1 << 16][rng.random_range(0..6)],
                1 => rng.random::<u32>() >> rng.random_range(0..32),
                2 => old.wrapping_add(rng.random_range(0..9)).wrapping_sub(4),
                _ => old.wrapping_add(4096),
            };
            pack[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        seal(&mut pack);
        let manner = crate::common::forge::Manner { with_loader: case % 8 == 0, ..PLAIN };
        opened += usize::from(run(&pack, &mut arena, manner).is_ok());
    }
    assert!(opened > cases / 20, "{opened} of {cases} forged packs opened");
}
