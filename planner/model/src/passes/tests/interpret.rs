//! A plain interpreter of network records in double precision. Memory starts as NaN, so that reading
//! what nobody wrote shows; the rules on sharing of memory within a layer are asserted.

use crate::graph::{Op, SampleMode, SamplePadding, Sampling, Suppression};
use crate::network::{Network, Weights};
use crate::reference::{self, erf};
use crate::weights;
use eyelet::pack::*;

struct Machine<'a> {
    network: &'a Network,
    buffers: Vec<Vec<f64>>,
}

/// Runs a network on inputs in the model's own layout.
pub fn run(network: &Network, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    for tensor in &network.tensors {
        let floats = tensor.offset as u64 + (tensor.rows() - 1) * u64::from(tensor.pitch);
        let bytes = network.buffers[tensor.buffer as usize].bytes;
        assert!((floats + u64::from(tensor.cols())) * 4 <= bytes && bytes.is_multiple_of(64));
        assert!(tensor.pitch >= tensor.cols());
    }
    let buffers = network.buffers.iter().map(|b| vec![f64::NAN; (b.bytes / 4) as usize]).collect();
    let mut machine = Machine { network, buffers };
    for (port, data) in network.inputs.iter().zip(inputs) {
        let tensor = contiguous(network, port.tensor);
        machine.buffers[tensor.buffer as usize][..data.len()].copy_from_slice(data);
    }
    for index in 0..network.layers.len() {
        machine.layer(index);
    }
    let mut seen: Vec<u32> = network.inputs.iter().map(|port| port.tensor).collect();
    (network.outputs.iter())
        .map(|port| {
            assert!(!seen.contains(&port.tensor));
            seen.push(port.tensor);
            let tensor = contiguous(network, port.tensor);
            let count = port.shape.iter().product();
            machine.buffers[tensor.buffer as usize][..count].to_vec()
        })
        .collect()
}

fn contiguous(network: &Network, tensor: u32) -> Tensor {
    let tensor = network.tensors[tensor as usize];
    assert_eq!((tensor.pitch, tensor.offset), (tensor.dims[3], 0));
    tensor
}

/// The float of a tensor at an index, broadcast.
fn at(tensor: &Tensor, index: [usize; 4]) -> usize {
    let d = tensor.dims.map(|dim| dim as usize);
    let row = (index[0] % d[0] * d[1] + index[1] % d[1]) * d[2] + index[2] % d[2];
    tensor.offset as usize + row * tensor.pitch as usize + index[3] % d[3]
}

fn indices(dims: [u32; 4]) -> impl Iterator<Item = [usize; 4]> {
    let [a, b, c, d] = dims.map(|dim| dim as usize);
    (0..a * b * c * d).map(move |i| [i / d / c / b, i / d / c % b, i / d % c, i % d])
}

