//! Sequences of tensors, and optional values: known while the model is read, so that nothing of them is left.

use super::super::array::Array;
use super::super::attributes::Attributes;
use super::super::body::Body;
use super::super::builder::Operand;
use super::super::context::{Given, axis};
use super::super::error::NodeProblem;
use super::super::onnx::{DataType, NodeProto};
use super::Importer;
use super::scope::Scope;
use std::rc::Rc;

/// The operators of sequences and optional values.
pub(super) fn is_of_sequences(operator: &str) -> bool {
    operator.starts_with("Sequence")
        || operator.starts_with("Optional")
        || matches!(operator, "SplitToSequence" | "ConcatFromSequence")
}

impl<'a> Importer<'a> {
    /// What a node makes of sequences or optional values.
    pub(super) fn sequences(
        &mut self,
        proto: &'a NodeProto,
        name: &str,
    ) -> Result<Vec<Given>, NodeProblem> {
        let inputs = self.inputs(proto, name);
        if inputs.iter().any(|given| matches!(given, Given::Unknown)) {
            return Err(NodeProblem::Unknown);
        }
        let first = inputs.first().cloned().unwrap_or(Given::Absent);
        let made = match &proto.op_type[..] {
            "SequenceEmpty" => Given::Sequence(Rc::new(vec![])),
            "SequenceConstruct" => Given::Sequence(Rc::new(inputs)),
            "SequenceLength" => {
                let count = sequence(&first)?.len();
                constant(DataType::Int64, count as i64)
            }
            "SequenceAt" => {
                let parts = sequence(&first)?;
                let at = self.place(inputs.get(1), parts.len(), false)?;
                parts[at.unwrap_or_default()].clone()
            }
            "SequenceInsert" => {
                let mut parts = self.copied(&first)?;
                let at = self.place(inputs.get(2), parts.len(), true)?;
                let part = inputs.get(1).cloned().unwrap_or(Given::Absent);
                parts.insert(at.unwrap_or(parts.len()), part);
                Given::Sequence(Rc::new(parts))
            }
            "SequenceErase" => {
                let mut parts = self.copied(&first)?;
                let at = self.place(inputs.get(1), parts.len(), false)?;
                let last = parts.len().checked_sub(1);
                let at = at.or(last).ok_or_else(|| NodeProblem::shape("the sequence is empty"))?;
                parts.remove(at);
                Given::Sequence(Rc::new(parts))
            }
            "SequenceMap" => return self.map(proto, name, inputs),
            "SplitToSequence" => self.split(proto, name, inputs)?,
            "ConcatFromSequence" => self.joined(proto, name, &first)?,
            "Optional" | "OptionalGetElement" => first,
            "OptionalHasElement" => {
                constant(DataType::Bool, i64::from(!matches!(first, Given::Absent)))
            }
            other => {
                return Err(NodeProblem::unsupported(format!("`{other}` is none of ONNX's own")));
            }
        };
        Ok(vec![made])
    }

    /// A sequence to be changed, charged for.
    fn copied(&mut self, given: &Given) -> Result<Vec<Given>, NodeProblem> {
        let parts = sequence(given)?;
        self.builder.charge(parts.len() + 1, size_of::<Given>())?;
        self.builder.allowance.hold(size_of_val(parts));
        Ok(parts.to_vec())
    }

    /// A place in a sequence of so many entries, from either end; one more if something is put there.
    fn place(
        &self,
        given: Option<&Given>,
        count: usize,
        insert: bool,
    ) -> Result<Option<usize>, NodeProblem> {
        let Some(at) = self.number(given, "position")? else { return Ok(None) };
        let counted = if at < 0 { at.saturating_add(count as i64) } else { at };
        let found = usize::try_from(counted).ok();
        match found.filter(|&at| at < count + usize::from(insert)) {
            Some(at) => Ok(Some(at)),
            None => Err(NodeProblem::shape(format!(
                "the position {at} is outside a sequence of {count} entries"
            ))),
        }
    }

