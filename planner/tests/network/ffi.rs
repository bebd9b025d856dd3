//! The C interface, called as C calls it: the same bits as by the library's own interface, from every kind of source, and
//! errors that say what is wrong. That C agrees with it on the records is for `tools/c.sh` to see.

use crate::common::board::board;
use crate::common::command::packed;
use crate::common::transformer::transformer_of;
use crate::common::{Subject, digits, pack_shapes};
use crate::fast::{outputs, pack as pack_with_fast, with_fast};
use eyelet::arena::ArenaMemory;
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::ffi::{self, *};
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::{Header, PAGE, PLANS, PlanEntry};
use eyelet::storage::Slice;
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr::{null, null_mut};

/// A budget for each of the pack's two plans.
const BUDGETS: [u64; 2] = [96 << 10, 1 << 20];

/// Memory for an arena.
struct Memory(*mut c_void, u64);

impl Memory {
    fn new(bytes: u64) -> Self {
        let start = unsafe { eyelet_map(bytes, null_mut()) };
        assert!(!start.is_null());
        Self(start, bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        unsafe { eyelet_unmap(self.0, self.1) };
    }
}

fn no_error() -> ffi::Error {
    ffi::Error { status: 0, text: [0; 252] }
}

fn text(error: &ffi::Error) -> &str {
    unsafe { CStr::from_ptr(error.text.as_ptr()) }.to_str().unwrap()
}

fn source(kind: Kind) -> Source {
    Source {
        kind: kind as u32,
        alignment: 0,
        path: null(),
        memory: null(),
        bytes: 0,
        read: None,
        context: null_mut(),
        start: None,
        poll: None,
        finish: None,
        reads: 0,
        reserved: 0,
    }
}

fn in_memory(pack: &[u8]) -> Source {
    Source { memory: pack.as_ptr().cast(), bytes: pack.len() as u64, ..source(Kind::Memory) }
}

/// Reads from a vector; fails at all that starts at a page or behind while it is told to.
struct Reader {
    pack: Vec<u8>,
    broken: bool,
}

unsafe extern "C" fn read(
    context: *mut c_void,
    offset: u64,
    into: *mut c_void,
    bytes: usize,
) -> i32 {
    let reader = unsafe { &*context.cast::<Reader>() };
    if reader.broken {
        return 77;
    }
    let from = &reader.pack[offset as usize..][..bytes];
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.cast(), bytes) };
    0
}

fn input() -> [f32; 64] {
    std::array::from_fn(|i| (i * 7 % 17) as f32 / 4.0)
}

/// What the library's own interface computes with a budget.
fn expected(pack: &[u8], budget: u64) -> Vec<u32> {
    let mut arena = eyelet::arena::MappedArena::new(1 << 20).unwrap();
    let mut memory: ArenaMemory<'_> = arena.memory();
    let mut storage = Slice(pack);
    let options = Options { budget, ..Options::default() };
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    model.input_mut(0).unwrap().copy_from_slice(&input());
    model.infer(&Inline).unwrap();
    model.output(0).unwrap().iter().map(|x| x.to_bits()).collect()
}

unsafe fn infer(model: *mut ffi::Model) -> Vec<u32> {
    let (mut count, mut error) = (0, no_error());
    unsafe {
        let floats = eyelet_input(model, 0, &mut count);
        std::slice::from_raw_parts_mut(floats, count as usize).copy_from_slice(&input());
        assert_eq!(eyelet_infer(model, &mut error), 0, "{}", text(&error));
        let floats = eyelet_output(model, 0, &mut count);
        std::slice::from_raw_parts(floats, count as usize).iter().map(|x| x.to_bits()).collect()
    }
}

fn options(budget: u64, threads: u32, load_inline: bool) -> ffi::Options {
    let load_inline = load_inline.into();
    ffi::Options {
        budget,
        threads,
        load_inline,
        no_verify: 0,
        depth: 0,
        cores: null(),
        step_work: 0,
        shape: 0,
        fast: null_mut(),
        fast_bytes: 0,
    }
}

