//! The places of the largest or smallest words of lanes, in order: [`OpKind::TopK`].
//!
//! The places that are found so far are a heap, which lies in the output itself: the one that comes
//! last is at its root, and goes when a better one is found. In the end the heap is sorted in place.
//!
//! [`OpKind::TopK`]: crate::pack::OpKind::TopK

use super::reduce::check_contiguous;
use super::work::elements;
use super::{
    Call, Elements, LayerError, Operand, Operator, check, check_no_activation, check_one_input,
    device_for,
};
use crate::device::{Split, divide};
use crate::matrix::MatMut;
use crate::pack::{Element, INPUTS, Isa, Layer, OpKind, Tensor, TopKParams, params};
use bytemuck::{cast_slice, cast_slice_mut};

/// Places of words in order.
pub(super) const ROW: Operator = Operator {
    row_unit: |_, _| None,
    elements: |layer| {
        let integers = params::<TopKParams>(layer).integers == 1;
        let read = if integers { Element::Word } else { Element::Float };
        Elements::of([Some(read); INPUTS], Some(Element::Word))
    },
    // Each place goes down a heap at most.
    macs: |_, inputs, _| elements(&inputs[0]).saturating_mul(32),
    ..Operator::new(OpKind::TopK, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_one_input(layer)?;
    check_no_activation(layer)?;
    let TopKParams { outer, reduce, inner, count, largest, integers } = params(layer);
    check(largest <= 1, "which words are first", largest.into(), 1)?;
    check(integers <= 1, "whether words are integers", integers.into(), 1)?;
    let fits = count > 0 && count <= reduce;
    check(fits, "number of places of a lane", count.into(), reduce.into())?;
    let lanes = u64::from(outer) * u64::from(inner);
    for (tensor, each, what) in [
        (&inputs[0], reduce, "number of elements of the input"),
        (output, count, "number of elements of the output"),
    ] {
        let (found, limit) = (elements(tensor), lanes.saturating_mul(each.into()));
        check(found == limit, what, found, limit)?;
        check_contiguous(tensor)?;
    }
    Ok(())
}

/// The order of a word: of the one that comes first the largest number.
pub(super) fn rank(word: u32, largest: bool, integers: bool) -> i32 {
    let float = f32::from_bits(word);
    let rank = match word as i32 {
        integer if integers => integer,
        _ if float.is_nan() => i32::MAX,
        // Both zeros are equal.
        _ if float == 0.0 => 0,
        positive @ 0.. => positive,
        negative => negative ^ i32::MAX,
    };
    if largest { rank } else { !rank }
}

/// Places as a heap in every `step`-th word of a slice: the one that comes last is at its root.
pub(super) struct Heap<'a, B> {
    pub places: &'a mut [u32],
    pub step: usize,
    /// Whether a place comes before another.
    pub before: B,
}

impl<B: Fn(u32, u32) -> bool> Heap<'_, B> {
    fn at(&self, slot: usize) -> u32 {
        self.places[slot * self.step]
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.places.swap(a * self.step, b * self.step);
    }

    /// Moves a place down to where none below it comes later.
    fn sift(&mut self, mut slot: usize, count: usize) {
        loop {
            let (left, right) = (2 * slot + 1, 2 * slot + 2);
            if left >= count {
                return;
            }
            let later = right < count && (self.before)(self.at(left), self.at(right));
            let child = if later { right } else { left };
            if !(self.before)(self.at(slot), self.at(child)) {
                return;
            }
            self.swap(slot, child);
            slot = child;
        }
    }

    /// Makes a heap of the first `count` places that the slice has.
    pub fn build(&mut self, count: usize) {
        for slot in (0..count / 2).rev() {
            self.sift(slot, count);
        }
    }

    /// Takes the root of a heap that is left with `count` places.
    pub fn take(&mut self, count: usize) -> u32 {
        self.swap(0, count);
        self.sift(0, count);
        self.at(count)
    }

    /// The first `count` of `all` places, in order.
    fn order(&mut self, count: usize, all: usize) {
        for slot in 0..count {
            self.places[slot * self.step] = slot as u32;
        }
        self.build(count);
        for place in count..all {
            if (self.before)(place as u32, self.at(0)) {
                self.places[0] = place as u32;
                self.sift(0, count);
            }
        }
        for end in (1..count).rev() {
            self.take(end);
        }
    }
}

