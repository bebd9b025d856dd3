//! The reduction of the middle of `outer × reduce × inner` contiguous floats to means, sums,
//! extremes, products.
//!
//! Where `inner` is 1 the values that become one lie side by side and are summed in the order of
//! [`Kernels::sum`](crate::kernels::Kernels::sum); otherwise each is a sum in ascending order, and
//! vectors run over `inner`: pooling. The mean is the sum divided by the count. [`fold`] has the
//! reductions that pooling does not have.

use super::work::elements;
use super::{Call, LayerError, Operand, Operator, check, check_one_input, device_for, split};
use crate::device::divide;
use crate::kernels::Kernels;
use crate::kernels::table::fold::{self, Fold};
use crate::kernels::table::{Pooling, Positions, Taps};
use crate::matrix::{MatMut, MatRef};
use crate::pack::{INPUTS, Isa, Layer, OpKind, ReduceOp, ReduceParams, Tensor, params};

/// Reduction of floats.
pub(super) const ROW: Operator = Operator {
    row_unit: |_, _| None,
    macs: |_, inputs, _| elements(&inputs[0]),
    ..Operator::new(OpKind::Reduce, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let [input, ..] = inputs;
    check_one_input(layer)?;
    let ReduceParams { outer, reduce, inner, op } = params(layer);
    let last = ReduceOp::ALL.len() as u64 - 1;
    let known = ReduceOp::from_code(op);
    check(known.is_some(), "reduction", op.into(), last)?;
    let computed = isa != Isa::Cuda || known.is_some_and(ReduceOp::on_gpu);
    check(computed, "reduction on a GPU", op.into(), ReduceOp::Max as u64)?;
    check_extents([outer, reduce, inner], input, output)
}

/// Refuses tensors that are not `outer × reduce × inner` and `outer × inner`, one after the other.
pub(super) fn check_extents(
    [outer, reduce, inner]: [u32; 3],
    input: &Tensor,
    output: &Tensor,
) -> Result<(), LayerError> {
    let (found, limit) = (elements(output), (outer as u64) * (inner as u64));
    check(found == limit, "number of elements of the output", found, limit)?;
    let (found, limit) = (elements(input), limit.saturating_mul(reduce.into()));
    check(found == limit, "number of elements of the input", found, limit)?;
    check_contiguous(input)?;
    // An output with gaps will do where its rows are those of the averages.
    if output.cols() == inner { Ok(()) } else { check_contiguous(output) }
}

pub(super) fn check_contiguous(tensor: &Tensor) -> Result<(), LayerError> {
    let (pitch, cols) = (tensor.pitch.into(), tensor.cols().into());
    check(tensor.rows() == 1 || pitch == cols, "pitch of a contiguous tensor", pitch, cols)
}

/// Computes the whole output.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let Some(input) = input.contiguous() else { return };
    let params: ReduceParams = params(call.layer);
    let [outer, reduce, inner] = [params.outer, params.reduce, params.inner].map(|x| x as usize);
    let Some(op) = ReduceOp::from_code(params.op) else { return };
    let out = if call.out.cols() == inner {
        call.out
    } else {
        let Some(out) = call.out.contiguous_mut() else { return };
        let Some(out) = MatMut::new(out, outer, inner, inner) else { return };
        out
    };
    let device = device_for(call.device, input.len());
    let split = split(outer, inner, device);
    let mean = matches!(op, ReduceOp::Mean | ReduceOp::SquareMean);
    let count = if mean { reduce as f32 } else { 1.0 };
    let Some(lines) = MatRef::new(input, outer * reduce, inner, inner) else { return };
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    divide(device, out, split, &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let index = share.rows.start + row;
            if inner == 1 {
                let x = &input[index * reduce..][..reduce];
                share.out.row_mut(row).fill(reduced(kernels, op, x) / count);
                continue;
            }
            let lines = lines.part(index * reduce..(index + 1) * reduce, share.cols.clone());
            let out = share.out.part_mut(row..row + 1, 0..share.cols.len());
            columns(kernels, op, lines, count, out);
        }
        kernels.map(activation, share.out);
    });
}

/// Reduces a row.
fn reduced(kernels: &Kernels, op: ReduceOp, x: &[f32]) -> f32 {
    match op {
        ReduceOp::Mean | ReduceOp::Sum => kernels.sum(x),
        ReduceOp::SquareSum | ReduceOp::SquareMean => kernels.square_differences(x, 0.0),
        ReduceOp::Max => fold::row(Fold::Max, x),
        ReduceOp::Min => fold::row(Fold::Min, x),
        ReduceOp::Product => fold::row(Fold::Product, x),
    }
}

