//! Random networks: partitions against what they must be.

use super::blocks::{
    Budget, PartitionError, count, enumerate, partition, partitions, smallest_budget,
};
use super::chain::{Block, Carry, Chain, Objective};
use super::delays::Times;
use super::dynamic;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

fn block(bytes: u64, [in_ns, ex_ns, out_ns]: [i64; 3]) -> Block {
    Block { bytes, times: Times { in_ns, ex_ns, out_ns } }
}

fn chain_of(blocks: &[Block]) -> Chain {
    let layers = blocks.iter().enumerate();
    Chain::new("random", layers.map(|(layer, block)| (format!("layer{layer}"), *block)))
}

/// Layers, some of them much larger or slower than others.
fn chains(most: usize) -> impl Strategy<Value = Chain> {
    let time = || prop_oneof![Just(0i64), 0i64..20, 0i64..300];
    let layer = (prop_oneof![Just(0u64), 1u64..20, 1u64..300], [time(), time(), time()]);
    let layers =
        prop::collection::vec(layer.prop_map(|(bytes, times)| block(bytes, times)), 1..most);
    layers.prop_map(|layers| chain_of(&layers))
}

const OBJECTIVES: [Objective; 2] = [Objective::Residuals, Objective::Latency];

proptest! {
    #![proptest_config(config())]

    /// Both searches find the same value, or both find nothing; and cuts have the value that is
    /// said.
    #[test]
    fn dynamic_programming_is_enumeration(
        chain in chains(13), blocks in 1usize..8, share in 0.1..1.2f64,
    ) {
        let most = (chain.bytes() as f64 * share) as u64;
        for objective in OBJECTIVES {
            let listed = enumerate(&chain, blocks, most, Carry::Wait, objective);
            let found = dynamic::best(&chain, blocks, most, objective);
            prop_assert_eq!(listed.is_some(), dynamic::fits(&chain, blocks, most));
            prop_assert_eq!(listed.is_some(), found.is_some());
            let (Some(listed), Some(found)) = (listed, found) else { continue };
            prop_assert_eq!(objective.key(&listed.value), objective.key(&found.value));
            for partition in [listed, found] {
                prop_assert_eq!(partition.blocks(), blocks);
                prop_assert_eq!(chain.value(&partition.cuts, Carry::Wait), partition.value);
                prop_assert!(partition.value.most_bytes <= most);
            }
        }
    }

    /// Neighbours take less than the budget leaves, and no smaller number of blocks would do.
    #[test]
    fn partitions_are_within_the_budget(
        chain in chains(20), bytes in 0u64..3000, reserved in 0.0..0.5f64,
    ) {
        let budget = Budget { bytes, reserved };
        let smallest = smallest_budget(&chain, reserved).max(1);
        match partition(&chain, budget, Objective::Residuals) {
            Ok(found) => {
                prop_assert!(bytes >= smallest);
                let blocks = chain.blocks(&found.cuts);
                let limit = bytes as f64 * (1.0 - reserved);
                for pair in blocks.windows(2) {
                    prop_assert!(((pair[0].bytes + pair[1].bytes) as f64) < limit);
                }
                prop_assert!((blocks[0].bytes as f64) < limit);
                prop_assert_eq!(blocks.iter().map(|block| block.bytes).sum::<u64>(), chain.bytes());
                let formula = count(&chain, bytes);
                prop_assert!(found.blocks() >= formula);
                for fewer in formula..found.blocks() {
                    prop_assert!(!dynamic::fits(&chain, fewer, budget.most_bytes()));
                }
            }
            Err(PartitionError::TooSmall { smallest: named, .. }) => {
                prop_assert!(bytes < smallest);
                prop_assert_eq!(named, smallest);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}

#[test]
fn bad_networks_and_budgets_are_named() {
    let two = chain_of(&[block(60, [1; 3]), block(50, [1; 3])]);
    let error = |chain: &Chain, bytes, reserved| {
        partition(chain, Budget { bytes, reserved }, Objective::Residuals).unwrap_err().to_string()
    };
    let text = error(&two, 100, 0.0);
    assert!(text.contains("neighbours `layer0` and `layer1` take 110 bytes"), "{text}");
    assert!(text.contains("at least 111 bytes"), "{text}");
    assert!(error(&two, 0, 0.0).contains("a budget of 0 bytes is too small"));
    assert!(error(&two, 200, 1.0).contains("reserved is 1; it must be from 0 to below 1"));
    assert!(error(&two, 200, f64::NAN).contains("reserved is NaN"));
    assert!(error(&chain_of(&[]), 100, 0.0).contains("has no layers"));
    // One layer is one block, even where the formula asks for two.
    let one = chain_of(&[block(60, [1; 3])]);
    assert!(error(&one, 60, 0.0).contains("all weights of its only layer `layer0`"));
    let found = partition(&one, Budget { bytes: 61, reserved: 0.0 }, Objective::Residuals).unwrap();
    assert_eq!(found.blocks(), 1);
    // Of nothing, nothing is too large.
    let empty = chain_of(&[block(0, [1; 3])]);
    assert!(error(&empty, 0, 0.0).contains("a budget of 0 bytes"));
    let found = partition(&empty, Budget { bytes: 1, reserved: 0.0 }, Objective::Residuals);
    assert_eq!(found.unwrap().blocks(), 1);
}

#[test]
fn partitions_are_counted() {
    assert_eq!([1, 2, 3, 4, 5].map(|blocks| partitions(4, blocks)), [1, 3, 3, 1, 0]);
    assert_eq!((partitions(0, 1), partitions(5, 0)), (0, 0));
    assert_eq!(partitions(105, 3), 5356);
    assert_eq!(partitions(1000, 500), u64::MAX);
}
