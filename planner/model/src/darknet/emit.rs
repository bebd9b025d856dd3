//! From layers to the graph. Every activation has the shape `[1, channels, height, width]`; an
//! output of one place is a vector.

use super::layers::{Kind, Layer, Layers, Shape};
use super::weights::Numbers;
use crate::graph::{Constant, Graph, Node, Op, Value, ValueId, Window};

/// What Darknet adds to a variance.
const EPSILON: f32 = 1e-5;

/// The graph of what the outputs need.
pub(super) fn graph(name: &str, layers: &Layers, mut numbers: Numbers) -> Graph {
    let graph = Graph { name: name.into(), notes: layers.notes.clone(), ..Graph::default() };
    let mut emitter = Emitter { graph, layer: "input", numbers: &mut numbers, values: vec![] };
    let input = emitter.value("", &full(layers.input));
    emitter.graph.inputs.push(input);
    emitter.values.push(Some(input));
    let outputs = layers.outputs();
    for (layer, needed) in layers.layers.iter().zip(needed(layers, &outputs)) {
        emitter.layer = &layer.name;
        let made = match needed {
            true => Some(emitter.emit(layer, layers)),
            false => {
                emitter.numbers.take(layer.numbers);
                None
            }
        };
        emitter.values.push(made);
    }
    for output in outputs {
        emitter.layer = &layers.layers[output].name;
        emitter.output(output, &layers.layers[output]);
    }
    emitter.graph
}

/// Which layers the outputs need.
fn needed(layers: &Layers, outputs: &[usize]) -> Vec<bool> {
    let mut needed = vec![false; layers.layers.len()];
    outputs.iter().for_each(|&output| needed[output] = true);
    for (at, layer) in layers.layers.iter().enumerate().rev() {
        if needed[at] {
            let inputs = layer.inputs.iter().filter_map(|input| input.checked_sub(1));
            inputs.for_each(|input| needed[input] = true);
        }
    }
    needed
}

/// A shape with the batch.
fn full([channels, height, width]: Shape) -> [usize; 4] {
    [1, channels, height, width]
}

struct Emitter<'a> {
    graph: Graph,
    /// Name of the layer, from which its nodes and values have theirs.
    layer: &'a str,
    numbers: &'a mut Numbers,
    /// The image, and what each layer makes, if it is needed.
    values: Vec<Option<ValueId>>,
}

