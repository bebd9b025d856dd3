//! A network being described: nodes, and initializers of known size that are filled later.
//!
//! Along with its shape every value carries the mean and variance its elements should have, so that
//! each layer's weights can be scaled for the input it gets. The moments are those of independent
//! Gaussian values; what is not (pooling, borders) shifts them a little, and the next layer takes the
//! estimate as it is.

use super::fill::Fill;
use crate::import::onnx::{AttributeProto, AttributeType, DataType, NodeProto, TensorProto};

/// A network, without its weights.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    opset: i64,
    input: (String, DataType),
    nodes: Vec<NodeProto>,
    initializers: Vec<Initializer>,
    input_shape: Vec<usize>,
    output_shapes: Vec<Vec<usize>>,
    parameters: usize,
    macs: u64,
    /// The layers' description, if it is a network of Darknet; it has no nodes then.
    config: Option<String>,
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
    pub name: String,
    /// Without the batch: channels and, unless flat, height and width; or tokens and width.
    pub shape: Vec<usize>,
    pub mean: f32,
    pub variance: f32,
}

impl Value {
    pub(super) fn channels(&self) -> usize {
        self.shape[0]
    }
}

/// A convolution's shape; the rest are its defaults: stride and dilation 1, one group, padded to keep the extent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub out_channels: usize,
    pub kernel: [usize; 2],
    pub stride: usize,
    pub dilation: usize,
    pub pad: [usize; 2],
    pub groups: usize,
    pub bias: bool,
    /// Padding above and to the left is less by so much than below and to the right.
    pub less_before: usize,
}

impl Conv {
    pub(super) fn new(out_channels: usize, kernel: usize) -> Conv {
        Conv::of(out_channels, [kernel; 2])
    }

    pub(super) fn of(out_channels: usize, kernel: [usize; 2]) -> Conv {
        let pad = kernel.map(|kernel| kernel / 2);
        let bias = true;
        Conv { out_channels, kernel, stride: 1, dilation: 1, pad, groups: 1, bias, less_before: 0 }
    }

    pub(super) fn stride(self, stride: usize) -> Conv {
        Conv { stride, ..self }
    }

    /// With so many times the span, padded to keep the extent.
    pub(super) fn dilated(self, dilation: usize) -> Conv {
        Conv { dilation, pad: self.kernel.map(|kernel| kernel / 2 * dilation), ..self }
    }

    pub(super) fn pad(self, pad: usize) -> Conv {
        Conv { pad: [pad; 2], ..self }
    }

    pub(super) fn groups(self, groups: usize) -> Conv {
        Conv { groups, ..self }
    }

    /// For what no batch norm was folded into.
    pub(super) fn no_bias(self) -> Conv {
        Conv { bias: false, ..self }
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

    pub fn opset(&self) -> i64 {
        self.opset
    }

    pub fn input_name(&self) -> &str {
        &self.input.0
    }

    pub fn input_type(&self) -> DataType {
        self.input.1
    }

    pub fn nodes(&self) -> &[NodeProto] {
        &self.nodes
    }

    pub fn initializers(&self) -> &[Initializer] {
        &self.initializers
    }

    /// Shape of the input, with the batch.
    pub fn input_shape(&self) -> &[usize] {
        &self.input_shape
    }

    /// Shapes of the outputs, with the batch.
    pub fn output_shapes(&self) -> &[Vec<usize>] {
        &self.output_shapes
    }

    /// The description of a network of Darknet, whose file has the weights alone.
    pub fn config(&self) -> Option<&str> {
        self.config.as_deref()
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
            opset: 13,
            input: ("input".to_string(), DataType::Float),
            nodes: Vec::new(),
            initializers: Vec::new(),
            input_shape: [&[1], &image[..]].concat(),
            output_shapes: Vec::new(),
            parameters: 0,
            macs: 0,
            config: None,
        };
        let input =
            Value { name: "input".to_string(), shape: image.to_vec(), mean: 0.0, variance: 1.0 };
        (model, input)
    }