fn touched(tensor: &Tensor) -> std::collections::HashSet<usize> {
    indices(tensor.dims).map(|index| at(tensor, index)).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn activate(activation: &Activation, x: f64) -> f64 {
    let (alpha, beta) = (f64::from(activation.alpha), f64::from(activation.beta));
    match activation.function().unwrap() {
        ActivationKind::None => x,
        ActivationKind::Clamp => x.max(alpha).min(beta),
        ActivationKind::LeakyRelu if x >= 0.0 => x,
        ActivationKind::LeakyRelu => alpha * x,
        ActivationKind::Sigmoid => sigmoid(x),
        ActivationKind::HardSigmoid => (alpha * x + beta).clamp(0.0, 1.0),
        ActivationKind::HardSwish => x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        ActivationKind::Tanh => x.tanh(),
        ActivationKind::Silu => x * sigmoid(x),
        ActivationKind::Gelu => 0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2)),
        ActivationKind::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        }
        ActivationKind::Erf => erf(x),
        ActivationKind::Sqrt => x.sqrt(),
        ActivationKind::Exp => x.exp(),
        ActivationKind::Elu => {
            if x < 0.0 {
                alpha * x.exp_m1()
            } else {
                beta * x
            }
        }
        ActivationKind::Softplus => x.exp().ln_1p(),
        ActivationKind::Mish => x * x.exp().ln_1p().tanh(),
        ActivationKind::Swish => x * sigmoid(alpha * x),
        ActivationKind::Quantise | ActivationKind::FakeQuantise => {
            let low = (beta / 256.0).floor();
            let quotient = f64::from(x as f32 / activation.alpha);
            let whole = quotient.clamp(low, low + beta - low * 256.0).round_ties_even();
            let fake = activation.kind == ActivationKind::FakeQuantise as u32;
            if fake { whole * alpha } else { whole }
        }
        ActivationKind::Log => x.ln(),
        ActivationKind::Abs => x.abs(),
        ActivationKind::Floor => x.floor(),
        ActivationKind::Ceil => x.ceil(),
        ActivationKind::Round => x.round_ties_even(),
        ActivationKind::Sign => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        ActivationKind::Softsign => x / (1.0 + x.abs()),
        ActivationKind::Shrink if x.abs() <= alpha => 0.0,
        ActivationKind::Shrink => x - beta.copysign(x),
        ActivationKind::ThresholdedRelu if x <= alpha => 0.0,
        ActivationKind::ThresholdedRelu => x,
        ActivationKind::Sin => x.sin(),
        ActivationKind::Cos => x.cos(),
        ActivationKind::Tan => x.tan(),
        ActivationKind::Asin => x.asin(),
        ActivationKind::Acos => x.acos(),
        ActivationKind::Atan => x.atan(),
        ActivationKind::Sinh => x.sinh(),
        ActivationKind::Cosh => x.cosh(),
        ActivationKind::Asinh => x.asinh(),
        ActivationKind::Acosh => x.acosh(),
        ActivationKind::Atanh => x.atanh(),
    }
}

