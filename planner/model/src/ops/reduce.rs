//! Reductions of floats over axes: to a mean, a sum, an extreme. Some are pools.

use super::binary::outer;
use super::binary::{Binary, squares as squares_of};
use super::builder::{Builder, Item};
use super::emitter::{Emitter, field, tensor};
use super::exact::{self, each_index, offset};
use super::linear::point;
use super::pool::Pool;
use super::view::{Rect, View, fold4};
use super::{Operation, Operator, PassError, Work};
use crate::graph::{ValueId, Window};
use crate::network::Weights;
use eyelet::pack::{self, BinaryOp, OpKind, ReduceOp, ReduceParams};

/// Of all rows.
pub(super) const ROW: Operator = Operator::new(OpKind::Reduce);

/// A reduction over axes.
#[derive(Clone, Debug)]
pub(crate) struct Reduce {
    pub op: ReduceOp,
    pub axes: Vec<usize>,
    pub keep: bool,
}

impl Operation for Reduce {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        emitter.reduction(item, Reduction::Floats(self.op), &self.axes, self.keep)
    }

    fn takes_activation(&self) -> bool {
        true
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn beyond_gpus(&self) -> Option<String> {
        let op = on_gpus(self.op);
        (!op.on_gpu()).then(|| format!("the reduction {op:?}"))
    }
}

/// What elements are reduced to.
#[derive(Clone, Copy)]
pub(crate) enum Reduction<'a> {
    Floats(ReduceOp),
    /// The record of a reduction of words, of its extents: outer, reduced, inner.
    Words(&'a dyn Fn([u32; 3]) -> (OpKind, [u32; 24])),
}

/// What a GPU reduces squares by, which it has made before: it has no reductions of squares.
fn on_gpus(op: ReduceOp) -> ReduceOp {
    match op {
        ReduceOp::SquareSum => ReduceOp::Sum,
        op if op.squares() => ReduceOp::Mean,
        op => op,
    }
}

impl Builder {
    /// A reduction over axes: a pool with the whole image as window where it is one.
    pub fn reduce(
        &mut self,
        name: &str,
        op: ReduceOp,
        x: ValueId,
        y: ValueId,
        axes: Vec<usize>,
        keep: bool,
    ) {
        let shape = self.shape(x).to_vec();
        let average = op == ReduceOp::Mean;
        if axes.iter().all(|&axis| shape[axis] == 1) {
            let mut one = x;
            if op.squares() {
                self.read(x);
                one = self.temporary(name, &shape);
                self.push(name, Work::Binary(Binary { op: BinaryOp::Mul }), &[x, x], &[one]);
            }
            self.push(name, Work::Reshape, &[one], &[y]);
        } else if shape.len() == 4 && axes == [2, 3] && (average || op == ReduceOp::Max) {
            let window = Window { kernel: [shape[2], shape[3]], ..point() };
            let work = Work::Pool(Pool { average, window, count_include_pad: false });
            let pooled = if keep { y } else { self.temporary(name, &[shape[0], shape[1], 1, 1]) };
            self.push(name, work, &[x], &[pooled]);
            if !keep {
                self.push(name, Work::Reshape, &[pooled], &[y]);
            }
        } else {
            self.push(name, Work::Reduce(Reduce { op, axes, keep }), &[x], &[y]);
        }
    }
}

impl Emitter<'_> {
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
    pub fn reduction(
        &mut self,
        item: &Item,
        reduction: Reduction<'_>,
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
            self.out.layers.push(squares_of(item, input, output));
            input = output;
            op = Reduction::Floats(on_gpus(squares));
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
        let extents = [outer?, reduce?, inner?];
        let (kind, params) = match op {
            Reduction::Floats(op) => {
                let [outer, reduce, inner] = extents;
                let params = ReduceParams { outer, reduce, inner, op: op as u32 };
                (OpKind::Reduce, pack::params_words(&params))
            }
            Reduction::Words(record) => record(extents),
        };
        self.layer(item, kind, [Some(input)], output, params, Weights::None)
    }
}

/// Reductions over axes. Whether these stay with extent 1 makes no difference to the data.
pub(crate) fn reduce(op: ReduceOp, x: exact::Tensor<'_>, axes: &[usize]) -> Vec<f64> {
    let mut shape = x.shape.to_vec();
    axes.iter().for_each(|&axis| shape[axis] = 1);
    let start = match op {
        ReduceOp::Max => f64::NEG_INFINITY,
        ReduceOp::Min => f64::INFINITY,
        ReduceOp::Product => 1.0,
        _ => 0.0,
    };
    let mut results = vec![start; shape.iter().product()];
    let mut data = x.data.iter();
    each_index(x.shape, |index| {
        let kept = index.iter().zip(&shape).map(|(&at, &e)| if e == 1 { 0 } else { at });
        let result = &mut results[offset(&shape, kept)];
        let x = *data.next().expect("as many elements as indices");
        match op {
            ReduceOp::Mean | ReduceOp::Sum => *result += x,
            ReduceOp::Max => *result = outer(*result, x, true),
            ReduceOp::Min => *result = outer(*result, x, false),
            ReduceOp::Product => *result *= x,
            ReduceOp::SquareSum | ReduceOp::SquareMean => *result += x * x,
        }
    });
    let mean = matches!(op, ReduceOp::Mean | ReduceOp::SquareMean);
    let count = if mean { (x.data.len() / results.len()) as f64 } else { 1.0 };
    results.iter().map(|result| result / count).collect()
}
