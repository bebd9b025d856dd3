//! The operators, and how a GPU launches those that it computes.
//!
//! The launches are a table of their own: programs that open nothing on a GPU are linked without
//! them.

use super::cuda::Launch;
use super::operator::{LaunchScratch, Operator};
use super::{
    binary, conv, copy, cuda, depthwise, fold, gather, grid_sample, integer, layernorm, lookup,
    lrn, matmul, pool, recurrent, reduce, resample, scatter, select, softmax, suppress, take,
    top_k, unary, winograd,
};
use crate::pack::OpKind;

/// An operator, and its launch.
#[derive(Clone, Copy)]
struct Row {
    operator: Operator,
    launch: Option<Launch>,
}

impl Row {
    /// An operator that no GPU computes.
    const fn on_processors(operator: Operator) -> Self {
        Self { operator, launch: None }
    }

    /// An operator that a GPU computes without intermediates.
    const fn on_gpu(operator: Operator, launch: Launch) -> Self {
        Self::with_scratch(operator, launch, |_, _, _, _| 0)
    }

    /// An operator that a GPU computes with intermediates.
    const fn with_scratch(operator: Operator, launch: Launch, scratch: LaunchScratch) -> Self {
        let operator = Operator { on_gpu: Some(scratch), ..operator };
        Self { operator, launch: Some(launch) }
    }
}

/// All of them, in the order of their codes.
const ROWS: [Row; OpKind::ALL.len()] = [
    Row::with_scratch(conv::ROW, cuda::conv::run, cuda::conv::scratch_bytes),
    Row::on_gpu(depthwise::ROW, cuda::depthwise::run),
    Row::on_gpu(pool::ROW, cuda::pool::pool),
    Row::on_gpu(unary::ROW, cuda::elementwise::unary),
    Row::on_gpu(binary::ROW, cuda::elementwise::binary),
    Row::on_gpu(softmax::ROW, cuda::rows::softmax),
    Row::on_gpu(lrn::ROW, cuda::rows::lrn),
    Row::on_gpu(copy::ROW, cuda::copy::run),
    Row::on_gpu(matmul::ROW, cuda::matmul::run),
    Row::on_gpu(reduce::ROW, cuda::pool::reduce),
    Row::with_scratch(winograd::ROW, cuda::winograd::run, cuda::winograd::scratch_bytes),
    Row::on_gpu(layernorm::ROW, cuda::rows::layernorm),
    Row::on_gpu(gather::ROW, cuda::gather::run),
    Row::on_processors(select::ROW),
    Row::on_processors(resample::ROW),
    Row::on_processors(recurrent::ROW),
    Row::on_processors(grid_sample::ROW),
    // `validate` refuses it on a GPU.
    Row::on_gpu(take::ROW, |_, _| Ok(())),
    Row::on_processors(integer::ROW),
    Row::on_processors(fold::ROW),
    Row::on_processors(top_k::ROW),
    Row::on_processors(suppress::ROW),
    Row::on_processors(scatter::ROW),
    Row::on_processors(lookup::ROW),
];

/// The operators, in the order of their codes.
pub(super) static OPERATORS: [Operator; ROWS.len()] = {
    let mut operators = [ROWS[0].operator; ROWS.len()];
    let mut at = 0;
    while at < ROWS.len() {
        operators[at] = ROWS[at].operator;
        let kind = operators[at].kind;
        assert!(kind as usize == at + 1, "a row that is not at its code");
        assert!(kind as usize == OpKind::ALL[at] as usize, "a kind that is not at its code");
        at += 1;
    }
    operators
};

/// Their launches.
pub(super) static LAUNCHES: [Option<Launch>; ROWS.len()] = {
    let mut launches = [None; ROWS.len()];
    let mut at = 0;
    while at < ROWS.len() {
        launches[at] = ROWS[at].launch;
        at += 1;
    }
    launches
};
