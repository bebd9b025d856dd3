//! Packs for flash that is read like memory: what they hold is used where it lies.

use crate::common::board::board;
use crate::common::forge::{Guarded, entries, header, seal, shapes, twice};
use crate::common::{Aligned, Subject, digits, run_inline, zoo_model};
use eyelet::device::{Device, Inline};
use eyelet::executor::{Instance, OpenError, Options};
use eyelet::pack::stored::{MAPPED, WorkRecord};
use eyelet::pack::{Header, MAPPED_ALIGNMENT, PlanEntry, Region};
use eyelet::storage::{self, Slice, StorageError};
use eyelet_planner::board::Board;
use eyelet_planner::check::{Violation, check};
use eyelet_planner::profile::{Mapped, Storage};
use eyelet_planner::search::Chosen;
use eyelet_planner::search::Effort;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::mem::{offset_of, size_of};
use std::path::Path;

/// A board whose flash is read like memory, as fast or slower.
fn mapped(gbs: f64) -> Board {
    let mut board = board();
    board.profile.mapped = Some(Mapped { gbs });
    board
}

const FAST: f64 = 1e3;
const SLOW: f64 = 0.05;

/// A board whose flash is slow, however it is read.
fn slow() -> Board {
    let mut board = mapped(SLOW);
    board.profile.storage = Storage::flat(1_000, 1e3 * SLOW, 1.0);
    board
}

/// The bytes of a pack, as aligned as flash is.
fn pack(subject: &Subject, folder: &Path, budgets: &[u64]) -> (Chosen, Aligned) {
    let path = folder.join("net.pack");
    let chosen = subject.together(budgets, 1, Effort::Fast);
    let plans: Vec<_> = chosen.made.iter().map(|made| made.plan.clone()).collect();
    let (network, bytes) = (&chosen.network, chosen.weights_bytes);
    let predicted = &chosen.predicted_ns;
    eyelet_planner::write::write_pack(&path, network, bytes, &plans, predicted, &mut |_| {})
        .unwrap();
    (chosen, in_memory(&std::fs::read(&path).unwrap()))
}

fn in_memory(bytes: &[u8]) -> Aligned {
    let mut aligned = Aligned::new(bytes.len() as u64);
    aligned.bytes().copy_from_slice(bytes);
    aligned
}

fn smallest(subject: &Subject) -> u64 {
    subject.smallest_together(1)
}

/// What a network computes from a pack that is read, with all its weights in the arena.
fn expected(path: &Path, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::new(path);
    let budget = 64 << 20;
    let (_, mut pack) = pack(&subject, folder.path(), &[budget]);
    run_inline(pack.bytes(), budget, inputs, &Inline, 1)
}

/// Both networks with no byte of weights and tables in memory. The arena is as small as the plan says, between pages that must
/// not be touched.
#[test]
fn memory_holds_activations_and_scratch_alone() {
    let folder = tempfile::tempdir().unwrap();
    let squeezenet = zoo_model("squeezenet1_1", folder.path());
    for (path, most) in [(digits(), 32 << 10), (squeezenet, 1400 << 10)] {
        let subject = Subject::for_board(&path, mapped(FAST));
        let budget = smallest(&subject);
        assert!(budget <= most, "{}: {budget}", path.display());
        let (chosen, mut pack) = pack(&subject, folder.path(), &[budget]);
        let plan = &chosen.made[0].plan;
        assert_eq!((plan.tables, plan.resident.len(), plan.loads.len()), (0, 0, 0));
        let weighty = |step: &&eyelet::pack::Step| step.count > 0;
        assert!(plan.steps.iter().filter(weighty).all(|step| step.weights_in == Region::Mapped));
        assert!(plan.in_place_bytes(&chosen.network) > 0);

        let inputs = subject.inputs(7);
        let mut arena = Guarded::new(plan.arena_bytes as usize);
        let mut storage = Slice(pack.bytes());
        let mut instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
        let mut model = instance.inline(&mut storage);
        for _ in 0..2 {
            model.input_mut(0).unwrap().copy_from_slice(&inputs[0]);
            model.infer(&Inline).unwrap();
        }
        assert_eq!(model.output(0).unwrap(), expected(&path, &inputs)[0]);
    }
}

