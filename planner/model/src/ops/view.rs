//! Views: where the elements of a value lie in a buffer.
//!
//! A view gives each logical axis a list of *runs* (extent, stride), outermost first. One run an axis
//! is the usual strided tensor; several arise when a reshape joins axes that do not lie side by side
//! (the flattening of an NHWC image in NCHW order). So reshape, transpose, slice and split cost
//! nothing: they regroup, permute or narrow runs. A consumer asks for the rectangle ([`Rect`]) that it
//! can read; where the runs do not form one, the value is copied once into a layout where they do.

/// `extent` elements, `stride` floats apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub extent: usize,
    pub stride: usize,
}

/// Where a value lies. Axes hold no runs of extent 1, and adjacent runs of an axis are not mergeable,
/// so equal layouts are equal views.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct View {
    pub buffer: usize,
    pub offset: usize,
    pub axes: Vec<Vec<Run>>,
}

/// Rows of adjacent floats at a uniform pitch: what a tensor record can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rect {
    pub buffer: usize,
    pub offset: usize,
    pub dims: [usize; 4],
    pub pitch: usize,
}

/// One dimension of a strided copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyDim {
    pub extent: usize,
    pub src: usize,
    pub dst: usize,
}

/// The memory order of an image of this rank: channels (axis 1) innermost.
pub(crate) fn image_order(rank: usize) -> Option<Vec<usize>> {
    match rank {
        2 => Some(vec![0, 1]),
        3 => Some(vec![0, 2, 1]),
        4 => Some(vec![0, 2, 3, 1]),
        _ => None,
    }
}

/// The memory order of a row-major tensor.
pub(crate) fn row_major(rank: usize) -> Vec<usize> {
    (0..rank).collect()
}

/// The order of a view with its last axis moved innermost.
pub(crate) fn last_axis_last(view: &View) -> Vec<usize> {
    let last = view.axes.len() - 1;
    let mut order = view.order();
    order.retain(|&axis| axis != last);
    order.push(last);
    order
}

/// Extents folded into the four of a tensor record: the last stays, the others are left-aligned with
/// ones or multiplied together, outermost first.
pub(crate) fn fold4(extents: &[usize]) -> [usize; 4] {
    let mut dims = [1; 4];
    for (i, &extent) in extents.iter().rev().enumerate() {
        dims[3 - i.min(3)] *= extent;
    }
    dims
}

/// Joins runs that continue each other and drops those of extent 1.
pub(crate) fn merge(runs: impl IntoIterator<Item = Run>) -> Vec<Run> {
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        if run.extent == 1 {
            continue;
        }
        match merged.last_mut() {
            Some(last) if last.stride == run.stride * run.extent => {
                *last = Run { extent: last.extent * run.extent, stride: run.stride };
            }
            _ => merged.push(run),
        }
    }
    merged
}

fn extent(runs: &[Run]) -> usize {
    runs.iter().map(|run| run.extent).product()
}

/// The offset of element `index` of an axis.
fn locate(runs: &[Run], mut index: usize) -> usize {
    let mut offset = 0;
    for run in runs.iter().rev() {
        offset += index % run.extent * run.stride;
        index /= run.extent;
    }
    offset
}

/// Elements `start`, `start + step`, … of an axis: the offset of the first, and their runs.
fn narrow(runs: &[Run], start: usize, step: usize, count: usize) -> Option<(usize, Vec<Run>)> {
    if count == 1 {
        return Some((locate(runs, start), Vec::new()));
    }
    let (outer, inner) = runs.split_first()?;
    let block = extent(inner);
    if start / block == (start + (count - 1) * step) / block {
        let (offset, runs) = narrow(inner, start % block, step, count)?;
        return Some((offset + start / block * outer.stride, runs));
    }
    if step.is_multiple_of(block) {
        let run = Run { extent: count, stride: outer.stride * (step / block) };
        return Some((locate(runs, start), merge([run])));
    }
    if step == 1 && start.is_multiple_of(block) && count.is_multiple_of(block) {
        let run = Run { extent: count / block, stride: outer.stride };
        return Some((locate(runs, start), merge([run].into_iter().chain(inner.iter().copied()))));
    }
    None
}

