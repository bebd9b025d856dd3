//! From a design to a plan: addresses for activations, weights, scratch and staging, and the times
//! at which loads may start.

pub mod activations;
pub mod builder;
pub mod compact;
pub mod design;
pub mod fast_memory;
pub mod precomputed;
pub mod queue;
pub mod refusal;
mod releases;
mod skyline;
pub mod sliced_network;
pub mod staging;
