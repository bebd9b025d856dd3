//! Semihosting: what an image asks of a debugger or an emulator.

use core::ffi::CStr;

/// The word that says "the program has ended by itself".
const APPLICATION_EXIT: usize = 0x20026;

/// Makes a request.
///
/// # Safety
/// The block is what the request of this number takes.
unsafe fn request(number: usize, block: *mut usize) -> usize {
    let mut answer = number;
    // SAFETY: the host reads and writes the block, and what it points to, by the caller's promise.
    unsafe {
        #[cfg(target_arch = "aarch64")]
        core::arch::asm!("hlt #0xf000", inlateout("x0") answer, in("x1") block, options(nostack));
        #[cfg(all(target_arch = "arm", cortex_m))]
        core::arch::asm!("bkpt #0xab", inlateout("r0") answer, in("r1") block, options(nostack));
        #[cfg(all(target_arch = "arm", not(cortex_m)))]
        core::arch::asm!(
            "svc #0x123456",
            inlateout("r0") answer,
            in("r1") block,
            // A supervisor call saves the return address there.
            lateout("lr") _,
            options(nostack)
        );
    }
    answer
}

/// Ends the program with a status.
pub fn exit(status: u8) -> ! {
    // On 32 bits the request with a status is another one.
    let number = if cfg!(target_pointer_width = "64") { 0x18 } else { 0x20 };
    let mut block = [APPLICATION_EXIT, status.into()];
    // SAFETY: the request takes a reason and a status.
    unsafe { request(number, block.as_mut_ptr()) };
    // Nobody listens.
    loop {
        core::hint::spin_loop();
    }
}

/// The words that the image was started with, apart by spaces; none where they do not fit.
pub fn command_line(room: &mut [u8]) -> &str {
    let mut block = [room.as_mut_ptr() as usize, room.len()];
    // SAFETY: the request takes the address of a buffer and its length, and writes no more than
    // that.
    let answer = unsafe { request(0x15, block.as_mut_ptr()) };
    let text = if answer == 0 { CStr::from_bytes_until_nul(room).ok() } else { None };
    text.and_then(|text| text.to_str().ok()).unwrap_or("")
}
