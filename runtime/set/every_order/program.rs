//! The program of a set: it writes inputs, compares outputs, and knows which jobs are open.

use super::super::*;
use super::NETWORKS;
use crate::arena::ArenaError;
use crate::executor::testing::{inputs, outputs_of};
use crate::executor::{ChunkError, InferError};
use core::cell::Cell;
use std::vec::Vec;

/// The least time of a step.
pub(super) const STEP_NS: u64 = 2;

/// Inputs, and what a network makes of them.
type Example = (Vec<f32>, Vec<f32>);

/// The program's observations in one order of events.
pub(super) struct Program {
    /// Advances by the time of each step.
    pub clock: Cell<u64>,
    /// How much longer the next step takes.
    pub longer_ns: Cell<u64>,
    /// The tasks' jobs that have been released, and have neither ended nor failed.
    pub open: [Cell<bool>; NETWORKS],
    /// Jobs of each task that began to compute.
    pub begun: [Cell<u32>; NETWORKS],
    /// The chunk in flight.
    pub coming: Cell<Option<(usize, u32)>>,
    /// Chunks of each task that are in memory, as far as the program knows.
    pub present: [Cell<u32>; NETWORKS],
    /// Steps that began while a chunk came for another job.
    pub during_loads: Cell<u64>,
    pub ended: Cell<u64>,
    pub given_up: Cell<u64>,
    examples: [Example; 2],
}

impl Program {
    pub fn new() -> Self {
        let other: Vec<f32> = inputs(0).iter().map(|x| 1.0 - x).collect();
        let examples = [inputs(0), other].map(|input| (input.clone(), outputs_of(0, input)));
        assert!(examples[0].1 != examples[1].1, "inputs matter");
        Self {
            clock: Cell::default(),
            longer_ns: Cell::default(),
            open: Default::default(),
            begun: Default::default(),
            coming: Cell::default(),
            present: Default::default(),
            during_loads: Cell::default(),
            ended: Cell::default(),
            given_up: Cell::default(),
            examples,
        }
    }

    /// Before another order of events.
    pub fn restart(&self) {
        self.clock.set(0);
        self.coming.set(None);
        self.open.iter().for_each(|open| open.set(false));
        self.begun.iter().chain(&self.present).for_each(|count| count.set(0));
    }

    fn example(&self, task: usize) -> &Example {
        &self.examples[self.begun[task].get() as usize % 2]
    }
}

impl Host for &Program {
    fn inputs(&mut self, task: usize, ports: &mut dyn Ports) {
        assert!(self.open[task].get(), "task {task} computes without a job");
        self.begun[task].set(self.begun[task].get() + 1);
        ports.input_mut(0).unwrap().copy_from_slice(&self.example(task).0);
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn Ports) {
        let task = job.task;
        assert_eq!(ports.output(0).unwrap(), self.example(task).1, "task {task}");
        assert!(self.open[task].replace(false), "task {task} ends twice");
        self.ended.set(self.ended.get() + 1);
    }

    fn failed(&mut self, task: usize, error: JobError) {
        assert!(self.open[task].replace(false), "task {task} fails twice: {error}");
        assert!(!matches!(error, JobError::Infer(InferError::Chunks { .. })), "{error}");
        let no_slot = ChunkError::Arena(ArenaError::NoSlot);
        assert!(!matches!(error, JobError::Chunk { error, .. } if error == no_slot), "{error}");
        self.given_up.set(self.given_up.get() + 1);
    }

    fn event(&mut self, event: SetEvent, _: u64) {
        match event {
            SetEvent::Released { task } => {
                assert!(!self.open[task].replace(true), "task {task} has two jobs");
            }
            SetEvent::StepBegins { task } => {
                let comes = self.coming.get().map(|(of, _)| of);
                assert!(comes != Some(task), "task {task} computes, and lacks a chunk");
                self.during_loads.set(self.during_loads.get() + u64::from(comes.is_some()));
                self.clock.set(self.clock.get() + STEP_NS + self.longer_ns.get());
            }
            SetEvent::ChunkBegins { task, chunk } => {
                assert_eq!(self.coming.replace(Some((task, chunk))), None, "two at a time");
            }
            SetEvent::ChunkEnds { task, chunk } | SetEvent::ChunkFails { task, chunk } => {
                assert_eq!(self.coming.take(), Some((task, chunk)), "this one did not begin");
                let came = matches!(event, SetEvent::ChunkEnds { .. });
                self.present[task].set(self.present[task].get() + u32::from(came));
            }
            SetEvent::ChunkLeaves { task, .. } => {
                self.present[task].set(self.present[task].get().checked_sub(1).unwrap());
            }
            _ => {}
        }
    }
}
