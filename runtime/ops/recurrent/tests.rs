use super::super::testing::{Case, Random, layer};
use super::*;
use crate::kernels::testing::{assert_same, available};
use crate::ops::Slice;
use crate::pack::OpKind;
use std::prelude::rust_2024::*;
use std::vec;

/// Weights by gate, output and input unit; a bias of each gate; peepholes.
struct Weights {
    units: Vec<f32>,
    bias: Vec<f32>,
    peepholes: Vec<f32>,
}

fn function(kind: ActivationKind, alpha: f32) -> Activation {
    Activation { kind: kind as u32, alpha, beta: 0.5 }
}

fn apply(function: &Activation, x: f64) -> f64 {
    match function.function().unwrap() {
        ActivationKind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        ActivationKind::Tanh => x.tanh(),
        ActivationKind::LeakyRelu if x < 0.0 => x * f64::from(function.alpha),
        ActivationKind::LeakyRelu => x,
        // Others are not tested.
        _ => f64::NAN,
    }
}

fn pack(p: &RecurrentParams, weights: &Weights, nr: usize) -> Vec<f32> {
    let (hidden, mut packed) = (p.hidden as usize, vec![]);
    for gate in 0..p.gates() as usize {
        for first in (0..hidden).step_by(nr) {
            let of = |lane: usize, weight: &dyn Fn(usize) -> f32| {
                if first + lane < hidden { weight(first + lane) } else { 0.0 }
            };
            packed.extend((0..nr).map(|lane| of(lane, &|unit| weights.bias[gate * hidden + unit])));
            for from in 0..hidden {
                let weight = |unit: usize| weights.units[(gate * hidden + unit) * hidden + from];
                packed.extend((0..nr).map(|lane| of(lane, &weight)));
            }
        }
    }
    packed.extend(&weights.peepholes);
    packed
}

fn case(
    random: &mut Random,
    p: &RecurrentParams,
    [times, batch]: [u32; 2],
    state: bool,
) -> (Case, Weights) {
    let mut layer = layer(OpKind::Recurrent, Activation::NONE, p);
    let (gates, states) = (p.gates() * p.hidden, p.states() * p.hidden);
    let inputs = [[1, times, batch, gates], [1, 1, batch, states]];
    let inputs = if state { &inputs[..] } else { &inputs[..1] };
    let mut floats = |count: u32| (0..count).map(|_| random.float()).collect::<Vec<f32>>();
    let weights = Weights {
        units: floats(gates * p.hidden),
        bias: floats(gates),
        peepholes: floats(if p.peepholes == 1 { 3 * p.hidden } else { 0 }),
    };
    layer.panels = 1;
    layer.panel_bytes = (p.floats(8) as u32 * 4).next_multiple_of(32);
    let mut case = Case::new(layer, random, inputs, [1, times, batch, states]);
    case.weights = pack(p, &weights, 8);
    (case, weights)
}

/// By the definitions, in double precision.
fn reference(case: &Case, p: &RecurrentParams, weights: &Weights, state: bool) -> Vec<f64> {
    let [_, times, batch, width] = case.output.dims.map(|extent| extent as usize);
    let (hidden, gates) = (p.hidden as usize, p.gates() as usize);
    let mut result = vec![0.0; times * batch * width];
    for sequence in 0..batch {
        let first = |at: usize| if state { case.input(1, sequence * width + at) } else { 0.0 };
        let mut now: Vec<f64> = (0..width).map(first).collect();
        for step in 0..times {
            let time = if p.reverse == 1 { times - 1 - step } else { step };
            let given = |gate: usize, unit: usize| {
                case.input(0, (time * batch + sequence) * gates * hidden + gate * hidden + unit)
            };
            let product = |gate: usize, unit: usize, h: &dyn Fn(usize) -> f64| {
                let row = &weights.units[(gate * hidden + unit) * hidden..][..hidden];
                let sum: f64 = row.iter().enumerate().map(|(at, w)| f64::from(*w) * h(at)).sum();
                sum + f64::from(weights.bias[gate * hidden + unit])
            };
            let clipped = |x: f64| x.clamp(-f64::from(p.clip), p.clip.into());
            let f = |which: usize, x: f64| apply(&p.functions[which], clipped(x));
            let before = now.clone();
            let h = |at: usize| before[at];
            let r: Vec<f64> = (0..hidden)
                .map(
                    |unit| {
                        if gates == 3 { f(0, given(1, unit) + product(1, unit, &h)) } else { 0.0 }
                    },
                )
                .collect();
            for unit in 0..hidden {
                let sum = |gate: usize| given(gate, unit) + product(gate, unit, &h);
                let peep = |gate: usize, c: f64| match p.peepholes {
                    1 => f64::from(weights.peepholes[gate * hidden + unit]) * c,
                    _ => 0.0,
                };
                match p.cell {
                    0 => now[unit] = f(0, sum(0)),
                    1 => {
                        let z = f(0, sum(0));
                        let n = match p.reset_after {
                            1 => given(2, unit) + r[unit] * product(2, unit, &h),
                            _ => given(2, unit) + product(2, unit, &|at| r[at] * before[at]),
                        };
                        now[unit] = (1.0 - z) * f(1, n) + z * before[unit];
                    }
                    _ => {
                        let c = before[hidden + unit];
                        let (i, forget) = (f(0, sum(0) + peep(0, c)), f(0, sum(2) + peep(2, c)));
                        let c = forget * c + i * f(1, sum(3));
                        now[hidden + unit] = c;
                        let o = f(0, sum(1) + peep(1, c));
                        now[unit] = o * apply(&p.functions[2], c);
                    }
                }
            }
            result[(time * batch + sequence) * width..][..width].copy_from_slice(&now);
        }
    }
    result
}

