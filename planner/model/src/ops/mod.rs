//! The operators of layers: a file for each has what this half of eyelet knows of it.
//!
//! That is how a node of the graph becomes an item (`impl Builder`), how an item becomes a layer
//! (`Operation`), what planners ask of a layer (`Operator`, a `ROW` in each file), and what the
//! operator computes, in double precision (with `exact`). Operators that are no layers of their own
//! are here, too: what moves nothing (`views`), concatenation, padding, group normalisation.
//!
//! `builder` has the items under construction, `emitter` the layers, `values` and `view` where values
//! lie. The passes go through nodes and items, and name operators only to dispatch.

pub(crate) mod binary;
mod broadcast;
pub(crate) mod builder;
pub(crate) mod concat;
pub mod conv;
pub(crate) mod copy;
pub(crate) mod depthwise;
pub(crate) mod emitter;
mod error;
pub(crate) mod exact;
pub(crate) mod fold;
pub(crate) mod gather;
pub(crate) mod grid_sample;
pub(crate) mod group_norm;
pub(crate) mod integer;
pub(crate) mod layernorm;
mod linear;
pub(crate) mod lookup;
pub(crate) mod lrn;
pub(crate) mod matmul;
pub(crate) mod pad;
pub(crate) mod pool;
pub(crate) mod recurrent;
pub(crate) mod reduce;
pub(crate) mod resample;
pub(crate) mod scatter;
pub(crate) mod select;
pub(crate) mod softmax;
pub(crate) mod suppress;
pub(crate) mod take;
pub(crate) mod top_k;
pub(crate) mod unary;
mod values;
pub(crate) mod view;
pub(crate) mod views;
pub mod winograd;

pub use error::PassError;

use crate::graph::{Resampling, Sampling, Suppression};
use crate::network::Network;
use builder::Item;
use emitter::Emitter;
use eyelet::pack::{Layer, OpKind, ResampleParams};
use linear::Linear;

/// What GPUs do not compute, as errors say it.
const INTEGERS: &str = "integers and truth values";
const BY_INDICES: &str = "rows by indices into what is computed";
const ORDERS: &str = "orders of elements";

/// What an item does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Binary(binary::Binary),
    Concat(concat::Concat),
    Conv(conv::Conv),
    Expand,
    Fill(copy::Fill),
    Fold(fold::Fold),
    Gather(gather::Gather),
    GridSample(Sampling),
    LayerNorm(layernorm::LayerNorm),
    Lrn(lrn::Lrn),
    MatMul(matmul::MatMul),
    Order(top_k::Order),
    Pad(pad::Pad),
    Pool(pool::Pool),
    Recurrent(recurrent::Recurrent),
    Reduce(reduce::Reduce),
    Resample(Resampling),
    Reshape,
    Rows(conv::Rows),
    Scatter(scatter::Scatter),
    Slice(views::Slice),
    Softmax(softmax::Softmax),
    Split(views::Split),
    Suppress(Suppression),
    Take(take::Take),
    Transpose(views::Transpose),
    Unary,
    Where,
    Words(integer::Words),
}

/// How an item becomes layers, and what passes ask of it.
pub(crate) trait Operation {
    /// Appends the item's layers, and places its outputs.
    fn emit(&self, emitter: &mut Emitter<'_>, item: &Item) -> Result<(), PassError>;

    /// Whether an activation can be applied to the result.
    fn takes_activation(&self) -> bool {
        false
    }

    /// Whether another value can be added to the result, before the activation.
    fn takes_residual(&self) -> bool {
        false
    }

    /// Whether the result can be written to any place: views have none, and others choose theirs.
    fn is_placeable(&self) -> bool {
        true
    }

    /// Whether it chooses among the elements of its inputs, and computes none.
    fn moves(&self) -> bool {
        false
    }

    /// Constants that it takes as operands, at most.
    fn constants(&self) -> usize {
        0
    }

    /// What of it no kernel of a GPU computes.
    fn beyond_gpus(&self) -> Option<String> {
        None
    }
}

impl Work {
    /// What there is to ask of it.
    pub(crate) fn operation(&self) -> &dyn Operation {
        match self {
            Work::Binary(work) => work,
            Work::Concat(work) => work,
            Work::Conv(work) => work,
            Work::Expand => &views::Expand,
            Work::Fill(work) => work,
            Work::Fold(work) => work,
            Work::Gather(work) => work,
            Work::GridSample(work) => work,
            Work::LayerNorm(work) => work,
            Work::Lrn(work) => work,
            Work::MatMul(work) => work,
            Work::Order(work) => work,
            Work::Pad(work) => work,
            Work::Pool(work) => work,
            Work::Recurrent(work) => work,
            Work::Reduce(work) => work,
            Work::Resample(work) => work,
            Work::Reshape => &views::Reshape,
            Work::Rows(work) => work,
            Work::Scatter(work) => work,
            Work::Slice(work) => work,
            Work::Softmax(work) => work,
            Work::Split(work) => work,
            Work::Suppress(work) => work,
            Work::Take(work) => work,
            Work::Transpose(work) => work,
            Work::Unary => &unary::Unary,
            Work::Where => &select::Where,
            Work::Words(work) => work,
        }
    }

