//! NASNet-A (Zoph et al. 2018) with 4 cells a stage and 1056 channels at the end, cell by cell. Each cell
//! reads what the two before it made.

use super::model::{Conv, Model, Value, int, integers, ints};
use super::parts::{IMAGE, UNIT, classifier};

/// Cells of a stage that keep the size.
const CELLS: usize = 4;
/// Channels of a branch in the first stage. The last cell makes 24 times as many.
const CHANNELS: usize = 1056 / 24;
/// Channels of the first convolution.
const STEM: usize = 32;

pub(super) fn build(name: &str) -> Model {
    let (mut model, image) = Model::new(name, IMAGE);
    let stem = Conv::new(STEM, 3).stride(2).pad(0).no_bias();
    let stem = model.conv("stem.conv", &image, Conv { bias: true, ..stem }, UNIT);
    let mut net = Net { model, before: stem.clone(), x: stem };
    net.reduction("stem_1", CHANNELS / 4);
    net.reduction("stem_2", CHANNELS / 2);
    for stage in 0..3 {
        let channels = CHANNELS << stage;
        if stage > 0 {
            net.reduction(&format!("reduce_{stage}"), channels);
        }
        for cell in 0..CELLS {
            net.normal(&format!("stage_{stage}.cell_{cell}"), channels);
        }
    }
    let Net { mut model, x, .. } = net;
    let x = model.relu("relu", &x);
    classifier(model, "predictions", &x)
}

/// What the last cell has made, and the one before it.
struct Net {
    model: Model,
    before: Value,
    x: Value,
}

impl Net {
    /// A cell that keeps the size.
    fn normal(&mut self, path: &str, channels: usize) {
        let mut cell = Cell { model: &mut self.model, path, channels };
        let p = cell.adjusted(&self.before, &self.x);
        let h = cell.pointwise("h", &self.x);
        let parts = [
            cell.sum("1", |cell| {
                [cell.separable("1.left", &h, 5, 1), cell.separable("1.right", &p, 3, 1)]
            }),
            cell.sum("2", |cell| {
                [cell.separable("2.left", &p, 5, 1), cell.separable("2.right", &p, 3, 1)]
            }),
            cell.sum("3", |cell| [cell.mean("3.left", &h), p.clone()]),
            cell.sum("4", |cell| [cell.mean("4.left", &p), cell.mean("4.right", &p)]),
            cell.sum("5", |cell| [cell.separable("5.left", &h, 3, 1), h.clone()]),
        ];
        let parts: Vec<&Value> = [&p].into_iter().chain(&parts).collect();
        let y = self.model.concat(path, &parts);
        self.before = std::mem::replace(&mut self.x, y);
    }

    /// A cell that halves height and width.
    fn reduction(&mut self, path: &str, channels: usize) {
        let mut cell = Cell { model: &mut self.model, path, channels };
        let p = match self.before.name == self.x.name {
            true => self.x.clone(),
            false => cell.adjusted(&self.before, &self.x),
        };
        let h = cell.pointwise("h", &self.x);
        let one = cell.sum("1", |cell| {
            [cell.separable("1.left", &h, 5, 2), cell.separable("1.right", &p, 7, 2)]
        });
        let padded = cell.padded(&h);
        let two = cell.sum("2", |cell| {
            [cell.halved("2.left", "MaxPool", &padded), cell.separable("2.right", &p, 7, 2)]
        });
        let three = cell.sum("3", |cell| {
            [cell.halved("3.left", "AveragePool", &padded), cell.separable("3.right", &p, 5, 2)]
        });
        let four = cell.sum("4", |cell| [two.clone(), cell.mean("4.right", &one)]);
        let five = cell.sum("5", |cell| {
            [cell.separable("5.left", &one, 3, 1), cell.halved("5.right", "MaxPool", &padded)]
        });
        let y = self.model.concat(path, &[&two, &three, &four, &five]);
        self.before = std::mem::replace(&mut self.x, y);
    }
}

/// The places that a window of this size needs before and after an extent, so that a stride of 2 halves it.
fn halving(kernel: usize, extent: usize) -> [usize; 2] {
    let half = kernel / 2;
    [half - usize::from(extent.is_multiple_of(2)), half]
}

/// A cell while it is made.
struct Cell<'a> {
    model: &'a mut Model,
    path: &'a str,
    /// Of each branch.
    channels: usize,
}

