//! Networks that are swapped under a GPU's virtual memory: contents, addresses, accounts, errors.
//!
//! Without a GPU over the fake driver (`tools/fake-cuda.sh`). A process of its own, and one test at a time: what the
//! driver says of free memory is compared to the byte.
#![cfg(feature = "cuda")]
// Lists of writable ranges that have one.
#![allow(clippy::single_range_in_vec_init)]

use eyelet::device::DeviceError;
use eyelet::device::cuda::chunks::{
    Chunk, ChunkError, Chunks, FromStorage, NETWORKS, Needs, Network, Origin, Refill, Slot,
    chunks_of,
};
use eyelet::device::cuda::{Context, Driver, MemoryError, Stream};
use eyelet::storage::{Slice, StorageError};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const CHUNK: u64 = 2 << 20;

static DRIVER: OnceLock<Driver> = OnceLock::new();
static ALONE: Mutex<()> = Mutex::new(());

/// The process's driver, for one test.
fn alone() -> (MutexGuard<'static, ()>, &'static Driver) {
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let driver = DRIVER.get_or_init(|| Driver::load().unwrap_or_else(|error| panic!("{error}")));
    (guard, driver)
}

/// Small numbers that look random, the same ones every time.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 33) % bound as u64) as usize
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        // Every byte differs from its neighbours, chunks differ from each other.
        let (start, step) = (self.below(256), 2 * self.below(128) + 1);
        (0..count).map(|i| (start + i * step + (i >> 12) * 7) as u8).collect()
    }
}

/// What a network should hold.
struct Model {
    network: Network,
    address: u64,
    bytes: Vec<u8>,
    writable: Vec<bool>,
    origin: Origin,
    /// Chunks that are in, the one that goes out next first.
    inside: Vec<usize>,
    outside: Vec<usize>,
}

impl Model {
    fn part(&self, chunk: usize) -> std::ops::Range<usize> {
        let start = chunk * CHUNK as usize;
        start..(start + CHUNK as usize).min(self.bytes.len())
    }

