//! Operators that read or write where constant indices say: all of them choices among the rows of a matrix.

use super::super::array::{Array, elements, strides};
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use super::super::types::{is_float, limits, wide, wrap};
use super::compose::int;
use std::rc::Rc;

/// A row number that counts from either end.
fn counted(given: i64, extent: usize) -> Result<usize, NodeProblem> {
    let counted = if given < 0 { given.saturating_add(extent as i64) } else { given };
    let found = usize::try_from(counted).ok().filter(|&index| index < extent);
    found.ok_or_else(|| {
        NodeProblem::shape(format!("the index {given} is outside an axis of {extent} entries"))
    })
}

/// The rows of an operand as a matrix of so many columns.
fn rows(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    data: Operand,
    width: usize,
) -> Result<Operand, NodeProblem> {
    let count = elements(&cx.shape_of(&data)).unwrap_or(0);
    cx.shaped(suffix, data, &[count / width.max(1), width])
}

/// Rows of an operand, in a shape.
fn picked(
    cx: &mut Context<'_, '_>,
    data: Operand,
    width: usize,
    places: &[usize],
    shape: &[usize],
) -> Result<Vec<Operand>, NodeProblem> {
    let matrix = rows(cx, "rows", data, width)?;
    let picked = cx.chosen("picked", matrix, 0, places)?;
    Ok(vec![cx.shaped("shaped", picked, shape)?])
}

/// For each element of the indices the place in `data` where that axis has the index.
fn places_of_elements(
    cx: &mut Context<'_, '_>,
    shape: &[usize],
    indices: &Array<i64>,
    axis: usize,
) -> Result<Vec<usize>, NodeProblem> {
    let fits = indices.shape.len() == shape.len()
        && (0..shape.len()).all(|at| at == axis || indices.shape[at] <= shape[at]);
    if !fits {
        return Err(NodeProblem::shape(format!(
            "indices of shape {:?} do not fit a tensor of shape {shape:?}",
            indices.shape
        )));
    }
    cx.charge(&indices.shape)?;
    let (own, data) = (strides(&indices.shape), strides(shape));
    let mut places = Vec::with_capacity(indices.data.len());
    for (at, &given) in indices.data.iter().enumerate() {
        let mut place = 0;
        for dimension in 0..shape.len() {
            let index = match dimension == axis {
                true => counted(given, shape[axis])?,
                false => at / own[dimension] % indices.shape[dimension],
            };
            place += index * data[dimension];
        }
        places.push(place);
    }
    Ok(places)
}

/// For each tuple of indices the row of `data` that it names, and how many columns rows have. The first `batch` axes
/// are those of the indices.
fn places_of_rows(
    cx: &mut Context<'_, '_>,
    shape: &[usize],
    indices: &Array<i64>,
    batch: usize,
) -> Result<(Vec<usize>, usize), NodeProblem> {
    let misfit = || {
        NodeProblem::shape(format!(
            "indices of shape {:?} do not fit a tensor of shape {shape:?}",
            indices.shape
        ))
    };
    let Some((&depth, outer)) = indices.shape.split_last() else { return Err(misfit()) };
    let named = batch.checked_add(depth).filter(|&named| named <= shape.len() && depth > 0);
    let named = named.ok_or_else(misfit)?;
    if batch > outer.len() || outer[..batch] != shape[..batch] {
        return Err(misfit());
    }
    cx.charge(&indices.shape)?;
    let width = shape[named..].iter().product();
    let strides = strides(&shape[..named]);
    let each: usize = outer[batch..].iter().product();
    let block: usize = shape[batch..named].iter().product();
    let mut places = Vec::with_capacity(indices.data.len() / depth);
    for (at, tuple) in indices.data.chunks_exact(depth).enumerate() {
        let mut place = at / each.max(1) * block;
        for (axis, &given) in (batch..named).zip(tuple) {
            place += counted(given, shape[axis])? * strides[axis];
        }
        places.push(place);
    }
    Ok((places, width))
}

pub(super) fn gather_elements(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let indices = cx.integers(1, "indices")?;
    let shape = cx.shape_of(&data);
    let axis = axis(cx.attributes().int_or("axis", 0)?, shape.len())?;
    let places = places_of_elements(cx, &shape, &indices, axis)?;
    picked(cx, data, 1, &places, &indices.shape)
}

pub(super) fn gather_nd(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let indices = cx.integers(1, "indices")?;
    let shape = cx.shape_of(&data);
    let batch = size("batch_dims", cx.attributes().int_or("batch_dims", 0)?, 0)?;
    let (places, width) = places_of_rows(cx, &shape, &indices, batch)?;
    let depth = indices.shape.last().copied().unwrap_or(0);
    let mut result = indices.shape[..indices.shape.len() - 1].to_vec();
    result.extend_from_slice(&shape[batch + depth..]);
    picked(cx, data, width, &places, &result)
}

