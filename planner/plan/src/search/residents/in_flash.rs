//! Which weights stay in the arena if the others are used in the pack, in flash that is slower than
//! memory.
//!
//! A step that uses weights in flash takes longer by a known time. So layers are worth so many
//! nanoseconds for each byte of memory that they take, and those that are worth most stay.

use crate::search::place::builder::PlanBuilder;
use crate::search::place::design::Design;
use eyelet::pack::{OpKind, PAGE, Region, Step};

impl PlanBuilder<'_> {
    /// Keeps weights that are used in the pack, of up to `capacity` bytes together.
    pub(in crate::search) fn copy_slow(&self, design: &mut Design, capacity: u64) {
        let network = self.request.network;
        let slices = design.slices(network, &self.activations);
        let mut gain_ns = vec![0u64; network.layers.len()];
        for step in slices.steps.iter().filter(|step| step.weights_in == Region::Mapped) {
            let copied = Step { weights_in: Region::Arena, ..*step };
            let gain = self.costs.step_ns(step).saturating_sub(self.costs.step_ns(&copied));
            gain_ns[step.layer as usize] += gain;
        }
        let bytes = |layer: usize| {
            let record = &network.layers[layer];
            u64::from(record.panels) * u64::from(record.panel_bytes)
        };
        let worth = |layer: &usize| gain_ns[*layer] as f64 / bytes(*layer) as f64;
        let mut layers: Vec<usize> =
            (0..network.layers.len()).filter(|layer| gain_ns[*layer] > 0).collect();
        layers.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
        let mut free = capacity;
        for layer in layers {
            let record = &network.layers[layer];
            // Both ends may lie in pages that others have, too.
            let room = free.saturating_sub(2 * PAGE);
            let fit = (room / u64::from(record.panel_bytes)).min(record.panels.into()) as u32;
            let has_panels = OpKind::from_code(record.kind).is_some_and(OpKind::has_panels);
            let may_part = has_panels && !self.slides(layer);
            let stay = if may_part || fit == record.panels { fit } else { 0 };
            if stay > 0 {
                design.layers[layer].resident = stay;
                free -= u64::from(stay) * u64::from(record.panel_bytes) + 2 * PAGE;
            }
        }
    }
}
