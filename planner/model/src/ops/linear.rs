//! Linear maps with constant weights, and what is folded into them: batch norms, scales and shifts by
//! constants of one value a channel. Folding is in double precision and rounded once.

use crate::graph::{Constant, Window};
use crate::network::Dense;
use std::sync::Arc;

/// A matrix of weights as in [`Dense`], with scale and bias not yet rounded.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    pub data: Constant,
    pub out_channels: usize,
    pub groups: usize,
    pub k: usize,
    pub row: usize,
    pub col: usize,
    pub order: Option<Vec<u32>>,
    pub scale: Option<Vec<f64>>,
    pub bias: Option<Vec<f64>>,
}

impl Linear {
    /// A scale of one value a channel: a depthwise 1x1 convolution.
    pub fn scale(scale: &[f64]) -> Self {
        Self {
            data: Constant::Owned(Arc::new(scale.iter().map(|&value| value as f32).collect())),
            out_channels: scale.len(),
            groups: scale.len(),
            k: 1,
            row: 1,
            col: 1,
            order: None,
            scale: None,
            bias: None,
        }
    }

    /// Follows the map by `y · scale + shift`.
    pub fn then(&mut self, scale: &[f64], shift: &[f64]) {
        if scale.iter().any(|&scale| scale != 1.0) {
            match &mut self.scale {
                Some(own) => own.iter_mut().zip(scale).for_each(|(own, by)| *own *= by),
                None => self.scale = Some(scale.to_vec()),
            }
        }
        let bias = self.bias.take().unwrap_or_else(|| vec![0.0; self.out_channels]);
        let bias =
            bias.iter().zip(scale).zip(shift).map(|((bias, scale), shift)| bias * scale + shift);
        self.bias = Some(bias.collect());
    }

    /// The recipe for packing.
    pub fn dense(&self) -> Dense {
        let round = |data: &Option<Vec<f64>>| {
            data.as_ref().map(|data| data.iter().map(|&value| value as f32).collect())
        };
        let dense = Dense {
            data: self.data.clone(),
            out_channels: self.out_channels,
            groups: self.groups,
            k: self.k,
            row: self.row,
            order: self.order.clone(),
            col: self.col,
            scale: round(&self.scale),
            bias: round(&self.bias),
            sum: Default::default(),
        };
        match &dense.data {
            // Panels have scales of output channels, and of no others.
            Constant::Quantised(data) if !dense.is_by_channel(data) => {
                Dense { data: Constant::Owned(Arc::new(dense.data.to_vec())), ..dense }
            }
            _ => dense,
        }
    }
}

/// A window of one tap.
pub(crate) fn point() -> Window {
    Window { kernel: [1, 1], stride: [1, 1], dilation: [1, 1], pad_begin: [0, 0], pad_end: [0, 0] }
}
