//! Views of tensors: strided matrices over memory, the only way in which operators see it.
//!
//! A tensor in the arena is a matrix of rows (pixels) of adjacent floats (channels) at a uniform
//! pitch. Concatenation makes several tensors share one buffer, interleaved row by row, so a tensor
//! is a *rectangle* of memory and not a slice. [`MatMut`] owns such a rectangle exclusively, and
//! can be cut along rows and columns into rectangles that are again exclusive: that is how threads
//! divide an output without unsafe code in the operators.
//!
//! Memory holds only some rows of a tensor that slides (a ring of image lines, see
//! [`Place`](crate::pack::Place)): row `r` of the tensor lies in row `r % rows` of its matrix.
//! Operators say which rows of the tensor they mean, and [`MatRef::slots`] where these lie. Where
//! the matrix holds all rows that is where they always were.
//!
//! A step need not be *lent* all rows of a matrix: what it does not touch may be anyone's, the
//! output of the same step among them. Rows keep their numbers. A matrix knows which of them it was
//! lent, and hands out no others: neither a row nor a [part](MatRef::part) with one, and no address
//! of a matrix that lacks one.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::ops::Range;

/// The rows of a matrix that may be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lent {
    start: usize,
    end: usize,
}

impl Lent {
    fn all(rows: usize) -> Self {
        Self { start: 0, end: rows }
    }

    fn has(self, row: usize) -> bool {
        row >= self.start && row < self.end
    }

    fn holds(self, rows: &Range<usize>) -> bool {
        self.start <= rows.start && rows.start <= rows.end && rows.end <= self.end
    }

    /// The lent rows among `rows`, counted from the first of these.
    fn within(self, rows: &Range<usize>) -> Self {
        let [start, end] =
            [self.start, self.end].map(|row| row.clamp(rows.start, rows.end) - rows.start);
        Self { start, end }
    }
}

/// A shared rectangle of floats.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a> {
    data: *const f32,
    rows: usize,
    cols: usize,
    pitch: usize,
    lent: Lent,
    lifetime: PhantomData<&'a [f32]>,
}

/// An exclusive rectangle of floats.
#[derive(Debug)]
pub struct MatMut<'a> {
    data: *mut f32,
    rows: usize,
    cols: usize,
    pitch: usize,
    lent: Lent,
    lifetime: PhantomData<&'a mut [f32]>,
}

// SAFETY: a MatRef is a set of shared slices, a MatMut a set of exclusive ones, and slices of
// floats may be sent and (shared ones) used from several threads.
unsafe impl Send for MatRef<'_> {}
unsafe impl Sync for MatRef<'_> {}
unsafe impl Send for MatMut<'_> {}
unsafe impl Sync for MatMut<'_> {}

/// The row of a matrix of `rows` rows in which row `row` of its tensor lies.
fn slot(row: usize, rows: usize) -> usize {
    // Most matrices hold all rows: no division for those.
    if row < rows { row } else { row.checked_rem(rows).unwrap_or(row) }
}

/// The rows of a matrix of `held` rows in which rows of its tensor lie that do not go around its
/// end.
fn slots(rows: Range<usize>, held: usize) -> Range<usize> {
    let start = slot(rows.start, held);
    start..start + rows.len()
}

/// Floats from the first element to one past the last; `None` when it overflows.
fn extent(rows: usize, cols: usize, pitch: usize) -> Option<usize> {
    match rows {
        0 => Some(0),
        rows => (rows - 1).checked_mul(pitch)?.checked_add(cols),
    }
}

impl<'a> MatRef<'a> {
    /// A matrix over a slice. `None` when the slice is too short or `pitch < cols`.
    pub fn new(data: &'a [f32], rows: usize, cols: usize, pitch: usize) -> Option<Self> {
        if pitch < cols || extent(rows, cols, pitch)? > data.len() {
            return None;
        }
        let (data, lent) = (data.as_ptr(), Lent::all(rows));
        Some(Self { data, rows, cols, pitch, lent, lifetime: PhantomData })
    }

