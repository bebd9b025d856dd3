//! Constant tensors: from the model's bytes, or from files beside it, to floats or integers.
//!
//! Floats of 32 and 16 bits stay where they are, as slices of a memory map; doubles are converted.

use super::array::{Array, elements};
use super::error::TensorProblem;
use super::memory::Allowance;
use super::onnx::{DataType, TensorProto};
use super::types::{self, type_name};
use crate::graph::Constant;
use crate::open::map;
use bytes::Bytes;
use eyelet::kernels::table::{bf16, f16};
use eyelet::pack::Encoding;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A constant tensor, with its type.
#[derive(Clone, Debug)]
pub(super) enum Data {
    Float(DataType, Floats),
    Integer(DataType, Array<i64>),
}

/// Constant floats: as the graph holds them, and those of double precision also as they are.
#[derive(Clone, Debug)]
pub(super) struct Floats {
    pub shape: Vec<usize>,
    pub constant: Constant,
    pub exact: Option<Arc<Vec<f64>>>,
}

impl Floats {
    /// Numbers of this type, rounded to it.
    pub fn new(kind: DataType, array: Array<f64>) -> Self {
        let rounded = array.data.iter().map(|&value| types::rounded(kind, value) as f32).collect();
        let exact = (kind == DataType::Double).then(|| Arc::new(array.data));
        Self { shape: array.shape, constant: Constant::Owned(Arc::new(rounded)), exact }
    }
}

/// Bytes of one element, for the types that can be read.
pub(super) fn element_bytes(data_type: DataType) -> Option<usize> {
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
    match data_type {
        DataType::Double => size_of::<f32>() + size_of::<f64>(),
        kind if types::is_float(kind) => size_of::<f32>(),
        _ => size_of::<i64>(),
    }
}

/// The files of external data, each mapped once.
pub(super) struct External {
    /// The model's folders, in the order in which they are looked in; without one external data are
    /// refused.
    folders: Vec<PathBuf>,
    files: HashMap<String, (PathBuf, Bytes)>,
}

impl External {
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self { folders, files: HashMap::new() }
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

    /// Maps the file at a location, which must lie in the model's folder by its name. Links that
    /// are there are followed wherever they lead: they are the user's, not the model's.
    fn file(&mut self, location: &str) -> Result<(PathBuf, Bytes), TensorProblem> {
        if let Some(found) = self.files.get(location) {
            return Ok(found.clone());
        }
        let relative = Path::new(location);
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        let mut failed = TensorProblem::NoFolder { location: location.into() };
        for (at, folder) in self.folders.iter().enumerate() {
            if location.is_empty() || !relative.components().all(inside) {
                return Err(TensorProblem::Outside { location: location.into() });
            }
            let path = folder.join(relative);
            match map(&path) {
                Ok(bytes) => {
                    let found = (path, bytes);
                    self.files.insert(location.into(), found.clone());
                    return Ok(found);
                }
                Err(source) if at == 0 => failed = TensorProblem::External { path, source },
                Err(_) => {}
            }
        }
        Err(failed)
    }
}

/// The shape of a tensor: dimensions not negative, elements countable.
pub(super) fn shape_of(dims: &[i64]) -> Result<(Vec<usize>, usize), TensorProblem> {
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
    external: &mut External,
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
        DataType::Float => stored(data_type, shape, raw, Encoding::F32),
        DataType::Float16 => stored(data_type, shape, raw, Encoding::F16),
        DataType::Bfloat16 => stored(data_type, shape, raw, Encoding::Bf16),
        DataType::Double => doubles(shape, words(&raw, size).map(f64::from_bits).collect()),
        _ => integers(data_type, shape, words(&raw, size).map(|bits| bits as i64)),
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
        Uint32 | Uint64 => tensor.uint64_data.len(),
        _ => tensor.int32_data.len(),
    };
    if has != needs {
        return Err(TensorProblem::Values { dims: tensor.dims.clone(), needs, has });
    }
    let narrow = tensor.int32_data.iter();
    Ok(match data_type {
        Float => singles(data_type, shape, tensor.float_data.iter().copied()),
        Double => doubles(shape, tensor.double_data.clone()),
        Float16 => singles(data_type, shape, narrow.map(|&bits| f16(bits as u16))),
        Bfloat16 => singles(data_type, shape, narrow.map(|&bits| bf16(bits as u16))),
        Int64 => integers(data_type, shape, tensor.int64_data.iter().copied()),
        Uint32 | Uint64 => {
            integers(data_type, shape, tensor.uint64_data.iter().map(|&value| value as i64))
        }
        _ => integers(data_type, shape, narrow.map(|&value| i64::from(value))),
    })
}

/// Little-endian numbers of so many bytes, as the lower bits of 64.
fn words(raw: &[u8], size: usize) -> impl Iterator<Item = u64> {
    raw.chunks_exact(size.max(1))
        .map(|word| word.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte)))
}

/// Floats that stay where they are.
fn stored(kind: DataType, shape: Vec<usize>, raw: Bytes, encoding: Encoding) -> Data {
    Data::Float(kind, Floats { shape, constant: Constant::Raw(raw, encoding), exact: None })
}

fn singles(kind: DataType, shape: Vec<usize>, data: impl Iterator<Item = f32>) -> Data {
    let constant = Constant::Owned(Arc::new(data.collect()));
    Data::Float(kind, Floats { shape, constant, exact: None })
}

fn doubles(shape: Vec<usize>, data: Vec<f64>) -> Data {
    Data::Float(DataType::Double, Floats::new(DataType::Double, Array { shape, data }))
}

/// Integers of a type; of each the bits of its width count.
fn integers(kind: DataType, shape: Vec<usize>, data: impl Iterator<Item = i64>) -> Data {
    let data = data.map(|bits| types::wrap(kind, bits.into())).collect();
    Data::Integer(kind, Array { shape, data })
}
