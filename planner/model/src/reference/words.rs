//! Integers, truth values and conversions. Values are whole numbers in double precision; those of
//! integers wrap to 32 bits, as what eyelet computes does.

use super::{Tensor, each_index, offset};
use eyelet::pack::{FoldOp, IntegerOp};

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
fn pick(tensor: &Tensor<'_>, index: &[usize]) -> f64 {
    let own = index[index.len() - tensor.shape.len()..].iter().zip(tensor.shape);
    tensor.data[offset(tensor.shape, own.map(|(&at, &e)| if e == 1 { 0 } else { at }))]
}

pub(super) fn apply(
    op: IntegerOp,
    a: Tensor<'_>,
    b: Option<Tensor<'_>>,
    out: &[usize],
) -> Vec<f64> {
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let b = b.as_ref().map_or(0.0, |b| pick(b, index));
        result.push(word(op, pick(&a, index), b));
    });
    result
}

pub(super) fn choose(
    condition: Tensor<'_>,
    a: Tensor<'_>,
    b: Tensor<'_>,
    out: &[usize],
) -> Vec<f64> {
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let chosen = if pick(&condition, index) != 0.0 { &a } else { &b };
        result.push(pick(chosen, index));
    });
    result
}

pub(super) fn fold(op: FoldOp, last: bool, x: Tensor<'_>, axes: &[usize]) -> Vec<f64> {
    let kept: Vec<usize> = (0..x.shape.len())
        .map(|axis| if axes.contains(&axis) { 1 } else { x.shape[axis] })
        .collect();
    let mut parts: Vec<Vec<f64>> = vec![vec![]; kept.iter().product()];
    let mut data = x.data.iter();
    each_index(x.shape, |index| {
        let place = index.iter().zip(&kept).map(|(&at, &e)| if e == 1 { 0 } else { at });
        parts[offset(&kept, place)].extend(data.next());
    });
    let result = parts.iter().map(|part| {
        let sum = |start: i32, join: fn(i32, i32) -> i32| {
            f64::from(part.iter().fold(start, |total, &x| join(total, x as i32)))
        };
        let (least, most) = (
            part.iter().copied().fold(f64::INFINITY, f64::min),
            part.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        let place = |wanted: f64| {
            let mut at = (0..part.len()).filter(|&at| part[at] == wanted);
            let found = if last { at.next_back() } else { at.next() };
            found.unwrap_or(0) as f64
        };
        match op {
            FoldOp::Sum => sum(0, i32::wrapping_add),
            FoldOp::Product => sum(1, i32::wrapping_mul),
            FoldOp::Min => least,
            FoldOp::Max => most,
            FoldOp::ArgMin | FoldOp::ArgMinWord => place(least),
            FoldOp::ArgMax | FoldOp::ArgMaxWord => place(most),
        }
    });
    result.collect()
}
