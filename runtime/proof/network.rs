//! The network: tensors lie in their buffers, layers have operators that fit their tensors, floats
//! or words as these need them, and weights that are there. Inputs and outputs have the type and
//! size of their ports.

use super::{ProvenSkeleton, check, end_of, layer_flaw};
use crate::ops::{self, Addresses, LayerError, Operator};
use crate::pack::{Flaw, MAX_PORTS, NONE, PortType, Skeleton, Tensor};

impl ProvenSkeleton<'_> {
    /// Buffers are no larger than what this processor addresses, so that places in them are numbers
    /// of its: in a ring, too, of which memory holds a part. Tensors lie inside of them.
    pub(super) fn tensors(&self) -> Result<(), Flaw> {
        for (i, buffer) in self.skeleton.buffers.iter().enumerate() {
            let what = "buffer: more bytes than this processor addresses";
            let limit = isize::MAX as u64;
            check(buffer.bytes <= limit, what, i, buffer.bytes, limit)?;
        }
        for (i, tensor) in self.skeleton.tensors.iter().enumerate() {
            let buffers = self.skeleton.buffers;
            let buffer = u64::from(tensor.buffer);
            let inside = tensor.buffer < buffers.len() as u32;
            check(inside, "tensor: no such buffer", i, buffer, buffers.len() as u64)?;
            let pitch_ok = tensor.pitch >= tensor.cols() && tensor.cols() > 0;
            check(
                pitch_ok,
                "tensor: pitch below channels",
                i,
                tensor.pitch.into(),
                tensor.cols().into(),
            )?;
            let end = end_of(tensor).unwrap_or(u64::MAX);
            let floats = buffers.at(tensor.buffer as usize).bytes / 4;
            check(end <= floats, "tensor: reaches beyond its buffer", i, end, floats)?;
        }
        Ok(())
    }

    pub(super) fn layers(&self, weights_bytes: u64) -> Result<(), Flaw> {
        let Skeleton { buffers, tensors, layers, .. } = self.skeleton;
        for (i, layer) in layers.iter().enumerate() {
            let operator =
                ops::row(&layer).ok_or_else(|| layer_flaw(LayerError::Kind(layer.kind), i))?;
            for &input in &layer.inputs {
                let ok = input == NONE || (input as usize) < tensors.len();
                check(ok, "layer: no such input tensor", i, input.into(), tensors.len() as u64)?;
            }
            let ok = (layer.output as usize) < tensors.len();
            check(
                ok,
                "layer: no such output tensor",
                i,
                layer.output.into(),
                tensors.len() as u64,
            )?;
            let bytes = u64::from(layer.panels) * u64::from(layer.panel_bytes);
            let end = layer.weights.saturating_add(bytes);
            check(
                end <= weights_bytes,
                "layer: weights beyond the weights section",
                i,
                end,
                weights_bytes,
            )?;
            let (ok, what) = (layer.panel_bytes % 32 == 0, "layer: panels are misaligned");
            check(ok, what, i, layer.panel_bytes.into(), 32)?;
            let inputs = self.skeleton.layer_inputs(&layer);
            let output = tensors[layer.output as usize];
            for (slot, &id) in layer.inputs.iter().enumerate() {
                if id != NONE {
                    let ok = compatible(operator, slot, &inputs[slot], &output);
                    let what = "layer: its output overlaps its input";
                    check(ok, what, i, layer.output.into(), id.into())?;
                }
            }
            let first = inputs[0].buffer as usize;
            let floats = [first, output.buffer as usize].map(|at| buffers.at(at).bytes / 4);
            let element = |tensor: &Tensor| buffers.at(tensor.buffer as usize).element;
            let elements = inputs.each_ref().map(element);
            ops::validate(&layer, &inputs, &output, floats, self.isa)
                .and_then(|()| ops::validate_elements(&layer, elements, element(&output)))
                .map_err(|error| layer_flaw(error, i))?;
        }
        Ok(())
    }

    pub(super) fn ports(&self) -> Result<(), Flaw> {
        let Skeleton { tensors, inputs, outputs, .. } = self.skeleton;
        let count = inputs.len().saturating_add(outputs.len());
        let what = "skeleton: too many inputs and outputs";
        check(count <= MAX_PORTS, what, 0, count as u64, MAX_PORTS as u64)?;
        for (i, port) in inputs.iter().chain(outputs).enumerate() {
            let ok = (port.tensor as usize) < tensors.len();
            check(ok, "port: no such tensor", i, port.tensor.into(), tensors.len() as u64)?;
            let tensor = &tensors[port.tensor as usize];
            let ok = tensor.pitch == tensor.cols();
            let what = "port: tensor is not contiguous";
            check(ok, what, i, tensor.pitch.into(), tensor.cols().into())?;
            let last = PortType::ALL.len() as u64 - 1;
            let known = PortType::from_code(port.kind).is_some();
            check(known, "port: its type", i, port.kind.into(), last)?;
            let element = self.skeleton.buffers.at(tensor.buffer as usize).element;
            let (found, limit) = (element as u64, port.kind().element() as u64);
            let what = "port: whether its buffer is of words (1) or floats (0)";
            check(found == limit, what, i, found, limit)?;
            check(port.rank <= 8, "port: rank", i, port.rank.into(), 8)?;
            let (_, unused) = port.shape.split_at(port.rank as usize);
            let other = unused.iter().find(|extent| **extent != 1);
            let what = "port: extent beyond the rank";
            check(other.is_none(), what, i, other.copied().unwrap_or(1).into(), 1)?;
            let elements = port.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d.into()));
            let held = tensor.rows() * u64::from(tensor.cols());
            let what = "port: shape disagrees with its tensor's elements";
            check(elements == Some(held), what, i, elements.unwrap_or(u64::MAX), held)?;
        }
        Ok(())
    }
}

/// Whether a layer of this operator may have `output` where its input of this slot lies.
fn compatible(operator: &Operator, slot: usize, input: &Tensor, output: &Tensor) -> bool {
    if input.buffer != output.buffer {
        return true;
    }
    (operator.in_place[slot] && input == output)
        || (operator.addresses == Addresses::Rows && interleaved(input, output))
}

/// Two tensors of one buffer that share no float: apart, or different channels of the same rows.
fn interleaved(a: &Tensor, b: &Tensor) -> bool {
    let (a_end, b_end) = (end_of(a).unwrap_or(u64::MAX), end_of(b).unwrap_or(u64::MAX));
    if a_end <= b.offset.into() || b_end <= a.offset.into() {
        return true;
    }
    let column = |tensor: &Tensor| u64::from(tensor.offset % tensor.pitch.max(1));
    let (a_column, b_column) = (column(a), column(b));
    let (a_right, b_right) = (a_column + u64::from(a.cols()), b_column + u64::from(b.cols()));
    let wraps = |right: u64| right > a.pitch.into();
    a.pitch == b.pitch
        && !wraps(a_right)
        && !wraps(b_right)
        && (a_right <= b_column || b_right <= a_column)
}