fn cells() -> Vec<(RecurrentParams, [u32; 2], bool)> {
    use ActivationKind::{LeakyRelu, Sigmoid, Tanh};
    let functions = [function(Sigmoid, 0.0), function(Tanh, 0.0), function(Tanh, 0.0)];
    let usual = RecurrentParams { clip: f32::INFINITY, functions, ..Default::default() };
    let odd = [function(LeakyRelu, 0.1), function(Sigmoid, 0.0), function(LeakyRelu, 0.2)];
    vec![
        (
            RecurrentParams { cell: 0, hidden: 5, functions: [functions[1]; 3], ..usual },
            [4, 3],
            true,
        ),
        (
            RecurrentParams { cell: 0, hidden: 19, reverse: 1, functions: odd, clip: 1.0, ..usual },
            [3, 1],
            false,
        ),
        (RecurrentParams { cell: 1, hidden: 4, ..usual }, [5, 2], true),
        (RecurrentParams { cell: 1, hidden: 21, reset_after: 1, ..usual }, [3, 7], false),
        (RecurrentParams { cell: 1, hidden: 3, reverse: 1, clip: 0.7, ..usual }, [6, 1], true),
        (RecurrentParams { cell: 2, hidden: 3, ..usual }, [5, 2], true),
        (RecurrentParams { cell: 2, hidden: 20, peepholes: 1, clip: 1.5, ..usual }, [4, 9], false),
        (
            RecurrentParams {
                cell: 2,
                hidden: 37,
                reverse: 1,
                functions: [functions[0], odd[1], functions[1]],
                ..usual
            },
            [3, 1],
            true,
        ),
    ]
}

#[test]
fn matches_double_precision() {
    let mut random = Random::new(1);
    for (p, size, state) in cells() {
        let (case, weights) = case(&mut random, &p, size, state);
        let found = case.run_everywhere();
        let truth = reference(&case, &p, &weights, state);
        case.assert_close(&found, 2e-4, |at| truth[at]);
    }
}

/// Panels are as wide as each processor's kernels have them.
#[test]
fn every_instruction_set_gives_the_same_bits() {
    let mut random = Random::new(2);
    for (p, size, state) in cells() {
        let (mut case, weights) = case(&mut random, &p, size, state);
        let rows = case.output.rows() as u32;
        let portable = case.run(1, rows);
        for kernels in available() {
            case.weights = pack(&p, &weights, kernels.nr());
            case.layer.panel_bytes = (p.floats(kernels.nr()) as u32 * 4).next_multiple_of(32);
            let slice = Slice { first: 0, count: 1, row: 0, rows, ..Slice::default() };
            for threads in [1, 3] {
                let found = case.run_sliced(kernels, threads, &[slice], 1.0);
                assert_same(&found, &portable, kernels.isa().name());
            }
        }
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let mut random = Random::new(3);
    let (p, size, state) = cells().swap_remove(6);
    let (good, _) = case(&mut random, &p, size, state);
    assert_eq!(good.validate(), Ok(()));
    let refused = |change: fn(&mut Case)| {
        let mut case = good.clone();
        change(&mut case);
        case.validate().is_err()
    };
    assert!(refused(|case| case.layer.params[0] = 3));
    assert!(refused(|case| case.layer.params[0] = 1));
    assert!(refused(|case| case.layer.params[1] = 0));
    assert!(refused(|case| case.layer.params[1] = u32::MAX));
    assert!(refused(|case| case.layer.params[2] = 2));
    assert!(refused(|case| case.layer.params[6] = 99));
    assert!(refused(|case| case.layer.panels = 0));
    assert!(refused(|case| case.layer.panel_bytes -= 32));
    assert!(refused(|case| case.layer.inputs[0] = case.layer.output));
    assert!(refused(|case| case.output.dims[1] = 3));
    assert!(refused(|case| case.inputs[0].dims[2] = 8));
    assert!(refused(|case| case.layer.activation = Activation::RELU));
}
