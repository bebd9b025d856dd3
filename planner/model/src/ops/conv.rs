//! Convolution, and the product with a constant matrix along the last axis, which is one of 1x1.
//!
//! On a GPU the reduction can be cut into chains ([`set_chains`]): a convolution with a long one and
//! few outputs has too few tiles for all multiprocessors. That changes what is rounded, and is a
//! property of the layer.

use super::builder::{Builder, Item, input, unsupported};
use super::emitter::{Emitter, field, tensor, words};
use super::exact::{self, parallel};
use super::linear::{Linear, point};
use super::view::last_axis_last;
use super::{Lines, Operation, Operator, PassError, Work};
use crate::graph::{Constant, Node, ValueId, Window};
use crate::network::{Dense, Network, Weights};
use eyelet::kernels::Isa;
use eyelet::kernels::table::CHAIN;
use eyelet::ops::cuda::conv;
use eyelet::pack::{self, ConvParams, Layer, OpKind, params, params_words};

/// A window over the image, and rows of what is added.
pub(super) const ROW: Operator = Operator {
    lines: seen,
    name: |layer| windowed("Conv", params::<ConvParams>(layer).kernel),
    algorithm: |layer| match params::<ConvParams>(layer).chains {
        0 | 1 => "direct".into(),
        chains => format!("direct, {chains} chains"),
    },
    shares_weights: true,
    ..Operator::new(OpKind::Conv)
};

/// Convolution over an image, or per channel.
#[derive(Clone, Debug)]
pub(crate) struct Conv {
    pub window: Window,
    pub linear: Linear,
    pub depthwise: bool,
}

impl Operation for Conv {
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { window, linear, depthwise } = self;
        let name = item.name.as_str();
        let (pad, groups) = (words(window.pad_begin), field(name, "groups", linear.groups)?);
        let params = pack::params_words(&conv_params(window, pad, groups));
        let recipe = linear.dense();
        let order = emitter.image(item)?;
        let input = emitter.operand(name, item.inputs[0], &order)?;
        let residual =
            item.residual.map(|other| emitter.operand(name, other, &order)).transpose()?;
        let output = emitter.place(name, item.outputs[0], &order)?;
        let (kind, weights) = match *depthwise || spans(&recipe, window, emitter.isa) {
            true => (OpKind::Depthwise, Weights::Depthwise(recipe)),
            false => (OpKind::Conv, Weights::Dense(recipe)),
        };
        emitter.layer(item, kind, [Some(input), residual], output, params, weights)
    }

    fn takes_activation(&self) -> bool {
        true
    }

    fn takes_residual(&self) -> bool {
        true
    }
}

/// A constant matrix applied along the last axis.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub linear: Linear,
}

impl Operation for Rows {
    /// A constant matrix along the last axis: a 1x1 convolution over rows. If the last axis is a
    /// permutation of adjacent floats, the weights are permuted instead of the values.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError> {
        let Self { linear } = self;
        let (name, x, y) = (item.name.as_str(), item.inputs[0], item.outputs[0]);
        let view = emitter.view(name, x)?;
        let last = view.axes.len() - 1;
        let mut recipe = linear.dense();
        let adjacent = match view.permutation(last) {
            Some(permutation) => {
                let adjacent = view.with_adjacent(last);
                adjacent.rect(&last_axis_last(&adjacent)).map(|rect| (adjacent, rect, permutation))
            }
            None => None,
        };
        let (order, input) = match adjacent {
            Some((view, rect, permutation)) => {
                recipe.order = permutation;
                (last_axis_last(&view), tensor(name, rect)?)
            }
            None => {
                let order = last_axis_last(&view);
                let input = emitter.operand(name, x, &order)?;
                (order, input)
            }
        };
        let residual =
            item.residual.map(|other| emitter.operand(name, other, &order)).transpose()?;
        let output = emitter.place(name, y, &order)?;
        let params = pack::params_words(&conv_params(&point(), [0, 0], 1));
        let weights = Weights::Dense(recipe);
        emitter.layer(item, OpKind::Conv, [Some(input), residual], output, params, weights)
    }

    fn takes_activation(&self) -> bool {
        true
    }

    fn takes_residual(&self) -> bool {
        true
    }
}

/// The geometry of a convolution.
fn conv_params(window: &Window, pad: [u32; 2], groups: u32) -> ConvParams {
    ConvParams {
        kernel: words(window.kernel),
        stride: words(window.stride),
        dilation: words(window.dilation),
        pad,
        groups,
        ..ConvParams::default()
    }
}

