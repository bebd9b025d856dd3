//! Whatever the network and the budget: a plan that is proved, and that runs bit for bit as the one with
//! all weights resident; or an error that names the smallest budget, and is right about it.

use crate::common::{Subject, bits, difference, noise, run_inline, zoo_model};
use eyelet::device::Inline;
use eyelet::executor::{Instance, Options};
use eyelet::kernels::Isa;
use eyelet::pack::{Encoding, Load, Method, Step};
use eyelet::storage::Slice;
use eyelet_planner::board::Board;
use eyelet_planner::bound::{Bound, least_bound_ns, least_steps_ns, lower_bound_ns};
use eyelet_planner::check::{Violation, check};
use eyelet_planner::graph::{Constant, Graph, Node, Op, Value, ValueId, Window};
use eyelet_planner::layout::place_weights;
use eyelet_planner::memory::{buffer_sizes, lifetimes};
use eyelet_planner::network::Network;
use eyelet_planner::plan::{Plan, step_weights};
use eyelet_planner::profile::{Contention, QueuedRead, Reads, Storage, UnequalCores};
use eyelet_planner::published::{self, JOINT};
use eyelet_planner::search::algorithms::bound_of_all_ns;
use eyelet_planner::search::{self, Effort, PackRequest, PlanError, Request, Strategy};
use eyelet_planner::search::{Chosen, choose};
use eyelet_planner::simulate::simulate;
use eyelet_planner::slide::least_bytes;
use eyelet_planner::source::Io;
use proptest::prelude::*;
use std::sync::Arc;

const PAGE: u64 = 4096;

/// A budget for which everything is resident.
const AMPLE: u64 = 64 << 20;

/// Puts a graph together.
#[derive(Default)]
struct Net(Graph);

impl Net {
    fn value(&mut self, shape: &[usize], constant: Option<Constant>) -> ValueId {
        let name = format!("v{}", self.0.values.len());
        self.0.values.push(Value {
            name,
            shape: shape.to_vec(),
            kind: Default::default(),
            constant,
        });
        self.0.values.len() - 1
    }

    fn weights(&mut self, shape: &[usize]) -> ValueId {
        let elements: usize = shape.iter().product();
        let scale = 1.0 / (shape[1..].iter().product::<usize>() as f32).sqrt();
        let seed = self.0.values.len() as u64;
        let data = noise(elements, seed).into_iter().map(|x| x * scale).collect();
        self.value(shape, Some(Constant::Owned(Arc::new(data))))
    }

    fn shape(&self, value: ValueId) -> Vec<usize> {
        self.0.values[value].shape.clone()
    }

    fn node(&mut self, op: Op, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        let output = self.value(shape, None);
        let name = format!("n{}", self.0.nodes.len());
        let inputs = inputs.iter().copied().map(Some).collect();
        self.0.nodes.push(Node { name, op, inputs, outputs: vec![output] });
        output
    }

    fn conv(&mut self, x: ValueId, channels: usize, kernel: usize, groups: usize) -> ValueId {
        let shape = self.shape(x);
        let weight = self.weights(&[channels, shape[1] / groups, kernel, kernel]);
        let bias = self.weights(&[channels, 1]);
        self.0.values[bias].shape = vec![channels];
        let pad = [kernel / 2; 2];
        let window = Window {
            kernel: [kernel; 2],
            stride: [1; 2],
            dilation: [1; 2],
            pad_begin: pad,
            pad_end: pad,
        };
        let shape = [shape[0], channels, shape[2], shape[3]];
        self.node(Op::Conv { window, groups }, &[x, weight, bias], &shape)
    }
}

