//! The operators: from a node of the model, with shapes inferred, to nodes of the graph or constants.

mod attention;
mod bits;
mod cast;
pub(super) mod compose;
mod computed;
mod contrib;
mod conv;
mod cut;
mod einsum;
mod elementwise;
mod folded;
mod geometry;
mod indexed;
mod layout;
mod linear;
mod linear_attention;
mod losses;
mod normalise;
mod norms;
mod pad;
mod patterns;
mod pointwise;
mod pool;
mod quantised;
mod recurrent;
mod reduction;
mod regions;
mod resize;
mod sample;
mod selection;
mod signal;
mod sorted;
mod transposed;
mod words;

use super::array::Array;
use super::builder::{Builder, Operand};
use super::context::{Context, Given, axes};
use super::data::External;
use super::error::NodeProblem;
use super::onnx::{AttributeProto, DataType, NodeProto};
use crate::graph::Op;
use std::cmp::Ordering;

/// Translates a node. The result has an operand for each output that is computed.
pub(super) type Translate = fn(&mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem>;

/// Whether a domain is that of ONNX's own operators.
pub(super) fn is_standard_domain(domain: &str) -> bool {
    matches!(domain, "" | "ai.onnx")
}

/// Whether a node's operator is ONNX's own.
pub(super) fn is_standard(node: &NodeProto) -> bool {
    is_standard_domain(&node.domain)
}

/// The operator set of nodes that the model does not have.
const OWN_OPSET: i64 = 13;

/// Translates a node that the model does not have: operator and name, inputs and attributes. Its first output.
pub(super) fn apply(
    parts: (&mut Builder, &mut External),
    (operator, name): (&str, &str),
    inputs: Vec<Given>,
    attributes: Vec<AttributeProto>,
) -> Result<Operand, NodeProblem> {
    let made = applied(parts, (operator, name), inputs, attributes)?;
    made.into_iter().next().ok_or(NodeProblem::Unknown)
}

/// The same, all outputs.
fn applied(
    (builder, external): (&mut Builder, &mut External),
    (operator, name): (&str, &str),
    inputs: Vec<Given>,
    attribute: Vec<AttributeProto>,
) -> Result<Vec<Operand>, NodeProblem> {
    let (op_type, output) = (operator.into(), vec![name.into()]);
    let proto = NodeProto { op_type, output, attribute, ..NodeProto::default() };
    let translate = find(&proto)?;
    let (prefix, opset) = ("", OWN_OPSET);
    let mut cx = Context { proto: &proto, name, prefix, opset, inputs, builder, external };
    self::translate(&mut cx, translate)
}

/// How nodes of an operator are translated; that it is not supported is known without its inputs.
pub(super) fn find(node: &NodeProto) -> Result<Translate, NodeProblem> {
    let of_quantiser = node.domain == "com.microsoft"
        && (node.op_type.starts_with("QLinear")
            || matches!(&node.op_type[..], "QGemm" | "QuantizeLinear" | "DequantizeLinear"));
    if node.domain == "com.microsoft"
        && let Some(translate) = contrib::find(&node.op_type)
    {
        return Ok(translate);
    }
    if !is_standard(node) && !of_quantiser {
        return Err(NodeProblem::unsupported(format!(
            "it is of the operator set `{}`; export the model with standard ONNX operators",
            node.domain
        )));
    }
    Ok(match node.op_type.as_str() {
        "Conv" => conv::conv,
        "ConvTranspose" => transposed::conv_transpose,
        "Col2Im" => transposed::col2im,
        "DepthToSpace" => |cx| transposed::blocks(cx, true),
        "SpaceToDepth" => |cx| transposed::blocks(cx, false),
        "MaxPool" => quantised::max_pool,
        "AveragePool" => |cx| pool::pool(cx, true),
        "GlobalAveragePool" => pool::global_average,
        "GlobalMaxPool" => pool::global_max,
        "LpPool" => pool::lp,

        "Relu" => |cx| pointwise::unary(cx, Op::Clip { min: 0.0, max: f32::INFINITY }),
        "Clip" => pointwise::clip,
        "LeakyRelu" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 0.01)?;
            pointwise::unary(cx, Op::LeakyRelu { alpha })
        },
        "Sigmoid" => |cx| pointwise::unary(cx, Op::Sigmoid),
        "HardSigmoid" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 0.2)?;
            let beta = cx.attributes().float_or("beta", 0.5)?;
            pointwise::unary(cx, Op::HardSigmoid { alpha, beta })
        },
        "HardSwish" => |cx| pointwise::unary(cx, Op::HardSwish),
        "Tanh" => |cx| pointwise::unary(cx, Op::Tanh),
        "Erf" => |cx| pointwise::unary(cx, Op::Erf),
        "Gelu" => pointwise::gelu,
        "Elu" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 1.0)?;
            pointwise::unary(cx, Op::Elu { alpha, beta: 1.0 })
        },
        "Selu" => pointwise::selu,
        "Celu" => pointwise::celu,
        "SwiGLU" => pointwise::swiglu,
        "ThresholdedRelu" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 1.0)?;
            pointwise::unary(cx, Op::ThresholdedRelu { alpha })
        },
        "Softplus" => |cx| pointwise::unary(cx, Op::Softplus),
        "Softsign" => |cx| pointwise::unary(cx, Op::Softsign),
        "Mish" => |cx| pointwise::unary(cx, Op::Mish),
        "Shrink" => |cx| {
            let lambda = cx.attributes().float_or("lambd", 0.5)?;
            let bias = cx.attributes().float_or("bias", 0.0)?;
            pointwise::unary(cx, Op::Shrink { lambda, bias })
        },
        "Swish" => |cx| {
            let alpha = cx.attributes().float_or("alpha", 1.0)?;
            pointwise::unary(cx, Op::Swish { alpha })
        },
        "Sin" => |cx| pointwise::unary(cx, Op::Sin),
        "Cos" => |cx| pointwise::unary(cx, Op::Cos),
        "Tan" => |cx| pointwise::unary(cx, Op::Tan),
        "Asin" => |cx| pointwise::unary(cx, Op::Asin),
        "Acos" => |cx| pointwise::unary(cx, Op::Acos),
        "Atan" => |cx| pointwise::unary(cx, Op::Atan),
        "Sinh" => |cx| pointwise::unary(cx, Op::Sinh),
        "Cosh" => |cx| pointwise::unary(cx, Op::Cosh),
        "Asinh" => |cx| pointwise::unary(cx, Op::Asinh),
        "Acosh" => |cx| pointwise::unary(cx, Op::Acosh),
        "Atanh" => |cx| pointwise::unary(cx, Op::Atanh),
        "QuantizeLinear" => quantised::quantize,
        "DequantizeLinear" => quantised::dequantize,
        "QLinearConv" => quantised::conv,
        "QLinearMatMul" => quantised::matmul,
        "QGemm" => quantised::gemm,
        "QLinearAdd" | "QLinearMul" => quantised::arithmetic,
        "QLinearSigmoid"
        | "QLinearLeakyRelu"
        | "QLinearSoftmax"
        | "QLinearGlobalAveragePool"
        | "QLinearAveragePool" => quantised::unary,
        "QLinearConcat" => quantised::concat,
        "ConvInteger" | "MatMulInteger" => quantised::products,
        "DynamicQuantizeLinear" => quantised::dynamic,

        "PRelu" => pointwise::prelu,
        "Add" => |cx| elementwise::arithmetic(cx, Op::Add),
        "Sub" => |cx| elementwise::arithmetic(cx, Op::Sub),
        "Mul" => |cx| elementwise::arithmetic(cx, Op::Mul),
        "Div" => |cx| elementwise::arithmetic(cx, Op::Div),
        "Sum" => |cx| elementwise::sum(cx, false),
        "Mean" => |cx| elementwise::sum(cx, true),
        "Max" => |cx| elementwise::extreme(cx, true),
        "Min" => |cx| elementwise::extreme(cx, false),

        "Gemm" => linear::gemm,
        "MatMul" => linear::matmul,
        "Det" => linear::determinant,

        "RNN" | "GRU" | "LSTM" => recurrent::recurrent,
        "BatchNormalization" => normalise::batch_norm,
        "LRN" => normalise::lrn,
        "Softmax" => normalise::softmax,
        "LogSoftmax" => norms::log_softmax,
        "Hardmax" => norms::hardmax,
        "LayerNormalization" => norms::layer,
        "RMSNormalization" => norms::rms,
        "InstanceNormalization" => norms::instance,
        "GroupNormalization" => norms::group,
        "MeanVarianceNormalization" => norms::mean_variance,
        "LpNormalization" => reduction::lp_normalization,
        "GlobalLpPool" => reduction::global_lp_pool,
        "ReduceMean" | "ReduceL1" | "ReduceL2" | "ReduceSumSquare" | "ReduceLogSum"
        | "ReduceLogSumExp" => reduction::reduce,
        // onnxruntime's own, in ONNX's name.
        "SimplifiedLayerNormalization" => contrib::simplified_norm,
        "Attention" => attention::attention,
        "CausalConvWithState" => linear_attention::causal_conv,
        "LinearAttention" => linear_attention::attention,
        "TensorScatter" => linear_attention::tensor_scatter,
        "NegativeLogLikelihoodLoss" => losses::negative_log_likelihood,
        "SoftmaxCrossEntropyLoss" => losses::softmax_cross_entropy,
        "RotaryEmbedding" => attention::rotary,

        "Concat" => layout::concat,
        "Split" => cut::split,
        "Slice" => cut::slice,
        "Gather" => cut::gather,
        "Pad" => pad::pad,
        "CenterCropPad" => pad::center_crop_pad,
        "GridSample" => sample::grid_sample,
        "DeformConv" => regions::deform_conv,
        "RoiAlign" => regions::roi_align,
        "Resize" | "Upsample" => resize::resize,
        "Reshape" => layout::reshape,
        "Flatten" => layout::flatten,
        "Squeeze" => layout::squeeze,
        "Unsqueeze" => layout::unsqueeze,
        "Transpose" => layout::transpose,
        "Identity" => |cx| Ok(vec![cx.input(0, "input")?]),
        "Dropout" => dropout,

        "Constant" => folded::constant,
        "ConstantOfShape" => folded::constant_of_shape,
        "Shape" => folded::shape,
        "Size" => folded::size,
        "Cast" | "CastLike" => cast::cast,
        "Range" => folded::range,
        "Where" => folded::select,
        "Expand" => folded::expand,
        "Pow" => elementwise::power,
        "Mod" => elementwise::modulo,
        "Equal" => |cx| elementwise::compare(cx, Ordering::is_eq),
        "Less" => |cx| elementwise::compare(cx, Ordering::is_lt),
        "Greater" => |cx| elementwise::compare(cx, Ordering::is_gt),
        "LessOrEqual" => |cx| elementwise::compare(cx, Ordering::is_le),
        "GreaterOrEqual" => |cx| elementwise::compare(cx, Ordering::is_ge),
        "And" => |cx| elementwise::logic(cx, |a, b| a && b),
        "Or" => |cx| elementwise::logic(cx, |a, b| a || b),
        "Neg" | "Abs" | "Not" | "Floor" | "Ceil" | "Round" | "Sqrt" | "Reciprocal" | "Exp"
        | "Log" | "Sign" => elementwise::unary,
        "Xor" => |cx| elementwise::logic(cx, |a, b| a != b),
        "BitwiseAnd" => |cx| bits::binary(cx, |a, b| a & b),
        "BitwiseOr" => |cx| bits::binary(cx, |a, b| a | b),
        "BitwiseXor" => |cx| bits::binary(cx, |a, b| a ^ b),
        "BitwiseNot" => bits::not,
        "BitShift" => bits::shift,
        "IsNaN" => |cx| bits::are(cx, f64::is_nan),
        "IsInf" => bits::are_infinite,
        "ReduceProd" | "ReduceSum" | "ReduceMin" | "ReduceMax" => elementwise::reduce,

        "GatherElements" => {
            |cx| by_indices(cx, indexed::gather_elements, computed::gather_elements)
        }
        "GatherND" => |cx| by_indices(cx, indexed::gather_nd, computed::gather_nd),
        "Scatter" | "ScatterElements" => {
            |cx| by_indices(cx, indexed::scatter_elements, |cx| computed::scatter(cx, false))
        }
        "ScatterND" => |cx| by_indices(cx, indexed::scatter_nd, |cx| computed::scatter(cx, true)),
        "Compress" => indexed::compress,
        "ReverseSequence" => indexed::reverse_sequence,
        "TopK" => sorted::top_k,
        "NonMaxSuppression" => selection::non_max_suppression,
        "MaxUnpool" => computed::max_unpool,
        "NonZero" => sorted::non_zero,
        "Unique" => sorted::unique,
        "EyeLike" => patterns::eye_like,
        "Trilu" => patterns::trilu,
        "Tile" => patterns::tile,
        "CumSum" => |cx| patterns::cumulate(cx, true),
        "CumProd" => |cx| patterns::cumulate(cx, false),
        "OneHot" => patterns::one_hot,
        "Einsum" => einsum::einsum,
        "DFT" => signal::dft,
        "STFT" => signal::stft,
        "HannWindow" => |cx| signal::window(cx, &[0.5, -0.5]),
        "HammingWindow" => |cx| signal::window(cx, &[25.0 / 46.0, -21.0 / 46.0]),
        "BlackmanWindow" => |cx| signal::window(cx, &[0.42, -0.5, 0.08]),
        "AffineGrid" => signal::affine_grid,
        "ArgMax" | "ArgMin" => words::only_flowing,

        other => return Err(NodeProblem::unsupported(advice(other))),
    })
}

