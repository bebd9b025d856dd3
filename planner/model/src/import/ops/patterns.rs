//! Matrices that follow from their shape, and operators that are products with such, masks or repetitions.

use super::super::array::{Array, elements};
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::{is_float, type_name, wide, wrap};
use super::compose::{int, ints, list};

/// An array of truth values or integers of a type, or floats.
fn filled(
    cx: &mut Context<'_, '_>,
    kind: DataType,
    shape: Vec<usize>,
    value: impl Fn(usize) -> i64,
) -> Result<Operand, NodeProblem> {
    cx.charge_for(&shape, size_of::<f64>() + size_of::<f32>())?;
    let count = elements(&shape).unwrap_or(0);
    Ok(match is_float(kind) {
        true => {
            let data = (0..count).map(|at| value(at) as f64).collect();
            let name = cx.output(0);
            Operand::Float(kind, cx.builder.constant(name, kind, Array { shape, data }))
        }
        false => {
            let data = (0..count).map(|at| wrap(kind, value(at).into())).collect();
            Operand::integers(kind, Array { shape, data })
        }
    })
}

/// Ones on a diagonal of a matrix, zeros elsewhere.
pub(super) fn eye_like(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let like = cx.input(0, "input")?;
    let shape = cx.shape_of(&like);
    let &[_, columns] = &shape[..] else {
        return Err(NodeProblem::shape(format!("the shape {shape:?} is not a matrix")));
    };
    let kind = match cx.attributes().int("dtype")? {
        None => like.kind(),
        Some(given) => {
            let given = i32::try_from(given).unwrap_or(0);
            let kind = DataType::try_from(given).ok();
            let kind = kind.filter(|kind| !matches!(kind, DataType::Undefined | DataType::String));
            kind.ok_or_else(|| {
                let reason = format!("is {}; export another type", type_name(given));
                NodeProblem::attribute("dtype", reason)
            })?
        }
    };
    let k = cx.attributes().int_or("k", 0)?;
    let on = |at: usize| (at / columns) as i64 + k == (at % columns) as i64;
    Ok(vec![filled(cx, kind, shape, |at| i64::from(on(at)))?])
}

/// The part of matrices on and above a diagonal, or on and below it.
pub(super) fn trilu(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "input")?;
    let shape = cx.shape_of(&x);
    let &[.., rows, columns] = &shape[..] else {
        return Err(NodeProblem::shape(format!("the shape {shape:?} is not of matrices")));
    };
    let upper = cx.attributes().flag("upper", true)?;
    let k = match cx.optional_integers(1, "k")? {
        None => 0,
        Some(given) => match given.data[..] {
            [k] => k,
            _ => return Err(NodeProblem::shape("`k` is not one number")),
        },
    };
    let kept = |at: usize| {
        let over = (at % columns) as i64 - (at / columns) as i64;
        if upper { over >= k } else { over <= k }
    };
    let mask = filled(cx, DataType::Bool, vec![rows, columns], |at| i64::from(kept(at)))?;
    let zero = filled(cx, x.kind(), vec![], |_| 0)?;
    Ok(vec![cx.serve("part", "Where", vec![mask, x, zero], vec![])?])
}

/// A tensor repeated along its axes.
pub(super) fn tile(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let mut x = cx.input(0, "input")?;
    let repeats = cx.few(1, "repeats")?;
    let mut shape = cx.shape_of(&x);
    if repeats.data.len() != shape.len() {
        return Err(NodeProblem::shape(format!(
            "{} repetitions do not fit a tensor of shape {shape:?}",
            repeats.data.len()
        )));
    }
    for (axis, &given) in repeats.data.iter().enumerate() {
        let times = size("repeats", given, 0)?;
        if times == 1 {
            continue;
        }
        // The axis is one of two, of which the other repeats it.
        let outer: usize = shape[..axis].iter().product();
        let inner: usize = shape[axis..].iter().product();
        x = cx.shaped(&format!("apart{axis}"), x, &[outer, 1, inner])?;
        let to = list(&[outer, times, inner]);
        x = cx.serve(&format!("repeated{axis}"), "Expand", vec![x, to], vec![])?;
        let extent = shape[axis].checked_mul(times);
        shape[axis] = extent.ok_or_else(|| NodeProblem::shape("the result is too large"))?;
        x = cx.shaped(&format!("tiled{axis}"), x, &shape)?;
    }
    Ok(vec![x])
}

