//! Matrix products: Gemm and MatMul with a constant operand become a linear map along the last axis
//! ([`Work::Rows`]); those of two values that flow become [`Work::MatMul`].

use super::PassError;
use super::affine::Linear;
use super::fuse::{input, unsupported};
use super::program::{Builder, Work};
use crate::graph::{Constant, Node, ValueId};
use eyelet::pack::{Activation, BinaryOp};
use std::sync::Arc;

/// Whole numbers that floats have all of.
pub(super) const MOST_INDEX: usize = 1 << 24;

/// The last two axes exchanged.
fn swapped(rank: usize) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 1, rank - 2);
    perm
}

impl Builder {
    /// The value with its last two axes exchanged.
    fn transposed(&mut self, name: &str, x: ValueId) -> ValueId {
        let perm = swapped(self.shape(x).len());
        let shape: Vec<usize> = perm.iter().map(|&axis| self.shape(x)[axis]).collect();
        let y = self.temporary(name, &shape);
        self.push(name, Work::Transpose { perm }, &[x], &[y]);
        y
    }

    pub fn reshaped(&mut self, name: &str, x: ValueId, shape: &[usize]) -> ValueId {
        if self.shape(x) == shape {
            return x;
        }
        let y = self.temporary(name, shape);
        self.push(name, Work::Reshape, &[x], &[y]);
        y
    }

    /// `x[.., k]` times a constant `k × n` matrix whose element (k, n) lies at `k · col + n · row`.
    fn rows(
        &mut self,
        node: &Node,
        x: ValueId,
        data: Constant,
        [n, row, col]: [usize; 3],
        y: ValueId,
    ) -> Result<(), PassError> {
        let k = self.shape(x).last().copied().unwrap_or(1);
        if data.len() != k * n {
            return Err(PassError::Mismatch {
                node: node.name.clone(),
                what: "the number of weights",
                found: data.len(),
                expected: k * n,
            });
        }
        let linear = Linear {
            data,
            out_channels: n,
            groups: 1,
            k,
            row,
            col,
            order: None,
            scale: None,
            bias: None,
        };
        self.push(&node.name, Work::Rows { linear }, &[x], &[y]);
        Ok(())
    }

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
        self.push(&node.name, Work::Gather { linear }, &[indices], &[node.outputs[0]]);
        Ok(())
    }

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
            self.push(name, Work::Take { indices: None }, &inputs, &[taken]);
            self.push(name, Work::Reshape, &[taken], &[y]);
            return Ok(());
        }
        // One index is one row for all that comes before the axis.
        let folded = self.reshaped(name, inputs[0], &[outer, entries, inner]);
        let turned = self.temporary(name, &[entries, outer, inner]);
        let perm = vec![1, 0, 2];
        self.push(name, Work::Transpose { perm: perm.clone() }, &[folded], &[turned]);
        inputs[0] = self.reshaped(name, turned, &[entries, outer * inner]);
        let taken = self.temporary(name, &[count, outer * inner]);
        self.push(name, Work::Take { indices: None }, &inputs, &[taken]);
        let taken = self.reshaped(name, taken, &[count, outer, inner]);
        let back = self.temporary(name, &[outer, count, inner]);
        self.push(name, Work::Transpose { perm }, &[taken], &[back]);
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
        self.push(name, Work::Take { indices: Some(of_rows) }, &[rows], &[taken]);
        self.push(name, Work::Reshape, &[taken], &[y]);
        Ok(())
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
                self.push(name, Work::Transpose { perm: vec![1, 0] }, &[result], &[scaled]);
            }
            (None, None) => {
                let left = if trans_a { self.transposed(name, a) } else { a };
                let right = if trans_b { self.transposed(name, b) } else { b };
                self.push(name, Work::MatMul { scale: 1.0 }, &[left, right], &[scaled]);
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
                    self.push(name, Work::Binary { op: BinaryOp::Mul }, &[c, factor], &[scaled]);
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
            Work::Binary { op } if item.activation == Activation::NONE => {
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
                let Work::MatMul { scale } = &mut item.work else { return false };
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
                self.push(name, Work::MatMul { scale: left * right }, &[a, b], &[result]);
                if result != y {
                    self.push(name, Work::Reshape, &[result], &[y]);
                }
            }
        }
        Ok(())
    }
}