    /// A convolution with bias whose output has mean 0 and about the given variance.
    pub(super) fn conv(&mut self, layer: &str, x: &Value, conv: Conv, variance: f32) -> Value {
        let [channels, height, width] = x.shape[..] else { panic!("{layer}: input is flat") };
        let extent = |n: usize, axis: usize| {
            let span = (conv.kernel[axis] - 1) * conv.dilation + 1;
            (n + 2 * conv.pad[axis] - conv.less_before - span) / conv.stride + 1
        };
        let shape = vec![conv.out_channels, extent(height, 0), extent(width, 1)];
        let depth = channels / conv.groups;
        let weight = [conv.out_channels, depth, conv.kernel[0], conv.kernel[1]].to_vec();
        self.macs += (weight.iter().product::<usize>() * shape[1] * shape[2]) as u64;
        // A depthwise filter is too short to be centred: little would be left of it.
        let inputs = self.weights(layer, x, weight, variance, (depth > 1, conv.bias));
        let attributes = vec![
            ints("dilations", &[conv.dilation; 2]),
            int("group", conv.groups),
            ints("kernel_shape", &conv.kernel),
            ints("pads", &[conv.pad.map(|pad| pad - conv.less_before), conv.pad].concat()),
            ints("strides", &[conv.stride; 2]),
        ];
        self.node("Conv", layer, inputs, attributes);
        Value { name: layer.to_string(), shape, mean: 0.0, variance }
    }

