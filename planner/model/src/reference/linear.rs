//! Products of matrices.

use super::{Tensor, each_index, offset, parallel};

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

pub(super) fn gemm(
    [alpha, beta]: [f64; 2],
    [trans_a, trans_b]: [bool; 2],
    a: Tensor<'_>,
    b: Tensor<'_>,
    c: Option<Tensor<'_>>,
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
            let product = Tensor { shape: out, data: &product };
            super::pointwise::binary(product, c, out, |sum, c| sum + beta * c)
        }
    }
}

/// Products of stacks of matrices; the stacks are broadcast.
pub(super) fn matmul(a: Tensor<'_>, b: Tensor<'_>, out: &[usize]) -> Vec<f64> {
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
fn stacked<'a>(tensor: Tensor<'a>, index: &[usize]) -> Matrix<'a> {
    let (stack, matrix) = tensor.shape.split_at(tensor.shape.len() - 2);
    let own = index[index.len() - stack.len()..].iter().zip(stack);
    let place = offset(stack, own.map(|(&at, &extent)| if extent == 1 { 0 } else { at }));
    let size = matrix[0] * matrix[1];
    Matrix::new(&tensor.data[place * size..][..size], matrix[0], matrix[1])
}
