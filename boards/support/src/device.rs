//! A device with the board's own clock.

use eyelet::device::Device;

/// Another device, and a clock.
#[derive(Clone, Copy, Debug)]
pub struct Clocked<'d, D> {
    /// What computes.
    pub device: &'d D,
    /// A monotone clock, in nanoseconds.
    pub now_ns: fn() -> u64,
}

// SAFETY: all that is promised, the other device does.
unsafe impl<D: Device> Device for Clocked<'_, D> {
    fn threads(&self) -> usize {
        self.device.threads()
    }

    fn run(&self, parts: usize, task: &(dyn Fn(usize, usize) + Sync)) {
        self.device.run(parts, task);
    }

    fn now_ns(&self) -> u64 {
        (self.now_ns)()
    }
}
