//! Strided copies of up to six dimensions: layout changes, transposes, concatenation, padding, slices.
//!
//! The extents are first brought into a plain form: dimensions of extent 1 go, the others are sorted so that
//! the output is written front to back, and neighbours that are adjacent on both sides become one. What
//! is left is mostly a run of adjacent floats, or a transposition, which goes by square tiles.
//!
//! Threads divide the output's floats at multiples of the outermost stride. A step makes the whole output.

use super::{Call, LayerError, Operand, check, check_one_input, device_for};
use crate::arena::MatMut;
use crate::device::{Device, Split, divide};
use crate::kernels::Isa;
use crate::pack::{CopyParams, Layer, Tensor, params};

/// Edge of a tile: a cache line of floats.
const TILE: usize = 16;

/// Refuses layers that [`run`] cannot compute. `buffers` are the floats of the input's and of the output's
/// buffer, in which the layer addresses them.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    buffers: [u64; 2],
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input(layer)?;
    let (from, to) = (inputs[0].buffer, output.buffer);
    check(from != to, "buffer of the input, the output's own", from.into(), to.into())?;
    let activation = layer.activation.kind;
    check(activation == 0, "activation of a copy", activation.into(), 0)?;
    let params: CopyParams = params(layer);
    check(params.filled <= 1, "filled", params.filled.into(), 1)?;
    check(!params.dims.contains(&0), "smallest extent of the copy", 0, 1)?;
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