/// Whether panels hold several groups of a convolution. Sums that are more than one chain are a `Conv`'s, whatever the
/// panels.
fn spans(dense: &Dense, window: &Window, isa: Isa) -> bool {
    let group = dense.out_channels / dense.groups;
    let taps: usize = window.kernel.iter().product();
    dense.groups > 1 && dense.k == taps * group && dense.k <= CHAIN && isa.spans(group)
}

/// The lines that a convolution reads of an input.
pub(crate) fn seen(_: &Network, layer: &Layer, slot: usize) -> Option<Lines> {
    let ConvParams { kernel, stride, dilation, pad, .. } = params(layer);
    Some(match slot {
        0 => Lines::window([kernel, stride, dilation, pad]),
        _ => Lines::Own,
    })
}

/// Whether a layer is computed directly, over all channels of a group at once.
pub(super) fn is_conv(layer: &Layer) -> bool {
    layer.kind == OpKind::Conv as u32
}

/// Has a layer be such a convolution.
pub(super) fn store(layer: &mut Layer, p: &ConvParams) {
    (layer.kind, layer.params) = (OpKind::Conv as u32, params_words(p));
}

/// An operator and its window.
pub(crate) fn windowed(name: &str, [height, width]: [u32; 2]) -> String {
    format!("{name} {height}x{width}")
}

/// Into how many chains a GPU with so many multiprocessors had best cut the reduction of a direct
/// convolution; 1 for all other layers, and for none.
pub fn chains(network: &Network, index: usize, multiprocessors: u32) -> u32 {
    let layer = &network.layers[index];
    if network.isa != Isa::Cuda || !is_conv(layer) || multiprocessors == 0 {
        return 1;
    }
    let output = &network.tensors[layer.output as usize];
    conv::chains(output.rows() as u32, output.cols(), terms(network, layer), multiprocessors)
}

/// About half as many chains of a direct convolution's reduction; one where they would be too long.
pub fn fewer_chains(network: &Network, index: usize, chains: u32) -> u32 {
    let half = chains / 2;
    if conv::enough(terms(network, &network.layers[index]), half) { half.max(1) } else { 1 }
}

/// The reduction of an output of a direct convolution.
fn terms(network: &Network, layer: &Layer) -> u32 {
    let input = &network.tensors[layer.inputs[0] as usize];
    let p: ConvParams = params(layer);
    p.kernel[0] * p.kernel[1] * (input.cols() / p.groups.max(1))
}

/// Cuts the reduction of a direct convolution for a GPU; other layers have none that could be.
pub fn set_chains(network: &mut Network, index: usize, chains: u32) {
    let layer = &mut network.layers[index];
    if network.isa == Isa::Cuda && is_conv(layer) {
        let p: ConvParams = params(layer);
        layer.params = params_words(&ConvParams { chains, ..p });
    }
}

/// The matrix of a product that multiplies by it as it is, of at least so many bytes.
pub(crate) fn matrix(network: &Network, layer: usize, least: u64) -> Option<&Dense> {
    let (record, Weights::Dense(dense)) = (&network.layers[layer], &network.weights[layer]) else {
        return None;
    };
    let bytes = u64::from(record.panels) * u64::from(record.panel_bytes);
    let point = is_conv(record) && {
        let p: ConvParams = params(record);
        (p.kernel, p.groups) == ([1, 1], 1)
    };
    (point && dense.scale.is_none() && bytes >= least).then_some(dense)
}

impl Builder {
    pub fn conv(&mut self, node: &Node, window: &Window, groups: usize) -> Result<(), PassError> {
        let (mut x, w) = (input(node, 0)?, input(node, 1)?);
        let Some(data) = self.constant(w).cloned() else {
            return Err(unsupported(
                node,
                "its weights are not constant",
                "export them as initializers",
            ));
        };
        let (in_channels, out_channels) = (self.shape(x)[1], self.shape(w)[0]);
        let (taps, depth) = (window.kernel[0] * window.kernel[1], in_channels / groups.max(1));
        let k = taps * depth;
        if data.len() != out_channels * k {
            return Err(PassError::Mismatch {
                node: node.name.clone(),
                what: "the number of weights",
                found: data.len(),
                expected: out_channels * k,
            });
        }
        let bias = match node.inputs.get(2).copied().flatten() {
            None => None,
            Some(bias) => {
                let Some(data) = self.constant(bias) else {
                    return Err(unsupported(
                        node,
                        "its bias is not constant",
                        "export it as initializer",
                    ));
                };
                Some(data.to_vec().into_iter().map(f64::from).collect())
            }
        };
        // packed: tap by tap, channels inside; stored: channel by channel, taps inside
        let order = (taps > 1 && depth > 1).then(|| {
            let stored = |i: usize| (i % depth * taps + i / depth) as u32;
            (0..k).map(stored).collect()
        });
        let linear =
            Linear { data, out_channels, groups, k, row: k, col: 1, order, scale: None, bias };
        let mut window = window.clone();
        if let Some((inner, begin, end)) = self.image_padding(x, |value| value == 0.0) {
            x = inner;
            for i in 0..2 {
                window.pad_begin[i] += begin[i];
                window.pad_end[i] += end[i];
            }
        }
        let depthwise = groups > 1 && groups == in_channels && groups == out_channels;
        self.push(&node.name, Work::Conv(Conv { window, linear, depthwise }), &[x], &node.outputs);
        Ok(())
    }

