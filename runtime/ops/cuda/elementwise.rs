//! Functions of one tensor, and arithmetic of two. Where nothing has gaps, and nothing is broadcast
//! but single floats, the tensors are one row.

use super::Call;
use super::launch::{Matrix, joined, launch, rectangle};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::ops::binary::constant_index;
use crate::pack::{Activation, BinaryParams, params};
use bytemuck::{Pod, Zeroable};

/// `MapRecord` of `kernels/cuda/elementwise.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Map {
    input: u64,
    out: u64,
    rows: u32,
    cols: u32,
    in_pitch: u32,
    out_pitch: u32,
    wide: u32,
    activation: Activation,
}

/// `Operand`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Operand {
    first: u64,
    strides: [u32; 3],
    pitch: u32,
    step: u32,
    reserved: u32,
}

/// `BinaryRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Binary {
    operands: [Operand; 2],
    out: u64,
    op: u32,
    rows: u32,
    cols: u32,
    lines: u32,
    pixels: u32,
    out_pitch: u32,
    wide: u32,
    activation: Activation,
}

/// Launches an elementwise function.
pub fn unary(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let input = call.inputs[0];
    let (from, to) = (Matrix { address: call.operands[0], pitch: input.pitch }, call.out_matrix());
    let cols = call.output.cols();
    let gapless = from.pitch == cols && to.pitch == cols;
    let (rows, cols) = joined(call.slice.rows, cols, gapless);
    let wide = cols.is_multiple_of(4) && from.is_aligned(rows) && to.is_aligned(rows);
    let map = Map {
        input: from.address,
        out: to.address,
        rows,
        cols,
        in_pitch: from.pitch,
        out_pitch: to.pitch,
        wide: wide.into(),
        activation: call.layer.activation.for_kernels(),
    };
    launch(queue, Function::Map, rectangle(rows, cols, if wide { 4 } else { 1 }), &map)
}

impl Operand {
    fn new(place: Matrix, dims: [u32; 4], output: [u32; 4]) -> Self {
        let [_, lines, pixels, cols] = dims;
        let strides = [lines * pixels, pixels, 1];
        let stride = |dim: usize| if dims[dim] == 1 { 0 } else { strides[dim] };
        Self {
            first: place.address,
            strides: [stride(0), stride(1), stride(2)],
            pitch: place.pitch,
            step: u32::from(cols == output[3] && dims != [1; 4]),
            reserved: 0,
        }
    }

    /// Whether it goes on by one float with each of the output's, from row to row, or never.
    fn is_gapless(&self, dims: [u32; 4], output: [u32; 4]) -> bool {
        match self.step {
            0 => dims == [1; 4],
            _ => dims == output && self.pitch == output[3],
        }
    }

    fn is_aligned(&self, rows: u32) -> bool {
        self.step == 0 || Matrix { address: self.first, pitch: self.pitch }.is_aligned(rows)
    }
}

/// Launches elementwise arithmetic.
pub fn binary(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let params: BinaryParams = params(call.layer);
    let output = call.output.dims;
    let constant = constant_index(&params);
    let dims = [0, 1].map(|index| match constant == Some(index) {
        true => params.constant,
        false => call.inputs[index].dims,
    });
    let places = [0, 1].map(|index| match constant == Some(index) {
        true => Matrix { address: call.weights, pitch: params.constant[3] },
        false => Matrix { address: call.operands[index], pitch: call.inputs[index].pitch },
    });
    let operands = [0, 1].map(|index| Operand::new(places[index], dims[index], output));
    let to = call.out_matrix();
    let [_, lines, pixels, cols] = output;
    let even = |index: usize| operands[index].is_gapless(dims[index], output);
    let gapless = to.pitch == cols && even(0) && even(1);
    let (rows, cols) = joined(call.slice.rows, cols, gapless);
    let aligned = to.is_aligned(rows) && operands.iter().all(|operand| operand.is_aligned(rows));
    let wide = cols.is_multiple_of(4) && aligned;
    let binary = Binary {
        operands,
        out: to.address,
        op: params.op,
        rows,
        cols,
        lines,
        pixels,
        out_pitch: to.pitch,
        wide: wide.into(),
        activation: call.layer.activation.for_kernels(),
    };
    launch(queue, Function::Binary, rectangle(rows, cols, if wide { 4 } else { 1 }), &binary)
}
