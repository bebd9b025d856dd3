//! The command as a user has it: every verb, as text and as JSON.

use crate::common::command::{self, Done, LARGE, SMALL, eyelet_in, folder, packed};
use crate::common::sweeps;
use bytes::Bytes;
use eyelet_planner::import::onnx::{
    DataType, GraphProto, ModelProto, OperatorSetIdProto, TensorProto, ValueInfoProto,
};
use prost::Message;
use serde_json::Value;
use std::path::Path;

fn run(folder: &Path, args: &[&str]) -> Done {
    // Buffered I/O works on every file system; direct I/O has tests of its own.
    eyelet_in(folder, &[&["run", "digits.pack", "--io", "buffered"], args].concat())
}

/// Whether files there can be read past the page cache.
fn direct_io(folder: &Path) -> bool {
    let done = eyelet_in(folder, &["run", "digits.pack"]);
    assert!(done.code == Some(0) || done.err.contains("without direct I/O"), "{done:?}");
    done.code == Some(0)
}

#[test]
fn every_verb_has_help_with_an_example() {
    let folder = folder();
    let verbs = [
        "zoo",
        "profile",
        "plan",
        "sweep",
        "inspect",
        "check",
        "run",
        "bench",
        "demo",
        "gpu-chunks",
        "schedule",
        "serve",
        "taskgen",
        "completions",
        "man",
    ];
    for verb in verbs {
        let text = eyelet_in(folder.path(), &[verb, "--help"]).text();
        assert!(text.contains(&format!("Example:\n  eyelet {verb}")), "{text}");
        assert!(text.contains("--json"), "{text}");
    }
    let text = eyelet_in(folder.path(), &["--help"]).text();
    assert!(text.contains("Example:"), "{text}");
    let own = concat!("eyelet ", env!("CARGO_PKG_VERSION"));
    assert_eq!(eyelet_in(folder.path(), &["-V"]).text().trim(), own);
    let packs = eyelet::pack::VERSION;
    let both = format!("{own}\nreads and writes packs of format version {packs}\n");
    assert_eq!(eyelet_in(folder.path(), &["--version"]).text(), both);
}

#[test]
fn shells_and_readers_are_served() {
    let folder = folder();
    for (shell, start) in [("bash", "_eyelet()"), ("zsh", "#compdef eyelet"), ("fish", "#")] {
        let script = eyelet_in(folder.path(), &["completions", shell]).text();
        assert!(script.starts_with(start) && script.contains("gpu-chunks"), "{script}");
    }
    let report = eyelet_in(folder.path(), &["man", "man1", "--json"]).json();
    let pages = report["pages"].as_array().unwrap();
    assert!(pages.len() > 10, "{pages:?}");
    let plan = std::fs::read_to_string(folder.path().join("man1/eyelet-plan.1")).unwrap();
    assert!(plan.contains(".TH eyelet\\-plan") || plan.contains(".TH eyelet-plan"), "{plan}");
    assert!(plan.contains("budget"), "{plan}");
}

#[test]
fn zoo_lists_and_writes() {
    let folder = folder();
    let text = eyelet_in(folder.path(), &["zoo", "--list"]).text();
    assert!(text.contains("resnet152") && text.contains("60117096"), "{text}");
    let list = eyelet_in(folder.path(), &["zoo", "--list", "--json"]).json();
    assert_eq!(list["networks"][0]["name"], "squeezenet1_1");
    assert_eq!(list["networks"][0]["parameters"], 1_235_496);

    let write = ["--json", "zoo", "squeezenet1_1", "-o", "a.onnx", "--seed", "7"];
    let report = eyelet_in(folder.path(), &write).json();
    let bytes = std::fs::read(folder.path().join("a.onnx")).unwrap();
    assert_eq!(report["file_bytes"], bytes.len());
    eyelet_in(folder.path(), &["zoo", "squeezenet1_1", "--seed", "7"]).text();
    assert!(bytes == std::fs::read(folder.path().join("squeezenet1_1.onnx")).unwrap());
}

