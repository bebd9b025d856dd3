//! Type-based static allocation (FlexNN, "Online Execution"): who may touch which bytes of the
//! arena.
//!
//! Addresses are the plan's. A tensor is identified by its type and its count within the type, and
//! each side of the executor holds the allocator of the types that are its own to allocate: the
//! loader [`Weights`], the compute side [`Activations`] with [`Intermediates`]. There is one
//! allocator of each kind for an arena, neither can be copied, and both take indices into tables
//! that [`Proven`](crate::proof::Proven) has proved, never raw addresses: that is why handing out
//! slices is sound although both sides work in one arena at the same time.
//!
//! A step on a processor is lent the rows that it reads and those that it makes, of buffers that
//! are whole ([`ops::rows_read`]). Its output may lie over other rows of its input.
//!
//! For a GPU, steps are launched instead of run, with the same addresses. Where it has a memory of
//! its own, the arena after the tables is there and not the host's: loads, inputs and outputs go
//! through pinned memory ([`Staging`](super::staging)).
#![allow(unsafe_code)]

use super::Chunks;
use super::staging::{Launches, Ring, base, mirror};
use crate::device::DeviceError;
use crate::device::accelerator::{Accelerator, Stream};
use crate::kernels::table::{Packed, Prefetch};
use crate::matrix::{MatMut, MatRef};
use crate::ops::{self, Operand, Slice};
use crate::pack::{FAST, INPUTS, NONE, Region, Step};
use crate::proof::Proven;
use core::marker::PhantomData;
use core::ops::Range;
use core::ptr::{NonNull, slice_from_raw_parts_mut};

/// The arena of an opened pack, after its header.
#[derive(Debug)]
pub(crate) struct PlannedMemory<'a> {
    base: *mut u8,
    /// The start of fast memory, where buffers and scratch may lie.
    fast: *mut u8,
    /// Bytes at its start that are the header's for ever.
    fixed: usize,
    len: usize,
    pinned: Option<Pinned>,
    lifetime: PhantomData<&'a mut [u8]>,
}

/// Pinned memory, when the arena after the tables is a device's own: the mirrors of the ports, then
/// the staging ring.
#[derive(Clone, Copy, Debug)]
struct Pinned {
    base: *mut u8,
    mirrors: usize,
    len: usize,
}

// SAFETY: `PlannedMemory` and the allocators made of it stand for exclusive access to the arena
// (divided in time by the executor's counters); moving that to another thread is what `&mut [u8]`
// allows.
unsafe impl Send for PlannedMemory<'_> {}
unsafe impl Sync for PlannedMemory<'_> {}

/// The loader's allocator: the targets of loads, and the tables of shapes and plans.
#[derive(Debug)]
pub(crate) struct Weights<'m, 'a> {
    base: *mut u8,
    fixed: usize,
    len: usize,
    ring: Option<Ring<'m>>,
    lifetime: PhantomData<(&'m mut (), &'a mut [u8])>,
}

/// The compute side's allocator: activations, intermediates (scratch), and the weights that have
/// been loaded, for reading.
#[derive(Debug)]
pub(crate) struct Activations<'a> {
    base: *mut u8,
    fast: *mut u8,
    len: usize,
    mirrors: Option<&'a mut [u8]>,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: as for `PlannedMemory`.
unsafe impl Send for Weights<'_, '_> {}
unsafe impl Send for Activations<'_> {}

/// Everything a step touches.
pub(crate) struct Operands<'a> {
    pub inputs: [Operand<'a>; INPUTS],
    pub out: MatMut<'a>,
    pub weights: Packed<'a>,
    pub scratch: &'a mut [u8],
}

impl<'a> PlannedMemory<'a> {
    /// Splits the header off the front of an arena: both sides read it, whatever the plan. Addresses
    /// in plans count from the start of the whole arena; those from [`FAST`] on, from the start of
    /// `fast`.
    ///
    /// # Panics
    /// When it does not fit.
    pub(crate) fn split(
        arena: &'a mut [u8],
        fast: &'a mut [u8],
        fixed: usize,
    ) -> (&'a [u8], PlannedMemory<'a>) {
        assert!(fixed <= arena.len());
        let (base, len) = (arena.as_mut_ptr(), arena.len());
        let fast = fast.as_mut_ptr();
        // SAFETY: these are the first bytes of the arena; what is made of `PlannedMemory` only ever
        // touches ranges after them, so the shared slice is not written while it lives.
        let front = unsafe { core::slice::from_raw_parts(base, fixed) };
        (front, PlannedMemory { base, fast, fixed, len, pinned: None, lifetime: PhantomData })
    }

