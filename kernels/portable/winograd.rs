//! The Winograd transforms in plain Rust, for any target: the definition of what the other kernels
//! compute. `kernels/winograd-points.h` is the same arithmetic, operation by operation, and says
//! what tiles with fewer outputs leave out.

use crate::kernels::fma::fma;

/// The points of F(4,3) apart from 0 and infinity: ±[`A`] and ±[`B`]. Their powers that occur are
/// exact.
pub const A: f32 = 0.75;
/// See [`A`].
pub const B: f32 = 1.5;
const AA: f32 = A * A;
const BB: f32 = B * B;

/// Most inputs of a one-dimensional transform.
pub const MAX: usize = 6;

/// The frequencies of `outputs` outputs, 1 to `tile`, as bits: `outputs + 2` of them.
pub const fn kept(tile: usize, outputs: usize) -> u32 {
    match (tile, outputs) {
        (2, 2) => 0b1111,
        (2, _) => 0b1110,
        (_, 4) => 0b111111,
        (_, 3) => 0b101111,
        (_, 2) => 0b100111,
        _ => 0b100110,
    }
}

/// `outputs + 2` inputs to `outputs + 2` frequencies. Those that are not [`kept`] are zeros.
pub fn input_1d(tile: usize, outputs: usize, d: &[f32; MAX]) -> [f32; MAX] {
    match (tile, outputs) {
        (2, 2) => [d[2] - d[0], d[1] + d[2], d[2] - d[1], d[3] - d[1], 0.0, 0.0],
        (2, _) => [0.0, d[0] + d[1], d[0] - d[1], d[2] - d[0], 0.0, 0.0],
        (_, 4) => {
            let (even_a, odd_a) = (fma(-BB, d[2], d[4]), fma(-BB, d[1], d[3]));
            let (even_b, odd_b) = (fma(-AA, d[2], d[4]), fma(-AA, d[1], d[3]));
            [
                fma(AA * BB, d[0], fma(-(AA + BB), d[2], d[4])),
                fma(A, odd_a, even_a),
                fma(-A, odd_a, even_a),
                fma(B, odd_b, even_b),
                fma(-B, odd_b, even_b),
                fma(AA * BB, d[1], fma(-(AA + BB), d[3], d[5])),
            ]
        }
        (_, 3) => {
            let (even, odd) = (fma(-AA, d[0], d[2]), fma(-AA, d[1], d[3]));
            let (low, high) = (fma(-B, d[1], d[2]), fma(-B, d[2], d[3]));
            [
                fma(-BB, even, B * odd),
                (B + A) * fma(A, low, high),
                (B - A) * fma(-A, low, high),
                2.0 * B * odd,
                0.0,
                fma(-B, odd, fma(-AA, d[2], d[4])),
            ]
        }
        (_, 2) => [
            -BB * fma(-AA, d[0], d[2]),
            (AA - BB) * fma(A, d[1], d[2]),
            (AA - BB) * fma(-A, d[1], d[2]),
            0.0,
            0.0,
            fma(-AA, d[1], d[3]),
        ],
        _ => [
            0.0,
            A * (AA - BB) * fma(A, d[0], d[1]),
            A * (BB - AA) * fma(-A, d[0], d[1]),
            0.0,
            0.0,
            fma(-AA, d[0], d[2]),
        ],
    }
}

/// The [`kept`] frequencies to `outputs` outputs; zeros are the others.
pub fn output_1d(tile: usize, outputs: usize, x: &[f32; MAX]) -> [f32; MAX] {
    let (sum_a, diff_a) = (x[1] + x[2], x[1] - x[2]);
    match (tile, outputs) {
        (2, 2) => [x[0] + sum_a, x[3] + diff_a, 0.0, 0.0, 0.0, 0.0],
        (2, _) => [x[3] + sum_a, 0.0, 0.0, 0.0, 0.0, 0.0],
        (_, 4) => {
            let (sum_b, diff_b) = (x[3] + x[4], x[3] - x[4]);
            [
                x[0] + (sum_a + sum_b),
                fma(B, diff_b, A * diff_a),
                fma(BB, sum_b, AA * sum_a),
                fma(BB * B, diff_b, fma(AA * A, diff_a, x[5])),
                0.0,
                0.0,
            ]
        }
        (_, 3) => [
            x[0] + (sum_a + x[3]),
            fma(B, x[3], A * diff_a),
            fma(BB, x[3], fma(AA, sum_a, x[5])),
            0.0,
            0.0,
            0.0,
        ],
        (_, 2) => [x[0] + sum_a, fma(A, diff_a, x[5]), 0.0, 0.0, 0.0, 0.0],
        _ => [sum_a + x[5], 0.0, 0.0, 0.0, 0.0, 0.0],
    }
}

/// A filter at each of the `tile + 2` points, over the product of the point's distances to the
/// others. Filters that are transformed before they are stored are so in double precision
/// ([`transform_weights`](crate::ops::winograd::transform_weights)), with these points too.
pub fn weights_1d(tile: usize, g: [f32; 3]) -> [f32; MAX] {
    if tile == 2 {
        let even = g[0] + g[2];
        return [0.0 - g[0], 0.5 * (even + g[1]), 0.5 * (even - g[1]), g[2], 0.0, 0.0];
    }
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
    ]
}

/// A one-dimensional transform down the columns, then along the rows, of a tile with these numbers
/// of outputs down and across.
pub fn in_two_dimensions(
    tile: usize,
    [down, across]: [usize; 2],
    data: &mut [[f32; MAX]; MAX],
    transform: fn(usize, usize, &[f32; MAX]) -> [f32; MAX],
) {
    for x in 0..tile + 2 {
        let column = transform(tile, down, &core::array::from_fn(|y| data[y][x]));
        for (row, value) in data.iter_mut().zip(column) {
            row[x] = value;
        }
    }
    for row in data.iter_mut() {
        *row = transform(tile, across, row);
    }
}