/// Computes the whole output.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let params: CopyParams = params(call.layer);
    if params.filled == 1 {
        fill(&mut call, params.fill);
    }
    let source = &input.row(0)[params.src_start as usize..];
    let (dims, count) = normalise(&params);
    let dims = &dims[..count];
    let start = params.dst_start as usize;
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
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::{Activation, OpKind};
    use std::prelude::rust_2024::*;
    use std::vec;

    /// The copy by its definition.
    fn reference(case: &Case, params: &CopyParams) -> Vec<f32> {
        let mut out = case.out.clone();
        if params.filled == 1 {
            let tensor = &case.output;
            for row in 0..tensor.rows() as usize {
                let start = tensor.offset as usize + row * tensor.pitch as usize;
                out[start..start + tensor.cols() as usize].fill(params.fill);
            }
        }
        let elements = params.dims.iter().product::<u32>();
        for at in 0..elements {
            let (mut rest, mut src, mut dst) = (at, params.src_start, params.dst_start);
            for dim in (0..6).rev() {
                let i = rest % params.dims[dim];
                rest /= params.dims[dim];
                src += i * params.src[dim];
                dst += i * params.dst[dim];
            }
            out[dst as usize] = case.data[0][src as usize];
        }
        out
    }

    fn check_case(case: &Case, params: &CopyParams) {
        assert_eq!(case.validate(), Ok(()));
        let truth: Vec<u32> = reference(case, params).iter().map(|x| x.to_bits()).collect();
        for threads in [1, 2, 3, 5] {
            let found = case.run(threads, case.output.rows() as u32);
            let found: Vec<u32> = found.iter().map(|x| x.to_bits()).collect();
            assert!(found == truth, "{params:?} on {threads} threads");
        }
        #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
        {
            let found = case.on_gpu().run_everywhere();
            let found: Vec<u32> = found.iter().map(|x| x.to_bits()).collect();
            assert!(found == truth, "{params:?} on a GPU");
        }
    }

    /// A copy between two buffers in which the dimensions lie in the given orders (outermost first), with a
    /// gap after every `gap`-th stride, from and to tensors that are the whole buffers.
    fn permuted(random: &mut Random, dims: [u32; 6], orders: [[usize; 6]; 2], gaps: u32) {
        let mut strides = [[0; 6]; 2];
        let mut floats = [0; 2];
        for side in 0..2 {
            let mut stride = 1;
            for dim in orders[side].into_iter().rev() {
                strides[side][dim] = stride;
                stride = stride * dims[dim] + random.below(1 + gaps as usize) as u32;
            }
            floats[side] = stride + 3;
        }
        let params = CopyParams {
            dims,
            src: strides[0],
            dst: strides[1],
            src_start: 1,
            dst_start: 2,
            filled: 0,
            fill: 0.0,
        };
        let layer = layer(OpKind::Copy, Activation::NONE, &params);
        let [from, to] = floats.map(|floats| [1, 1, 1, floats]);
        check_case(&Case::contiguous(layer, random, &[from], to), &params);
    }

    const ORDER: [usize; 6] = [0, 1, 2, 3, 4, 5];

    #[test]
    fn layout_changes() {
        let mut random = Random::new(1);
        // One image, channels, pixels: to and from NHWC; then attention's heads; then odd ones.
        for gaps in [0, 2] {
            for channels in [1, 2, 3, 4, 5, 16, 33, 70] {
                for pixels in [1, 15, 16, 49, 100, 1601] {
                    let dims = [1, 2, 1, 1, channels, pixels];
                    permuted(&mut random, dims, [ORDER, [0, 1, 2, 3, 5, 4]], gaps);
                    permuted(&mut random, dims, [[0, 1, 2, 3, 5, 4], ORDER], gaps);
                }
            }
            permuted(&mut random, [1, 1, 1, 50, 3, 64], [ORDER, [0, 1, 2, 4, 3, 5]], gaps);
            permuted(&mut random, [1, 1, 1, 50, 3, 64], [ORDER, [0, 1, 2, 4, 5, 3]], gaps);
        }
    }

    #[test]
    fn any_permutation() {
        let mut random = Random::new(2);
        for _ in 0..400 {
            let mut orders = [ORDER; 2];
            for order in &mut orders {
                for at in (1..6).rev() {
                    order.swap(at, random.below(at + 1));
                }
            }
            let dims = [(); 6].map(|()| 1 + random.below(7) as u32);
            let gaps = random.below(3) as u32;
            permuted(&mut random, dims, orders, gaps);
        }
    }

    #[test]
    fn padding_fills_the_tensor_only() {
        let mut random = Random::new(3);
        for (height, width, channels) in [(3, 4, 5), (40, 41, 8)] {
            let mut params = CopyParams {
                dims: [1, 1, 1, height, width, channels],
                filled: 1,
                fill: 0.25,
                ..Default::default()
            };
            let blank = layer(OpKind::Copy, Activation::NONE, &params);
            let input = [1, height, width, channels];
            let mut case =
                Case::new(blank, &mut random, &[input], [1, height + 3, width + 2, channels]);
            let (from, to) = (&case.inputs[0], &case.output);
            params.src[3..].copy_from_slice(&[width * from.pitch, from.pitch, 1]);
            params.dst[3..].copy_from_slice(&[(width + 2) * to.pitch, to.pitch, 1]);
            params.src_start = from.offset;
            params.dst_start = to.offset + ((width + 2) + 1) * to.pitch;
            case.layer.params = crate::pack::params_words(&params);
            check_case(&case, &params);
        }
    }

    #[test]
    fn plain_form() {
        // A contiguous copy of six dimensions is one run.
        let dims = [2, 3, 1, 5, 1, 7];
        let strides = [105, 35, 999, 7, 0, 1];
        let params = CopyParams { dims, src: strides, dst: strides, ..Default::default() };
        let (found, count) = normalise(&params);
        assert_eq!(found[..count], vec![Dim { len: 210, src: 1, dst: 1 }]);
        // NHWC to NCHW is a transposition.
        let params = CopyParams {
            dims: [1, 1, 1, 8, 9, 3],
            src: [0, 0, 0, 27, 3, 1],
            dst: [0, 0, 0, 9, 1, 72],
            ..Default::default()
        };
        let (found, count) = normalise(&params);
        let transposed = vec![Dim { len: 3, src: 1, dst: 72 }, Dim { len: 72, src: 3, dst: 1 }];
        assert_eq!(found[..count], transposed);
    }

    #[test]
    fn refuses_what_lies_outside() {
        let mut random = Random::new(4);
        let params = CopyParams {
            dims: [1, 1, 1, 1, 4, 5],
            src: [0, 0, 0, 0, 5, 1],
            dst: [0, 0, 0, 0, 5, 1],
            ..Default::default()
        };
        let with = |random: &mut Random, change: fn(&mut CopyParams)| {
            let mut params = params;
            change(&mut params);
            let layer = layer(OpKind::Copy, Activation::NONE, &params);
            Case::contiguous(layer, random, &[[1, 1, 4, 5]], [1, 1, 4, 5]).validate()
        };
        assert_eq!(with(&mut random, |_| {}), Ok(()));
        assert_eq!(
            with(&mut random, |params| params.src_start = 1),
            Err(LayerError::Field("floats of the input's buffer", 21, 20))
        );
        assert_eq!(
            with(&mut random, |params| params.dst[4] = u32::MAX),
            Err(LayerError::Field("floats of the output's buffer", 3 * (u32::MAX as u64) + 5, 20))
        );
        assert_eq!(
            with(&mut random, |params| {
                params.dims = [u32::MAX; 6];
                (params.src, params.dst) = ([0; 6], [0; 6]);
            }),
            Err(LayerError::Field("elements of the copy", u64::MAX, 20))
        );
    }
}
