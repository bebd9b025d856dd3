//! With a GPU the runtime calls the allocator as little: opening a pack, changing the budget, inferences, inline and with a
//! loader thread. What the driver allocates when memory is reserved is its own.
//!
//! A program of its own, without the test harness, whose threads would be counted.

mod common;

use common::counting::{Counting, calls};
use common::cuda::OneGpu;
use common::{Subject, gpu};
use eyelet::device::Inline;
use eyelet::device::cuda::Memory;
use eyelet::executor::{Feed, Instance, Model, Options, StepTimes};
use eyelet::storage::Slice;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn infer<F: Feed>(model: &mut Model<'_, '_, F>, input: &[f32], budgets: [u64; 2]) -> f32 {
    for run in 0..6 {
        model.set_budget(budgets[run / 2 % 2]).unwrap();
        model.input_mut(0).unwrap().copy_from_slice(input);
        model.infer(&Inline).unwrap();
        model.input_mut(0).unwrap().copy_from_slice(input);
        let mut times = [StepTimes::default(); 64];
        model.infer_timed(&Inline, &mut times).unwrap();
        assert!(times[0].compute_ns > 0, "the GPU keeps time");
    }
    model.output(0).unwrap().iter().map(|x| x.abs()).sum()
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("digits.pack");
    let mut sums = Vec::new();
    for (board, memory) in [("jetson-nano", Memory::ZeroCopy), ("gpu-host", Memory::Staged)] {
        let subject = Subject::for_board(&common::digits(), gpu::board(board));
        let (budget, large) = (subject.smallest(1), 1 << 20);
        subject.pack(&path, &[budget, large], 1);
        let pack = std::fs::read(&path).unwrap();
        let input = subject.input(0, 7);
        let gpu = OneGpu::open();
        let mut device = gpu.memory_for(&pack, memory, large).unwrap();
        device.keep_time().unwrap();
        let mut storage = Slice(&pack);
        let (mut inline, mut threaded) = (0.0, 0.0);
        let calls = calls(|| {
            let options = Options { budget, ..Options::default() };
            let mut instance = Instance::open_on(&mut storage, &mut device, options).unwrap();
            assert!(!instance.plan().loads.is_empty(), "the smallest budget streams");
            inline = infer(&mut instance.inline(&mut storage), &input, [budget, large]);
            let sum =
                instance.with_loader(&mut storage, |model| infer(model, &input, [budget, large]));
            threaded = sum.unwrap();
        });
        assert_eq!(calls, 0, "calls of the allocator, {memory:?}");
        assert_eq!(inline, threaded);
        sums.push(inline);
    }
    assert!(sums[0] > 0.0 && sums[0] == sums[1], "{sums:?}");
    println!(
        "gpu_no_alloc: no call of the allocator in opening a pack, 24 inferences, half of them timed, and 5 changes of budget, in both memory modes"
    );
}
