//! Operators that compute nothing: their outputs are other views of their inputs.

use super::builder::Item;
use super::emitter::{Emitter, too_scattered};
use super::exact::{self, each_index, offset};
use super::view::image_order;
use super::{Operation, PassError};

/// The same elements in another shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reshape;

impl Operation for Reshape {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (x, y) = (item.inputs[0], item.outputs[0]);
        let shape = emitter.program.values[y].shape.clone();
        emitter.alias(&item.name, x, y, |view| view.reshape(&shape))
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Axes of extent 1, or absent in front, repeated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expand;

impl Operation for Expand {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (x, y) = (item.inputs[0], item.outputs[0]);
        let shape = emitter.program.values[y].shape.clone();
        emitter.alias(&item.name, x, y, |view| Some(view.expand(&shape)))
    }

    fn is_placeable(&self) -> bool {
        false
    }
}

/// Axes in another order.
#[derive(Clone, Debug)]
pub(crate) struct Transpose {
    pub perm: Vec<usize>,
}

impl Operation for Transpose {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (x, y) = (item.inputs[0], item.outputs[0]);
        emitter.alias(&item.name, x, y, |view| Some(view.transpose(&self.perm)))
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        true
    }
}

/// Some elements of each axis: the first, and the distance to the next.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub starts: Vec<usize>,
    pub steps: Vec<usize>,
}

impl Operation for Slice {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let shape = emitter.program.values[y].shape.clone();
        emitter.alias(name, x, y, |view| {
            let mut view = view.clone();
            for (axis, &extent) in shape.iter().enumerate() {
                view = view.slice(axis, self.starts[axis], self.steps[axis], extent)?;
            }
            Some(view)
        })
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        true
    }
}

/// An axis taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    pub axis: usize,
    pub sizes: Vec<usize>,
}

impl Operation for Split {
    /// Parts are views. If the channels of an image are so interleaved (shuffled) that each part would have
    /// to be copied, the whole is copied once: then the parts lie side by side, and one that goes on into a
    /// concatenation may be in its place already (`coalesce`).
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { axis, sizes } = self;
        let axis = *axis;
        let (name, x) = (item.name.as_str(), item.inputs[0]);
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
        let parts: Vec<_> = item.outputs.iter().zip(starts.zip(sizes)).collect();
        let view = emitter.view(name, x)?;
        let rank = view.axes.len();
        if let Some(order) = image_order(rank).filter(|_| rank > 2 && view.axes[axis].len() > 1) {
            let readable = |start, size| view.slice(axis, start, 1, size)?.rect(&order);
            if parts.iter().all(|(_, (start, size))| readable(*start, **size).is_none()) {
                let whole = emitter.materialised(name, x, &order)?;
                for (&y, (start, &size)) in parts {
                    let part = whole.slice(axis, start, 1, size);
                    emitter.set_view(y, part.ok_or_else(|| too_scattered(name, 0))?);
                }
                return Ok(());
            }
        }
        for (&y, (start, &size)) in parts {
            emitter.alias(name, x, y, |view| view.slice(axis, start, 1, size))?;
        }
        Ok(())
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        true
    }
}

/// An output whose element at an index is the input's at a function of it.
fn moved(
    x: exact::Tensor<'_>,
    out: &[usize],
    source: impl Fn(&[usize], usize) -> usize,
) -> Vec<f64> {
    let mut result = Vec::with_capacity(out.iter().product());
    each_index(out, |index| {
        let place = (0..x.shape.len()).map(|axis| source(index, axis));
        result.push(x.data[offset(x.shape, place)]);
    });
    result
}

/// The elements with axes in another order.
pub(crate) fn transpose(x: exact::Tensor<'_>, perm: &[usize], out: &[usize]) -> Vec<f64> {
    let mut inverse = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    moved(x, out, |index, axis| index[inverse[axis]])
}

/// The elements repeated along axes.
pub(crate) fn expand(x: exact::Tensor<'_>, out: &[usize]) -> Vec<f64> {
    let lost = out.len() - x.shape.len();
    moved(x, out, |index, axis| if x.shape[axis] == 1 { 0 } else { index[lost + axis] })
}

/// Some of the elements.
pub(crate) fn slice(
    x: exact::Tensor<'_>,
    starts: &[usize],
    steps: &[usize],
    out: &[usize],
) -> Vec<f64> {
    moved(x, out, |index, axis| starts[axis] + index[axis] * steps[axis])
}

/// The elements of each part.
pub(crate) fn split(x: exact::Tensor<'_>, axis: usize, sizes: &[usize]) -> Vec<Vec<f64>> {
    let mut first = 0;
    let parts = sizes.iter().map(|&size| {
        let mut shape = x.shape.to_vec();
        shape[axis] = size;
        let shift = first;
        first += size;
        moved(x, &shape, |index, at| index[at] + if at == axis { shift } else { 0 })
    });
    parts.collect()
}
