//! Numbers of 16 bits: floats rounded to nearest, ties to even.

/// The nearest number of IEEE 754's binary16.
pub(crate) fn f16(value: f32) -> u16 {
    let bits = value.to_bits();
    let (sign, magnitude) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    let half = match magnitude {
        // NaN, with what fits of its payload.
        0x7f80_0001.. => (magnitude >> 13) as u16 & 0x03ff | 0x7e00,
        // What rounds to more than 65504.
        0x477f_f000.. => 0x7c00,
        // Normal: the exponent's bias is 15 instead of 127.
        0x3880_0000.. => {
            let odd = magnitude >> 13 & 1;
            ((magnitude - (112 << 23) + 0x0fff + odd) >> 13) as u16
        }
        // Below, in units of 2⁻²⁴: the sum's own rounding, to a whole number.
        _ => {
            let shifted = f32::from_bits(magnitude) + 0.5;
            (shifted.to_bits() - 0.5f32.to_bits()) as u16
        }
    };
    sign | half
}

/// The nearest float of which only the upper half is not zero.
pub(crate) fn bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    match value.is_nan() {
        true => (bits >> 16) as u16 | 0x0040,
        false => ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_and_to_even() {
        use eyelet::kernels::table::{bf16 as widened_bf16, f16 as widened};
        for bits in 0..=u16::MAX {
            let float = widened(bits);
            assert!(f16(float) == bits || float.is_nan() && f16(float) == bits | 0x0200);
            assert!(bf16(widened_bf16(bits)) & !0x40 == bits & !0x40);
        }
        // Between each number and the next: half-way to the even one, else to the nearer.
        for (halve, wide, end) in [
            (f16 as fn(f32) -> u16, widened as fn(u16) -> f32, 0x7bffu16),
            (bf16, widened_bf16, 0x7f7f),
        ] {
            for bits in 0..end {
                let (low, high) = (f64::from(wide(bits)), f64::from(wide(bits + 1)));
                let middle = ((low + high) / 2.0) as f32;
                if f64::from(middle) == (low + high) / 2.0 {
                    assert_eq!(halve(middle), bits + (bits & 1), "{middle:e}");
                    assert_eq!(halve(-middle), 0x8000 | (bits + (bits & 1)));
                    assert_eq!(halve(middle.next_down()), bits);
                    assert_eq!(halve(middle.next_up()), bits + 1);
                }
            }
        }
        assert_eq!(
            [65504.0, 65519.99, 65520.0, f32::INFINITY].map(f16),
            [0x7bff, 0x7bff, 0x7c00, 0x7c00]
        );
        assert_eq!([f32::MAX, f32::INFINITY, -0.0].map(bf16), [0x7f80, 0x7f80, 0x8000]);
    }
}
