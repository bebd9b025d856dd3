//! Which floats of a buffer a layer reads and writes, as runs of adjacent ones.

use super::operators::{Floats, Operator};
use eyelet::pack::{CopyParams, Layer, MatMulParams, Tensor, params};
use std::ops::Range;

/// Is shown one run after the other, until it returns false.
pub(super) type Visit<'a> = &'a mut dyn FnMut(Range<u64>) -> bool;

/// Visits what an input reads.
pub(super) fn read(layer: &Layer, input: usize, tensor: &Tensor, visit: Visit<'_>) {
    match Operator::of(layer).floats {
        Floats::Rows => of(tensor, visit),
        Floats::Copied => {
            let copy: CopyParams = params(layer);
            strided(copy.src_start, copy.dims, copy.src, visit);
        }
        Floats::Matrices => {
            let p: MatMulParams = params(layer);
            let (rows, cols) = if input == 0 { (p.m, p.k) } else { (p.k, p.n) };
            let (row, col) = (p.row_stride[input], p.col_stride[input]);
            // The shorter stride goes innermost: a transposed operand has runs too.
            let (dims, strides) = if col <= row {
                ([1, 1, 1, p.batch, rows, cols], [0, 0, 0, p.batch_stride[input], row, col])
            } else {
                ([1, 1, 1, p.batch, cols, rows], [0, 0, 0, p.batch_stride[input], col, row])
            };
            strided(tensor.offset, dims, strides, visit);
        }
    }
}

/// Visits what a layer writes.
pub(super) fn written(layer: &Layer, output: &Tensor, visit: Visit<'_>) {
    if Operator::of(layer).floats != Floats::Copied {
        return of(output, visit);
    }
    let copy: CopyParams = params(layer);
    if copy.filled != 0 {
        of(output, &mut *visit);
    }
    strided(copy.dst_start, copy.dims, copy.dst, visit);
}

/// Visits a tensor's rows, or all of it at once where they are adjacent.
pub(super) fn of(tensor: &Tensor, visit: Visit<'_>) {
    let (rows, cols) = (tensor.rows(), u64::from(tensor.cols()));
    let (start, pitch) = (u64::from(tensor.offset), u64::from(tensor.pitch));
    if pitch == cols {
        visit(start..start + rows * cols);
        return;
    }
    for row in 0..rows {
        if !visit(start + row * pitch..start + row * pitch + cols) {
            return;
        }
    }
}

/// Visits what six strided dimensions touch, outermost first. Adjacent dimensions that are one run are
/// visited as one.
fn strided(start: u32, dims: [u32; 6], strides: [u32; 6], visit: Visit<'_>) {
    if dims.contains(&0) {
        return;
    }
    let mut run = 1u64;
    let mut outer = Vec::with_capacity(6);
    for (dim, stride) in dims.into_iter().zip(strides).rev() {
        let (dim, stride) = (u64::from(dim), u64::from(stride));
        if dim == 1 || stride == 0 {
            continue;
        }
        if outer.is_empty() && stride == run {
            run *= dim;
        } else {
            outer.push((dim, stride));
        }
    }
    walk(u64::from(start), run, &outer, visit);
}

/// Visits the runs of the dimensions in `outer`, the last of which is outermost.
fn walk(start: u64, run: u64, outer: &[(u64, u64)], visit: Visit<'_>) -> bool {
    match outer.split_last() {
        None => visit(start..start + run),
        Some((&(dim, stride), inner)) => {
            (0..dim).all(|index| walk(start + index * stride, run, inner, visit))
        }
    }
}