    /// The linear map and its channel axis among so many, if it is one.
    fn linear(&mut self, rank: usize) -> Option<(&mut Linear, usize)> {
        match self {
            Work::Conv(conv) => Some((&mut conv.linear, 1)),
            Work::Rows(rows) => Some((&mut rows.linear, rank - 1)),
            Work::Gather(gather) => Some((&mut gather.linear, rank - 1)),
            _ => None,
        }
    }
}

/// What planners ask of an operator.
#[derive(Clone, Copy)]
struct Operator {
    kind: OpKind,
    /// How a layer reads the lines of an input; `None` if its lines cannot be made one after the
    /// other.
    lines: fn(&Network, &Layer, usize) -> Option<Lines>,
    /// What a layer is called where plans are drawn.
    name: fn(&Layer) -> String,
    /// The algorithm that computes a layer, where there is a choice.
    algorithm: fn(&Layer) -> String,
    /// Whether layers with the same weights have them in one place of the pack.
    shares_weights: bool,
}

impl Operator {
    /// One that does not slide, and has no choice of algorithms.
    const fn new(kind: OpKind) -> Self {
        Self {
            kind,
            lines: |_, _, _| None,
            name: |layer| {
                OpKind::from_code(layer.kind).map_or("?".into(), |kind| format!("{kind:?}"))
            },
            algorithm: |_| String::new(),
            shares_weights: false,
        }
    }

    /// The row of a layer's operator.
    fn of(layer: &Layer) -> Option<&'static Self> {
        ROWS.get((layer.kind as usize).wrapping_sub(1))
    }
}

/// All of them, in the order of their codes.
static ROWS: [Operator; OpKind::ALL.len()] = {
    let rows = [
        conv::ROW,
        depthwise::ROW,
        pool::ROW,
        unary::ROW,
        binary::ROW,
        softmax::ROW,
        lrn::ROW,
        copy::ROW,
        matmul::ROW,
        reduce::ROW,
        winograd::ROW,
        layernorm::ROW,
        gather::ROW,
        select::ROW,
        resample::ROW,
        recurrent::ROW,
        grid_sample::ROW,
        take::ROW,
        integer::ROW,
        fold::ROW,
        top_k::ROW,
        suppress::ROW,
        scatter::ROW,
        lookup::ROW,
    ];
    let mut at = 0;
    while at < rows.len() {
        assert!(rows[at].kind as usize == at + 1, "a row that is not at its code");
        at += 1;
    }
    rows
};

/// How an operator reads the lines of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lines {
    /// Each row from the row of its number, if the input has the output's rows.
    Own,
    /// Each line from all lines.
    All,
    /// By windows down the lines.
    Window { kernel: u32, stride: u32, dilation: u32, pad: u32 },
    /// By weighted sums along an axis.
    Sums(ResampleParams),
}

impl Lines {
    /// Of windows with these extents down and across: kernel, stride, dilation, padding.
    fn window(windows: [[u32; 2]; 4]) -> Self {
        let [kernel, stride, dilation, pad] = windows.map(|[down, _]| down);
        Self::Window { kernel, stride, dilation, pad }
    }
}

/// How a layer reads the lines of one of its inputs; `None` if its lines cannot be made one after the
/// other.
pub fn lines(network: &Network, layer: usize, slot: usize) -> Option<Lines> {
    let layer = &network.layers[layer];
    (Operator::of(layer)?.lines)(network, layer, slot)
}

/// The operator of a layer, with its window: `Conv 3x3`.
pub fn name(layer: &Layer) -> String {
    Operator::of(layer).map_or("?".into(), |operator| (operator.name)(layer))
}

/// The algorithm that computes a layer, where there is a choice.
pub fn algorithm(layer: &Layer) -> String {
    Operator::of(layer).map_or(String::new(), |operator| (operator.algorithm)(layer))
}

/// Whether layers like this one with the same weights have them in one place of the pack: the times
/// of a recurrent network, and lookups in the weights of products.
pub(crate) fn shares_weights(layer: &Layer) -> bool {
    Operator::of(layer).is_some_and(|operator| operator.shares_weights)
}
