//! Layers: operators, how their weights are stored, and elementwise functions.

use super::Isa;
use bytemuck::{Pod, Zeroable};

/// The operator of a layer. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Convolution, also grouped; fully connected is a 1x1 convolution.
    /// [`ConvParams`](super::ConvParams).
    Conv = 1,
    /// Depthwise convolution, also per-channel scale and shift (1x1). Also convolution in small
    /// groups with equal numbers of input and output channels, of which a panel holds several
    /// ([`Isa::spans`]). [`ConvParams`](super::ConvParams).
    Depthwise = 2,
    /// Maximum or average pooling. [`PoolParams`](super::PoolParams).
    Pool = 3,
    /// An elementwise function: the layer's activation. No parameters.
    Unary = 4,
    /// Elementwise arithmetic of two tensors with broadcasting.
    /// [`BinaryParams`](super::BinaryParams).
    Binary = 5,
    /// Softmax over the channels of each row. No parameters.
    Softmax = 6,
    /// Local response normalisation across channels. [`LrnParams`](super::LrnParams).
    Lrn = 7,
    /// Strided copy of up to six dimensions: layout change, transpose, concatenation, padding.
    /// [`CopyParams`](super::CopyParams).
    Copy = 8,
    /// Product of two activations. [`MatMulParams`](super::MatMulParams).
    MatMul = 9,
    /// Reduction to a mean, a sum, an extreme, ... [`ReduceParams`](super::ReduceParams).
    Reduce = 10,
    /// 3x3 convolution of stride 1 by Winograd's algorithm.
    /// [`WinogradParams`](super::WinogradParams).
    Winograd = 11,
    /// Normalisation over the channels of each row, with scale and shift.
    /// [`LayerNormParams`](super::LayerNormParams).
    LayerNorm = 12,
    /// Rows of a constant table, chosen by the input. [`GatherParams`](super::GatherParams).
    Gather = 13,
    /// Each element of one tensor or another, as a condition says.
    /// [`WhereParams`](super::WhereParams).
    Where = 14,
    /// Weighted sums of adjacent lines or pixels: interpolation, and any choice along an axis.
    /// [`ResampleParams`](super::ResampleParams).
    Resample = 15,
    /// A recurrent network: RNN, GRU or LSTM. [`RecurrentParams`](super::RecurrentParams).
    Recurrent = 16,
    /// Pixels at places that the second input has.
    /// [`GridSampleParams`](super::GridSampleParams).
    GridSample = 17,
    /// Rows of a tensor, chosen by constants or by the second input. [`TakeParams`](super::TakeParams).
    Take = 18,
    /// Integers, truth values and conversions, word by word. [`IntegerParams`](super::IntegerParams).
    Integer = 19,
    /// Reduction of words, and places of extremes. [`FoldParams`](super::FoldParams).
    Fold = 20,
    /// Places of words in order. [`TopKParams`](super::TopKParams).
    TopK = 21,
    /// Boxes of which none overlap. [`SuppressParams`](super::SuppressParams).
    Suppress = 22,
    /// Rows of a tensor, some of them replaced. [`ScatterParams`](super::ScatterParams).
    Scatter = 23,
    /// Rows of a constant table, chosen by the input, where the table is stored as the weights of a
    /// product. [`LookupParams`](super::LookupParams).
    Lookup = 24,
}

impl OpKind {
    /// All operators, in the order of their codes.
    pub const ALL: [OpKind; 24] = {
        use OpKind::*;
        [
            Conv, Depthwise, Pool, Unary, Binary, Softmax, Lrn, Copy, MatMul, Reduce, Winograd,
            LayerNorm, Gather, Where, Resample, Recurrent, GridSample, Take, Integer, Fold, TopK,
            Suppress, Scatter, Lookup,
        ]
    };

    /// The operator of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get((code as usize).wrapping_sub(1)).copied()
    }
}

/// How the weights of panels are stored. Biases, at the head of a panel, are floats always. Codes
/// are part of the format.
///
/// A panel of 8-bit weights has, after its biases, a scale (a float) and a zero (8 bits) for each
/// channel.
#[repr(u32)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// 32-bit floats.
    #[default]
    F32 = 0,
    /// IEEE 754's binary16.
    F16 = 1,
    /// The upper half of a 32-bit float.
    Bf16 = 2,
    /// Signed integers of 8 bits: of each its difference to the zero of its output channel, times
    /// the channel's scale.
    I8 = 3,
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 4] = [Self::F32, Self::F16, Self::Bf16, Self::I8];

    /// The encodings that GPUs read.
    pub const OF_GPUS: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// The encoding of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| *encoding as u32 == code)
    }

    /// Its name, as in options and `--json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "fp32",
            Self::F16 => "fp16",
            Self::Bf16 => "bf16",
            Self::I8 => "int8",
        }
    }

    /// Bytes of a weight.
    pub const fn weight_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 => 1,
        }
    }

    /// Bytes of a panel before its weights, where kernels have `nr` channels: biases, and for 8
    /// bits scales and zeros.
    pub const fn head_bytes(self, nr: usize) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 4 * nr,
            Self::I8 => 9 * nr,
        }
    }

    /// Bytes of a panel of `width` output channels with `k` weights each; `None` where they cannot
    /// be counted. Kernels for `nr` channels read `nr` biases, and `nr` weights of the last k.
    pub fn panel_bytes(self, k: u64, width: usize, nr: usize) -> Option<u64> {
        let beyond = nr.saturating_sub(width) as u64;
        let weights = k.checked_mul(width as u64)?.checked_add(beyond)?;
        let bytes = weights.checked_mul(self.weight_bytes() as u64)?;
        bytes.checked_add(self.head_bytes(nr) as u64)?.checked_next_multiple_of(32)
    }
}

