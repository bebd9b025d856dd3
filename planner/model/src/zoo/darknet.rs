//! Detectors as Darknet describes them: the text of the layers, and the numbers in the order of its
//! file.
//!
//! YOLOv3 (Redmon and Farhadi 2018), YOLOv4 (Bochkovskiy et al. 2020) and YOLOv4-P6 (Wang et al.
//! 2021), for 80 classes. Batch norms have scale 1, mean 0 and variance 1. The moments of
//! activations are followed roughly, so that weights keep them.

use super::fill::Fill;
use super::model::{Initializer, Model};
use std::fmt::Write;

const CLASSES: usize = 80;
/// Anchors of YOLOv3 and YOLOv4, three a scale.
const ANCHORS: [[usize; 2]; 9] = [
    [10, 13],
    [16, 30],
    [33, 23],
    [30, 61],
    [62, 45],
    [59, 119],
    [116, 90],
    [156, 198],
    [373, 326],
];
/// Filters of the five stages of both Darknet-53's, and residual blocks in each.
const STAGES: [(usize, usize); 5] = [(64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)];

/// What a convolution ends with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Activation {
    Linear,
    Leaky,
    Mish,
    Logistic,
}

impl Activation {
    /// Its name, and mean and variance of what it makes of a standard normal distribution.
    fn of(self) -> (&'static str, f32, f32) {
        match self {
            Activation::Linear => ("linear", 0.0, 1.0),
            Activation::Leaky => ("leaky", 0.36, 0.38),
            Activation::Mish => ("mish", 0.24, 0.42),
            Activation::Logistic => ("logistic", 0.5, 0.04),
        }
    }
}

/// A layer's output.
#[derive(Clone, Copy, Debug)]
struct Output {
    channels: usize,
    side: usize,
    mean: f32,
    variance: f32,
}

/// A network being written down.
struct Net {
    text: String,
    initializers: Vec<Initializer>,
    outputs: Vec<Output>,
    image: Output,
    activation: Activation,
    macs: u64,
}

impl Net {
    fn new(side: usize, activation: Activation) -> Self {
        let text =
            format!("[net]\nbatch=1\nsubdivisions=1\nwidth={side}\nheight={side}\nchannels=3\n");
        let image = Output { channels: 3, side, mean: 0.0, variance: 1.0 };
        Self { text, initializers: vec![], outputs: vec![], image, activation, macs: 0 }
    }

    fn last(&self) -> Output {
        self.outputs.last().copied().unwrap_or(self.image)
    }

    /// Adds a section and returns its number.
    fn push(&mut self, section: &str, keys: &[(&str, String)], output: Output) -> usize {
        self.text += &format!("\n[{section}]\n");
        for (key, value) in keys {
            // Writing to a string cannot fail.
            _ = writeln!(self.text, "{key}={value}");
        }
        self.outputs.push(output);
        self.outputs.len() - 1
    }

    fn numbers(&mut self, part: &str, dims: &[usize], fill: Fill) {
        let name = format!("convolutional_{}.{part}", self.outputs.len());
        self.initializers.push(Initializer { name, dims: dims.to_vec(), fill });
    }

    /// A convolution that keeps the side, but for its stride; all but a head's are normalised.
    fn convolve(
        &mut self,
        filters: usize,
        size: usize,
        stride: usize,
        activation: Activation,
    ) -> usize {
        let Output { channels, side, mean, variance } = self.last();
        let norm = matches!(activation, Activation::Leaky | Activation::Mish);
        self.numbers("bias", &[filters], Fill::Normal { std: 0.1 });
        for (part, value) in [("scale", 1.0), ("mean", 0.0), ("variance", 1.0)] {
            if norm {
                self.numbers(part, &[filters], Fill::Constant(value));
            }
        }
        let fan_in = channels * size * size;
        let std = (1.0 / (fan_in as f32 * variance)).sqrt();
        let fill = if mean > 0.0 { Fill::Centred { std } } else { Fill::Normal { std } };
        self.numbers("weight", &[filters, channels, size, size], fill);
        let side = side.div_ceil(stride);
        self.macs += (filters * fan_in * side * side) as u64;
        let (name, mean, variance) = activation.of();
        let mut keys = vec![("filters", filters.to_string()), ("size", size.to_string())];
        keys.extend([("stride", stride.to_string()), ("pad", "1".into())]);
        keys.extend(norm.then(|| ("batch_normalize", "1".into())));
        keys.push(("activation", name.into()));
        self.push("convolutional", &keys, Output { channels: filters, side, mean, variance })
    }

    fn conv(&mut self, filters: usize, size: usize) -> usize {
        self.convolve(filters, size, 1, self.activation)
    }

