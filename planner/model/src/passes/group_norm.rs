//! Group normalisation as exporters write it: the channels of a group become one axis, each group is
//! normalised as if it were a channel, the axes come back, and scale and shift follow.
//!
//! What is found is one node over the image as it lies, which no copy rearranges.

use crate::graph::{Constant, Graph, Op, Value, ValueId};
use eyelet::pack::PortType;
use std::sync::Arc;

/// Joins reshaping, scale and shift to the group normalisations between them.
pub(super) fn join(graph: &mut Graph) {
    let mut maker = vec![None; graph.values.len()];
    for at in 0..graph.nodes.len() {
        let output = graph.nodes[at].outputs[0];
        let joined = match graph.nodes[at].op {
            Op::Reshape => reshaped(graph, &maker, at),
            Op::Mul => scaled(graph, &maker, at, 1),
            Op::Add => scaled(graph, &maker, at, 2),
            _ => None,
        };
        if let Some((op, inputs)) = joined {
            graph.nodes[at].op = op;
            graph.nodes[at].inputs = inputs;
            maker.resize(graph.values.len(), None);
        }
        maker[output] = Some(at);
    }
}

type Joined = Option<(Op, Vec<Option<ValueId>>)>;

fn readers(graph: &Graph, value: ValueId) -> usize {
    let read = graph.nodes.iter().flat_map(|node| &node.inputs).flatten();
    read.chain(&graph.outputs).filter(|&&other| other == value).count()
}

/// A normalisation of reshaped channels that are given their shape back: one of groups.
fn reshaped(graph: &Graph, maker: &[Option<usize>], at: usize) -> Joined {
    let shape = |value: ValueId| &graph.values[value].shape[..];
    let node = &graph.nodes[at];
    let norm = &graph.nodes[maker[node.inputs[0]?]?];
    let Op::GroupNorm { groups, epsilon } = norm.op else { return None };
    let inner = &graph.nodes[maker[norm.inputs[0]?]?];
    let (x, y, folded) = (inner.inputs.first().copied()??, node.outputs[0], norm.outputs[0]);
    let same = inner.op == Op::Reshape && shape(x) == shape(y) && shape(x).len() >= 2;
    // Each group is an axis of its own, and images stay apart.
    let apart = shape(folded).get(1) == Some(&groups) && shape(folded).first() == shape(x).first();
    let channels = *shape(x).get(1)?;
    if !same || !apart || !channels.is_multiple_of(groups) {
        return None;
    }
    let neutral = |index: usize, neutral: f32| match norm.inputs.get(index).copied().flatten() {
        None => true,
        Some(value) => {
            let constant = graph.values[value].constant.as_ref();
            constant.is_some_and(|data| (0..data.len()).all(|i| data.get(i) == neutral))
        }
    };
    let plain = neutral(1, 1.0) && neutral(2, 0.0);
    plain.then(|| (Op::GroupNorm { groups, epsilon }, vec![Some(x), None, None]))
}

/// A normalisation that nobody else reads, times or plus one constant a channel: its scale (1) or
/// shift (2).
fn scaled(graph: &mut Graph, maker: &[Option<usize>], at: usize, which: usize) -> Joined {
    let node = &graph.nodes[at];
    let &[Some(a), Some(b)] = &node.inputs[..] else { return None };
    let shape = graph.values[node.outputs[0]].shape.clone();
    let (made, constant) = match (&graph.values[a].constant, &graph.values[b].constant) {
        (None, Some(_)) => (a, b),
        (Some(_), None) => (b, a),
        _ => return None,
    };
    let norm = &graph.nodes[maker[made]?];
    let (op, mut inputs) = (norm.op.clone(), norm.inputs.clone());
    let Op::GroupNorm { .. } = op else { return None };
    inputs.resize(3, None);
    // A scale does not follow a shift.
    let free = inputs[which..].iter().all(Option::is_none);
    if !free || readers(graph, made) != 1 || graph.values[made].shape != shape {
        return None;
    }
    let channels = shape[1];
    let own = &graph.values[constant].shape;
    let axis = (own.len() + 1).checked_sub(shape.len())?;
    let each = own.iter().enumerate().all(|(i, &extent)| extent == 1 || i == axis);
    let data = graph.values[constant].constant.as_ref()?.to_vec();
    if !each || data.len() != channels {
        return None;
    }
    let (name, constant) = (format!("{}/channels", node.name), Constant::Owned(Arc::new(data)));
    graph.values.push(Value {
        name,
        shape: vec![channels],
        kind: PortType::default(),
        constant: Some(constant),
    });
    inputs[which] = Some(graph.values.len() - 1);
    Some((op, inputs))
}