#[test]
fn plan_reports_every_budget_once() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let budgets = ["--budget", LARGE, SMALL, "--budget", SMALL];
    let args = [&["plan", "d.onnx", "--exact", "--json"], &budgets[..]].concat();
    let report = eyelet_in(folder.path(), &args).json();
    let plans = report["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 2);
    assert_eq!(
        (&plans[0]["budget_bytes"], &plans[1]["budget_bytes"]),
        (&Value::from(96 << 10), &Value::from(1 << 20))
    );
    for plan in plans {
        assert!(plan["arena_bytes"].as_u64() <= plan["budget_bytes"].as_u64());
        assert!(plan["lower_bound_ms"].as_f64() > Some(0.0));
        assert!(plan["predicted_ms"].as_f64() >= plan["lower_bound_ms"].as_f64());
    }
    assert!(plans[0]["bytes_read_per_inference"].as_u64().unwrap() > 0);
    assert_eq!(plans[1]["bytes_read_per_inference"], 0);
    assert_eq!(report["file"], "d.pack");
    assert!(report["planning_ms"].as_f64().unwrap() > 0.0);
    let file = std::fs::metadata(folder.path().join("d.pack")).unwrap();
    assert_eq!(report["file_bytes"], file.len());
}

#[test]
fn weights_in_half_the_bytes_and_their_error() {
    let folder = folder();
    std::fs::copy(command::digits(), folder.path().join("d.onnx")).unwrap();
    let plan = |weights: &str| {
        let args = ["plan", "d.onnx", "--budget", "1MiB", "--json", "--weights", weights];
        eyelet_in(folder.path(), &args).json()
    };
    let whole = plan("fp32");
    assert_eq!((&whole["weights"], &whole["rounding_error"]), (&"fp32".into(), &Value::Null));
    let bytes = |report: &Value| report["weights_bytes"].as_u64().unwrap();
    let mut before = 0.0;
    for weights in ["fp16", "bf16"] {
        let report = plan(weights);
        assert!(bytes(&report) < bytes(&whole));
        let error = report["rounding_error"].as_f64().unwrap();
        assert!(error > before && error < 0.05, "{weights}: {error}");
        before = error;
        let inspected = eyelet_in(folder.path(), &["inspect", "d.pack", "--json"]).json();
        let layers = inspected["layers"].as_array().unwrap();
        assert!(layers.iter().any(|layer| layer["encoding"] == weights));
        eyelet_in(folder.path(), &["check", "d.pack"]).text();
        eyelet_in(folder.path(), &["run", "d.pack", "--runs", "2"]).text();
    }
    let refused = ["plan", "d.onnx", "--budget", "1MiB", "--weights", "fp8"];
    eyelet_in(folder.path(), &refused).misused(&["fp32, fp16, bf16"]);
}

#[test]
fn inspect_and_check_read_packs_of_any_board() {
    let folder = packed();
    for board in ["portable", "host-avx2", "host-avx512", "jetson-nano"] {
        let pack = format!("{board}.pack");
        let plan = ["plan", "digits.onnx", "--budget", "1MiB", "--board", board, "-o", &pack];
        eyelet_in(folder.path(), &plan).text();
        let inspected = eyelet_in(folder.path(), &["inspect", &pack, "--json"]).json();
        let checked = eyelet_in(folder.path(), &["check", &pack, "--json"]).json();
        assert_eq!(inspected["isa"], checked["isa"]);
        assert_eq!(checked["plans"].as_array().unwrap().len(), 1);
    }
    let report = eyelet_in(folder.path(), &["inspect", "digits.pack", "--json"]).json();
    assert_eq!(report["inputs"][0]["shape"], serde_json::json!([1, 1, 8, 8]));
    assert_eq!(report["plans"][0]["memory"]["map"].as_str().unwrap().len(), 64);
    assert!(report["layers"].as_array().unwrap().len() >= 5);
    // Two plans cut the same weights differently, and every byte is verified for both.
    let checked = eyelet_in(folder.path(), &["check", "digits.pack", "--json"]).json();
    assert_eq!(checked["verified_bytes"], report["weights_bytes"]);
    let text = eyelet_in(folder.path(), &["inspect", "digits.pack"]).text();
    assert!(text.contains("96 KiB") && text.contains("Conv"), "{text}");
    let text = eyelet_in(folder.path(), &["check", "digits.pack"]).text();
    assert!(text.contains("sound") && text.contains("plan for 96 KiB"), "{text}");
}

