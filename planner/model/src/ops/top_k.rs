//! The places of elements in order.

use super::builder::{Builder, Item, MOST_INDEX, input};
use super::emitter::{Emitter, field};
use super::exact;
use super::{ORDERS, Operation, Operator, PassError, Work};
use crate::graph::Node;
use crate::network::Weights;
use eyelet::pack::{self, OpKind, TopKParams};
use std::cmp::Ordering;

/// Of all elements of a lane.
pub(super) const ROW: Operator = Operator::new(OpKind::TopK);

/// The places of the first of the second axis of three, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub largest: bool,
    pub integers: bool,
}

impl Operation for Order {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let &Self { largest, integers } = self;
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let (from, to) = (&emitter.program.values[x].shape, &emitter.program.values[y].shape);
        let [outer, reduce, inner, count] =
            [from[0], from[1], from[2], to[1]].map(|extent| field(name, "an extent", extent));
        let params = TopKParams {
            outer: outer?,
            reduce: reduce?,
            inner: inner?,
            count: count?,
            largest: largest.into(),
            integers: integers.into(),
        };
        let (input, output) = (emitter.row(name, x)?, emitter.new_row(name, y)?);
        let params = pack::params_words(&params);
        emitter.layer(item, OpKind::TopK, [Some(input)], output, params, Weights::None)
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(ORDERS.into())
    }
}

impl Builder {
    /// The places of an axis in order, as the middle one of three.
    pub fn order(
        &mut self,
        node: &Node,
        axis: usize,
        [largest, integers]: [bool; 2],
    ) -> Result<(), PassError> {
        let name = node.name.as_str();
        let (x, y) = (input(node, 0)?, node.outputs[0]);
        let shape = self.shape(x).to_vec();
        if shape[axis] > MOST_INDEX {
            return Err(PassError::TooLarge {
                node: name.into(),
                what: "the number of elements that are put in order",
                found: shape[axis],
                limit: MOST_INDEX,
            });
        }
        let product = |axes: &[usize]| axes.iter().product::<usize>();
        let mut folded = [product(&shape[..axis]), shape[axis], product(&shape[axis + 1..])];
        let x = self.reshaped(name, x, &folded);
        folded[1] = self.shape(y)[axis];
        let places = self.temporary(name, &folded);
        self.push(name, Work::Order(Order { largest, integers }), &[x], &[places]);
        self.push(name, Work::Reshape, &[places], &[y]);
        Ok(())
    }
}

/// NaN after all numbers.
pub(crate) fn compare(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The places of the first of the middle axis in order, of equal numbers the first one first.
pub(crate) fn order(x: exact::Tensor<'_>, axis: usize, largest: bool, out: &[usize]) -> Vec<f64> {
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
