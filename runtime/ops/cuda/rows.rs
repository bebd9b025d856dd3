//! Operators over the channels of each row: softmax, layer normalisation, local response
//! normalisation.

use super::Call;
use super::launch::{launch, rectangle, warps};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::pack::{Activation, LayerNormParams, LrnParams, params};
use bytemuck::{Pod, Zeroable};

/// `SoftmaxRecord` of `kernels/cuda/rows.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Softmax {
    input: u64,
    out: u64,
    rows: u32,
    cols: u32,
    in_pitch: u32,
    out_pitch: u32,
    reserved: u32,
    activation: Activation,
}

/// `LayerNormRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct LayerNorm {
    input: u64,
    out: u64,
    weights: u64,
    rows: u32,
    cols: u32,
    in_pitch: u32,
    out_pitch: u32,
    epsilon: f32,
    about_zero: u32,
    activation: Activation,
    reserved: u32,
}

/// `LrnRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Lrn {
    input: u64,
    out: u64,
    rows: u32,
    cols: u32,
    in_pitch: u32,
    out_pitch: u32,
    before: u32,
    after: u32,
    alpha: f32,
    beta: f32,
    bias: f32,
    activation: Activation,
}

/// Launches softmax.
pub fn softmax(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let softmax = Softmax {
        input: call.operands[0],
        out: call.out,
        rows: call.slice.rows,
        cols: call.output.cols(),
        in_pitch: call.inputs[0].pitch,
        out_pitch: call.output.pitch,
        reserved: 0,
        activation: call.layer.activation.for_kernels(),
    };
    let sizes = warps(call.slice.rows.into(), 1, call.multiprocessors);
    launch(queue, Function::Softmax, sizes, &softmax)
}

/// Launches layer normalisation.
pub fn layernorm(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let LayerNormParams { epsilon, about_zero } = params(call.layer);
    let layernorm = LayerNorm {
        input: call.operands[0],
        out: call.out,
        weights: call.weights,
        rows: call.slice.rows,
        cols: call.output.cols(),
        in_pitch: call.inputs[0].pitch,
        out_pitch: call.output.pitch,
        epsilon,
        about_zero,
        activation: call.layer.activation.for_kernels(),
        reserved: 0,
    };
    let sizes = warps(call.slice.rows.into(), 1, call.multiprocessors);
    launch(queue, Function::LayerNorm, sizes, &layernorm)
}

/// Launches local response normalisation.
pub fn lrn(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let p: LrnParams = params(call.layer);
    let (rows, cols) = (call.slice.rows, call.output.cols());
    let before = (p.size - 1) / 2;
    let lrn = Lrn {
        input: call.operands[0],
        out: call.out,
        rows,
        cols,
        in_pitch: call.inputs[0].pitch,
        out_pitch: call.output.pitch,
        before,
        after: p.size - 1 - before,
        alpha: p.alpha / p.size as f32,
        beta: p.beta,
        bias: p.bias,
        activation: call.layer.activation.for_kernels(),
    };
    launch(queue, Function::Lrn, rectangle(rows, cols, 1), &lrn)
}
