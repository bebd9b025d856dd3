//! Boards with fast memory next to the arena: scratch and buffers lie there.

use crate::common::board::board;
use crate::common::forge::{Guarded, entries, seal};
use crate::common::{Subject, digits, run_inline, zoo_model};
use eyelet::arena::Regions;
use eyelet::device::Inline;
use eyelet::executor::{Instance, OpenError, Options};
use eyelet::pack::{FAST, PAGE, PlanEntry};
use eyelet::storage::Slice;
use eyelet_planner::board::Board;
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::check::check;
use eyelet_planner::profile::Fast;
use eyelet_planner::search::Chosen;
use eyelet_planner::search::Effort;
use std::mem::offset_of;
use std::path::Path;

pub fn with_fast(bytes: u64) -> Board {
    let mut board = board();
    board.profile.fast = Some(Fast { bytes, gbs: 16.0, arena_gbs: 8.0 });
    board
}

pub fn pack(subject: &Subject, folder: &Path, budgets: &[u64]) -> (Chosen, Vec<u8>) {
    let path = folder.join("net.pack");
    let chosen = subject.together(budgets, 1, Effort::Fast);
    let plans: Vec<_> = chosen.made.iter().map(|made| made.plan.clone()).collect();
    let (network, bytes) = (&chosen.network, chosen.weights_bytes);
    let predicted = &chosen.predicted_ns;
    eyelet_planner::write::write_pack(&path, network, bytes, &plans, predicted, &mut |_| {})
        .unwrap();
    (chosen, std::fs::read(&path).unwrap())
}

/// The arena and fast memory lie between pages that must not be touched.
pub fn outputs(pack: &[u8], arena: u64, fast: u64, input: &[f32]) -> Vec<f32> {
    let (mut arena, mut fast) = (Guarded::new(arena as usize), Guarded::new(fast as usize));
    let mut storage = Slice(pack);
    let regions = Regions { arena: arena.bytes(), fast: fast.bytes() };
    let mut instance = Instance::open_in(&mut storage, regions, Options::default()).unwrap();
    let mut model = instance.inline(&mut storage);
    for _ in 0..2 {
        model.input_mut(0).unwrap().copy_from_slice(input);
        model.infer(&Inline).unwrap();
    }
    model.output(0).unwrap().to_vec()
}

/// Weights stream through the arena, which needs less than without fast memory. Results are the same.
#[test]
fn scratch_and_buffers_move_out_of_the_arena() {
    let folder = tempfile::tempdir().unwrap();
    let squeezenet = zoo_model("squeezenet1_1", folder.path());
    for (path, bytes) in [(digits(), 8 << 10), (squeezenet, 512 << 10)] {
        let (plain, subject) = (Subject::new(&path), Subject::for_board(&path, with_fast(bytes)));
        let (without, least) = (plain.smallest_together(1), subject.smallest_together(1));
        assert!(least < without, "{}: {least} of {without}", path.display());
        let budgets = [least, 2 * without];
        let (chosen, pack) = pack(&subject, folder.path(), &budgets);
        let inputs = subject.inputs(7);
        let (_, plain_pack) = self::pack(&plain, folder.path(), &[64 << 20]);
        let expected = run_inline(&plain_pack, 64 << 20, &inputs, &Inline, 1);
        for made in &chosen.made {
            let plan = &made.plan;
            assert!((1..=bytes).contains(&plan.fast_bytes), "{}", plan.fast_bytes);
            assert!(plan.steps.iter().any(|step| step.scratch >= FAST));
            assert!(plan.places.iter().any(|place| place.address >= FAST));
            check(&chosen.network, plan, chosen.weights_bytes).unwrap();
            let found = outputs(&pack, plan.arena_bytes, plan.fast_bytes, &inputs[0]);
            assert_eq!(found, expected[0], "{}", path.display());
        }
        let profile = &subject.board.profile;
        for (made, predicted) in chosen.made.iter().zip(&chosen.predicted_ns) {
            let bound = lower_bound_ns(&chosen.network, made.plan.budget, profile, 1);
            assert!(bound <= *predicted, "{bound} of {predicted}");
        }
    }
}

/// Where nothing reads while it computes, faster memory is what makes an inference faster.
#[test]
fn predictions_know_the_bandwidths() {
    let folder = tempfile::tempdir().unwrap();
    let path = digits();
    let budget = 1 << 20;
    let predicted = |board: Board| {
        let subject = Subject::for_board(&path, board);
        pack(&subject, folder.path(), &[budget]).0.predicted_ns[0]
    };
    let as_fast = {
        let mut board = with_fast(1 << 20);
        board.profile.fast = Some(Fast { bytes: 1 << 20, gbs: 8.0, arena_gbs: 8.0 });
        board
    };
    let (plain, equal, faster) =
        (predicted(board()), predicted(as_fast), predicted(with_fast(1 << 20)));
    assert!(equal <= plain && faster < equal, "{plain} {equal} {faster}");
}

#[test]
fn a_pack_whose_fast_memory_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::for_board(&digits(), with_fast(8 << 10));
    let (chosen, mut pack) = pack(&subject, folder.path(), &[64 << 10]);
    let needed = chosen.made[0].plan.fast_bytes;
    let refusal = |pack: &[u8], bytes: u64, at: usize| {
        let (mut arena, mut fast) = (Guarded::new(64 << 10), Guarded::new(bytes as usize + at));
        let regions = Regions { arena: arena.bytes(), fast: &mut fast.bytes()[at..] };
        Instance::open_in(&mut Slice(pack), regions, Options::default()).err()
    };
    let mut arena = Guarded::new(64 << 10);
    let opened = Instance::open(&mut Slice(&pack), arena.bytes(), Options::default());
    let error = opened.err().unwrap();
    assert_eq!(error, OpenError::Fast { fast: 0, smallest: needed });
    assert!(error.to_string().contains(&format!("need {needed} bytes of fast memory")), "{error}");
    let fast = needed - PAGE;
    let error = refusal(&pack, fast, 0).unwrap();
    assert_eq!(error, OpenError::Fast { fast, smallest: needed });
    assert!(error.to_string().contains(&format!("{fast} bytes of fast memory")), "{error}");
    let error = refusal(&pack, needed, 4).unwrap();
    assert!(matches!(error, OpenError::FastAddress { address } if address % 64 == 4), "{error}");
    assert_eq!(refusal(&pack, needed, 0), None);

    // A pack that says it needs less than it uses.
    let (at, entry) = entries(&pack)[0];
    let field = at + offset_of!(PlanEntry, fast_pages);
    pack[field..field + 2].copy_from_slice(&(entry.fast_pages - 1).to_le_bytes());
    seal(&mut pack);
    let error = refusal(&pack, needed, 0).unwrap().to_string();
    assert!(error.contains("outside fast memory"), "{error}");
}
