//! Operators in double precision: what they read, and loops that they share.
//!
//! What eyelet computes is judged against these, so they share no code with the kernels and follow the
//! operators' definitions word by word, in the model's own layout. Speed matters only where networks of
//! real size would otherwise take minutes: convolutions and products of matrices use all cores.

/// A tensor that is read.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    pub shape: &'a [usize],
    pub data: &'a [f64],
}

/// Calls `task` for each item of `output` cut into chunks, on all cores.
pub(crate) fn parallel(output: &mut [f64], chunk: usize, task: impl Fn(usize, &mut [f64]) + Sync) {
    let count = output.len() / chunk;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(count).max(1);
    if threads == 1 {
        output.chunks_exact_mut(chunk).enumerate().for_each(|(index, part)| task(index, part));
        return;
    }
    let each = count.div_ceil(threads);
    std::thread::scope(|scope| {
        for (thread, run) in output.chunks_mut(each * chunk).enumerate() {
            let task = &task;
            scope.spawn(move || {
                for (index, part) in run.chunks_exact_mut(chunk).enumerate() {
                    task(thread * each + index, part);
                }
            });
        }
    });
}

/// Calls `visit` with every index of a shape, in row-major order.
pub(crate) fn each_index(shape: &[usize], mut visit: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut index = vec![0; shape.len()];
    'next: loop {
        visit(&index);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            if index[axis] < shape[axis] {
                continue 'next;
            }
            index[axis] = 0;
        }
        return;
    }
}

/// Row-major offset of an index.
pub(crate) fn offset(shape: &[usize], index: impl IntoIterator<Item = usize>) -> usize {
    shape.iter().zip(index).fold(0, |offset, (&extent, at)| offset * extent + at)
}
