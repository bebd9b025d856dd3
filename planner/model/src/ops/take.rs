//! Rows of a tensor, chosen by constants or by another tensor.

use super::builder::{Builder, Item, MOST_INDEX, input};
use super::emitter::Emitter;
use super::exact;
use super::gather::gather;
use super::view::row_major;
use super::views::Transpose;
use super::{BY_INDICES, Operation, Operator, PassError, Work};
use crate::graph::{Constant, Node, ValueId};
use crate::network::Weights;
use eyelet::pack::{self, OpKind, TakeParams};
use std::sync::Arc;

/// Rows from all over its input.
pub(super) const ROW: Operator = Operator::new(OpKind::Take);

/// Rows of a matrix by constants, or by a second input.
#[derive(Clone, Debug)]
pub(crate) struct Take {
    pub indices: Option<Constant>,
}

impl Operation for Take {
    /// Rows of a matrix.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let indices = self.indices.as_ref();
        let name = item.name.as_str();
        let order = row_major(2);
        let data = emitter.operand(name, item.inputs[0], &order)?;
        let other = item.inputs.get(1);
        let other = other.map(|&other| emitter.operand(name, other, &order)).transpose()?;
        let output = emitter.place(name, item.outputs[0], &order)?;
        let params = pack::params_words(&TakeParams { entries: data.dims[2] });
        let weights = indices.cloned().map_or(Weights::None, Weights::Plain);
        emitter.layer(item, OpKind::Take, [Some(data), other], output, params, weights)
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(BY_INDICES.into())
    }
}

impl Builder {
    /// Entries of an axis as rows of a matrix, whose columns are the axes after it.
    pub fn take(&mut self, node: &Node, axis: usize) -> Result<(), PassError> {
        let name = node.name.as_str();
        let (x, indices, y) = (input(node, 0)?, input(node, 1)?, node.outputs[0]);
        if let Some(constant) = self.constant(indices) {
            let places = constant.to_vec().into_iter().map(|index| index as usize).collect();
            return self.take_places(name, [x, y], axis, places);
        }
        let shape = self.shape(x).to_vec();
        let outer: usize = shape[..axis].iter().product();
        let (entries, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let count: usize = self.shape(indices).iter().product();
        let rows = self.reshaped(name, x, &[outer * entries, inner]);
        let mut inputs = [rows, self.reshaped(name, indices, &[count, 1])];
        if outer == 1 {
            let taken = self.temporary(name, &[count, inner]);
            self.push(name, Work::Take(Take { indices: None }), &inputs, &[taken]);
            self.push(name, Work::Reshape, &[taken], &[y]);
            return Ok(());
        }
        // One index is one row for all that comes before the axis.
        let folded = self.reshaped(name, inputs[0], &[outer, entries, inner]);
        let turned = self.temporary(name, &[entries, outer, inner]);
        let perm = vec![1, 0, 2];
        self.push(name, Work::Transpose(Transpose { perm: perm.clone() }), &[folded], &[turned]);
        inputs[0] = self.reshaped(name, turned, &[entries, outer * inner]);
        let taken = self.temporary(name, &[count, outer * inner]);
        self.push(name, Work::Take(Take { indices: None }), &inputs, &[taken]);
        let taken = self.reshaped(name, taken, &[count, outer, inner]);
        let back = self.temporary(name, &[outer, count, inner]);
        self.push(name, Work::Transpose(Transpose { perm }), &[taken], &[back]);
        self.push(name, Work::Reshape, &[back], &[y]);
        Ok(())
    }

    /// Entries of an axis at places that are known.
    pub fn take_places(
        &mut self,
        name: &str,
        [x, y]: [ValueId; 2],
        axis: usize,
        places: Vec<usize>,
    ) -> Result<(), PassError> {
        let shape = self.shape(x).to_vec();
        let outer: usize = shape[..axis].iter().product();
        let (entries, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        if outer * entries > MOST_INDEX {
            return Err(PassError::TooLarge {
                node: name.into(),
                what: "the number of entries to take from",
                found: outer * entries,
                limit: MOST_INDEX,
            });
        }
        let rows = self.reshaped(name, x, &[outer * entries, inner]);
        let of = |block: usize| places.iter().map(move |place| (block * entries + place) as i32);
        let of_rows = Constant::Words(Arc::new((0..outer).flat_map(of).collect()));
        let taken = self.temporary(name, &[outer * places.len(), inner]);
        self.push(name, Work::Take(Take { indices: Some(of_rows) }), &[rows], &[taken]);
        self.push(name, Work::Reshape, &[taken], &[y]);
        Ok(())
    }
}

/// Entries of an axis; NaN for an index outside.
pub(crate) fn take(x: exact::Tensor<'_>, indices: exact::Tensor<'_>, axis: usize) -> Vec<f64> {
    let outer: usize = x.shape[..axis].iter().product();
    let (extent, inner) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    let mut result = Vec::with_capacity(outer * indices.data.len() * inner);
    for block in x.data.chunks(extent * inner).take(outer) {
        let table = exact::Tensor { shape: &[extent, inner], data: block };
        result.extend(gather(table, indices));
    }
    result
}
