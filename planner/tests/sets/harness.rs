//! Networks small enough to be preempted thousands of times, and a program that checks every output.

use crate::common::net::Net;
use crate::common::{Subject, bits, board, run_inline};
use eyelet::arena::SharedArena;
use eyelet::device::Inline;
use eyelet::executor::{ChunkedInstance, Options};
use eyelet::set::{Finished, Host, JobError, Ports, SetEvent, Task};
use eyelet::storage::Slice;
use eyelet_planner::graph::{Graph, Op, Window};
use std::cell::Cell;

pub const CHUNK: u64 = 16 << 10;
/// What one question for the time takes.
pub const TICK_NS: u64 = 1000;
const INPUTS: u64 = 3;

/// Layers of 1x1 over a small image, each with its own weights.
pub fn chain(channels: usize, side: usize, layers: usize) -> Graph {
    let mut net = Net::default();
    let mut x = net.value(&[1, channels, side, side], None);
    net.0.inputs.push(x);
    for _ in 0..layers {
        let weights = net.weights(&[channels, channels, 1, 1]);
        let bias = net.weights(&[channels]);
        let (ones, none) = ([1; 2], [0; 2]);
        let window =
            Window { kernel: ones, stride: ones, dilation: ones, pad_begin: none, pad_end: none };
        let shape = [1, channels, side, side];
        let y = net.node(Op::Conv { window, groups: 1 }, &[x, weights, bias], &shape);
        x = net.same(Op::Clip { min: 0.0, max: 1.0 }, &[y]);
    }
    net.0.outputs.push(x);
    net.0
}

/// A pack, inputs, and what they make of them alone.
pub struct Case {
    pub pack: Vec<u8>,
    pub budget: u64,
    /// The plan reads weights while it computes.
    pub streams: bool,
    inputs: Vec<Vec<f32>>,
    expected: Vec<Vec<Vec<u32>>>,
}

impl Case {
    /// The plan of a graph that holds all weights.
    pub fn resident(graph: Graph) -> Self {
        Self::all(Subject::of_graph(graph, board::board()))
    }

    /// A plan that holds all weights.
    pub fn all(subject: Subject) -> Self {
        let plan = subject.plan(1 << 30, 1).unwrap();
        Self::of(subject, plan.arena_bytes)
    }

    /// The smallest plan, which streams.
    pub fn streaming(graph: Graph) -> Self {
        let subject = Subject::of_graph(graph, board::board());
        let budget = subject.smallest(1);
        Self::of(subject, budget)
    }

    pub fn of(subject: Subject, budget: u64) -> Self {
        Self::of_budgets(subject, &[budget])
    }

