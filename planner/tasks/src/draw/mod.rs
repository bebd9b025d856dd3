//! Pictures of a schedule: a Gantt chart, and memory over time.

mod charts;
mod page;

pub use charts::{gantt, memory};
pub use page::page;
