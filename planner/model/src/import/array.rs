//! Small arrays of any type, on which constants are folded.
//!
//! Integer tensors exist only here: shapes, indices and the chains that exporters build of them.

/// The largest number of elements of a tensor. Far above any real one, and far below where products of
/// extents overflow.
pub(super) const MOST_ELEMENTS: usize = 1 << 40;

/// The largest rank of a constant: what keeps nodes times rank proportional to the file.
const MOST_DIMENSIONS: usize = 64;

/// The number of elements of a shape. `None` if it is over the limit even with empty dimensions
/// counted as one, so that no product of a prefix overflows.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    if shape.len() > MOST_DIMENSIONS {
        return None;
    }
    let mut count = 1usize;
    for &extent in shape {
        count = count.checked_mul(extent.max(1)).filter(|&count| count <= MOST_ELEMENTS)?;
    }
    Some(if shape.contains(&0) { 0 } else { count })
}

/// The shape two shapes broadcast to, as in numpy.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let extent = |shape: &[usize], axis: usize| match (axis + shape.len()).checked_sub(rank) {
        Some(own) => shape[own],
        None => 1,
    };
    (0..rank)
        .map(|axis| match (extent(a, axis), extent(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}

/// Row-major strides.
pub(super) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// A row-major array.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array<T> {
    pub shape: Vec<usize>,
    pub data: Vec<T>,
}

impl<T: Copy> Array<T> {
    pub fn scalar(value: T) -> Self {
        Self { shape: vec![], data: vec![value] }
    }

    pub fn vector(data: Vec<T>) -> Self {
        Self { shape: vec![data.len()], data }
    }

    /// The same data in another shape of as many elements.
    pub fn reshape(&self, shape: Vec<usize>) -> Self {
        Self { shape, data: self.data.clone() }
    }

    pub fn map<U>(&self, function: impl Fn(T) -> U) -> Array<U> {
        let data = self.data.iter().map(|&value| function(value)).collect();
        Array { shape: self.shape.clone(), data }
    }

    /// The array of `shape` whose element at an index is the one at `start + Σ index · stride`.
    pub fn strided(&self, shape: Vec<usize>, start: usize, stride: &[isize]) -> Self {
        let data = Places::new(&shape, start, stride).map(|at| self.data[at]).collect();
        Self { shape, data }
    }

    /// The strides with which elements repeat in a shape that the array broadcasts to.
    fn repeating(&self, shape: &[usize]) -> Vec<isize> {
        let own = strides(&self.shape);
        let new = shape.len() - self.shape.len();
        let stride = |axis: usize| match axis.checked_sub(new) {
            Some(axis) if self.shape[axis] != 1 => own[axis] as isize,
            _ => 0,
        };
        (0..shape.len()).map(stride).collect()
    }

    /// Broadcast to a shape that it broadcasts to.
    pub fn expand(&self, shape: Vec<usize>) -> Self {
        let stride = self.repeating(&shape);
        self.strided(shape, 0, &stride)
    }

    pub fn transpose(&self, perm: &[usize]) -> Self {
        let own = strides(&self.shape);
        let stride: Vec<isize> = perm.iter().map(|&axis| own[axis] as isize).collect();
        self.strided(perm.iter().map(|&axis| self.shape[axis]).collect(), 0, &stride)
    }

    /// Takes `extents` elements from `starts` on, `steps` apart.
    pub fn slice(&self, starts: &[usize], steps: &[isize], extents: Vec<usize>) -> Self {
        let own = strides(&self.shape);
        let start = starts.iter().zip(&own).map(|(start, stride)| start * stride).sum();
        let stride: Vec<isize> =
            steps.iter().zip(&own).map(|(step, &stride)| step * stride as isize).collect();
        self.strided(extents, start, &stride)
    }

    /// The entries `indices` of an axis, which the indices' shape replaces.
    pub fn gather(&self, axis: usize, indices: &Array<usize>) -> Self {
        let inner: usize = self.shape[axis + 1..].iter().product();
        let outer: usize = self.shape[..axis].iter().product();
        let mut data = Vec::with_capacity(outer * indices.data.len() * inner);
        for block in 0..outer {
            for &index in &indices.data {
                let start = (block * self.shape[axis] + index) * inner;
                data.extend_from_slice(&self.data[start..start + inner]);
            }
        }
        let mut shape = self.shape[..axis].to_vec();
        shape.extend_from_slice(&indices.shape);
        shape.extend_from_slice(&self.shape[axis + 1..]);
        Self { shape, data }
    }

    /// Joins arrays that agree but in one axis.
    pub fn concat(parts: &[&Self], axis: usize, shape: Vec<usize>) -> Self {
        let outer: usize = shape[..axis].iter().product();
        let mut data = Vec::with_capacity(shape.iter().product());
        for block in 0..outer {
            for part in parts {
                let run: usize = part.shape[axis..].iter().product();
                data.extend_from_slice(&part.data[block * run..][..run]);
            }
        }
        Self { shape, data }
    }

    /// Combines two arrays, broadcast to `shape`.
    pub fn zip<U: Copy, V>(
        &self,
        other: &Array<U>,
        shape: Vec<usize>,
        function: impl Fn(T, U) -> V,
    ) -> Array<V> {
        let own = Places::new(&shape, 0, &self.repeating(&shape));
        let others = Places::new(&shape, 0, &other.repeating(&shape));
        let data = own.zip(others).map(|(a, b)| function(self.data[a], other.data[b])).collect();
        Array { shape, data }
    }

    /// Reduces over axes, which stay with extent one.
    pub fn reduce(&self, axes: &[usize], start: T, function: impl Fn(T, T) -> T) -> Self {
        let shape: Vec<usize> = (0..self.shape.len())
            .map(|axis| if axes.contains(&axis) { 1 } else { self.shape[axis] })
            .collect();
        let own = strides(&self.shape);
        let reduced = strides(&shape);
        let mut data = vec![start; shape.iter().product()];
        for (at, &value) in self.data.iter().enumerate() {
            let target: usize = (0..shape.len())
                .filter(|&axis| shape[axis] != 1)
                .map(|axis| at / own[axis] % self.shape[axis] * reduced[axis])
                .sum();
            data[target] = function(data[target], value);
        }
        Self { shape, data }
    }
}

/// The places `start + Σ index · stride` of all indices of a shape, in row-major order.
struct Places {
    /// Extent and stride of each axis, the last first.
    axes: Vec<(usize, isize)>,
    index: Vec<usize>,
    at: isize,
    left: usize,
}

impl Places {
    fn new(shape: &[usize], start: usize, stride: &[isize]) -> Self {
        let axes = shape.iter().copied().zip(stride.iter().copied()).rev().collect();
        let index = vec![0; shape.len()];
        Self { axes, index, at: start as isize, left: shape.iter().product() }
    }
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let place = self.at as usize;
        for (index, &(extent, stride)) in self.index.iter_mut().zip(&self.axes) {
            *index += 1;
            self.at += stride;
            if *index < extent {
                break;
            }
            self.at -= stride * extent as isize;
            *index = 0;
        }
        Some(place)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// How elements move: what is done to arrays of any type, and computes nothing.
pub(super) enum Movement<'a> {
    Slice { starts: &'a [usize], steps: &'a [isize], extents: Vec<usize> },
    Gather { axis: usize, indices: &'a Array<usize> },
    Transpose(&'a [usize]),
    Expand(Vec<usize>),
}

impl Movement<'_> {
    pub fn of<T: Copy>(&self, array: &Array<T>) -> Array<T> {
        match self {
            Movement::Slice { starts, steps, extents } => {
                array.slice(starts, steps, extents.clone())
            }
            Movement::Gather { axis, indices } => array.gather(*axis, indices),
            Movement::Transpose(perm) => array.transpose(perm),
            Movement::Expand(shape) => array.expand(shape.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(shape: &[usize]) -> Array<i64> {
        Array { shape: shape.to_vec(), data: (0..shape.iter().product::<usize>() as i64).collect() }
    }

    #[test]
    fn element_counts() {
        assert_eq!(elements(&[]), Some(1));
        assert_eq!(elements(&[2, 0, 3]), Some(0));
        assert_eq!(elements(&[1 << 20, 1 << 20]), Some(1 << 40));
        assert_eq!(elements(&[1 << 20, 1 << 21]), None);
        assert_eq!(elements(&[usize::MAX, usize::MAX, 0]), None);
    }

    #[test]
    fn broadcasting() {
        assert_eq!(broadcast(&[2, 1, 3], &[4, 1]), Some(vec![2, 4, 3]));
        assert_eq!(broadcast(&[], &[5]), Some(vec![5]));
        assert_eq!(broadcast(&[2], &[3]), None);
        assert_eq!(broadcast(&[0], &[1]), Some(vec![0]));
    }

    #[test]
    fn views() {
        let a = counted(&[2, 3]);
        assert_eq!(a.transpose(&[1, 0]).data, [0, 3, 1, 4, 2, 5]);
        assert_eq!(a.slice(&[1, 2], &[1, -2], vec![1, 2]).data, [5, 3]);
        assert_eq!(counted(&[3]).expand(vec![2, 3]).data, [0, 1, 2, 0, 1, 2]);
        let indices = Array { shape: vec![], data: vec![2] };
        assert_eq!(a.gather(1, &indices), Array { shape: vec![2], data: vec![2, 5] });
        assert_eq!(
            Array::concat(&[&a, &a], 1, vec![2, 6]).data,
            [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]
        );
        assert_eq!(a.reduce(&[0], 0, |x, y| x + y).data, [3, 5, 7]);
        assert_eq!(a.reduce(&[0, 1], 0, |x, y| x + y), Array { shape: vec![1, 1], data: vec![15] });
        assert_eq!(counted(&[0, 2]).reduce(&[0], 1, |x, y| x * y).data, [1, 1]);
    }
}
