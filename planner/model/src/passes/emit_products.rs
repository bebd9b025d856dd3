//! Emission of what combines two operands or folds axes: arithmetic with broadcasting, matrix products
//! and means.

use super::PassError;
use super::affine::{Linear, point};
use super::emit::{Emitter, field, tensor, too_scattered};
use super::emit_windows::conv_params;
use super::program::Item;
use super::view::{Rect, View, fold4, merge, row_major};
use crate::graph::{Constant, ValueId};
use crate::network::Weights;
use eyelet::pack::{
    self, BinaryOp, BinaryParams, Element, FoldOp, FoldParams, GatherParams, IntegerOp,
    IntegerParams, LayerNormParams, MatMulParams, OpKind, ReduceOp, ReduceParams, TakeParams,
    Tensor, WhereParams,
};
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
struct Broadcast<const N: usize> {
    inputs: [Option<Tensor>; N],
    output: Tensor,
    /// Extents of those that are constants.
    constants: [Option<[u32; 4]>; N],
    weights: Weights,
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
    /// A constant matrix along the last axis: a 1x1 convolution over rows. If the last axis is a
    /// permutation of adjacent floats, the weights are permuted instead of the values.
    pub fn rows(&mut self, item: &Item, linear: &Linear) -> Result<(), PassError> {
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let view = self.view(name, x)?;
        let last = view.axes.len() - 1;
        let mut recipe = linear.dense();
        let adjacent = match view.permutation(last) {
            Some(permutation) => {
                let adjacent = view.with_adjacent(last);
                adjacent.rect(&last_axis_last(&adjacent)).map(|rect| (adjacent, rect, permutation))
            }
            None => None,
        };
        let (order, input) = match adjacent {
            Some((view, rect, permutation)) => {
                recipe.order = permutation;
                (last_axis_last(&view), tensor(name, rect)?)
            }
            None => {
                let order = last_axis_last(&view);
                let input = self.operand(name, x, &order)?;
                (order, input)
            }
        };
        let residual = item.residual.map(|other| self.operand(name, other, &order)).transpose()?;
        let output = self.place(name, y, &order)?;
        let params = pack::params_words(&conv_params(&point(), [0, 0], 1));
        let weights = Weights::Dense(recipe);
        self.layer(item, OpKind::Conv, [Some(input), residual], output, params, weights)
    }

    /// Rows of a table, one for each index.
    pub fn gather(&mut self, item: &Item, linear: &Linear) -> Result<(), PassError> {
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let shape = self.program.values[x].shape.clone();
        let count = shape.iter().product::<usize>();
        let list = |view: &View| view.reshape(&[1, 1, count, 1])?.rect(&[0, 1, 2, 3]);
        let rect = match list(&self.view(name, x)?) {
            Some(rect) => Some(rect),
            None => list(&self.materialised(name, x, &row_major(shape.len()))?),
        };
        let indices = tensor(name, rect.ok_or_else(|| too_scattered(name, 0))?)?;
        let output = self.place(name, y, &row_major(shape.len() + 1))?;
        let params = GatherParams { entries: field(name, "the entries of a table", linear.k)? };
        let (params, weights) = (pack::params_words(&params), Weights::Dense(linear.dense()));
        self.layer(item, OpKind::Gather, [Some(indices)], output, params, weights)
    }

    /// Rows of a matrix.
    pub fn take(&mut self, item: &Item, indices: Option<&Constant>) -> Result<(), PassError> {
        let name = item.name.as_str();
        let order = row_major(2);
        let data = self.operand(name, item.inputs[0], &order)?;
        let other = item.inputs.get(1);
        let other = other.map(|&other| self.operand(name, other, &order)).transpose()?;
        let output = self.place(name, item.outputs[0], &order)?;
        let params = pack::params_words(&TakeParams { entries: data.dims[2] });
        let weights = indices.cloned().map_or(Weights::None, Weights::Plain);
        self.layer(item, OpKind::Take, [Some(data), other], output, params, weights)
    }