impl View {
    /// The whole of a buffer, contiguous, with the axes in memory in this order.
    pub fn contiguous(buffer: usize, shape: &[usize], order: &[usize]) -> Self {
        let mut axes = vec![Vec::new(); shape.len()];
        let mut stride = 1;
        for &axis in order.iter().rev() {
            axes[axis] = merge([Run { extent: shape[axis], stride }]);
            stride *= shape[axis];
        }
        Self { buffer, offset: 0, axes }
    }

    /// The logical shape.
    pub fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(|runs| extent(runs)).collect()
    }

    pub fn elements(&self) -> usize {
        self.axes.iter().map(|runs| extent(runs)).product()
    }

    /// Floats from the first element to one past the last.
    pub fn span(&self) -> usize {
        1 + self.axes.iter().flatten().map(|run| (run.extent - 1) * run.stride).sum::<usize>()
    }

    pub fn transpose(&self, perm: &[usize]) -> Self {
        let axes = perm.iter().map(|&axis| self.axes[axis].clone()).collect();
        Self { axes, ..*self }
    }

    /// `count` elements of an axis from `start`, every `step`-th; `None` where runs would break.
    pub fn slice(&self, axis: usize, start: usize, step: usize, count: usize) -> Option<Self> {
        let (offset, runs) = narrow(&self.axes[axis], start, step, count)?;
        let mut view = self.clone();
        view.offset += offset;
        view.axes[axis] = runs;
        Some(view)
    }

    /// The same elements in row-major sequence under another shape; `None` where a run would have to
    /// be cut at a place that does not divide it.
    pub fn reshape(&self, shape: &[usize]) -> Option<Self> {
        let mut runs = merge(self.axes.iter().flatten().copied());
        runs.reverse();
        let mut axes = Vec::with_capacity(shape.len());
        for &extent in shape {
            let mut need = extent;
            let mut axis = Vec::new();
            while need > 1 {
                let run = runs.pop()?;
                if need.is_multiple_of(run.extent) {
                    need /= run.extent;
                    axis.push(run);
                } else if run.extent.is_multiple_of(need) {
                    let inner = run.extent / need;
                    axis.push(Run { extent: need, stride: run.stride * inner });
                    runs.push(Run { extent: inner, stride: run.stride });
                    need = 1;
                } else {
                    return None;
                }
            }
            axes.push(merge(axis));
        }
        runs.is_empty().then_some(Self { axes, ..*self })
    }

    /// Broadcast to `shape` (aligned at the last axis): repeated axes have stride 0.
    pub fn expand(&self, shape: &[usize]) -> Self {
        let mut view = self.pad_rank(shape.len());
        for (runs, &wanted) in view.axes.iter_mut().zip(shape) {
            if runs.is_empty() && wanted > 1 {
                *runs = vec![Run { extent: wanted, stride: 0 }];
            }
        }
        view
    }

    /// Axes of extent 1 added in front.
    pub fn pad_rank(&self, rank: usize) -> Self {
        let mut axes = vec![Vec::new(); rank - self.axes.len()];
        axes.extend(self.axes.iter().cloned());
        Self { axes, ..*self }
    }

    /// The order in which the axes lie in memory, outermost first. Axes of extent 1 are put where they
    /// make it an image's order or row-major, so that equal layouts get equal orders. Row-major where
    /// the axes are interleaved.
    pub fn order(&self) -> Vec<usize> {
        let rank = self.axes.len();
        // what is repeated lies nowhere
        let place = |axis: usize| self.axes[axis].iter().filter(|run| run.stride > 0);
        if (0..rank).any(|axis| place(axis).count() > 1) {
            return row_major(rank);
        }
        let lies = |axis: &usize| place(*axis).next().is_some();
        let mut order: Vec<usize> = (0..rank).filter(lies).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(place(axis).next().map(|run| run.stride)));
        for known in [image_order(rank), Some(row_major(rank))].into_iter().flatten() {
            if known.iter().copied().filter(lies).eq(order.iter().copied()) {
                return known;
            }
        }
        (0..rank).filter(|axis| !lies(axis)).chain(order.iter().copied()).collect()
    }

    /// The rectangle that holds the value, its rows in the order of the axes named first and its
    /// channels the axis named last; `None` where the elements do not lie so.
    pub fn rect(&self, order: &[usize]) -> Option<Rect> {
        let (leading, channels) = match order.split_last() {
            Some((&last, leading)) => match self.axes[last][..] {
                [] => (leading, 1),
                [Run { extent, stride: 1 }] => (leading, extent),
                _ => return None,
            },
            None => (order, 1),
        };
        let rows = merge(leading.iter().flat_map(|&axis| self.axes[axis].iter().copied()));
        let pitch = match rows[..] {
            [] => channels,
            [run] if run.stride >= channels => run.stride,
            _ => return None,
        };
        let extents: Vec<usize> = order.iter().map(|&axis| extent(&self.axes[axis])).collect();
        Some(Rect { buffer: self.buffer, offset: self.offset, dims: fold4(&extents), pitch })
    }

    /// If the axis is some permutation of adjacent floats: for each float the logical index that lies
    /// there (`None` inside where they are in order). The axis then reads as one run of stride 1.
    #[allow(clippy::option_option)]
    pub fn permutation(&self, axis: usize) -> Option<Option<Vec<u32>>> {
        let runs = &self.axes[axis];
        let mut sorted = runs.clone();
        sorted.sort_by_key(|run| run.stride);
        let mut next = 1;
        for run in &sorted {
            if run.stride != next {
                return None;
            }
            next *= run.extent;
        }
        if runs.len() <= 1 {
            return Some(None);
        }
        let mut order = vec![0; next];
        for index in 0..next {
            order[locate(runs, index)] = index as u32;
        }
        Some(Some(order))
    }

    /// The view with an axis replaced by as many adjacent floats.
    pub fn with_adjacent(&self, axis: usize) -> Self {
        let mut view = self.clone();
        view.axes[axis] = merge([Run { extent: extent(&self.axes[axis]), stride: 1 }]);
        view
    }

    /// The dimensions of a copy to a view of the same shape, outermost in the destination first;
    /// `None` where runs of the two do not divide each other.
    pub fn copy_dims(&self, to: &Self) -> Option<Vec<CopyDim>> {
        let mut dims = Vec::new();
        for (from, to) in self.axes.iter().zip(&to.axes) {
            let (mut from, mut to) = (from.clone(), to.clone());
            while let (Some(a), Some(b)) = (from.pop(), to.pop()) {
                let common = a.extent.min(b.extent);
                if !a.extent.is_multiple_of(common) || !b.extent.is_multiple_of(common) {
                    return None;
                }
                dims.push(CopyDim { extent: common, src: a.stride, dst: b.stride });
                for (run, rest) in [(a, &mut from), (b, &mut to)] {
                    if run.extent > common {
                        let extent = run.extent / common;
                        rest.push(Run { extent, stride: run.stride * common });
                    }
                }
            }
        }
        Some(joined(dims))
    }
}

