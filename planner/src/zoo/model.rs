//! A network being described: nodes, and initializers of known size that are filled later.
//!
//! Along with its shape every value carries the mean and variance its elements should have, so that
//! each layer's weights can be scaled for the input it gets. The moments are those of independent
//! Gaussian values; what is not (pooling, borders) shifts them a little, and the next layer takes the
//! estimate as it is.

use super::fill::Fill;
use crate::import::onnx::{AttributeProto, AttributeType, NodeProto};

/// A network, without its weights.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    nodes: Vec<NodeProto>,
    initializers: Vec<Initializer>,
    input_shape: Vec<usize>,
    output_shape: Vec<usize>,
    parameters: usize,
    macs: u64,
}

/// A constant of the network.
#[derive(Clone, Debug)]
pub struct Initializer {
    pub name: String,
    pub dims: Vec<usize>,
    pub(super) fill: Fill,
}

impl Initializer {
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Number of filters and elements of each; a vector is one row.
    pub(super) fn rows(&self) -> (usize, usize) {
        match self.dims[..] {
            [rows, _, ..] => (rows, self.elements() / rows),
            _ => (1, self.elements()),
        }
    }
}

/// An activation of batch 1.
#[derive(Clone, Debug)]
pub(super) struct Value {
    name: String,
    /// Without the batch: channels and, unless flat, height and width.
    shape: Vec<usize>,
    mean: f32,
    variance: f32,
}

impl Value {
    pub(super) fn channels(&self) -> usize {
        self.shape[0]
    }
}

/// A convolution's shape; the rest are its defaults: stride 1, one group, padded to keep the extent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub out_channels: usize,
    pub kernel: usize,
    pub stride: usize,
    pub pad: usize,
    pub groups: usize,
}

impl Conv {
    pub(super) fn new(out_channels: usize, kernel: usize) -> Conv {
        Conv { out_channels, kernel, stride: 1, pad: kernel / 2, groups: 1 }
    }

    pub(super) fn stride(self, stride: usize) -> Conv {
        Conv { stride, ..self }
    }

    pub(super) fn pad(self, pad: usize) -> Conv {
        Conv { pad, ..self }
    }

    pub(super) fn groups(self, groups: usize) -> Conv {
        Conv { groups, ..self }
    }
}

/// A pooling window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool {
    pub kernel: usize,
    pub stride: usize,
    pub pad: usize,
    pub ceil: bool,
}

/// Standard deviation of biases, relative to their layer's output.
const BIAS_STD: f32 = 0.1;

/// Mean and variance of max(0, x) for a standard Gaussian x: 1/√(2π) and (1 − 1/π)/2.
const RELU_MEAN: f32 = 0.398_942_3;
const RELU_VARIANCE: f32 = 0.340_845_06;

impl Model {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn nodes(&self) -> &[NodeProto] {
        &self.nodes
    }

    pub fn initializers(&self) -> &[Initializer] {
        &self.initializers
    }

    /// Shape of `input`, with the batch.
    pub fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    /// Shape of `output`, with the batch.
    pub fn output_shape(&self) -> &[usize] {
        &self.output_shape
    }

    /// Elements of all weights and biases.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Multiply-accumulates of all convolutions and matrix products of one inference, without biases.
    pub fn macs(&self) -> u64 {
        self.macs
    }

    /// A network that takes images of that many channels, height and width, and its input.
    pub(super) fn new(name: &str, image: [usize; 3]) -> (Model, Value) {
        let model = Model {
            name: name.to_string(),
            nodes: Vec::new(),
            initializers: Vec::new(),
            input_shape: [&[1], &image[..]].concat(),
            output_shape: Vec::new(),
            parameters: 0,
            macs: 0,
        };
        let input =
            Value { name: "input".to_string(), shape: image.to_vec(), mean: 0.0, variance: 1.0 };
        (model, input)
    }

    /// A convolution with bias whose output has mean 0 and about the given variance.
    pub(super) fn conv(&mut self, layer: &str, x: &Value, conv: Conv, variance: f32) -> Value {
        let [channels, height, width] = x.shape[..] else { panic!("{layer}: input is flat") };
        let extent = |n: usize| (n + 2 * conv.pad - conv.kernel) / conv.stride + 1;
        let shape = vec![conv.out_channels, extent(height), extent(width)];
        let weight = [conv.out_channels, channels / conv.groups, conv.kernel, conv.kernel].to_vec();
        self.macs += (weight.iter().product::<usize>() * shape[1] * shape[2]) as u64;
        // A depthwise filter is too short to be centred: little would be left of it.
        let inputs = self.weights(layer, x, weight, variance, conv.groups == 1);
        let attributes = vec![
            ints("dilations", &[1, 1]),
            int("group", conv.groups),
            ints("kernel_shape", &[conv.kernel; 2]),
            ints("pads", &[conv.pad; 4]),
            ints("strides", &[conv.stride; 2]),
        ];
        self.node("Conv", layer, inputs, attributes);
        Value { name: layer.to_string(), shape, mean: 0.0, variance }
    }

    /// A fully connected layer with bias, as `conv`.
    pub(super) fn gemm(&mut self, layer: &str, x: &Value, out: usize, variance: f32) -> Value {
        let weight = vec![out, x.shape.iter().product()];
        self.macs += weight.iter().product::<usize>() as u64;
        let inputs = self.weights(layer, x, weight, variance, true);
        let attributes = vec![float("alpha", 1.0), float("beta", 1.0), int("transB", 1)];
        self.node("Gemm", layer, inputs, attributes);
        Value { name: layer.to_string(), shape: vec![out], mean: 0.0, variance }
    }

