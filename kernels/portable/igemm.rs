//! f32 implicit GEMM in plain Rust, for any target: the definition of what the other kernels
//! compute.

use crate::kernels::fma::fma;

/// Rows of a tile.
pub const MR: usize = 4;

/// Adds one run of the reduction to the accumulators: `acc[i] += run[i][k] · panel[k]`, fused, for
/// each k in order. `panel` has `width` floats for each float of the runs, which are equally long,
/// and then as many that it has `NR` from the last of them on.
#[inline]
pub fn accumulate<const NR: usize>(
    acc: &mut [[f32; NR]],
    runs: &[&[f32]],
    panel: &[f32],
    width: usize,
) {
    for (acc, run) in acc.iter_mut().zip(runs) {
        let mut sums = *acc;
        if width == NR {
            for (&x, w) in run.iter().zip(panel.as_chunks::<NR>().0) {
                for (sum, &w) in sums.iter_mut().zip(w) {
                    *sum = fma(x, w, *sum);
                }
            }
        } else {
            for (&x, w) in run.iter().zip(panel.windows(NR).step_by(width.max(1))) {
                for (sum, &w) in sums.iter_mut().zip(w) {
                    *sum = fma(x, w, *sum);
                }
            }
        }
        *acc = sums;
    }
}

/// `x` inside `min` to `max`; NaN and negative zero stay what they are.
#[inline(always)]
pub fn clamp(x: f32, min: f32, max: f32) -> f32 {
    let x = if min > x { min } else { x };
    if max < x { max } else { x }
}
