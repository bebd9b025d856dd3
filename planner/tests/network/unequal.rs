//! Plans for a board with cores of two kinds.

use crate::common::{Subject, zoo_model};
use eyelet_planner::board::Board;
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::profile::Profile;
use eyelet_planner::search::Effort;
use eyelet_planner::simulate::{Timeline, simulate};
use tempfile::TempDir;

/// Four Cortex-A53, 0 to 3, and two Cortex-A72.
const BOARD: &str = "rockpro64";
const BUDGET: u64 = 3 << 20;

/// The board with its loader on a core.
fn with_loader(core: u32) -> Board {
    let mut board = Board::load(BOARD).unwrap();
    board.profile.cores.as_mut().unwrap().loader = Some(core);
    board
}

/// A network that reads most of its weights in this budget.
fn subject(folder: &TempDir, board: Board) -> Subject {
    Subject::for_board(&zoo_model("squeezenet1_1", folder.path()), board)
}

/// What is predicted of the best plan that is found for a board.
fn planned(folder: &TempDir, board: Board, threads: u32) -> Timeline {
    let subject = subject(folder, board);
    let chosen = subject.together(&[BUDGET], threads, Effort::Fast);
    let (plan, profile) = (&chosen.made[0].plan, &subject.board.profile);
    assert!(plan.bytes_per_inference() > 1 << 20, "{}", plan.bytes_per_inference());
    let line = simulate(&chosen.network, plan, profile, threads);
    let bound = lower_bound_ns(&chosen.network, BUDGET, profile, threads);
    assert!(line.steady_ns >= bound, "{threads} threads: {} below {bound}", line.steady_ns);
    line
}

#[test]
fn more_threads_compute_faster_and_no_plan_is_below_its_bound() {
    let folder = tempfile::tempdir().unwrap();
    let board = || Board::load(BOARD).unwrap();
    let lines: Vec<Timeline> = (1..=6).map(|threads| planned(&folder, board(), threads)).collect();
    let compute: Vec<u64> = lines.iter().map(|line| line.compute_ns).collect();
    // The sixth thread has the loader on its core.
    assert!(compute[..5].is_sorted_by(|fewer, more| fewer > more), "{compute:?}");
    // A second big core is worth more than a first little one.
    assert!(compute[0] - compute[1] > 2 * (compute[1] - compute[2]), "{compute:?}");
}

/// When all big cores compute, the loader is better off on a little one than on one of these.
#[test]
fn a_little_core_for_the_loader_is_no_slower_than_a_big_one_that_computes() {
    let folder = tempfile::tempdir().unwrap();
    let [little, shared] = [0, 5].map(|core| planned(&folder, with_loader(core), 2));
    assert!(little.steady_ns <= shared.steady_ns, "{} {}", little.steady_ns, shared.steady_ns);
    assert!(little.compute_ns < shared.compute_ns, "{} {}", little.compute_ns, shared.compute_ns);
    // Nothing is named, and a little core is free.
    let chosen = planned(&folder, Board::load(BOARD).unwrap(), 2);
    assert_eq!(chosen, little);
}

/// One plan, by the costs of each place of its loader.
#[test]
fn a_plan_is_charged_for_the_place_of_its_loader() {
    let folder = tempfile::tempdir().unwrap();
    let subject = subject(&folder, Board::load(BOARD).unwrap());
    let plan = subject.plan(BUDGET, 2).unwrap();
    let on = |board: Board| simulate(&subject.network, &plan, &board.profile, 2);
    let [little, shared] = [0, 5].map(|core| on(with_loader(core)));
    let equal = on(Board {
        profile: Profile { cores: None, ..Board::load(BOARD).unwrap().profile },
        ..Board::load(BOARD).unwrap()
    });
    // A little core takes longer for each load, and nothing from computing.
    assert!(little.resident_ns >= equal.resident_ns);
    let ns = |line: &Timeline| line.loads.iter().map(|load| load.end - load.start).sum::<i64>();
    assert!(ns(&little) > ns(&equal), "{} {}", ns(&little), ns(&equal));
    // A big core that computes takes no longer for loads, and takes from computing.
    assert_eq!(shared.read_ns, equal.read_ns);
    assert!(shared.compute_ns > equal.compute_ns, "{} {}", shared.compute_ns, equal.compute_ns);
    // One thread leaves a big core to the loader: there nothing costs more than where all cores are equal.
    let plan = subject.plan(BUDGET, 1).unwrap();
    let on = |profile: &Profile| simulate(&subject.network, &plan, profile, 1);
    let equal = Profile { cores: None, ..subject.board.profile.clone() };
    assert_eq!(on(&with_loader(5).profile), on(&equal));
}

/// Without the speed of the little cores, or of equal cores, plans are what they were.
#[test]
fn boards_with_equal_cores_count_threads() {
    for name in Board::names().filter(|name| *name != BOARD) {
        let profile = Board::load(name).unwrap().profile;
        assert_eq!(profile.cores, None, "{name}");
        assert!((1..=8).all(|threads| profile.team(threads) == f64::from(threads)), "{name}");
    }
}
