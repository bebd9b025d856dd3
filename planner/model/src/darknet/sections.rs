//! From sections to layers.

use super::config::Section;
use super::error::DarknetError;
use super::keys::Keys;
use super::layers::{Kind, Layer, Layers, Shape};
use super::{activations, windows};
use crate::graph::Op;

/// The most elements of an activation, and numbers of a layer.
const MOST_ELEMENTS: usize = 1 << 40;

/// Keys of `[net]` that matter in training alone.
const OF_TRAINING: &[&str] = &[
    "adam",
    "adversarial_lr",
    "angle",
    "aspect",
    "attention",
    "augment_speed",
    "B1",
    "B2",
    "batch",
    "blur",
    "burn_in",
    "contrastive",
    "contrastive_color",
    "contrastive_jit_flip",
    "cutmix",
    "decay",
    "ema_alpha",
    "eps",
    "exposure",
    "flip",
    "gamma",
    "gaussian_noise",
    "hue",
    "label_smooth_eps",
    "learning_rate",
    "learning_rate_min",
    "letter_box",
    "max_batches",
    "max_chart_loss",
    "max_crop",
    "min_crop",
    "mixup",
    "momentum",
    "mosaic",
    "mosaic_bound",
    "num_sigmas_reject_badlabels",
    "optimized_memory",
    "policy",
    "power",
    "resize_step",
    "saturation",
    "scale",
    "scales",
    "seq_scales",
    "sgdr_cycle",
    "sgdr_mult",
    "show_receptive_field",
    "step",
    "steps",
    "subdivisions",
    "time_steps",
    "track",
    "try_fix_nan",
    "unsupervised",
    "use_cuda_graph",
    "weights_reject_freq",
    "workspace_size_limit_MB",
];

/// The layers of all sections.
pub(super) fn layers(sections: &[Section]) -> Result<Layers, DarknetError> {
    let [net, rest @ ..] = sections else { return Err(DarknetError::Empty) };
    let (input, notes) = image(net)?;
    let mut layers = Layers { input, layers: Vec::with_capacity(rest.len()), notes };
    for section in rest {
        let keys = Keys::new(section);
        let reader = Reader { keys: &keys, layers: &layers };
        let layer = reader.layer(section)?;
        keys.finish()?;
        layers.layers.push(layer);
    }
    match layers.layers.is_empty() {
        true => Err(DarknetError::Empty),
        false => Ok(layers),
    }
}

/// The shape of the image, from the first section.
fn image(net: &Section) -> Result<(Shape, Vec<String>), DarknetError> {
    let keys = Keys::new(net);
    if !matches!(net.name.as_str(), "net" | "network") {
        return Err(keys.error("a Darknet .cfg begins with [net]"));
    }
    let inputs = keys.given("inputs", 1)?;
    let [channels, height, width] = ["channels", "height", "width"].map(|key| keys.given(key, 1));
    let shape = match (channels?, height?, width?, inputs) {
        (Some(channels), Some(height), Some(width), _) => [channels, height, width],
        (None, None, None, Some(inputs)) => [inputs, 1, 1],
        _ => return Err(keys.error("needs channels, height and width, or inputs")),
    };
    elements(&keys, shape)?;
    let note = keys.unread(OF_TRAINING).map(|entry| {
        format!("line {}: [net] {} is not read; inference needs no such key", entry.line, entry.key)
    });
    Ok((shape, note.into_iter().collect()))
}

/// The number of elements of a shape, within the limit.
fn elements<const N: usize>(keys: &Keys<'_>, shape: [usize; N]) -> Result<usize, DarknetError> {
    let count = shape.iter().try_fold(1usize, |count, &extent| count.checked_mul(extent));
    count
        .filter(|&count| count <= MOST_ELEMENTS)
        .ok_or_else(|| keys.error(format!("{shape:?} are more than 2^40 elements")))
}

/// A section that becomes a layer.
struct Reader<'a> {
    keys: &'a Keys<'a>,
    /// Those before it.
    layers: &'a Layers,
}