    /// With pinned memory, of which the first `mirrors` bytes are the ports', when the arena is a
    /// device's own.
    pub(crate) fn with_pinned(self, pinned: &'a mut [u8], mirrors: usize) -> Self {
        let (base, len) = (pinned.as_mut_ptr(), pinned.len());
        Self { pinned: Some(Pinned { base, mirrors: mirrors.min(len), len }), ..self }
    }

    /// Drops the bytes from `len` on, which nobody has any more.
    #[cfg_attr(not(all(feature = "linux", target_os = "linux")), allow(dead_code))]
    pub(crate) fn shorten(&mut self, len: usize) {
        self.len = self.len.min(len).max(self.fixed);
    }

    /// The two sides' allocators. They borrow the memory, so there is one pair at a time.
    pub(crate) fn sides(&mut self) -> (Weights<'_, 'a>, Activations<'_>) {
        let Self { base, fast, fixed, len, pinned, .. } = *self;
        // SAFETY: the pinned memory was given to this value for `'a`; its two parts do not overlap,
        // and go to the one pair of sides that borrows it.
        let (mirrors, ring) = match pinned {
            Some(Pinned { base, mirrors, len }) => unsafe {
                let ring = core::slice::from_raw_parts_mut(base.add(mirrors), len - mirrors);
                (Some(core::slice::from_raw_parts_mut(base, mirrors)), Some(Ring::new(ring)))
            },
            None => (None, None),
        };
        (
            Weights { base, fixed, len, ring, lifetime: PhantomData },
            Activations { base, fast, len, mirrors, lifetime: PhantomData },
        )
    }
}

/// Which of the plan's two lists of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadList {
    Resident,
    Streamed,
}

impl<'m, 'a> Weights<'m, 'a> {
    /// All bytes of the arena from byte `start` on, which is not in the header.
    ///
    /// Only while neither side has a plan, and nobody views a skeleton or tables after `start`.
    pub(crate) fn all(&mut self, start: u64) -> &mut [u8] {
        let start = (start as usize).clamp(self.fixed, self.len);
        // SAFETY: inside the arena and after what is shared for ever. Without a plan the compute
        // side waits and has no rectangles, and nothing after `start` is viewed as tables;
        // `&mut self` excludes loads.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(start), self.len - start) }
    }

    /// Bytes of the arena.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Bytes `start` to `end` of the arena; `None` if one is in the header or beyond the arena. Only as [`all`](Self::all),
    /// and where they have memory.
    pub(crate) fn between(&mut self, start: u64, end: u64) -> Option<&mut [u8]> {
        let (start, end) = (usize::try_from(start).ok()?, usize::try_from(end).ok()?);
        let bytes = end.checked_sub(start).filter(|_| start >= self.fixed && end <= self.len)?;
        // SAFETY: as of `all`.
        Some(unsafe { core::slice::from_raw_parts_mut(self.base.add(start), bytes) })
    }

    /// Calls `body` for each part of resident `index` that is in no chunk, with where its own bytes start.
    ///
    /// Only while the compute side does not have the plan yet, whose layout the chunks follow.
    pub(crate) fn each_kept<E>(
        &mut self,
        proven: &Proven<'_>,
        chunks: &Chunks<'_>,
        index: usize,
        mut body: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(load) = proven.plan().resident.get(index) else { return Ok(()) };
        for part in chunks.kept_parts(load.address..load.address.saturating_add(load.bytes.into()))
        {
            if let Some((first, bytes)) = self.part(proven, index, &part) {
                // SAFETY: `Proven` found the load inside the arena and after the tables. The part has memory: it is
                // kept. The compute side waits; `&mut self` excludes loads.
                body(first, unsafe { &mut *bytes })?;
            }
        }
        Ok(())
    }

