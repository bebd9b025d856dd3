//! Control flow that constants decide: functions, branches, and loops of a known number of rounds.
//!
//! A body is translated once for each time that it would run, each time with names of its own. What that may make
//! is limited, since bodies can be in bodies.

use super::super::attributes::{Attributes, size};
use super::super::body::Body;
use super::super::builder::Operand;
use super::super::context::{Given, axis, of_sequence};
use super::super::error::{NEWEST_OPSET, NodeProblem, OLDEST_OPSET};
use super::super::onnx::{AttributeProto, AttributeType, DataType, FunctionProto, NodeProto};
use super::super::{array::Array, ops, order};
use super::Importer;
use super::scope::Scope;

/// Bodies within one another.
const DEEPEST: usize = 32;
/// What a node of a body counts as work of folding: a file that its user named may have 65536 of them.
const WORK_OF_NODE: usize = 1 << 12;
/// Bytes of a node's name that names within its body begin with.
const LONGEST_NAME: usize = 64;

/// What to do where values decide that are computed.
const ADVICE: &str =
    "fix the input that it follows from (--constant NAME=VALUE), or export the model by tracing";

/// Along which axes a `Scan` reads and writes, and which of them backwards.
struct Scan {
    axes: Vec<i64>,
    backwards: Vec<bool>,
    out_axes: Vec<i64>,
    out_backwards: Vec<bool>,
}

impl Scan {
    /// Reads the attributes of one with so many inputs.
    fn read(proto: &NodeProto, body: &Body<'_>, inputs: usize) -> Result<Self, NodeProblem> {
        let attributes = Attributes::of(proto);
        let scanned = size("num_scan_inputs", attributes.int_or("num_scan_inputs", 0)?, 1)?;
        let states = inputs.checked_sub(scanned);
        let made = states.and_then(|states| body.outputs.len().checked_sub(states));
        let Some(made) = made.filter(|_| body.inputs.len() == inputs) else {
            return Err(NodeProblem::shape(format!(
                "its body has {} inputs and {} outputs, which do not fit {inputs} inputs of which it scans {scanned}",
                body.inputs.len(),
                body.outputs.len()
            )));
        };
        let list = |name: &str, count: usize| -> Result<Vec<i64>, NodeProblem> {
            let given = attributes.ints(name)?.map_or(vec![0; count], <[i64]>::to_vec);
            match given.len() == count {
                true => Ok(given),
                false => Err(NodeProblem::attribute(name, format!("is not {count} numbers"))),
            }
        };
        let flags = |name: &str, count: usize| -> Result<Vec<bool>, NodeProblem> {
            Ok(list(name, count)?.into_iter().map(|flag| flag != 0).collect())
        };
        Ok(Self {
            axes: list("scan_input_axes", scanned)?,
            backwards: flags("scan_input_directions", scanned)?,
            out_axes: list("scan_output_axes", made)?,
            out_backwards: flags("scan_output_directions", made)?,
        })
    }
}

impl<'a> Importer<'a> {
    /// What names in the body of this node begin with.
    pub(super) fn prefix(&mut self, name: &str) -> String {
        let outer = &self.scope().prefix;
        let own = name.strip_prefix(outer.as_str()).unwrap_or(name);
        let start = own.ceil_char_boundary(own.len() - own.len().min(LONGEST_NAME));
        format!("{outer}{}/", &own[start..])
    }

    /// Translates a body; its outputs.
    pub(super) fn body(
        &mut self,
        body: &Body<'a>,
        order: &[usize],
        scope: Scope<'a>,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        let work = (order.len() + 1).saturating_mul(WORK_OF_NODE);
        if self.scopes.len() > DEEPEST || self.builder.allowance.work(work).is_err() {
            return Err(NodeProblem::unsupported(format!(
                "its bodies unroll into too many nodes, or are more than {DEEPEST} deep; export the model by \
                 tracing, or simplify it with onnxsim"
            )));
        }
        // Names are made anew.
        let length = |node: &NodeProto| {
            let names = node.output.iter().chain([&node.name]);
            names.map(|name| name.len() + scope.prefix.len()).sum::<usize>()
        };
        let bytes = order.iter().map(|&index| length(&body.nodes[index])).sum::<usize>();
        self.builder.allowance.ask(bytes, 1)?;
        self.builder.allowance.hold(bytes);

        self.scopes.push(scope);
        for &index in order {
            self.node(index);
        }
        let mut outputs = Vec::with_capacity(body.outputs.len());
        for output in &body.outputs {
            outputs.push(match output.is_empty() {
                true => Given::Absent,
                false => self.lookup(output, || format!("the body of node `{name}`")),
            });
        }
        self.scopes.pop();
        Ok(outputs)
    }

    /// The order of a body's nodes; of a body that has none nothing is known.
    pub(super) fn order(&mut self, body: &Body<'a>) -> Result<Vec<usize>, NodeProblem> {
        order::needed(body).map_err(|problem| {
            self.problems.push(problem);
            NodeProblem::Unknown
        })
    }

