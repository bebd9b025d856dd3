//! The Winograd kernels: their records, the functions, and the safe calls.

use super::{Addend, Kernels};
use crate::kernels::portable::{igemm::clamp, winograd as portable};
use crate::matrix::{MatMut, MatRef};

/// Outputs of a tile along each axis, of the transforms that there are.
pub const TILES: [usize; 2] = [2, 4];

/// Frequencies of the largest tile.
pub const MAX_POINTS: usize = portable::MAX * portable::MAX;

/// `struct eyelet_winograd_input` of `kernels/winograd.h`, which says what the fields are.
#[repr(C)]
pub(super) struct Input {
    tile: usize,
    lines: usize,
    cols: usize,
    pixels: *const *const f32,
    channels: usize,
    out: *mut f32,
    stride: usize,
    ahead: usize,
}

/// `struct eyelet_winograd_output`.
#[repr(C)]
pub(super) struct Output {
    tile: usize,
    input: *const f32,
    stride: usize,
    bias: *const f32,
    nr: usize,
    lines: usize,
    cols: usize,
    c: *mut f32,
    c_pitch: usize,
    c_line: usize,
    residual: *const f32,
    residual_pitch: usize,
    residual_line: usize,
    min: f32,
    max: f32,
}

/// `struct eyelet_winograd_weights`.
#[repr(C)]
pub(super) struct Filters {
    tile: usize,
    input: *const f32,
    in_stride: usize,
    count: usize,
    out: *mut f32,
    stride: usize,
}

/// The transforms.
///
/// # Safety
/// `tile` is one of [`TILES`], `lines` and `cols` are 1 to `tile`. Input: `(tile + 2)²` pointers to
/// `channels` readable floats; as many exclusive runs of `channels` floats, `stride` apart, at
/// `out`. Output: `(tile + 2)²` readable runs of NR floats at `input`, NR at `bias`; exclusive
/// pixels of `nr` floats at `c`, `lines` times `cols` of them; `residual` null, the same pixels, or
/// readable ones. Weights: 9 readable runs of `count` floats, a multiple of NR, and `(tile + 2)²`
/// exclusive ones. The processor has the instruction set.
#[derive(Debug)]
pub(super) struct Functions {
    input: unsafe extern "C" fn(&Input),
    output: unsafe extern "C" fn(&Output),
    weights: unsafe extern "C" fn(&Filters),
}

#[cfg(eyelet_x86)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_winograd_input__avx2"]
    fn f32_winograd_input__avx2(transform: &Input);
    #[link_name = "eyelet_f32_winograd_output__avx2"]
    fn f32_winograd_output__avx2(transform: &Output);
    #[link_name = "eyelet_f32_winograd_weights__avx2"]
    fn f32_winograd_weights__avx2(transform: &Filters);
    #[link_name = "eyelet_f32_winograd_input__avx512"]
    fn f32_winograd_input__avx512(transform: &Input);
    #[link_name = "eyelet_f32_winograd_output__avx512"]
    fn f32_winograd_output__avx512(transform: &Output);
    #[link_name = "eyelet_f32_winograd_weights__avx512"]
    fn f32_winograd_weights__avx512(transform: &Filters);
}

#[cfg(eyelet_neon)]
unsafe extern "C" {
    #[link_name = "eyelet_f32_winograd_input__neon"]
    fn f32_winograd_input__neon(transform: &Input);
    #[link_name = "eyelet_f32_winograd_output__neon"]
    fn f32_winograd_output__neon(transform: &Output);
    #[link_name = "eyelet_f32_winograd_weights__neon"]
    fn f32_winograd_weights__neon(transform: &Filters);
}

pub(super) const PORTABLE: Functions = Functions {
    input: f32_winograd_input_portable,
    output: f32_winograd_output_portable,
    weights: f32_winograd_weights_portable,
};
#[cfg(eyelet_x86)]
pub(super) const AVX2: Functions = Functions {
    input: f32_winograd_input__avx2,
    output: f32_winograd_output__avx2,
    weights: f32_winograd_weights__avx2,
};
#[cfg(eyelet_x86)]
pub(super) const AVX512: Functions = Functions {
    input: f32_winograd_input__avx512,
    output: f32_winograd_output__avx512,
    weights: f32_winograd_weights__avx512,
};
#[cfg(eyelet_neon)]
pub(super) const NEON: Functions = Functions {
    input: f32_winograd_input__neon,
    output: f32_winograd_output__neon,
    weights: f32_winograd_weights__neon,
};