    /// A matrix over raw memory, of which the rows `lent` may be touched.
    ///
    /// # Safety
    /// For `'a`, every row `data + r·pitch .. + cols` that is lent must be readable, aligned,
    /// initialised and not written; `lent` must lie within `rows`; and `pitch ≥ cols`.
    pub unsafe fn from_raw(
        data: *const f32,
        rows: usize,
        cols: usize,
        pitch: usize,
        lent: Range<usize>,
    ) -> Self {
        debug_assert!(pitch >= cols && lent.start <= lent.end && lent.end <= rows);
        let lent = Lent { start: lent.start, end: lent.end };
        Self { data, rows, cols, pitch, lent, lifetime: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Floats in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Floats from one row to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// One row.
    ///
    /// # Panics
    /// When it is not lent.
    pub fn row(&self, row: usize) -> &'a [f32] {
        assert!(self.lent.has(row));
        // SAFETY: the row is lent: readable for 'a.
        unsafe { core::slice::from_raw_parts(self.data.add(row * self.pitch), self.cols) }
    }

    /// The row in which row `row` of the tensor lies.
    pub fn slot(&self, row: usize) -> usize {
        slot(row, self.rows)
    }

    /// The rows in which the rows `rows` of the tensor lie. Beyond the matrix if they go around its
    /// end.
    pub fn slots(&self, rows: Range<usize>) -> Range<usize> {
        slots(rows, self.rows)
    }

    /// The rows `rows`, columns `cols`.
    ///
    /// # Panics
    /// When they are not inside the matrix, or a row is not lent.
    pub fn part(&self, rows: Range<usize>, cols: Range<usize>) -> MatRef<'a> {
        assert!(self.lent.holds(&rows));
        self.cut(rows, cols)
    }

    /// The rows `rows`, columns `cols`, whether they are lent or not. The part lends the rows that
    /// this matrix does.
    ///
    /// # Panics
    /// When they are not inside the matrix.
    pub fn cut(&self, rows: Range<usize>, cols: Range<usize>) -> MatRef<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols);
        MatRef {
            data: self
                .data
                .wrapping_add(rows.start.wrapping_mul(self.pitch).wrapping_add(cols.start)),
            rows: rows.len(),
            cols: cols.len(),
            lent: self.lent.within(&rows),
            ..*self
        }
    }

    /// All elements as one slice, if the rows are lent and adjacent.
    pub fn contiguous(&self) -> Option<&'a [f32]> {
        if self.lent != Lent::all(self.rows) || self.pitch != self.cols && self.rows > 1 {
            return None;
        }
        match self.rows * self.cols {
            // A part with no rows may begin anywhere.
            0 => Some(&[]),
            // SAFETY: the rows are adjacent, so their union is one readable run.
            floats => Some(unsafe { core::slice::from_raw_parts(self.data, floats) }),
        }
    }

    /// The first element's address, for kernels.
    ///
    /// # Panics
    /// When a row is not lent.
    pub fn as_ptr(&self) -> *const f32 {
        self.as_ptr_for(0..self.rows)
    }

    /// The first element's address, for kernels that touch no rows other than `rows`.
    ///
    /// # Panics
    /// When one of them is not lent.
    pub fn as_ptr_for(&self, rows: Range<usize>) -> *const f32 {
        assert!(rows.is_empty() || self.lent.holds(&rows));
        self.data
    }

    /// The address of the first of some rows, for kernels that reach all of them from there.
    ///
    /// # Panics
    /// When one of them is not lent.
    pub fn row_ptr_for(&self, rows: Range<usize>) -> *const f32 {
        self.as_ptr_for(rows.clone()).wrapping_add(rows.start.wrapping_mul(self.pitch))
    }
}

impl<'a> MatMut<'a> {
    /// A matrix over a slice. `None` when the slice is too short or `pitch < cols`.
    pub fn new(data: &'a mut [f32], rows: usize, cols: usize, pitch: usize) -> Option<Self> {
        if pitch < cols || extent(rows, cols, pitch)? > data.len() {
            return None;
        }
        let (data, lent) = (data.as_mut_ptr(), Lent::all(rows));
        Some(Self { data, rows, cols, pitch, lent, lifetime: PhantomData })
    }

