//! The elementwise kernels: their records, the functions, and the safe calls.

use super::Kernels;
use crate::kernels::portable::{elementwise as portable, igemm::clamp};
use crate::matrix::{MatMut, MatRef};
use crate::pack::{Activation, ActivationKind, BinaryOp};

/// `struct eyelet_map` of `kernels/elementwise.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Map {
    function: usize,
    rows: usize,
    cols: usize,
    input: *const f32,
    in_pitch: usize,
    out: *mut f32,
    out_pitch: usize,
    alpha: f32,
    beta: f32,
}

/// `struct eyelet_binary`.
#[repr(C)]
pub(super) struct Binary {
    op: usize,
    rows: usize,
    cols: usize,
    a: *const f32,
    a_pitch: usize,
    a_step: usize,
    b: *const f32,
    b_pitch: usize,
    b_step: usize,
    out: *mut f32,
    out_pitch: usize,
    min: f32,
    max: f32,
}

/// The kernels.
///
/// # Safety
/// Map: `function` is the code of an [`ActivationKind`] other than None and those that are wide; `out` is an exclusive
/// matrix of `rows` by `cols`, `input` a readable one, or `out` itself. Binary: `op` is the code of
/// a [`BinaryOp`] that is not wide; `out` as before, and each operand is `out` itself or has, for every row and
/// column, a readable float at row times its pitch plus column times its step, which is 0 or 1. The
/// processor has the instruction set.
#[derive(Debug)]
pub(super) struct Functions {
    map: unsafe extern "C" fn(&Map),
    binary: unsafe extern "C" fn(&Binary),
}

#[cfg(any(eyelet_x86, eyelet_neon))]
macro_rules! external {
    ($table:ident, $map:ident = $map_name:literal, $binary:ident = $binary_name:literal) => {
        unsafe extern "C" {
            #[link_name = $map_name]
            fn $map(t: &Map);
            #[link_name = $binary_name]
            fn $binary(t: &Binary);
        }
        pub(super) const $table: Functions = Functions { map: $map, binary: $binary };
    };
}

#[cfg(eyelet_x86)]
external!(
    AVX2,
    f32_map__avx2 = "eyelet_f32_map__avx2",
    f32_binary__avx2 = "eyelet_f32_binary__avx2"
);
#[cfg(eyelet_x86)]
external!(
    AVX512,
    f32_map__avx512 = "eyelet_f32_map__avx512",
    f32_binary__avx512 = "eyelet_f32_binary__avx512"
);
#[cfg(eyelet_neon)]
external!(
    NEON,
    f32_map__neon = "eyelet_f32_map__neon",
    f32_binary__neon = "eyelet_f32_binary__neon"
);

pub(super) const PORTABLE: Functions =
    Functions { map: f32_map_portable, binary: f32_binary_portable };

/// Functions in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_map_portable(t: &Map) {
    let activation = Activation { kind: t.function as u32, alpha: t.alpha, beta: t.beta };
    let Some(function) = activation.function() else { return };
    for row in 0..t.rows {
        for col in 0..t.cols {
            // SAFETY: one of the elements that the contract names, read before it is written.
            unsafe {
                let x = *t.input.add(row * t.in_pitch + col);
                *t.out.add(row * t.out_pitch + col) = portable::map(function, x, t.alpha, t.beta);
            }
        }
    }
}

/// Arithmetic in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_binary_portable(t: &Binary) {
    let Some(op) = BinaryOp::from_code(t.op as u32) else { return };
    for row in 0..t.rows {
        for col in 0..t.cols {
            // SAFETY: elements that the contract names, read before the one is written.
            unsafe {
                let a = *t.a.add(row * t.a_pitch + col * t.a_step);
                let b = *t.b.add(row * t.b_pitch + col * t.b_step);
                let x = clamp(portable::binary(op, a, b), t.min, t.max);
                *t.out.add(row * t.out_pitch + col) = x;
            }
        }
    }
}

/// The part of an operand of arithmetic that belongs to a rectangle of the output.
#[derive(Clone, Copy, Debug)]
pub enum OperandPart<'a> {
    /// The output itself (in place).
    Output,
    /// A matrix that has one row or the output's rows, and one column or the output's columns. A
    /// single row or column is broadcast.
    Mat(MatRef<'a>),
}

impl OperandPart<'_> {
    /// Address, pitch and step for a kernel.
    ///
    /// # Panics
    /// When the matrix does not fit the output.
    fn raw(&self, out: &mut MatMut<'_>) -> (*const f32, usize, usize) {
        match self {
            OperandPart::Output => (out.as_mut_ptr().cast_const(), out.pitch(), 1),
            OperandPart::Mat(mat) => {
                let (rows, cols) = (mat.rows(), mat.cols());
                assert!(rows == 1 || rows == out.rows(), "{rows} rows beside {}", out.rows());
                assert!(cols == 1 || cols == out.cols(), "{cols} columns beside {}", out.cols());
                let pitch = if rows == 1 { 0 } else { mat.pitch() };
                // One float for all is that even where there is one column.
                let step = usize::from(cols == out.cols() && rows * cols > 1);
                (mat.as_ptr(), pitch, step)
            }
        }
    }
}

