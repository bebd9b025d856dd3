//! Non-maximum suppression: [`OpKind::Suppress`].
//!
//! The boxes of a class are a heap in scratch, from which they come by their scores. Each that comes
//! is compared with those that remain already.
//!
//! [`OpKind::Suppress`]: crate::pack::OpKind::Suppress

use super::reduce::check_contiguous;
use super::top_k::{Heap, rank};
use super::work::elements;
use super::{
    Call, Elements, LayerError, Operand, Operator, Problem, check, check_inputs,
    check_no_activation,
};
use crate::device::{Split, divide};
use crate::matrix::MatMut;
use crate::pack::{Element, INPUTS, Isa, Layer, OpKind, SuppressParams, Tensor, params};
use bytemuck::cast_slice_mut;

/// Non-maximum suppression.
pub(super) const ROW: Operator = Operator {
    scratch: |problem, _| scratch_bytes(problem),
    row_unit: |_, _| None,
    elements: |_| Elements::of([Some(Element::Float); INPUTS], Some(Element::Word)),
    // Each box is compared with all that remain.
    macs: |layer, inputs, _| {
        let suppress: SuppressParams = params(layer);
        let each = 32 + 16 * u64::from(suppress.count);
        elements(&inputs[1]).saturating_mul(each)
    },
    ..Operator::new(OpKind::Suppress, 2, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_inputs(layer, 2)?;
    check_no_activation(layer)?;
    check(layer.panels == 0, "number of weight panels", layer.panels.into(), 0)?;
    for input in &layer.inputs[..2] {
        let what = "output tensor, which must not be an input,";
        check(*input != layer.output, what, layer.output.into(), (*input).into())?;
    }
    let p: SuppressParams = params(layer);
    check(p.centers <= 1, "how boxes are given", p.centers.into(), 1)?;
    let fits = p.count > 0 && p.count <= p.boxes;
    check(fits, "number of boxes that may remain", p.count.into(), p.boxes.into())?;
    let lanes = u64::from(p.images) * u64::from(p.classes);
    let product = |a: u64, b: u32| a.saturating_mul(b.into());
    for (tensor, limit, what) in [
        (&inputs[0], product(product(p.images.into(), p.boxes), 4), "number of elements of boxes"),
        (&inputs[1], product(lanes, p.boxes), "number of scores"),
        (output, product(lanes, p.count), "number of elements of the output"),
    ] {
        check(elements(tensor) == limit, what, elements(tensor), limit)?;
        check_contiguous(tensor)?;
    }
    Ok(())
}

/// Bytes of a thread's heap.
fn heap_bytes(params: &SuppressParams) -> u64 {
    (u64::from(params.boxes) * 4).next_multiple_of(64)
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(problem: &Problem<'_>) -> u64 {
    let params: SuppressParams = params(problem.layer);
    let lanes = u64::from(params.images) * u64::from(params.classes);
    heap_bytes(&params).saturating_mul(u64::from(problem.threads).min(lanes).max(1))
}

/// The corners of a box, lower ones first.
fn corners(data: &[f32], centers: bool) -> [f32; 4] {
    let [a, b, c, d] = [data[0], data[1], data[2], data[3]];
    match centers {
        true => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
        false => [a.min(c), b.min(d), a.max(c), b.max(d)],
    }
}

/// Whether two boxes overlap by more than a share of their union.
fn overlaps(a: [f32; 4], b: [f32; 4], share: f32) -> bool {
    let area = |[x, y, right, end]: [f32; 4]| (right - x) * (end - y);
    let shared = [a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])];
    if shared[0] >= shared[2] || shared[1] >= shared[3] {
        return false;
    }
    let (both, first, second) = (area(shared), area(a), area(b));
    let union = first + second - both;
    both > 0.0 && first > 0.0 && second > 0.0 && union > 0.0 && both / union > share
}

/// The boxes of one class that remain: their places, then -1.
fn remaining(p: &SuppressParams, boxes: &[f32], scores: &[f32], heap: &mut [u32], out: &mut [u32]) {
    let mut waiting = 0;
    for (place, score) in scores.iter().enumerate() {
        if *score > p.score {
            heap[waiting] = place as u32;
            waiting += 1;
        }
    }
    // Whether a box comes before another: what a heap has at its root comes last, so it is told
    // the other way around.
    let later = |a: u32, b: u32| {
        let [x, y] = [a, b].map(|place| rank(scores[place as usize].to_bits(), true, false));
        x < y || x == y && a > b
    };
    let mut heap = Heap { places: &mut heap[..waiting], step: 1, before: later };
    heap.build(waiting);
    let mut found = 0;
    let corners = |place: u32| {
        let at = 4 * place as usize;
        corners(&boxes[at..at + 4], p.centers == 1)
    };
    while waiting > 0 && found < out.len() {
        waiting -= 1;
        let place = heap.take(waiting);
        let own = corners(place);
        let goes = out[..found].iter().any(|other| overlaps(corners(*other), own, p.overlap));
        if !goes {
            out[found] = place;
            found += 1;
        }
    }
    out[found..].fill(u32::MAX);
}

