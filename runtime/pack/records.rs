//! The records of a pack: little-endian, `#[repr(C)]`, plain data, without padding. Of most of those there are many of, this is
//! what they say; [`stored`](super::stored) has them in fewer bytes.
//!
//! Everything here is an *allegation* until `open` has validated it: an index may point nowhere, an
//! offset may lie outside the arena. Code that runs after `open` relies on what `open` proved.

use bytemuck::{Pod, Zeroable};
use core::ops::Range;

/// The first eight bytes of a pack.
pub const MAGIC: [u8; 8] = *b"EYELET\r\n";

/// The version of the format that this library reads and writes.
pub const VERSION: u32 = 6;

/// An index that points at nothing (an absent input, weights that do not exist).
pub const NONE: u32 = u32::MAX;

/// The largest number of plans in a pack.
pub const MAX_PLANS: usize = 16;

/// Where the skeleton starts, in bytes from the start of the file and of the arena: behind as many entries as there can
/// be, so that what a plan leaves for tables does not depend on how many other plans there are.
pub const SKELETON: u64 = (size_of::<Header>() + MAX_PLANS * size_of::<PlanEntry>()) as u64;

/// The header, at byte 0 of the file. The [`PlanEntry`] table follows, and in the same page the [`SKELETON`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// [`VERSION`].
    pub version: u32,
    /// CRC-32C of the first page with this field zero.
    pub crc: u32,
    /// Instruction set whose packing layout the weights have: an [`Isa`](crate::kernels::Isa) code.
    pub isa: u32,
    /// Output channels in a panel (NR of the packing layout).
    pub panel: u32,
    /// Bytes of the whole file.
    pub file_bytes: u64,
    /// Where the layers' names start, in bytes from the start of the file (a multiple of the page). They are for people, and
    /// lie in no arena.
    pub names_offset: u64,
    /// Bytes of the layers' names (not rounded).
    pub names_bytes: u64,
    /// Bytes of the skeleton.
    pub skeleton_bytes: u64,
    /// Where the weights start (a multiple of the page).
    pub weights_offset: u64,
    /// Bytes of the weights, a multiple of the page.
    pub weights_bytes: u64,
    /// CRC-32C of the skeleton's bytes.
    pub skeleton_crc: u32,
    /// CRC-32C of the layers' names.
    pub names_crc: u32,
    /// Number of plans.
    pub plans: u32,
    /// Reserved, zero.
    pub reserved: u32,
}

impl Header {
    /// Where the skeleton lies in the file.
    pub fn skeleton(&self) -> Range<u64> {
        SKELETON..SKELETON.saturating_add(self.skeleton_bytes)
    }
}

/// One plan of a pack, in the table of the header page.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct PlanEntry {
    /// The budget that the plan was made for: bytes of arena.
    pub budget: u64,
    /// The bytes of arena that it uses, tables included; at most `budget`.
    pub arena_bytes: u64,
    /// Where its section starts, in bytes from the start of the file (a multiple of the page).
    pub offset: u64,
    /// Bytes of its section (not rounded).
    pub bytes: u64,
    /// CRC-32C of its section.
    pub crc: u32,
    /// The largest number of compute threads that its scratch was planned for.
    pub threads: u32,
    /// Which strategy made it: index into [`STRATEGIES`].
    pub strategy: u32,
    /// Reserved, zero.
    pub reserved: u32,
    /// Predicted steady-state latency, nanoseconds; 0 where nothing was predicted.
    pub predicted_ns: u64,
}

/// Names of the strategies, by code.
pub const STRATEGIES: [&str; 14] = [
    "flexnn",
    "preload",
    "on-demand",
    "joint",
    "direct",
    "flexnn-no-preload",
    "flexnn-dynamic",
    "flexnn-dynamic-no-preload",
    "demand-seq",
    "demand-sync",
    "demand-async",
    "demand-async-md",
    "demand-2s",
    "demand-2s-md",
];