impl Emitter<'_> {
    /// A value that flows; its name has a part behind the layer's, unless that is empty.
    fn value(&mut self, part: &str, shape: &[usize]) -> ValueId {
        let value = Value {
            name: self.named(part),
            shape: shape.to_vec(),
            kind: Default::default(),
            constant: None,
        };
        self.graph.values.push(value);
        self.graph.values.len() - 1
    }

    fn named(&self, part: &str) -> String {
        match part {
            "" => self.layer.into(),
            part => format!("{}/{part}", self.layer),
        }
    }

    fn constant(&mut self, part: &str, shape: &[usize], constant: Constant) -> ValueId {
        let value = self.value(part, shape);
        self.graph.values[value].constant = Some(constant);
        value
    }

    /// Takes the next numbers as a constant.
    fn weights(&mut self, part: &str, shape: &[usize]) -> ValueId {
        let constant = self.numbers.take(shape.iter().product());
        self.constant(part, shape, constant)
    }

    fn node(&mut self, part: &str, op: Op, inputs: &[ValueId], shape: &[usize]) -> ValueId {
        let output = self.value(part, shape);
        let inputs = inputs.iter().map(|&input| Some(input)).collect();
        self.graph.nodes.push(Node { name: self.named(part), op, inputs, outputs: vec![output] });
        output
    }

    fn reshape(&mut self, part: &str, x: ValueId, shape: &[usize]) -> ValueId {
        self.node(part, Op::Reshape, &[x], shape)
    }

    fn emit(&mut self, layer: &Layer, layers: &Layers) -> ValueId {
        // Whatever a needed layer reads is needed.
        let inputs: Vec<ValueId> =
            layer.inputs.iter().filter_map(|&input| self.values[input]).collect();
        let shapes: Vec<Shape> = layer.inputs.iter().map(|&input| layers.shape(input)).collect();
        let (x, before, shape) = (inputs[0], shapes[0], layer.shape);
        match &layer.kind {
            Kind::Convolution { window, groups, norm, activation } => {
                let y = self.convolution(x, before, shape, (window, *groups), *norm);
                self.activated(y, activation, shape)
            }
            Kind::Connected { norm, activation } => {
                let y = self.connected(x, before, shape, *norm);
                self.activated(y, activation, shape)
            }
            Kind::Shortcut { activation } => {
                let mut sum = x;
                for (at, (&other, &from)) in inputs.iter().zip(&shapes).enumerate().skip(1) {
                    let other = self.fitted(at, other, from, shape);
                    sum = self.node(&format!("sum{at}"), Op::Add, &[sum, other], &full(shape));
                }
                self.activated(sum, activation, shape)
            }
            Kind::Route { groups, group } => self.route(&inputs, &shapes, (*groups, *group), shape),
            Kind::MaxPool(window) => {
                let op = Op::MaxPool { window: window.clone(), ceil: false };
                self.node("", op, &[x], &full(shape))
            }
            Kind::Upsample(stride) => self.upsample(x, before, *stride, shape),
            Kind::Average => self.node("", Op::GlobalAveragePool, &[x], &full(shape)),
            Kind::Softmax { groups } => {
                let rows = [*groups, shape[0] / groups];
                let flat = self.reshape("rows", x, &rows);
                let op = Op::Softmax { axis: 1, flat: false };
                let flat = self.node("softmax", op, &[flat], &rows);
                self.reshape("", flat, &full(shape))
            }
            Kind::Reorg { stride, reverse } => self.reorg(x, before, (*stride, *reverse), shape),
            Kind::Activation(activation) => self.activated(x, activation, shape),
            Kind::Product { activation } => {
                let y = self.node("product", Op::Mul, &[inputs[1], x], &full(shape));
                self.activated(y, activation, shape)
            }
            Kind::Same | Kind::Head => x,
        }
    }

    fn activated(&mut self, x: ValueId, activation: &Option<Op>, shape: Shape) -> ValueId {
        match activation {
            Some(op) => self.node("activation", op.clone(), &[x], &full(shape)),
            None => x,
        }
    }

    /// Numbers in the file: biases, of the normalisation scales, means and variances, then the
    /// weights.
    fn convolution(
        &mut self,
        x: ValueId,
        before: Shape,
        shape: Shape,
        (window, groups): (&Window, usize),
        norm: bool,
    ) -> ValueId {
        let filters = [shape[0]];
        let bias = self.weights("bias", &filters);
        let statistics = norm.then(|| self.statistics(&filters));
        let [rows, cols] = window.kernel;
        let weight = self.weights("weight", &[shape[0], before[0] / groups, rows, cols]);
        let op = Op::Conv { window: window.clone(), groups };
        match statistics {
            Some(statistics) => {
                let y = self.node("convolution", op, &[x, weight], &full(shape));
                self.normalised(y, bias, statistics, shape)
            }
            None => self.node("", op, &[x, weight, bias], &full(shape)),
        }
    }

    /// Numbers in the file: biases, the weights, then of the normalisation scales, means and
    /// variances.
    fn connected(&mut self, x: ValueId, before: Shape, shape: Shape, norm: bool) -> ValueId {
        let [outputs, inputs] = [shape[0], before.iter().product()];
        let bias = self.weights("bias", &[outputs]);
        let trans_b = !self.numbers.transposed;
        let weight = match trans_b {
            true => self.weights("weight", &[outputs, inputs]),
            false => self.weights("weight", &[inputs, outputs]),
        };
        let op = Op::Gemm { alpha: 1.0, beta: 1.0, trans_a: false, trans_b };
        let row = self.reshape("row", x, &[1, inputs]);
        if !norm {
            let y = self.node("product", op, &[row, weight, bias], &[1, outputs]);
            return self.reshape("", y, &full(shape));
        }
        let statistics = self.statistics(&[outputs]);
        let y = self.node("product", op, &[row, weight], &[1, outputs]);
        let y = self.reshape("places", y, &full(shape));
        self.normalised(y, bias, statistics, shape)
    }

    /// Scales, means and variances.
    fn statistics(&mut self, channels: &[usize]) -> [ValueId; 3] {
        ["scale", "mean", "variance"].map(|part| self.weights(part, channels))
    }

    fn normalised(
        &mut self,
        x: ValueId,
        bias: ValueId,
        [scale, mean, variance]: [ValueId; 3],
        shape: Shape,
    ) -> ValueId {
        let op = Op::BatchNorm { epsilon: EPSILON };
        self.node("", op, &[x, scale, bias, mean, variance], &full(shape))
    }

    /// What a shortcut adds of another layer: every so many-th place, as many channels as both
    /// have, zeros for others.
    fn fitted(&mut self, at: usize, x: ValueId, from: Shape, to: Shape) -> ValueId {
        let step = from[1] / to[1];
        let mut taken = [from[0].min(to[0]), to[1], to[2]];
        let mut y = x;
        if taken != from {
            let op = Op::Slice { starts: vec![0; 4], steps: vec![1, 1, step, step] };
            y = self.node(&format!("taken{at}"), op, &[y], &full(taken));
        }
        if taken[0] < to[0] {
            let end = vec![0, to[0] - taken[0], 0, 0];
            taken[0] = to[0];
            let op = Op::Pad { begin: vec![0; 4], end, value: 0.0 };
            y = self.node(&format!("filled{at}"), op, &[y], &full(taken));
        }
        y
    }

    fn route(
        &mut self,
        inputs: &[ValueId],
        shapes: &[Shape],
        (groups, group): (usize, usize),
        shape: Shape,
    ) -> ValueId {
        let mut parts = vec![];
        for (at, (&input, from)) in inputs.iter().zip(shapes).enumerate() {
            let channels = from[0] / groups;
            parts.push(match groups {
                1 => input,
                _ => {
                    let starts = vec![0, group * channels, 0, 0];
                    let op = Op::Slice { starts, steps: vec![1; 4] };
                    let taken = full([channels, from[1], from[2]]);
                    self.node(&format!("group{at}"), op, &[input], &taken)
                }
            });
        }
        match parts[..] {
            [only] => only,
            _ => self.node("", Op::Concat { axis: 1 }, &parts, &full(shape)),
        }
    }

    /// Each place is repeated along axes of extent 1 behind height and width.
    fn upsample(
        &mut self,
        x: ValueId,
        [channels, height, width]: Shape,
        stride: usize,
        shape: Shape,
    ) -> ValueId {
        if stride == 1 {
            return x;
        }
        let apart = self.reshape("apart", x, &[1, channels, height, 1, width, 1]);
        let repeated = [1, channels, height, stride, width, stride];
        let repeated = self.node("repeated", Op::Expand, &[apart], &repeated);
        self.reshape("", repeated, &full(shape))
    }

    /// Darknet takes its memory for `[channels / stride², height, stride, width, stride]` and moves
    /// the strides to the front, although the image has other extents: what becomes a channel are
    /// not the places of a square. The reverse is the other way round.
    fn reorg(
        &mut self,
        x: ValueId,
        [channels, height, width]: Shape,
        (stride, reverse): (usize, bool),
        shape: Shape,
    ) -> ValueId {
        let fewer = channels / (stride * stride);
        let (apart, perm) = match reverse {
            true => ([stride, stride, fewer, height, width], [2, 3, 0, 4, 1]),
            false => ([fewer, height, stride, width, stride], [2, 4, 0, 1, 3]),
        };
        let y = self.reshape("apart", x, &apart);
        let moved = perm.map(|axis| apart[axis]);
        let y = self.node("moved", Op::Transpose { perm: perm.to_vec() }, &[y], &moved);
        self.reshape("", y, &full(shape))
    }

    /// What a layer makes becomes an output of its name.
    fn output(&mut self, at: usize, layer: &Layer) {
        let Some(value) = self.values[at + 1] else { return };
        let taken =
            [&self.graph.inputs, &self.graph.outputs].iter().any(|list| list.contains(&value));
        let flat = layer.shape[1..] == [1, 1];
        let output = match taken || flat {
            false => value,
            true => {
                let [channels, height, width] = layer.shape;
                let own = [1, channels, height, width];
                self.reshape("output", value, if flat { &own[..2] } else { &own })
            }
        };
        self.graph.values[output].name.clone_from(&layer.name);
        self.graph.outputs.push(output);
    }
}