    /// `x[.., k]` times a constant `k × n` matrix whose element (k, n) lies at `k · col + n · row`.
    pub fn rows(
        &mut self,
        node: &Node,
        x: ValueId,
        data: Constant,
        [n, row, col]: [usize; 3],
        y: ValueId,
    ) -> Result<(), PassError> {
        let k = self.shape(x).last().copied().unwrap_or(1);
        if data.len() != k * n {
            return Err(PassError::Mismatch {
                node: node.name.clone(),
                what: "the number of weights",
                found: data.len(),
                expected: k * n,
            });
        }
        let linear = Linear {
            data,
            out_channels: n,
            groups: 1,
            k,
            row,
            col,
            order: None,
            scale: None,
            bias: None,
        };
        self.push(&node.name, Work::Rows(Rows { linear }), &[x], &[y]);
        Ok(())
    }
}

/// The input position under a tap, if it is not padding.
pub(crate) fn tapped(
    window: &Window,
    axis: usize,
    at: usize,
    tap: usize,
    extent: usize,
) -> Option<usize> {
    let padded = at * window.stride[axis] + tap * window.dilation[axis];
    padded.checked_sub(window.pad_begin[axis]).filter(|&position| position < extent)
}

/// Output positions `start..end` for which a tap of an axis is not over padding.
fn covered(window: &Window, axis: usize, tap: usize, extent: usize, outs: usize) -> (usize, usize) {
    let reach = tap * window.dilation[axis];
    let stride = window.stride[axis];
    let start = window.pad_begin[axis].saturating_sub(reach).div_ceil(stride);
    let end = (extent + window.pad_begin[axis]).saturating_sub(reach).div_ceil(stride);
    (start.min(outs), end.clamp(start.min(outs), outs))
}

/// A convolution in double precision.
pub(crate) fn conv(
    window: &Window,
    groups: usize,
    x: exact::Tensor<'_>,
    weight: exact::Tensor<'_>,
    bias: Option<exact::Tensor<'_>>,
    out: &[usize],
) -> Vec<f64> {
    let (height, width) = (x.shape[2], x.shape[3]);
    let [_, channels, rows, columns] = out else { panic!("an image, not {out:?}") };
    let (inner, group_outputs) = (weight.shape[1], channels / groups);
    let [kh, kw] = window.kernel;
    let mut result = vec![0.0; out.iter().product()];
    parallel(&mut result, rows * columns, |plane, result| {
        let (image, channel) = (plane / channels, plane % channels);
        result.fill(bias.map_or(0.0, |bias| bias.data[channel]));
        let first = channel / group_outputs * inner;
        for input in 0..inner {
            let source = (image * x.shape[1] + first + input) * height * width;
            let source = &x.data[source..source + height * width];
            for ky in 0..kh {
                for kx in 0..kw {
                    let tap = weight.data[((channel * inner + input) * kh + ky) * kw + kx];
                    let (start, end) = covered(window, 1, kx, width, *columns);
                    if start == end {
                        continue;
                    }
                    for row in 0..*rows {
                        let Some(y) = tapped(window, 0, row, ky, height) else { continue };
                        let at = start * window.stride[1] + kx * window.dilation[1];
                        let line = &source[y * width + at - window.pad_begin[1]..(y + 1) * width];
                        let target = &mut result[row * columns + start..row * columns + end];
                        if window.stride[1] == 1 {
                            target.iter_mut().zip(line).for_each(|(sum, x)| *sum += tap * x);
                        } else {
                            let line = line.iter().step_by(window.stride[1]);
                            target.iter_mut().zip(line).for_each(|(sum, x)| *sum += tap * x);
                        }
                    }
                }
            }
        }
    });
    result
}