/// A network of one decision per node, all of them images of one size.
fn network(size: usize, decisions: &[(u8, u8, u8)]) -> Graph {
    let mut net = Net::default();
    net.0.name = "random".into();
    let input = net.value(&[1, 3, size, size], None);
    net.0.inputs.push(input);
    let mut live = vec![net.conv(input, 8, 3, 1)];
    for &(kind, which, channels) in decisions {
        let x = live[live.len() - 1 - which as usize % live.len().min(3)];
        let (last, shape) = (live[live.len() - 1], net.shape(x));
        let channels = 1 + channels as usize % 96;
        let y = match kind % 10 {
            // Sums of several chains, whose weights steps can have a part of.
            0 if kind % 20 == 0 => {
                let wide = net.conv(x, 1030 + 30 * channels, 1, 1);
                net.conv(wide, channels, 1, 1)
            }
            0..3 => net.conv(x, channels, 1, 1),
            3 | 4 => net.conv(x, channels, 3, 1),
            5 => net.conv(x, shape[1], 3, shape[1]),
            6 => net.node(Op::Clip { min: 0.0, max: 6.0 }, &[x], &shape),
            7 => net.node(Op::Sigmoid, &[x], &shape),
            8 if net.shape(last) == shape && last != x => net.node(Op::Add, &[x, last], &shape),
            _ if last != x => {
                let both = shape[1] + net.shape(last)[1];
                let joined = net.node(Op::Concat { axis: 1 }, &[x, last], &[1, both, size, size]);
                net.conv(joined, channels, 1, 1)
            }
            _ => net.conv(x, channels, 1, 1),
        };
        live.push(y);
    }
    let last = live[live.len() - 1];
    let output = net.conv(last, 10, 1, 1);
    net.0.outputs.push(output);
    // Every node's output is read by someone, or it is none of the graph's.
    loop {
        let read = |value: &ValueId| {
            let used = |node: &Node| node.inputs.contains(&Some(*value));
            net.0.outputs.contains(value) || net.0.nodes.iter().any(used)
        };
        let kept: Vec<Node> =
            net.0.nodes.iter().filter(|node| read(&node.outputs[0])).cloned().collect();
        if kept.len() == net.0.nodes.len() {
            return net.0;
        }
        net.0.nodes = kept;
    }
}

/// The bytes of a pack with a plan for this budget.
fn pack(subject: &Subject, budget: u64, threads: u32) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("net.pack");
    subject.pack(&path, &[budget], threads);
    std::fs::read(&path).unwrap()
}

/// Three inferences with a loader beside them.
fn run_with_loader(pack: &[u8], budget: u64, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let mut storage = Slice(pack);
    let mut arena = crate::common::Aligned::new(budget);
    let options = Options::default();
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    instance
        .with_loader(&mut storage, |model| {
            let mut outputs = Vec::new();
            for _ in 0..3 {
                model.input_mut(0).unwrap().copy_from_slice(&inputs[0]);
                model.infer(&Inline).unwrap();
                outputs = vec![model.output(0).unwrap().to_vec()];
            }
            outputs
        })
        .unwrap()
}

/// What is predicted of the plans for these budgets, their algorithms chosen for all of them; `None` where there is none.
fn predicted(
    subject: &Subject,
    strategy: &str,
    budgets: &[u64],
    threads: u32,
) -> Option<Vec<Predicted>> {
    let strategy = published::named(strategy).unwrap();
    let exact = strategy.computes_directly();
    let chosen = chosen_if(exact, subject, strategy, budgets, threads)?;
    let reads = chosen.made.iter().map(|made| !made.plan.loads.is_empty());
    Some(
        chosen
            .predicted_ns
            .into_iter()
            .zip(reads)
            .map(|(ns, reads)| Predicted { ns, reads })
            .collect(),
    )
}

/// Nanoseconds of a plan, and whether it reads.
#[derive(Clone, Copy, Debug)]
struct Predicted {
    ns: u64,
    reads: bool,
}

impl Predicted {
    /// Whether it is not slower, or reads nothing while the other does: then all weights had room.
    fn is_no_slower(self, other: Self) -> bool {
        self.ns <= other.ns || (!self.reads && other.reads)
    }
}

/// Proved plans, with direct algorithms if they are to be exact.
fn chosen_if(
    exact: bool,
    subject: &Subject,
    strategy: &dyn Strategy,
    budgets: &[u64],
    threads: u32,
) -> Option<Chosen> {
    let profile = subject.board.profile.clone();
    let request = PackRequest::new(strategy, budgets.to_vec(), profile, threads);
    let request = PackRequest { exact, effort: Effort::Fast, ..request };
    let chosen = choose(&subject.network, &request).ok()?;
    for (made, budget) in chosen.made.iter().zip(budgets) {
        let plan = &made.plan;
        assert!(plan.budget == *budget && plan.arena_bytes <= *budget);
        let proof = check(&chosen.network, plan, chosen.weights_bytes);
        assert!(proof.is_ok(), "{strategy}: {:?}", proof.err());
        assert!(proof.is_ok_and(|proof| proof.peak_live_bytes <= plan.arena_bytes));
    }
    Some(chosen)
}

