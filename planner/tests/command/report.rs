//! `eyelet plan --report`: the page says what is in the pack, needs nothing else, and works in a browser.
//!
//! The browser is Chromium: that of `EYELET_BROWSER`, or one that is found. Where that variable or `CI` is set,
//! a browser that does not start is a failure; elsewhere the tests that need one say so and pass.

use crate::common::command::{LARGE, SMALL, digits, eyelet_in, folder};
use bytes::Bytes;
use eyelet_planner::import::onnx::ModelProto;
use prost::Message;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

/// The page of a model, and what it draws.
fn report(folder: &Path, model: &str) -> (String, Value) {
    let options = ["--budget", SMALL, "--budget", LARGE, "--threads", "2"];
    report_with(folder, model, &options)
}

fn report_with(folder: &Path, model: &str, options: &[&str]) -> (String, Value) {
    let args = [&["plan", model, "-o", "a.pack", "--report", "a.html"], options].concat();
    eyelet_in(folder, &args).text();
    let page = std::fs::read_to_string(folder.join("a.html")).unwrap();
    let data = data_of(&page);
    (page, data)
}

/// What a page draws.
fn data_of(page: &str) -> Value {
    let mark = "<script type=\"application/json\" id=\"data\">";
    let start = page.find(mark).expect("data") + mark.len();
    let end = start + page[start..].find("</script>").expect("the end of data");
    serde_json::from_str(&page[start..end]).expect("JSON")
}

fn numbers(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|number| number.as_i64().unwrap()).collect()
}

#[test]
fn the_data_are_those_of_the_pack() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    let (page, data) = report(folder.path(), "d.onnx");
    assert!(page.len() < 100_000, "{} bytes", page.len());
    let inspected = eyelet_in(folder.path(), &["inspect", "a.pack", "--json"]).json();
    let (plans, packed) = (data["plans"].as_array().unwrap(), &inspected["plans"]);
    assert_eq!(plans.len(), 2);
    let layers = inspected["layers"].as_array().unwrap().len();
    for (plan, packed) in plans.iter().zip(packed.as_array().unwrap()) {
        assert_eq!(plan["budget"], packed["budget_bytes"]);
        assert_eq!(plan["steady_ms"], packed["predicted_ms"]);
        assert_eq!(plan["read_bytes"], packed["bytes_read_per_inference"]);
        assert_eq!(plan["layer_loads"].as_array().unwrap().len(), layers);
        let steps = &plan["steps"];
        assert_eq!(numbers(&steps["time"]).len() as u64, packed["steps"].as_u64().unwrap());
        // Waiting and computing fill an inference.
        let sum: i64 = numbers(&steps["wait"]).iter().chain(&numbers(&steps["time"])).sum();
        assert_eq!(sum, plan["period"].as_i64().unwrap());
        let pages: i64 = numbers(&plan["loads"]["pages"]).iter().sum();
        assert_eq!(pages * 4096, plan["read_bytes"].as_i64().unwrap());
        // Every load is read by some step, and every layer's weights come from somewhere.
        assert!(numbers(&plan["loads"]["first"]).iter().all(|step| *step >= 0));
        assert!(numbers(&plan["residents"]["first"]).iter().all(|step| *step >= 0));
        for layer in 0..layers {
            let bytes = inspected["layers"][layer]["weights_bytes"].as_u64().unwrap();
            let stays = plan["layer_resident"][layer].as_u64().unwrap();
            assert!(stays == bytes || plan["layer_loads"][layer].as_u64().unwrap() > 0);
        }
    }
    // The graph: a chain from the input on, in which everything is read but the output.
    let sources = data["layers"]["sources"].as_array().unwrap();
    assert_eq!(sources.len(), layers);
    for (layer, read) in sources.iter().enumerate() {
        let read = numbers(read);
        assert!(read.is_sorted() && read.iter().all(|source| (*source as usize) < layer));
        assert_eq!(read.is_empty(), layer == 0, "{sources:?}");
    }
    let is_read =
        |layer: &usize| sources.iter().any(|read| numbers(read).contains(&(*layer as i64)));
    assert_eq!((0..layers).filter(is_read).count(), layers - 1);
    // The curve passes through the pack's plans, above its bound.
    let curve = &data["curve"];
    let (budgets, predicted) =
        (numbers(&curve["budgets"]), curve["predicted_ms"].as_array().unwrap());
    assert!(budgets.is_sorted() && budgets.len() > 5);
    for plan in plans {
        let at = budgets.iter().position(|b| *b == plan["budget"].as_i64().unwrap()).unwrap();
        assert_eq!(predicted[at], plan["steady_ms"]);
    }
    for (predicted, bound) in predicted.iter().zip(curve["bounds_ms"].as_array().unwrap()) {
        assert!(predicted.as_f64().unwrap() >= bound.as_f64().unwrap() - 1e-9);
    }
}

