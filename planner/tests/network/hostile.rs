//! Packs that are damaged, and packs that are forged: an error or an answer, never a panic, a hang, or a
//! byte outside the arena.

use crate::common::forge::{Guarded, Manner, PLAIN, Three, entries, header, run, seal, shapes};
use crate::common::prove::aligned;
use crate::common::records::Records;
use crate::common::sliding;
use crate::common::transformer::transformer;
use crate::common::{Subject, digits};
use eyelet::device::Inline;
use eyelet::executor::{self, InferError, Instance, OpenError, Options, Progress, STEP_WORK};
use eyelet::kernels::Isa;
use eyelet::ops::transformed;
use eyelet::pack::{
    Buffer, Encoding, Flaw, Header, Load, MAX_THREADS, NONE, PAGE, PLANS, Place, PlanEntry,
    PlanView, Port, SHAPES, ShapeEntry, Skeleton, SkeletonHeader, Step, Tensor,
};
use eyelet::proof::{Bounds, Proven, ProvenSkeleton};
use eyelet::storage::faulty::Fault;
use eyelet::storage::{Faulty, Slice};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::mem::offset_of;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Packs of the digits network, at the smallest budget and at ones with residents and in full, one of a
/// transformer, and one whose layers slide.
fn packs() -> Vec<(u64, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let pack = |subject: &Subject, budget| {
        let path = folder.path().join("net.pack");
        subject.pack(&path, &[budget], 3);
        (budget, std::fs::read(&path).unwrap())
    };
    let subject = Subject::new(&digits());
    let smallest = subject.smallest(3);
    let budgets = [smallest, smallest + (128 << 10), 1 << 20];
    let mut packs: Vec<_> = budgets.into_iter().map(|budget| pack(&subject, budget)).collect();
    let subject = Subject::of_graph(transformer(), crate::common::board::board());
    packs.insert(1, pack(&subject, subject.smallest(3)));
    packs.insert(2, (sliding::ARENA, sliding::LEAST.plan(Isa::Portable).pack()));
    // Weights in 16 bits, transformed by the steps where that can be.
    let mut subject = Subject::new(&digits());
    subject.encode(Encoding::F16);
    let network = &mut subject.network;
    for layer in 0..network.layers.len() {
        let input = network.tensors[network.layers[layer].inputs[0] as usize];
        let can = transformed(&network.layers[layer], &input, 4, network.isa).is_some();
        network.on_load[layer] = if can { 4 } else { 0 };
    }
    assert!(network.on_load.contains(&4));
    packs.insert(3, pack(&subject, subject.smallest(3)));
    packs
}

/// The sections before the weights that checksums cover: header page, skeleton, plan.
fn sections(pack: &[u8]) -> [Range<usize>; 3] {
    let ((_, shape), (_, plan)) = (shapes(pack)[0], entries(pack)[0]);
    let range = |start: u64, bytes: u32| start as usize..start as usize + bytes as usize;
    [0..PAGE as usize, range(shape.offset, shape.bytes), range(plan.offset, plan.bytes)]
}

#[test]
fn truncated_packs_are_refused() {
    let (budget, pack) = packs().swap_remove(0);
    let mut arena = Guarded::new(budget as usize);
    run(&pack, &mut arena, PLAIN).unwrap();
    let near = |at: usize| [at.saturating_sub(1), at, at + 1];
    let edges = sections(&pack).into_iter().flat_map(|s| [s.start, s.end]).flat_map(near);
    let steps = (0..pack.len()).step_by(509);
    for len in edges.chain(steps).filter(|len| *len < pack.len()) {
        match run(&pack[..len], &mut arena, PLAIN) {
            Err(OpenError::Size { found, .. }) => assert_eq!(found, len as u64),
            other => panic!("{len} bytes: {other:?}"),
        }
    }
    // As in a partition, whose end is not the pack's.
    for more in [1, PAGE as usize, 1 << 20] {
        let longer = [&pack[..], &vec![0xff; more]].concat();
        run(&longer, &mut arena, PLAIN).unwrap();
    }
}

