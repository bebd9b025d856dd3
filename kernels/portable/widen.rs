//! Weights of 16 and 8 bits as floats.

/// A number of IEEE 754's binary16. NaNs become quiet, as processors make them.
pub fn f16(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let magnitude = u32::from(bits & 0x7fff);
    let wide = match magnitude {
        // Below the smallest normal number, the magnitude counts units of 2⁻²⁴.
        0..0x0400 => (magnitude as f32 * (1.0 / (1 << 24) as f32)).to_bits(),
        // The exponent's bias is 127 instead of 15.
        0x0400..0x7c00 => (magnitude << 13) + ((127 - 15) << 23),
        0x7c00 => f32::INFINITY.to_bits(),
        _ => magnitude << 13 | 0x7fc0_0000,
    };
    f32::from_bits(sign | wide)
}

/// The upper half of a float.
pub fn bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A weight of 8 bits: its difference to the channel's zero, which is exact, times the channel's
/// scale.
pub fn dequantised(bits: i8, zero: i8, scale: f32) -> f32 {
    (i32::from(bits) - i32::from(zero)) as f32 * scale
}
