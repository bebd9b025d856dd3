//! Networks as eyelet plans them: imported from ONNX or Darknet, fused into layers, packed into slices, written as packs.
//!
//! ```text
//! model.onnx ─ import ─▶ graph ─ passes ─▶ network ─ (a plan) ─ tables, write ─▶ pack
//! ```

pub mod algorithm;
pub mod chunks;
pub mod darknet;
pub mod graph;
pub mod import;
pub mod layout;
pub mod leftovers;
pub mod limits;
pub mod network;
pub mod npy;
pub mod open;
pub mod ops;
pub mod passes;
pub mod plan;
pub mod reference;
pub mod replace;
pub mod rounding;
pub mod size;
pub mod tables;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod weights;
pub mod write;
pub mod zoo;
