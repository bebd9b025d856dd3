//! Layers: what each computes, of what, in which shape, and how many numbers it has in the file of
//! weights.

use crate::graph::{Op, Window};

/// Channels, height, width.
pub(super) type Shape = [usize; 3];

/// A network.
#[derive(Debug)]
pub(super) struct Layers {
    /// Of the image.
    pub input: Shape,
    pub layers: Vec<Layer>,
    pub notes: Vec<String>,
}

/// A layer.
#[derive(Debug)]
pub(super) struct Layer {
    pub line: usize,
    /// The section's name, and its number as Darknet counts: from 0, without `[net]`.
    pub name: String,
    pub kind: Kind,
    /// 0 is the image, n + 1 what layer n makes.
    pub inputs: Vec<usize>,
    pub shape: Shape,
    /// In the file of weights.
    pub numbers: usize,
}

/// What a layer computes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Convolution {
        window: Window,
        groups: usize,
        norm: bool,
        activation: Option<Op>,
    },
    Connected {
        norm: bool,
        activation: Option<Op>,
    },
    /// The sum of its inputs, where they overlap.
    Shortcut {
        activation: Option<Op>,
    },
    /// The inputs one after the other, of each one group of its channels.
    Route {
        groups: usize,
        group: usize,
    },
    MaxPool(Window),
    /// Of each element a square of this side.
    Upsample(usize),
    Average,
    Softmax {
        groups: usize,
    },
    /// Squares of this side become channels, or the reverse.
    Reorg {
        stride: usize,
        reverse: bool,
    },
    Activation(Option<Op>),
    /// The second input times the first.
    Product {
        activation: Option<Op>,
    },
    /// The input as it is.
    Same,
    /// An output of the network, not decoded.
    Head,
}

impl Layers {
    /// How many numbers the layers have together.
    pub fn numbers(&self) -> usize {
        self.layers.iter().map(|layer| layer.numbers).fold(0, usize::saturating_add)
    }

    /// The shape of an input of a layer.
    pub fn shape(&self, value: usize) -> Shape {
        match value.checked_sub(1) {
            None => self.input,
            Some(layer) => self.layers[layer].shape,
        }
    }

    /// The layers that are the network's outputs: all heads, or else the last one.
    pub fn outputs(&self) -> Vec<usize> {
        let head = |&at: &usize| self.layers[at].kind == Kind::Head;
        let heads: Vec<usize> = (0..self.layers.len()).filter(head).collect();
        match heads.is_empty() {
            true => vec![self.layers.len() - 1],
            false => heads,
        }
    }
}