impl Kernels {
    /// Applies an activation to a matrix, in place; nothing where the code is none.
    pub fn map(&self, activation: &Activation, mut out: MatMut<'_>) {
        if !matches!(activation.function(), None | Some(ActivationKind::None)) {
            let input = out.as_mut_ptr().cast_const();
            let pitch = out.pitch();
            self.map_raw(activation, input, pitch, out);
        }
    }

    /// Applies an activation to a matrix on the way to another.
    ///
    /// # Panics
    /// When their sizes differ.
    pub fn map_from(&self, activation: &Activation, input: MatRef<'_>, mut out: MatMut<'_>) {
        assert!(input.rows() == out.rows() && input.cols() == out.cols());
        match activation.function() {
            None | Some(ActivationKind::None) => {
                for row in 0..out.rows() {
                    out.row_mut(row).copy_from_slice(input.row(row));
                }
            }
            Some(_) => self.map_raw(activation, input.as_ptr(), input.pitch(), out),
        }
    }

    /// `input` is readable as a matrix of the output's size and this pitch, or the output itself.
    fn map_raw(
        &self,
        activation: &Activation,
        input: *const f32,
        in_pitch: usize,
        mut out: MatMut<'_>,
    ) {
        let (mut rows, mut cols) = (out.rows(), out.cols());
        if in_pitch == cols && out.pitch() == cols {
            (rows, cols) = (1, rows * cols);
        }
        let wide = activation.function().is_some_and(ActivationKind::is_wide);
        let kernel = if wide { f32_map_portable } else { self.elementwise.map };
        let activation = activation.for_kernels();
        let map = Map {
            function: activation.kind as usize,
            rows,
            cols,
            input,
            in_pitch,
            out: out.as_mut_ptr(),
            out_pitch: out.pitch(),
            alpha: activation.alpha,
            beta: activation.beta,
        };
        // SAFETY: the callers have checked the code, and the input against the output; rows that
        // lie one after the other in both are one row; these kernels exist only on processors that
        // can run them.
        unsafe { kernel(&map) }
    }

