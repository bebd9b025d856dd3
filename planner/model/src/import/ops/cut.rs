//! Operators that take parts of a tensor: splitting, slicing, choosing along an axis.
//!
//! Each works on flowing floats (a node), constant floats (folded) and integers.

use super::super::array::{Array, Movement};
use super::super::attributes::size;
use super::super::builder::Operand;
use super::super::context::{Context, Given, axes, axis};
use super::super::error::NodeProblem;
use super::super::onnx::DataType;
use super::super::types::is_float;
use super::compose::{Steps, int};
use super::computed_slices;
use super::flowing::refused;
use super::resize::resampled;
use crate::graph::{Op, Resampling, ValueId};
use std::ops::Range;

/// The sizes of a split of `extent`: given, or equal (with a smaller last one from opset 18 on).
fn split_sizes(cx: &Context<'_, '_>, extent: usize) -> Result<Vec<usize>, NodeProblem> {
    let given = match cx.opset < 13 {
        true => cx.attributes().ints("split")?.map(<[i64]>::to_vec),
        false => cx.optional_integers(1, "split")?.map(|sizes| sizes.data.clone()),
    };
    if let Some(given) = given {
        let sizes: Vec<usize> =
            given.iter().map(|&one| size("split", one, 0)).collect::<Result<_, _>>()?;
        if sizes.iter().sum::<usize>() != extent || sizes.len() < cx.proto.output.len() {
            return Err(NodeProblem::shape(format!(
                "its {} parts have {} entries together, but there are {} outputs of an extent of {extent}",
                sizes.len(),
                sizes.iter().sum::<usize>(),
                cx.proto.output.len()
            )));
        }
        return Ok(sizes);
    }
    let count = cx.proto.output.len();
    if let Some(given) = cx.attributes().int("num_outputs")? {
        let given = size("num_outputs", given, 1)?;
        if given != count {
            return Err(NodeProblem::attribute(
                "num_outputs",
                format!("is {given}, but there are {count} outputs"),
            ));
        }
    }
    let each = extent.div_ceil(count.max(1));
    if count == 0 || each * (count - 1) > extent || (cx.opset < 18 && each * count != extent) {
        return Err(NodeProblem::shape(format!(
            "an extent of {extent} cannot be split into {count} equal parts"
        )));
    }
    Ok((0..count).map(|part| each.min(extent - part * each)).collect())
}

pub(super) fn split(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "input")?;
    let shape = cx.shape_of(&data);
    let axis = axis(cx.attributes().int_or("axis", 0)?, shape.len())?;
    let sizes = split_sizes(cx, shape[axis])?;
    if let [_] = sizes[..] {
        return Ok(vec![data]);
    }
    let part = |size: usize| {
        let mut part = shape.clone();
        part[axis] = size;
        part
    };
    if let Operand::Float(kind, value) = data
        && cx.builder.graph.values[value].constant.is_none()
    {
        let outputs =
            sizes.iter().enumerate().map(|(at, &size)| (cx.output(at), part(size))).collect();
        let op = Op::Split { axis, sizes };
        let made = cx.node(cx.name.into(), op, vec![Some(value)], outputs)?;
        return Ok(made.into_iter().map(|value| Operand::Float(kind, value)).collect());
    }
    let (mut starts, steps) = (vec![0; shape.len()], vec![1; shape.len()]);
    let mut parts = vec![];
    for (index, &size) in sizes.iter().enumerate() {
        let shape = part(size);
        let (starts_of, extents) = (&starts[..], shape.clone());
        let movement = Movement::Slice { starts: starts_of, steps: &steps, extents };
        parts.push(cx.moved(index, &data, &movement, &shape)?.ok_or_else(|| refused(data.kind()))?);
        starts[axis] += size;
    }
    Ok(parts)
}

/// A slice of every axis: where it starts, the step, how many.
struct Cut {
    starts: Vec<usize>,
    steps: Vec<isize>,
    extents: Vec<usize>,
}

