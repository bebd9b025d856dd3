//! Published evaluations, reproduced with eyelet's tests and partitions of networks.
//!
//! [`rt_swap`] holds RT-Swap's tables and figures, and the study that compares tests of task sets; [`swapnet`] SwapNet's;
//! [`swapadvisor`] is SwapAdvisor's search.

pub mod rt_swap;
pub mod swapadvisor;
pub mod swapnet;
pub mod sweep;
