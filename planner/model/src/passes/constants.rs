//! Constants that must be computed: outputs, and operands that no layer reads from its weights. They are copied in every
//! inference, by layers that need something that flows.
//!
//! Such a value is a [`Mask`](Op::Mask) whose constant takes every place of an element of an
//! input. Where the constant is NaN that element would remain: then NaN is added to it first.

use super::PassError;
use crate::graph::{Constant, Graph, Node, Op, Value, ValueId};
use eyelet::pack::{PortType, WordOp};
use std::sync::Arc;

/// Lets nodes compute the outputs that are constant, and the operands that must not be.
pub(super) fn flow(graph: &mut Graph) -> Result<(), PassError> {
    operands(graph);
    for at in 0..graph.outputs.len() {
        let output = graph.outputs[at];
        if graph.values[output].constant.is_none() {
            continue;
        }
        let name = graph.values[output].name.clone();
        let Some(&source) = graph.inputs.first() else {
            return Err(PassError::Unsupported {
                node: name,
                what: "it is constant, and the model has no input".into(),
                hint: "nothing is left to compute: keep the constant in the program",
            });
        };
        graph.outputs[at] = made_of(graph, &name, source, output);
    }
    Ok(())
}

/// Lets nodes compute constant operands where a layer needs one that flows.
fn operands(graph: &mut Graph) {
    let fixed = |graph: &Graph, value: ValueId| graph.values[value].constant.is_some();
    for mut node in std::mem::take(&mut graph.nodes) {
        let mut given = node.inputs.iter().copied().flatten();
        let flowing = given.find(|&value| !fixed(graph, value));
        let source = flowing.or(graph.inputs.first().copied());
        for input in node.inputs.iter_mut().flatten() {
            // Without any operand that flows the work was too much for the importer to do beforehand.
            let first = flowing.is_none();
            if (first || matches!(node.op, Op::GridSample(_)))
                && fixed(graph, *input)
                && let Some(source) = source
            {
                *input = made_of(graph, &node.name, source, *input);
                if first {
                    break;
                }
            }
        }
        graph.nodes.push(node);
    }
}

/// A value that flows and is always what the constant is: made as one row, so that its rank does
/// not matter.
fn made_of(graph: &mut Graph, name: &str, source: ValueId, constant: ValueId) -> ValueId {
    let Value { shape, kind, constant, .. } = graph.values[constant].clone();
    let count = shape.iter().product();
    let data = constant.as_ref().map(Constant::to_vec).unwrap_or_default();
    let inputs = graph.values[source].elements();
    let row = add(graph, name, Op::Reshape, &[source], vec![inputs]);
    let slice = Op::Slice { starts: vec![0], steps: vec![1] };
    let mut one = add(graph, name, slice, &[row], vec![1]);
    // What the constant is written over has its type.
    let convert = match (graph.values[source].kind.is_integer(), kind.is_integer()) {
        (false, true) => Some(WordOp::Cut),
        (true, false) => Some(WordOp::Float),
        _ => None,
    };
    if let Some(op) = convert {
        one = add(graph, name, Op::Words(op), &[one], vec![1]);
    }
    if kind.is_integer() {
        let all = add(graph, name, Op::Expand, &[one], vec![count]);
        let fixed = |graph: &mut Graph, shape: Vec<usize>, constant| {
            graph.values.push(Value { name: name.into(), shape, kind, constant });
            graph.values.len() - 1
        };
        let always = fixed(graph, vec![1], Some(Constant::Words(Arc::new(vec![1]))));
        let constant = fixed(graph, vec![count], constant);
        let chosen = add(graph, name, Op::Where, &[always, constant, all], vec![count]);
        let made = add(graph, name, Op::Reshape, &[chosen], shape);
        graph.values[made].kind = kind;
        return made;
    }
    let fixed = |graph: &mut Graph, shape: Vec<usize>, constant| {
        graph.values.push(Value { name: name.into(), shape, kind: PortType::default(), constant });
        graph.values.len() - 1
    };
    if data.iter().any(|value| value.is_nan()) {
        let nan = Some(Constant::Owned(Arc::new(vec![f32::NAN])));
        let nan = fixed(graph, vec![1], nan);
        one = add(graph, name, Op::Add, &[one, nan], vec![1]);
    }
    let all = add(graph, name, Op::Expand, &[one], vec![count]);
    let constant = fixed(graph, vec![count], constant);
    let masked = add(graph, name, Op::Mask, &[all, constant], vec![count]);
    add(graph, name, Op::Reshape, &[masked], shape)
}

/// Adds a node; its output.
fn add(graph: &mut Graph, name: &str, op: Op, inputs: &[ValueId], shape: Vec<usize>) -> ValueId {
    graph.values.push(Value {
        name: name.into(),
        shape,
        kind: PortType::default(),
        constant: None,
    });
    let output = graph.values.len() - 1;
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.nodes.push(Node { name: name.into(), op, inputs, outputs: vec![output] });
    output
}
