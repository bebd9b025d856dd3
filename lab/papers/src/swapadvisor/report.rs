//! The paper's figures next to what this implementation finds on its own graphs and simulator, as Markdown.

use super::genetic::{Found, Individual, Options, Searched, plan, search};
use super::graph::Graph;
use super::graphs::{figure_1, inference, unrolled_rnn};
use super::pool::Pool;
use super::simulate::{Link, seconds};
use super::swap::{Scheduled, Victim};
use eyelet::kernels::Isa;
use eyelet_model::network::Network;
use eyelet_model::{import, passes, zoo};
use std::fmt::Write;
use std::time::Duration;

/// The testbed's connection: 12 GB/s in one direction, 20 in both.
const PCIE: Link = Link { one_way: 12e9, both_ways: 20e9 };
/// The V100's memory.
const V100: u64 = 16_000_000_000;

/// Table 2: seconds of an inference of ResNet-152 by memory in MB and batch, where the paper has them.
const TABLE_2: [(u64, [Option<f64>; 3]); 5] = [
    (64, [Some(0.024), None, None]),
    (128, [Some(0.022), Some(0.077), None]),
    (192, [Some(0.018), Some(0.044), None]),
    (512, [Some(0.017), Some(0.040), Some(0.238)]),
    (640, [Some(0.017), Some(0.040), Some(0.123)]),
];
const BATCHES: [u64; 3] = [1, 16, 64];

/// How long each search may take.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    pub limit: Duration,
    pub seed: u64,
}

type Failure = Box<dyn std::error::Error>;

/// All tables. `progress` is told what is searched, and the best time after each generation.
pub fn markdown(effort: Effort, progress: &mut dyn FnMut(&str, f64)) -> Result<String, Failure> {
    let mut text = String::new();
    example(&mut text)?;
    table_2(&mut text, effort, progress)?;
    training(&mut text, effort, progress)?;
    Ok(text)
}

/// Figure 1, in units.
fn example(text: &mut String) -> Result<(), Failure> {
    let graph = figure_1();
    let unit = Link { one_way: 1e6, both_ways: 2e6 };
    writeln!(text, "## Figure 1: a graph of 12 MB in 10 MB\n")?;
    writeln!(
        text,
        "| order | pool | best plan (paper, and exhaustive search here), units | planned here |"
    )?;
    writeln!(text, "|---|---|---:|---:|")?;
    let coarse = Pool { classes: vec![1, 1], counts: vec![5] };
    let fine = Pool { classes: vec![1, 2], counts: vec![8, 1] };
    for (order, schedule) in
        [("right first", [0, 2, 3, 4, 1, 5]), ("left first", [0, 1, 2, 3, 4, 5])]
    {
        for (name, pool) in [("fine", &fine), ("coarse", &coarse)] {
            let best = if (order, name) == ("right first", "fine") { 6 } else { 7 };
            let planned = Scheduled::new(&graph, &schedule, pool, Victim::Belady { recent: 2 });
            let made =
                planned.first_plan().and_then(|plan| seconds(&graph, &schedule, &plan, unit));
            writeln!(text, "| {order} | {name} | {best} | {} |", cell(made, 1.0, 0))?;
        }
    }
    Ok(())
}

/// A number in a table.
fn cell(value: Option<f64>, times: f64, digits: usize) -> String {
    value.map_or("N/A".into(), |value| format!("{:.digits$}", value * times))
}

fn resnet152() -> Result<Network, Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("resnet152.onnx");
    zoo::write("resnet152", 1, &path)?;
    let graph = import::import(&path).map_err(|error| error.to_string())?;
    Ok(passes::lower(&graph, Isa::Portable)?)
}

fn searched(
    graph: &Graph,
    options: Options,
    name: &str,
    progress: &mut dyn FnMut(&str, f64),
) -> Found {
    search(graph, options, |_, best| progress(name, best))
}

/// The paper's options in this memory.
fn options(capacity: u64, effort: Effort) -> Options {
    let Effort { limit, seed } = effort;
    Options { seed, limit: Some(limit), generations: usize::MAX, ..Options::new(capacity, PCIE) }
}

