//! Writes `lab/results/tasks.md`: RT-Swap's tables and figures, and the study, ours next to the published figures.
//!
//! `cargo run --release --manifest-path lab/Cargo.toml --bin results -- lab/results/tasks.md target/tasks-cache`
//! Results are kept in the folder by seed, so that a second run only writes.

use eyelet::tasks::Policy;
use eyelet_papers::rt_swap::costs::Approach;
use eyelet_papers::rt_swap::fig7::{self, Judge};
use eyelet_papers::rt_swap::study::{self, Judged};
use eyelet_papers::rt_swap::{base, case_study, fig4, table2};
use eyelet_papers::swapnet::report;
use eyelet_papers::sweep::{Cache, Progress};
use eyelet_tasks::generate::harder;
use eyelet_tasks::schedule::least_memory;
use eyelet_tasks::set::TaskSet;
use eyelet_tasks::set::file::{Declared, parse};
use eyelet_tasks::set::units::human_bytes;
use eyelet_tasks::volumes::search::Freedom;
use std::error::Error;
use std::fmt::Write;

const SEED: u64 = 1;
/// Simulated jobs of each admitted set.
const JOBS: u64 = 8000;

type Text = Result<String, Box<dyn Error>>;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(output), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("usage: results OUTPUT.md CACHE-FOLDER".into());
    };
    let cache = Cache::new(folder.into())?;
    let mut text = String::from(HEAD);
    text += &study_section(&cache)?;
    text += &memory_section()?;
    text += &fig7_section(&cache)?;
    text += &fig4_section()?;
    text += &table2_section()?;
    text += &case_section()?;
    text += &report::markdown()?;
    text += &on_this_host(&output);
    std::fs::write(output, text)?;
    Ok(())
}

const HEAD: &str = "# Results: task sets\n\n\
Written by `lab/benches/tasks/run.sh`; `lab/proofs/task-sets.md` explains model and tests. All random sets have seeds.\n\n";

/// What `lab/benches/tasks/serve.py` has measured, which stays: the end of the page.
fn on_this_host(output: &str) -> String {
    let before = std::fs::read_to_string(output).unwrap_or_default();
    before.find("\n## On this host\n").map_or(String::new(), |at| before[at + 1..].to_owned())
}

fn study_section(cache: &Cache) -> Text {
    let table3 = cache.each(
        &format!("table3-{SEED}-{JOBS}"),
        1000,
        &Progress::shown("1000 sets of Table III"),
        |k| study::table3(SEED, k, JOBS),
    )?;
    let harder = cache.each(
        &format!("harder-{SEED}-{JOBS}"),
        900,
        &Progress::shown("900 harder sets"),
        |k| study::harder(SEED, k, JOBS),
    )?;
    let mut text = String::from(
        "## Which sets each test admits\n\n\
         1000 sets of RT-Swap's Table III (100 for each of 4 to 13 tasks), and 900 harder ones: periods log-uniform \
         from 50 to 500 ms, computing at 30, 50 or 70 % of the time, 10, 25 or 40 % of all bytes beyond the memory, \
         storage at 2.5 GB/s. \"Before\" is an earlier study of sets drawn by the same rules.\n\n\
         | test | 1000 sets | before | 900 sets | before |\n|---|---:|---:|---:|---:|\n",
    );
    let count = |sets: &[Judged], test: usize| sets.iter().filter(|set| set.admitted[test]).count();
    let known = |count: Option<u64>| count.map_or(String::from("–"), |count| count.to_string());
    for (k, test) in study::TESTS.iter().enumerate() {
        let (ours, theirs) = (count(&table3, k), known(study::KNOWN_TABLE3[k]));
        writeln!(
            text,
            "| {test} | {ours} | {theirs} | {} | {} |",
            count(&harder, k),
            known(study::KNOWN_HARDER[k])
        )?;
    }
    let ceiling =
        |sets: &[Judged], of: fn(&Judged) -> bool| sets.iter().filter(|set| of(set)).count();
    writeln!(
        text,
        "| ceiling: one engine after the other | {} | – | {} | 711 |\n| ceiling: both engines | {} | – | {} | 880 |\n",
        ceiling(&table3, |set| set.serial_ceiling),
        ceiling(&harder, |set| set.serial_ceiling),
        ceiling(&table3, |set| set.engines_ceiling),
        ceiling(&harder, |set| set.engines_ceiling),
    )?;
    text += &by_pair(&harder)?;
    text += &simulated(&table3, &harder)?;
    Ok(text)
}

