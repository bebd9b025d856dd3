//! The time of each step.
//!
//! A processor's steps are timed by its clock, one after the other. A GPU does its steps after they
//! were issued, so only its own clock can time them. It keeps a moment before and after the kernels
//! of each step, in their stream. Nothing waits for these moments, so they do not slow the
//! inference. In inferences of more than some 500 steps the host has to read moments in between: it
//! waits for the GPU, and the GPU then waits for the host.

use super::model::{Feed, InferError, Model, Progress};
use crate::device::accelerator::{Accelerator, Stream};
use crate::device::{Device, DeviceError};

/// Times of one step, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Time from the end of the step before to the start of this one: waiting for loads. With a GPU
    /// also the time to issue the step, and before the first step the copies of inputs.
    pub wait_ns: u64,
    /// Time in kernels. With a GPU that was idle it includes the time that the launch takes to
    /// arrive.
    pub compute_ns: u64,
}

impl<F: Feed> Model<'_, '_, F> {
    /// Computes one inference, or the rest of the current one, and writes the times of its steps
    /// until `times` is full. A GPU keeps times only after `Gpu::keep_time`. Otherwise they are the
    /// times in which the processor issues steps.
    pub fn infer_timed(
        &mut self,
        device: &dyn Device,
        times: &mut [StepTimes],
    ) -> Result<(), InferError> {
        let accelerator = self.shared.accelerator().filter(|device| device.moments() >= 3);
        match accelerator.filter(|_| !self.plan().steps.is_empty()) {
            Some(accelerator) => {
                let result = self.kept(device, accelerator, times);
                self.moment = None;
                result
            }
            None => self.clocked(device, times),
        }
    }

    /// By the device's clock.
    fn clocked(&mut self, device: &dyn Device, times: &mut [StepTimes]) -> Result<(), InferError> {
        let first = self.position.saturating_sub(1);
        let mut before = match self.position {
            0 => Default::default(),
            _ => self.stats(),
        };
        for step in first.. {
            let progress = self.step(device)?;
            let now = self.stats();
            if let Some(times) = times.get_mut(step) {
                *times = StepTimes {
                    wait_ns: now.stall_ns.saturating_sub(before.stall_ns),
                    compute_ns: now.compute_ns.saturating_sub(before.compute_ns),
                };
            }
            before = now;
            if progress == Progress::Finished {
                break;
            }
        }
        Ok(())
    }

    /// By the accelerator's: moment 0 is before the first of some steps, moments 2n + 1 and 2n + 2
    /// are around the n-th of them.
    fn kept(
        &mut self,
        device: &dyn Device,
        accelerator: &dyn Accelerator,
        times: &mut [StepTimes],
    ) -> Result<(), InferError> {
        let most = (accelerator.moments() as usize - 1) / 2;
        let mut first = self.position.saturating_sub(1);
        accelerator.keep(0).inspect_err(|_| self.abandon())?;
        for step in first.. {
            self.moment = Some(2 * (step - first) as u32 + 1);
            let finished = self.step(device)? == Progress::Finished;
            if !finished && step - first + 1 < most {
                continue;
            }
            let end = (step + 1).min(times.len());
            let some = times.get_mut(first..end).unwrap_or_default();
            let read = read(accelerator, some).and_then(|()| match finished {
                true => Ok(()),
                false => accelerator.keep(0),
            });
            read.inspect_err(|_| self.abandon())?;
            if finished {
                break;
            }
            first = step + 1;
        }
        Ok(())
    }
}

/// Waits for the moments around some steps, and takes the times between them.
fn read(accelerator: &dyn Accelerator, times: &mut [StepTimes]) -> Result<(), DeviceError> {
    accelerator.drain(Stream::Kernels)?;
    for (step, times) in times.iter_mut().enumerate() {
        let moment = 2 * step as u32;
        times.wait_ns = accelerator.ns_between(moment, moment + 1)?;
        times.compute_ns = accelerator.ns_between(moment + 1, moment + 2)?;
    }
    Ok(())
}