    fn halve(&mut self, filters: usize) -> usize {
        self.convolve(filters, 3, 2, self.activation)
    }

    /// A residual block: 1x1, 3x3, and what was before.
    fn residual(&mut self, narrow: usize, wide: usize) {
        let before = self.last();
        self.conv(narrow, 1);
        self.conv(wide, 3);
        let own = self.last();
        let (mean, variance) = (before.mean + own.mean, before.variance + own.variance);
        let keys = [("from", "-3".into()), ("activation", "linear".into())];
        self.push("shortcut", &keys, Output { mean, variance, ..own });
    }

    /// Concatenates outputs, or goes back to one.
    fn route(&mut self, layers: &[usize]) -> usize {
        let all = layers.iter().map(|&layer| self.outputs[layer]);
        let channels: usize = all.clone().map(|one| one.channels).sum();
        let part = |one: &Output| one.channels as f32 / channels as f32;
        let mean: f32 = all.clone().map(|one| part(&one) * one.mean).sum();
        let square = |one: Output| part(&one) * (one.variance + one.mean * one.mean);
        let variance = all.map(square).sum::<f32>() - mean * mean;
        let side = self.outputs[layers[0]].side;
        let list: Vec<String> = layers
            .iter()
            .map(|&layer| (layer as i64 - self.outputs.len() as i64).to_string())
            .collect();
        let output = Output { channels, side, mean, variance };
        self.push("route", &[("layers", list.join(","))], output)
    }

    fn upsample(&mut self) -> usize {
        let last = self.last();
        self.push("upsample", &[("stride", "2".into())], Output { side: 2 * last.side, ..last })
    }

    /// What a scale of a detector ends with, for so many boxes a place.
    fn detect(&mut self, boxes: usize, mask: usize, all: usize, activation: Activation) {
        self.convolve((CLASSES + 5) * boxes, 1, 1, activation);
        let list = |range: std::ops::Range<usize>, text: &dyn Fn(usize) -> String| {
            range.map(text).collect::<Vec<_>>().join(",")
        };
        let anchor = |at: usize| {
            // Those of a larger network continue them.
            let [width, height] = ANCHORS[at.min(ANCHORS.len() - 1)];
            format!("{width},{height}")
        };
        let keys = [
            ("mask", list(mask * boxes..(mask + 1) * boxes, &|at| at.to_string())),
            ("anchors", list(0..all, &anchor)),
            ("classes", CLASSES.to_string()),
            ("num", all.to_string()),
        ];
        let last = self.last();
        self.push("yolo", &keys, last);
    }

    /// Convolutions of 1x1 and 3x3 in turns, the first and the last of 1x1.
    fn alternate(&mut self, filters: usize, pairs: usize) -> usize {
        for _ in 0..pairs {
            self.conv(filters, 1);
            self.conv(2 * filters, 3);
        }
        self.conv(filters, 1)
    }

    /// A stage of residual blocks on one of two paths, which are joined at its end (cross stage
    /// partial).
    fn stage(&mut self, filters: usize, path: usize, blocks: usize) -> usize {
        let start = self.halve(filters);
        let short = self.conv(path, 1);
        self.route(&[start]);
        self.conv(path, 1);
        for _ in 0..blocks {
            self.residual(filters / 2, path);
        }
        let long = self.conv(path, 1);
        self.route(&[long, short]);
        self.conv(filters, 1)
    }

    /// Three convolutions of 1x1 and 3x3 in turns on one of two paths, after a narrowing one.
    fn plain_stage(&mut self, filters: usize) -> usize {
        let start = self.conv(filters, 1);
        let short = self.conv(filters, 1);
        self.route(&[start]);
        let long = self.plain(filters, 3);
        self.route(&[long, short]);
        self.conv(filters, 1)
    }

    /// Convolutions of 1x1 and 3x3 in turns, all as wide.
    fn plain(&mut self, filters: usize, pairs: usize) -> usize {
        for _ in 0..pairs {
            self.conv(filters, 1);
            self.conv(filters, 3);
        }
        self.outputs.len() - 1
    }

    /// The last output next to what three sizes of pools make of it.
    fn pyramid(&mut self) {
        let from = self.outputs.len() - 1;
        let last = self.last();
        let mut pools = vec![from];
        for (index, size) in [5usize, 9, 13].into_iter().enumerate() {
            if index > 0 {
                self.route(&[from]);
            }
            let keys = [("stride", "1".into()), ("size", size.to_string())];
            pools.push(self.push("maxpool", &keys, last));
        }
        pools.reverse();
        self.route(&pools);
    }

