//! Weighted sums along an axis: the order in which their layer reads, the record from which follows
//! what it reads, and the table of taps.

use super::builder::Item;
use super::emitter::{Emitter, fields};
use super::exact;
use super::view::image_order;
use super::{Lines, Operation, Operator, PassError};
use crate::graph::{Constant, Resampling};
use crate::network::Weights;
use eyelet::pack::{self, OpKind, ResampleParams, params};
use std::sync::Arc;

/// How much wider than its taps a sum's reach is tried to be.
const MOST_TRIED: usize = 64;

/// The largest number up to which floats have all integers.
const MOST_PLACES: usize = 1 << 24;

/// Lines that begin at a fraction of the output's.
pub(super) const ROW: Operator = Operator {
    lines: |_, layer, _| Some(Lines::Sums(params(layer))),
    ..Operator::new(OpKind::Resample)
};

impl Operation for Resampling {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let of = self;
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        emitter.refuse_gpu(name, "interpolation, flips, and choices along an axis")?;
        let shape = emitter.program.values[x].shape.clone();
        let order = emitter.order_along(item, of.axis)?;
        let place = order.iter().position(|&axis| axis == of.axis).unwrap_or(0);
        let extents: Vec<usize> = order.iter().map(|&axis| shape[axis]).collect();
        let (axis, dims) = folded(&extents, place);
        let mut params = reach(of, shape[of.axis]);
        params.axis = axis as u32;
        let input = emitter.operand(name, x, &order)?;
        let input = pack::Tensor { dims: fields(name, dims)?, ..input };
        let mut made = dims;
        made[axis] = of.starts.len();
        let output = emitter.place(name, y, &order)?;
        let output = pack::Tensor { dims: fields(name, made)?, ..output };
        // A lone axis has its elements for pixels.
        let [input, output] = [input, output].map(|record| match extents.len() {
            1 => pack::Tensor { pitch: 1, ..record },
            _ => record,
        });
        let weights = Weights::Plain(Constant::Owned(Arc::new(table(of, &params, shape[of.axis]))));
        let words = pack::params_words(&params);
        emitter.layer(item, OpKind::Resample, [Some(input), None], output, words, weights)
    }

    fn takes_activation(&self) -> bool {
        true
    }
}

impl Emitter<'_> {
    /// The memory order in which sums along an axis are made: that of images, or the value's own;
    /// but the axis is not the last.
    fn order_along(&self, item: &Item, axis: usize) -> Result<Vec<usize>, PassError> {
        let view = self.view(&item.name, item.inputs[0])?;
        let rank = view.axes.len();
        let extent = self.program.values[item.inputs[0]].shape[axis];
        if extent > MOST_PLACES {
            return Err(PassError::TooLarge {
                node: item.name.clone(),
                what: "the extent of an axis that is resampled",
                found: extent,
                limit: MOST_PLACES,
            });
        }
        if let Some(order) = image_order(rank).filter(|_| rank > 2 && axis != 1) {
            return Ok(order);
        }
        let mut order = view.order();
        if rank > 1 && order.last() == Some(&axis) {
            order.rotate_right(1);
        }
        Ok(order)
    }
}

/// The four dimensions of a record, of which the one that the axis at `place` is can be summed
/// along: which.
fn folded(extents: &[usize], place: usize) -> (usize, [usize; 4]) {
    let product = |extents: &[usize]| extents.iter().product::<usize>();
    let (before, after) = (&extents[..place], &extents[place + 1..]);
    match after.split_last() {
        None => (2, [1, 1, extents[place], 1]),
        Some((&channels, [])) => {
            let (images, lines) = match before.split_last() {
                Some((&last, rest)) => (product(rest), last),
                None => (1, 1),
            };
            (2, [images, lines, extents[place], channels])
        }
        Some((&channels, between)) => {
            (1, [product(before), extents[place], product(between), channels])
        }
    }
}

/// The record of sums over an axis of some extent: the step from one output to the next that leaves
/// the fewest elements to be looked among.
fn reach(of: &Resampling, extent: usize) -> ResampleParams {
    let made = of.starts.len();
    let ends = |from: usize, to: usize| [from.max(1), to.max(1)].map(|count| count as u32);
    let mut steps = vec![[1, 1], [0, 1], ends(extent, made), ends(extent - 1, made - 1)];
    // The mean step from the first start to the last.
    if let (Some(&first), Some(&last)) = (of.starts.first(), of.starts.last()) {
        steps.push(ends(last.saturating_sub(first), made - 1));
    }
    let narrow = steps.iter().filter_map(|&step| {
        let reaches = of.taps..extent.min(of.taps + MOST_TRIED);
        reaches.into_iter().find_map(|reach| within(of, extent, lowest(step), reach))
    });
    // All there is, from the first on.
    let whole = ResampleParams {
        axis: 0,
        taps: of.taps as u32,
        reach: extent as u32,
        step: [0, 1],
        shift: 0,
        outside: of.outside,
    };
    narrow.min_by_key(|params| params.reach).unwrap_or(whole)
}

