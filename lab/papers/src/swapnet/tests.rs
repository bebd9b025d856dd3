//! Random networks: tables, budgets and timelines against what they must be.

use super::budgets::{BudgetError, Demand, budgets, shares};
use super::methods::{Method, Parts, even};
use super::scenarios::{MIB, NX, SCENARIOS, bytes, chain, subject};
use super::smallest::{smallest_as_published, smallest_budget_of};
use super::table::{Table, Tables};
use super::timeline::{Storage, alone, run};
use eyelet_tasks::swapnet::blocks::{
    Budget, Partition, best, count, partition, partitions, smallest_budget,
};
use eyelet_tasks::swapnet::chain::{Block, Chain, Objective};
use eyelet_tasks::swapnet::delays::Times;
use eyelet_tasks::swapnet::dynamic;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn block(bytes: u64, [in_ns, ex_ns, out_ns]: [i64; 3]) -> Block {
    Block { bytes, times: Times { in_ns, ex_ns, out_ns } }
}

fn chain_of(blocks: &[Block]) -> Chain {
    let layers = blocks.iter().enumerate();
    Chain::new("random", layers.map(|(layer, block)| (format!("layer{layer}"), *block)))
}

/// Layers, some of them much larger or slower than others.
fn chains(most: usize) -> impl Strategy<Value = Chain> {
    let time = || prop_oneof![Just(0i64), 0i64..20, 0i64..300];
    let layer = (prop_oneof![Just(0u64), 1u64..20, 1u64..300], [time(), time(), time()]);
    let layers =
        prop::collection::vec(layer.prop_map(|(bytes, times)| block(bytes, times)), 1..most);
    layers.prop_map(|layers| chain_of(&layers))
}

const OBJECTIVES: [Objective; 2] = [Objective::Residuals, Objective::Latency];

proptest! {
    #![proptest_config(config())]

    /// The smallest budgets are the smallest.
    #[test]
    fn a_byte_less_than_the_smallest_budget_fails(chain in chains(12), reserved in 0.0..0.3f64) {
        for blocks in 1..=chain.len() {
            let smallest = smallest_budget_of(&chain, blocks, reserved).unwrap();
            let fits = |bytes| dynamic::fits(&chain, blocks, Budget { bytes, reserved }.most_bytes());
            prop_assert!(fits(smallest));
            prop_assert!(smallest == 0 || !fits(smallest - 1) || chain.bytes() == 0);
        }
        let published = smallest_as_published(&chain, reserved);
        prop_assert!(published >= smallest_budget(&chain, reserved));
        let fits = |bytes| {
            dynamic::fits(&chain, count(&chain, bytes), Budget { bytes, reserved }.most_bytes())
        };
        prop_assert!((0..published.min(2000)).all(|less| !fits(less) || chain.bytes() == 0));
    }

    /// A table gives for each budget what a search for that budget gives.
    #[test]
    fn tables_are_searches_for_all_budgets(
        chain in chains(11), blocks in 1usize..6, mosts in prop::collection::vec(0u64..2000, 8),
    ) {
        for objective in OBJECTIVES {
            let table = Table::new(&chain, blocks, objective).unwrap();
            prop_assert_eq!(table.rows, partitions(chain.len(), blocks));
            for &most in &mosts {
                let searched = best(&chain, blocks, most, objective);
                let key = |partition: &Partition| objective.key(&partition.value);
                prop_assert_eq!(table.pick(most).map(key), searched.as_ref().map(key));
            }
        }
    }

    /// Whatever a budget changes to, a table that was made before has the partition.
    #[test]
    fn adapting_is_planning_anew(chain in chains(12), shares in prop::collection::vec(0.0..2.0f64, 6)) {
        let least = Budget { bytes: smallest_budget(&chain, 0.1).max(1), reserved: 0.1 };
        let tables = Tables::new(&chain, least, Objective::Residuals).unwrap();
        for share in shares {
            let budget = Budget { bytes: (chain.bytes() as f64 * share) as u64, ..least };
            let anew = partition(&chain, budget, Objective::Residuals);
            let picked = tables.pick(budget.bytes);
            let key = |found: Partition| {
                (found.blocks(), Objective::Residuals.key(&found.value))
            };
            prop_assert_eq!(picked.map(key), anew.map(key));
        }
    }

    /// Eq. 4 is what happens, but that reads of one network do not overlap: so it is never later
    /// than that.
    #[test]
    fn a_timeline_is_no_earlier_than_predicted(chain in chains(14), blocks in 1usize..8) {
        let Some(found) = best(&chain, blocks, u64::MAX, Objective::Latency) else { return Ok(()) };
        let parts = chain.blocks(&found.cuts);
        let run = alone(&parts);
        // The last swap-out is awaited by Eq. 4, not by the answer.
        let tail = parts.iter().rev().nth(1).map_or(0, |block| block.times.out_ns);
        prop_assert!(run.latency_ns() + tail >= chain.latency_ns(&found.value));
        prop_assert!(run.most_bytes(&parts) <= found.value.most_bytes);
        let busy = chain.whole().times;
        prop_assert!(run.latency_ns() >= busy.ex_ns.max(busy.in_ns));
        prop_assert!(run.latency_ns() <= busy.ex_ns + busy.in_ns + busy.out_ns);
    }

    /// One drive for all makes no network faster, and reads never overlap.
    #[test]
    fn a_shared_drive_serves_one_at_a_time(
        chains in prop::collection::vec(chains(8), 1..5), blocks in 1usize..4,
    ) {
        let cut = |chain: &Chain| chain.blocks(&even(chain, blocks.min(chain.len())).cuts);
        let networks: Vec<Vec<Block>> = chains.iter().map(cut).collect();
        let [own, shared] = [Storage::Own, Storage::Shared].map(|storage| run(&networks, storage));
        for (own, shared) in own.iter().zip(&shared) {
            prop_assert!(own.latency_ns() <= shared.latency_ns());
        }
        let mut reads: Vec<_> = shared.iter().flat_map(|run| run.swap_in.clone()).collect();
        reads.sort_by_key(|span| (span.start_ns, span.end_ns));
        prop_assert!(reads.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns));
    }
}