/// A source, opened for a budget.
fn open(source: &Source, memory: &Memory, options: &ffi::Options) -> *mut ffi::Model {
    let (mut model, mut error) = (null_mut(), no_error());
    let status =
        unsafe { eyelet_open(&mut model, source, memory.0, memory.1, options, &mut error) };
    assert_eq!(status, 0, "{}", text(&error));
    model
}

#[test]
fn every_source_loader_and_budget_gives_the_same_bits() {
    let folder = packed();
    let path = folder.path().join("digits.pack");
    let pack = std::fs::read(&path).unwrap();
    let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut reader = Reader { pack: pack.clone(), broken: false };
    let callback = Source {
        bytes: pack.len() as u64,
        alignment: 512,
        read: Some(read),
        context: (&raw mut reader).cast(),
        ..source(Kind::Callback)
    };
    let file = |kind| Source { path: c_path.as_ptr(), ..source(kind) };
    let sources =
        [in_memory(&pack), callback, file(Kind::Buffered), file(Kind::Mapped), file(Kind::Direct)];
    for source in &sources {
        for budget in BUDGETS {
            let mut error = no_error();
            let bytes = unsafe { eyelet_arena_bytes(source, budget, 0, &mut error) };
            if source.kind == Kind::Direct as u32 && text(&error).contains("without direct I/O") {
                continue;
            }
            assert!(bytes > 0 && bytes <= budget + 8192, "{bytes} {}", text(&error));
            let expected = expected(&pack, budget);
            for (threads, inline) in [(0, false), (1, true), (2, false), (2, true)] {
                let memory = Memory::new(bytes);
                let model = open(source, &memory, &options(budget, threads, inline));
                unsafe {
                    for _ in 0..3 {
                        assert_eq!(
                            infer(model),
                            expected,
                            "{source:?} {budget} {threads} {inline}"
                        );
                    }
                    eyelet_close(model);
                }
            }
            // All of it is needed.
            let memory = Memory::new(bytes - 4096);
            let (mut model, options) = (null_mut(), options(budget, 1, true));
            let status = unsafe {
                eyelet_open(&mut model, source, memory.0, memory.1, &options, &mut error)
            };
            if budget == BUDGETS[0] {
                assert_eq!((status, model), (Status::Arena as i32, null_mut()), "{}", text(&error));
            }
        }
    }
}

