//! When the image lines of a buffer are live, one by one: a buffer may lie over lines of another that are dead.
//!
//! A line is live from the first step that touches it to the last. That holds for whole buffers whose tensors are all
//! views of one image, and that the host does not touch.

use super::held::Held;
use super::operators::{Operator, rows_read};
use super::{Holder, span};
use eyelet::pack::{NONE, Tensor};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;
use std::ops::Range;

/// Buffers with more lines are live as a whole: every line is compared with every line of others.
const MOST_LINES: u32 = 4096;

/// What each line of a buffer holds, and when; `None` if the buffer is live as a whole.
pub(super) fn held(network: &Network, plan: &Plan, buffer: usize) -> Option<Vec<Held>> {
    let place = &plan.places[buffer];
    let here = |tensor: &&Tensor| tensor.buffer as usize == buffer;
    let first = *network.tensors.iter().find(here)?;
    let [images, height, width, _] = first.dims;
    let alike = network.tensors.iter().filter(here).all(|tensor| {
        let right = u64::from(tensor.offset) + u64::from(tensor.cols());
        tensor.dims[..3] == first.dims[..3]
            && tensor.pitch == first.pitch
            && right <= tensor.pitch.into()
    });
    let tensor = |id: u32| &network.tensors[id as usize];
    let mut ports = network.inputs.iter().chain(&network.outputs);
    let is_port = ports.any(|port| here(&tensor(port.tensor)));
    if height > MOST_LINES || place.lines > 0 || images != 1 || width == 0 || !alike || is_port {
        return None;
    }
    let mut live: Vec<Option<Range<i64>>> = vec![None; height as usize];
    let mut touch = |step: i64, rows: Range<u64>| {
        let lines = rows.start / u64::from(width)..rows.end.div_ceil(width.into());
        for line in lines.start.min(height.into())..lines.end.min(height.into()) {
            let live = &mut live[line as usize];
            *live = Some(live.take().map_or(step, |live| live.start)..step + 1);
        }
    };
    for (number, step) in (1..).zip(&plan.steps) {
        let layer = &network.layers[step.layer as usize];
        let output = tensor(layer.output);
        for (slot, id) in layer.inputs.into_iter().enumerate().filter(|(_, id)| *id != NONE) {
            if here(&tensor(id)) {
                touch(number, rows_read(layer, slot, tensor(id), output, step));
            }
        }
        if here(&output) {
            let own = u64::from(step.row)..u64::from(step.row) + u64::from(step.rows);
            let rows = Operator::of(layer).has_rows(layer, None, output, output);
            touch(number, if rows { own } else { 0..output.rows() });
        }
    }
    let bytes = 4 * u64::from(width) * u64::from(first.pitch);
    let lines = (0..).zip(live).filter_map(|(line, live)| {
        let live = live?;
        Some(Held {
            holder: Holder::Buffer(buffer),
            bytes: span(place.address.saturating_add(line * bytes), bytes),
            time: 2 * live.start + 1..2 * live.end,
        })
    });
    Some(lines.collect())
}
