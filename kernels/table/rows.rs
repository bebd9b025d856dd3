//! The kernels over one row of adjacent floats: their records, the functions, and the safe calls.

use super::Kernels;
use crate::kernels::portable::rows as portable;
use core::ptr;
use core::slice::{from_raw_parts, from_raw_parts_mut};

/// `struct eyelet_standardise` of `kernels/rows.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Standardise {
    n: usize,
    x: *const f32,
    out: *mut f32,
    gamma: *const f32,
    beta: *const f32,
    mean: f32,
    scale: f32,
}

/// `struct eyelet_lrn`.
#[repr(C)]
pub(super) struct Lrn {
    n: usize,
    x: *const f32,
    out: *mut f32,
    alpha: f32,
    beta: f32,
    bias: f32,
}

/// The kernels.
///
/// # Safety
/// Every input has `n` readable floats, every output as many exclusive ones, which for softmax and
/// Standardise may be those of `x`. The processor has the instruction set.
#[derive(Debug)]
pub(super) struct Functions {
    sum: unsafe extern "C" fn(x: *const f32, n: usize) -> f32,
    max: unsafe extern "C" fn(x: *const f32, n: usize) -> f32,
    square_differences: unsafe extern "C" fn(x: *const f32, n: usize, mean: f32) -> f32,
    softmax: unsafe extern "C" fn(x: *const f32, out: *mut f32, n: usize),
    standardise: unsafe extern "C" fn(&Standardise),
    lrn: unsafe extern "C" fn(&Lrn),
}

#[cfg(any(eyelet_x86, eyelet_neon))]
macro_rules! external {
    ($table:ident, $module:ident, $isa:literal) => {
        mod $module {
            use super::*;
            unsafe extern "C" {
                #[link_name = concat!("eyelet_f32_sum__", $isa)]
                pub fn sum(x: *const f32, n: usize) -> f32;
                #[link_name = concat!("eyelet_f32_max__", $isa)]
                pub fn max(x: *const f32, n: usize) -> f32;
                #[link_name = concat!("eyelet_f32_square_differences__", $isa)]
                pub fn square_differences(x: *const f32, n: usize, mean: f32) -> f32;
                #[link_name = concat!("eyelet_f32_softmax__", $isa)]
                pub fn softmax(x: *const f32, out: *mut f32, n: usize);
                #[link_name = concat!("eyelet_f32_standardise__", $isa)]
                pub fn standardise(t: &Standardise);
                #[link_name = concat!("eyelet_f32_lrn__", $isa)]
                pub fn lrn(t: &Lrn);
            }
        }
        pub(super) const $table: Functions = Functions {
            sum: $module::sum,
            max: $module::max,
            square_differences: $module::square_differences,
            softmax: $module::softmax,
            standardise: $module::standardise,
            lrn: $module::lrn,
        };
    };
}

#[cfg(eyelet_x86)]
external!(AVX2, avx2, "avx2");
#[cfg(eyelet_x86)]
external!(AVX512, avx512, "avx512");
#[cfg(eyelet_neon)]
external!(NEON, neon, "neon");

pub(super) const PORTABLE: Functions = Functions {
    sum: f32_sum_portable,
    max: f32_max_portable,
    square_differences: f32_square_differences_portable,
    softmax: f32_softmax_portable,
    standardise: f32_standardise_portable,
    lrn: f32_lrn_portable,
};

/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_sum_portable(x: *const f32, n: usize) -> f32 {
    // SAFETY: the floats that the contract names.
    portable::sum(unsafe { from_raw_parts(x, n) })
}

/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_max_portable(x: *const f32, n: usize) -> f32 {
    // SAFETY: the floats that the contract names.
    portable::max(unsafe { from_raw_parts(x, n) })
}

/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_square_differences_portable(x: *const f32, n: usize, mean: f32) -> f32 {
    // SAFETY: the floats that the contract names.
    portable::square_differences(unsafe { from_raw_parts(x, n) }, mean)
}

/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_softmax_portable(x: *const f32, out: *mut f32, n: usize) {
    if !ptr::eq(x, out) {
        // SAFETY: the floats that the contract names, apart from what is written.
        unsafe { ptr::copy_nonoverlapping(x, out, n) };
    }
    // SAFETY: the floats that the contract names.
    portable::softmax(unsafe { from_raw_parts_mut(out, n) })
}

/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_standardise_portable(t: &Standardise) {
    for i in 0..t.n {
        // SAFETY: elements that the contract names, read before the one is written.
        unsafe {
            let (x, gamma, beta) = (*t.x.add(i), *t.gamma.add(i), *t.beta.add(i));
            *t.out.add(i) = portable::standardised(x, t.mean, t.scale, gamma, beta);
        }
    }
}

/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_lrn_portable(t: &Lrn) {
    for i in 0..t.n {
        // SAFETY: elements that the contract names, read before the one is written.
        unsafe {
            *t.out.add(i) = portable::lrn(*t.x.add(i), *t.out.add(i), t.alpha, t.beta, t.bias);
        }
    }
}

impl Kernels {
    /// The sum of a row: sixteen partial sums, element i to the one numbered i mod 16, then those
    /// by halves. Partial sums of more than 256 terms are made in blocks (`portable::sums`).
    pub fn sum(&self, x: &[f32]) -> f32 {
        // SAFETY (of all calls here): lengths are those of the slices, and were compared; these
        // kernels exist only on processors that can run them.
        unsafe { (self.rows.sum)(x.as_ptr(), x.len()) }
    }

    /// The largest element of a row, NaN passed over; minus infinity where there is none.
    pub fn max(&self, x: &[f32]) -> f32 {
        // SAFETY: see `sum`.
        unsafe { (self.rows.max)(x.as_ptr(), x.len()) }
    }

