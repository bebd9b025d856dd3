//! One pack, several budgets, one process: whatever was run before, a model computes with a budget what it
//! computes when it is opened with that budget.

mod common;

use common::board::board;
use common::forge::{entries, seal};
use common::net::Net;
use common::{Aligned, Subject, bits, digits, run_inline, sweeps, write_input, zoo_model};
use eyelet::arena::MappedArena;
use eyelet::device::Inline;
use eyelet::executor::{
    BudgetError, Feed, InferError, Instance, LoadError, Model, OpenError, Options, PlanError,
    Switch,
};
use eyelet::kernels::Isa;
use eyelet::pack::crc32c::crc32c;
use eyelet::pack::stored::PlaceRecord;
use eyelet::pack::{Load, PAGE, PlanHeader};
use eyelet::storage::faulty::Fault;
use eyelet::storage::{Faulty, Slice, Storage, StorageError};
use eyelet_planner::board::Board;
use eyelet_planner::graph::{Graph, Op};
use eyelet_planner::plan::Plan;
use eyelet_planner::published::JOINT;
use eyelet_planner::search::choose;
use eyelet_planner::search::{Effort, PackRequest};
use eyelet_planner::source::Io;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::Cell;
use std::collections::HashSet;
use std::mem::offset_of;
use std::path::Path;

/// A pack with plans for several budgets, and what opening it with each of them computes.
struct Case {
    pack: Vec<u8>,
    inputs: Vec<Vec<f32>>,
    /// Bytes of arena, and outputs.
    plans: Vec<(u64, Vec<Vec<u32>>)>,
}

