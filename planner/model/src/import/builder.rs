//! Building the graph: values, nodes, and what is folded instead.

use super::array::{Array, Movement, elements};
use super::data::Floats;
use super::error::{NodeProblem, ShapeProblem};
use super::memory::{Allowance, OverWork};
use super::onnx::DataType;
use super::ranges::Wide;
use super::types::{self, wide};
use crate::graph::{Constant, Graph, Node, Op, Value, ValueId};
use crate::reference;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

/// What a name stands for while the graph is built.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// Floats of a type: flowing, or constant.
    Float(DataType, ValueId),
    /// Integers of a type, or truth values, always constant.
    Integer(DataType, Rc<Array<i64>>),
    /// Integers of a type, or truth values, that flow as words of 32 bits.
    Whole(DataType, ValueId),
}

impl Operand {
    pub fn integers(kind: DataType, array: Array<i64>) -> Self {
        Operand::Integer(kind, Rc::new(array))
    }

    /// The type that the model gives it.
    pub fn kind(&self) -> DataType {
        match self {
            Operand::Float(kind, _) | Operand::Integer(kind, _) | Operand::Whole(kind, _) => *kind,
        }
    }
}

/// What whole numbers that flow stand for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Quantisation {
    pub scale: f32,
    pub zero: i64,
    /// The floats.
    pub real: ValueId,
}

/// A node that makes random numbers.
pub(super) struct Noise {
    pub node: String,
    pub operator: String,
    pub opset: i64,
    pub made: ValueId,
}

