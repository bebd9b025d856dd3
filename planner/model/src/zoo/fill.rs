//! Random weights, the same on every machine.
//!
//! A sample is the sum of four 16-bit uniforms, which is close to normal (within 3.46 standard
//! deviations), exact in integers and needs no function of a maths library. Every tensor draws from
//! its own stream of ChaCha8, so its values depend on the seed and its place alone.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::io::{self, Write};

/// How the elements of a tensor are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    Constant(f32),
    /// One on and left of the diagonal, zero elsewhere.
    LowerTriangle,
    /// Independent, mean 0.
    Normal {
        std: f32,
    },
    /// Mean 0 within every row (all but the first dimension): a filter that ignores a constant
    /// input, as a network normalised in training does. Without it the common mean of rectified
    /// activations outgrows what differs between images, layer by layer.
    Centred {
        std: f32,
    },
}

/// The mean of the sum of four uniforms over 0..=65535.
const SUM_MEAN: i32 = 131_070;
/// Its variance: 4 (2³² − 1) / 12.
const SUM_VARIANCE: f64 = 4_294_967_295.0 / 3.0;

/// Writes `rows` rows of `row` elements, little-endian, as stream `stream` of `seed`.
pub fn write(
    fill: Fill,
    (rows, row): (usize, usize),
    (seed, stream): (u64, u64),
    out: &mut impl Write,
) -> io::Result<()> {
    let (std, centred) = match fill {
        Fill::Constant(value) => {
            return (0..rows * row).try_for_each(|_| out.write_all(&value.to_le_bytes()));
        }
        Fill::LowerTriangle => {
            let at = (0..rows).flat_map(|i| (0..row).map(move |j| u8::from(j <= i)));
            return at.map(f32::from).try_for_each(|value| out.write_all(&value.to_le_bytes()));
        }
        Fill::Normal { std } => (std, false),
        Fill::Centred { std } => (std, true),
    };
    let scale = (f64::from(std) / SUM_VARIANCE.sqrt()) as f32;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    let mut random = vec![0; row * 8];
    let mut bytes = vec![0; row * 4];
    let mut sums = vec![0i32; row];
    for _ in 0..rows {
        rng.fill_bytes(&mut random);
        for (sum, four) in sums.iter_mut().zip(random.chunks_exact(8)) {
            let part = |i| i32::from(u16::from_le_bytes([four[i], four[i + 1]]));
            *sum = part(0) + part(2) + part(4) + part(6) - SUM_MEAN;
        }
        let mean = match centred {
            true => (sums.iter().map(|&s| i64::from(s)).sum::<i64>() as f64 / row as f64) as f32,
            false => 0.0,
        };
        for (bytes, &sum) in bytes.chunks_exact_mut(4).zip(&sums) {
            bytes.copy_from_slice(&((sum as f32 - mean) * scale).to_le_bytes());
        }
        out.write_all(&bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(fill: Fill, shape: (usize, usize), stream: u64) -> Vec<f32> {
        let mut bytes = Vec::new();
        write(fill, shape, (7, stream), &mut bytes).unwrap();
        bytemuck::pod_collect_to_vec(&bytes)
    }

    fn moments(values: &[f32]) -> (f64, f64, f64) {
        let n = values.len() as f64;
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
        let power = |p| values.iter().map(|&v| (f64::from(v) - mean).powi(p)).sum::<f64>() / n;
        (mean, power(2), power(4) / power(2).powi(2))
    }

    #[test]
    fn normal_has_the_moments_asked_for() {
        let (mean, variance, kurtosis) =
            moments(&floats(Fill::Normal { std: 0.5 }, (1000, 999), 0));
        assert!(mean.abs() < 2e-3, "{mean}");
        assert!((variance - 0.25).abs() < 2e-3, "{variance}");
        assert!((kurtosis - 2.7).abs() < 2e-2, "{kurtosis}"); // 3 - 6 / (5 · 4)
    }

    #[test]
    fn centred_rows_have_mean_zero() {
        let values = floats(Fill::Centred { std: 2.0 }, (50, 333), 0);
        for row in values.chunks_exact(333) {
            assert!(moments(row).0.abs() < 1e-6);
        }
        assert!((moments(&values).1 - 4.0).abs() < 0.1);
    }

    #[test]
    fn streams_differ_and_constants_are_constant() {
        let fill = Fill::Normal { std: 1.0 };
        assert!(floats(fill, (1, 64), 0) == floats(fill, (1, 64), 0));
        assert!(floats(fill, (1, 64), 0) != floats(fill, (1, 64), 1));
        assert!(floats(Fill::Constant(6.0), (3, 5), 0) == [6.0; 15]);
        let triangle = floats(Fill::LowerTriangle, (3, 3), 0);
        assert_eq!(triangle, [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    }
}
