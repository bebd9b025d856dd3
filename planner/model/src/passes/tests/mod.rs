//! Lowering is tested by running what comes out: a plain interpreter of the records ([`interpret`])
//! against the graph's own ([`crate::reference`]), both in double precision, over graphs
//! built by hand and drawn at random.

mod chains;
mod fusion;
mod interpret;
mod layout;
mod models;
mod norms;
mod range;
mod recurrent;
mod resample;
mod transformers;

use crate::graph::{Constant, Op, ValueId, Window};
use crate::network::Network;
use crate::passes::lower;
use crate::testing::{Draw, Net, grown, window};
use eyelet::kernels::Isa;
use eyelet::pack::{OpKind, Tensor};
use proptest::prelude::*;

impl Net {
    /// Lowers with `value` as the output for every instruction set, checks the result against the
    /// reference, and returns the network.
    pub fn check(mut self, value: ValueId) -> Network {
        self.output(value);
        self.check_all()
    }

    pub fn check_all(self) -> Network {
        self.check_within(1e-2)
    }

    /// Errors are judged against the largest magnitude of an output, or `floor` if that is larger.
    pub fn check_within(mut self, floor: f64) -> Network {
        let mut networks = Vec::new();
        let shapes: Vec<_> = self.graph.inputs.iter().map(|&x| self.shape(x)).collect();
        let inputs: Vec<Vec<f64>> = (shapes.iter())
            .map(|shape| (0..shape.iter().product()).map(|_| self.uniform().into()).collect())
            .collect();
        let expected = crate::reference::run(&self.graph, &inputs);
        let processor =
            |op: &Op| matches!(op, Op::Resample(_) | Op::Recurrent(_) | Op::GridSample(_));
        let on_processors = self.graph.nodes.iter().any(|node| processor(&node.op));
        for isa in [Isa::Portable, Isa::Avx512, Isa::Cuda] {
            if isa == Isa::Cuda && on_processors {
                assert!(
                    lower(&self.graph, isa).is_err_and(|error| error.to_string().contains("GPU"))
                );
                continue;
            }
            let network = lower(&self.graph, isa).unwrap();
            let found = interpret::run(&network, &inputs);
            for ((found, expected), port) in found.iter().zip(&expected).zip(&network.outputs) {
                assert_eq!(found.len(), expected.len());
                let scale = expected.iter().fold(floor, |max: f64, value| max.max(value.abs()));
                for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
                    let error = (found - expected).abs();
                    let context = || format!("{} [{i}]: {found}, not {expected}\n", port.name);
                    assert!(error <= 1e-4 * scale, "{}{}", context(), describe(&network));
                }
            }
            networks.push(network);
        }
        networks.remove(0)
    }
}

/// The layers' operators.
pub(super) fn kinds(network: &Network) -> Vec<OpKind> {
    network.layers.iter().map(|layer| OpKind::from_code(layer.kind).unwrap()).collect()
}

pub(super) fn output_of(network: &Network, layer: usize) -> Tensor {
    network.tensors[network.layers[layer].output as usize]
}

pub(super) fn input_of(network: &Network, layer: usize, index: usize) -> Tensor {
    network.tensors[network.layers[layer].inputs[index] as usize]
}

/// The network in words, for failures.
fn describe(network: &Network) -> String {
    let mut text = String::new();
    for (i, layer) in network.layers.iter().enumerate() {
        let kind = OpKind::from_code(layer.kind).unwrap();
        text += &format!("{i} {} {kind:?} {:?} -> ", network.names[i], layer.activation.function());
        text += &format!("{:?}\n", network.tensors[layer.output as usize]);
        for &input in layer.inputs.iter().filter(|&&input| input != eyelet::pack::NONE) {
            text += &format!("      {:?}\n", network.tensors[input as usize]);
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_networks_compute_what_their_graphs_say(
        shape in (1usize..3, 1usize..7, 1usize..6, 1usize..6),
        seed: u64,
        draws in proptest::collection::vec(any::<Draw>(), 1..24),
        outputs in 1usize..4,
    ) {
        grown(&[shape.0, shape.1, shape.2, shape.3], seed, draws, outputs).check_all();
    }
}
