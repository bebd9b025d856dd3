//! The host side of eyelet: from a model to a pack.
//!
//! ```text
//! model.onnx ─ import ─▶ graph ─ passes ─▶ network ─ strategy(budget, profile) ─▶ plan ─ write ─▶ pack
//! ```
//!
//! This crate gathers four: `eyelet-model` (networks and packs), `eyelet-plan` (costs, the search, bounds),
//! `eyelet-published` (strategies of published systems), and `eyelet-check`, which proves plans and does not depend on
//! what makes them. The `eyelet` command is built on it.

pub use eyelet_check as check;
pub use eyelet_model::{
    algorithm, chunks, darknet, graph, import, layout, leftovers, limits, network, npy, open, ops,
    passes, plan, reference, replace, rounding, size, tables, weights, write, zoo,
};
pub use eyelet_plan::{
    board, bound, cores, memory, order, profile, range, request, search, simulate, slice, slide,
    source, steps,
};
pub use eyelet_published as published;
