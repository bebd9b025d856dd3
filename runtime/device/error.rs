//! What a device that computes by itself has to complain of.

/// A call of a device's driver has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The driver's function.
    pub call: &'static str,
    /// What it returned.
    pub code: i32,
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the GPU's driver: {} returned error {}", self.call, self.code)
    }
}

impl core::error::Error for DeviceError {}
