//! Which layers each layer reads from: the arrows of the graph that the page draws.

use eyelet::pack::{NONE, Tensor};
use eyelet_planner::network::Network;

/// The part of a buffer that a tensor covers: its floats from the first row to the last, and its
/// columns in rows of its pitch.
#[derive(Clone, Copy)]
struct Part {
    floats: (u64, u64),
    pitch: u64,
    columns: (u64, u64),
}

impl Part {
    fn of(tensor: &Tensor) -> Self {
        let (offset, pitch) = (u64::from(tensor.offset), u64::from(tensor.pitch).max(1));
        let length = tensor.rows().saturating_sub(1) * pitch + u64::from(tensor.cols());
        let column = offset % pitch;
        Self {
            floats: (offset, offset + length),
            pitch,
            columns: (column, column + u64::from(tensor.cols())),
        }
    }

    /// Whether both may have a float in common.
    fn meets(&self, other: &Self) -> bool {
        let meets = |a: (u64, u64), b: (u64, u64)| a.0 < b.1 && b.0 < a.1;
        let other_rows = self.pitch != other.pitch;
        meets(self.floats, other.floats) && (other_rows || meets(self.columns, other.columns))
    }

    /// Whether it covers all of the other.
    fn covers(&self, other: &Self) -> bool {
        let covers = |a: (u64, u64), b: (u64, u64)| a.0 <= b.0 && b.1 <= a.1;
        let whole_rows = self.columns.1 - self.columns.0 == self.pitch;
        covers(self.floats, other.floats)
            && (whole_rows || self.pitch == other.pitch && covers(self.columns, other.columns))
    }
}

/// For each layer those whose outputs it reads, in ascending order. Of several that wrote the same
/// bytes only the last counts.
pub fn sources(network: &Network) -> Vec<Vec<u32>> {
    let mut writers: Vec<Vec<(u32, Part)>> = vec![Vec::new(); network.buffers.len()];
    let mut all = Vec::with_capacity(network.layers.len());
    for (index, layer) in network.layers.iter().enumerate() {
        let mut found = Vec::new();
        for tensor in layer.inputs.iter().filter(|tensor| **tensor != NONE) {
            let tensor = &network.tensors[*tensor as usize];
            let wanted = Part::of(tensor);
            for (writer, part) in writers[tensor.buffer as usize].iter().rev() {
                if part.meets(&wanted) {
                    found.push(*writer);
                }
                if part.covers(&wanted) {
                    break;
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        all.push(found);
        let output = &network.tensors[layer.output as usize];
        writers[output.buffer as usize].push((index as u32, Part::of(output)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(offset: u32, rows: u32, cols: u32, pitch: u32) -> Part {
        Part::of(&Tensor { offset, dims: [1, 1, rows, cols], pitch, ..Tensor::default() })
    }

    #[test]
    fn parts_of_a_concatenation_are_apart() {
        // Four rows of 8 channels: the first 3 and the other 5 of each.
        let (whole, left, right) = (part(0, 4, 8, 8), part(0, 4, 3, 8), part(3, 4, 5, 8));
        assert!(!left.meets(&right) && left.meets(&whole) && right.meets(&whole));
        assert!(whole.covers(&left) && whole.covers(&right));
        assert!(!left.covers(&whole) && !right.covers(&left));
        // Rows of it, one after the other.
        let (first, last) = (part(0, 2, 8, 8), part(16, 2, 8, 8));
        assert!(!first.meets(&last) && whole.covers(&last) && !last.covers(&whole));
        // A view of other rows may meet any of them.
        assert!(part(0, 8, 4, 4).meets(&right) && whole.covers(&part(0, 8, 4, 4)));
    }
}
