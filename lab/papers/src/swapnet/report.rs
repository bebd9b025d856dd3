//! SwapNet's tables, ours beside the published figures, as a section of Markdown.

use super::budgets::shares;
use super::cells::{Error, ROW, each, mib, ms, percent, range};
use super::figures;
use super::methods::{Method, Outcome, Parts, Subject};
use super::scenarios::{Member, NX, SCENARIOS, Scenario, bytes, chain};
use super::smallest::smallest_budget_of;
use super::timeline::{Run, Storage, run};
use eyelet_tasks::swapnet::blocks::{count, smallest_budget};
use eyelet_tasks::swapnet::chain::Block;
use std::fmt::Write;

/// The whole section.
pub fn markdown() -> Result<String, Error> {
    let mut text = String::from(INTRODUCTION);
    budgets(&mut text)?;
    floors(&mut text)?;
    for scenario in &SCENARIOS {
        methods(&mut text, scenario)?;
    }
    figures::ablations(&mut text)?;
    figures::numbers_of_blocks(&mut text)?;
    figures::devices(&mut text)?;
    figures::shrinking(&mut text)?;
    figures::tables(&mut text)?;
    figures::objectives(&mut text)?;
    Ok(text)
}

const INTRODUCTION: &str = "\
## SwapNet: three applications

All sizes are MiB. Nothing here was measured on the publication's devices. Sizes follow from the networks,
times from the delay model with the rates of `lab/papers/src/swapnet/scenarios.rs`, of which few are published.
So compare memory in numbers and latency in order of magnitude.
[How it works, and where it differs](../papers/swapnet.md).

";

fn budgets(text: &mut String) -> Result<(), Error> {
    text.push_str(
        "### Budgets\n\n\
         Eq. 1 alone, Eq. 1 with the floors of Eq. 3, the published budgets, and the \
         memory divided in proportion to size (VGG-19 excepted, which keeps its published budget).\n\n\
         | application | network | size | Eq. 1 | floor | Eq. 1 with floors | published \
         | ours against it | by size |\n|---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for scenario in &SCENARIOS {
        let demands = scenario.demands(&NX);
        let alone = shares(&demands)?;
        let with_floors = scenario.budgets(&NX)?;
        let is_vgg = |member: &Member| member.name == "VGG-19";
        let vgg = scenario.members.iter().filter(|member| is_vgg(member));
        let left = scenario.memory_mib - vgg.map(|member| member.budget_mib).sum::<f64>();
        let others = scenario.members.iter().filter(|member| !is_vgg(member));
        let part = left / others.map(|member| member.mib).sum::<f64>();
        for (index, member) in scenario.members.iter().enumerate() {
            let by_size = match is_vgg(member) {
                true => String::from("–"),
                false => format!("{:.0}", part * member.mib),
            };
            let ours = mib(with_floors[index]);
            writeln!(
                text,
                "| {} | {} | {:.1} | {:.0} | {:.0} | {ours:.0} | {:.0} | {:+.0} % | {by_size} |",
                if index == 0 { scenario.name } else { "" },
                member.name,
                mib(demands[index].bytes),
                alone[index] * scenario.memory_mib,
                mib(demands[index].floor),
                member.budget_mib,
                percent(member.budget_mib, ours),
            )
            .expect(ROW);
        }
    }
    text.push('\n');
    Ok(())
}

/// How VGG-19's published budget can be explained.
fn floors(text: &mut String) -> Result<(), Error> {
    let vgg = chain(&SCENARIOS[0].members[0], &NX);
    let three = smallest_budget_of(&vgg, 3, 0.0).ok_or("VGG-19 has three layers and more")?;
    writeln!(
        text,
        "Eq. 3 explains VGG-19's published 475 MiB. Its largest neighbours take {:.1} MiB, which is \
         a floor of {:.1} MiB with δ = 4 %, if it may be cut into more blocks than `⌈2·s/b⌉ = {}`. \
         In three blocks it takes {:.1} MiB without δ. The published percentages of memory (56.9 % \
         of 2 · 548 MiB, 35.7 % of 2 · 367 MiB) both say 472 MiB: so it ran in three blocks. The \
         other budgets are what is left, in proportion to size.\n",
        mib(vgg.floor().2),
        mib(smallest_budget(&vgg, 0.04)),
        count(&vgg, bytes(475.0)),
        mib(three),
    )
    .expect(ROW);
    Ok(())
}

