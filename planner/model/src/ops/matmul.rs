//! Matrix products: of two values that flow, or with a constant operand, which are linear maps along
//! the last axis.

use super::binary::{self, Binary};
use super::builder::{Builder, Item, input, unsupported};
use super::emitter::{Emitter, field, tensor, too_scattered};
use super::exact::{self, each_index, offset, parallel};
use super::view::{Rect, View, merge, row_major};
use super::views::Transpose;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{Constant, Node, ValueId};
use crate::network::Weights;
use eyelet::pack::{self, Activation, BinaryOp, MatMulParams, OpKind, Tensor};

/// The left operand row by row, if its record has the output's rows; any other is one run of floats.
pub(super) const ROW: Operator = Operator {
    lines: |network, layer, slot| {
        let record = |id: u32| &network.tensors[id as usize];
        let beside = record(layer.inputs[slot]).dims[..3] == record(layer.output).dims[..3];
        Some(if slot == 0 && beside { Lines::Own } else { Lines::All })
    },
    ..Operator::new(OpKind::MatMul)
};

/// Products of the last two axes, times a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatMul {
    pub scale: f64,
}

impl Operation for MatMul {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let scale = self.scale;
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let shape = emitter.program.values[y].shape.clone();
        let (batch, [m, n]) = match shape.split_last_chunk::<2>() {
            Some((batch, &matrix)) => (batch.to_vec(), matrix),
            None => (vec![], [1, 1]),
        };
        let k = emitter.program.values[item.inputs[0]].shape.last().copied().unwrap_or(1);
        let (a, left) = emitter.matrices(name, item.inputs[0], &batch, true)?;
        let (b, right) = emitter.matrices(name, item.inputs[1], &batch, false)?;
        let view = emitter.destination(y, &row_major(shape.len()));
        let count = batch.iter().product();
        let rect = view.rect(&row_major(shape.len())).ok_or_else(|| too_scattered(name, 0))?;
        let a = rows_of([count, m, k], left).map_or(a, |(dims, pitch)| Tensor { dims, pitch, ..a });
        let rect = Rect { dims: [1, count, m, n], ..rect };
        emitter.set_view(y, view);
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
        emitter.layer(item, OpKind::MatMul, [Some(a), Some(b)], output, params, Weights::None)
    }

    fn is_placeable(&self) -> bool {
        false
    }
}

impl Builder {
    /// The value with its last two axes exchanged.
    fn transposed(&mut self, name: &str, x: ValueId) -> ValueId {
        let perm = swapped(self.shape(x).len());
        let shape: Vec<usize> = perm.iter().map(|&axis| self.shape(x)[axis]).collect();
        let y = self.temporary(name, &shape);
        self.push(name, Work::Transpose(Transpose { perm }), &[x], &[y]);
        y
    }

    pub fn gemm(
        &mut self,
        node: &Node,
        alpha: f32,
        beta: f32,
        trans_a: bool,
        trans_b: bool,
    ) -> Result<(), PassError> {
        let name = node.name.as_str();
        let (a, b, y) = (input(node, 0)?, input(node, 1)?, node.outputs[0]);
        let c = node.inputs.get(2).copied().flatten().filter(|_| beta != 0.0);
        let shape = self.shape(y).to_vec();
        let [m, n] = shape[..] else {
            return Err(PassError::Mismatch {
                node: name.into(),
                what: "the rank",
                found: shape.len(),
                expected: 2,
            });
        };
        let product = match c {
            Some(_) => self.temporary(name, &shape),
            None => y,
        };
        let scaled = if alpha == 1.0 { product } else { self.temporary(name, &shape) };
        match (self.constant(a).cloned(), self.constant(b).cloned()) {
            (_, Some(data)) => {
                let x = if trans_a { self.transposed(name, a) } else { a };
                let k = data.len() / n;
                let strides = if trans_b { [n, k, 1] } else { [n, 1, n] };
                self.rows(node, x, data, strides, scaled)?;
            }
            (Some(data), None) => {
                let x = if trans_b { b } else { self.transposed(name, b) };
                let k = data.len() / m;
                let strides = if trans_a { [m, 1, m] } else { [m, k, 1] };
                let result = self.temporary(name, &[n, m]);
                self.rows(node, x, data, strides, result)?;
                self.push(
                    name,
                    Work::Transpose(Transpose { perm: vec![1, 0] }),
                    &[result],
                    &[scaled],
                );
            }
            (None, None) => {
                let left = if trans_a { self.transposed(name, a) } else { a };
                let right = if trans_b { self.transposed(name, b) } else { b };
                self.push(name, Work::MatMul(MatMul { scale: 1.0 }), &[left, right], &[scaled]);
            }
        }
        if scaled != product {
            let factor = self.new_constant(name, &[], vec![alpha]);
            self.binary(name, BinaryOp::Mul, scaled, factor, product);
        }
        let Some(mut c) = c else { return Ok(()) };
        if beta != 1.0 {
            let shape = self.shape(c).to_vec();
            match self.constant(c).map(Constant::to_vec) {
                Some(data) => {
                    let data = data.iter().map(|value| value * beta).collect();
                    c = self.new_constant(name, &shape, data);
                }
                None => {
                    let factor = self.new_constant(name, &[], vec![beta]);
                    let scaled = self.temporary(name, &shape);
                    self.push(
                        name,
                        Work::Binary(Binary { op: BinaryOp::Mul }),
                        &[c, factor],
                        &[scaled],
                    );
                    c = scaled;
                }
            }
        }
        self.binary(name, BinaryOp::Add, product, c, y);
        Ok(())
    }

