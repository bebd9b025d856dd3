//! Strided copies of up to six dimensions: layout changes, transposes, concatenation, padding,
//! slices. Without an input they fill their output with one number.
//!
//! The extents are first brought into a plain form: dimensions of extent 1 go, the others are
//! sorted so that the output is written front to back, and neighbours that are adjacent on both
//! sides become one. The rest is mostly a run of adjacent floats, or a transposition, which goes by
//! square tiles.
//!
//! Threads divide the output's floats at multiples of the outermost stride. A step makes the whole
//! output, or some of its rows where blocks of the outermost dimension are rows of their own
//! (`row_unit`). In a change of an image's order each pixel is such a row. These may lie in a ring.
//! The input is there as a whole, since adjacent rows come from all over it.

use super::{
    Addresses, Call, Elements, LayerError, Operand, Operator, check, check_no_activation,
    check_one_input, device_for,
};
use crate::device::{Device, Split, divide};
use crate::matrix::MatMut;
use crate::pack::{CopyParams, INPUTS, Isa, Layer, NONE, OpKind, Tensor, params};

/// Edge of a tile: a cache line of floats.
const TILE: usize = 16;

/// Strided copies.
pub(super) const ROW: Operator = Operator {
    addresses: Addresses::Buffers,
    buffers: validate_buffers,
    row_unit,
    elements: |_| Elements::ANY,
    ..Operator::new(OpKind::Copy, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute, wherever their buffers end.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let params: CopyParams = params(layer);
    if layer.inputs == [NONE; INPUTS] {
        return validate_fill(layer, &params, output);
    }
    check_one_input(layer)?;
    let (from, to) = (inputs[0].buffer, output.buffer);
    check(from != to, "buffer of the input, the output's own", from.into(), to.into())?;
    check_no_activation(layer)?;
    check(params.filled <= 1, "filled", params.filled.into(), 1)?;
    check(!params.dims.contains(&0), "smallest extent of the copy", 0, 1)
}

/// Refuses a copy that addresses floats beyond those of the input's and of the output's buffer.
fn validate_buffers(layer: &Layer, buffers: [u64; 2]) -> Result<(), LayerError> {
    let params: CopyParams = params(layer);
    if layer.inputs == [NONE; INPUTS] {
        return Ok(());
    }
    // Bounds the time as well: with strides of zero extents alone need no memory.
    let elements = params.dims.iter().fold(1u64, |n, dim| n.saturating_mul((*dim).into()));
    check(elements <= buffers[1], "elements of the copy", elements, buffers[1])?;
    let end = |start: u32, strides: &[u32; 6]| {
        params.dims.iter().zip(strides).fold(start as u64 + 1, |end, (extent, stride)| {
            end.saturating_add((*extent as u64 - 1) * *stride as u64)
        })
    };
    let (source, target) = (end(params.src_start, &params.src), end(params.dst_start, &params.dst));
    check(source <= buffers[0], "floats of the input's buffer", source, buffers[0])?;
    check(target <= buffers[1], "floats of the output's buffer", target, buffers[1])
}

/// Refuses a copy without an input that does anything but fill its output.
fn validate_fill(layer: &Layer, params: &CopyParams, output: &Tensor) -> Result<(), LayerError> {
    check_no_activation(layer)?;
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)?;
    check(params.filled == 1, "filled, without an input,", params.filled.into(), 1)?;
    let longest = params.dims.iter().copied().fold(0, u32::max);
    check(params.dims == [1; 6], "extent of a copy without an input", longest.into(), 1)?;
    let (start, offset) = (params.dst_start, output.offset);
    check(start == offset, "first element, without an input,", start.into(), offset.into())
}

/// One dimension of a copy: extent, and strides in floats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dim {
    pub len: usize,
    pub src: usize,
    pub dst: usize,
}

/// The dimensions in plain form, outermost first, in front of the array, and their number.
pub(super) fn normalise(params: &CopyParams) -> ([Dim; 6], usize) {
    let mut dims = [Dim::default(); 6];
    for (dim, to) in dims.iter_mut().enumerate() {
        *to = Dim {
            len: params.dims[dim] as usize,
            src: params.src[dim] as usize,
            dst: params.dst[dim] as usize,
        };
    }
    // Insertion sort by the output's stride, the largest first; what has extent 1 goes to the end.
    let key = |dim: &Dim| if dim.len == 1 { 0 } else { dim.dst.saturating_add(1) };
    for last in 1..6 {
        for at in (1..=last).rev() {
            if key(&dims[at - 1]) < key(&dims[at]) {
                dims.swap(at - 1, at);
            }
        }
    }
    let mut count = 0;
    for at in 0..6 {
        let inner = dims[at];
        if inner.len == 1 {
            continue;
        }
        let adjacent = |outer: usize, inner: usize| inner.checked_mul(dims[at].len) == Some(outer);
        if count > 0
            && adjacent(dims[count - 1].src, inner.src)
            && adjacent(dims[count - 1].dst, inner.dst)
        {
            let len = dims[count - 1].len * inner.len;
            dims[count - 1] = Dim { len, ..inner };
        } else {
            dims[count] = inner;
            count += 1;
        }
    }
    (dims, count)
}

