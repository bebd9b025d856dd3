//! Linear maps with constant weights, and what is folded into them: batch norms, scales and shifts by
//! constants of one value a channel. Folding is in double precision and rounded once.

use super::program::{Builder, Work};
use crate::graph::{Constant, ValueId, Window};
use crate::network::Dense;
use std::sync::Arc;

/// A matrix of weights as in [`Dense`], with scale and bias not yet rounded.
#[derive(Clone, Debug)]
pub(super) struct Linear {
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
pub(super) fn point() -> Window {
    Window { kernel: [1, 1], stride: [1, 1], dilation: [1, 1], pad_begin: [0, 0], pad_end: [0, 0] }
}

impl Builder {
    /// The values of a constant that has one for each channel (`axis`) of `shape`, or one for all.
    pub fn per_channel(&self, constant: ValueId, shape: &[usize], axis: usize) -> Option<Vec<f64>> {
        let data = self.constant(constant)?;
        let own = self.shape(constant);
        for (i, &extent) in own.iter().rev().enumerate() {
            let at = shape.len().checked_sub(i + 1);
            if extent != 1 && !(at == Some(axis) && extent == shape[axis]) {
                return None;
            }
        }
        let channels = *shape.get(axis)?;
        let broadcast = if data.len() == 1 { channels } else { 1 };
        (data.len() * broadcast == channels)
            .then(|| (0..channels).map(|i| data.get(i / broadcast).into()).collect())
    }

    /// Folds `x · scale + shift` into the linear map that makes `x`, if nothing comes between.
    /// The two are given for the map's channel axis.
    pub fn fold(
        &mut self,
        x: ValueId,
        y: ValueId,
        coefficients: impl FnOnce(&Self, usize) -> Option<(Vec<f64>, Vec<f64>)>,
    ) -> bool {
        let rank = self.shape(x).len();
        let Some((_, axis)) = self.sole_maker(x).and_then(|item| item.bare_linear(rank)) else {
            return false;
        };
        let Some((scale, shift)) = coefficients(self, axis) else { return false };
        if scale.iter().chain(&shift).any(|value| !value.is_finite()) {
            return false;
        }
        match self.sole_maker(x).and_then(|item| item.bare_linear(rank)) {
            Some((linear, _)) if linear.out_channels == scale.len() => linear.then(&scale, &shift),
            _ => return false,
        }
        self.retarget(x, y);
        true
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
        self.image(name, Work::Conv { window: point(), linear, depthwise: true }, x, y);
    }

    /// What tells channels apart, but not positions. Volumes are taken as images whose lines are those of all depths.
    pub fn image(&mut self, name: &str, work: Work, x: ValueId, y: ValueId) {
        let [images, channels, lines @ .., along] = self.shape(x) else {
            return self.push(name, work, &[x], &[y]);
        };
        if lines.len() < 2 {
            return self.push(name, work, &[x], &[y]);
        }
        let flat = [*images, *channels, lines.iter().product(), *along];
        let (wide, made) = (self.reshaped(name, x, &flat), self.temporary(name, &flat));
        self.push(name, work, &[wide], &[made]);
        self.push(name, Work::Reshape, &[made], &[y]);
    }
}
