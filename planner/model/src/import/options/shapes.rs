//! Shapes of inputs: what is given, what follows, and what has no elements.

use super::super::dimensions::Sum;
use super::super::dynamic::{Dim, dims_of, name_of};
use super::super::onnx::{
    Dimension, DimensionProto, GraphProto, TensorProto, TensorShapeProto, TypeProto, ValueInfoProto,
};
use super::OptionProblem;
use std::collections::BTreeMap;

/// Remembers the extent of a dimension, which has one.
pub(super) fn bind(
    bound: &mut BTreeMap<String, usize>,
    name: &str,
    extent: usize,
) -> Result<(), OptionProblem> {
    match bound.insert(name.into(), extent) {
        Some(first) if first != extent => {
            Err(OptionProblem::Twice { name: name.into(), first, second: extent })
        }
        _ => Ok(()),
    }
}

/// Gives dimensions that are sums of others their extents.
pub(super) fn derive(
    graph: &GraphProto,
    bound: &mut BTreeMap<String, usize>,
) -> Result<(), OptionProblem> {
    for dim in graph.input.iter().flat_map(|input| dims_of(input).unwrap_or_default()) {
        let Dim::Named(name) = dim else { continue };
        if let Some(extent) = Sum::of(&name).and_then(|sum| sum.extent(bound)) {
            bind(bound, &name, extent)?;
        }
    }
    Ok(())
}

/// Checks a shape that an input is given; dimensions with names have the same extent elsewhere.
pub(super) fn reshape(
    input: &ValueInfoProto,
    shape: &[usize],
    bound: &mut BTreeMap<String, usize>,
) -> Result<(), OptionProblem> {
    let Some(dims) = dims_of(input) else { return Ok(()) };
    if dims.len() != shape.len() {
        let (given, declared) = (shape.len(), dims.len());
        return Err(OptionProblem::Rank { input: input.name.clone(), given, declared });
    }
    for (dimension, (dim, &given)) in dims.iter().zip(shape).enumerate() {
        match dim {
            Dim::Named(name) => bind(bound, name, given)?,
            // Some exporters write 0 where an extent is open.
            &Dim::Fixed(declared) if declared != given && declared != 0 => {
                let input = input.name.clone();
                return Err(OptionProblem::Fixed { input, dimension, given, declared });
            }
            Dim::Fixed(_) | Dim::Unnamed => {}
        }
    }
    Ok(())
}

/// Gives an input a shape. Names stay, since other inputs may have them; they are bound by now.
pub(super) fn set_shape(input: &mut ValueInfoProto, shape: &[usize]) {
    let tensor = input.r#type.get_or_insert_with(TypeProto::default);
    let Some(tensor) = &mut tensor.tensor_type else { return };
    let dims = &mut tensor.shape.get_or_insert_with(TensorShapeProto::default).dim;
    dims.resize(shape.len(), DimensionProto::default());
    for (dim, &extent) in dims.iter_mut().zip(shape) {
        if name_of(dim).is_none() {
            dim.value = Some(Dimension::Value(extent as i64));
        }
    }
}

pub(super) fn dims_mut(input: &mut ValueInfoProto) -> impl Iterator<Item = &mut DimensionProto> {
    let tensor = input.r#type.as_mut().and_then(|kind| kind.tensor_type.as_mut());
    let shape = tensor.and_then(|tensor| tensor.shape.as_mut());
    shape.into_iter().flat_map(|shape| &mut shape.dim)
}

/// The tensor that an input without elements becomes; none where not all of its extents are known.
pub(super) fn without_elements(input: &ValueInfoProto) -> Option<TensorProto> {
    let tensor = input.r#type.as_ref()?.tensor_type.as_ref()?;
    let extent = |dim: &DimensionProto| match dim.value {
        Some(Dimension::Value(extent)) => Some(extent),
        _ => None,
    };
    let dims = tensor.shape.as_ref()?.dim.iter().map(extent).collect::<Option<_>>()?;
    let (name, data_type) = (input.name.clone(), tensor.elem_type);
    Some(TensorProto { name, dims, data_type, ..TensorProto::default() })
}