/// Computes the whole output.
pub fn run(mut call: Call<'_>) {
    let [Operand::Mat(boxes), Operand::Mat(scores), _] = call.operands else { return };
    let (Some(boxes), Some(scores)) = (boxes.contiguous(), scores.contiguous()) else { return };
    let p: SuppressParams = params(call.layer);
    let [images, classes, count] = [p.images, p.classes, p.count].map(|extent| extent as usize);
    let (each, heap) = (p.boxes as usize, heap_bytes(&p) as usize);
    let Some(out) = call.out.contiguous_mut() else { return };
    let Some(out) = MatMut::new(out, images * classes, count, count) else { return };
    divide(call.device, out, Split::Rows(1), call.scratch, heap, |mut share| {
        let heap: &mut [u32] = cast_slice_mut(share.scratch);
        for row in 0..share.out.rows() {
            let lane = share.rows.start + row;
            let boxes = &boxes[lane / classes * each * 4..][..each * 4];
            let scores = &scores[lane * each..][..each];
            remaining(&p, boxes, scores, heap, cast_slice_mut(share.out.row_mut(row)));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;
    use std::vec;

    fn case(random: &mut Random, params: SuppressParams) -> Case {
        let SuppressParams { images, classes, boxes, count, .. } = params;
        let layer = layer(OpKind::Suppress, Activation::NONE, &params);
        let inputs = [[1, images, boxes, 4], [1, images, classes, boxes]];
        let mut case = Case::contiguous(layer, random, &inputs, [1, images, classes, count]);
        // Scores of which many are equal, and one is no number.
        for score in &mut case.data[1] {
            *score = random.below(6) as f32;
        }
        case.data[1][boxes as usize / 2] = f32::NAN;
        case
    }

    /// By the definition: the best box that is left is taken, and those that overlap with it go.
    fn expected(p: &SuppressParams, boxes: &[f32], scores: &[f32]) -> Vec<i32> {
        let corners = |at: usize| -> [f64; 4] {
            let [a, b, c, d] = core::array::from_fn(|i| f64::from(boxes[4 * at + i]));
            match p.centers {
                1 => [a - c / 2.0, b - d / 2.0, a + c / 2.0, b + d / 2.0],
                _ => [a.min(c), b.min(d), a.max(c), b.max(d)],
            }
        };
        let share = |a: [f64; 4], b: [f64; 4]| {
            let side = |i: usize| (a[i + 2].min(b[i + 2]) - a[i].max(b[i])).max(0.0);
            let area = |b: [f64; 4]| (b[2] - b[0]) * (b[3] - b[1]);
            let both = side(0) * side(1);
            let fine = both > 0.0 && area(a) > 0.0 && area(b) > 0.0;
            if fine { both / (area(a) + area(b) - both) } else { 0.0 }
        };
        let mut left: Vec<usize> = (0..scores.len()).filter(|&at| scores[at] > p.score).collect();
        let mut taken = vec![];
        while taken.len() < p.count as usize && !left.is_empty() {
            let best = (0..left.len())
                .rev()
                .fold(0, |best, at| if scores[left[at]] >= scores[left[best]] { at } else { best });
            let best = left.iter().copied().filter(|&at| scores[at] == scores[left[best]]).min();
            let best = best.unwrap();
            taken.push(best as i32);
            left.retain(|&at| {
                at != best && share(corners(best), corners(at)) <= f64::from(p.overlap)
            });
        }
        taken.resize(p.count as usize, -1);
        taken
    }

    #[test]
    fn keeps_the_best_of_boxes_that_overlap() {
        let mut random = Random::new(1);
        for ([images, classes, boxes], count) in
            [([1, 1, 1], 1), ([1, 1, 40], 40), ([2, 3, 17], 5), ([3, 1, 300], 20)]
        {
            for (centers, score) in [(0, f32::NEG_INFINITY), (1, 2.0), (0, 7.0)] {
                let overlap = 0.3;
                let p = SuppressParams { images, classes, boxes, count, overlap, score, centers };
                let case = case(&mut random, p);
                assert_eq!(case.validate(), Ok(()));
                let found = case.run_everywhere();
                for lane in 0..(images * classes) as usize {
                    let (each, image) = (boxes as usize, lane / classes as usize);
                    let own = &case.data[0][image * each * 4..][..each * 4];
                    let want = expected(&p, own, &case.data[1][lane * each..][..each]);
                    let row = &found[lane * count as usize..][..count as usize];
                    let made: Vec<i32> = row.iter().map(|x| x.to_bits() as i32).collect();
                    assert_eq!(made, want, "{p:?}, lane {lane}");
                }
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(2);
        let (images, classes, boxes, count) = (2, 3, 7, 4);
        let (overlap, score, centers) = (0.5, 0.0, 0);
        let p = SuppressParams { images, classes, boxes, count, overlap, score, centers };
        let good = case(&mut random, p);
        assert_eq!(good.validate(), Ok(()));
        for (field, value) in [(0, 1), (1, 2), (2, 8), (3, 0), (3, 8), (6, 2)] {
            let mut case = good.clone();
            case.layer.params[field] = value;
            assert!(case.validate().is_err(), "{field} {value}");
        }
        let mut case = good.clone();
        case.layer.output = case.layer.inputs[1];
        assert!(case.validate().is_err());
    }
}
