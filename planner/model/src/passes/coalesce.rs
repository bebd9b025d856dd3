//! Coalescing: a copy whose two ends can be one buffer is none.
//!
//! Where part of a value goes into a concatenation untouched (the idle half of a shuffle unit), that part
//! has been made elsewhere, before the concatenation's buffer exists, and is copied to the same place in
//! it. If by the time the concatenation's other parts are written nobody needs the old buffer any more,
//! they can be written over it: the two buffers become one and the copy goes.

use crate::ops::copy::stays;
use crate::ops::emitter::Drafts;
use eyelet::pack::Tensor;

/// Removes every copy whose buffers can be joined.
pub(super) fn coalesce(drafts: &mut Drafts) {
    let mut is_port = vec![false; drafts.buffers.len()];
    for (_, tensor) in drafts.inputs.iter().chain(&drafts.outputs) {
        is_port[tensor.buffer as usize] = true;
    }
    let mut index = 0;
    while index < drafts.layers.len() {
        let Some((from, to)) = joinable(drafts, &is_port, index) else {
            index += 1;
            continue;
        };
        drafts.layers.remove(index);
        for layer in &mut drafts.layers {
            for tensor in layer.inputs.iter_mut().flatten().chain([&mut layer.output]) {
                if tensor.buffer == to {
                    tensor.buffer = from;
                }
            }
        }
    }
}

/// The buffers of the copy at `index`, if they can be one.
fn joinable(drafts: &Drafts, is_port: &[bool], index: usize) -> Option<(u32, u32)> {
    let copy = &drafts.layers[index];
    let (from, to) = (copy.inputs[0]?, copy.output);
    let [a, b] = [from.buffer, to.buffer].map(|buffer| buffer as usize);
    let ports = is_port[a] || is_port[b];
    if ports || a == b || drafts.buffers[a] != drafts.buffers[b] || !stays(copy) {
        return None;
    }
    let others = || drafts.layers.iter().enumerate().filter(|(other, _)| *other != index);
    // From the first writing of another part on, what was there is gone, …
    let mut written = others().filter(|(_, layer)| layer.output.buffer == to.buffer);
    let gone = written.next().map_or(usize::MAX, |(other, _)| other);
    // … which must not be what is kept, …
    let kept = others()
        .filter(|(_, layer)| layer.output.buffer == to.buffer)
        .all(|(_, layer)| apart(&to, &layer.output));
    // … and nobody may need it then, nor change what is kept after it would have been copied.
    let over = others().all(|(other, layer)| {
        let reads = layer.inputs.iter().flatten().any(|input| input.buffer == from.buffer);
        let writes = layer.output.buffer == from.buffer;
        !(reads && other >= gone || writes && other >= gone.min(index))
    });
    (kept && over).then_some((from.buffer, to.buffer))
}

/// Whether two tensors of a buffer hold different channels of the same rows.
fn apart(a: &Tensor, b: &Tensor) -> bool {
    let channels = |tensor: &Tensor| {
        let first = u64::from(tensor.offset % tensor.pitch.max(1));
        (first, first + u64::from(tensor.dims[3]))
    };
    let (a_channels, b_channels, pitch) = (channels(a), channels(b), u64::from(a.pitch));
    let within = a_channels.1 <= pitch && b_channels.1 <= pitch;
    let apart = a_channels.1 <= b_channels.0 || b_channels.1 <= a_channels.0;
    a.pitch == b.pitch && within && apart
}
