//! Parameters of operators, one record each, which a [`Layer`] has as words.

use super::layers::{Activation, Layer};
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
    /// Groups. In [`OpKind::Conv`](super::OpKind::Conv) each group's output channels fill whole
    /// panels, the last of which is padded. In [`OpKind::Depthwise`](super::OpKind::Depthwise) each
    /// panel holds several whole groups.
    pub groups: u32,
    /// Chains into which a GPU's [`OpKind::Conv`](super::OpKind::Conv) cuts the reduction, at
    /// multiples of 8 of its K (tap row, tap column, channel of the group) weights. With U = ⌈K/8⌉,
    /// chain c starts at min(K, 8·⌊U·c/chains⌋). Each chain, also an empty one, is summed by itself
    /// from zero, the first one from the bias. Then all are added up in order. 0 and 1: summed as
    /// on processors ([`Chains`](crate::kernels::table::Chains)), which have no other way.
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

/// A table of rows whose panels have entries for output channels: `[bias NR][columns][NR]`, as those of a
/// product with the table transposed. So a network that does both has the table once. Biases are
/// the product's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct LookupParams {
    /// Rows of the table.
    pub entries: u32,
    /// The factor of the products.
    pub scale: f32,
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
/// the tensors' *buffers*. Strides may be zero, never negative. Without an input the output is
/// filled, and nothing copied: the extents are 1, and `dst_start` is the tensor's first element.
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

/// The function of a reduction. Codes are part of the format.
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

/// Weighted sums along one axis. Output i is the sum of `taps` adjacent inputs. They are among
/// `reach` adjacent ones, the first of which is `⌊(i·step[0] + shift) / step[1]⌋`, but at least 0 and
/// at most the extent less `reach`. The weights are one panel: for each output how many inputs the
/// taps begin after the first in reach (a float), then a weight for each tap. A tap whose weight is
/// zero is not read; an output of none is `outside`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct ResampleParams {
    /// Which dimension: 1 lines, 2 pixels.
    pub axis: u32,
    /// Inputs of an output.
    pub taps: u32,
    /// Adjacent inputs that an output's are among.
    pub reach: u32,
    /// Inputs (numerator and denominator) from one output to the next.
    pub step: [u32; 2],
    /// Where the first output's are, in parts of `step[1]`.
    pub shift: i32,
    /// An output that no input counts for.
    pub outside: f32,
}

impl ResampleParams {
    /// The first input that an output can read, if there are `extent` inputs.
    pub fn first(&self, output: u32, extent: u32) -> u32 {
        let [up, down] = self.step.map(i64::from);
        let place = (i64::from(output).saturating_mul(up)).saturating_add(self.shift.into());
        let last = extent.saturating_sub(self.reach);
        place.div_euclid(down.max(1)).clamp(0, last.into()) as u32
    }
}

/// A recurrent network over the lines of the input, one after the other: pixels are a batch,
/// channels what each gate is given at that time, biases included. The output's channels are the
/// hidden state, of LSTM also the cell's state. A second input has the state at the beginning in
/// the same order, else it is zero. The weights are one panel: for each gate, for each run of NR
/// hidden units, `[bias NR][unit][NR]`; then of LSTM the peepholes of its gates.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct RecurrentParams {
    /// 0 RNN, 1 GRU (gates z, r, h), 2 LSTM (gates i, o, f, c).
    pub cell: u32,
    /// Hidden units.
    pub hidden: u32,
    /// 1: from the last line to the first.
    pub reverse: u32,
    /// 1: GRU applies its reset to the product, with the bias of the weights, not to the state.
    pub reset_after: u32,
    /// 1: LSTM's gates i, o and f see the cell's state.
    pub peepholes: u32,
    /// Arguments of functions are clipped to this distance from zero.
    pub clip: f32,
    /// The functions f, g and h of ONNX.
    pub functions: [Activation; 3],
}

impl RecurrentParams {
    /// Gates.
    pub fn gates(&self) -> u32 {
        [1, 3, 4][self.cell.min(2) as usize]
    }

    /// Numbers of the state for each hidden unit.
    pub fn states(&self) -> u32 {
        if self.cell == 2 { 2 } else { 1 }
    }

    /// Floats of the weights, with panels of `nr` units.
    pub fn floats(&self, nr: usize) -> u64 {
        let hidden = u64::from(self.hidden);
        let panels = hidden.div_ceil(nr as u64) * u64::from(self.gates());
        let peepholes = if self.peepholes > 0 { 3 * hidden } else { 0 };
        panels.saturating_mul((1 + hidden).saturating_mul(nr as u64)).saturating_add(peepholes)
    }
}

/// Pixels of an image at places that the second input has: x, y (and z) between -1 and 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct GridSampleParams {
    /// 0 the nearest pixel, 1 linear, 2 cubic.
    pub mode: u32,
    /// Beyond the image are 0 zeros, 1 the pixels of its border, 2 its reflection.
    pub padding: u32,
    /// 1: -1 and 1 are the centres of the pixels at the corners, else the corners.
    pub align_corners: u32,
    /// Slices of a volume, which lie one after the other in the image's lines; 1 of an image.
    pub depth: u32,
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
