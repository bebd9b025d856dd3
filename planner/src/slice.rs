//! Cutting layers into slices, and slices into loads.
//!
//! A slice is a run of output-channel panels of one layer (FlexNN's weight slicing, in multiples of a
//! panel instead of multiples of 8): one step computes it. A load is one contiguous read. Large layers
//! have many slices with a load each; small layers that follow one another share a load.

use crate::network::Network;
use crate::plan::step_weights;
use eyelet::pack::{OpKind, PAGE, Step};

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
    /// Whether it is done once, and what was read stays.
    pub resident: bool,
}

/// A network that was cut: steps without addresses, and what they read.
#[derive(Clone, Debug)]
pub struct Slices {
    pub steps: Vec<Step>,
    pub reads: Vec<Read>,
    /// For each step its read.
    pub read_of: Vec<Option<usize>>,
}

/// How finely a layer is cut, and what stays of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutting {
    /// Most bytes of a slice (but it has at least one panel).
    pub slice: u64,
    /// Most bytes of a load that serves several slices, those of other layers included.
    pub read: u64,
    /// Panels that stay in the arena, from the first on.
    pub resident: u32,
    /// Most bytes of a slice of these.
    pub resident_slice: u64,
}

/// Most bytes of a load of residents that serves several slices.
const RESIDENT_READ: u64 = 4 << 20;

impl Cutting {
    /// Slices and loads of the same most bytes, nothing resident.
    pub fn equal(limit: u64) -> Self {
        Self { slice: limit, read: limit, resident: 0, resident_slice: u64::MAX }
    }

    /// One slice a layer, one load a layer.
    pub const LAYERS: Self =
        Self { slice: u64::MAX, read: 1, resident: 0, resident_slice: u64::MAX };

    /// One slice a layer, and it stays.
    pub const RESIDENT: Self = Self { resident: u32::MAX, ..Self::LAYERS };
}

/// Cuts every layer into slices, as even as possible, residents first, and joins neighbours into loads.
pub fn slice(network: &Network, cutting: impl Fn(usize) -> Cutting) -> Slices {
    let mut steps = Vec::new();
    let mut resident = Vec::new();
    for (index, layer) in network.layers.iter().enumerate() {
        let output = &network.tensors[layer.output as usize];
        let step = Step {
            layer: index as u32,
            rows: output.rows() as u32,
            count: layer.panels,
            algorithm: network.on_load[index],
            ..Step::default()
        };
        let cutting = cutting(index);
        if !OpKind::from_code(layer.kind).is_some_and(OpKind::has_panels) {
            steps.push(step);
            resident.push(cutting.resident > 0);
            continue;
        }
        let stay = cutting.resident.min(layer.panels);
        for (first, count, limit) in
            [(0, stay, cutting.resident_slice), (stay, layer.panels - stay, cutting.slice)]
        {
            if count == 0 {
                continue;
            }
            let most = (limit / u64::from(layer.panel_bytes)).clamp(1, count.into()) as u32;
            let slices = count.div_ceil(most);
            let at = |i: u32| (u64::from(count) * u64::from(i) / u64::from(slices)) as u32;
            for i in 0..slices {
                steps.push(Step { first: first + at(i), count: at(i + 1) - at(i), ..step });
                resident.push(first < stay);
            }
        }
    }
    let limit = |step: usize| match resident[step] {
        true => RESIDENT_READ,
        false => cutting(steps[step].layer as usize).read,
    };
    let (reads, read_of) = join(network, &steps, &resident, limit);
    Slices { steps, reads, read_of }
}

/// Joins the weights of consecutive steps into reads.
fn join(
    network: &Network,
    steps: &[Step],
    resident: &[bool],
    limit: impl Fn(usize) -> u64,
) -> (Vec<Read>, Vec<Option<usize>>) {
    let mut reads: Vec<Read> = Vec::new();
    let mut read_of = vec![None; steps.len()];
    // The least limit of all that the last read serves.
    let mut most = 0;
    for (index, step) in steps.iter().enumerate() {
        let weights = step_weights(network, step);
        if weights.is_empty() {
            continue;
        }
        let start = weights.start / PAGE * PAGE;
        let end = weights.end.next_multiple_of(PAGE);
        let resident = resident[index];
        match reads.last_mut() {
            Some(read)
                if read.resident == resident && end - read.offset <= most.min(limit(index)) =>
            {
                read.bytes = read.bytes.max(end - read.offset);
                read.last = index;
                most = most.min(limit(index));
            }
            _ => {
                let (offset, bytes) = (start, end - start);
                reads.push(Read { offset, bytes, first: index, last: index, resident });
                most = limit(index);
            }
        }
        read_of[index] = Some(reads.len() - 1);
    }
    (reads, read_of)
}
