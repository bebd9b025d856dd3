//! What goes on inside an inference, for whoever wants to draw it.

/// What an [`Observer`] is told of. Loads and steps are counted from 0 in their inference; the host's turn,
/// between two inferences, has no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Load `.0` of [`PlanView::loads`](crate::pack::PlanView) begins. Others before it may be under way. One that was under way when another
    /// failed, or the budget changed, has no end, and begins again.
    LoadBegins(u32),
    /// It is there, and verified. In the order in which they began.
    LoadEnds(u32),
    /// Step `.0` of [`PlanView::steps`](crate::pack::PlanView) is next, and may have to wait for its loads.
    StepWaits(u32),
    /// Its loads are there.
    StepBegins(u32),
    /// It is computed.
    StepEnds(u32),
}

/// Watches an instance at work: see [`Instance::observe`](super::Instance::observe).
///
/// Events of loads come from the thread that loads, those of steps from the one that computes, each in
/// order. Both go on when the call returns, so it should take the time, by whatever clock, and little else.
///
/// With a GPU a step begins and ends when it is issued, and a load with a staging ring is the read into it.
pub trait Observer: Sync + core::fmt::Debug {
    /// It happens now.
    fn event(&self, event: Event);
}