/// The graph so far.
pub(super) struct Builder {
    pub graph: Graph,
    /// What constants may still take: it is asked before they are made.
    pub allowance: Allowance,
    /// Constants of double precision as they are; the graph has them rounded.
    exact: HashMap<ValueId, Arc<Vec<f64>>>,
    /// Integers that flow and stand for floats.
    pub quantised: HashMap<ValueId, Quantisation>,
    /// Inputs and nodes that are of double precision in the model, and single in the graph.
    pub doubles: Vec<String>,
    /// Values that follow from random numbers, and the nodes that make such.
    pub random: HashSet<ValueId>,
    pub noises: Vec<Noise>,
    /// Nodes that make integers of more than 32 bits, of which 32 flow.
    pub wide: Vec<Wide>,
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
    pub fn new(graph: Graph, allowance: Allowance) -> Self {
        Self {
            graph,
            allowance,
            exact: HashMap::new(),
            quantised: HashMap::new(),
            doubles: vec![],
            random: HashSet::new(),
            noises: vec![],
            wide: vec![],
        }
    }

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
        self.graph.values.push(Value { name, shape, kind: Default::default(), constant });
        self.graph.values.len() - 1
    }

    /// Integers that were read, as an operand.
    pub fn integers(&mut self, kind: DataType, array: Array<i64>) -> Operand {
        let operand = Operand::integers(kind, array);
        self.hold(&operand);
        operand
    }

    /// Counts the integers of an operand that a node has made; what it hands on was counted before.
    pub fn hold(&mut self, operand: &Operand) {
        if let Operand::Integer(_, array) = operand
            && Rc::strong_count(array) == 1
        {
            self.allowance.hold(size_of_val(&array.data[..]));
        }
    }

    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.graph.values[value].shape
    }

    /// The shape of an operand of either kind.
    pub fn shape_of(&self, operand: &Operand) -> Vec<usize> {
        match operand {
            Operand::Float(_, value) | Operand::Whole(_, value) => self.shape(*value).to_vec(),
            Operand::Integer(_, array) => array.shape.clone(),
        }
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
    pub fn array(&mut self, value: ValueId) -> Result<Option<Array<f64>>, NodeProblem> {
        let Some(constant) = &self.graph.values[value].constant else { return Ok(None) };
        let count = constant.len();
        self.charge(count, size_of::<f64>())?;
        let data = self.widened(value).unwrap_or_default();
        Ok(Some(Array { shape: self.shape(value).to_vec(), data }))
    }

    /// The numbers of a constant, as exact as the model has them.
    fn widened(&self, value: ValueId) -> Option<Vec<f64>> {
        let constant = self.graph.values[value].constant.as_ref()?;
        let exact = self.exact.get(&value).map(|exact| exact.to_vec());
        Some(exact.unwrap_or_else(|| reference::widen(constant)))
    }

    /// Adds a constant of words.
    pub fn words(
        &mut self,
        name: String,
        kind: DataType,
        array: &Array<i64>,
    ) -> Result<ValueId, NodeProblem> {
        self.charge(array.data.len(), size_of::<i32>())?;
        let word = |bits: &i64| {
            let given = wide(kind, *bits);
            i32::try_from(given).map_err(|_| NodeProblem::Integer { given })
        };
        let data = array.data.iter().map(word).collect::<Result<Vec<i32>, _>>()?;
        self.allowance.hold(size_of_val(&data[..]));
        let constant = Some(Constant::Words(Arc::new(data)));
        let value = self.value(name, array.shape.clone(), constant);
        self.graph.values[value].kind = types::port_type(kind);
        Ok(value)
    }

    /// Adds a node of words, which is not folded, with one output.
    pub fn words_node(
        &mut self,
        kind: DataType,
        name: String,
        op: Op,
        inputs: &[ValueId],
        (output, shape): (String, Vec<usize>),
    ) -> Result<ValueId, NodeProblem> {
        check_flowing(&shape)
            .map_err(|problem| NodeProblem::Output { value: output.clone(), problem })?;
        let inputs: Vec<Option<ValueId>> = inputs.iter().copied().map(Some).collect();
        self.check_range(&inputs)?;
        let output = self.value(output, shape, None);
        self.graph.values[output].kind = types::port_type(kind);
        self.push(Node { name, op, inputs, outputs: vec![output] });
        Ok(output)
    }

    /// Adds a constant.
    pub fn floats(&mut self, name: String, floats: Floats) -> ValueId {
        let value = self.value(name, floats.shape, Some(floats.constant));
        if let Some(exact) = floats.exact {
            if Arc::strong_count(&exact) == 1 {
                self.allowance.hold(size_of_val(&exact[..]));
            }
            self.exact.insert(value, exact);
        }
        value
    }

    /// Adds a constant, rounded to its type.
    pub fn constant(&mut self, name: String, kind: DataType, array: Array<f64>) -> ValueId {
        self.floats(name, Floats::new(kind, array))
    }

    /// A constant of double precision as one of single precision.
    pub fn narrowed(&mut self, value: ValueId) -> ValueId {
        if !self.exact.contains_key(&value) {
            return value;
        }
        self.graph.values.push(self.graph.values[value].clone());
        self.graph.values.len() - 1
    }

    /// Bytes that an element of a float constant takes where its elements are moved.
    pub fn moved_bytes(&self, value: ValueId) -> usize {
        let exact = if self.exact.contains_key(&value) { size_of::<f64>() } else { 0 };
        size_of::<f32>() + exact
    }

    /// A float constant with its elements moved, charged for; `None` if it flows.
    pub fn moved(
        &mut self,
        name: String,
        value: ValueId,
        movement: &Movement<'_>,
    ) -> Result<Option<ValueId>, NodeProblem> {
        let Some(constant) = self.graph.values[value].constant.clone() else { return Ok(None) };
        self.charge(constant.len(), self.moved_bytes(value))?;
        let shape = self.shape(value).to_vec();
        let exact = self.exact.get(&value).map(|exact| {
            Arc::new(movement.of(&Array { shape: shape.clone(), data: exact.to_vec() }).data)
        });
        let moved = movement.of(&Array { shape, data: constant.to_vec() });
        let constant = Constant::Owned(Arc::new(moved.data));
        Ok(Some(self.floats(name, Floats { shape: moved.shape, constant, exact })))
    }

    /// Adds a node that computes in a type, or what it computes if that is constant and cheap.
    /// Constants that are reshaped share their data, and may be empty.
    pub fn node(
        &mut self,
        kind: DataType,
        name: String,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        outputs: Vec<(String, Vec<usize>)>,
    ) -> Result<Vec<ValueId>, NodeProblem> {
        if let (Op::Reshape, [Some(value)], [(name, shape)]) = (&op, &inputs[..], &outputs[..])
            && let Some(constant) = self.graph.values[*value].constant.clone()
        {
            let (exact, shape) = (self.exact.get(value).cloned(), shape.clone());
            return Ok(vec![self.floats(name.clone(), Floats { shape, constant, exact })]);
        }
        if outputs.iter().any(|(_, shape)| shape.contains(&0)) {
            return self.partly_empty(kind, name, op, inputs, outputs);
        }
        for (value, shape) in &outputs {
            check_flowing(shape)
                .map_err(|problem| NodeProblem::Output { value: value.clone(), problem })?;
        }
        let (op, inputs) = match op {
            // What has no elements adds none.
            Op::Concat { axis } => {
                let holds = |&&input: &&ValueId| !self.shape(input).contains(&0);
                let parts = inputs.iter().flatten().filter(holds).copied();
                match parts.collect::<Vec<ValueId>>()[..] {
                    [only] => return Ok(vec![only]),
                    ref parts => (Op::Concat { axis }, parts.iter().copied().map(Some).collect()),
                }
            }
            op => (op, inputs),
        };
        if let Some(values) = self.folded(kind, &op, &inputs, &outputs)? {
            return Ok(values);
        }
        if op == Op::Mul
            && let [(name, shape)] = &outputs[..]
            && self.is_noise_times_zero(&inputs)
        {
            let count = elements(shape).unwrap_or(usize::MAX);
            self.charge(count, size_of::<f64>() + size_of::<f32>())?;
            let zeros = Array { shape: shape.clone(), data: vec![0.0; count] };
            return Ok(vec![self.constant(name.clone(), kind, zeros)]);
        }
        self.check_range(&inputs)?;
        if kind == DataType::Double {
            self.doubles.push(format!("node `{name}`"));
        }
        let outputs: Vec<ValueId> =
            outputs.into_iter().map(|(name, shape)| self.value(name, shape, None)).collect();
        self.push(Node { name, op, inputs, outputs: outputs.clone() });
        Ok(outputs)
    }

    fn push(&mut self, node: Node) {
        if node.inputs.iter().flatten().any(|input| self.random.contains(input)) {
            self.random.extend(&node.outputs);
        }
        self.graph.nodes.push(node);
    }

    /// Whether one factor follows from random numbers, and another is a constant of zeros.
    fn is_noise_times_zero(&self, inputs: &[Option<ValueId>]) -> bool {
        let zeros = |constant: &Constant| (0..constant.len()).all(|at| constant.get(at) == 0.0);
        let zeros =
            |input: &ValueId| self.graph.values[*input].constant.as_ref().is_some_and(zeros);
        inputs.iter().flatten().any(|input| self.random.contains(input))
            && inputs.iter().flatten().any(zeros)
    }

    /// A node some of whose outputs have no elements: these are constants, and it makes the others.
    fn partly_empty(
        &mut self,
        kind: DataType,
        name: String,
        op: Op,
        inputs: Vec<Option<ValueId>>,
        outputs: Vec<(String, Vec<usize>)>,
    ) -> Result<Vec<ValueId>, NodeProblem> {
        let full: Vec<_> =
            outputs.iter().filter(|(_, shape)| !shape.contains(&0)).cloned().collect();
        let made = match (op, &inputs[..]) {
            _ if full.is_empty() => vec![],
            (Op::Split { .. }, &[Some(whole)]) if full[0].1 == self.shape(whole) => vec![whole],
            (Op::Split { axis, sizes }, _) => {
                let sizes = sizes.into_iter().filter(|&size| size > 0).collect();
                self.node(kind, name, Op::Split { axis, sizes }, inputs, full)?
            }
            (op, _) => self.node(kind, name, op, inputs, full)?,
        };
        let mut made = made.into_iter();
        let mut values = vec![];
        for (name, shape) in outputs {
            values.push(match shape.contains(&0) {
                true => self.constant(name, kind, Array { shape, data: vec![] }),
                false => made.next().ok_or(NodeProblem::Unknown)?,
            });
        }
        Ok(values)
    }

    /// Checks that constants of double precision are none that single precision turns infinite.
    pub fn check_range(&self, inputs: &[Option<ValueId>]) -> Result<(), NodeProblem> {
        for value in inputs.iter().copied().flatten() {
            let Some(exact) = self.exact.get(&value) else { continue };
            let beyond = |given: &&f64| given.is_finite() && (**given as f32).is_infinite();
            if let Some(&given) = exact.iter().find(beyond) {
                let value = self.graph.values[value].name.clone();
                return Err(NodeProblem::Range { value, given });
            }
        }
        Ok(())
    }

    /// The outputs of a node whose inputs are all constant, if they take no more work than is left.
    /// They are computed by the double-precision reference and rounded once, to the type.
    fn folded(
        &mut self,
        kind: DataType,
        op: &Op,
        inputs: &[Option<ValueId>],
        outputs: &[(String, Vec<usize>)],
    ) -> Result<Option<Vec<ValueId>>, NodeProblem> {
        let constants: Option<Vec<Input>> = inputs
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
        let data: Vec<Option<Vec<f64>>> =
            inputs.iter().map(|input| input.and_then(|value| self.widened(value))).collect();
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
            self.constant(name.clone(), kind, Array { shape: shape.clone(), data })
        });
        Ok(Some(narrowed.collect()))
    }
}

