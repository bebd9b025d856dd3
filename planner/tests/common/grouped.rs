//! Grouped convolutions small enough for every test: groups of as many channels as a panel has or fewer, and of more.

use super::net::Net;
use eyelet_planner::graph::{Graph, Op, ValueId, Window};

const SIZE: [usize; 2] = [13, 18];

impl Net {
    fn conv(&mut self, x: ValueId, kernel: usize, groups: usize, to: usize) -> ValueId {
        let from = self.0.values[x].shape[1] / groups;
        let weights = self.weights(&[to, from, kernel, kernel]);
        let bias = self.weights(&[to]);
        let (ones, pad) = ([1; 2], [kernel / 2; 2]);
        let kernel = [kernel; 2];
        let window = Window { kernel, stride: ones, dilation: ones, pad_begin: pad, pad_end: pad };
        let y =
            self.node(Op::Conv { window, groups }, &[x, weights, bias], &[1, to, SIZE[0], SIZE[1]]);
        self.same(Op::Clip { min: 0.0, max: f32::INFINITY }, &[y])
    }
}

/// The graph.
pub fn grouped() -> Graph {
    let mut net = Net::default();
    let x = net.value(&[1, 3, SIZE[0], SIZE[1]], None);
    net.0.inputs.push(x);
    let x = net.conv(x, 3, 1, 96);
    // Blocks as ResNeXt's, in groups of 24, 32, 80 to 40, and 16 to 24 channels.
    let y = net.conv(x, 3, 4, 96);
    let y = net.conv(y, 1, 1, 160);
    let y = net.conv(y, 3, 5, 160);
    let y = net.conv(y, 3, 2, 80);
    let y = net.conv(y, 3, 5, 120);
    let y = net.conv(y, 1, 1, 96);
    let y = net.same(Op::Add, &[x, y]);
    net.0.outputs.push(y);
    net.0
}