    /// A tensor's parts along an axis: of given sizes, or of one entry.
    fn split(
        &mut self,
        proto: &NodeProto,
        name: &str,
        inputs: Vec<Given>,
    ) -> Result<Given, NodeProblem> {
        let attributes = Attributes::of(proto);
        let Some(Given::Known(whole)) = inputs.first() else {
            return Err(NodeProblem::Missing { index: 0, role: "input" });
        };
        let shape = self.builder.shape_of(whole);
        let along = axis(attributes.int_or("axis", 0)?, shape.len())?;
        let extent = shape[along];
        let squeeze = inputs.len() < 2 && !attributes.flag("keepdims", true)?;
        let sizes: Vec<i64> = match inputs.get(1) {
            None | Some(Given::Absent) => vec![1; extent],
            Some(Given::Known(Operand::Integer(_, array))) if array.shape.is_empty() => {
                let each = usize::try_from(array.data[0]).ok().filter(|&each| each > 0);
                let each = each.ok_or_else(|| NodeProblem::shape("parts of no entries"))?;
                let sizes = (0..extent).step_by(each).map(|start| each.min(extent - start) as i64);
                sizes.collect()
            }
            Some(Given::Known(Operand::Integer(_, array))) => array.data.clone(),
            _ => {
                let value = proto.input.get(1).cloned().unwrap_or_default();
                return Err(NodeProblem::NotConstant { role: "split", value });
            }
        };
        self.builder.charge(sizes.len(), shape.len() * size_of::<usize>())?;
        let mut start = 0i64;
        let mut parts = Vec::with_capacity(sizes.len());
        for (at, size) in sizes.into_iter().enumerate() {
            let end = start.saturating_add(size);
            let (inputs, operator) = match squeeze {
                true => (vec![inputs[0].clone(), constant(DataType::Int64, start)], "Gather"),
                false => {
                    let list = |value| {
                        Given::Known(Operand::integers(DataType::Int64, Array::vector(vec![value])))
                    };
                    let bounds = [list(start), list(end), list(along as i64)];
                    ([vec![inputs[0].clone()], bounds.to_vec()].concat(), "Slice")
                }
            };
            parts.push(self.apply(operator, &format!("{name}/{at}"), inputs, along as i64)?);
            start = end;
        }
        Ok(Given::Sequence(Rc::new(parts)))
    }

    /// The parts of a sequence as one tensor, along an axis that they have or a new one.
    fn joined(
        &mut self,
        proto: &NodeProto,
        name: &str,
        parts: &Given,
    ) -> Result<Given, NodeProblem> {
        let attributes = Attributes::of(proto);
        let parts = sequence(parts)?.to_vec();
        let along = attributes.int("axis")?;
        let along = along.ok_or_else(|| NodeProblem::attribute("axis", "is missing"))?;
        match attributes.flag("new_axis", false)? {
            true => self.stack(name, parts, along),
            false => self.apply("Concat", name, parts, along),
        }
    }

    /// A body for each entry of a sequence.
    fn map(
        &mut self,
        proto: &'a NodeProto,
        name: &str,
        inputs: Vec<Given>,
    ) -> Result<Vec<Given>, NodeProblem> {
        let body = Body::of_graph(Attributes::of(proto).graph("body")?);
        let order = self.order(&body)?;
        let first = inputs.first().cloned().unwrap_or(Given::Absent);
        let count = sequence(&first)?.len();
        let (prefix, opset) = (self.prefix(name), self.scope().opset);
        let mut made = vec![vec![]; body.outputs.len()];
        for round in 0..count {
            let mut scope = Scope::new(&body, format!("{prefix}{round}/"), opset);
            let entry = |given: &Given| match given {
                Given::Sequence(parts) => parts.get(round).cloned().unwrap_or(Given::Absent),
                other => other.clone(),
            };
            scope.names.extend(body.inputs.iter().copied().zip(inputs.iter().map(entry)));
            let outputs = self.body(&body, &order, scope, name)?;
            made.iter_mut().zip(outputs).for_each(|(all, one): (&mut Vec<_>, _)| all.push(one));
        }
        Ok(made.into_iter().map(|parts| Given::Sequence(Rc::new(parts))).collect())
    }
}

fn constant(kind: DataType, value: i64) -> Given {
    Given::Known(Operand::integers(kind, Array::scalar(value)))
}

fn sequence(given: &Given) -> Result<&[Given], NodeProblem> {
    match given {
        Given::Sequence(parts) => Ok(parts),
        Given::Unknown => Err(NodeProblem::Unknown),
        Given::Absent => Err(NodeProblem::Missing { index: 0, role: "sequence" }),
        Given::Known(_) => Err(NodeProblem::shape("a tensor is read where a sequence is needed")),
    }
}
