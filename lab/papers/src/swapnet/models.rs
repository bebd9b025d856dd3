//! The networks of the publication's scenarios: their layers with sizes, depths and operations.
//!
//! A layer is a convolution with its batch normalisation, or a matrix. Weights are 32-bit floats. A
//! convolution without a bias and its normalisation have six parameters: weights, scale, shift,
//! mean, variance, and a counter (Table 2 counts them so: five of the normalisation alone). One
//! with a bias has two.

use eyelet_tasks::swapnet::delays::Layer;

/// Layers being put together for one square image.
struct Builder {
    layers: Vec<Layer>,
    side: u64,
    channels: u64,
}

/// What follows the weights of a convolution.
#[derive(Clone, Copy)]
enum Then {
    Bias,
    Normalise,
}

impl Builder {
    fn new(side: u64) -> Self {
        Self { layers: Vec::new(), side, channels: 3 }
    }

    fn push(&mut self, name: String, weights: u64, outputs: u64, then: Then, places: u64) {
        let (numbers, depth) = match then {
            Then::Bias => (outputs, 2),
            Then::Normalise => (4 * outputs, 6),
        };
        let flops = 2.0 * (weights * places) as f64;
        self.layers.push(Layer { name, bytes: 4 * (weights + numbers), depth, flops });
    }

    /// A convolution that keeps the side, but for its stride.
    fn conv(&mut self, name: &str, outputs: u64, kernel: u64, stride: u64, then: Then) {
        self.side = self.side.div_ceil(stride);
        self.aside(name, self.channels, outputs, kernel, then);
        self.channels = outputs;
    }

    /// The same, but what comes after it does not follow from it.
    fn aside(&mut self, name: &str, inputs: u64, outputs: u64, kernel: u64, then: Then) {
        let places = self.side * self.side;
        self.push(name.to_owned(), kernel * kernel * inputs * outputs, outputs, then, places);
    }

    /// A matrix after everything is one row.
    fn matrix(&mut self, name: &str, inputs: u64, outputs: u64) {
        self.push(name.to_owned(), inputs * outputs, outputs, Then::Bias, 1);
    }

    /// The convolutions of a residual network with bottlenecks. Where `dilated`, the last two
    /// stages keep the side.
    fn resnet(&mut self, blocks: [u64; 4], dilated: bool) {
        self.conv("conv1", 64, 7, 2, Then::Normalise);
        self.side = self.side.div_ceil(2);
        for (stage, count) in (1u64..).zip(blocks) {
            let width = 64 << (stage - 1);
            for block in 0..count {
                let name = |part: &str| format!("layer{stage}.{block}.{part}");
                let strides = block == 0 && stage > 1 && !(dilated && stage > 2);
                let (inputs, stride) = (self.channels, if strides { 2 } else { 1 });
                self.conv(&name("conv1"), width, 1, 1, Then::Normalise);
                self.conv(&name("conv2"), width, 3, stride, Then::Normalise);
                self.conv(&name("conv3"), 4 * width, 1, 1, Then::Normalise);
                if block == 0 {
                    self.aside(&name("downsample"), inputs, 4 * width, 1, Then::Normalise);
                }
            }
        }
    }

    /// Detects boxes of 80 classes at one of three scales.
    fn detect(&mut self, scale: usize, width: u64) {
        for turn in 0..3 {
            self.conv(&format!("head{scale}.{}", 2 * turn), width, 1, 1, Then::Normalise);
            let inputs = self.channels;
            self.aside(
                &format!("head{scale}.{}", 2 * turn + 1),
                inputs,
                2 * width,
                3,
                Then::Normalise,
            );
            // What follows the last pair starts from its first half.
            self.channels = if turn < 2 { 2 * width } else { width };
        }
        self.aside(&format!("detect{scale}"), 2 * width, 255, 1, Then::Bias);
    }
}

/// VGG-19 for 1000 classes.
pub fn vgg19(side: u64) -> Vec<Layer> {
    let mut net = Builder::new(side);
    for (stage, (count, width)) in
        (1..).zip([(2u64, 64u64), (2, 128), (4, 256), (4, 512), (4, 512)])
    {
        for layer in 1..=count {
            net.conv(&format!("conv{stage}_{layer}"), width, 3, 1, Then::Bias);
        }
        net.side /= 2;
    }
    net.matrix("fc1", 512 * 7 * 7, 4096);
    net.matrix("fc2", 4096, 4096);
    net.matrix("fc3", 4096, 1000);
    net.layers
}

/// ResNet-101 for 1000 classes.
pub fn resnet101(side: u64) -> Vec<Layer> {
    let mut net = Builder::new(side);
    net.resnet([3, 4, 23, 3], false);
    net.matrix("fc", 2048, 1000);
    net.layers
}

/// FCN on a dilated ResNet-101 for 21 classes, with the auxiliary classifier that its file holds.
pub fn fcn_resnet101(side: u64) -> Vec<Layer> {
    let mut net = Builder::new(side);
    net.resnet([3, 4, 23, 3], true);
    net.conv("classifier.0", 512, 3, 1, Then::Normalise);
    net.conv("classifier.4", 21, 1, 1, Then::Bias);
    net.aside("aux.0", 1024, 256, 3, Then::Normalise);
    net.aside("aux.4", 256, 21, 1, Then::Bias);
    net.layers
}

/// YOLOv3 for 80 classes.
pub fn yolov3(side: u64) -> Vec<Layer> {
    let mut net = Builder::new(side);
    net.conv("dark0", 32, 3, 1, Then::Normalise);
    for (stage, (count, width)) in
        (1..).zip([(1u64, 64u64), (2, 128), (8, 256), (8, 512), (4, 1024)])
    {
        net.conv(&format!("dark{stage}.0"), width, 3, 2, Then::Normalise);
        for block in 1..=count {
            net.conv(&format!("dark{stage}.{block}.1"), width / 2, 1, 1, Then::Normalise);
            net.conv(&format!("dark{stage}.{block}.2"), width, 3, 1, Then::Normalise);
        }
    }
    for (scale, width) in (1..).zip([512u64, 256, 128]) {
        if scale > 1 {
            // Halves the channels, doubles the side, and joins what the backbone had there.
            net.conv(&format!("up{scale}"), width, 1, 1, Then::Normalise);
            net.side *= 2;
            net.channels = 3 * width;
        }
        net.detect(scale, width);
    }
    net.layers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes that the publication states, in MiB, and numbers of operations that are well
    /// known.
    #[test]
    fn sizes_and_operations_are_those_of_the_networks() {
        let networks = [
            (vgg19(224), 548.0, 39.3e9, 19),
            (resnet101(224), 170.0, 15.6e9, 105),
            (fcn_resnet101(224), 207.0, f64::NAN, 108),
            (yolov3(416), 236.0, 65.4e9, 75),
        ];
        for (layers, mib, flops, count) in networks {
            let bytes: u64 = layers.iter().map(|layer| layer.bytes).sum();
            let found = bytes as f64 / (1 << 20) as f64;
            assert!((found / mib - 1.0).abs() < 0.01, "{found} MiB, not {mib}");
            assert_eq!(layers.len(), count);
            let found: f64 = layers.iter().map(|layer| layer.flops).sum();
            assert!(flops.is_nan() || (found / flops - 1.0).abs() < 0.02, "{found}, not {flops}");
        }
        let fc1 = vgg19(224).into_iter().find(|layer| layer.name == "fc1").unwrap();
        assert_eq!(fc1.bytes >> 20, 392);
    }
}
