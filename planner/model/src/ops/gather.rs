//! Rows of a constant table, chosen by indices.

use super::builder::{Builder, Item, input, unsupported};
use super::emitter::{Emitter, field, tensor, too_scattered};
use super::exact;
use super::linear::Linear;
use super::view::{View, row_major};
use super::{Operation, Operator, PassError, Work};
use crate::graph::Node;
use crate::network::{Dense, Network, Weights};
use eyelet::pack::{self, GatherParams, OpKind};

/// Rows from all over the table.
pub(super) const ROW: Operator = Operator { shares_weights: true, ..Operator::new(OpKind::Gather) };

/// Rows of a table: a linear map of what would be one-hot vectors.
#[derive(Clone, Debug)]
pub(crate) struct Gather {
    pub linear: Linear,
}

impl Operation for Gather {
    /// Rows of a table, one for each index.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { linear } = self;
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let shape = emitter.program.values[x].shape.clone();
        let count = shape.iter().product::<usize>();
        let list = |view: &View| view.reshape(&[1, 1, count, 1])?.rect(&[0, 1, 2, 3]);
        let rect = match list(&emitter.view(name, x)?) {
            Some(rect) => Some(rect),
            None => list(&emitter.materialised(name, x, &row_major(shape.len()))?),
        };
        let indices = tensor(name, rect.ok_or_else(|| too_scattered(name, 0))?)?;
        let output = emitter.place(name, y, &row_major(shape.len() + 1))?;
        let params = GatherParams { entries: field(name, "the entries of a table", linear.k)? };
        let (params, weights) = (pack::params_words(&params), Weights::Dense(linear.dense()));
        emitter.layer(item, OpKind::Gather, [Some(indices)], output, params, weights)
    }
}

impl Builder {
    /// Rows of a constant table, packed as the matrix that one-hot vectors would be multiplied with.
    pub fn gather(&mut self, node: &Node) -> Result<(), PassError> {
        let (table, indices) = (input(node, 0)?, input(node, 1)?);
        let (Some(data), [entries, width]) = (self.constant(table).cloned(), self.shape(table))
        else {
            return Err(unsupported(
                node,
                "its table is not a constant matrix",
                "cut the model here",
            ));
        };
        let (k, out_channels) = (*entries, *width);
        let linear = Linear {
            data,
            out_channels,
            groups: 1,
            k,
            row: 1,
            col: out_channels,
            order: None,
            scale: None,
            bias: None,
        };
        self.push(&node.name, Work::Gather(Gather { linear }), &[indices], &[node.outputs[0]]);
        Ok(())
    }
}

/// The table of a lookup that adds nothing, and what its rows are multiplied by.
pub(crate) fn table(network: &Network, layer: usize) -> Option<(&Dense, f32)> {
    let (record, Weights::Dense(dense)) = (&network.layers[layer], &network.weights[layer]) else {
        return None;
    };
    let shifted = dense.bias.iter().flatten().any(|bias| *bias != 0.0);
    if record.kind != OpKind::Gather as u32 || shifted {
        return None;
    }
    let scale = dense.scale.as_ref().map_or(1.0, |scale| scale[0]);
    let uniform = dense.scale.iter().flatten().all(|other| *other == scale);
    uniform.then_some((dense, scale))
}

/// Rows of a table; NaN for an index outside.
pub(crate) fn gather(table: exact::Tensor<'_>, indices: exact::Tensor<'_>) -> Vec<f64> {
    let (entries, width) = (table.shape[0], table.shape[1]);
    let mut result = Vec::with_capacity(indices.data.len() * width);
    for &index in indices.data {
        let whole = index.trunc();
        let counted = if whole < 0.0 { whole + entries as f64 } else { whole };
        match counted >= 0.0 && counted < entries as f64 {
            true => result.extend_from_slice(&table.data[counted as usize * width..][..width]),
            false => result.extend(std::iter::repeat_n(f64::NAN, width)),
        }
    }
    result
}
