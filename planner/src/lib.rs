//! The host side of eyelet: from a model to a pack.
//!
//! ```text
//! model.onnx ─ import ─▶ graph ─ passes ─▶ network ─ strategy(budget, profile) ─▶ plan ─ write ─▶ pack
//! ```

pub mod algorithm;
pub mod board;
pub mod bound;
pub mod check;
pub mod chunks;
pub mod cores;
pub mod graph;
pub mod import;
pub mod layout;
pub mod leftovers;
pub mod memory;
pub mod network;
pub mod npy;
pub mod open;
pub mod paced;
pub mod passes;
pub mod plan;
pub mod profile;
pub mod reference;
pub mod replace;
pub mod request;
pub mod rounding;
pub mod simulate;
pub mod size;
pub mod slice;
pub mod slide;
#[cfg(target_os = "linux")]
pub mod source;
pub mod steps;
pub mod strategy;
pub mod tables;
pub mod weights;
pub mod write;
pub mod zoo;
