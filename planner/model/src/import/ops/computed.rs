//! Operators whose indices are computed: what they name is one place among all elements, or all rows.
//!
//! An index that its axis does not have becomes one that nothing has, so that the inference ends with an error.

use super::super::array::{Array, elements, strides};
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::is_float;
use super::compose::{Steps, int, list};
use super::flowing;
use super::geometry::{pads, unpadded};
use super::indexed::{Reduction, reduction};
use crate::graph::{Op, ValueId};
use eyelet::pack::ScatterOp;

type Made = Result<Operand, NodeProblem>;

/// The largest number of places: sums of so many as a tensor has axes have 32 bits.
const MOST_PLACES: usize = i32::MAX as usize / 16;

/// Whether an operand is computed.
pub(super) fn flows(cx: &Context<'_, '_>, operand: &Operand) -> bool {
    match operand {
        Operand::Float(_, value) => cx.builder.graph.values[*value].constant.is_none(),
        Operand::Integer(..) => false,
        Operand::Whole(..) => true,
    }
}

fn check_places(shape: &[usize]) -> Result<usize, NodeProblem> {
    let count = elements(shape).filter(|&count| count <= MOST_PLACES);
    count.ok_or_else(|| {
        NodeProblem::shape(format!("a tensor of shape {shape:?} has more places than indices name"))
    })
}

/// Indices along an axis of some extent, times a stride; those from the end are counted. One that is outside becomes
/// `none`.
fn strided(
    steps: &mut Steps<'_, '_, '_>,
    indices: &Operand,
    [extent, stride, none]: [usize; 3],
) -> Made {
    let kind = indices.kind();
    let [zero, extent, stride_of, none] =
        [0, extent, stride, none].map(|number| steps.scalar(kind, number as f64));
    let below = steps.apply("Less", &[indices, &zero], vec![])?;
    let counted = steps.apply("Add", &[indices, &extent], vec![])?;
    let index = steps.apply("Where", &[&below, &counted, indices], vec![])?;
    let before = steps.apply("Less", &[&index, &zero], vec![])?;
    let beyond = steps.apply("LessOrEqual", &[&extent, &index], vec![])?;
    let outside = steps.apply("Or", &[&before, &beyond], vec![])?;
    let moved = match stride {
        1 => index,
        _ => steps.apply("Mul", &[&index, &stride_of], vec![])?,
    };
    steps.apply("Where", &[&outside, &none, &moved], vec![])
}

/// Places and constants added: a place that is `none` stays beyond all.
fn shifted(
    steps: &mut Steps<'_, '_, '_>,
    place: &Operand,
    shape: Vec<usize>,
    base: impl Fn(usize) -> usize,
) -> Made {
    steps.cx.charge(&shape)?;
    let data = (0..elements(&shape).unwrap_or(0)).map(|at| base(at) as i64).collect();
    let base = Operand::integers(place.kind(), Array { shape, data });
    steps.apply("Add", &[place, &base], vec![])
}

/// For each element of the indices the place in a tensor where an axis has the index.
fn places_of_elements(
    steps: &mut Steps<'_, '_, '_>,
    shape: &[usize],
    indices: &Operand,
    axis: usize,
) -> Made {
    let own = steps.cx.shape_of(indices);
    let fits =
        own.len() == shape.len() && (0..shape.len()).all(|at| at == axis || own[at] <= shape[at]);
    if !fits {
        return Err(NodeProblem::shape(format!(
            "indices of shape {own:?} do not fit a tensor of shape {shape:?}"
        )));
    }
    let count = check_places(shape)?;
    let (of_data, of_indices) = (strides(shape), strides(&own));
    let place = strided(steps, indices, [shape[axis], of_data[axis], count])?;
    let extents = own.clone();
    shifted(steps, &place, own, move |at| {
        let along = |dimension: usize| at / of_indices[dimension] % extents[dimension];
        let others = (0..of_data.len()).filter(|&dimension| dimension != axis);
        others.map(|dimension| along(dimension) * of_data[dimension]).sum()
    })
}