/// Floats from the first to past the last that the dimensions reach in the output.
pub(super) fn span(dims: &[Dim]) -> usize {
    dims.iter().map(|dim| (dim.len - 1) * dim.dst).sum::<usize>() + 1
}

/// The rows of the output that a block of the outermost dimension makes, if the blocks make all
/// rows, one block after the other, and nothing else; `None` where a step can make no less than the
/// whole output.
pub(super) fn row_unit(layer: &Layer, output: &Tensor) -> Option<u64> {
    let params: CopyParams = params(layer);
    let elements = params.dims.iter().fold(1u64, |n, dim| n.saturating_mul((*dim).into()));
    let all = output.rows().checked_mul(output.cols().into())?;
    if params.filled != 0 || params.dst_start != output.offset || elements != all || all == 0 {
        return None;
    }
    let (dims, count) = normalise(&params);
    let pitch = u64::from(output.pitch);
    let (mut rows, mut inner) = (output.rows(), &dims[..count]);
    while rows > 1 {
        let (outer, rest) = inner.split_first()?;
        let stride = outer.dst as u64;
        if stride.checked_mul(outer.len as u64) != rows.checked_mul(pitch) {
            return None;
        }
        (rows, inner) = (stride.checked_div(pitch)?, rest);
        if stride != rows * pitch {
            return None;
        }
    }
    // The elements of a row are left.
    let last = inner.iter().try_fold(0u64, |last, dim| {
        last.checked_add((dim.len as u64 - 1).checked_mul(dim.dst as u64)?)
    })?;
    let outer = dims.first().filter(|_| inner.len() < count)?;
    (last < output.cols().into()).then_some(outer.dst as u64 / pitch)
}

/// Computes the rows of the step.
pub fn run(mut call: Call<'_>) {
    let params: CopyParams = params(call.layer);
    if params.filled == 1 {
        fill(&mut call, params.fill);
    }
    let Operand::Mat(input) = call.operands[0] else { return };
    let mut source = &input.row(0)[params.src_start as usize..];
    let (mut dims, count) = normalise(&params);
    let mut start = params.dst_start as usize;
    if (call.rows.len() as u64) < call.output.rows() {
        let (outer, pitch) = (&mut dims[0], call.output.pitch as usize);
        // In a ring there are fewer rows than the output has.
        let row = call.rows.start % call.out.cols().div_ceil(pitch);
        source = &source[call.rows.start * pitch / outer.dst * outer.src..];
        start += row * pitch;
        outer.len = call.rows.len() * pitch / outer.dst;
    }
    let dims = &dims[..count];
    let mut out = call.out.part_mut(0..1, start..start + span(dims));
    let elements = dims.iter().map(|dim| dim.len).product();
    match dims {
        // The outermost dimension's blocks lie one after the other: threads get whole blocks.
        [outer, inner @ ..] if span(inner) <= outer.dst => {
            let device: &dyn Device = device_for(call.device, elements);
            divide(device, out, Split::Cols(outer.dst), &mut [], 0, |mut share| {
                let blocks =
                    share.cols.start / outer.dst..share.cols.end.div_ceil(outer.dst).min(outer.len);
                let mut part = [Dim::default(); 6];
                part[..count].copy_from_slice(dims);
                part[0].len = blocks.len();
                let source = &source[blocks.start * outer.src..];
                copy(&mut part[..count], source, share.out.row_mut(0));
            });
        }
        _ => {
            let mut part = [Dim::default(); 6];
            part[..count].copy_from_slice(dims);
            copy(&mut part[..count], source, out.row_mut(0));
        }
    }
}

/// Fills the rectangle of the output tensor.
fn fill(call: &mut Call<'_>, value: f32) {
    let tensor = &call.output;
    let (rows, cols) = (tensor.rows() as usize, tensor.cols() as usize);
    let Some(data) = call.out.row_mut(0).get_mut(tensor.offset as usize..) else { return };
    let Some(out) = MatMut::new(data, rows, cols, tensor.pitch as usize) else { return };
    let device = device_for(call.device, rows.saturating_mul(cols));
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            share.out.row_mut(row).fill(value);
        }
    });
}

