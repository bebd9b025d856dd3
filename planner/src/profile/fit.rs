//! Fits of two terms, by which profiles sum up what was measured.

/// `a` and `b`, neither less than 0, with the least `Σ (a·x + b·y − 1)²`: for times `t` that are to be `a·f + b·g`, each point
/// is `[f/t, g/t]`, so that relative errors count. Where one number is enough, or one would be less than 0, `b` is 0.
pub fn two_terms(points: impl Iterator<Item = [f64; 2]>) -> [f64; 2] {
    let [mut xx, mut xy, mut yy, mut sx, mut sy] = [0.0; 5];
    for [x, y] in points {
        xx += x * x;
        xy += x * y;
        yy += y * y;
        sx += x;
        sy += y;
    }
    let determinant = xx * yy - xy * xy;
    if determinant > 1e-12 * xx * yy {
        let (a, b) = ((sx * yy - sy * xy) / determinant, (sy * xx - sx * xy) / determinant);
        if a >= 0.0 && b >= 0.0 {
            return [a, b];
        }
    }
    [if xx > 0.0 { sx / xx } else { 0.0 }, 0.0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_terms_are_found_if_both_are_there() {
        let time = |f: f64, g: f64| 0.25 * f + 3.0 * g;
        let points = |rows: &[(f64, f64)]| -> Vec<[f64; 2]> {
            rows.iter().map(|(f, g)| [f / time(*f, *g), g / time(*f, *g)]).collect()
        };
        let [a, b] = two_terms(points(&[(100.0, 1.0), (400.0, 90.0), (7.0, 2.0)]).into_iter());
        assert!((a - 0.25).abs() < 1e-9 && (b - 3.0).abs() < 1e-9, "{a} {b}");
        // In proportion to each other: one says all.
        let [a, b] = two_terms(points(&[(10.0, 1.0), (20.0, 2.0)]).into_iter());
        assert!((a - 0.55).abs() < 1e-9 && b == 0.0, "{a} {b}");
        // Time that a term would have to take off is not taken off.
        let [a, b] = two_terms([[1.0 / 4.0, 3.0 / 4.0], [9.0 / 100.0, 1.0 / 100.0]].into_iter());
        assert!(a > 0.0 && b >= 0.0, "{a} {b}");
        assert_eq!(two_terms(std::iter::empty()), [0.0, 0.0]);
    }
}