/// For each tuple of indices the row of a tensor that it names, and how many columns rows have. The first `batch` axes
/// are those of the indices.
fn places_of_rows(
    steps: &mut Steps<'_, '_, '_>,
    shape: &[usize],
    indices: &Operand,
    batch: usize,
) -> Result<(Operand, usize), NodeProblem> {
    let own = steps.cx.shape_of(indices);
    let misfit = || {
        NodeProblem::shape(format!(
            "indices of shape {own:?} do not fit a tensor of shape {shape:?}"
        ))
    };
    let Some((&depth, outer)) = own.split_last() else { return Err(misfit()) };
    let named = batch.checked_add(depth).filter(|&named| named <= shape.len() && depth > 0);
    let named = named.ok_or_else(misfit)?;
    if batch > outer.len() || outer[..batch] != shape[..batch] {
        return Err(misfit());
    }
    let rows = check_places(&shape[..named])?;
    let of_rows = strides(&shape[..named]);
    let mut total: Option<Operand> = None;
    for part in 0..depth {
        let at = Operand::integers(DataType::Int64, Array::scalar(part as i64));
        let index = steps.apply("Gather", &[indices, &at], vec![int("axis", -1)])?;
        let place = strided(steps, &index, [shape[batch + part], of_rows[batch + part], rows])?;
        total = Some(match total {
            None => place,
            Some(total) => steps.apply("Add", &[&total, &place], vec![])?,
        });
    }
    let mut place = total.ok_or_else(misfit)?;
    if batch > 0 {
        let each: usize = outer[batch..].iter().product();
        let block: usize = shape[batch..named].iter().product();
        place = shifted(steps, &place, outer.to_vec(), move |at| at / each.max(1) * block)?;
    }
    Ok((place, shape[named..].iter().product()))
}

/// The elements of an axis that indices of the data's rank name.
pub(super) fn elements_at(
    steps: &mut Steps<'_, '_, '_>,
    data: &Operand,
    indices: &Operand,
    axis: usize,
) -> Made {
    let shape = steps.cx.shape_of(data);
    let places = places_of_elements(steps, &shape, indices, axis)?;
    let flat = steps.shaped(data, &[shape.iter().product()])?;
    steps.apply("Gather", &[&flat, &places], vec![])
}

pub(super) fn gather_elements(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (data, indices) = (cx.input(0, "data")?, cx.input(1, "indices")?);
    let axis = axis(cx.attributes().int_or("axis", 0)?, cx.shape_of(&data).len())?;
    Ok(vec![elements_at(&mut Steps::new(cx), &data, &indices, axis)?])
}

pub(super) fn gather_nd(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (data, indices) = (cx.input(0, "data")?, cx.input(1, "indices")?);
    let batch = size("batch_dims", cx.attributes().int_or("batch_dims", 0)?, 0)?;
    let (shape, own) = (cx.shape_of(&data), cx.shape_of(&indices));
    let mut steps = Steps::new(cx);
    let (places, width) = places_of_rows(&mut steps, &shape, &indices, batch)?;
    let count: usize = shape.iter().product();
    let rows = steps.shaped(&data, &[count / width.max(1), width])?;
    let picked = steps.apply("Gather", &[&rows, &places], vec![])?;
    let depth = own[own.len() - 1];
    let made = [&own[..own.len() - 1], &shape[batch + depth..]].concat();
    Ok(vec![steps.shaped(&picked, &made)?])
}

/// A constant as something that flows: written over as many copies of an element of what does.
fn flowing(steps: &mut Steps<'_, '_, '_>, operand: Operand, source: &Operand) -> Made {
    if flows(steps.cx, &operand) {
        return Ok(operand);
    }
    let shape = steps.cx.shape_of(&operand);
    over(steps, &operand, source, &shape)
}

/// A constant that broadcasts to a shape, as something that flows.
fn over(
    steps: &mut Steps<'_, '_, '_>,
    constant: &Operand,
    source: &Operand,
    shape: &[usize],
) -> Made {
    let count = steps.cx.shape_of(source).iter().product();
    let row = steps.shaped(source, &[count])?;
    let one = steps.apply("Gather", &[&row, &list(&[0])], vec![])?;
    let one = steps.apply("Cast", &[&one], vec![int("to", constant.kind() as i64)])?;
    let all = steps.apply("Expand", &[&one, &list(shape)], vec![])?;
    let always = Operand::integers(DataType::Bool, Array::scalar(1));
    steps.apply("Where", &[&always, constant, &all], vec![])
}

/// Rows of a matrix, those at the places replaced by updates or combined with them.
fn written(
    steps: &mut Steps<'_, '_, '_>,
    [data, places, updates]: [&Operand; 3],
    op: ScatterOp,
) -> Made {
    let (kind, shape) = (data.kind(), steps.cx.shape_of(data));
    if op != ScatterOp::Replace && !is_float(kind) {
        return Err(flowing::refused(kind));
    }
    let value = |operand: &Operand| match operand {
        Operand::Float(_, value) | Operand::Whole(_, value) => Ok(*value),
        Operand::Integer(..) => Err(NodeProblem::Unknown),
    };
    let inputs: [ValueId; 3] = [value(data)?, value(places)?, value(updates)?];
    let made = steps.words(kind, Op::Scatter { op }, &inputs, shape)?;
    Ok(if is_float(kind) { Operand::Float(kind, made) } else { Operand::Whole(kind, made) })
}