    /// A transposed convolution of 2x2 and stride 2 with bias, as `conv`: it doubles height and width.
    pub(super) fn conv_transpose(
        &mut self,
        layer: &str,
        x: &Value,
        out_channels: usize,
        variance: f32,
    ) -> Value {
        let [channels, height, width] = x.shape[..] else { panic!("{layer}: input is flat") };
        self.macs += (channels * out_channels * 4 * height * width) as u64;
        self.parameters += (channels * 4 + 1) * out_channels;
        // Each output reads one place of all channels.
        let square = x.variance + x.mean * x.mean;
        let std = (variance / (channels as f32 * square)).sqrt();
        let weight = vec![channels, out_channels, 2, 2];
        let weight = self.initializer(&format!("{layer}.weight"), weight, Fill::Normal { std });
        let bias = Fill::Normal { std: BIAS_STD * variance.sqrt() };
        let bias = self.initializer(&format!("{layer}.bias"), vec![out_channels], bias);
        let attributes = vec![ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
        self.node("ConvTranspose", layer, vec![x.name.clone(), weight, bias], attributes);
        let shape = vec![out_channels, 2 * height, 2 * width];
        Value { name: layer.to_string(), shape, mean: 0.0, variance }
    }

    /// A fully connected layer with bias, as `conv`.
    pub(super) fn gemm(&mut self, layer: &str, x: &Value, out: usize, variance: f32) -> Value {
        let weight = vec![out, x.shape.iter().product()];
        self.macs += weight.iter().product::<usize>() as u64;
        let inputs = self.weights(layer, x, weight, variance, (true, true));
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
        (centre, biased): (bool, bool),
    ) -> Vec<String> {
        let (rows, fan_in) = (dims[0], dims[1..].iter().product::<usize>() as f32);
        let fill = match centre && x.mean > 0.0 {
            true => Fill::Centred { std: (variance / (fan_in * x.variance)).sqrt() },
            false => {
                Fill::Normal { std: (variance / (fan_in * (x.variance + x.mean * x.mean))).sqrt() }
            }
        };
        let bias = Fill::Normal { std: BIAS_STD * variance.sqrt() };
        self.parameters += dims.iter().product::<usize>();
        let weight = self.initializer(&format!("{layer}.weight"), dims, fill);
        if !biased {
            return vec![x.name.clone(), weight];
        }
        self.parameters += rows;
        let bias = self.initializer(&format!("{layer}.bias"), vec![rows], bias);
        vec![x.name.clone(), weight, bias]
    }

    /// A batch norm that could not be folded; its statistics (which are no parameters) are the input's.
    pub(super) fn batch_norm(&mut self, layer: &str, x: &Value) -> Value {
        let channels = x.channels();
        let mut inputs = vec![x.name.clone()];
        for (part, fill) in [
            ("weight", Fill::Constant(1.0)),
            ("bias", Fill::Normal { std: BIAS_STD }),
            ("running_mean", Fill::Constant(x.mean)),
            ("running_var", Fill::Constant(x.variance)),
        ] {
            inputs.push(self.initializer(&format!("{layer}.{part}"), vec![channels], fill));
        }
        self.parameters += 2 * channels;
        let attributes = vec![float("epsilon", 1e-5), float("momentum", 0.9)];
        self.node("BatchNormalization", layer, inputs, attributes);
        Value { name: layer.to_string(), mean: 0.0, variance: 1.0, ..x.clone() }
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

    /// Concatenates along channels; the moments are those over all of them.
    pub(super) fn concat(&mut self, layer: &str, parts: &[&Value]) -> Value {
        let inputs = parts.iter().map(|part| part.name.clone()).collect();
        self.node("Concat", layer, inputs, vec![int("axis", 1)]);
        let mut shape = parts[0].shape.clone();
        shape[0] = 0;
        let (mut mean, mut square) = (0.0, 0.0);
        for part in parts {
            assert_eq!(part.shape[1..], shape[1..], "{layer}");
            shape[0] += part.shape[0];
            mean += part.mean * part.shape[0] as f32;
            square += (part.variance + part.mean * part.mean) * part.shape[0] as f32;
        }
        let count = shape[0] as f32;
        mean /= count;
        Value { name: layer.to_string(), shape, mean, variance: square / count - mean * mean }
    }

    /// Average pooling, padding counted.
    pub(super) fn average_pool(&mut self, layer: &str, x: &Value, pool: Pool) -> Value {
        let extent = |n: usize| (n + 2 * pool.pad - pool.kernel) / pool.stride + 1;
        let attributes = vec![
            int("ceil_mode", 0),
            int("count_include_pad", 1),
            ints("kernel_shape", &[pool.kernel; 2]),
            ints("pads", &[pool.pad; 4]),
            ints("strides", &[pool.stride; 2]),
        ];
        self.node("AveragePool", layer, vec![x.name.clone()], attributes);
        let shape = vec![x.shape[0], extent(x.shape[1]), extent(x.shape[2])];
        Value { name: layer.to_string(), shape, ..x.clone() }
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
        self.output_shapes = vec![[&[1], &last.shape[..]].concat()];
        self
    }

    /// A network of Darknet: its description, and its numbers in the order of its file.
    pub(super) fn of_darknet(
        name: &str,
        config: String,
        initializers: Vec<Initializer>,
        (input, outputs): (Vec<usize>, Vec<Vec<usize>>),
        macs: u64,
    ) -> Model {
        let (mut model, _) = Model::new(name, [input[1], input[2], input[3]]);
        model.parameters = initializers.iter().map(Initializer::elements).sum();
        model.output_shapes = outputs;
        Model { config: Some(config), initializers, macs, ..model }
    }

    /// The newest operator set that the model needs.
    pub(super) fn needs_opset(&mut self, opset: i64) {
        self.opset = opset;
    }

    /// Takes integers of this shape as `name`, instead of an image.
    pub(super) fn takes_integers(&mut self, name: &str, shape: &[usize]) {
        self.input = (name.to_string(), DataType::Int64);
        self.input_shape = shape.to_vec();
    }

    /// Counts what a node adds to the network's size.
    pub(super) fn count(&mut self, parameters: usize, macs: u64) {
        self.parameters += parameters;
        self.macs += macs;
    }

    pub(super) fn initializer(&mut self, name: &str, dims: Vec<usize>, fill: Fill) -> String {
        self.initializers.push(Initializer { name: name.to_string(), dims, fill });
        name.to_string()
    }

    /// Cuts a value along an axis.
    pub(super) fn split(&mut self, name: &str, inputs: &[&str], outputs: &[&str], axis: usize) {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        self.node("Split", name, list(inputs), vec![int("axis", axis)]);
        if let Some(node) = self.nodes.last_mut() {
            node.output = list(outputs);
        }
    }

    /// A node named as its only output.
    pub(super) fn node(
        &mut self,
        op: &str,
        name: &str,
        input: Vec<String>,
        attribute: Vec<AttributeProto>,
    ) {
        self.nodes.push(NodeProto {
            input,
            output: vec![name.to_string()],
            name: name.to_string(),
            op_type: op.to_string(),
            attribute,
            ..NodeProto::default()
        });
    }
}

pub(super) fn int(name: &str, value: usize) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Int as i32,
        i: value as i64,
        ..Default::default()
    }
}

pub(super) fn ints(name: &str, values: &[usize]) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Ints as i32,
        ints: values.iter().map(|&value| value as i64).collect(),
        ..Default::default()
    }
}

pub(super) fn integers(name: &str, dims: &[i64], values: &[i64]) -> AttributeProto {
    let tensor = TensorProto {
        dims: dims.to_vec(),
        data_type: DataType::Int64 as i32,
        raw_data: values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        ..Default::default()
    };
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Tensor as i32,
        t: Some(tensor),
        ..Default::default()
    }
}

pub(super) fn float(name: &str, value: f32) -> AttributeProto {
    AttributeProto {
        name: name.to_string(),
        r#type: AttributeType::Float as i32,
        f: value,
        ..Default::default()
    }
}

pub(super) fn text(name: &str, value: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: AttributeType::String as i32,
        s: value.as_bytes().to_vec().into(),
        ..Default::default()
    }
}
