//! Sets that run on this machine: jobs, outputs, memory, faults. How long anything takes is not asserted.

use super::tasks::{names, networks, with_tasks};
use crate::common::command::{Done, command, eyelet_in, packed};
use eyelet::set::SetTask;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Stdio;

/// Serves by reads that every file system has. What the test says of a busy machine does not matter.
const QUICK: [&str; 7] = ["serve", "--io", "buffered", "--alone", "1", "--rehearsal", "0s"];

fn serve(folder: &Path, args: &[&str]) -> Done {
    eyelet_in(folder, &[&QUICK, args].concat())
}

/// A folder with a set of three networks that share the memory, of which each has a job every 20 ms.
fn shared() -> tempfile::TempDir {
    let folder = packed();
    networks(folder.path(), "320KiB", "20ms");
    folder
}

fn digest(folder: &Path, pack: &str) -> Value {
    let run = ["run", pack, "--io", "buffered", "--json"];
    eyelet_in(folder, &run).json()["output_digest"].clone()
}

/// Every job that arrived has ended or was lost, with the outputs of its network alone.
fn assert_served(report: &Value, arrived: u64) {
    let tasks = report["tasks"].as_array().unwrap();
    let sum = |key: &str| tasks.iter().map(|task| task[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("jobs") + sum("lost") + sum("failed"), arrived, "{report:#}");
    assert_eq!(report["outputs_as_alone"], true, "{report:#}");
    assert!(tasks.iter().all(|task| task["jobs"].as_u64() > Some(0)), "{report:#}");
    let memory = |key: &str| report["memory"][key].as_u64().unwrap();
    assert_eq!(memory("promised_bytes"), 320 << 10);
    // The arena, and code, stacks and numbers, which a slow machine has no more of.
    let more = memory("counted_bytes") - memory("promised_bytes");
    assert!(more < 16 << 20, "{more}");
}

#[test]
fn a_set_of_packs_and_models_is_served() {
    let folder = shared();
    let before = names(folder.path());
    let run = ["set.toml", "--anyway", "--duration", "400ms", "--json"];
    let report = serve(folder.path(), &run).json();
    // In 20 periods each task has a job at its offset and every 20 ms.
    assert_served(&report, 60);
    assert_eq!(names(folder.path()), before, "packs of models are gone");
    let chunks = |task: &Value| task["chunks_per_job"].as_f64().unwrap();
    assert!(report["tasks"].as_array().unwrap().iter().map(chunks).sum::<f64>() > 0.0, "{report}");
    let text = serve(folder.path(), &["set.toml", "--anyway", "--jobs", "5"]).text();
    assert!(text.contains("outputs      as alone: yes"), "{text}");
}

#[test]
fn a_set_in_one_file_is_served_with_the_digests_of_its_packs() {
    let folder = shared();
    networks(folder.path(), "320KiB", "1s");
    eyelet_in(folder.path(), &["schedule", "set.toml", "-o", "set.pack", "--jobs", "100"]).text();
    let before = names(folder.path());
    let run = |more: &[&str]| serve(folder.path(), &[&["set.pack", "--anyway"], more].concat());
    let admitted = run(&["--jobs", "3", "--json"]).json();
    assert_eq!(admitted["outputs_as_alone"], true, "{admitted:#}");
    assert_eq!(names(folder.path()), before);
    // Jobs that come more often than the set was decided for.
    let set = folder.path().join("set.pack");
    let often = |tasks: &mut [SetTask]| {
        for task in tasks {
            (task.period_ns, task.deadline_ns) = (20_000_000, 20_000_000);
        }
    };
    fs::write(&set, with_tasks(&fs::read(&set).unwrap(), often)).unwrap();
    let report = run(&["--duration", "200ms", "--trace", "out.json", "--json"]).json();
    assert_served(&report, 30);
    assert_eq!(report["pool"], admitted["pool"]);
    let alone = digest(folder.path(), "digits.pack");
    for task in report["tasks"].as_array().unwrap() {
        assert_eq!(task["output_digest"], alone);
    }
    let trace = fs::read_to_string(folder.path().join("out.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let jobs = events.iter().filter(|event| event["cat"] == "job").count();
    assert_eq!(Some(jobs as u64), report["jobs"].as_u64());
}

#[test]
fn faults_hit_their_task_only() {
    let folder = shared();
    let with = |fault: &str| {
        let run = ["set.toml", "--anyway", "--duration", "400ms", "--margin", "1.5", "--inject"];
        serve(folder.path(), &[&run[..], &[fault, "--json"]].concat()).json()
    };
    let report = with("io=given 1:every:2");
    let task = |report: &Value, k: usize, key: &str| report["tasks"][k][key].as_u64().unwrap();
    assert!(task(&report, 1, "failed") > 0, "{report:#}");
    assert_eq!((task(&report, 0, "failed"), task(&report, 2, "failed")), (0, 0), "{report:#}");
    let error = report["tasks"][1]["first_error"].as_str().unwrap();
    assert!(error.contains("system error 5"), "{error}");
    assert_eq!(report["outputs_as_alone"], true);
    let report = with("overload=planned here:50x");
    let overruns = &report["tasks"][0]["overruns"]["jobs"];
    assert_eq!(overruns["count"], report["tasks"][0]["jobs"], "{report:#}");
    assert!(overruns["worst_factor"].as_f64() > Some(10.0), "{report:#}");
    assert_eq!(report["costs_held"], false);
    let report = with("late=given 2:15ms");
    let least = |k: usize| report["tasks"][k]["response_ms"]["min"].as_f64().unwrap();
    assert!(least(2) >= 15.0, "{report:#}");
}

#[test]
fn a_set_that_cannot_be_served_says_why_and_leaves_nothing() {
    let folder = shared();
    let before = names(folder.path());
    let text = fs::read_to_string(folder.path().join("set.toml")).unwrap();
    let with = |from: &str, to: &str, args: &[&str]| {
        assert!(text.contains(from), "{from}");
        fs::write(folder.path().join("set.toml"), text.replace(from, to)).unwrap();
        serve(folder.path(), &[&["set.toml", "--trace", "set.json"], args].concat())
    };
    let refused = with("20ms", "2us", &[]);
    assert_eq!(refused.code, Some(1));
    for part in ["set.toml: the set is not schedulable", "--anyway"] {
        assert!(refused.err.contains(part), "{}", refused.err);
    }
    let asked = ["set.toml: memory: 900 GiB", "are asked for, and this machine has", "give less"];
    with("320KiB", "900GiB", &["--anyway"]).fails(&asked);
    with("digits.pack", "none.pack", &[]).fails(&["set.toml:13: pack: none.pack: cannot read"]);
    with("320KiB", "64KiB", &[]).fails(&["the network alone needs", "give more memory"]);
    with("4KiB", "4kB", &[]).fails(&["chunks of", "no whole pages"]);
    with("instances", "copies", &[]).fails(&["unknown field `copies`"]);
    fs::write(folder.path().join("empty.pack"), "").unwrap();
    serve(folder.path(), &["empty.pack"]).fails(&["empty.pack: it is empty, so it is no task set"]);
    fs::remove_file(folder.path().join("empty.pack")).unwrap();
    let no_set = ["digits.pack: it is no text, so it is no task set", "set's .toml file"];
    serve(folder.path(), &["digits.pack"]).fails(&no_set);
    eyelet_in(folder.path(), &["schedule", "digits.pack"]).fails(&no_set);
    let often = ["task \"planned here\": jobs arrive every 1 ns", "is the shortest"];
    with("20ms", "1ns", &["--anyway"]).fails(&often);
    let nothing = ["task \"planned here\" reads nothing", "less memory"];
    let io = ["--anyway", "--inject", "io=planned here:every:3"];
    with("320KiB", "4MiB", &io).fails(&nothing);
    let unknown = ["--inject", "late=nobody:1ms"];
    with("20ms", "20ms", &unknown)
        .fails(&["there is no task \"nobody\"", "planned here, given 1, given 2"]);
    with("20ms", "20ms", &["--inject", "late"]).misused(&["write overload=TASK:2x"]);
    with("20ms", "20ms", &["--networks", "2"]).misused(&["--trace"]);
    serve(folder.path(), &["set.toml", "--networks", "2"]).misused(&["--rates"]);
    serve(folder.path(), &["none"]).fails(&["cannot read none"]);
    assert_eq!(names(folder.path()), before);
}

/// The rehearsal measures what the run then counts, and it ends by itself.
#[test]
fn a_set_is_rehearsed_before_it_is_judged() {
    let folder = shared();
    let run = ["serve", "set.toml", "--io", "buffered", "--alone", "1", "--anyway", "--json"];
    let run = [&run[..], &["--jobs", "30", "--rehearsal", "1000s"]].concat();
    let report = eyelet_in(folder.path(), &run).json();
    let plans = report["costs"]["plans"].as_array().unwrap();
    let rehearsed = || plans.iter().filter(|plan| plan["rehearsed"] == true);
    assert!(rehearsed().count() > 0, "{report:#}");
    for plan in rehearsed() {
        let ns = |part: &str, key: &str| plan[part][key].as_u64().unwrap();
        assert!(ns("job", "samples") >= 1000, "{report:#}");
        assert!(ns("job", "counted_ns") > ns("job", "worst_ns"), "{report:#}");
        assert!(ns("step", "samples") >= 1000, "{report:#}");
    }
    let chunk = &report["costs"]["chunks"][0];
    assert_eq!(chunk["chunk_bytes"], 4096);
    assert!(chunk["read"]["samples"].as_u64() > Some(0), "{report:#}");
    assert!(report["costs"]["rule"].as_str().unwrap().contains("ln 1e9 / ln n"), "{report:#}");
    // What the rehearsal found is what the run is judged by.
    for task in report["tasks"].as_array().unwrap() {
        let counted = task["counted_ms"].as_f64().unwrap();
        let is_its = |plan: &Value| {
            let ns = plan["counted_job_ns"].as_f64().unwrap();
            plan["budget_bytes"] == task["budget_bytes"] && (counted - ns / 1e6).abs() < 1e-3
        };
        assert!(rehearsed().any(is_its), "{report:#}");
    }
    let text = serve(folder.path(), &["set.toml", "--anyway", "--jobs", "5"]).text();
    assert!(text.contains("costs        ") && text.contains("counted      median + "), "{text}");
}

/// A set that is refused says what it was judged by, as text and as an object.
#[test]
fn a_refused_set_prints_what_was_measured() {
    let folder = shared();
    networks(folder.path(), "320KiB", "2us");
    let done = serve(folder.path(), &["set.toml"]);
    assert_eq!(done.code, Some(1));
    for part in ["counted      median + ", "digits.pack, ", "a chunk of 4 KiB", "alone"] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    assert!(done.err.contains("set.toml: the set is not schedulable; "), "{}", done.err);
    assert!(done.err.contains("is late even alone: a job takes "), "{}", done.err);
    let done = serve(folder.path(), &["set.toml", "--json"]);
    let object: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((done.code, &object["admitted"]), (Some(1), &false.into()), "{object:#}");
    assert!(done.err.contains(object["error"].as_str().unwrap()), "{}", done.err);
    let plan = &object["costs"]["plans"][0];
    assert!(plan["job"]["worst_ns"].as_u64() > Some(0), "{object:#}");
    assert!(object["costs"]["chunks"][0]["read"]["counted_ns"].as_u64() > Some(0), "{object:#}");
}

/// With a right to real-time priorities a set runs as without one; otherwise the error says what is missing.
#[test]
fn a_priority_is_given_or_refused_with_what_it_needs() {
    let folder = shared();
    let run = ["set.toml", "--anyway", "--duration", "200ms", "--priority", "1"];
    let done = serve(folder.path(), &[&run[..], &["--json"]].concat());
    match eyelet_in(folder.path(), &["run", "digits.pack", "--io", "buffered", "--priority", "1"]) {
        allowed if allowed.code == Some(0) => assert_served(&done.json(), 30),
        forbidden => {
            forbidden.fails(&["real-time priority 1", "CAP_SYS_NICE"]);
            serve(folder.path(), &run).fails(&["real-time priority 1", "ulimit -r"]);
        }
    }
    serve(folder.path(), &["set.toml", "--priority", "0"]).misused(&["--priority"]);
}

#[test]
fn requests_at_random_are_served_for_numbers_of_networks() {
    let folder = shared();
    let run =
        ["set.toml", "--rates", "100,200", "--networks", "1,4", "--duration", "200ms", "--json"];
    let report = serve(folder.path(), &run).json();
    let points = report["points"].as_array().unwrap();
    let found: Vec<_> =
        points.iter().map(|point| (point["networks"].as_u64(), point["rate"].as_f64())).collect();
    let expected = [(1, 100.0), (1, 200.0), (4, 100.0), (4, 200.0)];
    assert_eq!(found, expected.map(|(networks, rate)| (Some(networks), Some(rate))));
    for point in points {
        assert!(point["jobs"].as_u64() > Some(0) && point["outputs_as_alone"] == true, "{point}");
    }
    let text = serve(folder.path(), &["set.toml", "--rates", "100", "--duration", "100ms"]).text();
    assert!(text.contains("requests at random"), "{text}");
}

#[test]
fn a_signal_ends_the_run_with_its_report() {
    let folder = shared();
    let mut child = command();
    child
        .args(QUICK)
        .args(["set.toml", "--anyway", "--json", "--duration", "1000s"])
        .current_dir(folder.path());
    let child = child.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    // Until the command catches the signal: SIGINT is the second.
    let catches = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask & 2 > 0)
    };
    while !catches() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{done:?}");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(report["stopped"], true);
    assert!(names(folder.path()).iter().all(|name| !name.starts_with('.')));
}

#[test]
fn jobs_that_never_begin_are_lost() {
    let folder = shared();
    let late = ["--duration", "100ms", "--inject", "late=given 2:100s", "--json"];
    let report = serve(folder.path(), &[&["set.toml", "--anyway"], &late[..]].concat()).json();
    // In 5 periods each task has 5 jobs.
    let task = &report["tasks"][2];
    assert_eq!((task["jobs"].as_u64(), task["lost"].as_u64()), (Some(0), Some(5)), "{report:#}");
    assert_eq!(task["missed"], 5, "{report:#}");
}