/// The skeleton's own header, followed by its arrays in the order of its counts, of records as they are
/// [`stored`](super::stored).
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
pub struct SkeletonHeader {
    /// Number of [`Buffer`] records.
    pub buffers: u32,
    /// Number of [`Tensor`] records.
    pub tensors: u32,
    /// Number of [`Layer`] records.
    pub layers: u32,
    /// Number of words that layers refer to: activations and parameters.
    pub words: u32,
    /// Number of [`Port`] records that are inputs; they come first.
    pub inputs: u32,
    /// Number of [`Port`] records that are outputs.
    pub outputs: u32,
    /// Bytes of the string table (UTF-8), a multiple of 4: the names of the network and of its ports.
    pub names: u32,
    /// The network's name, in the string table.
    pub name: Name,
}

/// A string in a table of strings.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Name {
    /// First byte.
    pub start: u32,
    /// Bytes.
    pub len: u32,
}

/// A run of arena bytes that holds activations; its address is the plan's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes, a multiple of 64.
    pub bytes: u64,
}

/// A tensor: `dims[0]·dims[1]·dims[2]` rows ("pixels") of `dims[3]` adjacent floats ("channels"), at a
/// uniform pitch, somewhere in a buffer. Images are NHWC; other tensors are row-major with leading
/// dimensions folded into the first three. Several tensors may view one buffer (concatenation).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Tensor {
    /// Index of the buffer.
    pub buffer: u32,
    /// First element, in floats from the start of the buffer.
    pub offset: u32,
    /// Extent: images, height, width, channels.
    pub dims: [u32; 4],
    /// Floats from one row to the next; at least `dims[3]`.
    pub pitch: u32,
}

impl Tensor {
    /// Rows: images times height times width.
    pub fn rows(&self) -> u64 {
        self.dims[0] as u64 * self.dims[1] as u64 * self.dims[2] as u64
    }

    /// Floats in a row.
    pub fn cols(&self) -> u32 {
        self.dims[3]
    }
}

/// An input or output of the network, in the model's own layout (row-major, NCHW as exported).
/// Integers (indices into a table) are floats here, too: exact up to 2²⁴.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Port {
    /// The model's name for it.
    pub name: Name,
    /// The tensor that holds it: contiguous (`pitch == dims[3]`).
    pub tensor: u32,
    /// Number of dimensions in the model's own shape.
    pub rank: u32,
    /// The model's own shape; unused entries are 1.
    pub shape: [u32; 8],
}

/// What a layer computes. Codes are part of the format.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Convolution, also grouped; fully connected is a 1x1 convolution. [`ConvParams`].
    Conv = 1,
    /// Depthwise convolution, also per-channel scale and shift (1x1), and convolution in groups of so few
    /// channels, as many in as out, that panels hold several ([`Isa::spans`](crate::kernels::Isa::spans)).
    /// [`ConvParams`].
    Depthwise = 2,
    /// Maximum or average pooling. [`PoolParams`].
    Pool = 3,
    /// An elementwise function: the layer's activation. No parameters.
    Unary = 4,
    /// Elementwise arithmetic of two tensors with broadcasting. [`BinaryParams`].
    Binary = 5,
    /// Softmax over the channels of each row. No parameters.
    Softmax = 6,
    /// Local response normalisation across channels. [`LrnParams`].
    Lrn = 7,
    /// Strided copy of up to six dimensions: layout change, transpose, concatenation, padding.
    /// [`CopyParams`].
    Copy = 8,
    /// Product of two activations. [`MatMulParams`].
    MatMul = 9,
    /// Reduction to the mean. [`ReduceParams`].
    Reduce = 10,
    /// 3x3 convolution of stride 1 by Winograd's algorithm. [`WinogradParams`].
    Winograd = 11,
    /// Normalisation over the channels of each row, with scale and shift. [`LayerNormParams`].
    LayerNorm = 12,
    /// Rows of a constant table, chosen by the input. [`GatherParams`].
    Gather = 13,
}