    /// A network whose chunks with these numbers are writable, with its first contents where it has pinned copies.
    fn add<'a>(
        chunks: &mut Chunks<'a>,
        bytes: Vec<u8>,
        writable: &[std::ops::Range<u64>],
        origin: Origin,
        slots: &'a mut [Slot],
    ) -> Self {
        let needs = Needs { bytes: bytes.len() as u64, writable, origin };
        let network = chunks.add(&needs, slots).unwrap();
        let count = chunks_of(bytes.len() as u64, CHUNK).unwrap();
        let meets = |chunk: usize| {
            let (start, end) = (chunk as u64 * CHUNK, (chunk as u64 + 1) * CHUNK);
            writable.iter().any(|range| range.start < end && start < range.end)
        };
        let writable: Vec<bool> = (0..count).map(meets).collect();
        let address = chunks.address(network).unwrap();
        let model = Self {
            network,
            address,
            bytes,
            writable,
            origin,
            inside: Vec::new(),
            outside: (0..count).collect(),
        };
        for chunk in 0..count {
            let pinned = chunks.pinned_mut(network, chunk);
            assert_eq!(pinned.is_some(), model.writable[chunk] || origin == Origin::Pinned);
            if let Some(pinned) = pinned {
                assert!(pinned.iter().all(|byte| *byte == 0));
                pinned.copy_from_slice(&model.bytes[model.part(chunk)]);
            }
        }
        model
    }

    fn swap_in(&mut self, chunks: &mut Chunks<'_>, count: usize, stream: &Stream<'_>) {
        let (bytes, writable) = (&self.bytes, &self.writable);
        let mut refill = |offset: u64, into: &mut [u8]| {
            let start = offset as usize;
            assert!(!writable[start / CHUNK as usize], "writable chunks are not refilled");
            into.copy_from_slice(&bytes[start..start + into.len()]);
            Ok(())
        };
        let refill: Option<&mut dyn Refill> =
            (self.origin == Origin::Refilled).then_some(&mut refill);
        let swapped = chunks.swap_in(self.network, count, stream, refill).unwrap();
        let moved: Vec<usize> = self.outside.drain(..count).collect();
        let is_pinned = |chunk: &&usize| self.writable[**chunk] || self.origin == Origin::Pinned;
        let copied = moved.iter().filter(is_pinned).map(|chunk| self.part(*chunk).len() as u64);
        let refilled = moved.iter().filter(|chunk| !is_pinned(chunk));
        let refilled: u64 = refilled.map(|chunk| self.part(*chunk).len() as u64).sum();
        assert_eq!(swapped.copied_bytes, copied.sum::<u64>());
        assert_eq!((swapped.chunks, swapped.refilled_bytes), (count, refilled));
        self.inside.extend(moved);
    }

    fn swap_out(&mut self, chunks: &mut Chunks<'_>, count: usize, stream: &Stream<'_>) {
        let swapped = chunks.swap_out(self.network, count, stream).unwrap();
        let moved: Vec<usize> = self.inside.drain(..count).collect();
        // Weights are not copied out.
        let copied = moved.iter().filter(|chunk| self.writable[**chunk]);
        let copied: u64 = copied.map(|chunk| self.part(*chunk).len() as u64).sum();
        assert_eq!((swapped.chunks, swapped.copied_bytes), (count, copied));
        self.outside.extend(moved);
    }

    /// A kernel's writes, to a chunk that is in.
    fn write(&mut self, chunk: usize, stream: &Stream<'_>, random: &mut Random) {
        let part = self.part(chunk);
        let new = random.bytes(part.len());
        // SAFETY: the chunk is mapped, and the stream is waited for.
        unsafe {
            stream
                .copy_to_device(self.address + part.start as u64, new.as_ptr(), new.len())
                .unwrap();
        }
        stream.synchronize().unwrap();
        self.bytes[part].copy_from_slice(&new);
    }

    /// All that is in is right.
    fn check(&self, chunks: &Chunks<'_>, stream: &Stream<'_>) {
        assert_eq!(chunks.address(self.network), Some(self.address));
        assert_eq!(chunks.inside(self.network), Some(self.inside.len()));
        assert_eq!(chunks.outside(self.network), Some(self.outside.len()));
        for &chunk in &self.inside {
            let part = self.part(chunk);
            let mut found = vec![0u8; part.len()];
            // SAFETY: the chunk is mapped, and the stream is waited for.
            unsafe {
                let from = self.address + part.start as u64;
                stream.copy_to_host(found.as_mut_ptr(), from, found.len()).unwrap();
            }
            stream.synchronize().unwrap();
            assert!(found == self.bytes[part], "chunk {chunk}");
        }
    }
}

#[test]
fn random_swaps_of_three_networks_keep_every_byte() {
    let (_alone, driver) = alone();
    let context = Context::open(driver, 0).unwrap();
    let stream = context.stream().unwrap();
    let before = context.free_bytes().unwrap().0;
    for seed in 0..4 {
        if is_fake(&context) {
            // The order of streams' work.
            configure(&format!("seed={}", seed + 1));
        }
        let mut random = Random(seed);
        let total = 4 + random.below(4);
        let mut records = vec![Chunk::default(); total];
        let mut slots = vec![[Slot::default(); 8]; 3];
        let mut chunks = Chunks::new(&context, CHUNK, &mut records, 3 << 18).unwrap();
        let taken = total * CHUNK as usize;
        assert_eq!(context.free_bytes().unwrap().0, before - taken, "all memory is made at once");
        let half = CHUNK / 2;
        let sizes = [5 * CHUNK - half, 4 * CHUNK, 3 * CHUNK + 4096];
        // Half of one chunk and all of the next; the last chunk; nothing.
        let writable: [&[std::ops::Range<u64>]; 3] =
            [&[half..CHUNK + half, CHUNK + half..2 * CHUNK], &[4 * CHUNK - 1..4 * CHUNK], &[]];
        let origins = [Origin::Pinned, Origin::Refilled, Origin::Refilled];
        let mut models: Vec<Model> = Vec::new();
        for (index, slots) in slots.iter_mut().enumerate() {
            let bytes = random.bytes(sizes[index] as usize);
            models.push(Model::add(&mut chunks, bytes, writable[index], origins[index], slots));
        }
        let waste: Vec<_> = models.iter().map(|m| chunks.waste_bytes(m.network).unwrap()).collect();
        assert_eq!(waste, [half, 0, CHUNK - 4096]);
        for _ in 0..60 {
            let which = random.below(models.len());
            let model = &mut models[which];
            match random.below(3) {
                0 => {
                    let most = model.outside.len().min(chunks.free());
                    let count = random.below(most + 1);
                    model.swap_in(&mut chunks, count, &stream);
                }
                1 => {
                    let count = random.below(model.inside.len() + 1);
                    model.swap_out(&mut chunks, count, &stream);
                }
                _ => {
                    let writable = |chunk: &usize| model.writable[*chunk];
                    if let Some(chunk) = model.inside.iter().copied().find(writable) {
                        model.write(chunk, &stream, &mut random);
                    }
                }
            }
            model.check(&chunks, &stream);
            let inside: usize = models.iter().map(|model| model.inside.len()).sum();
            assert_eq!(chunks.free() + inside, total);
            assert_eq!(context.free_bytes().unwrap().0, before - taken, "swaps allocate nothing");
        }
        models.iter().for_each(|model| model.check(&chunks, &stream));
        drop(chunks);
        assert_eq!(context.free_bytes().unwrap().0, before, "all of it is given back");
    }
}

