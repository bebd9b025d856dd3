//! Integers, truth values and conversions, word by word: [`OpKind::Integer`].
//!
//! [`OpKind::Integer`]: crate::pack::OpKind::Integer

use super::broadcast::{by_rectangles, check_operands, sides};
use super::work::elements;
use super::{
    Call, Elements, LayerError, Operator, Reads, check, check_inputs_at_most, check_no_activation,
    lanes,
};
use crate::kernels::table::OperandPart;
use crate::matrix::MatMut;
use crate::pack::{Element, INPUTS, IntegerOp, IntegerParams, Isa, Layer, OpKind, Tensor, params};

/// Integers, truth values and conversions.
pub(super) const ROW: Operator = Operator {
    in_place: [true; INPUTS],
    reads: [Reads::Rows; INPUTS],
    elements: |layer| {
        let (read, made) = of_operation(params::<IntegerParams>(layer).op);
        Elements::of([Some(read); INPUTS], Some(made))
    },
    macs: |_, _, output| elements(output),
    ..Operator::new(OpKind::Integer, 2, validate, run)
};

/// The element types that an operation on words reads and makes.
fn of_operation(code: u32) -> (Element, Element) {
    use Element::{Float, Word};
    match IntegerOp::from_code(code) {
        Some(
            IntegerOp::EqualFloats
            | IntegerOp::LessFloats
            | IntegerOp::LessOrEqualFloats
            | IntegerOp::Cut
            | IntegerOp::IsNotZeroFloat
            | IntegerOp::IsNan
            | IntegerOp::IsInfinite
            | IntegerOp::IsPositiveInfinity
            | IntegerOp::IsNegativeInfinity,
        ) => (Float, Word),
        Some(IntegerOp::Float) => (Word, Float),
        _ => (Word, Word),
    }
}

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    let params: IntegerParams = params(layer);
    let last = IntegerOp::ALL.len() as u64 - 1;
    let op = IntegerOp::from_code(params.op);
    let op = op.ok_or(LayerError::Field("operation on words", params.op.into(), last))?;
    let most = if op.operands() == 2 { 2 } else { 0 };
    check(params.constants <= most, "constant operand", params.constants.into(), most.into())?;
    check_no_activation(layer)?;
    check_inputs_at_most(layer, op.operands())?;
    check_operands(layer, inputs, output, &constants(&params)[..op.operands()])
}

/// The extents of the operands that are constants.
fn constants(params: &IntegerParams) -> [Option<[u32; 4]>; 2] {
    [1, 2].map(|which| (params.constants == which).then_some(params.extents[which as usize - 1]))
}

/// Computes the rows of one step.
pub fn run(call: Call<'_>) {
    let params: IntegerParams = params(call.layer);
    let Some(op) = IntegerOp::from_code(params.op) else { return };
    let [a, b] = constants(&params);
    if op.operands() == 2 {
        let Some(sides) = sides(&call, &[a, b]) else { return };
        by_rectangles(call, sides, usize::MAX, |operands, out| two(op, operands, out));
    } else {
        let Some(sides) = sides(&call, &[a]) else { return };
        by_rectangles(call, sides, usize::MAX, |operands, out| one(op, operands, out));
    }
}

