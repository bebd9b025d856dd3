//! Operations on words: integers, truth values and conversions.

use super::broadcast::Broadcast;
use super::builder::Item;
use super::emitter::Emitter;
use super::exact::{self, each_index, offset};
use super::{INTEGERS, Lines, Operation, Operator, PassError};
use eyelet::pack::{self, IntegerOp, IntegerParams, OpKind};

/// Row by row, of operands that are not broadcast.
pub(super) const ROW: Operator = Operator {
    lines: |network, layer, slot| {
        let dims = |id: u32| network.tensors[id as usize].dims;
        (dims(layer.inputs[slot]) == dims(layer.output)).then_some(Lines::Own)
    },
    ..Operator::new(OpKind::Integer)
};

/// An operation on words; one of two inputs may be a constant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words {
    pub op: IntegerOp,
}

impl Operation for Words {
    /// Operations on words.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let op = self.op;
        let mut params = IntegerParams { op: op as u32, ..IntegerParams::default() };
        if op.operands() == 1 {
            let Broadcast { inputs, output, weights, .. } = emitter.broadcast::<1>(item)?;
            let params = pack::params_words(&params);
            return emitter.layer(item, OpKind::Integer, inputs, output, params, weights);
        }
        let Broadcast { inputs, output, constants, weights } = emitter.broadcast::<2>(item)?;
        if let Some(which) = constants.iter().position(Option::is_some) {
            params.constants = which as u32 + 1;
            params.extents = constants.map(Option::unwrap_or_default);
        }
        emitter.layer(item, OpKind::Integer, inputs, output, pack::params_words(&params), weights)
    }

    fn constants(&self) -> usize {
        1
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(INTEGERS.into())
    }
}

/// A number wrapped to 32 bits.
fn wrap(number: i128) -> f64 {
    f64::from(number as i32)
}

/// One operation on numbers; `b` is 0 where there is none.
pub fn word(op: IntegerOp, a: f64, b: f64) -> f64 {
    let (i, j) = (a as i128, b as i128);
    let bits = |number: i128| number as i32 as u32;
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        IntegerOp::Add => wrap(i + j),
        IntegerOp::Sub => wrap(i - j),
        IntegerOp::Mul => wrap(i * j),
        IntegerOp::Div | IntegerOp::Mod | IntegerOp::Fmod if j == 0 => 0.0,
        IntegerOp::Div => wrap(i / j),
        IntegerOp::Mod => match i.rem_euclid(j) {
            rest if rest != 0 && j < 0 => wrap(rest + j),
            rest => wrap(rest),
        },
        IntegerOp::Fmod => wrap(i % j),
        IntegerOp::Min => a.min(b),
        IntegerOp::Max => a.max(b),
        IntegerOp::Pow if j >= 0 => f64::from((i as i32).wrapping_pow(j as u32)),
        IntegerOp::Pow if i == 0 => 0.0,
        IntegerOp::Pow => a.powf(b).trunc() + 0.0,
        IntegerOp::And => wrap(i & j),
        IntegerOp::Or => wrap(i | j),
        IntegerOp::Xor => wrap(i ^ j),
        IntegerOp::ShiftLeft => f64::from(bits(i).checked_shl(bits(j)).unwrap_or(0) as i32),
        IntegerOp::ShiftRight => f64::from(bits(i).checked_shr(bits(j)).unwrap_or(0) as i32),
        IntegerOp::Equal | IntegerOp::EqualFloats => truth(a == b),
        IntegerOp::Less | IntegerOp::LessFloats => truth(a < b),
        IntegerOp::LessOrEqual | IntegerOp::LessOrEqualFloats => truth(a <= b),
        IntegerOp::Neg => wrap(-i),
        IntegerOp::Abs => wrap(i.abs()),
        IntegerOp::Sign => wrap(i.signum()),
        IntegerOp::Not => wrap(!i),
        IntegerOp::IsZero => truth(a == 0.0),
        IntegerOp::IsNotZero | IntegerOp::IsNotZeroFloat => truth(a != 0.0),
        IntegerOp::Cut if a.trunc() >= -2f64.powi(31) && a < 2f64.powi(31) => a.trunc() + 0.0,
        IntegerOp::Cut => f64::from(i32::MIN),
        IntegerOp::Float => f64::from(a as f32),
        IntegerOp::IsNan => truth(a.is_nan()),
        IntegerOp::IsInfinite => truth(a.is_infinite()),
        IntegerOp::IsPositiveInfinity => truth(a == f64::INFINITY),
        IntegerOp::IsNegativeInfinity => truth(a == f64::NEG_INFINITY),
        IntegerOp::Int8 => f64::from(i as i8),
        IntegerOp::Uint8 => f64::from(i as u8),
        IntegerOp::Int16 => f64::from(i as i16),
        IntegerOp::Uint16 => f64::from(i as u16),
    }
}

/// The element of a tensor that belongs to an index of what it is broadcast to.
pub(crate) fn pick(tensor: &exact::Tensor<'_>, index: &[usize]) -> f64 {
    let own = index[index.len() - tensor.shape.len()..].iter().zip(tensor.shape);
    tensor.data[offset(tensor.shape, own.map(|(&at, &e)| if e == 1 { 0 } else { at }))]
}

/// An operation on each element, with broadcasting.
pub(crate) fn apply(
    op: IntegerOp,
    a: exact::Tensor<'_>,
    b: Option<exact::Tensor<'_>>,
    out: &[usize],
) -> Vec<f64> {
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let b = b.as_ref().map_or(0.0, |b| pick(b, index));
        result.push(word(op, pick(&a, index), b));
    });
    result
}
