//! ResNet (He et al. 2015), the stride on the 3x3 convolution of a bottleneck as in torchvision.

use super::model::{Conv, Model, Value};
use super::parts::{IMAGE, POOL_3_PADDED, UNIT, classifier, conv_relu};

/// The shape of a ResNet.
#[derive(Clone, Copy)]
pub(super) struct Resnet {
    /// Blocks of each stage.
    stages: [usize; 4],
    /// SwapAdvisor's wide ResNet has all channels so many times as wide.
    wide: usize,
    /// Groups and base width of bottlenecks. More than one group make it a ResNeXt (Xie et al. 2016), a larger base
    /// a wide ResNet (Zagoruyko and Komodakis 2016).
    bottleneck: Option<(usize, usize)>,
    /// From this stage on, convolutions are dilated instead of having a stride.
    dilated_from: usize,
}

impl Resnet {
    pub(super) fn new(
        stages: [usize; 4],
        wide: usize,
        bottleneck: Option<(usize, usize)>,
    ) -> Resnet {
        Resnet { stages, wide, bottleneck, dilated_from: stages.len() }
    }

    pub(super) fn dilated_from(self, stage: usize) -> Resnet {
        Resnet { dilated_from: stage, ..self }
    }
}

/// The network that classifies images.
pub(super) fn build(name: &str, shape: Resnet) -> Model {
    let (mut model, x) = Model::new(name, IMAGE);
    let x = features(&mut model, "", &x, shape);
    classifier(model, "fc", &x)
}

/// The four stages; names of layers begin with `prefix`.
pub(super) fn features(model: &mut Model, prefix: &str, x: &Value, shape: Resnet) -> Value {
    let stem = Conv::new(64 * shape.wide, 7).stride(2);
    let (conv, relu) = (format!("{prefix}conv1"), format!("{prefix}relu"));
    let mut x = conv_relu(model, &conv, &relu, x, stem);
    x = model.max_pool(&format!("{prefix}maxpool"), &x, POOL_3_PADDED);
    let mut dilation = 1;
    for (stage, blocks) in shape.stages.into_iter().enumerate() {
        let width = (64 * shape.wide) << stage;
        for block in 0..blocks {
            let path = format!("{prefix}layer{}.{block}", stage + 1);
            let halves = block == 0 && stage > 0;
            let stride = if halves && stage < shape.dilated_from { 2 } else { 1 };
            let middle = Conv::new(width, 3).stride(stride).dilated(dilation);
            x = residual(model, &path, &x, middle, (shape.bottleneck, blocks));
            if halves && stage >= shape.dilated_from {
                dilation *= 2;
            }
        }
    }
    x
}

/// One of a stage's blocks, whose 3x3 convolution decides its width, stride and dilation.
fn residual(
    model: &mut Model,
    path: &str,
    x: &Value,
    conv: Conv,
    (bottleneck, blocks): (Option<(usize, usize)>, usize),
) -> Value {
    let at = |part: &str| format!("{path}.{part}");
    let width = conv.out_channels;
    let out_channels = if bottleneck.is_some() { 4 * width } else { width };
    let project = conv.stride > 1 || x.channels() != out_channels;
    // The sum of a projecting block starts anew at variance 1. The others add to what
    // there is, together as much again in a stage, so that depth cannot blow it up.
    let variance = if project { UNIT / 2.0 } else { UNIT / blocks as f32 };
    let y = if let Some((groups, base)) = bottleneck {
        let width = width * base / 64 * groups;
        let y = conv_relu(model, &at("conv1"), &at("relu1"), x, Conv::new(width, 1));
        let middle = Conv { out_channels: width, ..conv }.groups(groups);
        let y = conv_relu(model, &at("conv2"), &at("relu2"), &y, middle);
        model.conv(&at("conv3"), &y, Conv::new(out_channels, 1), variance)
    } else {
        let y = conv_relu(model, &at("conv1"), &at("relu1"), x, conv);
        model.conv(&at("conv2"), &y, Conv::new(out_channels, 3), variance)
    };
    let shortcut = match project {
        true => {
            let projection = Conv::new(out_channels, 1).stride(conv.stride);
            model.conv(&at("downsample.0"), x, projection, variance)
        }
        false => x.clone(),
    };
    let sum = model.add(&at("add"), &y, &shortcut);
    model.relu(&at("relu"), &sum)
}
