//! From a model to outputs, as the tests of whole behaviour need it.
#![allow(dead_code)]

pub mod adversary;
pub mod board;
pub mod command;
pub mod counting;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod forge;
pub mod gpu;
pub mod grouped;
pub mod net;
pub mod prove;
pub mod records;
pub mod sliding;
pub mod transformer;

use eyelet::device::Device;
use eyelet::executor::{Feed, Instance, Model, Options};
use eyelet::kernels::Isa;
use eyelet::pack::Encoding;
use eyelet::storage::Slice;
use eyelet_planner::algorithm::Algorithm;
use eyelet_planner::board::Board;
use eyelet_planner::check::check;
use eyelet_planner::graph::{Graph, Op};
use eyelet_planner::layout::{SharedWeights, place_weights};
use eyelet_planner::network::Network;
use eyelet_planner::passes;
use eyelet_planner::plan::Plan;
use eyelet_planner::published::{self, JOINT};
use eyelet_planner::search::{self, Effort, PackRequest, PlanError, Request};
use eyelet_planner::search::{Chosen, choose, choose_shape};
use eyelet_planner::write::{Shape, write_pack, write_shapes};
use eyelet_planner::{import, reference, weights, zoo};
use std::path::{Path, PathBuf};

/// Whether long sweeps are asked for: `tools/test.sh --all` sets this variable.
pub fn sweeps() -> bool {
    std::env::var_os("EYELET_TEST_ALL").is_some()
}

/// A network, lowered and laid out, with the graph it came from.
pub struct Subject {
    pub graph: Graph,
    pub network: Network,
    pub weights_bytes: u64,
    pub board: Board,
}

/// A model of the zoo, with its weights from a fixed seed.
pub fn zoo_model(name: &str, folder: &Path) -> PathBuf {
    let path = folder.join(format!("{name}.onnx"));
    zoo::write(name, 1, &path).unwrap();
    path
}

/// The digits network that is committed with the tests.
pub fn digits() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/digits/digits.onnx")
}

impl Subject {
    pub fn new(path: &Path) -> Self {
        Self::for_board(path, board::board())
    }

    pub fn for_board(path: &Path, board: Board) -> Self {
        Self::of_graph(import::import(path).unwrap(), board)
    }

    pub fn of_graph(graph: Graph, board: Board) -> Self {
        Self::by(|_| Algorithm::Direct, graph, board)
    }

    /// Every layer by the algorithm of its index, where that serves it.
    pub fn by(algorithm: impl Fn(usize) -> Algorithm, graph: Graph, board: Board) -> Self {
        let mut network = passes::lower(&graph, board.profile.isa).unwrap();
        for layer in 0..network.layers.len() {
            let algorithm = algorithm(layer);
            if algorithm.serves(&network, layer) {
                algorithm.set(&mut network, layer);
            }
        }
        let weights_bytes = place_weights(&mut network);
        Self { graph, network, weights_bytes, board }
    }

    /// Has weights be stored so.
    pub fn encode(&mut self, encoding: Encoding) {
        weights::encode(&mut self.network, encoding);
        self.weights_bytes = place_weights(&mut self.network);
    }

    pub fn isa(&self) -> Isa {
        self.board.profile.isa
    }

    /// A plan, checked.
    pub fn plan(&self, budget: u64, threads: u32) -> Result<Plan, PlanError> {
        self.plan_by("joint", budget, threads)
    }

    /// A plan by some strategy, as first constructed, checked.
    pub fn plan_by(&self, strategy: &str, budget: u64, threads: u32) -> Result<Plan, PlanError> {
        self.plan_with(strategy, budget, threads, Effort::Fast)
    }

    /// A plan by some strategy, checked.
    pub fn plan_with(
        &self,
        strategy: &str,
        budget: u64,
        threads: u32,
        effort: Effort,
    ) -> Result<Plan, PlanError> {
        let request = Request {
            network: &self.network,
            weights_bytes: self.weights_bytes,
            budget,
            threads,
            profile: &self.board.profile,
            exact: true,
            holds_all: false,
        };
        let plan = search::make(published::named(strategy).unwrap(), &request, effort)?.plan;
        if let Err(violations) = check(&self.network, &plan, self.weights_bytes) {
            panic!("budget {budget}: {}", violations[0]);
        }
        Ok(plan)
    }

