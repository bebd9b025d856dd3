//! Layer normalisation: each row gets mean 0 and variance 1 over its channels, then scale and shift
//! of its channel, the constants of the layer: one panel, first all scales, then all shifts.
//!
//! Or zero takes the place of the mean: then only the sizes of rows become equal (RMS
//! normalisation).
//!
//! Mean and variance (of the differences from the mean) are sums in the order of [`Kernels::sum`].
//!
//! [`Kernels::sum`]: crate::kernels::Kernels::sum

use super::work::elements;
use super::{
    Call, LayerError, Operand, Operator, Reads, check, check_inputs, check_same_extents, device_for,
};
use crate::device::{Split, divide};
use crate::kernels::table::sqrt;
use crate::pack::{INPUTS, Isa, Layer, LayerNormParams, OpKind, Tensor, params};

/// Layer normalisation.
pub(super) const ROW: Operator = Operator {
    in_place: [true, false, false],
    reads: [Reads::Rows; INPUTS],
    macs: |_, _, output| elements(output).saturating_mul(8),
    ..Operator::new(OpKind::LayerNorm, 1, validate, run)
};

/// Refuses layers that [`run`] cannot compute.
pub fn validate(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    _isa: Isa,
) -> Result<(), LayerError> {
    check_inputs(layer, 1)?;
    check(layer.panels == 1, "number of weight panels", layer.panels.into(), 1)?;
    let about_zero = params::<LayerNormParams>(layer).about_zero;
    check(about_zero <= 1, "normalisation about zero", about_zero.into(), 1)?;
    let (bytes, limit) = (8 * u64::from(output.cols()), layer.panel_bytes.into());
    check(bytes <= limit, "bytes of scales and shifts", bytes, limit)?;
    check_same_extents(&inputs[0], output)
}

/// Computes the rows of one step.
pub fn run(mut call: Call<'_>) {
    let LayerNormParams { epsilon, about_zero } = params(call.layer);
    let (cols, first) = (call.out.cols(), call.rows.start);
    let (scale, shift) = call.weights.floats().split_at(cols);
    let out = call.out.part_mut(call.out.slots(call.rows), 0..cols);
    let device = device_for(call.device, out.rows() * cols);
    let kernels = call.kernels;
    divide(device, out, Split::Rows(1), &mut [], 0, |mut share| {
        for row in 0..share.out.rows() {
            let input = match call.operands[0] {
                Operand::Mat(input) => Some(input.row(input.slot(first + share.rows.start + row))),
                _ => None,
            };
            let out = share.out.row_mut(row);
            let x = input.unwrap_or(&*out);
            let mean = if about_zero == 1 { 0.0 } else { kernels.sum(x) / cols as f32 };
            let variance = kernels.square_differences(x, mean) / cols as f32;
            let factor = 1.0 / sqrt(variance + epsilon);
            kernels.standardise(input, [mean, factor], [&scale[..cols], &shift[..cols]], out);
        }
        kernels.map(&call.layer.activation, share.out);
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Case, Random, layer};
    use super::*;
    use crate::pack::Activation;
    use std::prelude::rust_2024::*;

    fn case(random: &mut Random, dims: [u32; 4], about_zero: u32) -> Case {
        let params = LayerNormParams { epsilon: 1e-5, about_zero };
        let mut layer = layer(OpKind::LayerNorm, Activation::NONE, &params);
        let cols = dims[3] as usize;
        (layer.panels, layer.panel_bytes) = (1, (8 * dims[3]).next_multiple_of(64));
        let mut case = Case::new(layer, random, &[dims], dims);
        case.weights = (0..2 * cols.next_multiple_of(8)).map(|_| random.float()).collect();
        case
    }

    #[test]
    fn matches_double_precision() {
        let mut random = Random::new(1);
        let shapes = [
            [1, 1, 1, 1],
            [1, 1, 7, 16],
            [2, 3, 5, 7],
            [1, 9, 5, 17],
            [1, 1, 197, 768],
            [1, 1, 3, 1031],
        ];
        for (dims, about_zero) in shapes.into_iter().flat_map(|dims| [(dims, 0), (dims, 1)]) {
            let case = case(&mut random, dims, about_zero);
            let found = case.run_everywhere();
            let cols = dims[3] as usize;
            let x = |row: usize, col: usize| case.input(0, row * cols + col);
            let statistics = |row: usize| {
                let mean = (0..cols).map(|col| x(row, col)).sum::<f64>() / cols as f64;
                let mean = if about_zero == 1 { 0.0 } else { mean };
                let square = |col: usize| (x(row, col) - mean).powi(2);
                (mean, (0..cols).map(square).sum::<f64>() / cols as f64)
            };
            let of_rows: Vec<_> = (0..found.len() / cols).map(statistics).collect();
            case.assert_close(&found, 4e-6, |at| {
                let (row, col) = (at / cols, at % cols);
                let (mean, variance) = of_rows[row];
                let [scale, shift] = [col, cols + col].map(|i| f64::from(case.weights[i]));
                (x(row, col) - mean) / (variance + 1e-5f32 as f64).sqrt() * scale + shift
            });
            let in_place = case.in_place(0).run_everywhere();
            assert_eq!(found, in_place, "{dims:?}");
        }
    }

    #[test]
    fn refuses_missing_weights_and_other_extents() {
        let mut random = Random::new(2);
        let good = case(&mut random, [1, 2, 3, 9], 0);
        assert_eq!(good.validate(), Ok(()));
        let refused = |change: fn(&mut Case)| {
            let mut case = good.clone();
            change(&mut case);
            case.validate().is_err()
        };
        assert!(refused(|case| case.layer.params[1] = 2));
        assert!(refused(|case| case.layer.panels = 0));
        assert!(refused(|case| case.layer.panels = 2));
        assert!(refused(|case| case.layer.panel_bytes = 64));
        assert!(refused(|case| case.layer.inputs[0] = crate::pack::NONE));
        assert!(refused(|case| case.layer.inputs[1] = 1));
        assert!(refused(|case| case.inputs[0].dims[2] = 2));
    }
}
