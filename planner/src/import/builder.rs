//! Building the graph: values, nodes, and what a node's translation may ask about its inputs.

use super::array::{Array, elements};
use super::attributes::Attributes;
use super::data::External;
use super::error::{NodeProblem, ShapeProblem};
use super::memory::{Allowance, OverWork};
use super::onnx::NodeProto;
use crate::graph::{Constant, Graph, Node, Op, Value, ValueId};
use crate::reference;
use std::rc::Rc;
use std::sync::Arc;

/// What a name stands for while the graph is built.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// Floats: flowing, or constant.
    Float(ValueId),
    /// Integers or truth values, always constant.
    Integer(Rc<Array<i64>>),
    /// Whole numbers that flow, as floats: integers of an input, on their way to be indices.
    Whole(ValueId),
}

impl Operand {
    pub fn integers(array: Array<i64>) -> Self {
        Operand::Integer(Rc::new(array))
    }
}

/// The graph so far.
pub(super) struct Builder {
    pub graph: Graph,
    /// What constants may still take: it is asked before they are made.
    pub allowance: Allowance,
}

/// The largest rank of a tensor that flows: what a pack can state of its inputs and outputs.
const MOST_DIMENSIONS: usize = 8;

/// The longest list of extents, axes or pads that is read: twice the largest rank of a constant.
pub(super) const MOST_LISTED: usize = 128;

/// Checks that a tensor of this shape can flow.
pub(super) fn check_flowing(shape: &[usize]) -> Result<(), ShapeProblem> {
    if let Some(dimension) = shape.iter().position(|&extent| extent == 0) {
        return Err(ShapeProblem::Empty(dimension));
    }
    if shape.len() > MOST_DIMENSIONS {
        return Err(ShapeProblem::Rank(shape.len()));
    }
    elements(shape).map(|_| ()).ok_or(ShapeProblem::Large)
}

impl Builder {
    pub fn value(
        &mut self,
        name: String,
        shape: Vec<usize>,
        constant: Option<Constant>,
    ) -> ValueId {
        // Reshaping shares data, which are counted once.
        if let Some(Constant::Owned(data)) = &constant
            && Arc::strong_count(data) == 1
        {
            self.allowance.hold(size_of_val(&data[..]));
        }
        self.graph.values.push(Value { name, shape, constant });
        self.graph.values.len() - 1
    }

    /// Integers that were read, as an operand.
    pub fn integers(&mut self, array: Array<i64>) -> Operand {
        let operand = Operand::integers(array);
        self.hold(&operand);
        operand
    }

