//! Darknet's activations, as operators.

use crate::graph::Op;

/// Steepness of SELU above 0, and its factor below.
const SELU: (f32, f32) = (1.050_701, 1.050_701 * 1.673_263_2);

/// The names that are supported.
pub(super) const NAMES: &[&str] = &[
    "linear", "relu", "leaky", "mish", "logistic", "swish", "relu6", "relie", "hardtan", "tanh",
    "elu", "selu", "gelu",
];

/// The operator of an activation, none of a linear one; `None` of an unknown name.
pub(super) fn of(name: &str) -> Option<Option<Op>> {
    Some(Some(match name {
        "linear" => return Some(None),
        "relu" => Op::Clip { min: 0.0, max: f32::INFINITY },
        "relu6" => Op::Clip { min: 0.0, max: 6.0 },
        "hardtan" => Op::Clip { min: -1.0, max: 1.0 },
        "leaky" => Op::LeakyRelu { alpha: 0.1 },
        "relie" => Op::LeakyRelu { alpha: 0.01 },
        "mish" => Op::Mish,
        "logistic" => Op::Sigmoid,
        "swish" => Op::Swish { alpha: 1.0 },
        "tanh" => Op::Tanh,
        "elu" => Op::Elu { alpha: 1.0, beta: 1.0 },
        "selu" => Op::Elu { alpha: SELU.1, beta: SELU.0 },
        "gelu" => Op::Gelu { tanh: true },
        _ => return None,
    }))
}
