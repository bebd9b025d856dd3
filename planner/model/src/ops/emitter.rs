//! Emission: from items to layers, each with its tensors.
//!
//! Items are taken in order. Each has views of its inputs and asks for them in a memory order that its
//! layer can read; if a view is no rectangle in that order, the value is copied once (and the copy is
//! remembered). Outputs go to their home in a concatenation, or to a buffer of their own.

use super::PassError;
use super::builder::{Item, Program};
use super::view::{Rect, View, row_major};
use crate::graph::ValueId;
use crate::network::{Port, Weights};
use crate::weights::{self, Panels};
use eyelet::kernels::Isa;
use eyelet::pack::{self, Activation, Element, Encoding, INPUTS, OpKind, Tensor};
use std::collections::HashMap;

/// Floats in a line of the cache.
const LINE: usize = 16;

/// Gaps take at most this share of a row.
const SHARE: usize = 8;

/// Floats from one row of `cols` to the next.
pub(crate) fn pitch(cols: usize) -> usize {
    let whole = cols.next_multiple_of(LINE);
    if whole - cols <= cols / SHARE { whole } else { cols }
}

/// Where a value is a part of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// The concatenation's output.
    pub parent: ValueId,
    pub axis: usize,
    /// First element along the axis.
    pub start: usize,
}

/// A layer whose tensors are spelled out.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
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

impl Draft {
    /// A layer without weights.
    pub fn new(
        name: String,
        kind: OpKind,
        inputs: [Option<Tensor>; INPUTS],
        output: Tensor,
        params: [u32; 24],
    ) -> Self {
        Self {
            name,
            kind,
            inputs,
            output,
            activation: Activation::NONE,
            params,
            weights: Weights::None,
            panels: 0,
            panel_bytes: 0,
            encoding: Encoding::F32,
            width: 0,
        }
    }
}

/// All layers, over buffers that do not share memory yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Drafts {
    /// Sizes of the buffers in floats.
    pub buffers: Vec<usize>,
    pub layers: Vec<Draft>,
    /// Tensors of the inputs and outputs; their ports' tensor indices are not valid yet.
    pub inputs: Vec<(Port, Tensor)>,
    pub outputs: Vec<(Port, Tensor)>,
    /// Buffers whose layers do not say what their elements are: these choose among constants.
    pub chosen: HashMap<u32, Element>,
}

pub(crate) struct Emitter<'a> {
    pub program: &'a Program,
    pub(crate) homes: &'a [Option<Home>],
    pub(crate) gaps: Vec<bool>,
    pub(crate) isa: Isa,
    pub(crate) views: Vec<Option<View>>,
    /// Where concatenations will be, once one of their operands has been placed.
    pub reserved: Vec<Option<View>>,
    /// Copies of values in other memory orders.
    pub(crate) copies: HashMap<(ValueId, Vec<usize>), View>,
    pub(crate) out: Drafts,
}

/// Emits the layers of a program.
pub(crate) fn emit(
    program: &Program,
    homes: &[Option<Home>],
    gaps: Vec<bool>,
    isa: Isa,
) -> Result<Drafts, PassError> {
    let count = program.values.len();
    let mut emitter = Emitter {
        program,
        homes,
        gaps,
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
pub(crate) fn field(node: &str, what: &'static str, value: usize) -> Result<u32, PassError> {
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

/// The record of a rectangle.
pub(crate) fn tensor(node: &str, rect: Rect) -> Result<Tensor, PassError> {
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

/// The extents of a tensor as fields of a record.
pub(crate) fn fields(node: &str, dims: [usize; 4]) -> Result<[u32; 4], PassError> {
    let whole = Rect { buffer: 0, offset: 0, dims, pitch: dims[3] };
    Ok(tensor(node, whole)?.dims)
}

/// Numbers down and across as fields of a record.
pub(crate) fn words(pair: [usize; 2]) -> [u32; 2] {
    pair.map(|value| u32::try_from(value).unwrap_or(u32::MAX))
}

/// The tensor of a view in its own order; where it is no rectangle, the one row that spans it.
pub(crate) fn covering(node: &str, view: &View) -> Result<Tensor, PassError> {
    let span = view.span();
    let row = Rect { buffer: view.buffer, offset: view.offset, dims: [1, 1, 1, span], pitch: span };
    tensor(node, view.rect(&view.order()).unwrap_or(row))
}

/// Inputs, and behind them none.
pub(crate) fn slots<const N: usize>(inputs: [Option<Tensor>; N]) -> [Option<Tensor>; INPUTS] {
    const { assert!(N <= INPUTS) };
    std::array::from_fn(|slot| inputs.get(slot).copied().flatten())
}

/// An error of a value that no copy brings into place, of so many dimensions if they are too many.
pub(crate) fn too_scattered(node: &str, dims: usize) -> PassError {
    PassError::Unsupported {
        node: node.into(),
        what: match dims {
            0 => "its input lies in strides that no copy can follow".into(),
            dims => format!("a copy of {dims} dimensions, but the pack format has 6"),
        },
        hint: "split the reshapes and transposes before it into smaller ones",
    }
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

    /// Appends the layers of an item.
    fn item(&mut self, item: &Item) -> Result<(), PassError> {
        item.work.operation().emit(self, item)
    }

    /// Refuses what no kernel of a GPU computes.
    pub(crate) fn refuse_gpu(&self, node: &str, what: &str) -> Result<(), PassError> {
        match self.isa {
            Isa::Cuda => Err(PassError::Unsupported {
                node: node.into(),
                what: format!("GPUs do not compute {what}"),
                hint: "plan for a board without a GPU, or cut the model here",
            }),
            _ => Ok(()),
        }
    }

    pub fn is_gpu(&self) -> bool {
        self.isa == Isa::Cuda
    }

    /// Refuses what GPUs do not compute.
    fn check_gpu(&self, item: &Item) -> Result<(), PassError> {
        let function = item.activation.function().filter(|function| function.is_wide());
        let function = function.map(|function| format!("{function:?}"));
        let refused = item.work.operation().beyond_gpus().or(function);
        match refused.filter(|_| self.is_gpu()) {
            None => Ok(()),
            Some(what) => Err(PassError::Unsupported {
                node: item.name.clone(),
                what: format!("GPUs do not compute {what}"),
                hint: "plan for a board without one, or compute this node outside of the model",
            }),
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
        self.check_gpu(item)?;
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
