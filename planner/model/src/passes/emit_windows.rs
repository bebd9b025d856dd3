//! Emission of what slides windows over images: convolutions, pooling, normalisation over channels.

use super::PassError;
use super::affine::Linear;
use super::emit::{Emitter, field};
use super::program::Item;
use super::view::image_order;
use crate::graph::Window;
use crate::network::{Dense, Weights};
use eyelet::kernels::table::CHAIN;
use eyelet::pack::{self, ConvParams, LrnParams, OpKind, PoolParams};

impl Emitter<'_> {
    pub fn conv(
        &mut self,
        item: &Item,
        window: &Window,
        linear: &Linear,
        depthwise: bool,
    ) -> Result<(), PassError> {
        let name = item.name.as_str();
        let (pad, groups) = (words(window.pad_begin), field(name, "groups", linear.groups)?);
        let params = pack::params_words(&conv_params(window, pad, groups));
        let recipe = linear.dense();
        let order = self.image(item)?;
        let input = self.operand(name, item.inputs[0], &order)?;
        let residual = item.residual.map(|other| self.operand(name, other, &order)).transpose()?;
        let output = self.place(name, item.outputs[0], &order)?;
        let (kind, weights) = match depthwise || self.spans(&recipe, window) {
            true => (OpKind::Depthwise, Weights::Depthwise(recipe)),
            false => (OpKind::Conv, Weights::Dense(recipe)),
        };
        self.layer(item, kind, [Some(input), residual], output, params, weights)
    }

    pub fn pool(
        &mut self,
        item: &Item,
        window: &Window,
        average: bool,
        count_include_pad: bool,
    ) -> Result<(), PassError> {
        let params = PoolParams {
            average: average.into(),
            kernel: words(window.kernel),
            stride: words(window.stride),
            dilation: words(window.dilation),
            pad: words(window.pad_begin),
            pad_end: words(window.pad_end),
            count_include_pad: count_include_pad.into(),
        };
        let order = self.image(item)?;
        self.simple(item, OpKind::Pool, &order, pack::params_words(&params))
    }

    pub fn lrn(&mut self, item: &Item, params: &LrnParams) -> Result<(), PassError> {
        let order = self.image(item)?;
        self.simple(item, OpKind::Lrn, &order, pack::params_words(params))
    }

    /// Whether panels hold several groups of a convolution. Sums that are more than one chain are a `Conv`'s, whatever the
    /// panels.
    fn spans(&self, dense: &Dense, window: &Window) -> bool {
        let group = dense.out_channels / dense.groups;
        let taps: usize = window.kernel.iter().product();
        dense.groups > 1 && dense.k == taps * group && dense.k <= CHAIN && self.isa.spans(group)
    }

    /// The memory order of an item's images.
    fn image(&self, item: &Item) -> Result<Vec<usize>, PassError> {
        let rank = self.program.values[item.inputs[0]].shape.len();
        image_order(rank).ok_or_else(|| PassError::Unsupported {
            node: item.name.clone(),
            what: format!("its input has {rank} dimensions"),
            hint: "use two- or one-dimensional windows over [N, C, H, W] or [N, C, L]",
        })
    }
}

/// The geometry of a convolution.
pub(super) fn conv_params(window: &Window, pad: [u32; 2], groups: u32) -> ConvParams {
    ConvParams {
        kernel: words(window.kernel),
        stride: words(window.stride),
        dilation: words(window.dilation),
        pad,
        groups,
        ..ConvParams::default()
    }
}

fn words(pair: [usize; 2]) -> [u32; 2] {
    pair.map(|value| u32::try_from(value).unwrap_or(u32::MAX))
}
