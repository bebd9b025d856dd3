//! Packs for GPUs: planned, proved and described on any machine.

use crate::common;
use crate::common::command::{Done, LARGE, SMALL, digits, eyelet_in, folder};
use eyelet::kernels::Isa;
use eyelet_planner::board::{Board, Memory};
use eyelet_planner::bound::lower_bound_ns;
use eyelet_planner::import::import;
use eyelet_planner::ops::conv::{chains, set_chains};
use eyelet_planner::search::PlanError;
use eyelet_planner::search::algorithms::{AlgorithmSet, choices};
use eyelet_planner::simulate::simulate;
use std::path::Path;

/// The boards with a GPU, and where it computes; the mode that is asked for, if one is.
const BOARDS: [(&str, &str, Option<&str>); 7] = [
    ("jetson-nano", "zero-copy", None),
    ("jetson-xavier-nx", "zero-copy", Some("zero-copy")),
    ("jetson-orin-nano", "zero-copy", None),
    ("jetson-nano", "staged", Some("staged")),
    ("jetson-xavier-nx", "staged", Some("staged")),
    ("jetson-orin-nano", "staged", Some("staged")),
    ("gpu-host", "staged", None),
];

fn plan(folder: &Path, more: &[&str]) -> Done {
    std::fs::copy(digits(), folder.join("digits.onnx")).unwrap();
    let plan = ["plan", "digits.onnx", "--budget", SMALL, "--budget", LARGE, "--effort", "fast"];
    eyelet_in(folder, &[&plan, more].concat())
}

#[test]
fn packs_for_every_board_say_what_they_are_for() {
    let folder = folder();
    let path = folder.path();
    for (board, memory, asked) in BOARDS {
        let mode: Vec<&str> = asked.iter().flat_map(|mode| ["--memory", mode]).collect();
        let target = ["--board", board, "--device", "cuda", "--json"];
        let report = plan(path, &[&target[..], &mode].concat()).json();
        assert_eq!((&report["isa"], &report["device"]), (&"cuda".into(), &"cuda".into()));
        assert_eq!((&report["board"], &report["threads"]), (&board.into(), &1.into()));
        let pack = ["check", "digits.pack", "--json"];
        let check = eyelet_in(path, &pack).json();
        let inspect = eyelet_in(path, &["inspect", "digits.pack", "--json"]).json();
        for described in [&check, &inspect] {
            assert_eq!((&described["isa"], &described["device"]), (&"cuda".into(), &"cuda".into()));
            for (plan, planned) in described["plans"]
                .as_array()
                .unwrap()
                .iter()
                .zip(report["plans"].as_array().unwrap())
            {
                for key in
                    ["memory_mode", "staging_bytes", "mirror_bytes", "memory_bytes", "arena_bytes"]
                {
                    assert_eq!(plan[key], planned[key], "{key} on {board}");
                }
            }
        }
        for plan in report["plans"].as_array().unwrap() {
            assert_eq!(plan["memory_mode"], memory, "{board}");
            // The host's copies of 64 pixels and 10 scores: a page.
            let bytes = |key| plan[key].as_u64().unwrap();
            assert_eq!(bytes("mirror_bytes"), if memory == "staged" { 4096 } else { 0 });
            assert_eq!(bytes("staging_bytes") > 0, memory == "staged");
            let parts = ["arena_bytes", "staging_bytes", "mirror_bytes"];
            assert_eq!(bytes("memory_bytes"), parts.iter().map(|part| bytes(part)).sum::<u64>());
        }
        assert_eq!(inspect["panel"], 32);
        assert!(inspect["plans"][0]["rings"].as_array().unwrap().is_empty());
        for verb in ["check", "inspect"] {
            let text = eyelet_in(path, &[verb, "digits.pack"]).text();
            assert!(text.contains("GPU"), "{verb}: {text}");
            assert_eq!(
                text.contains(" in all, of one memory"),
                memory == "staged",
                "{verb}: {text}"
            );
        }
    }
    // Where there is a processor, it is meant if nothing is said; a server with a GPU alone needs no option.
    let nano = plan(path, &["--board", "jetson-nano", "--json"]).json();
    assert_eq!((&nano["device"], &nano["isa"]), (&"cpu".into(), &"neon".into()));
    assert_eq!(nano["plans"][0]["memory_mode"], serde_json::Value::Null);
    assert_eq!(plan(path, &["--board", "gpu-host", "--json"]).json()["device"], "cuda");
    let sweep = ["sweep", "digits.onnx", "--budgets", "64KiB..1MiB", "--points", "3", "--json"];
    let more = ["--board", "jetson-orin-nano", "--device", "cuda", "--strategies", "joint,preload"];
    let sweep = eyelet_in(path, &[&sweep[..], &more].concat()).json();
    assert_eq!(sweep["device"], "cuda");
    assert_eq!(sweep["points"][2]["feasible"], true);
}