/// Reduces each column; sums are divided by `count`.
fn columns(kernels: &Kernels, op: ReduceOp, lines: MatRef<'_>, count: f32, mut out: MatMut<'_>) {
    let pooling = match op {
        ReduceOp::Mean | ReduceOp::Sum => Pooling::Average(count),
        ReduceOp::Max => Pooling::Max,
        ReduceOp::Min => return fold::lines(Fold::Min, lines, out.row_mut(0)),
        ReduceOp::Product => return fold::lines(Fold::Product, lines, out.row_mut(0)),
        ReduceOp::SquareSum | ReduceOp::SquareMean => {
            return fold::square_lines(lines, count, out.row_mut(0));
        }
    };
    let all = Positions { first: 0, count: lines.rows(), step: 1 };
    let taps = Taps { width: 1, lines: all, cols: Positions { count: 1, ..all }, pixel_step: 0 };
    kernels.pool(pooling, lines, taps, out);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;

    fn case(random: &mut Random, sizes: [u32; 3], dims: [u32; 4], output: [u32; 4]) -> Case {
        reduction(random, ReduceOp::Mean, sizes, dims, output)
    }

    fn reduction(
        random: &mut Random,
        op: ReduceOp,
        sizes: [u32; 3],
        dims: [u32; 4],
        output: [u32; 4],
    ) -> Case {
        let [outer, reduce, inner] = sizes;
        let params = ReduceParams { outer, reduce, inner, op: op as u32 };
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
    fn all_reductions_match_double_precision() {
        let mut random = Random::new(3);
        for op in ReduceOp::ALL {
            for sizes in [[1, 49, 37], [3, 50, 7], [40, 9, 1], [2, 1000, 1], [1, 600, 19]] {
                let [outer, reduce, inner] = sizes;
                let (dims, output) = ([outer, reduce, 1, inner], [1, 1, outer, inner]);
                let mut case = self::reduction(&mut random, op, sizes, dims, output);
                if op == ReduceOp::Product {
                    // So that the product stays in the range of numbers.
                    case.data[0].iter_mut().for_each(|x| *x = (*x * 0.02).exp() * x.signum());
                }
                let found = case.run_everywhere();
                let [_, reduce, inner] = sizes.map(|x| x as usize);
                let terms = |at: usize| {
                    let (block, col) = (at / inner, at % inner);
                    let case = &case;
                    (0..reduce).map(move |i| case.input(0, (block * reduce + i) * inner + col))
                };
                let squares = |at: usize| terms(at).map(|x| x * x).sum::<f64>();
                let magnitudes = |at: usize| terms(at).map(f64::abs).sum::<f64>();
                for (at, found) in found.iter().enumerate() {
                    let (truth, scale) = match op {
                        ReduceOp::Mean => {
                            (terms(at).sum::<f64>() / reduce as f64, magnitudes(at) / reduce as f64)
                        }
                        ReduceOp::Sum => (terms(at).sum::<f64>(), magnitudes(at)),
                        ReduceOp::Max => (terms(at).fold(f64::MIN, f64::max), 0.0),
                        ReduceOp::Min => (terms(at).fold(f64::MAX, f64::min), 0.0),
                        ReduceOp::Product => {
                            let product: f64 = terms(at).product();
                            (product, product.abs() * 10.0)
                        }
                        ReduceOp::SquareSum => (squares(at), squares(at)),
                        ReduceOp::SquareMean => {
                            let mean = squares(at) / reduce as f64;
                            (mean, mean)
                        }
                    };
                    let error = (f64::from(*found) - truth).abs();
                    assert!(error <= 4e-6 * scale, "{op:?} {sizes:?}: {found}, not {truth}");
                }
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
        let mut unknown = case(&mut random, [2, 3, 5], [1, 2, 3, 5], [1, 1, 2, 5]);
        unknown.layer.params[3] = ReduceOp::ALL.len() as u32;
        assert_eq!(unknown.validate(), Err(LayerError::Field("reduction", 7, 6)));
        let mut gaps = case(&mut random, [2, 3, 5], [1, 2, 3, 5], [1, 1, 2, 5]);
        gaps.inputs[0].pitch = 6;
        assert_eq!(gaps.validate(), Err(LayerError::Field("pitch of a contiguous tensor", 6, 5)));
    }
}