    /// The last output at twice its side, next to another of that side.
    fn rise(&mut self, filters: usize, end: usize) {
        self.conv(filters, 1);
        let up = self.upsample();
        self.route(&[end]);
        let other = self.conv(filters, 1);
        self.route(&[other, up]);
    }

    fn finish(self, name: &str) -> Model {
        let shape = |output: &Output| vec![1, output.channels, output.side, output.side];
        let heads = self.text.split("\n[").skip(1).zip(&self.outputs);
        let heads = heads.filter(|(section, _)| section.starts_with("yolo"));
        let outputs: Vec<Vec<usize>> = heads.map(|(_, output)| shape(output)).collect();
        Model::of_darknet(
            name,
            self.text,
            self.initializers,
            (shape(&self.image), outputs),
            self.macs,
        )
    }
}

/// YOLOv3.
pub(super) fn yolov3(name: &str) -> Model {
    let mut net = Net::new(416, Activation::Leaky);
    net.conv(32, 3);
    let mut ends = vec![];
    for (filters, blocks) in STAGES {
        net.halve(filters);
        for _ in 0..blocks {
            net.residual(filters / 2, filters);
        }
        ends.push(net.outputs.len() - 1);
    }
    for (scale, (filters, joins)) in
        [(512, None), (256, Some(ends[3])), (128, Some(ends[2]))].into_iter().enumerate()
    {
        if let Some(end) = joins {
            net.conv(filters, 1);
            let up = net.upsample();
            net.route(&[up, end]);
        }
        let middle = net.alternate(filters, 2);
        net.conv(2 * filters, 3);
        net.detect(3, 2 - scale, 9, Activation::Linear);
        if filters > 128 {
            net.route(&[middle]);
        }
    }
    net.finish(name)
}

/// YOLOv4.
pub(super) fn yolov4(name: &str) -> Model {
    let mut net = Net::new(416, Activation::Mish);
    net.conv(32, 3);
    let mut ends = vec![];
    for (filters, blocks) in STAGES {
        // The first stage has paths as wide as itself.
        let path = if blocks == 1 { filters } else { filters / 2 };
        ends.push(net.stage(filters, path, blocks));
    }
    net.activation = Activation::Leaky;
    net.alternate(512, 1);
    net.pyramid();
    let mut paths = vec![net.alternate(512, 1)];
    // Down the pyramid of features, and up again.
    for (filters, end) in [(256, ends[3]), (128, ends[2])] {
        net.rise(filters, end);
        paths.push(net.alternate(filters, 2));
    }
    let mut last = paths.pop().unwrap_or_default();
    net.conv(256, 3);
    net.detect(3, 0, 9, Activation::Linear);
    for (scale, filters) in [(1, 256), (2, 512)] {
        net.route(&[last]);
        let down = net.halve(filters);
        net.route(&[down, paths.pop().unwrap_or_default()]);
        last = net.alternate(filters, 2);
        net.conv(2 * filters, 3);
        net.detect(3, scale, 9, Activation::Linear);
    }
    net.finish(name)
}

/// YOLOv4-P6. It halves six times: sides are multiples of 64.
pub(super) fn yolov4_p6(name: &str) -> Model {
    let mut net = Net::new(1280, Activation::Mish);
    net.conv(32, 3);
    let stages = [(64, 1), (128, 3), (256, 15), (512, 15), (1024, 7), (1024, 7)];
    let ends = stages.map(|(filters, blocks)| net.stage(filters, filters / 2, blocks));
    // Pyramid of pools on one of two paths.
    let short = net.conv(512, 1);
    net.route(&[ends[5]]);
    net.conv(512, 1);
    net.conv(512, 3);
    net.conv(512, 1);
    net.pyramid();
    let long = net.plain(512, 1);
    net.route(&[long, short]);
    let mut paths = vec![net.conv(512, 1)];
    // Down the pyramid of features, and up again.
    for (filters, end) in [(512, ends[4]), (256, ends[3]), (128, ends[2])] {
        net.rise(filters, end);
        paths.push(net.plain_stage(filters));
    }
    let mut scales = vec![paths.pop().unwrap_or_default()];
    for filters in [256, 512, 512] {
        let down = net.halve(filters);
        net.route(&[down, paths.pop().unwrap_or_default()]);
        scales.push(net.plain_stage(filters));
    }
    for (at, (scale, filters)) in scales.into_iter().zip([256, 512, 1024, 1024]).enumerate() {
        net.route(&[scale]);
        net.conv(filters, 3);
        net.detect(4, at, 16, Activation::Logistic);
    }
    net.finish(name)
}