/// Input tensors of a layer, at most.
pub const INPUTS: usize = 3;

/// A layer after fusion: one operator, its activation, its tensors, its weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Layer {
    /// [`OpKind`] code.
    pub kind: u32,
    /// Input tensors; absent ones are [`NONE`](super::NONE). Conv, Depthwise, Winograd: data,
    /// residual. Binary: a, b. Where:
    /// condition, a, b. There are [`INPUTS`].
    pub inputs: [u32; 3],
    /// Output tensor. It may be the very tensor of an input (in place) for Unary, Binary, Where, Integer,
    /// Softmax, LayerNorm, and for the residual of Conv, Depthwise and Winograd.
    pub output: u32,
    /// Applied to the result, after the residual.
    pub activation: Activation,
    /// Panels of packed weights; 0 where the layer has none.
    pub panels: u32,
    /// Bytes of one panel as it is stored, a multiple of 32.
    pub panel_bytes: u32,
    /// Output channels (of Lookup, entries) that a panel holds; 0 if the panel is full. Only panels
    /// of Conv, Gather and Lookup are stored with fewer.
    pub width: u32,
    /// [`Encoding`] code: how the panels' weights are stored. 0 where there are no panels of output
    /// channels.
    pub encoding: u32,
    /// Where the weights start, in bytes from the start of the weights section (a multiple of 64).
    pub weights: u64,
    /// The operator's own parameters: one of the `…Params` records, zero-filled.
    pub params: [u32; 24],
}

impl Layer {
    /// How its weights are stored, if the code is one.
    pub fn encoding(&self) -> Option<Encoding> {
        Encoding::from_code(self.encoding)
    }

    /// Output channels that a panel holds.
    pub fn columns(&self, isa: Isa) -> usize {
        match self.width {
            0 => isa.panel(),
            width => width as usize,
        }
    }
}

/// An elementwise function with up to two parameters.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct Activation {
    /// [`ActivationKind`] code.
    pub kind: u32,
    /// First parameter.
    pub alpha: f32,
    /// Second parameter.
    pub beta: f32,
}

/// The elementwise functions. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ActivationKind {
    /// x
    None = 0,
    /// min(max(x, alpha), beta); ReLU is alpha = 0, beta = +inf. A bound that is NaN does nothing.
    /// The sign of a zero bound does not matter: kernels take a lower one as negative, an upper one
    /// as positive ([`Activation::for_kernels`]). Then maximum and minimum are one instruction each
    /// with the same bits on every processor. Given two zeros with different signs, x86 takes the
    /// second. ARM takes the positive one as maximum and the negative one as minimum.
    Clamp = 1,
    /// x if x ≥ 0, alpha·x otherwise.
    LeakyRelu = 2,
    /// 1 / (1 + exp(-x))
    Sigmoid = 3,
    /// min(max(alpha·x + beta, 0), 1)
    HardSigmoid = 4,
    /// x · min(max(x/6 + 1/2, 0), 1)
    HardSwish = 5,
    /// tanh x
    Tanh = 6,
    /// x · sigmoid(x) (SiLU)
    Silu = 7,
    /// x/2 · (1 + erf(x/√2))
    Gelu = 8,
    /// x/2 · (1 + tanh(√(2/π) · (x + 0.044715·x³)))
    GeluTanh = 9,
    /// erf x
    Erf = 10,
    /// √x
    Sqrt = 11,
    /// eˣ
    Exp = 12,
    /// beta·x if x ≥ 0, alpha·(eˣ - 1) otherwise; ELU has beta = 1, SELU both its scale.
    Elu = 13,
    /// ln(1 + eˣ)
    Softplus = 14,
    /// x · tanh(ln(1 + eˣ))
    Mish = 15,
    /// x · sigmoid(alpha·x)
    Swish = 16,
    /// ln x; this and what follows are functions of Unary layers alone.
    Log = 17,
    /// |x|
    Abs = 18,
    /// The largest whole number that is not above x.
    Floor = 19,
    /// The smallest whole number that is not below x.
    Ceil = 20,
    /// The nearest whole number; of two the even one.
    Round = 21,
    /// -1, 0 or 1, as x is below, at or above 0.
    Sign = 22,
    /// x / (1 + |x|)
    Softsign = 23,
    /// x + beta if x < -alpha, x - beta if x > alpha, 0 between.
    Shrink = 24,
    /// x if x > alpha, 0 otherwise.
    ThresholdedRelu = 25,
    /// sin x; this and what follows are computed by processors alone, in double precision.
    Sin = 26,
    /// cos x
    Cos = 27,
    /// tan x
    Tan = 28,
    /// arcsin x
    Asin = 29,
    /// arccos x
    Acos = 30,
    /// arctan x
    Atan = 31,
    /// sinh x
    Sinh = 32,
    /// cosh x
    Cosh = 33,
    /// arsinh x
    Asinh = 34,
    /// arcosh x
    Acosh = 35,
    /// artanh x
    Atanh = 36,
    /// The nearest whole number to x/alpha, of two the even one, within the bounds that beta states
    /// ([`Activation::quantise`]); this and what follows are functions of layers of all operators.
    Quantise = 37,
    /// The number that [`Quantise`](Self::Quantise) makes, times alpha.
    FakeQuantise = 38,
}