    /// A node that a function stands for.
    pub(super) fn call(
        &mut self,
        function: &'a FunctionProto,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        let body = Body::of_function(function);
        let order = self.order(&body)?;
        let inputs = self.inputs(proto, name);
        let mut attributes = match self.resolved(proto) {
            Some(own) => own.attribute,
            None => proto.attribute.clone(),
        };
        let given = |one: &&AttributeProto| !attributes.iter().any(|own| own.name == one.name);
        let defaults: Vec<_> = function.attribute_proto.iter().filter(given).cloned().collect();
        attributes.extend(defaults);
        let own = function.opset_import.iter().find(|set| ops::is_standard_domain(&set.domain));
        let opset = own.map_or(self.scope().opset, |set| set.version);
        if !(OLDEST_OPSET..=NEWEST_OPSET).contains(&opset) {
            return Err(NodeProblem::unsupported(format!(
                "its function is written in operator set {opset}, and supported are {OLDEST_OPSET} to {NEWEST_OPSET}; \
                 convert the model with onnx.version_converter"
            )));
        }
        let prefix = self.prefix(name);
        let mut scope = Scope::new(&body, prefix, opset);
        let inputs = inputs.into_iter().chain(std::iter::repeat(Given::Absent));
        scope.names.extend(body.inputs.iter().copied().zip(inputs));
        scope.attributes = Some(attributes);
        self.body(&body, &order, scope, name)
    }

    /// `If`: one of its bodies.
    pub(super) fn branch(
        &mut self,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        let inputs = self.inputs(proto, name);
        let Some(holds) = self.truth(inputs.first(), "cond")? else {
            return Err(NodeProblem::Missing { index: 0, role: "cond" });
        };
        let branch = if holds { "then_branch" } else { "else_branch" };
        let body = Body::of_graph(Attributes::of(proto).graph(branch)?);
        let order = self.order(&body)?;
        let (prefix, opset) = (self.prefix(name), self.scope().opset);
        let scope = Scope::new(&body, prefix, opset);
        self.body(&body, &order, scope, name)
    }

    /// A constant that is one truth value, or one number.
    pub(super) fn number(
        &self,
        given: Option<&Given>,
        role: &'static str,
    ) -> Result<Option<i64>, NodeProblem> {
        match given {
            None | Some(Given::Absent) => Ok(None),
            Some(Given::Unknown) => Err(NodeProblem::Unknown),
            Some(Given::Sequence(_)) => Err(of_sequence()),
            Some(Given::Known(Operand::Integer(_, array))) => match array.data[..] {
                [value] => Ok(Some(value)),
                _ => Err(NodeProblem::shape(format!(
                    "`{role}` has {} elements, expected one",
                    array.data.len()
                ))),
            },
            Some(Given::Known(Operand::Float(_, value) | Operand::Whole(_, value))) => {
                let name = &self.builder.graph.values[*value].name;
                Err(NodeProblem::unsupported(format!(
                    "`{role}` is computed (`{name}`), and only what constants decide is translated; {ADVICE}"
                )))
            }
        }
    }

    fn truth(
        &self,
        given: Option<&Given>,
        role: &'static str,
    ) -> Result<Option<bool>, NodeProblem> {
        Ok(self.number(given, role)?.map(|value| value != 0))
    }

    /// `Loop`: its body as often as it runs.
    pub(super) fn unroll(
        &mut self,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        let inputs = self.inputs(proto, name);
        let rounds = self.number(inputs.first(), "M")?;
        let mut condition = self.truth(inputs.get(1), "cond")?;
        let mut carried: Vec<Given> = inputs.into_iter().skip(2).collect();
        let body = Body::of_graph(Attributes::of(proto).graph("body")?);
        let (count, scanned) = (carried.len(), body.outputs.len().checked_sub(carried.len() + 1));
        let Some(scanned) = scanned.filter(|_| body.inputs.len() == count + 2) else {
            return Err(NodeProblem::shape(format!(
                "its body has {} inputs and {} outputs, which do not fit {count} carried values",
                body.inputs.len(),
                body.outputs.len()
            )));
        };
        let order = self.order(&body)?;
        let mut collected = vec![vec![]; scanned];
        let (prefix, opset) = (self.prefix(name), self.scope().opset);
        for round in 0.. {
            if condition == Some(false) || rounds.is_some_and(|rounds| round >= rounds) {
                break;
            }
            let mut scope = Scope::new(&body, format!("{prefix}{round}/"), opset);
            let constant =
                |kind, value| Given::Known(Operand::integers(kind, Array::scalar(value)));
            let head = [constant(DataType::Int64, round), constant(DataType::Bool, 1)];
            let given = head.into_iter().chain(carried);
            scope.names.extend(body.inputs.iter().copied().zip(given));
            let mut outputs = self.body(&body, &order, scope, name)?.into_iter();
            let next = outputs.next();
            condition = self.truth(next.as_ref(), "the condition of its body")?;
            carried = outputs.by_ref().take(count).collect();
            collected
                .iter_mut()
                .zip(outputs)
                .for_each(|(all, one): (&mut Vec<_>, _)| all.push(one));
        }
        for (at, parts) in collected.into_iter().enumerate() {
            carried.push(self.stack(&format!("{name}/{at}"), parts, 0)?);
        }
        Ok(carried)
    }

