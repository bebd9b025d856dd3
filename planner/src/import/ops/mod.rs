//! The operators: from a node of the model, with shapes inferred, to nodes of the graph or constants.

mod cut;
mod folded;
mod layout;
mod linear;
mod normalise;
mod pointwise;
mod resize;
mod window;

use super::builder::{Context, Operand};
use super::error::NodeProblem;
use crate::graph::Op;

/// Translates a node. The result has an operand for each output that is computed.
pub(super) fn translate(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    if !matches!(cx.proto.domain.as_str(), "" | "ai.onnx") {
        return Err(NodeProblem::unsupported(format!(
            "it is of the operator set `{}`; export the model with standard ONNX operators",
            cx.proto.domain
        )));
    }
    match cx.proto.op_type.as_str() {
        "Conv" => window::conv(cx),
        "MaxPool" => window::pool(cx, false),
        "AveragePool" => window::pool(cx, true),
        "GlobalAveragePool" => window::global_average(cx),

        "Relu" => pointwise::unary(cx, Op::Clip { min: 0.0, max: f32::INFINITY }),
        "Clip" => pointwise::clip(cx),
        "LeakyRelu" => {
            pointwise::unary(cx, Op::LeakyRelu { alpha: attributes.float_or("alpha", 0.01)? })
        }
        "Sigmoid" => pointwise::unary(cx, Op::Sigmoid),
        "HardSigmoid" => {
            let alpha = attributes.float_or("alpha", 0.2)?;
            let beta = attributes.float_or("beta", 0.5)?;
            pointwise::unary(cx, Op::HardSigmoid { alpha, beta })
        }
        "HardSwish" => pointwise::unary(cx, Op::HardSwish),
        "Tanh" => pointwise::unary(cx, Op::Tanh),
        "Erf" => pointwise::unary(cx, Op::Erf),
        "Gelu" => pointwise::gelu(cx),
        "PRelu" => pointwise::prelu(cx),
        "Add" => pointwise::arithmetic(cx, Op::Add),
        "Sub" => pointwise::arithmetic(cx, Op::Sub),
        "Mul" => pointwise::arithmetic(cx, Op::Mul),
        "Div" => pointwise::arithmetic(cx, Op::Div),
        "Sum" => pointwise::sum(cx),

        "Gemm" => linear::gemm(cx),
        "MatMul" => linear::matmul(cx),

        "BatchNormalization" => normalise::batch_norm(cx),
        "LRN" => normalise::lrn(cx),
        "Softmax" => normalise::softmax(cx),
        "LayerNormalization" => normalise::layer_norm(cx),
        "ReduceMean" => normalise::reduce_mean(cx),

        "Concat" => layout::concat(cx),
        "Split" => cut::split(cx),
        "Slice" => cut::slice(cx),
        "Gather" => cut::gather(cx),
        "Pad" => cut::pad(cx),
        "Resize" | "Upsample" => resize::resize(cx),
        "Reshape" => layout::reshape(cx),
        "Flatten" => layout::flatten(cx),
        "Squeeze" => layout::squeeze(cx),
        "Unsqueeze" => layout::unsqueeze(cx),
        "Transpose" => layout::transpose(cx),
        "Identity" => Ok(vec![cx.input(0, "input")?]),
        "Dropout" => dropout(cx),

        "Constant" => folded::constant(cx),
        "ConstantOfShape" => folded::constant_of_shape(cx),
        "Shape" => folded::shape(cx),
        "Size" => folded::size(cx),
        "Cast" | "CastLike" => folded::cast(cx),
        "Range" => folded::range(cx),
        "Where" => folded::select(cx),
        "Expand" => folded::expand(cx),
        "Pow" => folded::power(cx),
        "Equal" | "Less" | "Greater" | "LessOrEqual" | "GreaterOrEqual" | "And" | "Or" | "Mod"
        | "Min" | "Max" => folded::compare(cx),
        "Neg" | "Abs" | "Not" | "Floor" | "Ceil" | "Round" | "Sqrt" | "Reciprocal" | "Exp"
        | "Log" => folded::fold_unary(cx),
        "ReduceProd" | "ReduceSum" | "ReduceMin" | "ReduceMax" => folded::reduce(cx),

        other => Err(NodeProblem::unsupported(advice(other))),
    }
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
    Ok(vec![cx.input(0, "data")?])
}

/// What to do about an operator that is not supported.
fn advice(operator: &str) -> String {
    let quantized = ["QLinear", "Quantize", "Dequantize", "DynamicQuantize"];
    let text = match operator {
        _ if quantized.iter().any(|start| operator.starts_with(start)) => {
            "quantized models are not read: export the float model"
        }
        _ if operator.ends_with("Integer") => {
            "quantized models are not read: export the float model"
        }
        "If" | "Loop" | "Scan" => {
            "control flow is not: export the model by tracing, so that one path remains"
        }
        "LSTM" | "GRU" | "RNN" => "recurrent networks are not: unroll it into MatMul and Add",
        "GlobalMaxPool" => "replace it by MaxPool over the whole image",
        "Einsum" => "export the model with MatMul and Transpose in its place",
        "NonMaxSuppression" | "TopK" | "NonZero" => {
            "cut the model before this node and do its work after the inference"
        }
        _ => {
            "replace it by supported operators (simplifying with onnxsim may help), or cut the model before it"
        }
    };
    text.into()
}
