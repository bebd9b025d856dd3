//! Rows of a table, chosen by the input. Its entries are read as they are stored.

use super::Call;
use super::launch::{launch, warps};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::pack::{Activation, GatherParams, Isa, params};
use bytemuck::{Pod, Zeroable};

/// `GatherRecord` of `kernels/cuda/gather.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Gather {
    indices: u64,
    panels: u64,
    out: u64,
    rows: u32,
    cols: u32,
    first_panel: u32,
    end_panel: u32,
    panel_bytes: u32,
    width: u32,
    encoding: u32,
    entries: u32,
    index_pitch: u32,
    out_pitch: u32,
    activation: Activation,
    zero: u32,
}

/// Launches a choice of rows of a table.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let GatherParams { entries } = params(call.layer);
    let slice = &call.slice;
    let record = Gather {
        indices: call.operands[0],
        panels: call.weights,
        out: call.out,
        rows: slice.rows,
        cols: call.output.cols(),
        first_panel: slice.first,
        end_panel: slice.first + slice.count,
        panel_bytes: call.layer.panel_bytes,
        width: call.layer.columns(Isa::Cuda) as u32,
        encoding: call.layer.encoding,
        entries,
        index_pitch: call.inputs[0].pitch,
        out_pitch: call.output.pitch,
        activation: call.layer.activation.for_kernels(),
        zero: 0,
    };
    let sizes = warps(slice.rows.into(), slice.count, call.multiprocessors);
    launch(queue, Function::Gather, sizes, &record)
}
