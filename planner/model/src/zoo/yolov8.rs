//! A detector with the layers of YOLOv8n (Ultralytics 2023): 640x640 images, 80 classes. Its output
//! is what the heads compute at each of 8400 places, before boxes are decoded: 4 sides in 16 bins,
//! and the classes.

use super::model::{Conv, Model, Pool, Value, int, integers, text};
use super::parts::UNIT;

const SIDE: usize = 640;
const BINS: usize = 4 * 16;
const CLASSES: usize = 80;
/// Mean and variance of x · sigmoid(x) for a standard Gaussian x.
const SILU: (f32, f32) = (0.207, 0.313);

pub(super) fn nano(name: &str) -> Model {
    let (mut model, x) = Model::new(name, [3, SIDE, SIDE]);
    let net = &mut model;
    let x = conv(net, "0", &x, Conv::new(16, 3).stride(2));
    let x = conv(net, "1", &x, Conv::new(32, 3).stride(2));
    let x = stage(net, "2", &x, (32, 1), true);
    let x = conv(net, "3", &x, Conv::new(64, 3).stride(2));
    let p3 = stage(net, "4", &x, (64, 2), true);
    let x = conv(net, "5", &p3, Conv::new(128, 3).stride(2));
    let p4 = stage(net, "6", &x, (128, 2), true);
    let x = conv(net, "7", &p4, Conv::new(256, 3).stride(2));
    let x = stage(net, "8", &x, (256, 1), true);
    let p5 = pyramid(net, "9", &x);
    // Up the scales and down again.
    let up = enlarged(net, "10", &p5);
    let x = net.concat("11", &[&up, &p4]);
    let middle = stage(net, "12", &x, (128, 1), false);
    let up = enlarged(net, "13", &middle);
    let x = net.concat("14", &[&up, &p3]);
    let fine = stage(net, "15", &x, (64, 1), false);
    let down = conv(net, "16", &fine, Conv::new(64, 3).stride(2));
    let x = net.concat("17", &[&down, &middle]);
    let middle = stage(net, "18", &x, (128, 1), false);
    let down = conv(net, "19", &middle, Conv::new(128, 3).stride(2));
    let x = net.concat("20", &[&down, &p5]);
    let coarse = stage(net, "21", &x, (256, 1), false);
    let scales = [fine, middle, coarse];
    let heads: Vec<Value> = scales.iter().enumerate().map(|(at, x)| head(net, at, x)).collect();
    let names = heads.iter().map(|head| head.name.clone()).collect();
    net.node("Concat", "22.cat", names, vec![int("axis", 2)]);
    let places = heads.iter().map(|head| head.shape[1]).sum();
    let shape = vec![BINS + CLASSES, places];
    model.finish(Value { name: "22.cat".into(), shape, mean: 0.0, variance: UNIT })
}

/// A convolution and its SiLU.
fn conv(net: &mut Model, path: &str, x: &Value, conv: Conv) -> Value {
    let y = net.conv(&format!("{path}.conv"), x, conv, UNIT);
    let gate = format!("{path}.act.gate");
    net.node("Sigmoid", &gate, vec![y.name.clone()], vec![]);
    let name = format!("{path}.act");
    net.node("Mul", &name, vec![y.name, gate], vec![]);
    Value { name, shape: y.shape, mean: SILU.0, variance: SILU.1 }
}

/// Half of the channels go through blocks one after the other; all that is on the way is joined.
fn stage(net: &mut Model, path: &str, x: &Value, size: (usize, usize), residual: bool) -> Value {
    let (channels, blocks) = size;
    let half = channels / 2;
    let y = conv(net, &format!("{path}.cv1"), x, Conv::new(channels, 1));
    let names = [0, 1].map(|at| format!("{path}.half{at}"));
    net.split(&format!("{path}.split"), &[&y.name], &[&names[0], &names[1]], 1);
    let shape = vec![half, y.shape[1], y.shape[2]];
    let mut parts = names.map(|name| Value { name, shape: shape.clone(), ..y.clone() }).to_vec();
    for block in 0..blocks {
        let at = format!("{path}.m.{block}");
        let before = parts[parts.len() - 1].clone();
        let y = conv(net, &format!("{at}.cv1"), &before, Conv::new(half, 3));
        let y = conv(net, &format!("{at}.cv2"), &y, Conv::new(half, 3));
        parts.push(if residual { net.add(&format!("{at}.add"), &before, &y) } else { y });
    }
    let all = net.concat(&format!("{path}.cat"), &parts.iter().collect::<Vec<_>>());
    conv(net, &format!("{path}.cv2"), &all, Conv::new(channels, 1))
}

/// Pools over pools, all joined.
fn pyramid(net: &mut Model, path: &str, x: &Value) -> Value {
    let channels = x.channels();
    let mut parts = vec![conv(net, &format!("{path}.cv1"), x, Conv::new(channels / 2, 1))];
    let pool = Pool { kernel: 5, stride: 1, pad: 2, ceil: false };
    for at in 0..3 {
        let pooled = net.max_pool(&format!("{path}.m.{at}"), &parts[at], pool);
        parts.push(pooled);
    }
    let all = net.concat(&format!("{path}.cat"), &parts.iter().collect::<Vec<_>>());
    conv(net, &format!("{path}.cv2"), &all, Conv::new(channels, 1))
}

/// Twice the side, each element repeated.
fn enlarged(net: &mut Model, path: &str, x: &Value) -> Value {
    let shape = vec![x.shape[0], 2 * x.shape[1], 2 * x.shape[2]];
    let sizes = format!("{path}.sizes");
    let extents: Vec<i64> = [1].into_iter().chain(shape.iter().map(|&n| n as i64)).collect();
    net.node("Constant", &sizes, vec![], vec![integers("value", &[4], &extents)]);
    let inputs = vec![x.name.clone(), String::new(), String::new(), sizes];
    let texts = [
        ("mode", "nearest"),
        ("coordinate_transformation_mode", "asymmetric"),
        ("nearest_mode", "floor"),
    ];
    net.node("Resize", path, inputs, texts.map(|(name, value)| text(name, value)).to_vec());
    Value { name: path.into(), shape, ..x.clone() }
}

/// Boxes and classes of one scale, place after place.
fn head(net: &mut Model, scale: usize, x: &Value) -> Value {
    let mut parts = vec![];
    for (part, wide, outputs) in [("cv2", 64, BINS), ("cv3", 80, CLASSES)] {
        let path = format!("22.{part}.{scale}");
        let y = conv(net, &format!("{path}.0"), x, Conv::new(wide, 3));
        let y = conv(net, &format!("{path}.1"), &y, Conv::new(wide, 3));
        parts.push(net.conv(&format!("{path}.2"), &y, Conv::new(outputs, 1), UNIT));
    }
    let both = net.concat(&format!("22.cat.{scale}"), &[&parts[0], &parts[1]]);
    let (channels, places) = (both.shape[0], both.shape[1] * both.shape[2]);
    let shape = format!("22.shape.{scale}");
    let extents = [1, channels as i64, places as i64];
    net.node("Constant", &shape, vec![], vec![integers("value", &[3], &extents)]);
    let name = format!("22.view.{scale}");
    net.node("Reshape", &name, vec![both.name.clone(), shape], vec![]);
    Value { name, shape: vec![channels, places], ..both }
}
