//! Emission of concatenation, padding and splits: what is put together in one buffer, and taken apart.

use super::PassError;
use super::emit::{Emitter, covering, too_scattered};
use super::program::Item;
use super::view::{Run, View, image_order};

impl Emitter<'_> {
    pub fn pad(&mut self, item: &Item, begin: &[usize], value: f32) -> Result<(), PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let from = self.view(name, item.inputs[0])?;
        let order = from.order();
        let mut to = self.destination(y, &order);
        if to.buffer == from.buffer {
            to = self.allocate(&to.shape(), &order);
        }
        let whole = covering(name, &to)?;
        let mut inner = to.clone();
        for (axis, extent) in from.shape().into_iter().enumerate() {
            let slice = inner.slice(axis, begin[axis], 1, extent);
            inner = slice.ok_or_else(|| too_scattered(name, 0))?;
        }
        self.set_view(y, to);
        self.copy(name, &from, &inner, Some((value, whole)))
    }

    /// Operands that are in their place already cost nothing; the others are copied there.
    pub fn concat(&mut self, item: &Item, axis: usize) -> Result<(), PassError> {
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let mut views = Vec::with_capacity(item.inputs.len());
        for &operand in &item.inputs {
            views.push(self.view(name, operand)?);
        }
        let target = match &self.reserved[y] {
            Some(target) => target.clone(),
            None => {
                if let Some(view) = joined(&views, axis) {
                    self.set_view(y, view);
                    return Ok(());
                }
                self.destination(y, &views[0].order())
            }
        };
        let mut start = 0;
        for (view, &operand) in views.iter().zip(&item.inputs) {
            let extent = self.program.values[operand].shape[axis];
            let slice = target.slice(axis, start, 1, extent);
            let slice = slice.ok_or_else(|| too_scattered(name, 0))?;
            start += extent;
            if *view == slice {
                continue;
            }
            if view.buffer == slice.buffer {
                let apart = self.materialised(name, operand, &view.order())?;
                self.copy(name, &apart, &slice, None)?;
            } else {
                self.copy(name, view, &slice, None)?;
            }
        }
        self.set_view(y, target);
        Ok(())
    }

    /// Parts are views. If the channels of an image are so interleaved (shuffled) that each part would have
    /// to be copied, the whole is copied once: then the parts lie side by side, and one that goes on into a
    /// concatenation may be in its place already (`coalesce`).
    pub fn split(&mut self, item: &Item, axis: usize, sizes: &[usize]) -> Result<(), PassError> {
        let (name, x) = (item.name.as_str(), item.inputs[0]);
        let starts = sizes.iter().scan(0, |next, size| Some(std::mem::replace(next, *next + size)));
        let parts: Vec<_> = item.outputs.iter().zip(starts.zip(sizes)).collect();
        let view = self.view(name, x)?;
        let rank = view.axes.len();
        if let Some(order) = image_order(rank).filter(|_| rank > 2 && view.axes[axis].len() > 1) {
            let readable = |start, size| view.slice(axis, start, 1, size)?.rect(&order);
            if parts.iter().all(|(_, (start, size))| readable(*start, **size).is_none()) {
                let whole = self.materialised(name, x, &order)?;
                for (&y, (start, &size)) in parts {
                    let part = whole.slice(axis, start, 1, size);
                    self.set_view(y, part.ok_or_else(|| too_scattered(name, 0))?);
                }
                return Ok(());
            }
        }
        for (&y, (start, &size)) in parts {
            self.alias(name, x, y, |view| view.slice(axis, start, 1, size))?;
        }
        Ok(())
    }
}

/// The view of operands that lie side by side already.
fn joined(views: &[View], axis: usize) -> Option<View> {
    let first = views.first()?;
    let extents: Vec<usize> = views.iter().map(|view| view.shape()[axis]).collect();
    let stride = match first.axes[axis][..] {
        [run] => run.stride,
        [] => views.get(1)?.offset.checked_sub(first.offset)?,
        _ => return None,
    };
    let mut offset = first.offset;
    for (view, extent) in views.iter().zip(&extents) {
        let mut expected = first.clone();
        expected.offset = offset;
        expected.axes[axis] = match extent {
            1 => vec![],
            &extent => vec![Run { extent, stride }],
        };
        if *view != expected || stride == 0 {
            return None;
        }
        offset += extent * stride;
    }
    let mut view = first.clone();
    view.axes[axis] = vec![Run { extent: extents.iter().sum(), stride }];
    view.axes[axis].retain(|run| run.extent > 1);
    Some(view)
}