impl Case {
    fn new(subject: &Subject, budgets: &[u64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("net.pack");
        subject.pack_together(&path, budgets, 1);
        let pack = std::fs::read(&path).unwrap();
        let inputs = subject.inputs(3);
        let mut plans: Vec<_> = entries(&pack)
            .iter()
            .map(|(_, entry)| {
                let need = entry.arena_bytes;
                (need, bits(&run_inline(&pack, need, &inputs, &Inline, 1)))
            })
            .collect();
        plans.sort_by_key(|(need, _)| *need);
        Self { pack, inputs, plans }
    }

    /// Up to five budgets, from the smallest to all weights resident.
    fn of(subject: &Subject) -> Self {
        let smallest = subject.smallest(1);
        let weights = subject.weights_bytes;
        let more = [0, weights / 8, weights / 4, weights / 2, weights + (64 << 10)];
        let mut case = Self::new(subject, &more.map(|more| smallest + more));
        // Where computing decides, a larger budget can have the plan of a smaller one.
        case.plans.dedup_by_key(|plan| plan.0);
        assert!(case.plans.len() > 2, "three different plans");
        case
    }

    /// The most bytes that any two plans keep, wherever they lie.
    fn most_in_both(&self) -> u64 {
        let residents = |(need, _): &(u64, Vec<Vec<u32>>)| -> HashSet<u64> {
            let mut arena = Aligned::new(*need);
            let mut storage = Slice(&self.pack);
            let opened = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
            opened.plan().resident.iter().flat_map(pages).map(|page| page.0).collect()
        };
        let all: Vec<HashSet<u64>> = self.plans.iter().map(residents).collect();
        let pairs = (1..all.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let both = pairs.map(|(a, b)| all[a].intersection(&all[b]).count() as u64 * PAGE);
        both.max().unwrap_or(0)
    }

    fn largest(&self) -> u64 {
        self.plans.last().unwrap().0
    }

    fn infer<F: Feed>(&self, model: &mut Model<'_, '_, F>) -> Result<Vec<Vec<u32>>, InferError> {
        for (index, input) in self.inputs.iter().enumerate() {
            write_input(model, index, input);
        }
        model.infer(&Inline)?;
        let count = model.outputs().len();
        let outputs: Vec<Vec<f32>> =
            (0..count).map(|index| model.output(index).unwrap().to_vec()).collect();
        Ok(bits(&outputs))
    }

    /// Changes to a plan and back and forth; inferences between some of the changes.
    fn walk<F: Feed>(&self, model: &mut Model<'_, '_, F>, seed: u64) -> Switch {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut all = Switch::default();
        for _ in 0..40 {
            let (need, outputs) = &self.plans[rng.random_range(0..self.plans.len())];
            let switch = model.set_budget(*need).unwrap();
            assert_eq!(model.entry().arena_bytes, *need);
            let resident = || model.plan().resident.iter().map(|load| u64::from(load.bytes));
            if switch.table_bytes > 0 {
                assert!(
                    switch.kept_bytes + switch.moved_bytes + switch.read_bytes >= resident().sum()
                );
            }
            all.kept_bytes += switch.kept_bytes;
            all.moved_bytes += switch.moved_bytes;
            all.read_bytes += switch.read_bytes;
            // The owner does with its memory what it likes.
            let unused = model.unused();
            assert_eq!(unused.len() as u64, self.largest() - need);
            unused.fill(0xa5);
            for _ in 0..rng.random_range(0..3) {
                assert!(self.infer(model).unwrap() == *outputs, "budget {need}");
            }
            assert!(model.unused().iter().all(|byte| *byte == 0xa5));
        }
        all
    }
}

#[test]
fn any_sequence_of_budgets_computes_what_each_of_them_does() {
    let folder = tempfile::tempdir().unwrap();
    let mut names = vec!["squeezenet1_1", "resnet18", "mobilenet_v2"];
    if board().profile.isa == Isa::Portable {
        // Plain Rust takes minutes for one of them.
        names.truncate(usize::from(sweeps()));
    }
    let paths = names.into_iter().map(|name| zoo_model(name, folder.path()));
    for (number, path) in std::iter::once(digits()).chain(paths).enumerate() {
        let case = Case::of(&Subject::new(&path));
        let mut arena = Aligned::new(case.largest());
        let mut storage = Slice(&case.pack);
        let options = Options::default();
        let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
        let inline = case.walk(&mut instance.inline(&mut storage), number as u64);
        let with_loader = instance
            .with_loader(&mut storage, |model| case.walk(model, 7 + number as u64))
            .unwrap();
        eprintln!("{inline:?} {with_loader:?}");
        // What two plans keep is not read again. Most of it lies where it was, but for what is too
        // little to be laid out.
        let both = case.most_in_both();
        assert!(both == 0 || inline.moved_bytes + inline.kept_bytes > 0, "{inline:?} of {both}");
        assert!(both < 256 << 10 || inline.moved_bytes < inline.kept_bytes, "{inline:?} of {both}");
        // And what was left is what the next model starts with.
        assert!(!instance.plan().steps.is_empty());
        let outputs = case.plans.iter().find(|plan| plan.0 == instance.entry().arena_bytes);
        let found = case.infer(&mut instance.inline(&mut storage)).unwrap();
        assert!(found == outputs.unwrap().1);
    }
}

/// The pages of a load, in the file and in the arena.
fn pages(load: Load) -> impl Iterator<Item = (u64, u64)> {
    let Load { offset, address, bytes, .. } = load;
    (0..u64::from(bytes) / PAGE).map(move |page| (offset + page * PAGE, address + page * PAGE))
}

/// Bytes of residents of two plans that lie at one address.
fn kept(smaller: &Plan, larger: &Plan) -> u64 {
    let all =
        |plan: &Plan| -> HashSet<_> { plan.resident.iter().copied().flat_map(pages).collect() };
    all(smaller).intersection(&all(larger)).count() as u64 * PAGE
}

/// Whatever the costs, most of what a plan keeps lies at one address in the plan of the next larger
/// budget.
#[test]
fn plans_of_a_pack_share_residents_on_every_board() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("resnet18", [8.0, 16.0, 24.0, 32.0]),
        ("squeezenet1_1", [2.0, 3.0, 4.0, 5.0]),
        ("mobilenet_v2", [3.0, 5.0, 8.0, 12.0]),
    ];
    for (name, mib) in cases {
        let path = zoo_model(name, folder.path());
        let budgets = mib.map(|mib| (mib * f64::from(1 << 20)) as u64);
        for board in ["host-avx512", "host-avx2", "portable", "raspberry-pi-4"] {
            let subject = Subject::for_board(&path, Board::load(board).unwrap());
            let made = subject.together(&budgets, 2, Effort::Fast).made;
            for two in made.windows(2) {
                let [smaller, larger] = [&two[0].plan, &two[1].plan];
                let (resident, kept) = (smaller.resident_bytes(), kept(smaller, larger));
                let of = format!("{name} on {board}, {} to {}", smaller.budget, larger.budget);
                eprintln!("{of}: {kept} of {resident}");
                assert!(2 * kept >= resident, "{of}: {kept} of {resident}");
            }
        }
    }
}