#[test]
fn weights_come_back_from_a_storage() {
    let (_alone, driver) = alone();
    let context = Context::open(driver, 0).unwrap();
    let stream = context.stream().unwrap();
    let (mut records, mut slots) = ([Chunk::default(); 2], [Slot::default(); 2]);
    let mut chunks = Chunks::new(&context, CHUNK, &mut records, 1 << 20).unwrap();
    let file = Random(9).bytes(4096 + CHUNK as usize + 8192);
    let mut storage = Slice(&file);
    let bytes = CHUNK + 8192;
    let needs = Needs { bytes, writable: &[], origin: Origin::Refilled };
    let network = chunks.add(&needs, &mut slots).unwrap();
    for offset in [4096, 0] {
        let mut refill = FromStorage { storage: &mut storage, offset };
        let swapped = chunks.swap_in(network, 2, &stream, Some(&mut refill)).unwrap();
        assert_eq!((swapped.copied_bytes, swapped.refilled_bytes), (0, bytes));
        let mut found = vec![0u8; bytes as usize];
        // SAFETY: all of it is mapped, and the stream is waited for.
        unsafe {
            let from = chunks.address(network).unwrap();
            stream.copy_to_host(found.as_mut_ptr(), from, found.len()).unwrap();
        }
        stream.synchronize().unwrap();
        assert!(found == file[offset as usize..][..bytes as usize]);
        assert_eq!(chunks.swap_out(network, 2, &stream).unwrap().copied_bytes, 0);
    }
    // Past its end: nothing is in, and nothing is lost.
    let mut refill = FromStorage { storage: &mut storage, offset: 8192 };
    let error = chunks.swap_in(network, 2, &stream, Some(&mut refill)).unwrap_err();
    assert!(matches!(error, ChunkError::Storage(StorageError::Short { .. })), "{error}");
    assert_eq!((chunks.inside(network), chunks.free()), (Some(0), 2));
    // Nor where the offset itself leads nowhere.
    let mut refill = FromStorage { storage: &mut storage, offset: u64::MAX };
    let error = chunks.swap_in(network, 2, &stream, Some(&mut refill)).unwrap_err();
    assert!(matches!(error, ChunkError::Storage(StorageError::Short { .. })), "{error}");
    let mut refill = FromStorage { storage: &mut storage, offset: 0 };
    assert_eq!(chunks.swap_in(network, 2, &stream, Some(&mut refill)).unwrap().chunks, 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (_alone, driver) = alone();
    let context = Context::open(driver, 0).unwrap();
    let stream = context.stream().unwrap();
    let refused = |chunk_bytes, count, staging| {
        let mut records = vec![Chunk::default(); count];
        Chunks::new(&context, chunk_bytes, &mut records, staging).err().unwrap()
    };
    for chunk_bytes in [0, 4096, CHUNK + 4096] {
        let error = refused(chunk_bytes, 1, 0);
        assert_eq!(error, ChunkError::Granularity { chunk_bytes, granularity: CHUNK });
        assert!(error.to_string().contains(&chunk_bytes.to_string()), "{error}");
    }
    assert_eq!(refused(CHUNK, 0, 0), ChunkError::Bookkeeping { given: 0, needed: 1 });
    assert_eq!(refused(CHUNK, 1, 8191), ChunkError::Staging { bytes: 8191, needed: 8192 });

    let before = context.free_bytes().unwrap().0;
    let mut records = [Chunk::default(); 3];
    let mut all_slots = vec![[Slot::default(); 3]; NETWORKS + 8];
    let mut all_slots = all_slots.iter_mut();
    let mut chunks = Chunks::new(&context, CHUNK, &mut records, 0).unwrap();
    let mut slots = || &mut all_slots.next().unwrap()[..];
    let (writable, origin) = (&[][..], Origin::Pinned);
    for bytes in [0, 100, u64::MAX - 4095] {
        let error = chunks.add(&Needs { bytes, writable, origin }, slots()).unwrap_err();
        assert_eq!(error, ChunkError::Bytes { bytes, page: 4096 });
    }
    let needs = Needs { bytes: 3 * CHUNK + 4096, writable, origin };
    let error = chunks.add(&needs, slots()).unwrap_err();
    assert_eq!(error, ChunkError::Bookkeeping { given: 3, needed: 4 });
    let (bytes, end) = (CHUNK, CHUNK + 1);
    let needs = Needs { bytes, writable: &[0..end], origin };
    assert_eq!(chunks.add(&needs, slots()), Err(ChunkError::Writable { end, bytes }));

    let needs = Needs { bytes: 2 * CHUNK, writable, origin };
    let first = chunks.add(&needs, slots()).unwrap();
    let second = chunks.add(&Needs { origin: Origin::Refilled, ..needs }, slots()).unwrap();
    let error = chunks.swap_in(first, 3, &stream, None).unwrap_err();
    assert_eq!(error, ChunkError::Asked { chunks: 3, there: 2 });
    let error = chunks.swap_out(first, 1, &stream).unwrap_err();
    assert_eq!(error, ChunkError::Asked { chunks: 1, there: 0 });
    assert_eq!(chunks.swap_in(first, 2, &stream, None).unwrap().chunks, 2);
    assert_eq!(chunks.swap_in(second, 1, &stream, None), Err(ChunkError::NoRefill));
    // Nor without staging memory for it.
    let mut zeros = |_, into: &mut [u8]| {
        into.fill(0);
        Ok(())
    };
    let error = chunks.swap_in(second, 1, &stream, Some(&mut zeros)).unwrap_err();
    assert_eq!(error, ChunkError::NoRefill);
    assert!(error.to_string().contains("storage"), "{error}");
    let third = chunks.add(&needs, slots()).unwrap();
    assert_eq!(
        chunks.swap_in(third, 2, &stream, None),
        Err(ChunkError::Full { chunks: 2, free: 1 })
    );
    assert_eq!(chunks.swap_in(third, 0, &stream, None).unwrap().chunks, 0);
    assert!(chunks.pinned_mut(first, 2).is_none() && chunks.pinned_mut(second, 0).is_none());

    for _ in 3..NETWORKS {
        chunks.add(&Needs { bytes: 4096, writable, origin }, slots()).unwrap();
    }
    let error = chunks.add(&needs, slots()).unwrap_err();
    assert_eq!(error, ChunkError::Networks { limit: NETWORKS });
    drop(chunks);
    assert_eq!(context.free_bytes().unwrap().0, before);

    // A network of another memory.
    let mut records = [Chunk::default(); 1];
    let mut chunks = Chunks::new(&context, CHUNK, &mut records, 0).unwrap();
    assert_eq!(chunks.swap_in(first, 1, &stream, None), Err(ChunkError::Unknown));
    assert_eq!(chunks.address(first), None);
}

/// Says what the fake driver is to do.
fn configure(text: &str) {
    let text = CString::new(text).unwrap();
    // SAFETY: names end with zero bytes; the fake driver's function of this name has this type, and the library, which the
    // driver's table has loaded, stays.
    let set = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let found = libc::dlsym(library, c"eyelet_fake_cuda".as_ptr());
        assert!(!found.is_null());
        let set: unsafe extern "C" fn(*const libc::c_char) -> i32 = std::mem::transmute(found);
        set(text.as_ptr())
    };
    assert_eq!(set, 0, "{text:?}");
}

