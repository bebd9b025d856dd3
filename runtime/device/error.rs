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
        write!(f, "the GPU's driver: {} returned error {}", self.call, self.code)?;
        match meaning(self.code) {
            Some(meaning) => write!(f, ": {meaning}"),
            None => Ok(()),
        }
    }
}

impl core::error::Error for DeviceError {}

/// What the codes say that are to be expected (CUDA's, of which `cuda.h` has all).
fn meaning(code: i32) -> Option<&'static str> {
    Some(match code {
        1 => "a value it does not take",
        2 => "no memory left",
        3 => "not initialised",
        100 => "no GPU",
        201 => "the thread has no context, or one that is gone",
        200 | 209 | 218 => "kernels that are not for this GPU",
        222 => "kernels that are newer than the driver",
        400 => "something that is gone, or of another context",
        500 => "a name that is not there",
        700 => "a kernel has touched memory that is nobody's; the context is lost",
        701 => "a launch wants more registers or shared memory than there are",
        702 => "a kernel has run longer than the system allows; the context is lost",
        719 => "a kernel has failed; the context is lost",
        801 => "the driver or the GPU does not have this",
        802 | 803 => "the driver and the system do not fit each other",
        _ => return None,
    })
}
