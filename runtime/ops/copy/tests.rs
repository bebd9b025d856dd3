//! Copies of random strides against their definition.

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