#[test]
fn run_tells_what_it_measured() {
    let folder = packed();
    let report = run(folder.path(), &["--json", "--runs", "4", "--warmup", "1"]).json();
    for field in [
        "network",
        "strategy",
        "budget_bytes",
        "arena_bytes",
        "threads",
        "io",
        "runs",
        "warmup",
        "compute_ms",
        "stall_ms",
        "open_ms",
        "first_ms",
        "period_ms",
        "predicted_ms",
        "bytes_read_per_inference",
        "resident_bytes",
        "peak_rss_bytes",
        "rss_before_bytes",
        "page_cache_bytes",
        "output_digest",
        "outputs",
    ] {
        assert!(!report[field].is_null(), "{field}");
    }
    let latency = &report["latency_ms"];
    assert!(
        latency["min"].as_f64() > Some(0.0)
            && latency["min"].as_f64() <= latency["median"].as_f64()
    );
    assert!(latency["median"].as_f64() <= latency["max"].as_f64());
    assert_eq!(report["runs"], 4);
    assert_eq!(report["outputs"][0]["shape"], serde_json::json!([1, 10]));
    let text = run(folder.path(), &[]).text();
    assert!(text.contains("1 MiB") && text.contains("digest"), "{text}");
    // A prediction for other threads than those of the run says so.
    let args = ["plan", "digits.onnx", "--budget", "1MiB", "--threads", "2", "-o", "digits.pack"];
    eyelet_in(folder.path(), &args).text();
    let text = run(folder.path(), &["--threads", "1"]).text();
    assert!(text.contains("predicted for 2 threads"), "{text}");
    // How fast the processor was meanwhile, if that is asked for.
    assert!(report["speed"].is_null());
    let probed = run(folder.path(), &["--json", "--speed", "--runs", "3"]).json();
    let of = |field: &str| probed["speed"][field].as_f64().unwrap();
    assert!(of("min_gflops") > 0.0 && of("min_gflops") <= of("median_gflops"));
    assert!(of("median_gflops") <= of("max_gflops"));
    let inferences = probed["speed"]["inferences"].as_array().unwrap();
    let above_zero = |one: &Value, field: &str| one[field].as_f64().unwrap() > 0.0;
    let told = ["latency_ms", "before_gflops", "after_gflops"];
    assert!(inferences.iter().all(|one| told.iter().all(|field| above_zero(one, field))));
    assert_eq!(inferences.len(), 3);
    assert_eq!(probed["output_digest"], report["output_digest"]);
    let text = run(folder.path(), &["--speed"]).text();
    assert!(text.contains("GFLOP/s during the inferences"), "{text}");
    // The names from before still serve, unseen.
    let old = ["--json", "--gauge", "--pace", "jetson-nano"];
    assert_eq!(run(folder.path(), &old).json()["slow_to_board"], "jetson-nano");
    let help = run(folder.path(), &["--help"]).text();
    assert!(!help.contains("--gauge") && !help.contains("--pace"), "{help}");
    // Whose storage a run was paced by is told.
    assert!(report["slow_to_board"].is_null());
    let report = run(folder.path(), &["--json", "--slow-to-board", "jetson-nano"]).json();
    assert_eq!(report["slow_to_board"], "jetson-nano");
}