/// Computes the whole output.
pub fn run(mut call: Call<'_>) {
    let Operand::Mat(input) = call.operands[0] else { return };
    let Some(input) = input.contiguous() else { return };
    let p: TopKParams = params(call.layer);
    let [outer, reduce, inner, count] =
        [p.outer, p.reduce, p.inner, p.count].map(|extent| extent as usize);
    let Some(out) = call.out.contiguous_mut() else { return };
    let Some(out) = MatMut::new(out, outer, count * inner, count * inner) else { return };
    let words: &[u32] = cast_slice(input);
    let device = device_for(call.device, input.len());
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let block = &words[(share.rows.start + row) * reduce * inner..][..reduce * inner];
            let out: &mut [u32] = cast_slice_mut(share.out.row_mut(row));
            for lane in 0..inner {
                let word = |place: u32| block[place as usize * inner + lane];
                let before = |a: u32, b: u32| {
                    let [x, y] =
                        [a, b].map(|place| rank(word(place), p.largest == 1, p.integers == 1));
                    x > y || x == y && a < b
                };
                let places = &mut out[lane..];
                Heap { places, step: inner, before }.order(count, reduce);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;

    fn case(random: &mut Random, params: TopKParams) -> Case {
        let TopKParams { outer, reduce, inner, count, .. } = params;
        let layer = layer(OpKind::TopK, Activation::NONE, &params);
        let (input, output) = ([1, outer, reduce, inner], [1, outer, count, inner]);
        let mut case = Case::contiguous(layer, random, &[input], output);
        for value in &mut case.data[0] {
            *value = match (params.integers, random.below(8)) {
                (1, _) => f32::from_bits(random.below(9) as u32 ^ (random.next() as u32 & 1 << 31)),
                (_, 0) => f32::NAN,
                (_, 1) => -0.0,
                (_, 2) => f32::INFINITY,
                _ => (random.below(9) as f32 - 4.0) * 1e-40,
            };
        }
        case
    }

    #[test]
    fn places_are_those_of_a_stable_sort() {
        let mut random = Random::new(1);
        for (sizes, count) in
            [([1, 1, 1], 1), ([3, 7, 1], 7), ([2, 5, 9], 3), ([1, 900, 1], 40), ([4, 33, 5], 32)]
        {
            for (largest, integers) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
                let [outer, reduce, inner] = sizes;
                let params = TopKParams { outer, reduce, inner, count, largest, integers };
                let case = case(&mut random, params);
                let found = case.run_everywhere();
                let [reduce, inner, count] = [reduce, inner, count].map(|n| n as usize);
                for lane in 0..outer as usize * inner {
                    let (block, column) = (lane / inner, lane % inner);
                    let word = |at: usize| case.data[0][(block * reduce + at) * inner + column];
                    let mut order: Vec<usize> = (0..reduce).collect();
                    order.sort_by(|&a, &b| {
                        let (x, y) = (word(a), word(b));
                        let order = match integers {
                            1 => (x.to_bits() as i32).cmp(&(y.to_bits() as i32)),
                            _ => x.partial_cmp(&y).unwrap_or(x.is_nan().cmp(&y.is_nan())),
                        };
                        if largest == 1 { order.reverse() } else { order }
                    });
                    for (at, want) in order[..count].iter().enumerate() {
                        let made = found[(block * count + at) * inner + column].to_bits();
                        assert_eq!(made as usize, *want, "{params:?}, lane {lane}, place {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let mut random = Random::new(2);
        let params =
            TopKParams { outer: 2, reduce: 5, inner: 3, count: 4, largest: 1, integers: 0 };
        let good = case(&mut random, params);
        assert_eq!(good.validate(), Ok(()));
        for (field, value) in [(0, 3), (1, 6), (2, 2), (3, 0), (3, 6), (4, 2), (5, 2)] {
            let mut case = good.clone();
            case.layer.params[field] = value;
            assert!(case.validate().is_err(), "{field} {value}");
        }
    }
}