pub(super) fn scatter_elements(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let indices = cx.integers(1, "indices")?;
    let shape = cx.shape_of(&data);
    let axis = axis(cx.attributes().int_or("axis", 0)?, shape.len())?;
    let places = places_of_elements(cx, &shape, &indices, axis)?;
    let updates = cx.input(2, "updates")?;
    if cx.shape_of(&updates) != indices.shape {
        return Err(NodeProblem::shape(format!(
            "updates of shape {:?} do not fit indices of shape {:?}",
            cx.shape_of(&updates),
            indices.shape
        )));
    }
    scatter(cx, data, updates, &places, 1)
}

pub(super) fn scatter_nd(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let indices = cx.integers(1, "indices")?;
    let shape = cx.shape_of(&data);
    let (places, width) = places_of_rows(cx, &shape, &indices, 0)?;
    let updates = cx.input(2, "updates")?;
    let given = cx.shape_of(&updates);
    if elements(&given) != places.len().checked_mul(width) {
        return Err(NodeProblem::shape(format!(
            "updates of shape {given:?} do not fit indices of shape {:?}",
            indices.shape
        )));
    }
    scatter(cx, data, updates, &places, width)
}

/// What a second value for a place does to the first.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

pub(super) fn reduction(cx: &Context<'_, '_>) -> Result<Reduction, NodeProblem> {
    Ok(match cx.attributes().string("reduction")?.unwrap_or("none") {
        "none" => Reduction::Replace,
        "add" => Reduction::Add,
        "mul" => Reduction::Mul,
        "max" => Reduction::Max,
        "min" => Reduction::Min,
        other => {
            let reason = format!("is `{other}`, expected none, add, mul, max or min");
            return Err(NodeProblem::attribute("reduction", reason));
        }
    })
}

/// The rows of `data`, with those at the places replaced by the updates, or combined with them.
fn scatter(
    cx: &mut Context<'_, '_>,
    data: Operand,
    updates: Operand,
    places: &[usize],
    width: usize,
) -> Result<Vec<Operand>, NodeProblem> {
    if data.kind() != updates.kind() {
        return Err(NodeProblem::mixed(data.kind(), updates.kind()));
    }
    let how = reduction(cx)?;
    if let Some(folded) = scattered(cx, &data, &updates, places, width, how)? {
        return Ok(folded);
    }
    let shape = cx.shape_of(&data);
    let count = elements(&shape).unwrap_or(0) / width.max(1);
    cx.charge(&[count])?;
    let updates = rows(cx, "updates", updates, width)?;
    if how != Reduction::Replace {
        return combined(cx, data, updates, places, how);
    }
    let mut sources: Vec<usize> = (0..count).collect();
    for (at, &place) in places.iter().enumerate() {
        sources[place] = count + at;
    }
    let data = rows(cx, "data", data, width)?;
    let both = cx.serve("both", "Concat", vec![data, updates], vec![int("axis", 0)])?;
    picked(cx, both, width, &sources, &shape)
}

/// How often one place may be named where what flows is combined.
const MOST_ROUNDS: usize = 32;

/// The data combined with updates: with the first for each place, then with the second, and so on.
fn combined(
    cx: &mut Context<'_, '_>,
    data: Operand,
    updates: Operand,
    places: &[usize],
    how: Reduction,
) -> Result<Vec<Operand>, NodeProblem> {
    let shape = cx.shape_of(&data);
    let &[given, width] = &cx.shape_of(&updates)[..] else { return Ok(vec![data]) };
    let count = elements(&shape).unwrap_or(0) / width.max(1);
    let (operator, neutral) = match how {
        Reduction::Mul => ("Mul", 1.0),
        Reduction::Max => ("Max", f64::NEG_INFINITY),
        Reduction::Min => ("Min", f64::INFINITY),
        Reduction::Add | Reduction::Replace => ("Add", 0.0),
    };
    let mut seen = vec![0; count];
    let mut rounds: Vec<Vec<usize>> = vec![];
    for (at, &place) in places.iter().enumerate() {
        let round = seen[place];
        seen[place] += 1;
        if round == rounds.len() {
            if round == MOST_ROUNDS {
                return Err(NodeProblem::unsupported(format!(
                    "its indices name a place more than {MOST_ROUNDS} times; cut the model before this node (--until)"
                )));
            }
            cx.charge(&[count])?;
            rounds.push(vec![given; count]);
        }
        rounds[round][place] = at;
    }
    let kind = data.kind();
    let (name, shape_of_row) = (format!("{}/neutral", cx.name), vec![1, width]);
    let row = match is_float(kind) {
        true => {
            let row = Array { shape: shape_of_row, data: vec![neutral; width] };
            Operand::Float(kind, cx.builder.constant(name, kind, row))
        }
        false => {
            // What flows has 32 bits. A cast stops at the ends of them.
            let (least, most) = limits(kind);
            let number = i128::from(neutral as i32).clamp(least, most);
            Operand::integers(kind, Array { shape: shape_of_row, data: vec![number as i64; width] })
        }
    };
    let all = cx.serve("all", "Concat", vec![updates, row], vec![int("axis", 0)])?;
    let mut total = data;
    for (round, sources) in rounds.iter().enumerate() {
        let picked = cx.chosen(&format!("round{round}"), all.clone(), 0, sources)?;
        let part = cx.shaped(&format!("part{round}"), picked, &shape)?;
        total = cx.serve(&format!("total{round}"), operator, vec![total, part], vec![])?;
    }
    Ok(vec![total])
}

