//! SwapAdvisor (Huang et al., ASPLOS 2020): the order of operators, the division of memory and what is swapped,
//! searched together.
//!
//! [`graph`] is the dataflow graph, [`schedule`] and [`pool`] are the two parts of an individual, [`swap`] plans
//! transfers for them, [`simulate`] predicts the time, and [`genetic`] is the search. [`graphs`] has the graphs that
//! are compared, [`report`] the figures.

pub mod genetic;
pub mod graph;
pub mod graphs;
pub mod pool;
pub mod report;
pub mod schedule;
pub mod simulate;
pub mod swap;
#[cfg(test)]
mod tests;