/// Where flash is slower than memory, a larger budget holds the weights that gain most by it.
#[test]
fn what_gains_most_is_copied_from_slow_flash() {
    let folder = tempfile::tempdir().unwrap();
    let path = digits();
    let subject = Subject::for_board(&path, slow());
    let least = smallest(&subject);
    let budgets = [least, least + (48 << 10), 4 << 20];
    let (chosen, mut pack) = pack(&subject, folder.path(), &budgets);
    let plans: Vec<_> = chosen.made.iter().map(|made| &made.plan).collect();
    let kept: Vec<u64> = plans.iter().map(|plan| plan.resident_bytes()).collect();
    let used: Vec<u64> = plans.iter().map(|plan| plan.in_place_bytes(&chosen.network)).collect();
    assert!(kept[0] < kept[1] && kept[1] < kept[2], "{kept:?}");
    assert!(used[0] > used[1] && used[1] > 0 && used[2] == 0, "{used:?}");
    assert!(chosen.predicted_ns.is_sorted_by(|a, b| a > b), "{:?}", chosen.predicted_ns);

    let inputs = subject.inputs(3);
    let expected = expected(&path, &inputs);
    let mut arena = Guarded::new(budgets[2] as usize);
    let mut storage = Slice(pack.bytes());
    let mut instance = Instance::open(&mut storage, arena.bytes(), Options::default()).unwrap();
    let infer = |model: &mut eyelet::executor::Model<'_, '_, _>| {
        model.input_mut(0).unwrap().copy_from_slice(&inputs[0]);
        model.infer(&Inline).unwrap();
        assert_eq!(model.output(0).unwrap(), expected[0]);
    };
    let mut model = instance.inline(&mut storage);
    for budget in [budgets[2], budgets[0], budgets[1], budgets[0], budgets[2]] {
        let switch = model.set_budget(budget).unwrap();
        let at = budgets.iter().position(|other| *other == budget).unwrap();
        assert!([0, kept[at]].contains(&switch.read_bytes), "{switch:?}");
        infer(&mut model);
    }
}

/// A storage that reads.
struct Reader<'a>(Slice<'a>);

impl storage::Storage for Reader<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        self.0.len()
    }

    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), StorageError> {
        self.0.read(offset, into)
    }

    fn alignment(&self) -> u64 {
        1
    }
}

#[test]
fn what_cannot_be_used_in_place_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::for_board(&digits(), mapped(FAST));
    let budget = smallest(&subject);
    let (chosen, mut pack) = pack(&subject, folder.path(), &[budget]);
    let bytes = pack.bytes().to_vec();
    let mut arena = Guarded::new(budget as usize);
    let mut open = |storage: &mut dyn FnMut(&mut [u8]) -> OpenError| storage(arena.bytes());

    let mut reader = Reader(Slice(&bytes));
    let error = open(&mut |arena| {
        Instance::open(&mut reader, arena, Options::default()).map(drop).unwrap_err()
    });
    assert!(matches!(error, OpenError::NotMapped { storage } if storage.contains("Reader")));
    assert!(error.to_string().contains("Reader") && error.to_string().contains("Slice"));

    let mut refused = |bytes: &[u8], verify: bool| {
        let mut forged = in_memory(bytes);
        let options = Options { verify, ..Options::default() };
        open(&mut |arena| {
            Instance::open(&mut Slice(forged.bytes()), arena, options).map(drop).unwrap_err()
        })
    };
    // A weight changes: it is found before anything is computed.
    let head = header(&bytes);
    let mut damaged = bytes.clone();
    damaged[head.weights_offset as usize + 5] ^= 1;
    let error = refused(&damaged, true);
    assert!(matches!(error, OpenError::Checksum { section: "weights", .. }), "{error}");

    // Steps look beyond the weights section, by one panel's row and by far.
    let (_, entry) = entries(&bytes)[0];
    let work = work_at(&bytes, &entry, &chosen);
    let last = head.weights_bytes / 32;
    for far in [last, last - 1, u64::from(MAPPED - 1)] {
        let mut forged = bytes.clone();
        let field = work + offset_of!(WorkRecord, weights);
        forged[field..field + 4].copy_from_slice(&(far as u32 | MAPPED).to_le_bytes());
        seal(&mut forged);
        let error = refused(&forged, false);
        assert!(error.to_string().contains("weights beyond the weights section"), "{error}");
    }
    // A pack that is to be read, with no room for its tables; and one that is neither.
    for (value, says) in [(0u16, ""), (2, "how it is used")] {
        let mut forged = bytes.clone();
        let field = offset_of!(Header, mapped);
        forged[field..field + 2].copy_from_slice(&value.to_le_bytes());
        seal(&mut forged);
        let error = refused(&forged, false);
        assert!(matches!(error, OpenError::Flaw(_)), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }

    // The pack lies where kernels cannot read it.
    let mut shifted = Aligned::new(bytes.len() as u64 + 64);
    for by in [1, 4, 32] {
        shifted.bytes()[by..by + bytes.len()].copy_from_slice(&bytes);
        let lent = &shifted.bytes()[by..by + bytes.len()];
        let address = lent.as_ptr().addr();
        let error = open(&mut |arena| {
            Instance::open(&mut Slice(lent), arena, Options::default()).map(drop).unwrap_err()
        });
        assert_eq!(error, OpenError::PackAddress { address });
        assert_ne!(address % MAPPED_ALIGNMENT, 0);
    }
}

