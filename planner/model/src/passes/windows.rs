//! Convolution and pooling, the paddings that join them, and reductions that are pools.

use super::PassError;
use super::affine::{Linear, point};
use super::fuse::{input, unsupported};
use super::program::{Builder, Work};
use crate::graph::{Node, ValueId, Window};
use eyelet::pack::{BinaryOp, ReduceOp};

impl Builder {
    pub fn conv(&mut self, node: &Node, window: &Window, groups: usize) -> Result<(), PassError> {
        let (mut x, w) = (input(node, 0)?, input(node, 1)?);
        let Some(data) = self.constant(w).cloned() else {
            return Err(unsupported(
                node,
                "its weights are not constant",
                "export them as initializers",
            ));
        };
        let (in_channels, out_channels) = (self.shape(x)[1], self.shape(w)[0]);
        let (taps, depth) = (window.kernel[0] * window.kernel[1], in_channels / groups.max(1));
        let k = taps * depth;
        if data.len() != out_channels * k {
            return Err(PassError::Mismatch {
                node: node.name.clone(),
                what: "the number of weights",
                found: data.len(),
                expected: out_channels * k,
            });
        }
        let bias = match node.inputs.get(2).copied().flatten() {
            None => None,
            Some(bias) => {
                let Some(data) = self.constant(bias) else {
                    return Err(unsupported(
                        node,
                        "its bias is not constant",
                        "export it as initializer",
                    ));
                };
                Some(data.to_vec().into_iter().map(f64::from).collect())
            }
        };
        // packed: tap by tap, channels inside; stored: channel by channel, taps inside
        let order = (taps > 1 && depth > 1).then(|| {
            let stored = |i: usize| (i % depth * taps + i / depth) as u32;
            (0..k).map(stored).collect()
        });
        let linear =
            Linear { data, out_channels, groups, k, row: k, col: 1, order, scale: None, bias };
        let mut window = window.clone();
        if let Some((inner, begin, end)) = self.image_padding(x, |value| value == 0.0) {
            x = inner;
            for i in 0..2 {
                window.pad_begin[i] += begin[i];
                window.pad_end[i] += end[i];
            }
        }
        let depthwise = groups > 1 && groups == in_channels && groups == out_channels;
        self.push(&node.name, Work::Conv { window, linear, depthwise }, &[x], &node.outputs);
        Ok(())
    }

    /// If `x` is made by padding the height and width of an image with an acceptable value, for the
    /// node at hand alone: removes the padding and returns its input and extents.
    fn image_padding(
        &mut self,
        x: ValueId,
        accept: impl Fn(f32) -> bool,
    ) -> Option<(ValueId, [usize; 2], [usize; 2])> {
        let item = self.sole_maker(x)?;
        let Work::Pad { begin, end, value } = &item.work else { return None };
        let inner = begin.len() == 4 && [&begin[..2], &end[..2]].concat() == [0; 4];
        if !inner || !accept(*value) {
            return None;
        }
        let found = (item.inputs[0], [begin[2], begin[3]], [end[2], end[3]]);
        self.remove(x);
        self.read(found.0);
        Some(found)
    }

    pub fn pool(
        &mut self,
        name: &str,
        mut x: ValueId,
        y: ValueId,
        window: &Window,
        average: bool,
        mut count_include_pad: bool,
    ) {
        let mut window = window.clone();
        // An average counts what a Pad added, so the pool must count all of its padding or have none.
        let countable = count_include_pad || [window.pad_begin, window.pad_end] == [[0; 2]; 2];
        let accept = |value| match average {
            true => countable && value == 0.0,
            false => value == f32::NEG_INFINITY,
        };
        if let Some((inner, begin, end)) = self.image_padding(x, accept) {
            x = inner;
            count_include_pad = true;
            for i in 0..2 {
                window.pad_begin[i] += begin[i];
                window.pad_end[i] += end[i];
            }
        }
        self.push(name, Work::Pool { average, window, count_include_pad }, &[x], &[y]);
    }

    /// A reduction over axes: a pool with the whole image as window where it is one.
    pub fn reduce(
        &mut self,
        name: &str,
        op: ReduceOp,
        x: ValueId,
        y: ValueId,
        axes: Vec<usize>,
        keep: bool,
    ) {
        let shape = self.shape(x).to_vec();
        let average = op == ReduceOp::Mean;
        if axes.iter().all(|&axis| shape[axis] == 1) {
            let mut one = x;
            if op.squares() {
                self.read(x);
                one = self.temporary(name, &shape);
                self.push(name, Work::Binary { op: BinaryOp::Mul }, &[x, x], &[one]);
            }
            self.push(name, Work::Reshape, &[one], &[y]);
        } else if shape.len() == 4 && axes == [2, 3] && (average || op == ReduceOp::Max) {
            let window = Window { kernel: [shape[2], shape[3]], ..point() };
            let work = Work::Pool { average, window, count_include_pad: false };
            let pooled = if keep { y } else { self.temporary(name, &[shape[0], shape[1], 1, 1]) };
            self.push(name, work, &[x], &[pooled]);
            if !keep {
                self.push(name, Work::Reshape, &[pooled], &[y]);
            }
        } else {
            self.push(name, Work::Reduce { op, axes, keep }, &[x], &[y]);
        }
    }
}