/// Running sums or products along an axis: of floats that flow the product with a triangle of ones.
pub(super) fn cumulate(cx: &mut Context<'_, '_>, sum: bool) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.input(0, "x")?;
    let shape = cx.shape_of(&x);
    let along = match cx.integers(1, "axis")?.data[..] {
        [given] => axis(given, shape.len())?,
        _ => return Err(NodeProblem::shape("`axis` is not one number")),
    };
    let attributes = cx.attributes();
    let exclusive = attributes.flag("exclusive", false)?;
    let reverse = attributes.flag("reverse", false)?;
    let extent = shape[along];
    let inner: usize = shape[along + 1..].iter().product();
    // Place `at` of a lane, from the end where sums begin there.
    let place = |lane: usize, at: usize| {
        let at = if reverse { extent - 1 - at } else { at };
        (lane / inner * extent + at) * inner + lane % inner
    };
    match x {
        Operand::Integer(kind, array) => {
            cx.charge(&shape)?;
            let mut data = array.data.clone();
            for lane in 0..data.len() / extent.max(1) {
                let mut total = i64::from(!sum);
                for at in 0..extent {
                    let value = array.data[place(lane, at)];
                    let (a, b) = (wide(kind, total), wide(kind, value));
                    let next = wrap(kind, if sum { a + b } else { a.wrapping_mul(b) });
                    data[place(lane, at)] = if exclusive { total } else { next };
                    total = next;
                }
            }
            Ok(vec![Operand::integers(kind, Array { shape, data })])
        }
        Operand::Float(kind, value) => match cx.builder.array(value)? {
            Some(array) => {
                let mut data = array.data.clone();
                for lane in 0..data.len() / extent.max(1) {
                    let mut total = if sum { 0.0 } else { 1.0 };
                    for at in 0..extent {
                        let value = array.data[place(lane, at)];
                        let next = if sum { total + value } else { total * value };
                        data[place(lane, at)] = if exclusive { total } else { next };
                        total = next;
                    }
                }
                Ok(cx.folded(kind, Array { shape, data }))
            }
            None if sum => running_sum(cx, x, along, (exclusive, reverse)),
            None => doubling(cx, x, along, ("Mul", 1), (exclusive, reverse)),
        },
        // Sums of integers wrap, which a product of floats does not.
        Operand::Whole(..) if sum => doubling(cx, x, along, ("Add", 0), (exclusive, reverse)),
        Operand::Whole(..) => doubling(cx, x, along, ("Mul", 1), (exclusive, reverse)),
    }
}

/// Combines each entry with what is one place before, then two, then four, until all of the axis is in it.
fn doubling(
    cx: &mut Context<'_, '_>,
    x: Operand,
    along: usize,
    (operator, neutral): (&str, i64),
    (exclusive, reverse): (bool, bool),
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape_of(&x);
    let (kind, extent) = (x.kind(), shape[along]);
    // Each entry becomes the one so many places before it, and the first ones are neutral.
    let moved = |cx: &mut Context<'_, '_>, x: Operand, by: usize| {
        let mut first = shape.clone();
        first[along] = by;
        let first = filled(cx, kind, first, |_| neutral)?;
        let kept = if reverse { by..extent } else { 0..extent - by };
        let kept = cx.chosen(&format!("kept{by}"), x, along, &kept.collect::<Vec<_>>())?;
        let parts = if reverse { vec![kept, first] } else { vec![first, kept] };
        cx.serve(&format!("moved{by}"), "Concat", parts, vec![int("axis", along as i64)])
    };
    let mut total = match exclusive {
        false => x,
        true if extent == 1 => return Ok(vec![filled(cx, kind, shape, |_| neutral)?]),
        true => moved(cx, x, 1)?,
    };
    let mut by = 1;
    while by < extent {
        let other = moved(cx, total.clone(), by)?;
        total = cx.serve(&format!("reach{by}"), operator, vec![total, other], vec![])?;
        by *= 2;
    }
    Ok(vec![total])
}

