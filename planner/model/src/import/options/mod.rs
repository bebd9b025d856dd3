//! What a user fixes of a model before it is read: shapes, dimensions, inputs, and where it ends.
//!
//! All of it changes the model itself, so that nothing else in the importer knows of it.

mod shapes;
mod until;

use super::array::elements;
use super::dimensions::Sum;
use super::dynamic::{Dim, dims_of, name_of};
use super::memory::{Allowance, IMPORT_MEMORY, OverMemory};
use super::onnx::{DataType, Dimension, GraphProto, TensorProto, ValueInfoProto};
use super::types::{limits, name as type_name};
use crate::darknet;
use crate::npy::{self, Numbers};
use crate::weights::halves;
use shapes::{bind, derive, dims_mut, reshape, set_shape, without_elements};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// What is fixed of a model when it is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// Bytes of constants that import may make.
    pub memory: u64,
    /// Shapes of inputs.
    pub shapes: Vec<(String, Vec<usize>)>,
    /// Extents of dimensions that the model names.
    pub dims: Vec<(String, usize)>,
    /// Inputs that become constants: numbers with commas between them, or the path of a `.npy` file.
    pub constants: Vec<(String, String)>,
    /// Tensors, or nodes, after which the model is cut.
    pub until: Vec<String>,
    /// The weights of a Darknet model, where they are not next to it.
    pub weights: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        let (shapes, dims, constants, until) = (vec![], vec![], vec![], vec![]);
        Self { memory: IMPORT_MEMORY, shapes, dims, constants, until, weights: None }
    }
}

/// An option that does not fit the model.
#[derive(Debug, Error)]
pub enum OptionProblem {
    #[error("{option} {name}: the model has no such input; its inputs are {known}")]
    Input { option: &'static str, name: String, known: String },

    #[error("--dim {name}: no input has a dimension of that name; {}", match known.is_empty() {
        true => "no dimension of an input has a name, use --shape NAME=1,3,224,224".into(),
        false => format!("named are {known}"),
    })]
    Dim { name: String, known: String },

    #[error("--shape {input}: it has {given} dimensions, but the model's input has {declared}")]
    Rank { input: String, given: usize, declared: usize },

    #[error(
        "--shape {input}: dimension {dimension} is {given}, but the model fixes it to {declared}; \
         export the model with that dimension dynamic"
    )]
    Fixed { input: String, dimension: usize, given: usize, declared: usize },

    #[error("the dimension `{name}` is to be {first} and {second}; give it one number")]
    Twice { name: String, first: usize, second: usize },

    #[error("--constant {input}: {problem}")]
    Constant { input: String, problem: ConstantProblem },

    #[error("--until {name}: the model has no node or tensor of that name; {}", match similar.is_empty() {
        true => "none is alike".into(),
        false => format!("near are {}", list(similar)),
    })]
    Until { name: String, similar: Vec<String> },

    #[error(
        "--weights-file is for a Darknet model, whose name ends in .cfg; an ONNX model names its own files"
    )]
    Weights,

    #[error("{option} is for ONNX models; a Darknet .cfg says all of that itself")]
    Darknet { option: &'static str },
}

