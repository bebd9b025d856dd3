//! SwapNet's applications (TMC '24), cut by [`eyelet_tasks::swapnet`], and its tables.
//!
//! ```text
//! scenario ─ budgets (Eq. 1, floors) ─▶ budget of a network ─ blocks ─▶ partition ─ timeline ─▶ latency
//! ```
//!
//! [`budgets`] divides memory among networks, [`table`] has the partitions for all budgets at once. [`scenarios`] holds
//! the publication's three applications, and [`report`] the tables of ours beside the published figures.

pub mod budgets;
mod cells;
mod figures;
pub mod methods;
pub mod models;
pub mod report;
pub mod scenarios;
pub mod smallest;
pub mod table;
#[cfg(test)]
mod tests;
pub mod timeline;