    /// The sum of (x - mean)² over a row, in the order of [`sum`](Self::sum), products and sums
    /// fused.
    pub fn square_differences(&self, x: &[f32], mean: f32) -> f32 {
        // SAFETY: see `sum`.
        unsafe { (self.rows.square_differences)(x.as_ptr(), x.len(), mean) }
    }

    /// Softmax of a row: the largest element is subtracted, the exponentials are summed in the
    /// order of [`sum`](Self::sum), and multiplied by the reciprocal of the sum. `x` is `out` where
    /// it is none.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn softmax(&self, x: Option<&[f32]>, out: &mut [f32]) {
        let n = out.len();
        assert!(x.is_none_or(|x| x.len() == n), "{n} floats from others");
        let to = out.as_mut_ptr();
        let x = x.map_or(to.cast_const(), <[f32]>::as_ptr);
        // SAFETY: see `sum`.
        unsafe { (self.rows.softmax)(x, to, n) }
    }

    /// Normalisation of a row by its mean and the reciprocal of its standard deviation:
    /// `out = (x - mean) · scale · gamma + beta`, the last two operations fused. `x` is `out` where
    /// it is none.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn standardise(
        &self,
        x: Option<&[f32]>,
        [mean, scale]: [f32; 2],
        [gamma, beta]: [&[f32]; 2],
        out: &mut [f32],
    ) {
        let n = out.len();
        assert!(x.is_none_or(|x| x.len() == n) && gamma.len() == n && beta.len() == n);
        let to = out.as_mut_ptr();
        let x = x.map_or(to.cast_const(), <[f32]>::as_ptr);
        let (gamma, beta) = (gamma.as_ptr(), beta.as_ptr());
        // SAFETY: see `sum`.
        unsafe { (self.rows.standardise)(&Standardise { n, x, out: to, gamma, beta, mean, scale }) }
    }

    /// The last part of local response normalisation: `out = x · (bias + alpha · out)^-beta`, where
    /// `out` holds sums of squares; `[alpha, beta, bias]`.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn lrn(&self, x: &[f32], [alpha, beta, bias]: [f32; 3], out: &mut [f32]) {
        assert!(x.len() == out.len(), "{} floats from {}", out.len(), x.len());
        let (n, x, out) = (x.len(), x.as_ptr(), out.as_mut_ptr());
        // SAFETY: see `sum`.
        unsafe { (self.rows.lrn)(&Lrn { n, x, out, alpha, beta, bias }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{any_floats, assert_same, available, floats};
    use std::prelude::rust_2024::*;
    use std::{format, vec};

    fn lengths() -> impl Iterator<Item = usize> {
        (1..=70).chain([197, 768, 1000, 4096, 4099, 8192, 20_011])
    }

    #[test]
    fn reductions_have_the_portable_bits() {
        for n in lengths() {
            for x in [floats(n, n as u64), any_floats(n, n as u64)] {
                let mean = portable::sum(&x) / n as f32;
                let want =
                    [portable::sum(&x), portable::max(&x), portable::square_differences(&x, mean)];
                for kernels in available() {
                    let got =
                        [kernels.sum(&x), kernels.max(&x), kernels.square_differences(&x, mean)];
                    assert_same(&got, &want, &format!("{n} {:?}", kernels.isa()));
                }
            }
        }
    }

    #[test]
    fn reductions_match_double_precision() {
        for n in lengths() {
            let x = floats(n, n as u64);
            let sum: f64 = x.iter().map(|x| *x as f64).sum();
            let squares: f64 = x.iter().map(|x| (*x as f64 - 0.25).powi(2)).sum();
            let kernels = Kernels::best();
            let bound = 1e-6 * (n as f64).sqrt();
            assert!((kernels.sum(&x) as f64 - sum).abs() <= bound, "{n}");
            let found = kernels.square_differences(&x, 0.25) as f64;
            assert!((found - squares).abs() <= 1e-6 * squares, "{n}");
        }
    }

    #[test]
    fn rows_have_the_portable_bits() {
        for n in lengths() {
            let x = floats(n, n as u64).iter().map(|x| x * 20.0).collect::<Vec<f32>>();
            let (gamma, beta) = (floats(n, 1), floats(n, 2));
            let squares: Vec<f32> = x.iter().map(|x| x * x).collect();
            let mut soft = x.clone();
            portable::softmax(&mut soft);
            let each = |f: &dyn Fn(usize) -> f32| (0..n).map(f).collect::<Vec<f32>>();
            let normal = each(&|i| portable::standardised(x[i], 0.3, 1.7, gamma[i], beta[i]));
            let local = each(&|i| portable::lrn(x[i], squares[i], 1e-2, 0.75, 1.5));
            for kernels in available() {
                let what = format!("{n} {:?}", kernels.isa());
                let mut out = vec![0.0; n + 1];
                kernels.softmax(Some(&x), &mut out[..n]);
                assert_same(&out[..n], &soft, &what);
                out[..n].copy_from_slice(&x);
                kernels.softmax(None, &mut out[..n]);
                assert_same(&out[..n], &soft, &what);
                kernels.standardise(Some(&x), [0.3, 1.7], [&gamma, &beta], &mut out[..n]);
                assert_same(&out[..n], &normal, &what);
                out[..n].copy_from_slice(&x);
                kernels.standardise(None, [0.3, 1.7], [&gamma, &beta], &mut out[..n]);
                assert_same(&out[..n], &normal, &what);
                out[..n].copy_from_slice(&squares);
                kernels.lrn(&x, [1e-2, 0.75, 1.5], &mut out[..n]);
                assert_same(&out[..n], &local, &what);
                assert_eq!(out[n], 0.0, "written past the end");
            }
        }
    }
}
