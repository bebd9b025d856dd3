//! Products of matrices.

use super::super::array::broadcast;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::compose::{Steps, int};
use crate::graph::{Op, ValueId};

pub(super) fn gemm(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (a, b) = (cx.float(0, "a")?, cx.float(1, "b")?);
    let c = cx.optional_float(2, "c")?;
    let attributes = cx.attributes();
    let (trans_a, trans_b) = (attributes.flag("transA", false)?, attributes.flag("transB", false)?);
    let (left, right) = (cx.shape(a), cx.shape(b));
    let misfit = || {
        NodeProblem::shape(format!(
            "matrices of shapes {left:?}{} and {right:?}{} cannot be multiplied",
            if trans_a { " (transposed)" } else { "" },
            if trans_b { " (transposed)" } else { "" },
        ))
    };
    let (&[a0, a1], &[b0, b1]) = (&left[..], &right[..]) else { return Err(misfit()) };
    let (rows, inner) = if trans_a { (a1, a0) } else { (a0, a1) };
    let (other, columns) = if trans_b { (b1, b0) } else { (b0, b1) };
    if inner != other || inner == 0 {
        return Err(misfit());
    }
    let shape = vec![rows, columns];
    if let Some(c) = c
        && broadcast(&cx.shape(c), &shape).as_ref() != Some(&shape)
    {
        return Err(NodeProblem::shape(format!(
            "`c` of shape {:?} does not broadcast to {shape:?}",
            cx.shape(c)
        )));
    }
    let alpha = attributes.float_or("alpha", 1.0)?;
    let beta = attributes.float_or("beta", 1.0)?;
    cx.emit(Op::Gemm { alpha, beta, trans_a, trans_b }, vec![Some(a), Some(b), c], shape)
}

/// `MatMul`; one-dimensional operands become matrices, and the result loses that dimension.
pub(super) fn matmul(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let (mut a, mut b) = (cx.float(0, "a")?, cx.float(1, "b")?);
    let (mut left, mut right) = (cx.shape(a), cx.shape(b));
    let misfit = NodeProblem::shape(format!(
        "tensors of shapes {left:?} and {right:?} cannot be multiplied"
    ));
    if let Some(made) = by_matrix(cx, a, b)? {
        return Ok(vec![made]);
    }
    let (row, column) = (left.len() == 1, right.len() == 1);
    if left.is_empty() || right.is_empty() || left.last() == Some(&0) {
        return Err(misfit);
    }
    if row {
        left.insert(0, 1);
        a = cx.helper("row", Op::Reshape, vec![Some(a)], left.clone())?;
    }
    if column {
        right.push(1);
        b = cx.helper("column", Op::Reshape, vec![Some(b)], right.clone())?;
    }
    let (l, r) = (left.len() - 2, right.len() - 2);
    let batch = broadcast(&left[..l], &right[..r]);
    let (Some(mut shape), true) = (batch, left[l + 1] == right[r]) else { return Err(misfit) };
    shape.extend([left[l], right[r + 1]]);
    let inputs = vec![Some(a), Some(b)];
    if !row && !column {
        return cx.emit(Op::MatMul, inputs, shape);
    }
    let product = cx.helper("matrix", Op::MatMul, inputs, shape.clone())?;
    if column {
        shape.pop();
    }
    if row {
        shape.remove(shape.len() - 1 - usize::from(!column));
    }
    cx.emit(Op::Reshape, vec![Some(product)], shape)
}

/// Products that one with a constant of several matrices may become.
const MOST_MATRICES: usize = 256;

/// The product of what flows with a constant of several matrices, as one product for each; `None` of others.
fn by_matrix(
    cx: &mut Context<'_, '_>,
    a: ValueId,
    b: ValueId,
) -> Result<Option<Operand>, NodeProblem> {
    let constant = |value: ValueId| cx.builder.graph.values[value].constant.is_some();
    let matrix = match (constant(a), constant(b)) {
        (true, false) => cx.shape(a),
        (false, true) => cx.shape(b),
        _ => return Ok(None),
    };
    let batch = &matrix[..matrix.len().saturating_sub(2)];
    let count: usize = batch.iter().product();
    let (left, right) = (cx.shape(a), cx.shape(b));
    let fits = left.len() >= 2 && right.len() >= 2 && !left.contains(&0) && !right.contains(&0);
    if count <= 1
        || !fits
        || broadcast(&left[..left.len() - 2], &right[..right.len() - 2]).is_none()
    {
        return Ok(None);
    }
    if count > MOST_MATRICES {
        return Err(NodeProblem::unsupported(format!(
            "its constant has {count} matrices, at most {MOST_MATRICES} are multiplied one by one; cut the model \
             before this node (--until)"
        )));
    }
    let kind = cx.kind();
    let operands = [Operand::Float(kind, a), Operand::Float(kind, b)];
    one_by_one(cx, "product", operands, constant(a)).map(Some)
}

