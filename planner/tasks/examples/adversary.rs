//! Attacks the schedulability tests with the scheduler of the device, in every order and every mode.
//!
//! `cargo run --release -p eyelet-tasks --example adversary -- [JOBS [SEED]]`: as many jobs in each mode, 10^7 by default.
//! Exits with 1, and prints a set, if a job is late.

use eyelet::tasks::Policy;
use eyelet_tasks::adversary::{Found, attack, modes};
use indicatif::{ProgressBar, ProgressStyle};
use std::process::ExitCode;

/// Sets that are drawn at a time.
const SETS: u64 = 400;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|text| text.replace('_', "").parse::<u64>());
    let (jobs, seed) = match (arguments.next(), arguments.next()) {
        (None, None) => (10_000_000, 1),
        (Some(Ok(jobs)), None) => (jobs, 1),
        (Some(Ok(jobs)), Some(Ok(seed))) => (jobs, seed),
        _ => {
            eprintln!("usage: adversary [JOBS [SEED]]");
            return ExitCode::from(2);
        }
    };
    println!(
        "| order | mode | sets | jobs | misses | beyond bound | response / bound, most |\n|---|---|---:|---:|---:|---:|---:|"
    );
    let mut missed = false;
    for policy in [Policy::Steps, Policy::Classes, Policy::Regions] {
        for &mode in modes(policy) {
            let bar = ProgressBar::new(jobs).with_style(style());
            let mut found = Found::default();
            let mut first = seed * 1_000_000_000;
            while found.jobs < jobs {
                let more = attack(policy, mode, first..first + SETS, |jobs| bar.inc(jobs));
                found = found.and(more);
                first += SETS;
            }
            bar.finish_and_clear();
            let Found { sets, jobs, misses, beyond, closest, miss } = &found;
            println!(
                "| {policy:?} | {} | {sets} | {jobs} | {misses} | {beyond} | {closest:.3} |",
                mode.name()
            );
            if let Some(set) = miss {
                let first = set.outcome.first_miss;
                println!(
                    "\nlate: {first:?}, pool {}, seed {}\n{:#?}\n",
                    set.pool, set.seed, set.tasks
                );
                missed = true;
            }
        }
    }
    ExitCode::from(u8::from(missed))
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} jobs, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
}
