//! The fused form between graph and network: a list of items, each one layer-to-be or a change of
//! view, over the graph's values.

use super::linear::Linear;
use super::{PassError, Work};
use crate::graph::{Constant, Graph, Node, Value, ValueId};
use eyelet::pack::{Activation, ActivationKind, PortType};
use std::sync::Arc;

/// Whole numbers that floats have all of.
pub(crate) const MOST_INDEX: usize = 1 << 24;

/// A graph after fusion.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub name: String,
    pub values: Vec<Value>,
    pub items: Vec<Item>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
}

/// One step of a program.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub name: String,
    pub work: Work,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// Added to the result before the activation (Conv and Rows only).
    pub residual: Option<ValueId>,
    pub activation: Activation,
}

impl Item {
    /// Whether another activation can be applied to the result.
    pub fn takes_activation(&self) -> bool {
        self.activation.kind == ActivationKind::None as u32
            && self.work.operation().takes_activation()
    }

    /// The linear map and its channel axis, if the item is one and nothing follows it yet.
    pub fn bare_linear(&mut self, rank: usize) -> Option<(&mut Linear, usize)> {
        if self.residual.is_some() || self.activation.kind != ActivationKind::None as u32 {
            return None;
        }
        self.work.linear(rank)
    }
}

/// An error of a node that no layer computes.
pub(crate) fn unsupported(node: &Node, what: impl Into<String>, hint: &'static str) -> PassError {
    PassError::Unsupported { node: node.name.clone(), what: what.into(), hint }
}

/// Input `index` of a node.
pub(crate) fn input(node: &Node, index: usize) -> Result<ValueId, PassError> {
    node.inputs.get(index).copied().flatten().ok_or(PassError::Mismatch {
        node: node.name.clone(),
        what: "the number of inputs",
        found: node.inputs.iter().flatten().count(),
        expected: index + 1,
    })
}

/// A program under construction.
pub(crate) struct Builder {
    pub values: Vec<Value>,
    /// In execution order; `None` where an item was fused away.
    pub items: Vec<Option<Item>>,
    producer: Vec<Option<usize>>,
    readers: Vec<usize>,
}

impl Builder {
    pub fn new(graph: &Graph) -> Self {
        let mut readers = vec![0; graph.values.len()];
        for &value in graph.nodes.iter().flat_map(|node| node.inputs.iter().flatten()) {
            readers[value] += 1;
        }
        for &value in &graph.outputs {
            readers[value] += 1;
        }
        Self {
            values: graph.values.clone(),
            items: Vec::new(),
            producer: vec![None; graph.values.len()],
            readers,
        }
    }

    pub fn shape(&self, value: ValueId) -> &[usize] {
        &self.values[value].shape
    }

    pub fn constant(&self, value: ValueId) -> Option<&Constant> {
        self.values[value].constant.as_ref()
    }

    /// A new value with one reader.
    pub fn temporary(&mut self, node: &str, shape: &[usize]) -> ValueId {
        self.values.push(Value {
            name: node.into(),
            shape: shape.into(),
            kind: PortType::default(),
            constant: None,
        });
        self.producer.push(None);
        self.readers.push(1);
        self.values.len() - 1
    }

    /// A new constant.
    pub fn new_constant(&mut self, node: &str, shape: &[usize], data: Vec<f32>) -> ValueId {
        let value = self.temporary(node, shape);
        self.values[value].constant = Some(Constant::Owned(Arc::new(data)));
        value
    }

    pub fn push(&mut self, name: &str, work: Work, inputs: &[ValueId], outputs: &[ValueId]) {
        self.push_active(name, work, inputs, outputs, Activation::NONE);
    }

    pub fn push_active(
        &mut self,
        name: &str,
        work: Work,
        inputs: &[ValueId],
        outputs: &[ValueId],
        activation: Activation,
    ) {
        for &output in outputs {
            self.producer[output] = Some(self.items.len());
        }
        self.items.push(Some(Item {
            name: name.into(),
            work,
            inputs: inputs.into(),
            outputs: outputs.into(),
            residual: None,
            activation,
        }));
    }

    /// The place in the order at which a value is there; 0 for inputs.
    pub fn ready(&self, value: ValueId) -> usize {
        self.producer[value].map_or(0, |index| index + 1)
    }

    /// The item that makes a value, if nobody but the node at hand reads the value.
    pub fn sole_maker(&mut self, value: ValueId) -> Option<&mut Item> {
        if self.readers[value] != 1 {
            return None;
        }
        self.items[self.producer[value]?].as_mut()
    }