fn running_sum(
    cx: &mut Context<'_, '_>,
    x: Operand,
    along: usize,
    (exclusive, reverse): (bool, bool),
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape_of(&x);
    let extent = shape[along];
    let (kind, last) = (x.kind(), shape.len() - 1);
    // Row by column: whether element `row` is in sum `column`.
    let counts = move |at: usize| {
        let (row, column) = (at / extent, at % extent);
        let (from, to) = if reverse { (column, row) } else { (row, column) };
        i64::from(if exclusive { from < to } else { from <= to })
    };
    let triangle = filled(cx, kind, vec![extent, extent], counts)?;
    let mut perm: Vec<usize> = (0..shape.len()).collect();
    perm.swap(along, last);
    let turned = match along == last {
        true => x,
        false => cx.serve("turned", "Transpose", vec![x], vec![ints("perm", &perm)])?,
    };
    let rows: usize = shape.iter().product::<usize>() / extent;
    let matrix = cx.shaped("matrix", turned, &[rows, extent])?;
    let summed = cx.serve("sums", "MatMul", vec![matrix, triangle], vec![])?;
    let mut turned = shape.clone();
    turned.swap(along, last);
    let summed = cx.shaped("summed", summed, &turned)?;
    Ok(vec![match along == last {
        true => summed,
        false => cx.serve("back", "Transpose", vec![summed], vec![ints("perm", &perm)])?,
    }])
}

/// Vectors with one entry on, where an index says.
pub(super) fn one_hot(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let indices = cx.input(0, "indices")?;
    let depth = match cx.input(1, "depth")? {
        Operand::Integer(_, array) if array.data.len() == 1 => array.data[0],
        Operand::Float(_, value) => match cx.builder.array(value)? {
            Some(array) if array.data.len() == 1 => array.data[0] as i64,
            _ => return Err(NodeProblem::NotConstant { role: "depth", value: cx.name_of(value) }),
        },
        _ => {
            let value = cx.proto.input.get(1).cloned().unwrap_or_default();
            return Err(NodeProblem::NotConstant { role: "depth", value });
        }
    };
    let depth = size("depth", depth, 1)?;
    let own = cx.shape_of(&indices);
    let axis = axis(cx.attributes().int_or("axis", -1)?, own.len() + 1)?;
    let indices = match indices {
        Operand::Float(..) => {
            let to = int("to", DataType::Int64 as i64);
            cx.serve("whole", "Cast", vec![indices], vec![to])?
        }
        other => other,
    };
    let kind = indices.kind();
    let mut apart = own.clone();
    apart.insert(axis, 1);
    let indices = cx.shaped("apart", indices, &apart)?;
    // Indices count from either end.
    let line = |cx: &mut Context<'_, '_>, start: i64| {
        let mut shape = vec![1; own.len() + 1];
        shape[axis] = depth;
        filled(cx, kind, shape, |at| at as i64 + start)
    };
    let (front, back) = (line(cx, 0)?, line(cx, -(depth as i64))?);
    let front = cx.serve("front", "Equal", vec![indices.clone(), front], vec![])?;
    let back = cx.serve("back", "Equal", vec![indices, back], vec![])?;
    let on = cx.serve("hot", "Or", vec![front, back], vec![])?;
    let values = cx.input(2, "values")?;
    let zero = cx.chosen("off", values.clone(), 0, &[0])?;
    let one = cx.chosen("on", values, 0, &[1])?;
    Ok(vec![cx.serve("chosen", "Where", vec![on, one, zero], vec![])?])
}
