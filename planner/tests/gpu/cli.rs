//! `eyelet run --device`: what it says without CUDA, without a driver, without a GPU, and on one.

use crate::common::command::{Done, command, eyelet_in, packed};
use std::path::Path;

/// Runs the command with other variables in its environment.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))]
fn with(folder: &Path, variables: &[(&str, &str)], args: &[&str]) -> Done {
    let done = command()
        .args(args)
        .envs(variables.iter().copied())
        .current_dir(folder)
        .output()
        .expect("the command starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Done { code: done.status.code(), out: text(done.stdout), err: text(done.stderr) }
}

#[test]
fn devices_are_named_as_they_should_be() {
    let folder = packed();
    for device in ["gpu", "cuda:", "cuda:x"] {
        let args = ["run", "digits.pack", "--device", device];
        eyelet_in(folder.path(), &args).misused(&["cpu, cuda, or cuda:N"]);
    }
    // The processor, said so.
    let args = ["run", "digits.pack", "--io", "buffered", "--device", "cpu"];
    eyelet_in(folder.path(), &args).text();
}

#[cfg(not(feature = "cuda"))]
#[test]
fn without_cuda_it_says_how_to_have_it() {
    let folder = packed();
    let args = ["run", "digits.pack", "--io", "buffered", "--device", "cuda"];
    let done = eyelet_in(folder.path(), &args);
    done.fails(&["this eyelet was built without CUDA: build it with --features cuda"]);
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::*;

    /// Less than the weights.
    const BUDGET: &str = "96KiB";

    /// Runs a pack on the fake driver that the tests are run with, which behaves so.
    fn run(folder: &Path, pack: &str, behaviour: &str, more: &[&str]) -> Done {
        let args = [&["run", pack, "--io", "buffered"], more].concat();
        with(folder, &[("EYELET_FAKE_CUDA", behaviour)], &args)
    }

    fn plan(folder: &Path, pack: &str, more: &[&str]) {
        let args = ["plan", "digits.onnx", "--exact", "--budget", BUDGET, "-o", pack];
        eyelet_in(folder, &[&args, more].concat()).text();
    }

    #[test]
    fn no_driver_and_no_gpu() {
        let folder = packed();
        plan(folder.path(), "cuda.pack", &["--board", "jetson-nano", "--device", "cuda"]);
        let nowhere = folder.path().to_str().unwrap();
        let args = ["run", "cuda.pack", "--io", "buffered", "--device", "cuda"];
        let done = with(folder.path(), &[("LD_LIBRARY_PATH", nowhere)], &args);
        // Where a driver is installed, that one is found.
        if done.code != Some(0) {
            done.fails(&["no GPU: "]);
        }
        run(folder.path(), "cuda.pack", "devices=0", &[])
            .fails(&["no GPU: the driver", "finds none"]);
        let more = ["--device", "cuda:7"];
        run(folder.path(), "cuda.pack", "", &more).fails(&["there is no GPU number 7"]);
        let old = run(folder.path(), "cuda.pack", "driver=9020", &[]);
        old.fails(&["for CUDA 9.2", "update the driver"]);
    }

    #[test]
    fn both_modes_give_the_processors_digest() {
        let folder = packed();
        plan(folder.path(), "cpu.pack", &[]);
        let digest = |done: Done| done.json()["output_digest"].as_str().unwrap().to_owned();
        let want = digest(run(folder.path(), "cpu.pack", "", &["--json"]));
        let integrated = ["--board", "jetson-nano", "--device", "cuda"];
        let staged = [&integrated[..], &["--memory", "staged"]].concat();
        for (pack, mode, board, gpu) in [
            ("shared.pack", "zero-copy", &integrated[..], "integrated=1"),
            ("shared.pack", "zero-copy", &integrated, "integrated=0"),
            ("own.pack", "staged", &["--board", "gpu-host"], "integrated=0"),
            ("cached.pack", "staged", &staged, "integrated=1"),
        ] {
            plan(folder.path(), pack, board);
            let gpu = format!("{gpu},seed=3");
            let report = run(folder.path(), pack, &gpu, &["--json", "--runs", "3"]).json();
            assert_eq!(report["output_digest"], want.as_str(), "{mode}");
            let gpu = &report["gpu"];
            assert!(report["bytes_read_per_inference"].as_u64().unwrap() > 0, "{mode}: it streams");
            assert_eq!(gpu["memory_mode"], mode);
            assert!(gpu["host_bytes"].as_u64().unwrap() > 4096, "{gpu}");
            let [arena, device] =
                [&report["arena_bytes"], &gpu["device_bytes"]].map(|bytes| bytes.as_u64().unwrap());
            assert!(mode != "staged" || device > 0 && device < 2 * arena, "{gpu}");
            let text = run(folder.path(), pack, "", &[]).text();
            assert!(text.contains("driver for CUDA ") && text.contains(mode), "{text}");
        }
    }

    /// The host's memory for a GPU with one of its own: tables, ring and mirrors.
    #[test]
    fn a_run_takes_of_the_host_what_its_plan_says() {
        let folder = packed();
        let mut small_rings = 0;
        for budget in ["72KiB", "80KiB", "92KiB", "96KiB", "1MiB"] {
            let args = ["plan", "digits.onnx", "--board", "gpu-host", "--budget", budget, "--json"];
            let args = [&args[..], &["--effort", "fast", "-o", "own.pack"]].concat();
            let planned = eyelet_in(folder.path(), &args).json();
            let said = |key| planned["plans"][0][key].as_u64().unwrap();
            let report = run(folder.path(), "own.pack", "", &["--json"]).json();
            let all = said("tables_bytes") + said("staging_bytes") + said("mirror_bytes");
            assert_eq!(report["gpu"]["host_bytes"], all, "{budget}");
            small_rings += u32::from(said("bytes_read_per_inference") < said("staging_bytes"));
        }
        assert!(small_rings > 1, "{small_rings}");
    }

    /// What streams nothing runs in the mode of the other plans of its pack.
    #[test]
    fn a_plan_that_streams_nothing_runs_beside_those_that_do() {
        let folder = packed();
        for (board, integrated, mode) in
            [("jetson-nano", "integrated=0", "zero-copy"), ("gpu-host", "integrated=1", "staged")]
        {
            let target = ["--board", board, "--device", "cuda", "-o", "two.pack"];
            let args = ["plan", "digits.onnx", "--budget", BUDGET, "16MiB"];
            eyelet_in(folder.path(), &[&args[..], &target].concat()).text();
            let report = run(folder.path(), "two.pack", integrated, &["--json"]).json();
            assert_eq!(report["bytes_read_per_inference"], 0, "{board}");
            assert_eq!(report["gpu"]["memory_mode"], mode, "{board}");
        }
    }

    #[test]
    fn a_plan_that_streams_nothing_computes_where_it_was_planned_for() {
        let folder = packed();
        for (mode, on_integrated, on_its_own) in
            [("zero-copy", "zero-copy", "staged"), ("staged", "staged", "staged")]
        {
            let board = [
                "--board",
                "jetson-nano",
                "--device",
                "cuda",
                "--budget",
                "4MiB",
                "-o",
                "all.pack",
            ];
            let args = [&["plan", "digits.onnx", "--memory", mode][..], &board].concat();
            eyelet_in(folder.path(), &args).text();
            for (gpu, expected) in [("integrated=1", on_integrated), ("integrated=0", on_its_own)] {
                let report = run(folder.path(), "all.pack", gpu, &["--json"]).json();
                assert_eq!(report["bytes_read_per_inference"], 0);
                assert_eq!(report["gpu"]["memory_mode"], expected, "{mode} {gpu}");
            }
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let folder = packed();
        plan(folder.path(), "cuda.pack", &["--board", "gpu-host"]);
        let on_cpu = run(folder.path(), "cuda.pack", "", &["--device", "cpu"]);
        on_cpu.fails(&["the pack is for a GPU", "--device cuda"]);
        let on_gpu = run(folder.path(), "digits.pack", "", &["--device", "cuda"]);
        on_gpu.fails(&["the pack is for a processor", "--device cpu"]);
        for option in ["--threads=1", "--trace=x.json"] {
            let name = option.split('=').next().unwrap();
            run(folder.path(), "cuda.pack", "", &[option]).fails(&[name, "a GPU computes"]);
        }
    }

    /// In both modes, on either GPU: the GPU's times of layers, whatever their number is beside that of moments.
    #[test]
    fn layers_are_timed_by_the_gpu() {
        let folder = packed();
        for (board, behaviour) in [
            (&["--board", "jetson-nano", "--device", "cuda"][..], "integrated=1,delay_us=1000"),
            (&["--board", "gpu-host"], "delay_us=1000"),
        ] {
            plan(folder.path(), "cuda.pack", board);
            let more = ["--layers", "--runs", "3", "--warmup", "1", "--json"];
            let report = run(folder.path(), "cuda.pack", behaviour, &more).json();
            let layers = report["layers"].as_array().unwrap();
            assert!(!layers.is_empty());
            for layer in layers {
                let [steps, compute] = [&layer["steps"], &layer["compute_ms"]["min"]];
                // The fake driver takes a millisecond for each kernel, after it was issued; each step has one or more.
                let ms = steps.as_f64().unwrap();
                assert!(compute.as_f64().unwrap() >= 0.99 * ms, "{layer}");
            }
            let text = run(folder.path(), "cuda.pack", "", &["--layers"]).text();
            assert!(text.contains("waiting ms"), "{text}");
        }
        let failing = "fail=cuEventElapsedTime:719:9";
        let done = run(folder.path(), "cuda.pack", failing, &["--layers", "--runs", "2"]);
        done.fails(&["inference 1", "cuEventElapsedTime returned error 719"]);
    }

    #[test]
    fn budgets_change_on_a_gpu() {
        let folder = packed();
        plan(folder.path(), "cpu.pack", &[]);
        let want = run(folder.path(), "cpu.pack", "", &["--json"]).json()["output_digest"].clone();
        for (mode, behaviour, board) in [
            ("zero-copy", "integrated=1", &["--board", "jetson-nano", "--device", "cuda"][..]),
            // The plan of 1 MiB streams nothing; the others say what the memory is.
            ("zero-copy", "integrated=0", &["--board", "jetson-nano", "--device", "cuda"]),
            (
                "staged",
                "integrated=1",
                &["--board", "jetson-nano", "--device", "cuda", "--memory", "staged"],
            ),
            ("staged", "integrated=0", &["--board", "gpu-host"]),
        ] {
            let board = [board, &["--budget", "88KiB", "--budget", "1MiB"]].concat();
            plan(folder.path(), "cuda.pack", &board);
            let more = ["--budgets", "96KiB,2MiB,88KiB", "--runs-each", "3"];
            let report =
                run(folder.path(), "cuda.pack", behaviour, &[&more[..], &["--json"]].concat())
                    .json();
            assert_eq!(
                (&report["gpu"]["memory_mode"], &report["threads"]),
                (&mode.into(), &1.into())
            );
            let phases = report["phases"].as_array().unwrap();
            let budgets = phases.iter().map(|phase| phase["plan_budget_bytes"].as_u64().unwrap());
            assert_eq!(budgets.collect::<Vec<_>>(), [96 << 10, 1 << 20, 88 << 10]);
            for phase in phases {
                assert_eq!(phase["output_digest"], want, "{mode} {behaviour}: {phase}");
                assert_eq!(
                    (&phase["given_back_bytes"], &phase["taken_bytes"]),
                    (&0.into(), &0.into())
                );
            }
            assert!(phases[1]["switch"]["resident_read_bytes"].as_u64().unwrap() > 0, "{report}");
            let text = run(folder.path(), "cuda.pack", behaviour, &more).text();
            assert!(text.contains("driver for CUDA ") && text.contains("executing"), "{text}");
        }
    }

    #[test]
    fn errors_of_the_driver_have_their_names() {
        let folder = packed();
        plan(folder.path(), "cuda.pack", &["--board", "gpu-host"]);
        for (behaviour, parts) in [
            ("fail=cuLaunchKernel:1:5", &["inference 1", "cuLaunchKernel returned error 1"][..]),
            ("fail=cuLaunchKernel:719:5", &["returned error 719"]),
            ("fail=cuMemcpyHtoDAsync:700:2", &["returned error 700"]),
            ("memory=65536", &["bytes of memory of the GPU", "smaller budget"]),
        ] {
            run(folder.path(), "cuda.pack", behaviour, &[]).fails(parts);
        }
    }
}
