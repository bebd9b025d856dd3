//! Errors of a device that computes by itself.

/// A call of a device's driver has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceError {
    /// The driver's function.
    pub call: &'static str,
    /// The code that it returned.
    pub code: i32,
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "the GPU's driver: {} returned error {}", self.call, self.code)?;
        match meaning(self.code) {
            Some(meaning) => write!(f, ": {meaning}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for DeviceError {}

/// The meaning of the codes that are to be expected (CUDA's; `cuda.h` has all).
fn meaning(code: i32) -> Option<&'static str> {
    Some(match code {
        1 => "an invalid value",
        2 => "no memory left",
        3 => "not initialised",
        100 => "no GPU",
        201 => "the thread has no context, or one that is gone",
        200 | 209 | 218 => "kernels for another GPU",
        222 => "kernels that are newer than the driver",
        400 => "an invalid handle, or one of another context",
        500 => "a name that does not exist",
        700 => "a kernel touched an invalid address; the context is lost",
        701 => "a launch wants more registers or shared memory than there are",
        702 => "a kernel has run longer than the system allows; the context is lost",
        719 => "a kernel has failed; the context is lost",
        801 => "not supported by the driver or the GPU",
        802 | 803 => "the versions of the driver and the system do not match",
        _ => return None,
    })
}
