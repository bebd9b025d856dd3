//! Boxes of which none overlap.

use super::builder::Item;
use super::emitter::{Emitter, field, too_scattered};
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
