//! Constant tensors: from the model's bytes, or from files beside it, to floats or integers.
//!
//! Floats of 32 and 16 bits stay where they are, as slices of a memory map; doubles are converted.

use super::array::{Array, elements};
use super::error::TensorProblem;
use super::file;
use super::memory::Allowance;
use super::onnx::{DataType, TensorProto};
use crate::graph::Constant;
use bytes::Bytes;
use eyelet::pack::Encoding;
use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A constant tensor.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Float { shape: Vec<usize>, constant: Constant },
    Integer(Array<i64>),
}

/// Name of a tensor type, as ONNX spells it.
pub(super) fn type_name(data_type: i32) -> String {
    match DataType::try_from(data_type) {
        Ok(known) => format!("{known:?}").to_uppercase(),
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

/// Whether tensors of this type are floats to the planner.
pub(super) fn is_float(data_type: i32) -> bool {
    use DataType::*;
    matches!(DataType::try_from(data_type), Ok(Float | Float16 | Bfloat16 | Double))
}

/// Whether inputs of this type can be indices.
pub(super) fn is_index(data_type: i32) -> bool {
    matches!(DataType::try_from(data_type), Ok(DataType::Int32 | DataType::Int64))
}

/// Bytes of one element, for the types that can be read.
fn element_bytes(data_type: DataType) -> Option<usize> {
    use DataType::*;
    Some(match data_type {
        Bool | Int8 | Uint8 => 1,
        Float16 | Bfloat16 | Int16 | Uint16 => 2,
        Float | Int32 | Uint32 => 4,
        Double | Int64 | Uint64 => 8,
        String | Undefined => return None,
    })
}

/// Bytes that an element takes once it is read.
fn kept_bytes(data_type: DataType) -> usize {
    if is_float(data_type as i32) { size_of::<f32>() } else { size_of::<i64>() }
}

/// The files of external data, each mapped once.
pub(super) struct External<'a> {
    /// The model's folder; without it external data are refused.
    folder: Option<&'a Path>,
    files: HashMap<PathBuf, Bytes>,
}

impl<'a> External<'a> {
    pub fn new(folder: Option<&'a Path>) -> Self {
        Self { folder, files: HashMap::new() }
    }

    /// The bytes of a tensor whose data are external.
    fn read(&mut self, tensor: &TensorProto, needs: usize) -> Result<Bytes, TensorProblem> {
        let entry = |key: &str| {
            let found = tensor.external_data.iter().find(|entry| entry.key == key)?;
            Some(found.value.as_str())
        };
        let number = |key: &'static str| match entry(key) {
            None => Ok(None),
            Some(text) => match text.parse::<u64>() {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(TensorProblem::Number { key, given: text.into() }),
            },
        };
        let location = entry("location").ok_or(TensorProblem::NoLocation)?;
        let offset = number("offset")?.unwrap_or(0);
        let length = number("length")?.unwrap_or(needs as u64);
        if length != needs as u64 {
            let has = usize::try_from(length).unwrap_or(usize::MAX);
            return Err(TensorProblem::Bytes { dims: tensor.dims.clone(), needs, has });
        }
        let (path, file) = self.file(location)?;
        let end = offset.saturating_add(length);
        if end > file.len() as u64 {
            return Err(TensorProblem::ExternalShort { path, offset, end, has: file.len() });
        }
        Ok(file.slice(offset as usize..end as usize))
    }

    /// Maps the file at a location, which must lie in the model's folder, links resolved.
    fn file(&mut self, location: &str) -> Result<(PathBuf, Bytes), TensorProblem> {
        let Some(folder) = self.folder else {
            return Err(TensorProblem::NoFolder { location: location.into() });
        };
        let outside = || TensorProblem::Outside { location: location.into() };
        let relative = Path::new(location);
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if location.is_empty() || !relative.components().all(inside) {
            return Err(outside());
        }
        let path = folder.join(relative);
        let failed = |source: io::Error| TensorProblem::External { path: path.clone(), source };
        if let Some(file) = self.files.get(&path) {
            return Ok((path, file.clone()));
        }
        let resolved = path.canonicalize().map_err(failed)?;
        if !resolved.starts_with(folder.canonicalize().map_err(failed)?) {
            return Err(outside());
        }
        let file = file::map(&resolved).map_err(failed)?;
        self.files.insert(path.clone(), file.clone());
        Ok((path, file))
    }
}

/// The shape of a tensor: dimensions not negative, elements countable.
fn shape_of(dims: &[i64]) -> Result<(Vec<usize>, usize), TensorProblem> {
    let mut shape = Vec::with_capacity(dims.len());
    for (dimension, &given) in dims.iter().enumerate() {
        let extent =
            usize::try_from(given).map_err(|_| TensorProblem::Dimension { dimension, given })?;
        shape.push(extent);
    }
    match elements(&shape) {
        Some(count) => Ok((shape, count)),
        None => Err(TensorProblem::Large { dims: dims.to_vec() }),
    }
}

