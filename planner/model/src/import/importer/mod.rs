//! An import in progress: from the model's nodes to the graph's.

mod control;
mod frontier;
mod old;
mod scope;
mod sequence;

use super::attributes::Attributes;
use super::body::{Body, reads};
use super::builder::{self, Builder, Operand};
use super::context::{Context, Given, of_sequence};
use super::data::External;
use super::dynamic::{self, DynamicInput};
use super::error::{ImportError, NodeProblem};
use super::memory::Allowance;
use super::onnx::{DataType, FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto};
use super::ranges::{self, Wide};
use super::{finish, node_name, noise, of_doubles, ops, order, types};
use crate::graph::{Graph, ValueId};
use eyelet::pack::PortType;
use scope::Scope;
use sequence::is_of_sequences;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// Domain, name and overload of a function.
type FunctionKey<'a> = (&'a str, &'a str, &'a str);

/// What an output of the model is.
enum Output {
    /// It follows from what could not be translated.
    Unknown,
    /// Of this shape it has no elements.
    Empty(Vec<usize>),
    Value(ValueId, DataType),
}

/// An import in progress.
pub(super) struct Importer<'a> {
    graph: &'a GraphProto,
    functions: HashMap<FunctionKey<'a>, &'a FunctionProto>,
    external: External,
    /// Initializers that were read, by their addresses.
    read: HashMap<usize, Operand>,
    /// The model's graph, and the bodies within bodies down to the one that is translated.
    scopes: Vec<Scope<'a>>,
    builder: Builder,
    /// What is in the way so far.
    problems: Vec<ImportError>,
}

