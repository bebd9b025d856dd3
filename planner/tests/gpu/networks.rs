//! Whole networks on a GPU, or on the fake driver that runs its kernels on the processor, late and in an order of its own: in
//! both memory modes, within several budgets, by several strategies, the bits are the processor's. Errors of the
//! driver end an inference, not the process.

use crate::common::cuda::OneGpu;
use crate::common::{self, Subject, bits, gpu, write_input};
use eyelet::device::Inline;
use eyelet::device::accelerator::MemoryError;
use eyelet::device::cuda::{GpuError, Memory};
use eyelet::executor::{Feed, InferError, Instance, LoadError, Model, OpenError, Options};
use eyelet::pack::Step;
use eyelet::storage::Slice;
use eyelet_planner::graph::Graph;
use eyelet_planner::import;
use eyelet_planner::plan::Plan;
use eyelet_planner::published;
use std::path::Path;

/// A network as GPUs have it, and what the processor makes of it.
struct Case {
    shared: Subject,
    staged: Subject,
    inputs: Vec<Vec<Vec<f32>>>,
    /// For each of the inputs.
    outputs: Vec<Vec<Vec<u32>>>,
}

/// A pack for GPUs, and the bytes of arena of its plans.
struct Pack {
    memory: Memory,
    /// Whether its plans have staging rings, where they stream.
    staged: bool,
    bytes: Vec<u8>,
    budgets: Vec<u64>,
}

impl Case {
    fn new(path: &Path, rounds: u64) -> Self {
        Self::of_graph(|| import::import(path).unwrap(), rounds)
    }

    fn of_graph(graph: impl Fn() -> Graph, rounds: u64) -> Self {
        let on_cpu = Subject::of_graph(graph(), crate::common::board::board());
        let [shared, staged] =
            ["jetson-nano", "gpu-host"].map(|board| Subject::of_graph(graph(), gpu::board(board)));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cpu.pack");
        let whole = 1 << 28;
        on_cpu.write(&path, &[on_cpu.plan(whole, 1).unwrap()]);
        let pack = std::fs::read(&path).unwrap();
        let inputs: Vec<_> = (0..rounds).map(|seed| on_cpu.inputs(10 * seed + 1)).collect();
        let outputs = inputs.iter();
        let outputs =
            outputs.map(|inputs| bits(&common::run_inline(&pack, whole, inputs, &Inline, 1)));
        let outputs = outputs.collect();
        Self { shared, staged, inputs, outputs }
    }

    fn subject(&self, memory: Memory) -> &Subject {
        match memory {
            Memory::ZeroCopy => &self.shared,
            Memory::Staged => &self.staged,
        }
    }

    /// Plans of these shares of the way from the smallest budget to one that streams nothing.
    fn plans(&self, memory: Memory, shares: &[f64]) -> Vec<Plan> {
        let subject = self.subject(memory);
        let smallest = subject.smallest(1);
        let more = subject.weights_bytes + (1 << 20);
        let budget = |share: &f64| smallest + (more as f64 * share) as u64;
        shares.iter().map(|share| subject.plan(budget(share), 1).unwrap()).collect()
    }

    fn pack(&self, memory: Memory, plans: &[Plan]) -> Pack {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gpu.pack");
        self.subject(memory).write(&path, plans);
        let bytes = std::fs::read(&path).unwrap();
        let staged = plans.iter().any(|plan| plan.staging_bytes > 0);
        Pack { memory, staged, bytes, budgets: plans.iter().map(|plan| plan.arena_bytes).collect() }
    }

    fn infer<F: Feed>(&self, model: &mut Model<'_, '_, F>, round: usize) -> Result<(), InferError> {
        let round = round % self.inputs.len();
        for (index, input) in self.inputs[round].iter().enumerate() {
            write_input(model, index, input);
        }
        model.infer(&Inline)?;
        let outputs: Vec<_> =
            (0..model.outputs().len()).map(|index| model.output(index).unwrap().to_vec()).collect();
        assert!(bits(&outputs) == self.outputs[round], "the processor's bits, round {round}");
        Ok(())
    }

    fn check<F: Feed>(&self, model: &mut Model<'_, '_, F>, rounds: usize) {
        (0..rounds).for_each(|round| self.infer(model, round).unwrap());
    }