/// Translates a node, by what words need where it reads or makes them.
pub(super) fn translate(
    cx: &mut Context<'_, '_>,
    other: Translate,
) -> Result<Vec<Operand>, NodeProblem> {
    match words::translate(cx, other)? {
        Some(made) => Ok(made),
        None => other(cx),
    }
}

/// Translates a node by constant indices, its second input, or by computed ones.
fn by_indices(
    cx: &mut Context<'_, '_>,
    constant: Translate,
    computed: Translate,
) -> Result<Vec<Operand>, NodeProblem> {
    match cx.input(1, "indices")? {
        Operand::Whole(..) => computed(cx),
        _ => constant(cx),
    }
}

/// Over which axes a reduction goes, and the shape that it leaves.
struct Reduction {
    axes: Vec<usize>,
    shape: Vec<usize>,
}

/// Reads a reduction of a tensor of this shape; nothing where it does nothing.
fn reduced(
    cx: &Context<'_, '_>,
    from_input: bool,
    shape: &[usize],
) -> Result<Option<Reduction>, NodeProblem> {
    let given = match from_input {
        true => cx.optional_integers(1, "axes")?.map(|axes| axes.data.clone()),
        false => cx.attributes().ints("axes")?.map(<[i64]>::to_vec),
    };
    let axes = match given {
        Some(given) if !given.is_empty() => axes(&given, shape.len())?,
        _ if cx.attributes().flag("noop_with_empty_axes", false)? => return Ok(None),
        _ => (0..shape.len()).collect(),
    };
    let keep = cx.attributes().flag("keepdims", true)?;
    let left = (0..shape.len()).filter(|axis| keep || !axes.contains(axis));
    let left = left.map(|axis| if axes.contains(&axis) { 1 } else { shape[axis] }).collect();
    Ok(Some(Reduction { axes, shape: left }))
}

/// In inference `Dropout` does nothing.
fn dropout(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let training = match cx.optional_integers(2, "training_mode")? {
        Some(given) => given.data.first().is_some_and(|&value| value != 0),
        None => false,
    };
    if training {
        return Err(NodeProblem::unsupported(
            "it is in training mode; export the model for inference (model.eval())",
        ));
    }
    let data = cx.input(0, "data")?;
    let mut results = vec![data.clone()];
    if cx.proto.output.len() > 1 {
        // Everything passes.
        let shape = cx.shape_of(&data);
        cx.charge(&shape)?;
        let count = shape.iter().product();
        results.push(Operand::integers(DataType::Bool, Array { shape, data: vec![1; count] }));
    }
    Ok(results)
}

/// What to do about an operator that is not supported.
fn advice(operator: &str) -> String {
    let text = match operator {
        _ if operator.starts_with("QLinear") || operator.starts_with("DynamicQuantize") => {
            "quantise the model statically, with QuantizeLinear and DequantizeLinear (QDQ)"
        }
        _ => {
            "replace it by supported operators (simplifying with onnxsim may help), or cut the model before it (--until)"
        }
    };
    text.into()
}
