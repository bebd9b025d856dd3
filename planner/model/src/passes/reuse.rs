//! Reuse of buffers within a layer (writing in place), and the assembly of the network's records.
//!
//! A layer may write over an operand that it reads elementwise if nobody reads that operand's buffer
//! afterwards. The two buffers then become one; which of the remaining ones share memory is the
//! planner's business.

use super::coalesce::coalesce;
use crate::network::{Network, Port};
use crate::ops::emitter::{Draft, Drafts};
use eyelet::kernels::Isa;
use eyelet::ops;
use eyelet::pack::{Buffer, Element, INPUTS, Layer, NONE, Tensor};
use std::collections::HashMap;

/// Lets layers write in place where they can, drops what is not used, and makes the records.
pub(super) fn finish(mut drafts: Drafts, name: String, isa: Isa) -> Network {
    drop_unread(&mut drafts);
    let elements = elements(&drafts);
    coalesce(&mut drafts);
    write_in_place(&mut drafts, &elements);
    let (floats, elements) = (&drafts.buffers[..], &elements[..]);
    let mut records = Records { floats, elements, ..Records::default() };
    let mut layers = Vec::with_capacity(drafts.layers.len());
    let (mut names, mut weights) = (Vec::new(), Vec::new());
    let inputs: Vec<Port> = drafts.inputs.into_iter().map(|port| records.port(port)).collect();
    for draft in drafts.layers {
        layers.push(Layer {
            kind: draft.kind as u32,
            inputs: draft.inputs.map(|input| input.map_or(NONE, |tensor| records.tensor(tensor))),
            output: records.tensor(draft.output),
            activation: draft.activation,
            panels: draft.panels,
            panel_bytes: draft.panel_bytes,
            width: draft.width,
            encoding: draft.encoding as u32,
            weights: 0,
            params: draft.params,
        });
        names.push(draft.name);
        weights.push(draft.weights);
    }
    let outputs = drafts.outputs.into_iter().map(|port| records.port(port)).collect();
    let Records { buffers, tensors, .. } = records;
    let (on_load, mapped) = (vec![0; layers.len()], None);
    Network {
        name,
        isa,
        buffers,
        tensors,
        layers,
        names,
        weights,
        on_load,
        mapped,
        inputs,
        outputs,
    }
}

/// Records that have been numbered.
#[derive(Default)]
struct Records<'a> {
    floats: &'a [usize],
    elements: &'a [Element],
    numbers: HashMap<u32, u32>,
    buffers: Vec<Buffer>,
    indices: HashMap<[u32; 7], u32>,
    tensors: Vec<Tensor>,
}

impl Records<'_> {
    /// The index of a tensor; equal tensors share one record.
    fn tensor(&mut self, mut tensor: Tensor) -> u32 {
        let bytes = (self.floats[tensor.buffer as usize] as u64 * 4).next_multiple_of(64);
        let element = self.elements[tensor.buffer as usize];
        tensor.buffer = *self.numbers.entry(tensor.buffer).or_insert_with(|| {
            self.buffers.push(Buffer { bytes, element });
            self.buffers.len() as u32 - 1
        });
        *self.indices.entry(bytemuck::cast(tensor)).or_insert_with(|| {
            self.tensors.push(tensor);
            self.tensors.len() as u32 - 1
        })
    }

    fn port(&mut self, (port, tensor): (Port, Tensor)) -> Port {
        Port { tensor: self.tensor(tensor), ..port }
    }
}

/// Removes layers that write only what nobody reads.
fn drop_unread(drafts: &mut Drafts) {
    let mut read = vec![false; drafts.buffers.len()];
    for (_, tensor) in &drafts.outputs {
        read[tensor.buffer as usize] = true;
    }
    let mut kept: Vec<Draft> = Vec::with_capacity(drafts.layers.len());
    while let Some(layer) = drafts.layers.pop() {
        if read[layer.output.buffer as usize] {
            for input in layer.inputs.iter().flatten() {
                read[input.buffer as usize] = true;
            }
            kept.push(layer);
        }
    }
    kept.reverse();
    drafts.layers = kept;
}

