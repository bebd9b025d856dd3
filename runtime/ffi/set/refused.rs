//! Why there is no set.

use super::super::error::{Error, Failure, Kind as _, Status, argument};
use super::super::refused::Refused;
#[cfg(all(feature = "linux", target_os = "linux"))]
use super::records::TASKS;
use crate::set::TaskSetError;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::{arena::ArenaError, executor::ChunkedError, set::SetFileError};

/// Why there is no set.
pub(super) enum SetRefused {
    Argument(&'static str),
    Task(usize, Refused),
    Room(Room),
    /// Something that all tasks share.
    Shared(Refused),
    Set(TaskSetError),
    #[cfg(all(feature = "linux", target_os = "linux"))]
    File(FileRefused),
}

/// The arena is too small.
pub(super) struct Room {
    pub arena: u64,
    pub needed: u64,
}

impl core::fmt::Display for Room {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { arena, needed } = self;
        write!(
            f,
            "the set needs {needed} bytes of arena, it has {arena}: give it more, or smaller budgets"
        )
    }
}

impl SetRefused {
    /// # Safety
    /// `error` is null, or valid for writes.
    pub unsafe fn tell(self, error: *mut Error) -> i32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Argument(why) => argument(why).tell(error),
                Self::Task(task, why) => why.tell_of(task, error),
                Self::Room(why) => Failure { status: Status::Arena, why }.tell(error),
                Self::Shared(why) => why.tell(error),
                Self::Set(why) => why.failure().tell(error),
                #[cfg(all(feature = "linux", target_os = "linux"))]
                Self::File(why) => why.tell(error),
            }
        }
    }
}

/// Why there is no set of a file.
#[cfg(all(feature = "linux", target_os = "linux"))]
pub(super) enum FileRefused {
    Table(SetFileError),
    /// More tasks than a set in C has.
    Tasks(usize),
    Memory(ArenaError),
    /// Chunks that are left for all networks, and the number that was scheduled.
    Pool(u32, u32),
    Network(usize, ChunkedError),
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl FileRefused {
    /// # Safety
    /// `error` is null, or valid for writes.
    pub unsafe fn tell(self, error: *mut Error) -> i32 {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Self::Table(why) => why.failure().tell(error),
                Self::Tasks(found) => {
                    let why = format_args!(
                        "the file has {found} tasks, a set has at most {TASKS}: run it from Rust, or \
                         schedule two sets"
                    );
                    Failure { status: Status::Argument, why }.tell(error)
                }
                Self::Memory(why) => why.failure().tell(error),
                Self::Pool(found, wanted) => {
                    let why = format_args!(
                        "the set's memory has {found} chunks for its networks, {wanted} were scheduled: \
                         schedule the set again"
                    );
                    Failure { status: Status::Arena, why }.tell(error)
                }
                Self::Network(task, why) => why.failure().of_task(task).tell(error),
            }
        }
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl From<SetFileError> for SetRefused {
    fn from(why: SetFileError) -> Self {
        Self::File(FileRefused::Table(why))
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl From<ArenaError> for SetRefused {
    fn from(why: ArenaError) -> Self {
        Self::File(FileRefused::Memory(why))
    }
}