fn demands() -> impl Strategy<Value = Vec<Demand>> {
    let demand = (1u64..1 << 30, 1u64..1 << 40, 0.1..10.0f64, 0.0..1.0f64);
    let demand = demand.prop_map(|(bytes, latency_ns, urgency, floor)| Demand {
        name: "network".into(),
        bytes,
        latency_ns,
        urgency,
        floor: (bytes as f64 * floor * floor) as u64,
    });
    prop::collection::vec(demand, 1..9)
}

proptest! {
    #![proptest_config(config())]

    /// Budgets add up to the memory, keep floors and demands, and are Eq. 1 where no limit is met.
    #[test]
    fn budgets_add_up_within_limits(demands in demands(), share in 0.0..1.3f64) {
        let all: u64 = demands.iter().map(|demand| demand.bytes).sum();
        let floors: u64 = demands.iter().map(|demand| demand.floor).sum();
        let memory = (all as f64 * share) as u64;
        let shares = shares(&demands).unwrap();
        prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let found = match budgets(&demands, memory) {
            Ok(found) => found,
            Err(error) => {
                prop_assert!(memory < floors, "{}", error);
                return Ok(());
            }
        };
        prop_assert!(memory >= floors);
        prop_assert_eq!(found.iter().sum::<u64>(), memory.min(all));
        for (budget, demand) in found.iter().zip(&demands) {
            prop_assert!((demand.floor..=demand.bytes).contains(budget));
        }
        let exact = || shares.iter().map(|share| share * memory as f64);
        let limits = demands.iter().map(|demand| (demand.floor as f64)..=(demand.bytes as f64));
        if memory < all && exact().zip(limits).all(|(budget, limits)| limits.contains(&budget)) {
            for (budget, exact) in found.iter().zip(exact()) {
                prop_assert!((*budget as f64 - exact).abs() <= 2.0, "{} {}", budget, exact);
            }
        }
    }
}