/// Splits both operands along the first axis along which the constant one has several matrices.
fn one_by_one(
    cx: &mut Context<'_, '_>,
    name: &str,
    [a, b]: [Operand; 2],
    constant_first: bool,
) -> Result<Operand, NodeProblem> {
    let shapes = [cx.shape_of(&a), cx.shape_of(&b)];
    let matrix = &shapes[usize::from(!constant_first)];
    let batch = matrix.len() - 2;
    let Some(at) = matrix[..batch].iter().position(|&extent| extent > 1) else {
        // One matrix.
        let flat = &matrix[batch..].to_vec();
        let inputs = match constant_first {
            true => vec![cx.shaped(&format!("{name}/matrix"), a, flat)?, b],
            false => vec![a, cx.shaped(&format!("{name}/matrix"), b, flat)?],
        };
        return cx.serve(name, "MatMul", inputs, vec![]);
    };
    // The axis as both operands count it, from the last.
    let from_last = matrix.len() - at;
    let extent = matrix[at];
    let rank = shapes[0].len().max(shapes[1].len());
    let mut parts = Vec::with_capacity(extent);
    for index in 0..extent {
        let mut part = |operand: &Operand, shape: &[usize], suffix: &str| match shape
            .len()
            .checked_sub(from_last)
        {
            Some(axis) if shape[axis] > 1 => {
                cx.chosen(&format!("{name}/{index}/{suffix}"), operand.clone(), axis, &[index])
            }
            _ => Ok(operand.clone()),
        };
        let pair = [part(&a, &shapes[0], "a")?, part(&b, &shapes[1], "b")?];
        let made = one_by_one(cx, &format!("{name}/{index}"), pair, constant_first)?;
        // What flows may have fewer axes than the constant.
        let mut shape = cx.shape_of(&made);
        while shape.len() < rank {
            shape.insert(0, 1);
        }
        parts.push(cx.shaped(&format!("{name}/{index}/shaped"), made, &shape)?);
    }
    cx.serve(name, "Concat", parts, vec![int("axis", (rank - from_last) as i64)])
}

/// The largest matrix whose determinant is computed, by products of all its minors.
const LARGEST_DETERMINANT: usize = 4;

/// Determinants of small matrices.
pub(super) fn determinant(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "X")?;
    let shape = cx.shape(x);
    let (outer, size) = match &shape[..] {
        [outer @ .., rows, columns] if rows == columns => (outer.to_vec(), *rows),
        _ => {
            return Err(NodeProblem::shape(format!(
                "the shape {shape:?} is not of square matrices"
            )));
        }
    };
    if size == 0 || size > LARGEST_DETERMINANT {
        return Err(NodeProblem::unsupported(format!(
            "matrices of {size} rows are, at most {LARGEST_DETERMINANT} are computed; cut the model before it (--until)"
        )));
    }
    let axis = outer.len();
    let mut steps = Steps::new(cx);
    let mut rows = vec![];
    for row in 0..size {
        let line = steps.slice(x, axis, [row, 1, 1])?;
        let entries = (0..size).map(|column| steps.slice(line, axis + 1, [column, 1, 1]));
        rows.push(entries.collect::<Result<Vec<ValueId>, _>>()?);
    }
    let made = expanded(&mut steps, &rows, &(0..size).collect::<Vec<_>>())?;
    let made = steps.node(Op::Reshape, &[made], outer)?;
    steps.done(made)
}

/// The determinant of the last rows and these columns, by the entries of the first of those rows.
fn expanded(
    steps: &mut Steps<'_, '_, '_>,
    rows: &[Vec<ValueId>],
    columns: &[usize],
) -> Result<ValueId, NodeProblem> {
    let mut total = None;
    for (at, &column) in columns.iter().enumerate() {
        let entry = rows[rows.len() - columns.len()][column];
        let others: Vec<usize> = columns.iter().copied().filter(|&other| other != column).collect();
        let term = match others.is_empty() {
            true => entry,
            false => {
                let minor = expanded(steps, rows, &others)?;
                steps.pair(Op::Mul, entry, minor)?
            }
        };
        let sign = if at % 2 == 0 { Op::Add } else { Op::Sub };
        total = Some(match total {
            None => term,
            Some(total) => steps.pair(sign, total, term)?,
        });
    }
    total.ok_or_else(|| NodeProblem::shape("a matrix has no rows"))
}
