//! Parameters of operators, one record each, which a [`Layer`] has as words.

use super::layers::Layer;
use bytemuck::{Pod, Zeroable};

/// Geometry of a convolution. Padding at the bottom and right follows from the output's extent.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ConvParams {
    /// Taps: height, width.
    pub kernel: [u32; 2],
    /// Stride: height, width.
    pub stride: [u32; 2],
    /// Dilation: height, width.
    pub dilation: [u32; 2],
    /// Padding above and to the left.
    pub pad: [u32; 2],
    /// Groups. Of [`OpKind::Conv`](super::OpKind::Conv) each group's output channels fill whole
    /// panels, the last of which is padded; of [`OpKind::Depthwise`](super::OpKind::Depthwise) each
    /// panel holds several whole groups.
    pub groups: u32,
    /// Of [`OpKind::Conv`](super::OpKind::Conv) for a GPU: chains that the reduction is cut into,
    /// at multiples of 8 of its K (tap row, tap column, channel of the group) weights: with U =
    /// ⌈K/8⌉, chain c has those from min(K, 8·⌊U·c/chains⌋) on. Each is summed by itself from zero
    /// (the first one from the bias), also one that has none; then all are added up in order. 0 and
    /// 1: as processors sum it ([`Chains`](crate::kernels::table::Chains)), who know nothing else.
    pub chains: u32,
}

/// Geometry of a 3x3 convolution of stride 1, without dilation, that is computed in tiles of `tile`
/// times `tile` outputs, F(tile, 3). Padding at the bottom and right follows from the output's
/// extent. Panels are `[bias NR][(tile + 2)²][input channels of a group][NR]`: transformed weights.
/// None has channels of two groups.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WinogradParams {
    /// Outputs of a tile along each axis: 2 or 4.
    pub tile: u32,
    /// Padding above and to the left.
    pub pad: [u32; 2],
    /// Groups that input and output channels are divided into; a GPU computes one alone.
    pub groups: u32,
}

/// Maximum (0) or average (1) pooling.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PoolParams {
    /// 0 maximum, 1 average.
    pub average: u32,
    /// Window: height, width.
    pub kernel: [u32; 2],
    /// Stride: height, width.
    pub stride: [u32; 2],
    /// Dilation: height, width.
    pub dilation: [u32; 2],
    /// Padding above and to the left.
    pub pad: [u32; 2],
    /// Padding below and to the right, as the model states it (without what `ceil_mode` adds): with
    /// `count_include_pad` an average counts these positions, but never those beyond them.
    pub pad_end: [u32; 2],
    /// 1: padded positions count in an average.
    pub count_include_pad: u32,
}

/// Elementwise arithmetic: `a op b`, each broadcast where its extent is 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct BinaryParams {
    /// [`BinaryOp`] code.
    pub op: u32,
    /// 0: both operands are tensors. 1: `b` is the layer's weights (one panel, row-major floats of
    /// extent `constant`). 2: `a` is.
    pub constant_operand: u32,
    /// Extent of the constant operand.
    pub constant: [u32; 4],
}

/// Elementwise arithmetic. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// a + b
    Add = 0,
    /// a - b
    Sub = 1,
    /// a · b
    Mul = 2,
    /// a / b
    Div = 3,
    /// a if a ≥ 0, a·b otherwise (PReLU, b the slope)
    PRelu = 4,
    /// b, but a where b is NaN (a constant over part of a tensor)
    Mask = 5,
    /// the larger; b where one is NaN
    Max = 6,
    /// the smaller; b where one is NaN
    Min = 7,
    /// a to the power b, in double precision; this and what follows are computed by processors
    /// alone
    Pow = 8,
    /// what division of a by b to a whole number leaves, with the sign of a
    Mod = 9,
}

impl BinaryOp {
    /// All operations, by their codes.
    pub const ALL: [Self; 10] = {
        use BinaryOp::*;
        [Add, Sub, Mul, Div, PRelu, Mask, Max, Min, Pow, Mod]
    };

    /// The operation of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Whether it is computed by one element after the other.
    pub fn is_wide(self) -> bool {
        matches!(self, Self::Pow | Self::Mod)
    }
}

/// `a` where the condition is not zero, else `b`; each broadcast where its extent is 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct WhereParams {
    /// Which operands are constants: 1 the condition, 2 `a`, 4 `b`, and sums of these. Constants
    /// are the layer's weights: one panel of row-major words, in the order of the operands.
    pub constants: u32,
    /// Extents of the constants, by operand.
    pub extents: [[u32; 4]; 3],
}

