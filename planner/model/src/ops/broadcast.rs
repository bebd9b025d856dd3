//! Operands that are broadcast to an output, in one memory order.

use super::PassError;
use super::builder::Item;
use super::emitter::{Emitter, field, tensor, too_scattered};
use super::view::{Rect, View, row_major};
use crate::graph::{Constant, ValueId};
use crate::network::Weights;
use eyelet::pack::Tensor;
use std::sync::Arc;

/// Those of a tensor record.
const DIMENSIONS: usize = 4;

/// The order with the axes of extent 1 first, if there are more than a record has dimensions: then its last axis is the
/// last of what is left when these are dropped ([`groups`]), so that both take the same axis for channels.
fn folded(mut order: Vec<usize>, shape: &[usize]) -> Vec<usize> {
    if order.len() > DIMENSIONS {
        order.sort_by_key(|&axis| shape[axis] > 1);
    }
    order
}

/// The axes behind each of a tensor record's four dimensions.
type Groups = [Vec<usize>; 4];

/// Divides axes, in memory order, among four dimensions, so that each is as a whole either broadcast
/// or not, in all operands.
fn groups<const N: usize>(
    order: &[usize],
    shape: &[usize],
    full: impl Fn(usize) -> [bool; N],
) -> Option<Groups> {
    let mut order = order.to_vec();
    if order.len() > DIMENSIONS {
        order.retain(|&axis| shape[axis] > 1);
    }
    let channels = order.pop().into_iter().collect();
    let mut leading: Vec<Vec<usize>> = Vec::new();
    let merge = order.len() > 3;
    for axis in order {
        match leading.last_mut() {
            Some(group) if merge && full(group[0]) == full(axis) => group.push(axis),
            _ => leading.push(vec![axis]),
        }
    }
    let mut groups: Groups = [vec![], vec![], vec![], channels];
    for (group, axes) in groups[..3].iter_mut().rev().zip(leading.iter().rev()) {
        group.clone_from(axes);
    }
    (leading.len() <= 3).then_some(groups)
}

/// A constant's words in another order of axes.
fn permuted(constant: &Constant, shape: &[usize], order: &[usize]) -> Constant {
    let moved: Vec<usize> = order.iter().copied().filter(|&axis| shape[axis] > 1).collect();
    if moved.is_sorted() {
        return constant.clone();
    }
    let view = View::contiguous(0, shape, &row_major(shape.len()));
    let mut data = vec![0; constant.len()];
    let to = View::contiguous(0, shape, order);
    let dims = view.copy_dims(&to).unwrap_or_default();
    for i in 0..constant.len() {
        let (mut rest, mut from, mut at) = (i, 0, 0);
        for dim in dims.iter().rev() {
            from += rest % dim.extent * dim.src;
            at += rest % dim.extent * dim.dst;
            rest /= dim.extent;
        }
        data[at] = constant.bits(from) as i32;
    }
    Constant::Words(Arc::new(data))
}

/// Operands that are broadcast, and their output.
pub(crate) struct Broadcast<const N: usize> {
    pub inputs: [Option<Tensor>; N],
    pub output: Tensor,
    /// Extents of those that are constants.
    pub constants: [Option<[u32; 4]>; N],
    pub weights: Weights,
}

/// Constants, one after the other.
fn joined(mut constants: Vec<Constant>) -> Weights {
    match constants.len() {
        0 => Weights::None,
        1 => constants.pop().map_or(Weights::None, Weights::Plain),
        _ => {
            let words = constants
                .iter()
                .flat_map(|constant| (0..constant.len()).map(|index| constant.bits(index) as i32));
            Weights::Plain(Constant::Words(Arc::new(words.collect())))
        }
    }
}

impl Emitter<'_> {
    /// The operands of an item that are broadcast to its output, and this, in one memory order.
    pub fn broadcast<const N: usize>(&mut self, item: &Item) -> Result<Broadcast<N>, PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let values = &self.program.values;
        let shape = values[y].shape.clone();
        let rank = shape.len();
        let padded = |value: ValueId| {
            let own = &values[value].shape;
            [vec![1; rank - own.len()], own.clone()].concat()
        };
        let operands: [ValueId; N] = std::array::from_fn(|i| item.inputs[i]);
        let extents = operands.map(padded);
        let flows = |i: &usize| values[operands[*i]].constant.is_none();
        // the result has the layout of the operand that is as large as it is
        let lead = (0..N).filter(flows).max_by_key(|&i| (values[operands[i]].elements(), N - i));
        let order = match lead {
            Some(lead) => self.view(name, operands[lead])?.pad_rank(rank).order(),
            None => row_major(rank),
        };
        let order = folded(order, &shape);
        let full =
            |axis: usize| -> [bool; N] { std::array::from_fn(|i| extents[i][axis] == shape[axis]) };
        let groups = groups(&order, &shape, full).ok_or_else(|| PassError::Unsupported {
            node: name.into(),
            what: "its operands alternate between broadcast and full more than the four \
                   dimensions of a tensor allow"
                .into(),
            hint: "expand one of the operands",
        })?;
        let dims = |extents: &[usize]| -> [usize; 4] {
            std::array::from_fn(|i| groups[i].iter().map(|&axis| extents[axis]).product())
        };
        let (mut inputs, mut constants, mut held) = ([None; N], [None; N], Vec::new());
        for (i, &value) in operands.iter().enumerate() {
            if let Some(constant) = &values[value].constant {
                let mut words = [0; 4];
                for (word, extent) in words.iter_mut().zip(dims(&extents[i])) {
                    *word = field(name, "an extent", extent)?;
                }
                constants[i] = Some(words);
                held.push(permuted(constant, &extents[i], &order));
                continue;
            }
            let mut view = self.view(name, value)?.pad_rank(rank);
            if view.rect(&order).is_none() {
                let lost = rank - values[value].shape.len();
                let own = order.iter().filter_map(|axis| axis.checked_sub(lost));
                let own: Vec<usize> = own.collect();
                view = self.materialised(name, value, &own)?.pad_rank(rank);
            }
            let rect = view.rect(&order).ok_or_else(|| too_scattered(name, 0))?;
            inputs[i] = Some(tensor(name, Rect { dims: dims(&extents[i]), ..rect })?);
        }
        let output = self.place(name, y, &order)?;
        let whole = dims(&shape);
        let mut output = Tensor { dims: [0; 4], ..output };
        for (dim, extent) in output.dims.iter_mut().zip(whole) {
            *dim = field(name, "an extent", extent)?;
        }
        Ok(Broadcast { inputs, output, constants, weights: joined(held) })
    }
}