    /// Adds weight and bias of a layer; returns the node's inputs.
    fn weights(
        &mut self,
        layer: &str,
        x: &Value,
        dims: Vec<usize>,
        variance: f32,
        centre: bool,
    ) -> Vec<String> {
        let (rows, fan_in) = (dims[0], dims[1..].iter().product::<usize>() as f32);
        let fill = match centre && x.mean > 0.0 {
            true => Fill::Centred { std: (variance / (fan_in * x.variance)).sqrt() },
            false => {
                Fill::Normal { std: (variance / (fan_in * (x.variance + x.mean * x.mean))).sqrt() }
            }
        };
        let bias = Fill::Normal { std: BIAS_STD * variance.sqrt() };
        self.parameters += dims.iter().product::<usize>() + rows;
        let weight = self.initializer(&format!("{layer}.weight"), dims, fill);
        let bias = self.initializer(&format!("{layer}.bias"), vec![rows], bias);
        vec![x.name.clone(), weight, bias]
    }

    pub(super) fn relu(&mut self, layer: &str, x: &Value) -> Value {
        self.node("Relu", layer, vec![x.name.clone()], vec![]);
        Model::rectified(layer, x)
    }

    pub(super) fn relu6(&mut self, layer: &str, x: &Value) -> Value {
        if !self.initializers.iter().any(|known| known.name == "relu6.min") {
            self.initializer("relu6.min", vec![], Fill::Constant(0.0));
            self.initializer("relu6.max", vec![], Fill::Constant(6.0));
        }
        let inputs = [&x.name, "relu6.min", "relu6.max"].map(str::to_string).to_vec();
        self.node("Clip", layer, inputs, vec![]);
        Model::rectified(layer, x)
    }

    fn rectified(layer: &str, x: &Value) -> Value {
        // What has a mean is a sum of something rectified and a smaller branch: mostly positive still.
        let (mean, variance) = match x.mean > 0.0 {
            true => (x.mean, x.variance),
            false => (x.variance.sqrt() * RELU_MEAN, x.variance * RELU_VARIANCE),
        };
        Value { name: layer.to_string(), shape: x.shape.clone(), mean, variance }
    }

    pub(super) fn add(&mut self, layer: &str, a: &Value, b: &Value) -> Value {
        assert_eq!(a.shape, b.shape, "{layer}");
        self.node("Add", layer, vec![a.name.clone(), b.name.clone()], vec![]);
        Value {
            name: layer.to_string(),
            shape: a.shape.clone(),
            mean: a.mean + b.mean,
            variance: a.variance + b.variance,
        }
    }

    /// Concatenates along channels two values of like moments.
    pub(super) fn concat(&mut self, layer: &str, a: &Value, b: &Value) -> Value {
        assert_eq!(a.shape[1..], b.shape[1..], "{layer}");
        self.node("Concat", layer, vec![a.name.clone(), b.name.clone()], vec![int("axis", 1)]);
        let mut shape = a.shape.clone();
        shape[0] += b.shape[0];
        Value { name: layer.to_string(), shape, mean: a.mean, variance: a.variance }
    }

    pub(super) fn max_pool(&mut self, layer: &str, x: &Value, pool: Pool) -> Value {
        let extent = |n: usize| {
            let span = n + 2 * pool.pad - pool.kernel;
            (if pool.ceil { span.div_ceil(pool.stride) } else { span / pool.stride }) + 1
        };
        let attributes = vec![
            int("ceil_mode", pool.ceil.into()),
            ints("dilations", &[1, 1]),
            ints("kernel_shape", &[pool.kernel; 2]),
            ints("pads", &[pool.pad; 4]),
            ints("strides", &[pool.stride; 2]),
        ];
        self.node("MaxPool", layer, vec![x.name.clone()], attributes);
        let shape = vec![x.shape[0], extent(x.shape[1]), extent(x.shape[2])];
        Value { name: layer.to_string(), shape, ..x.clone() }
    }

    pub(super) fn global_average_pool(&mut self, layer: &str, x: &Value) -> Value {
        self.node("GlobalAveragePool", layer, vec![x.name.clone()], vec![]);
        Value { name: layer.to_string(), shape: vec![x.shape[0], 1, 1], ..x.clone() }
    }

    pub(super) fn flatten(&mut self, layer: &str, x: &Value) -> Value {
        self.node("Flatten", layer, vec![x.name.clone()], vec![int("axis", 1)]);
        let shape = vec![x.shape.iter().product()];
        Value { name: layer.to_string(), shape, ..x.clone() }
    }

    /// The network whose last value is `last`, which takes the name `output`.
    pub(super) fn finish(mut self, last: Value) -> Model {
        if let Some(node) = self.nodes.last_mut() {
            assert_eq!(node.output, [last.name]);
            node.output = vec!["output".to_string()];
        }
        self.output_shape = [&[1], &last.shape[..]].concat();
        self
    }

    fn initializer(&mut self, name: &str, dims: Vec<usize>, fill: Fill) -> String {
        self.initializers.push(Initializer { name: name.to_string(), dims, fill });
        name.to_string()
    }

    /// A node named as its only output.
    fn node(&mut self, op: &str, name: &str, input: Vec<String>, attribute: Vec<AttributeProto>) {
        self.nodes.push(NodeProto {
            input,
            output: vec![name.to_string()],
            name: name.to_string(),
            op_type: op.to_string(),
            domain: String::new(),
            attribute,
        });
    }
}

fn int(name: &str, value: usize) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int as i32,
        i: value as i64,
        ..Default::default()
    }
}

fn ints(name: &str, values: &[usize]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Ints as i32,
        ints: values.iter().map(|&value| value as i64).collect(),
        ..Default::default()
    }
}

fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Float as i32,
        f: value,
        ..Default::default()
    }
}
