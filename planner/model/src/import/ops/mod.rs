//! The operators: from a node of the model, with shapes inferred, to nodes of the graph or constants.

mod attention;
mod bits;
mod cast;
mod compose;
mod computed;
mod computed_slices;
mod constant_integers;
mod contrib;
mod conv;
mod cut;
mod einsum;
mod elementwise;
mod flowing;
mod folded;
mod geometry;
mod indexed;
mod integers;
mod layout;
mod linear;
mod linear_attention;
mod normalise;
mod norms;
mod offsets;
mod pad;
mod patterns;
mod pointwise;
mod pool;
mod qlinear;
mod quantised;
mod recurrent;
mod reduction;
mod regions;
mod resize;
mod sample;
mod scales;
mod selection;
mod signal;
mod sorted;
mod table;
mod tensor_scatter;
mod transposed;
mod words;

use super::array::Array;
use super::builder::{Builder, Operand};
use super::context::{Context, Given, axes};
use super::data::External;
use super::error::NodeProblem;
use super::onnx::{AttributeProto, DataType, NodeProto};

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
    let operator = node.op_type.as_str();
    table::find(operator).ok_or_else(|| NodeProblem::unsupported(advice(operator)))
}

/// Translates a node, by what words need where it reads or makes them, or by what constant integers need.
pub(super) fn translate(
    cx: &mut Context<'_, '_>,
    other: Translate,
) -> Result<Vec<Operand>, NodeProblem> {
    if let Some(made) = words::translate(cx, other)? {
        return Ok(made);
    }
    match constant_integers::translate(cx, other)? {
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
