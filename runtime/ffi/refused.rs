//! Why a pack, or a set of packs, is not opened.

use super::error::{Error, Kind as _, argument};
use super::source::SourceError;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::device::threads::ThreadError;
use crate::executor::OpenError;

/// Why there is no model.
pub(super) enum Refused {
    Argument(&'static str),
    Source(SourceError),
    Open(OpenError),
    #[cfg(all(feature = "linux", target_os = "linux"))]
    Threads(ThreadError),
}

impl From<OpenError> for Refused {
    fn from(error: OpenError) -> Self {
        Self::Open(error)
    }
}

impl Refused {
    /// Tells the caller. The number to return.
    ///
    /// # Safety
    /// `error` is null, or valid for writes.
    pub unsafe fn tell(self, error: *mut Error) -> i32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Argument(why) => argument(why).tell(error),
                Self::Source(why) => why.tell(error),
                Self::Open(why) => why.failure().tell(error),
                #[cfg(all(feature = "linux", target_os = "linux"))]
                Self::Threads(why) => why.failure().tell(error),
            }
        }
    }

    /// Tells the caller, and which task of a set it is about.
    ///
    /// # Safety
    /// `error` is null, or valid for writes.
    pub unsafe fn tell_of(self, task: usize, error: *mut Error) -> i32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Argument(why) => argument(why).of_task(task).tell(error),
                Self::Source(SourceError::Argument(why)) => argument(why).of_task(task).tell(error),
                Self::Source(SourceError::Storage(why)) => why.failure().of_task(task).tell(error),
                Self::Open(why) => why.failure().of_task(task).tell(error),
                #[cfg(all(feature = "linux", target_os = "linux"))]
                Self::Threads(why) => why.failure().of_task(task).tell(error),
            }
        }
    }
}
