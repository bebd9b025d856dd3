//! A good plan in milliseconds, and the smallest budget that has one.

pub mod constructed;
pub mod frugal;
mod layer_cuts;
pub mod sketches;
pub mod ways_to_slide;
