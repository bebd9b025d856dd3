//! Buffers that are rings of image lines: which may be, and what steps may do with them.

use super::operators::Operator;
use super::{Found, Violation};
use eyelet::pack::{Layer, NONE, Step, Tensor, ring_bytes};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;

/// Bytes of a buffer in this plan. Those of a ring follow from any of its tensors: they have the same
/// width and pitch.
pub fn bytes(network: &Network, plan: &Plan, buffer: usize) -> u64 {
    let lines = plan.places[buffer].lines;
    let view = network.tensors.iter().find(|tensor| tensor.buffer as usize == buffer);
    match view {
        Some(view) if lines > 0 => ring_bytes(lines, view.dims[2], view.pitch),
        _ => network.buffers[buffer].bytes,
    }
}

/// Which buffers are rings follows from the plan. Their tensors fit into them, and steps work on whole lines.
pub fn check(network: &Network, plan: &Plan, found: &mut Found) {
    if plan.places.iter().all(|place| place.lines == 0) {
        return;
    }
    let lines_of = |tensor: &Tensor| plan.places[tensor.buffer as usize].lines;
    planes(network, plan, &lines_of, found);
    for port in network.inputs.iter().chain(&network.outputs) {
        let tensor = &network.tensors[port.tensor as usize];
        if lines_of(tensor) > 0 {
            let buffer = tensor.buffer as usize;
            found.add(Violation::Ring { buffer, reason: "the host needs all of it" });
        }
    }
    for (index, step) in plan.steps.iter().enumerate() {
        let layer = &network.layers[step.layer as usize];
        let output = &network.tensors[layer.output as usize];
        let inputs = layer.inputs.into_iter().enumerate().filter(|(_, id)| *id != NONE);
        let inputs = inputs.map(|(number, id)| (Some(number), &network.tensors[id as usize]));
        for (input, tensor) in inputs.chain([(None, output)]) {
            let lines = u64::from(lines_of(tensor));
            if lines == 0 {
                continue;
            }
            let refused = match Operator::of(layer).on_ring(layer, input, tensor, output) {
                None => Some("the operator does not work on rings"),
                Some(rowwise) => around(step, layer, output, lines, rowwise),
            };
            if let Some(reason) = refused {
                let buffer = tensor.buffer as usize;
                found.add(Violation::RingStep { step: index + 1, buffer, lines, reason });
            }
        }
    }
}

/// All tensors of a ring are views of one image, of which the ring holds some lines.
fn planes(network: &Network, plan: &Plan, lines_of: &dyn Fn(&Tensor) -> u32, found: &mut Found) {
    let mut planes = vec![None; network.buffers.len()];
    for tensor in network.tensors.iter().filter(|tensor| lines_of(tensor) > 0) {
        let buffer = tensor.buffer as usize;
        let mut refuse = |reason| found.add(Violation::Ring { buffer, reason });
        let plane = [tensor.dims[1], tensor.dims[2], tensor.pitch];
        if tensor.dims[0] != 1 {
            refuse("a tensor in it has several images");
        }
        if *planes[buffer].get_or_insert(plane) != plane {
            refuse("its tensors differ in height, width or pitch");
        }
        if u64::from(tensor.offset) + u64::from(tensor.cols()) > tensor.pitch.into() {
            refuse("a tensor does not start in its first row");
        }
        if lines_of(tensor) > tensor.dims[1] {
            refuse("it has more lines than the image");
        }
    }
    for (buffer, place) in plan.places.iter().enumerate() {
        if place.lines > 0 && planes[buffer].is_none() {
            found.add(Violation::Ring { buffer, reason: "no tensor lies in it" });
        }
    }
}

/// Why a step cannot work on a ring of so many lines, if it cannot.
fn around(
    step: &Step,
    layer: &Layer,
    output: &Tensor,
    ring: u64,
    rowwise: bool,
) -> Option<&'static str> {
    let width = u64::from(output.dims[2]).max(1);
    let (row, rows) = (u64::from(step.row), u64::from(step.rows));
    let (line, lines) = (row / width, rows / width);
    let tile = Operator::of(layer).tile(layer, step);
    if !row.is_multiple_of(width) || !rows.is_multiple_of(width) {
        Some("its rows are no whole lines")
    } else if rowwise && line % ring + lines > ring {
        Some("its lines go around the end")
    } else if !line.is_multiple_of(tile.into()) {
        Some("its first line is inside of a tile")
    } else {
        None
    }
}