#[test]
fn rings_are_as_large_as_their_lines() {
    let folder = folder();
    eyelet_in(folder.path(), &["zoo", "squeezenet1_1", "-o", "s.onnx"]).text();
    // Less than the first activations take as a whole.
    let options = ["--threads", "1", "--effort", "fast", "--budget", "1.5MiB", "2MiB"];
    let (_, data) = report_with(folder.path(), "s.onnx", &options);
    // Each of the eight fire modules reads two convolutions' outputs where they were concatenated.
    let sources = data["layers"]["sources"].as_array().unwrap();
    assert_eq!(sources.iter().filter(|read| numbers(read).len() == 2).count(), 8, "{sources:?}");
    let inspected = eyelet_in(folder.path(), &["inspect", "a.pack", "--json"]).json();
    let plans = data["plans"].as_array().unwrap().iter();
    for (plan, packed) in plans.zip(inspected["plans"].as_array().unwrap()) {
        let column = |name: &str| numbers(&plan["buffers"][name]);
        let places = || column("bytes").into_iter().zip(column("lines"));
        let mut drawn: Vec<(i64, i64)> = places().filter(|(_, lines)| *lines > 0).collect();
        let ring = |ring: &Value| [&ring["bytes"], &ring["lines"]].map(|n| n.as_i64().unwrap());
        let rings = packed["rings"].as_array().unwrap().iter().map(ring);
        let mut rings: Vec<(i64, i64)> = rings.map(|[bytes, lines]| (bytes, lines)).collect();
        drawn.sort_unstable();
        rings.sort_unstable();
        assert!(!drawn.is_empty());
        assert_eq!(drawn, rings);
        let end = column("address").iter().zip(places()).map(|(at, (bytes, _))| at + bytes).max();
        assert!(end <= plan["arena"].as_i64());
        assert!(plan["bound_ms"].as_f64() <= plan["steady_ms"].as_f64());
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    let args = ["plan", "d.onnx", "--budget", LARGE, "--report", "missing/a.html"];
    eyelet_in(folder.path(), &args).fails(&["cannot write missing/a.html"]);
}

/// Runs Chromium on a page; what the page has become, and what it said on the console.
fn open(page: &Path, size: &str, dark: bool) -> Option<(String, Vec<String>)> {
    let wanted = std::env::var("EYELET_BROWSER").ok();
    let required = wanted.is_some() || std::env::var_os("CI").is_some();
    let known = ["chromium", "chromium-browser", "google-chrome"].map(str::to_owned);
    let profile = folder();
    for browser in wanted.map_or(known.to_vec(), |browser| vec![browser]) {
        let mut command = Command::new(&browser);
        command.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
        ]);
        command.args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]);
        command.args([
            "--enable-logging=stderr",
            "--v=0",
            "--dump-dom",
            "--virtual-time-budget=4000",
        ]);
        command.args([
            format!("--window-size={size}"),
            format!("--user-data-dir={}", profile.path().display()),
        ]);
        if dark {
            command.arg("--blink-settings=preferredColorScheme=0");
        }
        let Ok(done) =
            command.arg(format!("file://{}", page.display())).stdin(Stdio::null()).output()
        else {
            continue;
        };
        let console = String::from_utf8_lossy(&done.stderr);
        let said =
            console.lines().filter(|line| line.contains("CONSOLE")).map(str::to_owned).collect();
        return Some((String::from_utf8_lossy(&done.stdout).into_owned(), said));
    }
    assert!(!required, "no browser could be started, and one is required");
    eprintln!("no Chromium here: the page was not opened");
    None
}

/// Plays with everything there is, and writes down what went wrong and how long it took.
const PLAY: &str = include_str!("report/play.js");

/// Opens a page, light and dark, on a desktop and on a phone, and plays with it. Returns how many
/// plans had a row of residents that opens, if there is a browser.
fn play(folder: &Path, page: &str, layers: usize) -> Option<usize> {
    let path = folder.join("played.html");
    let plans = data_of(page)["plans"].as_array().unwrap().len();
    std::fs::write(&path, page.replace("</body>", &format!("<script>{PLAY}</script></body>")))
        .unwrap();
    let mut folds = None;
    for (size, dark) in [("1280,900", false), ("500,900", true)] {
        let (dom, said) = open(&path, size, dark)?;
        assert_eq!(said, Vec::<String>::new());
        let drawn = format!("data-drawn=\"{plans}\"");
        assert!(dom.contains(&drawn), "nothing was drawn: {dom:.2000}");
        assert!(dom.contains("data-wrong=\"\""), "{dom:.300}");
        assert_eq!(dom.matches("<tr").count(), layers + 1);
        let found = dom.split_once("data-folds=\"").and_then(|(_, rest)| rest.split_once('"'));
        folds = found.and_then(|(count, _)| count.parse().ok());
        assert!(folds.is_some(), "{dom:.300}");
    }
    folds
}