#[test]
fn a_profile_says_what_it_is_for() {
    let folder = folder();
    let path = folder.path();
    let gpu = Board::load("jetson-xavier-nx").unwrap().gpu.unwrap().profile;
    std::fs::write(path.join("gpu.toml"), gpu.to_toml()).unwrap();
    let with = |more: &[&str]| plan(path, &[&["--profile", "gpu.toml", "--json"], more].concat());
    for more in [&[][..], &["--board", "jetson-nano"], &["--device", "cuda"], &["--threads", "1"]] {
        assert_eq!(with(more).json()["device"], "cuda", "{more:?}");
    }
    with(&["--device", "cpu"]).fails(&["gpu.toml: the profile is for cuda, and --device is cpu"]);
    with(&["--device", "cpu", "--board", "jetson-nano"])
        .fails(&["gpu.toml: the profile is for cuda, and the board jetson-nano is neon"]);
    with(&["--memory", "zero-copy"]).json();
    with(&["--memory", "staged"])
        .fails(&["gpu.toml: its costs are of zero-copy", "--memory is staged"]);
    plan(path, &["--board", "jetson-nano", "--memory", "staged"])
        .fails(&["--memory staged is for a GPU"]);
    plan(path, &["--board", "gpu-host", "--memory", "zero-copy"]).fails(&["no costs of zero-copy"]);
    let pipeline = ["--board", "jetson-nano", "--device", "cuda", "--strategy", "demand-2s"];
    plan(path, &pipeline).text();
    plan(path, &[&pipeline[..], &["--memory", "staged"]].concat()).fails(&["demand-2s"]);
    with(&["--threads", "2"]).fails(&["2 threads", "jetson-xavier-nx", "leave out --threads"]);
    let boards = "jetson-nano, jetson-xavier-nx, jetson-orin-nano, gpu-host";
    plan(path, &["--board", "cortex-a53", "--device", "cuda"]).fails(&[
        "cortex-a53 has no GPU",
        boards,
        "--board",
    ]);
    plan(path, &["--device", "cuda"]).fails(&["has no GPU", boards]);
    plan(path, &["--board", "gpu-host", "--device", "cpu"]).fails(&["gpu-host has no processor"]);
    plan(path, &["--device", "npu"]).misused(&["npu", "cpu, cuda"]);
}

/// Networks of the zoo on every board: plans from the smallest budget on are proved, and none is predicted to be
/// faster than its lower bound.
#[test]
fn zoo_networks_have_plans_for_every_gpu() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["squeezenet1_1", "mobilenet_v2", "resnet18"] {
        let graph = import(&common::zoo_model(name, folder.path())).unwrap();
        for (board, memory, _) in BOARDS {
            let mut board = Board::load(board).unwrap();
            let memory = <Memory as clap::ValueEnum>::from_str(memory, false).unwrap();
            board.profile = board.gpu.as_ref().unwrap().profile_in(memory).unwrap().clone();
            let mut subject = crate::common::Subject::of_graph(graph.clone(), board);
            assert_eq!(subject.isa(), Isa::Cuda);
            for layer in 0..subject.network.layers.len() {
                let suit = chains(&subject.network, layer, subject.board.profile.multiprocessors);
                set_chains(&mut subject.network, layer, suit);
            }
            let smallest = match subject.plan(4096, 1) {
                Err(PlanError::Budget { smallest, .. }) => smallest,
                other => panic!("{other:?}"),
            };
            for budget in [smallest, 2 * smallest, 1 << 30] {
                let plan = subject.plan(budget, 1).unwrap();
                let (network, profile) = (&subject.network, &subject.board.profile);
                let line = simulate(network, &plan, profile, 1);
                let bound = lower_bound_ns(network, budget, profile, 1);
                assert!(line.steady_ns >= bound, "{name}, {budget}: {} < {bound}", line.steady_ns);
            }
        }
    }
}

/// With memory for everything, large 3x3 convolutions are computed by Winograd's algorithm; with little, their larger
/// weights are not read.
#[test]
fn winograd_is_chosen_by_cost() {
    let folder = tempfile::tempdir().unwrap();
    let graph = import(&common::zoo_model("resnet18", folder.path())).unwrap();
    // The server's GPU is done with layers this small before more launches would pay.
    for (name, ..) in &BOARDS[..3] {
        let profile = Board::load(name).unwrap().gpu.unwrap().profile;
        let network = eyelet_planner::passes::lower(&graph, Isa::Cuda).unwrap();
        let winograd = |budget, means| {
            let mut network = network.clone();
            choices(&network, &profile, 1, &[budget], means)[0].apply(&mut network);
            assert!(network.on_load.iter().all(|algorithm| *algorithm == 0));
            let kind = eyelet::pack::OpKind::Winograd as u32;
            network.layers.iter().filter(|layer| layer.kind == kind).count()
        };
        assert_eq!(winograd(1 << 30, AlgorithmSet::Exact), 0);
        let plenty = winograd(1 << 30, AlgorithmSet::All);
        assert!(plenty > 0, "{name}");
        assert!(winograd(8 << 20, AlgorithmSet::All) <= plenty, "{name}");
    }
}

