//! The smallest budgets for numbers of blocks, and for the published number.

use eyelet_tasks::swapnet::blocks::{Budget, IN_MEMORY, count, smallest_budget};
use eyelet_tasks::swapnet::chain::Chain;
use eyelet_tasks::swapnet::dynamic;

/// The smallest budget for which there is a partition into so many blocks.
pub fn smallest_budget_of(chain: &Chain, blocks: usize, reserved: f64) -> Option<u64> {
    // The value that is searched for is a sum of neighbours: one less does not do.
    let (mut low, mut high) = (chain.floor().2, chain.bytes());
    dynamic::fits(chain, blocks, high).then_some(())?;
    while low < high {
        let middle = low + (high - low) / 2;
        match dynamic::fits(chain, blocks, middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Some(Budget::least_for(low, reserved))
}

/// The smallest budget for which there is a partition into `⌈m·s/b⌉` blocks and no more, as
/// published.
pub fn smallest_as_published(chain: &Chain, reserved: f64) -> u64 {
    let all = u128::from(IN_MEMORY) * u128::from(chain.bytes());
    let floor = smallest_budget(chain, reserved);
    let mut smallest = None;
    for blocks in 1..=chain.len() {
        let Some(needed) = smallest_budget_of(chain, blocks, reserved) else { continue };
        // From this budget on the formula gives no more blocks. It never gives more than there are
        // layers.
        let formula = match blocks < chain.len() {
            true => u64::try_from(all.div_ceil(blocks as u128)).unwrap_or(u64::MAX),
            false => 0,
        };
        let budget = needed.max(formula);
        if count(chain, budget) == blocks && smallest.is_none_or(|held| budget < held) {
            smallest = Some(budget);
        }
        // More blocks need no less.
        if needed <= floor && formula <= floor {
            break;
        }
    }
    smallest.unwrap_or(floor)
}