/// Storage that answers together, of which a read waits so long, and of which each further byte of a group takes so long.
fn together(latency_ns: f64, ns_per_byte: f64, depth: u32, window: Option<u64>) -> Storage {
    let flat = Storage::flat(100, 1e3 / ns_per_byte, 20.0);
    let sizes = [4096u64, 16_384, 65_536, 262_144, 1 << 20];
    let mbs = |bytes: u64, reads: u64| {
        let transfers = (reads * bytes) as f64;
        transfers * 1e3 / (latency_ns + transfers * ns_per_byte)
    };
    let reads = sizes.map(|bytes| Reads { bytes, mbs: mbs(bytes, 1) }).to_vec();
    let group = |bytes: u64| (window.unwrap_or(u64::MAX) / bytes).clamp(1, depth.into());
    let queued_reads =
        sizes.map(|bytes| QueuedRead { depth, bytes, mbs: mbs(bytes, group(bytes)) }).to_vec();
    Storage { depth, window, together: true, reads, queued_reads, ..flat }
}

/// So many random networks, and little time to make one that fails smaller.
fn random(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(random(64))]

    #[test]
    fn joint_is_predicted_to_be_the_fastest_and_no_slower_with_more_memory(
        size in 1usize..24,
        decisions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..14),
        pages in prop::collection::vec(0u64..600, 3),
        speed in 0.01f64..10.0,
        depth in 1u32..5,
        (window, together) in (prop::option::of(4096u64..200_000), any::<bool>()),
        threads in 1u32..3,
    ) {
        let mut board = crate::common::board::board();
        let mut storage = board.profile.storage.faster(speed);
        (storage.depth, storage.window, storage.together) = (depth, window, together);
        storage.queued_reads.iter_mut().for_each(|queued| queued.depth = depth);
        board.profile.storage = storage;
        let subject = Subject::of_graph(network(size, &decisions), board);
        let smallest = subject.smallest(threads);
        // Algorithms that are chosen for a budget can need a little less than the direct ones, of which this is the smallest.
        let less = smallest - PAGE;
        if predicted(&subject, "joint", &[less], threads).is_none() {
            for strategy in published::names() {
                let other = predicted(&subject, strategy, &[less], threads);
                prop_assert!(other.is_none(), "{strategy} has a plan in {less}, and joint has none");
            }
        }
        let mut budgets: Vec<u64> = pages.iter().map(|pages| smallest + pages * PAGE).collect();
        budgets.push(smallest);
        budgets.sort_unstable();
        budgets.dedup();
        let profile = &subject.board.profile;
        for budget in &budgets {
            let bound = bound_of_all_ns(&subject.network, profile, threads, *budget);
            let joint = predicted(&subject, "joint", &[*budget], threads);
            prop_assert!(joint.is_some(), "no plan in {budget}, {smallest} is the smallest");
            let joint = joint.unwrap()[0];
            prop_assert!(joint.ns >= bound, "{joint:?} below the bound {bound}");
            for strategy in published::names() {
                let Some(other) = predicted(&subject, strategy, &[*budget], threads) else { continue };
                let other = other[0];
                prop_assert!(other.ns >= bound, "{strategy}: {other:?} below the bound {bound}");
                prop_assert!(joint.is_no_slower(other), "{joint:?} and {other:?} by {strategy} in {budget}");
            }
        }
        let all = predicted(&subject, "joint", &budgets, threads).unwrap();
        prop_assert!(all.is_sorted_by(|less, more| more.is_no_slower(*less)), "{all:?} in {budgets:?}");
    }

    /// What is copied into an arena that the cache holds costs less there: then more memory than that must not make plans slower.
    #[test]
    fn no_slower_beyond_the_cache_that_is_shared(
        size in 1usize..24,
        decisions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..14),
        cache in 0u64..100,
        more in 1u64..60,
        slowdown in 1.0f64..30.0,
        threads in 1u32..3,
    ) {
        let mut board = crate::common::board::board();
        board.profile.storage = Storage::flat(1000, 10_000.0, 20.0);
        let (storage, compute) = (&mut board.profile.storage, &mut board.profile.compute);
        storage.io = Io::Buffered;
        storage.contention = Some(Contention { llc_ns_per_byte: 0.0, dram_ns_per_byte: 0.1 * slowdown });
        compute.shared_cache_gbs = compute.memory_gbs * slowdown;
        let mut subject = Subject::of_graph(network(size, &decisions), board);
        let held = subject.smallest(threads) + cache * PAGE;
        // Half of it is for what is copied from.
        subject.board.profile.compute.shared_cache_bytes = 2 * held;
        let chosen = |budget| chosen_if(true, &subject, &JOINT, &[budget], threads);
        // The smallest budget depends a little on costs, which these were not yet.
        let Some(within) = chosen(held) else { return Ok(()) };
        let beyond = chosen(held + more * PAGE).unwrap();
        // What has room for all weights reads nothing, however long that takes.
        if beyond.made[0].plan.loads.is_empty() {
            return Ok(());
        }
        let [within, beyond] = [within, beyond].map(|chosen| chosen.predicted_ns[0]);
        prop_assert!(beyond <= within + within / 20, "{beyond} beyond {held}, {within} within");
    }
}

