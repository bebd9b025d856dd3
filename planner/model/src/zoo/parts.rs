//! What several networks have.

use super::model::{Conv, Model, Value};

pub(super) const CLASSES: usize = 1000;

/// Variance of what enters a ReLU.
pub(super) const UNIT: f32 = 1.0;

pub(super) fn conv_relu(
    model: &mut Model,
    layer: &str,
    relu: &str,
    x: &Value,
    conv: Conv,
) -> Value {
    let y = model.conv(layer, x, conv, UNIT);
    model.relu(relu, &y)
}

pub(super) fn classifier(mut model: Model, layer: &str, x: &Value) -> Model {
    let x = model.global_average_pool("avgpool", x);
    let x = model.flatten("flatten", &x);
    let x = model.gemm(layer, &x, CLASSES, UNIT);
    model.finish(x)
}
