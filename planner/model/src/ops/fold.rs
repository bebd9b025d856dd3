//! Reductions of words over axes, and the places of extremes.

use super::builder::Item;
use super::emitter::Emitter;
use super::exact::{self, each_index, offset};
use super::reduce::Reduction;
use super::{INTEGERS, Operation, Operator, PassError};
use eyelet::pack::{self, FoldOp, FoldParams, OpKind};

/// Of all rows.
pub(super) const ROW: Operator = Operator::new(OpKind::Fold);

/// A reduction of words.
#[derive(Clone, Debug)]
pub(crate) struct Fold {
    pub op: FoldOp,
    pub axes: Vec<usize>,
    pub keep: bool,
    pub last: bool,
}

impl Operation for Fold {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let (op, last) = (self.op as u32, self.last.into());
        let record = |[outer, reduce, inner]: [u32; 3]| {
            let params = FoldParams { outer, reduce, inner, op, last };
            (OpKind::Fold, pack::params_words(&params))
        };
        emitter.reduction(item, Reduction::Words(&record), &self.axes, self.keep)
    }

    fn is_placeable(&self) -> bool {
        false
    }

    fn beyond_gpus(&self) -> Option<String> {
        Some(INTEGERS.into())
    }
}

/// A reduction in double precision.
pub(crate) fn fold(op: FoldOp, last: bool, x: exact::Tensor<'_>, axes: &[usize]) -> Vec<f64> {
    let kept: Vec<usize> = (0..x.shape.len())
        .map(|axis| if axes.contains(&axis) { 1 } else { x.shape[axis] })
        .collect();
    let mut parts: Vec<Vec<f64>> = vec![vec![]; kept.iter().product()];
    let mut data = x.data.iter();
    each_index(x.shape, |index| {
        let place = index.iter().zip(&kept).map(|(&at, &e)| if e == 1 { 0 } else { at });
        parts[offset(&kept, place)].extend(data.next());
    });
    let result = parts.iter().map(|part| {
        let sum = |start: i32, join: fn(i32, i32) -> i32| {
            f64::from(part.iter().fold(start, |total, &x| join(total, x as i32)))
        };
        let (least, most) = (
            part.iter().copied().fold(f64::INFINITY, f64::min),
            part.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        );
        let place = |wanted: f64| {
            let mut at = (0..part.len()).filter(|&at| part[at] == wanted);
            let found = if last { at.next_back() } else { at.next() };
            found.unwrap_or(0) as f64
        };
        match op {
            FoldOp::Sum => sum(0, i32::wrapping_add),
            FoldOp::Product => sum(1, i32::wrapping_mul),
            FoldOp::Min => least,
            FoldOp::Max => most,
            FoldOp::ArgMin | FoldOp::ArgMinWord => place(least),
            FoldOp::ArgMax | FoldOp::ArgMaxWord => place(most),
        }
    });
    result.collect()
}
