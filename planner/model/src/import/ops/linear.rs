//! Products of matrices.

use super::super::array::broadcast;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use crate::graph::Op;

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