/// A plan with room for all weights reads nothing, also where a smaller arena that a shared cache
/// holds would be faster, and next to plans that read.
#[test]
fn a_budget_for_everything_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let of = |path: &Path, board: &str, cache: Option<u64>, budgets: &[u64]| {
        let mut board = Board::load(board).unwrap();
        if let Some(bytes) = cache {
            let profile = &mut board.profile;
            (profile.storage.io, profile.storage.contention) = (Io::Buffered, None);
            profile.storage = profile.storage.faster(100.0);
            profile.compute.shared_cache_bytes = bytes;
            profile.compute.shared_cache_gbs = 100.0 * profile.compute.memory_gbs;
        }
        // With one thread layers may slide, and activations take less.
        Subject::for_board(path, board).together(budgets, 2, Effort::Fast).made
    };
    for name in ["squeezenet1_1", "mobilenet_v2", "resnet18"] {
        let path = zoo_model(name, folder.path());
        for board in ["host-avx512", "portable", "raspberry-pi-4"] {
            // Weights and activations of these are below.
            let ample = of(&path, board, None, &[128 << 20]);
            let all = &ample[0].plan;
            assert!(all.loads.is_empty(), "{name} on {board}");
            // The least that is enough, with a smaller budget, and with a cache for half of it.
            let enough = all.arena_bytes + (64 << 10);
            for cache in [None, Some(enough)] {
                let made = of(&path, board, cache, &[enough / 2, enough]);
                let reads = made.iter().map(|made| made.plan.bytes_per_inference());
                let reads: Vec<u64> = reads.collect();
                assert!(reads[0] > 0 && reads[1] == 0, "{name} on {board}, {cache:?}: {reads:?}");
            }
        }
    }
}

/// The same where layers are faster by weights that have no room, and storage is so fast that plans
/// which stream these would be faster.
#[test]
fn a_budget_for_everything_has_no_algorithms_that_stream() {
    let folder = tempfile::tempdir().unwrap();
    let mut board = Board::load("host-avx2").unwrap();
    board.profile.storage = board.profile.storage.faster(1000.0);
    let subject = Subject::for_board(&zoo_model("resnet18", folder.path()), board);
    let made = |budgets: &[u64], exact: bool| {
        let request = PackRequest::new(&JOINT, budgets.to_vec(), subject.board.profile.clone(), 1);
        let request = PackRequest { exact, effort: Effort::Fast, ..request };
        choose(&subject.network, &request).unwrap().made
    };
    let all = &made(&[128 << 20], true)[0].plan;
    let enough = all.arena_bytes + (64 << 10);
    assert!(all.loads.is_empty() && made(&[2 * enough / 3], false)[0].plan.loads.len() > 1);
    for budgets in [vec![enough], vec![enough / 2, enough]] {
        let made = made(&budgets, false);
        assert_eq!(made.last().unwrap().plan.bytes_per_inference(), 0, "{budgets:?}");
    }
}

