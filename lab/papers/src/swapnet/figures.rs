//! SwapNet's ablations and micro-benchmarks (Fig. 15 to 18), lookup tables and objectives, as
//! Markdown.

use super::cells::{Error, ROW, each, mib, ms, percent, range};
use super::methods::{Method, Parts, outcome};
use super::scenarios::{ABLATIONS, Member, NANO, NX, SCENARIOS, SHRINKING, bytes, chain, subject};
use super::smallest::smallest_budget_of;
use super::table::{Table, Tables};
use eyelet_tasks::swapnet::blocks::{Budget, best, enumerate};
use eyelet_tasks::swapnet::chain::{Carry, Objective};
use std::fmt::Write;

pub fn ablations(text: &mut String) -> Result<(), Error> {
    let scenario = &SCENARIOS[0];
    text.push_str(
        "### Without its parts (Fig. 15, self-driving)\n\n\
         Memory in MiB and latency against all of SwapNet. Without scheduling, blocks are as equal \
         as layers permit, whatever the budget. What copies and dummy models cost is chosen, not \
         published, so only the order of the first two rows is meaningful.\n\n\
         | | ",
    );
    let names = scenario.members.iter().map(|member| format!("{} | ", member.name));
    text.extend(names);
    text.push_str("latency | published |\n|---|");
    text.push_str(&"---:|".repeat(scenario.members.len() + 2));
    text.push('\n');
    for (name, parts, [low, high]) in ABLATIONS {
        let changes = each(scenario, &scenario.published(), |_, subject| {
            let [all, without] =
                [subject.outcome(Method::Swap(Parts::ALL))?, subject.outcome(Method::Swap(parts))?];
            let memory = mib(without.memory_bytes) - mib(all.memory_bytes);
            Ok((memory, percent(all.latency_ns as f64, without.latency_ns as f64)))
        })?;
        write!(text, "| {name} | ").expect(ROW);
        text.extend(
            changes.iter().map(|(memory, latency)| format!("{memory:+.0}, {latency:+.1} % | ")),
        );
        let [least, most] = range(changes.iter().map(|(_, latency)| *latency));
        writeln!(text, "{least:+.1} … {most:+.1} % | +{low:.1} … +{high:.1} % |").expect(ROW);
    }
    text.push('\n');
    Ok(())
}

/// ResNet-101 on its own.
fn resnet() -> &'static Member {
    &SCENARIOS[2].members[1]
}

pub fn numbers_of_blocks(text: &mut String) -> Result<(), Error> {
    let chain = chain(resnet(), &NX);
    text.push_str(
        "### More blocks (Fig. 16, ResNet-101)\n\n\
         Each number of blocks with the smallest budget for which it is `⌈2·s/b⌉`, or that it \
         fits. Memory falls as published. Latency does not grow here: the first block is read \
         before anything computes, and of more blocks it is smaller. The model has no cost for a \
         block by itself.\n\n\
         | blocks | memory | latency (ms) | published |\n|---:|---:|---:|---:|\n",
    );
    for blocks in 3..=7 {
        let needed = smallest_budget_of(&chain, blocks, 0.0).ok_or("no partition")?;
        let most = needed.max((2 * chain.bytes()).div_ceil(blocks as u64));
        let found = best(&chain, blocks, most, Objective::Residuals).ok_or("no partition")?;
        let outcome = outcome(&chain, &found, 1);
        let published = if blocks == 3 { "111 MB, 466 ms" } else { "less memory, longer" };
        let (memory, latency) = (mib(outcome.memory_bytes), ms(outcome.latency_ns));
        writeln!(text, "| {blocks} | {memory:.0} | {latency:.0} | {published} |").expect(ROW);
    }
    text.push('\n');
    Ok(())
}

pub fn devices(text: &mut String) -> Result<(), Error> {
    text.push_str(
        "### Devices (Fig. 17, ResNet-101 in 119 MB)\n\n\
         What is longer is nearly all the read of the first block. The publication's first block \
         must have been smaller, or read before.\n\n\
         | device | DInf (ms) | SNet (ms) | longer | published |\n|---|---:|---:|---:|---:|\n",
    );
    for (device, published) in [(&NX, 15), (&NANO, 19)] {
        let layers = (resnet().layers)(resnet().side);
        let subject = subject(resnet(), &layers, device, bytes(119.0));
        let direct = ms(subject.outcome(Method::Direct)?.latency_ns);
        let swap = ms(subject.outcome(Method::Swap(Parts::ALL))?.latency_ns);
        let (name, longer) = (device.name, swap - direct);
        writeln!(text, "| {name} | {direct:.0} | {swap:.0} | +{longer:.0} ms | +{published} ms |")
            .expect(ROW);
    }
    text.push('\n');
    Ok(())
}

