//! SwapNet (TMC '24): networks in blocks of which two are in memory.
//!
//! ```text
//! layers ─ delays (α β γ η) ─▶ chain ─ blocks (n, Eq. 3, Eq. 4) ─▶ partition
//!                                        ▲ budget
//! ```

pub mod blocks;
pub mod chain;
pub mod delays;
pub mod dynamic;
#[cfg(test)]
mod tests;
