//! Type-based static allocation (FlexNN, "Online Execution"): who may touch which bytes of the arena.
//!
//! Addresses are the plan's. A tensor is identified by its type and its count within the type, and
//! each side of the executor holds the allocator of the types that are its own to allocate: the loader
//! [`Weights`], the compute side [`Activations`] with [`Intermediates`]. There is one allocator of each
//! kind for an arena, neither can be copied, and both take indices into tables that
//! [`Proven`](crate::pack::Proven) has proved, never raw addresses: that is why handing out slices is
//! sound although both sides work in one arena at the same time.
#![allow(unsafe_code)]

use super::{MatMut, MatRef};
use crate::ops::Operand;
use crate::pack::{NONE, OpKind, Proven};
use core::marker::PhantomData;

/// The arena of an opened pack, behind its tables.
#[derive(Debug)]
pub struct PlannedMemory<'a> {
    base: *mut u8,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: `PlannedMemory` and the allocators made of it stand for exclusive access to the arena (divided in
// time by the executor's counters); moving that to another thread is what `&mut [u8]` allows.
unsafe impl Send for PlannedMemory<'_> {}
unsafe impl Sync for PlannedMemory<'_> {}

/// The loader's allocator: the targets of loads.
#[derive(Debug)]
pub struct Weights<'a> {
    base: *mut u8,
    lifetime: PhantomData<&'a mut [u8]>,
}

/// The compute side's allocator: activations, intermediates (scratch), and the weights that have been
/// loaded, for reading.
#[derive(Debug)]
pub struct Activations<'a> {
    base: *mut u8,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: as for `PlannedMemory`.
unsafe impl Send for Weights<'_> {}
unsafe impl Send for Activations<'_> {}

/// Everything a step touches.
pub(crate) struct Operands<'a> {
    pub inputs: [Operand<'a>; 2],
    pub out: MatMut<'a>,
    pub weights: &'a [f32],
    pub scratch: &'a mut [u8],
}

impl<'a> PlannedMemory<'a> {
    /// Splits the tables off the front of an arena: they are read by both sides, the rest is divided
    /// by the plan. Addresses in plans count from the start of the whole arena.
    ///
    /// # Panics
    /// When the tables do not fit.
    pub(crate) fn split(arena: &'a mut [u8], tables: usize) -> (&'a [u8], PlannedMemory<'a>) {
        assert!(tables <= arena.len());
        let base = arena.as_mut_ptr();
        // SAFETY: the tables are the first bytes of the arena; `PlannedMemory` only ever touches ranges that
        // `Proven` has found to lie behind them, so the shared slice is not written while it lives.
        let tables = unsafe { core::slice::from_raw_parts(base, tables) };
        (tables, PlannedMemory { base, lifetime: PhantomData })
    }

    /// The two sides' allocators. They borrow the memory, so there is one pair at a time.
    pub(crate) fn sides(&mut self) -> (Weights<'_>, Activations<'_>) {
        (
            Weights { base: self.base, lifetime: PhantomData },
            Activations { base: self.base, lifetime: PhantomData },
        )
    }
}

/// Which of the plan's two lists of loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadList {
    Resident,
    Streamed,
}

impl Weights<'_> {
    /// Weights-`index`: the bytes that the load fills.
    ///
    /// May be asked for only from the moment its release permits the load (for residents: before the
    /// first step), and not kept beyond its completion: the loader sees to it.
    pub(crate) fn target(
        &mut self,
        proven: &Proven<'_>,
        list: LoadList,
        index: usize,
    ) -> &mut [u8] {
        let load = match list {
            LoadList::Resident => &proven.plan().resident[index],
            LoadList::Streamed => &proven.plan().loads[index],
        };
        // SAFETY: `Proven` found the range inside the arena and behind the tables, and disjoint from
        // everything that a step or the host may touch while the load can be in flight; `&mut self`
        // keeps the loader to one target at a time.
        unsafe {
            core::slice::from_raw_parts_mut(
                self.base.add(load.address as usize),
                load.bytes as usize,
            )
        }
    }
}

