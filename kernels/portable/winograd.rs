//! The Winograd transforms in plain Rust, for any target: the definition of what the other kernels
//! compute. `kernels/winograd-points.h` is the same arithmetic, operation by operation.

use crate::kernels::table::fma;

/// The points of F(4,3) beside 0 and infinity: ±[`A`] and ±[`B`]. Their powers that occur are exact. Those of
/// F(6,3): ±1/2, ±1, ±2.
pub const A: f32 = 0.75;
/// See [`A`].
pub const B: f32 = 1.5;
const AA: f32 = A * A;
const BB: f32 = B * B;

/// Most inputs of a one-dimensional transform.
pub const MAX: usize = 8;

/// `tile + 2` inputs to as many frequencies.
pub fn input_1d(tile: usize, d: &[f32; MAX]) -> [f32; MAX] {
    match tile {
        2 => [d[2] - d[0], d[1] + d[2], d[2] - d[1], d[3] - d[1], 0.0, 0.0, 0.0, 0.0],
        4 => input_1d_4(d),
        _ => input_1d_6(d),
    }
}

fn input_1d_4(d: &[f32; MAX]) -> [f32; MAX] {
    let even_a = fma(-BB, d[2], d[4]);
    let odd_a = fma(-BB, d[1], d[3]);
    let even_b = fma(-AA, d[2], d[4]);
    let odd_b = fma(-AA, d[1], d[3]);
    [
        fma(AA * BB, d[0], fma(-(AA + BB), d[2], d[4])),
        fma(A, odd_a, even_a),
        fma(-A, odd_a, even_a),
        fma(B, odd_b, even_b),
        fma(-B, odd_b, even_b),
        fma(AA * BB, d[1], fma(-(AA + BB), d[3], d[5])),
        0.0,
        0.0,
    ]
}

fn input_1d_6(d: &[f32; MAX]) -> [f32; MAX] {
    let even_half = fma(4.0, d[2], fma(-5.0, d[4], d[6]));
    let odd_half = fma(4.0, d[1], fma(-5.0, d[3], d[5]));
    let even_1 = fma(-4.25, d[4], d[2] + d[6]);
    let odd_1 = fma(-4.25, d[3], d[1] + d[5]);
    let even_2 = fma(0.25, d[2], fma(-1.25, d[4], d[6]));
    let odd_2 = fma(0.25, d[1], fma(-1.25, d[3], d[5]));
    [
        fma(5.25, d[4] - d[2], d[0] - d[6]),
        fma(0.5, odd_half, even_half),
        fma(-0.5, odd_half, even_half),
        even_1 + odd_1,
        even_1 - odd_1,
        fma(2.0, odd_2, even_2),
        fma(-2.0, odd_2, even_2),
        fma(5.25, d[3] - d[5], d[7] - d[1]),
    ]
}

/// `tile + 2` frequencies to `tile` outputs.
pub fn output_1d(tile: usize, x: &[f32; MAX]) -> [f32; MAX] {
    match tile {
        2 => [x[0] + (x[1] + x[2]), x[3] + (x[1] - x[2]), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        4 => output_1d_4(x),
        _ => output_1d_6(x),
    }
}

fn output_1d_4(x: &[f32; MAX]) -> [f32; MAX] {
    let (sum_a, diff_a) = (x[1] + x[2], x[1] - x[2]);
    let (sum_b, diff_b) = (x[3] + x[4], x[3] - x[4]);
    [
        x[0] + (sum_a + sum_b),
        fma(B, diff_b, A * diff_a),
        fma(BB, sum_b, AA * sum_a),
        fma(BB * B, diff_b, fma(AA * A, diff_a, x[5])),
        0.0,
        0.0,
        0.0,
        0.0,
    ]
}

fn output_1d_6(x: &[f32; MAX]) -> [f32; MAX] {
    let (sum_half, diff_half) = (x[1] + x[2], x[1] - x[2]);
    let (sum_1, diff_1) = (x[3] + x[4], x[3] - x[4]);
    let (sum_2, diff_2) = (x[5] + x[6], x[5] - x[6]);
    [
        (x[0] + sum_half) + (sum_1 + sum_2),
        fma(2.0, diff_2, fma(0.5, diff_half, diff_1)),
        fma(4.0, sum_2, fma(0.25, sum_half, sum_1)),
        fma(8.0, diff_2, fma(0.125, diff_half, diff_1)),
        fma(16.0, sum_2, fma(0.0625, sum_half, sum_1)),
        fma(32.0, diff_2, fma(0.03125, diff_half, x[7] + diff_1)),
        0.0,
        0.0,
    ]
}

/// A filter at each of the `tile + 2` points, over the product of the point's distances to the others. Filters
/// that are transformed before they are stored are so in double precision
/// ([`transform_weights`](crate::ops::winograd::transform_weights)), with these points too.
pub fn weights_1d(tile: usize, g: [f32; 3]) -> [f32; MAX] {
    match tile {
        2 => {
            let even = g[0] + g[2];
            let half = [0.5 * (even + g[1]), 0.5 * (even - g[1])];
            [0.0 - g[0], half[0], half[1], g[2], 0.0, 0.0, 0.0, 0.0]
        }
        4 => weights_1d_4(g),
        _ => weights_1d_6(g),
    }
}

fn weights_1d_4(g: [f32; 3]) -> [f32; MAX] {
    const OVER_0: f32 = 1.0 / (AA * BB);
    const OVER_A: f32 = 1.0 / (2.0 * AA * (AA - BB));
    const OVER_B: f32 = 1.0 / (2.0 * BB * (BB - AA));
    let (even_a, even_b) = (fma(AA, g[2], g[0]), fma(BB, g[2], g[0]));
    [
        OVER_0 * g[0],
        OVER_A * fma(A, g[1], even_a),
        OVER_A * fma(-A, g[1], even_a),
        OVER_B * fma(B, g[1], even_b),
        OVER_B * fma(-B, g[1], even_b),
        g[2],
        0.0,
        0.0,
    ]
}

fn weights_1d_6(g: [f32; 3]) -> [f32; MAX] {
    const OVER_HALF: f32 = 1.0 / 1.40625;
    const OVER_1: f32 = 1.0 / -4.5;
    const OVER_2: f32 = 1.0 / 90.0;
    let (even_half, even_2) = (fma(0.25, g[2], g[0]), fma(4.0, g[2], g[0]));
    let even_1 = g[0] + g[2];
    [
        g[0],
        OVER_HALF * fma(0.5, g[1], even_half),
        OVER_HALF * fma(-0.5, g[1], even_half),
        OVER_1 * (even_1 + g[1]),
        OVER_1 * (even_1 - g[1]),
        OVER_2 * fma(2.0, g[1], even_2),
        OVER_2 * fma(-2.0, g[1], even_2),
        g[2],
    ]
}

/// A one-dimensional transform down the columns, then along the rows, of the first `tile + 2` of each.
pub fn in_two_dimensions(
    tile: usize,
    data: &mut [[f32; MAX]; MAX],
    transform: fn(usize, &[f32; MAX]) -> [f32; MAX],
) {
    for x in 0..tile + 2 {
        let column = transform(tile, &core::array::from_fn(|y| data[y][x]));
        for (row, value) in data.iter_mut().zip(column) {
            row[x] = value;
        }
    }
    for row in data.iter_mut() {
        *row = transform(tile, row);
    }
}
