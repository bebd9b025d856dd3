//! SwapNet (TMC '24): networks in blocks of which two are in memory, and budgets for several
//! networks.
//!
//! ```text
//! layers ─ delays (α β γ η) ─▶ chain ─ blocks (n, Eq. 3, Eq. 4) ─▶ partition ─ timeline ─▶ latency
//!                                        ▲ budget ─ budgets (Eq. 1, floors)
//! ```
//!
//! [`blocks`] cuts one network for one budget, [`table`] for all budgets at once, [`budgets`]
//! divides memory among networks. [`scenarios`] holds the publication's three applications, and
//! [`report`] the tables of ours beside the published figures.

pub mod blocks;
pub mod budgets;
mod cells;
pub mod chain;
pub mod delays;
mod dynamic;
mod figures;
pub mod methods;
pub mod models;
pub mod report;
pub mod scenarios;
pub mod table;
#[cfg(test)]
mod tests;
pub mod timeline;
