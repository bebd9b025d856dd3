//! The networks, layer by layer; layers have the names of torchvision's modules.

use super::model::{Conv, Model, Pool, Value};
use super::parts::{CLASSES, IMAGE, POOL_2, POOL_3_PADDED, UNIT, classifier, conv_relu};
use super::resnet::{self, Resnet};
use super::{
    darknet, inception, inception_v4, nasnet, recurrent, segmentation, transformers, yolov8,
};

/// Variance of what enters a ReLU6: two standard deviations fit below 6, so that the cap has work.
const BELOW_SIX: f32 = 9.0;

const POOL_3_CEIL: Pool = Pool { kernel: 3, stride: 2, pad: 0, ceil: true };

/// The network of that name, if the zoo has it.
pub fn build(name: &str) -> Option<Model> {
    let model = match name {
        "squeezenet1_1" => squeezenet(name),
        "mobilenet_v2" => mobilenet_v2(name),
        "resnet18" => resnet::build(name, Resnet::new([2, 2, 2, 2], 1, None)),
        "resnet50" => resnet::build(name, Resnet::new([3, 4, 6, 3], 1, Some((1, 64)))),
        "resnet101" => resnet::build(name, Resnet::new([3, 4, 23, 3], 1, Some((1, 64)))),
        "resnet152" => resnet::build(name, Resnet::new([3, 8, 36, 3], 1, Some((1, 64)))),
        "resnext50_32x4d" => resnet::build(name, Resnet::new([3, 4, 6, 3], 1, Some((32, 4)))),
        "resnext101_32x8d" => resnet::build(name, Resnet::new([3, 4, 23, 3], 1, Some((32, 8)))),
        "wide_resnet50_2" => resnet::build(name, Resnet::new([3, 4, 6, 3], 1, Some((1, 128)))),
        "wide_resnet152" => resnet::build(name, Resnet::new([3, 8, 36, 3], 2, Some((1, 64)))),
        "densenet121" => densenet(name, [6, 12, 24, 16]),
        "densenet201" => densenet(name, [6, 12, 48, 32]),
        "inception_v3" => inception::v3(name),
        "inception_v4" => inception_v4::build(name),
        "nasnet_a" => nasnet::build(name),
        "vit_b_16" => transformers::vit_b_16(name, 224),
        "vit_b_16_384" => transformers::vit_b_16(name, 384),
        "ds_cnn" => ds_cnn(name),
        "yolov8n" => yolov8::nano(name),
        "gpt2" => transformers::gpt2(name),
        "vgg19" => vgg(name, [2, 2, 4, 4, 4]),
        "fcn_resnet50" => segmentation::fcn_resnet50(name),
        "unet" => segmentation::unet(name),
        "rnn" => recurrent::build(name, 8, 1),
        "brnn" => recurrent::build(name, 4, 2),
        "yolov3" => darknet::yolov3(name),
        "yolov4" => darknet::yolov4(name),
        "yolov4_p6" => darknet::yolov4_p6(name),
        _ => return None,
    };
    Some(model)
}

/// SqueezeNet 1.1 (Iandola et al. 2016 and its revision).
fn squeezenet(name: &str) -> Model {
    let (mut model, x) = Model::new(name, IMAGE);
    let stem = Conv::new(64, 3).stride(2).pad(0);
    let mut x = conv_relu(&mut model, "features.0", "features.1", &x, stem);
    x = model.max_pool("features.2", &x, POOL_3_CEIL);
    // Index in the sequence, squeezed and expanded channels; pools stand at 5 and 8.
    let fires = [
        (3, 16, 64),
        (4, 16, 64),
        (6, 32, 128),
        (7, 32, 128),
        (9, 48, 192),
        (10, 48, 192),
        (11, 64, 256),
        (12, 64, 256),
    ];
    for (index, squeeze, expand) in fires {
        if let 6 | 9 = index {
            x = model.max_pool(&format!("features.{}", index - 1), &x, POOL_3_CEIL);
        }
        let path = format!("features.{index}");
        let mut part = |part: &str, x: &Value, conv| {
            let relu = format!("{path}.{part}_activation");
            conv_relu(&mut model, &format!("{path}.{part}"), &relu, x, conv)
        };
        let squeezed = part("squeeze", &x, Conv::new(squeeze, 1));
        let one = part("expand1x1", &squeezed, Conv::new(expand, 1));
        let three = part("expand3x3", &squeezed, Conv::new(expand, 3));
        x = model.concat(&path, &[&one, &three]);
    }
    x = conv_relu(&mut model, "classifier.1", "classifier.2", &x, Conv::new(CLASSES, 1));
    x = model.global_average_pool("classifier.3", &x);
    x = model.flatten("flatten", &x);
    model.finish(x)
}

