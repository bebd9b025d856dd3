//! The program's functions that a set calls.

use super::super::error::{Error, Kind as _};
use super::ports::Ports;
use crate::executor;
use crate::set::{Finished, Host, JobError, SetEvent};
use core::ffi::c_void;

/// A job that has ended.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Its task.
    pub task: u32,
    /// Not zero: it ended after its deadline.
    pub missed: u32,
    /// From its release to its end.
    pub response_ns: u64,
}

/// Writes a job's inputs.
pub type Inputs = unsafe extern "C" fn(context: *mut c_void, task: u32, ports: *mut Ports<'_>);
/// Reads a job's outputs.
pub type Outputs =
    unsafe extern "C" fn(context: *mut c_void, job: *const Job, ports: *mut Ports<'_>);
/// A job was given up.
pub type Failed = unsafe extern "C" fn(context: *mut c_void, task: u32, why: *const Error);
/// Something began or ended.
pub type Event = unsafe extern "C" fn(context: *mut c_void, event: u32, task: u32, now_ns: u64);
/// A clock, in nanoseconds.
pub type Now = unsafe extern "C" fn(context: *mut c_void) -> u64;

/// The program's side of a set. Functions that are missing are not called.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Functions {
    /// A job is about to compute: its inputs are to be written.
    pub inputs: Option<Inputs>,
    /// A job has ended: its outputs are there until this returns.
    pub outputs: Option<Outputs>,
    /// A job was given up. The task's next one tries again.
    pub failed: Option<Failed>,
    /// Something began or ended.
    pub event: Option<Event>,
    /// The clock; null for the system's, where there is one.
    pub now: Option<Now>,
    /// An argument of the functions.
    pub context: *mut c_void,
}

impl Functions {
    /// The clock.
    ///
    /// # Safety
    /// The functions keep to their description.
    pub(super) unsafe fn now_ns(&self) -> u64 {
        match self.now {
            // SAFETY: the caller's promise.
            Some(now) => unsafe { now(self.context) },
            None => crate::sys::now_ns(),
        }
    }
}

/// The program's side, for the length of a scope.
pub(super) struct Program(Functions);

impl Program {
    /// # Safety
    /// The functions keep to their description.
    pub unsafe fn new(functions: Functions) -> Self {
        Self(functions)
    }
}

impl Host for Program {
    fn inputs(&mut self, task: usize, ports: &mut dyn executor::Ports) {
        if let Some(inputs) = self.0.inputs {
            let mut ports = Ports(ports);
            // SAFETY: `new` has the caller's promise.
            unsafe { inputs(self.0.context, task as u32, &raw mut ports) };
        }
    }

    fn outputs(&mut self, job: &Finished, ports: &mut dyn executor::Ports) {
        if let Some(outputs) = self.0.outputs {
            let Finished { task, response_ns, missed } = *job;
            let job = Job { task: task as u32, missed: missed.into(), response_ns };
            let mut ports = Ports(ports);
            // SAFETY: likewise.
            unsafe { outputs(self.0.context, &raw const job, &raw mut ports) };
        }
    }

    fn failed(&mut self, task: usize, error: JobError) {
        if let Some(failed) = self.0.failed {
            let why = error.failure().record();
            // SAFETY: likewise.
            unsafe { failed(self.0.context, task as u32, &raw const why) };
        }
    }

    fn event(&mut self, event: SetEvent, now_ns: u64) {
        let Some(call) = self.0.event else { return };
        let (code, task) = match event {
            SetEvent::Released { task } => (0, task),
            SetEvent::StepBegins { task } => (1, task),
            SetEvent::StepEnds { task } => (2, task),
            SetEvent::Ended { task } => (3, task),
            SetEvent::StartsOver { task } => (4, task),
            SetEvent::GivenUp { task } => (5, task),
            SetEvent::ChunkBegins { task, .. } => (6, task),
            SetEvent::ChunkEnds { task, .. } => (7, task),
            SetEvent::ChunkFails { task, .. } => (8, task),
            SetEvent::ChunkLeaves { task, .. } => (9, task),
        };
        // SAFETY: likewise.
        unsafe { call(self.0.context, code, task as u32, now_ns) };
    }
}
