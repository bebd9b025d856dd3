//! Boxes of which none overlap.

use super::builder::Item;
use super::emitter::{Emitter, field, too_scattered};
use super::exact::{self, offset};
use super::top_k::compare;
use super::{ORDERS, Operation, Operator, PassError};
use crate::graph::Suppression;
use crate::network::Weights;
use eyelet::pack::{self, OpKind, SuppressParams};

/// Of all boxes.
pub(super) const ROW: Operator = Operator::new(OpKind::Suppress);

impl Operation for Suppression {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let &[boxes, scores] = &item.inputs[..] else { return Err(too_scattered(name, 0)) };
        let (of, made) = (&emitter.program.values[boxes].shape, &emitter.program.values[y].shape);
        let [images, classes, each, count] =
            [made[0], made[1], of[1], made[2]].map(|extent| field(name, "an extent", extent));
        let params = SuppressParams {
            images: images?,
            classes: classes?,
            boxes: each?,
            count: count?,
            overlap: self.overlap,
            score: self.score,
            centers: self.centers.into(),
        };
        let inputs = [emitter.row(name, boxes)?, emitter.row(name, scores)?].map(Some);
        let (output, params) = (emitter.new_row(name, y)?, pack::params_words(&params));
        emitter.layer(item, OpKind::Suppress, inputs, output, params, Weights::None)
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(ORDERS.into())
    }
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
pub(crate) fn suppress(
    suppression: &Suppression,
    boxes: exact::Tensor<'_>,
    scores: exact::Tensor<'_>,
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
