//! Residents of several plans, cut into what they have in common.

use crate::network::Network;
use crate::plan::{Plan, step_weights};
use eyelet::pack::{PAGE, Step};
use std::ops::{Range, RangeInclusive};

/// What of residents plans shall share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing {
    /// No step is cut for pieces of fewer bytes.
    pub(super) least: u64,
    /// Whether pieces that larger budgets have no more count.
    pub(super) passing: bool,
}

/// The residents of a plan that lie together at the start of its arena; none of a plan that is not to be changed.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) items: Vec<Item>,
    /// Where everything else begins.
    pub(super) rest: u64,
}

/// A resident.
#[derive(Debug)]
pub(super) struct Item {
    /// Index of its load.
    pub(super) load: usize,
    /// The steps that use it, and what of the weights: bytes from the start of their section.
    pub(super) steps: Vec<Use>,
    /// All that these use.
    pub(super) bytes: Range<u64>,
}

/// What a step uses of a resident.
#[derive(Clone, Debug)]
pub(super) struct Use {
    pub(super) step: usize,
    pub(super) bytes: Range<u64>,
    /// Bytes of a panel, if the step could as well be two that compute some of its panels each.
    pub(super) panel: Option<u64>,
}

/// What becomes two where a piece ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    Nothing,
    /// A load, which takes up to a page more memory.
    Load,
    /// A step, which takes time, too.
    Step,
}

/// Loads are not cut for pieces of fewer bytes.
const LEAST_LOAD: u64 = 128 << 10;

/// What plans of consecutive budgets have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Of the weights section.
    pub(super) bytes: Range<u64>,
    pub(super) plans: RangeInclusive<usize>,
}

/// The first of the pages that bytes lie in, and what they all have.
pub(super) fn pages(bytes: &Range<u64>) -> (u64, u64) {
    let first = bytes.start / PAGE * PAGE;
    (first, bytes.end.next_multiple_of(PAGE) - first)
}

impl Piece {
    /// Bytes that changes of budget find where they shall be, in sum over all pairs of budgets.
    pub(super) fn kept(&self) -> u64 {
        let others = (self.plans.end() - self.plans.start()) as u64;
        (self.bytes.end - self.bytes.start) * others * (others + 1) / 2
    }
}

impl Holdings {
    pub(super) fn of(network: &Network, plan: &Plan) -> Self {
        let places = plan.places.iter().map(|place| place.address);
        let scratch = plan.steps.iter().filter(|step| step.scratch_bytes > 0);
        let loads = plan.loads.iter().map(|load| load.address);
        let rest = places.chain(scratch.map(|step| step.scratch)).chain(loads).min();
        let rest = rest.unwrap_or(plan.arena_bytes) / PAGE * PAGE;
        let mut items = Vec::new();
        for (index, load) in plan.resident.iter().enumerate() {
            let range = load.address..load.address + u64::from(load.bytes);
            if range.end > rest {
                continue;
            }
            let uses = |(at, step): (usize, &Step)| {
                let bytes = step_weights(network, step);
                let here = !bytes.is_empty() && range.contains(&step.weights);
                here.then(|| Use { step: at, panel: panel(network, plan, step), bytes })
            };
            let mut steps: Vec<Use> = plan.steps.iter().enumerate().filter_map(uses).collect();
            steps.sort_by_key(|using| using.bytes.start);
            let ends = steps.iter().map(|using| using.bytes.end);
            let Some((first, end)) = steps.first().zip(ends.max()) else {
                // What nothing uses could not be found again.
                return Self::default();
            };
            items.push(Item { load: index, bytes: first.bytes.start..end, steps });
        }
        items.sort_by_key(|item| item.bytes.start);
        Self { items, rest }
    }

    /// The item that has a byte between others of its own.
    fn around(&self, byte: u64) -> Option<&Item> {
        self.items.iter().find(|item| item.bytes.start < byte && byte < item.bytes.end)
    }

    /// The item that has all of these bytes.
    fn item_with(&self, bytes: &Range<u64>) -> Option<&Item> {
        self.items.iter().find(|item| item.has(bytes))
    }

    /// What becomes two if these bytes of an item are cut off.
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

/// Bytes of a panel of a step that computes whole panels, for all rows and with no ring.
fn panel(network: &Network, plan: &Plan, step: &Step) -> Option<u64> {
    let layer = &network.layers[step.layer as usize];
    let output = &network.tensors[layer.output as usize];
    let is_whole = |tensor: &u32| {
        let tensor = network.tensors.get(*tensor as usize);
        tensor.is_none_or(|tensor| plan.places[tensor.buffer as usize].lines == 0)
    };
    let all = step.chains == 0 && u64::from(step.rows) == output.rows();
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

/// What plans have in common.
pub(super) fn shared(all: &[Holdings], sharing: Sharing) -> Vec<Piece> {
    let items = || all.iter().flat_map(|of| &of.items);
    let mut cuts: Vec<u64> = items().flat_map(|item| [item.bytes.start, item.bytes.end]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts.retain(|cut| {
        let around = all.iter().filter_map(|of| of.around(*cut));
        around.into_iter().all(|item| item.cut_before(*cut) == *cut)
    });
    let mut pieces = Vec::new();
    for ends in cuts.windows(2) {
        let bytes = ends[0]..ends[1];
        let mut plan = 0;
        while plan < all.len() {
            let count = all[plan..].iter().take_while(|of| of.item_with(&bytes).is_some()).count();
            let plans = plan..=(plan + count).saturating_sub(1);
            let stays = plan + count == all.len();
            if count > 1 && (sharing.passing || stays) {
                let of = &all[plans.clone()];
                let least = match of.iter().map(|of| of.cost(&bytes)).max() {
                    Some(Cost::Step) => sharing.least,
                    Some(Cost::Load) => sharing.least.min(LEAST_LOAD),
                    _ => 0,
                };
                if bytes.end - bytes.start >= least {
                    pieces.push(Piece { bytes: bytes.clone(), plans });
                }
            }
            plan += count.max(1);
        }
    }
    pieces
}