/// Why an input cannot become the constant that is given.
#[derive(Debug, Error)]
pub enum ConstantProblem {
    #[error("`{text}` is no number of the type {kind}, nor a file that ends in .npy")]
    Number { text: String, kind: String },
    #[error("it has a number that the type {kind} does not have")]
    Kind { kind: String },
    #[error("its type cannot be given; export the model with numbers as inputs")]
    Type,
    #[error("{given} numbers do not fill the shape {shape:?}")]
    Count { given: usize, shape: Vec<usize> },
    #[error("a file of shape {given:?} does not fit the model's [{declared}]")]
    Shape { given: Vec<usize>, declared: String },
    #[error("the model does not fix its shape; give a .npy file, or --shape too")]
    Open,
    #[error(transparent)]
    Memory(#[from] OverMemory),
    #[error(transparent)]
    File(#[from] npy::Error),
}

/// Names, quoted, with commas between them.
fn list<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{}`", name.as_ref())).collect();
    names.join(", ")
}

impl Options {
    /// Refuses options that a model of that name cannot have.
    pub(super) fn fit(&self, path: &Path) -> Result<(), OptionProblem> {
        if !darknet::is_config(path) {
            return match self.weights {
                Some(_) => Err(OptionProblem::Weights),
                None => Ok(()),
            };
        }
        let given = [
            ("--shape", !self.shapes.is_empty()),
            ("--dim", !self.dims.is_empty()),
            ("--constant", !self.constants.is_empty()),
            ("--until", !self.until.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(OptionProblem::Darknet { option }),
            None => Ok(()),
        }
    }

    /// Changes a graph as the options say.
    pub(super) fn apply(
        &self,
        graph: &mut GraphProto,
        allowance: &Allowance,
    ) -> Result<(), OptionProblem> {
        let mut bound = BTreeMap::new();
        for (name, extent) in &self.dims {
            bind(&mut bound, name, *extent)?;
        }
        for (name, shape) in &self.shapes {
            let input = input("--shape", graph, name)?;
            reshape(&graph.input[input], shape, &mut bound)?;
            set_shape(&mut graph.input[input], shape);
        }
        self.check_dims(graph)?;
        derive(graph, &mut bound)?;
        let constants: HashSet<String> =
            graph.initializer.iter().map(|tensor| tensor.name.clone()).collect();
        let empty: Vec<String> = (graph.input.iter())
            .filter(|input| self.makes_empty(input, &bound, &constants))
            .map(|input| input.name.clone())
            .collect();
        for dim in graph.input.iter_mut().flat_map(dims_mut) {
            let Some(name) = name_of(dim) else { continue };
            dim.value = match (bound.get(name), Sum::of(name)) {
                (Some(&extent), _) => Some(Dimension::Value(extent as i64)),
                (None, Some(sum)) => Some(Dimension::Param(sum.with(&bound))),
                (None, None) => continue,
            };
        }
        for name in empty {
            let input = input("--shape", graph, &name)?;
            if let Some(tensor) = without_elements(&graph.input[input]) {
                graph.initializer.push(tensor);
            }
        }
        for (name, text) in &self.constants {
            let input = input("--constant", graph, name)?;
            let tensor = constant(&graph.input[input], text, allowance)
                .map_err(|problem| OptionProblem::Constant { input: name.clone(), problem })?;
            graph.initializer.push(tensor);
        }
        match self.until.is_empty() {
            true => Ok(()),
            false => until::cut(graph, &self.until),
        }
    }

    /// Whether an input has no elements, and is no initializer.
    fn makes_empty(
        &self,
        input: &ValueInfoProto,
        bound: &BTreeMap<String, usize>,
        constants: &HashSet<String>,
    ) -> bool {
        let given = self.constants.iter().any(|(name, _)| *name == input.name);
        let none = |dim: &Dim| match dim {
            Dim::Named(name) => bound.get(name) == Some(&0),
            dim => *dim == Dim::Fixed(0),
        };
        !given
            && !constants.contains(&input.name)
            && dims_of(input).unwrap_or_default().iter().any(none)
    }

    /// Checks that inputs have dimensions of these names, or had them before they were given shapes.
    fn check_dims(&self, graph: &GraphProto) -> Result<(), OptionProblem> {
        let named = |input: &ValueInfoProto| dims_of(input).unwrap_or_default();
        let mut known: Vec<String> = vec![];
        for dim in graph.input.iter().flat_map(named) {
            let Dim::Named(name) = dim else { continue };
            let parts: Option<Vec<String>> =
                Sum::of(&name).map(|sum| sum.names().map(str::to_owned).collect());
            for name in parts.unwrap_or_default().into_iter().chain([name]) {
                if !known.contains(&name) {
                    known.push(name);
                }
            }
        }
        for (name, _) in &self.dims {
            if !known.contains(name) {
                return Err(OptionProblem::Dim { name: name.clone(), known: list(&known) });
            }
        }
        Ok(())
    }
}

/// The place of an input that is no initializer.
fn input(option: &'static str, graph: &GraphProto, name: &str) -> Result<usize, OptionProblem> {
    let constants: HashSet<&str> =
        graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
    let open = |input: &&ValueInfoProto| !constants.contains(input.name.as_str());
    let found = graph.input.iter().position(|input| input.name == name && open(&input));
    found.ok_or_else(|| {
        let known: Vec<&str> =
            graph.input.iter().filter(open).map(|input| input.name.as_str()).collect();
        OptionProblem::Input { option, name: name.into(), known: list(&known) }
    })
}

/// The tensor that an input becomes.
fn constant(
    input: &ValueInfoProto,
    text: &str,
    allowance: &Allowance,
) -> Result<TensorProto, ConstantProblem> {
    let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
    let kind = tensor.and_then(|tensor| DataType::try_from(tensor.elem_type).ok());
    let kind = kind.filter(|kind| !matches!(kind, DataType::Undefined | DataType::String));
    let kind = kind.ok_or(ConstantProblem::Type)?;
    let dims = dims_of(input);
    let (shape, bytes) = match text.ends_with(".npy") {
        true => {
            let file = npy::open(text)?;
            allowance.ask(file.elements(), 4 * size_of::<u64>())?;
            let (shape, numbers) = file.numbers()?;
            check_shape(&shape, dims.as_deref())?;
            (shape, encode(&numbers, kind)?)
        }
        false => {
            let numbers = parse(text, kind)?;
            let given = numbers.len();
            let shape = filled(given, dims.as_deref())?;
            let count = elements(&shape).unwrap_or(usize::MAX);
            if count != given && given != 1 {
                return Err(ConstantProblem::Count { given, shape });
            }
            let bytes = encode(&numbers, kind)?;
            allowance.ask(count, bytes.len().div_ceil(given.max(1)))?;
            let bytes = if given == count { bytes } else { bytes.repeat(count) };
            (shape, bytes)
        }
    };
    Ok(TensorProto {
        name: input.name.clone(),
        dims: shape.iter().map(|&extent| extent as i64).collect(),
        data_type: kind as i32,
        raw_data: bytes.into(),
        ..TensorProto::default()
    })
}

fn check_shape(given: &[usize], declared: Option<&[Dim]>) -> Result<(), ConstantProblem> {
    let Some(dims) = declared else { return Ok(()) };
    let fits = |(dim, extent): (&Dim, &usize)| !matches!(dim, Dim::Fixed(fixed) if fixed != extent);
    match dims.len() == given.len() && dims.iter().zip(given).all(fits) {
        true => Ok(()),
        false => {
            let declared: Vec<String> = dims.iter().map(ToString::to_string).collect();
            Err(ConstantProblem::Shape { given: given.into(), declared: declared.join(", ") })
        }
    }
}

/// The shape that so many numbers fill.
fn filled(given: usize, declared: Option<&[Dim]>) -> Result<Vec<usize>, ConstantProblem> {
    let fixed = |dim: &Dim| match dim {
        Dim::Fixed(extent) => Some(*extent),
        _ => None,
    };
    match declared {
        None if given == 1 => Ok(vec![]),
        Some([dim]) if fixed(dim).is_none() => Ok(vec![given]),
        Some(dims) => dims.iter().map(fixed).collect::<Option<_>>().ok_or(ConstantProblem::Open),
        None => Err(ConstantProblem::Open),
    }
}

/// Numbers of a type as a person writes them.
fn parse(text: &str, kind: DataType) -> Result<Numbers, ConstantProblem> {
    let bad = |text: &str| {
        let (text, kind) = (text.into(), type_name(kind));
        ConstantProblem::Number { text, kind }
    };
    let parts = text.split(',').map(str::trim);
    match super::types::is_float(kind) {
        true => {
            let numbers = parts.map(|part| part.parse::<f64>().map_err(|_| bad(part)));
            Ok(Numbers::Real(numbers.collect::<Result<_, _>>()?))
        }
        false => {
            let numbers = parts.map(|part| match part {
                "true" if kind == DataType::Bool => Ok(1),
                "false" if kind == DataType::Bool => Ok(0),
                _ => part.parse::<i128>().map_err(|_| bad(part)),
            });
            Ok(Numbers::Whole(numbers.collect::<Result<_, _>>()?))
        }
    }
}

/// Numbers as the bytes of a tensor of a type, which must have them.
fn encode(numbers: &Numbers, kind: DataType) -> Result<Vec<u8>, ConstantProblem> {
    let not_of_it = || ConstantProblem::Kind { kind: type_name(kind) };
    let integers: Vec<i128> = match numbers {
        Numbers::Whole(given) => given.clone(),
        Numbers::Real(given) if super::types::is_float(kind) => {
            return Ok(given.iter().flat_map(|&value| float_bytes(value, kind)).collect());
        }
        Numbers::Real(given) => {
            let whole = |&value: &f64| {
                (value.fract() == 0.0 && value.abs() < 2f64.powi(64)).then_some(value as i128)
            };
            given.iter().map(whole).collect::<Option<_>>().ok_or_else(not_of_it)?
        }
    };
    if super::types::is_float(kind) {
        return Ok(integers.iter().flat_map(|&value| float_bytes(value as f64, kind)).collect());
    }
    let (least, most) = limits(kind);
    if integers.iter().any(|value| !(least..=most).contains(value)) {
        return Err(not_of_it());
    }
    let width = match kind {
        DataType::Bool | DataType::Int8 | DataType::Uint8 => 1,
        DataType::Int16 | DataType::Uint16 => 2,
        DataType::Int32 | DataType::Uint32 => 4,
        _ => 8,
    };
    Ok(integers.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect())
}

fn float_bytes(value: f64, kind: DataType) -> Vec<u8> {
    match kind {
        DataType::Double => value.to_le_bytes().to_vec(),
        DataType::Float16 => halves::f16(value as f32).to_le_bytes().to_vec(),
        DataType::Bfloat16 => halves::bf16(value as f32).to_le_bytes().to_vec(),
        _ => (value as f32).to_le_bytes().to_vec(),
    }
}
