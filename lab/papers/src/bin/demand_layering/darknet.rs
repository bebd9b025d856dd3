//! The networks that Demand Layering was evaluated with, as Darknet describes them: layer by layer the bytes of the
//! parameters and the floating-point operations.
//!
//! A convolution with batch normalisation has four numbers a filter beside its weights; without, it has a bias. A
//! shortcut adds what it finds, so that residual networks have no projections here. Everything that is a section of the
//! description counts as a layer.

/// A layer as far as loading and timing it go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layer {
    pub bytes: u64,
    pub flops: f64,
}

/// A network being put together, with the extents of each layer's output.
struct Network {
    layers: Vec<Layer>,
    /// Side and channels.
    outputs: Vec<[u64; 2]>,
    now: [u64; 2],
}

impl Network {
    fn new(side: u64) -> Self {
        Self { layers: Vec::new(), outputs: Vec::new(), now: [side, 3] }
    }

    /// Adds a layer and returns its index.
    fn push(&mut self, bytes: u64, flops: u64, output: [u64; 2]) -> usize {
        self.layers.push(Layer { bytes, flops: flops as f64 });
        self.outputs.push(output);
        self.now = output;
        self.layers.len() - 1
    }

    /// A convolution that keeps the side, but for its stride; `numbers` a filter beside its weights.
    fn convolve(&mut self, filters: u64, kernel: u64, stride: u64, numbers: u64) -> usize {
        let [side, channels] = self.now;
        let side = side.div_ceil(stride);
        let weights = kernel * kernel * channels * filters;
        self.push(4 * (weights + numbers * filters), 2 * weights * side * side, [side, filters])
    }

    fn conv(&mut self, filters: u64, kernel: u64) -> usize {
        self.convolve(filters, kernel, 1, 4)
    }

    fn halve(&mut self, filters: u64, kernel: u64) -> usize {
        self.convolve(filters, kernel, 2, 4)
    }

    fn pool(&mut self, kernel: u64, stride: u64) -> usize {
        let [side, channels] = self.now;
        let side = side.div_ceil(stride);
        self.push(0, kernel * kernel * side * side * channels, [side, channels])
    }

    /// A layer that goes through its input once and leaves it as large.
    fn each(&mut self) -> usize {
        let [side, channels] = self.now;
        self.push(0, side * side * channels, self.now)
    }

    /// Concatenates outputs, or goes back to one.
    fn route(&mut self, layers: &[usize]) -> usize {
        let side = self.outputs[layers[0]][0];
        let channels = layers.iter().map(|layer| self.outputs[*layer][1]).sum();
        self.push(0, 0, [side, channels])
    }

    fn upsample(&mut self) -> usize {
        let [side, channels] = self.now;
        self.push(0, 0, [2 * side, channels])
    }

    /// What a scale of a detector ends with: boxes of 85 numbers.
    fn detect(&mut self, boxes: u64) {
        self.convolve(85 * boxes, 1, 1, 1);
        self.each();
    }

    /// Convolutions of 1x1 and 3x3 in turns, the first and the last of 1x1.
    fn alternate(&mut self, filters: u64, pairs: usize) -> usize {
        for _ in 0..pairs {
            self.conv(filters, 1);
            self.conv(2 * filters, 3);
        }
        self.conv(filters, 1)
    }

    /// A stage of residual blocks on one of two paths, which are joined at its end (cross stage partial).
    fn stage(&mut self, filters: u64, path: u64, blocks: usize) -> usize {
        let start = self.halve(filters, 3);
        let short = self.conv(path, 1);
        self.route(&[start]);
        self.conv(path, 1);
        for _ in 0..blocks {
            self.conv(filters / 2, 1);
            self.conv(path, 3);
            self.each();
        }
        let long = self.conv(path, 1);
        self.route(&[long, short]);
        self.conv(filters, 1)
    }

    /// Three convolutions of 1x1 and 3x3 in turns on one of two paths, after a narrowing one.
    fn plain_stage(&mut self, filters: u64) -> usize {
        let start = self.conv(filters, 1);
        let short = self.conv(filters, 1);
        self.route(&[start]);
        let long = self.plain(filters, 3);
        self.route(&[long, short]);
        self.conv(filters, 1)
    }

    /// Convolutions of 1x1 and 3x3 in turns, all as wide.
    fn plain(&mut self, filters: u64, pairs: usize) -> usize {
        for _ in 0..pairs {
            self.conv(filters, 1);
            self.conv(filters, 3);
        }
        self.layers.len() - 1
    }