/// Reads the bounds of a `Slice` of this shape.
fn cut(cx: &Context<'_, '_>, shape: &[usize]) -> Result<Cut, NodeProblem> {
    let rank = shape.len();
    let list = |index, role: &'static str| -> Result<Option<Vec<i64>>, NodeProblem> {
        Ok(match cx.opset < 10 {
            true => cx.attributes().ints(role)?.map(<[i64]>::to_vec),
            false => cx.optional_integers(index, role)?.map(|list| list.data.clone()),
        })
    };
    let starts = list(1, "starts")?.ok_or(NodeProblem::Missing { index: 1, role: "starts" })?;
    let ends = list(2, "ends")?.ok_or(NodeProblem::Missing { index: 2, role: "ends" })?;
    let count = starts.len();
    let on = list(3, "axes")?.unwrap_or_else(|| (0..count as i64).collect());
    let steps = if cx.opset < 10 { None } else { list(4, "steps")? }.unwrap_or(vec![1; count]);
    if [ends.len(), on.len(), steps.len()] != [count; 3] {
        return Err(NodeProblem::shape(format!(
            "{count} starts, {} ends, {} axes and {} steps do not agree",
            ends.len(),
            on.len(),
            steps.len()
        )));
    }
    axes(&on, rank)?;
    let mut cut = Cut { starts: vec![0; rank], steps: vec![1; rank], extents: shape.to_vec() };
    for at in 0..count {
        let axis = axis(on[at], rank)?;
        let extent = shape[axis] as i64;
        let counted = |bound: i64| if bound < 0 { bound.saturating_add(extent) } else { bound };
        let step = steps[at];
        let (start, taken) = if step > 0 {
            let start = counted(starts[at]).clamp(0, extent);
            let end = counted(ends[at]).clamp(start, extent);
            (start, (end - start + step.min(extent.max(1)) - 1) / step.min(extent.max(1)))
        } else if step < 0 {
            let back = step.saturating_neg().min(extent.max(1));
            let start = counted(starts[at]).clamp(0, (extent - 1).max(0));
            let end = counted(ends[at]).clamp(-1, start);
            (start, if extent == 0 { 0 } else { (start - end + back - 1) / back })
        } else {
            return Err(NodeProblem::shape(format!("the step of axis {axis} is zero")));
        };
        cut.starts[axis] = start as usize;
        // A step beyond the extent takes one element, whatever its size.
        cut.steps[axis] = step.clamp(-extent.max(1), extent.max(1)) as isize;
        cut.extents[axis] = taken as usize;
    }
    Ok(cut)
}

pub(super) fn slice(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let whole = |given: Option<&Given>| matches!(given, Some(Given::Known(Operand::Whole(..))));
    if cx.opset >= 10 && (whole(cx.inputs.get(1)) || whole(cx.inputs.get(2))) {
        return computed_slices::from_computed(cx, data);
    }
    let shape = cx.shape_of(&data);
    let Cut { starts, steps, extents } = cut(cx, &shape)?;
    if extents == shape && steps.iter().all(|&step| step > 0) {
        return Ok(vec![data]);
    }
    let extents_of = extents.clone();
    let movement = Movement::Slice { starts: &starts, steps: &steps, extents: extents_of };
    if let Some(folded) = cx.moved(0, &data, &movement, &extents)? {
        return Ok(vec![folded]);
    }
    let Operand::Float(_, value) = data else { return Err(refused(data.kind())) };
    let backwards: Vec<Resampling> = (0..shape.len())
        .filter(|&axis| steps[axis] < 0)
        .map(|axis| {
            let step = steps[axis].unsigned_abs();
            let places = (0..extents[axis]).map(|at| starts[axis] - at * step).collect();
            Resampling::choice(axis, places)
        })
        .collect();
    if backwards.is_empty() {
        let steps = steps.iter().map(|step| step.unsigned_abs()).collect();
        return cx.emit(Op::Slice { starts, steps }, vec![Some(value)], extents);
    }
    // First what goes forwards, of the other axes all.
    let (mut forward, mut first) = (extents, starts);
    let mut by: Vec<usize> = steps.iter().map(|step| step.unsigned_abs()).collect();
    for Resampling { axis, .. } in &backwards {
        (forward[*axis], first[*axis], by[*axis]) = (shape[*axis], 0, 1);
    }
    let value = match forward == shape {
        true => value,
        false => {
            let op = Op::Slice { starts: first, steps: by };
            cx.helper("forward", op, vec![Some(value)], forward)?
        }
    };
    resampled(cx, value, backwards)
}

/// `Gather` with constant indices: on flowing floats a slice where the indices ascend evenly.
pub(super) fn gather(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let shape = cx.shape_of(&data);
    let axis = axis(cx.attributes().int_or("axis", 0)?, shape.len())?;
    if let Operand::Whole(_, indices) = cx.input(1, "indices")? {
        return embed(cx, data, indices, axis);
    }
    let given = cx.integers(1, "indices")?;
    cx.charge(&given.shape)?;
    let extent = shape[axis];
    let index = |given: i64| {
        let counted = if given < 0 { given.saturating_add(extent as i64) } else { given };
        usize::try_from(counted).ok().filter(|&index| index < extent)
    };
    let indices = given.data.iter().map(|&one| index(one)).collect::<Option<Vec<usize>>>();
    let Some(indices) = indices else {
        return Err(NodeProblem::shape(format!(
            "an index is outside axis {axis} with its {extent} entries"
        )));
    };
    let indices = Array { shape: given.shape.clone(), data: indices };
    let mut gathered = shape[..axis].to_vec();
    gathered.extend_from_slice(&indices.shape);
    gathered.extend_from_slice(&shape[axis + 1..]);
    let movement = Movement::Gather { axis, indices: &indices };
    if let Some(folded) = cx.moved(0, &data, &movement, &gathered)? {
        return Ok(vec![folded]);
    }
    let Operand::Float(_, value) = data else { return Err(refused(data.kind())) };
    let step = match indices.data[..] {
        [first, second, ..] => second.saturating_sub(first),
        _ => 1,
    };
    let even = indices.data.windows(2).all(|pair| pair[0] + step == pair[1]);
    if step == 0 || !even || indices.data.is_empty() {
        let list = indices.map(|index| index as f64);
        cx.charge_for(&list.shape, size_of::<f64>() + size_of::<f32>())?;
        let name = format!("{}/indices", cx.name);
        let list = cx.builder.constant(name, DataType::Float, list);
        return cx.emit(Op::Take { axis }, vec![Some(value), Some(list)], gathered);
    }
    let (mut starts, mut steps) = (vec![0; shape.len()], vec![1; shape.len()]);
    let mut extents = shape.clone();
    starts[axis] = indices.data[0];
    steps[axis] = step;
    extents[axis] = indices.data.len();
    let op = Op::Slice { starts, steps };
    if extents == gathered {
        return cx.emit(op, vec![Some(value)], gathered);
    }
    let sliced = cx.helper("slice", op, vec![Some(value)], extents)?;
    cx.emit(Op::Reshape, vec![Some(sliced)], gathered)
}