/// The same of constants; `None` if one flows.
fn scattered(
    cx: &mut Context<'_, '_>,
    data: &Operand,
    updates: &Operand,
    places: &[usize],
    width: usize,
    how: Reduction,
) -> Result<Option<Vec<Operand>>, NodeProblem> {
    fn combine<T: Copy>(
        mut data: Array<T>,
        updates: &[T],
        places: &[usize],
        width: usize,
        combine: impl Fn(T, T) -> T,
    ) -> Array<T> {
        for (&place, row) in places.iter().zip(updates.chunks_exact(width.max(1))) {
            for (old, &new) in data.data[place * width..][..width].iter_mut().zip(row) {
                *old = combine(*old, new);
            }
        }
        data
    }
    cx.charge(&cx.shape_of(data))?;
    Ok(match (data, updates) {
        (Operand::Integer(kind, data), Operand::Integer(_, updates)) => {
            let kind = *kind;
            let function = |old: i64, new: i64| {
                let (a, b) = (wide(kind, old), wide(kind, new));
                wrap(
                    kind,
                    match how {
                        Reduction::Replace => b,
                        Reduction::Add => a + b,
                        Reduction::Mul => a.wrapping_mul(b),
                        Reduction::Max => a.max(b),
                        Reduction::Min => a.min(b),
                    },
                )
            };
            let data = Rc::unwrap_or_clone(data.clone());
            let result = combine(data, &updates.data, places, width, function);
            Some(vec![Operand::integers(kind, result)])
        }
        (&Operand::Float(kind, data), &Operand::Float(_, updates)) => {
            let constant = |value: usize| cx.builder.graph.values[value].constant.is_some();
            if !constant(data) || !constant(updates) {
                return Ok(None);
            }
            let (Some(data), Some(updates)) = (cx.builder.array(data)?, cx.builder.array(updates)?)
            else {
                return Ok(None);
            };
            let function = |old: f64, new: f64| match how {
                Reduction::Replace => new,
                Reduction::Add => old + new,
                Reduction::Mul => old * new,
                Reduction::Max => old.max(new),
                Reduction::Min => old.min(new),
            };
            let result = combine(data, &updates.data, places, width, function);
            Some(cx.folded(kind, result))
        }
        _ => None,
    })
}

/// The entries of an axis, or of the tensor in one row, where a condition holds.
pub(super) fn compress(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let mut data = cx.input(0, "input")?;
    let condition = cx.integers(1, "condition")?;
    let mut shape = cx.shape_of(&data);
    let along = match cx.attributes().int("axis")? {
        Some(given) => axis(given, shape.len())?,
        None => {
            shape = vec![elements(&shape).unwrap_or(0)];
            data = cx.shaped("flat", data, &shape)?;
            0
        }
    };
    let holds = condition.data.iter().enumerate().filter(|(_, holds)| **holds != 0);
    let places: Vec<usize> = holds.map(|(at, _)| at).collect();
    if places.last().is_some_and(|&last| last >= shape[along]) {
        return Err(NodeProblem::shape(format!(
            "a condition of {} entries does not fit an axis of {}",
            condition.data.len(),
            shape[along]
        )));
    }
    Ok(vec![cx.chosen("chosen", data, along, &places)?])
}

/// Each sequence reversed up to its length.
pub(super) fn reverse_sequence(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "input")?;
    let lengths = cx.integers(1, "sequence_lens")?;
    let shape = cx.shape_of(&data);
    let attributes = cx.attributes();
    let (batch, time) = (attributes.int_or("batch_axis", 1)?, attributes.int_or("time_axis", 0)?);
    let (&[first, second, ref rest @ ..], (0, 1) | (1, 0)) = (&shape[..], (batch, time)) else {
        return Err(NodeProblem::attribute("batch_axis", "and `time_axis` are not 0 and 1"));
    };
    let (batches, times) = if batch == 0 { (first, second) } else { (second, first) };
    let fits = |&length: &i64| usize::try_from(length).is_ok_and(|length| length <= times);
    if lengths.data.len() != batches || !lengths.data.iter().all(fits) {
        return Err(NodeProblem::shape(format!(
            "the lengths {:?} do not fit a tensor of shape {shape:?}",
            lengths.data
        )));
    }
    cx.charge(&[first, second])?;
    let place = |row: usize| {
        let (one, other) = (row / second, row % second);
        let (batch, at) = if batch == 0 { (one, other) } else { (other, one) };
        let length = lengths.data[batch] as usize;
        let at = if at < length { length - 1 - at } else { at };
        if time == 1 { batch * second + at } else { at * second + batch }
    };
    let places: Vec<usize> = (0..first * second).map(place).collect();
    picked(cx, data, rest.iter().product(), &places, &shape)
}
