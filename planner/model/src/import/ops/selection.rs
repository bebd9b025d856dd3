//! Selections among elements that are computed: the first in order, and boxes that do not overlap.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::compose::{Steps, int};
use super::computed::{elements_at, flows};
use crate::graph::{Op, Suppression, ValueId};

/// The places of the first elements of an axis in order.
fn ordered(
    steps: &mut Steps<'_, '_, '_>,
    x: &Operand,
    axis: usize,
    count: usize,
    largest: bool,
) -> Result<Operand, NodeProblem> {
    let mut shape = steps.cx.shape_of(x);
    shape[axis] = count;
    let (value, integers) = match x {
        Operand::Float(_, value) => (*value, false),
        Operand::Whole(_, value) => (*value, true),
        Operand::Integer(..) => return Err(NodeProblem::Unknown),
    };
    let kind = DataType::Int64;
    let op = Op::Order { axis, largest, integers };
    Ok(Operand::Whole(kind, steps.words(kind, op, &[value], shape)?))
}

/// `TopK` of what flows: the largest or smallest elements of an axis in order, and where they are.
pub(super) fn top_k(
    cx: &mut Context<'_, '_>,
    x: &Operand,
    [axis, count]: [usize; 2],
    largest: bool,
) -> Result<Vec<Operand>, NodeProblem> {
    let mut steps = Steps::new(cx);
    let places = ordered(&mut steps, x, axis, count, largest)?;
    let values = elements_at(&mut steps, x, &places, axis)?;
    Ok(vec![values, places])
}

/// A constant number, or another where the input is absent.
fn number(
    cx: &Context<'_, '_>,
    index: usize,
    role: &'static str,
    absent: f32,
) -> Result<f32, NodeProblem> {
    Ok(cx.optional_scalar(index, role)?.unwrap_or(absent))
}

/// How many boxes of a class may remain.
fn most(cx: &Context<'_, '_>, boxes: usize) -> Result<usize, NodeProblem> {
    let role = "max_output_boxes_per_class";
    let given = cx.optional_integers(2, role)?;
    let most = given.and_then(|given| given.data.first().copied()).unwrap_or(0);
    match usize::try_from(most) {
        Ok(most @ 1..) => Ok(most.min(boxes)),
        _ => Err(NodeProblem::shape(format!("`{role}` is {most}: no box would be selected"))),
    }
}

/// `NonMaxSuppression`. Plans are made for fixed shapes: the output has as many rows as there could be, and those that
/// no box takes are -1, after all others.
pub(super) fn non_max_suppression(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (boxes, scores) = (cx.float(0, "boxes")?, cx.float(1, "scores")?);
    let (of_boxes, of_scores) = (cx.shape(boxes), cx.shape(scores));
    let misfit = || {
        NodeProblem::shape(format!(
            "boxes of shape {of_boxes:?} and scores of shape {of_scores:?} do not fit"
        ))
    };
    let (&[images, each, 4], &[batch, classes, scored]) = (&of_boxes[..], &of_scores[..]) else {
        return Err(misfit());
    };
    if batch != images || scored != each {
        return Err(misfit());
    }
    for value in [boxes, scores] {
        if !flows(cx, &Operand::Float(DataType::Float, value)) {
            return Err(NodeProblem::unsupported(format!(
                "`{}` is constant; boxes and scores must be computed",
                cx.name_of(value)
            )));
        }
    }
    let count = most(cx, each)?;
    let suppression = Suppression {
        overlap: number(cx, 3, "iou_threshold", 0.0)?,
        score: number(cx, 4, "score_threshold", f32::NEG_INFINITY)?,
        centers: cx.attributes().flag("center_point_box", false)?,
    };
    let total = images * classes * count;
    cx.charge(&[total, 2])?;
    cx.builder.graph.notes.push(format!(
        "node `{}` (NonMaxSuppression) has {total} rows, the most that there could be; rows of -1 follow those of \
         the boxes",
        cx.name
    ));
    let mut steps = Steps::new(cx);
    let inputs: [ValueId; 2] = [boxes, scores];
    let kind = DataType::Int64;
    let places = Op::Suppress(suppression);
    let places = steps.words(kind, places, &inputs, vec![images, classes, count])?;
    let places = steps.shaped(&Operand::Whole(kind, places), &[total, 1])?;
    let ids = (0..total).flat_map(|at| {
        let lane = at / count;
        [(lane / classes) as i64, (lane % classes) as i64]
    });
    let ids = Operand::integers(kind, Array { shape: vec![total, 2], data: ids.collect() });
    let [zero, none] = [0.0, -1.0].map(|number| steps.scalar(kind, number));
    let taken = steps.apply("LessOrEqual", &[&zero, &places], vec![])?;
    let ids = steps.apply("Where", &[&taken, &ids, &none], vec![])?;
    let rows = steps.apply("Concat", &[&ids, &places], vec![int("axis", 1)])?;
    if images * classes == 1 {
        return Ok(vec![rows]);
    }
    let taken = steps.apply("Cast", &[&taken], vec![int("to", DataType::Int32 as i64)])?;
    let taken = steps.shaped(&taken, &[total])?;
    let first = ordered(&mut steps, &taken, 0, total, true)?;
    Ok(vec![steps.apply("Gather", &[&rows, &first], vec![])?])
}
