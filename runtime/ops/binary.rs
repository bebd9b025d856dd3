//! Elementwise arithmetic of two operands, each broadcast where its extent is
//! 1, then the activation.

use super::broadcast::{by_rectangles, check_operands, sides};
use super::conv::{clamp, finish};
use super::work::elements;
use super::{Call, LayerError, Operator, Reads, check};
use crate::pack::{
    Activation, ActivationKind, BinaryOp, BinaryParams, INPUTS, Isa, Layer, OpKind, Tensor, params,
};

/// Floats that the arithmetic and then a function other than a clamp pass over, about: inside the
/// first cache.
const CHUNK: usize = 4096;

/// Elementwise arithmetic.
pub(super) const ROW: Operator = Operator {
    in_place: [true; INPUTS],
    reads: [Reads::Rows; INPUTS],
    macs: |_, _, output| elements(output),
    ..Operator::new(OpKind::Binary, 2, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
///
/// A constant operand takes its place: with `constant_operand` 1 the second input is absent, with 2
/// the first.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    isa: Isa,
) -> Result<(), LayerError> {
    let params: BinaryParams = params(layer);
    let op = BinaryOp::from_code(params.op);
    let last = BinaryOp::ALL.len() as u64 - 1;
    check(op.is_some(), "arithmetic operation", params.op.into(), last)?;
    let wide = op.is_some_and(BinaryOp::is_wide);
    check(isa != Isa::Cuda || !wide, "arithmetic on a GPU", params.op.into(), 7)?;
    let which = params.constant_operand;
    check(which <= 2, "constant operand", which.into(), 2)?;
    check_operands(layer, inputs, output, &constants(&params))
}

/// Which operand is constant.
pub(super) fn constant_index(params: &BinaryParams) -> Option<usize> {
    match params.constant_operand {
        1 => Some(1),
        2 => Some(0),
        _ => None,
    }
}

/// The extents of the operands that are constants.
fn constants(params: &BinaryParams) -> [Option<[u32; 4]>; 2] {
    let which = constant_index(params);
    core::array::from_fn(|index| (which == Some(index)).then_some(params.constant))
}

/// Computes the rows of one step.
pub fn run(call: Call<'_>) {
    let params: BinaryParams = params(call.layer);
    let Some(op) = BinaryOp::from_code(params.op) else { return };
    let Some(sides) = sides(&call, &constants(&params)) else { return };
    let (activation, kernels) = (&call.layer.activation, call.kernels);
    let most = if is_clamp(activation) { usize::MAX } else { CHUNK };
    by_rectangles(call, sides, most, |[a, b], mut out| {
        kernels.binary(op, a, b, clamp(activation), out.reborrow());
        finish(kernels, activation, out);
    });
}

/// Whether nothing is left to do after a clamp.
fn is_clamp(activation: &Activation) -> bool {
    matches!(activation.function(), Some(ActivationKind::None | ActivationKind::Clamp))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, index, layer};
    use super::*;
    use crate::kernels::testing::assert_same;
    use crate::pack::NONE;
    use std::prelude::rust_2024::*;

    const OPS: [BinaryOp; 10] = BinaryOp::ALL;

    /// Extents of a, of b, of the output.
    const SHAPES: [[[u32; 4]; 3]; 12] = [
        [[2, 3, 5, 7], [2, 3, 5, 7], [2, 3, 5, 7]],
        [[1, 30, 31, 9], [1, 30, 31, 9], [1, 30, 31, 9]],
        [[1, 1, 1, 9001], [1, 1, 1, 9001], [1, 1, 1, 9001]],
        [[1, 13, 11, 64], [1, 1, 1, 64], [1, 13, 11, 64]],
        [[1, 1, 1, 64], [1, 13, 11, 64], [1, 13, 11, 64]],
        [[2, 4, 5, 33], [2, 4, 5, 1], [2, 4, 5, 33]],
        [[2, 4, 5, 33], [2, 1, 1, 33], [2, 4, 5, 33]],
        [[2, 1, 5, 3], [1, 4, 1, 3], [2, 4, 5, 3]],
        [[2, 4, 5, 3], [1, 1, 1, 1], [2, 4, 5, 3]],
        [[1, 1, 1, 1], [1, 3, 70, 40], [1, 3, 70, 40]],
        [[1, 1, 5, 1], [1, 4, 1, 1], [2, 4, 5, 6]],
        [[1, 7, 1, 5], [1, 7, 9, 1], [1, 7, 9, 5]],
    ];

    fn reference(op: BinaryOp, a: f64, b: f64) -> f64 {
        match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::PRelu => a * if a >= 0.0 { 1.0 } else { b },
            BinaryOp::Mask => {
                if b.is_nan() {
                    a
                } else {
                    b
                }
            }
            BinaryOp::Max | BinaryOp::Min if a.is_nan() || b.is_nan() => f64::NAN,
            BinaryOp::Max => a.max(b),
            BinaryOp::Min => a.min(b),
            BinaryOp::Pow => a.powf(b),
            BinaryOp::Mod => a % b,
        }
    }

    /// The element of an operand that belongs to element `at` of the output.
    fn broadcast_index(dims: [u32; 4], output: [u32; 4], at: usize) -> usize {
        let at = index(output, at);
        (0..4).fold(0, |offset, dim| {
            offset * dims[dim] as usize + if dims[dim] == 1 { 0 } else { at[dim] }
        })
    }

    fn layer_of(op: BinaryOp, constant_operand: u32, constant: [u32; 4]) -> Layer {
        let params = BinaryParams { op: op as u32, constant_operand, constant };
        layer(OpKind::Binary, Activation { kind: 2, alpha: 0.1, beta: 0.0 }, &params)
    }

    fn check_result(case: &Case, op: BinaryOp, found: &[f32], operand: [&dyn Fn(usize) -> f64; 2]) {
        case.assert_close(found, 4e-7, |at| {
            let truth = reference(op, operand[0](at), operand[1](at));
            truth * if truth >= 0.0 { 1.0 } else { 0.1f32 as f64 }
        });
    }

    #[test]
    fn broadcasting_matches_double_precision_and_in_place() {
        let mut random = Random::new(1);
        for [a, b, output] in SHAPES {
            for op in OPS {
                for gaps in [false, true] {
                    let make = if gaps { Case::new } else { Case::contiguous };
                    let case = make(layer_of(op, 0, [0; 4]), &mut random, &[a, b], output);
                    let found = case.run_everywhere();
                    check_result(
                        &case,
                        op,
                        &found,
                        [&|at| case.input(0, broadcast_index(a, output, at)), &|at| {
                            case.input(1, broadcast_index(b, output, at))
                        }],
                    );
                    for input in [0, 1] {
                        if case.inputs[input].dims == output {
                            assert_same(&found, &case.in_place(input).run_everywhere(), "in place");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn both_operands_in_place() {
        let mut random = Random::new(2);
        let dims = [1, 3, 4, 5];
        let mut case = Case::new(layer_of(BinaryOp::Mul, 0, [0; 4]), &mut random, &[dims], dims);
        case.layer.inputs[1] = case.layer.inputs[0];
        case.inputs[1] = case.inputs[0];
        case.data[1] = case.data[0].clone();
        let found = case.run_everywhere();
        check_result(
            &case,
            BinaryOp::Mul,
            &found,
            [&|at| case.input(0, at), &|at| case.input(0, at)],
        );
        assert_eq!(found, case.in_place(0).run_everywhere());
    }

    #[test]
    fn a_mask_replaces_where_it_is_a_number() {
        let mut random = Random::new(5);
        let dims = [1, 2, 3, 7];
        let mut case =
            Case::new(layer_of(BinaryOp::Mask, 1, [1, 1, 3, 7]), &mut random, &[dims], dims);
        let mask = (0..32).map(|i| if i % 3 == 0 { f32::NAN } else { i as f32 });
        (case.layer.panels, case.layer.panel_bytes, case.weights) = (1, 128, mask.collect());
        case.layer.activation = Activation::NONE;
        let found = case.run_everywhere();
        case.assert_close(&found, 0.0, |at| match at % 21 {
            place if place % 3 == 0 => case.input(0, at),
            place => place as f64,
        });
    }

    #[test]
    fn constants_match_double_precision_and_in_place() {
        let mut random = Random::new(3);
        for [dims, constant, output] in SHAPES {
            if dims != output {
                continue;
            }
            for op in OPS {
                for which in [1, 2] {
                    let layer = layer_of(op, which, constant);
                    let mut case = Case::new(layer, &mut random, &[dims], output);
                    if which == 2 {
                        case.layer.inputs = [NONE, 0, NONE];
                        case.inputs.swap(0, 1);
                        case.data.swap(0, 1);
                    }
                    let floats = constant.iter().product::<u32>().next_multiple_of(16);
                    case.weights = (0..floats).map(|_| random.float() * 2.0).collect();
                    (case.layer.panels, case.layer.panel_bytes) = (1, floats * 4);
                    let found = case.run_everywhere();
                    let input = which as usize - 1;
                    let tensor = |at| case.input(input, at);
                    let constant = |at| case.weights[broadcast_index(constant, output, at)] as f64;
                    let operands: [&dyn Fn(usize) -> f64; 2] =
                        if which == 1 { [&tensor, &constant] } else { [&constant, &tensor] };
                    check_result(&case, op, &found, operands);
                    assert_same(&found, &case.in_place(input).run_everywhere(), "in place");
                }
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(4);
        let layer = layer_of(BinaryOp::Add, 0, [0; 4]);
        let case = Case::new(layer, &mut random, &[[1, 2, 3, 4], [1, 2, 2, 4]], [1, 2, 3, 4]);
        assert_eq!(case.validate(), Err(LayerError::Field("extent of an operand", 2, 3)));
        let layer = layer_of(BinaryOp::Add, 1, [1, 2, 3, 4]);
        let mut case = Case::new(layer, &mut random, &[[1, 2, 3, 4]], [1, 2, 3, 4]);
        (case.layer.panels, case.layer.panel_bytes) = (1, 64);
        assert_eq!(
            case.validate(),
            Err(LayerError::Field("bytes of the constant operand", 96, 64))
        );
    }
}