    /// A pack with a plan for each budget.
    pub fn pack(&self, path: &Path, budgets: &[u64], threads: u32) {
        let plan = |budget: &u64| self.plan(*budget, threads).unwrap();
        self.write(path, &budgets.iter().map(plan).collect::<Vec<_>>());
    }

    /// Plans for these budgets, made together and checked.
    pub fn together(&self, budgets: &[u64], threads: u32, effort: Effort) -> Chosen {
        self.chosen_by("joint", budgets, threads, effort)
    }

    /// The same by some strategy.
    pub fn chosen_by(
        &self,
        strategy: &str,
        budgets: &[u64],
        threads: u32,
        effort: Effort,
    ) -> Chosen {
        let (strategy, profile) = (published::named(strategy).unwrap(), &self.board.profile);
        let request = PackRequest::new(strategy, budgets.to_vec(), profile.clone(), threads);
        let request = PackRequest { exact: true, effort, ..request };
        let chosen = choose(&self.network, &request).unwrap();
        for plan in chosen.made.iter().map(|made| &made.plan) {
            if let Err(violations) = check(&chosen.network, plan, chosen.weights_bytes) {
                panic!("budget {}: {}", plan.budget, violations[0]);
            }
        }
        chosen
    }

    /// A pack with a plan for each budget, made together.
    pub fn pack_together(&self, path: &Path, budgets: &[u64], threads: u32) {
        let chosen = self.together(budgets, threads, Effort::Default);
        let Chosen { network, weights_bytes, made, predicted_ns } = chosen;
        let plans: Vec<Plan> = made.into_iter().map(|made| made.plan).collect();
        write_pack(path, &network, weights_bytes, &plans, &predicted_ns, &mut |_| {}).unwrap();
    }

    /// A pack of these plans.
    pub fn write(&self, path: &Path, plans: &[Plan]) {
        let predicted = vec![0; plans.len()];
        write_pack(path, &self.network, self.weights_bytes, plans, &predicted, &mut |_| {})
            .unwrap();
    }

    /// The smallest feasible budget, as the error names it.
    pub fn smallest(&self, threads: u32) -> u64 {
        match self.plan(1 << 12, threads) {
            Err(PlanError::Budget { smallest, .. }) => smallest,
            other => panic!("{other:?}"),
        }
    }

    /// The same of plans that are made together.
    pub fn smallest_together(&self, threads: u32) -> u64 {
        let request = PackRequest::new(&JOINT, vec![0], self.board.profile.clone(), threads);
        match choose(&self.network, &PackRequest { exact: true, ..request }) {
            Err(PlanError::Budget { smallest, .. }) => smallest,
            other => panic!("{other:?}"),
        }
    }

    /// Values for input `index` that look like data.
    pub fn input(&self, index: usize, seed: u64) -> Vec<f32> {
        let elements: usize = self.network.inputs[index].shape.iter().product();
        let values = noise(elements, seed + index as u64);
        let entries = (self.graph.nodes.iter())
            .filter(|node| node.op == Op::Gather)
            .find(|node| node.inputs[1] == Some(self.graph.inputs[index]))
            .and_then(|node| Some(self.graph.values[node.inputs[0]?].shape[0] as f32));
        match entries {
            Some(entries) => values.iter().map(|value| (value * entries).trunc()).collect(),
            None => values,
        }
    }

    pub fn inputs(&self, seed: u64) -> Vec<Vec<f32>> {
        (0..self.network.inputs.len()).map(|index| self.input(index, seed)).collect()
    }

    /// What the double-precision reference makes of the inputs.
    pub fn reference(&self, inputs: &[Vec<f32>]) -> Vec<Vec<f64>> {
        let wide: Vec<Vec<f64>> =
            inputs.iter().map(|input| input.iter().map(|x| f64::from(*x)).collect()).collect();
        reference::run(&self.graph, &wide)
    }
}