/// Worked out by hand from Eq. 1.
#[test]
fn shares_are_those_of_equation_1() {
    let demand = |bytes, latency_ns, urgency| Demand {
        name: "network".into(),
        bytes,
        latency_ns,
        urgency,
        floor: 0,
    };
    // PS: 2 · 300 / 300 = 2 and 100 / 100 = 1. Shares: 3/4 · 1/2 + 2/3 · 1/2 and 1/4 · 1/2 + 1/3 ·
    // 1/2.
    let demands = [demand(300, 300, 2.0), demand(100, 100, 1.0)];
    let shares = shares(&demands).unwrap();
    assert!((shares[0] - 17.0 / 24.0).abs() < 1e-12 && (shares[1] - 7.0 / 24.0).abs() < 1e-12);
    assert_eq!(budgets(&demands, 240).unwrap(), [170, 70]);
    // All fits.
    assert_eq!(budgets(&demands, 400).unwrap(), [300, 100]);
    // 0.29 · 390 is more than the second network can use.
    assert_eq!(budgets(&demands, 390).unwrap(), [290, 100]);
}

#[test]
fn bad_demands_are_named() {
    let good = Demand { name: "one".into(), bytes: 10, latency_ns: 1, urgency: 1.0, floor: 4 };
    let error = |demand: Demand, memory| budgets(&[good.clone(), demand], memory).unwrap_err();
    let named = |demand, text: &str| {
        let error = error(demand, 5).to_string();
        assert!(error.contains("`two`") && error.contains(text), "{error}");
    };
    let two = Demand { name: "two".into(), ..good.clone() };
    named(Demand { urgency: f64::NAN, ..two.clone() }, "an urgency of NaN");
    named(Demand { urgency: -1.0, ..two.clone() }, "an urgency of -1");
    named(Demand { latency_ns: 0, ..two.clone() }, "a latency in nanoseconds of 0");
    named(Demand { bytes: 0, ..two.clone() }, "a demand of bytes of 0");
    let larger = Demand { floor: 5, ..two };
    assert_eq!(
        error(larger, 8),
        BudgetError::TooSmall { memory: 8, needed: 9, largest: "two".into(), floor: 5 }
    );
    assert_eq!(budgets(&[], 8), Err(BudgetError::NoNetworks { memory: 8 }));
}

#[test]
fn tables_with_too_many_rows_are_refused() {
    let layers = vec![block(1, [1; 3]); 105];
    let error = Table::new(&chain_of(&layers), 7, Objective::Residuals).unwrap_err().to_string();
    assert!(
        error.contains("partitions into 7 blocks, and a table lists at most 2000000"),
        "{error}"
    );
}

/// Hundreds of layers in dozens of blocks take moments.
#[test]
fn long_networks_are_cut() {
    let layer = |at: u64| {
        let times = [at * 7 % 31, at * 13 % 47, at % 3].map(|ns| ns as i64 * 1000);
        block(1 + at * 37 % 101, times)
    };
    let chain = chain_of(&(0..300).map(layer).collect::<Vec<_>>());
    for share in [3, 10, 40] {
        let budget = Budget { bytes: chain.bytes() / share, reserved: 0.04 };
        let found = partition(&chain, budget, Objective::Residuals).unwrap();
        assert!(found.blocks() >= 2 * share as usize);
        assert!(found.value.most_bytes <= budget.most_bytes());
        // Equal blocks are no better.
        let even = even(&chain, found.blocks());
        assert!(
            even.value.most_bytes > budget.most_bytes()
                || Objective::Residuals.key(&found.value) <= Objective::Residuals.key(&even.value)
        );
    }
}

