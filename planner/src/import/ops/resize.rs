//! Interpolation: enlargement by whole factors to the nearest element.
//!
//! Each axis that grows gets another of extent 1 behind it, which is repeated and joined to it.

use super::super::builder::{Context, Operand};
use super::super::error::NodeProblem;
use crate::graph::Op;

/// What to do about interpolation that is not done.
const ADVICE: &str = "only enlargement by whole factors to the nearest element is; export another mode, or cut the model here";

pub(super) fn resize(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    nearest(cx)?;
    let factors = factors(cx, &shape)?;
    if factors.iter().all(|&factor| factor == 1) {
        return Ok(vec![Operand::Float(x)]);
    }
    let (mut apart, mut repeated, mut result) = (vec![], vec![], vec![]);
    for (&extent, &factor) in shape.iter().zip(&factors) {
        apart.push(extent);
        repeated.push(extent);
        if factor > 1 {
            apart.push(1);
            repeated.push(factor);
        }
        let whole = extent.checked_mul(factor);
        result.push(whole.ok_or_else(|| NodeProblem::shape("the result has too many elements"))?);
    }
    let apart = cx.helper("apart", Op::Reshape, x, apart)?;
    let repeated = cx.helper("repeated", Op::Expand, apart, repeated)?;
    cx.emit(Op::Reshape, vec![Some(repeated)], result)
}

/// Refuses what does not take element i/factor, rounded down, for element i.
fn nearest(cx: &Context<'_, '_>) -> Result<(), NodeProblem> {
    let attributes = cx.attributes();
    let text = |name, default: &str| -> Result<String, NodeProblem> {
        Ok(attributes.string(name)?.unwrap_or(default).to_string())
    };
    let mode = text("mode", "nearest")?;
    let old = cx.opset < 11;
    let place =
        text("coordinate_transformation_mode", if old { "asymmetric" } else { "half_pixel" })?;
    let round = text("nearest_mode", if old { "floor" } else { "round_prefer_floor" })?;
    let exact = match place.as_str() {
        "asymmetric" => round == "floor",
        "half_pixel" | "pytorch_half_pixel" => round.starts_with("round_prefer"),
        _ => false,
    };
    match mode == "nearest" && exact {
        true => Ok(()),
        false => Err(NodeProblem::unsupported(format!("{mode}, {place}, {round}: {ADVICE}"))),
    }
}

/// The factor of each axis, from the scales or the sizes.
fn factors(cx: &mut Context<'_, '_>, shape: &[usize]) -> Result<Vec<usize>, NodeProblem> {
    let at = if cx.opset < 11 { 1 } else { 2 };
    let scales = match cx.optional_weights(at, "scales")? {
        Some(value) => cx.builder.array(value)?.filter(|array| !array.data.is_empty()),
        None => None,
    };
    let scales: Vec<f64> = match (scales, cx.optional_integers(3, "sizes")?) {
        (Some(scales), _) => scales.data.into_iter().map(f64::from).collect(),
        (None, Some(sizes)) => {
            let sizes = sizes.data.iter().zip(shape);
            sizes.map(|(&size, &extent)| size as f64 / extent as f64).collect()
        }
        (None, None) => return Err(NodeProblem::Missing { index: at, role: "scales" }),
    };
    if scales.len() != shape.len() || cx.attributes().ints("axes")?.is_some() {
        return Err(NodeProblem::unsupported(format!("factors of some axes only: {ADVICE}")));
    }
    let whole = |&scale: &f64| {
        (scale >= 1.0 && scale.fract() == 0.0 && scale < 1e6).then_some(scale as usize)
    };
    let factors = scales.iter().map(whole).collect::<Option<_>>();
    factors.ok_or_else(|| NodeProblem::unsupported(format!("factors {scales:?}: {ADVICE}")))
}
