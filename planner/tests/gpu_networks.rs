//! Whole networks on a GPU, or on the fake driver that runs its kernels on the processor: in both memory modes, within several
//! budgets, the bits are the processor's. Errors of the driver end an inference, not the process.
#![cfg(feature = "cuda")]

mod common;

use common::cuda::OneGpu;
use common::{Subject, bits, gpu};
use eyelet::device::Inline;
use eyelet::device::cuda::Memory;
use eyelet::executor::{Feed, Instance, Model, Options};
use eyelet::storage::Slice;
use eyelet_planner::graph::Graph;
use eyelet_planner::import;
use eyelet_planner::strategy::Effort;
use std::path::Path;

/// A network as a GPU has it, and what the processor makes of it.
struct Case {
    on_gpu: Subject,
    inputs: Vec<Vec<Vec<f32>>>,
    /// For each of the inputs.
    outputs: Vec<Vec<Vec<u32>>>,
}

impl Case {
    fn new(path: &Path, rounds: u64) -> Self {
        let graph = || import::import(path).unwrap();
        Self::of_graph(graph, rounds)
    }

    fn of_graph(graph: impl Fn() -> Graph, rounds: u64) -> Self {
        let on_cpu = Subject::of_graph(graph(), eyelet_planner::board::host());
        let on_gpu = Subject::of_graph(graph(), gpu::board("jetson-nano"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.pack");
        let whole = 1 << 28;
        on_cpu.write(&path, &[on_cpu.plan_with("joint", whole, 1, Effort::Fast).unwrap()]);
        let pack = std::fs::read(&path).unwrap();
        let inputs: Vec<_> = (0..rounds).map(|seed| on_cpu.inputs(10 * seed + 1)).collect();
        let outputs = inputs.iter();
        let outputs =
            outputs.map(|inputs| bits(&common::run_inline(&pack, whole, inputs, &Inline, 1)));
        let outputs = outputs.collect();
        Self { on_gpu, inputs, outputs }
    }

    /// A pack with plans of these shares of the way from the smallest budget to one that streams nothing.
    fn pack(&self, memory: Memory, shares: &[f64]) -> (Vec<u8>, Vec<u64>) {
        let subject = &self.on_gpu;
        let smallest = subject.smallest(1);
        let most = smallest + subject.weights_bytes + (1 << 20);
        let plans: Vec<_> = shares
            .iter()
            .map(|share| {
                let budget = smallest + ((most - smallest) as f64 * share) as u64;
                let plan = subject.plan(budget, 1).unwrap();
                match memory == Memory::Staged && !plan.loads.is_empty() {
                    true => gpu::staged(&subject.network, plan, 3),
                    false => plan,
                }
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.pack");
        subject.write(&path, &plans);
        let bytes = plans.iter().map(|plan| plan.arena_bytes).collect();
        (std::fs::read(&path).unwrap(), bytes)
    }

    fn check<F: Feed>(&self, model: &mut Model<'_, '_, F>, rounds: usize) {
        for round in (0..self.inputs.len()).cycle().take(rounds) {
            for (index, input) in self.inputs[round].iter().enumerate() {
                model.input_mut(index).unwrap().copy_from_slice(input);
            }
            model.infer(&Inline).unwrap();
            let outputs: Vec<_> = (0..model.outputs().len())
                .map(|index| model.output(index).unwrap().to_vec())
                .collect();
            assert!(bits(&outputs) == self.outputs[round], "the processor's bits, round {round}");
        }
    }

    /// In both modes and with all these budgets, changing from each to the next, inline and with a loader.
    fn check_everywhere(&self, gpu: &OneGpu, shares: &[f64], rounds: usize) {
        for memory in [Memory::ZeroCopy, Memory::Staged] {
            let (pack, budgets) = self.pack(memory, shares);
            let largest = *budgets.iter().max().unwrap();
            let mut device = gpu.memory_for(&pack, memory, largest).unwrap();
            let mut storage = Slice(&pack);
            let options = Options { budget: budgets[0], ..Options::default() };
            let mut instance = Instance::open_on(&mut storage, &mut device, options).unwrap();
            assert!(!instance.plan().loads.is_empty(), "the smallest budget streams");
            self.check(&mut instance.inline(&mut storage), rounds);
            instance
                .with_loader(&mut storage, |model| {
                    for budget in budgets.iter().chain(&budgets[..1]) {
                        model.set_budget(*budget).unwrap();
                        self.check(model, rounds);
                    }
                })
                .unwrap();
        }
    }
}

#[test]
fn digits_have_the_processors_bits() {
    let gpu = OneGpu::open();
    Case::new(&common::digits(), 3).check_everywhere(&gpu, &[0.0, 0.1, 0.4, 1.0], 5);
}

#[test]
fn squeezenet_has_the_processors_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = common::zoo_model("squeezenet1_1", folder.path());
    let gpu = OneGpu::open();
    Case::new(&path, 1).check_everywhere(&gpu, &[0.0, 0.3, 1.0], 1);
}