pub fn shrinking(text: &mut String) -> Result<(), Error> {
    let chain = chain(resnet(), &NX);
    let least = Budget { bytes: bytes(102.0), reserved: 0.0 };
    let tables = Tables::new(&chain, least, Objective::Residuals)?;
    text.push_str(
        "### A budget that shrinks (Fig. 18, ResNet-101)\n\n\
         | budget | blocks | published | cuts after | memory | latency (ms) | published |\n\
         |---:|---:|---:|---|---:|---:|---:|\n",
    );
    for (budget, published, latency) in SHRINKING {
        let found = tables.pick(bytes(budget))?;
        let outcome = outcome(&chain, &found, 1);
        let cuts: Vec<&str> = found.cuts.iter().map(|cut| chain.names[cut - 1].as_str()).collect();
        let latency = latency.map_or("–".to_owned(), |ms| format!("{ms:.0}"));
        writeln!(
            text,
            "| {budget:.0} | {} | {published} | {} | {:.0} | {:.0} | {latency} |",
            found.blocks(),
            cuts.join(", "),
            mib(outcome.memory_bytes),
            ms(outcome.latency_ns),
        )
        .expect(ROW);
    }
    text.push('\n');
    Ok(())
}

pub fn tables(text: &mut String) -> Result<(), Error> {
    text.push_str(
        "### Lookup tables\n\n\
         Rows of the published kind are all partitions; the publication's tables take 0.5 to \
         3.43 MB. Kept are \
         those that are the best for some budget.\n\n\
         | network | blocks | rows | KiB | kept rows | kept bytes |\n|---|---:|---:|---:|---:|---:|\n",
    );
    for member in SCENARIOS[0].members {
        let chain = chain(member, &NX);
        for blocks in [3, 4] {
            let table = Table::new(&chain, blocks, Objective::Residuals)?;
            writeln!(
                text,
                "| {} | {blocks} | {} | {:.0} | {} | {} |",
                member.name,
                table.rows,
                table.published_bytes() as f64 / 1024.0,
                table.front().len(),
                table.bytes(),
            )
            .expect(ROW);
        }
    }
    text.push('\n');
    Ok(())
}

/// What Eq. 4 chooses against Eq. 2, and against Eq. 4 taken literally.
pub fn objectives(text: &mut String) -> Result<(), Error> {
    text.push_str(
        "### What is minimised\n\n\
         Latency (ms) of the partition that Eq. 4 chooses, of the one that the latency of Eq. 2 \
         chooses, and of \
         the one that Eq. 4 chooses if residuals below 0 are carried as they are written. \
         Published budgets.\n\n\
         | application | network | Eq. 4 | predicted by it | Eq. 2 | Eq. 4, literally |\n\
         |---|---|---:|---:|---:|---:|\n",
    );
    for scenario in &SCENARIOS {
        let rows = each(scenario, &scenario.published(), |member, subject| {
            let chain = subject.chain(Parts::ALL);
            let most = subject.budget.most_bytes();
            let found = subject.partition(Parts::ALL)?;
            let blocks = found.blocks();
            let latency = best(&chain, blocks, most, Objective::Latency).ok_or("no partition")?;
            let literal = enumerate(&chain, blocks, most, Carry::Literal, Objective::Residuals)
                .ok_or("no partition")?;
            let [ours, latency, literal] = [&found, &latency, &literal]
                .map(|partition| ms(outcome(&chain, partition, 1).latency_ns));
            let predicted = ms(chain.latency_ns(&found.value));
            Ok(format!(
                "{} | {ours:.0} | {predicted:.0} | {latency:.0} | {literal:.0} |",
                member.name
            ))
        })?;
        for (index, row) in rows.iter().enumerate() {
            let name = if index == 0 { scenario.name } else { "" };
            writeln!(text, "| {name} | {row}").expect(ROW);
        }
    }
    text.push('\n');
    Ok(())
}
