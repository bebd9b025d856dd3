//! Places that are found among numbers, and rows that are written to places.

use super::{Tensor, offset};
use crate::graph::Suppression;
use eyelet::pack::ScatterOp;
use std::cmp::Ordering;

/// NaN after all numbers.
fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The places of the first of the middle axis in order, of equal numbers the first one first.
pub(super) fn order(x: Tensor<'_>, axis: usize, largest: bool, out: &[usize]) -> Vec<f64> {
    let outer: usize = x.shape[..axis].iter().product();
    let inner: usize = x.shape[axis + 1..].iter().product();
    let (extent, count) = (x.shape[axis], out[axis]);
    let mut made = vec![0.0; outer * count * inner];
    for lane in 0..outer * inner {
        let (block, column) = (lane / inner, lane % inner);
        let number = |at: usize| x.data[(block * extent + at) * inner + column];
        let mut places: Vec<usize> = (0..extent).collect();
        places.sort_by(|&a, &b| {
            let order = compare(number(a), number(b));
            if largest { order.reverse() } else { order }
        });
        for (at, place) in places[..count].iter().enumerate() {
            made[(block * count + at) * inner + column] = *place as f64;
        }
    }
    made
}

/// The share of the union of two boxes that is of both.
fn shared(a: [f64; 4], b: [f64; 4]) -> f64 {
    let side = |axis: usize| (a[axis + 2].min(b[axis + 2]) - a[axis].max(b[axis])).max(0.0);
    let area = |b: [f64; 4]| (b[2] - b[0]) * (b[3] - b[1]);
    let both = side(0) * side(1);
    match both > 0.0 && area(a) > 0.0 && area(b) > 0.0 {
        true => both / (area(a) + area(b) - both),
        false => 0.0,
    }
}

/// The boxes that remain of each image and class, those of higher scores first.
pub(super) fn suppress(
    suppression: &Suppression,
    boxes: Tensor<'_>,
    scores: Tensor<'_>,
    out: &[usize],
) -> Vec<f64> {
    let (classes, each, count) = (out[1], boxes.shape[1], out[2]);
    let corners = |image: usize, at: usize| {
        let [a, b, c, d] =
            [0, 1, 2, 3].map(|part| boxes.data[offset(boxes.shape, [image, at, part])]);
        match suppression.centers {
            true => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
            false => [a.min(c), b.min(d), a.max(c), b.max(d)],
        }
    };
    let mut made = vec![];
    for lane in 0..out[0] * classes {
        let own = &scores.data[lane * each..][..each];
        let mut waiting: Vec<usize> =
            (0..each).filter(|&at| own[at] > f64::from(suppression.score)).collect();
        waiting.sort_by(|&a, &b| compare(own[b], own[a]));
        let mut taken: Vec<usize> = vec![];
        for place in waiting {
            let box_of = |at: usize| corners(lane / classes, at);
            let overlaps = |&other: &usize| {
                shared(box_of(other), box_of(place)) > f64::from(suppression.overlap)
            };
            if taken.len() < count && !taken.iter().any(overlaps) {
                taken.push(place);
            }
        }
        made.extend(taken.iter().map(|&place| place as f64));
        made.resize((lane + 1) * count, -1.0);
    }
    made
}

/// Rows of which some are replaced by updates, or combined with them.
pub(super) fn scatter(
    op: ScatterOp,
    data: Tensor<'_>,
    indices: Tensor<'_>,
    updates: Tensor<'_>,
) -> Vec<f64> {
    let (rows, cols) = (data.shape[0] as f64, data.shape[1]);
    let mut made = data.data.to_vec();
    for (index, row) in indices.data.iter().zip(updates.data.chunks(cols.max(1))) {
        let place = if *index < 0.0 { index + rows } else { *index };
        if !(0.0..rows).contains(&place) {
            continue;
        }
        for (old, &new) in made[place as usize * cols..][..cols].iter_mut().zip(row) {
            *old = match op {
                ScatterOp::Replace => new,
                ScatterOp::Add => *old + new,
                ScatterOp::Mul => *old * new,
                _ if old.is_nan() || new.is_nan() => f64::NAN,
                ScatterOp::Max => old.max(new),
                ScatterOp::Min => old.min(new),
            };
        }
    }
    made
}
