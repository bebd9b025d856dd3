//! Maximum and average over windows.

use super::builder::{Builder, Item};
use super::conv::{tapped, windowed};
use super::emitter::{Emitter, words};
use super::exact::{self, parallel};
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{ValueId, Window};
use eyelet::pack::{self, OpKind, PoolParams, params};

/// A window over the image.
pub(super) const ROW: Operator = Operator {
    lines: |_, layer, _| {
        let PoolParams { kernel, stride, dilation, pad, .. } = params(layer);
        Some(Lines::window([kernel, stride, dilation, pad]))
    },
    name: |layer| windowed("Pool", params::<PoolParams>(layer).kernel),
    ..Operator::new(OpKind::Pool)
};

/// Maximum or average over windows.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub average: bool,
    pub window: Window,
    pub count_include_pad: bool,
}

impl Operation for Pool {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { average, window, count_include_pad } = self;
        let params = PoolParams {
            average: (*average).into(),
            kernel: words(window.kernel),
            stride: words(window.stride),
            dilation: words(window.dilation),
            pad: words(window.pad_begin),
            pad_end: words(window.pad_end),
            count_include_pad: (*count_include_pad).into(),
        };
        let order = emitter.image(item)?;
        emitter.simple(item, OpKind::Pool, &order, pack::params_words(&params))
    }

    fn moves(&self) -> bool {
        !self.average
    }
}

impl Builder {
    pub fn pool(
        &mut self,
        name: &str,
        mut x: ValueId,
        y: ValueId,
        window: &Window,
        average: bool,
        mut count_include_pad: bool,
    ) {
        let mut window = window.clone();
        // An average counts what a Pad added, so the pool must count all of its padding or have none.
        let countable = count_include_pad || [window.pad_begin, window.pad_end] == [[0; 2]; 2];
        let accept = |value| match average {
            true => countable && value == 0.0,
            false => value == f32::NEG_INFINITY,
        };
        if let Some((inner, begin, end)) = self.image_padding(x, accept) {
            x = inner;
            count_include_pad = true;
            for i in 0..2 {
                window.pad_begin[i] += begin[i];
                window.pad_end[i] += end[i];
            }
        }
        self.push(name, Work::Pool(Pool { average, window, count_include_pad }), &[x], &[y]);
    }
}

/// Folds the input under each window that is not padding: value by value, then with the position.
fn pool(
    window: &Window,
    x: exact::Tensor<'_>,
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

/// Maxima of windows in double precision.
pub(crate) fn max_pool(window: &Window, x: exact::Tensor<'_>, out: &[usize]) -> Vec<f64> {
    let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
    pool(window, x, out, f64::NEG_INFINITY, larger, |maximum, _| maximum)
}

/// Means of windows in double precision.
pub(crate) fn average_pool(
    window: &Window,
    count_include_pad: bool,
    x: exact::Tensor<'_>,
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
