//! Weights as they are stored: filters transformed to frequencies.

/// The points of F(4,3) apart from 0 and infinity, positive ones.
const POINTS: [f64; 2] = [0.75, 1.5];

/// Transforms a 3x3 filter (row by row) to the `(tile + 2)²` weights that are stored, in double
/// precision; the rest of the array is zero. They are rounded once, by the caller.
pub fn transform_weights(tile: usize, filter: &[f64; 9]) -> [f64; 36] {
    let [a, b] = POINTS;
    // A filter is evaluated at each point, over the product of the point's distances to the others.
    let at = |p: f64, norm: f64| [1.0 / norm, p / norm, p * p / norm];
    let (norm_a, norm_b) = (2.0 * a * a * (a * a - b * b), 2.0 * b * b * (b * b - a * a));
    let four = [
        at(0.0, a * a * b * b),
        at(a, norm_a),
        at(-a, norm_a),
        at(b, norm_b),
        at(-b, norm_b),
        [0.0, 0.0, 1.0],
    ];
    let two = [at(0.0, -1.0), at(1.0, 2.0), at(-1.0, 2.0), [0.0, 0.0, 1.0]];
    let rows: &[[f64; 3]] = if tile == 2 { &two } else { &four };
    let n = rows.len();
    let dot = |row: &[f64; 3], x: [f64; 3]| row[0] * x[0] + row[1] * x[1] + row[2] * x[2];
    let mut out = [0.0; 36];
    for (i, down) in rows.iter().enumerate() {
        let half = [0, 1, 2].map(|x| dot(down, [filter[x], filter[3 + x], filter[6 + x]]));
        for (j, along) in rows.iter().enumerate() {
            out[i * n + j] = dot(along, half);
        }
    }
    out
}
