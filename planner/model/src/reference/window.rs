//! Convolution and pooling.

use super::{Tensor, parallel};
use crate::graph::Window;

/// The input position under a tap, if it is not padding.
fn tapped(window: &Window, axis: usize, at: usize, tap: usize, extent: usize) -> Option<usize> {
    let padded = at * window.stride[axis] + tap * window.dilation[axis];
    padded.checked_sub(window.pad_begin[axis]).filter(|&position| position < extent)
}

/// Output positions `start..end` for which a tap of an axis is not over padding.
fn covered(window: &Window, axis: usize, tap: usize, extent: usize, outs: usize) -> (usize, usize) {
    let reach = tap * window.dilation[axis];
    let stride = window.stride[axis];
    let start = window.pad_begin[axis].saturating_sub(reach).div_ceil(stride);
    let end = (extent + window.pad_begin[axis]).saturating_sub(reach).div_ceil(stride);
    (start.min(outs), end.clamp(start.min(outs), outs))
}

pub(super) fn conv(
    window: &Window,
    groups: usize,
    x: Tensor<'_>,
    weight: Tensor<'_>,
    bias: Option<Tensor<'_>>,
    out: &[usize],
) -> Vec<f64> {
    let (height, width) = (x.shape[2], x.shape[3]);
    let [_, channels, rows, columns] = out else { panic!("an image, not {out:?}") };
    let (inner, group_outputs) = (weight.shape[1], channels / groups);
    let [kh, kw] = window.kernel;
    let mut result = vec![0.0; out.iter().product()];
    parallel(&mut result, rows * columns, |plane, result| {
        let (image, channel) = (plane / channels, plane % channels);
        result.fill(bias.map_or(0.0, |bias| bias.data[channel]));
        let first = channel / group_outputs * inner;
        for input in 0..inner {
            let source = (image * x.shape[1] + first + input) * height * width;
            let source = &x.data[source..source + height * width];
            for ky in 0..kh {
                for kx in 0..kw {
                    let tap = weight.data[((channel * inner + input) * kh + ky) * kw + kx];
                    let (start, end) = covered(window, 1, kx, width, *columns);
                    if start == end {
                        continue;
                    }
                    for row in 0..*rows {
                        let Some(y) = tapped(window, 0, row, ky, height) else { continue };
                        let at = start * window.stride[1] + kx * window.dilation[1];
                        let line = &source[y * width + at - window.pad_begin[1]..(y + 1) * width];
                        let target = &mut result[row * columns + start..row * columns + end];
                        if window.stride[1] == 1 {
                            target.iter_mut().zip(line).for_each(|(sum, x)| *sum += tap * x);
                        } else {
                            let line = line.iter().step_by(window.stride[1]);
                            target.iter_mut().zip(line).for_each(|(sum, x)| *sum += tap * x);
                        }
                    }
                }
            }
        }
    });
    result
}

/// Folds the input under each window that is not padding: value by value, then with the position.
fn pool(
    window: &Window,
    x: Tensor<'_>,
    out: &[usize],
    start: f64,
    fold: impl Fn(f64, f64) -> f64 + Sync,
    finish: impl Fn(f64, [usize; 2]) -> f64 + Sync,
) -> Vec<f64> {
    let (height, width) = (x.shape[2], x.shape[3]);
    let (rows, columns) = (out[2], out[3]);
    let mut result = vec![0.0; out.iter().product()];
    parallel(&mut result, rows * columns, |plane, result| {
        let source = &x.data[plane * height * width..][..height * width];
        for row in 0..rows {
            for column in 0..columns {
                let mut folded = start;
                for ky in 0..window.kernel[0] {
                    let Some(y) = tapped(window, 0, row, ky, height) else { continue };
                    for kx in 0..window.kernel[1] {
                        if let Some(x) = tapped(window, 1, column, kx, width) {
                            folded = fold(folded, source[y * width + x]);
                        }
                    }
                }
                result[row * columns + column] = finish(folded, [row, column]);
            }
        }
    });
    result
}

pub(super) fn max_pool(window: &Window, x: Tensor<'_>, out: &[usize]) -> Vec<f64> {
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    pool(window, x, out, f64::NEG_INFINITY, larger, |maximum, _| maximum)
}

pub(super) fn average_pool(
    window: &Window,
    count_include_pad: bool,
    x: Tensor<'_>,
    out: &[usize],
) -> Vec<f64> {
    // Taps that count: on the input, or on the padding that the model states; never beyond it.
    let counted = |axis: usize, at: usize| {
        let extent = x.shape[2 + axis];
        let taps = 0..window.kernel[axis];
        match count_include_pad {
            false => taps.filter(|&tap| tapped(window, axis, at, tap, extent).is_some()).count(),
            true => {
                let padded = window.pad_begin[axis] + extent + window.pad_end[axis];
                let start = at * window.stride[axis];
                taps.filter(|&tap| start + tap * window.dilation[axis] < padded).count()
            }
        }
    };
    pool(
        window,
        x,
        out,
        0.0,
        |sum, value| sum + value,
        |sum, at| sum / (counted(0, at[0]) * counted(1, at[1])) as f64,
    )
}
