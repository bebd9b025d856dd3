//! Graphs, node by node: constants are noise, another one each.

use super::noise;
use eyelet_planner::graph::{Constant, Graph, Node, Op, Value, ValueId};
use std::sync::Arc;

/// A graph to which nodes are added.
#[derive(Default)]
pub struct Net(pub Graph);

impl Net {
    pub fn value(&mut self, shape: &[usize], constant: Option<Vec<f32>>) -> ValueId {
        let name = format!("v{}", self.0.values.len());
        let constant = constant.map(|data| Constant::Owned(Arc::new(data)));
        self.0.values.push(Value {
            name,
            shape: shape.to_vec(),
            kind: Default::default(),
            constant,
        });
        self.0.values.len() - 1
    }

    pub fn weights(&mut self, shape: &[usize]) -> ValueId {
        let count = shape.iter().product();
        let data = noise(count, self.0.values.len() as u64);
        self.value(shape, Some(data))
    }

    pub fn node(&mut self, op: Op, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        let y = self.value(shape, None);
        let inputs = inputs.iter().map(|&value| Some(value)).collect();
        let name = format!("n{}", self.0.nodes.len());
        self.0.nodes.push(Node { name, op, inputs, outputs: vec![y] });
        y
    }

    pub fn same(&mut self, op: Op, inputs: &[ValueId]) -> ValueId {
        let shape = self.0.values[inputs[0]].shape.clone();
        self.node(op, inputs, &shape)
    }
}