/// The frequencies, row and column, of a tile with these numbers of outputs down and across.
fn frequencies(tile: usize, outputs: [usize; 2]) -> impl Iterator<Item = (usize, usize)> {
    let [down, across] = outputs.map(|outputs| portable::kept(tile, outputs));
    let n = tile + 2;
    let all = (0..n).flat_map(move |i| (0..n).map(move |j| (i, j)));
    all.filter(move |(i, j)| down >> i & 1 == 1 && across >> j & 1 == 1)
}

/// The input transform in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_winograd_input_portable(t: &Input) {
    let n = t.tile + 2;
    for channel in 0..t.channels {
        let mut data = [[0.0; portable::MAX]; portable::MAX];
        for (i, value) in data.iter_mut().take(t.lines + 2).enumerate() {
            for (j, value) in value.iter_mut().take(t.cols + 2).enumerate() {
                // SAFETY: one of the floats that the contract names.
                *value = unsafe { *(*t.pixels.add(i * n + j)).add(channel) };
            }
        }
        portable::in_two_dimensions(t.tile, [t.lines, t.cols], &mut data, portable::input_1d);
        for (i, j) in frequencies(t.tile, [t.lines, t.cols]) {
            // SAFETY: as above.
            unsafe { *t.out.add((i * n + j) * t.stride + channel) = data[i][j] }
        }
    }
}

/// The output transform in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_winograd_output_portable(t: &Output) {
    let n = t.tile + 2;
    for channel in 0..t.nr {
        let mut data = [[0.0; portable::MAX]; portable::MAX];
        for (i, j) in frequencies(t.tile, [t.lines, t.cols]) {
            // SAFETY: one of the floats that the contract names.
            data[i][j] = unsafe { *t.input.add((i * n + j) * t.stride + channel) };
        }
        portable::in_two_dimensions(t.tile, [t.lines, t.cols], &mut data, portable::output_1d);
        for (y, line) in data.iter().take(t.lines).enumerate() {
            for (x, &value) in line.iter().take(t.cols).enumerate() {
                // SAFETY: as above; the residual is read before the output, which it may be, is
                // written.
                unsafe {
                    let mut value = value + *t.bias.add(channel);
                    if !t.residual.is_null() {
                        let at = y * t.residual_line + x * t.residual_pitch + channel;
                        value += *t.residual.add(at);
                    }
                    let at = y * t.c_line + x * t.c_pitch + channel;
                    *t.c.add(at) = clamp(value, t.min, t.max);
                }
            }
        }
    }
}

/// The transform of weights in plain Rust, with the interface of the others.
///
/// # Safety
/// [`Functions`]'.
unsafe extern "C" fn f32_winograd_weights_portable(t: &Filters) {
    let n = t.tile + 2;
    for at in 0..t.count {
        // SAFETY: one of the floats that the contract names.
        let tap = |y: usize, x: usize| unsafe { *t.input.add((y * 3 + x) * t.in_stride + at) };
        let half: [[f32; portable::MAX]; 3] = core::array::from_fn(|x| {
            portable::weights_1d(t.tile, core::array::from_fn(|y| tap(y, x)))
        });
        for i in 0..n {
            let row = portable::weights_1d(t.tile, half.map(|column| column[i]));
            for (j, &value) in row.iter().take(n).enumerate() {
                // SAFETY: as above.
                unsafe { *t.out.add((i * n + j) * t.stride + at) = value }
            }
        }
    }
}

/// The input pixels of a tile: lines and columns of an image from `top` and `left` on, two more
/// than the tile has of outputs, which may lie outside it, where zeros stand.
#[derive(Clone, Copy, Debug)]
pub struct Patch<'a> {
    /// The image: a row for each pixel, of all lines or of those that the patch reads (a ring of
    /// whole lines).
    pub image: MatRef<'a>,
    /// Lines of the image.
    pub height: usize,
    /// Pixels of a line.
    pub width: usize,
    /// The first line.
    pub top: i64,
    /// The first column.
    pub left: i64,
    /// Outputs of the tile, down and across: 1 to `tile`.
    pub outputs: [usize; 2],
    /// As many zeros as a pixel has channels.
    pub zeros: &'a [f32],
}