/// What chains, or Winograd's algorithm, take of scratch is never in the way of the smallest budget.
#[test]
fn the_smallest_budget_can_be_planned_for() {
    let folder = folder();
    let path = folder.path();
    eyelet_in(path, &["zoo", "resnet18", "-o", "r.onnx"]).text();
    for (board, _, asked) in BOARDS {
        if asked.is_some() {
            // Once for each board.
            continue;
        }
        let plan =
            ["plan", "r.onnx", "--board", board, "--device", "cuda", "--effort", "fast", "--json"];
        let least = eyelet_in(path, &[&plan[..], &["--min-budget"]].concat()).json();
        let least = least["min_budget_bytes"].as_u64().unwrap().to_string();
        let packed = eyelet_in(path, &[&plan[..], &["--budget", &least, "64MiB"]].concat()).json();
        assert_eq!(packed["plans"].as_array().unwrap().len(), 2, "{board}");
    }
}

/// Of the choices of algorithms that do not fit, the one with the least bound does not need the least memory: weights for
/// Winograd's algorithm are larger.
#[test]
fn a_refusal_names_the_smallest_budget_of_all_choices() {
    let folder = folder();
    let path = folder.path();
    eyelet_in(path, &["zoo", "resnet18"]).text();
    let target = ["--board", "jetson-nano", "--device", "cuda", "--effort", "fast"];
    for strategy in ["preload", "demand-async"] {
        let plan = |more: &[&str]| {
            let args = ["plan", "resnet18.onnx", "--strategy", strategy];
            eyelet_in(path, &[&args[..], more, &target].concat())
        };
        let least = plan(&["--min-budget", "--json"]).json()["min_budget_bytes"].as_u64().unwrap();
        plan(&["--budget", "8MiB"]).fails(&[&format!("({least} bytes)"), "smallest feasible"]);
        plan(&["--budget", &least.to_string()]).text();
    }
}

/// Each point of a sweep is the plan of that strategy for that budget.
#[test]
fn the_direct_strategy_of_a_sweep_computes_directly() {
    let folder = folder();
    let path = folder.path();
    eyelet_in(path, &["zoo", "resnet18"]).text();
    let target = ["--board", "jetson-nano", "--device", "cuda", "--json"];
    let sweep = ["sweep", "resnet18.onnx", "--budgets", "24MiB..64MiB", "--points", "2"];
    let more = ["--strategies", "direct,preload"];
    let sweep = eyelet_in(path, &[&sweep[..], &more, &target].concat()).json();
    let points = sweep["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for point in points {
        let large = point["budget_bytes"] == 64 << 20;
        assert_eq!(point["feasible"], large, "{point}");
        if large {
            let strategy = point["strategy"].as_str().unwrap();
            let plan = ["plan", "resnet18.onnx", "--strategy", strategy, "--budget", "64MiB"];
            let effort = ["--effort", "fast"];
            let plan = eyelet_in(path, &[&plan[..], &effort, &target].concat()).json();
            assert_eq!(point["predicted_ms"], plan["plans"][0]["predicted_ms"], "{strategy}");
        }
    }
}

/// Where memory is scarce, what a search begins with has slices that fit, and few loads: not only what needs the least.
#[test]
fn joint_is_not_slower_without_a_search_in_the_smallest_budget() {
    let folder = folder();
    let path = folder.path();
    eyelet_in(path, &["zoo", "mobilenet_v2"]).text();
    for board in ["gpu-host", "jetson-nano", "jetson-orin-nano"] {
        let plan = |strategy: &str, budget: &str| {
            let args =
                ["plan", "mobilenet_v2.onnx", "--board", board, "--device", "cuda", "--json"];
            let more = ["--exact", "--effort", "fast", "--strategy", strategy, "--budget", budget];
            eyelet_in(path, &[&args[..], &more].concat()).json()
        };
        let target = ["--board", board, "--device", "cuda", "--min-budget", "--json"];
        let least = eyelet_in(path, &[&["plan", "mobilenet_v2.onnx"], &target[..]].concat()).json();
        let budget = least["min_budget_bytes"].as_u64().unwrap().to_string();
        let ms = |strategy| plan(strategy, &budget)["plans"][0]["predicted_ms"].as_f64().unwrap();
        let (joint, flexnn) = (ms("joint"), ms("flexnn"));
        assert!(joint <= 1.005 * flexnn, "{joint} ms, {flexnn} by flexnn on {board}");
    }
}