    /// What a value is a multiple of, for the node at hand alone, and which.
    fn unscaled(&mut self, value: ValueId) -> (ValueId, f64) {
        let found = self.sole_maker(value).and_then(|item| match item.work {
            Work::Binary(Binary { op }) if item.activation == Activation::NONE => {
                Some((op, [item.inputs[0], item.inputs[1]]))
            }
            _ => None,
        });
        let Some((op, [a, b])) = found else { return (value, 1.0) };
        let number = |value: ValueId| {
            let data = self.constant(value).filter(|data| data.len() == 1)?;
            Some(f64::from(data.get(0))).filter(|number| number.is_finite())
        };
        let (of, scale) = match (op, number(a), number(b)) {
            (BinaryOp::Mul, None, Some(b)) => (a, b),
            (BinaryOp::Mul, Some(a), None) => (b, a),
            (BinaryOp::Div, None, Some(b)) if b != 0.0 => (a, 1.0 / b),
            _ => return (value, 1.0),
        };
        if self.shape(of) != self.shape(value) {
            return (value, 1.0);
        }
        self.remove(value);
        self.read(of);
        (of, scale)
    }

    /// Follows the product that makes `x`, for the node at hand alone, by `· scale`.
    pub fn scale_product(&mut self, x: ValueId, y: ValueId, by: f64) -> bool {
        match self.sole_maker(x) {
            Some(item) if by.is_finite() && item.activation == Activation::NONE => {
                let Work::MatMul(MatMul { scale }) = &mut item.work else { return false };
                *scale *= by;
            }
            _ => return false,
        }
        self.retarget(x, y);
        true
    }

    pub fn mat_mul(&mut self, node: &Node) -> Result<(), PassError> {
        let name = node.name.as_str();
        let (a, b, y) = (input(node, 0)?, input(node, 1)?, node.outputs[0]);
        let (left, right) = (self.shape(a).to_vec(), self.shape(b).to_vec());
        let matrix = |shape: &[usize]| shape.iter().rev().skip(2).all(|&extent| extent == 1);
        let batched = "a constant operand has a batch dimension";
        let hint = "split the product, or export it as one matrix";
        let mut target = self.shape(y).to_vec();
        match (self.constant(a).cloned(), self.constant(b).cloned()) {
            (_, Some(data)) => {
                if !matrix(&right) {
                    return Err(unsupported(node, batched, hint));
                }
                let n = if right.len() == 1 { 1 } else { right[right.len() - 1] };
                let x = if left.len() == 1 { self.reshaped(name, a, &[1, left[0]]) } else { a };
                let mut shape = self.shape(x).to_vec();
                if let Some(last) = shape.last_mut() {
                    *last = n;
                }
                let result = if shape == target { y } else { self.temporary(name, &shape) };
                self.rows(node, x, data, [n, 1, n], result)?;
                if result != y {
                    self.push(name, Work::Reshape, &[result], &[y]);
                }
            }
            (Some(data), None) => {
                if !matrix(&left) {
                    return Err(unsupported(node, batched, hint));
                }
                let m = if left.len() == 1 { 1 } else { left[left.len() - 2] };
                let x = match right.len() {
                    1 => self.reshaped(name, b, &[1, right[0]]),
                    _ => self.transposed(name, b),
                };
                let mut shape = self.shape(x).to_vec();
                let last = shape.len() - 1;
                shape[last] = m;
                let k = data.len() / m;
                let result = self.temporary(name, &shape);
                self.rows(node, x, data, [m, k, 1], result)?;
                let result = self.transposed(name, result);
                self.push(name, Work::Reshape, &[result], &[y]);
            }
            (None, None) => {
                let a = match left.len() {
                    1 => self.reshaped(name, a, &[1, left[0]]),
                    _ => a,
                };
                let b = match right.len() {
                    1 => self.reshaped(name, b, &[right[0], 1]),
                    _ => b,
                };
                // one-dimensional operands lose their axis in the result
                if right.len() == 1 {
                    target.push(1);
                }
                if left.len() == 1 {
                    target.insert(target.len() - 1, 1);
                }
                let result =
                    if target == self.shape(y) { y } else { self.temporary(name, &target) };
                let ((a, left), (b, right)) = (self.unscaled(a), self.unscaled(b));
                self.push(name, Work::MatMul(MatMul { scale: left * right }), &[a, b], &[result]);
                if result != y {
                    self.push(name, Work::Reshape, &[result], &[y]);
                }
            }
        }
        Ok(())
    }
}