/// Reads a tensor; what it takes in memory is asked for.
pub(super) fn read(
    tensor: &TensorProto,
    external: &mut External<'_>,
    allowance: &Allowance,
) -> Result<Data, TensorProblem> {
    let (shape, count) = shape_of(&tensor.dims)?;
    let unsupported = || TensorProblem::Type(type_name(tensor.data_type));
    let data_type = DataType::try_from(tensor.data_type).map_err(|_| unsupported())?;
    let size = element_bytes(data_type).ok_or_else(unsupported)?;
    let needs = count * size;
    let raw = if tensor.data_location == 1 {
        external.read(tensor, needs)?
    } else if !tensor.raw_data.is_empty() || count == 0 {
        tensor.raw_data.clone()
    } else {
        allowance.ask(count, kept_bytes(data_type))?;
        return typed(tensor, shape, count, data_type);
    };
    if raw.len() != needs {
        return Err(TensorProblem::Bytes { dims: tensor.dims.clone(), needs, has: raw.len() });
    }
    let stays = matches!(data_type, DataType::Float | DataType::Float16 | DataType::Bfloat16);
    if !stays {
        allowance.ask(count, kept_bytes(data_type))?;
    }
    Ok(match data_type {
        DataType::Float => stored(shape, raw, Encoding::F32),
        DataType::Float16 => stored(shape, raw, Encoding::F16),
        DataType::Bfloat16 => stored(shape, raw, Encoding::Bf16),
        DataType::Double => floats(shape, words(&raw).map(|word| f64::from_le_bytes(word) as f32)),
        DataType::Bool => integers(shape, raw.iter().map(|&byte| i64::from(byte != 0))),
        DataType::Uint8 => integers(shape, raw.iter().map(|&byte| i64::from(byte))),
        DataType::Int8 => integers(shape, raw.iter().map(|&byte| i64::from(byte as i8))),
        DataType::Int16 => integers(shape, words(&raw).map(|w| i16::from_le_bytes(w).into())),
        DataType::Uint16 => integers(shape, words(&raw).map(|w| u16::from_le_bytes(w).into())),
        DataType::Int32 => integers(shape, words(&raw).map(|w| i32::from_le_bytes(w).into())),
        DataType::Uint32 => integers(shape, words(&raw).map(|w| u32::from_le_bytes(w).into())),
        DataType::Int64 => integers(shape, words(&raw).map(i64::from_le_bytes)),
        DataType::Uint64 => {
            let converted = words(&raw).map(|word| i64::try_from(u64::from_le_bytes(word)));
            let data = converted.collect::<Result<_, _>>().map_err(|_| TensorProblem::Integer)?;
            Data::Integer(Array { shape, data })
        }
        DataType::String | DataType::Undefined => return Err(unsupported()),
    })
}

/// Reads a tensor from its typed fields.
fn typed(
    tensor: &TensorProto,
    shape: Vec<usize>,
    needs: usize,
    data_type: DataType,
) -> Result<Data, TensorProblem> {
    use DataType::*;
    let has = match data_type {
        Float => tensor.float_data.len(),
        Double => tensor.double_data.len(),
        Int64 => tensor.int64_data.len(),
        Uint32 | Uint64 => return Err(TensorProblem::Type(type_name(tensor.data_type))),
        _ => tensor.int32_data.len(),
    };
    if has != needs {
        return Err(TensorProblem::Values { dims: tensor.dims.clone(), needs, has });
    }
    let narrow = tensor.int32_data.iter();
    Ok(match data_type {
        Float => floats(shape, tensor.float_data.iter().copied()),
        Double => floats(shape, tensor.double_data.iter().map(|&value| value as f32)),
        Float16 => floats(shape, narrow.map(|&bits| half(bits as u16))),
        Bfloat16 => floats(shape, narrow.map(|&bits| bfloat(bits as u16))),
        Int64 => integers(shape, tensor.int64_data.iter().copied()),
        Bool => integers(shape, narrow.map(|&value| i64::from(value != 0))),
        _ => integers(shape, narrow.map(|&value| i64::from(value))),
    })
}

fn words<const N: usize>(raw: &[u8]) -> impl Iterator<Item = [u8; N]> {
    raw.as_chunks::<N>().0.iter().copied()
}

/// Floats that stay where they are.
fn stored(shape: Vec<usize>, raw: Bytes, encoding: Encoding) -> Data {
    Data::Float { shape, constant: Constant::Raw(raw, encoding) }
}

fn floats(shape: Vec<usize>, data: impl Iterator<Item = f32>) -> Data {
    Data::Float { shape, constant: Constant::Owned(Arc::new(data.collect())) }
}

fn integers(shape: Vec<usize>, data: impl Iterator<Item = i64>) -> Data {
    Data::Integer(Array { shape, data: data.collect() })
}

/// The value of IEEE half-precision bits.
fn half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10) & 31;
    let fraction = u32::from(bits) & 1023;
    match exponent {
        // Zero and subnormals: fraction · 2^-24, exact in f32.
        0 => {
            let magnitude = fraction as f32 * f32::from_bits(0x3380_0000);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// The value of bfloat16 bits.
fn bfloat(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        for (bits, value) in [
            (0x0000, 0.0),
            (0x8000, -0.0),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x0001, 5.960_464_5e-8),
            (0x83ff, -6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ] {
            assert_eq!(half(bits).to_bits(), f32::to_bits(value), "{bits:#x}");
        }
        assert!(half(0x7e00).is_nan());
        assert_eq!(bfloat(0xbfc0), -1.5);
    }
}
