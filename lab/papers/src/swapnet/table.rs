//! The lookup table (Table 3 of the publication): the partitions of a network for all budgets at
//! once.
//!
//! The published table has a row for each partition. Looking a budget up prunes the rows that need
//! more memory and takes the best of the rest. A row that needs more memory than a better one is
//! never taken. So only the others are kept here, by memory: looking up is a binary search.

use eyelet_tasks::swapnet::blocks::{
    self, Budget, Partition, PartitionError, count, each, partitions,
};
use eyelet_tasks::swapnet::chain::{Carry, Chain, Objective};

/// More rows than this are not listed.
pub const MOST_ROWS: u64 = 2_000_000;

/// Partitions of a network into one number of blocks.
#[derive(Clone, Debug)]
pub struct Table {
    /// Number of blocks.
    pub blocks: usize,
    /// Rows of the published table: all partitions.
    pub rows: u64,
    objective: Objective,
    /// Rows that are the best for some budget: of more memory and a better key each.
    front: Vec<Partition>,
}

/// Why there is no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{network}` has {rows} partitions into {blocks} blocks, and a table lists at most {most}; look \
     partitions up one budget at a time"
)]
pub struct TooManyRows {
    pub network: String,
    pub blocks: usize,
    pub rows: u64,
    pub most: u64,
}

impl Table {
    /// Lists all partitions into so many blocks.
    pub fn new(chain: &Chain, blocks: usize, objective: Objective) -> Result<Self, TooManyRows> {
        let rows = partitions(chain.len(), blocks);
        if rows > MOST_ROWS {
            let network = chain.network.clone();
            return Err(TooManyRows { network, blocks, rows, most: MOST_ROWS });
        }
        let mut table = Self { blocks, rows, objective, front: Vec::new() };
        each(chain, blocks, u64::MAX, &mut |cuts| {
            let value = chain.value(cuts, Carry::Wait);
            let key = objective.key(&value);
            let at = table.front.partition_point(|row| row.value.most_bytes <= value.most_bytes);
            let held = at.checked_sub(1).map(|at| &table.front[at].value);
            if held.is_some_and(|held| objective.key(held) <= key) {
                return;
            }
            // Rows that need as much memory or more, and are no better.
            let from = table.front.partition_point(|row| row.value.most_bytes < value.most_bytes);
            let worse = |row: &&Partition| objective.key(&row.value) >= key;
            let to = from + table.front[from..].iter().take_while(worse).count();
            table.front.splice(from..to, [Partition { cuts: cuts.to_vec(), value }]);
        });
        Ok(table)
    }

    /// The best partition of which neighbours have at most so many bytes.
    pub fn pick(&self, most_bytes: u64) -> Option<&Partition> {
        let fits = self.front.partition_point(|row| row.value.most_bytes <= most_bytes);
        fits.checked_sub(1).map(|at| &self.front[at])
    }

    /// Rows that are kept.
    pub fn front(&self) -> &[Partition] {
        &self.front
    }

    /// What the published table would take: of each row the cuts, the memory and the latency.
    pub fn published_bytes(&self) -> u64 {
        self.rows.saturating_mul(self.row_bytes())
    }

    /// What the rows that are kept take, stored alike.
    pub fn bytes(&self) -> u64 {
        self.front.len() as u64 * self.row_bytes()
    }

    /// Two bytes a cut, four each for memory (KiB) and latency (µs).
    fn row_bytes(&self) -> u64 {
        2 * (self.blocks as u64 - 1) + 8
    }

    pub fn objective(&self) -> Objective {
        self.objective
    }
}

/// Tables for several numbers of blocks, from which a network is cut anew when its budget changes.
#[derive(Clone, Debug)]
pub struct Tables<'a> {
    chain: &'a Chain,
    reserved: f64,
    objective: Objective,
    tables: Vec<Table>,
}

impl<'a> Tables<'a> {
    /// Tables for budgets from `least` on, as far as they can be listed.
    pub fn new(
        chain: &'a Chain,
        least: Budget,
        objective: Objective,
    ) -> Result<Self, PartitionError> {
        blocks::check(chain, least)?;
        let needed = blocks::partition(chain, least, objective)?.blocks();
        let tables = (1..=needed).map_while(|blocks| Table::new(chain, blocks, objective).ok());
        Ok(Self { chain, reserved: least.reserved, objective, tables: tables.collect() })
    }

    /// The partition for a budget: looked up, or computed where no table has one.
    pub fn pick(&self, budget: u64) -> Result<Partition, PartitionError> {
        let budget = Budget { bytes: budget, reserved: self.reserved };
        blocks::check(self.chain, budget)?;
        let first = count(self.chain, budget.bytes);
        let tables = self.tables.iter().filter(|table| table.blocks >= first);
        let found = tables.filter_map(|table| table.pick(budget.most_bytes())).next();
        match found {
            Some(partition) => Ok(partition.clone()),
            None => blocks::partition(self.chain, budget, self.objective),
        }
    }

    pub fn tables(&self) -> &[Table] {
        &self.tables
    }
}