/// What the publication states of its scenarios, and follows from sizes alone.
#[test]
fn scenarios_are_as_published_where_that_follows_from_sizes() {
    for scenario in &SCENARIOS {
        let published: u64 = scenario.published().iter().sum();
        assert_eq!(published, scenario.memory_bytes(), "{}", scenario.name);
        let ours = scenario.budgets(&NX).unwrap();
        assert_eq!(ours.iter().sum::<u64>(), scenario.memory_bytes());
        for member in scenario.members {
            let layers = (member.layers)(member.side);
            let subject = subject(member, &layers, &NX, bytes(member.budget_mib));
            let swap = subject.outcome(Method::Swap(Parts::ALL)).unwrap();
            assert!(swap.memory_bytes < bytes(member.budget_mib), "{}", member.name);
            assert_eq!(member.blocks.unwrap_or(swap.blocks.len()), swap.blocks.len());
            assert!(swap.run.most_bytes(&swap.blocks) <= swap.memory_bytes);
        }
    }
    // The percentages of VGG-19's memory say 472 MiB: three blocks, of which the last two are the
    // matrices.
    let vgg = chain(&SCENARIOS[0].members[0], &NX);
    let three = smallest_budget_of(&vgg, 3, 0.0).unwrap() as f64 / f64::from(1 << 20);
    assert!((three - 471.6).abs() < 0.1, "{three}");
    // 475 = (392 + 64) / (1 − 0.04), too.
    let floor = smallest_budget(&vgg, 0.04) as f64 / f64::from(1 << 20);
    assert!((floor - 475.0).abs() < 0.1, "{floor}");
}

/// Each part of SwapNet that is left out costs time, and unified addressing memory.
#[test]
fn parts_are_worth_having() {
    for scenario in &SCENARIOS {
        for member in scenario.members {
            let layers = (member.layers)(member.side);
            let subject = subject(member, &layers, &NX, bytes(member.budget_mib));
            let swap = |parts| subject.outcome(Method::Swap(parts)).unwrap();
            let all = swap(Parts::ALL);
            let buffered = swap(Parts { unified: false, ..Parts::ALL });
            assert!(buffered.latency_ns > all.latency_ns);
            assert_eq!(buffered.memory_bytes, subject.processor.copies() * all.memory_bytes);
            let instantiated = swap(Parts { skeleton: false, ..Parts::ALL });
            assert!(instantiated.latency_ns > all.latency_ns);
            assert_eq!(instantiated.memory_bytes, all.memory_bytes);
            let direct = subject.outcome(Method::Direct).unwrap();
            let channels = subject.outcome(Method::Channels).unwrap();
            assert!(direct.latency_ns < all.latency_ns && all.latency_ns < channels.latency_ns);
            assert!(all.memory_bytes < channels.memory_bytes);
        }
    }
}

/// The examples say what the scenarios are, to the digits that they have.
#[test]
fn examples_are_the_scenarios() {
    let files = [
        include_str!("../../../../examples/tasksets/self-driving.toml"),
        include_str!("../../../../examples/tasksets/road-side-unit.toml"),
        include_str!("../../../../examples/tasksets/uav.toml"),
    ];
    for (text, scenario) in files.into_iter().zip(&SCENARIOS) {
        let file: toml::Table = text.parse().unwrap();
        let number = |value: &toml::Value, unit: &str| -> f64 {
            let text = value.as_str().unwrap();
            text.strip_suffix(unit).unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        };
        assert_eq!(number(&file["memory"], "MiB"), scenario.memory_mib);
        let mut members = scenario.members.iter();
        for entry in file["task"].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            let instances = entry.get("instances").map_or(1, |count| count.as_integer().unwrap());
            for _ in 0..instances {
                let member = members.next().unwrap();
                assert!(member.name.starts_with(name), "{name}, not {}", member.name);
                let chain = chain(member, &NX);
                let whole = chain.whole();
                let step_ns = |layer: usize| chain.block(layer..layer + 1).times.ex_ns;
                let step_ns = (0..chain.len()).map(step_ns).max().unwrap();
                assert!(number(&entry["period"], "s") * 1e9 > whole.times.ex_ns as f64);
                let near = |key: &str, unit: &str, value: f64, by: f64| {
                    let stated = number(&entry[key], unit);
                    assert!((stated - value).abs() <= by, "{name}: {key} is {value}, not {stated}");
                };
                near("bytes", "MiB", whole.bytes as f64 / MIB, 0.06);
                near("swappable", "MiB", whole.bytes as f64 / MIB, 0.06);
                near("compute", "ms", whole.times.ex_ns as f64 / 1e6, 0.6);
                near("step", "ms", step_ns as f64 / 1e6, 0.6);
            }
        }
        assert!(members.next().is_none(), "{}", scenario.name);
    }
}
