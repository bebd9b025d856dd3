//! The places of elements in order.

use super::builder::{Builder, Item, MOST_INDEX, input};
use super::emitter::{Emitter, field};
use super::{ORDERS, Operation, Operator, PassError, Work};
use crate::graph::Node;
use crate::network::Weights;
use eyelet::pack::{self, OpKind, TopKParams};

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
