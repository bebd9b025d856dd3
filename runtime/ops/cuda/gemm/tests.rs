//! Whatever record is accepted is launched within the limits of grids, and nothing overflows on the
//! way.

use super::*;
use crate::device::DeviceError;
use crate::device::accelerator::{Launch, Queue};
use crate::ops::cuda::run;
use crate::ops::testing::{Random, layer};
use crate::ops::{self, Problem, Slice};
use crate::pack::{
    ConvParams, Encoding, INPUTS, Isa, Layer, MatMulParams, OpKind, Tensor, WinogradParams,
    params_words,
};
use std::prelude::rust_2024::*;

/// Accepts this many launches.
struct Limits(u32);

impl Queue for Limits {
    fn launch(&mut self, launch: &Launch<'_>) -> Result<(), DeviceError> {
        let Launch { grid, block, .. } = launch;
        assert!(grid[0] <= i32::MAX as u32 && grid[1].max(grid[2]) <= MAX_BLOCKS, "{grid:?}");
        assert!(grid.iter().all(|blocks| *blocks > 0) && block.iter().product::<u32>() <= 256);
        assert!(launch.args.len() <= 4096);
        self.0 = self.0.checked_sub(1).ok_or(DeviceError { call: "enough", code: 1 })?;
        Ok(())
    }
}

/// Mostly small, sometimes as large as it gets.
fn extent(random: &mut Random) -> u32 {
    match random.below(12) {
        0 => u32::MAX >> random.below(32),
        1 => 1 << random.below(32),
        2..5 => 1 + random.below(3000) as u32,
        _ => 1 + random.below(9) as u32,
    }
}

/// Two ones, or once in `rare` times something else.
fn pair(random: &mut Random, rare: usize) -> [u32; 2] {
    [(); 2].map(|()| if random.below(rare) == 0 { extent(random) } else { 1 })
}

fn tensor(random: &mut Random, dims: [u32; 4]) -> Tensor {
    let pitch = dims[3].saturating_add(random.below(3) as u32);
    Tensor { dims, pitch, ..Tensor::default() }
}

/// Floats of a buffer that a pack can have.
fn fits(tensor: &Tensor) -> bool {
    let rows = tensor.dims[..3].iter().map(|dim| u128::from(*dim)).product::<u128>();
    rows * u128::from(tensor.pitch) <= 1 << 42
}

#[test]
fn what_is_accepted_is_launched_within_limits() {
    let mut random = Random::new(3);
    let mut accepted = [0; 3];
    for round in 0..300_000 {
        let kind = [OpKind::Conv, OpKind::MatMul, OpKind::Winograd][round % 3];
        let mut dims = || [(); 4].map(|()| extent(&mut random));
        let (mut a, mut b, mut out) = (dims(), dims(), dims());
        let (stride, dilation, kernel, pad) = (
            pair(&mut random, 4),
            pair(&mut random, 4),
            pair(&mut random, 2),
            pair(&mut random, 4),
        );
        out[0] = a[0];
        let mut record = Layer { output: 2, ..layer(kind, Activation::RELU, &0u32) };
        record.inputs[0] = 0;
        let encoding = Encoding::OF_GPUS[random.below(3)];
        let mut panels = |panels: u64, k: u64| {
            let bytes = encoding.panel_bytes(k, PANEL as usize, PANEL as usize).unwrap_or(0);
            record.encoding = encoding as u32;
            record.panels = u32::try_from(panels).unwrap_or(0);
            record.panel_bytes = u32::try_from(bytes).unwrap_or(0);
        };
        match kind {
            OpKind::Conv => {
                let groups = 1 + random.below(8) as u32 / 6;
                (a[3], out[3]) = (a[3] / groups * groups, out[3] / groups * groups);
                let chains = random.below(70) as u32;
                let taps = u64::from(kernel[0]) * u64::from(kernel[1]);
                let k = taps.saturating_mul((a[3] / groups).into());
                panels(u64::from(groups) * u64::from((out[3] / groups).div_ceil(PANEL)), k);
                let p = ConvParams { kernel, stride, dilation, pad, groups, chains };
                record.params = params_words(&p);
            }
            OpKind::Winograd => {
                let tile = [2, 4][random.below(2)];
                panels(
                    out[3].div_ceil(PANEL).into(),
                    u64::from((tile + 2) * (tile + 2)) * u64::from(a[3]),
                );
                record.params = params_words(&WinogradParams { tile, pad, groups: 1 });
            }
            _ => {
                let [batch, m, k, n] = out;
                let p = MatMulParams {
                    scale: 1.0,
                    batch,
                    m,
                    k,
                    n,
                    batch_stride: pair(&mut random, 2),
                    row_stride: pair(&mut random, 2),
                    col_stride: [1, pair(&mut random, 2)[0]],
                };
                let last = |count: u32, stride: u32| u64::from(count - 1) * u64::from(stride);
                let needed = [(m, k), (k, n)].map(|(rows, cols)| (rows, cols));
                let [left, right] = [0, 1].map(|side| {
                    let floats = last(batch, p.batch_stride[side])
                        .saturating_add(last(needed[side].0, p.row_stride[side]))
                        .saturating_add(last(needed[side].1, p.col_stride[side]));
                    u32::try_from(floats.saturating_add(1)).unwrap_or(0)
                });
                (a, b, out) = ([1, 1, 1, left], [1, 1, 1, right], [1, batch, m, n]);
                record.inputs[1] = 1;
                record.params = params_words(&p);
            }
        }
        let [a, b, out] = [a, b, out].map(|dims| tensor(&mut random, dims));
        let inputs = [a, b, Tensor::default()];
        let valid = ops::validate(&record, &inputs, &out, [u64::MAX; 2], Isa::Cuda).is_ok();
        if !valid || ![a, b, out].iter().all(fits) {
            continue;
        }
        accepted[round % 3] += 1;
        let first = random.below(record.panels as usize + 1) as u32;
        let (first, count) = match kind {
            OpKind::MatMul => (0, 0),
            _ => (first.min(record.panels - 1), (record.panels - first).max(1)),
        };
        let slice = Slice { first, count, row: 0, rows: out.rows() as u32, ..Slice::default() };
        let (layer, output, isa) = (&record, &out, Isa::Cuda);
        let problem = Problem { layer, inputs: &inputs, output, slice, threads: 1, isa };
        assert_eq!(ops::validate_slice(&problem), Ok(()));
        let bytes = ops::scratch_bytes(&problem);
        assert!(bytes.is_multiple_of(64) || bytes == u64::MAX);
        let call = Call {
            layer: &record,
            inputs,
            output: out,
            operands: [1 << 40; INPUTS],
            out: 1 << 41,
            weights: 1 << 42,
            scratch: 1 << 43,
            slice,
            multiprocessors: extent(&mut random),
        };
        // More launches than that are more of the same.
        let result = run(&call, &mut Limits(100));
        assert!(result.is_ok() || result.unwrap_err().call == "enough");
    }
    assert!(accepted.iter().all(|count| *count > 1000), "{accepted:?}");
}