/// `Gather` with computed indices: entries of what is computed, or rows of a constant table.
fn embed(
    cx: &mut Context<'_, '_>,
    data: Operand,
    indices: ValueId,
    axis: usize,
) -> Result<Vec<Operand>, NodeProblem> {
    let (own, of_indices) = (cx.shape_of(&data), cx.shape(indices));
    let shape = [&own[..axis], &of_indices, &own[axis + 1..]].concat();
    match data {
        Operand::Float(_, value) if cx.builder.graph.values[value].constant.is_none() => {
            cx.emit(Op::Take { axis }, vec![Some(value), Some(indices)], shape)
        }
        Operand::Float(_, table) if own.len() == 2 && axis == 0 && own[0] > 0 => {
            cx.emit(Op::Gather, vec![Some(table), Some(indices)], shape)
        }
        _ if shape.contains(&0) || own[axis] == 0 => Err(NodeProblem::shape(format!(
            "indices of shape {of_indices:?} choose from an axis of {} entries",
            own[axis]
        ))),
        constant => table(cx, constant, indices, axis),
    }
}

/// Entries of a constant of any shape: its other axes are the columns of a table. Integers are looked up as floats.
fn table(
    cx: &mut Context<'_, '_>,
    constant: Operand,
    indices: ValueId,
    axis: usize,
) -> Result<Vec<Operand>, NodeProblem> {
    let (kind, own, rank) = (constant.kind(), cx.shape_of(&constant), cx.shape(indices).len());
    let mut shape = cx.shape(indices);
    let mut steps = Steps::new(cx);
    let mut table = constant;
    if let Operand::Integer(_, array) = &table {
        if let Some(&given) = array.data.iter().find(|value| value.unsigned_abs() > 1 << 24) {
            return Err(NodeProblem::unsupported(format!(
                "computed indices choose from integers of which one is {given}, beyond 2^24; cut the model before this node"
            )));
        }
        table = steps.apply("Cast", &[&table], vec![int("to", DataType::Float as i64)])?;
    }
    if axis > 0 {
        let others = (0..own.len()).filter(|&other| other != axis);
        let perm: Vec<usize> = [axis].into_iter().chain(others).collect();
        table = steps.turned(&table, &perm)?;
    }
    let width = own.iter().product::<usize>() / own[axis];
    let table = steps.shaped(&table, &[own[axis], width])?;
    let indices = Operand::Whole(DataType::Int64, indices);
    let rows = steps.apply("Gather", &[&table, &indices], vec![])?;
    shape.extend((0..own.len()).filter(|&other| other != axis).map(|other| own[other]));
    let mut made = steps.shaped(&rows, &shape)?;
    if axis > 0 {
        let perm: Vec<usize> =
            (rank..rank + axis).chain(0..rank).chain(rank + axis..shape.len()).collect();
        made = steps.turned(&made, &perm)?;
    }
    match is_float(kind) {
        true => Ok(vec![made]),
        false => Ok(vec![steps.apply("Cast", &[&made], vec![int("to", kind as i64)])?]),
    }
}

/// A part of an axis, as a node that serves this one; folded where the value is constant.
pub(super) fn part(
    cx: &mut Context<'_, '_>,
    suffix: &str,
    value: ValueId,
    axis: usize,
    range: Range<usize>,
) -> Result<ValueId, NodeProblem> {
    let mut shape = cx.shape(value);
    if range == (0..shape[axis]) {
        return Ok(value);
    }
    shape[axis] = range.len();
    let (mut starts, steps) = (vec![0; shape.len()], vec![1; shape.len()]);
    starts[axis] = range.start;
    let movement = Movement::Slice { starts: &starts, steps: &steps, extents: shape.clone() };
    let name = format!("{}/{suffix}", cx.name);
    if let Some(folded) = cx.builder.moved(name, value, &movement)? {
        return Ok(folded);
    }
    let steps = vec![1; shape.len()];
    cx.helper(suffix, Op::Slice { starts, steps }, vec![Some(value)], shape)
}
