//! Layers read only what has been written, and only operations in place share floats with their output. Floats are read
//! as floats, words as words: a buffer has one of the two, and all layers and ports that touch it agree.
//!
//! This is about the order of layers; that steps in the plan's order see the same is proved by
//! [`super::order`]. Which floats of which buffer have been written is kept exactly: tensors may be interleaved, overlap, or
//! view a buffer in another shape.

use super::bits::Bits;
use super::operators::Operator;
use super::runs::{self, Visit};
use super::{Found, Violation};
use eyelet::ops;
use eyelet::pack::{Layer, NONE, Tensor};
use eyelet_model::network::Network;

/// Goes through the layers in their order.
pub fn check(network: &Network, found: &mut Found) {
    let bits = network.buffers.iter().map(|buffer| Bits::new(buffer.bytes / 4));
    let mut flow = Flow { network, written: bits.collect(), found };
    for port in &network.inputs {
        let tensor = &network.tensors[port.tensor as usize];
        runs::of(tensor, &mut |run| {
            flow.written[tensor.buffer as usize].set(run);
            true
        });
    }
    for number in 0..network.layers.len() {
        flow.layer(number);
        flow.elements(number);
    }
    for (kind, ports) in [("input", &network.inputs), ("output", &network.outputs)] {
        for (number, port) in ports.iter().enumerate() {
            let buffer = network.tensors[port.tensor as usize].buffer as usize;
            let found_there = network.buffers[buffer].element;
            if found_there != port.kind.element() {
                let what = format!("{kind} {number}");
                flow.found.add(Violation::Elements { what, buffer, found: found_there });
            }
        }
    }
    for (number, port) in network.outputs.iter().enumerate() {
        let tensor = &network.tensors[port.tensor as usize];
        let buffer = tensor.buffer as usize;
        let mut missing = None;
        runs::of(tensor, &mut |run| {
            missing = flow.written[buffer].first_missing(run);
            missing.is_none()
        });
        if let Some(float) = missing {
            flow.found.add(Violation::OutputUnwritten { output: number, buffer, float });
        }
    }
}

/// Which floats have been written when a layer's turn comes.
struct Flow<'a> {
    network: &'a Network,
    /// Of each buffer.
    written: Vec<Bits>,
    found: &'a mut Found,
}

impl Flow<'_> {
    fn floats(&self, buffer: usize) -> u64 {
        self.network.buffers[buffer].bytes / 4
    }

    /// A layer reads what is there and writes its output.
    fn layer(&mut self, number: usize) {
        let layer = &self.network.layers[number];
        let output = &self.network.tensors[layer.output as usize];
        // The floats of the output, as soon as an operand lies in its buffer.
        let mut made = None;
        for (index, input) in layer.inputs.into_iter().enumerate().filter(|(_, id)| *id != NONE) {
            let tensor = &self.network.tensors[input as usize];
            if !self.operand(number, index, tensor) || tensor.buffer != output.buffer {
                continue;
            }
            if !Operator::of(layer).in_place[index] || !same(tensor, output) {
                let made = made.get_or_insert_with(|| self.made(layer, output));
                self.aliased(number, index, tensor, made);
            }
        }
        let (buffer, floats) = (output.buffer as usize, self.floats(output.buffer as usize));
        let fits =
            inside(number, buffer, floats, self.found, |visit| runs::written(layer, output, visit));
        if fits {
            runs::written(layer, output, &mut |run| {
                self.written[buffer].set(run);
                true
            });
        }
    }

    /// A layer has operands of what its operator computes.
    fn elements(&mut self, number: usize) {
        let layer = &self.network.layers[number];
        let of = |id: u32| {
            let tensor = self.network.tensors.get(id as usize)?;
            let buffer = tensor.buffer as usize;
            Some((buffer, self.network.buffers[buffer].element))
        };
        let ops::Elements { inputs, output } = ops::elements(layer);
        let operands = layer.inputs.into_iter().zip(inputs).chain([(layer.output, output)]);
        let operands: Vec<_> =
            operands.filter_map(|(id, wanted)| Some((of(id)?, wanted))).collect();
        // Of those that may be either, the first says what all are.
        let free = operands.iter().find(|(_, wanted)| wanted.is_none()).map(|((_, is), _)| *is);
        for ((buffer, is), wanted) in operands {
            if wanted.or(free).is_some_and(|wanted| wanted != is) {
                let what = format!("layer {number}");
                self.found.add(Violation::Elements { what, buffer, found: is });
            }
        }
    }

    /// Whether an operand lies in its buffer; all that is read of it has been written.
    fn operand(&mut self, number: usize, index: usize, tensor: &Tensor) -> bool {
        let layer = &self.network.layers[number];
        let (buffer, floats) = (tensor.buffer as usize, self.floats(tensor.buffer as usize));
        let fits = inside(number, buffer, floats, self.found, |visit| {
            runs::read(layer, index, tensor, visit);
        });
        let mut missing = None;
        if fits {
            runs::read(layer, index, tensor, &mut |run| {
                missing = self.written[buffer].first_missing(run);
                missing.is_none()
            });
        }
        if let Some(float) = missing {
            self.found.add(Violation::Unwritten { layer: number, buffer, float });
        }
        fits
    }

    /// The floats of its buffer that an output is made of.
    fn made(&self, layer: &Layer, output: &Tensor) -> Bits {
        let floats = self.floats(output.buffer as usize);
        let mut bits = Bits::new(floats);
        runs::written(layer, output, &mut |run| {
            bits.set(run.start.min(floats)..run.end.min(floats));
            true
        });
        bits
    }

    /// An operand has no float in common with the output.
    fn aliased(&mut self, number: usize, input: usize, tensor: &Tensor, made: &Bits) {
        let mut shared = None;
        runs::read(&self.network.layers[number], input, tensor, &mut |run| {
            shared = made.first_present(run);
            shared.is_none()
        });
        if let Some(float) = shared {
            let buffer = tensor.buffer as usize;
            self.found.add(Violation::Aliased { layer: number, input, buffer, float });
        }
    }
}

/// Whether all runs lie inside a buffer.
fn inside(
    layer: usize,
    buffer: usize,
    floats: u64,
    found: &mut Found,
    runs: impl FnOnce(Visit<'_>),
) -> bool {
    let mut outside = None;
    runs(&mut |run| {
        // A filled copy goes on with what is copied after its tensor has ended the visit.
        outside = outside.or((run.end > floats).then_some(run.end));
        outside.is_none()
    });
    if let Some(end) = outside {
        found.add(Violation::Operand { layer, buffer, end, floats });
    }
    outside.is_none()
}

/// Whether two records name the same floats in the same order.
fn same(a: &Tensor, b: &Tensor) -> bool {
    (a.buffer, a.offset, a.dims, a.pitch) == (b.buffer, b.offset, b.dims, b.pitch)
}
