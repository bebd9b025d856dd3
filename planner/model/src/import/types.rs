//! Types of tensors while constants are folded: integers wrap to their width, floats are rounded to
//! theirs.
//!
//! Integers are kept as 64 bits whatever their type; those of `UINT64` are read as unsigned.
//! Arithmetic is done in 128 bits and wrapped once, floats are computed in double precision and
//! rounded once.

use super::onnx::DataType;
use crate::weights::halves;
use eyelet::kernels::table;
use eyelet::pack::PortType;

/// Name of a tensor type, as ONNX spells it.
pub(super) fn type_name(data_type: i32) -> String {
    match DataType::try_from(data_type) {
        Ok(known) => name(known),
        Err(_) => match data_type {
            14 => "COMPLEX64".into(),
            15 => "COMPLEX128".into(),
            17..=20 => "FLOAT8".into(),
            21 => "UINT4".into(),
            22 => "INT4".into(),
            23 => "FLOAT4E2M1".into(),
            other => format!("number {other}"),
        },
    }
}

/// Name of a known type.
pub(super) fn name(data_type: DataType) -> String {
    format!("{data_type:?}").to_uppercase()
}

/// Whether tensors of this type are floats to the planner.
pub(super) fn is_float(data_type: DataType) -> bool {
    use DataType::*;
    matches!(data_type, Float | Float16 | Bfloat16 | Double)
}

/// The type of an input or output as a pack has it.
pub(super) fn port_type(data_type: DataType) -> PortType {
    match data_type {
        DataType::Float16 => PortType::Half,
        DataType::Bfloat16 => PortType::Bfloat16,
        DataType::Double => PortType::Double,
        DataType::Bool => PortType::Bool,
        DataType::Int8 => PortType::Int8,
        DataType::Uint8 => PortType::Uint8,
        DataType::Int16 => PortType::Int16,
        DataType::Uint16 => PortType::Uint16,
        DataType::Int32 => PortType::Int32,
        DataType::Uint32 => PortType::Uint32,
        DataType::Int64 => PortType::Int64,
        DataType::Uint64 => PortType::Uint64,
        DataType::Float | DataType::String | DataType::Undefined => PortType::Float,
    }
}

/// The number that 64 bits of this type stand for.
pub(super) fn wide(kind: DataType, bits: i64) -> i128 {
    match kind {
        DataType::Uint64 => i128::from(bits as u64),
        _ => i128::from(bits),
    }
}

/// A number wrapped to an integer type, as its 64 bits.
pub(super) fn wrap(kind: DataType, value: i128) -> i64 {
    match kind {
        DataType::Bool => i64::from(value != 0),
        DataType::Int8 => i64::from(value as i8),
        DataType::Uint8 => i64::from(value as u8),
        DataType::Int16 => i64::from(value as i16),
        DataType::Uint16 => i64::from(value as u16),
        DataType::Int32 => i64::from(value as i32),
        DataType::Uint32 => i64::from(value as u32),
        _ => value as i64,
    }
}

/// The smallest and the largest number of an integer type.
pub(super) fn limits(kind: DataType) -> (i128, i128) {
    match kind {
        DataType::Bool => (0, 1),
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Uint8 => (0, u8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Uint16 => (0, u16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Uint32 => (0, u32::MAX.into()),
        DataType::Uint64 => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}

/// A float cut to an integer type. Beyond the type ONNX leaves the result open: here it is what
/// x86-64 computes, the least integer of 32 or 64 bits, of which narrower types keep the lower
/// bits.
pub(super) fn truncated(kind: DataType, value: f64) -> i64 {
    if kind == DataType::Bool {
        return i64::from(value != 0.0);
    }
    let whole = value.trunc();
    let within = |least: f64, end: f64| whole >= least && whole < end;
    let narrow = !matches!(kind, DataType::Uint32 | DataType::Int64 | DataType::Uint64);
    let most = if kind == DataType::Uint64 { 2f64.powi(64) } else { 2f64.powi(63) };
    let number = match narrow {
        true if within(-(2f64.powi(31)), 2f64.powi(31)) => whole as i128,
        true => i128::from(i32::MIN),
        false if within(-(2f64.powi(63)), most) => whole as i128,
        false => i128::from(i64::MIN),
    };
    wrap(kind, number)
}

/// An integer as a float of another type.
pub(super) fn float_of(from: DataType, bits: i64, to: DataType) -> f64 {
    let number = wide(from, bits);
    match to {
        DataType::Double => number as f64,
        _ => rounded(to, f64::from(number as f32)),
    }
}

/// A float rounded to a float type.
pub(super) fn rounded(kind: DataType, value: f64) -> f64 {
    match kind {
        DataType::Double => value,
        DataType::Float16 => table::f16(halves::f16(value as f32)).into(),
        DataType::Bfloat16 => table::bf16(halves::bf16(value as f32)).into(),
        _ => f64::from(value as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::*;

    #[test]
    fn integers_wrap_to_their_width() {
        for (kind, value, wrapped) in [
            (Int8, 200, -56),
            (Uint8, -1, 255),
            (Int16, 40_000, -25_536),
            (Uint16, 65_537, 1),
            (Int32, 1 << 32, 0),
            (Uint32, -1, 0xffff_ffff),
            (Int64, 1 << 63, i64::MIN),
            (Uint64, -1, -1),
            (Bool, 256, 1),
        ] {
            assert_eq!(wrap(kind, value), wrapped, "{kind:?}");
        }
        assert_eq!(wide(Uint64, -1), i128::from(u64::MAX));
        for kind in [Bool, Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64] {
            let (least, most) = limits(kind);
            assert_eq!([least, most].map(|edge| wide(kind, wrap(kind, edge))), [least, most]);
        }
    }

    #[test]
    fn floats_are_cut_and_rounded() {
        assert_eq!([2.9, -2.9, 0.5, -0.5].map(|value| truncated(Int8, value)), [2, -2, 0, 0]);
        assert_eq!(truncated(Uint64, 1.5e19) as u64, 15_000_000_000_000_000_000);
        assert_eq!(truncated(Bool, f64::NAN), 1);
        assert_eq!(truncated(Int64, 1e300), i64::MIN);
        assert_eq!(truncated(Int32, f64::NAN), i64::from(i32::MIN));
        assert_eq!(float_of(Uint64, -1, Float), 18_446_744_073_709_551_616.0);
        assert_eq!(float_of(Int64, (1 << 53) + 1, Double), 9_007_199_254_740_992.0);
        assert_eq!(rounded(Float16, 0.1), 0.099_975_585_937_5);
        assert_eq!(rounded(Bfloat16, 0.1), 0.100_097_656_25);
        assert_eq!(rounded(Float, 1.000_000_000_1), 1.0);
        assert_eq!(rounded(Float16, 65520.0), f64::INFINITY);
    }
}
