//! Published tables and figures of RT-Swap, as data and as experiments, and the study that compares tests.

pub mod base;
pub mod case_study;
pub mod costs;
pub mod fig4;
pub mod fig7;
pub mod study;
pub mod table2;
