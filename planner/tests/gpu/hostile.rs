//! Forged packs for GPUs, on the fake driver, where an access to memory that is nobody's ends the process: they are
//! refused, or what they compute stays inside the arena, the ring and the mirrors; and no more memory is taken than a
//! budget permits.

use crate::common::cuda::{OneGpu, kernels};
use crate::common::forge::{entries, header, seal, shapes, twice};
use crate::common::transformer::transformer;
use crate::common::{Subject, digits, gpu};
use eyelet::device::cuda::{Gpu, Memory};
use eyelet::device::{Accelerator, Inline};
use eyelet::executor::{Instance, Options};
use eyelet::pack::{
    Encoding, NONE, PAGE, PLANS, PlanEntry, SHAPES, SKELETON, ShapeEntry, SkeletonHeader,
};
use eyelet::storage::Slice;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::mem::size_of;

/// Packs of the digits, as small as can be, with residents, and with weights in 16 bits, and of a transformer, in each mode.
fn packs() -> Vec<(Memory, u64, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let mut packs = Vec::new();
    for (board, memory) in [("jetson-nano", Memory::ZeroCopy), ("gpu-host", Memory::Staged)] {
        let digits = || Subject::for_board(&digits(), gpu::board(board));
        let mut halves = digits();
        halves.encode(Encoding::F16);
        let transformer = Subject::of_graph(transformer(), gpu::board(board));
        for (subject, more) in [(digits(), 0), (digits(), 128 << 10), (halves, 0), (transformer, 0)]
        {
            let plan = subject.plan(subject.smallest(1) + more, 1).unwrap();
            subject.write(&path, std::slice::from_ref(&plan));
            packs.push((memory, plan.arena_bytes, std::fs::read(&path).unwrap()));
        }
    }
    packs
}

/// Where the words lie that mean something: header and its one entry, skeleton without names, plan.
fn words(pack: &[u8]) -> Vec<usize> {
    let ((_, shape), (_, plan)) = (shapes(pack)[0], entries(pack)[0]);
    let skeleton = shape.offset as usize;
    let names: SkeletonHeader =
        bytemuck::pod_read_unaligned(&pack[skeleton..][..size_of::<SkeletonHeader>()]);
    let skeleton = skeleton..skeleton + (shape.bytes - names.names) as usize;
    let plan = plan.offset as usize..plan.offset as usize + plan.bytes as usize;
    let head = 0..SHAPES + size_of::<ShapeEntry>();
    let entry = PLANS..PLANS + size_of::<PlanEntry>();
    [head, entry, skeleton, plan].into_iter().flat_map(|range| range.step_by(4)).collect()
}

/// Opens a pack and runs two inferences; the tables stay as they were read. Whether it opened.
fn run(device: &mut Gpu<'_>, pack: &[u8], with_loader: bool) -> bool {
    let mut storage = Slice(pack);
    let plan = match Instance::open_on(&mut storage, device, Options::default()) {
        Ok(mut instance) => {
            if with_loader {
                instance.with_loader(&mut storage, |model| twice(model, &Inline)).unwrap();
            } else {
                twice(&mut instance.inline(&mut storage), &Inline);
            }
            *instance.entry()
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let (_, shape) = shapes(pack)[0];
    let tables = &*device.lend().host;
    let sections = [
        (0, 0, SKELETON),
        (SKELETON, shape.offset, shape.bytes.into()),
        (shape.front(), plan.offset, u64::from(plan.bytes).next_multiple_of(PAGE)),
    ];
    for (at, offset, bytes) in sections
        .map(|(at, from, bytes): (u64, u64, u64)| (at as usize, from as usize, bytes as usize))
    {
        assert!(tables[at..at + bytes] == pack[offset..offset + bytes], "tables are written to");
    }
    true
}

#[test]
fn forged_packs_stay_inside_the_gpus_memory() {
    let Some(gpu) = OneGpu::configured("seed=1") else { return };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (memory, arena, whole) in packs() {
        let tables = header(&whole).weights_offset;
        let mut device =
            Gpu::new(&gpu.context, kernels(&gpu.context), memory, arena, tables).unwrap();
        assert!(run(&mut device, &whole, false));
        let words = words(&whole);
        let word = |at: usize| u32::from_le_bytes(whole[at..at + 4].try_into().unwrap());
        let mut opened = 0;
        let cases = 1500;
        for case in 0..cases {
            let mut pack = whole.clone();
            let mut forgery = Vec::new();
            for _ in 0..rng.random_range(1..3) {
                let at = rng.random_range(0..words.len());
                let (old, near) = (word(words[at]), (at + rng.random_range(0..40)) % words.len());
                let value = match rng.random_range(0..6) {
                    0 => [0, 1, 2, 3, NONE, 1 << 31, 1 << 16][rng.random_range(0..7)],
                    1 => rng.random::<u32>() >> rng.random_range(0..32),
                    2 => old.wrapping_add(rng.random_range(0..9)).wrapping_sub(4),
                    3 => old.wrapping_add(4096),
                    4 => old.wrapping_mul(2),
                    _ => word(words[near]),
                };
                forgery.push((words[at], value));
                pack[words[at]..words[at] + 4].copy_from_slice(&value.to_le_bytes());
            }
            seal(&mut pack);
            // Said before, since the fake driver ends the process.
            eprintln!("{memory:?}, case {case}, words (byte in the pack, value): {forgery:x?}");
            opened += u32::from(run(&mut device, &pack, case % 4 == 0));
            // A ring of eight arenas, and the ports.
            assert!(device.device_bytes() <= arena && device.host_bytes() <= tables + 16 * arena);
        }
        eprintln!("{opened} of {cases} forged packs opened");
        assert!(opened > 200, "{opened} of {cases} forged packs opened");
    }
}
