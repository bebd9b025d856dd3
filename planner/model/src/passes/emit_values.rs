//! Emission of values: where each lies, and the copies that bring it into another memory order.

use super::PassError;
use super::emit::{Draft, Emitter, covering, field, slots, tensor, too_scattered};
use super::gaps::pitch;
use super::view::{CopyDim, Run, View, between, row_major};
use crate::graph::{Value, ValueId};
use crate::network::Weights;
use eyelet::pack::{self, Activation, CopyParams, OpKind, Tensor};

/// Dimensions of a copy that a record has.
const MOST_DIMS: usize = 6;

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

    /// A strided copy between different buffers; if `fill` is given, that tensor is filled first.
    pub fn copy(
        &mut self,
        node: &str,
        from: &View,
        to: &View,
        fill: Option<(f32, Tensor)>,
    ) -> Result<(), PassError> {
        let dims = from.copy_dims(to).ok_or_else(|| too_scattered(node, 0))?;
        if dims.len() > MOST_DIMS {
            return self.copy_by_way_of(node, (from, to), &dims, fill);
        }
        let mut params = CopyParams {
            dims: [1; 6],
            src_start: field(node, "an offset in floats", from.offset)?,
            dst_start: field(node, "an offset in floats", to.offset)?,
            filled: fill.is_some() as u32,
            fill: fill.map_or(0.0, |(value, _)| value),
            ..CopyParams::default()
        };
        for (i, dim) in (6 - dims.len()..).zip(&dims) {
            params.dims[i] = field(node, "an extent", dim.extent)?;
            params.src[i] = field(node, "a stride in floats", dim.src)?;
            params.dst[i] = field(node, "a stride in floats", dim.dst)?;
        }
        let output = match fill {
            Some((_, whole)) => whole,
            None => covering(node, to)?,
        };
        let from = covering(node, from)?;
        self.push_copy(format!("{node}.copy"), Some(from), output, &params);
        Ok(())
    }

    /// A value that is one number everywhere.
    pub fn fill(&mut self, node: &str, value: ValueId, fill: f32) -> Result<(), PassError> {
        let Value { shape, kind, .. } = &self.program.values[value];
        let (order, element) = (row_major(shape.len()), kind.element());
        let output = self.place(node, value, &order)?;
        // No input says what the elements are.
        self.out.chosen.insert(output.buffer, element);
        let dst_start = output.offset;
        let params =
            CopyParams { dims: [1; 6], dst_start, filled: 1, fill, ..CopyParams::default() };
        self.push_copy(node.into(), None, output, &params);
        Ok(())
    }

    fn push_copy(
        &mut self,
        name: String,
        from: Option<Tensor>,
        output: Tensor,
        params: &CopyParams,
    ) {
        self.out.layers.push(Draft {
            name,
            kind: OpKind::Copy,
            inputs: slots([from]),
            output,
            activation: Activation::NONE,
            params: pack::params_words(params),
            weights: Weights::None,
            panels: 0,
            panel_bytes: 0,
            encoding: Default::default(),
            width: 0,
        });
    }

    /// A copy of more dimensions than a record has, as two by way of a buffer.
    fn copy_by_way_of(
        &mut self,
        node: &str,
        (from, to): (&View, &View),
        dims: &[CopyDim],
        fill: Option<(f32, Tensor)>,
    ) -> Result<(), PassError> {
        let order = between(dims, MOST_DIMS).ok_or_else(|| too_scattered(node, dims.len()))?;
        let axes = |stride: fn(&CopyDim) -> usize| {
            let run = |dim: &CopyDim| vec![Run { extent: dim.extent, stride: stride(dim) }];
            dims.iter().map(run).collect::<Vec<_>>()
        };
        let from = View { axes: axes(|dim| dim.src), ..*from };
        let to = View { axes: axes(|dim| dim.dst), ..*to };
        let middle = self.allocate(&from.shape(), &order);
        self.copy(node, &from, &middle, None)?;
        self.copy(node, &middle, &to, fill)
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
}
