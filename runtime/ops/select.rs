//! Each element from one of two tensors, as a condition says: [`OpKind::Where`].
//!
//! [`OpKind::Where`]: crate::pack::OpKind::Where

use super::broadcast::{by_rectangles, check_operands, sides};
use super::work::elements;
use super::{Call, Elements, LayerError, Operator, Reads, check, check_no_activation, lanes};
use crate::pack::{Element, INPUTS, Isa, Layer, OpKind, Tensor, WhereParams, params};

/// Each element from one of two tensors.
pub(super) const ROW: Operator = Operator {
    in_place: [true; INPUTS],
    reads: [Reads::Rows; INPUTS],
    elements: |_| Elements::of([Some(Element::Word), None, None], None),
    macs: |_, _, output| elements(output),
    ..Operator::new(OpKind::Where, 3, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let params: WhereParams = params(layer);
    check(params.constants < 7, "operands that are constants", params.constants.into(), 6)?;
    check_no_activation(layer)?;
    check_operands(layer, inputs, output, &constants(&params))
}

/// The extents of the operands that are constants.
fn constants(params: &WhereParams) -> [Option<[u32; 4]>; 3] {
    core::array::from_fn(|index| {
        (params.constants >> index & 1 == 1).then_some(params.extents[index])
    })
}

/// Computes the rows of one step.
pub fn run(call: Call<'_>) {
    let Some(sides) = sides(&call, &constants(&params(call.layer))) else { return };
    by_rectangles(call, sides, usize::MAX, |operands, out| {
        lanes::map(operands, out, |[condition, a, b]| if condition != 0 { a } else { b });
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, index, layer};
    use super::*;
    use crate::pack::{Activation, NONE};
    use std::prelude::rust_2024::*;

    /// Extents of the condition, of a, of b, of the output.
    const SHAPES: [[[u32; 4]; 4]; 7] = [
        [[2, 3, 5, 7], [2, 3, 5, 7], [2, 3, 5, 7], [2, 3, 5, 7]],
        [[1, 13, 11, 64], [1, 13, 11, 1], [1, 1, 1, 64], [1, 13, 11, 64]],
        [[1, 1, 70, 129], [1, 1, 1, 1], [1, 1, 70, 129], [1, 1, 70, 129]],
        [[2, 1, 5, 1], [2, 4, 5, 33], [1, 4, 1, 33], [2, 4, 5, 33]],
        [[1, 1, 1, 1], [1, 1, 1, 9001], [1, 1, 1, 9001], [1, 1, 1, 9001]],
        [[1, 1, 9, 65], [1, 4, 9, 65], [1, 1, 1, 1], [1, 4, 9, 65]],
        [[1, 3, 1, 2], [1, 1, 4, 1], [1, 1, 1, 2], [1, 3, 4, 2]],
    ];

    /// Each case with some operands in the weights, the others' conditions of few bits.
    fn case(dims: [[u32; 4]; 4], constants: u32, gaps: bool, random: &mut Random) -> Case {
        let [extents @ .., output] = dims;
        let params = WhereParams { constants, extents };
        let layer = layer(OpKind::Where, Activation::NONE, &params);
        let make = if gaps { Case::new } else { Case::contiguous };
        let mut case = make(layer, random, &extents, output);
        for at in super::super::testing::elements(&case.inputs[0]) {
            case.data[0][at] = f32::from_bits((random.below(3) == 0).into());
        }
        for slot in (0..3).filter(|slot| constants >> slot & 1 == 1) {
            let words = extents[slot].iter().product::<u32>();
            let whole = case.clone();
            case.weights.extend((0..words as usize).map(|at| whole.input(slot, at) as f32));
            if slot == 0 {
                // As tensors' conditions are.
                case.weights.fill_with(|| f32::from_bits((random.below(3) == 0).into()));
            }
            case.layer.inputs[slot] = NONE;
        }
        if constants > 0 {
            case.weights.resize(case.weights.len().next_multiple_of(16), 0.0);
            (case.layer.panels, case.layer.panel_bytes) = (1, 4 * case.weights.len() as u32);
        }
        case
    }

    /// The word of an operand that belongs to element `at` of the output.
    fn word(case: &Case, dims: &[[u32; 4]; 4], constants: u32, slot: usize, at: usize) -> u32 {
        let at = index(dims[3], at);
        let own = dims[slot];
        let at = (0..4).fold(0, |offset, dim| {
            offset * own[dim] as usize + if own[dim] == 1 { 0 } else { at[dim] }
        });
        if constants >> slot & 1 == 1 {
            let before = (0..slot).filter(|slot| constants >> slot & 1 == 1);
            let start: u32 = before.map(|slot| dims[slot].iter().product::<u32>()).sum();
            return case.weights[start as usize + at].to_bits();
        }
        let tensor = &case.inputs[slot];
        let cols = tensor.dims[3] as usize;
        let at = tensor.offset as usize + at / cols * tensor.pitch as usize + at % cols;
        case.data[slot][at].to_bits()
    }

    #[test]
    fn takes_words_as_the_condition_says() {
        let mut random = Random::new(1);
        for dims in SHAPES {
            for (constants, gaps) in [(0, false), (0, true), (1, false), (4, true), (6, false)] {
                let case = case(dims, constants, gaps, &mut random);
                let found = case.run_everywhere();
                for (at, found) in found.iter().enumerate() {
                    let of = |slot| word(&case, &dims, constants, slot, at);
                    let want = if of(0) != 0 { of(1) } else { of(2) };
                    assert_eq!(found.to_bits(), want, "{dims:?} {constants}: {at}");
                }
                for slot in 0..3 {
                    if case.layer.inputs[slot] != NONE && dims[slot] == dims[3] {
                        let again = case.in_place(slot).run_everywhere();
                        assert!(found.iter().zip(&again).all(|(x, y)| x.to_bits() == y.to_bits()));
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(2);
        let good = case(SHAPES[0], 4, false, &mut random);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().unwrap_err()
        };
        use LayerError::Field;
        assert_eq!(refused(|case| case.inputs[1].dims[2] = 4), Field("extent of an operand", 4, 5));
        assert_eq!(
            refused(|case| case.layer.panel_bytes = 800),
            Field("bytes of the constant operand", 840, 800)
        );
        assert_eq!(
            refused(|case| case.layer.inputs[1] = NONE),
            Field("presence of an input", 0, 1)
        );
        assert_eq!(refused(|case| case.layer.inputs[2] = 2), Field("presence of an input", 1, 0));
        assert_eq!(
            refused(|case| case.layer.params[0] = 7),
            Field("operands that are constants", 7, 6)
        );
        let what = "activation of an operator without one";
        assert_eq!(refused(|case| case.layer.activation = Activation::RELU), Field(what, 1, 0));
        let mut case = good.clone();
        (case.layer.kind, case.layer.params) = (OpKind::Unary as u32, [0; 24]);
        assert_eq!(case.validate(), Err(Field("number of inputs", 2, 1)));
    }
}
