//! Integers, truth values and conversions. Values are whole numbers in double precision; those of
//! integers wrap to 32 bits, as what eyelet computes does.

use super::{Tensor, each_index, offset};
use eyelet::pack::{FoldOp, WordOp};

/// A number wrapped to 32 bits.
fn wrap(number: i128) -> f64 {
    f64::from(number as i32)
}

/// One operation on numbers; `b` is 0 where there is none.
pub fn word(op: WordOp, a: f64, b: f64) -> f64 {
    let (i, j) = (a as i128, b as i128);
    let bits = |number: i128| number as i32 as u32;
    let truth = |holds: bool| f64::from(u8::from(holds));
    match op {
        WordOp::Add => wrap(i + j),
        WordOp::Sub => wrap(i - j),
        WordOp::Mul => wrap(i * j),
        WordOp::Div | WordOp::Mod | WordOp::Fmod if j == 0 => 0.0,
        WordOp::Div => wrap(i / j),
        WordOp::Mod => match i.rem_euclid(j) {
            rest if rest != 0 && j < 0 => wrap(rest + j),
            rest => wrap(rest),
        },
        WordOp::Fmod => wrap(i % j),
        WordOp::Min => a.min(b),
        WordOp::Max => a.max(b),
        WordOp::Pow if j >= 0 => f64::from((i as i32).wrapping_pow(j as u32)),
        WordOp::Pow if i == 0 => 0.0,
        WordOp::Pow => a.powf(b).trunc() + 0.0,
        WordOp::And => wrap(i & j),
        WordOp::Or => wrap(i | j),
        WordOp::Xor => wrap(i ^ j),
        WordOp::ShiftLeft => f64::from(bits(i).checked_shl(bits(j)).unwrap_or(0) as i32),
        WordOp::ShiftRight => f64::from(bits(i).checked_shr(bits(j)).unwrap_or(0) as i32),
        WordOp::Equal | WordOp::EqualFloats => truth(a == b),
        WordOp::Less | WordOp::LessFloats => truth(a < b),
        WordOp::LessOrEqual | WordOp::LessOrEqualFloats => truth(a <= b),
        WordOp::Neg => wrap(-i),
        WordOp::Abs => wrap(i.abs()),
        WordOp::Sign => wrap(i.signum()),
        WordOp::Not => wrap(!i),
        WordOp::IsZero => truth(a == 0.0),
        WordOp::IsNotZero | WordOp::IsNotZeroFloat => truth(a != 0.0),
        WordOp::Cut if a.trunc() >= -2f64.powi(31) && a < 2f64.powi(31) => a.trunc() + 0.0,
        WordOp::Cut => f64::from(i32::MIN),
        WordOp::Float => f64::from(a as f32),
        WordOp::IsNan => truth(a.is_nan()),
        WordOp::IsInfinite => truth(a.is_infinite()),
        WordOp::IsPositiveInfinity => truth(a == f64::INFINITY),
        WordOp::IsNegativeInfinity => truth(a == f64::NEG_INFINITY),
        WordOp::Int8 => f64::from(i as i8),
        WordOp::Uint8 => f64::from(i as u8),
        WordOp::Int16 => f64::from(i as i16),
        WordOp::Uint16 => f64::from(i as u16),
    }
}

/// The element of a tensor that belongs to an index of what it is broadcast to.
fn pick(tensor: &Tensor<'_>, index: &[usize]) -> f64 {
    let own = index[index.len() - tensor.shape.len()..].iter().zip(tensor.shape);
    tensor.data[offset(tensor.shape, own.map(|(&at, &e)| if e == 1 { 0 } else { at }))]
}

pub(super) fn apply(op: WordOp, a: Tensor<'_>, b: Option<Tensor<'_>>, out: &[usize]) -> Vec<f64> {
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