    /// The item that makes a value.
    pub fn maker(&self, value: ValueId) -> Option<&Item> {
        self.items[self.producer[value]?].as_ref()
    }

    /// Lets the item that makes `from` make `to` instead.
    pub fn retarget(&mut self, from: ValueId, to: ValueId) {
        let index = self.producer[from];
        self.producer[to] = index;
        if let Some(item) = index.and_then(|index| self.items[index].as_mut()) {
            item.outputs = vec![to];
        }
    }

    /// Removes the item that makes `value`, and with it one reader of each of its inputs.
    pub fn remove(&mut self, value: ValueId) -> Option<Item> {
        let item = self.items[self.producer[value].take()?].take()?;
        for &input in &item.inputs {
            self.readers[input] -= 1;
        }
        Some(item)
    }

    /// Adds a reader.
    pub fn read(&mut self, value: ValueId) {
        self.readers[value] += 1;
    }

    /// The values of a constant that has one for each channel (`axis`) of `shape`, or one for all.
    pub fn per_channel(&self, constant: ValueId, shape: &[usize], axis: usize) -> Option<Vec<f64>> {
        let data = self.constant(constant)?;
        let own = self.shape(constant);
        for (i, &extent) in own.iter().rev().enumerate() {
            let at = shape.len().checked_sub(i + 1);
            if extent != 1 && !(at == Some(axis) && extent == shape[axis]) {
                return None;
            }
        }
        let channels = *shape.get(axis)?;
        let broadcast = if data.len() == 1 { channels } else { 1 };
        (data.len() * broadcast == channels)
            .then(|| (0..channels).map(|i| data.get(i / broadcast).into()).collect())
    }

    /// Folds `x · scale + shift` into the linear map that makes `x`, if nothing comes between.
    /// The two are given for the map's channel axis.
    pub fn fold(
        &mut self,
        x: ValueId,
        y: ValueId,
        coefficients: impl FnOnce(&Self, usize) -> Option<(Vec<f64>, Vec<f64>)>,
    ) -> bool {
        let rank = self.shape(x).len();
        let Some((_, axis)) = self.sole_maker(x).and_then(|item| item.bare_linear(rank)) else {
            return false;
        };
        let Some((scale, shift)) = coefficients(self, axis) else { return false };
        if scale.iter().chain(&shift).any(|value| !value.is_finite()) {
            return false;
        }
        match self.sole_maker(x).and_then(|item| item.bare_linear(rank)) {
            Some((linear, _)) if linear.out_channels == scale.len() => linear.then(&scale, &shift),
            _ => return false,
        }
        self.retarget(x, y);
        true
    }

    /// What tells channels apart, but not positions. Volumes are taken as images whose lines are those of all depths.
    pub fn image(&mut self, name: &str, work: Work, x: ValueId, y: ValueId) {
        let [images, channels, lines @ .., along] = self.shape(x) else {
            return self.push(name, work, &[x], &[y]);
        };
        if lines.len() < 2 {
            return self.push(name, work, &[x], &[y]);
        }
        let flat = [*images, *channels, lines.iter().product(), *along];
        let (wide, made) = (self.reshaped(name, x, &flat), self.temporary(name, &flat));
        self.push(name, work, &[wide], &[made]);
        self.push(name, Work::Reshape, &[made], &[y]);
    }

    pub fn reshaped(&mut self, name: &str, x: ValueId, shape: &[usize]) -> ValueId {
        if self.shape(x) == shape {
            return x;
        }
        let y = self.temporary(name, shape);
        self.push(name, Work::Reshape, &[x], &[y]);
        y
    }

    /// The items that are needed for the outputs.
    pub fn finish(self, graph: &Graph) -> Result<Program, PassError> {
        let mut needed = vec![false; self.values.len()];
        for &output in &graph.outputs {
            needed[output] = true;
        }
        let mut items: Vec<Item> = Vec::new();
        for item in self.items.into_iter().rev().flatten() {
            if item.outputs.iter().any(|&output| needed[output]) {
                for &input in item.inputs.iter().chain(&item.residual) {
                    needed[input] = true;
                }
                items.push(item);
            }
        }
        items.reverse();
        Ok(Program {
            name: graph.name.clone(),
            values: self.values,
            items,
            inputs: graph.inputs.clone(),
            outputs: graph.outputs.clone(),
        })
    }
}