    /// The last axis normalised.
    pub fn layer_norm(
        &mut self,
        item: &Item,
        params: LayerNormParams,
        scale: &[f64],
        shift: &[f64],
    ) -> Result<(), PassError> {
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let order = last_axis_last(&self.view(name, x)?);
        let input = self.operand(name, x, &order)?;
        let output = self.place(name, y, &order)?;
        let constants = scale.iter().chain(shift).map(|&value| value as f32).collect();
        let weights = Weights::Plain(Constant::Owned(Arc::new(constants)));
        let params = pack::params_words(&params);
        self.layer(item, OpKind::LayerNorm, [Some(input), None], output, params, weights)
    }

    pub fn binary(&mut self, item: &Item, op: BinaryOp) -> Result<(), PassError> {
        let Broadcast { inputs, output, constants, weights } = self.broadcast::<2>(item)?;
        let mut params = BinaryParams { op: op as u32, ..BinaryParams::default() };
        if let Some(which) = constants.iter().position(Option::is_some) {
            params.constant_operand = if which == 0 { 2 } else { 1 };
            params.constant = constants[which].unwrap_or_default();
        }
        self.layer(item, OpKind::Binary, inputs, output, pack::params_words(&params), weights)
    }

    /// Operations on words.
    pub fn words(&mut self, item: &Item, op: IntegerOp) -> Result<(), PassError> {
        let mut params = IntegerParams { op: op as u32, ..IntegerParams::default() };
        if op.operands() == 1 {
            let Broadcast { inputs, output, weights, .. } = self.broadcast::<1>(item)?;
            let params = pack::params_words(&params);
            return self.layer(item, OpKind::Integer, inputs, output, params, weights);
        }
        let Broadcast { inputs, output, constants, weights } = self.broadcast::<2>(item)?;
        if let Some(which) = constants.iter().position(Option::is_some) {
            params.constants = which as u32 + 1;
            params.extents = constants.map(Option::unwrap_or_default);
        }
        self.layer(item, OpKind::Integer, inputs, output, pack::params_words(&params), weights)
    }

    /// One operand or another.
    pub fn choose(&mut self, item: &Item) -> Result<(), PassError> {
        let Broadcast { inputs, output, constants, weights } = self.broadcast::<3>(item)?;
        let which = (0..3).filter(|&i| constants[i].is_some()).map(|i| 1 << i).sum();
        let extents = constants.map(Option::unwrap_or_default);
        if which & 0b110 == 0b110 {
            let words =
                matches!(self.program.values[item.inputs[1]].constant, Some(Constant::Words(_)));
            let element = if words { Element::Word } else { Element::Float };
            self.out.chosen.insert(output.buffer, element);
        }
        let params = pack::params_words(&WhereParams { constants: which, extents });
        self.layer(item, OpKind::Where, inputs, output, params, weights)
    }

    /// The operands of an item that are broadcast to its output, and this, in one memory order.
    fn broadcast<const N: usize>(&mut self, item: &Item) -> Result<Broadcast<N>, PassError> {
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

    pub fn mat_mul(&mut self, item: &Item, scale: f64) -> Result<(), PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let shape = self.program.values[y].shape.clone();
        let (batch, [m, n]) = match shape.split_last_chunk::<2>() {
            Some((batch, &matrix)) => (batch.to_vec(), matrix),
            None => (vec![], [1, 1]),
        };
        let k = self.program.values[item.inputs[0]].shape.last().copied().unwrap_or(1);
        let (a, left) = self.matrices(name, item.inputs[0], &batch, true)?;
        let (b, right) = self.matrices(name, item.inputs[1], &batch, false)?;
        let view = self.destination(y, &row_major(shape.len()));
        let count = batch.iter().product();
        let rect = view.rect(&row_major(shape.len())).ok_or_else(|| too_scattered(name, 0))?;
        let a = rows_of([count, m, k], left).map_or(a, |(dims, pitch)| Tensor { dims, pitch, ..a });
        let rect = Rect { dims: [1, count, m, n], ..rect };
        self.set_view(y, view);
        let params = MatMulParams {
            scale: scale as f32,
            batch: field(name, "the number of products", count)?,
            m: field(name, "an extent", m)?,
            k: field(name, "an extent", k)?,
            n: field(name, "an extent", n)?,
            batch_stride: [left[0], right[0]],
            row_stride: [left[1], right[1]],
            col_stride: [left[2], right[2]],
        };
        let output = tensor(name, rect)?;
        let params = pack::params_words(&params);
        self.layer(item, OpKind::MatMul, [Some(a), Some(b)], output, params, Weights::None)
    }