/// The products of some tiles with a panel, and what becomes of them.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// Those of each frequency of a whole tile, `stride` floats apart: a panel's for each tile.
    pub products: &'a [f32],
    /// Floats from one frequency to the next.
    pub stride: usize,
    /// A panel's.
    pub bias: &'a [f32],
    /// The addend before the clamp.
    pub addend: Addend<'a>,
    /// The least and the largest output.
    pub clamp: [f32; 2],
    /// Pixels of a line of the image that is made.
    pub width: usize,
}

impl Kernels {
    /// Transforms the input of a tile: `out` has a row for each of the `(tile + 2)²` frequencies
    /// and a column for each channel. Rows of frequencies that the tile does not have
    /// ([`kept`](super::kept)) stay as they are.
    ///
    /// # Panics
    /// When the sizes disagree, or there is no such transform.
    pub fn winograd_input(&self, tile: usize, patch: &Patch<'_>, mut out: MatMut<'_>) {
        let n = tile + 2;
        let channels = patch.image.cols();
        assert!(TILES.contains(&tile) && out.rows() == n * n && out.cols() == channels);
        assert!(patch.zeros.len() >= channels && patch.width > 0);
        let [lines, cols] = patch.outputs;
        assert!((1..=tile).contains(&lines) && (1..=tile).contains(&cols));
        let mut pixels = [patch.zeros.as_ptr(); MAX_POINTS];
        // Columns of the patch that are inside the image.
        let column = |x: i64| x.saturating_sub(patch.left).clamp(0, cols as i64 + 2) as usize;
        let inside = column(0)..column(patch.width as i64);
        for (y, line) in (patch.top..).zip(pixels.chunks_exact_mut(n)).take(lines + 2) {
            if !(0..patch.height as i64).contains(&y) || inside.is_empty() {
                continue;
            }
            let first = (patch.left + inside.start as i64) as usize;
            let start = patch.image.slot(y as usize * patch.width) + first;
            let address = patch.image.row_ptr_for(start..start + inside.len());
            for (x, pixel) in line[inside.clone()].iter_mut().enumerate() {
                *pixel = address.wrapping_add(x.wrapping_mul(patch.image.pitch()));
            }
        }
        let input = Input {
            tile,
            lines,
            cols,
            pixels: pixels.as_ptr(),
            channels,
            out: out.as_mut_ptr(),
            stride: out.pitch(),
            ahead: tile.wrapping_mul(patch.image.pitch()),
        };
        // SAFETY: at every pointer lies a row of the image or of zeros, at least `channels` floats;
        // the sizes of `out` were checked; these kernels exist only on processors that can run
        // them.
        unsafe { (self.winograd.input)(&input) }
    }

    /// Transforms filters: `filters` has a row for each of the 9 taps, `out` one for each of the
    /// `(tile + 2)²` frequencies, and each a column for each filter, a multiple of the panel's
    /// width.
    ///
    /// # Panics
    /// When the sizes disagree, or there is no such transform.
    pub fn winograd_weights(&self, tile: usize, filters: MatRef<'_>, mut out: MatMut<'_>) {
        let count = filters.cols();
        assert!(TILES.contains(&tile) && filters.rows() == 9 && count.is_multiple_of(self.nr()));
        assert!(out.rows() == (tile + 2) * (tile + 2) && out.cols() == count);
        let filters = Filters {
            tile,
            input: filters.as_ptr(),
            in_stride: filters.pitch(),
            count,
            out: out.as_mut_ptr(),
            stride: out.pitch(),
        };
        // SAFETY: the sizes of `filters` and `out` were checked; these kernels exist only on
        // processors that can run them.
        unsafe { (self.winograd.weights)(&filters) }
    }

