//! Prints SwapNet's tables, ours beside the published figures, as Markdown; how long lookup tables
//! take goes to the standard error.

use eyelet_papers::swapnet::report;
use eyelet_papers::swapnet::scenarios::{NX, SCENARIOS, SHRINKING, bytes, chain};
use eyelet_papers::swapnet::table::{Table, Tables};
use eyelet_tasks::swapnet::blocks::{Budget, partition};
use eyelet_tasks::swapnet::chain::Objective;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    print!("{}", report::markdown()?);
    for member in SCENARIOS[0].members {
        let chain = chain(member, &NX);
        for blocks in [3, 4] {
            let start = Instant::now();
            let table = Table::new(&chain, blocks, Objective::Residuals)?;
            let (took, rows) = (start.elapsed(), table.rows);
            eprintln!("{}: {rows} partitions into {blocks} blocks in {took:.2?}", member.name);
        }
    }
    let resnet = chain(&SCENARIOS[2].members[1], &NX);
    let least = Budget { bytes: bytes(102.0), reserved: 0.0 };
    let tables = Tables::new(&resnet, least, Objective::Residuals)?;
    for (budget, _, _) in SHRINKING {
        let start = Instant::now();
        let found = tables.pick(bytes(budget))?;
        let took = start.elapsed();
        let start = Instant::now();
        let anew =
            partition(&resnet, Budget { bytes: bytes(budget), ..least }, Objective::Residuals)?;
        let without = start.elapsed();
        assert_eq!(found.value.residual_ns, anew.value.residual_ns);
        eprintln!(
            "ResNet-101 in {budget} MiB: looked up in {took:.2?}, without a table {without:.2?}"
        );
    }
    Ok(())
}
