//! SwapAdvisor's recurrent networks with a sixteenth of their width: LSTM layers over characters, as PyTorch's exporter
//! writes them, between an embedding and a linear layer. RNN-8-8K has 8 layers, BRNN-4-8K has 4 of two directions.

use super::fill::Fill;
use super::model::{Model, Value, int, integers, ints, text};
use super::parts::UNIT;
use crate::import::onnx::AttributeProto;

/// Hidden units of a layer, and the width of what it reads.
const HIDDEN: usize = 8192 / 16;
/// Characters that are read.
const LENGTH: usize = 32;
const CHARACTERS: usize = 256;
const GATES: usize = 4;
/// About what hidden states have.
const STATE_VARIANCE: f32 = 0.1;

/// `layers` LSTM layers in `ways` directions.
pub(super) fn build(name: &str, layers: usize, ways: usize) -> Model {
    let (mut model, _) = Model::new(name, [1, 1, LENGTH]);
    model.takes_integers("input", &[1, LENGTH]);
    let table = matrix(&mut model, "embedding.weight", &[CHARACTERS, HIDDEN], 1.0);
    let x = node(&mut model, "Gather", "embedding", &[&table, "input"], vec![int("axis", 0)]);
    let perm = || vec![ints("perm", &[1, 0, 2])];
    let mut x = node(&mut model, "Transpose", "sequence", &[&x], perm());
    let (mut width, mut variance) = (HIDDEN, UNIT);
    for layer in 0..layers {
        x = lstm(&mut model, &format!("lstm.{layer}"), &x, (width, variance), ways);
        (width, variance) = (ways * HIDDEN, STATE_VARIANCE);
    }
    let x = node(&mut model, "Transpose", "characters", &[&x], perm());
    let std = (UNIT / (width as f32 * variance)).sqrt();
    let weight = matrix(&mut model, "linear.weight", &[width, CHARACTERS], std);
    let bias = matrix(&mut model, "linear.bias", &[CHARACTERS], 0.1);
    model.count(0, (LENGTH * width * CHARACTERS) as u64);
    let x = node(&mut model, "MatMul", "linear.MatMul", &[&x, &weight], vec![]);
    let x = node(&mut model, "Add", "linear.Add", &[&x, &bias], vec![]);
    model.finish(Value { name: x, shape: vec![LENGTH, CHARACTERS], mean: 0.0, variance: UNIT })
}

fn node(
    model: &mut Model,
    op: &str,
    name: &str,
    inputs: &[&str],
    attributes: Vec<AttributeProto>,
) -> String {
    model.node(op, name, inputs.iter().map(|input| (*input).to_string()).collect(), attributes);
    name.to_string()
}

fn matrix(model: &mut Model, name: &str, dims: &[usize], std: f32) -> String {
    model.count(dims.iter().product(), 0);
    model.initializer(name, dims.to_vec(), Fill::Normal { std })
}

/// One layer over `[time, 1, width]`; its directions are joined in the last axis.
fn lstm(
    model: &mut Model,
    path: &str,
    x: &str,
    (width, variance): (usize, f32),
    ways: usize,
) -> String {
    let at = |part: &str| format!("{path}.{part}");
    let rows = GATES * HIDDEN;
    let std = (UNIT / (width as f32 * variance)).sqrt();
    let given = matrix(model, &at("weight_ih"), &[ways, rows, width], std);
    // Small enough that what is rounded differently does not grow from one time to the next.
    let std = 0.5 / (HIDDEN as f32).sqrt();
    let own = matrix(model, &at("weight_hh"), &[ways, rows, HIDDEN], std);
    let bias = matrix(model, &at("bias"), &[ways, 2 * rows], 0.1);
    model.count(0, (LENGTH * ways * rows * (width + HIDDEN)) as u64);
    let direction = if ways == 2 { "bidirectional" } else { "forward" };
    let attributes = vec![int("hidden_size", HIDDEN), text("direction", direction)];
    let y = node(model, "LSTM", &at("LSTM"), &[x, &given, &own, &bias], attributes);
    let y = node(model, "Transpose", &at("ways"), &[&y], vec![ints("perm", &[0, 2, 1, 3])]);
    let shape = [LENGTH as i64, 1, (ways * HIDDEN) as i64];
    let constant = vec![integers("value", &[3], &shape)];
    let shape = node(model, "Constant", &at("shape"), &[], constant);
    node(model, "Reshape", &at("joined"), &[&y, &shape], vec![])
}
