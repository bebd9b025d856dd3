//! The element types of layers' operands: floats, or words.
//!
//! Both have 32 bits, so an operator would compute something from either. A pack with the wrong
//! type is refused.

use super::{LayerError, check, row};
use crate::pack::{Element, INPUTS, Layer, NONE};

/// The types that an operator reads and makes. `None` stands for either, but the same type in all
/// such operands: the operator only moves elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The types of the inputs.
    pub inputs: [Option<Element>; INPUTS],
    /// The type of the output.
    pub output: Option<Element>,
}

impl Elements {
    /// An operator on floats.
    pub(super) const FLOATS: Self = Self::of([Some(Element::Float); INPUTS], Some(Element::Float));
    /// An operator that moves elements.
    pub(super) const ANY: Self = Self::of([None; INPUTS], None);

    pub(super) const fn of(inputs: [Option<Element>; INPUTS], output: Option<Element>) -> Self {
        Self { inputs, output }
    }
}

/// The element types that a layer's operands must have. Those of an unknown operator may be any.
pub fn elements(layer: &Layer) -> Elements {
    row(layer).map_or(Elements::ANY, |operator| (operator.elements)(layer))
}

/// Refuses a layer that reads or makes floats where its operator has words, or the reverse.
pub fn validate_elements(
    layer: &Layer,
    inputs: [Element; INPUTS],
    output: Element,
) -> Result<(), LayerError> {
    let wanted = elements(layer);
    let code = |element: Element| u64::from(element as u32);
    for (slot, found) in inputs.into_iter().enumerate() {
        let wanted = wanted.inputs[slot].or(wanted.output.is_none().then_some(output));
        if let Some(wanted) = wanted.filter(|_| layer.inputs[slot] != NONE) {
            let what = "whether an input is of words (1) or floats (0)";
            check(found == wanted, what, code(found), code(wanted))?;
        }
    }
    let wanted = wanted.output.unwrap_or(output);
    let what = "whether the output is of words (1) or floats (0)";
    check(output == wanted, what, code(output), code(wanted))
}

#[cfg(test)]
mod tests {
    use super::super::testing::layer;
    use super::*;
    use crate::pack::{
        Activation, FoldOp, FoldParams, IntegerOp, IntegerParams, OpKind, ScatterOp, ScatterParams,
        TopKParams,
    };
    use Element::{Float, Word};

    /// Operators that move elements take either, but not both; of the others each operand has its own.
    #[test]
    fn operands_have_the_elements_of_their_operator() {
        let words = |op: IntegerOp| {
            let params = IntegerParams { op: op as u32, ..IntegerParams::default() };
            layer(OpKind::Integer, Activation::NONE, &params)
        };
        let scatter = |op: ScatterOp| {
            let params = ScatterParams { entries: 1, op: op as u32 };
            layer(OpKind::Scatter, Activation::NONE, &params)
        };
        let order = |integers: u32| {
            let params = TopKParams { integers, ..TopKParams::default() };
            layer(OpKind::TopK, Activation::NONE, &params)
        };
        let fold = |op: FoldOp| {
            let params = FoldParams { op: op as u32, ..FoldParams::default() };
            layer(OpKind::Fold, Activation::NONE, &params)
        };
        let plain = |kind| layer(kind, Activation::NONE, &());
        let cases = [
            (plain(OpKind::Binary), &[([Float, Float, Float], Float)][..]),
            (plain(OpKind::Gather), &[([Word; INPUTS], Float)]),
            (plain(OpKind::Lookup), &[([Word; INPUTS], Float)]),
            (plain(OpKind::Suppress), &[([Float; INPUTS], Word)]),
            (plain(OpKind::Copy), &[([Float; INPUTS], Float), ([Word; INPUTS], Word)]),
            (plain(OpKind::Take), &[([Float, Word, Float], Float), ([Word; INPUTS], Word)]),
            (layer(OpKind::Take, Activation::RELU, &()), &[([Float, Word, Float], Float)]),
            (plain(OpKind::Where), &[([Word, Float, Float], Float), ([Word; INPUTS], Word)]),
            (scatter(ScatterOp::Replace), &[([Float, Word, Float], Float), ([Word; INPUTS], Word)]),
            (scatter(ScatterOp::Add), &[([Float, Word, Float], Float)]),
            (words(IntegerOp::Add), &[([Word; INPUTS], Word)]),
            (words(IntegerOp::LessFloats), &[([Float; INPUTS], Word)]),
            (words(IntegerOp::Cut), &[([Float; INPUTS], Word)]),
            (words(IntegerOp::Float), &[([Word; INPUTS], Float)]),
            (order(0), &[([Float; INPUTS], Word)]),
            (order(1), &[([Word; INPUTS], Word)]),
            (fold(FoldOp::ArgMax), &[([Float; INPUTS], Word)]),
            (fold(FoldOp::Sum), &[([Word; INPUTS], Word)]),
        ];
        for (mut layer, right) in cases {
            let kind = OpKind::from_code(layer.kind).unwrap();
            layer.inputs = core::array::from_fn(|slot| match slot < kind.inputs() {
                true => slot as u32,
                false => NONE,
            });
            for bits in 0..16 {
                let element = |slot: usize| if bits >> slot & 1 == 1 { Word } else { Float };
                let (inputs, output) = (core::array::from_fn(element), element(INPUTS));
                let fits = right.iter().any(|(wanted, made)| {
                    (0..kind.inputs()).all(|slot| inputs[slot] == wanted[slot]) && output == *made
                });
                let found = validate_elements(&layer, inputs, output);
                assert_eq!(found.is_ok(), fits, "{layer:?} {inputs:?} {output:?}: {found:?}");
            }
        }
    }
}
