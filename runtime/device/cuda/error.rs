//! Errors before a GPU runs anything.

use super::capability::{Arch, Version};
use super::image::images;
use crate::device::DeviceError;
use crate::sys::discard::discard;
use core::fmt;

/// Drops the result of a call that gives something back to the driver, or waits before it is given back.
pub(super) fn given_up(result: Result<(), DeviceError>) {
    discard(
        result,
        "an error of the driver that stays comes again from its next call, and the process's end frees what is left",
    );
}

/// A GPU cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum OpenError {
    /// There is no libcuda.
    NoLibrary,
    /// The driver is older than what its functions came with.
    OldDriver { found: Version, needed: Version },
    /// The driver lacks a function.
    Symbol { name: &'static str, version: Version },
    /// The driver is there, a GPU is not.
    NoDevice { version: Version },
    /// There are fewer GPUs.
    Ordinal { wanted: u32, count: u32 },
    /// The driver refuses.
    Call(DeviceError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary => f.write_str(
                "no GPU: the driver's library (libcuda.so.1) is not found; install NVIDIA's driver, or run on the CPU",
            ),
            Self::OldDriver { found, needed } => write!(
                f,
                "the GPU's driver is for CUDA {found}, and {needed} is needed: update the driver"
            ),
            Self::Symbol { name, version } => write!(
                f,
                "the GPU's driver (CUDA {version}) has no function {name}: update the driver"
            ),
            Self::NoDevice { version } => {
                write!(f, "no GPU: the driver (CUDA {version}) finds none; run on the CPU")
            }
            Self::Ordinal { wanted, count } => write!(
                f,
                "there is no GPU number {wanted}: the driver has {count}, counted from 0"
            ),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}

/// Memory cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is not as much left.
    Exhausted { wanted: usize, free: usize, total: usize },
    /// The driver refuses.
    Call(DeviceError),
}

impl fmt::Display for MemoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exhausted { wanted, free, total } => write!(
                f,
                "the GPU has no {wanted} bytes: {free} of its {total} are free; lower the budget, or end what uses them"
            ),
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MemoryError {}

/// The kernels cannot be loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum ModuleError {
    /// Nothing that was built suits the GPU; `refused` is the driver's word on the last that might
    /// have.
    NoImage { device: Arch, version: Version, refused: Option<DeviceError> },
    /// The image lacks a kernel.
    NoFunction { name: &'static str, error: DeviceError },
    /// The driver refuses.
    Call(DeviceError),
}

impl fmt::Display for ModuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoImage { device, version, refused } => {
                write!(f, "no kernels for this GPU of compute capability {device}")?;
                if let Some(board) = device.board() {
                    write!(f, " ({board})")?;
                }
                write!(f, " with a driver for CUDA {version}: built in ")?;
                match images() {
                    [] => f.write_str("are none (the build found neither nvcc nor NVRTC)")?,
                    images => {
                        f.write_str("are")?;
                        for (i, image) in images.iter().enumerate() {
                            write!(f, "{}{image}", if i == 0 { " " } else { ", " })?;
                        }
                    }
                }
                if let Some(error) = refused {
                    write!(f, "; {error}")?;
                }
                write!(f, "; build eyelet with EYELET_CUDA_ARCHS={}", device.number())
            }
            Self::NoFunction { name, error } => {
                write!(f, "the kernels that were built lack {name}: {error}")
            }
            Self::Call(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for ModuleError {}