#[test]
fn copies_are_a_channel_of_their_own() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    let options = ["--budget", SMALL, "--budget", LARGE, "--board", "gpu-host"];
    let (page, data) = report_with(
        folder.path(),
        "d.onnx",
        &[&options[..], &["--strategy", "on-demand"]].concat(),
    );
    for plan in data["plans"].as_array().unwrap() {
        let (loads, copies) = (&plan["loads"], &plan["copies"]);
        let times = numbers(&copies["time"]);
        assert!(times.len() > 1 && times.len() == numbers(&loads["time"]).len());
        assert!(plan["copy_ms"].as_f64() > Some(0.0) && plan["staging_bytes"].as_u64() > Some(0));
        // A copy comes after its read: both are differences, from the start of the inference on.
        let ends = |rows: &Value| -> Vec<i64> {
            let (waits, times) = (numbers(&rows["wait"]), numbers(&rows["time"]));
            let lengths = waits.into_iter().zip(times).map(|(wait, time)| wait + time);
            lengths
                .scan(0, |end, length| {
                    Some({
                        *end += length;
                        *end
                    })
                })
                .collect()
        };
        let arrived = ends(copies).into_iter().zip(&times).map(|(end, time)| end - time);
        assert!(ends(loads).iter().zip(arrived).all(|(read, copy)| *read <= copy + 1));
    }
    play(folder.path(), &page, data["layers"]["names"].as_array().unwrap().len());
}

#[test]
fn it_opens_in_a_browser_without_an_error() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    let (page, data) = report(folder.path(), "d.onnx");
    let folds = play(folder.path(), &page, data["layers"]["names"].as_array().unwrap().len());
    // All weights stay in the larger budget.
    assert!(folds.is_none_or(|folds| folds > 0), "no row of residents");
}

#[test]
fn names_stay_names() {
    const NAMES: [&str; 4] = [
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "\"'`${alert(2)}\\u003c\u{2028}",
        "<img src=x onerror=alert(3)>&lt;b&gt;",
    ];
    let folder = folder();
    let mut model = ModelProto::decode(Bytes::from(std::fs::read(digits()).unwrap())).unwrap();
    let graph = model.graph.as_mut().unwrap();
    graph.name = NAMES[0].to_owned();
    for node in &mut graph.node {
        node.name = format!("{} {}", NAMES.concat(), node.name);
    }
    std::fs::write(folder.path().join("d.onnx"), model.encode_to_vec()).unwrap();
    let (page, data) = report(folder.path(), "d.onnx");
    assert_eq!(data["network"], NAMES[0]);
    let names = data["layers"]["names"].as_array().unwrap();
    let is_whole = |name: &Value| name.as_str().unwrap().starts_with(&NAMES.concat());
    assert!(names.iter().filter(|name| is_whole(name)).count() >= 4, "{names:?}");
    assert_eq!(page.matches("<script").count(), 2);
    assert!(!page.contains("<img") && !page.contains("<!--"));
    play(folder.path(), &page, names.len());
}

#[test]
fn a_run_is_shown_next_to_its_prediction() {
    let folder = folder();
    std::fs::copy(digits(), folder.path().join("d.onnx")).unwrap();
    report(folder.path(), "d.onnx");
    let run = [
        "run", "a.pack", "--budget", SMALL, "--io", "buffered", "--runs", "3", "--report", "b.html",
    ];
    let text = eyelet_in(folder.path(), &run).text();
    assert!(text.contains("wrote b.html") && !text.contains("GFLOP/s"), "{text}");
    let page = std::fs::read_to_string(folder.path().join("b.html")).unwrap();
    let data = data_of(&page);
    let plans = data["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 1);
    let measured = &plans[0]["measured"];
    assert_eq!(measured["runs"], 3);
    assert!(measured["latency_ms"].as_f64() > Some(0.0));
    let layers = data["layers"]["names"].as_array().unwrap().len();
    for times in ["layer_compute_ms", "layer_stall_ms"] {
        assert_eq!(measured[times].as_array().unwrap().len(), layers);
    }
    assert!(data["curve"].is_null(), "a run plans nothing");
    play(folder.path(), &page, layers);
}

#[test]
fn an_error_on_the_console_is_seen() {
    let folder = folder();
    let path = folder.path().join("broken.html");
    std::fs::write(&path, "<script>nonsense()</script>").unwrap();
    if let Some((_, said)) = open(&path, "800,600", false) {
        assert!(said.iter().any(|line| line.contains("nonsense is not defined")), "{said:?}");
    }
}
