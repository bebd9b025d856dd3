//! The compute capability of a GPU, and the version of its driver.

use core::fmt;

/// A compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Arch {
    pub major: u32,
    pub minor: u32,
}

impl Arch {
    /// As compilers write it: 87 of `sm_87`.
    pub const fn number(self) -> u32 {
        self.major * 10 + self.minor
    }

    /// From the number of an architecture: `sm_87` is 8 and 7.
    pub const fn from_number(number: u32) -> Self {
        Self { major: number / 10, minor: number % 10 }
    }

    /// The boards whose integrated GPU has it.
    pub const fn board(self) -> Option<&'static str> {
        match self.number() {
            53 => Some("Jetson Nano, TX1"),
            62 => Some("Jetson TX2"),
            72 => Some("Jetson Xavier"),
            87 => Some("Jetson Orin"),
            _ => None,
        }
    }

    pub(super) const fn is_tegra(self) -> bool {
        self.board().is_some()
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A version of CUDA, as the driver reports it: 12060 is 12.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub i32);

impl Version {
    /// The version of a driver that cannot be asked.
    pub const UNKNOWN: Self = Self(0);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UNKNOWN => f.write_str("unknown"),
            Self(version) => write!(f, "{}.{}", version / 1000, version % 1000 / 10),
        }
    }
}
