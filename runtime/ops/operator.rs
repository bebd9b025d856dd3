//! The record of an operator. Each operator's file has a `ROW` with all of it except the launch on
//! a GPU, which `table` adds.

use super::{Call, Elements, LayerError, Operand, Problem, Reads, Slice, Want};
use crate::pack::{INPUTS, Isa, Layer, OpKind, Tensor};
use core::ops::Range;

/// An operator. Properties that depend on the layer are functions. They see valid layers only,
/// except for `validate` and `buffers`.
#[derive(Clone, Copy)]
pub(crate) struct Operator {
    /// Its code.
    pub kind: OpKind,
    /// The most input tensors that it has.
    pub inputs: usize,
    /// How steps divide its weights.
    pub panels: Panels,
    /// Whether it reads weights of any encoding, so that none are expanded for it.
    pub widens: bool,
    /// Whether a layer may have any function for its activation, and not only those that fuse.
    pub functions: bool,
    /// Inputs that may be the same tensor as the output.
    pub in_place: [bool; INPUTS],
    /// How it addresses its operands.
    pub addresses: Addresses,
    /// Refuses layers that `run` cannot compute.
    pub validate: fn(&Layer, &[Tensor; INPUTS], &Tensor, Isa) -> Result<(), LayerError>,
    /// Refuses layers, after `validate`, that reach beyond the floats of the first input's or the
    /// output's buffer.
    pub buffers: fn(&Layer, [u64; 2]) -> Result<(), LayerError>,
    /// Computes one step.
    pub run: fn(Call<'_>),
    /// Bytes of intermediates of one step.
    pub scratch: fn(&Problem<'_>, Want) -> u64,
    /// How it reads its inputs.
    pub reads: [Reads; INPUTS],
    /// The rows of an input that is read by windows, from which some rows of the output are made.
    pub window: fn(&Layer, [&Tensor; 2], &Range<u64>) -> Range<u64>,
    /// The rows of which steps make multiples; `None` where a step makes all of them.
    pub row_unit: fn(&Layer, &Tensor) -> Option<u64>,
    /// The lines of which steps make multiples, if they make whole lines only.
    pub line_unit: Option<fn(&Layer) -> u32>,
    /// The element types that its operands must have.
    pub elements: fn(&Layer) -> Elements,
    /// Multiply-adds of a layer, without its activation.
    pub macs: fn(&Layer, &[Tensor; INPUTS], &Tensor) -> u64,
    /// Weights of an output channel, where these are expanded.
    pub terms: fn(&Layer, &Tensor) -> u64,
    /// The first index that a step would look up in a table, or write to, and that is no entry of
    /// it, and the number of entries.
    pub outside: Option<Outside>,
    /// Bytes of intermediates of one step on a GPU; `None` where no kernel computes it there.
    pub on_gpu: Option<LaunchScratch>,
}

/// See [`Operator::outside`].
pub(crate) type Outside = fn(&Layer, &[Operand<'_>; INPUTS], Range<usize>) -> Option<(i32, u32)>;

/// See [`Operator::on_gpu`].
pub(crate) type LaunchScratch = fn(&Layer, &[Tensor; INPUTS], &Tensor, &Slice) -> u64;

/// How steps divide a layer's weights.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Panels {
    /// They take all, if there are any.
    Whole,
    /// They take some panels, each with all output channels that it has room for.
    Full,
    /// They take some panels of output channels (or of a table's entries), or of fewer than a panel
    /// has room for.
    Narrow,
}

/// How an operator addresses its operands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Addresses {
    /// By rows, of which it touches the channels only.
    Rows,
    /// By strides inside the tensors.
    Strides,
    /// By strides inside the tensors' buffers.
    Buffers,
}

impl Operator {
    /// An operator on floats without weights, whose steps make any rows and need no scratch. It
    /// does no arithmetic, and reads all of its inputs.
    pub const fn new(
        kind: OpKind,
        inputs: usize,
        validate: fn(&Layer, &[Tensor; INPUTS], &Tensor, Isa) -> Result<(), LayerError>,
        run: fn(Call<'_>),
    ) -> Self {
        Self {
            kind,
            inputs,
            panels: Panels::Whole,
            widens: false,
            functions: false,
            in_place: [false; INPUTS],
            addresses: Addresses::Rows,
            validate,
            buffers: |_, _| Ok(()),
            run,
            scratch: |_, _| 0,
            reads: [Reads::Whole; INPUTS],
            window: |_, [input, _], _| 0..input.rows(),
            row_unit: |_, _| Some(1),
            line_unit: None,
            elements: |_| Elements::FLOATS,
            macs: |_, _, _| 0,
            terms: |_, _| 0,
            outside: None,
            on_gpu: None,
        }
    }
}

impl OpKind {
    /// The most input tensors that it has.
    pub fn inputs(self) -> usize {
        super::row_of(self).inputs
    }

    /// Of which inputs the output may be the very tensor.
    pub fn in_place(self) -> [bool; INPUTS] {
        super::row_of(self).in_place
    }

    /// Whether the weights are panels of output channels (of Lookup, of entries), of which a step may
    /// take some.
    pub fn has_panels(self) -> bool {
        super::row_of(self).panels != Panels::Whole
    }
}
