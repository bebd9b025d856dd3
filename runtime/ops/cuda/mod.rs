//! The operators on a GPU: one file each. They choose kernels, grids and blocks, and fill in the
//! kernels' records.
//!
//! The records of a pack are those of every instruction set, and so are the rules for them
//! ([`super::validate`]): weights lie in panels of 32 output channels, activations in NHWC. So
//! launches may trust them as the operators on a processor do. Nothing here touches memory:
//! addresses are the GPU's, and only numbers.
//!
//! **Bits.** A kernel computes each output by the same chain of operations as the portable kernel:
//! fused multiply-adds in the order of the reduction from the bias on, the elementary functions of
//! `kernels/math.h`. So a GPU gives the bits of a processor, unless a reduction is cut into chains
//! ([`ConvParams::chains`](crate::pack::ConvParams)), which is a property of the layer and not of
//! the way it is run: slices, tiles and the number of multiprocessors never change a bit.
//!
//! An operator that a GPU computes names one or two functions in its row:
//!
//! - one that launches a step. The queue may return an error; nothing else can go wrong after
//!   [`super::validate`] and [`super::validate_slice`].
//! - `scratch_bytes(layer, inputs, output, slice)`, if a step has intermediates. The planner calls
//!   the same function.
//!
//! Rings and algorithms of steps ([`Step::algorithm`](crate::pack::Step)) are not for GPUs: a pack
//! is refused for the one, [`validate_slice`] refuses the other.

pub mod conv;
pub(super) mod copy;
pub(super) mod depthwise;
pub(super) mod elementwise;
pub(super) mod gather;
mod gemm;
mod launch;
pub(super) mod matmul;
pub(super) mod pool;
pub(super) mod rows;
pub(super) mod winograd;

#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
pub(crate) mod testing;
#[cfg(all(test, any(feature = "cuda", feature = "cuda-linked")))]
mod tests;

use super::{LayerError, Slice, launch_of, row};
use crate::device::DeviceError;
use crate::device::accelerator::Queue;
use crate::pack::{INPUTS, Layer, Tensor};

/// Launches one step.
pub(crate) type Launch = fn(&Call<'_>, &mut dyn Queue) -> Result<(), DeviceError>;

/// One step, ready to be launched. Addresses are the GPU's; 0 for what is absent.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The layer.
    pub layer: &'a Layer,
    /// Its input tensors' records; those of absent inputs are zero.
    pub inputs: [Tensor; INPUTS],
    /// Its output tensor's record.
    pub output: Tensor,
    /// Where the inputs' first elements lie (of [`OpKind::Copy`](crate::pack::OpKind::Copy): their
    /// buffers). One may be `out`: in place.
    pub operands: [u64; INPUTS],
    /// Where the output's first element lies (of [`OpKind::Copy`](crate::pack::OpKind::Copy): its
    /// buffer).
    pub out: u64,
    /// Where the first panel of this step lies, in the layer's encoding.
    pub weights: u64,
    /// Where its scratch lies.
    pub scratch: u64,
    /// The slice that the step makes.
    pub slice: Slice,
    /// Multiprocessors of the GPU.
    pub multiprocessors: u32,
}

impl Call<'_> {
    /// Where the output's rows lie.
    fn out_matrix(&self) -> launch::Matrix {
        launch::Matrix { address: self.out, pitch: self.output.pitch }
    }
}

/// Refuses a (valid) slice that GPUs do not compute.
pub fn validate_slice(slice: &Slice, output: &Tensor) -> Result<(), LayerError> {
    let algorithm = slice.algorithm();
    if algorithm != 0 {
        return Err(LayerError::Field("algorithm of a step on a GPU", algorithm.into(), 0));
    }
    if u64::from(slice.rows) != output.rows() {
        let (found, limit) = (slice.rows.into(), output.rows());
        return Err(LayerError::Field("rows of a step on a GPU", found, limit));
    }
    Ok(())
}

/// Bytes of intermediates for one step.
pub fn scratch_bytes(
    layer: &Layer,
    inputs: &[Tensor; INPUTS],
    output: &Tensor,
    slice: &Slice,
) -> u64 {
    let scratch = row(layer).and_then(|operator| operator.on_gpu);
    scratch.map_or(0, |scratch| scratch(layer, inputs, output, slice))
}

/// Launches one step.
pub fn run(call: &Call<'_>, queue: &mut dyn Queue) -> Result<(), DeviceError> {
    // Layers without one are refused by `validate`.
    launch_of(call.layer).map_or(Ok(()), |launch| launch(call, queue))
}
