//! One inference, as `eyelet run` makes it: the same input, the same digest of the outputs.

use eyelet::device::Device;
use eyelet::executor::{Feed, InferError, Model, Progress};

/// Writes the values that `eyelet run` makes up where it is given no input.
pub fn write_inputs(model: &mut Model<'_, '_, impl Feed>) {
    for index in 0..model.inputs().len() {
        if let Ok(floats) = model.input_mut(index) {
            seeded(index as u64, floats);
        }
    }
}

/// Computes an inference step by step. `between` is called after each step: here firmware kicks its
/// watchdog.
pub fn infer(
    model: &mut Model<'_, '_, impl Feed>,
    device: &dyn Device,
    mut between: impl FnMut(),
) -> Result<(), InferError> {
    while model.step(device)? == Progress::Running {
        between();
    }
    Ok(())
}

/// The digest of all outputs that `eyelet run` prints: FNV-1a, 64 bits, of the floats' bytes.
pub fn digest(model: &mut Model<'_, '_, impl Feed>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for index in 0..model.outputs().len() {
        for byte in model.output(index).unwrap_or(&[]).iter().flat_map(|x| x.to_le_bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    hash
}

/// Values with mean 0 and variance 1: sums of four uniform ones (SplitMix64).
fn seeded(seed: u64, into: &mut [f32]) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x6579_656c_6574_2121;
    for value in into {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let sum = (0..4).map(|part| (mixed >> (16 * part) & 0xffff) as i32).sum::<i32>();
        *value = (sum - 131_070) as f32 * (1.732_050_8 / 65536.0);
    }
}
