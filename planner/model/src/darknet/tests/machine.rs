//! Darknet's layers in double precision, after its loops, and the text and weights that describe
//! them. It knows nothing of the importer.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use std::fmt::Write;

/// A section.
#[derive(Clone, Debug)]
pub enum Part {
    Convolution {
        filters: usize,
        size: usize,
        stride: [usize; 2],
        /// `pad=1`, or so much.
        padding: Option<usize>,
        dilation: usize,
        groups: usize,
        norm: bool,
        activation: &'static str,
    },
    Connected {
        output: usize,
        norm: bool,
        activation: &'static str,
    },
    Shortcut {
        from: Vec<i64>,
        activation: &'static str,
    },
    Route {
        layers: Vec<i64>,
        groups: usize,
        group: usize,
    },
    Max {
        size: usize,
        stride: usize,
        padding: Option<usize>,
    },
    Upsample(usize),
    Average,
    Softmax(usize),
    Reorg {
        stride: usize,
        reverse: bool,
    },
    Activation(&'static str),
    Scale(i64),
    Sam(i64),
    Dropout,
    Yolo {
        boxes: usize,
        classes: usize,
    },
}

/// Channels, height, width, and the elements.
#[derive(Clone, Debug)]
pub struct Map {
    pub shape: [usize; 3],
    pub data: Vec<f64>,
}

impl Map {
    fn at(&self, c: usize, y: usize, x: usize) -> f64 {
        self.data[(c * self.shape[1] + y) * self.shape[2] + x]
    }

    /// Zero outside.
    fn padded(&self, c: usize, y: i64, x: i64) -> f64 {
        let inside = |at: i64, axis: usize| at >= 0 && at < self.shape[axis] as i64;
        match inside(y, 1) && inside(x, 2) {
            true => self.at(c, y as usize, x as usize),
            false => 0.0,
        }
    }

    fn each(shape: [usize; 3], element: impl Fn(usize, usize, usize) -> f64) -> Self {
        let mut data = Vec::new();
        for c in 0..shape[0] {
            for y in 0..shape[1] {
                data.extend((0..shape[2]).map(|x| element(c, y, x)));
            }
        }
        Self { shape, data }
    }
}

/// A network that is built and computed section by section.
pub struct Machine {
    pub text: String,
    /// Little-endian, without the header.
    pub weights: Vec<u8>,
    pub outputs: Vec<Map>,
    pub image: Map,
    /// Connected layers have a row an input.
    pub transposed: bool,
    /// Layers that are heads.
    pub heads: Vec<usize>,
}

impl Machine {
    pub fn new(shape: [usize; 3], transposed: bool, random: &mut ChaCha8Rng) -> Self {
        let [channels, height, width] = shape;
        let text =
            format!("[net]\nbatch=64\nchannels={channels}\nheight={height}\nwidth = {width}\n");
        let image = Map::each(shape, |_, _, _| 0.0);
        let data = image.data.iter().map(|_| random.random_range(-1.0..1.0)).collect();
        let image = Map { shape, data };
        Self { text, weights: vec![], outputs: vec![], image, transposed, heads: vec![] }
    }

    pub fn last(&self) -> &Map {
        self.outputs.last().unwrap_or(&self.image)
    }

    fn layer(&self, given: i64) -> &Map {
        let count = self.outputs.len() as i64;
        &self.outputs[(if given < 0 { count + given } else { given }) as usize]
    }

    /// Draws numbers of the file, of at least `least`.
    fn draw(&mut self, count: usize, least: f32, random: &mut ChaCha8Rng) -> Vec<f64> {
        let drawn = (0..count).map(|_| random.random_range(least..least.abs() + 1.0));
        let drawn: Vec<f32> = drawn.collect();
        self.weights.extend(drawn.iter().flat_map(|number| number.to_le_bytes()));
        drawn.into_iter().map(f64::from).collect()
    }