    /// Counts the integers of an operand that a node has made; what it hands on was counted before.
    pub fn hold(&mut self, operand: &Operand) {
        if let Operand::Integer(array) = operand
            && Rc::strong_count(array) == 1
        {
            self.allowance.hold(size_of_val(&array.data[..]));
        }
    }

    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.graph.values[value].shape
    }

    /// Charges for folded elements of so many bytes each before they are made.
    pub fn charge(&mut self, elements: usize, bytes_each: usize) -> Result<(), NodeProblem> {
        self.allowance.ask(elements, bytes_each)?;
        self.work(elements)
    }

    /// Takes work from what folding may do.
    fn work(&mut self, work: usize) -> Result<(), NodeProblem> {
        let done = self.allowance.work(work);
        done.map_err(|OverWork { work, left }| NodeProblem::Folding { work, left })
    }

    /// A float constant as an array, charged for.
    pub fn array(&mut self, value: ValueId) -> Result<Option<Array<f32>>, NodeProblem> {
        let Some(constant) = self.graph.values[value].constant.clone() else { return Ok(None) };
        self.charge(constant.len(), size_of::<f32>())?;
        Ok(Some(Array { shape: self.shape(value).to_vec(), data: constant.to_vec() }))
    }

    /// Adds a constant.
    pub fn constant(&mut self, name: String, array: Array<f32>) -> ValueId {
        let constant = Constant::Owned(Arc::new(array.data));
        self.value(name, array.shape, Some(constant))
    }

    /// Adds a node, or what it computes if that is constant and cheap.
    pub fn node(
        &mut self,
        name: String,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        outputs: Vec<(String, Vec<usize>)>,
    ) -> Result<Vec<ValueId>, NodeProblem> {
        for (value, shape) in &outputs {
            check_flowing(shape)
                .map_err(|problem| NodeProblem::Output { value: value.clone(), problem })?;
        }
        if let Some(values) = self.folded(&op, &inputs, &outputs)? {
            return Ok(values);
        }
        let outputs: Vec<ValueId> =
            outputs.into_iter().map(|(name, shape)| self.value(name, shape, None)).collect();
        self.graph.nodes.push(Node { name, op, inputs, outputs: outputs.clone() });
        Ok(outputs)
    }

    /// The outputs of a node whose inputs are all constant, if they take no more work than is left.
    /// Reshaping shares the data; everything else is computed by the double-precision reference and
    /// rounded once.
    fn folded(
        &mut self,
        op: &Op,
        inputs: &[Option<ValueId>],
        outputs: &[(String, Vec<usize>)],
    ) -> Result<Option<Vec<ValueId>>, NodeProblem> {
        let constants: Option<Vec<Option<(Vec<usize>, Constant)>>> = inputs
            .iter()
            .map(|input| match input {
                None => Some(None),
                Some(id) => {
                    let value = &self.graph.values[*id];
                    Some(Some((value.shape.clone(), value.constant.clone()?)))
                }
            })
            .collect();
        let Some(constants) = constants else { return Ok(None) };
        if let (Op::Reshape, [Some((_, constant))]) = (op, &constants[..]) {
            let (name, shape) = outputs[0].clone();
            return Ok(Some(vec![self.value(name, shape, Some(constant.clone()))]));
        }
        let Some(work) = folding_work(op, &constants, outputs) else { return Ok(None) };
        let count = |shapes: &mut dyn Iterator<Item = &Vec<usize>>| {
            shapes.fold(0usize, |sum, shape| {
                sum.saturating_add(elements(shape).unwrap_or(usize::MAX))
            })
        };
        let read = count(&mut constants.iter().flatten().map(|(shape, _)| shape));
        let made = count(&mut outputs.iter().map(|(_, shape)| shape));
        // The reference computes in double precision, what is kept is rounded.
        self.allowance.ask(made, size_of::<f32>())?;
        let all = read.saturating_add(made);
        self.allowance.ask(all, size_of::<f64>() + size_of::<f32>())?;
        if self.work(work).is_err() {
            return Ok(None);
        }
        let data: Vec<Option<Vec<f64>>> = constants
            .iter()
            .map(|input| input.as_ref().map(|(_, constant)| reference::widen(constant)))
            .collect();
        let tensors: Vec<Option<reference::Tensor<'_>>> = constants
            .iter()
            .zip(&data)
            .map(|(input, data)| {
                let (shape, data) = (&input.as_ref()?.0, data.as_ref()?);
                Some(reference::Tensor { shape, data })
            })
            .collect();
        let shapes: Vec<&[usize]> = outputs.iter().map(|(_, shape)| &shape[..]).collect();
        let results = reference::evaluate(op, &tensors, &shapes);
        let narrowed = results.into_iter().zip(outputs).map(|(data, (name, shape))| {
            let data = data.into_iter().map(|value| value as f32).collect();
            self.constant(name.clone(), Array { shape: shape.clone(), data })
        });
        Ok(Some(narrowed.collect()))
    }
}

