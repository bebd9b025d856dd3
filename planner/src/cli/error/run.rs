//! Errors of `eyelet run`.

use eyelet::executor::BudgetError;
use eyelet_planner::{npy, size};
use std::path::PathBuf;

/// Why a pack cannot be run as asked, or did not run as it must.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "{}: no plan fits a budget of {}; it has plans for {}: give one of these, or plan the model \
         for less", path.display(), size::exact(*budget), sizes(plans)
    )]
    Budget { path: PathBuf, budget: u64, plans: Vec<u64> },
    #[error(
        "{}: no shape has {asked}; it has {}: give one of these, or plan the model for another with --dim",
        path.display(), named_shapes(shapes)
    )]
    Shape { path: PathBuf, asked: String, shapes: Vec<String> },
    #[error("{}: changing the budget to {}: {source}", path.display(), size::exact(*budget))]
    Switch { path: PathBuf, budget: u64, source: BudgetError },
    #[error("the network has {} ({}), but {given} --input options are given", inputs(names), names.join(", "))]
    Inputs { names: Vec<String>, given: usize },
    #[error("--input {name}: the network has no such input; its inputs are {}", names.join(", "))]
    NoInput { name: String, names: Vec<String> },
    #[error("--input {name} is given twice")]
    InputTwice { name: String },
    #[error("input `{name}`: {source}")]
    Input { name: String, source: npy::Error },
    #[error("this eyelet was built without CUDA: build it with --features cuda")]
    #[cfg_attr(feature = "cuda", allow(dead_code))]
    NoCuda,
    #[error(
        "{option} is for the processor alone, and a GPU computes: leave it out, or give a pack for the processor and \
         --device cpu"
    )]
    NotOnGpu { option: &'static str },
    #[error(
        "internal: inference {number} gave other outputs ({found}) than the first ({expected}); please \
         report this"
    )]
    Unstable { number: u32, found: String, expected: String },
}

fn named_shapes(shapes: &[String]) -> String {
    match shapes {
        [one] if one.is_empty() => "one shape without a name".to_owned(),
        shapes => shapes.join(" and "),
    }
}

fn sizes(plans: &[u64]) -> String {
    plans.iter().map(|budget| size::human(*budget)).collect::<Vec<_>>().join(", ")
}

fn inputs(names: &[String]) -> String {
    match names.len() {
        1 => "1 input".to_owned(),
        count => format!("{count} inputs"),
    }
}
