//! Depthwise convolution, and convolution in groups of which a panel holds several.

use super::Call;
use super::launch::{Matrix, WARP, are_many, launch, teams};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::pack::{Activation, ConvParams, NONE, Tensor, params};
use bytemuck::{Pod, Zeroable};

/// Adjacent pixels of a line that a thread makes.
const PIXELS: u32 = 4;

/// `DepthwiseRecord` of `kernels/cuda/depthwise.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Depthwise {
    input: u64,
    residual: u64,
    panels: u64,
    out: u64,
    lines: u32,
    cols: u32,
    first_panel: u32,
    end_panel: u32,
    panel_bytes: u32,
    encoding: u32,
    in_pitch: u32,
    residual_pitch: u32,
    out_pitch: u32,
    group: u32,
    input_extent: [u32; 2],
    output_extent: [u32; 2],
    kernel: [u32; 2],
    stride: [u32; 2],
    dilation: [u32; 2],
    pad: [u32; 2],
    activation: Activation,
    wide: u32,
}

/// The kernel for a window: where neighbouring windows of single channels share columns, one that
/// loads each of them once.
fn function(p: &ConvParams, group: u32) -> Function {
    match (group, p.dilation[1], p.kernel[1], p.stride[1]) {
        (1, 1, 3, 1) => Function::Depthwise3s1,
        (1, 1, 3, 2) => Function::Depthwise3s2,
        (1, 1, 5, 1) => Function::Depthwise5s1,
        (1, 1, 5, 2) => Function::Depthwise5s2,
        _ => Function::Depthwise,
    }
}

/// Launches a depthwise convolution.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let p: ConvParams = params(call.layer);
    let ([input, residual, _], output, slice) = (&call.inputs, &call.output, &call.slice);
    let [images, height, width, cols] = output.dims;
    let group = input.dims[3] / p.groups;
    let lines = images * height;
    let has_residual = call.layer.inputs[1] != NONE;
    let items = u64::from(lines) * u64::from(width.div_ceil(PIXELS));
    let matrix = |address: u64, tensor: &Tensor| Matrix { address, pitch: tensor.pitch };
    let tensors = [
        matrix(call.operands[0], input),
        matrix(call.out, output),
        // Aligned where there is none.
        matrix(if has_residual { call.operands[1] } else { 0 }, residual),
    ];
    // Panels lie at multiples of 32 bytes from each other.
    let aligned = cols.is_multiple_of(4)
        && call.weights.is_multiple_of(16)
        && tensors.iter().all(|tensor| tensor.is_aligned(u32::MAX));
    let fours = items * u64::from(slice.count) * u64::from(WARP / 4);
    let wide = group == 1 && aligned && are_many(fours, call.multiprocessors);
    let record = Depthwise {
        input: call.operands[0],
        residual: if has_residual { call.operands[1] } else { 0 },
        panels: call.weights,
        out: call.out,
        lines,
        cols,
        first_panel: slice.first,
        end_panel: slice.first + slice.count,
        panel_bytes: call.layer.panel_bytes,
        encoding: call.layer.encoding,
        in_pitch: input.pitch,
        residual_pitch: residual.pitch,
        out_pitch: output.pitch,
        group,
        input_extent: [input.dims[1], input.dims[2]],
        output_extent: [height, width],
        kernel: p.kernel,
        stride: p.stride,
        dilation: p.dilation,
        pad: p.pad,
        activation: call.layer.activation.for_kernels(),
        wide: wide.into(),
    };
    let threads = if wide { WARP / 4 } else { WARP };
    let sizes = teams(threads, items, slice.count, call.multiprocessors);
    launch(queue, function(&p, group), sizes, &record)
}
