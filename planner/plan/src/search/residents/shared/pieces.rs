//! Residents of several plans, cut into what they have in common.

use eyelet::pack::{FAST, PAGE, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::{Plan, step_weights};
use std::ops::Range;

/// The residents of a plan that lie together at the start of its arena.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) items: Vec<Item>,
    /// Where everything else begins.
    pub(super) rest: u64,
    /// Layers, and how many of their panels are kept among everything else.
    pub(super) apart: Vec<(u32, u32)>,
}

/// A resident, or several that have some bytes in common: these are kept once.
#[derive(Debug)]
pub(super) struct Item {
    /// Indices of their loads.
    pub(super) loads: Vec<usize>,
    /// The steps that use it, and what of the weights: bytes from the start of their section.
    pub(super) steps: Vec<Use>,
    /// All that these use.
    pub(super) bytes: Range<u64>,
}

/// The part of a resident that a step uses.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) step: usize,
    pub(super) layer: u32,
    pub(super) bytes: Range<u64>,
    /// Bytes of a panel, if the step could as well be two that compute some of its panels each.
    pub(super) panel: Option<u64>,
}

/// The loads and steps that become two where a piece ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    Nothing,
    /// A load, which takes up to a page more memory.
    Load,
    /// A step, which takes time, too.
    Step,
}

/// Loads are not cut for pieces of fewer bytes.
const LEAST_LOAD: u64 = 32 << 10;

/// A part of the weights that all plans from one on keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Bytes of the weights section.
    pub(super) bytes: Range<u64>,
    /// The first of these plans.
    pub(super) from: usize,
}

/// The first of the pages that bytes lie in, and what they all have.
pub(super) fn pages(bytes: &Range<u64>) -> (u64, u64) {
    let first = bytes.start / PAGE * PAGE;
    (first, bytes.end.next_multiple_of(PAGE) - first)
}

impl Holdings {
    pub(super) fn of(network: &Network, plan: &Plan) -> Self {
        let places = plan.places.iter().map(|place| place.address);
        let scratch = plan.steps.iter().filter(|step| step.scratch_bytes > 0);
        let loads = plan.loads.iter().map(|load| load.address);
        let all = places.chain(scratch.map(|step| step.scratch)).chain(loads);
        let rest = all.filter(|address| *address < FAST).min();
        let rest = rest.unwrap_or(plan.arena_bytes) / PAGE * PAGE;
        let (mut items, mut apart) = (Vec::new(), Vec::new());
        for (index, load) in plan.resident.iter().enumerate() {
            let range = load.address..load.address + u64::from(load.bytes);
            let uses = |(at, step): (usize, &Step)| {
                let bytes = step_weights(network, step);
                let here = !bytes.is_empty() && range.contains(&step.weights);
                here.then(|| {
                    let panel = panel(network, plan, step);
                    Use { step: at, layer: step.layer, panel, bytes }
                })
            };
            let mut steps: Vec<Use> = plan.steps.iter().enumerate().filter_map(uses).collect();
            if range.end > rest {
                let whole = steps.iter().map(|using| &plan.steps[using.step]);
                let whole = whole.filter(|step| step.chains() == 0);
                apart.extend(whole.map(|step| (step.layer, step.count)));
                continue;
            }
            steps.sort_by_key(|using| using.bytes.start);
            let ends = steps.iter().map(|using| using.bytes.end);
            let Some((first, end)) = steps.first().zip(ends.max()) else {
                // A part that nothing uses could not be found again.
                return Self::default();
            };
            items.push(Item { loads: vec![index], bytes: first.bytes.start..end, steps });
        }
        Self { items: joined(items), rest, apart }
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> u64 {
        self.items.iter().map(|item| item.bytes.end - item.bytes.start).sum()
    }

    /// Panels of each layer that are kept, from the first one on.
    pub(super) fn panels(&self, network: &Network) -> Vec<u32> {
        let mut panels = vec![0; network.layers.len()];
        for using in self.items.iter().flat_map(|item| &item.steps) {
            let layer = &network.layers[using.layer as usize];
            let end = (using.bytes.end - layer.weights) / u64::from(layer.panel_bytes).max(1);
            let held = &mut panels[using.layer as usize];
            *held = (*held).max(end as u32);
        }
        panels
    }

    /// The item that has a byte between others of its own.
    fn around(&self, byte: u64) -> Option<&Item> {
        self.items.iter().find(|item| item.bytes.start < byte && byte < item.bytes.end)
    }

    /// The item that has all of these bytes.
    fn item_with(&self, bytes: &Range<u64>) -> Option<&Item> {
        self.items.iter().find(|item| item.has(bytes))
    }

    /// The cost of cutting these bytes off an item.
    fn cost(&self, bytes: &Range<u64>) -> Cost {
        let parts = |using: &Use| {
            let within = |at: u64| using.bytes.start < at && at < using.bytes.end;
            within(bytes.start) || within(bytes.end)
        };
        match self.item_with(bytes) {
            Some(item) if item.steps.iter().any(parts) => Cost::Step,
            Some(item) if item.bytes != *bytes => Cost::Load,
            _ => Cost::Nothing,
        }
    }
}

/// Residents in the order of their bytes. Those that have some in common, as steps with the same weights can have, are
/// one.
pub(super) fn joined(mut items: Vec<Item>) -> Vec<Item> {
    items.sort_by_key(|item| item.bytes.start);
    let mut all: Vec<Item> = Vec::with_capacity(items.len());
    for item in items {
        match all.last_mut().filter(|before| item.bytes.start < before.bytes.end) {
            Some(before) => {
                before.bytes.end = before.bytes.end.max(item.bytes.end);
                before.loads.extend(item.loads);
                before.steps.extend(item.steps);
                before.steps.sort_by_key(|using| using.bytes.start);
            }
            None => all.push(item),
        }
    }
    all
}

/// Bytes of a panel of a step that computes whole panels, for all rows and with no ring.
fn panel(network: &Network, plan: &Plan, step: &Step) -> Option<u64> {
    let layer = &network.layers[step.layer as usize];
    let output = &network.tensors[layer.output as usize];
    let is_whole = |tensor: &u32| {
        let tensor = network.tensors.get(*tensor as usize);
        tensor.is_none_or(|tensor| plan.places[tensor.buffer as usize].lines == 0)
    };
    let all = step.chains() == 0 && u64::from(step.rows) == output.rows();
    let whole = all && layer.inputs.iter().chain([&layer.output]).all(is_whole);
    (whole && step.count > 1).then_some(layer.panel_bytes.into())
}

impl Item {
    /// Whether it has all of these bytes.
    pub(super) fn has(&self, bytes: &Range<u64>) -> bool {
        self.bytes.start <= bytes.start && bytes.end <= self.bytes.end
    }

