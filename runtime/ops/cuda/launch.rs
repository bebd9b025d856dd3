//! Grids and blocks, and what the records of several kernels have in common.

use crate::device::DeviceError;
use crate::device::accelerator::{Launch, Queue};
use crate::kernels::table::cuda::Function;
use bytemuck::Pod;

/// Threads of a block: what the kernels are compiled for.
const THREADS: u32 = 256;

/// Blocks that a grid can have along its second dimension; kernels go on from there. Few in tests,
/// so that they do.
const MOST_BLOCKS: u32 = if cfg!(test) { 3 } else { 65535 };

/// Blocks of a grid along its first dimension, where kernels go on from there.
const LONGEST: u64 = if cfg!(test) { 3 } else { 1 << 20 };

/// Threads of a warp, which are the output channels of a panel where a kernel goes by panels.
pub const WARP: u32 = 32;

/// Threads for each multiprocessor below which it has more use for many than for large ones.
const FEW_THREADS: u64 = if cfg!(test) { 1 } else { 512 };

/// Adds a launch of a kernel with its record.
pub fn launch<R: Pod>(
    queue: &mut dyn Queue,
    function: Function,
    [grid, block]: [[u32; 3]; 2],
    record: &R,
) -> Result<(), DeviceError> {
    let args = bytemuck::bytes_of(record);
    queue.launch(&Launch { function, grid, block, shared_bytes: 0, args })
}

/// Grid and block for a rectangle whose threads take `width` columns each:
/// `kernels/cuda/rectangle.cuh`.
pub fn rectangle(rows: u32, cols: u32, width: u32) -> [[u32; 3]; 2] {
    let units = cols.div_ceil(width);
    let along = units.min(THREADS).next_power_of_two();
    let down = (THREADS / along).min(rows.min(THREADS).next_power_of_two());
    let grid = [units.div_ceil(along), rows.div_ceil(down).min(MOST_BLOCKS), 1];
    [grid, [along, down, 1]]
}

/// Grid and block for `items` items of a warp each, at most what 32 bits hold, in `others` parallel
/// sets.
pub fn warps(items: u64, others: u32, multiprocessors: u32) -> [[u32; 3]; 2] {
    teams(WARP, items, others, multiprocessors)
}

/// Grid and block for `items` items of `threads` threads each, a power of two, in `others` parallel
/// sets.
pub fn teams(threads: u32, items: u64, others: u32, multiprocessors: u32) -> [[u32; 3]; 2] {
    // Few items are spread over all multiprocessors.
    let most = u64::from(THREADS / threads);
    let each = (items / u64::from(multiprocessors.max(1))).clamp(1, most);
    let blocks = items.div_ceil(each) as u32;
    [[blocks, others.min(MOST_BLOCKS), 1], [threads, each as u32, 1]]
}

/// Whether `threads` threads, each with the work of several, are enough for a GPU.
pub fn are_many(threads: u64, multiprocessors: u32) -> bool {
    threads >= FEW_THREADS * u64::from(multiprocessors)
}

/// Grid and block for `blocks` blocks that follow each other; kernels go on from what a grid has.
pub fn line(blocks: u64, block: [u32; 3]) -> [[u32; 3]; 2] {
    [[blocks.min(LONGEST) as u32, 1, 1], block]
}

/// A matrix of floats on the GPU.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub address: u64,
    /// Floats from one row to the next.
    pub pitch: u32,
}

impl Matrix {
    /// Whether rows of fours can be read four at a time: all start at multiples of 16 bytes.
    pub fn is_aligned(&self, rows: u32) -> bool {
        self.address.is_multiple_of(16) && (rows == 1 || self.pitch.is_multiple_of(4))
    }
}

/// The extents of a rectangle over several matrices: one row, if in all of them rows follow each
/// other without gaps (and their floats can be counted).
pub fn joined(rows: u32, cols: u32, gapless: bool) -> (u32, u32) {
    match rows.checked_mul(cols) {
        Some(all) if gapless => (1, all),
        _ => (rows, cols),
    }
}
