//! Elementwise functions. (Leaky ReLU only so far: enough to test how convolutions call it.)

use crate::pack::{Activation, ActivationKind};

/// Applies an activation to every element.
pub fn apply(activation: &Activation, data: &mut [f32]) {
    if activation.function() == Some(ActivationKind::LeakyRelu) {
        for x in data {
            if *x < 0.0 {
                *x *= activation.alpha;
            }
        }
    }
}