impl Activations<'_> {
    /// Everything that step `index` (counted without the host's) reads and writes.
    pub(crate) fn operands(&mut self, proven: &Proven<'_>, index: usize) -> Operands<'_> {
        let skeleton = proven.skeleton();
        let step = &proven.plan().steps[index];
        let layer = &skeleton.layers[step.layer as usize];
        let kind = OpKind::from_code(layer.kind);
        let operand = |id: u32| {
            if id == NONE {
                return Operand::Absent;
            }
            if skeleton.tensors[id as usize] == skeleton.tensors[layer.output as usize] {
                return Operand::Output;
            }
            let (data, rows, cols, pitch) = self.rectangle(proven, kind, id);
            // SAFETY: `Proven` found the tensor inside its buffer (of a ring: the rows that it holds), the
            // buffer inside the arena and 64-byte aligned, and what the step writes disjoint from it; no load that may be in
            // flight during the step touches it. The arena is initialised memory.
            Operand::Mat(unsafe { MatRef::from_raw(data, rows, cols, pitch) })
        };
        let inputs = layer.inputs.map(operand);
        let out_kind = kind.filter(|kind| *kind != OpKind::MatMul);
        let (data, rows, cols, pitch) = self.rectangle(proven, out_kind, layer.output);
        let weights = step.count as usize * layer.panel_bytes as usize;
        // SAFETY: as above; the output rectangle, the weights and the scratch are pairwise disjoint
        // where one of them is written, `&mut self` keeps the compute side to one step at a time, and
        // floats may hold any bits. Weights are 32-byte, scratch is 64-byte aligned. Empty ranges have
        // unproved addresses, hence the length checks.
        unsafe {
            Operands {
                inputs,
                out: MatMut::from_raw(data, rows, cols, pitch),
                weights: match weights {
                    0 => &[],
                    bytes => core::slice::from_raw_parts(
                        self.base.add(step.weights as usize).cast::<f32>(),
                        bytes / 4,
                    ),
                },
                scratch: match step.scratch_bytes as usize {
                    0 => &mut [],
                    bytes => {
                        core::slice::from_raw_parts_mut(self.base.add(step.scratch as usize), bytes)
                    }
                },
            }
        }
    }

    /// The floats of a port's tensor. Only during the host's turn, when the ports are the host's.
    pub(crate) fn port(&mut self, proven: &Proven<'_>, tensor: u32) -> &mut [f32] {
        let range = proven.port_bytes(tensor);
        // SAFETY: `Proven` found the tensor contiguous, inside the arena, 4-byte aligned, and disjoint
        // from every load that may be in flight during the host's turn; `&mut self` excludes steps.
        unsafe {
            core::slice::from_raw_parts_mut(
                self.base.add(range.start as usize).cast::<f32>(),
                (range.end - range.start) as usize / 4,
            )
        }
    }

    /// Address, rows, columns, pitch of a tensor as its operator wants it (see [`Operand::Mat`]): the rows that
    /// memory holds, fewer than the tensor has where these lie in a ring of image lines.
    fn rectangle(
        &self,
        proven: &Proven<'_>,
        kind: Option<OpKind>,
        id: u32,
    ) -> (*mut f32, usize, usize, usize) {
        let tensor = &proven.skeleton().tensors[id as usize];
        let floats = proven.skeleton().buffers[tensor.buffer as usize].bytes as usize / 4;
        let buffer = proven.plan().places[tensor.buffer as usize].address as usize;
        let start = tensor.offset as usize;
        let (start, rows, cols, pitch) = match kind {
            Some(OpKind::Copy) => (0, 1, floats, floats),
            Some(OpKind::MatMul) => (start, 1, floats - start, floats - start),
            _ => {
                let rows = proven.held_rows(id) as usize;
                (start, rows, tensor.cols() as usize, tensor.pitch as usize)
            }
        };
        (self.base.wrapping_add(buffer + 4 * start).cast::<f32>(), rows, cols, pitch)
    }
}
