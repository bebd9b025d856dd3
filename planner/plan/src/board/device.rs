//! The device of a board that computes, and its memory.

use crate::profile::Profile;
use eyelet::kernels::Isa;
use serde::{Deserialize, Serialize};

/// The device that computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Device {
    /// The processor.
    Cpu,
    /// NVIDIA's GPU.
    Cuda,
}

impl Device {
    /// The device that runs packs of an instruction set.
    pub fn of(isa: Isa) -> Self {
        if isa == Isa::Cuda { Self::Cuda } else { Self::Cpu }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    /// In a sentence.
    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::Cpu => "processor",
            Self::Cuda => "GPU",
        }
    }
}

/// Which memory a GPU computes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// The processor's, which storage is read into: two stages, read and kernel.
    ZeroCopy,
    /// Its own (of an integrated GPU: what its caches may hold), which is copied to: three stages, read, copy and kernel.
    Staged,
}

impl Memory {
    /// Which memory a profile is for, if it is a GPU's.
    pub fn of(profile: &Profile) -> Option<Self> {
        (profile.isa == Isa::Cuda).then_some(match profile.transfer {
            None => Self::ZeroCopy,
            Some(_) => Self::Staged,
        })
    }

    /// Its name in board files and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ZeroCopy => "zero-copy",
            Self::Staged => "staged",
        }
    }
}
