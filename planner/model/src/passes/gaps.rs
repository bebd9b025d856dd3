//! Which values have gaps between their rows.
//!
//! Scores of attention have a row for each query, as long as there are keys: rarely whole lines of a cache. Kernels would
//! write most of their vectors across two lines, and read the head of a row while the tail of the one before is still
//! being written. So rows of products, and of what is made of them row by row, begin at lines, where that costs
//! little memory and every reader goes by rows, too.

use crate::ops::Work;
use crate::ops::builder::{Item, Program};
use crate::ops::softmax::Softmax;

/// For each value whether its rows, along the last axis, have gaps where [`pitch`](crate::ops::emitter::pitch) leaves some.
pub(super) fn gaps(program: &Program) -> Vec<bool> {
    let mut found = vec![false; program.values.len()];
    let mut refused = found.clone();
    program.outputs.iter().for_each(|&value| refused[value] = true);
    for item in &program.items {
        let by_rows = matches!(item.work, Work::MatMul(_)) || keeps_rows(program, item);
        let others = item.inputs.iter().filter(|_| !by_rows);
        others.chain(&item.residual).for_each(|&value| refused[value] = true);
    }
    for item in &program.items {
        let from = item.inputs.iter().any(|&value| found[value]) && keeps_rows(program, item);
        if from || matches!(item.work, Work::MatMul(_)) {
            item.outputs.iter().for_each(|&value| found[value] = !refused[value]);
        }
    }
    found
}

/// Whether an item makes rows along the last axis, each of one row of its inputs.
fn keeps_rows(program: &Program, item: &Item) -> bool {
    match item.work {
        Work::Unary | Work::Binary(_) => true,
        Work::Softmax(Softmax { axis }) => axis + 1 == program.values[item.inputs[0]].shape.len(),
        _ => false,
    }
}
