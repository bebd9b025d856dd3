//! One node while it is translated: what its translation may ask about its inputs, and how it
//! answers.

use super::array::{Array, Movement, elements};
use super::attributes::Attributes;
use super::builder::{Builder, MOST_LISTED, Operand};
use super::data::External;
use super::error::NodeProblem;
use super::onnx::{DataType, NodeProto};
use super::types;
use crate::graph::{Op, ValueId};
use std::rc::Rc;

/// What a node reads in one place.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Absent,
    /// What comes from a node that could not be translated: nothing follows from it.
    Unknown,
    Known(Operand),
    Sequence(Rc<Vec<Given>>),
}

/// One node of the model while it is translated.
pub(super) struct Context<'a, 'b> {
    pub proto: &'a NodeProto,
    /// The node's name in the graph.
    pub name: &'a str,
    /// What names of its outputs begin with: where in the model its body is.
    pub prefix: &'a str,
    pub opset: i64,
    pub inputs: Vec<Given>,
    pub builder: &'b mut Builder,
    pub external: &'b mut External,
}

impl<'a> Context<'a, '_> {
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::of(self.proto)
    }

    /// The name of output `index`.
    pub fn output(&self, index: usize) -> String {
        match self.proto.output.get(index) {
            Some(name) if !name.is_empty() => format!("{}{name}", self.prefix),
            _ => format!("{}:{index}", self.name),
        }
    }

    /// Input `index`, if it is there.
    pub fn optional(&self, index: usize) -> Result<Option<Operand>, NodeProblem> {
        match self.inputs.get(index) {
            None | Some(Given::Absent) => Ok(None),
            Some(Given::Unknown) => Err(NodeProblem::Unknown),
            Some(Given::Known(operand)) => Ok(Some(operand.clone())),
            Some(Given::Sequence(_)) => Err(of_sequence()),
        }
    }

    pub fn input(&self, index: usize, role: &'static str) -> Result<Operand, NodeProblem> {
        self.optional(index)?.ok_or(NodeProblem::Missing { index, role })
    }

    /// The type of the first floats among the inputs: what the node computes in.
    pub fn kind(&self) -> DataType {
        let kinds = self.inputs.iter().filter_map(|given| match given {
            Given::Known(operand) => Some(operand.kind()),
            Given::Absent | Given::Unknown | Given::Sequence(_) => None,
        });
        kinds.into_iter().find(|&kind| types::is_float(kind)).unwrap_or(DataType::Float)
    }

    pub fn optional_float(
        &self,
        index: usize,
        role: &'static str,
    ) -> Result<Option<ValueId>, NodeProblem> {
        match self.optional(index)? {
            None => Ok(None),
            Some(Operand::Float(_, value)) => Ok(Some(value)),
            Some(other) => Err(NodeProblem::wrong_type(role, "floats", other.kind())),
        }
    }

    /// Input `index`, floats.
    pub fn float(&self, index: usize, role: &'static str) -> Result<ValueId, NodeProblem> {
        self.optional_float(index, role)?.ok_or(NodeProblem::Missing { index, role })
    }

    pub fn optional_weights(
        &self,
        index: usize,
        role: &'static str,
    ) -> Result<Option<ValueId>, NodeProblem> {
        let Some(value) = self.optional_float(index, role)? else { return Ok(None) };
        let found = &self.builder.graph.values[value];
        if found.constant.is_none() {
            return Err(NodeProblem::NotConstant { role, value: found.name.clone() });
        }
        Ok(Some(value))
    }

    /// Input `index`, constant floats.
    pub fn weights(&self, index: usize, role: &'static str) -> Result<ValueId, NodeProblem> {
        self.optional_weights(index, role)?.ok_or(NodeProblem::Missing { index, role })
    }

    /// Input `index`, one constant float.
    pub fn optional_scalar(
        &self,
        index: usize,
        role: &'static str,
    ) -> Result<Option<f32>, NodeProblem> {
        let Some(value) = self.optional_weights(index, role)? else { return Ok(None) };
        match &self.builder.graph.values[value].constant {
            Some(constant) if constant.len() == 1 => Ok(Some(constant.get(0))),
            _ => Err(NodeProblem::shape(format!(
                "`{role}` has the shape {:?}, expected one number",
                self.shape(value)
            ))),
        }
    }

    pub fn optional_integers(
        &self,
        index: usize,
        role: &'static str,
    ) -> Result<Option<Rc<Array<i64>>>, NodeProblem> {
        match self.optional(index)? {
            None => Ok(None),
            Some(Operand::Integer(_, array)) => Ok(Some(array)),
            Some(Operand::Whole(_, value)) => {
                let value = self.builder.graph.values[value].name.clone();
                Err(NodeProblem::NotConstant { role, value })
            }
            Some(Operand::Float(kind, value)) => {
                let found = &self.builder.graph.values[value];
                Err(match found.constant {
                    Some(_) => NodeProblem::wrong_type(role, "integers", kind),
                    None => NodeProblem::NotConstant { role, value: found.name.clone() },
                })
            }
        }
    }

    /// Input `index`, constant integers.
    pub fn integers(
        &self,
        index: usize,
        role: &'static str,
    ) -> Result<Rc<Array<i64>>, NodeProblem> {
        self.optional_integers(index, role)?.ok_or(NodeProblem::Missing { index, role })
    }

    /// Input `index`, constant integers of which there are no more than a tensor has dimensions, or a
    /// little.
    pub fn few(&self, index: usize, role: &'static str) -> Result<Rc<Array<i64>>, NodeProblem> {
        let list = self.integers(index, role)?;
        match list.data.len() <= MOST_LISTED {
            true => Ok(list),
            false => Err(NodeProblem::shape(format!(
                "`{role}` lists {} numbers, at most {MOST_LISTED} are read",
                list.data.len()
            ))),
        }
    }

    pub fn shape(&self, value: ValueId) -> Vec<usize> {
        self.builder.shape(value).to_vec()
    }

    /// The shape of an operand of either kind.
    pub fn shape_of(&self, operand: &Operand) -> Vec<usize> {
        self.builder.shape_of(operand)
    }

    /// The name of a value.
    pub fn name_of(&self, value: ValueId) -> String {
        self.builder.graph.values[value].name.clone()
    }

    /// Constant floats as this node's first output.
    pub fn folded(&mut self, kind: DataType, array: Array<f64>) -> Vec<Operand> {
        let name = self.output(0);
        vec![Operand::Float(kind, self.builder.constant(name, kind, array))]
    }

    /// A constant with its elements moved to a shape, as output `index`; `None` if the operand
    /// flows.
    pub fn moved(
        &mut self,
        index: usize,
        operand: &Operand,
        movement: &Movement<'_>,
        shape: &[usize],
    ) -> Result<Option<Operand>, NodeProblem> {
        Ok(match operand {
            Operand::Whole(..) => None,
            Operand::Integer(kind, array) => {
                self.charge(shape)?;
                Some(Operand::integers(*kind, movement.of(array)))
            }
            Operand::Float(kind, value) => {
                if self.builder.graph.values[*value].constant.is_some() {
                    self.charge_for(shape, self.builder.moved_bytes(*value))?;
                }
                let name = self.output(index);
                let moved = self.builder.moved(name, *value, movement)?;
                moved.map(|value| Operand::Float(*kind, value))
            }
        })
    }

    /// Adds a node.
    pub fn node(
        &mut self,
        name: String,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        outputs: Vec<(String, Vec<usize>)>,
    ) -> Result<Vec<ValueId>, NodeProblem> {
        self.builder.node(self.kind(), name, op, inputs, outputs)
    }

    /// Adds the node itself, with one output.
    pub fn emit(
        &mut self,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        shape: Vec<usize>,
    ) -> Result<Vec<Operand>, NodeProblem> {
        let outputs = vec![(self.output(0), shape)];
        let made = self.node(self.name.into(), op, inputs, outputs)?;
        Ok(made.into_iter().map(|value| Operand::Float(self.kind(), value)).collect())
    }

    /// Adds a node that serves this one, named after it; its output too.
    pub fn helper(
        &mut self,
        suffix: &str,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        shape: Vec<usize>,
    ) -> Result<ValueId, NodeProblem> {
        let name = format!("{}/{suffix}", self.name);
        Ok(self.node(name.clone(), op, inputs, vec![(name, shape)])?[0])
    }

    /// A constant of one number, of the type that the node computes in, named after the node.
    pub fn number(&mut self, role: &str, value: f64) -> ValueId {
        let (name, kind) = (format!("{}/{role}", self.name), self.kind());
        self.builder.constant(name, kind, Array::scalar(value))
    }

    /// Charges for folded numbers of 64 bits in this shape before they are made.
    pub fn charge(&mut self, shape: &[usize]) -> Result<(), NodeProblem> {
        self.charge_for(shape, size_of::<i64>())
    }

    /// Charges for a folded array of this shape, of so many bytes an element, before it is made.
    pub fn charge_for(&mut self, shape: &[usize], bytes_each: usize) -> Result<(), NodeProblem> {
        // Empty extents count as one: what leads to the result may be larger than it.
        let work = match elements(shape) {
            Some(_) => shape.iter().map(|&extent| extent.max(1)).product(),
            None => usize::MAX,
        };
        self.builder.charge(work, bytes_each)
    }
}

/// A sequence of tensors where one tensor is needed.
pub(super) fn of_sequence() -> NodeProblem {
    NodeProblem::shape("a sequence of tensors is read where a tensor is needed")
}

/// An axis counted from either end.
pub(super) fn axis(given: i64, rank: usize) -> Result<usize, NodeProblem> {
    let counted = if given < 0 { given.checked_add(rank as i64) } else { Some(given) };
    match counted {
        Some(axis) if axis >= 0 && (axis as usize) < rank => Ok(axis as usize),
        _ => Err(NodeProblem::shape(format!("axis {given} is outside a tensor of rank {rank}"))),
    }
}

/// Axes counted from either end, each at most once, ascending.
pub(super) fn axes(given: &[i64], rank: usize) -> Result<Vec<usize>, NodeProblem> {
    if given.len() > rank {
        return Err(NodeProblem::shape(format!(
            "{} axes are named of a tensor of rank {rank}",
            given.len()
        )));
    }
    let mut axes = given.iter().map(|&one| axis(one, rank)).collect::<Result<Vec<_>, _>>()?;
    axes.sort_unstable();
    if axes.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(NodeProblem::shape(format!("the axes {given:?} name one twice")));
    }
    Ok(axes)
}