#[test]
fn budgets_that_cannot_be_had_change_nothing() {
    let case = Case::of(&Subject::new(&digits()));
    let mut arena = Aligned::new(case.plans[2].0);
    let mut storage = Slice(&case.pack);
    let options = Options { budget: case.plans[1].0 + 10, ..Options::default() };
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    assert_eq!(instance.entry().arena_bytes, case.plans[1].0);
    let mut model = instance.inline(&mut storage);
    let smallest = case.plans[0].0;
    let asked = smallest - 1;
    assert_eq!(model.set_budget(asked), Err(BudgetError::Budget { asked, smallest }));
    let (asked, arena) = (case.largest(), case.plans[2].0);
    let error = model.set_budget(asked).unwrap_err();
    assert_eq!(error, BudgetError::Arena { asked, arena });
    assert!(error.to_string().contains(&asked.to_string()), "{error}");
    // The one that is in use, by a budget that would not suffice for the next.
    assert_eq!(model.set_budget(case.plans[2].0 - 1), Ok(Switch::default()));
    assert!(case.infer(&mut model).unwrap() == case.plans[1].1);
    model.input_mut(0).unwrap().copy_from_slice(&case.inputs[0]);
    model.step(&Inline).unwrap();
    assert_eq!(model.set_budget(smallest), Err(BudgetError::Running));
    model.infer(&Inline).unwrap();
    assert!(model.set_budget(smallest).is_ok());
    assert!(case.infer(&mut model).unwrap() == case.plans[0].1);
    let options = Options { budget: smallest - 1, ..Options::default() };
    let mut memory = Aligned::new(arena);
    let error = Instance::open(&mut storage, memory.bytes(), options).unwrap_err();
    assert_eq!(error, OpenError::Budget { arena: smallest - 1, smallest });
}

