//! Emission: from items to layers, each with its tensors.
//!
//! Items are taken in order. Each has views of its inputs and asks for them in a memory order that its
//! layer can read; if a view is no rectangle in that order, the value is copied once (and the copy is
//! remembered). Outputs go to their home in a concatenation, or to a buffer of their own.

use super::PassError;
use super::gaps::gaps;
use super::home::Home;
use super::program::{Item, Program, Work};
use super::view::{Rect, View, row_major};
use crate::graph::ValueId;
use crate::network::{Port, Weights};
use crate::weights::{self, Panels};
use eyelet::kernels::Isa;
use eyelet::pack::{
    self, Activation, BinaryOp, BinaryParams, Element, Encoding, INPUTS, LayerNormParams, OpKind,
    ReduceOp, Tensor,
};
use std::collections::HashMap;

/// A layer whose tensors are spelled out.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub name: String,
    pub kind: OpKind,
    pub inputs: [Option<Tensor>; INPUTS],
    pub output: Tensor,
    pub activation: Activation,
    pub params: [u32; 24],
    pub weights: Weights,
    pub panels: u32,
    pub panel_bytes: u32,
    pub width: u32,
    pub encoding: Encoding,
}

/// All layers, over buffers that do not share memory yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Drafts {
    /// Sizes of the buffers in floats.
    pub buffers: Vec<usize>,
    pub layers: Vec<Draft>,
    /// Tensors of the inputs and outputs; their ports' tensor indices are not valid yet.
    pub inputs: Vec<(Port, Tensor)>,
    pub outputs: Vec<(Port, Tensor)>,
    /// Buffers whose layers do not say what their elements are: these choose among constants.
    pub chosen: HashMap<u32, Element>,
}

pub(super) struct Emitter<'a> {
    pub program: &'a Program,
    pub(super) homes: &'a [Option<Home>],
    pub(super) gaps: Vec<bool>,
    pub(super) isa: Isa,
    pub(super) views: Vec<Option<View>>,
    /// Where concatenations will be, once one of their operands has been placed.
    pub reserved: Vec<Option<View>>,
    /// Copies of values in other memory orders.
    pub(super) copies: HashMap<(ValueId, Vec<usize>), View>,
    pub(super) out: Drafts,
}

/// Emits the layers of a program.
pub(super) fn emit(
    program: &Program,
    homes: &[Option<Home>],
    isa: Isa,
) -> Result<Drafts, PassError> {
    let count = program.values.len();
    let mut emitter = Emitter {
        program,
        homes,
        gaps: gaps(program),
        isa,
        views: vec![None; count],
        reserved: vec![None; count],
        copies: HashMap::new(),
        out: Drafts::default(),
    };
    emitter.inputs()?;
    for item in &program.items {
        emitter.item(item)?;
    }
    emitter.outputs()?;
    Ok(emitter.out)
}

/// A number as a field of a record.
pub(super) fn field(node: &str, what: &'static str, value: usize) -> Result<u32, PassError> {
    match u32::try_from(value) {
        Ok(value) if value != pack::NONE => Ok(value),
        _ => Err(PassError::TooLarge {
            node: node.into(),
            what,
            found: value,
            limit: pack::NONE as usize - 1,
        }),
    }
}

pub(super) fn tensor(node: &str, rect: Rect) -> Result<Tensor, PassError> {
    let mut dims = [0; 4];
    for (dim, extent) in dims.iter_mut().zip(rect.dims) {
        *dim = field(node, "an extent", extent)?;
    }
    // Steps count them.
    field(node, "the number of rows", rect.dims[..3].iter().product())?;
    Ok(Tensor {
        buffer: field(node, "the number of buffers", rect.buffer)?,
        offset: field(node, "an offset in floats", rect.offset)?,
        dims,
        pitch: field(node, "a pitch in floats", rect.pitch)?,
    })
}

/// The tensor of a view in its own order; where it is no rectangle, the one row that spans it.
pub(super) fn covering(node: &str, view: &View) -> Result<Tensor, PassError> {
    let span = view.span();
    let row = Rect { buffer: view.buffer, offset: view.offset, dims: [1, 1, 1, span], pitch: span };
    tensor(node, view.rect(&view.order()).unwrap_or(row))
}

/// Inputs, and behind them none.
pub(super) fn slots<const N: usize>(inputs: [Option<Tensor>; N]) -> [Option<Tensor>; INPUTS] {
    const { assert!(N <= INPUTS) };
    std::array::from_fn(|slot| inputs.get(slot).copied().flatten())
}

