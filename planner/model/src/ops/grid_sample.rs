//! Elements of an image at places that another tensor has.

use super::builder::Item;
use super::emitter::{Emitter, fields};
use super::exact::{self, each_index, offset};
use super::view::row_major;
use super::{Operation, Operator, PassError};
use crate::graph::{SampleMode, SamplePadding, Sampling};
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

/// The ends of an axis: the centres of its last elements, or their borders.
fn ends(of: &Sampling, extent: f64) -> [f64; 2] {
    if of.align_corners { [0.0, extent - 1.0] } else { [-0.5, extent - 0.5] }
}

/// A place reflected at the ends of an axis until it is inside.
fn reflected(of: &Sampling, at: f64, extent: f64) -> f64 {
    let [least, most] = ends(of, extent);
    let range = most - least;
    if range <= 0.0 {
        return least;
    }
    let folded = (at - least).rem_euclid(2.0 * range);
    least + folded.min(2.0 * range - folded)
}

/// The places along an axis that one is made from, and their weights.
fn taps(of: &Sampling, place: f64, extent: f64) -> Vec<(f64, f64)> {
    let at = match of.align_corners {
        true => (place + 1.0) / 2.0 * (extent - 1.0),
        false => ((place + 1.0) * extent - 1.0) / 2.0,
    };
    let at = if of.mode == SampleMode::Nearest { at.round_ties_even() } else { at };
    let [least, most] = ends(of, extent);
    let at = match of.padding {
        SamplePadding::Border if at < least || at > most => at.clamp(0.0, extent - 1.0),
        SamplePadding::Zeros | SamplePadding::Border => at,
        SamplePadding::Reflection => reflected(of, at, extent),
    };
    let (first, last) = match of.mode {
        SampleMode::Nearest => (0, 0),
        SampleMode::Linear => (0, 1),
        SampleMode::Cubic => (-1, 2),
    };
    let weight = |x: f64| match of.mode {
        SampleMode::Nearest => 1.0,
        SampleMode::Linear => 1.0 - x,
        SampleMode::Cubic if x <= 1.0 => (1.25 * x - 2.25) * x * x + 1.0,
        SampleMode::Cubic => ((-0.75 * x + 3.75) * x - 6.0) * x + 3.0,
    };
    (first..=last)
        .map(|tap| at.floor() + f64::from(tap))
        .filter_map(|to| {
            let pixel = match of.padding {
                SamplePadding::Zeros => Some(to).filter(|to| *to >= 0.0 && *to < extent),
                SamplePadding::Border => Some(to.clamp(0.0, extent - 1.0)),
                SamplePadding::Reflection => {
                    Some(reflected(of, to, extent).trunc().clamp(0.0, extent - 1.0))
                }
            };
            Some((pixel?, weight((to - at).abs())))
        })
        .collect()
}

/// The elements in double precision.
pub(crate) fn grid_sample(
    of: &Sampling,
    x: exact::Tensor<'_>,
    grid: exact::Tensor<'_>,
    out: &[usize],
) -> Vec<f64> {
    let axes = x.shape.len() - 2;
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let row = offset(&grid.shape[..=axes], [&index[..1], &index[2..]].concat());
        let mut places = vec![(offset(&x.shape[..2], index[..2].to_vec()), 1.0)];
        for axis in 0..axes {
            let extent = x.shape[2 + axis];
            let taps = taps(of, grid.data[row * axes + axes - 1 - axis], extent as f64);
            let of_place = |&(at, weight): &(usize, f64)| {
                let to =
                    move |&(pixel, own): &(f64, f64)| (at * extent + pixel as usize, weight * own);
                taps.iter().map(to).collect::<Vec<_>>()
            };
            places = places.iter().flat_map(of_place).collect();
        }
        result.push(places.iter().map(|&(at, weight)| weight * x.data[at]).sum());
    });
    result
}