#[test]
fn outputs_are_the_same_however_it_is_run() {
    let folder = packed();
    let small = ["--budget", SMALL, "--json"];
    let mut ways: Vec<Vec<&str>> = vec![vec!["--json"], small.to_vec()];
    for threads in ["1", "2"] {
        for io in ["buffered", "memory"] {
            ways.push([&small[..], &["--threads", threads, "--io", io, "--runs", "3"]].concat());
        }
    }
    if direct_io(folder.path()) {
        ways.push([&small[..], &["--io", "direct", "--no-verify", "--runs", "3"]].concat());
    }
    let mut digest = None;
    for way in ways {
        let args = [&["run", "digits.pack"], &way[..]].concat();
        let args =
            if way.contains(&"--io") { args } else { [&args[..], &["--io", "memory"]].concat() };
        let report = eyelet_in(folder.path(), &args).json();
        let found = report["output_digest"].clone();
        assert_eq!(*digest.get_or_insert(found.clone()), found, "{way:?}");
    }
}

#[test]
fn the_largest_plan_within_the_budget_is_run() {
    let folder = packed();
    for (budget, planned) in [("96KiB", 96 << 10), ("1000KiB", 96 << 10), ("2GiB", 1 << 20)] {
        let report = run(folder.path(), &["--budget", budget, "--json"]).json();
        assert_eq!(report["budget_bytes"], planned);
    }
    assert_eq!(run(folder.path(), &["--json"]).json()["budget_bytes"], 1 << 20);
}

