//! Local response normalisation across channels.

use super::builder::Item;
use super::emitter::Emitter;
use super::exact;
use super::{Lines, Operation, Operator, PassError};
use eyelet::pack::{self, LrnParams, OpKind};

/// Row by row.
pub(super) const ROW: Operator =
    Operator { lines: |_, _, _| Some(Lines::Own), ..Operator::new(OpKind::Lrn) };

/// Over windows of channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lrn {
    pub params: LrnParams,
}

impl Operation for Lrn {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let order = emitter.image(item)?;
        emitter.simple(item, OpKind::Lrn, &order, pack::params_words(&self.params))
    }
}

/// `x / (bias + alpha/size · Σ x²)^beta`, the sum over `size` channels around each.
pub(crate) fn lrn(x: exact::Tensor<'_>, size: usize, alpha: f64, beta: f64, bias: f64) -> Vec<f64> {
    let channels = x.shape[1];
    let plane: usize = x.shape[2..].iter().product();
    let result = x.data.iter().enumerate().map(|(at, value)| {
        let channel = at / plane % channels;
        let first = channel.saturating_sub((size - 1) / 2);
        let last = (channel + size / 2).min(channels - 1);
        let squares: f64 =
            (first..=last).map(|other| x.data[at - channel * plane + other * plane].powi(2)).sum();
        value / (bias + alpha / size as f64 * squares).powf(beta)
    });
    result.collect()
}
