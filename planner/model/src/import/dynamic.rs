//! Inputs whose shapes are not fixed, and what its user can do about them.

use super::dimensions::Sum;
use super::onnx::{Dimension, DimensionProto, ValueInfoProto};
use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// An input whose shape is not fixed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicInput {
    pub name: String,
    /// Its dimensions; none if the model does not even say how many there are.
    pub dims: Option<Vec<Dim>>,
}

/// A dimension as the model gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    Fixed(usize),
    Named(String),
    Unnamed,
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Dim::Fixed(extent) => write!(f, "{extent}"),
            Dim::Named(name) => f.write_str(name),
            Dim::Unnamed => f.write_str("?"),
        }
    }
}

/// The dimensions of an input; none if it has no shape.
pub(super) fn dims_of(input: &ValueInfoProto) -> Option<Vec<Dim>> {
    let tensor = input.r#type.as_ref()?.tensor_type.as_ref()?;
    let dims = tensor.shape.as_ref()?.dim.iter().map(|dim| match (&dim.value, name_of(dim)) {
        (_, Some(name)) => Dim::Named(name.into()),
        // Some exporters write -1 where an extent is open.
        (Some(Dimension::Value(extent)), _) => {
            usize::try_from(*extent).map_or(Dim::Unnamed, Dim::Fixed)
        }
        _ => Dim::Unnamed,
    });
    Some(dims.collect())
}

/// The name of an open dimension, which has one extent in all inputs. Paddle's exporter writes `?` for any dimension
/// that is open: that names none.
pub(super) fn name_of(dim: &DimensionProto) -> Option<&str> {
    match &dim.value {
        Some(Dimension::Param(name)) if !name.is_empty() && name != "?" => Some(name),
        _ => None,
    }
}

/// The shape of an input, if it is fixed.
pub(super) fn shape_of(input: &ValueInfoProto) -> Result<Vec<usize>, DynamicInput> {
    let dims = dims_of(input);
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(extent) => Some(*extent),
        _ => None,
    };
    let shape = dims.as_ref().and_then(|dims| dims.iter().map(fixed).collect());
    shape.ok_or_else(|| DynamicInput { name: input.name.clone(), dims })
}

/// Options that fix these inputs, each number a guess by name and place. A name has one guess, and a sum of names that
/// of the sum.
pub(super) fn options(inputs: &[DynamicInput]) -> String {
    let all = || inputs.iter().filter_map(|input| Some((input, input.dims.as_ref()?)));
    let is_past = |dim: &Dim| matches!(dim, Dim::Named(name) if name.contains("past"));
    let step = all().any(|(_, dims)| dims.iter().any(is_past));
    let guess = |dim: &Dim, axis, rank| guess(dim, (axis, rank), step);
    let mut named = BTreeMap::new();
    for (_, dims) in all() {
        for (axis, dim) in dims.iter().enumerate() {
            let Dim::Named(name) = dim else { continue };
            if Sum::of(name).is_none() {
                named.entry(name.clone()).or_insert_with(|| guess(dim, axis, dims.len()));
            }
        }
    }
    for (_, dims) in all() {
        let names = dims.iter().filter_map(|dim| match dim {
            Dim::Named(name) => Sum::of(name),
            _ => None,
        });
        for name in names.flat_map(|sum| sum.names().map(str::to_owned).collect::<Vec<_>>()) {
            let dim = Dim::Named(name.clone());
            named.entry(name).or_insert_with(|| guess(&dim, 1, 2));
        }
    }
    let extent = |dim: &Dim, axis, rank| match dim {
        Dim::Named(name) => {
            let sum = Sum::of(name).and_then(|sum| sum.extent(&named));
            sum.or_else(|| named.get(name).copied()).unwrap_or_else(|| guess(dim, axis, rank))
        }
        _ => guess(dim, axis, rank),
    };
    let mut options: Vec<String> = vec![];
    let mut given = HashSet::new();
    for input in inputs {
        let Some(dims) = &input.dims else {
            options.push(format!("--shape {}=1,3,224,224", quoted(&input.name)));
            continue;
        };
        if dims.contains(&Dim::Unnamed) {
            let list = dims.iter().enumerate().map(|(axis, dim)| extent(dim, axis, dims.len()));
            let list: Vec<String> = list.map(|extent| extent.to_string()).collect();
            options.push(format!("--shape {}={}", quoted(&input.name), list.join(",")));
            continue;
        }
        for dim in dims {
            let Dim::Named(name) = dim else { continue };
            let names = match Sum::of(name) {
                Some(sum) => sum.names().collect(),
                None => vec![name.as_str()],
            };
            for name in names {
                if given.insert(name) {
                    options.push(format!("--dim {}={}", quoted(name), named[name]));
                }
            }
        }
    }
    options.join(" ")
}

/// A likely extent of a dimension. A step of a decoder with a past has one token.
fn guess(dim: &Dim, (axis, rank): (usize, usize), step: bool) -> usize {
    let name = match dim {
        Dim::Fixed(extent) => return *extent,
        Dim::Named(name) => name.to_lowercase(),
        Dim::Unnamed => String::new(),
    };
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    let tokens = step && has(&["seq", "len", "token"]) && !has(&["past", "encoder", "max"]);
    match (axis, rank) {
        _ if has(&["batch"]) => 1,
        _ if tokens && has(&["total"]) => 129,
        _ if tokens => 1,
        _ if has(&["seq", "len", "token", "time"]) => 128,
        _ if has(&["height", "width"]) => 224,
        (0, _) => 1,
        (1, 4) => 3,
        (2 | 3, 4) => 224,
        (1, 2 | 3) => 128,
        _ => 1,
    }
}

/// A name as a word of a command line.
pub(super) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:".contains(c);
    match name.chars().all(plain) && !name.is_empty() {
        true => name.to_owned(),
        false => format!("'{}'", name.replace('\'', r"'\''")),
    }
}

/// The inputs with their dimensions, as a list.
pub(super) fn list(inputs: &[DynamicInput]) -> String {
    let one = |input: &DynamicInput| match &input.dims {
        None => format!("`{}` (no shape)", input.name),
        Some(dims) => {
            let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
            format!("`{}` [{}]", input.name, dims.join(", "))
        }
    };
    inputs.iter().map(one).collect::<Vec<_>>().join(", ")
}
