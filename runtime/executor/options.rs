//! How a pack is opened.

/// How a pack is opened.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Compare every load with its checksum before it is used.
    pub verify: bool,
    /// The most compute threads that will be used. The plan's scratch must serve them.
    pub threads: u32,
    /// Bytes of the arena that the plan may use, until the [budget is
    /// changed](super::Model::set_budget).
    pub budget: u64,
    /// Which of the pack's shapes is computed, until the [shape is
    /// changed](super::Model::set_shape). A pack of one shape has number 0.
    pub shape: u32,
    /// The most reads in flight at once, as far as the [storage](crate::storage::Storage::queue)
    /// takes them. With 1 a read begins when the one before it has arrived, and without a loader's
    /// thread none goes on while a step computes.
    pub depth: u32,
    /// The most multiply-adds and elements of one step, counted together. A pack with a step that
    /// does more is refused. This bounds how long a pack can keep
    /// [`Model::step`](super::Model::step) from returning. Steps of usual networks stay below a
    /// hundredth of the [default](STEP_WORK).
    pub step_work: u64,
}

/// The default of [`Options::step_work`]: about two minutes of a small core, ten seconds of a large
/// one.
pub const STEP_WORK: u64 = 1 << 40;

impl Default for Options {
    fn default() -> Self {
        Self {
            verify: true,
            threads: 1,
            budget: u64::MAX,
            shape: 0,
            depth: u32::MAX,
            step_work: STEP_WORK,
        }
    }
}
