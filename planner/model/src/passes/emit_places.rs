//! Emission of what finds places, and of what writes to them.

use super::PassError;
use super::dense::MOST_INDEX;
use super::emit::{Emitter, field, tensor, too_scattered};
use super::fuse::input;
use super::program::{Builder, Item, Work};
use super::view::row_major;
use crate::graph::{Node, Suppression, ValueId};
use crate::network::Weights;
use eyelet::pack::{self, OpKind, ScatterOp, ScatterParams, SuppressParams, Tensor, TopKParams};

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
        self.push(name, Work::Order { largest, integers }, &[x], &[places]);
        self.push(name, Work::Reshape, &[places], &[y]);
        Ok(())
    }
}

impl Emitter<'_> {
    /// A value as one row of all its elements.
    fn row(&mut self, node: &str, value: ValueId) -> Result<Tensor, PassError> {
        let shape = self.program.values[value].shape.clone();
        let line = [1, 1, 1, shape.iter().product()];
        let rect = match self.view(node, value)?.reshape(&line) {
            Some(view) => view.rect(&[0, 1, 2, 3]),
            None => None,
        };
        let rect = match rect {
            Some(rect) => Some(rect),
            None => {
                let copy = self.materialised(node, value, &row_major(shape.len()))?;
                copy.reshape(&line).and_then(|view| view.rect(&[0, 1, 2, 3]))
            }
        };
        tensor(node, rect.ok_or_else(|| too_scattered(node, 0))?)
    }

    /// A new buffer for a value, as one row of all its elements.
    fn new_row(&mut self, node: &str, value: ValueId) -> Result<Tensor, PassError> {
        let shape = self.program.values[value].shape.clone();
        let view = self.allocate(&shape, &row_major(shape.len()));
        self.set_view(value, view);
        self.row(node, value)
    }

    pub fn order(&mut self, item: &Item, largest: bool, integers: bool) -> Result<(), PassError> {
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let (from, to) = (&self.program.values[x].shape, &self.program.values[y].shape);
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
        let (input, output) = (self.row(name, x)?, self.new_row(name, y)?);
        let params = pack::params_words(&params);
        self.layer(item, OpKind::TopK, [Some(input)], output, params, Weights::None)
    }

    pub fn suppress(&mut self, item: &Item, suppression: &Suppression) -> Result<(), PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let &[boxes, scores] = &item.inputs[..] else { return Err(too_scattered(name, 0)) };
        let (of, made) = (&self.program.values[boxes].shape, &self.program.values[y].shape);
        let [images, classes, each, count] =
            [made[0], made[1], of[1], made[2]].map(|extent| field(name, "an extent", extent));
        let params = SuppressParams {
            images: images?,
            classes: classes?,
            boxes: each?,
            count: count?,
            overlap: suppression.overlap,
            score: suppression.score,
            centers: suppression.centers.into(),
        };
        let inputs = [self.row(name, boxes)?, self.row(name, scores)?].map(Some);
        let (output, params) = (self.new_row(name, y)?, pack::params_words(&params));
        self.layer(item, OpKind::Suppress, inputs, output, params, Weights::None)
    }

    pub fn scatter(&mut self, item: &Item, op: ScatterOp) -> Result<(), PassError> {
        let (name, order) = (item.name.as_str(), row_major(2));
        let &[data, indices, updates] = &item.inputs[..] else {
            return Err(too_scattered(name, 0));
        };
        let data = self.operand(name, data, &order)?;
        let others = [indices, updates].map(|value| self.operand(name, value, &order));
        let [indices, updates] = others;
        let output = self.place(name, item.outputs[0], &order)?;
        let params = pack::params_words(&ScatterParams { entries: data.dims[2], op: op as u32 });
        let inputs = [Some(data), Some(indices?), Some(updates?)];
        self.layer(item, OpKind::Scatter, inputs, output, params, Weights::None)
    }
}