    /// Plans for these budgets, which make the same of an input. The last is the one that is opened.
    pub fn of_budgets(subject: Subject, budgets: &[u64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.pack");
        let plans: Vec<_> =
            budgets.iter().map(|budget| subject.plan(*budget, 1).unwrap()).collect();
        let (budget, streams) = (*budgets.last().unwrap(), !plans.last().unwrap().loads.is_empty());
        subject.write(&path, &plans);
        let pack = std::fs::read(&path).unwrap();
        let inputs: Vec<_> = (0..INPUTS).map(|seed| subject.input(0, seed)).collect();
        let alone = |input: &Vec<f32>, budget: u64| {
            bits(&run_inline(&pack, budget, std::slice::from_ref(input), &Inline, 1))
        };
        let expected: Vec<_> = inputs.iter().map(|input| alone(input, budget)).collect();
        assert!(expected[0] != expected[1], "inputs matter");
        for budget in budgets {
            assert_eq!(alone(&inputs[0], *budget), expected[0], "with {budget} bytes");
        }
        Self { pack, budget, streams, inputs, expected }
    }

    pub fn open<'a>(&'a self, arena: &'a SharedArena, chunks: u32) -> ChunkedInstance<'a> {
        let options = Options { budget: self.budget, ..Options::default() };
        ChunkedInstance::open(&mut Slice(&self.pack), arena, options, chunks).unwrap()
    }

    /// Bytes that stay in memory, and chunks.
    pub fn needs(&self) -> (u64, u32) {
        self.needs_of(u32::MAX)
    }

    /// The same if at most so many chunks leave.
    pub fn needs_of(&self, chunks: u32) -> (u64, u32) {
        let arena = SharedArena::new(2 * self.budget + (1 << 20), CHUNK).unwrap();
        let network = self.open(&arena, chunks);
        (network.kept_bytes(), network.chunks())
    }
}

/// An arena for these networks, in which all their chunks share so many slots.
pub fn arena(cases: &[&Case], slots: u32) -> SharedArena {
    arena_for(cases.iter().map(|case| case.needs().0).sum(), slots)
}

/// An arena of so many bytes that stay, and so many slots.
pub fn arena_for(kept: u64, slots: u32) -> SharedArena {
    // The list of free slots takes a page.
    SharedArena::new(kept + 4096 + u64::from(slots) * CHUNK, CHUNK).unwrap()
}

/// A task of a network, whose times are ticks of the clock.
pub fn task(network: &ChunkedInstance<'_>, deadline_ns: u64, level: u16) -> Task {
    let steps = network.plan().steps.len() as u64;
    Task {
        level,
        chunk_ns: if network.streams() { 0 } else { 10 * TICK_NS },
        step_ns: 4 * TICK_NS,
        ..Task::new(deadline_ns, 4 * steps * TICK_NS)
    }
    .of(network)
}

/// A clock of which every question takes a tick.
pub struct Clock(Cell<u64>);

impl Clock {
    pub fn new() -> Self {
        Self(Cell::new(1))
    }

    pub fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + TICK_NS);
        self.0.get()
    }

    pub fn pass(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }
}

/// A program: writes inputs, compares outputs, and counts.
pub struct Program<'c> {
    cases: &'c [&'c Case],
    /// The number of each task's job, of which the input follows.
    jobs: Vec<u64>,
    pub ended: Vec<u64>,
    pub failures: Vec<(usize, JobError)>,
    /// Whether the task's job is in the middle of an inference.
    begun: Vec<bool>,
    last: Option<usize>,
    /// Jobs that started over.
    pub restarts: u64,
    /// Steps that came between two of another job.
    pub preemptions: u64,
    pub left: u64,
}

impl<'c> Program<'c> {
    pub fn new(cases: &'c [&'c Case]) -> Self {
        let none = vec![0; cases.len()];
        let (ended, begun) = (none.clone(), vec![false; cases.len()]);
        let (failures, last, restarts, preemptions, left) = (Vec::new(), None, 0, 0, 0);
        Self { cases, jobs: none, ended, failures, begun, last, restarts, preemptions, left }
    }

    fn which(&self, task: usize) -> usize {
        (self.jobs[task] % INPUTS) as usize
    }
}

impl Host for Program<'_> {
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports) {
        self.jobs[task] += 1;
        self.begun[task] = true;
        let input = &self.cases[task].inputs[self.which(task)];
        ports.input_mut(0).unwrap().copy_from_slice(input);
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        let output = ports.output(0).unwrap().to_vec();
        let expected = &self.cases[job.task].expected[self.which(job.task)];
        assert_eq!(&bits(&[output]), expected, "task {}, job {}", job.task, self.jobs[job.task]);
        self.begun[job.task] = false;
        self.ended[job.task] += 1;
    }

    fn failed(&mut self, task: usize, error: JobError) {
        self.begun[task] = false;
        self.failures.push((task, error));
    }

    fn event(&mut self, event: SetEvent, _: u64) {
        match event {
            SetEvent::StepBegins { task } => {
                let before = self.last.replace(task).filter(|before| *before != task);
                self.preemptions += u64::from(before.is_some_and(|before| self.begun[before]));
            }
            SetEvent::ChunkLeaves { .. } => self.left += 1,
            SetEvent::StartsOver { .. } => self.restarts += 1,
            _ => {}
        }
    }
}
