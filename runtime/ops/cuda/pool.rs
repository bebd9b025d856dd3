//! Pooling, and reductions of the middle of three extents, which are those of a window as high as
//! the image.

use super::Call;
use super::launch::{Matrix, are_many, launch, rectangle, warps};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::pack::{Activation, PoolParams, ReduceOp, ReduceParams, params};
use bytemuck::{Pod, Zeroable};

/// `Axis` of `kernels/cuda/pool.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Axis {
    extent: u32,
    outputs: u32,
    kernel: u32,
    stride: u32,
    dilation: u32,
    pad: u32,
    pad_end: u32,
}

/// `PoolRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Pool {
    input: u64,
    out: u64,
    rows: u32,
    cols: u32,
    in_pitch: u32,
    out_pitch: u32,
    average: u32,
    count_include_pad: u32,
    down: Axis,
    along: Axis,
    wide: u32,
    activation: Activation,
}

/// `MeanRecord` of `kernels/cuda/rows.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Mean {
    input: u64,
    out: u64,
    rows: u32,
    cols: u32,
    out_pitch: u32,
    count: f32,
    activation: Activation,
    reserved: u32,
}

/// Launches pooling.
pub fn pool(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let p: PoolParams = params(call.layer);
    let (input, output) = (&call.inputs[0], &call.output);
    let axis = |axis: usize| Axis {
        extent: input.dims[1 + axis],
        outputs: output.dims[1 + axis],
        kernel: p.kernel[axis],
        stride: p.stride[axis],
        dilation: p.dilation[axis],
        pad: p.pad[axis],
        pad_end: p.pad_end[axis],
    };
    let pool = Pool {
        input: call.operands[0],
        out: call.out,
        rows: call.slice.rows,
        cols: output.cols(),
        in_pitch: input.pitch,
        out_pitch: output.pitch,
        average: p.average,
        count_include_pad: p.count_include_pad,
        down: axis(0),
        along: axis(1),
        wide: 0,
        activation: call.layer.activation.for_kernels(),
    };
    windows(call, pool, queue)
}

/// Launches the kernel of windows, four channels a thread if that leaves enough threads.
fn windows(call: &Call<'_>, mut pool: Pool, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let (rows, cols) = (pool.rows, pool.cols);
    let many = are_many(u64::from(rows) * u64::from(cols / 4), call.multiprocessors);
    let from = Matrix { address: pool.input, pitch: pool.in_pitch };
    let to = Matrix { address: pool.out, pitch: pool.out_pitch };
    // Several rows of the input may be read for one of the output.
    let aligned = cols.is_multiple_of(4) && from.is_aligned(u32::MAX) && to.is_aligned(rows);
    pool.wide = (many && aligned).into();
    launch(queue, Function::Pool, rectangle(rows, cols, 1 + 3 * pool.wide), &pool)
}

/// Launches a reduction.
pub fn reduce(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let ReduceParams { outer, reduce, inner, op } = params(call.layer);
    // An output whose rows are not those of the averages has no gaps.
    let out_pitch = if call.output.cols() == inner { call.output.pitch } else { inner };
    if inner == 1 && op != ReduceOp::Max as u32 {
        let mean = Mean {
            input: call.operands[0],
            out: call.out,
            rows: outer,
            cols: reduce,
            out_pitch,
            count: if op == ReduceOp::Mean as u32 { reduce as f32 } else { 1.0 },
            activation: call.layer.activation.for_kernels(),
            reserved: 0,
        };
        return launch(queue, Function::Mean, warps(outer.into(), 1, call.multiprocessors), &mean);
    }
    let one = Axis { extent: 1, outputs: 1, kernel: 1, stride: 1, dilation: 1, pad: 0, pad_end: 0 };
    let pool = Pool {
        input: call.operands[0],
        out: call.out,
        rows: outer,
        cols: inner,
        in_pitch: inner,
        out_pitch,
        average: match ReduceOp::from_code(op) {
            Some(ReduceOp::Max) => 0,
            Some(ReduceOp::Sum) => 2,
            _ => 1,
        },
        count_include_pad: 0,
        down: Axis { extent: reduce, kernel: reduce, ..one },
        along: one,
        wide: 0,
        activation: call.layer.activation.for_kernels(),
    };
    windows(call, pool, queue)
}