    pub fn push(&mut self, part: &Part, random: &mut ChaCha8Rng) {
        let text = text(part);
        self.text += &text;
        let x = self.last().clone();
        let [channels, height, width] = x.shape;
        let made = match part {
            Part::Convolution { .. } => self.convolution(part, &x, random),
            Part::Connected { output, norm, activation } => {
                let inputs = x.data.len();
                let bias = self.draw(*output, -1.0, random);
                let weights = self.draw(output * inputs, -1.0, random);
                let norm = norm.then(|| self.norm(*output, random));
                let weight = |o: usize, i: usize| match self.transposed {
                    true => weights[i * output + o],
                    false => weights[o * inputs + i],
                };
                let sum = |o| x.data.iter().enumerate().map(|(i, x)| weight(o, i) * x).sum();
                let y = Map::each([*output, 1, 1], |o, _, _| sum(o));
                activated(&normalised(&y, &bias, norm), activation)
            }
            Part::Shortcut { from, activation } => {
                let mut y = x;
                for &from in from {
                    shortcut(&mut y, self.layer(from));
                }
                activated(&y, activation)
            }
            Part::Route { layers, groups, group } => {
                let mut data = vec![];
                for &layer in layers {
                    let from = self.layer(layer);
                    let size = from.data.len() / groups;
                    data.extend_from_slice(&from.data[group * size..][..size]);
                }
                let [_, height, width] = self.layer(layers[0]).shape;
                Map { shape: [data.len() / height / width, height, width], data }
            }
            Part::Max { size, stride, padding } => max_pool(&x, *size, *stride, *padding),
            Part::Upsample(stride) => {
                let shape = [channels, height * stride, width * stride];
                Map::each(shape, |c, h, w| x.at(c, h / stride, w / stride))
            }
            Part::Average => Map::each([channels, 1, 1], |c, _, _| {
                let places = height * width;
                x.data[c * places..][..places].iter().sum::<f64>() / places as f64
            }),
            Part::Softmax(groups) => {
                let mut data = vec![];
                for row in x.data.chunks(x.data.len() / groups) {
                    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
                    data.extend(row.iter().map(|x| (x - largest).exp() / sum));
                }
                Map { shape: [data.len(), 1, 1], data }
            }
            Part::Reorg { stride, reverse } => reorg(&x, *stride, *reverse),
            Part::Activation(name) => activated(&x, name),
            Part::Scale(from) => {
                let from = self.layer(*from);
                Map::each(from.shape, |c, h, w| from.at(c, h, w) * x.data[c])
            }
            Part::Sam(from) => {
                let from = self.layer(*from);
                Map::each(from.shape, |c, h, w| from.at(c, h, w) * x.at(c, h, w))
            }
            Part::Dropout => x,
            Part::Yolo { .. } => {
                self.heads.push(self.outputs.len());
                x
            }
        };
        self.outputs.push(made);
    }

    fn norm(&mut self, channels: usize, random: &mut ChaCha8Rng) -> [Vec<f64>; 3] {
        [-1.0, -1.0, 0.5].map(|least| self.draw(channels, least, random))
    }

