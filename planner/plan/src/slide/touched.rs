//! The lines of images that a step of a sliding layer must have.

use super::group::Facts;
use super::window::Window;
use eyelet_model::network::Network;

/// An image that a layer reads, or the one that it makes.
#[derive(Clone, Copy, Debug)]
pub struct Touched {
    pub buffer: usize,
    window: Window,
    /// Lines of the layer's output.
    made: u32,
    /// Bytes of a line.
    line: u64,
}

impl Touched {
    /// The fewest bytes that a step of `lines` lines touches. Nothing else may be written there.
    pub fn bytes(&self, lines: u32) -> u64 {
        u64::from(self.window.fewest(lines, self.made)).saturating_mul(self.line)
    }
}

/// For each layer that slides what it touches of buffers whose lines are known; `None` for all
/// others.
pub fn touched(network: &Network) -> Vec<Option<Vec<Touched>>> {
    let facts = Facts::new(network);
    let of_layer = |layer: usize| {
        let output = facts.output(layer);
        let made = output.dims[1];
        let operands = facts.operands[layer].as_ref()?;
        let read = operands.iter().map(|operand| {
            let tensor = &network.tensors[operand.tensor as usize];
            (tensor, operand.window)
        });
        let all = read.chain([(output, Window::same(made))]);
        let all = all.filter(|(tensor, _)| facts.users(tensor.buffer as usize).is_some());
        let touched = all.map(|(tensor, window)| {
            let line = 4 * u64::from(tensor.dims[2]) * u64::from(tensor.pitch);
            Touched { buffer: tensor.buffer as usize, window, made, line }
        });
        Some(touched.collect())
    };
    (0..network.layers.len()).map(of_layer).collect()
}
