//! What a simulation records for pictures.

/// Something that lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub task: usize,
    pub start_ns: u64,
    pub end_ns: u64,
    pub what: What,
}

/// What lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Step,
    /// A chunk came; another task's chunk may have left for it.
    Load {
        evicted: Option<usize>,
    },
    /// From a job's release to its deadline.
    Window,
    /// A job ended after its deadline.
    Missed,
}
