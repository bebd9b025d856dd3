//! The time that steps save if buffers and scratch lie in fast memory.
//!
//! Costs of steps are those with everything in the arena. A byte that a step reads or writes in fast
//! memory takes less by the difference of both memories' times. Inputs and outputs count once, as if a
//! cache held data that a step reads again. Scratch counts twice: it is written, and read. No step
//! saves more than one that spends all its time on memory.

use crate::profile::Fast;
use eyelet::pack::{FAST, NONE, Step};
use eyelet_model::network::Network;
use eyelet_model::plan::Plan;

/// Savings of fast memory in the steps of a network.
#[derive(Clone, Debug)]
pub struct FastCosts {
    /// Time that a byte takes less.
    ns_per_byte: f64,
    /// The arena's bandwidth by that of fast memory.
    share: f64,
    layers: Vec<Touched>,
}

/// The memory that steps of a layer touch.
#[derive(Clone, Debug)]
struct Touched {
    /// Rows and panels of its output.
    whole: [u32; 2],
    /// Buffers of its inputs with their tensors' bytes.
    inputs: Vec<(usize, u64)>,
    output: (usize, u64),
}

impl FastCosts {
    pub fn new(network: &Network, fast: Fast) -> Self {
        let tensor = |id: u32| {
            let tensor = &network.tensors[id as usize];
            (tensor.buffer as usize, tensor.rows() * u64::from(tensor.cols()) * 4)
        };
        let touched = |layer: &eyelet::pack::Layer| Touched {
            whole: [network.tensors[layer.output as usize].rows() as u32, layer.panels]
                .map(|n| n.max(1)),
            inputs: layer.inputs.into_iter().filter(|id| *id != NONE).map(tensor).collect(),
            output: tensor(layer.output),
        };
        Self {
            ns_per_byte: 1.0 / fast.arena_gbs - 1.0 / fast.gbs,
            share: fast.arena_gbs / fast.gbs,
            layers: network.layers.iter().map(touched).collect(),
        }
    }

    /// The share of its time that a step takes at least with all of its memory fast.
    pub fn least_share(&self) -> f64 {
        self.share
    }

    /// Nanoseconds that a step of a plan saves, if it takes `ns` in the arena.
    pub fn saved_ns(&self, plan: &Plan, step: &Step, ns: u64) -> u64 {
        let Touched { whole: [rows, panels], inputs, output } = &self.layers[step.layer as usize];
        let in_fast = |(buffer, bytes): &(usize, u64)| match plan.places.get(*buffer) {
            Some(place) if place.address >= FAST => *bytes as f64,
            _ => 0.0,
        };
        let of_rows = f64::from(step.rows) / f64::from(*rows);
        let of_panels = f64::from(step.count.max(1)) / f64::from(*panels);
        let scratch = if step.scratch >= FAST { 2 * step.scratch_bytes } else { 0 };
        let read = inputs.iter().map(in_fast).sum::<f64>() * of_rows;
        let bytes = read + in_fast(output) * of_rows * of_panels + scratch as f64;
        let most = ns as f64 * (1.0 - self.share);
        (bytes * self.ns_per_byte).clamp(0.0, most.max(0.0)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{conv, network, profile, whole};
    use crate::profile::{Costs, Fast, Profile};
    use eyelet::pack::{FAST, OpKind, Place, Step};
    use eyelet_model::network::Network;
    use eyelet_model::plan::Plan;

    fn costs(network: &Network, arena_gbs: f64) -> Costs {
        let fast = Fast { bytes: 1 << 20, gbs: 16.0, arena_gbs };
        Costs::new(network, &Profile { fast: Some(fast), ..profile() }, 1)
    }

    #[test]
    fn a_byte_in_fast_memory_takes_less() {
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let step = Step { scratch: FAST, scratch_bytes: 4096, ..whole(&network) };
        let places = vec![Place::whole(0); network.buffers.len()];
        let plan = Plan { places, steps: vec![step], ..Plan::default() };
        let costs = costs(&network, 8.0);
        let alone =
            costs.steps_ns(&Plan { steps: vec![Step { scratch: 0, ..step }], ..plan.clone() })[0];
        assert_eq!(alone - costs.steps_ns(&plan)[0], 2 * 4096 / 16);
        let input = network.tensors[network.layers[0].inputs[0] as usize].buffer as usize;
        let mut moved = plan.clone();
        moved.places[input] = Place::whole(FAST + 4096);
        let saved = plan_ns(&costs, &plan) - plan_ns(&costs, &moved);
        assert_eq!(saved, 196 * 256 * 4 / 16);
    }

    fn plan_ns(costs: &Costs, plan: &Plan) -> i64 {
        costs.steps_ns(plan)[0]
    }

    #[test]
    fn no_step_saves_more_than_the_memory_is_faster() {
        let network = network(OpKind::Conv, conv([3, 3]), [196, 256], [196, 64]);
        let step = Step { scratch: FAST, scratch_bytes: 1 << 30, ..whole(&network) };
        let places = vec![Place::whole(FAST); network.buffers.len()];
        let plan = Plan { places, steps: vec![step], ..Plan::default() };
        let costs = costs(&network, 4.0);
        let alone = costs.step_ns(&step) as f64;
        let with = plan_ns(&costs, &plan) as f64;
        assert!((with - alone / 4.0).abs() <= 1.0, "{with} of {alone}");
        assert!(costs.least_ns(&step, 0.0, None) <= with + 1.0);
    }
}
