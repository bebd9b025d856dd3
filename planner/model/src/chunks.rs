//! What a GPU's memory wastes when it is handed out in physical chunks.
//!
//! Memory that can be mapped and unmapped (`cuMemCreate`, `cuMemMap`) comes in multiples of a granularity, 2 MiB on
//! the GPUs there are. A framework allocates tensor by tensor; were each such *object* given chunks of its own, the
//! many that are smaller than that would take 2 MiB each. A network in one range of addresses, backed by chunks of one
//! size, wastes less than one chunk, whatever its objects (RT-Swap, Table II).
//!
//! [`of_graph`] lists the objects that a framework would make of a model, [`of_records`] those of a network as eyelet
//! lays it out; [`Objects::new`] counts them, [`cover`] covers a range with chunks.

use crate::graph::{Graph, Op};
use eyelet::pack::{Buffer, Layer};
use serde::Serialize;

/// What physical memory comes in multiples of on NVIDIA's GPUs so far. A driver tells its own
/// (`cuMemGetAllocationGranularity`).
pub const GRANULARITY: u64 = 2 << 20;

/// What `cudaMalloc` aligns objects to, and so what they are laid out to in one range.
pub const ALIGNMENT: u64 = 256;

/// Sizes of chunks worth a look: from the granularity to where a copy takes long enough to be interrupted.
pub fn sizes() -> impl Iterator<Item = u64> {
    (1..=8).map(|power| 1 << (20 + power))
}

/// The objects of a model in a framework, in bytes: every constant that an operator reads, every value that is
/// computed, and the inputs. What frameworks make as a view of another value takes nothing. Nothing is fused, nothing
/// computed in place, no memory used again: those are choices that differ from framework to framework.
pub fn of_graph(graph: &Graph) -> Vec<u64> {
    let mut object = vec![false; graph.values.len()];
    graph.inputs.iter().for_each(|&input| object[input] = true);
    for node in &graph.nodes {
        for &input in node.inputs.iter().flatten() {
            object[input] |= graph.values[input].constant.is_some();
        }
        let view = matches!(
            node.op,
            Op::Reshape | Op::Transpose { .. } | Op::Slice { .. } | Op::Split { .. } | Op::Expand
        );
        node.outputs.iter().for_each(|&output| object[output] |= !view);
    }
    let values = graph.values.iter().zip(&object).filter(|(_, object)| **object);
    values.map(|(value, _)| 4 * value.elements() as u64).filter(|bytes| *bytes > 0).collect()
}

/// The objects of a network as eyelet lays it out: its buffers, and each layer's packed weights.
pub fn of_records(
    buffers: impl Iterator<Item = Buffer>,
    layers: impl Iterator<Item = Layer>,
) -> Vec<u64> {
    let weights = layers.map(|layer| u64::from(layer.panels) * u64::from(layer.panel_bytes));
    let buffers = buffers.map(|buffer| buffer.bytes);
    buffers.chain(weights).filter(|bytes| *bytes > 0).collect()
}

/// Objects, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Objects {
    /// Objects smaller than the granularity.
    pub small: usize,
    /// The others.
    pub large: usize,
    /// Bytes of all.
    pub bytes: u64,
    /// Bytes that they take with chunks of their own, each rounded up to the granularity.
    pub apart_bytes: u64,
    /// Bytes of one range that holds them one after the other, aligned to [`ALIGNMENT`].
    pub range_bytes: u64,
}

impl Objects {
    /// Counts objects of these bytes.
    pub fn new(objects: &[u64], granularity: u64) -> Self {
        let small = objects.iter().filter(|bytes| **bytes < granularity).count();
        Self {
            small,
            large: objects.len() - small,
            bytes: objects.iter().sum(),
            apart_bytes: objects.iter().map(|bytes| bytes.next_multiple_of(granularity)).sum(),
            range_bytes: objects.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum(),
        }
    }
}

/// A range covered with chunks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cover {
    pub chunk_bytes: u64,
    pub chunks: u64,
    /// Bytes of the chunks that the range leaves empty.
    pub waste_bytes: u64,
}