impl OpKind {
    /// The operator of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        use OpKind::*;
        [
            Conv, Depthwise, Pool, Unary, Binary, Softmax, Lrn, Copy, MatMul, Reduce, Winograd,
            LayerNorm, Gather,
        ]
        .into_iter()
        .find(|kind| *kind as u32 == code)
    }

    /// Whether the weights are panels of output channels, of which a step may take some.
    pub fn has_panels(self) -> bool {
        matches!(self, Self::Conv | Self::Depthwise | Self::Winograd | Self::Gather)
    }
}

/// How the weights of panels are stored. Biases, at the head of a panel, are floats always. Codes are part of
/// the format.
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
}

impl Encoding {
    /// All encodings.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

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
        }
    }

    /// Bytes of a weight.
    pub const fn weight_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Bytes of a panel of `nr` output channels with `k` weights each; `None` where they cannot be counted.
    pub fn panel_bytes(self, k: u64, nr: usize) -> Option<u64> {
        let weights = k.checked_mul(nr as u64)?.checked_mul(self.weight_bytes() as u64)?;
        weights.checked_add(4 * nr as u64)?.checked_next_multiple_of(32)
    }
}

/// A layer after fusion: one operator, its activation, its tensors, its weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Layer {
    /// [`OpKind`] code.
    pub kind: u32,
    /// Input tensors; absent ones are [`NONE`]. Conv, Depthwise, Winograd: data, residual. Binary: a, b.
    pub inputs: [u32; 2],
    /// Output tensor. It may be the very tensor of an input (in place) for Unary, Binary, Softmax, LayerNorm,
    /// and for the residual of Conv, Depthwise and Winograd.
    pub output: u32,
    /// Applied to the result, after the residual.
    pub activation: Activation,
    /// Panels of packed weights; 0 where the layer has none.
    pub panels: u32,
    /// Bytes of one panel as it is stored, a multiple of 32.
    pub panel_bytes: u32,
    /// [`Encoding`] code: how the panels' weights are stored. 0 where there are no panels of output channels.
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
    /// min(max(x, alpha), beta); ReLU is alpha = 0, beta = +inf. A bound that is NaN does nothing. Of a bound of
    /// zero the sign does not matter: kernels take a lower one as negative, an upper one as positive ([`Activation::for_kernels`]), since
    /// then maximum and minimum are one instruction each with the same bits on every processor. Of two zeros with different signs
    /// x86 takes the second, ARM the positive one as maximum and the negative one as minimum.
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
}

impl Activation {
    /// No activation.
    pub const NONE: Self = Self { kind: 0, alpha: 0.0, beta: 0.0 };
    /// max(x, 0).
    pub const RELU: Self =
        Self { kind: ActivationKind::Clamp as u32, alpha: 0.0, beta: f32::INFINITY };

    /// As kernels take it: of a clamp, a lower bound of zero is negative, an upper one positive, and one that is no number is
    /// none.
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
        ]
        .into_iter()
        .find(|kind| *kind as u32 == self.kind)
    }
}

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
    /// Groups. Of [`OpKind::Conv`] each group's output channels fill whole panels, the last of which is padded;
    /// of [`OpKind::Depthwise`] each panel holds several whole groups.
    pub groups: u32,
    /// Of [`OpKind::Conv`] for a GPU: chains that the reduction is cut into, at multiples of 8 of its K (tap row, tap
    /// column, channel of the group) weights: with U = ⌈K/8⌉, chain c has those from min(K, 8·⌊U·c/chains⌋) on. Each is
    /// summed by itself from zero (the first one from the bias), also one that has none; then all are added up in
    /// order. 0 and 1: as processors sum it ([`Chains`](crate::kernels::table::Chains)), who know nothing else.
    pub chains: u32,
}