    /// A matrix over raw memory, of which the rows `lent` may be touched.
    ///
    /// # Safety
    /// For `'a`, every row `data + r·pitch .. + cols` that is lent must be readable, writable,
    /// aligned, initialised and touched through nothing else; `lent` must lie within `rows`; and
    /// `pitch ≥ cols`. (The gaps between rows may be anyone's.)
    pub unsafe fn from_raw(
        data: *mut f32,
        rows: usize,
        cols: usize,
        pitch: usize,
        lent: Range<usize>,
    ) -> Self {
        debug_assert!(pitch >= cols && lent.start <= lent.end && lent.end <= rows);
        let lent = Lent { start: lent.start, end: lent.end };
        Self { data, rows, cols, pitch, lent, lifetime: PhantomData }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Floats in a row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Floats from one row to the next.
    pub fn pitch(&self) -> usize {
        self.pitch
    }

    /// One row.
    ///
    /// # Panics
    /// When it is not lent.
    pub fn row_mut(&mut self, row: usize) -> &mut [f32] {
        assert!(self.lent.has(row));
        // SAFETY: the row is lent: this value owns it exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.data.add(row * self.pitch), self.cols) }
    }

    /// A shared view of the whole.
    pub fn as_ref(&self) -> MatRef<'_> {
        let &Self { data, rows, cols, pitch, lent, .. } = self;
        // Shared for as long as `self` is borrowed.
        MatRef { data, rows, cols, pitch, lent, lifetime: PhantomData }
    }