#[test]
fn the_threads_of_the_pack_stay() {
    let subject = Subject::new(&digits());
    let smallest = subject.smallest(1);
    let plans = [subject.plan(smallest, 1).unwrap(), subject.plan(4 << 20, 3).unwrap()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    subject.write(&path, &plans);
    let pack = std::fs::read(&path).unwrap();
    let mut arena = Aligned::new(4 << 20);
    let mut storage = Slice(&pack);
    let options = Options { threads: 2, ..Options::default() };
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    let error = model.set_budget(smallest).unwrap_err();
    assert_eq!(error, BudgetError::Threads { opened: 2, planned: 1 });
    assert!(error.to_string().contains("--threads 2"), "{error}");
}

/// Every read of a change fails once, in every way, and the model can be used after.
#[test]
fn storage_that_fails_during_a_change_leaves_a_model_that_can_be_repaired() {
    let case = Case::of(&Subject::new(&digits()));
    let last = case.plans.len() - 1;
    let mut failures = 0;
    for (from, to) in [(0, last), (last, 0), (0, 2), (2, 3), (3, 1)] {
        for with_loader in [false, true] {
            for fault in [Fault::Errno(5), Fault::Partial(0), Fault::FlipBit { byte: 70, bit: 3 }] {
                // Which attempts there are is found by trying until one does not happen in the change.
                for attempt in 0.. {
                    let opened = {
                        let mut arena = Aligned::new(case.largest());
                        let mut storage = Faulty::new(Slice(&case.pack), &[]);
                        let options = Options { budget: case.plans[from].0, ..Options::default() };
                        Instance::open(&mut storage, arena.bytes(), options).unwrap();
                        storage.attempts()
                    };
                    let script = [(opened + attempt, fault)];
                    let mut storage = Faulty::new(Slice(&case.pack), &script);
                    let mut arena = Aligned::new(case.largest());
                    let options = Options { budget: case.plans[from].0, ..Options::default() };
                    let mut instance =
                        Instance::open(&mut storage, arena.bytes(), options).unwrap();
                    let failed = if with_loader && instance.plan().loads.is_empty() {
                        // Otherwise the loader's own reads come between.
                        instance
                            .with_loader(&mut storage, |model| fail(&case, model, from, to))
                            .unwrap()
                    } else {
                        fail(&case, &mut instance.inline(&mut storage), from, to)
                    };
                    if !failed {
                        break;
                    }
                    failures += 1;
                    // What the next model finds is what was left.
                    assert!(!instance.plan().steps.is_empty());
                }
            }
        }
    }
    assert!(failures > 30, "{failures}");
}

/// Changes the budget, which may fail, and repairs what is left of the model. Returns whether it failed.
fn fail<F: Feed>(case: &Case, model: &mut Model<'_, '_, F>, from: usize, to: usize) -> bool {
    let (need, outputs) = &case.plans[to];
    let result = model.set_budget(*need);
    match result {
        Ok(_) => {}
        Err(BudgetError::Plan(
            PlanError::Storage(StorageError::Io { .. } | StorageError::Short { .. })
            | PlanError::Checksum { .. }
            | PlanError::Load(LoadError::Storage { .. } | LoadError::Checksum { .. }),
        )) => {
            assert_eq!(model.infer(&Inline), Err(InferError::NoPlan));
            assert!(model.input_mut(0).is_err() && model.output(0).is_err());
            assert!(model.unused().is_empty() && model.plan().steps.is_empty());
            let (back, old) = &case.plans[from];
            model.set_budget(*back).unwrap();
            assert!(case.infer(model).unwrap() == *old);
            model.set_budget(*need).unwrap();
        }
        Err(error) => panic!("{error}"),
    }
    // A fault may also come here, when the change needed fewer reads.
    match case.infer(model) {
        Ok(found) => assert!(found == *outputs),
        Err(error) => assert!(matches!(error, InferError::Load(_)), "{error}"),
    }
    assert!(case.infer(model).unwrap() == *outputs);
    result.is_err()
}

#[test]
fn a_pack_is_refused_for_a_plan_that_is_not_the_first_to_be_used() {
    let case = Case::of(&Subject::new(&digits()));
    for (number, _) in case.plans.iter().enumerate() {
        let mut pack = case.pack.clone();
        let entry = entries(&pack)[number].1;
        // The first buffer's address, to beyond the arena.
        let at = entry.offset as usize + size_of::<PlanHeader>();
        pack[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        seal(&mut pack);
        let mut arena = Aligned::new(case.largest());
        let error = Instance::open(&mut Slice(&pack), arena.bytes(), Options::default());
        assert!(matches!(error, Err(OpenError::Flaw(_))), "plan {number}: {error:?}");
        // One that does not fit is not looked at.
        if entry.arena_bytes == case.largest() {
            let mut arena = Aligned::new(case.largest() - PAGE);
            Instance::open(&mut Slice(&pack), arena.bytes(), Options::default()).unwrap();
        }
    }
}

/// One of two packs: the second from a moment on.
struct Two<'a> {
    packs: [&'a [u8]; 2],
    second: Cell<bool>,
}

impl Storage for &Two<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        Slice(self.packs[0]).len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        Slice(self.packs[usize::from(self.second.get())]).read(offset, into)
    }

    fn alignment(&self) -> u64 {
        1
    }
}