impl Emitter<'_> {
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
}

/// The last two axes exchanged.
fn swapped(rank: usize) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 1, rank - 2);
    perm
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

/// A matrix in a run of data: extent, and the distance between neighbours of each axis.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    data: &'a [f64],
    extent: [usize; 2],
    stride: [usize; 2],
}

impl<'a> Matrix<'a> {
    fn new(data: &'a [f64], rows: usize, columns: usize) -> Self {
        Self { data, extent: [rows, columns], stride: [columns, 1] }
    }

    fn transposed(self) -> Self {
        let ([rows, columns], [down, right]) = (self.extent, self.stride);
        Self { data: self.data, extent: [columns, rows], stride: [right, down] }
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.data[row * self.stride[0] + column * self.stride[1]]
    }
}

/// `result = a · b`, row-major.
fn multiply(a: Matrix<'_>, b: Matrix<'_>, result: &mut [f64]) {
    let [_, columns] = b.extent;
    // Few rows of many columns (fully connected): cut columns, too.
    let run = match a.extent[0] {
        0..8 => (1..=columns).rev().find(|run| columns % run == 0 && *run <= 64).unwrap_or(1),
        _ => columns,
    };
    parallel(result, run, |chunk, result| {
        let (row, first) = (chunk * run / columns, chunk * run % columns);
        if b.stride[1] == 1 {
            result.fill(0.0);
            for k in 0..a.extent[1] {
                let factor = a.at(row, k);
                let line = &b.data[k * b.stride[0] + first..][..run];
                result.iter_mut().zip(line).for_each(|(sum, b)| *sum += factor * b);
            }
        } else {
            for (column, sum) in result.iter_mut().enumerate() {
                *sum = (0..a.extent[1]).map(|k| a.at(row, k) * b.at(k, first + column)).sum();
            }
        }
    });
}

/// A scaled product of two matrices, plus a scaled third one, in double precision.
pub(crate) fn gemm(
    [alpha, beta]: [f64; 2],
    [trans_a, trans_b]: [bool; 2],
    a: exact::Tensor<'_>,
    b: exact::Tensor<'_>,
    c: Option<exact::Tensor<'_>>,
    out: &[usize],
) -> Vec<f64> {
    let a = Matrix::new(a.data, a.shape[0], a.shape[1]);
    let b = Matrix::new(b.data, b.shape[0], b.shape[1]);
    let a = if trans_a { a.transposed() } else { a };
    let b = if trans_b { b.transposed() } else { b };
    let mut product = vec![0.0; out.iter().product()];
    multiply(a, b, &mut product);
    product.iter_mut().for_each(|value| *value *= alpha);
    match c {
        None => product,
        Some(c) => {
            let product = exact::Tensor { shape: out, data: &product };
            binary::binary(product, c, out, |sum, c| sum + beta * c)
        }
    }
}

/// Products of stacks of matrices; the stacks are broadcast.
pub(crate) fn matmul(a: exact::Tensor<'_>, b: exact::Tensor<'_>, out: &[usize]) -> Vec<f64> {
    let batch = &out[..out.len() - 2];
    let mut result = vec![0.0; out.iter().product()];
    let size = out[out.len() - 2] * out[out.len() - 1];
    let mut done = 0;
    each_index(batch, |index| {
        let (a, b) = (stacked(a, index), stacked(b, index));
        multiply(a, b, &mut result[done..done + size]);
        done += size;
    });
    result
}

/// The matrix of a stack that belongs to an index of the broadcast stack.
fn stacked<'a>(tensor: exact::Tensor<'a>, index: &[usize]) -> Matrix<'a> {
    let (stack, matrix) = tensor.shape.split_at(tensor.shape.len() - 2);
    let own = index[index.len() - stack.len()..].iter().zip(stack);
    let place = offset(stack, own.map(|(&at, &extent)| if extent == 1 { 0 } else { at }));
    let size = matrix[0] * matrix[1];
    Matrix::new(&tensor.data[place * size..][..size], matrix[0], matrix[1])
}
