//! Events inside an inference, for drawings and measurements.

/// An event of an inference. Loads and steps are counted from 0 in their inference. The host's
/// turn, between two inferences, has no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Load `.0` of the plan begins. Others before it may be in flight. A load that is in flight
    /// when another fails, or when the budget changes, does not end. It begins again.
    LoadBegins(u32),
    /// Load `.0` is there, and verified. Loads end in the order in which they began.
    LoadEnds(u32),
    /// Step `.0` of the plan is next, and may have to wait for its loads.
    StepWaits(u32),
    /// The loads of step `.0` are there, and it begins.
    StepBegins(u32),
    /// Step `.0` is computed.
    StepEnds(u32),
}

/// Watches an instance at work: see [`Instance::observe`](super::Instance::observe).
///
/// Events of loads come from the thread that loads, events of steps from the thread that computes,
/// each in order. Both threads wait for the call to return: it should read a clock, and do little
/// else.
///
/// With a GPU a step begins and ends when it is issued. With a staging ring a load is the read into
/// it.
pub trait Observer: Sync + core::fmt::Debug {
    /// Called when an event happens, by the thread that it happens on.
    fn event(&self, event: Event);
}
