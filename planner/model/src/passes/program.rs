//! The fused form between graph and network: a list of items, each one layer-to-be or a change of
//! view, over the graph's values.

use super::PassError;
use super::affine::Linear;
use crate::graph::{
    Constant, Graph, Recurrence, Resampling, Sampling, Suppression, Value, ValueId, Window,
};
use eyelet::pack::{
    Activation, ActivationKind, BinaryOp, FoldOp, IntegerOp, LrnParams, PortType, ReduceOp,
    ScatterOp,
};
use std::sync::Arc;

/// A graph after fusion.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub name: String,
    pub values: Vec<Value>,
    pub items: Vec<Item>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
}

/// One step of a program.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub name: String,
    pub work: Work,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// Added to the result before the activation (Conv and Rows only).
    pub residual: Option<ValueId>,
    pub activation: Activation,
}

/// What an item does.
#[derive(Clone, Debug)]
pub(super) enum Work {
    /// Convolution over an image, or per channel.
    Conv {
        window: Window,
        linear: Linear,
        depthwise: bool,
    },
    /// A constant matrix applied along the last axis.
    Rows {
        linear: Linear,
    },
    /// Maximum or average over windows.
    Pool {
        average: bool,
        window: Window,
        count_include_pad: bool,
    },
    /// The activation alone.
    Unary,
    /// Arithmetic; one of the inputs may be a constant.
    Binary {
        op: BinaryOp,
    },
    /// An operation on words; one of two inputs may be a constant.
    Words {
        op: IntegerOp,
    },
    /// One of two inputs, as a third one says; some may be constants.
    Where,
    /// A reduction of words.
    Fold {
        op: FoldOp,
        axes: Vec<usize>,
        keep: bool,
        last: bool,
    },
    /// The places of the first of the second axis of three, in order.
    Order {
        largest: bool,
        integers: bool,
    },
    Suppress(Suppression),
    /// Rows of a matrix, some of which are replaced: indices are the second input, rows the third.
    Scatter {
        op: ScatterOp,
    },
    /// Over one axis.
    Softmax {
        axis: usize,
    },
    Lrn {
        params: LrnParams,
    },
    /// Products of the last two axes, times a number.
    MatMul {
        scale: f64,
    },
    /// Over the last axis.
    LayerNorm {
        epsilon: f32,
        about_zero: bool,
        scale: Vec<f64>,
        shift: Vec<f64>,
    },
    /// Rows of a table: a linear map of what would be one-hot vectors.
    Gather {
        linear: Linear,
    },
    /// Rows of a matrix by constants, or by a second input.
    Take {
        indices: Option<Constant>,
    },
    /// Over axes.
    Reduce {
        op: ReduceOp,
        axes: Vec<usize>,
        keep: bool,
    },
    Concat {
        axis: usize,
    },
    Split {
        axis: usize,
        sizes: Vec<usize>,
    },
    Slice {
        starts: Vec<usize>,
        steps: Vec<usize>,
    },
    Reshape,
    Expand,
    /// One number everywhere: it has no input.
    Fill {
        value: f32,
    },
    Transpose {
        perm: Vec<usize>,
    },
    Resample(Resampling),
    GridSample(Sampling),
    /// Over times: what gates are given, and the state at the beginning.
    Recurrent {
        recurrence: Recurrence,
        /// `[gates · hidden, hidden]`
        weights: Constant,
        /// Of the weights.
        biases: Option<Constant>,
        peepholes: Option<Constant>,
    },
    Pad {
        begin: Vec<usize>,
        end: Vec<usize>,
        value: f32,
    },
}

impl Item {
    /// Whether another activation can be applied to the result.
    pub fn takes_activation(&self) -> bool {
        self.activation.kind == ActivationKind::None as u32
            && matches!(
                self.work,
                Work::Conv { .. }
                    | Work::Rows { .. }
                    | Work::Binary { .. }
                    | Work::LayerNorm { .. }
                    | Work::Reduce { .. }
                    | Work::Resample(_)
            )
    }

    /// The linear map and its channel axis, if the item is one and nothing follows it yet.
    pub fn bare_linear(&mut self, rank: usize) -> Option<(&mut Linear, usize)> {
        if self.residual.is_some() || self.activation.kind != ActivationKind::None as u32 {
            return None;
        }
        match &mut self.work {
            Work::Conv { linear, .. } => Some((linear, 1)),
            Work::Rows { linear } | Work::Gather { linear } => Some((linear, rank - 1)),
            _ => None,
        }
    }
}

/// A program under construction.
pub(super) struct Builder {
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