/// Local response normalisation: `x / (bias + alpha/size · Σ x²)^beta` over `size` adjacent
/// channels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct LrnParams {
    /// Channels in the window.
    pub size: u32,
    /// As in ONNX.
    pub alpha: f32,
    /// As in ONNX.
    pub beta: f32,
    /// As in ONNX.
    pub bias: f32,
}

/// Layer normalisation: `(x - mean) / √(variance + epsilon) · scale + shift` over the channels of a
/// row; or, about zero, `x / √(mean of squares + epsilon) · scale + shift`. The weights are one
/// panel: all scales, then all shifts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct LayerNormParams {
    /// Keeps the root away from zero.
    pub epsilon: f32,
    /// 1: zero stands in place of the mean.
    pub about_zero: u32,
}

/// A table of rows: output row i is row `input[i]` of it. Panels are `[bias NR][entries][NR]`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct GatherParams {
    /// Rows of the table.
    pub entries: u32,
}

/// Rows of a tensor in another order: output row i is row `index[i]` of the first input. The indices
/// are the second input, one a row, or the weights: one panel of whole numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct TakeParams {
    /// Rows of the first input.
    pub entries: u32,
}

/// A strided copy: for every index in `dims`,
/// `output[dst_start + Σ i·dst] = input[src_start + Σ i·src]`, in floats from the first element of
/// the tensors' *buffers*. Strides may be zero, never negative.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct CopyParams {
    /// Extent, outermost first; unused dimensions are 1.
    pub dims: [u32; 6],
    /// Strides in the input's buffer.
    pub src: [u32; 6],
    /// Strides in the output's buffer.
    pub dst: [u32; 6],
    /// First element in the input's buffer.
    pub src_start: u32,
    /// First element in the output's buffer.
    pub dst_start: u32,
    /// 1: the whole output tensor is filled with `fill` first (padding).
    pub filled: u32,
    /// The value.
    pub fill: f32,
}

/// `output[i] = a[i] · (scale · b[i])` for each `i` in `batch`: `m×k` times `k×n`. Operands are
/// given by strides in floats from the tensors' first elements. The output has `batch·m` rows of
/// `n`, at its tensor's pitch. An operand's record is one run of floats; or the left one's is rows
/// as the output's are, which its strides repeat.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct MatMulParams {
    /// Multiplies b before the product.
    pub scale: f32,
    /// Number of products.
    pub batch: u32,
    /// Rows of a.
    pub m: u32,
    /// Columns of a, rows of b.
    pub k: u32,
    /// Columns of b.
    pub n: u32,
    /// From one matrix to the next: a, b. Zero where one serves all.
    pub batch_stride: [u32; 2],
    /// From one row to the next: a, b.
    pub row_stride: [u32; 2],
    /// From one column to the next: a (must be 1), b.
    pub col_stride: [u32; 2],
}

/// Reduction of the middle of `outer × reduce × inner` contiguous floats.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ReduceParams {
    /// Independent blocks.
    pub outer: u32,
    /// Values that become one.
    pub reduce: u32,
    /// Adjacent floats that do not belong together.
    pub inner: u32,
    /// [`ReduceOp`] code.
    pub op: u32,
}

/// What values are reduced to. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Their sum over their number.
    Mean = 0,
    /// Their sum.
    Sum = 1,
    /// The largest; NaN where there is one.
    Max = 2,
    /// The smallest; NaN where there is one. This and what follows are computed by processors
    /// alone.
    Min = 3,
    /// Their product.
    Product = 4,
    /// The sum of their squares.
    SquareSum = 5,
    /// The mean of their squares.
    SquareMean = 6,
}

impl ReduceOp {
    /// All reductions, by their codes.
    pub const ALL: [Self; 7] = {
        use ReduceOp::*;
        [Mean, Sum, Max, Min, Product, SquareSum, SquareMean]
    };

    /// The reduction of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Whether GPUs compute it.
    pub fn on_gpu(self) -> bool {
        matches!(self, Self::Mean | Self::Sum | Self::Max)
    }

    /// Whether it is of the values' squares.
    pub fn squares(self) -> bool {
        matches!(self, Self::SquareSum | Self::SquareMean)
    }
}

/// Reads a parameter record from a layer's words.
pub fn params<P: Pod>(layer: &Layer) -> P {
    bytemuck::pod_read_unaligned(&bytemuck::bytes_of(&layer.params)[..size_of::<P>()])
}

/// A layer's words from a parameter record.
pub fn params_words<P: Pod>(params: &P) -> [u32; 24] {
    let mut words = [0; 24];
    bytemuck::bytes_of_mut(&mut words)[..size_of::<P>()]
        .copy_from_slice(bytemuck::bytes_of(params));
    words
}