/// Operations on two integers. Each has a loop of its own.
fn two(op: IntegerOp, operands: [OperandPart<'_>; 2], out: MatMut<'_>) {
    macro_rules! of {
        (|$a:ident, $b:ident| $result:expr) => {
            lanes::map(operands, out, |[a, b]| {
                let ($a, $b) = (a as i32, b as i32);
                let result = $result;
                result as u32
            })
        };
    }
    macro_rules! floats {
        ($op:tt) => {
            lanes::map(operands, out, |[a, b]| {
                u32::from(f32::from_bits(a) $op f32::from_bits(b))
            })
        };
    }
    match op {
        IntegerOp::Add => of!(|a, b| a.wrapping_add(b)),
        IntegerOp::Sub => of!(|a, b| a.wrapping_sub(b)),
        IntegerOp::Mul => of!(|a, b| a.wrapping_mul(b)),
        IntegerOp::Div => of!(|a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
        IntegerOp::Mod => of!(|a, b| modulo(a, b)),
        IntegerOp::Fmod => of!(|a, b| if b == 0 { 0 } else { a.wrapping_rem(b) }),
        IntegerOp::Min => of!(|a, b| a.min(b)),
        IntegerOp::Max => of!(|a, b| a.max(b)),
        IntegerOp::Pow => of!(|a, b| power(a, b)),
        IntegerOp::And => of!(|a, b| a & b),
        IntegerOp::Or => of!(|a, b| a | b),
        IntegerOp::Xor => of!(|a, b| a ^ b),
        IntegerOp::ShiftLeft => of!(|a, b| (a as u32).checked_shl(b as u32).unwrap_or(0)),
        IntegerOp::ShiftRight => of!(|a, b| (a as u32).checked_shr(b as u32).unwrap_or(0)),
        IntegerOp::Equal => of!(|a, b| a == b),
        IntegerOp::Less => of!(|a, b| a < b),
        IntegerOp::LessOrEqual => of!(|a, b| a <= b),
        IntegerOp::EqualFloats => floats!(==),
        IntegerOp::LessFloats => floats!(<),
        IntegerOp::LessOrEqualFloats => floats!(<=),
        _ => {}
    }
}

/// Operations on one word.
fn one(op: IntegerOp, operands: [OperandPart<'_>; 1], out: MatMut<'_>) {
    macro_rules! of {
        (|$a:ident| $result:expr) => {
            lanes::map(operands, out, |[a]| {
                let $a = a as i32;
                let result = $result;
                result as u32
            })
        };
    }
    macro_rules! float {
        (|$x:ident| $result:expr) => {
            lanes::map(operands, out, |[a]| {
                let $x = f32::from_bits(a);
                let result = $result;
                result as u32
            })
        };
    }
    match op {
        IntegerOp::Neg => of!(|a| a.wrapping_neg()),
        IntegerOp::Abs => of!(|a| a.wrapping_abs()),
        IntegerOp::Sign => of!(|a| a.signum()),
        IntegerOp::Not => of!(|a| !a),
        IntegerOp::IsZero => of!(|a| a == 0),
        IntegerOp::IsNotZero => of!(|a| a != 0),
        IntegerOp::Cut => float!(|x| cut(x)),
        IntegerOp::Float => lanes::map(operands, out, |[a]| (a as i32 as f32).to_bits()),
        IntegerOp::IsNotZeroFloat => float!(|x| x != 0.0),
        IntegerOp::IsNan => float!(|x| x.is_nan()),
        IntegerOp::IsInfinite => float!(|x| x.is_infinite()),
        IntegerOp::IsPositiveInfinity => float!(|x| x == f32::INFINITY),
        IntegerOp::IsNegativeInfinity => float!(|x| x == f32::NEG_INFINITY),
        IntegerOp::Int8 => of!(|a| a as i8 as i32),
        IntegerOp::Uint8 => of!(|a| a as u8 as i32),
        IntegerOp::Int16 => of!(|a| a as i16 as i32),
        IntegerOp::Uint16 => of!(|a| a as u16 as i32),
        _ => {}
    }
}

/// The remainder of a division, with the divisor's sign.
fn modulo(a: i32, b: i32) -> i32 {
    if b == 0 {
        return 0;
    }
    let rest = a.wrapping_rem(b);
    if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }
}

fn power(a: i32, b: i32) -> i32 {
    match (u32::try_from(b), a) {
        (Ok(b), _) => a.wrapping_pow(b),
        (Err(_), 1) => 1,
        (Err(_), -1) => {
            if b % 2 == 0 {
                1
            } else {
                -1
            }
        }
        (Err(_), _) => 0,
    }
}

/// A float cut to an integer, as x86-64 does it.
fn cut(x: f32) -> i32 {
    const END: f32 = 2_147_483_648.0;
    if (-END..END).contains(&x) { x as i32 } else { i32::MIN }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, elements, index, layer};
    use super::*;
    use crate::pack::{Activation, NONE};
    use std::prelude::rust_2024::*;

    /// Extents of a, of b, of the output.
    const SHAPES: [[[u32; 4]; 3]; 6] = [
        [[2, 3, 5, 7], [2, 3, 5, 7], [2, 3, 5, 7]],
        [[1, 13, 11, 64], [1, 1, 1, 64], [1, 13, 11, 64]],
        [[1, 1, 70, 1], [1, 1, 70, 129], [1, 1, 70, 129]],
        [[1, 1, 1, 9001], [1, 1, 1, 1], [1, 1, 1, 9001]],
        [[2, 1, 5, 3], [1, 4, 1, 3], [2, 4, 5, 3]],
        [[1, 1, 1, 1], [1, 3, 7, 40], [1, 3, 7, 40]],
    ];

    /// Words at which operations behave otherwise, and any.
    fn word(op: IntegerOp, random: &mut Random) -> u32 {
        const ODD: [i32; 12] = [0, 1, -1, 2, 7, -8, 31, 32, 127, -32769, i32::MAX, i32::MIN];
        let floats = [0.0, -0.0, 0.5, -2.9, f32::NAN, f32::INFINITY, -3e9, 2_147_483_648.0];
        let of_floats = op as u32 >= IntegerOp::EqualFloats as u32
            && (op as u32) < IntegerOp::Neg as u32
            || [IntegerOp::Cut, IntegerOp::IsNotZeroFloat].contains(&op)
            || (IntegerOp::IsNan as u32..IntegerOp::Int8 as u32).contains(&(op as u32));
        match (random.below(3), of_floats) {
            (0, _) => random.next() as u32,
            (1, true) => (random.below(9) as f32 - 4.5).to_bits(),
            (_, true) => floats[random.below(floats.len())].to_bits(),
            (1, false) => (random.below(20) as i32 - random.below(11) as i32) as u32,
            (_, false) => ODD[random.below(ODD.len())] as u32,
        }
    }

    /// The definitions, in 64 bits or double precision.
    fn truth(op: IntegerOp, a: u32, b: u32) -> u32 {
        let (i, j) = (i64::from(a as i32), i64::from(b as i32));
        let (x, y) = (f64::from(f32::from_bits(a)), f64::from(f32::from_bits(b)));
        let shift = |bits: u64| if i64::from(b) > 31 { 0 } else { bits as i64 };
        (match op {
            IntegerOp::Add => i + j,
            IntegerOp::Sub => i - j,
            IntegerOp::Mul => i * j,
            IntegerOp::Div | IntegerOp::Mod | IntegerOp::Fmod if j == 0 => 0,
            IntegerOp::Div => i / j,
            IntegerOp::Mod => i - j * (i as f64 / j as f64).floor() as i64,
            IntegerOp::Fmod => i % j,
            IntegerOp::Min => i.min(j),
            IntegerOp::Max => i.max(j),
            IntegerOp::Pow if j >= 0 => (0..32).rev().fold(1i64, |power, bit| {
                let square = i64::from(power.wrapping_mul(power) as i32);
                if j >> bit & 1 == 1 { i64::from(square.wrapping_mul(i) as i32) } else { square }
            }),
            IntegerOp::Pow if i.abs() != 1 => 0,
            IntegerOp::Pow => {
                if j % 2 == 0 {
                    1
                } else {
                    i
                }
            }
            IntegerOp::And => i & j,
            IntegerOp::Or => i | j,
            IntegerOp::Xor => i ^ j,
            IntegerOp::ShiftLeft => shift(u64::from(a) << (b & 31)),
            IntegerOp::ShiftRight => shift(u64::from(a) >> (b & 31)),
            IntegerOp::Equal => (i == j).into(),
            IntegerOp::Less => (i < j).into(),
            IntegerOp::LessOrEqual => (i <= j).into(),
            IntegerOp::EqualFloats => (x == y).into(),
            IntegerOp::LessFloats => (x < y).into(),
            IntegerOp::LessOrEqualFloats => (x <= y).into(),
            IntegerOp::Neg => -i,
            IntegerOp::Abs => i.abs(),
            IntegerOp::Sign => (i > 0) as i64 - (i < 0) as i64,
            IntegerOp::Not => -1 - i,
            IntegerOp::IsZero => (i == 0).into(),
            IntegerOp::IsNotZero => (i != 0).into(),
            IntegerOp::Cut if x.trunc() >= -2f64.powi(31) && x < 2f64.powi(31) => x.trunc() as i64,
            IntegerOp::Cut => i64::from(i32::MIN),
            IntegerOp::Float => i64::from((i as f32).to_bits()),
            IntegerOp::IsNotZeroFloat => (x.is_nan() || x.abs() > 0.0).into(),
            IntegerOp::IsNan => (x.is_nan()).into(),
            IntegerOp::IsInfinite => (x.abs() == f64::INFINITY).into(),
            IntegerOp::IsPositiveInfinity => (x == f64::INFINITY).into(),
            IntegerOp::IsNegativeInfinity => (x == f64::NEG_INFINITY).into(),
            IntegerOp::Int8 => (i & 255) - if i & 128 != 0 { 256 } else { 0 },
            IntegerOp::Uint8 => i & 255,
            IntegerOp::Int16 => (i & 0xffff) - if i & 0x8000 != 0 { 0x10000 } else { 0 },
            IntegerOp::Uint16 => i & 0xffff,
        }) as u32
    }

    fn case(op: IntegerOp, dims: [[u32; 4]; 3], constants: u32, random: &mut Random) -> Case {
        let params = IntegerParams { op: op as u32, constants, extents: [dims[0], dims[1]] };
        let layer = layer(OpKind::Integer, Activation::NONE, &params);
        let mut case = Case::new(layer, random, &dims[..op.operands()], dims[2]);
        for slot in 0..op.operands() {
            for at in elements(&case.inputs[slot]) {
                case.data[slot][at] = f32::from_bits(word(op, random));
            }
        }
        if constants > 0 {
            let slot = constants as usize - 1;
            let words = dims[slot].iter().product::<u32>().next_multiple_of(16);
            case.weights = (0..words).map(|_| f32::from_bits(word(op, random))).collect();
            (case.layer.panels, case.layer.panel_bytes) = (1, 4 * words);
            case.layer.inputs[slot] = NONE;
        }
        case
    }

    #[test]
    fn operations_are_their_definitions() {
        let mut random = Random::new(1);
        for op in IntegerOp::ALL {
            for mut dims in SHAPES {
                let pair = op.operands() == 2;
                if !pair {
                    (dims[0], dims[1]) = (dims[2], [0; 4]);
                }
                let constants = if pair { random.below(3) as u32 } else { 0 };
                let case = case(op, dims, constants, &mut random);
                let found = case.run_everywhere();
                let operand = |slot: usize, at: usize| {
                    let (own, at) = (dims[slot], index(dims[2], at));
                    let at = (0..4).fold(0, |offset, dim| {
                        offset * own[dim] as usize + if own[dim] == 1 { 0 } else { at[dim] }
                    });
                    if constants as usize == slot + 1 {
                        return case.weights[at].to_bits();
                    }
                    let place = elements(&case.inputs[slot]).nth(at).unwrap();
                    case.data[slot][place].to_bits()
                };
                for at in (0..found.len()).step_by(1 + found.len() / 500) {
                    let (a, b) = (operand(0, at), if pair { operand(1, at) } else { 0 });
                    let want = truth(op, a, b);
                    assert_eq!(found[at].to_bits(), want, "{op:?} of {a:#x} and {b:#x}");
                }
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(2);
        let good = case(IntegerOp::Neg, [SHAPES[0][0], [0; 4], SHAPES[0][0]], 0, &mut random);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().unwrap_err()
        };
        use LayerError::Field;
        assert_eq!(refused(|case| case.layer.params[0] = 37), Field("operation on words", 37, 36));
        assert_eq!(refused(|case| case.layer.params[1] = 1), Field("constant operand", 1, 0));
        assert_eq!(
            refused(|case| (case.layer.inputs[1], case.inputs[1]) = (0, case.inputs[0])),
            Field("number of inputs", 2, 1)
        );
        assert_eq!(refused(|case| case.layer.params[0] = 0), Field("presence of an input", 0, 1));
    }
}