    /// `bytes` bytes of the arena from byte `start` on, where a skeleton or a plan's tables have
    /// been read to; `None` in the header or beyond the arena.
    ///
    /// Both sides view their plan in them. Call [`all`](Self::all) for them again only when neither
    /// side has a plan.
    pub(crate) fn tables(&self, start: u64, bytes: usize) -> Option<&'a [u8]> {
        let start = usize::try_from(start).ok().filter(|start| *start >= self.fixed)?;
        if start.checked_add(bytes)? > self.len {
            return None;
        }
        // SAFETY: inside the arena. Loads, steps and the host touch only what `Proven` has found to
        // lie after the tables, and `all`, by its contract, comes after the last use of this slice.
        Some(unsafe { core::slice::from_raw_parts(self.base.add(start), bytes) })
    }

    /// All bytes after a proven plan's tables.
    ///
    /// Only while the compute side does not have the plan yet.
    pub(crate) fn behind(&mut self, proven: &Proven<'_>) -> &mut [u8] {
        let start = self.len.min(proven.start() as usize);
        // SAFETY: inside the arena, apart from the tables. The compute side waits and has no
        // rectangles; `&mut self` excludes loads.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(start), self.len - start) }
    }

    /// Weights-`index`: the bytes that the load fills. Empty where the arena is a device's own:
    /// there the [`ring`](Self::ring) is what is read into.
    ///
    /// They may be written only from the moment its release permits the load (for residents: before
    /// the first step) to its completion: the loader sees to it.
    pub(super) fn target(&self, proven: &Proven<'_>, list: LoadList, index: usize) -> *mut [u8] {
        let load = match list {
            LoadList::Resident => proven.plan().resident.at(index),
            LoadList::Streamed => proven.plan().loads.at(index),
        };
        let (start, bytes) = match self.ring {
            Some(_) => (NonNull::dangling().as_ptr(), 0),
            None => (self.base.wrapping_add(load.address as usize), load.bytes as usize),
        };
        slice_from_raw_parts_mut(start, bytes)
    }

    /// The part of resident `index` that lies in these bytes of the arena, and where its own bytes start; `None` if no
    /// part does.
    ///
    /// It may be written only while no step runs, nor another read of it is in flight, and while it
    /// has memory.
    pub(super) fn part(
        &self,
        proven: &Proven<'_>,
        index: usize,
        bytes: &Range<u64>,
    ) -> Option<(u64, *mut [u8])> {
        let load = proven.plan().resident.get(index)?;
        let start = load.address.max(bytes.start);
        let end = load.address.saturating_add(load.bytes.into()).min(bytes.end);
        let len = end.checked_sub(start).filter(|len| *len > 0 && self.ring.is_none())?;
        let at = self.base.wrapping_add(start as usize);
        Some((start - load.address, slice_from_raw_parts_mut(at, len as usize)))
    }

    /// The staging ring, where the arena is a device's own.
    pub(crate) fn ring(&mut self) -> Option<&mut Ring<'m>> {
        self.ring.as_mut()
    }
}