/// Copies dimensions sorted as [`normalise`] sorts them.
fn copy(dims: &mut [Dim], source: &[f32], out: &mut [f32]) {
    // The dimension along which the input is adjacent goes next to the innermost, for the tiles.
    if let [outer @ .., last] = dims
        && last.src != 1
        && let Some(at) = outer.iter().position(|dim| dim.src == 1)
    {
        outer[at..].rotate_left(1);
    }
    blocks(dims, source, out);
}

fn blocks(dims: &[Dim], source: &[f32], out: &mut [f32]) {
    match dims {
        [] => out[0] = source[0],
        [row] => plane(Dim { len: 1, src: 0, dst: 0 }, *row, source, out),
        [outer, inner] => plane(*outer, *inner, source, out),
        [outer, inner @ ..] => {
            for i in 0..outer.len {
                blocks(inner, &source[i * outer.src..], &mut out[i * outer.dst..]);
            }
        }
    }
}

/// Copies two dimensions.
fn plane(outer: Dim, inner: Dim, source: &[f32], out: &mut [f32]) {
    match (inner.src, inner.dst) {
        (1, 1) => {
            for i in 0..outer.len {
                out[i * outer.dst..][..inner.len]
                    .copy_from_slice(&source[i * outer.src..][..inner.len]);
            }
        }
        (0, 1) => {
            for i in 0..outer.len {
                out[i * outer.dst..][..inner.len].fill(source[i * outer.src]);
            }
        }
        (_, 1) if outer.src == 1 => match (inner.len, outer.dst) {
            (2, 2) => interleave::<2>(outer.len, inner.src, source, out),
            (3, 3) => interleave::<3>(outer.len, inner.src, source, out),
            (4, 4) => interleave::<4>(outer.len, inner.src, source, out),
            _ => transpose(outer, inner, source, out),
        },
        _ => {
            for i in 0..outer.len {
                strided(inner, &source[i * outer.src..], &mut out[i * outer.dst..]);
            }
        }
    }
}

/// Copies one dimension.
fn strided(dim: Dim, source: &[f32], out: &mut [f32]) {
    if dim.src == 0 || dim.dst == 0 {
        for i in 0..dim.len {
            out[i * dim.dst] = source[i * dim.src];
        }
    } else {
        let to = out.iter_mut().step_by(dim.dst);
        for (to, from) in to.zip(source.iter().step_by(dim.src)).take(dim.len) {
            *to = *from;
        }
    }
}

/// From N planes to pixels of N channels.
fn interleave<const N: usize>(len: usize, stride: usize, source: &[f32], out: &mut [f32]) {
    let planes: [&[f32]; N] = core::array::from_fn(|plane| &source[plane * stride..][..len]);
    let (pixels, _) = out.as_chunks_mut::<N>();
    for (at, pixel) in pixels[..len].iter_mut().enumerate() {
        for (channel, plane) in pixel.iter_mut().zip(&planes) {
            *channel = plane[at];
        }
    }
}

/// Copies two dimensions of which the outer is adjacent in the input and the inner in the output.
fn transpose(outer: Dim, inner: Dim, source: &[f32], out: &mut [f32]) {
    // Strips of the input a cache line wide, so that every line is read once.
    for i in (0..outer.len).step_by(TILE) {
        let height = TILE.min(outer.len - i);
        for j in (0..inner.len).step_by(TILE) {
            let width = TILE.min(inner.len - j);
            let source = &source[i + j * inner.src..];
            let out = &mut out[i * outer.dst + j..];
            if height == TILE && width == TILE {
                tile(outer.dst, inner.src, source, out);
                continue;
            }
            for i in 0..height {
                let out = &mut out[i * outer.dst..][..width];
                for (out, from) in out.iter_mut().zip(source[i..].iter().step_by(inner.src)) {
                    *out = *from;
                }
            }
        }
    }
}

/// One whole tile.
fn tile(to: usize, from: usize, source: &[f32], out: &mut [f32]) {
    let mut lines = [[0.0; TILE]; TILE];
    for (j, line) in lines.iter_mut().enumerate() {
        line.copy_from_slice(&source[j * from..][..TILE]);
    }
    for i in 0..TILE {
        let out = &mut out[i * to..][..TILE];
        for (out, line) in out.iter_mut().zip(&lines) {
            *out = line[i];
        }
    }
}

#[cfg(test)]
mod tests;