    fn convolution(&mut self, part: &Part, x: &Map, random: &mut ChaCha8Rng) -> Map {
        let Part::Convolution {
            filters,
            size,
            stride,
            padding,
            dilation,
            groups,
            norm,
            activation,
        } = part
        else {
            unreachable!()
        };
        let [channels, height, width] = x.shape;
        let bias = self.draw(*filters, -1.0, random);
        let norm = norm.then(|| self.norm(*filters, random));
        let depth = channels / groups;
        let weights = self.draw(filters * depth * size * size, -1.0, random);
        let pad = padding.unwrap_or(size / 2);
        let extent = |n: usize, stride: usize| (n + 2 * pad - size) / stride + 1;
        let shape = [*filters, extent(height, stride[0]), extent(width, stride[1])];
        let y = Map::each(shape, |f, row, col| {
            let group = f / (filters / groups);
            let mut sum = 0.0;
            for c in 0..depth {
                for i in 0..*size {
                    for j in 0..*size {
                        let place = |at: usize, tap: usize, stride: usize| {
                            (at * stride + tap * dilation) as i64 - (pad * dilation) as i64
                        };
                        let [h, w] = [place(row, i, stride[0]), place(col, j, stride[1])];
                        let weight = weights[((f * depth + c) * size + i) * size + j];
                        sum += weight * x.padded(group * depth + c, h, w);
                    }
                }
            }
            sum
        });
        activated(&normalised(&y, &bias, norm), activation)
    }
}

fn normalised(y: &Map, bias: &[f64], norm: Option<[Vec<f64>; 3]>) -> Map {
    Map::each(y.shape, |c, h, w| {
        let x = y.at(c, h, w);
        bias[c]
            + match &norm {
                None => x,
                Some([scale, mean, variance]) => {
                    scale[c] * (x - mean[c]) / (variance[c] + 0.00001).sqrt()
                }
            }
    })
}

fn activated(x: &Map, name: &str) -> Map {
    let function = |x: f64| match name {
        "linear" => x,
        "relu" => x * f64::from(x > 0.0),
        "relu6" => x.clamp(0.0, 6.0),
        "leaky" if x > 0.0 => x,
        "leaky" => 0.1 * x,
        "relie" if x > 0.0 => x,
        "relie" => 0.01 * x,
        "hardtan" => x.clamp(-1.0, 1.0),
        "mish" => x * x.exp().ln_1p().tanh(),
        "logistic" => 1.0 / (1.0 + (-x).exp()),
        "swish" => x / (1.0 + (-x).exp()),
        "tanh" => 2.0 / (1.0 + (-2.0 * x).exp()) - 1.0,
        "elu" => {
            if x >= 0.0 {
                x
            } else {
                x.exp() - 1.0
            }
        }
        "selu" => 1.0507 * if x >= 0.0 { x } else { 1.6732 * (x.exp() - 1.0) },
        "gelu" => 0.5 * x * (1.0 + (0.797885 * x + 0.035677 * x.powi(3)).tanh()),
        _ => panic!("{name}"),
    };
    Map { shape: x.shape, data: x.data.iter().map(|&x| function(x)).collect() }
}

fn shortcut(y: &mut Map, add: &Map) {
    let [[c1, h1, w1], [c2, h2, w2]] = [add.shape, y.shape];
    let stride = w1 / w2;
    assert_eq!(stride, h1 / h2);
    for k in 0..c1.min(c2) {
        for j in 0..h2 {
            for i in 0..w2 {
                y.data[(k * h2 + j) * w2 + i] += add.at(k, j * stride, i * stride);
            }
        }
    }
}

fn max_pool(x: &Map, size: usize, stride: usize, padding: Option<usize>) -> Map {
    let [channels, height, width] = x.shape;
    let padding = padding.unwrap_or(size - 1);
    let offset = -((padding / 2) as i64);
    let extent = |n: usize| (n + padding - size) / stride + 1;
    Map::each([channels, extent(height), extent(width)], |c, i, j| {
        let mut most = f64::NEG_INFINITY;
        for n in 0..size {
            for m in 0..size {
                let h = offset + (i * stride + n) as i64;
                let w = offset + (j * stride + m) as i64;
                if h >= 0 && h < height as i64 && w >= 0 && w < width as i64 {
                    most = most.max(x.at(c, h as usize, w as usize));
                }
            }
        }
        most
    })
}

/// The loop has the input's extents, although what it goes through is larger in one of the two.
fn reorg(x: &Map, stride: usize, reverse: bool) -> Map {
    let [channels, height, width] = x.shape;
    let fewer = channels / (stride * stride);
    let mut data = vec![f64::NAN; x.data.len()];
    for k in 0..channels {
        for j in 0..height {
            for i in 0..width {
                let inner = i + width * (j + height * k);
                let (c2, offset) = (k % fewer, k / fewer);
                let w2 = i * stride + offset % stride;
                let h2 = j * stride + offset / stride;
                let outer = w2 + width * stride * (h2 + height * stride * c2);
                match reverse {
                    true => data[outer] = x.data[inner],
                    false => data[inner] = x.data[outer],
                }
            }
        }
    }
    let shape = match reverse {
        true => [fewer, height * stride, width * stride],
        false => [channels * stride * stride, height / stride, width / stride],
    };
    Map { shape, data }
}

/// A section in words.
fn text(part: &Part) -> String {
    let mut text = String::new();
    let list = |layers: &[i64]| layers.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let mut line = |line: String| writeln!(text, "{line}").unwrap();
    match part {
        Part::Convolution {
            filters,
            size,
            stride,
            padding,
            dilation,
            groups,
            norm,
            activation,
        } => {
            line(format!("\n[convolutional]\nfilters={filters}\nsize={size}"));
            match stride {
                [same, other] if same == other => line(format!("stride={same}")),
                [y, x] => line(format!("stride_x={x}\nstride_y={y}")),
            }
            line(padding.map_or("pad=1".into(), |padding| format!("padding={padding}")));
            if *dilation > 1 {
                line(format!("dilation={dilation}"));
            }
            if *groups > 1 {
                line(format!("groups = {groups}"));
            }
            if *norm {
                line("batch_normalize=1".into());
            }
            line(format!("activation={activation}   # of what comes out"));
        }
        Part::Connected { output, norm, activation } => {
            let norm = u8::from(*norm);
            line(format!(
                "[connected]\noutput={output}\nbatch_normalize={norm}\nactivation={activation}"
            ));
        }
        Part::Shortcut { from, activation } => {
            line(format!("[shortcut]\nfrom={}\nactivation={activation}", list(from)));
        }
        Part::Route { layers, groups: 1, .. } => {
            line(format!("[route]\nlayers = {}", list(layers)))
        }
        Part::Route { layers, groups, group } => {
            line(format!("[route]\nlayers={}\ngroups={groups}\ngroup_id={group}", list(layers)));
        }
        Part::Max { size, stride, padding } => {
            line(format!("[maxpool]\nsize={size}\nstride={stride}"));
            if let Some(padding) = padding {
                line(format!("padding={padding}"));
            }
        }
        Part::Upsample(stride) => line(format!("[upsample]\nstride={stride}")),
        Part::Average => line("[avgpool]".into()),
        Part::Softmax(groups) => line(format!("[softmax]\ngroups={groups}")),
        Part::Reorg { stride, reverse } => {
            line(format!("[reorg]\nstride={stride}\nreverse={}", u8::from(*reverse)));
        }
        Part::Activation(name) => line(format!("[activation]\nactivation={name}")),
        Part::Scale(from) => line(format!("[scale_channels]\nfrom={from}")),
        Part::Sam(from) => line(format!("[sam]\nfrom={from}")),
        Part::Dropout => line("; in training\n[dropout]\nprobability=.5".into()),
        Part::Yolo { boxes, classes } => {
            let mask: Vec<i64> = (0..*boxes as i64).collect();
            line(format!("[yolo]\nmask={}\nclasses={classes}\nnum=9\njitter=.3", list(&mask)));
        }
    }
    text
}