/// What helps with one verb speaks of that verb.
#[test]
fn helps_say_what_their_verbs_do() {
    let folder = tempfile::tempdir().unwrap();
    let help = |verb: &str| {
        let text = eyelet_in(folder.path(), &[verb, "--help"]).text();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let sweep = help("sweep").replace("without writing a pack", "");
    assert!(!sweep.contains("pack"), "{sweep}");
    let profile = help("profile");
    assert!(profile.contains("profile [OPTIONS] --output <FILE.toml>"), "{profile}");
    assert!(profile.contains("There is no default"), "{profile}");
    assert!(!help("zoo").contains("those of torchvision"));
}

#[test]
fn budgets_change_while_it_runs() {
    let folder = packed();
    let args = ["--budgets", "2MiB,96KiB,1MiB,120KiB", "--runs-each", "3"];
    let report = run(folder.path(), &[&args[..], &["--json"]].concat()).json();
    let phases = report["phases"].as_array().unwrap();
    let plans: Vec<_> = phases.iter().map(|phase| phase["plan_budget_bytes"].as_u64()).collect();
    assert_eq!(plans, [1 << 20, 96 << 10, 1 << 20, 96 << 10].map(Some));
    for (number, phase) in phases.iter().enumerate() {
        assert_eq!(phase["output_digest"], phases[0]["output_digest"]);
        let switch = &phase["switch"];
        assert_eq!(switch["table_bytes"].as_u64() > Some(0), number > 0);
        for field in ["total_ms", "execution_ms", "read_ms", "move_ms", "resident_kept_bytes"] {
            assert!(switch[field].is_number(), "{field}");
        }
        for field in ["arena_bytes", "rss_bytes", "first_ms", "strategy", "given_back_bytes"] {
            assert!(!phase[field].is_null(), "{field}");
        }
        for field in ["giving_back_ms", "taking_ms", "inferences_meanwhile"] {
            assert!(phase[field].is_number(), "{field}");
        }
        // Pages are taken for the one change to more.
        assert!(number == 2 || phase["taken_bytes"] == 0, "{phase}");
        assert!(phase["latency_ms"]["median"].as_f64() > Some(0.0));
    }
    let text = run(folder.path(), &args).text();
    assert!(text.contains("4 budgets") && text.contains("96 KiB"), "{text}");
    assert!(text.contains("of the old plan go on"), "{text}");
    run(folder.path(), &["--budgets", "1MiB,4KiB"]).fails(&["4 KiB", "smallest plan needs"]);
    run(folder.path(), &["--budgets", "1MiB", "--speed"]).misused(&["--speed"]);
    run(folder.path(), &["--budgets", "1MiB", "--runs", "2"]).misused(&["--runs"]);
    // Lists mean the same after either option.
    let list = ["--budget", "2MiB,96KiB", "--runs-each", "2", "--json"];
    let report = run(folder.path(), &list).json();
    let plans = report["phases"].as_array().unwrap().iter();
    let plans: Vec<_> = plans.map(|phase| phase["plan_budget_bytes"].as_u64()).collect();
    assert_eq!(
        (plans, report["runs_each"].as_u64()),
        (vec![Some(1 << 20), Some(96 << 10)], Some(2))
    );
    let range = run(folder.path(), &["--budget", "96KiB..1MiB", "--json"]).json();
    assert_eq!(range["phases"].as_array().map(Vec::len), Some(4));
    run(folder.path(), &["--budget", "1MiB,2MiB", "--runs", "2"]).misused(&["--runs"]);
    run(folder.path(), &["--budget", "1MiB,2MiB", "--lock"]).misused(&["--lock"]);
    run(folder.path(), &["--runs-each", "2"]).misused(&["--budget"]);
}

#[test]
fn digits_are_read_from_files_and_answers_written() {
    let folder = packed();
    let data = command::digits().with_file_name("images.npy");
    let (_, images) = eyelet_planner::npy::read(data).unwrap();
    let (_, labels) =
        eyelet_planner::npy::read(command::digits().with_file_name("labels.npy")).unwrap();
    for index in [0, 5, 63] {
        let image = &images[index * 64..][..64];
        eyelet_planner::npy::write(folder.path().join("x.npy"), &[1, 1, 8, 8], image).unwrap();
        let args =
            ["--budget", SMALL, "--input", "x.npy", "--output", "out", "--runs", "2", "--json"];
        let report = run(folder.path(), &args).json();
        let file = report["outputs"][0]["file"].as_str().unwrap().to_owned();
        let (shape, logits) = eyelet_planner::npy::read(folder.path().join(file)).unwrap();
        assert_eq!(shape, [1, 10]);
        let best = (0..10).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
        assert_eq!(best as f32, labels[index]);
    }
}

/// The promise of the whole: with direct I/O, the arena and a few MiB of code and stacks.
#[test]
fn memory_stays_within_the_budget() {
    let folder = packed();
    if !direct_io(folder.path()) {
        return;
    }
    let report = eyelet_in(
        folder.path(),
        &["run", "digits.pack", "--budget", SMALL, "--runs", "3", "--json"],
    )
    .json();
    assert_eq!(report["page_cache_bytes"], 0);
    let beside =
        report["peak_rss_bytes"].as_u64().unwrap() - report["budget_bytes"].as_u64().unwrap();
    assert!(beside <= 8 << 20, "{beside} bytes beside the arena");
}

#[test]
fn profile_is_measured_and_planned_with() {
    let folder = packed();
    if !direct_io(folder.path()) {
        return;
    }
    let mut profile = vec!["profile", "-o", "here.toml", "--json"];
    profile.extend((!sweeps()).then_some("--brief"));
    let report = eyelet_in(folder.path(), &profile).json();
    assert_eq!(report["profile"]["estimated"], false);
    assert_eq!(report["profile"]["storage"]["io"], "direct");
    let plan = ["plan", "digits.onnx", "--budget", SMALL, "--profile", "here.toml", "--json"];
    let report = eyelet_in(folder.path(), &plan).json();
    assert_eq!(report["estimated"], false);
}

#[test]
fn plans_of_a_pack_are_predicted_by_other_costs() {
    let folder = packed();
    let board = eyelet_planner::board::Board::load("portable").unwrap().profile;
    let slower = eyelet_planner::profile::Profile {
        storage: eyelet_planner::profile::Storage::flat(0, 1.0, 1.0),
        ..board.clone()
    };
    for (name, profile) in [("board", board), ("slower", slower)] {
        std::fs::write(folder.path().join(name), profile.to_toml()).unwrap();
    }
    let plan = ["plan", "digits.onnx", "--budget", SMALL, "--profile", "board", "--json"];
    let planned = eyelet_in(folder.path(), &[&plan[..], &["--exact"]].concat()).json();
    let inspect = ["inspect", "digits.pack", "--profile", "board", "--profile", "slower"];
    let report = eyelet_in(folder.path(), &[&inspect[..], &["--json"]].concat()).json();
    let [board, slower] = [0, 1].map(|index| &report["plans"][0]["forecasts"][index]);
    // By the costs it was made with, what was said then; by a megabyte in a second, longer.
    for what in ["predicted_ms", "predicted_first_ms", "predicted_stall_ms"] {
        assert_eq!(board[what], planned["plans"][0][what], "{what}");
        assert!(slower[what].as_f64() > board[what].as_f64(), "{what}");
    }
    assert!(slower["lower_bound_ms"].as_f64() >= board["lower_bound_ms"].as_f64());
    assert!(slower["lower_bound_ms"].as_f64() <= slower["predicted_ms"].as_f64());
    let text = eyelet_in(folder.path(), &inspect).text();
    assert!(text.contains("takes") && text.contains("by slower"), "{text}");
}

/// Outputs that are constant, or an input, are written like any other.
#[test]
fn outputs_that_are_constant_or_an_input() {
    let folder = folder();
    let bytes = std::fs::read(command::digits()).unwrap();
    let mut model = ModelProto::decode(Bytes::from(bytes)).unwrap();
    let graph = model.graph.as_mut().unwrap();
    let input = graph.input[0].name.clone();
    let tensor = |name: &str| TensorProto {
        name: name.into(),
        dims: vec![2, 2],
        data_type: DataType::Float as i32,
        float_data: vec![0.5, -0.0, f32::NAN, f32::INFINITY],
        ..Default::default()
    };
    graph.initializer.push(tensor("fixed"));
    for name in ["fixed", &input] {
        graph.output.push(ValueInfoProto { name: name.to_owned(), r#type: None });
    }
    std::fs::write(folder.path().join("m.onnx"), model.encode_to_vec()).unwrap();
    let plan = ["plan", "m.onnx", "--budget", "1MiB", "--board", "portable", "-o", "m.pack"];
    eyelet_in(folder.path(), &plan).text();
    let ran = eyelet_in(folder.path(), &["run", "m.pack", "--io", "buffered", "--output", "out"]);
    ran.text();
    let bits = |name: &str| -> Vec<u32> {
        let path = folder.path().join(format!("out/{name}.npy"));
        let (_, data) = eyelet_planner::npy::read(path).unwrap();
        data.iter().map(|value| value.to_bits()).collect()
    };
    let [half, zero, nan, infinity] = bits("fixed")[..] else { panic!("four numbers") };
    assert_eq!([half, zero, infinity], [0.5, -0.0, f32::INFINITY].map(f32::to_bits));
    assert!(f32::from_bits(nan).is_nan());
    assert_eq!(bits(&input).len(), 64);
}

/// A model without inputs, whose outputs are all constant, is planned, checked and run.
#[test]
fn models_without_inputs() {
    let folder = folder();
    let floats = [0.5, -0.0, f32::INFINITY, 3.0];
    let words = [i64::from(i32::MAX), -7];
    let tensor = |name: &str, data_type: DataType, dims: &[i64]| TensorProto {
        name: name.into(),
        dims: dims.into(),
        data_type: data_type as i32,
        ..Default::default()
    };
    let initializer = vec![
        TensorProto { float_data: floats.into(), ..tensor("floats", DataType::Float, &[2, 2]) },
        TensorProto { float_data: vec![-0.0; 3], ..tensor("same", DataType::Float, &[3]) },
        TensorProto { int64_data: words.into(), ..tensor("words", DataType::Int64, &[2]) },
    ];
    let named = |name: &str| ValueInfoProto { name: name.to_owned(), r#type: None };
    let graph = GraphProto {
        initializer,
        output: ["floats", "same", "words"].map(named).into(),
        ..Default::default()
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let model = ModelProto { graph: Some(graph), opset_import, ..Default::default() };
    std::fs::write(folder.path().join("m.onnx"), model.encode_to_vec()).unwrap();
    let plan = ["plan", "m.onnx", "--budget", "1MiB", "--board", "portable", "-o", "m.pack"];
    eyelet_in(folder.path(), &plan).text();
    assert!(eyelet_in(folder.path(), &["check", "m.pack"]).text().contains("sound"));
    let run = ["run", "m.pack", "--io", "buffered", "--runs", "2", "--output", "out"];
    eyelet_in(folder.path(), &run).text();
    let read = |name: &str| {
        eyelet_planner::npy::read(folder.path().join(format!("out/{name}.npy"))).unwrap()
    };
    let bits = |data: &[f32]| data.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!((read("floats").0, bits(&read("floats").1)), (vec![2, 2], bits(&floats)));
    assert_eq!((read("same").0, bits(&read("same").1)), (vec![3], bits(&[-0.0; 3])));
    let file = std::fs::read(folder.path().join("out/words.npy")).unwrap();
    assert!(file.ends_with(&words.map(i64::to_le_bytes).concat()));
}

#[test]
fn the_demo_compares_and_reads_a_digit() {
    let folder = folder();
    let args = ["demo", "--network", "squeezenet1_1", "--budget", "6MiB", "--runs", "1", "--json"];
    let temporary = folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_eyelet"))
        .args(args)
        .current_dir(folder.path())
        .env("TMPDIR", &temporary)
        .env("EYELET_CALIBRATE", "no")
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["identical"], true);
    assert_eq!(report["exact"][0]["output_digest"], report["exact"][1]["output_digest"]);
    assert!(report["runs"][0]["predicted_ms"].as_f64() > Some(0.0));
    // It needs what it takes, not what it might.
    assert!(report["runs"][1]["arena_bytes"].as_u64() < report["runs"][1]["budget_bytes"].as_u64());
    assert_eq!(report["digit"]["recognised"], report["digit"]["label"]);
    // Neither where it was started nor where it worked.
    for (left, entries) in [(folder.path(), 1), (&temporary, 0)] {
        assert_eq!(std::fs::read_dir(left).unwrap().count(), entries);
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = packed();
    let script = "exec 3>&1; { \"$0\" inspect digits.pack; echo code=$? >&3; } | true";
    let done = command::program("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_eyelet")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "code=0\n");
}

#[test]
fn chunks_tells_what_models_and_packs_waste() {
    let folder = packed();
    let args = ["gpu-chunks", "digits.onnx", "digits.pack", "--json"];
    let report = eyelet_in(folder.path(), &args).json();
    let files = report["files"].as_array().unwrap();
    assert_eq!(report["granularity_bytes"], 2 << 20);
    for file in files {
        let objects = &file["objects"];
        let number = |field: &str| objects[field].as_u64().unwrap();
        // All of this network is smaller than a chunk.
        assert_eq!((number("large"), number("apart_bytes")), (0, number("small") << 21));
        let covers = file["covers"].as_array().unwrap();
        assert_eq!(covers.len(), 8);
        for cover in covers {
            assert_eq!(cover["chunks"], 1);
            let waste = cover["waste_bytes"].as_u64().unwrap();
            assert_eq!(waste + number("range_bytes"), cover["chunk_bytes"].as_u64().unwrap());
        }
    }
    // The arenas of the pack's two plans, which are smaller than their budgets.
    let inspected = eyelet_in(folder.path(), &["inspect", "digits.pack", "--json"]).json();
    let plans = files[1]["plans"].as_array().unwrap();
    assert_eq!((files[0]["plans"].as_array().unwrap().len(), plans.len()), (0, 2));
    for (plan, other) in plans.iter().zip(inspected["plans"].as_array().unwrap()) {
        assert_eq!(plan["arena_bytes"], other["arena_bytes"]);
        assert_eq!(plan["covers"].as_array().unwrap().len(), 8);
    }
    let text = eyelet_in(folder.path(), &args[..3]).text();
    assert!(text.contains("digits.onnx") && text.contains("arena, 96 KiB"), "{text}");
    eyelet_in(folder.path(), &["gpu-chunks", "missing.onnx"])
        .fails(&["missing.onnx", "cannot read"]);
    eyelet_in(folder.path(), &["gpu-chunks", "."]).fails(&["it is a directory"]);
    eyelet_in(folder.path(), &["gpu-chunks"]).misused(&["FILE"]);
}