/// What the elements of each buffer are: of a port what it says, of others what the layer makes that
/// writes there. Layers are in the order in which they run, and buffers are shared by none yet.
fn elements(drafts: &Drafts) -> Vec<Element> {
    let mut known = vec![None; drafts.buffers.len()];
    for (port, tensor) in drafts.inputs.iter().chain(&drafts.outputs) {
        known[tensor.buffer as usize] = Some(port.kind.element());
    }
    for (&buffer, &element) in &drafts.chosen {
        known[buffer as usize] = Some(element);
    }
    for draft in &drafts.layers {
        let layer = Layer {
            kind: draft.kind as u32,
            activation: draft.activation,
            params: draft.params,
            ..Layer::default()
        };
        let ops::Elements { inputs, output } = ops::elements(&layer);
        let free = draft.inputs.iter().zip(inputs).filter(|(_, wanted)| wanted.is_none());
        let moved = free.filter_map(|(input, _)| known[input.as_ref()?.buffer as usize]).next();
        let made = &mut known[draft.output.buffer as usize];
        *made = made.or(output).or(moved);
    }
    known.into_iter().map(Option::unwrap_or_default).collect()
}

/// Makes the output's buffer the same as an operand's, where the operand ends with this layer. Floats
/// and words are in no buffer together.
fn write_in_place(drafts: &mut Drafts, elements: &[Element]) {
    let count = drafts.buffers.len();
    let (mut first, mut last) = (vec![usize::MAX; count], vec![0; count]);
    for (index, layer) in drafts.layers.iter().enumerate() {
        for tensor in layer.inputs.iter().flatten().chain([&layer.output]) {
            let buffer = tensor.buffer as usize;
            first[buffer] = first[buffer].min(index);
            last[buffer] = last[buffer].max(index);
        }
    }
    let mut is_input = vec![false; count];
    for (_, tensor) in &drafts.inputs {
        is_input[tensor.buffer as usize] = true;
    }
    let mut is_output = vec![false; count];
    for (_, tensor) in &drafts.outputs {
        is_output[tensor.buffer as usize] = true;
        last[tensor.buffer as usize] = usize::MAX;
    }
    let (mut users, outputs) = users(drafts);
    for index in 0..drafts.layers.len() {
        let layer = &drafts.layers[index];
        let to = layer.output.buffer as usize;
        let in_place = layer.kind.in_place();
        let fits = (0..INPUTS).filter(|&operand| in_place[operand]).find_map(|operand| {
            let over = layer.inputs[operand]?;
            let from = over.buffer as usize;
            let same = over == Tensor { buffer: over.buffer, ..layer.output };
            let ends = last[from] == index && first[to] == index && from != to;
            let ports = is_input[from] && is_output[to];
            // another operand in the same buffer must be the same rectangle, read elementwise too
            let alone = (layer.inputs.iter().enumerate())
                .filter_map(|(i, input)| input.filter(|t| t.buffer == over.buffer).map(|t| (i, t)))
                .all(|(i, tensor)| in_place[i] && tensor == over);
            let sizes = drafts.buffers[from] == drafts.buffers[to];
            let alike = elements[from] == elements[to];
            (same && ends && !ports && alone && sizes && alike).then_some(from)
        });
        let Some(from) = fits else { continue };
        last[from] = last[to];
        is_output[from] |= is_output[to];
        let rename = |tensor: &mut Tensor| {
            if tensor.buffer as usize == to {
                tensor.buffer = from as u32;
            }
        };
        // No layer before this one touches it, so that it stands for no other buffer.
        outputs[to].iter().for_each(|&port| rename(&mut drafts.outputs[port].1));
        for user in std::mem::take(&mut users[to]) {
            let layer = &mut drafts.layers[user];
            layer.inputs.iter_mut().flatten().chain([&mut layer.output]).for_each(rename);
        }
    }
}

/// For each buffer the layers that touch it, and the outputs that are its.
fn users(drafts: &Drafts) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let mut users = vec![Vec::new(); drafts.buffers.len()];
    for (index, layer) in drafts.layers.iter().enumerate() {
        for tensor in layer.inputs.iter().flatten().chain([&layer.output]) {
            users[tensor.buffer as usize].push(index);
        }
    }
    let mut outputs = vec![Vec::new(); drafts.buffers.len()];
    for (index, (_, tensor)) in drafts.outputs.iter().enumerate() {
        outputs[tensor.buffer as usize].push(index);
    }
    (users, outputs)
}
