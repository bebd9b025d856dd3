//! Forged packs: any bytes with the checksums put right, and an arena that notices.
#![allow(dead_code)]

use eyelet::device::{Device, Inline};
use eyelet::executor::{Feed, InferError, Instance, LoadError, Model, OpenError, Options};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::stored::{LoadRecord, PlaceRecord};
use eyelet::pack::{
    Header, MAX_PLANS, MAX_SHAPES, PAGE, PLANS, PlanEntry, PlanHeader, SHAPES, SKELETON, ShapeEntry,
};
use eyelet::storage::Slice;
use std::mem::{offset_of, size_of};
use std::ops::Range;

/// The bytes of a record, or a section, if the file has them.
fn range(bytes: &[u8], start: u64, len: u64) -> Option<Range<usize>> {
    let end = usize::try_from(start.checked_add(len)?).ok()?;
    (end <= bytes.len()).then_some(start as usize..end)
}

pub fn header(pack: &[u8]) -> Header {
    bytemuck::pod_read_unaligned(&pack[..size_of::<Header>()])
}

/// The plans' entries, and where they lie.
pub fn entries(pack: &[u8]) -> Vec<(usize, PlanEntry)> {
    table(pack, PLANS, (header(pack).plans as usize).min(MAX_PLANS))
}

/// The shapes' entries, and where they lie.
pub fn shapes(pack: &[u8]) -> Vec<(usize, ShapeEntry)> {
    table(pack, SHAPES, (header(pack).shapes as usize).min(MAX_SHAPES))
}

fn table<T: bytemuck::AnyBitPattern>(pack: &[u8], start: usize, count: usize) -> Vec<(usize, T)> {
    let at = |index: usize| start + index * size_of::<T>();
    let entry = |at: usize| bytemuck::pod_read_unaligned(&pack[at..at + size_of::<T>()]);
    (0..count).map(|index| (at(index), entry(at(index)))).collect()
}