proptest! {
    #![proptest_config(random(48))]

    #[test]
    fn a_proved_plan_with_the_same_result_or_the_smallest_budget(
        size in 1usize..14,
        decisions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..14),
        budgets in prop::collection::vec(0u64..400, 4),
        threads in 1u32..4,
    ) {
        let board = crate::common::board::board();
        let subject = Subject::of_graph(network(size, &decisions), board);
        let inputs = subject.inputs(1);
        let expected = bits(&run_inline(&pack(&subject, AMPLE, 1), AMPLE, &inputs, &Inline, 1));
        let smallest = subject.smallest(threads);
        prop_assert!(smallest.is_multiple_of(PAGE));
        prop_assert!(subject.plan(smallest - PAGE, threads).is_err(), "less than {smallest} is enough");
        for pages in budgets.into_iter().chain([smallest / PAGE, smallest / PAGE + 1]) {
            let budget = pages * PAGE;
            match subject.plan(budget, threads) {
                Ok(plan) => {
                    prop_assert!(budget >= smallest && plan.arena_bytes <= budget);
                    let pack = pack(&subject, budget, threads);
                    let inline = run_inline(&pack, budget, &inputs, &Inline, 2);
                    prop_assert!(bits(&inline) == expected, "inline in {budget} bytes");
                    let found = run_with_loader(&pack, budget, &inputs);
                    prop_assert!(bits(&found) == expected, "beside a loader in {budget} bytes");
                }
                Err(PlanError::Budget { smallest: named, .. }) => {
                    prop_assert_eq!(named, smallest);
                    prop_assert!(budget < smallest, "{} bytes should do, {} do", budget, smallest);
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }

    #[test]
    fn every_strategy_plans_or_names_the_smallest_budget(
        size in 1usize..14,
        decisions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..14),
        pages in 0u64..400,
        threads in 1u32..4,
    ) {
        let board = crate::common::board::board();
        let subject = Subject::of_graph(network(size, &decisions), board);
        let (network, profile) = (&subject.network, &subject.board.profile);
        let inputs = subject.inputs(1);
        let expected = bits(&run_inline(&pack(&subject, AMPLE, 1), AMPLE, &inputs, &Inline, 1));
        for strategy in published::names() {
            let smallest = match subject.plan_by(strategy, 0, threads) {
                Err(PlanError::Budget { smallest, .. }) => smallest,
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            };
            for budget in [pages * PAGE, smallest - PAGE, smallest] {
                match subject.plan_with(strategy, budget, threads, Effort::Seconds(0.01)) {
                    Ok(plan) => {
                        prop_assert!(budget >= smallest, "{strategy} in {budget} of {smallest}");
                        prop_assert!(plan.arena_bytes <= budget);
                        let bound = lower_bound_ns(network, budget, profile, threads);
                        let predicted = simulate(network, &plan, profile, threads).steady_ns;
                        prop_assert!(predicted >= bound, "{strategy}: {predicted} below {bound}");
                        let folder = tempfile::tempdir().unwrap();
                        let path = folder.path().join("net.pack");
                        subject.write(&path, &[plan]);
                        let pack = std::fs::read(&path).unwrap();
                        let found = run_with_loader(&pack, budget, &inputs);
                        prop_assert!(bits(&found) == expected, "{strategy} in {budget} bytes");
                    }
                    Err(PlanError::Budget { smallest: named, .. }) => {
                        prop_assert_eq!(named, smallest);
                        prop_assert!(budget < smallest, "{} in {} of {}", strategy, budget, smallest);
                    }
                    Err(error) => prop_assert!(false, "{}", error),
                }
            }
        }
    }
}

/// The plans of all strategies that have one for a budget, none of which is predicted to be faster than the bound says, nor any layer's
/// steps.
fn none_below_the_bound(
    subject: &Subject,
    budget: u64,
    threads: u32,
    exact: bool,
) -> Result<Vec<(&'static str, Plan)>, TestCaseError> {
    let (network, profile) = (&subject.network, &subject.board.profile);
    let weights_bytes = subject.weights_bytes;
    let request =
        Request { network, weights_bytes, budget, threads, profile, exact, holds_all: false };
    let (bound, least) = (least_bound_ns(&request), least_steps_ns(&request));
    let mut plans = Vec::new();
    for strategy in published::names() {
        let Ok(made) = search::make(published::named(strategy).unwrap(), &request, Effort::Fast)
        else {
            continue;
        };
        let timeline = simulate(network, &made.plan, profile, threads);
        let predicted = timeline.steady_ns;
        prop_assert!(predicted >= bound, "{strategy} in {budget}: {predicted} below {bound}");
        let mut taken = vec![0.0; least.len()];
        for (step, span) in made.plan.steps.iter().zip(&timeline.steps) {
            taken[step.layer as usize] += (span.end - span.start) as f64;
        }
        let below = taken.iter().zip(&least).position(|(taken, least)| *taken < least.floor());
        prop_assert!(below.is_none(), "{strategy} in {budget}: {taken:?} and {least:?}");
        plans.push((strategy, made.plan));
    }
    Ok(plans)
}

/// The bytes of the arena over which buffers lie in each step, those that they share counted once.
fn bytes_of_buffers(network: &Network, plan: &Plan) -> Vec<u64> {
    let (layers, end) = (network.layers.len(), plan.steps.len() + 1);
    let mut spans = vec![(usize::MAX, 0); layers];
    for (at, step) in (1..).zip(&plan.steps) {
        let (first, last) = &mut spans[step.layer as usize];
        (*first, *last) = ((*first).min(at), at);
    }
    let lives = lifetimes(network, end, |layer| spans[layer].0..spans[layer].1 + 1);
    let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
    let sizes = buffer_sizes(network, &rings);
    let mut order: Vec<usize> = (0..lives.len()).collect();
    order.sort_by_key(|buffer| plan.places[*buffer].address);
    let of_step = |at: usize| {
        let live = order.iter().filter(|&&b| lives[b].start <= at && at <= lives[b].end);
        let mut high = 0;
        let more = live.map(|&buffer| {
            let start = plan.places[buffer].address;
            let from = high.max(start);
            high = high.max(start + sizes[buffer]);
            high - from
        });
        more.sum()
    };
    (1..end).map(of_step).collect()
}

proptest! {
    #![proptest_config(random(48))]

    /// In the smallest budgets, where most layers slide, and with whatever storage. Nor has a plan fewer bytes of a buffer than
    /// the bound counts, nor a step fewer bytes that buffers have.
    #[test]
    fn no_plan_of_any_strategy_is_below_the_bound(
        size in 4usize..48,
        decisions in prop::collection::vec(any::<(u8, u8, u8)>(), 1..14),
        pages in 1u64..40,
        speed in 0.01f64..10.0,
        (depth, window, together) in (
            prop::sample::select(vec![1u32, 4, 8]), prop::option::of(4096u64..200_000), any::<bool>(),
        ),
        contention in prop::option::of((0.0f64..0.5, 0.0f64..0.5)),
        cache in 0u64..200,
        exact in any::<bool>(),
        threads in 1u32..3,
        unequal in prop::option::of((1u32..3, 0.05f64..1.0, prop::option::of(0u32..3))),
    ) {
        let mut board = crate::common::board::board();
        let mut storage = board.profile.storage.faster(speed);
        (storage.depth, storage.window, storage.together) = (depth, window, together);
        storage.queued_reads.iter_mut().for_each(|queued| queued.depth = depth);
        storage.contention = contention.map(|(llc_ns_per_byte, dram_ns_per_byte)| Contention {
            llc_ns_per_byte,
            dram_ns_per_byte,
        });
        board.profile.storage = storage;
        // Three cores, of which the last ones are big.
        board.profile.cores = unequal.map(|(big, little_speed, loader)| {
            UnequalCores { count: 3, big: (3 - big..3).collect(), little_speed, loader }
        });
        let compute = &mut board.profile.compute;
        (compute.shared_cache_bytes, compute.shared_cache_gbs) = (cache * PAGE, 100.0);
        let subject = Subject::of_graph(network(size, &decisions), board);
        let network = &subject.network;
        let smallest = subject.smallest(threads);
        for budget in [smallest, smallest + pages * PAGE] {
            let bound = Bound::within(network, &subject.board.profile, threads, budget);
            for (strategy, plan) in none_below_the_bound(&subject, budget, threads, exact)? {
                let rings: Vec<u32> = plan.places.iter().map(|place| place.lines).collect();
                let least = least_bytes(network, budget - plan.tables);
                let sizes = buffer_sizes(network, &rings);
                let fewer = sizes.iter().zip(&least).position(|(size, least)| size < least);
                prop_assert!(fewer.is_none(), "{strategy} in {budget}: {sizes:?} and {least:?}");
                for (step, bytes) in plan.steps.iter().zip(bytes_of_buffers(network, &plan)) {
                    let (layer, taken) = (step.layer as usize, (plan.tables + bytes) as f64);
                    let least = bound.alive(layer);
                    prop_assert!(taken >= least, "{strategy} in {budget}, {layer}: {taken} of {least}");
                }
            }
        }
    }

    /// Where groups of reads have a latency that is long beside their transfers, and there are many, each of few bytes.
    #[test]
    fn nor_where_reads_that_come_together_wait_long(
        size in 1usize..32,
        decisions in prop::collection::vec(any::<(u8, u8, u8)>(), 4..20),
        pages in prop::collection::vec(0u64..100, 2),
        (latency_us, ns_per_byte) in (0.0f64..400.0, 0.02f64..2.0),
        (depth, window) in (2u32..9, prop::option::of(4096u64..600_000)),
        exact in any::<bool>(),
    ) {
        let mut board = crate::common::board::board();
        board.profile.storage = together(1e3 * latency_us, ns_per_byte, depth, window);
        let subject = Subject::of_graph(network(size, &decisions), board);
        let smallest = subject.smallest(1);
        for budget in [0].iter().chain(&pages).map(|pages| smallest + pages * PAGE) {
            none_below_the_bound(&subject, budget, 1, exact)?;
        }
    }
}

/// A little more memory makes no plan much slower where only few ways to slide fit.
#[test]
fn budgets_near_the_smallest_are_planned_alike() {
    let folder = tempfile::tempdir().unwrap();
    let board = Board::load("jetson-nano").unwrap();
    let subject = Subject::for_board(&zoo_model("densenet201", folder.path()), board);
    let budgets = (3_800_000u64..4_100_000).step_by(20_000);
    let predicted =
        |budget| chosen_if(false, &subject, &JOINT, &[budget], 1).unwrap().predicted_ns[0];
    let found: Vec<u64> = budgets.map(predicted).collect();
    let (least, most) = (found.iter().min().unwrap(), found.iter().max().unwrap());
    assert!(*most < least + least / 5, "{found:?}");
}

/// A load comes as a whole and goes slice by slice: others come to where its first slices were before its last one is used.
#[test]
fn what_a_slice_leaves_is_read_over_while_its_load_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let subject = Subject::new(&zoo_model("squeezenet1_1", folder.path()));
    let smallest = subject.smallest(1);
    let inputs = subject.inputs(1);
    let expected = bits(&run_inline(&pack(&subject, AMPLE, 1), AMPLE, &inputs, &Inline, 1));
    let mut over = 0;
    for more in [1u64, 2, 4, 8] {
        let budget = smallest + (more << 17);
        let plan = subject.plan(budget, 1).unwrap();
        let proof = check(&subject.network, &plan, subject.weights_bytes);
        assert!(proof.is_ok(), "{:?}", proof.err());
        // The last step that uses each load, in the checker's time.
        let mut last = vec![0; plan.loads.len()];
        for (index, step) in plan.steps.iter().enumerate() {
            let weights = step_weights(&subject.network, step);
            let of_step = plan.loads[..step.ready as usize].iter().rposition(|load| {
                load.offset <= weights.start
                    && weights.end <= load.offset + u64::from(load.bytes)
                    && load.address + (weights.start - load.offset) == step.weights
            });
            if let Some(load) = of_step.filter(|_| !weights.is_empty()) {
                last[load] = index as i32 + 1;
            }
        }
        let span = |load: &Load| load.address..load.address + u64::from(load.bytes);
        for (index, load) in plan.loads.iter().enumerate() {
            let here = span(load);
            over += plan.loads[index + 1..]
                .iter()
                .filter(|by| {
                    let there = span(by);
                    let meet = here.start < there.end && there.start < here.end;
                    meet && by.release <= last[index]
                })
                .count();
        }
        let found = run_with_loader(&pack(&subject, budget, 1), budget, &inputs);
        assert!(bits(&found) == expected, "beside a loader in {budget} bytes");
    }
    assert!(over > 0, "no load comes to where a slice of another one was");
}