/// Geometry of a 3x3 convolution of stride 1, without dilation, that is computed in tiles of
/// `tile` times `tile` outputs, F(tile, 3). Padding at the bottom and right follows from the output's
/// extent. Panels are `[bias NR][(tile + 2)²][input channels of a group][NR]`: transformed weights. None has channels of
/// two groups.
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
}

impl BinaryOp {
    /// The operation of a code, if there is one.
    pub fn from_code(code: u32) -> Option<Self> {
        use BinaryOp::*;
        [Add, Sub, Mul, Div, PRelu, Mask, Max, Min].into_iter().find(|op| *op as u32 == code)
    }
}

/// Local response normalisation: `x / (bias + alpha/size · Σ x²)^beta` over `size` adjacent channels.
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

/// Layer normalisation: `(x - mean) / √(variance + epsilon) · scale + shift` over the channels of a row. The
/// weights are one panel: all scales, then all shifts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
pub struct LayerNormParams {
    /// Keeps the root away from zero.
    pub epsilon: f32,
}

/// A table of rows: output row i is row `input[i]` of it. Panels are `[bias NR][entries][NR]`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct GatherParams {
    /// Rows of the table.
    pub entries: u32,
}

/// A strided copy: for every index in `dims`, `output[dst_start + Σ i·dst] = input[src_start + Σ i·src]`,
/// in floats from the first element of the tensors' *buffers*. Strides may be zero, never negative.
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

/// `output[i] = a[i] · (scale · b[i])` for each `i` in `batch`: `m×k` times `k×n`. Operands are given by strides
/// in floats from the tensors' first elements. The output has `batch·m` rows of `n`, at its tensor's pitch. An operand's record
/// is one run of floats; or the left one's is rows as the output's are, which its strides repeat.
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

/// Mean over the middle of `outer × reduce × inner` contiguous floats.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct ReduceParams {
    /// Independent blocks.
    pub outer: u32,
    /// Values that are averaged.
    pub reduce: u32,
    /// Adjacent floats that belong to different averages.
    pub inner: u32,
}

/// The header of a plan's section, followed by its arrays in the order of its counts, of records as they are
/// [`stored`](super::stored): places (one for each of the skeleton's buffers), loads (those that are done once come first), what steps
/// do, steps; and, if there is a staging ring, one [`Stage`] for each load that is not resident.
///
/// Step 0 of an inference is the host's turn: it reads the outputs of the last inference and writes
/// the inputs of the next. It has no record; the first record is step 1.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct PlanHeader {
    /// Number of places; the skeleton's `buffers`.
    pub buffers: u32,
    /// Loads that are done once, when the pack is opened; they come first.
    pub resident_loads: u32,
    /// Loads of every inference.
    pub loads: u32,
    /// Number of [`WorkRecord`](super::stored::WorkRecord)s.
    pub works: u32,
    /// Steps of every inference, without the host's.
    pub steps: u32,
    /// Pages of the staging ring, beside the arena, for a device with a memory of its own: loads are read into it, and
    /// copied from there to their addresses. 0 where loads are read to where they are used.
    pub staging_pages: u32,
}

/// Where a buffer lies, and how much of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the arena; a multiple of 64.
    pub address: u64,
    /// 0: the whole buffer. Otherwise a ring of so many image lines: line y lies in slot `y % lines`.
    pub lines: u32,
}

impl Place {
    /// A whole buffer.
    pub fn whole(address: u64) -> Self {
        Self { address, ..Self::default() }
    }
}

/// Bytes of a ring of `lines` image lines, each `width` pixels that lie `pitch` floats apart: a multiple of 64;
/// saturates.
pub fn ring_bytes(lines: u32, width: u32, pitch: u32) -> u64 {
    let pixels = u64::from(lines) * u64::from(width);
    let bytes = pixels.checked_mul(u64::from(pitch)).and_then(|floats| floats.checked_mul(4));
    bytes.and_then(|bytes| bytes.checked_next_multiple_of(64)).unwrap_or(u64::MAX)
}