/// Elements that folding a node touches; `None` if they cannot be counted.
fn folding_work(
    op: &Op,
    constants: &[Option<(Vec<usize>, Constant)>],
    outputs: &[(String, Vec<usize>)],
) -> Option<usize> {
    let mut work = 0usize;
    for (_, shape) in outputs {
        let each = match (op, constants.first()) {
            (Op::Conv { .. }, _) => constants[1].as_ref()?.0[1..].iter().product(),
            (Op::Gemm { .. } | Op::MatMul, Some(Some((shape, _)))) => shape.iter().product(),
            (Op::MaxPool { window, .. } | Op::AveragePool { window, .. }, _) => {
                window.kernel[0].checked_mul(window.kernel[1])?
            }
            (Op::Lrn { size, .. }, _) => *size,
            _ => 1usize,
        };
        work = work.checked_add(elements(shape)?.checked_mul(each)?)?;
    }
    for (shape, _) in constants.iter().flatten() {
        work = work.checked_add(elements(shape)?)?;
    }
    Some(work)
}

/// One node of the model while it is translated.
pub(super) struct Context<'a, 'b> {
    pub proto: &'a NodeProto,
    /// The node's name in the graph.
    pub name: &'a str,
    pub opset: i64,
    pub inputs: Vec<Option<Operand>>,
    pub builder: &'a mut Builder,
    pub external: &'a mut External<'b>,
}

impl<'a> Context<'a, '_> {
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::of(self.proto)
    }

    /// The name of output `index`.
    pub fn output(&self, index: usize) -> String {
        match self.proto.output.get(index) {
            Some(name) if !name.is_empty() => name.clone(),
            _ => format!("{}:{index}", self.name),
        }
    }

    /// Input `index`, if it is there.
    pub fn optional(&self, index: usize) -> Option<Operand> {
        self.inputs.get(index).cloned().flatten()
    }

    pub fn input(&self, index: usize, role: &'static str) -> Result<Operand, NodeProblem> {
        self.optional(index).ok_or(NodeProblem::Missing { index, role })
    }

    pub fn optional_float(
        &self,
        index: usize,
        role: &'static str,
    ) -> Result<Option<ValueId>, NodeProblem> {
        match self.optional(index) {
            None => Ok(None),
            Some(Operand::Float(value)) => Ok(Some(value)),
            Some(Operand::Integer(_) | Operand::Whole(_)) => {
                Err(NodeProblem::Type { role, wanted: "a float", given: "an integer" })
            }
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
        match self.optional(index) {
            None => Ok(None),
            Some(Operand::Integer(array)) => Ok(Some(array)),
            Some(Operand::Whole(value)) => {
                let value = self.builder.graph.values[value].name.clone();
                Err(NodeProblem::NotConstant { role, value })
            }
            Some(Operand::Float(value)) => {
                let found = &self.builder.graph.values[value];
                Err(match found.constant {
                    Some(_) => NodeProblem::Type { role, wanted: "an integer", given: "a float" },
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

    /// Input `index`, constant integers of which there are no more than a tensor has dimensions, or a little.
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
        match operand {
            Operand::Float(value) | Operand::Whole(value) => self.shape(*value),
            Operand::Integer(array) => array.shape.clone(),
        }
    }

    /// Adds the node itself, with one output.
    pub fn emit(
        &mut self,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        shape: Vec<usize>,
    ) -> Result<Vec<Operand>, NodeProblem> {
        let output = self.output(0);
        let made = self.builder.node(self.name.into(), op, inputs, vec![(output, shape)])?;
        Ok(made.into_iter().map(Operand::Float).collect())
    }

    /// Adds a node that serves this one, named after it; its output too.
    pub fn helper(
        &mut self,
        suffix: &str,
        op: Op,
        input: ValueId,
        shape: Vec<usize>,
    ) -> Result<ValueId, NodeProblem> {
        let name = format!("{}/{suffix}", self.name);
        let outputs = vec![(name.clone(), shape)];
        Ok(self.builder.node(name, op, vec![Some(input)], outputs)?[0])
    }

    /// Charges for folded integers of this shape before they are made.
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
