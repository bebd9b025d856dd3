//! Mappings that a test has the system refuse.

use super::ArenaError;
use core::cell::Cell;

/// A call of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Puts memory at addresses.
    Map,
    /// Takes it away.
    Unmap,
}

/// The error number of a call that is refused.
pub(crate) const REFUSED: i32 = libc::ENOMEM;

/// Which of the calls to come fail.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Cell<Option<(Call, u32, u32)>>);

impl Refusals {
    /// Lets `before` calls of this kind pass, and refuses the next `count`.
    pub fn refuse(&self, call: Call, before: u32, count: u32) {
        self.0.set(Some((call, before, count)).filter(|_| count > 0));
    }

    /// Refuses none.
    pub fn clear(&self) {
        self.0.set(None);
    }

    /// Which kind of call is still to be refused, after how many of it.
    pub fn next(&self) -> Option<(Call, u32)> {
        self.0.get().map(|(call, before, _)| (call, before))
    }

    /// Asked before each call.
    pub fn ask(&self, call: Call, bytes: usize) -> Result<(), ArenaError> {
        let Some((_, before, count)) = self.0.get().filter(|next| next.0 == call) else {
            return Ok(());
        };
        match before.checked_sub(1) {
            Some(before) => {
                self.0.set(Some((call, before, count)));
                Ok(())
            }
            None => {
                self.refuse(call, 0, count - 1);
                Err(ArenaError::Map { errno: REFUSED, bytes })
            }
        }
    }
}
