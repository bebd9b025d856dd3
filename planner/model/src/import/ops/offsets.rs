//! What computed integers differ by: ends that are a start and a constant number of elements after it.

use super::super::array::{elements, strides};
use crate::graph::{Constant, Graph, Node, Op, ValueId};
use eyelet::pack::IntegerOp;

/// Elements that are followed back from one.
const MOST: usize = 64;

/// An element of a value: an element that nothing more is known of, and a constant added to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sum {
    /// None of a constant.
    base: Option<(ValueId, usize)>,
    constant: f64,
}

/// The difference of two elements, `a - b`, where it is the same whatever the inputs are. What flows as words wraps.
pub(super) fn difference(graph: &Graph, a: (ValueId, usize), b: (ValueId, usize)) -> Option<f64> {
    let [a, b] = [a, b].map(|element| resolved(graph, element, &mut MOST.clone()));
    (a.base == b.base).then_some(a.constant - b.constant)
}

/// An element that follows from constants alone.
pub(super) fn known(graph: &Graph, element: (ValueId, usize)) -> Option<f64> {
    let found = resolved(graph, element, &mut MOST.clone());
    found.base.is_none().then_some(found.constant)
}

fn constant(of: &Constant, at: usize) -> f64 {
    match of {
        Constant::Words(words) => words[at].into(),
        floats => floats.get(at).into(),
    }
}

fn resolved(graph: &Graph, (value, at): (ValueId, usize), left: &mut usize) -> Sum {
    let found = &graph.values[value];
    if let Some(of) = &found.constant {
        return Sum { base: None, constant: constant(of, at) };
    }
    let unknown = Sum { base: Some((value, at)), constant: 0.0 };
    let Some(rest) = left.checked_sub(1) else { return unknown };
    *left = rest;
    let node = graph.nodes.iter().rev().find(|node| node.outputs.contains(&value));
    node.and_then(|node| by_node(graph, node, (value, at), left)).unwrap_or(unknown)
}

fn by_node(
    graph: &Graph,
    node: &Node,
    (value, at): (ValueId, usize),
    left: &mut usize,
) -> Option<Sum> {
    let shape = &graph.values[value].shape;
    let input = |index: usize| node.inputs.get(index).copied().flatten();
    match &node.op {
        Op::Reshape => Some(resolved(graph, (input(0)?, at), left)),
        Op::Words(op @ (IntegerOp::Add | IntegerOp::Sub)) => {
            sum(graph, [input(0)?, input(1)?], (shape, at), *op == IntegerOp::Sub, left)
        }
        Op::Add | Op::Sub => {
            sum(graph, [input(0)?, input(1)?], (shape, at), node.op == Op::Sub, left)
        }
        Op::Concat { axis: 0 } if shape.len() == 1 => {
            let mut at = at;
            for part in node.inputs.iter().copied().flatten() {
                let count = graph.values[part].elements();
                if at < count {
                    return Some(resolved(graph, (part, at), left));
                }
                at -= count;
            }
            None
        }
        Op::Slice { starts, steps } if shape.len() == 1 => {
            Some(resolved(graph, (input(0)?, starts[0] + at * steps[0]), left))
        }
        _ => None,
    }
}

/// Two elements added, or one taken from the other; one of them is constant, or their bases cancel.
fn sum(
    graph: &Graph,
    inputs: [ValueId; 2],
    (shape, at): (&[usize], usize),
    minus: bool,
    left: &mut usize,
) -> Option<Sum> {
    let [a, b] = inputs.map(|input| {
        let place = broadcast_place(shape, &graph.values[input].shape, at);
        resolved(graph, (input, place), left)
    });
    let constant = if minus { a.constant - b.constant } else { a.constant + b.constant };
    let base = match (a.base, b.base) {
        (base, None) => base,
        (None, base) if !minus => base,
        (a, b) if minus && a == b => None,
        _ => return None,
    };
    Some(Sum { base, constant })
}

/// The element of an operand that broadcasts to a shape.
fn broadcast_place(shape: &[usize], own: &[usize], at: usize) -> usize {
    let (of, new) = (strides(shape), shape.len() - own.len());
    let own_strides = strides(own);
    let along = |axis: usize| at / of[axis + new] % shape[axis + new] % own[axis];
    match elements(own) {
        Some(1) => 0,
        _ => (0..own.len()).map(|axis| along(axis) * own_strides[axis]).sum(),
    }
}
