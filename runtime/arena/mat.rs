//! Strided matrices over arena memory: the only way in which operators see it.
//!
//! A tensor in the arena is a matrix of rows (pixels) of adjacent floats (channels) at a uniform
//! pitch. Concatenation makes several tensors share one buffer, interleaved row by row, so a tensor
//! is a *rectangle* of memory and not a slice. [`MatMut`] owns such a rectangle exclusively, and can
//! be cut along rows and columns into rectangles that are again exclusive: that is how threads divide
//! an output without unsafe code in the operators.
//!
//! Of a tensor that slides (a ring of image lines, see [`Place`](crate::pack::Place)) memory holds fewer rows than
//! the tensor has: row `r` of the tensor lies in row `r % rows` of its matrix. Operators say which rows of
//! the tensor they mean, and [`MatRef::slots`] where these lie. Where the matrix holds all rows that is where
//! they always were.
//!
//! A step need not be *lent* all rows of a matrix: what it does not touch may be anyone's, the output of the same step
//! among them. Rows keep their numbers. A matrix knows which of them it was lent, and hands out no others: neither a row
//! nor a [part](MatRef::part) with one, and no address of a matrix that lacks one.
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

    /// Those of some rows, as these count them.
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

// SAFETY: a MatRef is a set of shared slices, a MatMut a set of exclusive ones, and slices of floats
// may be sent and (shared ones) used from several threads.
unsafe impl Send for MatRef<'_> {}
unsafe impl Sync for MatRef<'_> {}
unsafe impl Send for MatMut<'_> {}
unsafe impl Sync for MatMut<'_> {}

/// The row of a matrix of `rows` rows in which row `row` of its tensor lies.
fn slot(row: usize, rows: usize) -> usize {
    // Most matrices hold all rows: no division for those.
    if row < rows { row } else { row.checked_rem(rows).unwrap_or(row) }
}

/// The rows of a matrix of `held` rows in which rows of its tensor lie that do not go around its end.
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
    /// For `'a`, every row `data + r·pitch .. + cols` that is lent must be readable, aligned, initialised and not
    /// written; `lent` must lie within `rows`; and `pitch ≥ cols`.
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

    /// The rows in which the rows `rows` of the tensor lie. Beyond the matrix if they go around its end.
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

    /// The same, of whose rows those are lent that are here.
    ///
    /// # Panics
    /// When they are not inside the matrix.
    pub fn cut(&self, rows: Range<usize>, cols: Range<usize>) -> MatRef<'a> {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols);
        MatRef {
            data: self.data.wrapping_add(rows.start * self.pitch + cols.start),
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
        // SAFETY: the rows are adjacent, so their union is one readable run.
        Some(unsafe { core::slice::from_raw_parts(self.data, self.rows * self.cols) })
    }

    /// The first element's address, for kernels.
    ///
    /// # Panics
    /// When a row is not lent.
    pub fn as_ptr(&self) -> *const f32 {
        self.as_ptr_for(0..self.rows)
    }

    /// The same for kernels that touch no other rows than these.
    ///
    /// # Panics
    /// When one of them is not lent.
    pub fn as_ptr_for(&self, rows: Range<usize>) -> *const f32 {
        assert!(rows.is_empty() || self.lent.holds(&rows));
        self.data
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
    /// For `'a`, every row `data + r·pitch .. + cols` that is lent must be readable, writable, aligned, initialised
    /// and touched through nothing else; `lent` must lie within `rows`; and `pitch ≥ cols`. (The gaps between
    /// rows may be anyone's.)
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

    /// The same matrix for a shorter time.
    pub fn reborrow(&mut self) -> MatMut<'_> {
        // Exclusive for as long as `self` is borrowed.
        MatMut { lifetime: PhantomData, ..*self }
    }

    /// The rows in which the rows `rows` of the tensor lie. Beyond the matrix if they go around its end.
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

    /// The same, of whose rows those are lent that are here.
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
        // SAFETY: the rows are adjacent, so their union is one run, owned exclusively.
        Some(unsafe { core::slice::from_raw_parts_mut(self.data, self.rows * self.cols) })
    }

    /// The first element's address, for kernels.
    ///
    /// # Panics
    /// When a row is not lent.
    pub fn as_mut_ptr(&mut self) -> *mut f32 {
        assert!(self.lent == Lent::all(self.rows));
        self.data
    }

    /// [`cut_mut`](Self::cut_mut) without borrowing exclusively: for dividing a matrix among threads.
    ///
    /// # Safety
    /// Rectangles that live at the same time must not share an element. (That the rectangle is inside
    /// the matrix is checked.)
    pub(crate) unsafe fn cut_unchecked(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
    ) -> MatMut<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows);
        assert!(cols.start <= cols.end && cols.end <= self.cols);
        MatMut {
            data: self.data.wrapping_add(rows.start * self.pitch + cols.start),
            rows: rows.len(),
            cols: cols.len(),
            lent: self.lent.within(&rows),
            ..*self
        }
    }
}