/// `ScatterElements`, `ScatterND`: a tensor with what computed indices name written over.
pub(super) fn scatter(
    cx: &mut Context<'_, '_>,
    by_rows: bool,
) -> Result<Vec<Operand>, NodeProblem> {
    let (data, indices) = (cx.input(0, "data")?, cx.input(1, "indices")?);
    let updates = cx.input(2, "updates")?;
    if data.kind() != updates.kind() {
        return Err(NodeProblem::mixed(data.kind(), updates.kind()));
    }
    let op = match reduction(cx)? {
        Reduction::Replace => ScatterOp::Replace,
        Reduction::Add => ScatterOp::Add,
        Reduction::Mul => ScatterOp::Mul,
        Reduction::Max => ScatterOp::Max,
        Reduction::Min => ScatterOp::Min,
    };
    let shape = cx.shape_of(&data);
    let along = match by_rows {
        true => 0,
        false => axis(cx.attributes().int_or("axis", 0)?, shape.len())?,
    };
    let mut steps = Steps::new(cx);
    let (places, width) = match by_rows {
        true => places_of_rows(&mut steps, &shape, &indices, 0)?,
        false => (places_of_elements(&mut steps, &shape, &indices, along)?, 1),
    };
    let count: usize = steps.cx.shape_of(&places).iter().product();
    let given = steps.cx.shape_of(&updates);
    if elements(&given) != count.checked_mul(width) {
        let own = steps.cx.shape_of(&indices);
        return Err(NodeProblem::shape(format!(
            "updates of shape {given:?} do not fit indices of shape {own:?}"
        )));
    }
    let data = flowing(&mut steps, data, &indices)?;
    let updates = flowing(&mut steps, updates, &indices)?;
    let total: usize = shape.iter().product();
    let rows = steps.shaped(&data, &[total / width.max(1), width])?;
    let places = steps.shaped(&places, &[count])?;
    let updates = steps.shaped(&updates, &[count, width])?;
    let made = written(&mut steps, [&rows, &places, &updates], op)?;
    Ok(vec![steps.shaped(&made, &shape)?])
}

/// `MaxUnpool`: zeros, with each element at its place.
pub(super) fn max_unpool(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (x, indices) = (cx.float(0, "X")?, cx.input(1, "I")?);
    let (kind, shape) = (cx.kind(), cx.shape(x));
    if cx.shape_of(&indices) != shape || shape.len() < 3 {
        return Err(NodeProblem::shape(format!(
            "places of shape {:?} do not fit an input of shape {shape:?}",
            cx.shape_of(&indices)
        )));
    }
    let wanted = cx.optional_integers(2, "output_shape")?;
    let mut windows = unpadded(cx.attributes(), shape.len() - 2, None)?;
    pads(cx.attributes(), &mut windows)?;
    let mut made = shape.clone();
    for (extent, window) in made[2..].iter_mut().zip(&windows) {
        let all = ((*extent - 1) * window.stride + window.kernel) as i64;
        let left = all - window.begin - window.end;
        *extent = usize::try_from(left).map_err(|_| NodeProblem::attribute("pads", "takes all"))?;
    }
    let total = check_places(&made)?;
    let count: usize = shape.iter().product();
    let mut steps = Steps::new(cx);
    let x = Operand::Float(kind, x);
    let indices = flowing(&mut steps, indices, &x)?;
    let zero = steps.scalar(kind, 0.0);
    let zeros = over(&mut steps, &zero, &x, &[total, 1])?;
    let (places, rows) = (steps.shaped(&indices, &[count])?, steps.shaped(&x, &[count, 1])?);
    let written = written(&mut steps, [&zeros, &places, &rows], ScatterOp::Replace)?;
    let y = steps.shaped(&written, &made)?;
    let Some(wanted) = wanted
        .filter(|wanted| !wanted.data.iter().copied().eq(made.iter().map(|&extent| extent as i64)))
    else {
        return Ok(vec![y]);
    };
    let more = wanted.data.iter().zip(&made).map(|(&wanted, &made)| {
        usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_sub(made))
    });
    let more: Option<Vec<usize>> = more.collect();
    let more = more.filter(|more| more.len() == made.len()).ok_or_else(|| {
        NodeProblem::shape(format!(
            "`output_shape` is {:?}, less than {made:?}, which the windows take",
            wanted.data
        ))
    })?;
    let pads = list(&[vec![0; made.len()], more].concat());
    Ok(vec![steps.apply("Pad", &[&y, &pads], vec![])?])
}
