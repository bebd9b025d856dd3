//! Reductions of floats over axes.

use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::compose::Steps;
use super::{Reduction, reduced};
use crate::graph::Op;
use eyelet::pack::ReduceOp;

/// What comes before a reduction, and after it.
struct Way {
    before: Option<Op>,
    op: ReduceOp,
    after: Option<Op>,
}

/// The reductions that are a function, one reduction and another function.
fn way(operator: &str) -> Option<Way> {
    let way = |op| Way { before: None, op, after: None };
    Some(match operator {
        "ReduceMean" => way(ReduceOp::Mean),
        "ReduceSum" => way(ReduceOp::Sum),
        "ReduceMax" => way(ReduceOp::Max),
        "ReduceMin" => way(ReduceOp::Min),
        "ReduceProd" => way(ReduceOp::Product),
        "ReduceSumSquare" => way(ReduceOp::SquareSum),
        "ReduceL1" => Way { before: Some(Op::Abs), ..way(ReduceOp::Sum) },
        "ReduceL2" => Way { after: Some(Op::Sqrt), ..way(ReduceOp::SquareSum) },
        "ReduceLogSum" => Way { after: Some(Op::Log), ..way(ReduceOp::Sum) },
        _ => return None,
    })
}

pub(super) fn reduce(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "data")?;
    let shape = cx.shape(x);
    let operator = cx.proto.op_type.as_str();
    let from_input = cx.opset >= 18 || (operator == "ReduceSum" && cx.opset >= 13);
    let found = reduced(cx, from_input, &shape)?;
    let keep = cx.attributes().flag("keepdims", true)?;
    // Over no axes each element is reduced by itself.
    let Reduction { axes, shape: left } =
        found.unwrap_or(Reduction { axes: vec![], shape: shape.clone() });
    let Some(Way { before, op, after }) = way(operator) else {
        return log_sum_exp(cx, &axes, &left);
    };
    let plain = before.is_none() && after.is_none();
    if plain && axes.is_empty() && !op.squares() {
        return Ok(vec![cx.input(0, "data")?]);
    }
    let reduction = Op::Reduce { op, axes, keep };
    if plain {
        return cx.emit(reduction, vec![Some(x)], left);
    }
    let mut steps = Steps::new(cx);
    let x = before.map_or(Ok(x), |before| steps.map(before, x))?;
    let y = steps.node(reduction, &[x], left)?;
    let y = after.map_or(Ok(y), |after| steps.map(after, y))?;
    steps.done(y)
}

/// ln Σ eˣ, by the largest element, so that no power overflows.
fn log_sum_exp(
    cx: &mut Context<'_, '_>,
    axes: &[usize],
    left: &[usize],
) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "data")?;
    let mut steps = Steps::new(cx);
    // An infinite sum has an infinite logarithm: zero takes the place of a difference of infinities.
    let largest = steps.reduce(ReduceOp::Max, x, axes)?;
    let largest = steps.map(Op::Clip { min: f32::MIN, max: f32::MAX }, largest)?;
    let sum = log_of_sum(&mut steps, [x, largest], axes)?;
    let y = steps.pair(Op::Add, largest, sum)?;
    let y = steps.reshape(y, left)?;
    steps.done(y)
}

/// ln Σ e^(x - x₀), by the largest element x₀; axes stay with extent 1.
pub(super) fn log_of_sum(
    steps: &mut Steps<'_, '_, '_>,
    [x, largest]: [usize; 2],
    axes: &[usize],
) -> Result<usize, NodeProblem> {
    let difference = steps.pair(Op::Sub, x, largest)?;
    let power = steps.map(Op::Exp, difference)?;
    let sum = steps.reduce(ReduceOp::Sum, power, axes)?;
    steps.map(Op::Log, sum)
}

/// `x` over its norm along an axis; zeros stay zeros.
pub(super) fn lp_normalization(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let given = cx.attributes().int_or("axis", -1)?;
    let axis = axis(given, cx.shape(x).len())?;
    let p = cx.attributes().int_or("p", 2)?;
    let mut steps = Steps::new(cx);
    let norm = match p {
        1 => {
            let magnitudes = steps.map(Op::Abs, x)?;
            steps.reduce(ReduceOp::Sum, magnitudes, &[axis])?
        }
        2 => {
            let squares = steps.reduce(ReduceOp::SquareSum, x, &[axis])?;
            steps.map(Op::Sqrt, squares)?
        }
        _ => return Err(NodeProblem::attribute("p", format!("is {p}, expected 1 or 2"))),
    };
    // Below the smallest number that is not zero there is only zero.
    let bounded = Op::Clip { min: f32::from_bits(1), max: f32::INFINITY };
    let norm = steps.map(bounded, norm)?;
    let y = steps.pair(Op::Div, x, norm)?;
    steps.done(y)
}

/// The p-norm over all of an image.
pub(super) fn global_lp_pool(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let axes: Vec<usize> = (2..cx.shape(x).len()).collect();
    let p = cx.attributes().int_or("p", 2)?;
    let mut steps = Steps::new(cx);
    let y = match p {
        2 => {
            let squares = steps.reduce(ReduceOp::SquareSum, x, &axes)?;
            steps.map(Op::Sqrt, squares)?
        }
        1.. => {
            let magnitudes = steps.map(Op::Abs, x)?;
            let powers = match p {
                1 => magnitudes,
                p => steps.with(Op::Pow, magnitudes, p as f64)?,
            };
            let sum = steps.reduce(ReduceOp::Sum, powers, &axes)?;
            if p == 1 { sum } else { steps.with(Op::Pow, sum, 1.0 / p as f64)? }
        }
        _ => return Err(NodeProblem::attribute("p", format!("is {p}, expected above 0"))),
    };
    steps.done(y)
}
