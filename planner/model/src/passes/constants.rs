//! Constants that must be computed: outputs, and operands that no layer reads from its weights. They are made in every
//! inference, by layers without an input: a model may have none.
//!
//! Such a value is filled with one number, and its constant is then written over that: floats by a
//! [`Mask`](Op::Mask) over NaN, words by a sum with 0. Floats that are all the same are only filled.

use crate::graph::{Constant, Graph, Node, Op, Value, ValueId};
use eyelet::pack::IntegerOp;

/// Lets nodes compute the outputs that are constant, and the operands that must not be.
pub(super) fn flow(graph: &mut Graph) {
    operands(graph);
    for at in 0..graph.outputs.len() {
        let output = graph.outputs[at];
        if graph.values[output].constant.is_some() {
            let name = graph.values[output].name.clone();
            graph.outputs[at] = made_of(graph, &name, output);
        }
    }
}

/// Lets nodes compute constant operands where a layer needs one that flows.
fn operands(graph: &mut Graph) {
    let fixed = |graph: &Graph, value: ValueId| graph.values[value].constant.is_some();
    for mut node in std::mem::take(&mut graph.nodes) {
        // Without any operand that flows the work was too much for the importer to do beforehand.
        let first = node.inputs.iter().flatten().all(|&value| fixed(graph, value));
        for input in node.inputs.iter_mut().flatten() {
            if (first || matches!(node.op, Op::GridSample(_))) && fixed(graph, *input) {
                *input = made_of(graph, &node.name, *input);
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
fn made_of(graph: &mut Graph, name: &str, constant: ValueId) -> ValueId {
    let value = graph.values[constant].clone();
    let row = Value { shape: vec![value.elements()], name: name.into(), ..value };
    let (shape, data) = (value.shape, row.constant.as_ref().map_or(vec![], Constant::to_vec));
    let words = row.kind.is_integer();
    let same = data.windows(2).all(|pair| pair[0].to_bits() == pair[1].to_bits());
    let fill = match data.first() {
        _ if words => 0.0,
        Some(&first) if same => first,
        _ => f32::NAN,
    };
    let mut made = add(graph, Op::Fill { value: fill }, &[], &row);
    if words || !same {
        graph.values.push(row.clone());
        let constant = graph.values.len() - 1;
        let over = if words { Op::Words(IntegerOp::Add) } else { Op::Mask };
        made = add(graph, over, &[made, constant], &row);
    }
    add(graph, Op::Reshape, &[made], &Value { shape, ..row })
}

/// Adds a node that makes a value like this one; its output.
fn add(graph: &mut Graph, op: Op, inputs: &[ValueId], like: &Value) -> ValueId {
    graph.values.push(Value { constant: None, ..like.clone() });
    let output = graph.values.len() - 1;
    let inputs = inputs.iter().copied().map(Some).collect();
    graph.nodes.push(Node { name: like.name.clone(), op, inputs, outputs: vec![output] });
    output
}
