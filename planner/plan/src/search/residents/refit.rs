//! Changes to the residents of a finished plan, so that it leaves some of its budget or keeps what
//! a smaller plan keeps.
//!
//! Plans of one pack share residents ([`shared`](super::shared)), which takes some pages of each
//! budget. Budgets are used to the last page, so a plan that shares gives up other residents. A new
//! search in a smaller budget would find a plan that is up to a per cent faster or slower. So the
//! design stays, except for the panels that layers keep.

use crate::request::Request;
use crate::search::place::builder::PlanBuilder;
use crate::search::place::compact::compact;
use crate::search::place::design::{Built, Design};
use eyelet_model::plan::Plan;
use std::cmp::Reverse;

/// The name of the strategy.
pub const NAME: &str = "joint";

/// Layers that are tried with fewer kept panels: first those that give up the fewest bytes.
const MOST: usize = 16;

/// The builder and the design of a plan.
pub struct Refit<'a> {
    builder: PlanBuilder<'a>,
    design: Design,
    may_read: bool,
}

impl<'a> Refit<'a> {
    pub fn new(builder: PlanBuilder<'a>, design: Design, may_read: bool) -> Self {
        Self { builder, design, may_read }
    }

    /// Whether plans may read: all weights have no room.
    pub fn may_read(&self) -> bool {
        self.may_read
    }

    /// The fastest plan found that takes at most `bytes` of arena and in which each layer keeps at
    /// least `keeps` panels. `None` if each would take more than `most_ns`. `give_up` is how many
    /// bytes of other residents it may have to do without.
    pub fn plan(&self, bytes: u64, give_up: u64, keeps: &[u32], most_ns: u64) -> Option<Plan> {
        let Self { builder, design, may_read } = self;
        let mut raised = design.clone();
        let mut more = give_up;
        for (index, keeps) in keeps.iter().enumerate().filter(|(_, keeps)| **keeps > 0) {
            let held = self.held(design, index);
            if held < *keeps {
                // A layer that slides stays as a whole.
                let keeps = if builder.slides(index) { u32::MAX } else { *keeps };
                raised.layers[index].resident = keeps;
                more += u64::from(self.held(&raised, index) - held) * self.panel_bytes(index);
            }
        }
        let budget = bytes.min(builder.request.budget);
        let built = self.designs(raised, more, keeps).into_iter().filter_map(|design| {
            let plan = builder.place(&design, budget).ok()?;
            let built = builder.predict_within(plan, most_ns).ok()?;
            (built.line.steady_ns <= most_ns && (*may_read || !built.reads())).then_some(built)
        });
        let rank = |built: &Built| (built.line.steady_ns, Reverse(built.plan.resident_bytes()));
        built.min_by_key(rank).map(|built| finished(&builder.request, built))
    }

    /// The design as it is, and others that keep `less` bytes less.
    fn designs(&self, design: Design, less: u64, keeps: &[u32]) -> Vec<Design> {
        let mut all = vec![design];
        if less == 0 {
            return all;
        }
        let design = all[0].clone();
        let layers = 0..design.layers.len();
        let gives = |layer: usize| match self.builder.slides(layer) {
            true => 0,
            false => {
                self.held(&design, layer).saturating_sub(keeps.get(layer).copied().unwrap_or(0))
            }
        };
        // Less of one layer.
        let mut single: Vec<(u64, usize, u32)> = Vec::new();
        for layer in layers.clone().filter(|layer| gives(*layer) > 0) {
            let panels = less.div_ceil(self.panel_bytes(layer));
            if panels <= gives(layer).into() {
                single.push((panels * self.panel_bytes(layer), layer, panels as u32));
            }
        }
        single.sort_unstable();
        single.truncate(MOST);
        for (bytes, layer, panels) in single {
            let fewer = self.fewer(&design, &[(layer, panels)]);
            all.extend(self.filled(&fewer, bytes - less, layer));
            all.push(fewer);
        }
        // Less of several layers, from either end of the network.
        let orders: [Vec<usize>; 2] = [layers.clone().collect(), layers.rev().collect()];
        for order in orders {
            let (mut left, mut changes) = (less, Vec::new());
            for layer in order.into_iter().filter(|layer| gives(*layer) > 0) {
                let panel = self.panel_bytes(layer);
                let panels = left.div_ceil(panel).min(gives(layer).into());
                changes.push((layer, panels as u32));
                left = left.saturating_sub(panels * panel);
                if left == 0 {
                    break;
                }
            }
            if left == 0 && changes.len() > 1 {
                all.push(self.fewer(&design, &changes));
            }
        }
        all
    }

    /// The design with fewer kept panels of some layers.
    fn fewer(&self, design: &Design, changes: &[(usize, u32)]) -> Design {
        let mut fewer = design.clone();
        for (layer, panels) in changes {
            fewer.layers[*layer].resident = self.held(design, *layer) - panels;
        }
        fewer
    }

    /// The design with `bytes` more kept, largest panels first, in all layers but one; `None` if
    /// there are no such panels.
    fn filled(&self, design: &Design, mut bytes: u64, but: usize) -> Option<Design> {
        let mut filled = design.clone();
        let mut layers: Vec<usize> = (0..design.layers.len()).collect();
        layers.retain(|layer| *layer != but && !self.builder.slides(*layer));
        layers.sort_by_key(|layer| (Reverse(self.panel_bytes(*layer)), Reverse(*layer)));
        for layer in layers {
            let (held, panel) = (self.held(design, layer), self.panel_bytes(layer));
            let more = self.panels(layer).saturating_sub(held).min((bytes / panel) as u32);
            filled.layers[layer].resident = held + more;
            bytes -= u64::from(more) * panel;
        }
        (filled != *design).then_some(filled)
    }

    /// Panels of a layer that stay.
    fn held(&self, design: &Design, layer: usize) -> u32 {
        match design.layers[layer].resident {
            0 => 0,
            _ if self.builder.slides(layer) => self.panels(layer),
            resident => resident.min(self.panels(layer)),
        }
    }

    fn panels(&self, layer: usize) -> u32 {
        self.builder.request.network.layers[layer].panels
    }

    fn panel_bytes(&self, layer: usize) -> u64 {
        u64::from(self.builder.request.network.layers[layer].panel_bytes).max(1)
    }
}

/// A plan with its strategy, its budget and no wasted memory.
pub(in crate::search) fn finished(request: &Request<'_>, built: Built) -> Plan {
    let mut plan = built.plan;
    compact(request.network, &mut plan);
    (plan.strategy, plan.budget) = (NAME.to_owned(), request.budget);
    plan
}
