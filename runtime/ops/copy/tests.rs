//! Copies of random strides against their definition.

use super::super::testing::{Case, Random, Threads, layer};
use super::*;
use crate::kernels::Kernels;
use crate::kernels::table::Packed;
use crate::matrix::MatRef;
use crate::ops::{Problem, Slice, validate_rings, validate_slice};
use crate::pack::{Activation, Method, OpKind};
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
        // Without an input nothing is copied.
        if case.layer.inputs[0] != NONE {
            out[dst as usize] = case.data[0][src as usize];
        }
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
        let rows = case.output.rows();
        let unit = row_unit(&case.layer, &case.output).unwrap_or(rows);
        for times in [1, 2, 5] {
            let found = case.run(threads, (times * unit).min(rows) as u32);
            let found: Vec<u32> = found.iter().map(|x| x.to_bits()).collect();
            assert!(found == truth, "{params:?} on {threads} threads, {times} times {unit} rows");
        }
    }
    #[cfg(any(feature = "cuda", feature = "cuda-linked"))]
    {
        let found = case.on_gpu().run_everywhere();
        let found: Vec<u32> = found.iter().map(|x| x.to_bits()).collect();
        assert!(found == truth, "{params:?} on a GPU");
    }
}

/// A copy between two buffers in which the dimensions lie in the given orders (outermost first),
/// with a gap after every `gap`-th stride, from and to tensors that are the whole buffers.
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

/// Asserts that lines that come into a ring of `ring` lines, some at a time, are those of the whole
/// output. Nothing next to a step's rows changes.
fn check_ring(case: &Case, ring: u32, lines: u32, threads: usize) {
    const POISON: f32 = 7e33;
    let whole = case.run(1, case.output.rows() as u32);
    let Tensor { dims: [_, height, width, _], offset, pitch, .. } = case.output;
    let [line, offset] = [width * pitch, offset].map(|floats| floats as usize);
    let cols = case.output.cols() as usize;
    let mut first = 0;
    while first < height {
        let end = (first + lines).min(height).min((first / ring + 1) * ring);
        let slice = Slice {
            first: 0,
            count: 0,
            row: first * width,
            rows: (end - first) * width,
            ..Slice::default()
        };
        let problem = Problem {
            layer: &case.layer,
            inputs: &case.inputs,
            output: &case.output,
            slice,
            threads: 1,
            isa: Isa::Portable,
        };
        validate_slice(&problem).unwrap();
        validate_rings(&problem, [0, 0, 0, ring]).unwrap();
        let mut memory = vec![POISON; ring as usize * line];
        let mut expected = memory.clone();
        for at in first..end {
            for pixel in (0..line).step_by(pitch as usize) {
                let to = (at % ring) as usize * line + pixel + offset;
                let from = at as usize * line + pixel + offset;
                expected[to..to + cols].copy_from_slice(&whole[from..from + cols]);
            }
        }
        let input = &case.data[0];
        let len = memory.len();
        crate::ops::run(Call {
            layer: &case.layer,
            inputs: case.inputs,
            output: case.output,
            operands: [
                Operand::Mat(MatRef::new(input, 1, input.len(), input.len()).unwrap()),
                Operand::Absent,
                Operand::Absent,
            ],
            out: MatMut::new(&mut memory, 1, len, len).unwrap(),
            weights: Packed::default(),
            prefetch: Default::default(),
            first: 0,
            count: 0,
            method: Method::default(),
            rows: slice.row as usize..(slice.row + slice.rows) as usize,
            scratch: &mut [],
            device: &Threads(threads),
            kernels: Kernels::PORTABLE,
        });
        assert!(memory == expected, "{slice:?} of {:?} in {ring} lines", case.layer.params);
        first = end;
    }
}

/// An image from planes of channels, whose lines lie `gap` floats apart, to pixels, some at a time
/// and into rings.
#[test]
fn images_change_their_order_by_rows() {
    let mut random = Random::new(5);
    for [height, width, channels, gap] in
        [[5, 3, 3, 0], [5, 3, 3, 2], [7, 1, 4, 0], [4, 6, 1, 1], [40, 41, 3, 0], [9, 17, 20, 0]]
    {
        let stride = width + gap;
        let mut params = CopyParams {
            dims: [1, 1, 1, height, width, channels],
            src: [0, 0, 0, stride, 1, height * stride],
            src_start: 1,
            ..Default::default()
        };
        let blank = layer(OpKind::Copy, Activation::NONE, &params);
        let input = [1, 1, 1, channels * height * stride + 2];
        let mut case = Case::new(blank, &mut random, &[input], [1, height, width, channels]);
        let to = case.output;
        params.dst[3..].copy_from_slice(&[width * to.pitch, to.pitch, 1]);
        params.dst_start = to.offset;
        case.layer.params = crate::pack::params_words(&params);
        let unit = if gap == 0 || width == 1 { 1 } else { width };
        assert_eq!(row_unit(&case.layer, &to), Some(unit.into()));
        check_case(&case, &params);
        // Rings are of tensors whose first row is the buffer's.
        (case.output.offset, params.dst_start) = (0, 0);
        case.layer.params = crate::pack::params_words(&params);
        for (ring, lines, threads) in [(1, 1, 1), (2, 1, 3), (3, 2, 2), (4, 4, 1)] {
            check_ring(&case, ring.min(height), lines, threads);
        }
    }
}