impl Activations<'_> {
    /// Where an address of a buffer or scratch is. `Proven` has found it inside the arena or inside
    /// fast memory, or nobody accesses it.
    fn at(&self, address: u64) -> *mut u8 {
        match address.checked_sub(FAST) {
            Some(offset) => self.fast.wrapping_add(offset as usize),
            None => self.base.wrapping_add(address as usize),
        }
    }

    /// Everything that step `index` (counted without the host's) reads and writes, on a processor.
    /// `mapped` is the weights section of a pack that lies in memory.
    ///
    /// # Panics
    /// When the arena is a device's own.
    pub(crate) fn operands<'o>(
        &'o mut self,
        proven: &Proven<'_>,
        index: usize,
        mapped: &'o [u8],
    ) -> Operands<'o> {
        assert!(self.mirrors.is_none(), "the processor has no arena");
        let skeleton = proven.skeleton();
        let step = proven.plan().steps.at(index);
        let layer = skeleton.layer_of(&step);
        let buffers = ops::takes_buffers(&layer);
        let lent = proven.lent(&layer, &Slice::from(&step));
        let operand = |slot: usize| {
            let id = layer.inputs[slot];
            if id == NONE {
                return Operand::Absent;
            }
            if skeleton.tensors[id as usize] == skeleton.tensors[layer.output as usize] {
                return Operand::Output;
            }
            let (data, rows, cols, pitch) = self.rectangle(proven, buffers, id);
            // SAFETY:
            // - `Proven` found the tensor, or the rows that a ring holds, inside its buffer.
            // - It found the buffer inside the arena or fast memory, and 64-byte aligned.
            // - It found the lent rows disjoint from what the step may write, and from its scratch.
            // - No load that may be in flight during the step touches the buffer.
            // - The arena and fast memory are initialised.
            Operand::Mat(unsafe { MatRef::from_raw(data, rows, cols, pitch, lent[slot].clone()) })
        };
        let inputs = core::array::from_fn(operand);
        let (data, rows, cols, pitch) = self.rectangle(proven, buffers, layer.output);
        let weights = proven.weights(&layer, &Slice::from(&step));
        let weights = (weights.end - weights.start) as usize;
        let mapped = in_pack(&step, weights, mapped);
        // SAFETY:
        // - `Proven` found these bytes inside the arena, as above.
        // - The output's lent rows, the weights and the scratch are pairwise disjoint where one of
        //   them is written.
        // - `&mut self` keeps the compute side to one step at a time.
        // - Floats may hold any bits. Weights are 32-byte aligned, and scratch is 64-byte aligned.
        // - Empty ranges have unproved addresses, hence the length checks.
        unsafe {
            Operands {
                inputs,
                out: MatMut::from_raw(data, rows, cols, pitch, lent[INPUTS].clone()),
                weights: Packed::new(match (weights, step.weights_in) {
                    (0, _) => &[],
                    (_, Region::Mapped) => mapped,
                    (bytes, Region::Arena) => core::slice::from_raw_parts(
                        self.base.add(step.weights as usize).cast::<f32>(),
                        bytes / 4,
                    ),
                }),
                scratch: match step.scratch_bytes as usize {
                    0 => &mut [],
                    bytes => core::slice::from_raw_parts_mut(self.at(step.scratch), bytes),
                },
            }
        }
    }

    /// Where the first `bytes` bytes of a step's weights lie. Nothing of them is read.
    /// `mapped` is the weights section of a pack that lies in memory.
    pub(crate) fn prefetch(&self, step: &Step, bytes: u64, mapped: &[u8]) -> Prefetch {
        let base = match step.weights_in {
            Region::Arena => self.base.cast_const(),
            Region::Mapped => mapped.as_ptr(),
        };
        let address = base.wrapping_add(step.weights as usize);
        Prefetch::at(address, bytes as usize / size_of::<f32>())
    }

    /// The bytes after the plan's. Nobody has a use for them until there is another plan.
    pub(crate) fn unused(&mut self, proven: &Proven<'_>) -> &mut [u8] {
        let end = self.len.min(proven.end() as usize);
        // SAFETY: inside the arena; `Proven` found all that loads, steps and ports touch to lie
        // before. A plan that reaches further is entered only when the compute side, which
        // `&mut self` borrows, asks for it.
        unsafe { core::slice::from_raw_parts_mut(self.base.add(end), self.len - end) }
    }

    /// Issues step `index` (counted without the host's), by `launch`.
    pub(crate) fn launch(
        &mut self,
        proven: &Proven<'_>,
        index: usize,
        accelerator: &dyn Accelerator,
        launch: ops::cuda::Launch,
    ) -> Result<(), DeviceError> {
        let skeleton = proven.skeleton();
        let step = proven.plan().steps.at(index);
        let layer = skeleton.layer_of(&step);
        let buffers = ops::takes_buffers(&layer);
        let base = base(proven, accelerator);
        let address = |id: u32| match skeleton.tensors.get(id as usize) {
            Some(tensor) => {
                let offset = if buffers { 0 } else { u64::from(tensor.offset) };
                let buffer = proven.plan().places.at(tensor.buffer as usize).address;
                base.wrapping_add(buffer + 4 * offset)
            }
            None => 0,
        };
        let part = |address: u64, bytes: u64| match bytes {
            0 => 0,
            _ => base.wrapping_add(address),
        };
        let call = ops::cuda::Call {
            layer: &layer,
            inputs: skeleton.layer_inputs(&layer),
            output: skeleton.tensors[layer.output as usize],
            operands: layer.inputs.map(address),
            out: address(layer.output),
            weights: part(step.weights, step.count.into()),
            scratch: part(step.scratch, step.scratch_bytes),
            slice: Slice::from(&step),
            multiprocessors: accelerator.multiprocessors(),
        };
        // SAFETY:
        // - `Proven` found all that the step touches inside the arena.
        // - It found what the step writes apart from what it reads, and all of it apart from loads
        //   that may be in flight.
        // - Steps before and after it are in the same stream.
        // - The host has its turn when that stream is drained.
        launch(&call, &mut unsafe { Launches::new(accelerator) })
    }

    /// Issues the copies of the inputs, or of the outputs, between their mirrors and a memory of
    /// the device's own. The mirrors are the device's until the stream is drained: nobody has asked
    /// for one in between.
    pub(crate) fn exchange(
        &mut self,
        proven: &Proven<'_>,
        accelerator: &dyn Accelerator,
        inputs: bool,
    ) -> Result<(), DeviceError> {
        let Some(mirrors) = self.mirrors.as_deref_mut() else { return Ok(()) };
        let skeleton = proven.skeleton();
        let count = skeleton.inputs.len();
        let ports = skeleton.inputs.iter().chain(skeleton.outputs).enumerate();
        for (index, port) in ports.filter(|(index, _)| (*index < count) == inputs) {
            let range = proven.port_bytes(port.tensor);
            let address = base(proven, accelerator).wrapping_add(range.start);
            let Some(bytes) = mirrors.get_mut(mirror(skeleton, index)) else { continue };
            if bytes.len() as u64 != range.end - range.start {
                continue;
            }
            // SAFETY: the mirror is pinned memory, and `Proven` found as many bytes of the port's
            // tensor inside the arena, all of which is the device's (the plan was entered).
            unsafe {
                match inputs {
                    true => accelerator.copy_in(Stream::Kernels, bytes, address)?,
                    false => accelerator.copy_out(Stream::Kernels, address, bytes)?,
                }
            }
        }
        Ok(())
    }

    /// The floats of port `index`, inputs first. Only during the host's turn, when the ports are
    /// the host's.
    pub(crate) fn port(&mut self, proven: &Proven<'_>, index: usize) -> &mut [f32] {
        let skeleton = proven.skeleton();
        let mut ports = skeleton.inputs.iter().chain(skeleton.outputs);
        let Some(port) = ports.nth(index) else { return &mut [] };
        let range = proven.port_bytes(port.tensor);
        let start = self.at(range.start);
        if let Some(mirrors) = self.mirrors.as_deref_mut() {
            let bytes = mirrors.get_mut(mirror(skeleton, index)).unwrap_or_default();
            return bytemuck::try_cast_slice_mut(bytes).unwrap_or_default();
        }
        // SAFETY: `Proven` found the tensor contiguous, inside the arena or fast memory, 4-byte
        // aligned, and disjoint from every load that may be in flight during the host's turn; `&mut self`
        // excludes steps.
        unsafe {
            core::slice::from_raw_parts_mut(
                start.cast::<f32>(),
                (range.end - range.start) as usize / 4,
            )
        }
    }

    /// Address, rows, columns, pitch of a tensor as its operator wants it (see [`Operand::Mat`]):
    /// the rows that memory holds, fewer than the tensor has where these lie in a ring of image
    /// lines.
    fn rectangle(
        &self,
        proven: &Proven<'_>,
        buffer: bool,
        id: u32,
    ) -> (*mut f32, usize, usize, usize) {
        let tensor = &proven.skeleton().tensors[id as usize];
        let base = self.at(proven.plan().places.at(tensor.buffer as usize).address);
        let start = tensor.offset as usize;
        let (start, rows, cols, pitch) = match buffer {
            true => {
                let floats = proven.held_floats(tensor);
                (0, 1, floats, floats)
            }
            false => {
                let rows = proven.held_rows(id) as usize;
                (start, rows, tensor.cols() as usize, tensor.pitch as usize)
            }
        };
        (base.wrapping_add(4 * start).cast::<f32>(), rows, cols, pitch)
    }
}

/// The weights of a step, if it uses them where they lie in the pack: `Proven` found them there.
fn in_pack<'o>(step: &Step, bytes: usize, mapped: &'o [u8]) -> &'o [f32] {
    if step.weights_in == Region::Arena {
        return &[];
    }
    let start = step.weights as usize;
    let bytes = start.checked_add(bytes).and_then(|end| mapped.get(start..end));
    bytes.and_then(|bytes| bytemuck::try_cast_slice(bytes).ok()).unwrap_or_default()
}
