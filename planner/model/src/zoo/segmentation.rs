//! Networks that label every pixel of an image.

use super::model::{Conv, Model, Value, float, integers, text};
use super::parts::{POOL_2, UNIT, conv_relu};
use super::resnet::{self, Resnet};

/// FCN (Long et al. 2014) as torchvision has it: a ResNet-50 whose last two stages are dilated, a head, and the labels'
/// scores enlarged to the image. The auxiliary head has no part in inference.
pub(super) fn fcn_resnet50(name: &str) -> Model {
    const SIDE: usize = 520;
    const CLASSES: usize = 21;
    let (mut model, x) = Model::new(name, [3, SIDE, SIDE]);
    let shape = Resnet::new([3, 4, 6, 3], 1, Some((1, 64))).dilated_from(2);
    let x = resnet::features(&mut model, "backbone.", &x, shape);
    let x = conv_relu(&mut model, "classifier.0", "classifier.2", &x, Conv::new(512, 3));
    let x = model.conv("classifier.4", &x, Conv::new(CLASSES, 1), UNIT);
    let shape = vec![CLASSES, SIDE, SIDE];
    let x = resized(&mut model, "resize", &x, shape);
    model.finish(x)
}

/// U-Net (Ronneberger et al. 2015), of the paper's sizes: convolutions without padding take a border of 92 pixels off an
/// image of 572, and what goes across is cropped.
pub(super) fn unet(name: &str) -> Model {
    const WIDTH: usize = 64;
    const DEPTH: usize = 4;
    const CLASSES: usize = 2;
    let (mut model, mut x) = Model::new(name, [1, 572, 572]);
    let mut across = vec![];
    for level in 0..=DEPTH {
        x = twice(&mut model, &format!("down{level}"), &x, WIDTH << level);
        if level < DEPTH {
            across.push(x.clone());
            x = model.max_pool(&format!("down{level}.pool"), &x, POOL_2);
        }
    }
    for (level, side) in across.iter().enumerate().rev() {
        let path = format!("up{level}");
        x = model.conv_transpose(&format!("{path}.up"), &x, WIDTH << level, UNIT);
        let side = cropped(&mut model, &format!("{path}.crop"), side, &x.shape);
        x = model.concat(&format!("{path}.cat"), &[&side, &x]);
        x = twice(&mut model, &path, &x, WIDTH << level);
    }
    let x = model.conv("last", &x, Conv::new(CLASSES, 1), UNIT);
    model.finish(x)
}

fn twice(model: &mut Model, path: &str, x: &Value, channels: usize) -> Value {
    let mut x = x.clone();
    for at in 1..=2 {
        let (conv, relu) = (format!("{path}.conv{at}"), format!("{path}.relu{at}"));
        x = conv_relu(model, &conv, &relu, &x, Conv::new(channels, 3).pad(0));
    }
    x
}

/// The middle of an image, as high and wide as another.
fn cropped(model: &mut Model, name: &str, x: &Value, like: &[usize]) -> Value {
    let starts = [1, 2].map(|axis| (x.shape[axis] - like[axis]) / 2);
    let ends = [0, 1].map(|at| starts[at] + like[at + 1]);
    let mut inputs = vec![x.name.clone()];
    for (part, values) in [("starts", starts), ("ends", ends), ("axes", [2, 3])] {
        let constant = format!("{name}.{part}");
        let values = values.map(|value| value as i64);
        model.node("Constant", &constant, vec![], vec![integers("value", &[2], &values)]);
        inputs.push(constant);
    }
    model.node("Slice", name, inputs, vec![]);
    let shape = vec![x.shape[0], like[1], like[2]];
    Value { name: name.into(), shape, ..x.clone() }
}

/// An image enlarged to a shape, linearly.
fn resized(model: &mut Model, name: &str, x: &Value, shape: Vec<usize>) -> Value {
    let sizes = format!("{name}.sizes");
    let extents: Vec<i64> = [1].into_iter().chain(shape.iter().map(|&n| n as i64)).collect();
    model.node("Constant", &sizes, vec![], vec![integers("value", &[4], &extents)]);
    let inputs = vec![x.name.clone(), String::new(), String::new(), sizes];
    let attributes = vec![
        text("coordinate_transformation_mode", "pytorch_half_pixel"),
        float("cubic_coeff_a", -0.75),
        text("mode", "linear"),
        text("nearest_mode", "floor"),
    ];
    model.node("Resize", name, inputs, attributes);
    Value { name: name.into(), shape, ..x.clone() }
}
