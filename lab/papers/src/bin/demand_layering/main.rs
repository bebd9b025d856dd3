//! Prints the published evaluation of Demand Layering next to what its pipelines give in simulation: the tables of
//! lab/papers/demand-layering.md.

mod darknet;
mod published;

use eyelet_published::demand::Pipeline;
use published::{PIPELINES, SIDE, SUBJECTS};

const MIB: f64 = (1 << 20) as f64;

fn main() {
    println!("| network | pipeline | MB | memory, published | delay (ms) | overhead | published |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    for subject in &SUBJECTS {
        let timed = subject.timed(subject.side(SIDE));
        let preloaded = timed.preloaded();
        let (mb, ms) = (preloaded.memory_bytes as f64 / MIB, preloaded.delay_ns as f64 / 1e6);
        println!("| {} | Pre | {mb:.1} | | {ms:.1} | | |", subject.name);
        for ((name, pipeline, least), published) in PIPELINES.into_iter().zip(subject.published) {
            let outcome = timed.outcome(pipeline, least);
            let change = outcome.against(&preloaded);
            println!(
                "| | {name} | {:.1} ({:+.1} %) | {:+.1} % | {:.1} | {:+.1} % | {:+.1} % |",
                outcome.memory_bytes as f64 / MIB,
                change.memory,
                published.memory,
                outcome.delay_ns as f64 / 1e6,
                change.delay,
                published.delay,
            );
        }
    }
    println!(
        "\n| network | pixels | Pre (ms) | 2S | 2S-MD | MB of 2S-MD |\n|---|---:|---:|---:|---:|---:|"
    );
    for subject in &SUBJECTS {
        for side in [224, 320, 416, 512, SIDE].map(|side| subject.side(side)) {
            let timed = subject.timed(side);
            let preloaded = timed.preloaded();
            let [two, least] = [false, true].map(|least| timed.outcome(Pipeline::TwoStage, least));
            println!(
                "| {} | {side} | {:.1} | {:+.1} % | {:+.1} % | {:.1} |",
                subject.name,
                preloaded.delay_ns as f64 / 1e6,
                two.against(&preloaded).delay,
                least.against(&preloaded).delay,
                least.memory_bytes as f64 / MIB,
            );
        }
    }
}