    /// The last output beside what three sizes of pools make of it.
    fn pyramid(&mut self) {
        let from = self.layers.len() - 1;
        let mut pools = vec![from];
        for (index, kernel) in [5, 9, 13].into_iter().enumerate() {
            if index > 0 {
                self.route(&[from]);
            }
            pools.push(self.pool(kernel, 1));
        }
        self.route(&pools);
    }

    /// The last output at twice its side, beside another of that side.
    fn rise(&mut self, filters: u64, end: usize) {
        self.conv(filters, 1);
        let up = self.upsample();
        self.route(&[end]);
        let branch = self.conv(filters, 1);
        self.route(&[branch, up]);
    }

    /// What classifiers end with.
    fn classify(&mut self, average_first: bool) {
        for convolves in [!average_first, average_first] {
            match convolves {
                true => _ = self.convolve(1000, 1, 1, 1),
                false => {
                    let [side, channels] = self.now;
                    self.push(0, side * side * channels, [1, channels]);
                }
            }
        }
        self.each();
        self.each();
    }
}

/// Filters of the five stages of both Darknet-53's, and residual blocks in each.
const STAGES: [(u64, usize); 5] = [(64, 1), (128, 2), (256, 8), (512, 8), (1024, 4)];

/// YOLOv3 for a square image.
pub fn yolov3(side: u64) -> Vec<Layer> {
    let mut net = Network::new(side);
    net.conv(32, 3);
    let mut ends = Vec::new();
    for (filters, blocks) in STAGES {
        net.halve(filters, 3);
        for _ in 0..blocks {
            net.conv(filters / 2, 1);
            net.conv(filters, 3);
            net.each();
        }
        ends.push(net.layers.len() - 1);
    }
    for (filters, joins) in [(512, None), (256, Some(ends[3])), (128, Some(ends[2]))] {
        if let Some(end) = joins {
            net.conv(filters, 1);
            let up = net.upsample();
            net.route(&[up, end]);
        }
        let middle = net.alternate(filters, 2);
        net.conv(2 * filters, 3);
        net.detect(3);
        if filters > 128 {
            net.route(&[middle]);
        }
    }
    net.layers
}

/// YOLOv4 for a square image.
pub fn yolov4(side: u64) -> Vec<Layer> {
    let mut net = Network::new(side);
    net.conv(32, 3);
    let mut ends = Vec::new();
    for (filters, blocks) in STAGES {
        // The first stage has paths as wide as itself.
        let path = if blocks == 1 { filters } else { filters / 2 };
        ends.push(net.stage(filters, path, blocks));
    }
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
    net.detect(3);
    for filters in [256, 512] {
        net.route(&[last]);
        let down = net.halve(filters, 3);
        net.route(&[down, paths.pop().unwrap_or_default()]);
        last = net.alternate(filters, 2);
        net.conv(2 * filters, 3);
        net.detect(3);
    }
    net.layers
}

/// YOLOv4-P6 (Scaled-YOLOv4) for a square image. It halves six times: sides are multiples of 64.
pub fn yolov4_p6(side: u64) -> Vec<Layer> {
    let mut net = Network::new(side);
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
        let down = net.halve(filters, 3);
        net.route(&[down, paths.pop().unwrap_or_default()]);
        scales.push(net.plain_stage(filters));
    }
    for (scale, filters) in scales.into_iter().zip([256, 512, 1024, 1024]) {
        net.route(&[scale]);
        net.conv(filters, 3);
        net.detect(4);
    }
    net.layers
}

/// ResNet-152 for a square image.
pub fn resnet152(side: u64) -> Vec<Layer> {
    let mut net = Network::new(side);
    net.halve(64, 7);
    net.pool(2, 2);
    for (filters, blocks) in [(64, 3), (128, 8), (256, 36), (512, 3)] {
        for block in 0..blocks {
            net.conv(filters, 1);
            match block == 0 && filters > 64 {
                true => net.halve(filters, 3),
                false => net.conv(filters, 3),
            };
            net.conv(4 * filters, 1);
            net.each();
        }
    }
    net.classify(true);
    net.layers
}

/// DenseNet-201 for a square image.
pub fn densenet201(side: u64) -> Vec<Layer> {
    let mut net = Network::new(side);
    net.halve(64, 7);
    let mut all = net.pool(2, 2);
    for (block, (filters, layers)) in
        [(0, 6), (128, 12), (256, 48), (512, 32)].into_iter().enumerate()
    {
        if block > 0 {
            net.conv(filters, 1);
            all = net.pool(2, 2);
        }
        for _ in 0..layers {
            net.conv(128, 1);
            let grown = net.conv(32, 3);
            all = net.route(&[grown, all]);
        }
    }
    net.classify(false);
    net.layers
}