impl Machine<'_> {
    /// The inputs must be disjoint from the output or the very same tensor; copies and products must
    /// not even share its buffer.
    fn sharing(&self, layer: &Layer, kind: OpKind) {
        let output = self.network.tensors[layer.output as usize];
        for (i, &input) in layer.inputs.iter().enumerate().filter(|(_, input)| **input != NONE) {
            let tensor = self.network.tensors[input as usize];
            if tensor.buffer != output.buffer {
                continue;
            }
            assert!(!matches!(kind, OpKind::Copy | OpKind::MatMul));
            let allowed = match kind {
                OpKind::Unary
                | OpKind::Binary
                | OpKind::Where
                | OpKind::Integer
                | OpKind::Softmax
                | OpKind::LayerNorm => true,
                OpKind::Conv | OpKind::Depthwise => i == 1,
                _ => false,
            };
            if !(allowed && input == layer.output) {
                assert!(touched(&tensor).is_disjoint(&touched(&output)), "{kind:?} {i}");
            }
        }
    }

    fn read(&self, tensor: &Tensor, index: [usize; 4]) -> f64 {
        self.buffers[tensor.buffer as usize][at(tensor, index)]
    }

    fn layer(&mut self, index: usize) {
        let layer = self.network.layers[index];
        let kind = OpKind::from_code(layer.kind).unwrap();
        self.sharing(&layer, kind);
        let output = self.network.tensors[layer.output as usize];
        let inputs = layer.inputs.map(|input| match input {
            NONE => None,
            input => Some(self.network.tensors[input as usize]),
        });
        let packed = self.packed(index);
        let x = inputs[0];
        let result: Vec<f64> = match kind {
            OpKind::Conv | OpKind::Depthwise => self.conv(&layer, kind, inputs, &output, &packed),
            OpKind::Pool => self.pool(&params(&layer), &x.unwrap(), &output),
            OpKind::Unary => {
                assert_eq!(x.unwrap().dims, output.dims);
                indices(output.dims).map(|i| self.read(&x.unwrap(), i)).collect()
            }
            OpKind::Binary => self.binary(&params(&layer), inputs, &output, &packed),
            OpKind::Softmax => self.softmax(&x.unwrap(), &output),
            OpKind::Lrn => self.lrn(&params(&layer), &x.unwrap(), &output),
            OpKind::MatMul => self.mat_mul(&params(&layer), inputs, &output),
            OpKind::Reduce => self.reduce(&params(&layer), &x.unwrap(), &output),
            OpKind::Copy => return self.copy(&params(&layer), x, &output),
            OpKind::LayerNorm => self.layer_norm(&params(&layer), &x.unwrap(), &output, &packed),
            OpKind::GridSample => self.grid_sample(&params(&layer), inputs, &output),
            OpKind::Recurrent => self.recurrent(&params(&layer), inputs, &output, &packed),
            OpKind::Resample => self.resample(&params(&layer), &x.unwrap(), &output, &packed),
            OpKind::Gather => self.gather(&layer, &x.unwrap(), &output, &packed),
            OpKind::Lookup => self.lookup(&layer, &x.unwrap(), &output, &packed),
            OpKind::Where => self.choose(&params(&layer), inputs, &output, &packed),
            OpKind::Take => self.take(&layer, inputs, &output, &packed),
            OpKind::Integer => self.words(index, inputs, &output, &packed),
            OpKind::Fold => self.fold(&params(&layer), &x.unwrap(), &output),
            OpKind::TopK | OpKind::Suppress | OpKind::Scatter => {
                self.places(&layer, inputs, &output)
            }
            OpKind::Winograd => unreachable!("these tests lower to direct algorithms"),
        };
        for (i, value) in indices(output.dims).zip(result) {
            let value = activate(&layer.activation, value);
            self.buffers[output.buffer as usize][at(&output, i)] = value;
        }
    }

    fn packed(&self, index: usize) -> Vec<f64> {
        let (layer, nr) = (&self.network.layers[index], self.network.isa.panel());
        let recipe = &self.network.weights[index];
        assert_eq!(matches!(recipe, Weights::None), layer.panels == 0);
        let mut bytes = Vec::new();
        weights::pack_panels(recipe, layer, nr, 0..layer.panels, &mut bytes).unwrap();
        assert_eq!(bytes.len(), layer.panels as usize * layer.panel_bytes as usize);
        bytes.as_chunks().0.iter().map(|&word| f32::from_le_bytes(word).into()).collect()
    }

    fn conv(
        &self,
        layer: &Layer,
        kind: OpKind,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let p: ConvParams = params(layer);
        let x = inputs[0].unwrap();
        let (nr, width) = (self.network.isa.panel(), layer.columns(self.network.isa));
        let groups = p.groups as usize;
        let (ic, oc) = (x.dims[3] as usize, output.dims[3] as usize);
        let spanned = kind == OpKind::Depthwise;
        assert!(x.dims[0] == output.dims[0] && oc.is_multiple_of(groups));
        let (depth, group) = (ic / groups, oc / groups);
        let panel = layer.panel_bytes as usize / 4;
        let result = indices(output.dims).map(|i| {
            let o = i[3];
            let (at_panel, lane) = match spanned {
                true => (o / nr, o % nr),
                false => (o / group * group.div_ceil(width) + o % group / width, o % group % width),
            };
            let panel = &packed[at_panel * panel..][..panel];
            let mut sum = panel[lane];
            for r in 0..p.kernel[0] {
                for s in 0..p.kernel[1] {
                    let h = i[1] as u32 * p.stride[0] + r * p.dilation[0];
                    let w = i[2] as u32 * p.stride[1] + s * p.dilation[1];
                    let (Some(h), Some(w)) = (h.checked_sub(p.pad[0]), w.checked_sub(p.pad[1]))
                    else {
                        continue;
                    };
                    if h >= x.dims[1] || w >= x.dims[2] {
                        continue;
                    }
                    for c in 0..depth {
                        let channel = o / group * depth + c;
                        let tap = (r * p.kernel[1] + s) as usize;
                        let weight = panel[nr + (tap * depth + c) * width + lane];
                        sum += weight * self.read(&x, [i[0], h as usize, w as usize, channel]);
                    }
                }
            }
            match &inputs[1] {
                Some(residual) => {
                    assert_eq!(residual.dims, output.dims);
                    sum + self.read(residual, i)
                }
                None => sum,
            }
        });
        result.collect()
    }

    fn pool(&self, p: &PoolParams, x: &Tensor, output: &Tensor) -> Vec<f64> {
        let result = indices(output.dims).map(|i| {
            let (mut sum, mut count, mut max) = (0.0, 0, f64::NEG_INFINITY);
            for tap in 0..p.kernel[0] * p.kernel[1] {
                let taps = [tap / p.kernel[1], tap % p.kernel[1]];
                let place = |axis: usize| {
                    (i[axis + 1] as u32 * p.stride[axis] + taps[axis] * p.dilation[axis]) as i64
                        - i64::from(p.pad[axis])
                };
                let within = |axis: usize, place: i64, pad: bool| {
                    let (before, after) = match pad {
                        true => (p.pad[axis], p.pad_end[axis]),
                        false => (0, 0),
                    };
                    place >= -i64::from(before)
                        && place < i64::from(x.dims[axis + 1]) + i64::from(after)
                };
                let (h, w) = (place(0), place(1));
                let inside = within(0, h, false) && within(1, w, false);
                if inside {
                    let value = self.read(x, [i[0], h as usize, w as usize, i[3]]);
                    sum += value;
                    max = if max > value || max.is_nan() { max } else { value };
                }
                let padding = within(0, h, true) && within(1, w, true);
                count += (inside || p.count_include_pad == 1 && padding) as u32;
            }
            if p.average == 1 { sum / f64::from(count) } else { max }
        });
        result.collect()
    }

    fn binary(
        &self,
        p: &BinaryParams,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let constant = Tensor { dims: p.constant, pitch: p.constant[3], ..Tensor::default() };
        let operand = |which: usize, i: [usize; 4]| match inputs[which] {
            Some(tensor) => {
                let fits = tensor.dims.iter().zip(output.dims).all(|(&d, o)| d == 1 || d == o);
                assert!(fits && p.constant_operand as usize != 2 - which);
                self.read(&tensor, i)
            }
            None => {
                assert_eq!(p.constant_operand as usize, 2 - which);
                packed[at(&constant, i)]
            }
        };
        let result = indices(output.dims).map(|i| {
            let (a, b) = (operand(0, i), operand(1, i));
            match BinaryOp::from_code(p.op).unwrap() {
                BinaryOp::Add => a + b,
                BinaryOp::Sub => a - b,
                BinaryOp::Mul => a * b,
                BinaryOp::Div => a / b,
                BinaryOp::PRelu if a >= 0.0 => a,
                BinaryOp::PRelu => a * b,
                BinaryOp::Mask if b.is_nan() => a,
                BinaryOp::Mask => b,
                BinaryOp::Max | BinaryOp::Min if a.is_nan() || b.is_nan() => f64::NAN,
                BinaryOp::Max => a.max(b),
                BinaryOp::Min => a.min(b),
                BinaryOp::Pow => a.powf(b),
                BinaryOp::Mod => a % b,
            }
        });
        result.collect()
    }

    fn words(
        &self,
        index: usize,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let p: IntegerParams = params(&self.network.layers[index]);
        let op = IntegerOp::from_code(p.op).unwrap();
        let floats = matches!(
            op,
            IntegerOp::EqualFloats | IntegerOp::LessFloats | IntegerOp::LessOrEqualFloats
        );
        let operand = |which: usize, i: [usize; 4]| match &inputs[which] {
            Some(tensor) => self.read(tensor, i),
            None if op.operands() == 1 => 0.0,
            None => {
                let dims = p.extents[which];
                let held = Tensor { dims, pitch: dims[3], ..Tensor::default() };
                let bits = (packed[at(&held, i)] as f32).to_bits();
                if floats { packed[at(&held, i)] } else { f64::from(bits as i32) }
            }
        };
        let result = indices(output.dims);
        result.map(|i| crate::reference::word(op, operand(0, i), operand(1, i))).collect()
    }

    fn fold(&self, p: &FoldParams, x: &Tensor, output: &Tensor) -> Vec<f64> {
        let [reduce, inner] = [p.reduce, p.inner].map(|extent| extent as usize);
        let data: Vec<f64> = indices(x.dims).map(|i| self.read(x, i)).collect();
        let result = (0..indices(output.dims).count()).map(|at| {
            let part: Vec<f64> =
                (0..reduce).map(|k| data[(at / inner * reduce + k) * inner + at % inner]).collect();
            let best = |better: fn(f64, f64) -> bool| {
                (0..reduce).reduce(|best, k| if better(part[k], part[best]) { k } else { best })
            };
            match FoldOp::from_code(p.op).unwrap() {
                FoldOp::Sum => part.iter().sum(),
                FoldOp::Product => part.iter().product(),
                FoldOp::Min => part.iter().copied().fold(f64::INFINITY, f64::min),
                FoldOp::Max => part.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                FoldOp::ArgMin | FoldOp::ArgMinWord if p.last == 1 => {
                    best(|x, y| x <= y).unwrap() as f64
                }
                FoldOp::ArgMin | FoldOp::ArgMinWord => best(|x, y| x < y).unwrap() as f64,
                FoldOp::ArgMax | FoldOp::ArgMaxWord if p.last == 1 => {
                    best(|x, y| x >= y).unwrap() as f64
                }
                FoldOp::ArgMax | FoldOp::ArgMaxWord => best(|x, y| x > y).unwrap() as f64,
            }
        });
        result.collect()
    }

    /// Operators that find places and write to them, by the reference.
    fn places(&self, layer: &Layer, inputs: [Option<Tensor>; INPUTS], output: &Tensor) -> Vec<f64> {
        let data = inputs.map(|tensor| {
            let tensor = tensor?;
            Some(indices(tensor.dims).map(|i| self.read(&tensor, i)).collect::<Vec<f64>>())
        });
        let shape = |extents: &[u32]| extents.iter().map(|&x| x as usize).collect::<Vec<usize>>();
        let (op, shapes, out) = match OpKind::from_code(layer.kind).unwrap() {
            OpKind::TopK => {
                let p: TopKParams = params(layer);
                let (largest, integers) = (p.largest == 1, p.integers == 1);
                let from = shape(&[p.outer, p.reduce, p.inner]);
                let made = shape(&[p.outer, p.count, p.inner]);
                (Op::Order { axis: 1, largest, integers }, vec![from], made)
            }
            OpKind::Suppress => {
                let p: SuppressParams = params(layer);
                let (overlap, score, centers) = (p.overlap, p.score, p.centers == 1);
                let boxes = shape(&[p.images, p.boxes, 4]);
                let scores = shape(&[p.images, p.classes, p.boxes]);
                let made = shape(&[p.images, p.classes, p.count]);
                let op = Op::Suppress(Suppression { overlap, score, centers });
                (op, vec![boxes, scores], made)
            }
            _ => {
                let p: ScatterParams = params(layer);
                let op = ScatterOp::from_code(p.op).unwrap();
                let all = inputs.map(|tensor| shape(&tensor.unwrap().dims[2..]));
                (Op::Scatter { op }, all.into(), shape(&output.dims[2..]))
            }
        };
        let tensors: Vec<_> = (shapes.iter().zip(&data))
            .map(|(shape, data)| {
                Some(crate::reference::Tensor { shape, data: data.as_deref().unwrap() })
            })
            .collect();
        crate::reference::evaluate(&op, &tensors, &[&out]).swap_remove(0)
    }

    fn choose(
        &self,
        p: &WhereParams,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let mut start = 0;
        // The branches of these tests are floats.
        let constants = [0, 1, 2].map(|which| {
            let dims = p.extents[which];
            let held = Tensor { offset: start, dims, pitch: dims[3], ..Tensor::default() };
            assert_eq!(p.constants >> which & 1 == 1, inputs[which].is_none());
            start += if inputs[which].is_none() { dims.iter().product::<u32>() } else { 0 };
            held
        });
        let operand = |which: usize, i: [usize; 4]| match &inputs[which] {
            Some(tensor) => self.read(tensor, i),
            None if which == 0 => f64::from((packed[at(&constants[0], i)] as f32).to_bits()),
            None => packed[at(&constants[which], i)],
        };
        let result = indices(output.dims)
            .map(|i| if operand(0, i) != 0.0 { operand(1, i) } else { operand(2, i) });
        result.collect()
    }

    fn softmax(&self, x: &Tensor, output: &Tensor) -> Vec<f64> {
        assert_eq!(x.dims, output.dims);
        let exp = |i| self.read(x, i).exp();
        let sum = |[a, b, c, _]: [usize; 4]| -> f64 {
            (0..x.dims[3] as usize).map(|d| exp([a, b, c, d])).sum()
        };
        indices(output.dims).map(|i| exp(i) / sum(i)).collect()
    }

    fn layer_norm(
        &self,
        p: &LayerNormParams,
        x: &Tensor,
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        assert_eq!(x.dims, output.dims);
        let width = x.dims[3] as usize;
        let result = indices(output.dims).map(|[a, b, c, d]| {
            let row = || (0..width).map(|d| self.read(x, [a, b, c, d]));
            let mean = row().sum::<f64>() / width as f64;
            let mean = if p.about_zero == 1 { 0.0 } else { mean };
            let variance = row().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            let normal =
                (self.read(x, [a, b, c, d]) - mean) / (variance + f64::from(p.epsilon)).sqrt();
            normal * packed[d] + packed[width + d]
        });
        result.collect()
    }

    fn gather(&self, layer: &Layer, x: &Tensor, output: &Tensor, packed: &[f64]) -> Vec<f64> {
        let p: GatherParams = params(layer);
        let (nr, panel) = (self.network.isa.panel(), layer.panel_bytes as usize / 4);
        let width = layer.columns(self.network.isa);
        assert!(panel >= nr + p.entries as usize * width && x.dims[3] == 1);
        assert_eq!(x.rows(), output.rows());
        let rows: Vec<f64> = indices(x.dims).map(|i| self.read(x, i)).collect();
        let result = indices(output.dims).enumerate().map(|(at, i)| {
            let entry = rows[at / output.dims[3] as usize] as usize;
            let panel = &packed[i[3] / width * panel..];
            panel[nr + entry * width + i[3] % width] + panel[i[3] % width]
        });
        result.collect()
    }

    fn lookup(&self, layer: &Layer, x: &Tensor, output: &Tensor, packed: &[f64]) -> Vec<f64> {
        let p: LookupParams = params(layer);
        let (nr, panel) = (self.network.isa.panel(), layer.panel_bytes as usize / 4);
        let width = layer.columns(self.network.isa);
        assert!(panel >= nr + output.cols() as usize * width && x.dims[3] == 1);
        assert_eq!((x.rows(), layer.panels), (output.rows(), p.entries.div_ceil(width as u32)));
        let rows: Vec<f64> = indices(x.dims).map(|i| self.read(x, i)).collect();
        let result = indices(output.dims).enumerate().map(|(at, i)| {
            let entry = rows[at / output.dims[3] as usize] as usize;
            let weight = packed[entry / width * panel + nr + i[3] * width + entry % width];
            weight * f64::from(p.scale)
        });
        result.collect()
    }

    fn take(
        &self,
        layer: &Layer,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let p: TakeParams = params(layer);
        let data = inputs[0].unwrap();
        assert_eq!(u64::from(p.entries), data.rows());
        let rows: Vec<[usize; 4]> = indices(data.dims).step_by(data.cols() as usize).collect();
        let named: Vec<f64> = match inputs[1] {
            Some(tensor) => indices(tensor.dims).map(|i| self.read(&tensor, i)).collect(),
            None => {
                let words = packed[..output.rows() as usize].iter();
                words.map(|word| f64::from((*word as f32).to_bits() as i32)).collect()
            }
        };
        let result = indices(output.dims).enumerate().map(|(at, i)| {
            let row = rows[named[at / output.dims[3] as usize] as usize];
            self.read(&data, [row[0], row[1], row[2], i[3]])
        });
        result.collect()
    }

    /// By the reference, from the records' own layout to its.
    fn grid_sample(
        &self,
        p: &GridSampleParams,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
    ) -> Vec<f64> {
        let [x, grid] = [0, 1].map(|slot| inputs[slot].unwrap());
        let [images, lines, width, channels] = x.dims.map(|extent| extent as usize);
        let [_, made_lines, made_width, _] = output.dims.map(|extent| extent as usize);
        let (depth, axes) = (p.depth as usize, grid.dims[3] as usize);
        let spatial = |lines: usize, width: usize, depth: usize| match axes {
            2 => vec![lines, width],
            _ => vec![depth, lines / depth, width],
        };
        let shape = [&[images, channels][..], &spatial(lines, width, depth)].concat();
        // Places of a volume in one slice: their order is all that matters.
        let made = spatial(made_lines, made_width, 1);
        let data: Vec<f64> = indices([x.dims[0], x.dims[3], x.dims[1], x.dims[2]])
            .map(|[n, c, y, at]| self.read(&x, [n, y, at, c]))
            .collect();
        let places: Vec<f64> = indices(grid.dims).map(|i| self.read(&grid, i)).collect();
        let of = Sampling {
            mode: [SampleMode::Nearest, SampleMode::Linear, SampleMode::Cubic][p.mode as usize],
            padding: [SamplePadding::Zeros, SamplePadding::Border, SamplePadding::Reflection]
                [p.padding as usize],
            align_corners: p.align_corners == 1,
        };
        let grid_shape = [&[images][..], &made, &[axes]].concat();
        let whole = [&[images, channels][..], &made].concat();
        let tensors = [
            Some(reference::Tensor { shape: &shape, data: &data }),
            Some(reference::Tensor { shape: &grid_shape, data: &places }),
        ];
        let result = reference::evaluate(&Op::GridSample(of), &tensors, &[&whole]).swap_remove(0);
        let count = made_lines * made_width;
        let at = |[n, y, x, c]: [usize; 4]| result[(n * channels + c) * count + y * made_width + x];
        indices(output.dims).map(at).collect()
    }

    fn recurrent(
        &self,
        p: &RecurrentParams,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let (nr, hidden) = (self.network.isa.panel(), p.hidden as usize);
        let [_, times, batch, width] = output.dims.map(|extent| extent as usize);
        let panel = (1 + hidden) * nr;
        // A panel's first line is the biases.
        let weight = |line: usize, gate: usize, unit: usize| {
            packed[(gate * hidden.div_ceil(nr) + unit / nr) * panel + line * nr + unit % nr]
        };
        let peephole = |gate: usize, unit: usize| match p.peepholes {
            0 => 0.0,
            _ => packed[p.gates() as usize * hidden.div_ceil(nr) * panel + gate * hidden + unit],
        };
        let mut result = vec![0.0; times * batch * width];
        for sequence in 0..batch {
            let first = |at| inputs[1].map_or(0.0, |state| self.read(&state, [0, 0, sequence, at]));
            let mut now: Vec<f64> = (0..width).map(first).collect();
            for step in 0..times {
                let time = if p.reverse == 1 { times - 1 - step } else { step };
                let before = now.clone();
                let given = |gate: usize, unit: usize| {
                    self.read(&inputs[0].unwrap(), [0, time, sequence, gate * hidden + unit])
                };
                let product = |gate: usize, unit: usize, h: &dyn Fn(usize) -> f64| {
                    let terms = (0..hidden).map(|from| weight(1 + from, gate, unit) * h(from));
                    weight(0, gate, unit) + terms.sum::<f64>()
                };
                let clip = f64::from(p.clip);
                let f =
                    |which: usize, x: f64| activate(&p.functions[which], x.max(-clip).min(clip));
                let h = |from: usize| before[from];
                let sum = |gate: usize, unit: usize| given(gate, unit) + product(gate, unit, &h);
                let reset = |unit: usize| f(0, sum(1, unit)) * before[unit];
                for unit in 0..hidden {
                    match p.cell {
                        0 => now[unit] = f(0, sum(0, unit)),
                        1 => {
                            let z = f(0, sum(0, unit));
                            let n = match p.reset_after {
                                0 => given(2, unit) + product(2, unit, &reset),
                                _ => given(2, unit) + f(0, sum(1, unit)) * product(2, unit, &h),
                            };
                            now[unit] = (1.0 - z) * f(1, n) + z * before[unit];
                        }
                        _ => {
                            let c = before[hidden + unit];
                            let seen = |gate, c: f64| sum(gate, unit) + peephole(gate, unit) * c;
                            let next = f(0, seen(2, c)) * c + f(0, seen(0, c)) * f(1, sum(3, unit));
                            now[unit] = f(0, seen(1, next)) * activate(&p.functions[2], next);
                            now[hidden + unit] = next;
                        }
                    }
                }
                result[(time * batch + sequence) * width..][..width].copy_from_slice(&now);
            }
        }
        result
    }

    fn resample(
        &self,
        p: &ResampleParams,
        x: &Tensor,
        output: &Tensor,
        packed: &[f64],
    ) -> Vec<f64> {
        let (axis, taps) = (p.axis as usize, p.taps as usize);
        let result = indices(output.dims).map(|i| {
            let table = &packed[i[axis] * (taps + 1)..][..taps + 1];
            let start = p.first(i[axis] as u32, x.dims[axis]) as usize + table[0] as usize;
            let read = table[1..].iter().enumerate().filter(|(_, weight)| **weight != 0.0);
            let term = |(tap, weight): (usize, &f64)| {
                let mut from = i;
                from[axis] = start + tap;
                assert!(from[axis] < x.dims[axis] as usize);
                weight * self.read(x, from)
            };
            read.map(term).reduce(|a, b| a + b).unwrap_or(p.outside.into())
        });
        result.collect()
    }

    fn lrn(&self, p: &LrnParams, x: &Tensor, output: &Tensor) -> Vec<f64> {
        let size = p.size as usize;
        let result = indices(output.dims).map(|[a, b, c, d]| {
            let first = d.saturating_sub((size - 1) / 2);
            let last = (d + size / 2).min(x.dims[3] as usize - 1);
            let squares: f64 = (first..=last).map(|d| self.read(x, [a, b, c, d]).powi(2)).sum();
            let base = f64::from(p.bias) + f64::from(p.alpha) / size as f64 * squares;
            self.read(x, [a, b, c, d]) / base.powf(p.beta.into())
        });
        result.collect()
    }

    fn mat_mul(
        &self,
        p: &MatMulParams,
        inputs: [Option<Tensor>; INPUTS],
        output: &Tensor,
    ) -> Vec<f64> {
        assert_eq!(output.rows() as u32, p.batch * p.m);
        assert_eq!((output.dims[3], p.col_stride[0]), (p.n, 1));
        let element = |which: usize, index: [u32; 3]| {
            let tensor = inputs[which].unwrap();
            let strides = [p.batch_stride[which], p.row_stride[which], p.col_stride[which]];
            let offset: u32 = index.iter().zip(strides).map(|(i, stride)| i * stride).sum();
            let extent = (tensor.rows() as u32 - 1) * tensor.pitch + tensor.dims[3];
            assert!(offset < extent, "outside the tensor");
            self.buffers[tensor.buffer as usize][(tensor.offset + offset) as usize]
        };
        let mut result = Vec::new();
        for i in 0..p.batch {
            for m in 0..p.m {
                for n in 0..p.n {
                    let product = |k| element(0, [i, m, k]) * element(1, [i, k, n]);
                    let sum: f64 = (0..p.k).map(product).sum();
                    result.push(sum * f64::from(p.scale));
                }
            }
        }
        result
    }

    fn reduce(&self, p: &ReduceParams, x: &Tensor, output: &Tensor) -> Vec<f64> {
        let [outer, reduce, inner] = [p.outer, p.reduce, p.inner].map(|extent| extent as usize);
        assert_eq!(x.rows() as usize * x.dims[3] as usize, outer * reduce * inner);
        assert_eq!(output.rows() as usize * output.dims[3] as usize, outer * inner);
        assert!(x.pitch == x.dims[3] && output.pitch == output.dims[3]);
        let data = &self.buffers[x.buffer as usize][x.offset as usize..];
        (0..outer * inner)
            .map(|i| {
                let first = i / inner * reduce * inner + i % inner;
                let terms = (0..reduce).map(|r| data[first + r * inner]);
                let squares = terms.clone().map(|x| x * x).sum::<f64>();
                match ReduceOp::from_code(p.op).unwrap() {
                    ReduceOp::Mean => terms.sum::<f64>() / reduce as f64,
                    ReduceOp::Sum => terms.sum(),
                    ReduceOp::Max => terms.fold(f64::MIN, f64::max),
                    ReduceOp::Min => terms.fold(f64::MAX, f64::min),
                    ReduceOp::Product => terms.product(),
                    ReduceOp::SquareSum => squares,
                    ReduceOp::SquareMean => squares / reduce as f64,
                }
            })
            .collect()
    }

    fn copy(&mut self, p: &CopyParams, x: Option<Tensor>, output: &Tensor) {
        if p.filled == 1 {
            for i in indices(output.dims) {
                self.buffers[output.buffer as usize][at(output, i)] = p.fill.into();
            }
        }
        let Some(x) = x else { return };
        let count: u32 = p.dims.iter().product();
        for mut i in 0..count {
            let (mut from, mut to) = (p.src_start, p.dst_start);
            for d in (0..6).rev() {
                from += i % p.dims[d] * p.src[d];
                to += i % p.dims[d] * p.dst[d];
                i /= p.dims[d];
            }
            let value = self.buffers[x.buffer as usize][from as usize];
            self.buffers[output.buffer as usize][to as usize] = value;
        }
    }
}
