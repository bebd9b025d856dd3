//! Strided copies: of values that a layer needs in another memory order, and of one number to
//! everywhere.

use super::builder::Item;
use super::emitter::{Draft, Emitter, covering, field, slots, too_scattered};
use super::view::{CopyDim, Run, View, between, row_major};
use super::{Lines, Operation, Operator, PassError};
use crate::graph::{Value, ValueId};
use eyelet::ops;
use eyelet::pack::{self, CopyParams, OpKind, Tensor};

/// Dimensions of a copy that a record has.
const MOST_DIMS: usize = 6;

/// Copies, by rows, of an input of the network, which is there before any step.
pub(super) const ROW: Operator = Operator {
    lines: |network, layer, slot| {
        let record = |id: u32| &network.tensors[id as usize];
        let (input, output) = (record(layer.inputs[slot]), record(layer.output));
        let rows = ops::row_unit(layer, output)?;
        let written = network.layers.iter().any(|l| record(l.output).buffer == input.buffer);
        (u64::from(output.dims[2]).is_multiple_of(rows) && !written).then_some(Lines::All)
    },
    ..Operator::new(OpKind::Copy)
};

/// One number everywhere: it has no input.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    pub value: f32,
}

impl Operation for Fill {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        emitter.fill(&item.name, item.outputs[0], self.value)
    }
}

impl Emitter<'_> {
    /// A strided copy between different buffers; if `fill` is given, that tensor is filled first.
    pub fn copy(
        &mut self,
        node: &str,
        from: &View,
        to: &View,
        fill: Option<(f32, Tensor)>,
    ) -> Result<(), PassError> {
        let dims = from.copy_dims(to).ok_or_else(|| too_scattered(node, 0))?;
        if dims.len() > MOST_DIMS {
            return self.copy_by_way_of(node, (from, to), &dims, fill);
        }
        let mut params = CopyParams {
            dims: [1; 6],
            src_start: field(node, "an offset in floats", from.offset)?,
            dst_start: field(node, "an offset in floats", to.offset)?,
            filled: fill.is_some() as u32,
            fill: fill.map_or(0.0, |(value, _)| value),
            ..CopyParams::default()
        };
        for (i, dim) in (6 - dims.len()..).zip(&dims) {
            params.dims[i] = field(node, "an extent", dim.extent)?;
            params.src[i] = field(node, "a stride in floats", dim.src)?;
            params.dst[i] = field(node, "a stride in floats", dim.dst)?;
        }
        let output = match fill {
            Some((_, whole)) => whole,
            None => covering(node, to)?,
        };
        let from = covering(node, from)?;
        self.push_copy(format!("{node}.copy"), Some(from), output, &params);
        Ok(())
    }

    /// A value that is one number everywhere.
    fn fill(&mut self, node: &str, value: ValueId, fill: f32) -> Result<(), PassError> {
        let Value { shape, kind, .. } = &self.program.values[value];
        let (order, element) = (row_major(shape.len()), kind.element());
        let output = self.place(node, value, &order)?;
        // No input says what the elements are.
        self.out.chosen.insert(output.buffer, element);
        let dst_start = output.offset;
        let params =
            CopyParams { dims: [1; 6], dst_start, filled: 1, fill, ..CopyParams::default() };
        self.push_copy(node.into(), None, output, &params);
        Ok(())
    }

    fn push_copy(
        &mut self,
        name: String,
        from: Option<Tensor>,
        output: Tensor,
        params: &CopyParams,
    ) {
        let params = pack::params_words(params);
        self.out.layers.push(Draft::new(name, OpKind::Copy, slots([from]), output, params));
    }

    /// A copy of more dimensions than a record has, as two by way of a buffer.
    fn copy_by_way_of(
        &mut self,
        node: &str,
        (from, to): (&View, &View),
        dims: &[CopyDim],
        fill: Option<(f32, Tensor)>,
    ) -> Result<(), PassError> {
        let order = between(dims, MOST_DIMS).ok_or_else(|| too_scattered(node, dims.len()))?;
        let axes = |stride: fn(&CopyDim) -> usize| {
            let run = |dim: &CopyDim| vec![Run { extent: dim.extent, stride: stride(dim) }];
            dims.iter().map(run).collect::<Vec<_>>()
        };
        let from = View { axes: axes(|dim| dim.src), ..*from };
        let to = View { axes: axes(|dim| dim.dst), ..*to };
        let middle = self.allocate(&from.shape(), &order);
        self.copy(node, &from, &middle, None)?;
        self.copy(node, &middle, &to, fill)
    }
}

/// Whether a layer copies every element to where it is, in another buffer.
pub(crate) fn stays(layer: &Draft) -> bool {
    if layer.kind != OpKind::Copy {
        return false;
    }
    let words = bytemuck::bytes_of(&layer.params);
    let params: CopyParams = bytemuck::pod_read_unaligned(&words[..size_of::<CopyParams>()]);
    let still = (params.dims.iter().zip(params.src.iter().zip(&params.dst)))
        .all(|(extent, (src, dst))| *extent == 1 || src == dst);
    params.filled == 0 && params.src_start == params.dst_start && still
}
