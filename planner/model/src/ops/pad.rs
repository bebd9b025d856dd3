//! Constant padding: of its own, or joined to the windows after it.

use super::builder::{Builder, Item};
use super::emitter::{Emitter, covering, too_scattered};
use super::exact::{self, each_index, offset};
use super::{Operation, PassError, Work};
use crate::graph::ValueId;

/// Numbers before and after the elements of each axis.
#[derive(Clone, Debug)]
pub(crate) struct Pad {
    pub begin: Vec<usize>,
    pub end: Vec<usize>,
    pub value: f32,
}

impl Operation for Pad {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { begin, value, .. } = self;
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let from = emitter.view(name, item.inputs[0])?;
        let order = from.order();
        let mut to = emitter.destination(y, &order);
        if to.buffer == from.buffer {
            to = emitter.allocate(&to.shape(), &order);
        }
        let whole = covering(name, &to)?;
        let mut inner = to.clone();
        for (axis, extent) in from.shape().into_iter().enumerate() {
            let slice = inner.slice(axis, begin[axis], 1, extent);
            inner = slice.ok_or_else(|| too_scattered(name, 0))?;
        }
        emitter.set_view(y, to);
        emitter.copy(name, &from, &inner, Some((*value, whole)))
    }
}

impl Builder {
    pub fn pad(
        &mut self,
        name: &str,
        x: ValueId,
        y: ValueId,
        begin: &[usize],
        end: &[usize],
        value: f32,
    ) {
        let work = match begin.iter().chain(end).all(|&extent| extent == 0) {
            true => Work::Reshape,
            false => Work::Pad(Pad { begin: begin.to_vec(), end: end.to_vec(), value }),
        };
        self.push(name, work, &[x], &[y]);
    }

    /// If `x` is made by padding the height and width of an image with an acceptable value, for the
    /// node at hand alone: removes the padding and returns its input and extents.
    pub fn image_padding(
        &mut self,
        x: ValueId,
        accept: impl Fn(f32) -> bool,
    ) -> Option<(ValueId, [usize; 2], [usize; 2])> {
        let item = self.sole_maker(x)?;
        let Work::Pad(Pad { begin, end, value }) = &item.work else { return None };
        let inner = begin.len() == 4 && [&begin[..2], &end[..2]].concat() == [0; 4];
        if !inner || !accept(*value) {
            return None;
        }
        let found = (item.inputs[0], [begin[2], begin[3]], [end[2], end[3]]);
        self.remove(x);
        self.read(found.0);
        Some(found)
    }
}

/// An input with numbers around it.
pub(crate) fn pad(x: exact::Tensor<'_>, begin: &[usize], value: f64, out: &[usize]) -> Vec<f64> {
    let mut result = vec![value; out.iter().product()];
    let mut data = x.data.iter();
    each_index(x.shape, |index| {
        let place = index.iter().zip(begin).map(|(at, begin)| at + begin);
        result[offset(out, place)] = *data.next().expect("as many elements as indices");
    });
    result
}