/// Has the call of this function that comes after so many others return an error, once.
fn fail(call: &str, code: i32, after: i32) {
    configure(&format!("fail={call}:{code}:{}", after + 1));
}

/// Whether the driver can be told to fail.
fn is_fake(context: &Context<'_>) -> bool {
    context.attributes().name().starts_with("no GPU")
}

fn driver_error(result: Result<impl Sized, ChunkError>) -> (&'static str, i32) {
    match result.err() {
        Some(ChunkError::Driver(error)) => (error.call.trim_end_matches("_v2"), error.code),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_the_driver_refuses_leaves_everything_as_it_was() {
    let (_alone, driver) = alone();
    let context = Context::open(driver, 0).unwrap();
    if !is_fake(&context) {
        return println!("a GPU: its driver does not fail on request");
    }
    let stream = context.stream().unwrap();
    let before = context.free_bytes().unwrap().0;
    let mut records = [Chunk::default(); 5];
    fail("cuMemCreate", 999, 3);
    let refused = Chunks::new(&context, CHUNK, &mut records, 1 << 20).err();
    let error = DeviceError { call: "cuMemCreate", code: 999 };
    assert_eq!(refused, Some(ChunkError::Memory(MemoryError::Call(error))));
    assert_eq!(context.free_bytes().unwrap().0, before, "what was made is released");

    let mut slots = [[Slot::default(); 4]; 3];
    let [first, second, third] = &mut slots;
    let mut chunks = Chunks::new(&context, CHUNK, &mut records, 1 << 20).unwrap();
    fail("cuMemAddressReserve", 2, 0);
    let needs = Needs { bytes: 4 * CHUNK, writable: &[], origin: Origin::Pinned };
    assert_eq!(driver_error(chunks.add(&needs, third)), ("cuMemAddressReserve", 2));

    let mut random = Random(5);
    let (bytes, more) = (random.bytes(4 * CHUNK as usize), random.bytes(3 * CHUNK as usize));
    let writable = [0..2 * CHUNK];
    let mut model = Model::add(&mut chunks, bytes, &writable, Origin::Refilled, first);
    let mut other = Model::add(&mut chunks, more, &[], Origin::Pinned, second);
    // The run that comes in and goes out reaches around the range's end.
    model.swap_in(&mut chunks, 4, &stream);
    model.swap_out(&mut chunks, 2, &stream);
    model.swap_in(&mut chunks, 2, &stream);
    for number in 0..2 {
        model.write(number, &stream, &mut random);
    }
    model.swap_out(&mut chunks, 2, &stream);
    model.swap_out(&mut chunks, 2, &stream);
    model.swap_in(&mut chunks, 1, &stream);
    other.swap_in(&mut chunks, 1, &stream);
    let network = model.network;
    let state = |chunks: &Chunks<'_>| (chunks.inside(network), chunks.free());
    let as_before = state(&chunks);
    let calls = [
        ("cuMemMap", [0, 2]),
        ("cuMemSetAccess", [0, 1]),
        // A chunk that is refilled comes in four pieces, then come two with pinned copies.
        ("cuMemcpyHtoDAsync", [3, 4]),
        ("cuEventRecord", [0, 2]),
        ("cuStreamSynchronize", [0, 0]),
    ];
    for (call, after) in calls.iter().flat_map(|(call, after)| after.map(|after| (*call, after))) {
        fail(call, 2, after);
        let mut nothing = |_, _: &mut [u8]| Ok(());
        let result = chunks.swap_in(model.network, 3, &stream, Some(&mut nothing));
        assert_eq!(driver_error(result).0, call);
        assert_eq!(state(&chunks), as_before, "{call}");
    }
    model.swap_in(&mut chunks, 3, &stream);
    model.check(&chunks, &stream);
    other.check(&chunks, &stream);

    // What cannot be copied out stays in.
    let as_before = state(&chunks);
    for (call, after) in [("cuMemcpyDtoHAsync", 0), ("cuStreamSynchronize", 0)] {
        fail(call, 2, after);
        let result = chunks.swap_out(model.network, 4, &stream);
        assert_eq!(driver_error(result).0, call);
        assert_eq!(state(&chunks), as_before, "{call}");
    }
    model.check(&chunks, &stream);

    // Unmapping fails: nobody knows what is mapped, and this network says so from then on. The other goes on.
    fail("cuMemUnmap", 999, 0);
    assert_eq!(driver_error(chunks.swap_out(model.network, 2, &stream)), ("cuMemUnmap", 999));
    assert_eq!(chunks.swap_out(model.network, 2, &stream), Err(ChunkError::Broken));
    let mut nothing = |_, _: &mut [u8]| Ok(());
    let result = chunks.swap_in(model.network, 0, &stream, Some(&mut nothing));
    assert_eq!(result, Err(ChunkError::Broken));
    assert!(chunks.pinned_mut(model.network, 0).is_none());
    other.swap_out(&mut chunks, 1, &stream);
    other.swap_in(&mut chunks, 1, &stream);
    other.check(&chunks, &stream);
    drop(chunks);
    assert_eq!(context.free_bytes().unwrap().0, before, "all of it is given back");
}

#[test]
fn after_an_error_that_stays_another_context_swaps() {
    let (_alone, driver) = alone();
    for sticky in [true, false] {
        let context = Context::open(driver, 0).unwrap();
        if !is_fake(&context) {
            return println!("a GPU: its driver does not fail on request");
        }
        let stream = context.stream().unwrap();
        let (mut records, mut slots) = ([Chunk::default(); 2], [Slot::default(); 2]);
        let mut chunks = Chunks::new(&context, CHUNK, &mut records, 0).unwrap();
        let bytes = Random(1).bytes(2 * CHUNK as usize);
        let all = [0..2 * CHUNK];
        let mut model = Model::add(&mut chunks, bytes, &all, Origin::Pinned, &mut slots);
        model.swap_in(&mut chunks, 2, &stream);
        if sticky {
            fail("cuMemcpyDtoHAsync", 719, 0);
            let error = chunks.swap_out(model.network, 1, &stream).unwrap_err();
            assert!(error.to_string().contains("719"), "{error}");
            assert_eq!(chunks.swap_out(model.network, 1, &stream), Err(ChunkError::Broken));
        } else {
            model.check(&chunks, &stream);
            model.swap_out(&mut chunks, 2, &stream);
        }
    }
}

#[test]
fn a_gpu_has_less_memory_than_chunks_want() {
    let (_alone, driver) = alone();
    let context = Context::open(driver, 0).unwrap();
    let (free, total) = context.free_bytes().unwrap();
    // A third of it and a little more, three times; on the fake, whose memory is the host's, more than all at once.
    let count = if is_fake(&context) { 1 } else { 3 };
    let chunk_bytes = (free as u64 / count).next_multiple_of(CHUNK) + CHUNK;
    let mut records = vec![Chunk::default(); count as usize];
    let error = Chunks::new(&context, chunk_bytes, &mut records, 0).err().unwrap();
    let wanted = (chunk_bytes * count) as usize;
    assert_eq!(error, ChunkError::Memory(MemoryError::Exhausted { wanted, free, total }));
    let text = error.to_string();
    assert!(text.contains(&wanted.to_string()) && text.contains(&free.to_string()), "{text}");
    assert_eq!(context.free_bytes().unwrap().0, free);
}

#[test]
fn chunks_of_a_range() {
    assert_eq!(chunks_of(4096, CHUNK), Some(1));
    assert_eq!(chunks_of(CHUNK, CHUNK), Some(1));
    assert_eq!(chunks_of(CHUNK + 4096, CHUNK), Some(2));
    for (bytes, chunk) in [(0, CHUNK), (4095, CHUNK), (4096, 0), (1 << 60, 4096)] {
        assert_eq!(chunks_of(bytes, chunk), None);
    }
}