    /// This matrix for a shorter time.
    pub fn reborrow(&mut self) -> MatMut<'_> {
        // Exclusive for as long as `self` is borrowed.
        MatMut { lifetime: PhantomData, ..*self }
    }

    /// The rows in which the rows `rows` of the tensor lie. Beyond the matrix if they go around its
    /// end.
    pub fn slots(&self, rows: Range<usize>) -> Range<usize> {
        slots(rows, self.rows)
    }

    /// The rows `rows`, columns `cols`, exclusively, while `self` is borrowed.
    ///
    /// # Panics
    /// When they are not inside the matrix, or a row is not lent.
    pub fn part_mut(&mut self, rows: Range<usize>, cols: Range<usize>) -> MatMut<'_> {
        assert!(self.lent.holds(&rows));
        self.cut_mut(rows, cols)
    }

    /// The rows `rows`, columns `cols`, exclusively, whether they are lent or not. The part lends
    /// the rows that this matrix does.
    ///
    /// # Panics
    /// When they are not inside the matrix.
    pub fn cut_mut(&mut self, rows: Range<usize>, cols: Range<usize>) -> MatMut<'_> {
        // SAFETY: `self` is borrowed exclusively for as long as the part lives.
        unsafe { self.cut_unchecked(rows, cols) }
    }

    /// All elements as one slice, if the rows are lent and adjacent.
    pub fn contiguous_mut(&mut self) -> Option<&mut [f32]> {
        if self.lent != Lent::all(self.rows) || self.pitch != self.cols && self.rows > 1 {
            return None;
        }
        match self.rows * self.cols {
            0 => Some(&mut []),
            // SAFETY: the rows are adjacent, so their union is one run, owned exclusively.
            floats => Some(unsafe { core::slice::from_raw_parts_mut(self.data, floats) }),
        }
    }

    /// The first element's address, for kernels.
    ///
    /// # Panics
    /// When a row is not lent.
    pub fn as_mut_ptr(&mut self) -> *mut f32 {
        assert!(self.lent == Lent::all(self.rows));
        self.data
    }

    /// [`cut_mut`](Self::cut_mut) without borrowing exclusively: for dividing a matrix among
    /// threads.
    ///
    /// # Safety
    /// Rectangles that live at the same time must not share an element. (That the rectangle is
    /// inside the matrix is checked.)
    pub(crate) unsafe fn cut_unchecked(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> MatMut<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols);
        MatMut {
            data: self
                .data
                .wrapping_add(rows.start.wrapping_mul(self.pitch).wrapping_add(cols.start)),
            rows: rows.len(),
            cols: cols.len(),
            lent: self.lent.within(&rows),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::vec::Vec;

    const ROWS: usize = 6;
    const PITCH: usize = 4;

    /// Two matrices over one memory: the one reads rows 3 to 5 of six, the other writes rows 1 and
    /// 2.
    fn lent(data: &mut [f32]) -> (MatRef<'_>, MatMut<'_>) {
        assert_eq!(data.len(), ROWS * PITCH);
        let data = data.as_mut_ptr();
        // SAFETY: the rows are inside, and those of the one are not the other's.
        unsafe {
            (
                MatRef::from_raw(data, ROWS, 3, PITCH, 3..5),
                MatMut::from_raw(data, ROWS, 3, PITCH, 1..3),
            )
        }
    }

    fn panics<T>(body: impl FnOnce() -> T) -> bool {
        catch_unwind(AssertUnwindSafe(body)).is_err()
    }

    #[test]
    fn rows_keep_their_numbers() {
        let mut data: Vec<f32> = (0..ROWS * PITCH).map(|at| at as f32).collect();
        let (from, mut to) = lent(&mut data);
        assert_eq!((from.rows(), from.slot(7), from.slots(5..7)), (ROWS, 1, 5..7));
        assert_eq!(from.row(3), [12.0, 13.0, 14.0]);
        assert_eq!(from.part(3..5, 1..2).row(1), [17.0]);
        assert_eq!(from.part(3..5, 1..2).contiguous(), None);
        assert_eq!(from.part(4..5, 1..3).contiguous(), Some(&[17.0, 18.0][..]));
        // Cut, the lent ones among others.
        for (rows, row) in [(0..6, 4), (2..6, 2), (4..6, 0)] {
            assert_eq!(from.cut(rows, 2..3).row(row), [18.0]);
        }
        to.row_mut(1)[0] = -1.0;
        to.reborrow().part_mut(1..3, 1..3).row_mut(1)[1] = -2.0;
        to.cut_mut(0..6, 1..2).row_mut(2)[0] = -3.0;
        assert_eq!(to.as_ref().row(2), [8.0, -3.0, -2.0]);
        assert_eq!(data[4..11], [-1.0, 5.0, 6.0, 7.0, 8.0, -3.0, -2.0]);
    }

    #[test]
    fn what_is_not_lent_is_not_handed_out() {
        let mut data = [0.0; ROWS * PITCH];
        let (from, mut to) = lent(&mut data);
        let hands_out = |rows: Range<usize>| !panics(|| from.part(rows, 0..3));
        assert!(hands_out(3..5) && hands_out(4..5) && !hands_out(2..5) && !hands_out(3..6));
        assert!(!hands_out(0..ROWS) && panics(|| from.part(3..5, 0..4)));
        for row in 0..ROWS + 2 {
            assert_eq!(panics(|| from.row(row)), !(3..5).contains(&row));
            assert_eq!(panics(|| to.row_mut(row)[0]), !(1..3).contains(&row));
            assert_eq!(panics(|| from.as_ptr_for(row..row + 1)), !(3..5).contains(&row));
        }
        for rows in [0..2, 1..4, 2..4, 3..5] {
            assert!(panics(|| to.part_mut(rows, 0..3).rows()));
        }
        assert!(panics(|| from.as_ptr()) && panics(|| to.as_mut_ptr()));
        assert!(panics(|| to.as_ref().row(3)[0]) && panics(|| to.reborrow().row_mut(0)[0]));
        let wide = from.cut(1..5, 0..3);
        assert!(panics(|| wide.row(1)) && panics(|| wide.row(4)) && panics(|| wide.as_ptr()));
        assert!(!panics(|| wide.row(2)) && !panics(|| wide.part(2..4, 0..3).as_ptr()));
        assert_eq!(from.cut(0..2, 0..3).contiguous(), None);
        // SAFETY: of rows that are not lent nothing is asked.
        let none = unsafe { MatRef::from_raw(core::ptr::dangling(), 5, 3, 3, 2..2) };
        assert!(none.contiguous().is_none() && (0..5).all(|row| panics(|| none.row(row))));
    }
}
