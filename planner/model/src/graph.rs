//! The imported network, at ONNX level: nodes in topological order, static shapes, constants folded.
//!
//! Every value is a tensor in the model's own layout, of floats or of words: integers and truth values,
//! in 32 bits. What follows from constants and shapes has been folded away by the importer. Attributes are normalised: one spelling whatever the opset (`auto_pad` resolved into
//! pads, axes non-negative, defaults filled in).

use bytes::Bytes;
use eyelet::kernels::table::{bf16, dequantised, f16};
use eyelet::pack::{Activation, Encoding, FoldOp, IntegerOp, PortType, ReduceOp, ScatterOp};
use std::sync::Arc;

/// Index of a value in [`Graph::values`].
pub type ValueId = usize;

/// A network.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub name: String,
    pub values: Vec<Value>,
    /// In topological order; every node's output is read by someone or is a graph output.
    pub nodes: Vec<Node>,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// What the model's owner should know of what is computed otherwise than the model says.
    pub notes: Vec<String>,
}

impl Graph {
    /// How most of the model's floats are stored, if they lie in the file as they are.
    pub fn weights_stored_as(&self) -> Option<Encoding> {
        let constants = self.values.iter().filter_map(|value| value.constant.as_ref());
        let stored = |wanted: Encoding| {
            let of = |data: &Constant| match data {
                Constant::Raw(_, encoding) if *encoding == wanted => data.len(),
                _ => 0,
            };
            constants.clone().map(of).sum::<usize>()
        };
        let all: usize = constants.clone().map(Constant::len).sum();
        Encoding::ALL.into_iter().find(|encoding| 2 * stored(*encoding) > all)
    }
}

/// A tensor that flows, or a constant.
#[derive(Clone, Debug)]
pub struct Value {
    /// The model's name for it.
    pub name: String,
    pub shape: Vec<usize>,
    /// The type that the model gives it.
    pub kind: PortType,
    /// Present if it is a constant (an initializer, or folded).
    pub constant: Option<Constant>,
}

impl Value {
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Constant floats or integers.
#[derive(Clone, Debug)]
pub enum Constant {
    /// Little-endian numbers of 32 or 16 bits, not necessarily aligned: a slice of the model's memory map.
    Raw(Bytes, Encoding),
    /// Computed by the importer, or converted from another type.
    Owned(Arc<Vec<f32>>),
    /// Integers and truth values.
    Words(Arc<Vec<i32>>),
    /// Integers of 8 bits that stand for floats.
    Quantised(Arc<Quantised>),
}

/// Integers of 8 bits that stand for floats: of each its difference to the zero of its channel, times the
/// channel's scale, rounded once.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantised {
    /// Their bytes.
    pub data: Bytes,
    /// What is exclusive-ored to a byte to make it a signed one: 0x80 where the model's are unsigned.
    pub flip: u8,
    /// One for each channel.
    pub scale: Vec<f32>,
    /// As many, of signed bytes.
    pub zero: Vec<i8>,
    /// Elements from one channel to the next. After the last channel comes the first.
    pub inner: usize,
}

impl Quantised {
    /// The channel of an element.
    pub fn channel(&self, index: usize) -> usize {
        index / self.inner % self.scale.len()
    }

    /// Element `index`.
    pub fn get(&self, index: usize) -> f32 {
        let channel = self.channel(index);
        let byte = (self.data[index] ^ self.flip) as i8;
        dequantised(byte, self.zero[channel], self.scale[channel])
    }
}

impl Constant {
    pub fn len(&self) -> usize {
        match self {
            Constant::Raw(bytes, encoding) => bytes.len() / encoding.weight_bytes(),
            Constant::Owned(data) => data.len(),
            Constant::Words(data) => data.len(),
            Constant::Quantised(data) => data.data.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Element `index`.
    pub fn get(&self, index: usize) -> f32 {
        match self {
            Constant::Raw(bytes, Encoding::F32) => f32::from_le_bytes(bytes.as_chunks().0[index]),
            Constant::Raw(bytes, Encoding::F16) => f16(word(&bytes.as_chunks().0[index])),
            Constant::Raw(bytes, Encoding::Bf16) => bf16(word(&bytes.as_chunks().0[index])),
            Constant::Raw(_, Encoding::I8) => unreachable!("integers have scales"),
            Constant::Owned(data) => data[index],
            Constant::Words(data) => data[index] as f32,
            Constant::Quantised(data) => data.get(index),
        }
    }

    /// Element `index` as it is stored.
    pub fn bits(&self, index: usize) -> u32 {
        match self {
            Constant::Words(data) => data[index] as u32,
            _ => self.get(index).to_bits(),
        }
    }

    /// All elements, copied.
    pub fn to_vec(&self) -> Vec<f32> {
        match self {
            Constant::Raw(..) | Constant::Quantised(_) | Constant::Words(_) => {
                (0..self.len()).map(|index| self.get(index)).collect()
            }
            Constant::Owned(data) => data.to_vec(),
        }
    }
}

/// A number of 16 bits as it is stored.
pub(crate) fn word(bytes: &[u8; 2]) -> u16 {
    u16::from_le_bytes(*bytes)
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// The model's name, or `Conv_17`-like where it has none.
    pub name: String,
    pub op: Op,
    /// Absent optional inputs are `None`.
    pub inputs: Vec<Option<ValueId>>,
    pub outputs: Vec<ValueId>,
}

/// Windows of convolution and pooling, two-dimensional (1-D ones are widened to height 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    pub kernel: [usize; 2],
    pub stride: [usize; 2],
    pub dilation: [usize; 2],
    /// top, left
    pub pad_begin: [usize; 2],
    /// bottom, right
    pub pad_end: [usize; 2],
}

/// Element i of an axis is the sum of the `taps` elements from `starts[i]` on, times their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Resampling {
    pub axis: usize,
    pub taps: usize,
    /// The first tap of each output.
    pub starts: Vec<usize>,
    /// For each output as many as there are taps. Elements of weight zero are not read.
    pub weights: Vec<f64>,
    /// An output all of whose weights are zero.
    pub outside: f32,
}