#[test]
fn steps_budgets_and_what_is_told_of_a_model() {
    let folder = packed();
    let pack = std::fs::read(folder.path().join("digits.pack")).unwrap();
    let source = in_memory(&pack);
    for inline in [false, true] {
        let memory = Memory::new(unsafe { eyelet_arena_bytes(&source, 0, 1, null_mut()) });
        let model = open(&source, &memory, &options(0, 1, inline));
        let mut error = no_error();
        unsafe {
            assert_eq!((eyelet_inputs(model), eyelet_outputs(model)), (1, 1));
            let mut tensor = std::mem::zeroed::<TensorInfo>();
            assert_eq!(eyelet_input_info(model, 0, &mut tensor, &mut error), 0);
            assert_eq!((tensor.elements, tensor.rank, tensor.shape[3]), (64, 4, 8));
            assert_eq!(eyelet_output_info(model, 0, &mut tensor, null_mut()), 0);
            assert_eq!(tensor.elements, 10);
            assert!(tensor.name_bytes > 0);
            assert_eq!(
                eyelet_output_info(model, 1, &mut tensor, &mut error),
                Status::Argument as i32
            );
            assert!(text(&error).contains("no input or output"));
            assert!((tensor.name.is_null(), tensor.elements, tensor.rank) == (true, 0, 0));

            let mut plan = std::mem::zeroed::<PlanInfo>();
            eyelet_plan(model, &mut plan);
            assert_eq!((plan.budget_bytes, plan.read_bytes, plan.threads), (BUDGETS[1], 0, 1));
            assert!(plan.resident_bytes > 0 && plan.arena_bytes < memory.1);
            assert_eq!(infer(model), expected(&pack, BUDGETS[1]));
            let mut times = Times { compute_ns: 0, stall_ns: 0 };
            eyelet_times(model, &mut times);
            assert!(times.compute_ns > 0);

            // In steps, of which there are as many as the plan has.
            eyelet_input(model, 0, null_mut()).copy_from(input().as_ptr(), 64);
            for _ in 1..plan.steps {
                assert_eq!(eyelet_step(model, &mut error), Status::Running as i32);
            }
            let mut count = 1;
            assert!(eyelet_output(model, 0, &mut count).is_null() && count == 0);
            let status = eyelet_set_budget(model, BUDGETS[0], null_mut(), &mut error);
            assert_eq!(status, Status::State as i32, "{}", text(&error));
            assert_eq!(eyelet_step(model, &mut error), 0);
            let floats = eyelet_output(model, 0, &mut count);
            let floats = std::slice::from_raw_parts(floats, count as usize);
            assert!(floats.iter().map(|x| x.to_bits()).eq(expected(&pack, BUDGETS[1])));

            // Another budget, what it leaves, and back.
            let mut took = std::mem::zeroed::<Switch>();
            assert_eq!(eyelet_set_budget(model, BUDGETS[0], &mut took, &mut error), 0);
            eyelet_plan(model, &mut plan);
            assert!(plan.budget_bytes == BUDGETS[0] && plan.read_bytes > 0);
            let mut bytes = 0;
            let unused = eyelet_unused(model, &mut bytes);
            assert!(bytes > 0 && !unused.is_null());
            unused.cast::<u8>().write_bytes(0xff, bytes as usize);
            assert_eq!(infer(model), expected(&pack, BUDGETS[0]));
            assert_ne!(took.total_ns, 0);
            let status = eyelet_set_budget(model, 4096, &mut took, &mut error);
            assert_eq!((status, error.status), (Status::Arena as i32, Status::Arena as i32));
            assert_eq!([took.kept_bytes, took.read_bytes, took.total_ns], [0; 3]);
            assert!(text(&error).contains("4096 bytes asked for"), "{}", text(&error));
            // No limit, all of the arena with the record's part of it or without, and one byte more than there is.
            for bytes in [0, memory.1, memory.1 - 1, memory.1 - 4096] {
                assert_eq!(eyelet_set_budget(model, BUDGETS[0], null_mut(), &mut error), 0);
                assert_eq!(eyelet_set_budget(model, bytes, &mut took, &mut error), 0);
                eyelet_plan(model, &mut plan);
                assert_eq!(plan.budget_bytes, BUDGETS[1]);
                assert_eq!(infer(model), expected(&pack, BUDGETS[1]));
            }
            let status = eyelet_set_budget(model, memory.1 + 1, null_mut(), &mut error);
            assert_eq!(status, Status::Arena as i32);
            eyelet_close(model);
        }
    }
}