/// Dimensions of a copy, outermost in the destination first; those that continue each other at both ends are one.
fn joined(mut dims: Vec<CopyDim>) -> Vec<CopyDim> {
    dims.sort_by_key(|dim| std::cmp::Reverse(dim.dst));
    let mut merged: Vec<CopyDim> = Vec::new();
    for dim in dims {
        match merged.last_mut() {
            Some(last) if last.src == dim.src * dim.extent && last.dst == dim.dst * dim.extent => {
                *last = CopyDim { extent: last.extent * dim.extent, ..dim };
            }
            _ => merged.push(dim),
        }
    }
    merged
}

/// The order of dimensions in a contiguous buffer between the two ends of a copy, so that the copy to it has so many
/// dimensions at most, and the one from it as few as can be, fewer than the whole. Dimensions that are outermost in the
/// destination come first, or none, and the others as in the source.
pub(crate) fn between(dims: &[CopyDim], most: usize) -> Option<Vec<usize>> {
    let mut by_source: Vec<usize> = (0..dims.len()).collect();
    by_source.sort_by_key(|&dim| std::cmp::Reverse(dims[dim].src));
    let order = |first: usize| {
        let others = by_source.iter().copied().filter(|&dim| dim >= first);
        (0..first).chain(others).collect::<Vec<usize>>()
    };
    let counts = |order: &[usize]| {
        let extents: Vec<usize> = dims.iter().map(|dim| dim.extent).collect();
        let middle = View::contiguous(0, &extents, order);
        let stride = |dim: usize| middle.axes[dim][0].stride;
        let to = dims.iter().enumerate().map(|(at, dim)| CopyDim { dst: stride(at), ..*dim });
        let from = dims.iter().enumerate().map(|(at, dim)| CopyDim { src: stride(at), ..*dim });
        (joined(to.collect()).len(), joined(from.collect()).len())
    };
    let orders = (0..dims.len()).map(order).map(|order| (counts(&order), order));
    let fits = orders.filter(|((to, from), _)| *to <= most && *from < dims.len());
    fits.min_by_key(|((to, from), _)| (*from, *to)).map(|(_, order)| order)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> View {
        View::contiguous(0, &[1, 6, 4, 5], &[0, 2, 3, 1])
    }

    #[test]
    fn flattening_an_image_permutes_channels() {
        let flat = image().reshape(&[1, 120]).unwrap();
        let order = flat.permutation(1).unwrap().unwrap();
        assert_eq!(&order[..7], &[0, 20, 40, 60, 80, 100, 1]);
        assert!(flat.rect(&[0, 1]).is_none());
        assert_eq!(flat.with_adjacent(1).rect(&[0, 1]).unwrap().dims, [1, 1, 1, 120]);
    }

    #[test]
    fn channel_shuffle_is_one_copy_of_three_dimensions() {
        let view = image().reshape(&[1, 2, 3, 4, 5]).unwrap().transpose(&[0, 2, 1, 3, 4]);
        let view = view.reshape(&[1, 6, 4, 5]).unwrap();
        assert!(view.rect(&[0, 2, 3, 1]).is_none());
        let dims = view.copy_dims(&View { buffer: 1, ..image() }).unwrap();
        assert_eq!(dims.len(), 3);
        assert_eq!(dims[2], CopyDim { extent: 2, src: 3, dst: 1 });
    }

    #[test]
    fn a_buffer_between_makes_a_copy_two_of_fewer_dimensions() {
        let reversed: Vec<usize> = (0..8).rev().collect();
        let view = View::contiguous(0, &[2; 8], &row_major(8)).transpose(&reversed);
        let dims = view.copy_dims(&View::contiguous(1, &[2; 8], &row_major(8))).unwrap();
        assert_eq!(dims.len(), 8);
        assert_eq!(between(&dims, 6).unwrap(), [0, 1, 2, 3, 4, 7, 6, 5]);
        // What lies in gaps does not join.
        let gaps: Vec<CopyDim> =
            dims.iter().map(|dim| CopyDim { src: dim.src.pow(2) * 4, ..*dim }).collect();
        assert_eq!(between(&gaps, 6), None);
    }

    #[test]
    fn slices_of_channels_keep_the_pitch() {
        let rect = image().slice(1, 2, 1, 3).unwrap().rect(&[0, 2, 3, 1]).unwrap();
        assert_eq!(rect, Rect { buffer: 0, offset: 2, dims: [1, 4, 5, 3], pitch: 6 });
        assert!(image().slice(3, 1, 1, 3).unwrap().rect(&[0, 2, 3, 1]).is_none());
    }

    #[test]
    fn an_axis_of_two_runs_is_sliced_where_runs_allow() {
        let flat = image().reshape(&[1, 120]).unwrap();
        assert_eq!(flat.slice(1, 40, 1, 20).unwrap().offset, 2);
        assert_eq!(flat.slice(1, 20, 1, 60).unwrap().shape(), [1, 60]);
        assert!(flat.slice(1, 3, 1, 60).is_none());
        assert_eq!(flat.slice(1, 1, 20, 6).unwrap().axes[1], [Run { extent: 6, stride: 1 }]);
    }

    #[test]
    fn orders_are_canonical() {
        assert_eq!(image().order(), [0, 2, 3, 1]);
        assert_eq!(View::contiguous(0, &[1, 6, 4, 5], &[0, 1, 2, 3]).order(), [0, 1, 2, 3]);
        assert_eq!(View::contiguous(0, &[1, 6, 1, 1], &[0, 1, 2, 3]).order(), [0, 2, 3, 1]);
        assert_eq!(image().transpose(&[0, 2, 3, 1]).order(), [0, 1, 2, 3]);
    }
}
