//! Inception v3 (Szegedy et al. 2015), layer by layer, without the auxiliary classifier, which training alone
//! has.

use super::model::{Conv, Model, Pool, Value};
use super::parts::{classifier, conv_relu};

pub(super) const POOL: Pool = Pool { kernel: 3, stride: 2, pad: 0, ceil: false };
pub(super) const AVERAGE: Pool = Pool { kernel: 3, stride: 1, pad: 1, ceil: false };

/// One of the parallel parts of a block: convolutions, one after the other.
pub(super) type Branch<'a> = &'a [(&'a str, Conv)];

pub fn v3(name: &str) -> Model {
    let (mut model, mut x) = Model::new(name, [3, 299, 299]);
    let stem = [
        ("Conv2d_1a_3x3", Conv::new(32, 3).stride(2).pad(0)),
        ("Conv2d_2a_3x3", Conv::new(32, 3).pad(0)),
        ("Conv2d_2b_3x3", Conv::new(64, 3)),
    ];
    x = branch(&mut model, "stem", &x, &stem);
    x = model.max_pool("maxpool1", &x, POOL);
    let stem = [("Conv2d_3b_1x1", Conv::new(80, 1)), ("Conv2d_4a_3x3", Conv::new(192, 3).pad(0))];
    x = branch(&mut model, "stem", &x, &stem);
    x = model.max_pool("maxpool2", &x, POOL);
    for (path, pooled) in [("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)] {
        x = a(&mut model, path, &x, pooled);
    }
    x = b(&mut model, "Mixed_6a", &x);
    for (path, narrow) in
        [("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)]
    {
        x = c(&mut model, path, &x, narrow);
    }
    x = d(&mut model, "Mixed_7a", &x);
    for path in ["Mixed_7b", "Mixed_7c"] {
        x = e(&mut model, path, &x);
    }
    classifier(model, "fc", &x)
}

pub(super) fn branch(model: &mut Model, path: &str, x: &Value, convs: Branch<'_>) -> Value {
    convs.iter().fold(x.clone(), |x, (part, conv)| {
        let layer = format!("{path}.{part}");
        conv_relu(model, &layer, &format!("{layer}.relu"), &x, *conv)
    })
}

fn pooled(model: &mut Model, path: &str, x: &Value, channels: usize) -> Value {
    let y = model.average_pool(&format!("{path}.avg_pool"), x, AVERAGE);
    branch(model, path, &y, &[("branch_pool", Conv::new(channels, 1))])
}

fn a(model: &mut Model, path: &str, x: &Value, channels: usize) -> Value {
    let one = branch(model, path, x, &[("branch1x1", Conv::new(64, 1))]);
    let five = [("branch5x5_1", Conv::new(48, 1)), ("branch5x5_2", Conv::new(64, 5))];
    let five = branch(model, path, x, &five);
    let three = [
        ("branch3x3dbl_1", Conv::new(64, 1)),
        ("branch3x3dbl_2", Conv::new(96, 3)),
        ("branch3x3dbl_3", Conv::new(96, 3)),
    ];
    let three = branch(model, path, x, &three);
    let pool = pooled(model, path, x, channels);
    model.concat(path, &[&one, &five, &three, &pool])
}

fn b(model: &mut Model, path: &str, x: &Value) -> Value {
    let three = branch(model, path, x, &[("branch3x3", Conv::new(384, 3).stride(2).pad(0))]);
    let double = [
        ("branch3x3dbl_1", Conv::new(64, 1)),
        ("branch3x3dbl_2", Conv::new(96, 3)),
        ("branch3x3dbl_3", Conv::new(96, 3).stride(2).pad(0)),
    ];
    let double = branch(model, path, x, &double);
    let pool = model.max_pool(&format!("{path}.max_pool"), x, POOL);
    model.concat(path, &[&three, &double, &pool])
}

fn c(model: &mut Model, path: &str, x: &Value, narrow: usize) -> Value {
    let (row, column) = ([1, 7], [7, 1]);
    let one = branch(model, path, x, &[("branch1x1", Conv::new(192, 1))]);
    let seven = [
        ("branch7x7_1", Conv::new(narrow, 1)),
        ("branch7x7_2", Conv::of(narrow, row)),
        ("branch7x7_3", Conv::of(192, column)),
    ];
    let seven = branch(model, path, x, &seven);
    let double = [
        ("branch7x7dbl_1", Conv::new(narrow, 1)),
        ("branch7x7dbl_2", Conv::of(narrow, column)),
        ("branch7x7dbl_3", Conv::of(narrow, row)),
        ("branch7x7dbl_4", Conv::of(narrow, column)),
        ("branch7x7dbl_5", Conv::of(192, row)),
    ];
    let double = branch(model, path, x, &double);
    let pool = pooled(model, path, x, 192);
    model.concat(path, &[&one, &seven, &double, &pool])
}

fn d(model: &mut Model, path: &str, x: &Value) -> Value {
    let last = |channels| Conv::new(channels, 3).stride(2).pad(0);
    let three = [("branch3x3_1", Conv::new(192, 1)), ("branch3x3_2", last(320))];
    let three = branch(model, path, x, &three);
    let seven = [
        ("branch7x7x3_1", Conv::new(192, 1)),
        ("branch7x7x3_2", Conv::of(192, [1, 7])),
        ("branch7x7x3_3", Conv::of(192, [7, 1])),
        ("branch7x7x3_4", last(192)),
    ];
    let seven = branch(model, path, x, &seven);
    let pool = model.max_pool(&format!("{path}.max_pool"), x, POOL);
    model.concat(path, &[&three, &seven, &pool])
}

fn e(model: &mut Model, path: &str, x: &Value) -> Value {
    let one = branch(model, path, x, &[("branch1x1", Conv::new(320, 1))]);
    let three = branch(model, path, x, &[("branch3x3_1", Conv::new(384, 1))]);
    let three = fork(model, path, &three, "branch3x3_2");
    let double = [("branch3x3dbl_1", Conv::new(448, 1)), ("branch3x3dbl_2", Conv::new(384, 3))];
    let double = branch(model, path, x, &double);
    let double = fork(model, path, &double, "branch3x3dbl_3");
    let pool = pooled(model, path, x, 192);
    model.concat(path, &[&one, &three, &double, &pool])
}

/// A row and a column side by side.
fn fork(model: &mut Model, path: &str, x: &Value, part: &str) -> Value {
    let row = branch(model, path, x, &[(&format!("{part}a"), Conv::of(384, [1, 3]))]);
    let column = branch(model, path, x, &[(&format!("{part}b"), Conv::of(384, [3, 1]))]);
    model.concat(&format!("{path}.{part}"), &[&row, &column])
}