    /// The last byte up to this one before which it can be cut; its first one if there is none.
    pub(super) fn cut_before(&self, byte: u64) -> u64 {
        let mut cut = byte.clamp(self.bytes.start, self.bytes.end);
        // Steps that share weights can be in each other's way.
        while let Some(within) =
            self.steps.iter().find(|using| using.bytes.start < cut && cut < using.bytes.end)
        {
            let start = within.bytes.start;
            let last = within.panel.map_or(start, |panel| cut - (cut - start) % panel);
            if last == cut {
                let others = self.steps.iter().filter(|using| !using.can_end_at(cut));
                let Some(first) = others.map(|using| using.bytes.start).min() else { break };
                cut = first;
            } else {
                cut = last;
            }
        }
        cut
    }
}

impl Use {
    /// Whether the step need not have bytes on both sides.
    fn can_end_at(&self, byte: u64) -> bool {
        let within = self.bytes.start < byte && byte < self.bytes.end;
        let at_panel = |panel| (byte - self.bytes.start).is_multiple_of(panel);
        !within || self.panel.is_some_and(at_panel)
    }
}

/// The pieces that plans, in the order of their budgets, share with all larger ones. No step is cut
/// for fewer bytes than `least`.
pub(super) fn shared(all: &[Holdings], least: u64) -> Vec<Piece> {
    let items = || all.iter().flat_map(|of| &of.items);
    let mut cuts: Vec<u64> = items().flat_map(|item| [item.bytes.start, item.bytes.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.retain(|cut| {
        let around = all.iter().filter_map(|of| of.around(*cut));
        around.into_iter().all(|item| item.cut_before(*cut) == *cut)
    });
    let mut pieces: Vec<Piece> = Vec::new();
    for ends in cuts.windows(2) {
        let bytes = ends[0]..ends[1];
        let holders = all.iter().rev().take_while(|of| of.item_with(&bytes).is_some()).count();
        let from = all.len() - holders;
        if holders < 2 {
            continue;
        }
        // Pieces that no plan has a reason to cut stay together.
        if let Some(before) = pieces.last_mut().filter(|before| before.from == from) {
            let both = before.bytes.start..bytes.end;
            let is_one = |of: &Holdings| of.item_with(&both).is_some();
            if before.bytes.end == bytes.start && all[from..].iter().all(is_one) {
                before.bytes.end = bytes.end;
                continue;
            }
        }
        pieces.push(Piece { bytes, from });
    }
    pieces.retain(|Piece { bytes, from }| {
        let least = match all[*from..].iter().map(|of| of.cost(bytes)).max() {
            Some(Cost::Step) => least,
            Some(Cost::Load) => least.min(LEAST_LOAD),
            _ => 0,
        };
        bytes.end - bytes.start >= least
    });
    pieces.sort_by_key(|piece| (piece.from, piece.bytes.start));
    pieces
}

/// Where the residents of a plan lie: bytes of the weights section, and the address of the first
/// page that they lie in. `pieces` are in their order.
pub(super) fn in_order(
    holdings: &Holdings,
    pieces: &[Piece],
    plan: usize,
    start: u64,
) -> Vec<(Range<u64>, u64)> {
    let mut here: Vec<Range<u64>> = Vec::new();
    here.extend(pieces.iter().filter(|piece| piece.from <= plan).map(|piece| piece.bytes.clone()));
    let own: Vec<_> = holdings.items.iter().flat_map(|item| rest(item, &here)).collect();
    here.extend(own);
    let mut address = start;
    let place = |bytes: Range<u64>| {
        let at = address;
        address += pages(&bytes).1;
        (bytes, at)
    };
    here.into_iter().map(place).collect()
}

/// The used parts of an item outside of these pieces. Bytes between two layers are not used.
fn rest(item: &Item, pieces: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut inside: Vec<_> = pieces.iter().filter(|bytes| item.has(bytes)).cloned().collect();
    inside.sort_by_key(|bytes| bytes.start);
    let ends = inside.iter().map(|bytes| bytes.start).chain([item.bytes.end]);
    let starts = std::iter::once(item.bytes.start).chain(inside.iter().map(|bytes| bytes.end));
    let is_used = |bytes: &Range<u64>| {
        let uses = |using: &Use| using.bytes.start < bytes.end && bytes.start < using.bytes.end;
        item.steps.iter().any(uses)
    };
    let between = starts.zip(ends).map(|(start, end)| start..end);
    between.filter(|bytes| !bytes.is_empty() && is_used(bytes)).collect()
}