impl Emitter<'_> {
    fn inputs(&mut self) -> Result<(), PassError> {
        for &value in &self.program.inputs {
            let shape = self.program.values[value].shape.clone();
            let view = self.allocate(&shape, &row_major(shape.len()));
            let port = self.port(value, &view)?;
            self.out.inputs.push(port);
            self.views[value] = Some(view);
        }
        Ok(())
    }

    /// Outputs are in buffers of their own, row-major; values that lie otherwise are copied there.
    fn outputs(&mut self) -> Result<(), PassError> {
        for &value in &self.program.outputs {
            let name = self.program.values[value].name.clone();
            let view = self.view(&name, value)?;
            let (shape, order) = (view.shape(), row_major(view.axes.len()));
            let whole = View::contiguous(view.buffer, &shape, &order);
            let ports = self.out.inputs.iter().chain(&self.out.outputs);
            let taken = ports.into_iter().any(|(_, port)| port.buffer as usize == view.buffer);
            let alone = self.out.buffers[view.buffer] == view.elements();
            let view = if view == whole && alone && !taken {
                view
            } else {
                let target = self.allocate(&shape, &order);
                self.copy(&name, &view, &target, None)?;
                target
            };
            let port = self.port(value, &view)?;
            self.out.outputs.push(port);
        }
        Ok(())
    }

    fn port(&self, value: ValueId, view: &View) -> Result<(Port, Tensor), PassError> {
        let value = &self.program.values[value];
        let port = Port {
            name: value.name.clone(),
            tensor: 0,
            kind: value.kind,
            shape: value.shape.clone(),
        };
        Ok((port, covering(&value.name, view)?))
    }

    fn item(&mut self, item: &Item) -> Result<(), PassError> {
        let name = item.name.as_str();
        if let Work::Fill { value } = item.work {
            return self.fill(name, item.outputs[0], value);
        }
        let (x, y) = (item.inputs[0], item.outputs[0]);
        match &item.work {
            Work::Conv { window, linear, depthwise } => self.conv(item, window, linear, *depthwise),
            Work::Rows { linear } => self.rows(item, linear),
            Work::Pool { average, window, count_include_pad } => {
                self.pool(item, window, *average, *count_include_pad)
            }
            Work::Lrn { params } => self.lrn(item, params),
            Work::Unary => {
                let order = self.view(name, x)?.order();
                self.simple(item, OpKind::Unary, &order, [0; 24])
            }
            Work::Softmax { axis } => {
                let mut order = self.view(name, x)?.order();
                order.retain(|other| other != axis);
                order.push(*axis);
                self.simple(item, OpKind::Softmax, &order, [0; 24])
            }
            Work::LayerNorm { epsilon, about_zero, scale, shift } => {
                let params =
                    LayerNormParams { epsilon: *epsilon, about_zero: (*about_zero).into() };
                self.layer_norm(item, params, scale, shift)
            }
            Work::Gather { linear } => self.gather(item, linear),
            Work::Take { indices } => self.take(item, indices.as_ref()),
            Work::Binary { op } => self.binary(item, *op),
            Work::Words { op } => self.words(item, *op),
            Work::Where => self.choose(item),
            Work::Fold { op, axes, keep, last } => self.fold(item, *op, axes, *keep, *last),
            Work::Order { largest, integers } => self.order(item, *largest, *integers),
            Work::Suppress(suppression) => self.suppress(item, suppression),
            Work::Scatter { op } => self.scatter(item, *op),
            Work::MatMul { scale } => self.mat_mul(item, *scale),
            Work::Reduce { op, axes, keep } => self.reduce(item, *op, axes, *keep),
            Work::Concat { axis } => self.concat(item, *axis),
            Work::Recurrent { recurrence, weights, biases, peepholes } => {
                let constants = [Some(weights), biases.as_ref(), peepholes.as_ref()];
                self.recurrent(item, recurrence, constants)
            }
            Work::GridSample(sampling) => self.grid_sample(item, *sampling),
            Work::Resample(resampling) => self.resample(item, resampling),
            Work::Pad { begin, value, .. } => self.pad(item, begin, *value),
            Work::Split { axis, sizes } => self.split(item, *axis, sizes),
            Work::Slice { starts, steps } => {
                let shape = self.program.values[y].shape.clone();
                self.alias(name, x, y, |view| {
                    let mut view = view.clone();
                    for (axis, &extent) in shape.iter().enumerate() {
                        view = view.slice(axis, starts[axis], steps[axis], extent)?;
                    }
                    Some(view)
                })
            }
            Work::Reshape => {
                let shape = self.program.values[y].shape.clone();
                self.alias(name, x, y, |view| view.reshape(&shape))
            }
            Work::Expand => {
                let shape = self.program.values[y].shape.clone();
                self.alias(name, x, y, |view| Some(view.expand(&shape)))
            }
            Work::Transpose { perm } => self.alias(name, x, y, |view| Some(view.transpose(perm))),
            Work::Fill { .. } => Ok(()),
        }
    }

    /// Refuses what no kernel of a GPU computes.
    pub(super) fn refuse_gpu(&self, node: &str, what: &str) -> Result<(), PassError> {
        match self.isa {
            Isa::Cuda => Err(PassError::Unsupported {
                node: node.into(),
                what: format!("GPUs do not compute {what}"),
                hint: "plan for a board without a GPU, or cut the model here",
            }),
            _ => Ok(()),
        }
    }

    /// One input, one output, in the same memory order.
    pub fn simple(
        &mut self,
        item: &Item,
        kind: OpKind,
        order: &[usize],
        params: [u32; 24],
    ) -> Result<(), PassError> {
        let input = self.operand(&item.name, item.inputs[0], order)?;
        let output = self.place(&item.name, item.outputs[0], order)?;
        self.layer(item, kind, [Some(input)], output, params, Weights::None)
    }

    pub fn is_gpu(&self) -> bool {
        self.isa == Isa::Cuda
    }

    /// A layer that makes the squares of a tensor.
    pub fn squares(&mut self, item: &Item, input: Tensor, output: Tensor) {
        let params = BinaryParams { op: BinaryOp::Mul as u32, ..BinaryParams::default() };
        self.out.layers.push(Draft {
            name: format!("{}.squares", item.name),
            kind: OpKind::Binary,
            inputs: slots([Some(input); 2]),
            output,
            activation: Activation::NONE,
            params: pack::params_words(&params),
            weights: Weights::None,
            panels: 0,
            panel_bytes: 0,
            encoding: Encoding::F32,
            width: 0,
        });
    }

    /// Refuses what GPUs do not compute.
    fn check_gpu(&self, item: &Item, params: &[u32; 24], kind: OpKind) -> Result<(), PassError> {
        let function = item.activation.function().filter(|function| function.is_wide());
        let op = BinaryOp::from_code(params[0]).filter(|op| op.is_wide());
        let fold = ReduceOp::from_code(params[3]).filter(|op| !op.on_gpu());
        let what = match (function, op) {
            _ if self.isa != Isa::Cuda => return Ok(()),
            _ if matches!(kind, OpKind::Take | OpKind::Scatter) => {
                "rows by indices into what is computed".into()
            }
            _ if matches!(kind, OpKind::TopK | OpKind::Suppress) => "orders of elements".into(),
            (Some(function), _) => format!("{function:?}"),
            (None, Some(op)) if kind == OpKind::Binary => format!("{op:?}"),
            _ if matches!(kind, OpKind::Where | OpKind::Integer | OpKind::Fold) => {
                "integers and truth values".into()
            }
            _ => match fold {
                Some(fold) if kind == OpKind::Reduce => format!("the reduction {fold:?}"),
                _ => return Ok(()),
            },
        };
        Err(PassError::Unsupported {
            node: item.name.clone(),
            what: format!("GPUs do not compute {what}"),
            hint: "plan for a board without one, or compute this node outside of the model",
        })
    }

    /// Appends a layer; how its weights divide into panels follows from the recipe.
    pub fn layer<const N: usize>(
        &mut self,
        item: &Item,
        kind: OpKind,
        inputs: [Option<Tensor>; N],
        output: Tensor,
        params: [u32; 24],
        weights: Weights,
    ) -> Result<(), PassError> {
        self.check_gpu(item, &params, kind)?;
        let encoding = weights::encoding(&weights, Encoding::F32, self.isa);
        let Panels { count, bytes, width } = weights::panels(&weights, self.isa.panel(), encoding);
        self.out.layers.push(Draft {
            panels: field(&item.name, "the number of panels", count)?,
            panel_bytes: field(&item.name, "the bytes of a panel", bytes)?,
            width: width as u32,
            encoding,
            name: item.name.clone(),
            kind,
            inputs: slots(inputs),
            output,
            activation: item.activation,
            params,
            weights,
        });
        Ok(())
    }
}

pub(super) fn too_scattered(node: &str, dims: usize) -> PassError {
    PassError::Unsupported {
        node: node.into(),
        what: match dims {
            0 => "its input lies in strides that no copy can follow".into(),
            dims => format!("a copy of {dims} dimensions, but the pack format has 6"),
        },
        hint: "split the reshapes and transposes before it into smaller ones",
    }
}