/// What a section comes to: kind, inputs, shape, numbers.
type Made = (Kind, Vec<usize>, Shape, usize);

impl Reader<'_> {
    fn layer(&self, section: &Section) -> Result<Layer, DarknetError> {
        let made = match section.name.as_str() {
            "convolutional" | "conv" => self.convolution()?,
            "connected" | "conn" => self.connected()?,
            "shortcut" => self.shortcut()?,
            "route" => self.route()?,
            "maxpool" | "max" => self.max_pool()?,
            "upsample" => self.upsample()?,
            "avgpool" | "avg" => {
                let [channels, ..] = self.before();
                (Kind::Average, self.last(), [channels, 1, 1], 0)
            }
            "softmax" | "soft" => self.softmax()?,
            "reorg" => self.reorg()?,
            "activation" => {
                (Kind::Activation(self.activation("linear")?), self.last(), self.before(), 0)
            }
            "scale_channels" | "sam" => self.product(section.name == "sam")?,
            "dropout" | "cost" => {
                self.ignore(&[
                    "type",
                    "scale",
                    "ratio",
                    "dropblock_size_rel",
                    "dropblock_size_abs",
                ]);
                (Kind::Same, self.last(), self.before(), 0)
            }
            "yolo" | "region" => self.head(section.name == "yolo")?,
            "net" | "network" => {
                return Err(self.keys.error("only the first section may be this one"));
            }
            _ => {
                return Err(self.keys.error(
                    "not supported; supported are convolutional, connected, shortcut, route, maxpool, upsample, \
                     avgpool, softmax, reorg, activation, scale_channels, sam, dropout, cost, yolo and region",
                ));
            }
        };
        let (kind, inputs, shape, numbers) = made;
        elements(self.keys, shape)?;
        let name = format!("{}_{}", section.name, self.layers.layers.len());
        Ok(Layer { line: section.line, name, kind, inputs, shape, numbers })
    }

    /// What comes before it, as its input.
    fn last(&self) -> Vec<usize> {
        vec![self.layers.layers.len()]
    }

    /// The shape of what comes before it.
    fn before(&self) -> Shape {
        self.layers.shape(self.layers.layers.len())
    }

    fn ignore(&self, keys: &[&'static str]) {
        keys.iter().for_each(|&key| _ = self.keys.text(key));
    }

    fn activation(&self, default: &str) -> Result<Option<Op>, DarknetError> {
        activations::of(self.keys.text("activation").unwrap_or(default)).ok_or_else(|| {
            let known = activations::NAMES.join(", ");
            self.keys.wrong("activation", format!("not supported; supported are {known}"))
        })
    }

    /// Layers by their numbers; negative ones count backwards from this one.
    fn inputs(&self, key: &'static str) -> Result<Vec<usize>, DarknetError> {
        let count = self.layers.layers.len();
        let given = self.keys.numbers(key)?;
        if given.is_empty() {
            return Err(self.keys.wrong(key, "is missing; it names layers"));
        }
        let input = |given: i64| {
            let layer = if given < 0 { given + count as i64 } else { given };
            let layer = usize::try_from(layer).ok().filter(|&layer| layer < count);
            let layer = layer.ok_or_else(|| {
                self.keys
                    .wrong(key, format!("there is no layer {given}; {count} come before this one"))
            })?;
            match self.layers.layers[layer].kind {
                Kind::Head => Err(self
                    .keys
                    .wrong(key, format!("layer {layer} is a head, and is not decoded here"))),
                _ => Ok(layer + 1),
            }
        };
        given.into_iter().map(input).collect()
    }

    fn convolution(&self) -> Result<Made, DarknetError> {
        let [channels, height, width] = self.before();
        let filters = self.keys.number("filters", 1, 1)?;
        let groups = self.keys.number("groups", 1, 1)?;
        let norm = self.keys.flag("batch_normalize")?;
        let activation = self.activation("logistic")?;
        if channels % groups != 0 || filters % groups != 0 {
            let reason = format!("does not divide {channels} channels and {filters} filters");
            return Err(self.keys.wrong("groups", reason));
        }
        let (window, [height, width]) = windows::convolution(self.keys, [height, width])?;
        let [rows, cols] = window.kernel;
        let weights = elements(self.keys, [filters, channels / groups, rows, cols])?;
        let numbers = weights + filters * if norm { 4 } else { 1 };
        let kind = Kind::Convolution { window, groups, norm, activation };
        Ok((kind, self.last(), [filters, height, width], numbers))
    }

    fn connected(&self) -> Result<Made, DarknetError> {
        let outputs = self.keys.number("output", 1, 1)?;
        let norm = self.keys.flag("batch_normalize")?;
        let activation = self.activation("logistic")?;
        let inputs = elements(self.keys, self.before())?;
        let numbers = elements(self.keys, [outputs, inputs])? + outputs * if norm { 4 } else { 1 };
        Ok((Kind::Connected { norm, activation }, self.last(), [outputs, 1, 1], numbers))
    }

    fn shortcut(&self) -> Result<Made, DarknetError> {
        let activation = self.activation("linear")?;
        if self.keys.text("weights_type").is_some_and(|kind| kind != "none") {
            return Err(self.keys.wrong("weights_type", "not supported; only none is"));
        }
        self.ignore(&["weights_normalization"]);
        let shape = self.before();
        let others = self.inputs("from")?;
        for &other in &others {
            let [_, height, width] = self.layers.shape(other);
            if height < shape[1] || width < shape[2] || height / shape[1] != width / shape[2] {
                let reason = format!(
                    "layer {} has {height}x{width} places, and this one {}x{}; supported are as many, or a multiple",
                    other - 1,
                    shape[1],
                    shape[2]
                );
                return Err(self.keys.wrong("from", reason));
            }
        }
        Ok((Kind::Shortcut { activation }, [self.last(), others].concat(), shape, 0))
    }

    fn route(&self) -> Result<Made, DarknetError> {
        let inputs = self.inputs("layers")?;
        let groups = self.keys.number("groups", 1, 1)?;
        let group = self.keys.number("group_id", 0, 0)?;
        if group >= groups {
            return Err(self.keys.wrong("group_id", format!("there are {groups} groups, from 0")));
        }
        let [_, height, width] = self.layers.shape(inputs[0]);
        let mut all = 0;
        for &input in &inputs {
            let shape = self.layers.shape(input);
            if shape[1..] != [height, width] {
                let reason = format!(
                    "layer {} has {}x{} places, and the first one {height}x{width}",
                    input - 1,
                    shape[1],
                    shape[2]
                );
                return Err(self.keys.wrong("layers", reason));
            }
            if !shape[0].is_multiple_of(groups) {
                let reason =
                    format!("does not divide {} channels of layer {}", shape[0], input - 1);
                return Err(self.keys.wrong("groups", reason));
            }
            all += shape[0] / groups;
        }
        Ok((Kind::Route { groups, group }, inputs, [all, height, width], 0))
    }

    fn max_pool(&self) -> Result<Made, DarknetError> {
        let [channels, height, width] = self.before();
        let (window, [height, width]) = windows::pool(self.keys, [height, width])?;
        Ok((Kind::MaxPool(window), self.last(), [channels, height, width], 0))
    }

    fn upsample(&self) -> Result<Made, DarknetError> {
        let stride = self.keys.number("stride", 2, 1)?;
        if !matches!(self.keys.text("scale").unwrap_or("1").parse::<f64>(), Ok(1.0)) {
            return Err(self.keys.wrong("scale", "not supported; only 1 is"));
        }
        let [channels, height, width] = self.before();
        let shape = [channels, height.saturating_mul(stride), width.saturating_mul(stride)];
        Ok((Kind::Upsample(stride), self.last(), shape, 0))
    }

    fn softmax(&self) -> Result<Made, DarknetError> {
        let groups = self.keys.number("groups", 1, 1)?;
        if !matches!(self.keys.text("temperature").unwrap_or("1").parse::<f64>(), Ok(1.0)) {
            return Err(self.keys.wrong("temperature", "not supported; only 1 is"));
        }
        let count = elements(self.keys, self.before())?;
        if count % groups != 0 {
            return Err(self.keys.wrong("groups", format!("does not divide {count} inputs")));
        }
        Ok((Kind::Softmax { groups }, self.last(), [count, 1, 1], 0))
    }

    fn reorg(&self) -> Result<Made, DarknetError> {
        let stride = self.keys.number("stride", 1, 1)?;
        let reverse = self.keys.flag("reverse")?;
        let [channels, height, width] = self.before();
        let square = elements(self.keys, [stride, stride])?;
        let fits =
            channels % square == 0 && (reverse || (height % stride, width % stride) == (0, 0));
        if !fits {
            let reason =
                format!("does not divide {channels}x{height}x{width} (its square the channels)");
            return Err(self.keys.wrong("stride", reason));
        }
        let shape = match reverse {
            true => {
                [channels / square, height.saturating_mul(stride), width.saturating_mul(stride)]
            }
            false => [channels.saturating_mul(square), height / stride, width / stride],
        };
        Ok((Kind::Reorg { stride, reverse }, self.last(), shape, 0))
    }

    /// A layer from before times what comes before: channel by channel, or element by element.
    fn product(&self, each: bool) -> Result<Made, DarknetError> {
        let activation = self.activation("linear")?;
        let inputs = self.inputs("from")?;
        let [from] = inputs[..] else {
            return Err(self.keys.wrong("from", "expected one layer"));
        };
        let (factor, shape) = (self.before(), self.layers.shape(from));
        let expected = if each { shape } else { [shape[0], 1, 1] };
        if factor != expected {
            let reason =
                format!("needs factors of the shape {expected:?}, and there are {factor:?}");
            return Err(self.keys.wrong("from", reason));
        }
        Ok((Kind::Product { activation }, vec![self.last()[0], from], shape, 0))
    }

    /// What detections are decoded from; its keys say how.
    fn head(&self, masked: bool) -> Result<Made, DarknetError> {
        let classes = self.keys.number("classes", 20, 0)?;
        let all = self.keys.number("num", 1, 0)?;
        let coordinates = if masked { 4 } else { self.keys.number("coords", 4, 0)? };
        let chosen = self.keys.numbers("mask")?.len();
        let boxes = if masked && chosen > 0 { chosen } else { all };
        let needs = boxes.saturating_mul(classes.saturating_add(coordinates + 1));
        let shape = self.before();
        if shape[0] != needs {
            let reason = format!(
                "{boxes} boxes of {classes} classes need {needs} channels, and there are {}",
                shape[0]
            );
            return Err(self.keys.wrong("classes", reason));
        }
        self.ignore(HEAD);
        Ok((Kind::Head, self.last(), shape, 0))
    }
}

/// Keys of a head that matter in training, or when its output is decoded.
const HEAD: &[&str] = &[
    "absolute",
    "anchors",
    "background",
    "beta_nms",
    "beta1",
    "bias_match",
    "class_scale",
    "cls_normalizer",
    "coord_scale",
    "counters_per_class",
    "delta_normalizer",
    "detection",
    "embedding_layer",
    "focal_loss",
    "ignore_thresh",
    "iou_loss",
    "iou_normalizer",
    "iou_thresh",
    "iou_thresh_kind",
    "jitter",
    "label_smooth_eps",
    "log",
    "map",
    "max",
    "max_delta",
    "new_coords",
    "nms_kind",
    "nms_threshold",
    "noobject_scale",
    "obj_normalizer",
    "object_scale",
    "objectness_smooth",
    "random",
    "rescore",
    "resize",
    "scale_x_y",
    "show_details",
    "softmax",
    "sqrt",
    "thresh",
    "tree_file",
    "truth_thresh",
    "uc_normalizer",
    "words",
];