/// The harder sets by load and overflow.
fn by_pair(harder: &[Judged]) -> Text {
    let mut text = String::from(
        "Of the 900, by load and overflow (100 sets each):\n\n\
         | load | overflow | Theorem 1 | all our steps | ceiling, serial | ceiling, both |\n\
         |---:|---:|---:|---:|---:|---:|\n",
    );
    for (pair, sets) in harder.chunks(100).enumerate() {
        let (load, overflow) = (harder::LOADS[pair / 3], harder::OVERFLOWS[pair % 3]);
        let count = |of: &dyn Fn(&Judged) -> bool| sets.iter().filter(|set| of(set)).count();
        writeln!(
            text,
            "| {load} | {overflow} | {} | {} | {} | {} |",
            count(&|set| set.admitted[0]),
            count(&|set| set.admitted[6]),
            count(&|set| set.serial_ceiling),
            count(&|set| set.engines_ceiling),
        )?;
    }
    Ok(text + "\n")
}

fn simulated(table3: &[Judged], harder: &[Judged]) -> Text {
    let all = || table3.iter().chain(harder);
    let sum = |of: fn(&Judged) -> u64| all().map(of).sum::<u64>();
    let rejected: Vec<bool> = all().filter_map(|set| set.rejected_misses).collect();
    let missing = rejected.iter().filter(|&&misses| misses).count();
    let mut text = String::new();
    writeln!(
        text,
        "Every admitted assignment is simulated: all tasks at once, random offsets, random pauses, and shorter times. \
         **{} jobs, {} misses.** Sets that Theorem 1 admits, under RT-Swap's order: {} jobs, {} misses. Of {} sets that \
         the demand bound refuses although they fit the memory, {} miss in the simulation.\n",
        sum(|set| set.jobs),
        sum(|set| set.misses),
        sum(|set| set.published_jobs),
        sum(|set| set.published_misses),
        rejected.len(),
        missing,
    )?;
    Ok(text)
}

/// Sets that come with eyelet.
const SETS: &str = "examples/tasksets";

