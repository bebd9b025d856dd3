//! Layers of the shapes that networks have, each a network of its own, by which kernels are measured.

use bytemuck::Pod;
use eyelet::kernels::Isa;
use eyelet::pack::{
    ActivationKind, BinaryParams, Buffer, ConvParams, CopyParams, INPUTS, Layer, MatMulParams,
    NONE, OpKind, PoolParams, Tensor, WinogradParams, params, params_words,
};
use eyelet_model::network::Network;
use eyelet_plan::profile::Class;

/// Height, width, channels.
type Shape = [u32; 3];

/// A network of one layer from the first tensors to the last one. Inputs that it has not are as the first one.
fn layer<P: Pod>(isa: Isa, kind: OpKind, params: &P, inputs: &[Shape], output: Shape) -> Network {
    let tensor = |buffer: u32, [height, width, channels]: Shape| Tensor {
        buffer,
        dims: [1, height, width, channels],
        pitch: channels,
        ..Tensor::default()
    };
    let mut shapes = [inputs[0]; INPUTS + 1];
    shapes[..inputs.len()].copy_from_slice(inputs);
    shapes[INPUTS] = output;
    let tensors: Vec<Tensor> = (0..).zip(shapes).map(|(b, shape)| tensor(b, shape)).collect();
    let bytes = |tensor: &Tensor| 4 * tensor.rows() * u64::from(tensor.cols());
    let buffers = tensors.iter().map(|tensor| Buffer::floats(bytes(tensor))).collect();
    Network {
        name: "layer".into(),
        isa,
        buffers,
        tensors,
        layers: vec![Layer {
            kind: kind as u32,
            inputs: std::array::from_fn(
                |slot| if slot < inputs.len() { slot as u32 } else { NONE },
            ),
            output: INPUTS as u32,
            params: params_words(params),
            ..Layer::default()
        }],
        names: vec!["layer".into()],
        weights: Vec::new(),
        on_load: vec![0],
        mapped: None,
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// A direct convolution, padded so that the map keeps its size.
pub(super) fn conv(isa: Isa, size: u32, tap: u32, channels: u32, outputs: u32) -> Network {
    convolution(isa, OpKind::Conv, size, tap, [channels, outputs])
}

/// A convolution channel by channel, padded so.
fn depthwise(isa: Isa, size: u32, tap: u32, channels: u32) -> Network {
    convolution(isa, OpKind::Depthwise, size, tap, [channels; 2])
}

fn convolution(
    isa: Isa,
    kind: OpKind,
    size: u32,
    tap: u32,
    [channels, outputs]: [u32; 2],
) -> Network {
    let ones = [1; 2];
    let (kernel, pad) = ([tap; 2], [tap / 2; 2]);
    let groups = if kind == OpKind::Depthwise { channels } else { 1 };
    let params = ConvParams { kernel, stride: ones, dilation: ones, pad, groups, chains: 0 };
    let shapes = ([size, size, channels], [size, size, outputs]);
    let mut network = layer(isa, kind, &params, &[shapes.0], shapes.1);
    let k = tap * tap * if kind == OpKind::Depthwise { 1 } else { channels };
    let width = isa.panel() as u32;
    network.layers[0].panels = outputs.div_ceil(width);
    network.layers[0].panel_bytes = 4 * width * (k + 1);
    network
}

/// A convolution with stride 2 instead of 1.
fn strided(mut network: Network) -> Network {
    let layer = &mut network.layers[0];
    layer.params = params_words(&ConvParams { stride: [2; 2], ..params(layer) });
    let [_, height, width, _] = &mut network.tensors[2].dims;
    (*height, *width) = (height.div_ceil(2), width.div_ceil(2));
    network
}

/// A 3x3 convolution in groups of `group` channels, of which panels hold several.
fn grouped(isa: Isa, size: u32, channels: u32, group: u32) -> Network {
    let mut network = depthwise(isa, size, 3, channels);
    let layer = &mut network.layers[0];
    let groups = channels / group;
    layer.params = params_words(&ConvParams { groups, ..params(layer) });
    layer.panel_bytes = 4 * isa.panel() as u32 * (9 * group + 1);
    network
}

/// A 3x3 convolution by Winograd's algorithm, F(tile,3).
pub(super) fn winograd(isa: Isa, tile: u32, size: u32, channels: u32, outputs: u32) -> Network {
    let params = WinogradParams { tile, pad: [1; 2], groups: 1 };
    let shapes = ([size, size, channels], [size, size, outputs]);
    let mut network = layer(isa, OpKind::Winograd, &params, &[shapes.0], shapes.1);
    let width = isa.panel() as u32;
    network.layers[0].panels = outputs.div_ceil(width);
    network.layers[0].panel_bytes = 4 * width * ((tile + 2) * (tile + 2) * channels + 1);
    network
}

/// Matrices of weights, the largest first. The first one that takes at most half of a processor's share of the last-level
/// cache stays there next to all other data.
pub(super) fn in_llc(isa: Isa) -> Vec<Network> {
    let of = |channels, outputs| conv(isa, 1, 1, channels, outputs);
    vec![of(2048, 960), of(1024, 960), of(1024, 448)]
}

/// Layers of a class.
pub(super) fn of_class(isa: Isa, class: Class) -> Vec<Network> {
    match class {
        Class::Conv1x1
        | Class::ConvKxK
        | Class::Winograd
        | Class::FullyConnected
        | Class::Depthwise
        | Class::Grouped => convolutions(isa, class),
        Class::MatMul => vec![product(isa)],
        Class::Pool => pools(isa).into(),
        Class::Elementwise => {
            let shape = [28, 28, 256];
            let params = BinaryParams::default();
            vec![layer(isa, OpKind::Binary, &params, &[shape, shape], shape)]
        }
        Class::Function => functions(isa).into(),
        // Their rate follows from that of functions.
        Class::Comparison => vec![],
        Class::Copy => copies(isa).into(),
    }
}

/// Convolutions of a class: none, if it has others.
fn convolutions(isa: Isa, class: Class) -> Vec<Network> {
    let conv = |size, tap, channels, outputs| conv(isa, size, tap, channels, outputs);
    let depthwise = |size, tap, channels| depthwise(isa, size, tap, channels);
    let winograd = |tile, size, channels, outputs| winograd(isa, tile, size, channels, outputs);
    match class {
        // Long sums, and short ones.
        Class::Conv1x1 => vec![
            conv(56, 1, 64, 256),
            conv(28, 1, 512, 128),
            conv(14, 1, 256, 1024),
            conv(56, 1, 16, 96),
            conv(28, 1, 192, 32),
        ],
        Class::ConvKxK => vec![
            conv(56, 3, 64, 64),
            conv(28, 3, 128, 128),
            conv(14, 3, 256, 256),
            strided(conv(224, 3, 3, 32)),
            strided(conv(224, 3, 3, 64)),
            strided(conv(224, 7, 3, 64)),
        ],
        // Few channels in, and few out, too.
        Class::Winograd => vec![
            winograd(2, 56, 64, 64),
            winograd(4, 56, 64, 64),
            winograd(2, 28, 128, 128),
            winograd(4, 28, 128, 128),
            winograd(4, 56, 16, 64),
            winograd(4, 56, 128, 32),
            winograd(4, 28, 32, 128),
        ],
        Class::FullyConnected => vec![conv(1, 1, 4096, 4096)],
        Class::Depthwise => vec![
            depthwise(56, 3, 144),
            depthwise(14, 3, 576),
            depthwise(112, 3, 32),
            depthwise(28, 1, 256),
            strided(depthwise(56, 3, 144)),
            strided(depthwise(14, 3, 576)),
        ],
        Class::Grouped => vec![grouped(isa, 28, 128, isa.panel() as u32 / 4)],
        _ => vec![],
    }
}

/// A product of activations, as in attention.
fn product(isa: Isa) -> Network {
    let [batch, tokens, width] = [12, 197, 64];
    let params = MatMulParams {
        scale: 1.0,
        batch,
        m: tokens,
        k: width,
        n: tokens,
        batch_stride: [tokens * width; 2],
        row_stride: [width, 1],
        col_stride: [1, width],
    };
    let shape = [batch, tokens, width];
    let output = [batch, tokens, tokens];
    // Keys are read by strides: one run.
    let keys = [1, 1, batch * tokens * width];
    layer(isa, OpKind::MatMul, &params, &[shape, keys], output)
}

fn pools(isa: Isa) -> [Network; 2] {
    let three = PoolParams {
        kernel: [3; 2],
        stride: [2; 2],
        dilation: [1; 2],
        pad: [1; 2],
        pad_end: [1; 2],
        ..PoolParams::default()
    };
    let two = PoolParams { kernel: [2; 2], pad: [0; 2], pad_end: [0; 2], ..three };
    [
        layer(isa, OpKind::Pool, &three, &[[56, 56, 64]], [28, 28, 64]),
        layer(isa, OpKind::Pool, &two, &[[28, 28, 256]], [14, 14, 256]),
    ]
}

/// Functions of single elements, and of rows.
fn functions(isa: Isa) -> [Network; 2] {
    let shape = [28, 28, 128];
    let mut network = layer(isa, OpKind::Unary, &[0u32; 24], &[shape], shape);
    network.layers[0].activation.kind = ActivationKind::Sigmoid as u32;
    [network, layer(isa, OpKind::Softmax, &[0u32; 24], &[[1, 100, 1000]], [1, 100, 1000])]
}

/// Copies of rows, and of what is turned.
fn copies(isa: Isa) -> [Network; 2] {
    let rows = CopyParams {
        dims: [1, 1, 1, 1, 3136, 64],
        src: [0, 0, 0, 0, 64, 1],
        dst: [0, 0, 0, 0, 64, 1],
        ..CopyParams::default()
    };
    let turned = CopyParams { dst: [0, 0, 0, 0, 1, 3136], ..rows };
    let copy = |params| layer(isa, OpKind::Copy, &params, &[[56, 56, 64]], [56, 56, 64]);
    [copy(rows), copy(turned)]
}

/// Layers whose weights take about as long to read as to use.
pub(super) fn balanced(isa: Isa) -> Vec<Network> {
    vec![conv(isa, 7, 1, 512, 2048), conv(isa, 7, 3, 512, 512), conv(isa, 7, 1, 2048, 512)]
}

/// Convolutions by Winograd's algorithm whose maps no thread's cache holds.
pub(super) fn spilling(isa: Isa) -> Vec<Network> {
    vec![winograd(isa, 4, 112, 64, 128), winograd(isa, 4, 112, 128, 128)]
}

/// Winograd convolutions whose weights a thread's cache holds, to be computed in the smallest blocks.
pub(super) fn in_small_blocks(isa: Isa) -> Vec<Network> {
    vec![winograd(isa, 4, 56, 16, 64), winograd(isa, 4, 56, 128, 32), winograd(isa, 2, 56, 64, 64)]
}

/// Winograd convolutions whose weights take about as long to read as to use.
pub(super) fn balanced_winograd(isa: Isa) -> Vec<Network> {
    vec![
        winograd(isa, 2, 14, 256, 256),
        winograd(isa, 4, 14, 256, 256),
        winograd(isa, 4, 14, 512, 512),
        winograd(isa, 2, 7, 512, 512),
    ]
}

/// Depthwise convolutions that compute little with their weights.
pub(super) fn small_depthwise(isa: Isa) -> Vec<Network> {
    [(28, 192), (14, 384), (14, 576), (7, 960)]
        .map(|(size, channels)| depthwise(isa, size, 3, channels))
        .into()
}

/// Direct convolutions whose steps transform their weights.
pub(super) fn transforming(isa: Isa) -> Vec<Network> {
    let layer = |(tile, size, channels): (u32, u32, u32)| {
        let mut network = conv(isa, size, 3, channels, channels);
        network.on_load[0] = tile;
        network
    };
    [(4, 28, 128), (4, 14, 256), (4, 14, 512), (2, 7, 512)].map(layer).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_matrix_fits_half_of_a_small_cache() {
        let bytes = |network: Network| {
            let layer = &network.layers[0];
            u64::from(layer.panels) * u64::from(layer.panel_bytes)
        };
        for isa in Isa::ALL {
            let all: Vec<u64> = in_llc(isa).into_iter().map(bytes).collect();
            for (bytes, shared) in all.iter().zip([16 << 20, 8 << 20, 4 << 20]) {
                assert!((shared / 3..=shared / 2).contains(bytes), "{isa:?}: {bytes} of {shared}");
            }
        }
    }
}
