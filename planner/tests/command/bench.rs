//! `eyelet bench`.

use crate::common::command::{Done, LARGE, SMALL, command, eyelet_in, packed};
use std::path::Path;
use std::process::Stdio;

fn bench(folder: &Path, args: &[&str]) -> Done {
    let quick = ["--io", "buffered", "--warmup", "0ms"];
    eyelet_in(folder, &[&["bench"], args, &quick].concat())
}

#[test]
fn a_pack_is_measured() {
    let folder = packed();
    let args = ["digits.pack", "--runs", "25", "--json", "--export", "each.csv"];
    let report = bench(folder.path(), &args).json();
    let program = &report["programs"][0];
    assert_eq!((&program["name"], &program["inferences"]), (&"digits.pack".into(), &25.into()));
    assert_eq!(program["pack"]["budget_bytes"], 1 << 20);
    let latency = |name: &str| program["latency_ms"][name].as_f64().unwrap();
    let rising = ["min", "p50", "p90", "p99", "max"].map(latency);
    assert!(rising[0] > 0.0 && rising.is_sorted(), "{program}");
    assert!(program["throughput"].as_f64() > Some(0.0));
    assert!(program["peak_rss_bytes"].as_u64() > program["pack"]["arena_bytes"].as_u64());
    let bins = program["histogram"].as_array().unwrap();
    assert_eq!(bins.iter().map(|bin| bin["inferences"].as_u64().unwrap()).sum::<u64>(), 25);
    let csv = std::fs::read_to_string(folder.path().join("each.csv")).unwrap();
    assert_eq!(csv.lines().count(), 26);
    assert!(csv.starts_with("program,inference,latency_ns\ndigits.pack,1,"), "{csv}");
    // The same bits as by `run`.
    let run = ["run", "digits.pack", "--io", "buffered", "--json"];
    let run = eyelet_in(folder.path(), &run).json();
    assert_eq!(run["output_digest"], program["pack"]["output_digest"]);

    let text = bench(folder.path(), &["digits.pack", "--runs", "5", "--budget", SMALL]).text();
    for part in
        ["digits.pack: ", "latency ", "99 % within", "inferences a second", "of 96 KiB", "#"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn packs_take_turns_and_models_are_planned() {
    let folder = packed();
    let plan = ["plan", "digits.onnx", "--budget", SMALL, "-o", "small.pack"];
    eyelet_in(folder.path(), &plan).text();
    let args = ["digits.onnx", "--compare", "small.pack", "--runs", "4", "--json"];
    let report = bench(folder.path(), &args).json();
    let [model, small] = &report["programs"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&model["name"], &small["name"]), (&"digits.onnx".into(), &"small.pack".into()));
    assert_eq!(model["pack"]["bytes_read_per_inference"], 0, "all weights stay");
    assert!(small["pack"]["bytes_read_per_inference"].as_u64() > Some(0));
    assert_eq!((&model["inferences"], &small["inferences"]), (&4.into(), &4.into()));
    let ratio = &report["ratios"][0];
    assert_eq!((&ratio["name"], &ratio["first"]), (&"small.pack".into(), &"digits.onnx".into()));
    assert!(
        ratio["least"].as_f64() <= ratio["most"].as_f64() && ratio["least"].as_f64() > Some(0.0)
    );

    let args = ["digits.onnx", "--budget", LARGE, "--runs", "2"];
    let text = bench(folder.path(), &args).text();
    assert!(text.contains("planned digits.onnx into"), "{text}");
    let left = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(left, 3, "two packs and a model");
}

#[test]
fn a_pack_in_turns_with_itself_has_two_names() {
    let folder = packed();
    let pack = "digits.pack";
    let args = [pack, "--compare", pack, "--compare", pack, "--runs", "1", "--export", "x.csv"];
    let report = bench(folder.path(), &[&args[..], &["--json"]].concat()).json();
    let names = ["digits.pack", "digits.pack (2)", "digits.pack (3)"];
    let programs = report["programs"].as_array().unwrap();
    assert!(programs.iter().map(|program| &program["name"]).eq(names), "{report}");
    assert_eq!(
        (&report["ratios"][1]["name"], &report["ratios"][1]["first"]),
        (&names[2].into(), &pack.into())
    );
    let csv = std::fs::read_to_string(folder.path().join("x.csv")).unwrap();
    let first = |line: &str| line.split(',').next().unwrap().to_owned();
    assert!(csv.lines().skip(1).map(first).eq(names), "{csv}");
}

#[test]
fn what_cannot_be_measured_is_said() {
    let folder = packed();
    bench(folder.path(), &["none.pack"]).fails(&["none.pack", "No such file"]);
    bench(folder.path(), &["digits.pack", "--budget", "1KiB"]).fails(&["no plan fits", "96 KiB"]);
    bench(folder.path(), &["digits.pack", "--compare", "digits.onnx"])
        .fails(&["digits.onnx", "not a pack"]);
    bench(folder.path(), &["digits.pack", "--export", "digits.pack"]).fails(&["would be replaced"]);
    bench(folder.path(), &["digits.pack", "--runs", "3", "--duration", "1s"]).misused(&["--runs"]);
    std::fs::rename(folder.path().join("digits.onnx"), folder.path().join("other.onnx")).unwrap();
    bench(folder.path(), &["digits.pack", "--against", "onnxruntime"])
        .fails(&["digits.onnx next to it", "give the model"]);
    // Without a python3 to be found.
    let args = ["bench", "other.onnx", "--against", "onnxruntime", "--warmup", "0ms"];
    let done = command()
        .args(args)
        .current_dir(folder.path())
        .env("PATH", folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert!(
        error.contains("python3 with onnxruntime and other.onnx: it cannot be started"),
        "{error}"
    );
}

#[test]
fn another_engine_is_a_program_like_others() {
    use std::os::unix::fs::PermissionsExt;
    let folder = packed();
    // It stands for a python3 that has onnxruntime.
    let python = folder.path().join("python3");
    let script = "#!/bin/sh\necho ready\nwhile read n; do echo 2000000 $(yes 1000000 | head -n $n); done\n\
                  echo '{\"version\": \"1.2\"}'\n";
    std::fs::write(&python, script).unwrap();
    std::fs::set_permissions(&python, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let args = [
        "bench",
        "digits.pack",
        "--against",
        "onnxruntime",
        "--runs",
        "3",
        "--io",
        "buffered",
        "--warmup",
        "0ms",
    ];
    let done = command()
        .args(args)
        .current_dir(folder.path())
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let error = String::from_utf8(done.stderr).unwrap();
    assert!(text.contains("python3 with onnxruntime and digits.onnx (1.2)"), "{text} {error}");
    assert!(text.contains("latency      1.000 ms (median of 3)"), "{text}");
    assert!(text.contains("times as long as digits.pack"), "{text}");
}
