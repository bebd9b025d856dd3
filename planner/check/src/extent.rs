//! Which bytes of its layer's weights a step reads, and in how many chains a layer sums.
//!
//! Planners ask the runtime's operators for both. The checker reckons them by itself, from what a
//! pack says of a layer. A panel of a convolution whose weights are floats is a row of biases,
//! followed by a row of weights for each term of the sum. Terms are summed in chains of at most
//! [`CHAIN`], as even as these units allow:
//!
//! - taps of more channels than that are cut each by itself, in units of [`UNIT`] channels;
//! - taps of at least [`LONG_RUN`] channels are units;
//! - otherwise rows of taps are units, or are cut each by itself between taps if they are longer
//!   than a chain.
//!
//! A step can compute some chains of one panel. Its weights begin and end at multiples of
//! [`ALIGN`] bytes, so two steps of a panel with few channels can read some bytes both.

use super::operators::Operator;
use eyelet::kernels::Isa;
use eyelet::pack::{ConvParams, Encoding, Step, params};
use eyelet_model::network::Network;
use std::ops::Range;

/// Terms of a chain, at most.
const CHAIN: u64 = 1024;

/// Channels that are not cut.
const UNIT: u64 = 16;

/// Bytes that addresses of weights are multiples of.
const ALIGN: u64 = 32;

/// Channels of taps that are units.
const LONG_RUN: u64 = 32;

/// Bytes of the weights section that a step reads; empty for a layer without weights.
pub fn step_weights(network: &Network, step: &Step) -> Range<u64> {
    let layer = &network.layers[step.layer as usize];
    let panel = u64::from(layer.panel_bytes);
    let start = layer.weights + u64::from(step.first) * panel;
    let all = start..start + u64::from(step.count) * panel;
    let ends = match step.chains() {
        0 => Vec::new(),
        _ => chain_ends(network, step.layer as usize),
    };
    if ends.is_empty() {
        return all;
    }
    let nr = network.isa.panel() as u64;
    let width = if layer.width == 0 { nr } else { u64::from(layer.width) };
    // Bytes from the panel's start to the end of so many chains.
    let to_end = |chains: u64| {
        let last = (chains as usize).min(ends.len()).checked_sub(1);
        last.map_or(0, |last| 4 * (nr + ends[last] * width))
    };
    // The biases go with the first chain. Kernels read a narrow panel's last row of weights as if it were full.
    let first = u64::from(step.chain());
    let end = to_end(first + u64::from(step.chains())) + 4 * (nr - width);
    let (first, end) = (to_end(first) / ALIGN * ALIGN, end.next_multiple_of(ALIGN));
    start + first.min(panel)..start + end.min(panel)
}

/// In how many chains a layer sums, if its steps can compute some of them; 1 otherwise.
pub fn chain_count(network: &Network, layer: usize) -> u32 {
    chain_ends(network, layer).len().max(1) as u32
}

/// How many terms there are up to the end of each chain; of no chain for a layer whose steps
/// compute all of them.
fn chain_ends(network: &Network, layer: usize) -> Vec<u64> {
    let record = &network.layers[layer];
    let is_plain = Operator::of(record).chains && record.encoding == Encoding::F32 as u32;
    let input = network.tensors.get(record.inputs[0] as usize);
    let Some(input) = input.filter(|_| is_plain && network.isa != Isa::Cuda) else {
        return Vec::new();
    };
    let ConvParams { kernel: [height, width], groups, .. } = params(record);
    let (height, width) = (u64::from(height), u64::from(width));
    let channels = u64::from(input.dims[3] / groups.max(1));
    // So many runs, each of so many units of so many terms; the last unit of a run may be shorter.
    let (runs, terms, unit) = if channels > CHAIN {
        (height * width, channels, UNIT)
    } else if channels >= LONG_RUN {
        (1, height * width * channels, channels)
    } else if width * channels <= CHAIN {
        (1, height * width * channels, width * channels)
    } else {
        (height, width * channels, channels)
    };
    let unit = unit.max(1);
    let units = terms.div_ceil(unit);
    let fewest = units.div_ceil(CHAIN / unit).max(1);
    let each = units.div_ceil(fewest).max(1);
    let of_run = |run: u64| {
        let ends = (1..=units.div_ceil(each)).map(move |part| (part * each * unit).min(terms));
        ends.map(move |end| run * terms + end)
    };
    (0..runs).flat_map(of_run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use eyelet::pack::Method;
    use eyelet::pack::{Layer, OpKind, Tensor, params_words};
    use eyelet_model::plan;
    use proptest::prelude::*;

    proptest! {
        /// Planners and checker agree, though neither asks the other.
        #[test]
        fn steps_read_what_planners_think_they_read(
            kernel in [1u32..8, 1u32..8],
            channels in prop_oneof![1u32..40, 1000u32..1050, 1u32..5000],
            (panels, first, encoding) in (1u32..5, 0u32..4, 0u32..4),
            isa in prop::sample::select(vec![Isa::Portable, Isa::Avx2, Isa::Avx512, Isa::Neon]),
            narrow in prop::option::of(1u32..32),
        ) {
            let nr = isa.panel() as u32;
            let width = narrow.filter(|width| *width < nr);
            let taps = kernel[0] * kernel[1] * channels;
            let encoding = Encoding::from_code(encoding).unwrap();
            let bytes = encoding.panel_bytes(
                u64::from(taps),
                width.unwrap_or(nr) as usize,
                nr as usize,
            );
            let layer = Layer {
                kind: OpKind::Conv as u32,
                encoding: encoding as u32,
                inputs: [0, eyelet::pack::NONE, eyelet::pack::NONE],
                weights: 4096,
                panels,
                panel_bytes: bytes.unwrap() as u32,
                width: width.unwrap_or(0),
                params: params_words(&ConvParams { kernel, groups: 1, ..ConvParams::default() }),
                ..Layer::default()
            };
            let input = Tensor { dims: [1, 9, 9, channels], pitch: channels, ..Tensor::default() };
            let network = Network {
                name: String::new(),
                isa,
                buffers: Vec::new(),
                tensors: vec![input],
                layers: vec![layer],
                names: Vec::new(),
                weights: Vec::new(),
                on_load: vec![0],
        mapped: None,
                inputs: Vec::new(),
                outputs: Vec::new(),
            };
            let count = chain_count(&network, 0);
            prop_assert_eq!(count, plan::chain_count(&network, 0));
            let first = first.min(panels - 1);
            let whole = Step { first, count: panels - first, ..Step::default() };
            prop_assert_eq!(step_weights(&network, &whole), plan::step_weights(&network, &whole));
            for chain in 0..count {
                for chains in [1, (count - chain).div_ceil(2), count - chain] {
                    let step = Step {
                        first,
                        count: 1,
                        method: Method::Chains { first: chain, count: chains },
                        ..Step::default()
                    };
                    prop_assert_eq!(
                        step_weights(&network, &step),
                        plan::step_weights(&network, &step)
                    );
                }
            }
        }
    }
}
