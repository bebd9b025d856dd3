//! Interpolation: enlargement by whole factors to the nearest element.
//!
//! Each axis that grows gets another of extent 1 behind it, which is repeated and joined to it.

use super::super::builder::Operand;
use super::super::context::{Context, axis};
use super::super::error::NodeProblem;
use crate::graph::Op;

/// What to do about interpolation that is not done.
const ADVICE: &str = "only enlargement by whole factors to the nearest element is; export another mode, or cut the model here";

pub(super) fn resize(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    nearest(cx)?;
    let x = cx.float(0, "x")?;
    let shape = cx.shape(x);
    let factors = factors(cx, &shape)?;
    if factors.iter().all(|&factor| factor == 1) {
        return Ok(vec![cx.input(0, "x")?]);
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
    let apart = cx.helper("apart", Op::Reshape, vec![Some(x)], apart)?;
    let repeated = cx.helper("repeated", Op::Expand, vec![Some(apart)], repeated)?;
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
    let on = match cx.attributes().ints("axes")? {
        Some(given) => given.iter().map(|&one| axis(one, shape.len())).collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect::<Vec<usize>>(),
    };
    let scales = match cx.optional_weights(at, "scales")? {
        Some(value) => cx.builder.array(value)?.filter(|array| !array.data.is_empty()),
        None => None,
    };
    let given: Vec<f64> = match (scales, cx.optional_integers(3, "sizes")?) {
        (Some(scales), _) => scales.data,
        (None, Some(sizes)) => {
            let sizes = sizes.data.iter().zip(&on);
            let scales = sizes.map(|(&size, &axis)| size as f64 / shape[axis] as f64).collect();
            of_policy(cx, scales)?
        }
        (None, None) => return Err(NodeProblem::Missing { index: at, role: "scales" }),
    };
    if given.len() != on.len() {
        let what = format!("{} factors do not fit {} axes", given.len(), on.len());
        return Err(NodeProblem::shape(what));
    }
    let mut factors = vec![1; shape.len()];
    for (&axis, &scale) in on.iter().zip(&given) {
        if !(scale >= 1.0 && scale.fract() == 0.0 && scale < 1e6) {
            return Err(NodeProblem::unsupported(format!("factors {given:?}: {ADVICE}")));
        }
        factors[axis] = scale as usize;
    }
    Ok(factors)
}

/// The factors that sizes mean: their own, or for all axes the least or the largest of them.
fn of_policy(cx: &Context<'_, '_>, scales: Vec<f64>) -> Result<Vec<f64>, NodeProblem> {
    let scale = match cx.attributes().string("keep_aspect_ratio_policy")?.unwrap_or("stretch") {
        "stretch" => return Ok(scales),
        "not_larger" => scales.iter().copied().fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.iter().copied().fold(0.0, f64::max),
        other => {
            let reason = format!("is `{other}`, expected stretch, not_larger or not_smaller");
            return Err(NodeProblem::attribute("keep_aspect_ratio_policy", reason));
        }
    };
    Ok(vec![scale; scales.len()])
}