fn memory_section() -> Text {
    let mut text = String::from(
        "## Memory of SwapNet's three applications\n\n\
         The least memory in which our test admits the sets of `examples/tasksets`, next to all networks' bytes and the \
         published sum of budgets. The published system streams blocks; ours holds a network while it runs. In a file \
         all tasks have one period: nobody needs to preempt, and one level is enough. With YOLOv3 at a quarter of that \
         period its jobs cannot wait for the longest network. Then it stays in memory, or has a level of its own, or \
         the others stay where they compute after it.\n\n\
         | set | all | published | one level, by period | residents | levels | classes |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut files: Vec<_> = std::fs::read_dir(SETS)?.collect::<Result<_, _>>()?;
    files.sort_by_key(|file| file.file_name());
    for file in files
        .iter()
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
    {
        let none = &mut |_: &_, _: Option<&str>| Err(String::from("no packs here"));
        let Declared { set, chunk_sizes, .. } =
            parse(&file, &std::fs::read_to_string(&file)?, none)?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let mut urgent = set.clone();
        for task in urgent.tasks.iter_mut().filter(|task| task.name.starts_with("YOLOv3")) {
            task.period_ns /= 4;
            task.deadline_ns = task.period_ns;
        }
        text += &memory_row(&name, &set, &chunk_sizes)?;
        text += &memory_row(&format!("{name}, YOLOv3 urgent"), &urgent, &chunk_sizes)?;
    }
    Ok(text + "\n")
}

fn memory_row(name: &str, set: &TaskSet, chunk_sizes: &[u64]) -> Text {
    let all: u64 = set.tasks.iter().map(|task| task.cost.bytes).sum();
    let freedoms = [Freedom::ByPeriod, Freedom::Residents, Freedom::Levels, Freedom::Engines];
    let mut text = format!("| {name} | {} | {} |", human_bytes(all), human_bytes(set.memory_bytes));
    for freedom in freedoms {
        let least = least_memory(set, chunk_sizes, freedom);
        write!(text, " {} |", least.map_or(String::from("–"), human_bytes))?;
    }
    Ok(text + "\n")
}

fn fig7_section(cache: &Cache) -> Text {
    let mut text = String::from(
        "## RT-Swap, Fig. 7\n\nSets that Theorem 1 admits, of 100, with the volumes that each approach allows; \
         the last row is our test.\n\n(a) by number of tasks\n\n| approach |",
    );
    fig7::TASKS.clone().try_for_each(|tasks| write!(text, " {tasks} |"))?;
    text += " all |\n|---|";
    text += &"---:|".repeat(fig7::TASKS.count() + 1);
    text += "\n";
    let mut sums = Vec::new();
    for approach in Approach::ALL {
        let name = format!("fig7a-{}-{SEED}", approach.name());
        let progress = Progress::shown(&name);
        let points = cache
            .each(&name, 1, &Progress::hidden(), |_| fig7::by_tasks(approach, SEED, &progress))?;
        text += &points_row(approach.name(), &points[0])?;
        sums.push(points[0].iter().sum::<u64>() as f64);
    }
    let ours = cache.each(&format!("table3-{SEED}-{JOBS}"), 1000, &Progress::hidden(), |k| {
        study::table3(SEED, k, JOBS)
    })?;
    let of =
        |n: usize| ours.iter().skip(n).step_by(10).filter(|set| set.admitted[6]).count() as u64;
    text += &points_row("demand bound, clean", &(0..10).map(of).collect::<Vec<_>>())?;
    text += "\n| RT-Swap admits more than | ours | published |\n|---|---:|---:|\n";
    for ((approach, sum), published) in
        Approach::ALL.iter().zip(&sums).skip(1).zip(fig7::PUBLISHED_GAINS)
    {
        writeln!(
            text,
            "| {} | +{:.0} % | +{published:.0} % |",
            approach.name(),
            (sums[0] / sum - 1.0) * 100.0
        )?;
    }
    text += &reduced(cache)?;
    text += &sharper(cache)?;
    Ok(text)
}

fn points_row(name: &str, points: &[u64]) -> Text {
    let mut text = format!("| {name} |");
    points.iter().try_for_each(|count| write!(text, " {count} |"))?;
    writeln!(text, " {} |", points.iter().sum::<u64>())?;
    Ok(text)
}

/// Fig. 7(b).
fn reduced(cache: &Cache) -> Text {
    let mut text = String::from(
        "\n(b) by how much memory can shrink, sets of five tasks\n\n\
         | test | mean | first set lost at | published mean |\n|---|---:|---:|---:|\n",
    );
    let judges = Approach::ALL.map(|approach| (approach.name(), Judge::Published(approach)));
    for (name, judge) in judges.into_iter().chain([("demand bound, clean", Judge::DemandBound)]) {
        let file = format!("fig7b-{}-{SEED}", name.replace(' ', "-"));
        let progress = Progress::shown(&file);
        let cuts = cache
            .each(&file, 1, &Progress::hidden(), |_| fig7::tolerated(judge, SEED, &progress))?;
        let admitted = cuts[0].iter().flatten();
        let mean = fig7::mean(admitted.clone().map(|&cut| cut as f64));
        let first = admitted.min().map_or(0, |cut| cut + 1);
        let published = match judge {
            Judge::Published(Approach::RtSwap) => format!("{} %", fig7::PUBLISHED_CUT.0),
            Judge::Published(_) => format!("{} % (all others)", fig7::PUBLISHED_CUT.1),
            Judge::DemandBound => String::from("–"),
        };
        let lost = if first > 70 { String::from("beyond 70 %") } else { format!("{first} %") };
        writeln!(text, "| {name} | {mean:.1} % | {lost} | {published} |")?;
    }
    Ok(text)
}

/// Fig. 7(c).
fn sharper(cache: &Cache) -> Text {
    let mut text = String::from(
        "\n(c) share of ten tasks that can have the high resolution\n\n| approach | ours | published |\n|---|---:|---:|\n",
    );
    for approach in Approach::ALL {
        let file = format!("fig7c-{}-{SEED}", approach.name());
        let progress = Progress::shown(&file);
        let sharp = cache
            .each(&file, 1, &Progress::hidden(), |_| fig7::sharp(approach, SEED, &progress))?;
        let share = fig7::mean(sharp[0].iter().map(|&tasks| tasks as f64)) * 10.0;
        let published = match approach {
            Approach::RtSwap => format!("{} %", fig7::PUBLISHED_SHARP.0),
            _ => format!("{} % (all others)", fig7::PUBLISHED_SHARP.1),
        };
        writeln!(text, "| {} | {share:.1} % | {published} |", approach.name())?;
    }
    Ok(text + "\n")
}

fn fig4_section() -> Text {
    let mut text = String::from(
        "## RT-Swap, Fig. 4\n\n300 MB swapped out, by the fitted times: 0.0810 ms a megabyte and 0.0735 ms a chunk.\n\n\
         | chunk | ours | published |\n|---:|---:|---:|\n",
    );
    for chunk_mb in [2u32, 4, 8, 16, 32, 64, 128, 256] {
        let published = fig4::PUBLISHED_OUT_MS.iter().find(|(mb, _)| *mb == chunk_mb);
        let published = published.map_or(String::from("–"), |(_, ms)| format!("{ms} ms"));
        writeln!(
            text,
            "| {chunk_mb} MB | {:.1} ms | {published} |",
            fig4::swap_ms(300.0, f64::from(chunk_mb)).0
        )?;
    }
    let (out, into) = fig4::pageable_ms(300.0, 64.0);
    let (out2, into2) = fig4::swap_ms(300.0, 64.0);
    let (pageable, library) = (fig4::PUBLISHED_PAGEABLE_MS, fig4::PUBLISHED_LIBRARY_MS);
    writeln!(
        text,
        "\n| method, chunks of 64 MB | out, in | published |\n|---|---:|---:|\n\
         | pageable | {out:.1}, {into:.1} ms | {}, {} ms |\n| RT-Swap's library | {out2:.1}, {into2:.1} ms | {}, {} ms |\n",
        pageable.0, pageable.1, library.0, library.1
    )?;
    Ok(text)
}

fn table2_section() -> Text {
    let mut text = String::from(
        "## RT-Swap, Table II\n\nMemory with 2 MB chunks for each object. Sizes of single objects are not published: \
         ours are the bounds that counts and totals allow.\n\n\
         | network | objects below, from 2 MB | all | a chunk for each object: ours | published | one range: waste below |\n\
         |---|---:|---:|---:|---:|---:|\n",
    );
    for objects in &table2::OBJECTS {
        let (least, most) = table2::object_level_gb(objects);
        writeln!(
            text,
            "| {} | {}, {} | {} GB | {least:.1} to {most:.1} GB | {} GB | 0.002 GB |",
            objects.name, objects.small, objects.large, objects.total_gb, objects.object_level_gb
        )?;
    }
    Ok(text + "\n")
}

fn case_section() -> Text {
    let set = case_study::set(false);
    let total: u64 = set.tasks.iter().map(|task| task.cost.bytes).sum();
    let mut text = format!(
        "## RT-Swap, Table IV and Figs. 8 and 9\n\nSix tasks of {:.1} GB ({} GB published) in 24 GB, with the published \
         volumes: 576 MB for each ResNext, chunks of 32 MB. Responses of 20000 simulated jobs, in ms; published are \
         measured latencies, without waiting.\n\n\
         | order | task | least | median | 99 % | most | deadline | misses |\n|---|---|---:|---:|---:|---:|---:|---:|\n",
        total as f64 / 1e9,
        case_study::PUBLISHED_GB,
    );
    let clean = case_study::set(true);
    let runs = [
        ("RT-Swap's", &set, Policy::Regions),
        ("ours, same costs", &set, Policy::Steps),
        ("ours, clean eviction", &clean, Policy::Steps),
    ];
    for (name, set, policy) in runs {
        let outcome = case_study::run(set, &case_study::published(), policy, 20_000)?;
        for task in [0, 2, 4] {
            let [least, median, high, most] =
                case_study::percentiles_ms(&outcome.responses_ns[task]);
            writeln!(
                text,
                "| {name} | τ{} {} | {least:.0} | {median:.0} | {high:.0} | {most:.0} | {:.0} | {} |",
                task + 1,
                set.tasks[task].name,
                set.tasks[task].deadline_ns as f64 / 1e6,
                outcome.misses,
            )?;
        }
    }
    let paged = case_study::set(false);
    let faults = base::emulate(&paged);
    writeln!(
        text,
        "\nPublished worst latencies: τ1 33 ms with RT-Swap and 383 ms with Base, τ3 184 and 2172 ms; worst response with \
         Base {} ms. Under the driver's least-recently-used order a job of τ1 brings in up to {:.1} GB and one of τ3 \
         {:.1} GB by our emulation: all of the network, because each pushes out what is needed next.\n",
        case_study::PUBLISHED_BASE_RESPONSE_MS,
        faults[0] as f64 / 1e9,
        faults[2] as f64 / 1e9,
    )?;
    Ok(text)
}
