//! Elementwise functions of one tensor on a GPU.

use super::{Launch, Queue};
use crate::device::DeviceError;
use crate::kernels::table::cuda::Function;
use crate::pack::Activation;
use bytemuck::{Pod, Zeroable};

/// `MapRecord` of `kernels/cuda/elementwise.cu`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
struct MapRecord {
    input: u64,
    out: u64,
    rows: u32,
    cols: u32,
    in_pitch: u32,
    out_pitch: u32,
    function: u32,
    alpha: f32,
    beta: f32,
    zero: u32,
}

/// A matrix of the GPU's: where it begins, and floats from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rows {
    pub(super) address: u64,
    pub(super) pitch: u32,
}

/// The activation of `rows` by `cols` elements, which is not none. `out` may be `input`.
pub(super) fn map(
    queue: &mut dyn Queue,
    activation: &Activation,
    (rows, cols): (u32, u32),
    input: Rows,
    out: Rows,
) -> Result<(), DeviceError> {
    let record = MapRecord {
        input: input.address,
        out: out.address,
        rows,
        cols,
        in_pitch: input.pitch,
        out_pitch: out.pitch,
        function: activation.kind,
        alpha: activation.alpha,
        beta: activation.beta,
        zero: 0,
    };
    queue.launch(&Launch {
        function: Function::Map,
        // A column of blocks does several rows where there are more than it may have blocks.
        grid: [cols.div_ceil(32), rows.div_ceil(8).min(65535), 1],
        block: [32, 8, 1],
        shared_bytes: 0,
        args: bytemuck::bytes_of(&record),
    })
}

mod tests {
    use super::*;
    use crate::arena::MatMut;
    use crate::device::cuda::testing::{Gpu, assert_same};
    use crate::kernels::Kernels;
    use crate::ops::testing::Random;
    use std::prelude::rust_2024::*;

    /// Every function of `math.h` with one lane, over floats of all sizes and kinds.
    #[test]
    fn functions_have_the_bits_of_the_portable_kernels() {
        let mut gpu = Gpu::new();
        let special =
            [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MIN_POSITIVE, 1e-45];
        let data: Vec<f32> =
            (0..=u32::MAX / 20011).map(|i| f32::from_bits(i * 20011)).chain(special).collect();
        let input = gpu.upload(&data);
        let cols = 1000;
        for kind in 1..13 {
            let activation = Activation { kind, alpha: 0.2, beta: 0.5 };
            let rows = data.len() / cols;
            let out = gpu.poison(rows * cols * 4);
            let (from, to) = (Rows { address: input.address(), pitch: cols as u32 }, out.address());
            let to = Rows { address: to, pitch: cols as u32 };
            map(&mut gpu, &activation, (rows as u32, cols as u32), from, to).unwrap();
            let mut truth = data[..rows * cols].to_vec();
            Kernels::PORTABLE.map(&activation, MatMut::new(&mut truth, rows, cols, cols).unwrap());
            assert_same(&gpu.download::<f32>(&out), &truth, &activation);
        }
    }

    #[test]
    fn any_extents_and_pitches_in_place_too() {
        let mut gpu = Gpu::new();
        let mut random = Random::new(1);
        let activation = Activation { kind: 5, alpha: 0.0, beta: 0.0 };
        for (rows, cols, pitch) in
            [(1, 1, 1), (7, 33, 40), (9, 31, 31), (70, 3, 5), (600_000, 1, 1)]
        {
            let data: Vec<f32> = (0..rows * pitch).map(|_| random.float()).collect();
            let mut truth = data.clone();
            Kernels::PORTABLE.map(&activation, MatMut::new(&mut truth, rows, cols, pitch).unwrap());
            let memory = gpu.upload(&data);
            let at = Rows { address: memory.address(), pitch: pitch as u32 };
            map(&mut gpu, &activation, (rows as u32, cols as u32), at, at).unwrap();
            assert_same(&gpu.download::<f32>(&memory), &truth, &(rows, cols, pitch));
        }
    }
}
