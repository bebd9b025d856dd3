//! Swap volumes: how many bytes of each network leave memory between two jobs.
//!
//! [`published`] solves RT-Swap's Eq. 1 exactly. [`search`] chooses volumes, residents and levels together for the
//! demand bound test. Both fill chunks like water into vessels ([`water`]).

pub mod published;
pub mod search;
pub mod water;