/// A constant that a node reads, with its shape; `None` where an optional input is absent.
type Input = Option<(Vec<usize>, Constant)>;

/// Elements that folding a node touches; `None` if they cannot be counted.
fn folding_work(op: &Op, constants: &[Input], outputs: &[(String, Vec<usize>)]) -> Option<usize> {
    let mut work = 0usize;
    for (_, shape) in outputs {
        let each = match (op, constants.first()) {
            (Op::Conv { .. }, _) => constants[1].as_ref()?.0[1..].iter().product(),
            (Op::Gemm { .. } | Op::MatMul, Some(Some((shape, _)))) => shape.iter().product(),
            (Op::MaxPool { window, .. } | Op::AveragePool { window, .. }, _) => {
                window.kernel[0].checked_mul(window.kernel[1])?
            }
            (Op::Lrn { size, .. }, _) => *size,
            (Op::Resample(resampling), _) => resampling.taps,
            (Op::GridSample(_), _) => 64,
            (Op::Recurrent(recurrence), _) => recurrence.hidden.checked_mul(4)?,
            _ => 1usize,
        };
        work = work.checked_add(elements(shape)?.checked_mul(each)?)?;
    }
    for (shape, _) in constants.iter().flatten() {
        work = work.checked_add(elements(shape)?)?;
    }
    Some(work)
}