    /// Transforms tiles to their outputs: `out = clamp(transformed + bias + addend)`, those that
    /// lie inside the image `out`, which has a row for each pixel and a column for each channel of
    /// the panel. `places` are line and column of each tile's first output; frequencies that a tile
    /// does not have are not read ([`kept`](super::kept)).
    ///
    /// # Panics
    /// When the sizes disagree, there is no such transform, or a tile begins outside the image.
    pub fn winograd_outputs(
        &self,
        tile: usize,
        finish: &Finish<'_>,
        places: impl ExactSizeIterator<Item = [usize; 2]>,
        mut out: MatMut<'_>,
    ) {
        let &Finish { products, stride, bias, addend, clamp, width } = finish;
        let (points, nr) = ((tile + 2) * (tile + 2), self.nr());
        assert!(TILES.contains(&tile) && bias.len() >= nr && width > 0);
        assert!((1..=nr).contains(&out.cols()));
        let count = places.len();
        let reach = count.checked_mul(nr).zip((points - 1).checked_mul(stride));
        let reach = reach.and_then(|(tiles, before)| tiles.checked_add(before));
        assert!(reach.is_some_and(|reach| reach <= products.len()), "{} products", products.len());
        let height = out.rows() / width;
        let (residual, residual_pitch) = addend.raw(&mut out);
        let (c, c_pitch) = (out.as_mut_ptr(), out.pitch());
        let mut output = Output {
            tile,
            input: products.as_ptr(),
            stride,
            bias: bias.as_ptr(),
            nr: out.cols(),
            lines: 0,
            cols: 0,
            c,
            c_pitch,
            c_line: c_pitch.wrapping_mul(width),
            residual,
            residual_pitch,
            residual_line: residual_pitch.wrapping_mul(width),
            min: clamp[0],
            max: clamp[1],
        };
        for (slot, [line, col]) in places.take(count).enumerate() {
            assert!(line < height && col < width, "tile at {line}, {col} of {height}, {width}");
            let first = line * width + col;
            output.input = products.as_ptr().wrapping_add(slot * nr);
            output.lines = tile.min(height - line);
            output.cols = tile.min(width - col);
            output.c = c.wrapping_add(first * c_pitch);
            if !residual.is_null() {
                output.residual = residual.wrapping_add(first * residual_pitch);
            }
            // SAFETY:
            // - `products` has NR floats of each frequency after those of the first tiles (checked
            //   above).
            // - The bias has NR floats (checked above).
            // - Lines and columns were cut to those of `out`, whose size the residual has.
            // - The kernels are those of this processor.
            unsafe { (self.winograd.output)(&output) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Finish, TILES};
    use crate::kernels::table::Addend;
    use crate::kernels::testing::{BOUNDS, SPECIAL, assert_clamped, available};
    use crate::matrix::MatMut;
    use std::vec;
    use std::vec::Vec;

    /// Whole tiles, and some that are cut.
    #[test]
    fn every_clamp_of_every_value() {
        for kernels in available() {
            for tile in TILES {
                let (nr, side) = (kernels.nr(), 2 * tile - 1);
                let products = vec![0.0f32; (tile + 2) * (tile + 2) * 4 * nr];
                let bias: Vec<f32> = SPECIAL.into_iter().cycle().take(nr).collect();
                let within = |clamp: [f32; 2]| {
                    let mut out = vec![0.0f32; side * side * nr];
                    let finish = Finish {
                        products: &products,
                        stride: 4 * nr,
                        bias: &bias,
                        addend: Addend::None,
                        clamp,
                        width: side,
                    };
                    let places = [[0, 0], [0, tile], [tile, 0], [tile, tile]].into_iter();
                    let mat = MatMut::new(&mut out, side * side, nr, nr).unwrap();
                    kernels.winograd_outputs(tile, &finish, places, mat);
                    out
                };
                // The sum of a zero and a negative zero is a positive zero.
                let sums = within([f32::NEG_INFINITY, f32::INFINITY]);
                assert!(
                    sums[..8].iter().zip(SPECIAL).all(|(sum, bias)| *sum == bias || bias.is_nan())
                );
                for bounds in BOUNDS {
                    assert_clamped(&within(bounds), &sums, bounds, kernels.name());
                }
            }
        }
    }
}