/// One contiguous read from the weights section into the arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// First byte, from the start of the weights section; a multiple of the page.
    pub offset: u64,
    /// Where it goes: bytes from the start of the arena; a multiple of the page.
    pub address: u64,
    /// Bytes, a multiple of the page.
    pub bytes: u32,
    /// CRC-32C of these bytes.
    pub crc: u32,
    /// The load may start when this many steps of its inference are done, the host's included.
    /// Negative: already in the inference before (`-3`: when all but three of its steps are done).
    pub release: i32,
}

/// Where a load is staged, and when. A plan with a staging ring has three stages with a counter each: reads (from storage into the
/// ring), copies (from the ring into the arena), steps. Read j may start when both its thresholds are reached; copy j
/// when read j is done and the load's `release` is reached, which then is not the read's; a step when its `ready` copies and its `reads`
/// reads are done. Each stage does its tasks in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stage {
    /// Bytes from the start of the staging ring; a multiple of the page.
    pub address: u64,
    /// The read may start when this many copies of its inference are done. Negative: already in the inference before
    /// (`-3`: when all but three of its copies are done).
    pub copies: i32,
    /// The same, of steps, the host's included.
    pub steps: i32,
}

/// One kernel call sequence over one slice of a layer: `count` panels from panel `first`, for the
/// output rows `row` to `row + rows`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Index of the layer.
    pub layer: u32,
    /// The step may start when this many loads of its inference are done.
    pub ready: u32,
    /// First panel.
    pub first: u32,
    /// Panels; 0 for a layer without weights.
    pub count: u32,
    /// First output row.
    pub row: u32,
    /// Output rows.
    pub rows: u32,
    /// Where panel `first` lies: bytes from the start of the arena; a multiple of 32.
    pub weights: u64,
    /// Where its scratch lies: bytes from the start of the arena; a multiple of 64.
    pub scratch: u64,
    /// Bytes of scratch, a multiple of 64: no less than the operator needs; what it can do with more decides on its blocks.
    pub scratch_bytes: u64,
    /// 0: the layer's own algorithm. 2 or 4: F(2,3) or F(4,3) of a 3x3 convolution of stride 1 in one group whose
    /// stored panels are the direct one's; the step transforms them itself, into its scratch.
    pub algorithm: u32,
    /// The step may start when this many reads of its inference are done: of a plan with a staging ring, where it is more
    /// than `ready` says (a synchronous pipeline). 0 otherwise.
    pub reads: u32,
    /// The first chain of the reduction that it computes, if it computes some of them only.
    pub chain: u32,
    /// How many, of one panel; 0 for all of them, of however many panels. The first chain's step begins the sums, the others add to
    /// what the output holds ([`chains`](crate::ops::chains)).
    pub chains: u32,
    /// What becomes of the inputs that it transforms.
    pub kept: Kept,
}

/// What becomes of the inputs that a step of a [Winograd convolution](crate::ops::winograd) transforms.
///
/// A layer that is cut into slices of its panels would transform the same inputs in each of them. Where a step leaves them in its
/// scratch, the one behind it, of other panels and the same rows, finds them there: its scratch is the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kept {
    /// Nothing: they are transformed block by block, as they are used.
    #[default]
    Not,
    /// All of them are left, for the next step.
    Left,
    /// The step before has left them, and so does this one.
    Found,
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

const _: () = assert!(SKELETON < 4096 && SKELETON.is_multiple_of(8));

#[cfg(test)]
mod tests {
    use super::*;

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
        // What other functions' numbers mean is theirs.
        assert_eq!(bits(ActivationKind::LeakyRelu, 0.0, -0.0), [0.0, -0.0].map(f32::to_bits));
    }
}
