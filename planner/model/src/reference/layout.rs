//! Operators that move elements and compute none.

use super::{Tensor, each_index, offset};

/// An output whose element at an index is the input's at a function of it.
fn moved(x: Tensor<'_>, out: &[usize], source: impl Fn(&[usize], usize) -> usize) -> Vec<f64> {
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let place = (0..x.shape.len()).map(|axis| source(index, axis));
        result.push(x.data[offset(x.shape, place)]);
    });
    result
}

pub(super) fn transpose(x: Tensor<'_>, perm: &[usize], out: &[usize]) -> Vec<f64> {
    let mut inverse = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    moved(x, out, |index, axis| index[inverse[axis]])
}

pub(super) fn expand(x: Tensor<'_>, out: &[usize]) -> Vec<f64> {
    let lost = out.len() - x.shape.len();
    moved(x, out, |index, axis| if x.shape[axis] == 1 { 0 } else { index[lost + axis] })
}

pub(super) fn slice(x: Tensor<'_>, starts: &[usize], steps: &[usize], out: &[usize]) -> Vec<f64> {
    moved(x, out, |index, axis| starts[axis] + index[axis] * steps[axis])
}

pub(super) fn split(x: Tensor<'_>, axis: usize, sizes: &[usize]) -> Vec<Vec<f64>> {
    let mut first = 0;
    let parts = sizes.iter().map(|&size| {
        let mut shape = x.shape.to_vec();
        shape[axis] = size;
        let shift = first;
        first += size;
        moved(x, &shape, |index, at| index[at] + if at == axis { shift } else { 0 })
    });
    parts.collect()
}

/// Entries of an axis; NaN for an index outside.
pub(super) fn take(x: Tensor<'_>, indices: Tensor<'_>, axis: usize) -> Vec<f64> {
    let outer: usize = x.shape[..axis].iter().product();
    let (extent, inner) = (x.shape[axis], x.shape[axis + 1..].iter().product());
    let mut result = Vec::with_capacity(outer * indices.data.len() * inner);
    for block in x.data.chunks(extent * inner).take(outer) {
        let table = Tensor { shape: &[extent, inner], data: block };
        result.extend(gather(table, indices));
    }
    result
}

/// Rows of a table; NaN for an index outside.
pub(super) fn gather(table: Tensor<'_>, indices: Tensor<'_>) -> Vec<f64> {
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

pub(super) fn concat(parts: &[Tensor<'_>], axis: usize) -> Vec<f64> {
    let outer: usize = parts[0].shape[..axis].iter().product();
    let mut result = vec![];
    for block in 0..outer {
        for part in parts {
            let run: usize = part.shape[axis..].iter().product();
            result.extend_from_slice(&part.data[block * run..(block + 1) * run]);
        }
    }
    result
}

pub(super) fn pad(x: Tensor<'_>, begin: &[usize], value: f64, out: &[usize]) -> Vec<f64> {
    let mut result = vec![value; out.iter().product()];
    let mut data = x.data.iter();
    each_index(x.shape, |index| {
        let place = index.iter().zip(begin).map(|(at, begin)| at + begin);
        result[offset(out, place)] = *data.next().expect("as many elements as indices");
    });
    result
}