/// Puts every checksum right that has a place to be: of loads, plans, skeleton, names, header. `pack` has at
/// least a page.
pub fn seal(pack: &mut [u8]) {
    let head = header(pack);
    for (at, entry) in entries(pack) {
        let Some(section) = range(pack, entry.offset, entry.bytes.into()) else { continue };
        seal_loads(pack, &head, section.clone());
        let crc = crc32c(0, &pack[section]);
        let field = at + offset_of!(PlanEntry, crc);
        pack[field..field + 4].copy_from_slice(&crc.to_le_bytes());
    }
    let mut sections = vec![(head.names_offset, head.names_bytes, offset_of!(Header, names_crc))];
    for (at, shape) in shapes(pack) {
        sections.push((shape.offset, shape.bytes.into(), at + offset_of!(ShapeEntry, crc)));
    }
    for (start, bytes, field) in sections {
        if let Some(section) = range(pack, start, bytes) {
            let crc = crc32c(0, &pack[section]);
            pack[field..field + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
    seal_first_page(pack);
}

/// Puts the checksum of the first page right.
fn seal_first_page(pack: &mut [u8]) {
    let field = offset_of!(Header, crc);
    pack[field..field + 4].fill(0);
    let crc = crc32c(0, &pack[..PAGE as usize]);
    pack[field..field + 4].copy_from_slice(&crc.to_le_bytes());
}

fn seal_loads(pack: &mut [u8], head: &Header, section: Range<usize>) {
    let Some(start) = section.start.checked_add(size_of::<PlanHeader>()) else { return };
    if start > section.end {
        return;
    }
    let counts: PlanHeader = bytemuck::pod_read_unaligned(&pack[section.start..start]);
    let first = start as u64 + size_of::<PlaceRecord>() as u64 * u64::from(counts.buffers);
    let loads = u64::from(counts.resident_loads) + u64::from(counts.loads);
    for index in 0..loads {
        let bytes = size_of::<LoadRecord>() as u64;
        let Some(at) = range(pack, first + index * bytes, bytes) else { return };
        if at.end > section.end {
            return;
        }
        let load: LoadRecord = bytemuck::pod_read_unaligned(&pack[at.clone()]);
        let offset = head.weights_offset.saturating_add(u64::from(load.offset) * PAGE);
        if let Some(bytes) = range(pack, offset, load.bytes.into()) {
            let crc = crc32c(0, &pack[bytes]);
            let field = at.start + offset_of!(LoadRecord, crc);
            pack[field..field + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// An arena between two pages that must not be touched.
pub struct Guarded {
    start: *mut u8,
    len: usize,
}

impl Guarded {
    pub fn new(len: usize) -> Self {
        let page = PAGE as usize;
        let len = len.next_multiple_of(page);
        // SAFETY: a new private mapping, of which only what lies between the guards is ever handed out.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let whole = len + 2 * page;
            let map = libc::mmap(std::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(map, libc::MAP_FAILED);
            let start = map.cast::<u8>().add(page);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            assert_eq!(libc::mprotect(start.cast(), len, access), 0);
            start
        };
        Self { start, len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: mapped readable and writable, zeroed by the system, borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let page = PAGE as usize;
        // SAFETY: exactly the mapping that was made.
        unsafe { libc::munmap(self.start.sub(page).cast(), self.len + 2 * page) };
    }
}

/// Divides work among three threads that are one.
pub struct Three;

// SAFETY: one part after the other, each once.
unsafe impl Device for Three {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        (0..parts).rev().for_each(|part| task(part, part % 3));
    }
}

/// How a pack is run.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub verify: bool,
    pub three: bool,
    pub with_loader: bool,
}

/// Verified, on one thread that loads as well.
pub const PLAIN: Manner = Manner { verify: true, three: false, with_loader: false };

/// Opens a pack and runs two inferences in each shape. Whatever the bytes are, this returns, and the tables in the arena
/// stay as they were read.
pub fn run(pack: &[u8], arena: &mut Guarded, manner: Manner) -> Result<(), OpenError> {
    let device: &dyn Device = if manner.three { &Three } else { &Inline };
    let threads = device.threads() as u32;
    let options = Options { verify: manner.verify, threads, ..Options::default() };
    let mut storage = Slice(pack);
    let mut instance = Instance::open(&mut storage, arena.bytes(), options)?;
    let whole = if manner.with_loader {
        instance.with_loader(&mut storage, |model| every_shape(model, device)).unwrap()
    } else {
        every_shape(&mut instance.inline(&mut storage), device)
    };
    if !whole {
        return Ok(());
    }
    let plan = *instance.entry();
    let (_, shape) = shapes(pack)[usize::from(plan.shape)];
    let sections = [
        (0, 0, SKELETON),
        (SKELETON, shape.offset, shape.bytes.into()),
        (shape.front(), plan.offset, u64::from(plan.bytes).next_multiple_of(PAGE)),
    ];
    for (at, offset, bytes) in sections {
        let section = range(pack, offset, bytes).unwrap();
        let tables = &arena.bytes()[at as usize..(at + bytes) as usize];
        assert!(tables == &pack[section], "tables are written to");
    }
    Ok(())
}

/// Runs two inferences in each shape that has a plan, the one that was opened first and last.
/// Whether that has a plan in the end: a resident load of it can be forged so that it fails now and then.
fn every_shape<F: Feed>(model: &mut Model<'_, '_, F>, device: &dyn Device) -> bool {
    twice(model, device);
    let opened = model.shape();
    for shape in (0..model.shapes()).filter(|shape| *shape != opened) {
        if model.set_shape(shape).is_ok() {
            twice(model, device);
        }
    }
    model.shapes() == 1 || model.set_shape(opened).inspect(|_| twice(model, device)).is_ok()
}

/// Runs two inferences. A forged pack can say of a port that it has integers.
pub fn twice<F: Feed>(model: &mut Model<'_, '_, F>, device: &dyn Device) {
    for round in 0..2 {
        for index in 0..model.inputs().len() {
            match model.input_mut(index) {
                Ok(floats) => floats.fill(0.5 + round as f32),
                Err(_) => model.input_words_mut(index).unwrap().fill(round),
            }
        }
        match model.infer(device) {
            Ok(()) => {}
            // A forged table has fewer entries.
            Err(InferError::Index { .. }) => {}
            // A forged pack can have its checksums inside what they are of.
            Err(InferError::Load(LoadError::Checksum { .. })) => {}
            Err(error) => panic!("{error}"),
        }
        for index in 0..model.outputs().len() {
            let sum = match model.output(index) {
                Ok(floats) => floats.iter().map(|&float| f64::from(float)).sum(),
                Err(_) => model
                    .output_words(index)
                    .unwrap()
                    .iter()
                    .map(|&word| f64::from(word))
                    .sum::<f64>(),
            };
            std::hint::black_box(sum);
        }
    }
}
