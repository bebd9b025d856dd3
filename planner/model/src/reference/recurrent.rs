//! Recurrent networks, time by time.

use super::Tensor;
use crate::graph::{Cell, Recurrence};
use eyelet::pack::{Activation, ActivationKind};

/// A function of a gate; only those that the importer gives one.
fn apply(function: &Activation, x: f64) -> f64 {
    let (alpha, beta) = (f64::from(function.alpha), f64::from(function.beta));
    match function.function() {
        None | Some(ActivationKind::None) => x,
        Some(ActivationKind::Sigmoid) => 1.0 / (1.0 + (-x).exp()),
        Some(ActivationKind::Tanh) => x.tanh(),
        Some(ActivationKind::Clamp) => x.max(alpha).min(beta),
        Some(ActivationKind::LeakyRelu) if x >= 0.0 => x,
        Some(ActivationKind::LeakyRelu) => alpha * x,
        Some(ActivationKind::HardSigmoid) => (alpha * x + beta).clamp(0.0, 1.0),
        Some(other) => panic!("{other:?} is no function of a gate"),
    }
}

pub(super) fn recurrent(of: &Recurrence, inputs: [Option<Tensor<'_>>; 5]) -> Vec<f64> {
    let [given, weights, biases, peepholes, first] = inputs;
    let (given, weights) = (given.expect("gates"), weights.expect("weights"));
    let (times, batch) = (given.shape[0], given.shape[1]);
    let (hidden, gates, states) = (of.hidden, of.cell.gates(), of.cell.states());
    let width = states * hidden;
    let mut result = vec![0.0; times * batch * width];
    for sequence in 0..batch {
        let mut now = match first {
            Some(first) => first.data[sequence * width..][..width].to_vec(),
            None => vec![0.0; width],
        };
        for step in 0..times {
            let time = if of.reverse { times - 1 - step } else { step };
            let row = &given.data[(time * batch + sequence) * gates * hidden..][..gates * hidden];
            let peep = |gate: usize, unit: usize, c: f64| {
                peepholes.map_or(0.0, |weights| weights.data[gate * hidden + unit] * c)
            };
            now = state(of, &now, row, (weights, biases), &peep);
            result[(time * batch + sequence) * width..][..width].copy_from_slice(&now);
        }
    }
    result
}

/// The state after one time.
fn state(
    of: &Recurrence,
    before: &[f64],
    given: &[f64],
    (weights, biases): (Tensor<'_>, Option<Tensor<'_>>),
    peep: &dyn Fn(usize, usize, f64) -> f64,
) -> Vec<f64> {
    let hidden = of.hidden;
    let bound = f64::from(of.clip);
    let f = |which: usize, x: f64| apply(&of.functions[which], x.max(-bound).min(bound));
    let product = |row: usize, h: &[f64]| {
        let row_of = &weights.data[row * hidden..][..hidden];
        let sum: f64 = row_of.iter().zip(h).map(|(weight, h)| weight * h).sum();
        sum + biases.map_or(0.0, |biases| biases.data[row])
    };
    let h = &before[..hidden];
    let sum = |gate: usize, unit: usize| {
        let row = gate * hidden + unit;
        given[row] + product(row, h)
    };
    match of.cell {
        Cell::Rnn => (0..hidden).map(|unit| f(0, sum(0, unit))).collect(),
        Cell::Gru { reset_after } => {
            let r: Vec<f64> = (0..hidden).map(|unit| f(0, sum(1, unit))).collect();
            let reset: Vec<f64> = r.iter().zip(h).map(|(r, h)| r * h).collect();
            let next = |unit: usize| {
                let (z, row) = (f(0, sum(0, unit)), 2 * hidden + unit);
                let n = match reset_after {
                    true => given[row] + r[unit] * product(row, h),
                    false => given[row] + product(row, &reset),
                };
                (1.0 - z) * f(1, n) + z * h[unit]
            };
            (0..hidden).map(next).collect()
        }
        Cell::Lstm => {
            let mut after = vec![0.0; 2 * hidden];
            for unit in 0..hidden {
                let c = before[hidden + unit];
                let i = f(0, sum(0, unit) + peep(0, unit, c));
                let forget = f(0, sum(2, unit) + peep(2, unit, c));
                let c = forget * c + i * f(1, sum(3, unit));
                let o = f(0, sum(1, unit) + peep(1, unit, c));
                after[unit] = o * apply(&of.functions[2], c);
                after[hidden + unit] = c;
            }
            after
        }
    }
}