/// MobileNetV2 (Sandler et al. 2018), width 1.
fn mobilenet_v2(name: &str) -> Model {
    fn conv_relu6(model: &mut Model, layer: &str, x: &Value, conv: Conv) -> Value {
        let y = model.conv(&format!("{layer}.0"), x, conv, BELOW_SIX);
        model.relu6(&format!("{layer}.2"), &y)
    }
    let (mut model, x) = Model::new(name, IMAGE);
    let mut x = conv_relu6(&mut model, "features.0", &x, Conv::new(32, 3).stride(2));
    // Expansion, output channels, blocks, stride of the first.
    let stages = [
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ];
    let mut index = 0;
    for (expansion, out_channels, blocks, first_stride) in stages {
        for block in 0..blocks {
            index += 1;
            let path = format!("features.{index}");
            let mut part = (0..).map(|part| format!("{path}.conv.{part}"));
            let mut next = || part.next().unwrap_or_default();
            let hidden = x.channels() * expansion;
            let mut y = x.clone();
            if expansion > 1 {
                y = conv_relu6(&mut model, &next(), &y, Conv::new(hidden, 1));
            }
            let stride = if block == 0 { first_stride } else { 1 };
            let depthwise = Conv::new(hidden, 3).stride(stride).groups(hidden);
            y = conv_relu6(&mut model, &next(), &y, depthwise);
            let variance = if block == 0 { UNIT } else { UNIT / 2.0 };
            y = model.conv(&next(), &y, Conv::new(out_channels, 1), variance);
            x = if block == 0 { y } else { model.add(&path, &x, &y) };
        }
    }
    x = conv_relu6(&mut model, "features.18", &x, Conv::new(1280, 1));
    classifier(model, "classifier.1", &x)
}

/// DenseNet (Huang et al. 2016) with a growth of 32 channels.
fn densenet(name: &str, blocks: [usize; 4]) -> Model {
    const GROWTH: usize = 32;
    let (mut model, x) = Model::new(name, IMAGE);
    let stem = Conv::new(64, 7).stride(2);
    let mut x = conv_relu(&mut model, "features.conv0", "features.relu0", &x, stem);
    x = model.max_pool("features.pool0", &x, POOL_3_PADDED);
    for (block, layers) in blocks.into_iter().enumerate() {
        let path = format!("features.denseblock{}", block + 1);
        let mut features = vec![x];
        for layer in 1..=layers {
            let at = |part: &str| format!("{path}.denselayer{layer}.{part}");
            let parts: Vec<&Value> = features.iter().collect();
            // the first layer's concatenation of one is none
            let y = match parts[..] {
                [one] => one.clone(),
                _ => model.concat(&at("cat"), &parts),
            };
            let y = model.batch_norm(&at("norm1"), &y);
            let y = model.relu(&at("relu1"), &y);
            let wide = Conv::new(4 * GROWTH, 1);
            let y = conv_relu(&mut model, &at("conv1"), &at("relu2"), &y, wide);
            features.push(model.conv(&at("conv2"), &y, Conv::new(GROWTH, 3).no_bias(), UNIT));
        }
        let parts: Vec<&Value> = features.iter().collect();
        x = model.concat(&path, &parts);
        let last = block + 1 == blocks.len();
        let path = format!("features.transition{}", block + 1);
        let norm = if last { "features.norm5".to_string() } else { format!("{path}.norm") };
        x = model.batch_norm(&norm, &x);
        x = model.relu(&format!("{path}.relu"), &x);
        if !last {
            let half = Conv::new(x.channels() / 2, 1).no_bias();
            x = model.conv(&format!("{path}.conv"), &x, half, UNIT);
            x = model.average_pool(&format!("{path}.pool"), &x, POOL_2);
        }
    }
    classifier(model, "classifier", &x)
}

/// VGG (Simonyan and Zisserman 2014) without batch norms; its adaptive pooling to 7x7 is the
/// identity at this size and left out.
fn vgg(name: &str, stages: [usize; 5]) -> Model {
    let (mut model, mut x) = Model::new(name, IMAGE);
    let mut index = 0;
    for (stage, convolutions) in stages.into_iter().enumerate() {
        for _ in 0..convolutions {
            let [conv, relu] = [index, index + 1].map(|index| format!("features.{index}"));
            x = conv_relu(&mut model, &conv, &relu, &x, Conv::new(512.min(64 << stage), 3));
            index += 2;
        }
        x = model.max_pool(&format!("features.{index}"), &x, POOL_2);
        index += 1;
    }
    x = model.flatten("flatten", &x);
    for (layer, relu) in [("classifier.0", "classifier.1"), ("classifier.3", "classifier.4")] {
        x = model.gemm(layer, &x, 4096, UNIT);
        x = model.relu(relu, &x);
    }
    x = model.gemm("classifier.6", &x, CLASSES, UNIT);
    model.finish(x)
}

/// DS-CNN (Zhang et al. 2017), the small one: finds keywords in the features of a second of speech.
fn ds_cnn(name: &str) -> Model {
    const KEYWORDS: usize = 12;
    // Features are 49 windows of 10 coefficients.
    let (mut model, x) = Model::new(name, [1, 49, 10]);
    let stem = Conv { pad: [5, 1], ..Conv::of(64, [10, 4]).stride(2) };
    let mut x = conv_relu(&mut model, "conv_1", "relu_1", &x, stem);
    for block in 1..=4 {
        let at = |part: &str| format!("conv_ds_{block}.{part}");
        let depthwise = Conv::new(64, 3).groups(64);
        x = conv_relu(&mut model, &at("dw_conv"), &at("dw_relu"), &x, depthwise);
        x = conv_relu(&mut model, &at("pw_conv"), &at("pw_relu"), &x, Conv::new(64, 1));
    }
    let x = model.global_average_pool("avgpool", &x);
    let x = model.flatten("flatten", &x);
    let x = model.gemm("fc", &x, KEYWORDS, UNIT);
    model.finish(x)
}
