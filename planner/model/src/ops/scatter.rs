//! Rows of a tensor, some of which are replaced.

use super::builder::{Builder, Item, input};
use super::emitter::{Emitter, too_scattered};
use super::exact;
use super::view::row_major;
use super::{BY_INDICES, Operation, Operator, PassError, Work};
use crate::graph::Node;
use crate::network::Weights;
use eyelet::pack::{self, OpKind, ScatterOp, ScatterParams};

/// Rows to all over its output.
pub(super) const ROW: Operator = Operator::new(OpKind::Scatter);

/// Rows of a matrix, some of which are replaced: indices are the second input, rows the third.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    pub op: ScatterOp,
}

impl Operation for Scatter {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let op = self.op;
        let (name, order) = (item.name.as_str(), row_major(2));
        let &[data, indices, updates] = &item.inputs[..] else {
            return Err(too_scattered(name, 0));
        };
        let data = emitter.operand(name, data, &order)?;
        let others = [indices, updates].map(|value| emitter.operand(name, value, &order));
        let [indices, updates] = others;
        let output = emitter.place(name, item.outputs[0], &order)?;
        let params = pack::params_words(&ScatterParams { entries: data.dims[2], op: op as u32 });
        let inputs = [Some(data), Some(indices?), Some(updates?)];
        emitter.layer(item, OpKind::Scatter, inputs, output, params, Weights::None)
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(BY_INDICES.into())
    }
}

impl Builder {
    /// Indices as a column.
    pub fn scatter(&mut self, node: &Node, op: ScatterOp) -> Result<(), PassError> {
        let (name, x) = (node.name.as_str(), input(node, 0)?);
        let (indices, updates) = (input(node, 1)?, input(node, 2)?);
        let count = self.shape(indices).iter().product();
        let column = self.reshaped(name, indices, &[count, 1]);
        let work = Work::Scatter(Scatter { op });
        self.push(name, work, &[x, column, updates], &node.outputs[..1]);
        Ok(())
    }
}

/// Rows of which some are replaced by updates, or combined with them.
pub(crate) fn scatter(
    op: ScatterOp,
    data: exact::Tensor<'_>,
    indices: exact::Tensor<'_>,
    updates: exact::Tensor<'_>,
) -> Vec<f64> {
    let (rows, cols) = (data.shape[0] as f64, data.shape[1]);
    let mut made = data.data.to_vec();
    for (index, row) in indices.data.iter().zip(updates.data.chunks(cols.max(1))) {
        let place = if *index < 0.0 { index + rows } else { *index };
        if !(0.0..rows).contains(&place) {
            continue;
        }
        for (old, &new) in made[place as usize * cols..][..cols].iter_mut().zip(row) {
            *old = match op {
                ScatterOp::Replace => new,
                ScatterOp::Add => *old + new,
                ScatterOp::Mul => *old * new,
                _ if old.is_nan() || new.is_nan() => f64::NAN,
                ScatterOp::Max => old.max(new),
                ScatterOp::Min => old.min(new),
            };
        }
    }
    made
}
