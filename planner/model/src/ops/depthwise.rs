//! Convolution channel by channel, or in groups of which panels hold several; batch normalisations and
//! scales that nothing takes up are such, with one tap.

use super::builder::{Builder, input, unsupported};
use super::conv::{Conv, seen, windowed};
use super::exact;
use super::linear::{Linear, point};
use super::{Operator, PassError, Work};
use crate::graph::{Node, ValueId};
use eyelet::pack::{ConvParams, OpKind, params};

/// A window over the image, and rows of what is added.
pub(super) const ROW: Operator = Operator {
    lines: seen,
    name: |layer| windowed("Depthwise", params::<ConvParams>(layer).kernel),
    algorithm: |_| "direct".into(),
    ..Operator::new(OpKind::Depthwise)
};

impl Builder {
    pub fn batch_norm(&mut self, node: &Node, epsilon: f32) -> Result<(), PassError> {
        let (x, y) = (input(node, 0)?, node.outputs[0]);
        let mut constants = Vec::new();
        for index in 1..5 {
            let Some(data) = self.constant(input(node, index)?) else {
                return Err(unsupported(
                    node,
                    "its statistics are not constant",
                    "export in eval mode",
                ));
            };
            constants.push(data.to_vec());
        }
        let [gamma, beta, mean, variance] = &constants[..] else { return Ok(()) };
        let channels = self.shape(x).get(1).copied().unwrap_or(1);
        for data in &constants {
            if data.len() != channels {
                return Err(PassError::Mismatch {
                    node: node.name.clone(),
                    what: "the number of statistics",
                    found: data.len(),
                    expected: channels,
                });
            }
        }
        let scale: Vec<f64> = (gamma.iter().zip(variance))
            .map(|(&gamma, &var)| f64::from(gamma) / (f64::from(var) + f64::from(epsilon)).sqrt())
            .collect();
        let shift: Vec<f64> = (beta.iter().zip(mean).zip(&scale))
            .map(|((&beta, &mean), scale)| f64::from(beta) - f64::from(mean) * scale)
            .collect();
        if !self.fold(x, y, |_, axis| (axis == 1).then(|| (scale.clone(), shift.clone()))) {
            self.scale_shift(&node.name, x, y, &scale, Some(shift));
        }
        Ok(())
    }

    /// A scale and shift of one value a channel, on its own: a depthwise 1x1 convolution.
    pub fn scale_shift(
        &mut self,
        name: &str,
        x: ValueId,
        y: ValueId,
        scale: &[f64],
        shift: Option<Vec<f64>>,
    ) {
        let linear = Linear { bias: shift, ..Linear::scale(scale) };
        self.image(name, Work::Conv(Conv { window: point(), linear, depthwise: true }), x, y);
    }
}

/// Scale and shift by the statistics of channels, in double precision.
pub(crate) fn batch_norm(
    epsilon: f64,
    x: exact::Tensor<'_>,
    [scale, bias, mean, variance]: [&[f64]; 4],
) -> Vec<f64> {
    let plane: usize = x.shape[2..].iter().product();
    let normalised = x.data.iter().enumerate().map(|(at, x)| {
        let c = at / plane % scale.len();
        (x - mean[c]) / (variance[c] + epsilon).sqrt() * scale[c] + bias[c]
    });
    normalised.collect()
}
