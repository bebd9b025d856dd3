//! What a pack can hold and a runtime takes, which whoever plans is told before anything is written.
//!
//! A runtime refuses what is beyond, since a pack is untrusted. To somebody who has just planned it, such a pack is not
//! malformed: the model, or the plan, is more than a pack may be.

use crate::network::Network;
use crate::plan::Plan;
use crate::size;
use crate::tables;
use eyelet::executor::STEP_WORK;
use eyelet::ops::{Slice, step_work};
use eyelet::pack::{Flaw, MAX_PORTS, MAX_THREADS, PAGE, PlanView, Skeleton};
use eyelet::proof::{Bounds, Proven, ProvenSkeleton};

/// The most layers that steps refer to, by numbers of 16 bits.
const MAX_LAYERS: usize = 1 << 16;

/// Which limit a network or a plan is beyond.
#[derive(Debug, thiserror::Error)]
pub enum LimitError {
    #[error(
        "the network has {inputs} inputs and {outputs} outputs, and a pack holds at most {MAX_PORTS} of both together: \
         join some in the model (by Concat or Split), or cut it into several (--until)"
    )]
    Ports { inputs: usize, outputs: usize },
    #[error(
        "the network has {found} layers, and a pack counts at most {MAX_LAYERS}: cut the model into several (--until)"
    )]
    Layers { found: usize },
    #[error(
        "the plan for {} is for {threads} threads, and a pack's serve 1 to {MAX_THREADS}: plan for fewer (--threads)",
        size::human(*budget)
    )]
    Threads { budget: u64, threads: u32 },
    #[error(
        "layer `{layer}`: one step does {found} multiply-adds and elements, and a runtime does at most {STEP_WORK} at once: \
         divide its steps (--longest-step 5s), or the layer in the model"
    )]
    Work { layer: String, found: u64 },
    #[error(
        "the network is more than a pack may hold: {0}; make the layer smaller, or cut the model into several (--until)"
    )]
    Network(Flaw),
    #[error(
        "the plan for {} is more than a pack may hold: {flaw}; plan for another budget, or cut the model into several \
         (--until)", size::human(*budget)
    )]
    Plan { budget: u64, flaw: Flaw },
}

/// Whether a pack can hold a network, before it is planned.
pub fn network(network: &Network) -> Result<(), LimitError> {
    let (inputs, outputs) = (network.inputs.len(), network.outputs.len());
    if inputs + outputs > MAX_PORTS {
        return Err(LimitError::Ports { inputs, outputs });
    }
    match network.layers.len() {
        found if found > MAX_LAYERS => Err(LimitError::Layers { found }),
        _ => Ok(()),
    }
}

/// Whether devices have as many threads as a plan is for.
pub fn threads(plan: &Plan) -> Result<(), LimitError> {
    let &Plan { budget, threads, .. } = plan;
    match threads as usize {
        1..=MAX_THREADS => Ok(()),
        _ => Err(LimitError::Threads { budget, threads }),
    }
}

/// A network as it is stored in a pack.
pub struct Stored<'a> {
    pub skeleton: &'a [u8],
    /// Where header and skeleton end in the arena.
    pub front: u64,
    pub weights_bytes: u64,
    /// Comparisons that the proof of a plan may take.
    pub effort: u64,
}

/// Whether a runtime will take plans of a network, as it proves those of a pack.
pub fn plans(network: &Network, plans: &[Plan], of: &Stored<'_>) -> Result<(), LimitError> {
    let stored = aligned(of.skeleton);
    let proven = Skeleton::view(bytemuck::cast_slice(&stored))
        .and_then(|skeleton| ProvenSkeleton::new(skeleton, network.isa, of.weights_bytes))
        .map_err(LimitError::Network)?;
    for plan in plans {
        work(network, plan)?;
        let beyond = |flaw| LimitError::Plan { budget: plan.budget, flaw };
        let stored = aligned(&tables::plan(plan, |_| 0).map_err(beyond)?);
        let bytes: &[u8] = bytemuck::cast_slice(&stored);
        let mapped = network.mapped.is_some();
        let tables = of.front + (bytes.len() as u64).next_multiple_of(PAGE);
        let bounds = Bounds {
            tables: if mapped { 0 } else { tables },
            arena: plan.arena_bytes,
            fast: plan.fast_bytes,
            threads: plan.threads,
            step_work: STEP_WORK,
            effort: of.effort,
            mapped,
        };
        PlanView::view(bytes)
            .and_then(|view| Proven::new(&proven, view, bounds))
            .map_err(beyond)?;
    }
    Ok(())
}

/// No step does more than a runtime does at once.
fn work(network: &Network, plan: &Plan) -> Result<(), LimitError> {
    for step in &plan.steps {
        let layer = &network.layers[step.layer as usize];
        let tensor = |id: u32| network.tensors.get(id as usize).copied().unwrap_or_default();
        let (inputs, output) = (layer.inputs.map(tensor), tensor(layer.output));
        let found = step_work(layer, &inputs, &output, &Slice::from(step));
        if found > STEP_WORK {
            let layer = network.names[step.layer as usize].clone();
            return Err(LimitError::Work { layer, found });
        }
    }
    Ok(())
}

/// As aligned as records are.
fn aligned(bytes: &[u8]) -> Vec<u32> {
    let mut words = vec![0u32; bytes.len().div_ceil(4)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Port;
    use crate::testing::example;
    use eyelet::pack::{Isa, Layer, PortType};
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn networks_beyond_what_a_pack_counts_are_refused() {
        let (mut net, _) = example::network(Isa::Portable, &mut ChaCha8Rng::seed_from_u64(3), 4);
        network(&net).unwrap();
        let port = Port { name: "x".into(), tensor: 0, kind: PortType::Float, shape: vec![1] };
        net.inputs = vec![port.clone(); 1000];
        net.outputs = vec![port.clone(); 24];
        network(&net).unwrap();
        net.outputs.push(port);
        let text = network(&net).unwrap_err().to_string();
        assert!(text.contains("1000 inputs and 25 outputs") && text.contains("1024"), "{text}");
        net.outputs.pop();
        net.layers = vec![Layer::default(); 1 << 16];
        network(&net).unwrap();
        net.layers.push(Layer::default());
        let text = network(&net).unwrap_err().to_string();
        assert!(text.contains("65537 layers") && text.contains("--until"), "{text}");
    }
}