/// Changes the four bytes at `at` so that the checksum of `bytes` is `wanted`: every bit changes it by a constant.
fn forge_checksum(bytes: &mut [u8], at: usize, wanted: u32) {
    let base = crc32c(0, bytes);
    let mut rows: Vec<(u32, u32)> = (0..32)
        .map(|bit| {
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            let change = crc32c(0, bytes) ^ base;
            bytes[at + bit / 8] ^= 1 << (bit % 8);
            (change, 1 << bit)
        })
        .collect();
    let (mut left, mut bits) = (wanted ^ base, 0);
    for column in 0..32 {
        let at = rows.iter().position(|(change, _)| change >> column & 1 == 1).unwrap();
        let (change, mask) = rows.swap_remove(at);
        for row in rows.iter_mut().filter(|row| row.0 >> column & 1 == 1) {
            *row = (row.0 ^ change, row.1 ^ mask);
        }
        if left >> column & 1 == 1 {
            (left, bits) = (left ^ change, bits ^ mask);
        }
    }
    let word = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) ^ bits;
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
    assert_eq!(crc32c(0, bytes), wanted);
}

/// The storage changes under an open model. What it tells then is proved, whatever its checksum.
#[test]
fn a_plan_that_has_changed_since_is_not_followed() {
    let case = Case::of(&Subject::new(&digits()));
    let small = entries(&case.pack)[0].1;
    let mut damaged = case.pack.clone();
    let at = small.offset as usize + size_of::<PlanHeader>();
    damaged[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut forged = damaged.clone();
    let section = &mut forged[small.offset as usize..][..small.bytes as usize];
    forge_checksum(section, size_of::<PlanHeader>() + offset_of!(PlaceRecord, lines), small.crc);
    for (pack, proof) in [(&damaged, false), (&forged, true)] {
        let two = Two { packs: [&case.pack, pack], second: Cell::new(false) };
        let mut arena = Aligned::new(case.largest());
        let mut storage = &two;
        let options = Options::default();
        let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
        let mut model = instance.inline(&mut storage);
        two.second.set(true);
        let error = model.set_budget(case.plans[0].0).unwrap_err();
        match proof {
            false => assert!(matches!(error, BudgetError::Plan(PlanError::Checksum { .. }))),
            true => assert!(matches!(error, BudgetError::Plan(PlanError::Flaw(_))), "{error}"),
        }
        assert!(!error.to_string().is_empty());
        two.second.set(false);
        model.set_budget(case.plans[0].0).unwrap();
        assert!(case.infer(&mut model).unwrap() == case.plans[0].1);
    }
}

/// What the kernel says is resident of this process, in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
    // SAFETY: only asks for a number.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64
}

/// Four dense layers with 64 MiB of weights, which take little to compute.
fn dense() -> Graph {
    let width = 2048;
    let mut net = Net::default();
    let mut x = net.value(&[1, width], None);
    net.0.inputs.push(x);
    for _ in 0..4 {
        let weights = net.weights(&[width, width]);
        x = net.node(Op::MatMul, &[x, weights], &[1, width]);
    }
    net.0.outputs.push(x);
    net.0
}

#[test]
fn memory_that_is_given_back_is_the_systems() {
    let case = Case::of(&Subject::of_graph(dense(), board()));
    let mut arena = MappedArena::new(case.largest() as usize).unwrap();
    let (mut memory, pages) = arena.memory_and_pages();
    let mut storage = Slice(&case.pack);
    let options = Options::default();
    let mut instance = Instance::open(&mut storage, memory.as_mut_slice(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    assert!(case.infer(&mut model).unwrap() == case.plans.last().unwrap().1);
    let freed = case.largest() - case.plans[0].0;
    assert!(freed > 32 << 20);
    for _ in 0..3 {
        let before = resident();
        model.set_budget(case.plans[0].0).unwrap();
        let given = pages.give_back(model.unused()).unwrap();
        assert!(given + PAGE > freed, "{given} of {freed}");
        let after = resident();
        // Other tests come and go beside this one, with less.
        assert!(after + freed / 2 < before, "{before} before, {after} after");
        assert!(case.infer(&mut model).unwrap() == case.plans[0].1);
        model.set_budget(case.largest()).unwrap();
        assert!(case.infer(&mut model).unwrap() == case.plans.last().unwrap().1);
    }
}