impl Cell<'_> {
    fn at(&self, part: &str) -> String {
        format!("{}.{part}", self.path)
    }

    fn sum(&mut self, part: &str, branches: impl FnOnce(&mut Self) -> [Value; 2]) -> Value {
        let [a, b] = branches(self);
        let name = self.at(part);
        self.model.add(&name, &a, &b)
    }

    /// A convolution of 1x1 after a ReLU.
    fn pointwise(&mut self, part: &str, x: &Value) -> Value {
        self.narrowed(part, x, self.channels)
    }

    fn narrowed(&mut self, part: &str, x: &Value, channels: usize) -> Value {
        let x = self.model.relu(&self.at(&format!("{part}.relu")), x);
        self.model.conv(&self.at(&format!("{part}.conv")), &x, Conv::new(channels, 1), UNIT)
    }

    /// Two depthwise convolutions, each after a ReLU and before one of 1x1.
    fn separable(&mut self, part: &str, x: &Value, kernel: usize, stride: usize) -> Value {
        let mut y = x.clone();
        for (index, stride) in [(1, stride), (2, 1)] {
            let at = |of: &str| self.at(&format!("{part}.{of}{index}"));
            let [relu, depthwise, pointwise] = ["relu", "depthwise", "pointwise"].map(at);
            let x = self.model.relu(&relu, &y);
            let mut conv = Conv::new(x.channels(), kernel).groups(x.channels()).no_bias();
            if stride > 1 {
                let [before, after] = halving(kernel, x.shape[1]);
                conv = Conv { less_before: after - before, ..conv.stride(stride) };
            }
            let wide = self.model.conv(&depthwise, &x, conv, UNIT);
            y = self.model.conv(&pointwise, &wide, Conv::new(self.channels, 1), UNIT);
        }
        y
    }

    /// The mean around each place, of the places that there are.
    fn mean(&mut self, part: &str, x: &Value) -> Value {
        let name = self.at(part);
        let attributes = vec![
            int("ceil_mode", 0),
            int("count_include_pad", 0),
            ints("kernel_shape", &[3, 3]),
            ints("pads", &[1; 4]),
            ints("strides", &[1, 1]),
        ];
        self.model.node("AveragePool", &name, vec![x.name.clone()], attributes);
        Value { name, ..x.clone() }
    }

    /// Zeros around a tensor, for windows of 3x3 that halve it.
    fn padded(&mut self, x: &Value) -> Value {
        let [before, after] = halving(3, x.shape[1]).map(|places| places as i64);
        let (name, pads) = (self.at("pad"), self.at("pads"));
        let values = [0, 0, before, before, 0, 0, after, after];
        self.model.node("Constant", &pads, vec![], vec![integers("value", &[8], &values)]);
        self.model.node("Pad", &name, vec![x.name.clone(), pads], vec![]);
        let extent = x.shape[1] + (before + after) as usize;
        Value { name, shape: vec![x.shape[0], extent, extent], ..x.clone() }
    }

    /// Pooling of what is padded.
    fn halved(&mut self, part: &str, op: &str, x: &Value) -> Value {
        let name = self.at(part);
        let attributes = vec![ints("kernel_shape", &[3, 3]), ints("strides", &[2, 2])];
        self.model.node(op, &name, vec![x.name.clone()], attributes);
        let extent = (x.shape[1] - 3) / 2 + 1;
        Value { name, shape: vec![x.shape[0], extent, extent], ..x.clone() }
    }

    /// What the cell before the last made, with the size of `x` and the cell's channels.
    fn adjusted(&mut self, p: &Value, x: &Value) -> Value {
        if p.shape[1] == x.shape[1] {
            return match p.channels() == self.channels {
                true => p.clone(),
                false => self.pointwise("adjust", p),
            };
        }
        // Every second place, and every second one after it.
        let rectified = self.model.relu(&self.at("adjust.relu"), p);
        let moved = self.moved(&rectified);
        let halves = [(&rectified, "adjust.left"), (&moved, "adjust.right")].map(|(x, part)| {
            let name = self.at(&format!("{part}.pool"));
            let attributes = vec![ints("kernel_shape", &[1, 1]), ints("strides", &[2, 2])];
            self.model.node("AveragePool", &name, vec![x.name.clone()], attributes);
            let extent = x.shape[1].div_ceil(2);
            let x = Value { name, shape: vec![x.shape[0], extent, extent], ..x.clone() };
            let conv = Conv::new(self.channels / 2, 1);
            self.model.conv(&self.at(&format!("{part}.conv")), &x, conv, UNIT)
        });
        let name = self.at("adjust");
        self.model.concat(&name, &[&halves[0], &halves[1]])
    }

    /// A tensor moved by one place up and to the left, with zeros after it.
    fn moved(&mut self, x: &Value) -> Value {
        let at = |part: &str| self.at(&format!("adjust.{part}"));
        let [pad, pads, slice, starts, ends, axes] =
            ["pad", "pads", "slice", "starts", "ends", "axes"].map(at);
        let mut constant = |name: &str, values: &[i64]| {
            let value = integers("value", &[values.len() as i64], values);
            self.model.node("Constant", name, vec![], vec![value]);
        };
        constant(&pads, &[0, 0, 0, 0, 0, 0, 1, 1]);
        constant(&starts, &[1, 1]);
        constant(&ends, &[i64::from(i32::MAX); 2]);
        constant(&axes, &[2, 3]);
        self.model.node("Pad", &pad, vec![x.name.clone(), pads], vec![]);
        self.model.node("Slice", &slice, vec![pad, starts, ends, axes], vec![]);
        Value { name: slice, ..x.clone() }
    }
}
