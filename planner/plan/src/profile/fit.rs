//! Fits of a few terms, by which profiles sum up what was measured.

/// Turns in which each term is fitted in its turn to what the others leave: far more than a few terms need.
const TURNS: usize = 20_000;

/// `x`, none less than 0, with the least `Σ (a·x − b)²`: for times `t` that are to be `f·x`, each point is
/// `(f / t, 1)`, so that relative errors count. A term that time would have to be taken off for is 0.
pub fn terms<const N: usize>(points: &[([f64; N], f64)]) -> [f64; N] {
    // Terms are scaled such that their points have length 1, whatever they count.
    let length = |term: usize| points.iter().map(|(a, _)| a[term].powi(2)).sum::<f64>().sqrt();
    let lengths: [f64; N] = std::array::from_fn(length);
    let of = |sum: f64, by: f64| if by > 0.0 { sum / by } else { 0.0 };
    let mut products = [[0.0; N]; N];
    let mut targets = [0.0; N];
    for (a, b) in points {
        for i in 0..N {
            targets[i] += of(a[i] * b, lengths[i]);
            for j in 0..N {
                products[i][j] += of(a[i] * a[j], lengths[i] * lengths[j]);
            }
        }
    }
    let mut x = [0.0; N];
    for _ in 0..TURNS {
        for i in 0..N {
            let others: f64 = (0..N).filter(|j| *j != i).map(|j| products[i][j] * x[j]).sum();
            x[i] = f64::max(targets[i] - others, 0.0);
        }
    }
    std::array::from_fn(|term| of(x[term], lengths[term]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_found_where_they_are_there() {
        let time = |f: [f64; 3]| 0.25 * f[0] + 3.0 * f[1] + 7.0 * f[2];
        let points: Vec<([f64; 3], f64)> =
            [[100.0, 1.0, 0.0], [400.0, 90.0, 2.0], [7.0, 2.0, 9.0], [50.0, 0.0, 1.0]]
                .map(|f| (f.map(|term| term / time(f)), 1.0))
                .to_vec();
        let [a, b, c] = terms(&points);
        assert!((a - 0.25).abs() < 1e-6 && (b - 3.0).abs() < 1e-6 && (c - 7.0).abs() < 1e-6);
        // Part of each time is known: what is left is found.
        let left: Vec<([f64; 2], f64)> =
            points.iter().map(|(f, whole)| ([f[0], f[1]], whole - 7.0 * f[2])).collect();
        let [a, b] = terms(&left);
        assert!((a - 0.25).abs() < 1e-6 && (b - 3.0).abs() < 1e-6, "{a} {b}");
    }

    #[test]
    fn no_term_takes_time_off() {
        // In proportion to each other: together they say all.
        let [a, b] = terms(&[([10.0 / 10.0, 1.0 / 10.0], 1.0), ([20.0 / 12.0, 2.0 / 12.0], 1.0)]);
        assert!((a * 10.0 + b - 7.0588).abs() < 1e-3 && a >= 0.0 && b >= 0.0, "{a} {b}");
        let [a, b] = terms(&[([1.0 / 4.0, 3.0 / 4.0], 1.0), ([9.0 / 100.0, 1.0 / 100.0], 1.0)]);
        assert!(a > 0.0 && b >= 0.0, "{a} {b}");
        assert_eq!(terms::<2>(&[]), [0.0, 0.0]);
        assert_eq!(terms(&[([1.0, 0.0], 1.0)]), [1.0, 0.0]);
    }
}