/// The record of sums whose elements are among so many, if there is one with this step.
fn within(of: &Resampling, extent: usize, step: [u32; 2], reach: usize) -> Option<ResampleParams> {
    let [up, down] = step.map(i64::from);
    let last = (extent - reach) as i64;
    let starts = || of.starts.iter().enumerate().map(|(at, &start)| (at as i64, start as i64));
    // None begins after its sum's first element, but those that may not begin later.
    let early = starts().filter(|(_, start)| *start < last);
    let shift = early.map(|(at, start)| start * down + down - 1 - at * up).min();
    let shift = i32::try_from(shift.unwrap_or(last * down)).ok()?;
    let (taps, reach) = (of.taps as u32, reach as u32);
    let params = ResampleParams { axis: 0, taps, reach, step, shift, outside: of.outside };
    let fits = |(at, start): (i64, i64)| {
        let first = i64::from(params.first(at as u32, extent as u32));
        first <= start && start + i64::from(taps) <= first + i64::from(reach)
    };
    starts().all(fits).then_some(params)
}

/// A fraction in its lowest terms.
fn lowest([mut up, mut down]: [u32; 2]) -> [u32; 2] {
    let (a, b) = (up, down);
    while down > 0 {
        (up, down) = (down, up % down);
    }
    [a / up.max(1), b / up.max(1)]
}

/// For each output the place of its first tap in reach, and the weights.
fn table(of: &Resampling, params: &ResampleParams, extent: usize) -> Vec<f32> {
    let mut table = Vec::with_capacity(of.starts.len() * (of.taps + 1));
    for (at, (&start, weights)) in
        of.starts.iter().zip(of.weights.chunks_exact(of.taps)).enumerate()
    {
        let first = params.first(at as u32, extent as u32) as usize;
        table.push((start - first) as f32);
        table.extend(weights.iter().map(|&weight| weight as f32));
    }
    table
}

/// The sums in double precision.
pub(crate) fn resample(of: &Resampling, x: exact::Tensor<'_>) -> Vec<f64> {
    let outer: usize = x.shape[..of.axis].iter().product();
    let inner: usize = x.shape[of.axis + 1..].iter().product();
    let extent = x.shape[of.axis];
    let mut result = Vec::with_capacity(outer * of.starts.len() * inner);
    for block in 0..outer {
        for (&start, weights) in of.starts.iter().zip(of.weights.chunks_exact(of.taps)) {
            for at in 0..inner {
                let read = weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0);
                let term = |(tap, weight): (usize, &f64)| {
                    weight * x.data[(block * extent + start + tap) * inner + at]
                };
                result.push(read.map(term).reduce(|a, b| a + b).unwrap_or(of.outside.into()));
            }
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a layer reads, by its record and table, is what the sums say; and windows are narrow.
    #[test]
    fn records_reach_what_the_sums_need() {
        let reversed = |n: usize| (0..n).rev().collect::<Vec<_>>();
        let reflected = vec![3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 5, 4];
        let doubled: Vec<usize> = (0..20).map(|at: usize| (at.max(1) - 1) / 2).collect();
        for (extent, starts, taps, reach_of) in [
            (10, (0..10).collect(), 1, 1),
            (10, reversed(10), 1, 10),
            (7, reflected, 1, 4),
            (11, doubled, 2, 2),
            (9, vec![0, 3, 6], 3, 3),
            (9, vec![5, 5, 5, 5], 1, 1),
            (8, vec![0, 0, 7, 7], 1, 5),
            (1, vec![0; 5], 1, 1),
        ] {
            let weights = vec![1.0; starts.len() * taps];
            let of = Resampling { axis: 0, taps, starts, weights, outside: 0.0 };
            let params = reach(&of, extent);
            assert_eq!(params.reach, reach_of, "{of:?}: {params:?}");
            for (at, place) in table(&of, &params, extent).chunks_exact(taps + 1).enumerate() {
                let first = params.first(at as u32, extent as u32) as usize;
                assert_eq!(first + place[0] as usize, of.starts[at], "{params:?}");
                assert!(place[0] as usize + taps <= params.reach as usize);
            }
        }
    }
}
