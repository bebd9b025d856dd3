//! The aims of groups, and their longest length.

/// Longest group that is tried where activations alone do not need one, or that reads its weights
/// again.
pub(super) const FASTEST: usize = 6;

/// The aim of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// To stay below the target at the least cost.
    Memory,
    /// To stay below the target with outputs over dead lines of inputs. If many buffers live at
    /// once, they do not always get the places for that.
    Sharing,
    /// To stay below the target with single layers, too. Their outputs lie over dead lines of their
    /// own inputs, and weights without room are read again.
    Single,
}
