//! The mean over the middle of `outer × reduce × inner` contiguous floats.
//!
//! Where `inner` is 1 the values of an average lie side by side and are summed in the order of
//! [`Kernels::sum`](crate::kernels::Kernels::sum); otherwise each average is a sum in ascending
//! order, and vectors run over `inner`: average pooling. The mean is the sum divided by the count.

use super::work::elements;
use super::{Call, LayerError, Operand, check, check_one_input, device_for, split};
use crate::device::divide;
use crate::kernels::table::{Pooling, Positions, Taps};
use crate::matrix::{MatMut, MatRef};
use crate::pack::{Isa, Layer, ReduceParams, Tensor, params};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; 2],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let [input, _] = inputs;
    check_one_input(layer)?;
    let ReduceParams { outer, reduce, inner } = params(layer);
    let (found, limit) = (elements(output), (outer as u64) * (inner as u64));
    check(found == limit, "number of elements of the output", found, limit)?;
    let (found, limit) = (elements(input), limit.saturating_mul(reduce.into()));
    check(found == limit, "number of elements of the input", found, limit)?;
    check_contiguous(input)?;
    // An output with gaps will do where its rows are those of the averages.
    if output.cols() == inner { Ok(()) } else { check_contiguous(output) }
}

fn check_contiguous(tensor: &Tensor) -> Result<(), LayerError> {
    let (pitch, cols) = (tensor.pitch.into(), tensor.cols().into());
    check(tensor.rows() == 1 || pitch == cols, "pitch of a contiguous tensor", pitch, cols)
}

/// Computes the whole output.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let Some(input) = input.contiguous() else { return };
    let params: ReduceParams = params(call.layer);
    let [outer, reduce, inner] = [params.outer, params.reduce, params.inner].map(|x| x as usize);
    let out = if call.out.cols() == inner {
        call.out
    } else {
        let Some(out) = call.out.contiguous_mut() else { return };
        let Some(out) = MatMut::new(out, outer, inner, inner) else { return };
        out
    };
    let device = device_for(call.device, input.len());
    let split = split(outer, inner, device);
    let count = reduce as f32;
    let Some(lines) = MatRef::new(input, outer * reduce, inner, inner) else { return };
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    divide(device, out, split, &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let index = share.rows.start + row;
            if inner == 1 {
                let sum = kernels.sum(&input[index * reduce..][..reduce]);
                share.out.row_mut(row).fill(sum / count);
                continue;
            }
            let lines = lines.part(index * reduce..(index + 1) * reduce, share.cols.clone());
            let all = Positions { first: 0, count: reduce, step: 1 };
            let taps =
                Taps { width: 1, lines: all, cols: Positions { count: 1, ..all }, pixel_step: 0 };
            let out = share.out.part_mut(row..row + 1, 0..share.cols.len());
            kernels.pool(Pooling::Average(count), lines, taps, out);
        }
        kernels.map(activation, share.out);
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::{Activation, OpKind};

    fn case(random: &mut Random, sizes: [u32; 3], dims: [u32; 4], output: [u32; 4]) -> Case {
        let [outer, reduce, inner] = sizes;
        let params = ReduceParams { outer, reduce, inner };
        let layer = layer(OpKind::Reduce, Activation::NONE, &params);
        Case::contiguous(layer, random, &[dims], output)
    }

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        for sizes in [
            [1, 1, 1],
            [1, 49, 2047],
            [3, 50, 7],
            [40, 9, 1],
            [7, 1000, 1],
            [2, 3, 5],
            [5, 2, 64],
            [1, 4097, 1],
        ] {
            let [outer, reduce, inner] = sizes;
            for output in [[1, 1, outer, inner], [1, 1, 1, outer * inner]] {
                let mut case = case(&mut random, sizes, [outer, reduce, 1, inner], output);
                if output[3] == inner {
                    // Its rows may have gaps.
                    case.output.pitch += 2;
                    case.out.resize(case.out.len() + 2 * outer as usize, 0.0);
                }
                let found = case.run_everywhere();
                let [_, reduce, inner] = sizes.map(|x| x as usize);
                case.assert_close(&found, 4e-6, |at| {
                    let (block, col) = (at / inner, at % inner);
                    (0..reduce)
                        .map(|i| case.input(0, (block * reduce + i) * inner + col))
                        .sum::<f64>()
                        / reduce as f64
                });
            }
        }
    }

    #[test]
    fn refuses_other_sizes_and_gaps() {
        let mut random = Random::new(2);
        let short = case(&mut random, [2, 4, 5], [1, 2, 3, 5], [1, 1, 2, 5]);
        assert_eq!(
            short.validate(),
            Err(LayerError::Field("number of elements of the input", 30, 40))
        );
        let mut gaps = case(&mut random, [2, 3, 5], [1, 2, 3, 5], [1, 1, 2, 5]);
        gaps.inputs[0].pitch = 6;
        assert_eq!(gaps.validate(), Err(LayerError::Field("pitch of a contiguous tensor", 6, 5)));
    }
}