    /// `Scan`: its body once for each entry of what it scans.
    pub(super) fn scan(
        &mut self,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        if self.scope().opset < 9 {
            return Err(NodeProblem::unsupported(
                "it is that of operator set 8; convert the model with onnx.version_converter",
            ));
        }
        let mut carried = self.inputs(proto, name);
        let body = Body::of_graph(Attributes::of(proto).graph("body")?);
        let scan = Scan::read(proto, &body, carried.len())?;
        let states = carried.len() - scan.axes.len();
        let whole = carried.split_off(states);
        let rounds = self.rounds(&whole, &scan.axes)?;
        let order = self.order(&body)?;
        let mut collected = vec![vec![]; scan.out_axes.len()];
        let (prefix, opset) = (self.prefix(name), self.scope().opset);
        for round in 0..rounds {
            let mut scope = Scope::new(&body, format!("{prefix}{round}/"), opset);
            let mut entries = vec![];
            for (at, one) in whole.iter().enumerate() {
                let place = if scan.backwards[at] { rounds - 1 - round } else { round };
                let label = format!("{name}/{round}/{at}");
                entries.push(self.entry(&label, one, scan.axes[at], place)?);
            }
            let given = carried.into_iter().chain(entries);
            scope.names.extend(body.inputs.iter().copied().zip(given));
            let mut outputs = self.body(&body, &order, scope, name)?.into_iter();
            carried = outputs.by_ref().take(states).collect();
            collected
                .iter_mut()
                .zip(outputs)
                .for_each(|(all, one): (&mut Vec<_>, _)| all.push(one));
        }
        for (at, mut parts) in collected.into_iter().enumerate() {
            if scan.out_backwards[at] {
                parts.reverse();
            }
            carried.push(self.stack(&format!("{name}/{at}"), parts, scan.out_axes[at])?);
        }
        Ok(carried)
    }

    /// How many entries the inputs of a `Scan` have.
    fn rounds(&self, whole: &[Given], axes: &[i64]) -> Result<usize, NodeProblem> {
        let mut rounds = None;
        for (given, &along) in whole.iter().zip(axes) {
            let shape = match given {
                Given::Known(operand) => self.builder.shape_of(operand),
                Given::Unknown => return Err(NodeProblem::Unknown),
                Given::Sequence(_) => return Err(of_sequence()),
                Given::Absent => {
                    return Err(NodeProblem::Missing { index: 0, role: "scan inputs" });
                }
            };
            let extent = shape[axis(along, shape.len())?];
            if rounds.is_some_and(|rounds| rounds != extent) {
                return Err(NodeProblem::shape("the tensors that it scans differ in length"));
            }
            rounds = Some(extent);
        }
        Ok(rounds.unwrap_or(0))
    }

    /// Entry `place` of a tensor along an axis.
    fn entry(
        &mut self,
        name: &str,
        whole: &Given,
        along: i64,
        place: usize,
    ) -> Result<Given, NodeProblem> {
        let place = Operand::integers(DataType::Int64, Array::scalar(place as i64));
        let inputs = vec![whole.clone(), Given::Known(place)];
        self.apply("Gather", name, inputs, along)
    }

    /// Tensors of one shape as one, along a new axis.
    pub(super) fn stack(
        &mut self,
        name: &str,
        parts: Vec<Given>,
        along: i64,
    ) -> Result<Given, NodeProblem> {
        // What a loop collects that does not run once has no elements.
        if parts.is_empty() {
            return Ok(Given::Absent);
        }
        let mut whole = Vec::with_capacity(parts.len());
        for (at, part) in parts.into_iter().enumerate() {
            let axes = Operand::integers(DataType::Int64, Array::vector(vec![along]));
            let inputs = vec![part, Given::Known(axes)];
            whole.push(self.apply("Unsqueeze", &format!("{name}/{at}"), inputs, along)?);
        }
        self.apply("Concat", name, whole, along)
    }

    /// The output of a node that the model does not have.
    pub(super) fn apply(
        &mut self,
        operator: &str,
        name: &str,
        inputs: Vec<Given>,
        along: i64,
    ) -> Result<Given, NodeProblem> {
        if inputs.iter().any(|given| matches!(given, Given::Unknown)) {
            return Err(NodeProblem::Unknown);
        }
        let kind = AttributeType::Int as i32;
        let attribute =
            AttributeProto { name: "axis".into(), r#type: kind, i: along, ..Default::default() };
        let made = ops::apply(
            (&mut self.builder, &mut self.external),
            (operator, name),
            inputs,
            vec![attribute],
        )?;
        self.builder.hold(&made);
        Ok(Given::Known(made))
    }
}
