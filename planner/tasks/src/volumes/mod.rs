//! Swap volumes: how many bytes of each network leave memory between two jobs.
//!
//! [`published`] solves RT-Swap's Eq. 1 exactly. [`search`] chooses volumes, residents and levels together for the
//! demand bound test, [`plans`] the plan of each network with them. All fill chunks like water into vessels
//! ([`water`]).

pub mod plans;
pub mod published;
pub mod search;
pub mod water;