#[test]
fn shapes_are_chosen_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    let graphs = [("seq=3", transformer_of(3)), ("seq=8", transformer_of(8))];
    pack_shapes(&path, &graphs, &board(), &[1 << 18], 2);
    let pack = std::fs::read(&path).unwrap();
    let source = in_memory(&pack);
    let mut error = no_error();
    let memory = Memory::new(unsafe { eyelet_arena_bytes(&source, 0, 1, &mut error) });
    let tokens = |model| unsafe {
        let mut info = std::mem::zeroed::<TensorInfo>();
        assert_eq!(eyelet_input_info(model, 0, &mut info, null_mut()), 0);
        let name = std::slice::from_raw_parts(info.name.cast::<u8>(), info.name_bytes as usize);
        assert_eq!(name, graphs[0].1.values[graphs[0].1.inputs[0]].name.as_bytes());
        info.elements
    };
    let infer = |model| unsafe {
        let mut count = 0;
        let words = eyelet_input_words(model, 0, &mut count);
        (0..count as usize).for_each(|at| words.add(at).write(at as i32 % 5));
        assert_eq!(eyelet_infer(model, null_mut()), 0);
        let floats = eyelet_output(model, 0, &mut count);
        std::slice::from_raw_parts(floats, count as usize).to_vec()
    };
    for load_inline in [false, true] {
        unsafe {
            let open = |shape| {
                let mut model = null_mut();
                let options = ffi::Options { shape, ..options(0, 1, load_inline) };
                let status =
                    eyelet_open(&mut model, &source, memory.0, memory.1, &options, null_mut());
                (status, model)
            };
            assert_eq!(open(2).0, Status::Argument as i32);
            let (_, model) = open(1);
            assert_eq!((eyelet_shapes(model), eyelet_shape(model), tokens(model)), (2, 1, 8));
            let long = infer(model);
            let mut took = std::mem::zeroed::<Switch>();
            assert_eq!(eyelet_set_shape(model, 0, &mut took, &mut error), 0);
            assert_eq!((eyelet_shape(model), tokens(model)), (0, 3));
            assert!(took.kept_bytes + took.moved_bytes > 0);
            let short = infer(model);
            assert_eq!(short.len() * 8, long.len() * 3);
            let status = eyelet_set_shape(model, 2, &mut took, &mut error);
            assert_eq!((status, took.total_ns), (Status::Argument as i32, 0));
            assert!(text(&error).contains("the pack has 2"), "{}", text(&error));
            assert_eq!(eyelet_set_shape(model, 1, null_mut(), null_mut()), 0);
            assert_eq!(infer(model), long);
            eyelet_close(model);
        }
    }
    unsafe {
        assert_eq!((eyelet_shapes(null_mut()), eyelet_shape(null_mut())), (0, 0));
        let status = eyelet_set_shape(null_mut(), 0, null_mut(), null_mut());
        assert_eq!(status, Status::Argument as i32);
    }
}

/// Plans of a pack that says of them that they need so many bytes.
fn needing(pack: &[u8], arena_bytes: u64) -> Vec<u8> {
    let mut crafted = pack.to_vec();
    let plans = bytemuck::pod_read_unaligned::<Header>(&pack[..size_of::<Header>()]).plans;
    for plan in 0..plans as usize {
        let entry = PLANS + plan * size_of::<PlanEntry>();
        let at = entry + std::mem::offset_of!(PlanEntry, arena_bytes);
        crafted[at..at + 8].copy_from_slice(&arena_bytes.to_ne_bytes());
    }
    let field = std::mem::offset_of!(Header, crc);
    crafted[field..field + 4].fill(0);
    let crc = crc32c(0, &crafted[..PAGE as usize]);
    crafted[field..field + 4].copy_from_slice(&crc.to_ne_bytes());
    crafted
}

#[test]
fn no_memory_is_enough_for_some_plans() {
    let folder = packed();
    let pack = std::fs::read(folder.path().join("digits.pack")).unwrap();
    let mut error = no_error();
    let mut bytes_for = |arena_bytes| unsafe {
        eyelet_arena_bytes(&in_memory(&needing(&pack, arena_bytes)), 0, 1, &mut error)
    };
    let last = u64::MAX - 4095;
    assert_eq!(bytes_for(last - 4096), last);
    assert_eq!((bytes_for(u64::MAX), bytes_for(last)), (0, 0));
    assert_eq!(error.status, Status::Arena as i32);
    assert!(text(&error).contains(&last.to_string()), "{}", text(&error));
}

#[test]
fn storage_that_fails_and_heals() {
    let folder = packed();
    let pack = std::fs::read(folder.path().join("digits.pack")).unwrap();
    let mut reader = Reader { pack: pack.clone(), broken: false };
    let context = &raw mut reader;
    let bytes = pack.len() as u64;
    let source =
        Source { bytes, read: Some(read), context: context.cast(), ..source(Kind::Callback) };
    let memory = Memory::new(unsafe { eyelet_arena_bytes(&source, BUDGETS[0], 1, null_mut()) });
    // Loading inline, so that nothing is read while the reader is changed.
    let model = open(&source, &memory, &options(BUDGETS[0], 1, true));
    let mut error = no_error();
    unsafe {
        assert_eq!(infer(model), expected(&pack, BUDGETS[0]));
        (*context).broken = true;
        let mut failed = 0;
        for _ in 0..3 {
            failed = failed.min(eyelet_infer(model, &mut error));
        }
        assert_eq!(failed, Status::Storage as i32);
        assert!(text(&error).contains("system error 77"), "{}", text(&error));
        (*context).broken = false;
        assert_eq!(infer(model), expected(&pack, BUDGETS[0]));
        eyelet_close(model);
    }
}