    /// Computes `out = clamp(a op b)`, element by element.
    ///
    /// # Panics
    /// When an operand does not fit the output.
    pub fn binary(
        &self,
        op: BinaryOp,
        a: OperandPart<'_>,
        b: OperandPart<'_>,
        clamp: [f32; 2],
        mut out: MatMut<'_>,
    ) {
        let (a, a_pitch, a_step) = a.raw(&mut out);
        let (b, b_pitch, b_step) = b.raw(&mut out);
        let (mut rows, mut cols) = (out.rows(), out.cols());
        let joined = |pitch, step| if step == 1 { pitch == cols } else { pitch == 0 };
        if out.pitch() == cols && joined(a_pitch, a_step) && joined(b_pitch, b_step) {
            (rows, cols) = (1, rows * cols);
        }
        let kernel = if op.is_wide() { f32_binary_portable } else { self.elementwise.binary };
        let binary = Binary {
            op: op as usize,
            rows,
            cols,
            a,
            a_pitch,
            a_step,
            b,
            b_pitch,
            b_step,
            out: out.as_mut_ptr(),
            out_pitch: out.pitch(),
            min: clamp[0],
            max: clamp[1],
        };
        // SAFETY: `raw` has checked the operands' sizes; rows that lie one after the other in all
        // three (or of which an operand has the same float everywhere) are one row; the kernels are
        // this processor's.
        unsafe { kernel(&binary) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{
        BOUNDS, SPECIAL, any_floats, assert_clamped, assert_same, available,
    };
    use std::prelude::rust_2024::*;
    use std::{format, vec};

    const GAP: f32 = -12345.5;

    /// Rows and columns around every number of lanes.
    fn sizes() -> impl Iterator<Item = (usize, usize)> {
        (1..=70).map(|cols| (1 + cols % 3, cols)).chain([(1, 1000), (7, 129)])
    }

    #[test]
    fn functions_have_the_portable_bits() {
        for code in 1..ActivationKind::ALL.len() as u32 {
            let parameters = if code == 1 { [-0.5, 6.0] } else { [0.2, 0.5] };
            let activation = Activation { kind: code, alpha: parameters[0], beta: parameters[1] };
            let function = activation.function().unwrap();
            for (rows, cols) in sizes() {
                let pitch = cols + cols % 2;
                let x = any_floats(rows * pitch, cols as u64);
                let mut want = vec![GAP; rows * pitch];
                for row in 0..rows {
                    for at in row * pitch..row * pitch + cols {
                        want[at] = portable::map(function, x[at], parameters[0], parameters[1]);
                    }
                }
                for kernels in available() {
                    let what = format!("{function:?} {rows}x{cols} {:?}", kernels.isa());
                    let mut out = vec![GAP; rows * pitch];
                    let input = MatRef::new(&x, rows, cols, pitch).unwrap();
                    let mat = MatMut::new(&mut out, rows, cols, pitch).unwrap();
                    kernels.map_from(&activation, input, mat);
                    assert_same(&out, &want, &what);
                    let mut out = vec![GAP; rows * pitch];
                    for row in 0..rows {
                        let range = row * pitch..row * pitch + cols;
                        out[range.clone()].copy_from_slice(&x[range]);
                    }
                    kernels.map(&activation, MatMut::new(&mut out, rows, cols, pitch).unwrap());
                    assert_same(&out, &want, &what);
                }
            }
        }
    }

    /// Against integers: quotients as floats have them, half-way to the even one, cut at the bounds.
    #[test]
    fn quantisation_is_exact() {
        for scale in [1.0, 0.25, 0.1, 0.0173, 3.3e-5, 1e-30, 77.7] {
            for [low, high] in [[-128, 127], [0, 255], [-255, 0], [-3, 200], [5, 5], [-7, 9]] {
                let near = (-1100..1100).flat_map(|at| {
                    let x = at as f32 * 0.5 * scale;
                    [x.next_down(), x, x.next_up()]
                });
                let x: Vec<f32> = near.chain([f32::MAX, f32::MIN, 1e9 * scale, -0.0]).collect();
                let wanted = |fake: bool| {
                    let whole = x.iter().map(move |x| {
                        let quotient = f64::from(*x / scale);
                        let whole = quotient.round_ties_even().clamp(-1e6, 1e6) as i32;
                        whole.clamp(low, high)
                    });
                    let value = move |q: i32| if fake { q as f32 * scale } else { q as f32 };
                    whole.map(value).collect::<Vec<f32>>()
                };
                let bounds = [low as i16, high as i16];
                for (fake, kernels) in [false, true]
                    .into_iter()
                    .flat_map(|fake| available().into_iter().map(move |k| (fake, k)))
                {
                    let function = Activation::quantise(scale, bounds, fake);
                    let mut out = x.clone();
                    let cols = out.len();
                    kernels.map(&function, MatMut::new(&mut out, 1, cols, cols).unwrap());
                    assert_same(&out, &wanted(fake), &format!("{function:?} {}", kernels.name()));
                }
            }
        }
    }

    #[test]
    fn every_clamp_of_every_value() {
        let (rows, cols) = (3, 45);
        let sums: Vec<f32> = SPECIAL.into_iter().cycle().take(rows * cols).collect();
        let all = MatRef::new(&sums, rows, cols, cols).unwrap();
        let zero = MatRef::new(&[-0.0], 1, 1, 1).unwrap();
        for kernels in available() {
            for bounds in BOUNDS {
                let mut out = vec![GAP; rows * cols];
                let mat = MatMut::new(&mut out, rows, cols, cols).unwrap();
                let operands = [all, zero].map(OperandPart::Mat);
                kernels.binary(BinaryOp::Add, operands[0], operands[1], bounds, mat);
                assert_clamped(&out, &sums, bounds, kernels.name());
            }
        }
    }

    /// One of the shapes that an operand may have.
    fn operand(data: &[f32], kind: usize, rows: usize, cols: usize) -> MatRef<'_> {
        let (rows, cols) =
            (if kind & 1 == 0 { rows } else { 1 }, if kind & 2 == 0 { cols } else { 1 });
        MatRef::new(data, rows, cols, cols + kind % 3).unwrap()
    }

    #[test]
    fn arithmetic_has_the_portable_bits() {
        for op in BinaryOp::ALL {
            for (rows, cols) in sizes() {
                let data = [1, 2].map(|seed| any_floats(rows * (cols + 2), seed + cols as u64));
                for kinds in 0..16 {
                    let [a, b] = [0, 1]
                        .map(|side| operand(&data[side], kinds >> (2 * side) & 3, rows, cols));
                    let at = |mat: &MatRef<'_>, row: usize, col: usize| {
                        mat.row(row.min(mat.rows() - 1))[col.min(mat.cols() - 1)]
                    };
                    let range = if cols % 4 == 0 {
                        [-3.0, 4.0]
                    } else {
                        [f32::NEG_INFINITY, f32::INFINITY]
                    };
                    let want: Vec<f32> = (0..rows * cols)
                        .map(|i| {
                            let (row, col) = (i / cols, i % cols);
                            let x = portable::binary(op, at(&a, row, col), at(&b, row, col));
                            clamp(x, range[0], range[1])
                        })
                        .collect();
                    for kernels in available() {
                        let mut out = vec![GAP; rows * cols];
                        let mat = MatMut::new(&mut out, rows, cols, cols).unwrap();
                        kernels.binary(op, OperandPart::Mat(a), OperandPart::Mat(b), range, mat);
                        let isa = kernels.isa();
                        assert_same(&out, &want, &format!("{op:?} {rows}x{cols} {kinds} {isa:?}"));
                    }
                }
            }
        }
    }
}