fn table_2(
    text: &mut String,
    effort: Effort,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<(), Failure> {
    let network = resnet152()?;
    writeln!(text, "\n## Table 2: inference of ResNet-152, milliseconds, theirs and ours\n")?;
    writeln!(text, "| memory, MB | batch 1 | batch 16 | batch 64 |\n|---:|---|---|---|")?;
    let graphs = BATCHES.map(|batch| inference(&network, batch));
    for (megabytes, theirs) in TABLE_2 {
        write!(text, "| {megabytes} ")?;
        for ((graph, batch), theirs) in graphs.iter().zip(BATCHES).zip(theirs) {
            let name = format!("ResNet-152, batch {batch}, {megabytes} MB");
            let found = searched(graph, options(megabytes * 1_000_000, effort), &name, progress);
            let ours = Some(found.best.seconds).filter(|seconds| seconds.is_finite());
            write!(text, "| {} / {} ", cell(theirs, 1e3, 0), cell(ours, 1e3, 1))?;
        }
        writeln!(text, "|")?;
    }
    let ideal = graphs.each_ref().map(|graph| cell(Some(graph.ideal_seconds()), 1e3, 1));
    writeln!(text, "| without end | {} |", ideal.join(" | "))?;
    let weights =
        graphs[0].tensors.iter().filter(|tensor| tensor.kind == super::graph::Kind::Parameter);
    let weights: u64 = weights.map(|tensor| tensor.bytes).sum();
    writeln!(
        text,
        "\nThe weights are {} MB. Reading all of them takes {:.1} ms at 12 GB/s, so that an inference in 64 MB takes at least {:.1} ms.",
        weights / 1_000_000,
        weights as f64 / PCIE.one_way * 1e3,
        (weights - 64_000_000) as f64 / PCIE.one_way * 1e3
    )?;
    Ok(())
}

/// What an online system makes of the order that a framework has: a class for each size, the least recently used leaves.
fn on_demand(graph: &Graph, capacity: u64) -> Option<f64> {
    let pool = Pool::plain(graph, capacity);
    let schedule: Vec<usize> = (0..graph.operators.len()).collect();
    let made = Individual { schedule, pool, seconds: 0.0 };
    let plan = plan(graph, &made, Victim::Lru)?;
    seconds(graph, &made.schedule, &plan, PCIE)
}

fn training(
    text: &mut String,
    effort: Effort,
    progress: &mut dyn FnMut(&str, f64),
) -> Result<(), Failure> {
    writeln!(text, "\n## Training in 16 GB, by simulation: share of the ideal throughput\n")?;
    writeln!(
        text,
        "| graph | operators, sizes, GB | as published | on demand | pools alone | schedules alone | both | generations | evaluations a second |"
    )?;
    writeln!(text, "|---|---|---|---:|---:|---:|---:|---:|---:|")?;
    // The paper does not state how long its sequences are: 100 give about its memory.
    let long = (
        "RNN-8-8K, batch 256, 100 times",
        "8594, 7, 118: 70 to 80 %, on demand below 1 %, pools alone 7 % of both",
        unrolled_rnn(8, 100, 8192, 256),
    );
    let short = ("RNN-8-8K, batch 256, 20 times", "none", unrolled_rnn(8, 20, 8192, 256));
    for (name, published, graph) in [long, short] {
        let ideal = graph.ideal_seconds();
        let share = |seconds: Option<f64>| {
            let share = seconds.filter(|s| s.is_finite()).map(|seconds| ideal / seconds);
            share.map_or("N/A".into(), |share| format!("{:.1} %", 100.0 * share))
        };
        let parts = [Searched::Pools, Searched::Schedules, Searched::Both].map(|part| {
            let options = Options { searched: part, ..options(V100, effort) };
            searched(&graph, options, &format!("{name}: {part:?}"), progress)
        });
        let [pools, schedules, both] = parts;
        writeln!(
            text,
            "| {name} | {}, {}, {:.0} | {published} | {} | {} | {} | {} | {} | {:.0} |",
            graph.operators.len(),
            graph.sizes().len(),
            graph.bytes() as f64 / 1e9,
            share(on_demand(&graph, V100)),
            share(Some(pools.best.seconds)),
            share(Some(schedules.best.seconds)),
            share(Some(both.best.seconds)),
            both.history.len(),
            both.evaluations as f64 / both.took.as_secs_f64()
        )?;
    }
    Ok(())
}