#[test]
fn what_is_not_made_by_rows_is_made_as_a_whole() {
    let mut random = Random::new(6);
    let params = CopyParams {
        dims: [1, 1, 1, 4, 5, 3],
        src: [0, 0, 0, 5, 1, 20],
        dst: [0, 0, 0, 15, 3, 1],
        ..Default::default()
    };
    let blank = layer(OpKind::Copy, Activation::NONE, &params);
    let case = Case::contiguous(blank, &mut random, &[[1, 3, 4, 5]], [1, 4, 5, 3]);
    let unit = |change: &dyn Fn(&mut CopyParams, &mut Tensor)| {
        let (mut params, mut output) = (params, case.output);
        change(&mut params, &mut output);
        row_unit(&layer(OpKind::Copy, Activation::NONE, &params), &output)
    };
    assert_eq!(unit(&|_, _| {}), Some(1));
    assert_eq!(unit(&|params, _| params.filled = 1), None);
    assert_eq!(unit(&|params, _| params.dst_start = 1), None);
    // Part of the lines, of the pixels, of the channels.
    for dim in 3..6 {
        assert_eq!(unit(&|params, _| params.dims[dim] -= 1), None);
    }
    // Lines from below, each the next one's place; a pixel's channels in others; another pitch; all
    // of one row.
    assert_eq!(unit(&|params, _| params.dst[3] = 14), None);
    assert_eq!(unit(&|params, _| params.dst[5] = 2), None);
    assert_eq!(unit(&|_, output| output.pitch = 4), None);
    assert_eq!(unit(&|_, output| (output.dims, output.pitch) = ([1, 1, 1, 60], 60)), None);
    // Numbers that no tensor has.
    assert_eq!(unit(&|params, _| params.dims = [u32::MAX; 6]), None);
    assert_eq!(unit(&|params, _| params.dims[5] = 0), None);
    assert_eq!(unit(&|params, _| params.dst[3..].fill(u32::MAX)), None);
    assert_eq!(unit(&|_, output| output.pitch = 0), None);
    // Steps of other rows than whole blocks.
    let lines = CopyParams { src: [0, 0, 0, 6, 1, 24], ..params };
    let layer = layer(OpKind::Copy, Activation::NONE, &lines);
    let slice = |row, rows| {
        let slice = Slice { first: 0, count: 0, row, rows, ..Slice::default() };
        validate_slice(&Problem {
            layer: &layer,
            inputs: &case.inputs,
            output: &case.output,
            slice,
            threads: 1,
            isa: Isa::Portable,
        })
    };
    assert_eq!((slice(5, 10), slice(0, 20)), (Ok(()), Ok(())));
    for (row, rows) in [(5, 9), (4, 11), (1, 5)] {
        assert!(slice(row, rows).is_err(), "{row}, {rows}");
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

/// Without an input a tensor is filled, and nothing next to it; what else such a layer says is refused.
#[test]
fn fills_without_an_input() {
    let mut random = Random::new(6);
    for dims in [[1, 1, 1, 1], [2, 1, 3, 5], [1, 70, 1, 90]] {
        let params = CopyParams { dims: [1; 6], filled: 1, fill: f32::NAN, ..Default::default() };
        let blank = layer(OpKind::Copy, Activation::NONE, &params);
        let mut case = Case::new(blank, &mut random, &[], dims);
        let params = CopyParams { dst_start: case.output.offset, ..params };
        case.layer = layer(OpKind::Copy, Activation::NONE, &params);
        check_case(&case, &params);
        let mut refused = |change: fn(&mut CopyParams)| {
            let mut params = params;
            change(&mut params);
            case.layer = layer(OpKind::Copy, Activation::NONE, &params);
            case.validate().unwrap_err()
        };
        let offset = u64::from(params.dst_start);
        for (error, expected) in [
            (refused(|p| p.filled = 0), ("filled, without an input,", 0, 1)),
            (refused(|p| p.filled = 2), ("filled, without an input,", 2, 1)),
            (refused(|p| p.dims[3] = 2), ("extent of a copy without an input", 2, 1)),
            (refused(|p| p.dims[0] = 0), ("extent of a copy without an input", 1, 1)),
            (
                refused(|p| p.dst_start += 1),
                ("first element, without an input,", offset + 1, offset),
            ),
        ] {
            assert_eq!(error, LayerError::Field(expected.0, expected.1, expected.2));
        }
    }
}
