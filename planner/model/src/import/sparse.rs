//! Sparse tensors of a model, which become dense ones when it is read.

use super::data::element_bytes;
use super::error::{ImportError, TensorProblem};
use super::memory::Allowance;
use super::onnx::{AttributeType, DataType, GraphProto, NodeProto, SparseTensorProto, TensorProto};
use super::types::type_name;
use bytes::Bytes;

/// Makes all sparse tensors of a graph dense: initializers, and values of `Constant`.
pub(super) fn densify(
    graph: &mut GraphProto,
    allowance: &mut Allowance,
) -> Result<(), ImportError> {
    let problem = |tensor: &str, problem| ImportError::Tensor { tensor: tensor.into(), problem };
    for sparse in std::mem::take(&mut graph.sparse_initializer) {
        let name = sparse.values.as_ref().map(|values| values.name.clone()).unwrap_or_default();
        let made = dense(&sparse, &name, allowance).map_err(|error| problem(&name, error))?;
        graph.initializer.push(made);
    }
    nodes(&mut graph.node, allowance)
}

/// The same of nodes, and of the graphs that they have.
pub(super) fn nodes(nodes: &mut [NodeProto], allowance: &mut Allowance) -> Result<(), ImportError> {
    for node in nodes {
        let name = node.output.first().cloned().unwrap_or_default();
        for attribute in &mut node.attribute {
            if let Some(graph) = &mut attribute.g {
                densify(graph, allowance)?;
            }
            if let Some(sparse) = attribute.sparse_tensor.take() {
                let made = dense(&sparse, &name, allowance)
                    .map_err(|problem| ImportError::Tensor { tensor: name.clone(), problem })?;
                attribute.t = Some(made);
                attribute.r#type = AttributeType::Tensor as i32;
                if attribute.name == "sparse_value" {
                    attribute.name = "value".into();
                }
            }
        }
    }
    Ok(())
}

/// A dense tensor of zeros, with the values where the indices say.
fn dense(
    sparse: &SparseTensorProto,
    name: &str,
    allowance: &mut Allowance,
) -> Result<TensorProto, TensorProblem> {
    let wrong = |what: String| TensorProblem::Sparse(what);
    let (Some(values), Some(indices)) = (&sparse.values, &sparse.indices) else {
        return Err(wrong("it has no values or no indices".into()));
    };
    if values.data_location == 1 || indices.data_location == 1 {
        return Err(wrong("its data are in another file".into()));
    }
    let shape = super::data::shape_of(&sparse.dims)?;
    let (shape, count) = shape;
    let kind = DataType::try_from(values.data_type).ok();
    let bytes = kind.and_then(element_bytes);
    let bytes = bytes.ok_or_else(|| TensorProblem::Type(type_name(values.data_type)))?;
    let places = places(&shape, integers(indices), indices.dims.len() == 2)?;
    let given = raw(values, bytes);
    if given.len() != places.len() * bytes {
        let (values, indices) = (given.len() / bytes, places.len());
        return Err(wrong(format!("it has {values} values, but {indices} indices")));
    }
    allowance.ask(count, bytes)?;
    let mut data = vec![0; count * bytes];
    let mut taken = std::collections::HashSet::new();
    for (place, value) in places.into_iter().zip(given.chunks_exact(bytes)) {
        if !taken.insert(place) {
            return Err(wrong(format!("two of its values are for element {place}")));
        }
        data[place * bytes..][..bytes].copy_from_slice(value);
    }
    allowance.hold(data.len());
    let (dims, data_type) = (sparse.dims.clone(), values.data_type);
    let raw_data = Bytes::from(data);
    Ok(TensorProto { name: name.into(), dims, data_type, raw_data, ..TensorProto::default() })
}

/// The elements that indices name: each by its number, or by one number an axis.
fn places(shape: &[usize], indices: Vec<i64>, by_axis: bool) -> Result<Vec<usize>, TensorProblem> {
    let outside = |given: &[i64]| {
        TensorProblem::Sparse(format!("its index {given:?} is outside the shape {shape:?}"))
    };
    let count: usize = shape.iter().product();
    if !by_axis {
        let place = |&given: &i64| {
            let place = usize::try_from(given).ok().filter(|&place| place < count);
            place.ok_or_else(|| outside(&[given]))
        };
        return indices.iter().map(place).collect();
    }
    let rows = indices.chunks_exact(shape.len().max(1));
    if !rows.remainder().is_empty() {
        let text = format!("its {} indices are not {} an element", indices.len(), shape.len());
        return Err(TensorProblem::Sparse(text));
    }
    let place = |row: &[i64]| {
        row.iter().zip(shape).try_fold(0, |all, (&given, &extent)| {
            let index = usize::try_from(given).ok().filter(|&index| index < extent);
            index.map(|index| all * extent + index).ok_or_else(|| outside(row))
        })
    };
    rows.map(place).collect()
}

/// 64-bit integers, from either field.
fn integers(tensor: &TensorProto) -> Vec<i64> {
    let (words, _) = tensor.raw_data.as_chunks::<8>();
    match tensor.int64_data.is_empty() {
        true => words.iter().map(|word| i64::from_le_bytes(*word)).collect(),
        false => tensor.int64_data.clone(),
    }
}

/// The bytes of the elements, from the field that has them.
fn raw(tensor: &TensorProto, bytes: usize) -> Vec<u8> {
    fn of<const N: usize>(words: impl Iterator<Item = [u8; N]>, bytes: usize) -> Vec<u8> {
        words.flat_map(|word| word.into_iter().take(bytes)).collect()
    }
    let TensorProto { float_data, double_data, int64_data, uint64_data, int32_data, .. } = tensor;
    if !tensor.raw_data.is_empty() {
        return tensor.raw_data.to_vec();
    }
    [
        of(float_data.iter().map(|value| value.to_le_bytes()), bytes),
        of(double_data.iter().map(|value| value.to_le_bytes()), bytes),
        of(int64_data.iter().map(|value| value.to_le_bytes()), bytes),
        of(uint64_data.iter().map(|value| value.to_le_bytes()), bytes),
        of(int32_data.iter().map(|value| value.to_le_bytes()), bytes),
    ]
    .concat()
}