impl Resampling {
    /// The sums of these elements of an axis of some extent: for each output places and weights.
    pub fn new(axis: usize, extent: usize, sums: &[Vec<(usize, f64)>], outside: f32) -> Self {
        let ends = |sum: &[(usize, f64)]| {
            let places = || sum.iter().filter(|(_, weight)| *weight != 0.0).map(|(at, _)| *at);
            Some((places().min()?, places().max()?))
        };
        let taps = sums.iter().filter_map(|sum| ends(sum)).map(|(first, last)| last - first + 1);
        let taps = taps.max().unwrap_or(1);
        let (mut starts, mut weights) =
            (Vec::with_capacity(sums.len()), vec![0.0; sums.len() * taps]);
        for (sum, weights) in sums.iter().zip(weights.chunks_exact_mut(taps)) {
            // What reads nothing begins where the one before it does.
            let first = ends(sum).map(|(first, _)| first);
            let start = first.or(starts.last().copied()).unwrap_or(0).min(extent - taps);
            starts.push(start);
            sum.iter()
                .filter(|(_, weight)| *weight != 0.0)
                .for_each(|(at, weight)| weights[at - start] += weight);
        }
        Self { axis, taps, starts, weights, outside }
    }

    /// The elements at these places of an axis.
    pub fn choice(axis: usize, places: Vec<usize>) -> Self {
        let weights = vec![1.0; places.len()];
        Self { axis, taps: 1, starts: places, weights, outside: 0.0 }
    }
}

/// A recurrent network in one direction, over the first axis of what its gates are given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recurrence {
    pub cell: Cell,
    pub hidden: usize,
    /// From the last element to the first.
    pub reverse: bool,
    /// What functions are given is at most so far from zero.
    pub clip: f32,
    /// The functions f, g and h of ONNX.
    pub functions: [Activation; 3],
}

/// Gates are in ONNX's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    Rnn,
    /// The reset applies to the product, or to the state before.
    Gru {
        reset_after: bool,
    },
    Lstm,
}

impl Cell {
    pub fn gates(self) -> usize {
        match self {
            Cell::Rnn => 1,
            Cell::Gru { .. } => 3,
            Cell::Lstm => 4,
        }
    }

    /// Numbers of the state for each hidden unit: of LSTM the cell's, too.
    pub fn states(self) -> usize {
        if self == Cell::Lstm { 2 } else { 1 }
    }
}

/// Which boxes go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suppression {
    /// Those that overlap with one that remains by more than this share of their union.
    pub overlap: f32,
    /// Those that do not score above this.
    pub score: f32,
    /// Boxes are center, width and height, x first; else two opposite corners, y first.
    pub centers: bool,
}

/// How elements are found between others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    pub mode: SampleMode,
    pub padding: SamplePadding,
    pub align_corners: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleMode {
    Nearest,
    Linear,
    Cubic,
}

/// What is beyond an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplePadding {
    Zeros,
    Border,
    Reflection,
}

