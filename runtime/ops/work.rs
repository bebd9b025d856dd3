//! The work of a layer, from its records alone, which `eyelet run --layers` compares with time. For
//! Winograd it counts a processor's multiplications; a GPU multiplies whole tiles.

use super::{Slice, row};
use crate::pack::{ActivationKind, INPUTS, Layer, NONE, Tensor};

/// The work of one whole layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Multiply-accumulates; for operators that have none, arithmetic of about that cost.
    pub macs: u64,
    /// Bytes of activations read and written, each once. (Weights are `panels · panel_bytes`.)
    pub bytes: u64,
}

/// Elements of a tensor; the largest number where that overflows.
pub(super) fn elements(tensor: &Tensor) -> u64 {
    product(tensor.dims)
}

/// A product; the largest number where that overflows.
pub(super) fn product<const N: usize>(factors: [u32; N]) -> u64 {
    factors.iter().fold(1, |product, factor| product.saturating_mul((*factor).into()))
}

/// The work of a layer; none for an unknown operator.
pub fn work(layer: &Layer, inputs: &[Tensor; INPUTS], output: &Tensor) -> Work {
    let Some(operator) = row(layer) else { return Work::default() };
    let made = elements(output);
    let read =
        (0..INPUTS).filter(|index| layer.inputs[*index] != NONE).map(|i| elements(&inputs[i]));
    let touched = read.fold(made, u64::saturating_add);
    let macs = (operator.macs)(layer, inputs, output);
    let activation = layer.activation.function().map_or(0, of_function);
    Work {
        macs: macs.saturating_add(made.saturating_mul(activation)),
        bytes: touched.saturating_mul(4),
    }
}

/// Operations of an activation for each element.
fn of_function(function: ActivationKind) -> u64 {
    match function {
        ActivationKind::None => 0,
        ActivationKind::Clamp | ActivationKind::LeakyRelu | ActivationKind::Abs => 1,
        ActivationKind::HardSigmoid | ActivationKind::HardSwish => 3,
        ActivationKind::Sigmoid | ActivationKind::Tanh | ActivationKind::Silu => 18,
        ActivationKind::Gelu | ActivationKind::GeluTanh | ActivationKind::Erf => 36,
        ActivationKind::Sqrt | ActivationKind::Exp | ActivationKind::Elu => 18,
        ActivationKind::Mish | ActivationKind::Swish | ActivationKind::Log => 18,
        ActivationKind::Softplus => 36,
        function if function.is_wide() => 100,
        _ => 4,
    }
}

/// Upper bound for the work of a step: multiply-accumulates, and elements read and written. A slice
/// has its share of its layer's rows and panels. A slice of some chains counts as one of all
/// chains.
pub fn step_work(layer: &Layer, inputs: &[Tensor; INPUTS], output: &Tensor, slice: &Slice) -> u64 {
    let Work { macs, bytes } = work(layer, inputs, output);
    if macs == u64::MAX || bytes == u64::MAX {
        // More than is counted, of which a share says nothing.
        return u64::MAX;
    }
    let share = |part: u64, all: u64| {
        move |of: u64| match all {
            0 => of,
            all => (u128::from(of) * u128::from(part.min(all))).div_ceil(u128::from(all)) as u64,
        }
    };
    let rows = share(slice.rows.into(), output.rows());
    let panels = share(slice.count.into(), layer.panels.into());
    // An input is read by each panel.
    panels(rows(macs)).saturating_add(rows(bytes / 4))
}

#[cfg(test)]
mod tests {
    use super::super::testing::layer;
    use super::*;
    use crate::pack::{Activation, ConvParams, MatMulParams, OpKind, WinogradParams, params_words};

    fn tensor(dims: [u32; 4]) -> Tensor {
        Tensor { dims, ..Default::default() }
    }

    #[test]
    fn convolutions_and_products() {
        let conv = ConvParams { kernel: [3, 3], groups: 2, ..Default::default() };
        let mut conv = layer(OpKind::Conv, Activation::RELU, &conv);
        conv.inputs[0] = 0;
        let inputs = [tensor([1, 9, 9, 8]), Tensor::default(), Tensor::default()];
        let output = tensor([1, 7, 7, 16]);
        let made = 7 * 7 * 16;
        assert_eq!(
            work(&conv, &inputs, &output),
            Work { macs: made * 9 * 4 + made, bytes: 4 * (made + 9 * 9 * 8) }
        );
        let product = MatMulParams { batch: 12, m: 197, k: 64, n: 197, ..Default::default() };
        let product = layer(OpKind::MatMul, Activation::NONE, &product);
        assert_eq!(work(&product, &inputs, &output).macs, 12 * 197 * 64 * 197);
    }

    /// Tiles at the edge have only the frequencies that they need: 5 of 6 for three outputs left, 3
    /// for one.
    #[test]
    fn products_of_winograd() {
        let mut layer = layer(
            OpKind::Winograd,
            Activation::NONE,
            &WinogradParams { tile: 4, pad: [1; 2], groups: 1 },
        );
        layer.inputs[0] = 0;
        for ([images, height, width], frequencies) in [
            ([1, 8, 8], 12 * 12),
            ([1, 7, 7], 11 * 11),
            ([2, 13, 14], 2 * 21 * 22),
            ([1, 1, 3], 3 * 5),
        ] {
            let map = tensor([images, height, width, 1]);
            // One product, and sixteen operations for an input and an output.
            assert_eq!(work(&layer, &[map; INPUTS], &map).macs, frequencies * (1 + 16 * 2));
        }
        // Eight channels in two groups: four products for each.
        layer.params = params_words(&WinogradParams { tile: 4, pad: [1; 2], groups: 2 });
        let map = tensor([1, 8, 8, 8]);
        assert_eq!(work(&layer, &[map; INPUTS], &map).macs, 12 * 12 * (8 * 4 + 16 * 16));
    }

    #[test]
    fn nothing_overflows() {
        let huge = tensor([u32::MAX; 4]);
        for kind in OpKind::ALL {
            let mut layer = layer(kind, Activation::RELU, &[u32::MAX; 24]);
            layer.inputs = [0, 1, NONE];
            assert_eq!(work(&layer, &[huge; INPUTS], &huge).bytes, u64::MAX);
        }
    }
}
