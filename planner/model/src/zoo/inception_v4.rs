//! Inception v4 (Szegedy et al. 2016), layer by layer.

use super::inception::{AVERAGE, Branch, POOL, branch};
use super::model::{Conv, Model, Value};
use super::parts::classifier;

const ROW: [usize; 2] = [1, 7];
const COLUMN: [usize; 2] = [7, 1];

/// 3x3 that halves the side.
fn halving(channels: usize) -> Conv {
    Conv::new(channels, 3).stride(2).pad(0)
}

fn one(channels: usize) -> Conv {
    Conv::new(channels, 1)
}

fn three(channels: usize) -> Conv {
    Conv::new(channels, 3)
}

pub(super) fn build(name: &str) -> Model {
    let (mut model, x) = Model::new(name, [3, 299, 299]);
    let mut x = stem(&mut model, &x);
    for block in 0..4 {
        x = a(&mut model, &format!("inception_a.{block}"), &x);
    }
    x = reduction_a(&mut model, &x);
    for block in 0..7 {
        x = b(&mut model, &format!("inception_b.{block}"), &x);
    }
    x = reduction_b(&mut model, &x);
    for block in 0..3 {
        x = c(&mut model, &format!("inception_c.{block}"), &x);
    }
    classifier(model, "last_linear", &x)
}

/// Convolutions one after the other, numbered.
fn chain(model: &mut Model, path: &str, x: &Value, convs: &[Conv]) -> Value {
    let names: Vec<String> = (0..convs.len()).map(|at| at.to_string()).collect();
    let convs: Vec<(&str, Conv)> =
        names.iter().map(String::as_str).zip(convs.iter().copied()).collect();
    let convs: Branch<'_> = &convs;
    branch(model, path, x, convs)
}

/// Chains side by side, and what else there is.
fn join(model: &mut Model, path: &str, x: &Value, chains: &[&[Conv]], other: &[Value]) -> Value {
    let mut parts = vec![];
    for (at, convs) in chains.iter().enumerate() {
        parts.push(chain(model, &format!("{path}.branch{at}"), x, convs));
    }
    model.concat(path, &parts.iter().chain(other).collect::<Vec<_>>())
}

fn stem(model: &mut Model, x: &Value) -> Value {
    let start = [halving(32), Conv::new(32, 3).pad(0), three(64)];
    let x = chain(model, "stem", x, &start);
    let pool = model.max_pool("mixed_3a.pool", &x, POOL);
    let x = join(model, "mixed_3a", &x, &[&[halving(96)]], &[pool]);
    let valid = Conv::new(96, 3).pad(0);
    let long = [one(64), Conv::of(64, ROW), Conv::of(64, COLUMN), valid];
    let x = join(model, "mixed_4a", &x, &[&[one(64), valid], &long], &[]);
    let pool = model.max_pool("mixed_5a.pool", &x, POOL);
    join(model, "mixed_5a", &x, &[&[halving(192)]], &[pool])
}

/// The mean around each place, and a convolution of it.
fn pooled(model: &mut Model, path: &str, x: &Value, channels: usize) -> Value {
    let mean = model.average_pool(&format!("{path}.avg_pool"), x, AVERAGE);
    chain(model, &format!("{path}.branch_pool"), &mean, &[one(channels)])
}

fn a(model: &mut Model, path: &str, x: &Value) -> Value {
    let pool = pooled(model, path, x, 96);
    let chains: [&[Conv]; 3] =
        [&[one(96)], &[one(64), three(96)], &[one(64), three(96), three(96)]];
    join(model, path, x, &chains, &[pool])
}

fn reduction_a(model: &mut Model, x: &Value) -> Value {
    let pool = model.max_pool("reduction_a.pool", x, POOL);
    let chains: [&[Conv]; 2] = [&[halving(384)], &[one(192), three(224), halving(256)]];
    join(model, "reduction_a", x, &chains, &[pool])
}

fn b(model: &mut Model, path: &str, x: &Value) -> Value {
    let pool = pooled(model, path, x, 128);
    let short = [one(192), Conv::of(224, ROW), Conv::of(256, COLUMN)];
    let long = [
        one(192),
        Conv::of(192, COLUMN),
        Conv::of(224, ROW),
        Conv::of(224, COLUMN),
        Conv::of(256, ROW),
    ];
    join(model, path, x, &[&[one(384)], &short, &long], &[pool])
}

fn reduction_b(model: &mut Model, x: &Value) -> Value {
    let pool = model.max_pool("reduction_b.pool", x, POOL);
    let long = [one(256), Conv::of(256, ROW), Conv::of(320, COLUMN), halving(320)];
    join(model, "reduction_b", x, &[&[one(192), halving(192)], &long], &[pool])
}

fn c(model: &mut Model, path: &str, x: &Value) -> Value {
    let pool = pooled(model, path, x, 256);
    let start = chain(model, &format!("{path}.branch1"), x, &[one(384)]);
    let short = fork(model, &format!("{path}.branch1.fork"), &start);
    let start = [one(384), Conv::of(448, COLUMN_3), Conv::of(512, ROW_3)];
    let start = chain(model, &format!("{path}.branch2"), x, &start);
    let long = fork(model, &format!("{path}.branch2.fork"), &start);
    join(model, path, x, &[&[one(256)]], &[short, long, pool])
}

const ROW_3: [usize; 2] = [1, 3];
const COLUMN_3: [usize; 2] = [3, 1];

/// A row and a column side by side.
fn fork(model: &mut Model, path: &str, x: &Value) -> Value {
    join(model, path, x, &[&[Conv::of(256, ROW_3)], &[Conv::of(256, COLUMN_3)]], &[])
}