    /// An operand of a product and its strides: from one matrix, row, column to the next.
    fn matrices(
        &mut self,
        node: &str,
        value: ValueId,
        batch: &[usize],
        adjacent: bool,
    ) -> Result<(Tensor, [u32; 3]), PassError> {
        let mut view = self.view(node, value)?.pad_rank(batch.len() + 2);
        let own = view.shape();
        let repeated = own.iter().zip(batch).filter(|&(&own, &all)| own != all).count();
        let varying = own[..batch.len()].iter().filter(|&&own| own > 1).count();
        let mut strides = matrix_strides(&view, batch.len(), adjacent);
        if repeated > 0 && varying > 0 {
            let shape = [batch, &own[batch.len()..]].concat();
            let target = self.allocate(&shape, &row_major(shape.len()));
            self.copy(node, &view.expand(&shape), &target, None)?;
            view = target;
            strides = matrix_strides(&view, batch.len(), adjacent);
        } else if strides.is_none() {
            let rank = self.program.values[value].shape.len();
            let copy = self.materialised(node, value, &row_major(rank))?;
            view = copy.pad_rank(batch.len() + 2);
            strides = matrix_strides(&view, batch.len(), adjacent);
        }
        let strides = strides.ok_or_else(|| too_scattered(node, 0))?;
        let mut fields = [0; 3];
        for (to, stride) in fields.iter_mut().zip(strides) {
            *to = field(node, "a stride in floats", stride)?;
        }
        let span = view.span();
        let row =
            Rect { buffer: view.buffer, offset: view.offset, dims: [1, 1, 1, span], pitch: span };
        Ok((tensor(node, row)?, fields))
    }

    /// The first input with axes that are adjacent in memory, after a copy if they are not; and the order of all axes.
    fn adjacent(&mut self, item: &Item, axes: &[usize]) -> Result<(View, Vec<usize>), PassError> {
        let (name, x) = (item.name.as_str(), item.inputs[0]);
        let view = self.view(name, x)?;
        let (shape, mut order) = (view.shape(), view.order());
        let long = order.iter().filter(|&&axis| shape[axis] > 1);
        let reduced: Vec<bool> = long.map(|axis| axes.contains(axis)).collect();
        let adjacent = reduced.chunk_by(|a, b| a == b).filter(|run| run[0]).count() <= 1;
        if adjacent && View::contiguous(0, &shape, &order).axes == view.axes {
            return Ok((view, order));
        }
        order.sort_by_key(|axis| axes.contains(axis));
        Ok((self.materialised(name, x, &order)?, order))
    }

