//! Cutting layers into slices, and slices into loads.
//!
//! A slice is a run of output-channel panels of one layer (FlexNN's weight slicing, in multiples of a
//! panel instead of multiples of 8): one step computes it. A load is one contiguous read. Large layers
//! have many slices with a load each; small layers that follow one another share a load.

use crate::network::Network;
use crate::plan::step_weights;
use crate::slide::{self, Group};
use eyelet::pack::{OpKind, PAGE, Step};
use std::collections::HashMap;

/// A load before it has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// First byte in the weights section, a multiple of the page.
    pub offset: u64,
    /// Bytes, a multiple of the page.
    pub bytes: u64,
    /// Indices of the first and the last step that use it (0 is the first after the host's).
    pub first: usize,
    pub last: usize,
}

/// A network cut for one limit: steps without addresses, and what they read.
#[derive(Clone, Debug)]
pub struct Slices {
    pub steps: Vec<Step>,
    pub reads: Vec<Read>,
    /// For each step its read.
    pub read_of: Vec<Option<usize>>,
    /// For each buffer the lines of its ring; 0 if it is whole.
    pub rings: Vec<u32>,
}

/// How finely a network is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutting {
    /// Most bytes of a slice (but it has at least one panel).
    pub slice: u64,
    /// Most bytes of a load that serves several slices.
    pub read: u64,
}

impl Cutting {
    /// Slices and loads of the same most bytes.
    pub fn equal(limit: u64) -> Self {
        Self { slice: limit, read: limit }
    }

    /// One slice a layer, one load a layer.
    pub const LAYERS: Self = Self { slice: u64::MAX, read: 1 };
}

/// Cuts every layer into slices, as even as possible, lets groups slide, and joins neighbours into loads.
pub fn slice(network: &Network, cutting: Cutting, groups: &[Group]) -> Slices {
    let mut steps = Vec::new();
    for (index, layer) in network.layers.iter().enumerate() {
        let output = &network.tensors[layer.output as usize];
        let step = Step {
            layer: index as u32,
            rows: output.rows() as u32,
            count: layer.panels,
            ..Step::default()
        };
        if !OpKind::from_code(layer.kind).is_some_and(OpKind::has_panels) {
            steps.push(step);
            continue;
        }
        let most =
            (cutting.slice / u64::from(layer.panel_bytes)).clamp(1, layer.panels.into()) as u32;
        let slices = layer.panels.div_ceil(most);
        let at = |i: u32| (u64::from(layer.panels) * u64::from(i) / u64::from(slices)) as u32;
        for i in 0..slices {
            steps.push(Step { first: at(i), count: at(i + 1) - at(i), ..step });
        }
    }
    let (steps, rings) = slide::interleave(network, groups, steps);
    let (reads, read_of) = join(network, &steps, groups, cutting.read);
    Slices { steps, reads, read_of, rings }
}

/// Small layers of a group share loads of up to this many bytes: all are there until it is done.
const GROUP_READ: u64 = 64 << 10;

/// Joins weights into reads, in the order in which they are used first.
fn join(
    network: &Network,
    steps: &[Step],
    groups: &[Group],
    limit: u64,
) -> (Vec<Read>, Vec<Option<usize>>) {
    let group_of =
        |step: &Step| groups.iter().position(|group| group.layers.contains(&(step.layer as usize)));
    let mut reads: Vec<Read> = Vec::new();
    let mut read_of = vec![None; steps.len()];
    // The reads of slices that are used again later, and the group of the last step that opened one.
    let mut known: HashMap<(u32, u32), usize> = HashMap::new();
    let mut last_group = None;
    for (index, step) in steps.iter().enumerate() {
        let weights = step_weights(network, step);
        if weights.is_empty() {
            continue;
        }
        let group = group_of(step);
        let slice = (step.layer, step.first);
        if let Some(&read) = known.get(&slice).filter(|_| group.is_some()) {
            reads[read].last = index;
            read_of[index] = Some(read);
            continue;
        }
        let start = weights.start / PAGE * PAGE;
        let end = weights.end.next_multiple_of(PAGE);
        let together = group.is_some() && group == last_group;
        let limit = if together { limit.max(GROUP_READ) } else { limit };
        match reads.last_mut() {
            Some(read) if start >= read.offset && end - read.offset <= limit => {
                read.bytes = read.bytes.max(end - read.offset);
                read.last = index;
            }
            _ => reads.push(Read { offset: start, bytes: end - start, first: index, last: index }),
        }
        last_group = group;
        read_of[index] = Some(reads.len() - 1);
        known.insert(slice, reads.len() - 1);
    }
    (reads, read_of)
}
