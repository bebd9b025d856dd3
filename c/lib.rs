//! The static library for programs in C. All that it exports is in the runtime's `ffi`; here is
//! what only a program that is not Rust's lacks: what happens after a panic.
#![no_std]

pub use runtime::ffi::*;

unsafe extern "C" {
    #[cfg(not(feature = "linux"))]
    fn eyelet_panicked() -> !;
}

/// No input, pack or call leads here that is known: there is nothing to go on with.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[cfg(feature = "linux")]
    // SAFETY: ends the process.
    unsafe {
        libc::abort()
    }
    #[cfg(not(feature = "linux"))]
    // SAFETY: the firmware's own, which the header asks for.
    unsafe {
        eyelet_panicked()
    }
}

/// What unwinding would ask, were there any: parts of `core` that were compiled for programs that
/// unwind name it, on some targets.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
