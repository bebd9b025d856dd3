//! Concatenation: parts are written straight into their place where they can be.

use super::builder::{Builder, Item, unsupported};
use super::emitter::{Emitter, too_scattered};
use super::exact;
use super::integer::Words;
use super::view::{Run, View};
use super::{Operation, PassError, Work};
use crate::graph::{Constant, Node, ValueId};
use eyelet::pack::{BinaryOp, IntegerOp};
use std::sync::Arc;

/// Values side by side along an axis.
#[derive(Clone, Debug)]
pub(crate) struct Concat {
    pub axis: usize,
}

impl Operation for Concat {
    /// Operands that are in their place already cost nothing; the others are copied there.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let &Self { axis } = self;
        let (name, y) = (item.name.as_str(), item.outputs[0]);
        let mut views = Vec::with_capacity(item.inputs.len());
        for &operand in &item.inputs {
            views.push(emitter.view(name, operand)?);
        }
        let target = match &emitter.reserved[y] {
            Some(target) => target.clone(),
            None => {
                if let Some(view) = joined(&views, axis) {
                    emitter.set_view(y, view);
                    return Ok(());
                }
                emitter.destination(y, &views[0].order())
            }
        };
        let mut start = 0;
        for (view, &operand) in views.iter().zip(&item.inputs) {
            let extent = emitter.program.values[operand].shape[axis];
            let slice = target.slice(axis, start, 1, extent);
            let slice = slice.ok_or_else(|| too_scattered(name, 0))?;
            start += extent;
            if *view == slice {
                continue;
            }
            if view.buffer == slice.buffer {
                let apart = emitter.materialised(name, operand, &view.order())?;
                emitter.copy(name, &apart, &slice, None)?;
            } else {
                emitter.copy(name, view, &slice, None)?;
            }
        }
        emitter.set_view(y, target);
        Ok(())
    }

    fn moves(&self) -> bool {
        true
    }
}

impl Builder {
    /// Concatenation. Constant parts (a class token) become zero padding of a neighbour, and are then
    /// added.
    pub fn concat(&mut self, node: &Node, axis: usize) -> Result<(), PassError> {
        let y = node.outputs[0];
        let shape = self.shape(y).to_vec();
        let parts: Vec<ValueId> = node.inputs.iter().copied().flatten().collect();
        let mut flowing: Vec<(ValueId, usize, usize)> = Vec::new();
        let mut pending = 0;
        let mut constants = Vec::new();
        let mut start = 0;
        for &part in &parts {
            let extent = self.shape(part)[axis];
            match (self.constant(part).is_some(), flowing.last_mut()) {
                (true, last) => {
                    constants.push((part, start));
                    match last {
                        Some((_, _, end)) => *end += extent,
                        None => pending += extent,
                    }
                }
                (false, _) => flowing.push((part, std::mem::take(&mut pending), 0)),
            }
            start += extent;
        }
        if flowing.is_empty() {
            return Err(unsupported(
                node,
                "all its inputs are constant",
                "fold constants before export",
            ));
        }
        let joined = if constants.is_empty() { y } else { self.temporary(&node.name, &shape) };
        let count = flowing.len();
        let mut operands = Vec::new();
        for (part, before, after) in flowing {
            if before + after == 0 {
                operands.push(part);
                continue;
            }
            let (mut begin, mut end) = (vec![0; shape.len()], vec![0; shape.len()]);
            (begin[axis], end[axis]) = (before, after);
            let mut padded = self.shape(part).to_vec();
            padded[axis] += before + after;
            let target = if count == 1 { joined } else { self.temporary(&node.name, &padded) };
            self.pad(&node.name, part, target, &begin, &end, 0.0);
            operands.push(target);
        }
        if operands != [joined] {
            self.push(&node.name, Work::Concat(Concat { axis }), &operands, &[joined]);
        }
        if !constants.is_empty() {
            if self.values[y].kind.is_integer() {
                return self.add_words(&node.name, joined, constants, axis, y);
            }
            let mut data = vec![0.0; shape.iter().product()];
            let inner: usize = shape[axis + 1..].iter().product();
            for (part, start) in constants {
                let Some(constant) = self.constant(part) else { continue };
                let run = self.shape(part)[axis] * inner;
                for i in 0..constant.len() {
                    data[i / run * shape[axis] * inner + start * inner + i % run] = constant.get(i);
                }
            }
            let constant = self.new_constant(&node.name, &shape, data);
            self.binary(&node.name, BinaryOp::Add, joined, constant, y);
        }
        Ok(())
    }

    /// Adds constant words to zeros of a concatenation, which begin there along its axis.
    fn add_words(
        &mut self,
        name: &str,
        joined: ValueId,
        constants: Vec<(ValueId, usize)>,
        axis: usize,
        y: ValueId,
    ) -> Result<(), PassError> {
        let shape = self.shape(y).to_vec();
        let mut data = vec![0; shape.iter().product()];
        let inner: usize = shape[axis + 1..].iter().product();
        for (part, start) in constants {
            let Some(constant) = self.constant(part) else { continue };
            let run = self.shape(part)[axis] * inner;
            for i in 0..constant.len() {
                let at = i / run * shape[axis] * inner + start * inner + i % run;
                data[at] = constant.bits(i) as i32;
            }
        }
        let constant = self.temporary(name, &shape);
        self.values[constant].constant = Some(Constant::Words(Arc::new(data)));
        self.push(name, Work::Words(Words { op: IntegerOp::Add }), &[joined, constant], &[y]);
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

/// The parts in double precision, one block after the other.
pub(crate) fn concat(parts: &[exact::Tensor<'_>], axis: usize) -> Vec<f64> {
    let outer: usize = parts[0].shape[..axis].iter().product();
    let mut result = vec![];
    for block in 0..outer {
        for part in parts {
            let run: usize = part.shape[axis..].iter().product();
            result.extend_from_slice(&part.data[block * run..(block + 1) * run]);
        }
    }
    result
}
