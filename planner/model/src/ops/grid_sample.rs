//! Elements of an image at places that another tensor has.

use super::builder::Item;
use super::emitter::{Emitter, fields};
use super::view::row_major;
use super::{Operation, Operator, PassError};
use crate::graph::Sampling;
use crate::network::Weights;
use eyelet::pack::{self, GridSampleParams, OpKind};

/// Pixels from all over the image.
pub(super) const ROW: Operator = Operator::new(OpKind::GridSample);

impl Operation for Sampling {
    /// Elements at places that another value has.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let of = self;
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        emitter.refuse_gpu(name, "samples of an image")?;
        let [shape, made] = [x, y].map(|value| emitter.program.values[value].shape.clone());
        let rank = shape.len();
        // Channels last; the slices of a volume are lines of an image.
        let order: Vec<usize> = [0].into_iter().chain(2..rank).chain([1]).collect();
        let lines = |shape: &[usize]| {
            let inner = shape.get(2..rank - 1).unwrap_or_default().iter().product();
            [shape[0], inner, shape[rank - 1], shape[1]]
        };
        let input = emitter.operand(name, x, &order)?;
        let input = pack::Tensor { dims: fields(name, lines(&shape))?, ..input };
        let [images, height, width, _] = lines(&made);
        let places = emitter.operand(name, item.inputs[1], &row_major(rank))?;
        let places =
            pack::Tensor { dims: fields(name, [images, height, width, rank - 2])?, ..places };
        let output = emitter.place(name, y, &order)?;
        let output = pack::Tensor { dims: fields(name, lines(&made))?, ..output };
        let params = GridSampleParams {
            mode: of.mode as u32,
            padding: of.padding as u32,
            align_corners: of.align_corners.into(),
            depth: if rank == 5 { input.dims[1] / shape[3].max(1) as u32 } else { 1 },
        };
        let words = pack::params_words(&params);
        let inputs = [Some(input), Some(places)];
        emitter.layer(item, OpKind::GridSample, inputs, output, words, Weights::None)
    }

    fn is_placeable(&self) -> bool {
        false
    }
}