    /// With all of a pack's budgets, changing from each to the next, inline and with a loader.
    fn check_budgets(&self, gpu: &OneGpu, pack: &Pack, rounds: usize) {
        let mut device = gpu.memory_for(&pack.bytes, pack.memory, pack.most()).unwrap();
        let mut storage = Slice(&pack.bytes);
        let options = Options { budget: pack.budgets[0], ..Options::default() };
        let mut instance = Instance::open_on(&mut storage, &mut device, options).unwrap();
        assert!(!instance.plan().loads.is_empty(), "the smallest budget streams");
        assert_eq!(instance.plan().staging_bytes > 0, pack.staged);
        self.check(&mut instance.inline(&mut storage), rounds);
        instance
            .with_loader(&mut storage, |model| {
                for budget in pack.budgets.iter().chain(&pack.budgets[..1]) {
                    model.set_budget(*budget).unwrap();
                    self.check(model, rounds);
                }
            })
            .unwrap();
    }
}

impl Pack {
    fn most(&self) -> u64 {
        self.budgets.iter().copied().max().unwrap()
    }
}

const MODES: [Memory; 2] = [Memory::ZeroCopy, Memory::Staged];

#[test]
fn digits_have_the_processors_bits_in_any_order_of_streams() {
    let case = Case::new(&common::digits(), 3);
    for memory in MODES {
        let pack = case.pack(memory, &case.plans(memory, &[0.0, 0.1, 0.4, 1.0]));
        for seed in 1..=12 {
            let behaviour = format!("seed={seed},delay_us={}", seed % 3 * 20);
            let gpu = OneGpu::configured(&behaviour).unwrap_or_else(OneGpu::open);
            case.check_budgets(&gpu, &pack, 5);
        }
    }
}

#[test]
fn staging_rings_of_any_size_will_do() {
    let case = Case::new(&common::digits(), 2);
    let gpu = OneGpu::open();
    for places in [1, 2, 3, 7] {
        let plans = case.plans(Memory::ZeroCopy, &[0.0, 0.2]);
        let plans = plans.into_iter().map(|plan| gpu::staged(&case.shared.network, plan, places));
        let plans: Vec<_> = plans.filter(|plan| plan.staging_bytes > 0).collect();
        let mut pack = case.pack(Memory::ZeroCopy, &plans);
        pack.memory = Memory::Staged;
        case.check_budgets(&gpu, &pack, 4);
    }
}

#[test]
fn every_strategy_has_the_processors_bits() {
    let case = Case::new(&common::digits(), 2);
    let (mut planned, mut synchronous) = (0, 0);
    for seed in 1..4 {
        let gpu = OneGpu::configured(&format!("seed={seed}")).unwrap_or_else(OneGpu::open);
        for memory in MODES {
            for strategy in published::names() {
                // Not all of them are for all devices.
                let Ok(plan) = case.subject(memory).plan_by(strategy, 1 << 20, 1) else { continue };
                if plan.loads.is_empty() {
                    continue;
                }
                planned += 1;
                let reads = |step: &Step| step.reads > 0;
                synchronous += u32::from(plan.steps.iter().any(reads));
                let pack = case.pack(memory, &[plan]);
                case.check_budgets(&gpu, &pack, 3);
            }
        }
    }
    assert!(planned >= 3 * 7 && synchronous > 0, "{planned} plans, {synchronous} with reads");
}

/// A GPU that shares the host's memory copies, too, if the plan says so; or reads the same plan's loads to where they are used.
#[test]
fn staged_plans_suit_integrated_gpus_in_both_modes() {
    let case = Case::new(&common::digits(), 3);
    let mut pack = case.pack(Memory::Staged, &case.plans(Memory::Staged, &[0.0, 0.3, 1.0]));
    for seed in 1..4 {
        let behaviour = format!("integrated=1,capability=72,seed={seed}");
        let Some(gpu) = OneGpu::configured(&behaviour) else { return };
        assert_eq!(Memory::of(&gpu.context), Memory::ZeroCopy);
        for memory in MODES {
            pack.memory = memory;
            case.check_budgets(&gpu, &pack, 3);
        }
    }
}

/// Whoever leaves in the middle of an inference leaves no work behind that touches memory which is gone.
#[test]
fn a_gpu_dropped_in_mid_inference_waits_for_its_streams() {
    let case = Case::new(&common::digits(), 1);
    for memory in MODES {
        let pack = case.pack(memory, &case.plans(memory, &[0.0]));
        for seed in 1..=20 {
            let behaviour = format!("seed={seed},delay_us=50");
            let gpu = OneGpu::configured(&behaviour).unwrap_or_else(OneGpu::open);
            let mut device = gpu.memory_for(&pack.bytes, pack.memory, pack.most()).unwrap();
            let mut storage = Slice(&pack.bytes);
            let mut instance =
                Instance::open_on(&mut storage, &mut device, Options::default()).unwrap();
            let left = instance.with_loader(&mut storage, |model| {
                model.input_mut(0).unwrap().copy_from_slice(&case.inputs[0][0]);
                (0..1 + seed % 4).for_each(|_| assert!(model.step(&Inline).is_ok()));
            });
            left.unwrap();
        }
    }
}