/// Whatever the tables of such a pack say, it is refused or computes something.
#[test]
fn forged_tables_do_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::for_board(&digits(), slow());
    let budget = smallest(&subject) + (16 << 10);
    let (_, mut pack) = pack(&subject, folder.path(), &[budget]);
    let bytes = pack.bytes().to_vec();
    let (_, entry) = entries(&bytes)[0];
    let skeleton = shapes(&bytes)[0].1.skeleton();
    let skeleton = skeleton.start as usize..skeleton.end as usize;
    let plan = entry.offset as usize..entry.offset as usize + entry.bytes as usize;
    let mut arena = Guarded::new(budget as usize);
    let mut random = ChaCha8Rng::seed_from_u64(9);
    let (mut refused, mut ran) = (0, 0);
    for round in 0..600 {
        let mut forged = in_memory(&bytes);
        let section = if round % 4 == 0 { &skeleton } else { &plan };
        for _ in 0..random.random_range(1..3) {
            let at = random.random_range(section.start / 4..section.end / 4) * 4;
            let was = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let other = random.random_range(section.start / 4..section.end / 4) * 4;
            let word = match random.random_range(0..5) {
                0 => was ^ MAPPED,
                1 => was ^ 1 << random.random_range(0..32),
                2 => was.wrapping_add(random.random_range(1..9)),
                3 => u32::from_le_bytes(bytes[other..other + 4].try_into().unwrap()),
                _ => random.random(),
            };
            forged.bytes()[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        seal(forged.bytes());
        let options = Options { verify: false, step_work: 1 << 28, ..Options::default() };
        let mut storage = Slice(forged.bytes());
        match Instance::open(&mut storage, arena.bytes(), options) {
            Err(_) => refused += 1,
            Ok(mut instance) => {
                twice(&mut instance.inline(&mut storage), &Inline);
                ran += 1;
            }
        }
    }
    assert!(refused > 100 && ran > 50, "{refused} refused, {ran} ran");
}

/// Where the first work with weights in the pack is stored.
fn work_at(bytes: &[u8], entry: &PlanEntry, chosen: &Chosen) -> usize {
    let step = chosen.made[0].plan.steps.iter().find(|step| step.count > 0).unwrap();
    let (_, work) = step.store().unwrap();
    let section = &bytes[entry.offset as usize..entry.offset as usize + entry.bytes as usize];
    let found = section.windows(size_of::<WorkRecord>());
    let at = found.step_by(4).position(|at| at == bytemuck::bytes_of(&work)).unwrap();
    entry.offset as usize + 4 * at
}

#[test]
fn the_checker_knows_where_weights_lie() {
    let subject = Subject::for_board(&digits(), mapped(FAST));
    let mut chosen = subject.together(&[smallest(&subject)], 1, Effort::Fast);
    let plan = &mut chosen.made[0].plan;
    check(&chosen.network, plan, chosen.weights_bytes).unwrap();
    let step = plan.steps.iter().position(|step| step.count > 0).unwrap();
    plan.steps[step].weights += 32;
    let found = check(&chosen.network, plan, chosen.weights_bytes).unwrap_err();
    let number = step + 1;
    let elsewhere = |violation: &Violation| matches!(violation, Violation::WeightsInPack { step, .. } if *step == number);
    assert!(found.iter().any(elsewhere), "{found:?}");
    plan.steps[step].weights -= 32;
    chosen.network.mapped = None;
    let found = check(&chosen.network, plan, chosen.weights_bytes).unwrap_err();
    assert!(found.contains(&Violation::NotMapped { step: number }), "{found:?}");
}

/// Published strategies copy all weights, from a pack whose tables lie in flash.
#[test]
fn other_strategies_copy_weights() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::for_board(&digits(), mapped(FAST));
    let inputs = subject.inputs(5);
    let expected = expected(&digits(), &inputs);
    for strategy in ["flexnn", "demand-async", "swapnet", "flexnn-dynamic"] {
        let budget = 256 << 10;
        let chosen = subject.chosen_by(strategy, &[budget], 1, Effort::Fast);
        let plan = &chosen.made[0].plan;
        assert!(plan.steps.iter().all(|step| step.weights_in == Region::Arena), "{strategy}");
        assert!(!plan.loads.is_empty() || !plan.resident.is_empty(), "{strategy}");
        let path = folder.path().join("net.pack");
        let plans = [plan.clone()];
        let (network, bytes) = (&chosen.network, chosen.weights_bytes);
        eyelet_planner::write::write_pack(&path, network, bytes, &plans, &[0], &mut |_| {})
            .unwrap();
        let mut pack = in_memory(&std::fs::read(&path).unwrap());
        let found = run_inline(pack.bytes(), budget, &inputs, &Inline, 2);
        assert_eq!(found, expected, "{strategy}");
    }
    assert_eq!(Inline.threads(), 1);
}
