//! Where values lie: the places of those that are about to be made, and the copies that bring others
//! into another memory order.

use super::PassError;
use super::builder::Item;
use super::emitter::{Emitter, pitch, tensor, too_scattered};
use super::view::{View, image_order, row_major};
use crate::graph::ValueId;
use eyelet::pack::Tensor;

impl Emitter<'_> {
    /// A new buffer that holds a value of this shape, in this order.
    pub fn allocate(&mut self, shape: &[usize], order: &[usize]) -> View {
        self.out.buffers.push(shape.iter().product());
        View::contiguous(self.out.buffers.len() - 1, shape, order)
    }

    /// Where a value lies.
    pub fn view(&self, node: &str, value: ValueId) -> Result<View, PassError> {
        self.views[value].clone().ok_or_else(|| PassError::Unsupported {
            node: node.into(),
            what: format!("{} is read before it is made", self.program.values[value].name),
            hint: "this is a fault of eyelet, not of the model: please report it",
        })
    }

    pub fn set_view(&mut self, value: ValueId, view: View) {
        self.views[value] = Some(view);
    }

    /// A value as a rectangle in this order, copied if it has to be.
    pub fn operand(
        &mut self,
        node: &str,
        value: ValueId,
        order: &[usize],
    ) -> Result<Tensor, PassError> {
        let rect = match self.view(node, value)?.rect(order) {
            Some(rect) => Some(rect),
            None => self.materialised(node, value, order)?.rect(order),
        };
        // a contiguous copy is a rectangle in its own order
        tensor(node, rect.ok_or_else(|| too_scattered(node, 0))?)
    }

    /// A contiguous copy of a value in this order, in a buffer of its own.
    pub fn materialised(
        &mut self,
        node: &str,
        value: ValueId,
        order: &[usize],
    ) -> Result<View, PassError> {
        let key = (value, order.to_vec());
        if let Some(copy) = self.copies.get(&key) {
            return Ok(copy.clone());
        }
        let view = self.view(node, value)?;
        let target = self.allocate(&view.shape(), order);
        self.copy(node, &view, &target, None)?;
        self.copies.insert(key, target.clone());
        Ok(target)
    }

    /// The place of a value that is about to be made, in this order: its home if that fits.
    pub fn destination(&mut self, value: ValueId, order: &[usize]) -> View {
        let shape = self.program.values[value].shape.clone();
        if let Some(home) = self.homes[value] {
            let parent = match &self.reserved[home.parent] {
                Some(parent) => parent.clone(),
                None => {
                    let parent = self.destination(home.parent, order);
                    self.reserved[home.parent] = Some(parent.clone());
                    parent
                }
            };
            let slice = parent.slice(home.axis, home.start, 1, shape[home.axis]);
            if let Some(slice) = slice.filter(|slice| slice.rect(order).is_some()) {
                return slice;
            }
        }
        if !self.gaps[value] || *order != row_major(shape.len()) {
            return self.allocate(&shape, order);
        }
        let mut whole = shape.clone();
        let Some(cols) = whole.last_mut() else { return self.allocate(&shape, order) };
        let count = std::mem::replace(cols, pitch(*cols));
        let whole = self.allocate(&whole, order);
        let rows = whole.slice(order.len() - 1, 0, 1, count);
        rows.unwrap_or_else(|| self.allocate(&shape, order))
    }

    /// Places a value that is about to be made, as a rectangle in this order.
    pub fn place(
        &mut self,
        node: &str,
        value: ValueId,
        order: &[usize],
    ) -> Result<Tensor, PassError> {
        let view = self.destination(value, order);
        let rect = view.rect(order).ok_or_else(|| too_scattered(node, 0))?;
        self.views[value] = Some(view);
        tensor(node, rect)
    }

    /// A value that is another view of `x`; of a row-major copy of it if there is none.
    pub fn alias(
        &mut self,
        node: &str,
        x: ValueId,
        y: ValueId,
        change: impl Fn(&View) -> Option<View>,
    ) -> Result<(), PassError> {
        let view = self.view(node, x)?;
        let changed = match change(&view) {
            Some(view) => Some(view),
            None => change(&self.materialised(node, x, &row_major(view.axes.len()))?),
        };
        self.views[y] = Some(changed.ok_or_else(|| too_scattered(node, 0))?);
        Ok(())
    }

    /// A value as one row of all its elements.
    pub fn row(&mut self, node: &str, value: ValueId) -> Result<Tensor, PassError> {
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
    pub fn new_row(&mut self, node: &str, value: ValueId) -> Result<Tensor, PassError> {
        let shape = self.program.values[value].shape.clone();
        let view = self.allocate(&shape, &row_major(shape.len()));
        self.set_view(value, view);
        self.row(node, value)
    }

    /// The memory order of an item's images.
    pub fn image(&self, item: &Item) -> Result<Vec<usize>, PassError> {
        let rank = self.program.values[item.inputs[0]].shape.len();
        image_order(rank).ok_or_else(|| PassError::Unsupported {
            node: item.name.clone(),
            what: format!("its input has {rank} dimensions"),
            hint: "use two- or one-dimensional windows over [N, C, H, W] or [N, C, L]",
        })
    }
}
