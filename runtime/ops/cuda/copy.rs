//! Strided copies. The dimensions are those of the processor's operator, in plain form: the output
//! is written front to back by neighbouring threads, or, where the input is adjacent along another
//! dimension than the output, by square tiles.

use super::Call;
use super::launch::{launch, line, rectangle};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::kernels::table::cuda::Function;
use crate::ops::copy::{self, normalise, span};
use crate::pack::{CopyParams, NONE, params};
use bytemuck::{Pod, Zeroable};

/// Edge of a tile.
const TILE: u64 = 32;

/// Extents below which a plane is not copied by tiles: neighbouring threads then read from a few
/// runs at once.
const SHORT: usize = 8;

/// `Dim` of `kernels/cuda/copy.cu`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Dim {
    len: u64,
    src: u64,
    dst: u64,
}

/// `CopyRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Copy {
    input: u64,
    out: u64,
    elements: u64,
    dims: [Dim; 6],
    count: u32,
    width: u32,
}

/// `TransposeRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Transpose {
    input: u64,
    out: u64,
    tiles: u64,
    planes: [Dim; 4],
    outer: Dim,
    inner: Dim,
}

/// `FillRecord`.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Fill {
    out: u64,
    rows: u32,
    cols: u32,
    out_pitch: u32,
    value: f32,
}

impl Dim {
    /// A dimension of extent 1, for those that are absent.
    const ONE: Self = Self { len: 1, src: 0, dst: 0 };
}

impl From<copy::Dim> for Dim {
    fn from(dim: copy::Dim) -> Self {
        Self { len: dim.len as u64, src: dim.src as u64, dst: dim.dst as u64 }
    }
}

/// Launches a strided copy.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let params: CopyParams = params(call.layer);
    if params.filled == 1 {
        fill(call, params.fill, queue)?;
    }
    if call.layer.inputs[0] == NONE {
        return Ok(());
    }
    let (dims, mut count) = normalise(&params);
    let mut input = call.operands[0] + 4 * u64::from(params.src_start);
    let out = call.out + 4 * u64::from(params.dst_start);
    // All elements of a dimension that the output has one float for: the last one stays. They stand
    // last.
    while let Some(last) = count.checked_sub(1).map(|last| dims[last])
        && last.dst == 0
    {
        input += 4 * (last.len as u64 - 1) * last.src as u64;
        count -= 1;
    }
    let dims = &dims[..count];
    match transposed(dims) {
        Some(at) => transpose(dims, at, [input, out], queue),
        None => elements(dims, [input, out], queue),
    }
}

/// Fills the rectangle of the output tensor.
fn fill(call: &Call<'_>, value: f32, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    let tensor = &call.output;
    let (rows, cols) = (call.slice.rows, tensor.cols());
    let out = call.out + 4 * u64::from(tensor.offset);
    let fill = Fill { out, rows, cols, out_pitch: tensor.pitch, value };
    launch(queue, Function::Fill, rectangle(rows, cols, 1), &fill)
}

/// Whether no two elements can meet in the output: each dimension's step leads past all that is
/// inside.
fn is_apart(dims: &[copy::Dim]) -> bool {
    (0..dims.len()).all(|at| span(&dims[at + 1..]) <= dims[at].dst)
}

/// The dimension along which the input is adjacent, where the output is along another, the last
/// one, and both are long.
fn transposed(dims: &[copy::Dim]) -> Option<usize> {
    let (last, outer) = dims.split_last()?;
    let at = outer.iter().position(|dim| dim.src == 1)?;
    let long = last.len >= SHORT && outer[at].len >= SHORT;
    (last.dst == 1 && last.src != 1 && long && is_apart(dims)).then_some(at)
}

/// Launches the copy of planes by tiles.
fn transpose(
    dims: &[copy::Dim],
    at: usize,
    [input, out]: [u64; 2],
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    let last = dims.len() - 1;
    let mut planes = [Dim::ONE; 4];
    let around = (0..last).filter(|dim| *dim != at).map(|dim| Dim::from(dims[dim]));
    for (plane, dim) in planes.iter_mut().zip(around) {
        *plane = dim;
    }
    let (outer, inner) = (Dim::from(dims[at]), Dim::from(dims[last]));
    let around = planes.iter().map(|dim| dim.len).product::<u64>();
    let tiles = around * outer.len.div_ceil(TILE) * inner.len.div_ceil(TILE);
    let record = Transpose { input, out, tiles, planes, outer, inner };
    launch(queue, Function::Transpose, line(tiles, [TILE as u32, 8, 1]), &record)
}

/// Launches the copy of elements: of fours, where all are adjacent and lie at multiples of 16
/// bytes.
fn elements(
    dims: &[copy::Dim],
    [input, out]: [u64; 2],
    queue: &mut dyn Queue,
) -> Result<(), DeviceError> {
    let mut record =
        Copy { input, out, elements: 1, dims: [Dim::ONE; 6], count: dims.len() as u32, width: 1 };
    let (front, back) = record.dims.split_at_mut(6 - dims.len());
    debug_assert!(front.len() + back.len() == 6);
    for (to, dim) in back.iter_mut().zip(dims) {
        *to = Dim::from(*dim);
    }
    let fours = |dim: &Dim| dim.src.is_multiple_of(4) && dim.dst.is_multiple_of(4);
    if let Some((last, outer)) = back.split_last_mut()
        && (last.src, last.dst) == (1, 1)
        && last.len.is_multiple_of(4)
        && outer.iter().all(fours)
        && [input, out].iter().all(|address| address.is_multiple_of(16))
    {
        *last = Dim { len: last.len / 4, src: 4, dst: 4 };
        record.width = 4;
    }
    record.elements = record.dims.iter().map(|dim| dim.len).product();
    // Where elements may meet, one thread copies them in order.
    let sizes = match is_apart(dims) {
        true => line(record.elements.div_ceil(256), [256, 1, 1]),
        false => [[1; 3]; 2],
    };
    launch(queue, Function::Copy, sizes, &record)
}