/// Covers a range of so many bytes with chunks of that size.
pub fn cover(range_bytes: u64, chunk_bytes: u64) -> Cover {
    let chunks = range_bytes.div_ceil(chunk_bytes);
    Cover { chunk_bytes, chunks, waste_bytes: chunks * chunk_bytes - range_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::import_bytes;
    use crate::zoo;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_sizes_are_the_papers() {
        let sizes: Vec<u64> = sizes().map(|bytes| bytes / MIB).collect();
        assert_eq!(sizes, [2, 4, 8, 16, 32, 64, 128, 256]);
    }

    #[test]
    fn a_few_objects_by_hand() {
        let objects = Objects::new(&[1, 256, 2 * MIB, 2 * MIB + 1], GRANULARITY);
        assert_eq!((objects.small, objects.large), (2, 2));
        assert_eq!(objects.bytes, 4 * MIB + 258);
        assert_eq!(objects.apart_bytes, 10 * MIB);
        assert_eq!(objects.range_bytes, 4 * MIB + 3 * 256);
        let covered = cover(objects.range_bytes, 4 * MIB);
        assert_eq!((covered.chunks, covered.waste_bytes), (2, 4 * MIB - 768));
        assert_eq!(cover(0, 4 * MIB).chunks, 0);
    }

    /// A model of three operators, one of which only looks at its input: 1x2x4x4 through a 1x1 convolution to 3
    /// channels, a clip, a reshape.
    #[test]
    fn views_take_nothing() {
        use crate::graph::{Constant, Node, Value, Window};
        use std::sync::Arc;
        let value = |shape: &[usize], data: bool| Value {
            kind: Default::default(),
            name: String::new(),
            shape: shape.to_vec(),
            constant: data.then(|| Constant::Owned(Arc::new(vec![0.0; shape.iter().product()]))),
        };
        let window = Window {
            kernel: [1, 1],
            stride: [1, 1],
            dilation: [1, 1],
            pad_begin: [0, 0],
            pad_end: [0, 0],
        };
        let node = |op, inputs: &[usize], output| Node {
            name: String::new(),
            op,
            inputs: inputs.iter().map(|id| Some(*id)).collect(),
            outputs: vec![output],
        };
        let graph = Graph {
            name: String::new(),
            notes: vec![],
            values: vec![
                value(&[1, 2, 4, 4], false),
                value(&[3, 2, 1, 1], true),
                value(&[1, 3, 4, 4], false),
                value(&[1, 3, 4, 4], false),
                value(&[1, 48], false),
                // Nobody reads this one.
                value(&[1000], true),
            ],
            nodes: vec![
                node(Op::Conv { window, groups: 1 }, &[0, 1], 2),
                node(Op::Clip { min: 0.0, max: 1.0 }, &[2], 3),
                node(Op::Reshape, &[3], 4),
            ],
            inputs: vec![0],
            outputs: vec![4],
        };
        assert_eq!(of_graph(&graph), [32 * 4, 6 * 4, 48 * 4, 48 * 4]);
    }

    #[test]
    fn a_whole_network_has_its_parameters_and_values() {
        let model = zoo::model("squeezenet1_1").unwrap();
        let mut bytes = Vec::new();
        zoo::encode(&model, 1, &mut bytes).unwrap();
        let graph = import_bytes(bytes.into(), None).unwrap();
        let objects = of_graph(&graph);
        let constants = graph.values.iter().filter(|value| value.constant.is_some());
        let weights: u64 = constants.map(|value| 4 * value.elements() as u64).sum();
        assert_eq!(weights, 4 * 1_235_496);
        let total = Objects::new(&objects, GRANULARITY);
        // 26 convolutions with their biases, and at least an output of each.
        assert!(total.small + total.large >= 3 * 26, "{total:?}");
        assert!(total.bytes > weights && total.apart_bytes > 2 * total.bytes, "{total:?}");
    }

    proptest! {
        /// What the paper promises: less than a chunk, and never more than objects apart; what each object loses is
        /// less than the granularity.
        #[test]
        fn one_range_wastes_less_than_one_chunk(
            objects in prop::collection::vec(1u64..20 * MIB, 1..200),
            power in 0u32..8,
        ) {
            let total = Objects::new(&objects, GRANULARITY);
            let count = objects.len() as u64;
            prop_assert_eq!(total.small + total.large, objects.len());
            prop_assert!(total.range_bytes - total.bytes < ALIGNMENT * count);
            prop_assert!(total.apart_bytes - total.bytes < GRANULARITY * count);
            prop_assert!(total.apart_bytes >= GRANULARITY * count);
            let chunk = GRANULARITY << power;
            let covered = cover(total.range_bytes, chunk);
            prop_assert!(covered.waste_bytes < chunk);
            prop_assert_eq!(covered.chunks * chunk, total.range_bytes + covered.waste_bytes);
            // In chunks of the granularity one range never takes more than objects apart.
            let fine = cover(total.range_bytes, GRANULARITY);
            prop_assert!(fine.chunks * GRANULARITY <= total.apart_bytes);
            // Larger chunks waste no less: each is a whole number of smaller ones.
            let coarse = cover(total.range_bytes, 2 * chunk);
            prop_assert!(coarse.waste_bytes >= covered.waste_bytes);
        }
    }
}
