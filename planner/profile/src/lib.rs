//! Measures the costs of computing and reading on this machine, for eyelet's planner.
//!
//! ```text
//! eyelet-profile -o board.toml         on the board: one small static program
//! eyelet plan --profile board.toml     anywhere else
//! ```
//!
//! The command `eyelet-profile` is for boards that only measure. The verb `eyelet profile` is the same function,
//! [`Options::measure`]. Code for files, signals and text that both commands share is here, too.

pub mod boards;
mod error;
pub mod files;
pub mod measure;
mod options;
mod output;
pub mod printable;
mod progress;
mod report;
pub mod signals;

pub use error::Error;
pub use options::Options;
pub use output::{fault, print, print_object};
pub use report::Report;
