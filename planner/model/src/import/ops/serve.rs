//! Operators in terms of others: nodes that serve a node, whether what they read flows or is constant.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::{Context, Given};
use super::super::error::NodeProblem;
use super::super::onnx::{AttributeProto, AttributeType, DataType};
use super::apply;

/// Extents, axes or indices as a constant of the model.
pub(super) fn list(values: &[usize]) -> Operand {
    let values = values.iter().map(|&value| value as i64).collect();
    Operand::integers(DataType::Int64, Array::vector(values))
}

pub(super) fn int(name: &str, value: i64) -> AttributeProto {
    let kind = AttributeType::Int as i32;
    AttributeProto { name: name.into(), r#type: kind, i: value, ..AttributeProto::default() }
}

pub(super) fn ints(name: &str, values: &[usize]) -> AttributeProto {
    let ints = values.iter().map(|&value| value as i64).collect();
    let kind = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), r#type: kind, ints, ..AttributeProto::default() }
}

impl Context<'_, '_> {
    /// The first output of a node that serves this one.
    pub fn serve(
        &mut self,
        suffix: &str,
        operator: &str,
        inputs: Vec<Operand>,
        attributes: Vec<AttributeProto>,
    ) -> Result<Operand, NodeProblem> {
        let name = format!("{}/{suffix}", self.name);
        let inputs = inputs.into_iter().map(Given::Known).collect();
        apply((self.builder, self.external), (operator, &name), inputs, attributes)
    }

    /// An operand in another shape of as many elements.
    pub fn shaped(
        &mut self,
        suffix: &str,
        operand: Operand,
        shape: &[usize],
    ) -> Result<Operand, NodeProblem> {
        match self.shape_of(&operand) == shape {
            true => Ok(operand),
            false => {
                self.serve(suffix, "Reshape", vec![operand, list(shape)], vec![int("allowzero", 1)])
            }
        }
    }

    /// The entries of an axis at these places.
    pub fn chosen(
        &mut self,
        suffix: &str,
        operand: Operand,
        axis: usize,
        places: &[usize],
    ) -> Result<Operand, NodeProblem> {
        let inputs = vec![operand, list(places)];
        self.serve(suffix, "Gather", inputs, vec![int("axis", axis as i64)])
    }
}
