//! Networks of one layer, for tests.

use super::Costs;
use crate::board::Board;
use crate::profile::Profile;
use eyelet::kernels::Isa;
use eyelet::pack::{Buffer, ConvParams, Layer, NONE, OpKind, Step, Tensor, params_words};
use eyelet_model::network::Network;

/// One layer from one tensor to another, `[rows, cols]` each.
pub(crate) fn network(kind: OpKind, words: [u32; 24], from: [u32; 2], to: [u32; 2]) -> Network {
    let tensor = |buffer, [rows, cols]: [u32; 2]| Tensor {
        buffer,
        dims: [1, 1, rows, cols],
        pitch: cols,
        ..Tensor::default()
    };
    let weighted = kind.has_panels();
    Network {
        name: "one".into(),
        isa: Isa::Neon,
        buffers: vec![Buffer::floats(1 << 30); 2],
        tensors: vec![tensor(0, from), tensor(1, to)],
        layers: vec![Layer {
            kind: kind as u32,
            inputs: [0, NONE, NONE],
            output: 1,
            panels: if weighted { to[1].div_ceil(8) } else { 0 },
            panel_bytes: if weighted { 32 * (from[1] + 1) } else { 0 },
            params: words,
            ..Layer::default()
        }],
        names: vec!["layer".into()],
        weights: vec![],
        on_load: vec![0],
        mapped: None,
        inputs: vec![],
        outputs: vec![],
    }
}

pub(crate) fn whole(network: &Network) -> Step {
    let layer = &network.layers[0];
    let rows = network.tensors[1].rows() as u32;
    Step { count: layer.panels, rows, ..Step::default() }
}

pub(crate) fn profile() -> Profile {
    let mut profile = Board::load("jetson-nano").unwrap().profile;
    profile.compute.step_overhead_ns = 0;
    profile.compute.scaling = 1.0;
    profile.compute.exposed = 0.0;
    profile
}

pub(crate) fn conv(kernel: [u32; 2]) -> [u32; 24] {
    let ones = [1; 2];
    params_words(&ConvParams {
        kernel,
        stride: ones,
        dilation: ones,
        pad: [0; 2],
        groups: 1,
        chains: 0,
    })
}

/// The time of a step on `threads` threads.
pub(crate) fn step_ns(profile: &Profile, network: &Network, step: &Step, threads: u32) -> u64 {
    Costs::new(network, profile, threads).step_ns(step)
}

pub(crate) fn grouped(groups: u32) -> [u32; 24] {
    let ones = [1; 2];
    let params =
        ConvParams { kernel: [3; 2], stride: ones, dilation: ones, pad: [1; 2], groups, chains: 0 };
    params_words(&params)
}