/// Of a board with fast memory next to the arena: scratch and buffers are there.
#[test]
fn fast_memory_is_a_slice_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::for_board(&digits(), with_fast(8 << 10));
    let (chosen, pack) = pack_with_fast(&subject, folder.path(), &[64 << 10]);
    let source = in_memory(&pack);
    let needed = chosen.made[0].plan.fast_bytes;
    let mut error = no_error();
    let found = unsafe { eyelet_fast_bytes(&source, 0, 0, &mut error) };
    assert_eq!(found as u64, needed, "{}", text(&error));
    let bytes = unsafe { eyelet_arena_bytes(&source, 0, 0, &mut error) };
    let (memory, fast) = (Memory::new(bytes), Memory::new(needed));
    let with =
        |fast: *mut c_void, fast_bytes| ffi::Options { fast, fast_bytes, ..options(0, 1, true) };
    let model = open(&source, &memory, &with(fast.0, needed));
    let found = unsafe { infer(model) };
    unsafe { eyelet_close(model) };
    let wanted = outputs(&pack, chosen.made[0].plan.arena_bytes, needed, &input());
    assert!(found.iter().copied().eq(wanted.iter().map(|x| x.to_bits())));
    let odd = fast.0.wrapping_byte_add(4);
    for (options, status, says) in [
        (with(null_mut(), needed), Status::Argument, "its address is missing"),
        (with(fast.0, u64::MAX), Status::Argument, "larger than memory can be"),
        (with(odd, needed - 64), Status::Arena, "fast memory"),
        (with(null_mut(), 0), Status::Arena, "bytes of fast memory"),
    ] {
        let mut model = null_mut();
        let found =
            unsafe { eyelet_open(&mut model, &source, memory.0, memory.1, &options, &mut error) };
        assert_eq!((found, model.is_null()), (status as i32, true), "{}", text(&error));
        assert!(text(&error).contains(says), "{}", text(&error));
    }
}

