//! Cutting layers into slices, and slices into loads.
//!
//! A slice is a run of output-channel panels of one layer (FlexNN's weight slicing, in multiples of
//! a panel instead of multiples of 8), or a part of one panel: the weights of some chains of its
//! sums. One step computes it. A load is one contiguous read. Large layers have many slices with a
//! load each; small layers that follow one another share a load. Layers that slide
//! ([`slide`](crate::slide)) are not cut: all of their weights stay as long as their group; unless
//! this reads them anew. In a pack that lies in memory, steps use the weights there that do not
//! stay, and nothing is read.

use crate::slide::Sliding;
use crate::steps::{Parts, even, whole};
use eyelet::pack::{Layer, Method, OpKind, PAGE, Region, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::step_weights;
use std::ops::Range;

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
    /// Which [`Part`]s it has.
    pub parts: Range<usize>,
    /// Whether it is done once, and what was read stays.
    pub resident: bool,
}

/// Bytes of a read that are in use for equally long: those of a slice, and what lies between it and
/// the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it begins, in the weights section.
    pub start: u64,
    /// Index of the last step that uses it.
    pub last: usize,
}

/// A network that was cut: steps without addresses, and what they read.
#[derive(Clone, Debug)]
pub struct Slices {
    /// Their scratch is an upper limit.
    pub steps: Vec<Step>,
    pub reads: Vec<Read>,
    /// For each step its read.
    pub read_of: Vec<Option<usize>>,
    /// Parts of all reads, one read after the other.
    pub parts: Vec<Part>,
}

/// How finely a layer is cut, and what stays of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cutting {
    /// Most bytes of a slice (but it has at least one panel, or one [chain](eyelet::ops::chains) of
    /// it).
    pub slice: u64,
    /// Most bytes of a load that serves several slices, those of other layers included.
    pub read: u64,
    /// Panels that stay in the arena, from the first on.
    pub resident: u32,
    /// Most bytes of a slice of these.
    pub resident_slice: u64,
    /// Most bytes of a step's scratch, where it can do with so few.
    pub scratch: u64,
}

/// Most bytes of a load of residents that serves several slices.
const RESIDENT_READ: u64 = 4 << 20;

impl Cutting {
    /// Slices and loads of the same most bytes, nothing resident.
    pub fn equal(limit: u64) -> Self {
        Self { slice: limit, read: limit, ..Self::LAYERS }
    }

    /// One slice a layer, one load a layer.
    pub const LAYERS: Self =
        Self { slice: u64::MAX, read: 1, resident: 0, resident_slice: u64::MAX, scratch: u64::MAX };

    /// One slice a layer, and it stays.
    pub const RESIDENT: Self = Self { resident: u32::MAX, ..Self::LAYERS };
}

/// Small layers of a group share loads of up to this many bytes: all are there until it is done.
const GROUP_READ: u64 = 64 << 10;

/// Cuts every layer into slices, as even as possible, residents first, lets groups slide, and joins
/// neighbours into loads. Steps of layers that do not slide compute by these algorithms.
pub fn slice(
    network: &Network,
    sliding: &Sliding,
    on_load: &[u32],
    cutting: impl Fn(usize) -> Cutting,
) -> Slices {
    let mut steps = Vec::with_capacity(network.layers.len());
    let has_panels = |index: usize| {
        OpKind::from_code(network.layers[index].kind).is_some_and(OpKind::has_panels)
    };
    for (index, layer) in network.layers.iter().enumerate() {
        let step = whole(network, index);
        // All of it stays, or nothing.
        if !has_panels(index) || sliding.group_of(index).is_some() {
            steps.push(step);
            continue;
        }
        let step = Step { method: Method::by(on_load[index]), ..step };
        let cutting = cutting(index);
        let stay = cutting.resident.min(layer.panels);
        for (first, count, limit) in
            [(0, stay, cutting.resident_slice), (stay, layer.panels - stay, cutting.slice)]
        {
            if count == 0 {
                continue;
            }
            let parts = Parts::of(network, index, limit).filter(|_| step.algorithm() == 0);
            let even = even(count, limit / u64::from(layer.panel_bytes));
            let even = even.map(|(at, count)| Step { first: first + at, count, ..step });
            match parts {
                None => steps.extend(even),
                Some(parts) => steps.extend(even.flat_map(|step| {
                    parts.ranges().map(move |(chain, chains)| Step {
                        method: Method::Chains { first: chain, count: chains },
                        ..step
                    })
                })),
            }
        }
    }
    let mut steps = sliding.interleave(steps);
    if sliding.groups().iter().any(|group| group.reloads_weights) {
        let most = |layer: usize| cutting(layer).slice;
        steps = cut_to_reload(network, steps, sliding, most);
    }
    steps.iter_mut().for_each(|step| step.scratch_bytes = cutting(step.layer as usize).scratch);
    let (reads, read_of, parts) = join(network, &steps, |step: &Step| {
        let layer = step.layer as usize;
        let Cutting { resident, read, .. } = cutting(layer);
        let resident = match has_panels(layer) {
            true if sliding.reloads_weights(layer) => false,
            true if sliding.group_of(layer).is_none() => step.first < resident,
            true => resident >= network.layers[layer].panels,
            false => resident >= 1,
        };
        Joint {
            resident,
            group: sliding.keeps(layer),
            most: if resident { RESIDENT_READ } else { read },
        }
    });
    for (step, read) in steps.iter_mut().zip(&read_of) {
        let weights = step_weights(network, step);
        step.weights_in = Region::Arena;
        if read.is_none() && !weights.is_empty() {
            (step.weights_in, step.weights) = (Region::Mapped, weights.start);
        }
    }
    Slices { steps, reads, read_of, parts }
}