/// A fully connected layer whose panels are what takes the most memory comes in parts of them, with the same result; other
/// strategies need room for a panel. The steps of a panel add up its chains in order.
#[test]
fn panels_come_in_parts() {
    let mut net = Net::default();
    let input = net.value(&[1, 4500, 1, 1], None);
    net.0.inputs.push(input);
    let hidden = net.conv(input, 80, 1, 1);
    let output = net.conv(hidden, 10, 1, 1);
    net.0.outputs.push(output);
    let subject = Subject::of_graph(net.0, crate::common::board::board());
    let inputs = subject.inputs(1);
    let expected = bits(&run_inline(&pack(&subject, AMPLE, 1), AMPLE, &inputs, &Inline, 1));
    let smallest = subject.smallest(1);
    let panel = u64::from(subject.network.layers[0].panel_bytes);
    let by = |strategy: &str| match subject.plan_by(strategy, 0, 1) {
        Err(PlanError::Budget { smallest, .. }) => smallest,
        other => panic!("{other:?}"),
    };
    assert!(smallest + panel / 2 < by("flexnn").min(by("on-demand")), "{smallest}");
    for budget in [smallest, smallest + PAGE, smallest + panel / 4, smallest + panel] {
        let plan = subject.plan(budget, 1).unwrap();
        assert!(budget > smallest + PAGE || plan.steps.iter().any(|step| step.chains() > 0));
        let packed = pack(&subject, budget, 1);
        assert!(bits(&run_inline(&packed, budget, &inputs, &Inline, 2)) == expected, "{budget}");
        assert!(bits(&run_with_loader(&packed, budget, &inputs)) == expected, "{budget}");
    }

    let plan = subject.plan(smallest, 1).unwrap();
    let broken = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan.clone();
        change(&mut plan);
        check(&subject.network, &plan, subject.weights_bytes).unwrap_err()
    };
    let second = plan
        .steps
        .iter()
        .position(|step| matches!(step.method, Method::Chains { first: 1.., .. }))
        .unwrap();
    let swapped = broken(&|plan| {
        let (one, two) = (plan.steps[second - 1], plan.steps[second]);
        (plan.steps[second - 1].method, plan.steps[second].method) = (two.method, one.method);
    });
    let longer = |step: &mut Step, more: [u32; 2]| {
        if let Method::Chains { first, count } = &mut step.method {
            (*first, *count) = (*first + more[0], *count + more[1]);
        }
    };
    let says = |all: &[Violation], kind: fn(&Violation) -> bool| all.iter().any(kind);
    assert!(says(&swapped, |one| matches!(one, Violation::ChainsOutOfOrder { .. })), "{swapped:?}");
    let missing = broken(&|plan| longer(&mut plan.steps[second], [0, 1]));
    assert!(says(&missing, |one| matches!(one, Violation::SliceTwice { .. })), "{missing:?}");
    let outside = broken(&|plan| longer(&mut plan.steps[second], [1000, 0]));
    assert!(says(&outside, |one| matches!(one, Violation::NotSliceable { .. })), "{outside:?}");
}