/// A pack of several shapes of a network, each by its name, with a plan for each budget. Their
/// networks as they were planned.
pub fn pack_shapes(
    path: &Path,
    shapes: &[(&str, Graph)],
    board: &Board,
    budgets: &[u64],
    threads: u32,
) -> Vec<Network> {
    let request = PackRequest::new(&JOINT, budgets.to_vec(), board.profile.clone(), threads);
    let request = PackRequest { effort: Effort::Fast, ..request };
    let mut shared = SharedWeights::default();
    let mut all: Vec<(&str, Chosen, Vec<Plan>)> = Vec::new();
    for (name, graph) in shapes {
        let network = passes::lower(graph, board.profile.isa).unwrap();
        let chosen = choose_shape(&network, &request, &shared).unwrap();
        shared.add(&chosen.network);
        let plans: Vec<Plan> = chosen.made.iter().map(|made| made.plan.clone()).collect();
        for plan in &plans {
            check(&chosen.network, plan, chosen.weights_bytes).unwrap();
        }
        all.push((name, chosen, plans));
    }
    let written: Vec<Shape<'_>> = all
        .iter()
        .map(|(name, chosen, plans)| Shape {
            name,
            network: &chosen.network,
            plans,
            predicted_ns: &chosen.predicted_ns,
        })
        .collect();
    let weights_bytes = all.last().unwrap().1.weights_bytes;
    write_shapes(path, &written, weights_bytes, &mut |_| {}).unwrap();
    all.into_iter().map(|(_, chosen, _)| chosen.network).collect()
}

/// Uniform in [-1, 1), from a linear congruential generator.
pub fn noise(elements: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..elements)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
        })
        .collect()
}

/// A page-aligned arena, poisoned: whatever is read before it was written is visible.
pub struct Aligned {
    bytes: Vec<u8>,
    len: usize,
}

impl Aligned {
    pub fn new(len: u64) -> Self {
        let len = len as usize;
        Self { bytes: vec![0xFF; len + 4096], len }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        let start = self.bytes.as_ptr().align_offset(4096);
        &mut self.bytes[start..start + self.len]
    }
}

/// Runs a pack that is in memory, loading inline, `runs` times; the outputs of the last run.
pub fn run_inline(
    pack: &[u8],
    budget: u64,
    inputs: &[Vec<f32>],
    device: &dyn Device,
    runs: usize,
) -> Vec<Vec<f32>> {
    let mut storage = Slice(pack);
    let mut arena = Aligned::new(budget);
    let options = Options { threads: device.threads() as u32, ..Options::default() };
    let mut instance = Instance::open(&mut storage, arena.bytes(), options).unwrap();
    let mut model = instance.inline(&mut storage);
    let mut outputs = Vec::new();
    for _ in 0..runs {
        for (index, input) in inputs.iter().enumerate() {
            write_input(&mut model, index, input);
        }
        model.infer(device).unwrap();
        outputs = (0..model.outputs().len()).map(|i| model.output(i).unwrap().to_vec()).collect();
    }
    outputs
}

/// Largest difference, as a share of the largest magnitude.
pub fn difference(found: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let worst = found.iter().zip(expected).fold(0.0f64, |m, (a, b)| {
        m.max((f64::from(*a) - b).abs()).max(if a.is_nan() { 1e30 } else { 0.0 })
    });
    worst / largest.max(1e-30)
}

pub fn bits(outputs: &[Vec<f32>]) -> Vec<Vec<u32>> {
    outputs.iter().map(|output| output.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Writes an input: whole numbers as words where the network has integers.
pub fn write_input(model: &mut Model<'_, '_, impl Feed>, index: usize, values: &[f32]) {
    match model.input_words_mut(index) {
        Ok(words) => words.iter_mut().zip(values).for_each(|(word, x)| *word = *x as i32),
        Err(_) => model.input_mut(index).unwrap().copy_from_slice(values),
    }
}