    /// The reduction over axes that are adjacent in memory.
    fn reduction(
        &mut self,
        item: &Item,
        reduction: Reduction,
        axes: &[usize],
        keep: bool,
    ) -> Result<(), PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let (view, order) = self.adjacent(item, axes)?;
        let shape = view.shape();
        // axes of extent 1 among those that are kept do not matter
        let reduced = |axis: &usize| axes.contains(axis) && shape[*axis] > 1;
        let first = order.iter().position(reduced).unwrap_or(order.len());
        let last = order.iter().rposition(reduced).map_or(first, |last| last + 1);
        let product = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product::<usize>();
        let [outer, reduce, inner] =
            [&order[..first], &order[first..last], &order[last..]].map(product);
        let mut kept = shape.clone();
        axes.iter().for_each(|&axis| kept[axis] = 1);
        let mut result = self.allocate(&kept, &order);
        let at = |view: &View, dims| Rect {
            buffer: view.buffer,
            offset: view.offset,
            dims,
            pitch: inner,
        };
        let dims = fold4(&[outer, reduce, inner]);
        let mut input = tensor(name, at(&view, dims))?;
        let mut op = reduction;
        if let Reduction::Floats(squares) = op
            && squares.squares()
            && self.is_gpu()
        {
            // GPUs have no reductions of squares.
            let view = self.allocate(&shape, &order);
            let output = tensor(name, at(&view, dims))?;
            self.squares(item, input, output);
            input = output;
            op = Reduction::Floats(match squares {
                ReduceOp::SquareSum => ReduceOp::Sum,
                _ => ReduceOp::Mean,
            });
        }
        let output = tensor(name, at(&result, fold4(&[outer, inner])))?;
        if !keep {
            let mut axis = 0;
            result.axes.retain(|_| {
                axis += 1;
                !axes.contains(&(axis - 1))
            });
        }
        self.set_view(y, result);
        let [outer, reduce, inner] = [outer, reduce, inner].map(|x| field(name, "an extent", x));
        let (outer, reduce, inner) = (outer?, reduce?, inner?);
        let (kind, params) = match op {
            Reduction::Floats(op) => {
                let params = ReduceParams { outer, reduce, inner, op: op as u32 };
                (OpKind::Reduce, pack::params_words(&params))
            }
            Reduction::Words { op, last } => {
                let (op, last) = (op as u32, last.into());
                let params = FoldParams { outer, reduce, inner, op, last };
                (OpKind::Fold, pack::params_words(&params))
            }
        };
        self.layer(item, kind, [Some(input)], output, params, Weights::None)
    }

    /// A reduction of floats.
    pub fn reduce(
        &mut self,
        item: &Item,
        op: ReduceOp,
        axes: &[usize],
        keep: bool,
    ) -> Result<(), PassError> {
        self.reduction(item, Reduction::Floats(op), axes, keep)
    }

    /// A reduction of words.
    pub fn fold(
        &mut self,
        item: &Item,
        op: FoldOp,
        axes: &[usize],
        keep: bool,
        last: bool,
    ) -> Result<(), PassError> {
        self.reduction(item, Reduction::Words { op, last }, axes, keep)
    }
}

/// What elements are reduced to.
#[derive(Clone, Copy)]
enum Reduction {
    Floats(ReduceOp),
    Words { op: FoldOp, last: bool },
}

/// The order of a view with its last axis moved innermost.
fn last_axis_last(view: &View) -> Vec<usize> {
    let last = view.axes.len() - 1;
    let mut order = view.order();
    order.retain(|&axis| axis != last);
    order.push(last);
    order
}

/// Extents and pitch of the rows of a stack of matrices, if they lie at one pitch.
fn rows_of(extents: [usize; 3], strides: [u32; 3]) -> Option<([u32; 4], u32)> {
    let [count, m, k] = extents.map(|extent| extent as u32);
    let [stack, row, _] = strides;
    let pitch = match (m, count) {
        (1, 1) => k,
        (1, _) => stack,
        _ => row,
    };
    let even = count == 1 || u64::from(stack) == u64::from(m) * u64::from(pitch);
    (even && pitch >= k).then_some(([1, count, m, k], pitch))
}

/// The strides of a stack of matrices, if it has such: between matrices, rows, columns.
fn matrix_strides(view: &View, batch: usize, adjacent: bool) -> Option<[usize; 3]> {
    let shape = view.shape();
    let stride = |axis: usize, unit: usize| match view.axes[axis][..] {
        [] => Some(unit),
        [run] => Some(run.stride),
        _ => None,
    };
    let columns = shape[batch + 1];
    let col = stride(batch + 1, 1)?;
    let row = stride(batch, columns)?;
    let stack = match merge(view.axes[..batch].iter().flatten().copied())[..] {
        [] => 0,
        [run] => run.stride,
        _ => return None,
    };
    (!adjacent || col == 1).then_some([stack, row, col])
}