/// A network of one convolution, `from` channels of so many pixels.
fn of_one_layer(side: usize, from: usize, to: usize, kernel: usize, groups: usize) -> Graph {
    let mut net = Net::default();
    let input = net.value(&[1, from, side, side], None);
    net.0.inputs.push(input);
    let output = net.conv(input, to, kernel, groups);
    net.0.outputs.push(output);
    net.0
}

/// Packs of layers whose channels do not fill panels are hardly larger than their weights, for every instruction set and encoding.
#[test]
fn packs_of_narrow_layers_are_as_large_as_their_weights() {
    let boards = ["portable", "host-avx2", "host-avx512", "host-neon", "gpu-host"];
    let boards = boards.map(|name| Board::load(name).unwrap());
    let sets = boards.clone().map(|board| board.profile_on(None, None).unwrap().isa);
    assert!(Isa::ALL.into_iter().all(|isa| sets.contains(&isa)));
    let layers = [
        (1, 25088, 1, 1, 1),
        (1, 25088, 3, 1, 1),
        (1, 4096, 9, 1, 1),
        (1, 12000, 25, 1, 1),
        (1, 9000, 33, 1, 1),
        (1, 9000, 57, 1, 1),
        (1, 4096, 65, 1, 1),
        (9, 512, 17, 3, 1),
        (9, 300, 43, 3, 1),
        (5, 64, 2, 7, 1),
        (5, 640, 5 * 20, 3, 5),
    ];
    for board in boards {
        for (side, from, to, kernel, groups) in layers {
            let graph = of_one_layer(side, from, to, kernel, groups);
            let mut subject = Subject::of_graph(graph, board.clone());
            let all = match board.profile.isa {
                Isa::Cuda => &Encoding::OF_GPUS[..],
                _ => &Encoding::ALL,
            };
            for &encoding in all {
                subject.encode(encoding);
                let plan = subject.plan(1 << 30, 1).unwrap();
                let file = tempfile::NamedTempFile::new().unwrap();
                subject.write(file.path(), &[plan]);
                let k = kernel * kernel * from / groups;
                let weights = (to * (k * encoding.weight_bytes() + encoding.head_bytes(1))) as f64;
                let stored = file.as_file().metadata().unwrap().len() as f64;
                assert!(
                    stored <= 1.1 * weights + 65536.0,
                    "{}, {encoding:?}, {from} to {to}: {stored} bytes for {weights}",
                    board.profile.isa.name()
                );
            }
        }
    }
}