#[test]
fn mistakes_are_errors() {
    let folder = packed();
    let pack = std::fs::read(folder.path().join("digits.pack")).unwrap();
    let good = in_memory(&pack);
    let memory = Memory::new(2 << 20);
    let (mut model, mut error) = (null_mut(), no_error());
    let mut fails = |source: *const Source,
                     arena: *mut c_void,
                     options: *const ffi::Options,
                     status: Status,
                     says: &str| unsafe {
        model = std::ptr::dangling_mut();
        let found = eyelet_open(&mut model, source, arena, memory.1, options, &mut error);
        assert!(model.is_null());
        assert_eq!((found, error.status), (status as i32, found), "{}", text(&error));
        assert!(text(&error).contains(says), "{}", text(&error));
        // Without a record for it, too.
        assert_eq!(eyelet_open(&mut model, source, arena, memory.1, options, null_mut()), found);
    };
    let defaults = options(0, 0, false);
    let pages = memory.0;
    fails(null(), pages, null(), Status::Argument, "source is missing");
    fails(&good, null_mut(), null(), Status::Argument, "arena is missing");
    let odd = pages.wrapping_byte_add(64);
    fails(&good, odd, null(), Status::Arena, "not a multiple of 4096");
    for (broken, status, says) in [
        (Source { kind: 9, ..good }, Status::Argument, "kind"),
        (Source { memory: null(), ..good }, Status::Argument, "memory is missing"),
        (source(Kind::Callback), Status::Argument, "read function is missing"),
        (
            Source { read: Some(read), alignment: 3, ..source(Kind::Callback) },
            Status::Argument,
            "power of two",
        ),
        (source(Kind::Direct), Status::Argument, "path is missing"),
        (
            Source { path: c"/does/not/exist".as_ptr(), ..source(Kind::Buffered) },
            Status::Storage,
            "cannot open",
        ),
        (Source { bytes: good.bytes - 4096, ..good }, Status::Pack, "truncated"),
        (Source { bytes: 100, ..good }, Status::Pack, "100 bytes"),
    ] {
        fails(&broken, pages, &defaults, status, says);
        assert_eq!(unsafe { eyelet_arena_bytes(&broken, 0, 0, null_mut()) }, 0);
    }
    let mut damaged = pack.clone();
    damaged[5] ^= 1;
    fails(&in_memory(&damaged), pages, &defaults, Status::Pack, "not a pack");
    fails(&good, pages, &options(0, 9, false), Status::Threads, "9 threads asked for");
    fails(&good, pages, &options(8192, 0, false), Status::Arena, "8192 bytes");
    let cores = [0, 1_000_000];
    let mut pinned = options(0, 2, false);
    pinned.cores = cores.as_ptr();
    fails(&good, pages, &pinned, Status::Threads, "core 1000000");
    pinned.threads = 0;
    fails(&good, pages, &pinned, Status::Argument, "say how many");
    unsafe {
        assert_eq!(eyelet_open(null_mut(), &good, pages, memory.1, null(), null_mut()), -1);
        assert_eq!(eyelet_infer(null_mut(), null_mut()), Status::Argument as i32);
        assert_eq!(eyelet_step(null_mut(), null_mut()), Status::Argument as i32);
        assert_eq!(eyelet_inputs(null_mut()), 0);
        assert!(eyelet_input(null_mut(), 0, null_mut()).is_null());
        assert!(eyelet_unused(null_mut(), null_mut()).is_null());
        let mut plan = PlanInfo { budget_bytes: 1, threads: 1, ..PlanInfo::default() };
        eyelet_plan(null_mut(), &mut plan);
        assert_eq!((plan.budget_bytes, plan.threads), (0, 0));
        let mut times = Times { compute_ns: 1, stall_ns: 1 };
        eyelet_times(null_mut(), &mut times);
        assert_eq!((times.compute_ns, times.stall_ns), (0, 0));
        eyelet_close(null_mut());
        eyelet_unmap(null_mut(), 4096);
        assert!(eyelet_map(0, null_mut()).is_null());
    }
    // After all of that the same memory serves.
    let model = open(&good, &memory, &defaults);
    unsafe {
        assert_eq!(infer(model), expected(&pack, u64::MAX));
        eyelet_close(model);
    }
}

#[test]
fn of_a_file_it_is_known_what_the_page_cache_holds() {
    let folder = packed();
    let file = folder.path().join("digits.pack");
    let path = CString::new(file.as_os_str().as_bytes()).unwrap();
    let at = |kind| Source { path: path.as_ptr(), ..source(kind) };
    let bytes = std::fs::read(&file).unwrap();
    let mut error = no_error();
    for kind in [Kind::Buffered, Kind::Mapped] {
        let cached = unsafe { eyelet_page_cache(&at(kind), &mut error) };
        assert!(cached >= bytes.len() as i64, "{cached}");
    }
    // What has been read by others is dropped, unless the file lies in memory.
    let found = unsafe { eyelet_page_cache(&at(Kind::Direct), &mut error) };
    match found {
        -1 => assert_eq!(error.status, Status::Storage as i32, "{}", text(&error)),
        found => {
            assert!(found >= bytes.len() as i64, "{found}");
            assert_eq!(unsafe { eyelet_page_cache(&at(Kind::Direct), &mut error) }, 0);
        }
    }
    assert_eq!(unsafe { eyelet_page_cache(&in_memory(&bytes), &mut error) }, -1);
    assert_eq!(error.status, Status::Argument as i32);
}
