//! What an image's linker script says: where flash, statics and the stack are.
//!
//! Every image's `link.ld` gives these symbols.

use crate::paint::depth;

unsafe extern "C" {
    static stack_bottom: u8;
    static stack_top: u8;
    static data_start: u8;
    static bss_end: u8;
    static flash_start: u8;
    static flash_end: u8;
}

/// The flash: what the emulator was told to put there.
pub fn flash() -> &'static [u8] {
    let (start, end) = (&raw const flash_start, &raw const flash_end);
    // SAFETY: memory that nothing else is linked to, and that nobody writes.
    unsafe { core::slice::from_raw_parts(start, end.addr() - start.addr()) }
}

/// The most bytes of stack that were in use so far.
pub fn stack_bytes() -> usize {
    // SAFETY: the startup painted the stack, which is in words. This core alone writes there, and
    // not below what was in use.
    unsafe { depth((&raw const stack_bottom).cast(), (&raw const stack_top).cast()) }
}

/// Bytes of all statics.
pub fn data_bytes() -> usize {
    (&raw const bss_end).addr() - (&raw const data_start).addr()
}