/// What a node computes, with normalised attributes. Inputs as in ONNX unless stated.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// x, weight [oc, ic/groups, kh, kw] (constant), bias (optional, constant)
    Conv {
        window: Window,
        groups: usize,
    },
    /// x, scale, bias, mean, variance (all constant but x)
    BatchNorm {
        epsilon: f32,
    },
    /// min and max resolved (the lowest and the largest float where absent); Relu is Clip { 0, inf }
    Clip {
        min: f32,
        max: f32,
    },
    LeakyRelu {
        alpha: f32,
    },
    Sigmoid,
    HardSigmoid {
        alpha: f32,
        beta: f32,
    },
    HardSwish,
    Tanh,
    Erf,
    Sqrt,
    Exp,
    Log,
    Abs,
    Floor,
    Ceil,
    /// Of two nearest whole numbers the even one.
    Round,
    Sign,
    /// beta·x from 0 on, alpha·(eˣ - 1) below
    Elu {
        alpha: f32,
        beta: f32,
    },
    Softplus,
    Softsign,
    Mish,
    /// x · sigmoid(alpha·x)
    Swish {
        alpha: f32,
    },
    /// Nearer to 0 by the bias; 0 up to lambda.
    Shrink {
        lambda: f32,
        bias: f32,
    },
    /// x above alpha, 0 elsewhere
    ThresholdedRelu {
        alpha: f32,
    },
    /// The nearest whole number to x/scale, of two the even one, from low to high; these are 255 apart at most,
    /// and 255 at most from 0. If fake, times scale.
    Quantise {
        scale: f32,
        low: i16,
        high: i16,
        fake: bool,
    },
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    /// By the error function, or its approximation by tanh.
    Gelu {
        tanh: bool,
    },
    /// x, slope
    PRelu,
    Add,
    Sub,
    Mul,
    Div,
    /// NaN where one is NaN.
    Max,
    Min,
    /// a to the power b
    Pow,
    /// What division to a whole number leaves, with the sign of a.
    Mod,
    /// a, b (constant): b, but a where b is NaN
    Mask,
    /// One or two tensors: an operation on words, or one that makes words of floats.
    Words(IntegerOp),
    /// condition, a, b: a where the condition is not 0, else b
    Where,
    /// A reduction of words over axes, or the place of an extreme along one axis.
    Fold {
        op: FoldOp,
        axes: Vec<usize>,
        keep: bool,
        /// Of places of equal elements the last, else the first.
        last: bool,
    },
    Concat {
        axis: usize,
    },
    /// One input, several outputs of the given sizes.
    Split {
        axis: usize,
        sizes: Vec<usize>,
    },
    /// Slice of a float tensor that could not be folded: start and step per axis (step ≥ 1); the extent
    /// is the output's shape.
    Slice {
        starts: Vec<usize>,
        steps: Vec<usize>,
    },
    MaxPool {
        window: Window,
        ceil: bool,
    },
    AveragePool {
        window: Window,
        ceil: bool,
        count_include_pad: bool,
    },
    GlobalAveragePool,
    Reduce {
        op: ReduceOp,
        axes: Vec<usize>,
        keep: bool,
    },
    /// a, b, c (optional)
    Gemm {
        alpha: f32,
        beta: f32,
        trans_a: bool,
        trans_b: bool,
    },
    MatMul,
    /// Flatten, Reshape, Squeeze, Unsqueeze: the output's shape says it all.
    Reshape,
    /// Axes of extent 1, or absent in front, repeated: the output's shape says it all.
    Expand,
    /// One number everywhere, of nothing that flows. The importer makes none; passes do, for constants.
    Fill {
        value: f32,
    },
    Transpose {
        perm: Vec<usize>,
    },
    /// axis..: normalised over this one axis (opset < 13: over all from axis on, if `flat`)
    Softmax {
        axis: usize,
        flat: bool,
    },
    Lrn {
        size: usize,
        alpha: f32,
        beta: f32,
        bias: f32,
    },
    /// x, scale, shift (optional, constant): mean 0 and variance 1 over the axes from this one on
    LayerNorm {
        axis: usize,
        epsilon: f32,
    },
    /// x, scale (optional, constant): mean square 1 over the axes from this one on
    RmsNorm {
        axis: usize,
        epsilon: f32,
    },
    /// x, scale, shift (optional, of one number a channel): mean 0 and variance 1 over the channels of each group
    /// and all axes after them
    GroupNorm {
        groups: usize,
        epsilon: f32,
    },
    /// x, indices (words, constant or not): the entries of an axis that these name, in whose place their shape
    /// is. Those that flow count from the end where they are negative.
    Take {
        axis: usize,
    },
    /// The places along an axis of the largest or smallest elements, in order: as many as the output has.
    Order {
        axis: usize,
        largest: bool,
        /// The elements are integers.
        integers: bool,
    },
    /// boxes [images, boxes, 4], scores [images, classes, boxes]: the places of the boxes that remain [images,
    /// classes, places], and -1 where there are no more
    Suppress(Suppression),
    /// data `[rows, columns]`, indices (words) `[updates]`, updates `[updates, columns]`: the data with rows that the
    /// indices name replaced by updates, or combined with them; indices count from the end where they are negative
    Scatter {
        op: ScatterOp,
    },
    /// table (constant, two axes), indices (words): rows of the table
    Gather,
    /// given [time, batch, gates · hidden] (biases included), weights [gates · hidden, hidden], biases
    /// [gates · hidden] and peepholes [3 · hidden] (i, o, f) of the weights (constant, the latter
    /// optional), the state at the beginning [batch, states · hidden] (optional): the state at each
    /// time [time, batch, states · hidden]
    Recurrent(Recurrence),
    /// x [images, channels, spatial…], places [images, spatial…, axes] (the last axis first): the
    /// elements there
    GridSample(Sampling),
    /// Weighted sums of adjacent elements of an axis.
    Resample(Resampling),
    /// Constant padding per axis.
    Pad {
        begin: Vec<usize>,
        end: Vec<usize>,
        value: f32,
    },
}
