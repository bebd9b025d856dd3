//! Which function translates which operator: a table for each kind.

use super::super::noise::noise;
use super::{Translate, by_indices, dropout};
use super::{
    attention, bits, cast, computed, contrib, conv, cut, einsum, elementwise, folded, indexed,
    layout, linear, linear_attention, normalise, norms, pad, patterns, pointwise, pool, qlinear,
    quantised, recurrent, reduction, regions, resize, sample, selection, signal, sorted,
    tensor_scatter, transposed, words,
};
use crate::graph::Op;
use std::cmp::Ordering;

/// The kinds, each with the operators that it has.
const KINDS: [fn(&str) -> Option<Translate>; 9] =
    [windows, functions, arithmetic, quantised, products, norms, layout, constants, indices];

/// How nodes of one of ONNX's operators are translated.
pub(super) fn find(operator: &str) -> Option<Translate> {
    KINDS.iter().find_map(|kind| kind(operator))
}

/// Convolutions, pooling, and what rearranges their maps.
fn windows(operator: &str) -> Option<Translate> {
    Some(match operator {
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
        _ => return None,
    })
}

/// Functions of single elements.
fn functions(operator: &str) -> Option<Translate> {
    Some(match operator {
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
        "PRelu" => pointwise::prelu,
        _ => return None,
    })
}

/// Arithmetic, comparisons and logic of one or more tensors.
fn arithmetic(operator: &str) -> Option<Translate> {
    Some(match operator {
        "Add" => |cx| elementwise::arithmetic(cx, Op::Add),
        "Sub" => |cx| elementwise::arithmetic(cx, Op::Sub),
        "Mul" => |cx| elementwise::arithmetic(cx, Op::Mul),
        "Div" => |cx| elementwise::arithmetic(cx, Op::Div),
        "Sum" => |cx| elementwise::sum(cx, false),
        "Mean" => |cx| elementwise::sum(cx, true),
        "Max" => |cx| elementwise::extreme(cx, true),
        "Min" => |cx| elementwise::extreme(cx, false),
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
        _ => return None,
    })
}

/// What reads or makes quantised tensors.
fn quantised(operator: &str) -> Option<Translate> {
    Some(match operator {
        "QuantizeLinear" => quantised::quantize,
        "DequantizeLinear" => quantised::dequantize,
        "QLinearConv" => qlinear::conv,
        "QLinearMatMul" => qlinear::matmul,
        "QGemm" => qlinear::gemm,
        "QLinearAdd" | "QLinearMul" => qlinear::arithmetic,
        "QLinearSigmoid"
        | "QLinearLeakyRelu"
        | "QLinearSoftmax"
        | "QLinearGlobalAveragePool"
        | "QLinearAveragePool" => qlinear::unary,
        "QLinearConcat" => qlinear::concat,
        "ConvInteger" | "MatMulInteger" => qlinear::products,
        "DynamicQuantizeLinear" => quantised::dynamic,
        _ => return None,
    })
}

/// Products of matrices, recurrent layers and attention.
fn products(operator: &str) -> Option<Translate> {
    Some(match operator {
        "Gemm" => linear::gemm,
        "MatMul" => linear::matmul,
        "Det" => linear::determinant,
        "RNN" | "GRU" | "LSTM" => recurrent::recurrent,
        "Attention" => attention::attention,
        "CausalConvWithState" => linear_attention::causal_conv,
        "LinearAttention" => linear_attention::attention,
        "TensorScatter" => tensor_scatter::tensor_scatter,
        "RotaryEmbedding" => attention::rotary,
        "Einsum" => einsum::einsum,
        _ => return None,
    })
}

/// Normalisations and reductions.
fn norms(operator: &str) -> Option<Translate> {
    Some(match operator {
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
        "ReduceProd" | "ReduceSum" | "ReduceMin" | "ReduceMax" => elementwise::reduce,
        _ => return None,
    })
}

/// Parts of tensors and their order, samples between elements, and signals.
fn layout(operator: &str) -> Option<Translate> {
    Some(match operator {
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
        "DFT" => signal::dft,
        "STFT" => signal::stft,
        "HannWindow" => |cx| signal::window(cx, &[0.5, -0.5]),
        "HammingWindow" => |cx| signal::window(cx, &[25.0 / 46.0, -21.0 / 46.0]),
        "BlackmanWindow" => |cx| signal::window(cx, &[0.42, -0.5, 0.08]),
        "MelWeightMatrix" => signal::mel_weights,
        "AffineGrid" => signal::affine_grid,
        _ => return None,
    })
}

/// Constants, casts and patterns, most of which are computed while the model is read.
fn constants(operator: &str) -> Option<Translate> {
    Some(match operator {
        "Constant" => folded::constant,
        "ConstantOfShape" => folded::constant_of_shape,
        "Shape" => folded::shape,
        "Size" => folded::size,
        "Cast" | "CastLike" => cast::cast,
        "Range" => folded::range,
        "Where" => folded::select,
        "Expand" => folded::expand,
        "EyeLike" => patterns::eye_like,
        "Trilu" => patterns::trilu,
        "Tile" => patterns::tile,
        "CumSum" => |cx| patterns::cumulate(cx, true),
        "CumProd" => |cx| patterns::cumulate(cx, false),
        "RandomNormal" | "RandomUniform" | "RandomNormalLike" | "RandomUniformLike" => noise,
        "OneHot" => patterns::one_hot,
        "ArgMax" | "ArgMin" => words::only_flowing,
        _ => return None,
    })
}

/// Elements by their indices, and orders by value.
fn indices(operator: &str) -> Option<Translate> {
    Some(match operator {
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
        _ => return None,
    })
}