impl<'a> Importer<'a> {
    pub fn new(
        model: &'a ModelProto,
        graph: &'a GraphProto,
        opset: i64,
        folders: Vec<PathBuf>,
        allowance: Allowance,
    ) -> Self {
        let key = |function: &'a FunctionProto| {
            let of = (&function.domain[..], &function.name[..], &function.overload[..]);
            (of, function)
        };
        let result = Graph { name: graph.name.clone(), ..Graph::default() };
        Self {
            graph,
            functions: model.functions.iter().map(key).collect(),
            external: External::new(folders),
            read: HashMap::new(),
            scopes: vec![Scope::new(&Body::of_graph(graph), String::new(), opset)],
            builder: Builder::new(result, allowance),
            problems: vec![],
        }
    }

    /// Translates the model. Inputs that nothing reads are left out if the model is `cut`.
    pub fn run(mut self, cut: bool) -> Result<Graph, ImportError> {
        let graph = self.graph;
        if graph.output.is_empty() {
            return Err(ImportError::NoOutputs);
        }
        let body = Body::of_graph(graph);
        let order = order::needed(&body)?;
        let mut read: HashSet<&str> = body.outputs.iter().copied().collect();
        read.extend(order.iter().flat_map(|&index| reads(&body.nodes[index])));
        // Older files list initializers among the inputs.
        let given = |input: &&ValueInfoProto| {
            let name = input.name.as_str();
            !self.scopes[0].is_initializer(name) && (!cut || read.contains(name))
        };
        let inputs: Vec<&ValueInfoProto> = graph.input.iter().filter(given).collect();
        let mut dynamic = vec![];
        for input in inputs {
            let given = match self.input(input, &mut dynamic) {
                Ok(given) => given,
                Err(problem) => {
                    self.problems.push(problem);
                    Given::Unknown
                }
            };
            self.scopes[0].names.insert(&input.name, given);
        }
        if !dynamic.is_empty() {
            self.problems.push(ImportError::Dynamic { inputs: dynamic });
        }
        for &index in &order {
            self.node(index);
        }
        let outputs = self.outputs();
        self.name_cuts(&order);
        let needed: Vec<ValueId> = match self.problems.is_empty() {
            true => outputs.iter().map(|&(_, value, _)| value).collect(),
            // What reads the others is not known.
            false => (0..self.builder.graph.values.len()).collect(),
        };
        let noises = std::mem::take(&mut self.builder.noises);
        self.problems.extend(noise::problems(&self.builder.graph, noises, needed));
        if !self.problems.is_empty() {
            return Err(ImportError::of(self.problems));
        }
        let wide = ranges::note(&self.builder.graph, &self.builder.wide);
        let mut graph = finish::finish(self.builder.graph, outputs);
        graph.notes.extend(wide);
        graph.notes.extend(of_doubles(&self.builder.doubles));
        Ok(graph)
    }

    /// The outputs that have elements and of which something is known.
    fn outputs(&mut self) -> Vec<(String, ValueId, PortType)> {
        let (mut outputs, mut empty) = (vec![], vec![]);
        for output in &self.graph.output {
            match self.output(&output.name) {
                Ok(Output::Unknown) if self.problems.is_empty() => {
                    let (output, problem) = (output.name.clone(), NodeProblem::Unknown);
                    self.problems.push(ImportError::Output { output, problem });
                }
                Ok(Output::Unknown) => {}
                Ok(Output::Empty(shape)) => empty.push(format!("`{}` {shape:?}", output.name)),
                Ok(Output::Value(value, kind)) => {
                    outputs.push((output.name.clone(), value, types::port_type(kind)));
                }
                Err(problem) => self.problems.push(problem),
            }
        }
        if empty.len() == self.graph.output.len() {
            self.problems.push(ImportError::Empty { outputs: empty.join(", ") });
        } else if !empty.is_empty() {
            let all = empty.join(", ");
            let note = format!("outputs without elements are left out of the pack: {all}");
            self.builder.graph.notes.push(note);
        }
        outputs
    }

    /// What an output is.
    fn output(&mut self, name: &'a str) -> Result<Output, ImportError> {
        let problem = |problem| ImportError::Output { output: name.into(), problem };
        let operand = match self.lookup(name, || format!("output `{name}`")) {
            Given::Absent | Given::Unknown => return Ok(Output::Unknown),
            Given::Sequence(_) => return Err(problem(of_sequence())),
            Given::Known(operand) => operand,
        };
        let shape = self.builder.shape_of(&operand);
        if shape.contains(&0) {
            return Ok(Output::Empty(shape));
        }
        let (value, kind) = match operand {
            Operand::Float(kind, value) | Operand::Whole(kind, value) => (value, kind),
            Operand::Integer(kind, array) => {
                let value = self.builder.words(name.into(), kind, &array);
                (value.map_err(problem)?, kind)
            }
        };
        self.builder.check_range(&[Some(value)]).map_err(problem)?;
        let shape = self.builder.shape(value);
        match builder::check_flowing(shape) {
            Ok(()) => Ok(Output::Value(value, kind)),
            Err(problem) => {
                let (port, name, shape) = ("output", name.into(), shape.to_vec());
                Err(ImportError::PortShape { port, name, shape, problem })
            }
        }
    }

    /// Adds a graph input. Of one whose shape is not fixed nothing is known.
    fn input(
        &mut self,
        input: &ValueInfoProto,
        dynamic: &mut Vec<DynamicInput>,
    ) -> Result<Given, ImportError> {
        let name = || input.name.clone();
        if self.scopes[0].names.contains_key(input.name.as_str()) {
            let (first, second) = ("an input".into(), "another input".into());
            return Err(ImportError::TwoProducers { value: name(), first, second });
        }
        let tensor = input.r#type.as_ref().and_then(|kind| kind.tensor_type.as_ref());
        let tensor = tensor.ok_or_else(|| ImportError::NoTensor { input: name() })?;
        let kind = DataType::try_from(tensor.elem_type).unwrap_or(DataType::Undefined);
        let whole = !types::is_float(kind);
        if matches!(kind, DataType::Undefined | DataType::String) {
            let given = types::type_name(tensor.elem_type);
            return Err(ImportError::InputType { input: name(), given });
        }
        let shape = match dynamic::shape_of(input) {
            Ok(shape) => shape,
            Err(found) => {
                dynamic.push(found);
                return Ok(Given::Unknown);
            }
        };
        builder::check_flowing(&shape).map_err(|problem| ImportError::PortShape {
            port: "input",
            name: name(),
            shape: shape.clone(),
            problem,
        })?;
        let value = self.builder.value(name(), shape, None);
        self.builder.graph.values[value].kind = types::port_type(kind);
        self.builder.graph.inputs.push(value);
        if kind == DataType::Double {
            self.builder.doubles.push(format!("input `{}`", input.name));
        }
        let operand = if whole { Operand::Whole(kind, value) } else { Operand::Float(kind, value) };
        Ok(Given::Known(operand))
    }

    /// The body whose nodes are translated.
    fn scope(&mut self) -> &mut Scope<'a> {
        self.scopes.last_mut().expect("the model's graph is always there")
    }

    /// Translates a node of the innermost body. What it makes is unknown if that fails, or if it reads what is unknown.
    fn node(&mut self, index: usize) {
        let scope = self.scope();
        let (proto, opset) = (&scope.nodes[index], scope.opset);
        let name = format!("{}{}", scope.prefix, node_name(proto, index));
        let made = self.make(proto, &name);
        let unknown = made.is_err();
        let mut made = match made {
            Ok(made) => made,
            Err(NodeProblem::Unknown) => vec![],
            Err(problem) => {
                let operator = proto.op_type.clone();
                self.problems.push(ImportError::Node { node: name, operator, opset, problem });
                vec![]
            }
        }
        .into_iter();
        let scope = self.scope();
        for (at, output) in proto.output.iter().enumerate() {
            let given = match made.next() {
                _ if output.is_empty() => continue,
                Some(Given::Absent) | None if !unknown => {
                    scope.not_computed.insert(output, (index, at));
                    continue;
                }
                Some(given) => given,
                None => Given::Unknown,
            };
            scope.names.insert(output, given);
        }
    }

    /// What the outputs of a node are.
    fn make(&mut self, proto: &'a NodeProto, name: &str) -> Result<Vec<Given>, NodeProblem> {
        let key = (&proto.domain[..], &proto.op_type[..], &proto.overload[..]);
        if let Some(&function) = self.functions.get(&key) {
            return self.call(function, proto, name);
        }
        if ops::is_standard(proto) {
            match &proto.op_type[..] {
                "If" => return self.branch(proto, name),
                "Loop" => return self.unroll(proto, name),
                "Scan" => return self.scan(proto, name),
                operator if is_of_sequences(operator) => return self.sequences(proto, name),
                _ => {}
            }
        }
        let translate = ops::find(proto)?;
        let mut inputs = self.inputs(proto, name);
        if inputs.iter().any(|given| matches!(given, Given::Unknown)) {
            return Err(NodeProblem::Unknown);
        }
        if proto.op_type == "Identity" && matches!(inputs[..], [Given::Sequence(_)]) {
            return Ok(inputs);
        }
        let own = self.resolved(proto);
        if self.scope().opset < old::FIRST {
            self.adapt(own.as_ref().unwrap_or(proto), name, &mut inputs)?;
        }
        let scope = self.scopes.last().expect("the model's graph is always there");
        let mut context = Context {
            proto: own.as_ref().unwrap_or(proto),
            name,
            prefix: &scope.prefix,
            opset: scope.opset,
            inputs,
            builder: &mut self.builder,
            external: &mut self.external,
        };
        let made = ops::translate(&mut context, translate)?;
        made.iter().for_each(|operand| self.builder.hold(operand));
        if let [Operand::Whole(kind, made)] = made[..]
            && Wide::may_be(&proto.op_type, kind)
        {
            let (node, operator) = (name.into(), proto.op_type.clone());
            self.builder.wide.push(Wide { node, operator, made });
        }
        Ok(made.into_iter().map(Given::Known).collect())
    }

    /// What a node reads.
    fn inputs(&mut self, proto: &'a NodeProto, name: &str) -> Vec<Given> {
        let mut inputs = Vec::with_capacity(proto.input.len());
        for input in &proto.input {
            inputs.push(match input.is_empty() {
                true => Given::Absent,
                false => self.lookup(input, || format!("node `{name}`")),
            });
        }
        inputs
    }

    /// In a function: the node with the attributes of the function's call in place of references to them.
    fn resolved(&self, proto: &NodeProto) -> Option<NodeProto> {
        let refers = |attribute: &&_| Attributes::reference(attribute).is_some();
        proto.attribute.iter().find(refers)?;
        let given = self.scopes.iter().rev().find_map(|scope| scope.attributes.as_ref())?;
        let mut own = proto.clone();
        own.attribute.retain_mut(|attribute| match Attributes::reference(attribute) {
            None => true,
            Some(reference) => {
                let found = given.iter().find(|one| one.name == reference).cloned();
                let name = std::mem::take(&mut attribute.name);
                let is_given = found.is_some();
                *attribute = found.unwrap_or_default();
                attribute.name = name;
                is_given
            }
        });
        Some(own)
    }
}
