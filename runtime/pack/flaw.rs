//! Flaws of packs.

use super::NONE;

/// A flaw of a pack: its kind, its place, and the two numbers that disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// What.
    pub what: &'static str,
    /// Index of the record, or [`NONE`].
    pub index: u32,
    /// Found.
    pub found: u64,
    /// The limit it disagrees with.
    pub limit: u64,
}

impl core::fmt::Display for Flaw {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.what)?;
        if self.index != NONE {
            write!(f, " (record {})", self.index)?;
        }
        write!(f, ": found {}, against {}", self.found, self.limit)
    }
}

/// A flaw of the whole pack, and of no record.
pub(crate) fn flaw(what: &'static str, found: u64, limit: u64) -> Flaw {
    Flaw { what, index: NONE, found, limit }
}