/// What all methods take of a member.
struct All {
    direct: Outcome,
    channels: Outcome,
    pruned: Option<Outcome>,
    swap: Outcome,
}

fn all(member: &Member, subject: &Subject<'_>) -> Result<All, Error> {
    let pruned = member.pruned_mib.map(|mib| subject.outcome(Method::Pruned(bytes(mib))));
    Ok(All {
        direct: subject.outcome(Method::Direct)?,
        channels: subject.outcome(Method::Channels)?,
        pruned: pruned.transpose()?,
        swap: subject.outcome(Method::Swap(Parts::ALL))?,
    })
}

fn methods(text: &mut String, scenario: &Scenario) -> Result<(), Error> {
    let results = each(scenario, &scenario.published(), all)?;
    let ours = each(scenario, &scenario.budgets(&NX)?, all)?;
    let blocks: Vec<Vec<Block>> = results.iter().map(|all| all.swap.blocks.clone()).collect();
    let shared: Vec<i64> = run(&blocks, Storage::Shared).iter().map(Run::latency_ns).collect();
    let name = scenario.name;
    writeln!(
        text,
        "### {name}: memory and latency\n\n\
         With the published budgets. `SNet, one drive` has all networks begin at once and share \
         the drive. `SNet, our budgets` has those of Eq. 1 with floors.\n\n\
         | network | budget | blocks | | DInf | TPrg | DCha | SNet | SNet, one drive \
         | SNet, our budgets |\n\
         |---|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    )
    .expect(ROW);
    for (index, member) in scenario.members.iter().enumerate() {
        let All { direct, channels, pruned, swap } = &results[index];
        let of = |outcome: &Outcome| mib(outcome.memory_bytes);
        let dash =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.0}"));
        let count = match member.blocks {
            Some(published) => format!("{} (published {published})", swap.blocks.len()),
            None => swap.blocks.len().to_string(),
        };
        writeln!(
            text,
            "| {} | {:.0} | {count} | MiB | {:.0} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            member.name,
            member.budget_mib,
            of(direct),
            dash(pruned.as_ref().map(of)),
            of(channels),
            of(swap),
            of(swap),
            of(&ours[index].swap),
        )
        .expect(ROW);
        let of = |outcome: &Outcome| ms(outcome.latency_ns);
        writeln!(
            text,
            "| | | | ms | {:.0} | {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            of(direct),
            dash(pruned.as_ref().map(of)),
            of(channels),
            of(swap),
            ms(shared[index]),
            of(&ours[index].swap),
        )
        .expect(ROW);
    }
    saved(text, scenario, &results);
    Ok(())
}

/// The published ranges, and ours over the same networks.
fn saved(text: &mut String, scenario: &Scenario, results: &[All]) {
    let saves = |other: &dyn Fn(&All) -> Option<u64>| {
        let saves = results
            .iter()
            .filter_map(|all| Some(-percent(other(all)? as f64, all.swap.memory_bytes as f64)));
        let [low, high] = range(saves);
        if low > high { "–".to_owned() } else { format!("{low:.1} … {high:.1} %") }
    };
    let ours = [
        saves(&|all| Some(all.direct.memory_bytes)),
        saves(&|all| Some(all.pruned.as_ref()?.memory_bytes)),
        saves(&|all| Some(all.channels.memory_bytes)),
    ];
    text.push_str("\n| | ours | published |\n|---|---:|---:|\n");
    for ((other, ours), [low, high]) in
        ["DInf", "TPrg", "DCha"].iter().zip(ours).zip(scenario.saves)
    {
        writeln!(text, "| memory saved against {other} | {ours} | {low:.1} … {high:.1} % |")
            .expect(ROW);
    }
    let longer = results.iter().map(|all| ms(all.swap.latency_ns - all.direct.latency_ns));
    let ([low, high], [from, to]) = (range(longer), scenario.longer_ms);
    writeln!(text, "| longer than DInf | {low:.0} … {high:.0} ms | {from:.0} … {to:.0} ms |\n")
        .expect(ROW);
}