#[test]
fn every_flipped_bit_of_the_tables_is_noticed() {
    let (budget, mut pack) = packs().swap_remove(0);
    let mut arena = Guarded::new(budget as usize);
    for at in sections(&pack).into_iter().flatten() {
        for bit in 0..8 {
            pack[at] ^= 1 << bit;
            let error = run(&pack, &mut arena, PLAIN).expect_err("a flipped bit went unnoticed");
            match at {
                0..8 => assert_eq!(error, OpenError::NotAPack),
                8..12 => assert!(matches!(error, OpenError::Version { .. })),
                // Storage may be longer than a pack, not shorter.
                24..32 => assert!(matches!(
                    error,
                    OpenError::Size { .. } | OpenError::Checksum { section: "header", .. }
                )),
                _ => assert!(matches!(error, OpenError::Checksum { .. }), "{at}: {error}"),
            }
            pack[at] ^= 1 << bit;
        }
    }
    run(&pack, &mut arena, PLAIN).unwrap();
}

/// Says which forgery it was when a test panics in it.
struct Forgery<'a>(&'a [(usize, u32)]);

impl Drop for Forgery<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("forged words (byte in the pack, value): {:x?}", self.0);
        }
    }
}

/// Runs a pack with some words changed and its checksums put right. Returns whether it opened.
fn forged(
    pack: &mut [u8],
    arena: &mut Guarded,
    words: &[(usize, u32)],
    manner: Manner,
) -> Option<()> {
    let before: Vec<u8> = pack[..tables_end(pack)].to_vec();
    for &(at, value) in words {
        pack[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    seal(pack);
    let guard = Forgery(words);
    let start = Instant::now();
    let result = run(pack, arena, manner);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    if let Err(error) = &result {
        assert!(!error.to_string().is_empty());
    }
    drop(guard);
    pack[..before.len()].copy_from_slice(&before);
    result.ok()
}

fn tables_end(pack: &[u8]) -> usize {
    header(pack).weights_offset.min(pack.len() as u64) as usize
}

/// Where the words lie that mean something: header and its one entry, skeleton without names, plan.
fn words(pack: &[u8]) -> Vec<usize> {
    let [_, skeleton, plan] = sections(pack);
    let names: SkeletonHeader =
        bytemuck::pod_read_unaligned(&pack[skeleton.start..][..size_of::<SkeletonHeader>()]);
    let head = 0..SHAPES + size_of::<ShapeEntry>();
    let entry = PLANS..PLANS + size_of::<PlanEntry>();
    let skeleton = skeleton.start..skeleton.end - names.names as usize;
    [head, entry, skeleton, plan].into_iter().flat_map(|range| range.step_by(4)).collect()
}

fn word(pack: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(pack[at..at + 4].try_into().unwrap())
}

#[test]
fn every_forged_field_is_refused_or_harmless() {
    for (budget, mut pack) in packs() {
        let mut arena = Guarded::new(budget as usize);
        let (mut opened, mut cases) = (0, 0);
        for at in words(&pack) {
            let old = word(&pack, at);
            let mut values = vec![0, 1, 2, 3, NONE, NONE - 1, 1 << 31, (1 << 31) - 1, 1 << 16];
            for step in [1, 16, 64, 4096] {
                values.extend([old.wrapping_add(step), old.wrapping_sub(step)]);
            }
            values.extend([old.wrapping_mul(2), old / 2, !old]);
            values.sort_unstable();
            values.dedup();
            for value in values.into_iter().filter(|value| *value != old) {
                cases += 1;
                let three = cases % 2 == 0;
                let manner = Manner { verify: cases % 3 != 0, three, with_loader: cases % 5 == 0 };
                opened += forged(&mut pack, &mut arena, &[(at, value)], manner).map_or(0, |()| 1);
            }
        }
        eprintln!("budget {budget}: {opened} of {cases} forged packs opened");
        assert!(cases > 1000 && opened > 0);
    }
}

#[test]
fn random_forgeries_are_refused_or_harmless() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (budget, mut pack) in packs() {
        let mut arena = Guarded::new(budget as usize);
        let words = words(&pack);
        for case in 0..3000 {
            let some: Vec<(usize, u32)> = (0..rng.random_range(1..5))
                .map(|_| {
                    let at = words[rng.random_range(0..words.len())];
                    // Mostly values that mean something elsewhere nearby: those come far.
                    let near = at as i64 + 4 * rng.random_range(-60..60i64);
                    let near =
                        words.binary_search(&(near.max(0) as usize)).map_or(at, |i| words[i]);
                    let value = match rng.random_range(0..4) {
                        0 => rng.random(),
                        1 => rng.random::<u32>() >> rng.random_range(0..32),
                        2 => word(&pack, at).wrapping_add(rng.random_range(0..9)).wrapping_sub(4),
                        _ => word(&pack, near),
                    };
                    (at, value)
                })
                .collect();
            let manner =
                Manner { verify: case % 3 != 0, three: case % 2 == 0, with_loader: case % 4 == 0 };
            forged(&mut pack, &mut arena, &some, manner);
        }
    }
}

/// So many steps, and as many loads that are in flight beside all of them.
fn in_flight(count: u32, arena: u64) -> Records {
    let mut records = Records::copy(arena);
    let address = (arena - 128 - PAGE) / PAGE * PAGE;
    let load = Load { address, bytes: PAGE as u32, ..Load::default() };
    let last = -(count as i32) + 1;
    records.loads = vec![Load { release: last, ..load }; count as usize];
    records.steps = vec![Step { rows: 1, ..Step::default() }; count as usize];
    records.steps.last_mut().unwrap().ready = count;
    records
}

/// The least effort that is enough to prove the plan of a pack for so many threads.
fn effort(records: &Records, threads: u32) -> u64 {
    let pack = records.pack();
    let head = header(&pack);
    let ((_, shape), (_, entry)) = (shapes(&pack)[0], entries(&pack)[0]);
    let section = |start: u64, bytes: u32| aligned(&pack[start as usize..][..bytes as usize]);
    let skeleton = section(shape.offset, shape.bytes);
    let plan = section(entry.offset, entry.bytes);
    let skeleton = Skeleton::view(bytemuck::cast_slice(&skeleton)).unwrap();
    let plan = PlanView::view(bytemuck::cast_slice(&plan)).unwrap();
    let network = ProvenSkeleton::new(skeleton, Isa::Portable, head.weights_bytes).unwrap();
    let (tables, arena) = (entry.arena_bytes / 2, entry.arena_bytes);
    let proves = |effort: u64| {
        let (step_work, mapped) = (STEP_WORK, false);
        let bounds = Bounds { tables, arena, fast: 0, threads, step_work, effort, mapped };
        match Proven::new(&network, plan, bounds) {
            Ok(_) => true,
            Err(flaw) => {
                assert_eq!(flaw.limit, effort, "{flaw}");
                false
            }
        }
    };
    let (mut refused, mut enough) = (0, 1 << 40);
    while enough - refused > 1 {
        let middle = (refused + enough) / 2;
        *(if proves(middle) { &mut enough } else { &mut refused }) = middle;
    }
    enough
}

/// What the proof of a plan takes grows as the plan does, and no faster.
#[test]
fn proofs_take_as_long_as_plans_are() {
    let [one, two, four] = [500, 1000, 2000].map(|count| effort(&in_flight(count, 1 << 20), 1));
    assert!(two <= 2 * one && four <= 2 * two, "{one}, {two}, {four}");
    // Such a plan is proved in a pack of 1 MiB.
    assert!(four < Bounds::effort_for(1 << 20, 1));
}

/// Scratch is proved once for each work and number of threads, however many steps do the work.
#[test]
fn scratch_is_proved_once_for_each_work() {
    let arena = 16 << 20;
    let [one, sixteen] = [1, 16].map(|threads| effort(&Records::grouped(arena, 300, 1), threads));
    assert_eq!(sixteen - one, 15 * 300);
    let repeated = [1, 16].map(|threads| effort(&Records::grouped(arena, 300, 5), threads));
    assert_eq!(repeated[1] - repeated[0], sixteen - one);
    assert_eq!(Records::grouped(arena, 300, 5).flaw(), None);
    // More than is due to the size of the pack.
    assert!(effort(&Records::grouped(arena, 10_000, 1), 16) > Bounds::effort_for(0, 1));
}

/// Each number of threads is proved for, and no device has more than so many.
#[test]
fn plans_serve_no_more_threads_than_devices_have() {
    let mut records = Records::grouped(16 << 20, 300, 1);
    for (threads, flaw) in
        [(3, None), (16, None), (17, Some(17)), (65535, Some(65535)), (0, Some(0))]
    {
        records.threads = threads;
        let pack = records.pack();
        let found = executor::header(&pack[..PAGE as usize], pack.len() as u64).err();
        let limit = MAX_THREADS as u64;
        let what = "pack: threads of a plan";
        let wanted = flaw.map(|found| OpenError::Flaw(Flaw { what, index: 0, found, limit }));
        assert_eq!(found, wanted);
    }
    assert_eq!(records.flaw(), Some("pack: threads of a plan"));
}

#[test]
fn a_section_has_one_plan() {
    let mut pack = Records::copy(1 << 20).pack();
    let (at, entry) = entries(&pack)[0];
    // Sixteen entries of it, each of another budget.
    for i in 0..16u64 {
        let entry = PlanEntry { budget: entry.budget + i, ..entry };
        let at = at + i as usize * size_of::<PlanEntry>();
        pack[at..at + size_of::<PlanEntry>()].copy_from_slice(bytemuck::bytes_of(&entry));
    }
    let plans = offset_of!(Header, plans);
    pack[plans..plans + 4].copy_from_slice(&16u32.to_le_bytes());
    seal(&mut pack);
    let error = run(&pack, &mut Guarded::new(1 << 20), PLAIN).unwrap_err();
    let OpenError::Flaw(flaw) = error else { panic!("{error}") };
    assert_eq!(
        (flaw.what, flaw.found),
        ("pack: two skeletons or plans in one section", entry.offset)
    );
}

/// A small pack whose one step is pooling by a window that is as large as the image.
#[test]
fn steps_that_take_as_long_as_they_like_are_refused() {
    let (side, arena) = (64, 1 << 20);
    let records = Records::pooling(arena, side, false);
    let pack = records.pack();
    let mut arena = Guarded::new(arena as usize);
    let mut open = |step_work| {
        let options = Options { step_work, ..Options::default() };
        Instance::open(&mut Slice(&pack), arena.bytes(), options).err()
    };
    let pixels = u64::from(side * side);
    let work = pixels * u64::from(2 * side - 1).pow(2) + 2 * pixels;
    assert_eq!(open(Options::default().step_work), None);
    assert_eq!(open(work), None);
    let Some(OpenError::Flaw(flaw)) = open(work - 1) else { panic!("it is not refused") };
    assert_eq!((flaw.index, flaw.found, flaw.limit), (0, work, work - 1));
    assert!(flaw.to_string().contains("step_work"), "{flaw}");
}

#[test]
fn packs_that_take_long_to_prove_are_refused() {
    let arena = 64 << 20;
    assert_eq!(Records::copy(arena).flaw(), None);

    // Every load is in flight for as long as can be, beside each step: they are not compared.
    let long = in_flight(4000, arena);
    assert_eq!(long.flaw(), None);
    // All of them in the same pages, so that what is left of them is found out again and again.
    let mut mixed = in_flight(4000, arena);
    for (ready, step) in mixed.steps.iter_mut().enumerate() {
        step.ready = 1 + ready as u32;
    }
    let too_long =
        Some("plan: takes too long to prove, in comparisons, beside the size of its pack");
    assert_eq!(mixed.flaw(), too_long);
    // Each step of a ring is looked for in all tensors.
    let mut rings = Records::copy(arena);
    let lines = |buffer| Tensor { buffer, dims: [1, 1, 16, 16], pitch: 16, ..Tensor::default() };
    rings.buffers.extend(vec![Buffer::floats(1024); 1000]);
    rings.tensors.extend((2..1002).map(lines));
    rings.places.extend((0..1000).map(|i| Place { address: arena / 2 + 1024 * i, lines: 1 }));
    assert_eq!(rings.flaw(), too_long);

    // So many ports that comparing them in pairs takes hours.
    let mut ports = Records::copy(arena);
    let count = 100_000u32;
    ports.buffers = vec![Buffer::floats(64); count as usize];
    ports.tensors = (0..count).map(|buffer| Tensor { buffer, ..ports.tensors[0] }).collect();
    ports.inputs = (0..count).map(|tensor| Port { tensor, ..ports.inputs[0] }).collect();
    ports.outputs.clear();
    ports.places = (1..=u64::from(count)).map(|i| Place::whole(arena - 64 * i)).collect();
    assert_eq!(ports.flaw(), Some("skeleton: too many inputs and outputs"));

    // The same bytes read again and again before `open` returns.
    let mut again = Records::copy(arena);
    again.weights = 16 << 20;
    let load = Load { address: 32 << 20, bytes: 16 << 20, ..Load::default() };
    again.resident = vec![load; 10_000];
    assert_eq!(again.flaw(), Some("plan: bytes of all resident loads"));
}

#[test]
fn loads_that_race_or_wait_for_ever_are_refused() {
    let arena = 1 << 20;
    let free = Load { address: 512 << 10, bytes: PAGE as u32, ..Load::default() };
    let last = Load { address: arena - PAGE, ..free };
    let with = |resident: &[Load], loads: &[Load], ready: u32| {
        let mut records = Records::copy(arena);
        (records.resident, records.loads) = (resident.to_vec(), loads.to_vec());
        records.steps[0].ready = ready;
        records.flaw()
    };
    let flight = Some("load: may be in flight while the host uses its bytes");
    let stuck = Some("load: released only after a step that waits for it (deadlock)");
    assert_eq!(with(&[free], &[Load { release: -1, address: 256 << 10, ..free }], 1), None);
    assert_eq!(with(&[], &[Load { release: 1, ..last }], 1), None);
    assert_eq!(with(&[], &[Load { release: 0, ..last }], 1), flight);
    assert_eq!(with(&[last], &[], 0), flight);
    assert_eq!(with(&[free], &[free], 1), Some("load: overwrites a resident"));
    assert_eq!(with(&[], &[free], 0), Some("plan: steps wait for all loads"));
    assert_eq!(with(&[], &[free], 2), Some("plan: steps wait for all loads"));
    let beyond = Some("load: release beyond one inference");
    for release in [2, -2, i32::MAX, i32::MIN] {
        assert_eq!(with(&[], &[Load { release, ..free }], 1), beyond);
    }
    // Two steps, the first of which waits for a load that waits for it.
    let mut records = Records::copy(arena);
    records.steps = vec![Step { ready: 1, ..records.steps[0] }; 2];
    records.loads = vec![Load { release: 2, ..free }];
    assert_eq!(records.flaw(), stuck);
    // Tables are nobody's.
    let outside = Some("load: outside the arena");
    assert_eq!(with(&[], &[Load { address: 0, ..free }], 1), outside);
    assert_eq!(with(&[], &[Load { address: arena, ..free }], 1), outside);
    assert_eq!(with(&[], &[Load { address: u64::from(u32::MAX) * PAGE, ..free }], 1), outside);
}

#[test]
fn every_refusal_says_what_to_do() {
    let (budget, pack) = packs().swap_remove(0);
    let mut arena = Guarded::new(budget as usize);
    let mut text = |change: &dyn Fn(&mut Vec<u8>), sealed: bool, manner: Manner| {
        let mut pack = pack.clone();
        change(&mut pack);
        if sealed {
            seal(&mut pack);
        }
        run(&pack, &mut arena, manner).unwrap_err().to_string()
    };
    let set = |field: usize, value: u32| {
        move |pack: &mut Vec<u8>| pack[field..field + 4].copy_from_slice(&value.to_le_bytes())
    };
    assert!(text(&set(0, 0), true, PLAIN).contains("not a pack"));
    let version = text(&set(offset_of!(Header, version), 77), true, PLAIN);
    assert!(version.contains("77") && version.contains("plan the model again"), "{version}");
    let size = text(&|pack| pack.truncate(5000), false, PLAIN);
    assert!(size.contains("5000 bytes") && size.contains("truncated"), "{size}");
    let size = text(&|pack| pack.truncate(17), false, PLAIN);
    assert!(size.contains("17 bytes"), "{size}");
    for (at, name) in sections(&pack).iter().zip(["header", "skeleton", "plan"]) {
        let last = at.end - 1;
        let crc = text(&|pack| pack[last] ^= 1, false, PLAIN);
        assert!(crc.contains("checksum") && crc.contains(name) && crc.contains("write it again"));
    }
    let isa = text(&set(offset_of!(Header, isa), 999), true, PLAIN);
    assert!(isa.contains("instruction set (code 999)"), "{isa}");
    let entry = PLANS;
    let threads = text(
        &set(entry + offset_of!(PlanEntry, threads), 1),
        true,
        Manner { three: true, ..PLAIN },
    );
    assert!(threads.contains("3 threads") && threads.contains("--threads 3"), "{threads}");
    let more = (budget + 4096) as u32;
    let smallest = text(&set(entry + offset_of!(PlanEntry, arena_bytes), more), true, PLAIN);
    assert!(smallest.contains(&format!("needs {more}")), "{smallest}");
    let flaw = text(&set(offset_of!(Header, panel), 5), true, PLAIN);
    assert!(flaw.contains("malformed") && flaw.contains("found 5"), "{flaw}");

    // An arena beside the page, and one that is too small for anything.
    let open = |bytes: &mut [u8]| {
        let mut storage = Slice(&pack);
        Instance::open(&mut storage, bytes, Options::default()).err().unwrap().to_string()
    };
    assert!(open(&mut arena.bytes()[64..]).contains("align it"));
    assert!(open(&mut arena.bytes()[..100]).contains("the arena has 100 bytes"));
    // A resident load that is damaged.
    let (budget, mut pack) = packs().pop().unwrap();
    let mut arena = Guarded::new(budget as usize);
    let last = header(&pack).weights_offset as usize + 10;
    pack[last] ^= 4;
    let load = run(&pack, &mut arena, PLAIN).unwrap_err();
    assert!(matches!(load, OpenError::Load(_)), "{load}");
    assert!(load.to_string().contains("the pack is damaged"), "{load}");
}

#[test]
fn threads_are_counted_at_every_step() {
    let (budget, pack) = packs().swap_remove(0);
    let mut arena = Guarded::new(budget as usize);
    let mut storage = Slice(&pack);
    let mut instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
    let mut model = instance.inline(&mut storage);
    model.input_mut(0).unwrap().fill(0.25);
    model.infer(&Inline).unwrap();
    let whole = model.output(0).unwrap().to_vec();
    model.input_mut(0).unwrap().fill(0.25);
    let refused = Err(InferError::Threads { device: 3, opened: 1 });
    assert_eq!(model.step(&Three), refused);
    assert!(model.input_mut(0).is_ok(), "the host's turn goes on");
    assert_eq!(model.step(&Inline), Ok(Progress::Running));
    assert_eq!(model.step(&Three), refused);
    model.infer(&Inline).unwrap();
    assert_eq!(model.output(0).unwrap(), whole);
}

#[test]
fn a_load_that_fails_early_fails_the_inference_that_needs_it() {
    let (budget, pack) = packs().swap_remove(0);
    let mut arena = Guarded::new(budget as usize);
    let counts = {
        let mut storage = Slice(&pack);
        let instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
        let plan = instance.plan();
        assert!(!plan.loads.is_empty());
        // Three reads are of tables: header, skeleton, plan.
        (3 + plan.resident.len() + plan.loads.len(), plan.steps.len())
    };
    // The first load of the second inference, which the loader comes to during the first one.
    let script = [(counts.0 as u64, Fault::Errno(5))];
    let mut storage = Faulty::new(Slice(&pack), &script);
    let mut instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
    instance
        .with_loader(&mut storage, |model| {
            let fill = |input: Option<&mut [f32]>| input.unwrap().fill(0.25);
            fill(model.input_mut(0).ok());
            for _ in 1..counts.1 {
                assert_eq!(model.step(&Inline), Ok(Progress::Running));
                std::thread::sleep(Duration::from_millis(3));
            }
            assert_eq!(model.step(&Inline), Ok(Progress::Finished));
            let first = model.output(0).unwrap().to_vec();
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(model.output(0).unwrap(), first);
            fill(model.input_mut(0).ok());
            assert!(matches!(model.infer(&Inline), Err(InferError::Load(_))));
            for _ in 0..2 {
                fill(model.input_mut(0).ok());
                assert_eq!(model.infer(&Inline), Ok(()));
                assert_eq!(model.output(0).unwrap(), first);
            }
        })
        .unwrap();
}