/// Panels that hold fewer channels come in parts, too: with the bits of full panels, in no more memory.
#[test]
fn narrow_panels_come_in_parts() {
    for (from, to) in [(25088, 1), (5000, 7), (9000, 33)] {
        let subject = || {
            let graph = of_one_layer(1, from, to, 1, 1);
            Subject::of_graph(graph, Board::load("portable").unwrap())
        };
        let (narrow, mut full) = (subject(), subject());
        let layer = &mut full.network.layers[0];
        assert!(layer.width > 0, "{from} to {to}");
        (layer.width, layer.panels) = (0, to.div_ceil(8) as u32);
        layer.panel_bytes = 32 * (1 + from as u32);
        full.weights_bytes = place_weights(&mut full.network);
        let inputs = narrow.inputs(1);
        let wide = run_inline(&pack(&full, AMPLE, 1), AMPLE, &inputs, &Inline, 1);
        let off = difference(&wide[0], &narrow.reference(&inputs)[0]);
        assert!(off < 1e-5, "{from} to {to}: {off:e}");
        let smallest = narrow.smallest(1);
        assert!(smallest <= full.smallest(1), "{from} to {to}: {smallest}");
        let plan = narrow.plan(smallest, 1).unwrap();
        assert!(plan.steps.iter().any(|step| step.chains() > 0), "{from} to {to}");
        for budget in [smallest, smallest + PAGE, smallest + 4 * PAGE, AMPLE] {
            let found = run_inline(&pack(&narrow, budget, 1), budget, &inputs, &Inline, 2);
            assert!(bits(&found) == bits(&wide), "{from} to {to} in {budget} bytes");
        }
    }
}