#[test]
fn squeezenet_has_the_processors_bits() {
    let folder = tempfile::tempdir().unwrap();
    let path = common::zoo_model("squeezenet1_1", folder.path());
    let case = Case::new(&path, 1);
    let gpu = OneGpu::open();
    for memory in MODES {
        let pack = case.pack(memory, &case.plans(memory, &[0.0, 0.3, 1.0]));
        case.check_budgets(&gpu, &pack, 1);
    }
}

/// What an inference or an open pack has to say of the driver.
fn driver_error(error: InferError) -> (&'static str, i32) {
    match error {
        InferError::Device(error) | InferError::Load(LoadError::Device { error, .. }) => {
            (error.call, error.code)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn errors_of_the_driver_end_an_inference_and_no_more() {
    let case = Case::new(&common::digits(), 2);
    let mut told = 0;
    for memory in MODES {
        let pack = case.pack(memory, &case.plans(memory, &[0.0]));
        for call in [
            "cuCtxSetCurrent",
            "cuEventRecord",
            "cuEventSynchronize",
            "cuLaunchKernel",
            "cuMemcpyDtoHAsync",
            "cuMemcpyHtoDAsync",
            "cuStreamSynchronize",
            "cuStreamWaitEvent",
        ] {
            // One that passes, and one that stays with the context.
            for (code, stays) in [(1, false), (719, true)] {
                for (number, at) in [1, 2, 9, 30, 71].into_iter().enumerate() {
                    let behaviour = format!("seed={number},fail={call}:{code}:{at}");
                    let Some(gpu) = OneGpu::configured(&behaviour) else { return };
                    told += u32::from(fails_well(&case, &pack, &gpu, call, code, stays));
                }
            }
            // And the process goes on.
            let gpu = OneGpu::open();
            case.check_budgets(&gpu, &pack, 2);
        }
    }
    assert!(told >= 60, "{told} errors were told");
}

/// Whether anything failed.
fn fails_well(case: &Case, pack: &Pack, gpu: &OneGpu, call: &str, code: i32, stays: bool) -> bool {
    let ours = |found: (&str, i32)| {
        let named = found.0.strip_suffix("_v2").unwrap_or(found.0) == call;
        // What stays is told by whichever call comes next.
        assert!(found.1 == code && (named || stays), "{found:?}, not {call}, {code}");
    };
    let mut device = match gpu.memory_for(&pack.bytes, pack.memory, pack.most()) {
        Ok(device) => device,
        Err(GpuError::Call(error) | GpuError::Memory(MemoryError { error, .. })) => {
            ours((error.call, error.code));
            return true;
        }
        Err(other) => panic!("{other}"),
    };
    let mut storage = Slice(&pack.bytes);
    let mut instance = match Instance::open_on(&mut storage, &mut device, Options::default()) {
        Ok(instance) => instance,
        Err(
            OpenError::Load(LoadError::Device { error, .. })
            | OpenError::Device(error)
            | OpenError::Memory(MemoryError { error, .. }),
        ) => {
            ours((error.call, error.code));
            return true;
        }
        Err(other) => panic!("{other}"),
    };
    let mut failed = false;
    let results = instance.with_loader(&mut storage, |model| {
        (0..10).map(|round| case.infer(model, round)).collect::<Vec<_>>()
    });
    let results = results.unwrap();
    for result in &results {
        if let Err(error) = result {
            failed = true;
            ours(driver_error(*error));
        }
        assert!(!(stays && failed && result.is_ok()), "what stays is told each time");
    }
    let errors = results.iter().filter(|result| result.is_err()).count();
    assert!(stays || errors <= 1, "{call} {code}: {errors} errors for one");
    failed
}

#[test]
fn too_little_memory_is_told_with_numbers() {
    let case = Case::new(&common::digits(), 1);
    let pack = case.pack(Memory::Staged, &case.plans(Memory::Staged, &[0.0]));
    // The kernels, and nothing beside them.
    let Some(gpu) = OneGpu::configured("memory=32768") else { return };
    let mut device = gpu.memory_for(&pack.bytes, pack.memory, pack.most()).unwrap();
    let opened = Instance::open_on(&mut Slice(&pack.bytes), &mut device, Options::default());
    let error = opened.unwrap_err();
    assert!(matches!(error, OpenError::Memory(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains("memory of the GPU, where 32768 are free"), "{text}");
}
