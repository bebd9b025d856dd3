//! Losses: the score of the class that a target names, weighted and reduced.

use super::super::array::Array;
use super::super::builder::Operand;
use super::super::context::Context;
use super::super::error::NodeProblem;
use super::compose::{Steps, int};

/// How the losses of all samples become one.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

fn reduction(cx: &Context<'_, '_>) -> Result<Reduction, NodeProblem> {
    Ok(match cx.attributes().string("reduction")?.unwrap_or("mean") {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        other => {
            let reason = format!("is `{other}`, expected none, sum or mean");
            return Err(NodeProblem::attribute("reduction", reason));
        }
    })
}

/// `NegativeLogLikelihoodLoss`: minus the logarithm that the target names.
pub(super) fn negative_log_likelihood(
    cx: &mut Context<'_, '_>,
) -> Result<Vec<Operand>, NodeProblem> {
    let logs = cx.input(0, "input")?;
    Ok(vec![loss(&mut Steps::new(cx), &logs)?])
}

/// `SoftmaxCrossEntropyLoss`: the same of the logarithms of softmax, which are its second output.
pub(super) fn softmax_cross_entropy(cx: &mut Context<'_, '_>) -> Result<Vec<Operand>, NodeProblem> {
    let scores = cx.input(0, "scores")?;
    let mut steps = Steps::new(cx);
    let logs = steps.apply("LogSoftmax", &[&scores], vec![int("axis", 1)])?;
    Ok(vec![loss(&mut steps, &logs)?, logs])
}

/// The loss of logarithms [samples, classes, …], given targets [samples, …] and weights of classes.
fn loss(steps: &mut Steps<'_, '_, '_>, logs: &Operand) -> Result<Operand, NodeProblem> {
    let target = steps.cx.input(1, "target")?;
    let weight = steps.cx.optional_float(2, "weight")?;
    let (shape, own) = (steps.cx.shape_of(logs), steps.cx.shape_of(&target));
    let misfit = || {
        NodeProblem::shape(format!(
            "targets of shape {own:?} do not fit an input of shape {shape:?}, which has the classes second"
        ))
    };
    let &[samples, classes, ref rest @ ..] = &shape[..] else { return Err(misfit()) };
    if own != [&[samples], rest].concat() {
        return Err(misfit());
    }
    if let Some(weight) = weight
        && steps.shape(weight) != [classes]
    {
        let given = steps.shape(weight);
        return Err(NodeProblem::shape(format!(
            "`weight` has the shape {given:?}, but there are {classes} classes"
        )));
    }
    let (how, ignored) = (reduction(steps.cx)?, steps.cx.attributes().int("ignore_index")?);
    let mut column = vec![1; shape.len()];
    column[1] = classes;
    // No target is the number that stands for the ignored class.
    let numbers = (0..classes as i64).map(|class| if Some(class) == ignored { -1 } else { class });
    let line = Array { shape: column.clone(), data: numbers.collect() };
    let line = Operand::integers(target.kind(), line);
    let apart = steps.shaped(&target, &[&[samples, 1], rest].concat())?;
    let named = steps.apply("Equal", &[&apart, &line], vec![])?;
    let (kind, axes) = (logs.kind(), &[1][..]);
    let zero = steps.scalar(kind, 0.0);
    let chosen = steps.apply("Where", &[&named, logs, &zero], vec![])?;
    let chosen = steps.summed(&chosen, axes, false)?;
    let mut loss = steps.apply("Neg", &[&chosen], vec![])?;
    let weights = match weight {
        Some(weight) => Some(steps.shaped(&Operand::Float(kind, weight), &column)?),
        None if ignored.is_some() && how == Reduction::Mean => Some(steps.scalar(kind, 1.0)),
        None => None,
    };
    let weights = match weights {
        None => None,
        Some(weights) => {
            let chosen = steps.apply("Where", &[&named, &weights, &zero], vec![])?;
            Some(steps.summed(&chosen, axes, false)?)
        }
    };
    if weight.is_some()
        && let Some(weights) = &weights
    {
        loss = steps.apply("Mul", &[&loss, weights], vec![])?;
    }
    if how == Reduction::None {
        return Ok(loss);
    }
    let all: Vec<usize> = (0..own.len()).collect();
    let sum = steps.summed(&loss, &all, false)?;
    match (how, weights) {
        (Reduction::Mean, Some(weights)) => {
            let total = steps.summed(&weights, &all, false)?;
            steps.apply("Div", &[&sum, &total], vec![])
        }
        (Reduction::Mean, None) => {
            let count = steps.scalar(kind, own.iter().product::<usize>() as f64);
            steps.apply("Div", &[&sum, &count], vec![])
        }
        _ => Ok(sum),
    }
}
