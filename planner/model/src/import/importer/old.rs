//! Operator set 6, as that of today: what does not broadcast by itself is given the shape that does.

use super::super::array::Array;
use super::super::attributes::Attributes;
use super::super::builder::Operand;
use super::super::context::{Given, axis};
use super::super::error::NodeProblem;
use super::super::onnx::{DataType, NodeProto};
use super::super::ops;
use super::Importer;

/// The first operator set that needs none of this.
pub(super) const FIRST: i64 = 7;

impl Importer<'_> {
    /// Changes what a node of operator set 6 reads to what newer ones do.
    pub(super) fn adapt(
        &mut self,
        proto: &NodeProto,
        name: &str,
        inputs: &mut [Given],
    ) -> Result<(), NodeProblem> {
        let attributes = Attributes::of(proto);
        match &proto.op_type[..] {
            "BatchNormalization" | "Dropout" if !attributes.flag("is_test", false)? => {
                return Err(NodeProblem::unsupported(
                    "it is in training mode; export the model for inference (model.eval())",
                ));
            }
            "Add" | "Sub" | "Mul" | "Div" | "Pow" | "And" | "Or" | "Xor" | "Equal" | "Less"
            | "Greater" => {
                if let Some(along) = attributes.int("axis")? {
                    self.align(name, inputs, along)?;
                }
            }
            // One slope for each channel.
            "PRelu" => self.align(name, inputs, 1)?,
            _ => {}
        }
        Ok(())
    }

    /// Gives the second input, whose first axis is that axis of the first, as many axes behind its own as the first has.
    fn align(&mut self, name: &str, inputs: &mut [Given], along: i64) -> Result<(), NodeProblem> {
        let [Given::Known(first), Given::Known(second)] = &inputs[..] else { return Ok(()) };
        let (rank, shape) = (self.builder.shape_of(first).len(), self.builder.shape_of(second));
        let behind = rank.checked_sub(axis(along, rank)? + shape.len());
        let Some(behind @ 1..) = behind else { return Ok(()) };
        let mut shape: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
        shape.resize(shape.len() + behind, 1);
        let shape = Operand::integers(DataType::Int64, Array::vector(shape));
        let given = vec![inputs[1].clone(), Given::Known(shape)];
        let name = format!("{name}/aligned");
        let parts = (&mut self.builder, &mut self.external);
        inputs[1] = Given::Known(ops::apply(parts, ("Reshape", &name), given, vec![])?);
        Ok(())
    }
}
