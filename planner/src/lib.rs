//! The host side of eyelet: from a model to a pack.
//!
//! ```text
//! model.onnx ─ import ─▶ graph ─ passes ─▶ network ─ strategy(budget, profile) ─▶ plan ─ write ─▶ pack
//! ```

pub mod graph;
pub mod import;
pub mod network;
pub mod passes;
pub mod reference;
pub mod weights;
pub mod zoo;