impl ActivationKind {
    /// All functions, by their codes.
    pub const ALL: [Self; 39] = {
        use ActivationKind::*;
        [
            None,
            Clamp,
            LeakyRelu,
            Sigmoid,
            HardSigmoid,
            HardSwish,
            Tanh,
            Silu,
            Gelu,
            GeluTanh,
            Erf,
            Sqrt,
            Exp,
            Elu,
            Softplus,
            Mish,
            Swish,
            Log,
            Abs,
            Floor,
            Ceil,
            Round,
            Sign,
            Softsign,
            Shrink,
            ThresholdedRelu,
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
            Quantise,
            FakeQuantise,
        ]
    };

    /// Whether layers of all operators apply it to what they make.
    pub fn fuses(self) -> bool {
        let code = self as u32;
        code < Self::Log as u32 || code >= Self::Quantise as u32
    }

    /// Whether it is computed in double precision, by one element after the other.
    pub fn is_wide(self) -> bool {
        (Self::Sin as u32..=Self::Atanh as u32).contains(&(self as u32))
    }
}

impl Activation {
    /// No activation.
    pub const NONE: Self = Self { kind: 0, alpha: 0.0, beta: 0.0 };
    /// max(x, 0).
    pub const RELU: Self =
        Self { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: f32::INFINITY };

    /// [`Quantise`](ActivationKind::Quantise), or with `fake` `FakeQuantise`: multiples of `scale`
    /// from `low` to `high`, of which both are whole numbers, 255 apart at most, and 255 at most
    /// from 0.
    pub fn quantise(scale: f32, [low, high]: [i16; 2], fake: bool) -> Self {
        let kind = if fake { ActivationKind::FakeQuantise } else { ActivationKind::Quantise };
        let bounds = f32::from(low) * 256.0 + f32::from(high - low);
        Self { kind: kind as u32, alpha: scale, beta: bounds }
    }

    /// As kernels take it: of a clamp, a lower bound of zero is negative, an upper one positive,
    /// and one that is no number is none.
    pub fn for_kernels(&self) -> Self {
        if self.kind != ActivationKind::Clamp as u32 {
            return *self;
        }
        let bound = |bound: f32, zero: f32, none: f32| match bound {
            0.0 => zero,
            bound if bound.is_nan() => none,
            bound => bound,
        };
        Self {
            alpha: bound(self.alpha, -0.0, f32::NEG_INFINITY),
            beta: bound(self.beta, 0.0, f32::INFINITY),
            ..*self
        }
    }

    /// The function, if the code is one.
    pub fn function(&self) -> Option<ActivationKind> {
        ActivationKind::ALL.get(self.kind as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_in_the_order_of_their_codes() {
        for (code, kind) in ActivationKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, code);
        }
        let unknown = Activation { kind: ActivationKind::ALL.len() as u32, ..Activation::NONE };
        assert_eq!(unknown.function(), None);
    }

    #[test]
    fn bounds_as_kernels_take_them() {
        let bits = |kind: ActivationKind, alpha, beta| {
            let taken = Activation { kind: kind as u32, alpha, beta }.for_kernels();
            [taken.alpha, taken.beta].map(f32::to_bits)
        };
        let tiny = f32::MIN_POSITIVE / 2.0;
        for (bound, lower, upper) in [
            (0.0, -0.0, 0.0),
            (-0.0, -0.0, 0.0),
            (f32::NAN, f32::NEG_INFINITY, f32::INFINITY),
            (-1.5, -1.5, -1.5),
            (tiny, tiny, tiny),
        ] {
            let want = [lower, upper].map(f32::to_bits);
            assert_eq!(bits(ActivationKind::Clamp, bound, bound), want, "{bound}");
        }
        // Other functions interpret their numbers themselves.
        assert_eq!(bits(ActivationKind::LeakyRelu, 0.0, -0.0), [0.0, -0.0].map(f32::to_bits));
    }
}
