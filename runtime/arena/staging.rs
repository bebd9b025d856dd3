//! Pinned memory between the host and a device with a memory of its own: the mirrors of the ports,
//! and the ring that loads are read into and copied from. And what launches kernels with addresses
//! that were proved.
#![allow(unsafe_code)]

use crate::device::DeviceError;
use crate::device::accelerator::{Accelerator, Home, Stream};
use crate::device::accelerator::{Launch, Queue};
use crate::pack::{PAGE, Skeleton};
use crate::proof::Proven;
use core::ops::Range;

/// Mirrors begin on a cache line.
const LINE: usize = 64;

/// The bytes of pinned memory that mirror the tensor of port `index` (inputs first).
pub(super) fn mirror(skeleton: &Skeleton<'_>, index: usize) -> Range<usize> {
    let mut end = 0usize;
    for (at, port) in skeleton.inputs.iter().chain(skeleton.outputs).enumerate() {
        let Some(tensor) = skeleton.tensors.get(port.tensor as usize) else { break };
        let bytes = usize::try_from(4 * tensor.rows() * u64::from(tensor.cols()));
        let start = end.next_multiple_of(LINE);
        end = start.saturating_add(bytes.unwrap_or(usize::MAX));
        if at == index {
            return start..end;
        }
    }
    end..end
}

/// Bytes of all mirrors, up to a page: the ring follows.
pub(crate) fn mirrors(skeleton: &Skeleton<'_>) -> u64 {
    let ports = skeleton.inputs.len() + skeleton.outputs.len();
    (mirror(skeleton, ports).end as u64).saturating_add(PAGE - 1) / PAGE * PAGE
}

/// Where the arena's first byte lies, or would, in a device's addresses.
pub(super) fn base(proven: &Proven<'_>, accelerator: &dyn Accelerator) -> u64 {
    match accelerator.home() {
        Home::Shared(address) => address,
        Home::Own(address, _) => address.wrapping_sub(proven.start()),
    }
}

/// The staging ring. The loader alone reads into it and issues copies from it.
#[derive(Debug)]
pub(crate) struct Ring<'m> {
    bytes: &'m mut [u8],
}

impl<'m> Ring<'m> {
    pub(super) fn new(bytes: &'m mut [u8]) -> Self {
        Self { bytes }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// A part of it, to be read into; none beyond its end. May be asked for when no copy from there
    /// is in flight any more: otherwise that copies something else than it should.
    pub(crate) fn part(&mut self, start: u64, bytes: u64) -> Option<&mut [u8]> {
        let start = usize::try_from(start).ok()?;
        let end = start.checked_add(usize::try_from(bytes).ok()?)?;
        self.bytes.get_mut(start..end)
    }

    /// Issues the copy of a part to its place in the arena. Does nothing beyond the end of the
    /// ring, or outside of what the plan has of the device's memory.
    pub(crate) fn copy(
        &mut self,
        proven: &Proven<'_>,
        accelerator: &dyn Accelerator,
        start: u64,
        bytes: u64,
        address: u64,
    ) -> Result<(), DeviceError> {
        let Home::Own(_, room) = accelerator.home() else { return Ok(()) };
        let first = address.checked_sub(proven.start());
        let inside =
            first.and_then(|first| first.checked_add(bytes)).is_some_and(|end| end <= room);
        let to = base(proven, accelerator).wrapping_add(address);
        match self.part(start, bytes).filter(|_| inside) {
            // SAFETY: a part of the ring, which is pinned memory, and as many bytes of the
            // device's.
            Some(from) => unsafe { accelerator.copy_in(Stream::Copies, from, to) },
            None => Ok(()),
        }
    }
}

/// Launches the kernels of one step.
pub(super) struct Launches<'a> {
    accelerator: &'a dyn Accelerator,
}

impl<'a> Launches<'a> {
    /// # Safety
    /// A launch touches only memory that the step may touch, as [`Proven`] has found.
    pub(super) unsafe fn new(accelerator: &'a dyn Accelerator) -> Self {
        Self { accelerator }
    }
}

impl Queue for Launches<'_> {
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        // SAFETY: whoever has made this value has promised it.
        unsafe { self.accelerator.launch(launch) }
    }
}
