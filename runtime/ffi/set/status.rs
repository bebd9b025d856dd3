//! Failures of sets as C sees them.

use super::super::error::{Kind, Status};
use crate::executor::ChunkError;
use crate::set::{ChangeError, JobError, ReleaseError, TaskSetError};
use crate::tasks::SetError;
#[cfg(all(feature = "linux", target_os = "linux"))]
use crate::{executor::ChunkedError, set::SetFileError};

impl Kind for SetError {
    fn status(&self) -> Status {
        match self {
            Self::Changed { .. } => Status::State,
            _ => Status::Argument,
        }
    }
}

impl Kind for TaskSetError {
    fn status(&self) -> Status {
        match self {
            Self::Set(error) => error.status(),
            Self::Accelerator { .. } => Status::Processor,
            Self::Chunks { .. }
            | Self::Room { .. }
            | Self::Streams { .. }
            | Self::Pool { .. }
            | Self::OneEngine { .. } => Status::Argument,
        }
    }
}

impl Kind for ReleaseError {
    fn status(&self) -> Status {
        match self {
            Self::Unknown => Status::Argument,
            Self::Unfinished => Status::Unfinished,
            Self::Early { .. } => Status::Early,
            Self::Stopped => Status::State,
        }
    }
}

impl Kind for ChangeError {
    fn status(&self) -> Status {
        match self {
            Self::Set(error) => error.status(),
            Self::Budget { error, .. } | Self::Lost { error, .. } => error.status(),
            Self::Leave { error, .. } => error.status(),
            Self::Budgets { .. }
            | Self::Chunks { .. }
            | Self::Volume { .. }
            | Self::Room { .. }
            | Self::Streams { .. } => Status::Argument,
        }
    }
}

impl Kind for JobError {
    fn status(&self) -> Status {
        match self {
            Self::Chunk { error, .. } => error.status(),
            Self::Infer(error) => error.status(),
            Self::Stopped => Status::State,
        }
    }
}

impl Kind for ChunkError {
    fn status(&self) -> Status {
        match self {
            Self::Storage(error) => error.status(),
            Self::Checksum { .. } => Status::Pack,
            Self::Arena(error) => error.status(),
        }
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl Kind for ChunkedError {
    fn status(&self) -> Status {
        match self {
            Self::Open(error) => error.status(),
            Self::Arena(error) => error.status(),
            Self::Budget(error) => error.status(),
            Self::Chunks { .. } | Self::Shares { .. } => Status::Argument,
        }
    }
}

#[cfg(all(feature = "linux", target_os = "linux"))]
impl Kind for SetFileError {
    fn status(&self) -> Status {
        match self {
            Self::Storage(error) => error.status(),
            Self::Memory { .. } => Status::Arena,
            _ => Status::Pack,
        }
    }
}
