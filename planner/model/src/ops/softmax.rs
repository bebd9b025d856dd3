//! Softmax over one axis.

use super::builder::{Builder, Item};
use super::emitter::Emitter;
use super::exact;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::ValueId;
use eyelet::pack::OpKind;

/// Row by row.
pub(super) const ROW: Operator =
    Operator { lines: |_, _, _| Some(Lines::Own), ..Operator::new(OpKind::Softmax) };

/// Over one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax {
    pub axis: usize,
}

impl Operation for Softmax {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let mut order = emitter.view(&item.name, item.inputs[0])?.order();
        order.retain(|other| *other != self.axis);
        order.push(self.axis);
        emitter.simple(item, OpKind::Softmax, &order, [0; 24])
    }
}

impl Builder {
    pub fn softmax(&mut self, name: &str, x: ValueId, y: ValueId, axis: usize, flat: bool) {
        let shape = self.shape(x).to_vec();
        let inner: usize = shape[axis..].iter().product();
        if !flat || inner == shape[axis] {
            return self.push(name, Work::Softmax(Softmax { axis }), &[x], &[y]);
        }
        let folded = [shape[..axis].iter().product(), inner];
        let (rows, result) = (self.temporary(name, &folded), self.temporary(name, &folded));
        self.push(name, Work::Reshape, &[x], &[rows]);
        self.push(name, Work::Softmax(Softmax { axis: 1 }), &[rows], &[result]);
        self.push(name, Work::Reshape, &[result], &[y]);
    }
}

/// Softmax over one axis, or over all axes from it on.
pub(crate) fn softmax(x: exact::Tensor<'_>, axis: usize, flat: bool) -> Vec<f64> {
    let outer: usize = x.shape[..axis].iter().product();
    let (length, inner) = match flat {
        true => (x.shape[axis..].iter().product(), 1),
        false => (x.shape[axis], x.shape[axis + 1..].iter().product::<usize>()),
    };
    let mut result = vec![0.0; x.data.len()];
    for block in 0..outer {
        for lane in 0..inner {
            let at = |k: usize| (block * length + k) * inner + lane;
            let maximum = (0..length).map(|k| x.data[at(k)]).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..length).map(|k| (x.data[at(k)] - maximum).exp()).sum();
            (0..length).for_each(|k| result[at(k)] = (x.data[at(k)] - maximum).exp() / sum);
        }
    }
    result
}
