//! The network after the passes: what the planner plans and the pack stores.
//!
//! The records are the pack's own ([`eyelet::pack`]), so nothing is translated when it is written:
//! buffers (activations with a place in the arena), tensors (views of them), layers in execution
//! order. Beside them stand the recipes by which weights are packed, lazily, when the pack is written.

use crate::graph::{Constant, Quantised};
use eyelet::kernels::Isa;
use eyelet::pack::{Buffer, Layer, PortType, Region, Tensor};
use std::sync::{Arc, OnceLock};

/// A network, ready to be planned.
#[derive(Clone, Debug)]
pub struct Network {
    pub name: String,
    /// Whose packing layout `panels` and `panel_bytes` of the layers follow.
    pub isa: Isa,
    pub buffers: Vec<Buffer>,
    pub tensors: Vec<Tensor>,
    /// In execution order. `weights` and `name` are filled in when the pack is written.
    pub layers: Vec<Layer>,
    /// Parallel to `layers`.
    pub names: Vec<String>,
    /// Parallel to `layers`.
    pub weights: Vec<Weights>,
    /// Parallel to `layers`: the algorithm by which steps compute a layer instead of its own
    /// ([`Step::algorithm`](eyelet::pack::Step)), for which they transform its weights when these have been loaded; 0
    /// where they do not. It differs from plan to plan.
    pub on_load: Vec<u32>,
    /// Of a network whose pack lies in memory that the processor reads: for each layer whether its
    /// steps use weights there, unless these stay in the arena. It differs from plan to plan. `None`
    /// for a pack that is read into the arena.
    pub mapped: Option<Vec<bool>>,
    pub inputs: Vec<Port>,
    pub outputs: Vec<Port>,
}

impl Network {
    /// Whether a layer's steps use weights where they lie in the pack.
    pub fn is_in_place(&self, layer: usize) -> bool {
        self.mapped.as_ref().is_some_and(|layers| layers.get(layer).is_some_and(|used| *used))
    }

    /// Whether steps of any layer use weights where they lie in the pack.
    pub fn is_any_in_place(&self) -> bool {
        self.mapped.iter().flatten().any(|in_place| *in_place)
    }

    /// The region that the weights of a layer's steps are in, unless these stay in the arena.
    pub fn region(&self, layer: usize) -> Region {
        if self.is_in_place(layer) { Region::Mapped } else { Region::Arena }
    }

    /// Bytes of the arena that as many of a layer's weights take when they are used: none if steps
    /// use them in the pack.
    pub fn bytes_in_arena(&self, layer: usize, weights: u64) -> u64 {
        if self.is_in_place(layer) { 0 } else { weights }
    }

    /// The tensors of its inputs and outputs.
    pub fn ports(&self) -> impl Iterator<Item = u32> + '_ {
        self.inputs.iter().chain(&self.outputs).map(|port| port.tensor)
    }
}

/// An input or output, in the model's own layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    pub name: String,
    pub tensor: u32,
    /// The type that the model gives it.
    pub kind: PortType,
    pub shape: Vec<usize>,
}

/// How a layer's packed weights are made.
#[derive(Clone, Debug)]
pub enum Weights {
    /// The layer has none.
    None,
    /// Conv: panels of `nr` output channels, `[bias nr][k][nr]`, k in the order (tap row, tap column,
    /// channel in the group). Groups are padded to whole panels, one after the other.
    Dense(Dense),
    /// Depthwise: panels of `nr` channels, `[bias nr][tap][nr]`; where groups have more channels than one,
    /// `[bias nr][tap][channel in the group][nr]`. Panels hold whole groups, several each.
    Depthwise(Dense),
    /// Winograd: panels of `nr` output channels, `[bias nr][(tile + 2)²][channel of the group][nr]`: the filters of a
    /// [`Dense`] (3x3), transformed. Groups are padded as above.
    Winograd(Dense, usize),
    /// One panel of floats as they are (a constant operand).
    Plain(Constant),
}

/// A matrix of weights, not yet packed: `w(o, k) = data[o · row + index(k) · col] · scale[o]`.
#[derive(Clone, Debug)]
pub struct Dense {
    pub data: Constant,
    /// Output channels, over all groups.
    pub out_channels: usize,
    pub groups: usize,
    /// Length of the reduction of one output: taps times channels in the group.
    pub k: usize,
    /// Elements from one output channel to the next.
    pub row: usize,
    /// For each packed `k` the element offset within an output channel; `None` is the identity.
    pub order: Option<Vec<u32>>,
    /// Elements from one k to the next (after `order`).
    pub col: usize,
    /// Per output channel (batch norm, or Gemm's alpha); `None` is 1.
    pub scale: Option<Vec<f32>>,
    /// Per output channel; `None` is 0.
    pub bias: Option<Vec<f32>>,
    /// [`largest_sum`](Dense::largest_sum), once it has been asked for.
    pub sum: Arc<OnceLock<f64>>,
}

impl Dense {
    /// Offset within an output channel of the weight that is packed as number `k`.
    pub fn offset(&self, k: usize) -> usize {
        self.order.as_ref().map_or(k, |order| order[k] as usize) * self.col
    }

    /// Whether each output channel's weights are of one channel of quantised ones.
    pub fn is_by_channel(&self, data: &Quantised) -> bool {
        let channels = data.scale.len();
        let within = |k: usize| (self.offset(k) / data.inner).is_multiple_of(channels);
        channels == 1 || self.row.is_multiple_of(data.inner) && (0..self.k).all(within)
    }

    /// Scale and zero of every output channel's weights, if these are integers of 8 bits in the model and can be
    /// stored so: not where scales are so small that weights were closer to zero than any normal number.
    pub fn scales(&self) -> Option<(Vec<f32>, Vec<i8>)> {
        let Constant::Quantised(data) = &self.data else { return None };
        if !self.is_by_channel(data) {
            return None;
        }
        let channel = |output: usize| data.channel(output * self.row);
        let scale = |output: usize| match &self.scale {
            Some(by) => data.scale[channel(output)] * by[output],
            None => data.scale[channel(output)],
        };
        let scales: Vec<f32> = (0..self.out_channels).map(scale).collect();
        let usable = scales.iter().all(|scale| *scale == 0.0 || scale.is_normal());
        usable.then(|| (scales, (0..self.out_channels).map(|o| data.zero[channel(o)]).collect()))
    }

    /// The sum of the magnitudes of an output channel's weights, of the channel where it is largest: times the largest
    /// input it bounds every output. It is no number where a weight is none.
    pub fn largest_sum(&self) -> f64 {
        *self.sum.get_or_init(|| {
            let sum = |channel: usize| {
                let scale = self.scale.as_ref().map_or(1.0, |scale| f64::from(scale[channel]));
                let weight = |k| self.data.get(channel * self.row + self.offset(k));
                (0..self.k).map(|k| (f64::from(weight(k)) * scale).abs()).sum::<f64>()
            };
            let larger = |a: f64, b: f64| if a.is_nan() || a > b { a } else { b };
            (0..self.out_channels).map(sum).fold(0.0, larger)
        })
    }
}