/// Cuts the steps of layers that read their weights again into slices of at most the given bytes.
fn cut_to_reload(
    network: &Network,
    steps: Vec<Step>,
    sliding: &Sliding,
    most: impl Fn(usize) -> u64,
) -> Vec<Step> {
    let mut all = Vec::with_capacity(steps.len());
    for run in steps.chunk_by(|one, other| sliding.cut_together(one, other)) {
        let layer = run[0].layer as usize;
        if !sliding.reloads_weights(layer) || network.layers[layer].panels == 0 {
            all.extend(run);
            continue;
        }
        let record = &network.layers[layer];
        for (first, count) in even(record.panels, most(layer) / u64::from(record.panel_bytes)) {
            all.extend(run.iter().map(|step| Step { first, count, ..*step }));
        }
    }
    all
}

/// The properties of a slice that decide with which others it can share a load.
#[derive(Clone, Copy)]
struct Joint {
    resident: bool,
    group: Option<usize>,
    /// Most bytes of the load.
    most: u64,
}

/// The parts of the weights section that a network uses. There is one, but for a shape of several:
/// between its parts are the weights of others, which no load of it reads.
struct Runs(Vec<Range<u64>>);

impl Runs {
    fn of(network: &Network) -> Self {
        let pages = |layer: &Layer| {
            let end = layer.weights + u64::from(layer.panels) * u64::from(layer.panel_bytes);
            layer.weights / PAGE * PAGE..end.next_multiple_of(PAGE)
        };
        let used = network.layers.iter().filter(|layer| layer.panels > 0);
        let mut used: Vec<Range<u64>> = used.map(pages).collect();
        used.sort_unstable_by_key(|pages| pages.start);
        let mut runs: Vec<Range<u64>> = Vec::new();
        for pages in used {
            match runs.last_mut().filter(|run| pages.start <= run.end) {
                Some(run) => run.end = run.end.max(pages.end),
                None => runs.push(pages),
            }
        }
        Self(runs)
    }

    /// The number of the part that a byte lies in.
    fn at(&self, offset: u64) -> usize {
        self.0.partition_point(|run| run.end <= offset)
    }
}

/// Joins the weights of slices into reads, in the order in which they are used first.
fn join(
    network: &Network,
    steps: &[Step],
    joint: impl Fn(&Step) -> Joint,
) -> (Vec<Read>, Vec<Option<usize>>, Vec<Part>) {
    let mut reads: Vec<Read> = Vec::new();
    let mut read_of = vec![None; steps.len()];
    let mut parts: Vec<Part> = Vec::new();
    // The reads of layers that slide, which steps of their group use again, and what the last read
    // is for.
    let mut known: Vec<Option<(usize, usize)>> = vec![None; network.layers.len()];
    let mut last: Option<Joint> = None;
    let runs = Runs::of(network);
    for (index, step) in steps.iter().enumerate() {
        let weights = step_weights(network, step);
        let mut this = joint(step);
        let in_place = network.is_in_place(step.layer as usize) && !this.resident;
        if weights.is_empty() || in_place {
            continue;
        }
        if let Some((read, part)) = known[step.layer as usize] {
            reads[read].last = index;
            parts[part].last = index;
            read_of[index] = Some(read);
            continue;
        }
        let start = weights.start / PAGE * PAGE;
        let end = weights.end.next_multiple_of(PAGE);
        let part;
        let together = if this.group.is_some() { GROUP_READ } else { 0 };
        match (reads.last_mut(), last) {
            // The least limit of all that the read serves; within a group no less than a small
            // load.
            (Some(read), Some(last))
                if (last.group, last.resident) == (this.group, this.resident)
                    && start >= read.offset
                    && runs.at(start) == runs.at(read.offset)
                    && end - read.offset <= this.most.min(last.most).max(together) =>
            {
                this.most = this.most.min(last.most);
                read.bytes = read.bytes.max(end - read.offset);
                read.last = index;
                // Another step may use the same bytes.
                let is_known = |at: &usize| parts[*at].start >= weights.start;
                part = read.parts.clone().find(is_known).unwrap_or(parts.len());
                if part == parts.len() {
                    parts.push(Part { start: weights.start, last: index });
                    read.parts.end += 1;
                }
                parts[part..].iter_mut().for_each(|part| part.last = index);
            }
            _ => {
                let (offset, bytes, resident) = (start, end - start, this.resident);
                part = parts.len();
                parts.push(Part { start: weights.start, last: index });
                let parts = part..part + 1;
                reads.push(Read { offset, bytes, first: index, last: index, parts, resident });
            }
        }
        last = Some(this);
        read_of[index] = Some(reads.len() - 1);
        if this.group.is_some() {
            known[step.layer as usize] = Some((reads.len() - 1, part));
        }
    }
    (reads, read_of, parts)
}
