//! What several networks have.

use super::model::{Conv, Model, Pool, Value};

pub(super) const IMAGE: [usize; 3] = [3, 224, 224];
pub(super) const CLASSES: usize = 1000;

/// Variance of what enters a ReLU.
pub(super) const UNIT: f32 = 1.0;

pub(super) const POOL_2: Pool = Pool { kernel: 2, stride: 2, pad: 0, ceil: false };
pub(super) const POOL_3_PADDED: Pool = Pool { kernel: 3, stride: 2, pad: 1, ceil: false };

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
