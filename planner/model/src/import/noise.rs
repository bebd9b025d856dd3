//! Random numbers: none are made, so that only what multiplies them by 0 can be computed.

use super::attributes::size;
use super::builder::{Noise, Operand, check_flowing};
use super::context::Context;
use super::error::{ImportError, NodeProblem};
use super::onnx::DataType;
use super::types::{is_float, type_name};
use crate::graph::{Graph, ValueId};
use std::collections::HashSet;

/// `RandomNormal` and `RandomUniform`, with the shape of an input or of their own: a value that no node makes.
pub(super) fn noise(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let attributes = cx.attributes();
    let like = cx.proto.op_type.ends_with("Like");
    let (shape, own) = match like {
        true => {
            let like = cx.input(0, "input")?;
            (cx.shape_of(&like), like.kind())
        }
        false => {
            let shape = attributes.ints("shape")?.unwrap_or_default().iter();
            let shape = shape.map(|&extent| size("shape", extent, 0)).collect::<Result<_, _>>()?;
            (shape, DataType::Float)
        }
    };
    let given = attributes.int("dtype")?.map(|kind| i32::try_from(kind).unwrap_or(0));
    let kind = given.map_or(Ok(own), DataType::try_from).ok().filter(|&kind| is_float(kind));
    let kind = kind.ok_or_else(|| {
        let given = type_name(given.unwrap_or(own as i32));
        NodeProblem::attribute("dtype", format!("is {given}, which is no float"))
    })?;
    let name = cx.output(0);
    if let Err(problem) = check_flowing(&shape) {
        return Err(NodeProblem::Output { value: name, problem });
    }
    let made = cx.builder.value(name, shape, None);
    cx.builder.random.insert(made);
    let (node, operator) = (cx.name.into(), cx.proto.op_type.clone());
    cx.builder.noises.push(Noise { node, operator, opset: cx.opset, made });
    Ok(vec![Operand::Float(kind, made)])
}

/// The random numbers that values need, as problems.
pub(super) fn problems(
    graph: &Graph,
    noises: Vec<Noise>,
    needed: impl IntoIterator<Item = ValueId>,
) -> Vec<ImportError> {
    if noises.is_empty() {
        return vec![];
    }
    let mut needed: HashSet<ValueId> = needed.into_iter().collect();
    for node in graph.nodes.iter().rev() {
        if node.outputs.iter().any(|output| needed.contains(output)) {
            needed.extend(node.inputs.iter().flatten());
        }
    }
    let read = noises.into_iter().filter(|noise| needed.contains(&noise.made));
    let problem = |Noise { node, operator, opset, .. }: Noise| {
        let problem = NodeProblem::unsupported(
            "its numbers are random; make them an input of the model, or their factor a constant 0 (--constant \
             NAME=0 where it is an input)",
        );
        ImportError::Node { node, operator, opset, problem }
    };
    read.map(problem).collect()
}
