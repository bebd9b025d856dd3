//! Operators that move elements and compute none: reshaping, transposition, joining.
//!
//! Each works on flowing floats (a node), constant floats (folded by the builder) and integers.

use super::super::array::{Array, Movement, elements};
use super::super::builder::{MOST_LISTED, Operand};
use super::super::context::{Context, axes, axis};
use super::super::error::NodeProblem;
use super::elementwise::{Operands, operands};
use super::flowing::refused;
use crate::graph::Op;

/// Gives an operand another shape of as many elements.
fn reshaped(
    cx: &mut Context<'_, '_>,
    operand: Operand,
    shape: Vec<usize>,
) -> Result<Vec<Operand>, NodeProblem> {
    let own = cx.shape_of(&operand);
    if own == shape {
        return Ok(vec![operand]);
    }
    if elements(&own) != elements(&shape) {
        return Err(NodeProblem::shape(format!(
            "a tensor of shape {own:?} cannot take the shape {shape:?}"
        )));
    }
    match operand {
        Operand::Float(_, value) => cx.emit(Op::Reshape, vec![Some(value)], shape),
        Operand::Whole(kind, _) => Err(refused(kind)),
        Operand::Integer(kind, array) => {
            cx.charge(&shape)?;
            Ok(vec![Operand::integers(kind, array.reshape(shape))])
        }
    }
}

pub(super) fn reshape(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let wanted = cx.few(1, "shape")?;
    let own = cx.shape_of(&data);
    let allow_zero = cx.attributes().flag("allowzero", false)?;
    let misfit = || {
        NodeProblem::shape(format!(
            "a tensor of shape {own:?} cannot take the shape {:?}",
            wanted.data
        ))
    };
    let mut open = None;
    let mut shape = Vec::with_capacity(wanted.data.len());
    for (at, &extent) in wanted.data.iter().enumerate() {
        shape.push(match extent {
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            0 if !allow_zero => *own.get(at).ok_or_else(misfit)?,
            extent => usize::try_from(extent).map_err(|_| misfit())?,
        });
    }
    if let Some(open) = open {
        let known = elements(&shape).filter(|&known| known > 0).ok_or_else(misfit)?;
        let count = elements(&own).ok_or_else(misfit)?;
        if count % known != 0 {
            return Err(misfit());
        }
        shape[open] = count / known;
    }
    reshaped(cx, data, shape)
}

pub(super) fn flatten(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "input")?;
    let shape = cx.shape_of(&data);
    let given = cx.attributes().int_or("axis", 1)?;
    let at = if given == shape.len() as i64 { shape.len() } else { axis(given, shape.len())? };
    let flat = vec![shape[..at].iter().product(), shape[at..].iter().product()];
    reshaped(cx, data, flat)
}

/// Axes from the attribute, or from opset 13 on from input 1.
fn given_axes(cx: &Context<'_, '_>) -> Result<Option<Vec<i64>>, NodeProblem> {
    Ok(match cx.opset < 13 {
        true => cx.attributes().ints("axes")?.map(<[i64]>::to_vec),
        false => cx.optional_integers(1, "axes")?.map(|axes| axes.data.clone()),
    })
}

pub(super) fn squeeze(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let shape = cx.shape_of(&data);
    let dropped = match given_axes(cx)? {
        Some(given) => axes(&given, shape.len())?,
        None => (0..shape.len()).filter(|&axis| shape[axis] == 1).collect(),
    };
    if let Some(&axis) = dropped.iter().find(|&&axis| shape[axis] != 1) {
        return Err(NodeProblem::shape(format!(
            "axis {axis} of shape {shape:?} has the extent {}, only 1 can be dropped",
            shape[axis]
        )));
    }
    let left = (0..shape.len()).filter(|axis| !dropped.contains(axis));
    let left = left.map(|axis| shape[axis]).collect();
    reshaped(cx, data, left)
}

pub(super) fn unsqueeze(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let mut shape = cx.shape_of(&data);
    let given = given_axes(cx)?.ok_or(NodeProblem::Missing { index: 1, role: "axes" })?;
    if given.len() > MOST_LISTED {
        return Err(NodeProblem::shape(format!("{} axes are added", given.len())));
    }
    for at in axes(&given, shape.len() + given.len())? {
        shape.insert(at, 1);
    }
    reshaped(cx, data, shape)
}

pub(super) fn transpose(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let data = cx.input(0, "data")?;
    let shape = cx.shape_of(&data);
    let rank = shape.len();
    let perm: Vec<usize> = match cx.attributes().ints("perm")? {
        None => (0..rank).rev().collect(),
        Some(given) => {
            if axes(given, rank)?.len() != rank {
                return Err(NodeProblem::attribute(
                    "perm",
                    format!("is {given:?}, but the tensor has rank {rank}"),
                ));
            }
            given.iter().map(|&one| axis(one, rank)).collect::<Result<_, _>>()?
        }
    };
    if perm.iter().copied().eq(0..rank) {
        return Ok(vec![data]);
    }
    let moved: Vec<usize> = perm.iter().map(|&axis| shape[axis]).collect();
    if let Some(folded) = cx.moved(0, &data, &Movement::Transpose(&perm), &moved)? {
        return Ok(vec![folded]);
    }
    let Operand::Float(_, value) = data else { return Err(refused(data.kind())) };
    cx.emit(Op::Transpose { perm }, vec![Some(value)], moved)
}

pub(super) fn concat(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let count = cx.inputs.len();
    let parts: Vec<Operand> =
        (0..count).map(|index| cx.input(index, "inputs")).collect::<Result<_, _>>()?;
    let [first, ..] = &parts[..] else {
        return Err(NodeProblem::Missing { index: 0, role: "inputs" });
    };
    let mut shape = cx.shape_of(first);
    let given = cx.attributes().int("axis")?;
    let given = given.ok_or_else(|| NodeProblem::attribute("axis", "is missing"))?;
    let axis = axis(given, shape.len())?;
    for part in &parts[1..] {
        let other = cx.shape_of(part);
        let fits = other.len() == shape.len()
            && (0..shape.len()).all(|at| at == axis || shape[at] == other[at]);
        if !fits {
            return Err(NodeProblem::shape(format!(
                "shapes {shape:?} and {other:?} cannot be joined along axis {axis}"
            )));
        }
        shape[axis] = shape[axis].saturating_add(other[axis]);
    }
    if count == 1 {
        return Ok(parts);
    }
    match operands(cx, 0, "inputs")? {
        Operands::Floats(_, values) => {
            cx.emit(Op::Concat { axis }, values.into_iter().map(Some).collect(), shape)
        }
        Operands::Integers(kind, arrays) => {
            cx.charge(&shape)?;
            let arrays: Vec<&Array<i64>> = arrays.iter().map(|array| &**array).collect();
            Ok(vec![Operand::integers(kind, Array::concat(&arrays, axis, shape))])
        }
    }
}
